package pvetest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// poolPrivs are the rights of the token that can touch nothing but its pool.
const (
	poolPrivs    = "VM.Allocate VM.Audit VM.Clone VM.PowerMgmt VM.Snapshot VM.Config.Disk VM.Config.CDROM VM.Config.Network VM.Config.CPU VM.Config.Memory VM.Config.HWType VM.Config.Options Pool.Audit"
	storagePrivs = "Datastore.AllocateSpace Datastore.AllocateTemplate Datastore.Audit Datastore.Allocate"
)

// poolLab is a lab with a token on the pool "bosh", without some privileges.
func poolLab(t *testing.T, without ...string) (root, token *lab) {
	t.Helper()
	root = newLab(t)
	root.addData()
	s := root.s
	s.AddPool("bosh")
	s.AddUser("bosh@pve", "")
	secret := s.AddToken("bosh@pve!cpi", false)
	left := func(all string) []string {
		var keep []string
		for p := range strings.FieldsSeq(all) {
			if !strings.Contains(" "+strings.Join(without, " ")+" ", " "+p+" ") {
				keep = append(keep, p)
			}
		}
		return keep
	}
	s.AddRole("Pool", left(poolPrivs)...)
	s.AddRole("Store", left(storagePrivs)...)
	s.SetACL("/pool/bosh", "bosh@pve", "Pool")
	s.SetACL("/storage/data", "bosh@pve", "Store")
	if !strings.Contains(strings.Join(without, " "), "SDN.Use") {
		s.SetACL("/sdn/zones/localnetwork", "bosh@pve", "PVESDNUser")
	}
	return root, root.as("bosh@pve!cpi", secret)
}

func TestPoolToken(t *testing.T) {
	t.Parallel()
	root, l := poolLab(t)
	root.done("POST", "/nodes/pve1/qemu", "vmid=902&scsi0=data:1")
	require.Equal(t, 200, l.upload("data", "sc.qcow2", qcow2(1<<30), "content", "import").status)
	require.Equal(t, 200, l.upload("data", "c.iso", []byte("iso"), "content", "iso").status)
	l.run([]step{
		{"POST ~", "vmid=910&memory=64&scsi0=data:1", "403 Permission check failed"},
		{"POST ~", "vmid=910&memory=64&pool=nope", "403 Permission check failed (pool 'nope' does not exist)"},
		{"POST ~", "vmid=902&memory=64&pool=bosh", "500 unable to create VM 902 - VM 902 already exists on node 'pve1'"},
		{"POST ~", "vmid=200&pool=bosh&tags=x", "task unable to create VM 200 - 403 Permission check failed (/vms/200, VM.Config.Options)"},
		{"POST ~", "vmid=200&pool=bosh&onboot=1", "task unable to create VM 200 - 403 Permission check failed (/vms/200, VM.Config.Options)"},
		{"POST ~", "vmid=200&pool=bosh&memory=512&virtio0=data:0,import-from=data:import/sc.qcow2", "task OK"},
		{"PUT ~/200/config", "tags=x&onboot=0&description=d&protection=0&name=sc", ""},
		{"PUT ~/200/config", "startup=order=1", "403 Permission check failed (/, Sys.Modify)"},
		{"PUT ~/200/config", "startup=order=1&delete=name", "403 Permission check failed (/, Sys.Modify)"},
		{"POST ~/200/template", "", "task OK"},
		{"POST ~/200/clone", "newid=300&name=vm-300", "403 Permission check failed"},
		{"POST ~/200/clone", "newid=300&name=vm-300&pool=bosh", "task OK"},
		{"PUT ~/300/config", "net0=virtio,bridge=vmbr0,tag=5&memory=1024&ide2=data:iso/c.iso,media=cdrom&virtio1=data:1", ""},
		{"PUT ~/300/resize", "disk=virtio0&size=2G", "task OK"},
		{"POST ~", "vmid=900&pool=bosh&memory=16&virtio0=data:1,serial=disk-0123456789abcde", "task OK"},
		{"PUT ~/900/config", "template=1&protection=1&tags=disk", ""},
		{"PUT ~/300/config", "virtio2=data:900/vm-900-disk-0.raw,serial=disk-0123456789abcde", ""},
		{"POST ~/300/status/start", "", "task OK"},
		{"POST ~/300/status/stop", "", "task OK"},
		{"GET ~/902/config", "", "403 Permission check failed (/vms/902, VM.Audit)"},
		{"GET ~/4711/config", "", "403 Permission check failed (/vms/4711, VM.Audit)"},
		{"DELETE ~/300", "purge=1&destroy-unreferenced-disks=1", "task OK"},
		{"DELETE /nodes/pve1/storage/data/content/data:import%2Fsc.qcow2", "", "task OK"},
	})
	rows := l.list("/nodes/pve1/qemu")
	assert.Len(t, rows, 2, "only the pool's guests are seen")
	assert.Len(t, root.list("/nodes/pve1/qemu"), 3)
	_, ok := l.s.Volume("data:900/vm-900-disk-0.raw")
	assert.True(t, ok)
	ids, _, _ := l.s.Pool("bosh")
	assert.Equal(t, []int{200, 900}, ids)
}

// TestMissingPrivileges takes one privilege away at a time.
func TestMissingPrivileges(t *testing.T) {
	t.Parallel()
	tests := []struct{ without, call, form, want string }{
		{"VM.Allocate", "POST ~", "vmid=300&pool=bosh", "403 Permission check failed"},
		{"VM.Allocate", "DELETE ~/200", "", "403 Permission check failed (/vms/200, VM.Allocate)"},
		{"VM.Allocate", "POST ~/200/template", "", "403 Permission check failed (/vms/200, VM.Allocate)"},
		{"VM.Audit", "GET ~/200/config", "", "403 Permission check failed (/vms/200, VM.Audit)"},
		{"VM.Clone", "POST ~/200/clone", "newid=300&pool=bosh", "403 Permission check failed (/vms/200, VM.Clone)"},
		{"VM.Clone", "POST ~", "vmid=300&pool=bosh&scsi0=data:0,import-from=data:200/vm-200-disk-0.raw", "403 Permission check failed (/vms/200, VM.Clone)"},
		{"VM.PowerMgmt", "POST ~/200/status/start", "", "403 Permission check failed (/vms/200, VM.PowerMgmt)"},
		{"VM.Snapshot", "POST ~/200/snapshot", "snapname=ss", "403 Permission check failed (/vms/200, VM.Snapshot)"},
		{"VM.Config.Disk", "PUT ~/200/config", "scsi1=data:1", "403 Permission check failed (/vms/200, VM.Config.Disk)"},
		{"VM.Config.Disk", "PUT ~/200/config", "delete=scsi0", "403 Permission check failed (/vms/200, VM.Config.Disk)"},
		{"VM.Config.Disk", "PUT ~/200/resize", "disk=scsi0&size=+1G", "403 Permission check failed (/vms/200, VM.Config.Disk)"},
		{"VM.Config.CDROM", "PUT ~/200/config", "ide2=none,media=cdrom", "403 Permission check failed (/vms/200, VM.Config.CDROM)"},
		{"VM.Config.Network", "PUT ~/200/config", "net0=virtio,bridge=vmbr0", "403 Permission check failed (/vms/200, VM.Config.Network)"},
		{"VM.Config.Network", "POST ~", "vmid=300&pool=bosh&net0=virtio,bridge=vmbr0", "403 Permission check failed (/vms/300, VM.Config.Network)"},
		{"VM.Config.CPU", "PUT ~/200/config", "cores=2", "403 Permission check failed (/vms/200, VM.Config.CPU)"},
		{"VM.Config.Memory", "PUT ~/200/config", "memory=64", "403 Permission check failed (/vms/200, VM.Config.Memory)"},
		{"VM.Config.Memory", "POST ~", "vmid=300&pool=bosh&memory=64", "403 Permission check failed (/vms/300, VM.Config.Memory)"},
		{"VM.Config.HWType", "PUT ~/200/config", "kvm=0", "403 Permission check failed (/vms/200, VM.Config.HWType)"},
		{"VM.Config.HWType", "PUT ~/200/config", "serial0=socket", "403 Permission check failed (/vms/200, VM.Config.HWType)"},
		{"VM.Config.Options", "PUT ~/200/config", "onboot=1", "403 Permission check failed (/vms/200, VM.Config.Options)"},
		{"VM.Config.Options", "PUT ~/200/config", "tags=a", "403 Permission check failed (/vms/200, VM.Config.Options)"},
		{"VM.Config.Options", "PUT ~/200/config", "protection=0", "403 Permission check failed (/vms/200, VM.Config.Options)"},
		{"SDN.Use", "PUT ~/200/config", "net0=virtio,bridge=vmbr0", "403 Permission check failed (/sdn/zones/localnetwork/vmbr0, SDN.Use)"},
		{"SDN.Use", "PUT ~/200/config", "net0=virtio,bridge=vmbr0,tag=51", "403 Permission check failed (/sdn/zones/localnetwork/vmbr0/51, SDN.Use)"},
		{"SDN.Use", "PUT ~/200/config", "net0=virtio", ""},
		{"Datastore.AllocateSpace", "POST ~", "vmid=300&pool=bosh&scsi0=data:1", "403 Permission check failed (/storage/data, Datastore.AllocateSpace)"},
		{"Datastore.AllocateSpace", "POST ~/200/clone", "newid=300&pool=bosh", "403 Permission check failed (/storage/data, Datastore.AllocateSpace)"},
		{"Datastore.AllocateSpace", "PUT ~/200/resize", "disk=scsi0&size=+1G", "task 403 Permission check failed (/storage/data, Datastore.AllocateSpace)"},
		{"Datastore.Allocate", "DELETE /nodes/pve1/storage/data/content/data:iso%2Fx.iso", "", "403 Permission check failed (/storage/data, Datastore.Allocate)"},
		{"Datastore.Allocate", "PUT ~/200/config", "scsi1=data:202/vm-202-disk-0.raw", "403 Permission check failed (/vms/202, VM.Config.Disk)"},
		{"Datastore.Allocate", "PUT ~/200/config", "scsi1=data:201/vm-201-disk-0.raw", ""},
		{"Datastore.Allocate Datastore.Audit", "PUT ~/200/config", "scsi1=data:201/vm-201-disk-0.raw", "403 Permission check failed (/storage/data, Datastore.Audit)"},
		{"Datastore.Allocate Datastore.Audit Datastore.AllocateSpace", "PUT ~/200/config", "ide2=data:iso/x.iso,media=cdrom", "403 Permission check failed (/storage/data, Datastore.AllocateSpace|Datastore.Audit)"},
		{"Datastore.AllocateTemplate", "POST /nodes/pve1/storage/data/download-url", "url=http://127.0.0.1:1/x.iso&content=iso&filename=x.iso", "403 Permission check failed (/storage/data, Datastore.AllocateTemplate)"},
	}
	for _, tt := range tests {
		t.Run(tt.without+" "+tt.call+" "+tt.form, func(t *testing.T) {
			t.Parallel()
			root, l := poolLab(t, strings.Fields(tt.without)...)
			root.done("POST", "/nodes/pve1/qemu", "vmid=200&pool=bosh&scsi0=data:1")
			root.done("POST", "/nodes/pve1/qemu", "vmid=201&pool=bosh&scsi0=data:1")
			root.done("POST", "/nodes/pve1/qemu", "vmid=202&scsi0=data:1") // in no pool
			l.run([]step{{tt.call, tt.form, tt.want}})
		})
	}
}

func TestTagRights(t *testing.T) {
	t.Parallel()
	root, l := poolLab(t)
	root.done("POST", "/nodes/pve1/qemu", "vmid=910&pool=bosh&tags=there")
	set := func(access, registered string) {
		root.s.SetOption("user-tag-access", access)
		root.s.SetOption("registered-tags", registered)
	}
	set("user-allow=none", "prod")
	l.run([]step{
		{"PUT ~/910/config", "tags=there;bosh", "403 Permission check failed (/, Sys.Modify for modifying tag 'bosh')"},
		{"PUT ~/910/config", "tags=there;prod", "403 Permission check failed (/, Sys.Modify for modifying tag 'prod')"},
		{"PUT ~/910/config", "delete=tags", "403 Permission check failed (/, Sys.Modify for modifying tag 'there')"},
	})
	set("user-allow=list,user-allow-list=bosh", "")
	l.run([]step{
		{"PUT ~/910/config", "tags=there;bosh", ""},
		{"PUT ~/910/config", "tags=there;bosh;other", "403 Permission check failed (/, Sys.Modify for modifying tag 'other')"},
	})
	set("user-allow=existing", "")
	l.run([]step{
		{"PUT ~/910/config", "tags=there", ""},
		{"PUT ~/910/config", "tags=there;brandnew", "403 Permission check failed (/, Sys.Modify for modifying tag 'brandnew')"},
	})
	set("", "prod")
	l.run([]step{
		{"PUT ~/910/config", "tags=anything", ""},
		{"PUT ~/910/config", "tags=prod", "403 Permission check failed (/, Sys.Modify for modifying tag 'prod')"},
	})
	root.s.SetOption("tag-style", "case-sensitive=1,ordering=config")
	root.run([]step{{"PUT ~/910/config", "tags=Zeta;alpha", ""}})
	assert.Equal(t, "Zeta;alpha", root.config("910")["tags"])
}
