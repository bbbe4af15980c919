package pvetest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestResize(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.addData()
	l.done("POST", "/nodes/pve1/qemu", "vmid=500&scsi1=data:1,format=qcow2&ide2=none,media=cdrom")
	tests := []struct {
		form, want, size string
		bytes            int64 // of the volume
	}{
		{"disk=scsi1&size=+1G", "task OK", "2G", 2 << 30},
		{"disk=scsi1&size=+512M", "task OK", "2560M", 2560 << 20},
		{"disk=scsi1&size=2049M", "task shrinking disks is not supported", "2560M", 2560 << 20},
		{"disk=scsi1&size=2.75G", "task OK", "2816M", 2816 << 20},
		{"disk=scsi1&size=+1", "task OK", "2952790017", 2952790528},
		{"disk=scsi1&size=3000000K", "task OK", "3000000K", 3072000000},
		{"disk=scsi1&size=3145728001", "task OK", "3145728001", 3145728512},
		{"disk=scsi1&size=bogus", "400 size: value does not match the regex pattern", "3145728001", 3145728512},
		{"disk=scsi20&size=+1G", "task disk 'scsi20' does not exist", "3145728001", 3145728512},
		{"disk=ide2&size=+1G", "task disk 'ide2' has no associated volume", "3145728001", 3145728512},
	}
	for _, tt := range tests {
		l.run([]step{{"PUT ~/500/resize", tt.form, tt.want}})
		assert.Equal(t, "data:500/vm-500-disk-0.qcow2,size="+tt.size, l.config("500")["scsi1"], tt.form)
		v, _ := l.s.Volume("data:500/vm-500-disk-0.qcow2")
		assert.Equal(t, tt.bytes, v.Size, tt.form)
	}
}

func TestMoveDisk(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.addData()
	require.NoError(t, l.s.AddStorage("isoonly", Storage{Type: "dir", Content: []string{"iso"}}))
	l.run([]step{
		{"POST ~", "vmid=121&scsi0=data:1,format=qcow2", "task OK"},
		{"POST ~", "vmid=122&scsi0=data:1", "task OK"},
		{"POST ~/121/move_disk", "disk=scsi0", "500 Provide either a 'storage' to move the disk to a different storage or 'target-vmid' and 'target-disk' to move the disk to another VM"},
		{"POST ~/121/move_disk", "disk=scsi0&storage=data", "500 you can't move to the same storage with same format"},
		{"POST ~/121/move_disk", "disk=scsi9&storage=local", "500 disk 'scsi9' does not exist"},
		{"POST ~/121/move_disk", "disk=scsi0&storage=nope", "500 storage 'nope' does not exist"},
		{"POST ~/121/move_disk", "disk=scsi0&storage=isoonly", "400 storage: storage 'isoonly' does not support vm images"},
		{"POST ~/121/move_disk", "disk=scsi0&storage=local", "task OK"},
	})
	conf := l.config("121")
	assert.Equal(t, "local:121/vm-121-disk-0.qcow2,size=1G", conf["scsi0"])
	assert.Equal(t, "data:121/vm-121-disk-0.qcow2", conf["unused0"])
	l.run([]step{
		{"POST ~/121/move_disk", "disk=scsi0&target-vmid=121&target-disk=scsi5", "400 target-vmid: must be different than source VMID to reassign disk"},
		{"POST ~/121/move_disk", "disk=scsi0&target-vmid=4711", "500 could not find target VM 4711"},
		{"POST ~/121/move_disk", "disk=scsi7&target-vmid=122", "500 Disk 'scsi7' for VM '121' does not exist"},
		{"POST ~/121/move_disk", "disk=scsi0&target-vmid=122", "500 Target disk key 'scsi0' is already in use for VM '122'"},
		{"PUT ~/122/config", "template=1", ""},
		{"POST ~/121/move_disk", "disk=scsi0&target-vmid=122&target-disk=scsi5", "500 Can't move disks from or to template VMs"},
		{"PUT ~/122/config", "delete=template", ""},
		{"POST ~/121/status/start", "", "task OK"},
		{"POST ~/121/move_disk", "disk=scsi0&target-vmid=122&target-disk=scsi5", "500 Cannot move disk to another VM while the source VM is running - detach first"},
		{"POST ~/121/status/stop", "", "task OK"},
		{"POST ~/121/move_disk", "disk=scsi0&target-vmid=122&target-disk=scsi5", "task OK"},
		{"POST ~/121/move_disk", "disk=unused0&target-vmid=122&target-disk=scsi6", "task OK"},
	})
	assert.Equal(t, " ", l.config("121")["boot"])
	conf = l.config("122")
	assert.Equal(t, "local:122/vm-122-disk-0.qcow2,size=1G", conf["scsi5"])
	assert.Equal(t, "data:122/vm-122-disk-1.qcow2,size=1G", conf["scsi6"])
}

// TestCloneByStorage holds what each type of storage makes of a template and
// its clones.
func TestCloneByStorage(t *testing.T) {
	t.Parallel()
	tests := []struct {
		storage, format string
		disk            string // of a new guest
		base, linked    string
		refused         string // of a linked clone
		full            string
		qcow2           string // of asking for that format
	}{
		{"dir", "", "vm-200-disk-0.raw", "200/base-200-disk-0.raw", "200/base-200-disk-0.raw/300/vm-300-disk-0.qcow2", "", "301/vm-301-disk-0.raw", "task OK"},
		{"dir", "qcow2", "vm-200-disk-0.qcow2", "200/base-200-disk-0.qcow2", "200/base-200-disk-0.qcow2/300/vm-300-disk-0.qcow2", "", "301/vm-301-disk-0.qcow2", "task OK"},
		{"nfs", "qcow2", "vm-200-disk-0.qcow2", "200/base-200-disk-0.qcow2", "200/base-200-disk-0.qcow2/300/vm-300-disk-0.qcow2", "", "301/vm-301-disk-0.qcow2", "task OK"},
		{"btrfs", "", "vm-200-disk-0.raw", "200/base-200-disk-0.raw", "300/vm-300-disk-0.raw", "", "301/vm-301-disk-0.raw", "task OK"},
		{"lvmthin", "", "vm-200-disk-0", "base-200-disk-0", "vm-300-disk-0", "", "vm-301-disk-0", "task unable to create VM 400 - unsupported format 'qcow2'"},
		{"lvm", "", "vm-200-disk-0", "vm-200-disk-0", "", "500 Linked clone feature is not supported for drive 'virtio0'", "vm-301-disk-0", "task OK"},
		{"zfspool", "", "vm-200-disk-0", "base-200-disk-0", "base-200-disk-0/vm-300-disk-0", "", "vm-301-disk-0", "task unable to create VM 400 - unsupported format 'qcow2'"},
		{"rbd", "", "vm-200-disk-0", "base-200-disk-0", "base-200-disk-0/vm-300-disk-0", "", "vm-301-disk-0", "task unable to create VM 400 - unsupported format 'qcow2'"},
	}
	for _, tt := range tests {
		t.Run(tt.storage+tt.format, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			require.NoError(t, l.s.AddStorage("st", Storage{Type: tt.storage, Content: []string{"images"}}))
			drive := "virtio0=st:4"
			if tt.format != "" {
				drive += ",format=" + tt.format
			}
			l.done("POST", "/nodes/pve1/qemu", "vmid=200&"+drive)
			files := kindOf(tt.storage).files
			disk := "st:" + tt.disk
			if files {
				disk = "st:200/" + tt.disk
			}
			assert.Equal(t, disk+",size=4G", l.config("200")["virtio0"])
			l.done("POST", "/nodes/pve1/qemu/200/template", "")
			assert.Equal(t, "st:"+tt.base+",size=4G", l.config("200")["virtio0"])
			if tt.refused != "" {
				l.run([]step{{"POST ~/200/clone", "newid=300", tt.refused}})
				assert.NotContains(t, l.s.VMIDs(), 300)
			} else {
				l.done("POST", "/nodes/pve1/qemu/200/clone", "newid=300")
				assert.Equal(t, "st:"+tt.linked+",size=4G", l.config("300")["virtio0"])
			}
			l.done("POST", "/nodes/pve1/qemu/200/clone", "newid=301&full=1")
			assert.Equal(t, "st:"+tt.full+",size=4G", l.config("301")["virtio0"])
			l.run([]step{{"POST ~", "vmid=400&scsi0=st:1,format=qcow2", tt.qcow2}})

			row := map[string]any{}
			for _, r := range l.list("/nodes/pve1/storage/st/content?vmid=301") {
				row = r
			}
			assert.Equal(t, "st:"+tt.full, row["volid"])
			_, hasUsed := row["used"]
			assert.Equal(t, files, hasUsed)
		})
	}
}

func TestCloneRefusals(t *testing.T) {
	t.Parallel()
	l := newLab(t, WithNodes("pve1", "pve2"))
	l.addData()
	require.NoError(t, l.s.AddStorage("ceph", Storage{Type: "rbd"}))
	l.run([]step{
		{"POST ~", "vmid=200&name=tmpl&protection=1&tags=x&scsi0=data:1,format=qcow2,serial=abc&net0=virtio,bridge=vmbr0", "task OK"},
		{"POST ~/4711/clone", "newid=300", "500 unable to find configuration file for VM 4711 on node 'pve1'"},
		{"POST ~/200/clone", "newid=200", "500 unable to create VM 200: config file already exists"},
		{"POST ~/200/clone", "newid=300&snapname=nope", "500 snapshot 'nope' does not exist"},
		{"POST ~/200/clone", "newid=300&target=pve2", "500 can't clone VM to node 'pve2' (VM uses local storage)"},
		{"POST ~/200/clone", "newid=300&full=0", "500 Linked clone feature is not supported for drive 'scsi0'"},
		{"POST ~/200/clone", "newid=300&full=0&storage=ceph", "500 parameter 'storage' not allowed for linked clones"},
		{"POST ~/200/clone", "newid=300&full=1&storage=nope", "500 storage 'nope' does not exist"},
		{"POST ~/200/clone", "newid=300&full=1&storage=local&target=pve2", "500 can't clone to non-shared storage 'local'"},
		{"POST ~/200/template", "", "task OK"},
		{"POST ~/200/template", "", "500 you can't convert a template to a template"},
		{"POST ~/200/clone", "newid=300", "task OK"},
		{"POST ~", "vmid=210&scsi0=ceph:1", "task OK"},
		{"POST ~/210/template", "", "task OK"},
		{"POST ~/210/clone", "newid=310&target=pve2&name=over", "task OK"},
	})
	conf := l.config("300")
	assert.Equal(t, "Copy-of-VM-tmpl", conf["name"])
	assert.Equal(t, "x", conf["tags"])
	assert.NotContains(t, conf, "template")
	assert.Equal(t, "data:200/base-200-disk-0.qcow2/300/vm-300-disk-0.qcow2,serial=abc,size=1G", conf["scsi0"])
	assert.NotEqual(t, l.config("200")["net0"], conf["net0"], "a clone gets MACs of its own")
	vm, _ := l.s.VM(310)
	assert.Equal(t, "pve2", vm.Node)
	assert.Equal(t, "ceph:base-210-disk-0/vm-310-disk-0,size=1G", vm.Config["scsi0"])
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	l := newLab(t, WithNodes("pve1", "pve2"))
	require.NoError(t, l.s.AddStorage("thin", Storage{Type: "lvmthin"}))
	require.NoError(t, l.s.AddStorage("only1", Storage{Type: "dir", Nodes: []string{"pve1"}}))
	require.NoError(t, l.s.AddStorage("ceph", Storage{Type: "rbd"}))
	l.run([]step{
		{"POST ~", "vmid=100&scsi0=thin:2&scsi1=ceph:1", "task OK"},
		{"POST ~", "vmid=101&scsi0=only1:1", "task OK"},
		{"POST ~", "vmid=102&scsi0=thin:vm-100-disk-0", "task OK"},
		{"POST ~/100/migrate", "target=pve1", "400 target: target is local node."},
		{"POST ~/100/migrate", "target=nope", "500 no such cluster node 'nope'"},
		{"POST ~/101/migrate", "target=pve2", "500 storage 'only1' is not available on node 'pve2'"},
		{"POST ~/102/migrate", "target=pve2", "task migration aborted"},
		{"POST ~/100/status/start", "", "task OK"},
		{"POST ~/100/migrate", "target=pve2", "500 can't migrate running VM without --online"},
		{"POST ~/100/migrate", "target=pve2&online=1", "task migration aborted"},
		{"POST ~/100/status/stop", "", "task OK"},
		{"POST ~/100/migrate", "target=pve2", "task OK"},
		{"GET ~/100/config", "", "500 Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist"},
	})
	vm, _ := l.s.VM(100)
	assert.Equal(t, "pve2", vm.Node)
	assert.Equal(t, "thin:vm-100-disk-0,size=2G", vm.Config["scsi0"])
	for _, v := range l.s.Volumes("thin") {
		assert.Equal(t, "pve2", v.Node)
	}
	l.run([]step{{"POST ~/102/status/start", "", "task volume 'thin:vm-100-disk-0' does not exist"}})
}

// TestSnapshotByStorage holds which volumes can have snapshots.
func TestSnapshotByStorage(t *testing.T) {
	t.Parallel()
	tests := []struct {
		storage, format string
		want            string
		back            string // rolling back past a younger snapshot
		copy            string // of what a snapshot holds
	}{
		{"dir", "raw", "task snapshot feature is not available", "", ""},
		{"dir", "qcow2", "task OK", "task OK", "task OK"},
		{"nfs", "qcow2", "task OK", "task OK", "task OK"},
		{"btrfs", "raw", "task OK", "task OK", "task OK"},
		{"lvmthin", "raw", "task OK", "task OK", "task OK"},
		{"lvm", "raw", "task snapshot feature is not available", "", ""},
		{"zfspool", "raw", "task OK", "task can't rollback, 's1' is not most recent snapshot on 'st:vm-100-disk-0'", "500 Full clone feature is not supported for drive 'virtio0'"},
		{"rbd", "raw", "task OK", "task OK", "task OK"},
	}
	for _, tt := range tests {
		t.Run(tt.storage+" "+tt.format, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			require.NoError(t, l.s.AddStorage("st", Storage{Type: tt.storage, Content: []string{"images"}}))
			l.done("POST", "/nodes/pve1/qemu", "vmid=100&virtio0=st:4,format="+tt.format)
			l.run([]step{{"POST ~/100/snapshot", "snapname=s1", tt.want}})
			feature := l.get("/nodes/pve1/qemu/100/feature?feature=snapshot")
			if tt.back == "" {
				assert.EqualValues(t, "0", feature["hasFeature"])
				return
			}
			assert.EqualValues(t, "1", feature["hasFeature"])
			l.run([]step{
				{"PUT ~/100/resize", "disk=virtio0&size=5G", "task OK"},
				{"POST ~/100/clone", "newid=101&full=1&snapname=s1", tt.copy},
				{"POST ~/100/snapshot", "snapname=s2", "task OK"},
				{"POST ~/100/snapshot/s1/rollback", "", tt.back},
				{"DELETE ~/100/snapshot/s2", "", "task OK"},
				{"DELETE ~/100/snapshot/s1", "", "task OK"},
				{"DELETE ~/100", "", "task OK"},
			})
			if vm, ok := l.s.VM(101); ok {
				assert.Contains(t, vm.Config["virtio0"], "size=4G")
			}
			assert.Len(t, l.s.Volumes("st"), len(l.s.VMIDs()))
		})
	}
}
