package pve_test

import (
	"context"
	"encoding/json"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/internal/rest/resttest"
	"github.com/proxkit/proxkit/pve"
)

const (
	formType = "application/x-www-form-urlencoded"
	odd      = "50% off; a=b & é ✓ — +1/2: \"q\"\nline 2"
)

// TestRequests holds what requests look like on the wire.
func TestRequests(t *testing.T) {
	t.Parallel()
	update := func(p pve.UpdateVMConfigParams) func(context.Context, *pve.Client) error {
		p.Node, p.VMID = "pve1", 100
		return func(ctx context.Context, c *pve.Client) error { return c.UpdateVMConfig(ctx, p) }
	}
	const config = "PUT /nodes/pve1/qemu/100/config"
	tests := []struct {
		name   string
		call   func(context.Context, *pve.Client) error
		target string // method, path and query
		form   string
		json   string // in place of a form
	}{
		{
			name: "flags, numbers and a list of what to delete, rows 26 and 45", call: update(pve.UpdateVMConfigParams{OnBoot: new(true), Protection: new(false), Memory: &pve.VMMemory{Current: 1048576}, Delete: []string{"net1", "ipconfig1"}}),
			target: config, form: "delete=net1%2Cipconfig1&memory=1048576&onboot=1&protection=0",
		},
		{name: "hundred gigabytes, row 8", call: func(ctx context.Context, c *pve.Client) error {
			_, err := c.ResizeVM(ctx, pve.ResizeVMParams{Node: "pve1", VMID: 100, Disk: "scsi0", Size: pve.FormatSize(100 << 30)})
			return err
		}, target: "PUT /nodes/pve1/qemu/100/resize", form: "disk=scsi0&size=100G"},
		{
			name: "large and small numbers, row 8", call: update(pve.UpdateVMConfigParams{CPULimit: new(100.0), MigrateDowntime: new(1e-05), Balloon: new(int64(10000000))}),
			target: config, form: "balloon=10000000&cpulimit=100&migrate_downtime=0.00001",
		},
		{name: "false is not left out, row 25", call: func(ctx context.Context, c *pve.Client) error {
			_, err := c.CreateUserToken(ctx, pve.CreateUserTokenParams{UserID: "ops@pve", TokenID: "ci", PrivSep: new(false), Expire: new(int64(0))})
			return err
		}, target: "POST /access/users/ops%40pve/token/ci", form: "expire=0&privsep=0"},
		{name: "rights that do not propagate, row 25", call: func(ctx context.Context, c *pve.Client) error {
			return c.UpdateACL(ctx, pve.UpdateACLParams{Path: "/vms/100", Roles: []string{"PVEAuditor", "PVEVMUser"}, Users: []string{"ops@pve"}, Propagate: new(false)})
		}, target: "PUT /access/acl", form: "path=%2Fvms%2F100&propagate=0&roles=PVEAuditor%2CPVEVMUser&users=ops%40pve"},
		{name: "backup that keeps all, row 25", call: func(ctx context.Context, c *pve.Client) error {
			_, err := c.CreateBackup(ctx, pve.CreateBackupParams{Node: "pve1", VMID: []string{"100", "101"}, Remove: new(false), StdExcludes: new(false)})
			return err
		}, target: "POST /nodes/pve1/vzdump", form: "remove=0&stdexcludes=0&vmid=100%2C101"},
		{name: "flag in a query, row 26", call: func(ctx context.Context, c *pve.Client) error {
			_, err := c.ListDisks(ctx, pve.ListDisksParams{Node: "pve1", SkipSMART: new(true), IncludePartitions: new(false)})
			return err
		}, target: "GET /nodes/pve1/disks/list?include-partitions=0&skipsmart=1"},
		{name: "devices with high numbers, row 31", call: update(pve.UpdateVMConfigParams{
			Net: map[int]pve.VMNet{31: {Model: "virtio", Bridge: new("vmbr0"), Firewall: new(true)}, 0: {Model: "e1000"}}, SCSI: map[int]pve.VMDisk{30: {File: "a:1", IOThread: new(true)}},
			NUMA: new(true), SCSIHW: new("virtio-scsi-pci"),
		}), target: config, form: "net0=e1000&net31=virtio%2Cbridge%3Dvmbr0%2Cfirewall%3D1&numa=1&scsi30=a%3A1%2Ciothread%3D1&scsihw=virtio-scsi-pci"},
		{name: "free text, row 41", call: update(pve.UpdateVMConfigParams{Description: new(odd)}), target: config, form: url.Values{"description": {odd}}.Encode()},
		{name: "hot-plugged CPUs taken back, row 43", call: update(pve.UpdateVMConfigParams{Delete: []string{"vcpus"}}), target: config, form: "delete=vcpus"},
		{name: "unset, row 44", call: update(pve.UpdateVMConfigParams{VMStateStorage: nil, Cores: new(int64(2))}), target: config, form: "cores=2"},
		{name: "set to nothing, row 44", call: update(pve.UpdateVMConfigParams{VMStateStorage: new("")}), target: config, form: "vmstatestorage="},
		{name: "deleted, row 44", call: update(pve.UpdateVMConfigParams{Delete: []string{"vmstatestorage"}}), target: config, form: "delete=vmstatestorage"},
		{name: "no tags at all, row 44", call: update(pve.UpdateVMConfigParams{Tags: []string{}}), target: config, form: "tags="},
		{
			name: "keys of a machine are encoded twice, row 46", call: update(pve.UpdateVMConfigParams{SSHKeys: []string{"ssh-ed25519 AAAAC3Nz+abc/def= ops@example:1", "ssh-rsa B!*'()~\n"}}), target: config,
			form: "sshkeys=ssh-ed25519%2520AAAAC3Nz%252Babc%252Fdef%253D%2520ops%2540example%253A1%250Assh-rsa%2520B%2521%252A%2527%2528%2529~",
		},
		{name: "keys of a container are not, row 47", call: func(ctx context.Context, c *pve.Client) error {
			_, err := c.CreateContainer(ctx, pve.CreateContainerParams{Node: "pve1", VMID: 300, OSTemplate: "local:vztmpl/a.tar.zst", SSHPublicKeys: new("ssh-ed25519 AAAAC3Nz+abc/def= ops@example:1")})
			return err
		}, target: "POST /nodes/pve1/lxc", form: "ostemplate=local%3Avztmpl%2Fa.tar.zst&ssh-public-keys=ssh-ed25519+AAAAC3Nz%2Babc%2Fdef%3D+ops%40example%3A1&vmid=300"},
		{name: "program with arguments, row 48", call: func(ctx context.Context, c *pve.Client) error {
			_, err := c.VMAgentExec(ctx, pve.VMAgentExecParams{Node: "pve1", VMID: 100, Command: []string{"sh", "-c", "a && b, c"}})
			return err
		}, target: "POST /nodes/pve1/qemu/100/agent/exec", form: "command=sh&command=-c&command=a+%26%26+b%2C+c"},
		{name: "program without arguments, row 48", call: func(ctx context.Context, c *pve.Client) error {
			_, err := c.VMAgentExec(ctx, pve.VMAgentExecParams{Node: "pve1", VMID: 100, Command: []string{"uptime"}, InputData: new("é")})
			return err
		}, target: "POST /nodes/pve1/qemu/100/agent/exec", json: `{"command":["uptime"],"input-data":"é"}`},
		{name: "command of the monitor is one text, row 48", call: func(ctx context.Context, c *pve.Client) error {
			_, err := c.ExecuteVMMonitorCommand(ctx, pve.ExecuteVMMonitorCommandParams{Node: "pve1", VMID: 100, Command: "info block -v"})
			return err
		}, target: "POST /nodes/pve1/qemu/100/monitor", form: "command=info+block+-v"},
		{name: "parameters of a delete, row 85", call: func(ctx context.Context, c *pve.Client) error {
			_, err := c.DeleteContainer(ctx, pve.DeleteContainerParams{Node: "pve1", VMID: 115, Purge: new(true), Force: new(false)})
			return err
		}, target: "DELETE /nodes/pve1/lxc/115?force=0&purge=1"},
		{name: "parameters of a read, row 85", call: func(ctx context.Context, c *pve.Client) error {
			_, err := c.ListTasks(ctx, pve.ListTasksParams{Node: "pve1", Since: new(int64(1754000000)), Limit: new(int64(1000000)), Errors: new(true), StatusFilter: []string{"ok", "error"}})
			return err
		}, target: "GET /nodes/pve1/tasks?errors=1&limit=1000000&since=1754000000&statusfilter=ok%2Cerror"},
		{name: "volume in a path, rows 35 and 72", call: func(ctx context.Context, c *pve.Client) error {
			_, err := c.DeleteVolume(ctx, pve.DeleteVolumeParams{Node: "pve1", Storage: "local", Volume: "local:iso/my file.iso"})
			return err
		}, target: "DELETE /nodes/pve1/storage/local/content/local%3Aiso%2Fmy%20file.iso"},
		{name: "node's name as it is, row 63", call: func(ctx context.Context, c *pve.Client) error {
			_, err := c.ListVMs(ctx, pve.ListVMsParams{Node: "NODE-a.1"})
			return err
		}, target: "GET /nodes/NODE-a.1/qemu"},
		{name: "nested pool, row 110", call: func(ctx context.Context, c *pve.Client) error {
			_, err := c.ListPools(ctx, pve.ListPoolsParams{PoolID: new("a/b")})
			return err
		}, target: "GET /pools?poolid=a%2Fb"},
		{name: "change of a nested pool, row 110", call: func(ctx context.Context, c *pve.Client) error {
			return c.UpdatePool(ctx, pve.UpdatePoolParams{PoolID: "a/b", VMs: []string{"100", "101"}, AllowMove: new(true)})
		}, target: "PUT /pools", form: "allow-move=1&poolid=a%2Fb&vms=100%2C101"},
		{name: "resize of a container, row 111", call: func(ctx context.Context, c *pve.Client) error {
			_, err := c.ResizeContainer(ctx, pve.ResizeContainerParams{Node: "pve1", VMID: 101, Disk: "rootfs", Size: "+1G"})
			return err
		}, target: "PUT /nodes/pve1/lxc/101/resize", form: "disk=rootfs&size=%2B1G"},
		{name: "second factor unlocked, row 111", call: func(ctx context.Context, c *pve.Client) error {
			_, err := c.UnlockUserTFA(ctx, pve.UnlockUserTFAParams{UserID: "ops@pve"})
			return err
		}, target: "PUT /access/users/ops%40pve/unlock-tfa"},
		{name: "sync of a realm, row 111", call: func(ctx context.Context, c *pve.Client) error {
			_, err := c.SyncRealm(ctx, pve.SyncRealmParams{Realm: "corp.example-1", DryRun: new(true)})
			return err
		}, target: "POST /access/domains/corp.example-1/sync", form: "dry-run=1"},
		{name: "one entry of an array", call: func(ctx context.Context, c *pve.Client) error {
			return c.CreatePCIMapping(ctx, pve.CreatePCIMappingParams{ID: "gpu", Map: []pve.PCIMappingEntry{{Node: "pve1", Path: "0000:01:00.0", ID: "10de:1234"}}, MDev: new(true), Description: new("é ✓ — %")})
		}, target: "POST /cluster/mapping/pci", json: `{"id":"gpu","map":["id=10de:1234,node=pve1,path=0000:01:00.0"],"mdev":1,"description":"é ✓ — %"}`},
		{name: "form given as it is", call: func(ctx context.Context, c *pve.Client) error {
			return c.Do(ctx, "POST", "/nodes/{node}/x", url.Values{"node": {"pve1"}, "a": {"1"}, "b": {"2", "3"}}, nil)
		}, target: "POST /nodes/pve1/x", form: "a=1&b=2&b=3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client, server := newFactsClient(t, always(resttest.ReplyData("null")))
			require.NoError(t, tt.call(t.Context(), client))
			requests := server.Requests()
			require.Len(t, requests, 1)
			got := requests[0]
			assert.Equal(t, tt.target, got.Method+" "+strings.TrimPrefix(got.Target, apiBase))
			switch {
			case tt.json != "":
				assert.Equal(t, "application/json", got.Header.Get("Content-Type"))
				assert.JSONEq(t, tt.json, got.Body)
			case tt.form != "":
				assert.Equal(t, formType, got.Header.Get("Content-Type"))
				assert.Equal(t, tt.form, got.Body)
			default:
				assert.Empty(t, got.Body)
			}
			assert.False(t, got.Chunks)
			if got.Method == "GET" || got.Method == "DELETE" {
				assert.EqualValues(t, -1, got.Length, "no length where there is no body")
			} else {
				assert.EqualValues(t, len(got.Body), got.Length)
			}
		})
	}
}

// TestWhatIsReadIsWritten reads a configuration and writes it back: not a byte of a
// property string changes, rows 13, 32 to 36 and 41.
func TestWhatIsReadIsWritten(t *testing.T) {
	t.Parallel()
	config := map[string]string{
		"net0":        "virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1,later=7",
		"net31":       "model=e1000,macaddr=BC:24:11:00:00:02,link_down=yes",
		"scsi0":       "volumes.hdd:base-269-disk-0,iothread=on,size=3907018584K",
		"virtio15":    "file=local:9,serial=x%20y,format=raw",
		"efidisk0":    "local-lvm:vm-1-disk-0,efitype=4m,size=528K",
		"hostpci0":    "0000:81:00.2;0000:81:00.3,pcie=on",
		"ide2":        "none,media=cdrom",
		"boot":        "order=scsi0;ide2;net0",
		"agent":       "enabled=1,fstrim_cloned_disks=1",
		"memory":      "current=4096",
		"vga":         "qxl,memory=32",
		"startup":     "order=3,up=10",
		"smbios1":     "uuid=8f0d4a1e-0000-0000-0000-000000000001,serial=YWJj,base64=1",
		"cpu":         "cputype=host,flags=+aes;-pcid",
		"usb0":        "host=1-2,usb3=1",
		"ipconfig0":   "ip=dhcp,ip6=auto",
		"description": odd,
		"name":        "a.b-c",
	}
	raw, err := json.Marshal(config)
	require.NoError(t, err)
	var written url.Values
	client, _ := newFactsClient(t, func(r resttest.Request) string {
		if r.Method == "GET" {
			return resttest.ReplyData(string(raw))
		}
		written, err = url.ParseQuery(r.Body)
		assert.NoError(t, err)
		return resttest.ReplyData("null")
	})
	c, err := client.GetVMConfig(t.Context(), pve.GetVMConfigParams{Node: "pve1", VMID: 100})
	require.NoError(t, err)
	require.NoError(t, client.UpdateVMConfig(t.Context(), pve.UpdateVMConfigParams{
		Node: "pve1", VMID: 100, Net: c.Net, SCSI: c.SCSI, VirtIO: c.VirtIO, EFIDisk0: c.EFIDisk0, HostPCI: c.HostPCI, IDE: c.IDE, Boot: c.Boot, Agent: c.Agent,
		Memory: c.Memory, VGA: c.VGA, Startup: c.Startup, SMBIOS1: c.SMBIOS1, CPU: c.CPU, USB: c.USB, IPConfig: c.IPConfig, Description: c.Description, Name: c.Name,
	}))
	got := map[string]string{}
	for name := range written {
		got[name] = written.Get(name)
	}
	assert.Equal(t, config, got)
}

// TestKindsHaveTheirOwnTypes: what a machine's snapshot takes, a container's does not,
// row 49, and what is read of a user is not what is written, row 50.
func TestKindsHaveTheirOwnTypes(t *testing.T) {
	t.Parallel()
	has := func(typ reflect.Type, field string) bool {
		_, ok := typ.FieldByName(field)
		return ok
	}
	assert.True(t, has(reflect.TypeFor[pve.CreateVMSnapshotParams](), "VMState"))
	assert.False(t, has(reflect.TypeFor[pve.CreateContainerSnapshotParams](), "VMState"))
	assert.True(t, has(reflect.TypeFor[pve.User](), "Tokens"))
	assert.False(t, has(reflect.TypeFor[pve.UpdateUserParams](), "Tokens"))
	assert.False(t, has(reflect.TypeFor[pve.UploadToStorageParams](), "TmpFilename"))
}

// TestRefusedBeforeSending holds the arguments that would reach another endpoint than
// the one meant, or none.
func TestRefusedBeforeSending(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		call func(context.Context, *pve.Client) error
		want string
	}{
		{name: "no node, rows 72 and 86", want: "node: must not be empty", call: func(ctx context.Context, c *pve.Client) error {
			_, err := c.ListVMs(ctx, pve.ListVMsParams{})
			return err
		}},
		{name: "no storage, row 86", want: "storage: must not be empty", call: func(ctx context.Context, c *pve.Client) error {
			_, err := c.UploadToStorage(ctx, pve.UploadToStorageParams{Node: "pve1", Content: "iso", Filename: "a.iso"}, pve.Upload{Body: strings.NewReader("x")})
			return err
		}},
		{name: "no file name, row 88", want: "needs a file name", call: func(ctx context.Context, c *pve.Client) error {
			_, err := c.UploadToStorage(ctx, pve.UploadToStorageParams{Node: "pve1", Storage: "local", Content: "iso"}, pve.Upload{Body: strings.NewReader("x")})
			return err
		}},
		{name: "node that is a path", want: "must not contain a slash", call: func(ctx context.Context, c *pve.Client) error {
			_, err := c.ListVMs(ctx, pve.ListVMsParams{Node: "pve1/qemu/100/config?"})
			return err
		}},
		{name: "volume that leads away", want: "would lead to another path", call: func(ctx context.Context, c *pve.Client) error {
			_, err := c.DeleteVolume(ctx, pve.DeleteVolumeParams{Node: "pve1", Storage: "local", Volume: "local:iso/../../../qemu"})
			return err
		}},
		{name: "set and deleted, row 45", want: "net1: is set and named in delete", call: func(ctx context.Context, c *pve.Client) error {
			return c.UpdateVMConfig(ctx, pve.UpdateVMConfigParams{Node: "pve1", VMID: 100, Net: map[int]pve.VMNet{1: {Model: "virtio"}}, Delete: []string{"net1"}})
		}},
		{name: "too much for one request, row 87", want: "accepts at most 524288", call: func(ctx context.Context, c *pve.Client) error {
			_, err := c.VMAgentExec(ctx, pve.VMAgentExecParams{Node: "pve1", VMID: 100, Command: []string{"sh", "-c", strings.Repeat("é", 200<<10)}})
			return err
		}},
		{name: "not a number", want: "no number the server could read", call: func(ctx context.Context, c *pve.Client) error {
			zero := 0.0
			return c.UpdateVMConfig(ctx, pve.UpdateVMConfigParams{Node: "pve1", VMID: 100, CPULimit: new(1 / zero)})
		}},
		{name: "comma inside a property", want: "must not contain a comma", call: func(ctx context.Context, c *pve.Client) error {
			return c.UpdateVMConfig(ctx, pve.UpdateVMConfigParams{Node: "pve1", VMID: 100, Net: map[int]pve.VMNet{0: {Model: "virtio", Bridge: new("vmbr0,tag=5")}}})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client, server := newFactsClient(t, always(resttest.ReplyData("null")))
			err := tt.call(t.Context(), client)
			assert.ErrorContains(t, err, tt.want)
			var refused *pve.ArgumentError
			assert.ErrorAs(t, err, &refused)
			assert.ErrorIs(t, err, pve.ErrNotSent)
			assert.Empty(t, server.Requests())
		})
	}
}
