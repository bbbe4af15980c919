package pve_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/internal/rest/resttest"
	"github.com/proxkit/proxkit/pve"
)

// TestAnswers holds the shapes in which values come.
func TestAnswers(t *testing.T) {
	t.Parallel()
	storages := each((*pve.Client).ListNodeStorages, func(s pve.NodeStorageListItem) any {
		return short(s.Total, s.Used, s.Avail, s.Enabled, s.Active, s.UsedFraction)
	})
	vms := each((*pve.Client).ListVMs, func(v pve.VMListItem) any {
		return short(v.VMID, v.Name, v.PID, v.MaxMem, v.Tags, v.Template, v.Lock, v.Uptime, v.CPU)
	})
	containers := each((*pve.Client).ListContainers, func(v pve.ContainerListItem) any {
		return short(v.VMID, v.CPUs, v.Disk, v.MaxDisk, v.Mem, v.MaxSwap)
	})
	volumes := each((*pve.Client).ListVolumes, func(v pve.VolumeListItem) any {
		return short(v.VolID, v.Size, v.VMID, v.CTime, v.Protected, v.Parent, v.Content)
	})
	disks := each((*pve.Client).ListDisks, func(d pve.DiskListItem) any {
		return short(d.DevPath, d.Rpm, d.Wearout, len(d.OSDIDList), d.OSDID, d.Size, d.GPT)
	})
	vmConfig := func(pick func(*pve.VMConfig) any) reading { return one((*pve.Client).GetVMConfig, pick) }
	containerConfig := func(pick func(*pve.ContainerConfig) any) reading {
		return one((*pve.Client).GetContainerConfig, pick)
	}
	resources := each((*pve.Client).ListClusterResources, func(r pve.ClusterResourceListItem) any {
		return short(r.ID, r.Type, r.Node, r.VMID, r.Name, r.Status, r.Tags, r.Template, r.MaxDisk, r.CPU)
	})
	pending := each((*pve.Client).ListVMPending, func(p pve.PendingValue) any { return short(p.Key, p.Value, p.Pending, p.Delete) })
	zones := each((*pve.Client).ListSDNZones, func(z pve.SDNZone) any { return short(z.Zone, z.Nodes, z.Peers, z.MTU, z.Tag) })
	execStatus := one((*pve.Client).VMAgentExecStatus, func(s *pve.VMAgentExecStatusResult) any {
		return short(s.Exited, s.ExitCode, s.OutData, s.OutTruncated, s.ErrTruncated)
	})
	options := func(pick func(*pve.ClusterOptions) any) reading {
		return func(ctx context.Context, c *pve.Client) (any, error) {
			result, err := c.GetClusterOptions(ctx)
			if err != nil {
				return nil, err
			}
			return pick(result), nil
		}
	}
	limits := vmConfig(func(c *pve.VMConfig) any {
		var memory any
		if c.Memory != nil {
			memory = c.Memory.Current
		}
		return short(c.CPULimit, memory, c.Balloon, c.Cores, c.MigrateDowntime)
	})
	flags := vmConfig(func(c *pve.VMConfig) any { return short(c.OnBoot, c.Protection, c.KVM, c.Template, c.NUMA, c.ACPI) })

	tests := []struct {
		name    string
		data    string
		read    reading
		want    any
		misfits []string // fields
	}{
		// Numbers.
		{
			name: "size with exponent, rows 1 and 2", read: storages,
			data: `[{"storage":"a","total":3.47726673451418e+15,"used":null,"avail":1.12589990684262E15,"used_fraction":"0.5"},{"storage":"b","total":"1e15","used":1E3,"avail":"1.5e+1"}]`,
			want: []any{row{uint64(3477266734514180), nil, uint64(1125899906842620), nil, nil, 0.5}, row{uint64(1e15), uint64(1000), uint64(15), nil, nil, nil}},
		},
		{
			name: "size beyond signed numbers, row 3", read: storages,
			data: `[{"total":18446744073692774400,"used":"18446744073709551615","avail":"1.8446744073692774400e19"}]`,
			want: []any{row{uint64(18446744073692774400), uint64(18446744073709551615), uint64(18446744073692774400), nil, nil, nil}},
		},
		{
			name: "size that no number holds, row 3", read: storages, misfits: []string{"[0].total", "[0].used", "[0].avail"},
			data: `[{"total":18446744073709551616,"used":-1,"avail":"1.5","active":1}]`,
			want: []any{row{nil, nil, nil, nil, true, nil}},
		},
		{
			name: "flags of storages", read: storages,
			data: `[{"active":"1","enabled":true},{"active":1,"enabled":"true"},{"active":0,"enabled":"0"},{"active":false,"enabled":""},{"active":"off","enabled":"No"}]`,
			want: []any{row{nil, nil, nil, true, true, nil}, row{nil, nil, nil, true, true, nil}, row{nil, nil, nil, false, false, nil}, row{nil, nil, nil, false, false, nil}, row{nil, nil, nil, false, false, nil}},
		},
		{
			name: "shared memory of a node, row 4", data: `{"ksm":{"shared":42268934144},"loadavg":["0.05","0.10","0.01"],"memory":{"total":"8589934592","used":1e9},"rootfs":{"avail":3.47726673451418e+15},"cpuinfo":{"mhz":"2096.025","cpus":"4"}}`,
			read: one((*pve.Client).GetNodeStatus, func(s *pve.NodeStatus) any {
				return short(s.KSM.Shared, s.LoadAvg, s.Memory.Total, s.Memory.Used, s.RootFS.Avail, s.CPUInfo.Mhz, s.CPUInfo.CPUs)
			}),
			want: row{uint64(42268934144), "0.05 0.10 0.01", uint64(8589934592), uint64(1e9), uint64(3477266734514180), 2096.025, int64(4)},
		},
		{
			name: "memory beyond 32 bits, row 5", read: containers, data: `[{"vmid":1,"mem":4294967296,"maxswap":"8589934592"}]`,
			want: []any{row{int64(1), nil, nil, nil, uint64(1 << 32), uint64(1 << 33)}},
		},
		{
			name: "large image, rows 6 and 20", read: volumes,
			data: `[{"volid":"a:b","size":8589934592,"vmid":"269"},{"volid":"a:c","size":"129994752","ctime":"1645075099","protected":1,"parent":null},{"volid":"a:d","size":3.4e+10,"vmid":100,"content":"iso","parent":"../x"}]`,
			want: []any{row{"a:b", uint64(1 << 33), int64(269), nil, nil, nil, nil}, row{"a:c", uint64(129994752), nil, int64(1645075099), true, nil, nil}, row{"a:d", uint64(34000000000), int64(100), nil, nil, "../x", "iso"}},
		},
		{
			name: "VXLAN tag, row 7", data: `[{"vnet":"a","tag":16777215},{"vnet":"b","tag":"10042"},{"vnet":"c"}]`,
			read: each((*pve.Client).ListSDNVNets, func(v pve.SDNVNet) any { return short(v.VNet, v.Tag) }),
			want: []any{row{"a", int64(16777215)}, row{"b", int64(10042)}, row{"c", nil}},
		},
		{
			name: "fractional limit in text, row 9", data: `{"cpulimit":"0.4","memory":"256","migrate_downtime":"0.2"}`, read: limits,
			want: row{0.4, int64(256), nil, nil, 0.2},
		},
		{
			name: "limit as a number, row 9", data: `{"cpulimit":2,"balloon":"0","cores":"4","migrate_downtime":1}`, read: limits,
			want: row{2.0, nil, int64(0), int64(4), 1.0},
		},
		{
			name: "container with a fractional limit, row 9", data: `{"cpulimit":"0.5","memory":"512","swap":0,"cores":1,"cpuunits":"100","unprivileged":"1"}`,
			read: containerConfig(func(c *pve.ContainerConfig) any {
				return short(c.CPULimit, c.Memory, c.Swap, c.Cores, c.CPUUnits, c.Unprivileged)
			}), want: row{0.5, int64(512), int64(0), int64(1), int64(100), true},
		},
		{
			name: "memory in text, rows 10 and 11", data: `{"memory":"4096","balloon":"2048","cores":2}`, read: limits,
			want: row{nil, int64(4096), int64(2048), int64(2), nil},
		},
		{
			name: "memory as a number, rows 10 and 11", data: `{"memory":4096,"balloon":2048.0,"cores":"2"}`, read: limits,
			want: row{nil, int64(4096), int64(2048), int64(2), nil},
		},
		{name: "memory with its key, row 10", data: `{"memory":"current=4096"}`, read: limits, want: row{nil, int64(4096), nil, nil, nil}},
		{
			name: "usage that is no number", read: vms, misfits: []string{"[0].cpu", "[1].cpu", "[2].cpu"},
			data: `[{"vmid":1,"cpu":"nan"},{"vmid":2,"cpu":"inf"},{"vmid":3,"cpu":"-Inf"},{"vmid":4,"cpu":"1e-05"},{"vmid":5,"cpu":1.5e-05}]`,
			want: []any{
				row{int64(1), nil, nil, nil, "", nil, nil, nil, nil},
				row{int64(2), nil, nil, nil, "", nil, nil, nil, nil},
				row{int64(3), nil, nil, nil, "", nil, nil, nil, nil},
				row{int64(4), nil, nil, nil, "", nil, nil, nil, 1e-05},
				row{int64(5), nil, nil, nil, "", nil, nil, nil, 1.5e-05},
			},
		},
		{
			name: "port in text", data: `{"port":"5900","user":"root@pam","upid":"UPID:x","ticket":"PVEVNC:1","cert":"c"}`,
			read: one((*pve.Client).CreateVMVNCProxy, func(v *pve.VNCProxy) any { return short(v.Port, v.User) }), want: row{int64(5900), "root@pam"},
		},
		{
			name: "bridge delay as number or text, row 21", data: `[{"iface":"a","bridge_fd":0,"active":1},{"iface":"b","bridge_fd":"15","active":"1"}]`,
			read: each((*pve.Client).ListNodeNetworks, func(n pve.NodeNetworkListItem) any { return short(n.BridgeFd, n.Active) }),
			want: []any{row{int64(0), true}, row{int64(15), true}},
		},
		{
			name: "bridge by its name, row 21", data: `{"type":"bridge","method":"static","bridge_fd":"0","bridge_ports":"eno1 eno2","cidr":"192.0.2.1/24","families":["inet"],"priority":"5"}`,
			read: one((*pve.Client).GetNodeNetwork, func(n *pve.NodeNetwork) any {
				return short(n.Type, n.Method, n.BridgeFd, n.BridgePorts, n.CIDR, n.Families, n.Priority)
			}), want: row{"bridge", "static", int64(0), "eno1 eno2", "192.0.2.1/24", "inet", int64(5)},
		},
		{
			name: "overridden defaults in text, row 22", data: `{"max_workers":"15","next-id":{"lower":"200","upper":999},"migration":{"type":"secure"},"registered-tags":["a","b"],"allowed-tags":[]}`,
			read: options(func(o *pve.ClusterOptions) any {
				return short(o.MaxWorkers, o.NextID.Lower, o.NextID.Upper, o.Migration.Type, o.RegisteredTags, len(o.AllowedTags))
			}), want: row{int64(15), int64(200), int64(999), "secure", "a b", 0},
		},
		{
			name: "properties in text where there are objects", data: `{"next-id":"lower=200","crs":"ha=static,ha-rebalance-on-start=1,later=x"}`,
			read: options(func(o *pve.ClusterOptions) any { return short(o.NextID.Lower, o.CRS.HA, o.CRS.HARebalanceOnStart) }),
			want: row{int64(200), "static", true},
		},
		{
			name: "properties in an object", data: `{"crs":{"ha":"dynamic","ha-rebalance-on-start":"1"},"tag-style":{"case-sensitive":1,"shape":"full"}}`,
			read: options(func(o *pve.ClusterOptions) any {
				return short(o.CRS.HA, o.CRS.HARebalanceOnStart, o.TagStyle.CaseSensitive, o.TagStyle.Shape)
			}), want: row{"dynamic", true, true, "full"},
		},

		// Flags.
		{
			name: "flags in every spelling, row 12", data: `{"onboot":1,"protection":"1","kvm":true,"template":"yes","numa":"ON","acpi":"True"}`, read: flags,
			want: row{true, true, true, true, true, true},
		},
		{
			name: "flags that are off, row 12", data: `{"onboot":0,"protection":"0","kvm":false,"template":"","numa":"off","acpi":null}`, read: flags,
			want: row{false, false, false, false, false, nil},
		},
		{
			name: "flags inside properties, row 13", data: `{"net0":"virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1,link_down=yes","scsi0":"a:b,iothread=on,backup=0,ssd=True,ro=FALSE"}`,
			read: vmConfig(func(c *pve.VMConfig) any {
				return short(c.Net[0].Firewall, c.Net[0].LinkDown, c.SCSI[0].IOThread, c.SCSI[0].Backup, c.SCSI[0].SSD, c.SCSI[0].RO)
			}), want: row{true, true, true, false, true, false},
		},
		{
			name: "rule switched off, row 23", data: `[{"rule":"a","type":"node-affinity","disable":1,"nodes":"pve1:20,pve2","resources":"vm:100,ct:101","strict":"1"},{"rule":"b","disable":"1"},{"rule":"c","disable":0},{"rule":"d","errors":{"resources":["too few"]}}]`,
			read: each((*pve.Client).ListHARules, func(r pve.HARule) any {
				return short(r.Rule, r.Disable, r.Nodes, r.Resources, r.Strict, len(r.Errors["resources"]))
			}),
			want: []any{row{"a", true, "pve1:20 pve2", "vm:100 ct:101", true, 0}, row{"b", true, "", "", nil, 0}, row{"c", false, "", "", nil, 0}, row{"d", nil, "", "", nil, 1}},
		},
		{name: "program that runs, row 24", data: `{"exited":0}`, read: execStatus, want: row{false, nil, nil, nil, nil}},
		{
			name: "program that has ended, row 24", data: `{"exited":1,"exitcode":"0","out-data":"x\n","out-truncated":1,"err-truncated":true}`, read: execStatus,
			want: row{true, int64(0), "x\n", true, true},
		},
		{name: "older agent, row 24", data: `{"exited":true,"exitcode":3}`, read: execStatus, want: row{true, int64(3), nil, nil, nil}},
		{
			name: "rights by path", data: `{"/vms/100":{"VM.Audit":1,"VM.Console":"0"},"/":{"Sys.Audit":true}}`,
			read: one((*pve.Client).GetPermissions, func(p map[string]map[string]bool) any {
				return short(p["/vms/100"]["VM.Audit"], p["/vms/100"]["VM.Console"], p["/"]["Sys.Audit"])
			}), want: row{true, false, true},
		},
		{
			name: "token's values in text", data: `{"value":"v","full-tokenid":"ops@pve!t","info":{"privsep":"0","expire":"0","comment":42}}`,
			read: one((*pve.Client).CreateUserToken, func(r *pve.CreateUserTokenResult) any {
				return short(r.FullTokenID, r.Info.PrivSep, r.Info.Expire, r.Info.Comment)
			}), want: row{"ops@pve!t", false, int64(0), "42"},
		},
		{
			name: "user without tokens", data: `{"tokens":null,"enable":1,"groups":["a"],"expire":0}`,
			read: one((*pve.Client).GetUser, func(u *pve.User) any { return short(len(u.Tokens), u.Enable, u.Groups) }), want: row{0, true, "a"},
		},

		// What is absent, and what is different from element to element.
		{
			name: "stopped guest among others, rows 14 to 16", read: vms,
			data: `[{"vmid":100,"name":"web","pid":"14558","cpu":0.25,"uptime":128323,"maxmem":1.7179869184e10,"tags":"prod;web","template":""},
				{"vmid":"101","name":"tmpl","pid":null,"cpu":0,"uptime":"0","maxmem":2147483648,"tags":" ","template":1},
				{"vmid":102,"lock":"clone","template":"0"},{"vmid":"2042","name":123,"tags":"","template":"1"}]`,
			want: []any{
				row{int64(100), "web", int64(14558), uint64(17179869184), "prod web", false, nil, int64(128323), 0.25},
				row{int64(101), "tmpl", nil, uint64(2147483648), "", true, nil, int64(0), 0.0},
				row{int64(102), nil, nil, nil, "", false, "clone", nil, nil},
				row{int64(2042), "123", nil, nil, "", true, nil, nil, nil},
			},
		},
		{
			name: "containers with and without a limit, rows 17 and 18", read: containers,
			data: `[{"vmid":"200","cpus":"0.5","disk":"1073741824","maxdisk":"8589934592"},{"vmid":201,"cpus":4,"disk":0,"maxdisk":8589934592}]`,
			want: []any{row{int64(200), 0.5, uint64(1073741824), uint64(8589934592), nil, nil}, row{int64(201), 4.0, uint64(0), uint64(8589934592), nil, nil}},
		},
		{
			name: "one bad element, row 17", read: containers, misfits: []string{"[0].cpus", "[1].vmid", "[2]"},
			data: `[{"vmid":200,"cpus":{}},{"vmid":"x","disk":5},7,{"vmid":201}]`,
			want: []any{row{int64(200), nil, nil, nil, nil, nil}, row{int64(0), nil, uint64(5), nil, nil, nil}, row{int64(0), nil, nil, nil, nil, nil}, row{int64(201), nil, nil, nil, nil, nil}},
		},
		{
			name: "disks that spin and disks that do not, row 19", read: disks,
			data: `[{"devpath":"/dev/sda","rpm":"5400","wearout":"N/A","osdid-list":null,"osdid":-1,"size":4000787030016,"gpt":1},{"devpath":"/dev/nvme0n1","rpm":0,"wearout":99,"osdid-list":[1,"2"],"osdid":"1","size":"1e12","gpt":"0"},{"devpath":"/dev/sdb","rpm":-1,"wearout":null}]`,
			want: []any{row{"/dev/sda", "5400", "N/A", 0, int64(-1), uint64(4000787030016), true}, row{"/dev/nvme0n1", "0", "99", 2, int64(1), uint64(1e12), false}, row{"/dev/sdb", "-1", nil, 0, int64(0), uint64(0), false}},
		},
		{
			name: "no status of the monitor in lists, row 29", data: `[{"vmid":1,"status":"running"}]`,
			read: each((*pve.Client).ListVMs, func(v pve.VMListItem) any { return short(v.Status, v.QMPStatus) }), want: []any{row{"running", nil}},
		},
		{
			name: "nodes of a zone, row 30", read: zones,
			data: `[{"zone":"a","nodes":"pve1,pve2","mtu":"1450"},{"zone":"b","nodes":["pve1","pve2"],"peers":"192.0.2.1 192.0.2.2","tag":"5"},{"zone":"c","nodes":"","mtu":null},{"zone":"d","nodes":null}]`,
			want: []any{row{"a", "pve1 pve2", "", int64(1450), nil}, row{"b", "pve1 pve2", "192.0.2.1 192.0.2.2", nil, int64(5)}, row{"c", "", "", nil, nil}, row{"d", "", "", nil, nil}},
		},
		{
			name: "keys that differ in case, row 27", data: `[{"storage":"local","STORAGE":"x","Storage":"y","Total":1}]`,
			read: each((*pve.Client).ListNodeStorages, func(s pve.NodeStorageListItem) any { return short(s.Storage, s.Total, s.Extra["STORAGE"]) }),
			want: []any{row{"local", nil, `"x"`}},
		},
		{
			name: "guest on a node that is away, row 115", read: resources,
			data: `[{"id":"qemu/100","type":"qemu","node":"pve2","vmid":100,"status":"unknown"},{"id":"lxc/101","type":"lxc","node":"pve1","vmid":"101","name":42,"status":"running","tags":"a,b;c d","template":0,"maxdisk":"8e9","cpu":0},{"id":"node/pve2","type":"node","node":"pve2","status":"offline"},{"id":"storage/pve1/data","type":"storage","node":"pve1"}]`,
			want: []any{
				row{"qemu/100", "qemu", "pve2", int64(100), nil, "unknown", "", nil, nil, nil},
				row{"lxc/101", "lxc", "pve1", int64(101), "42", "running", "a b c d", false, uint64(8e9), 0.0},
				row{"node/pve2", "node", "pve2", nil, nil, "offline", "", nil, nil, nil},
				row{"storage/pve1/data", "storage", "pve1", nil, nil, nil, "", nil, nil, nil},
			},
		},
		{
			name: "pending changes, row 42", read: pending,
			data: `[{"key":"cores","value":2,"pending":"4"},{"key":"net1","delete":1},{"key":"memory","value":"512"},{"key":"tags","pending":"a;b"},{"key":"net2","value":"x","delete":"2"}]`,
			want: []any{row{"cores", "2", "4", nil}, row{"net1", nil, nil, int64(1)}, row{"memory", "512", nil, nil}, row{"tags", nil, "a;b", nil}, row{"net2", "x", nil, int64(2)}},
		},
		{
			name: "the present among the snapshots", data: `[{"name":"current","description":"You are here!","digest":"d","running":1,"parent":"s1"},{"name":42,"description":"a\nb\n","snaptime":"1700000000","vmstate":"1"},{"name":"x","description":""}]`,
			read: each((*pve.Client).ListVMSnapshots, func(s pve.VMSnapshotListItem) any {
				return short(s.Name, s.Description, s.SnapTime, s.VMState, s.Running, s.Parent)
			}),
			want: []any{row{"current", "You are here!", nil, nil, true, "s1"}, row{"42", "a\nb\n", int64(1700000000), true, nil, nil}, row{"x", "", nil, nil, nil, nil}},
		},

		// Config texts.
		{
			name: "devices with high numbers, row 31", data: `{"net31":"virtio","scsi30":"a:1","unused255":"b:2","virtio15":"c:3","usb4":"spice","scsihw":"virtio-scsi-pci","numa":1,"numa0":"cpus=0-1","serial0":"socket","bootdisk":"scsi0","net":"x","net01":"virtio"}`,
			read: vmConfig(func(c *pve.VMConfig) any {
				return short(len(c.Net), c.Net[31].Model, c.SCSI[30].File, c.Unused[255].File, c.VirtIO[15].File, len(c.USB), c.SCSIHW, c.NUMA, c.NUMANodes[0].CPUs, c.Serial[0], c.Extra["net"], c.Extra["net01"])
			}), want: row{1, "virtio", "a:1", "b:2", "c:3", 1, "virtio-scsi-pci", true, "0-1", "socket", `"x"`, `"virtio"`},
		},
		{
			name: "mount points with high numbers, rows 31 and 37", data: `{"mp255":"local:1,mp=/a,size=8G","mp0":"/srv,mp=/b,ro=1","dev3":"/dev/net/tun,mode=0666","net0":"name=eth0,bridge=vmbr0,ip=dhcp","rootfs":"data:100/vm-100-disk-0.raw,size=4G"}`,
			read: containerConfig(func(c *pve.ContainerConfig) any {
				return short(c.MP[255].Volume, c.MP[255].MP, c.MP[255].Size, c.MP[0].Volume, c.MP[0].RO, c.Dev[3].Path, c.Net[0].IP, c.RootFS.Size)
			}), want: row{"local:1", "/a", "8G", "/srv", true, "/dev/net/tun", "dhcp", "4G"},
		},
		{
			name: "passed-through devices, row 32", data: `{"hostpci0":"0000:81:00.2","hostpci1":"host=0000:81:00.2;0000:81:00.3,pcie=1","hostpci2":"mapping=gpu,x-vga=on","hostpci15":"01:00,rombar=0"}`,
			read: vmConfig(func(c *pve.VMConfig) any {
				return short(c.HostPCI[0].Host, c.HostPCI[1].Host, c.HostPCI[1].Pcie, c.HostPCI[2].Mapping, c.HostPCI[2].XVGA, c.HostPCI[2].Host, c.HostPCI[15].ROMBar)
			}), want: row{"0000:81:00.2", "0000:81:00.2 0000:81:00.3", true, "gpu", true, "", false},
		},
		{
			name: "sizes in every unit, rows 33, 34 and 36", data: `{"efidisk0":"local-lvm:vm-1-disk-0,efitype=4m,pre-enrolled-keys=1,size=528K","scsi0":"a:b,size=3907018584K","scsi1":"a:c,size=4T","tpmstate0":"a:d,size=4M,version=v2.0"}`,
			read: vmConfig(func(c *pve.VMConfig) any {
				var bytes row
				for _, size := range []*string{c.EFIDisk0.Size, c.SCSI[0].Size, c.SCSI[1].Size, c.TPMState0.Size} {
					n, err := pve.ParseSize(*size)
					bytes = append(bytes, n, err)
				}
				return append(bytes, c.EFIDisk0.String())
			}), want: row{int64(540672), nil, int64(4000787030016), nil, int64(4398046511104), nil, int64(4 << 20), nil, "local-lvm:vm-1-disk-0,efitype=4m,pre-enrolled-keys=1,size=528K"},
		},
		{
			name: "volume on a storage with a dot, row 35", data: `{"scsi1":"volumes.hdd:base-269-disk-0"}`,
			read: vmConfig(func(c *pve.VMConfig) any {
				v, err := pve.ParseVolumeID(c.SCSI[1].File)
				return row{v.Storage, v.Name, c.SCSI[1].Format, err}
			}), want: row{"volumes.hdd", "base-269-disk-0", (*string)(nil), nil},
		},
		{
			name: "raw container keys, row 37", data: `{"lxc":[["lxc.idmap","u 0 100000 65536"],["lxc.idmap","g 0 100000 65536"],["lxc.x",1]],"hostname":123}`,
			read: containerConfig(func(c *pve.ContainerConfig) any { return short(len(c.LXC), c.LXC[1], c.LXC[2], c.Hostname) }),
			want: row{3, "lxc.idmap g 0 100000 65536", "lxc.x 1", "123"},
		},
		{
			name: "tags by whatever separates them, rows 38 and 39", read: vms,
			data: `[{"vmid":1,"tags":"a;m;z"},{"vmid":2,"tags":"a,m z"},{"vmid":3,"tags":" "},{"vmid":4,"tags":";"},{"vmid":5,"tags":["a","b"]},{"vmid":6,"tags":null}]`,
			want: []any{
				row{int64(1), nil, nil, nil, "a m z", nil, nil, nil, nil},
				row{int64(2), nil, nil, nil, "a m z", nil, nil, nil, nil},
				row{int64(3), nil, nil, nil, "", nil, nil, nil, nil},
				row{int64(4), nil, nil, nil, "", nil, nil, nil, nil},
				row{int64(5), nil, nil, nil, "a b", nil, nil, nil, nil},
				row{int64(6), nil, nil, nil, "", nil, nil, nil, nil},
			},
		},
		{
			name: "content of a storage, row 39", data: `[{"content":"iso,vztmpl"},{"content":"images"},{"content":""},{"content":"none"}]`,
			read: each((*pve.Client).ListNodeStorages, func(s pve.NodeStorageListItem) any { return short(s.Content) }),
			want: []any{row{"iso vztmpl"}, row{"images"}, row{""}, row{"none"}},
		},
		{
			name: "description with its newline, rows 40 and 41", data: `{"description":"é ✓ — % : \u00fc\n\ttab\n","name":42,"tags":"ä","ciuser":"\ud83d\ude00"}`,
			read: vmConfig(func(c *pve.VMConfig) any { return short(c.Description, c.Name, c.Tags, c.CIUser) }),
			want: row{"é ✓ — % : ü\n\ttab\n", "42", "ä", "😀"},
		},
		{
			name: "keys that are no secrets", data: `{"sshkeys":"ssh-ed25519%20AAAA%2Bb%2Fc%3D%20a%40b%0Assh-rsa%20BBBB%0A","cipassword":"**********"}`,
			read: vmConfig(func(c *pve.VMConfig) any { return row{c.SSHKeys, *c.CIPassword} }),
			want: row{[]string{"ssh-ed25519 AAAA+b/c= a@b", "ssh-rsa BBBB"}, "**********"},
		},
		{
			name: "properties that nobody knows", data: `{"net0":"virtio=BC:24:11:00:00:01,bridge=vmbr0,later=7,queues=x","scsi0":"a:b,size=1G,new_option=on"}`, misfits: []string{"net0.queues"},
			read: vmConfig(func(c *pve.VMConfig) any {
				return short(c.Net[0].Bridge, c.Net[0].Extra["later"], c.Net[0].Queues, c.Net[0].String(), c.SCSI[0].Extra["new_option"])
			}), want: row{"vmbr0", "7", nil, "virtio=BC:24:11:00:00:01,bridge=vmbr0,later=7,queues=x", "on"},
		},

		// Identifiers and other endpoints.
		{name: "next VMID in text, row 101", data: `"218"`, read: one((*pve.Client).GetNextVMID, func(id int64) any { return id }), want: int64(218)},
		{name: "next VMID as a number, row 101", data: `218`, read: one((*pve.Client).GetNextVMID, func(id int64) any { return id }), want: int64(218)},
		{
			name: "task of long ago", data: `{"upid":"UPID:n1:00000ACD:1FFFFFFFF:679A423B:qmclone:112:ops@pve!ci:","pid":"2765","pstart":8589934591,"starttime":"1738162747","status":"stopped","exitstatus":"OK","tokenid":"ci","id":112}`,
			read: one((*pve.Client).GetTaskStatus, func(s *pve.TaskStatus) any {
				return short(s.PID, s.PStart, s.StartTime, s.ExitStatus, s.TokenID, s.ID)
			}), want: row{int64(2765), int64(8589934591), int64(1738162747), "OK", "ci", "112"},
		},
		{
			name: "tasks in the archive and out of it", data: `[{"upid":"U","saved":"0","status":"RUNNING","pid":1,"tokenid":"t0"},{"upid":"V","saved":"1","endtime":"5"}]`,
			read: each((*pve.Client).ListTasks, func(s pve.TaskListItem) any { return short(s.Saved, s.Status, s.TokenID, s.EndTime) }),
			want: []any{row{false, "RUNNING", "t0", nil}, row{true, nil, nil, int64(5)}},
		},
		{
			name: "enabled on a node, row 112", data: `[{"storage":"a","enabled":1},{"storage":"b","enabled":"0"},{"storage":"c"}]`,
			read: each((*pve.Client).ListNodeStorages, func(s pve.NodeStorageListItem) any { return s.IsEnabled() }), want: []any{true, false, true},
		},
		{
			name: "disabled in the cluster, row 112", data: `[{"storage":"a"},{"storage":"b","disable":1},{"storage":"c","disable":"0"}]`,
			read: each((*pve.Client).ListStorages, func(s pve.Storage) any { return s.IsEnabled() }), want: []any{true, false, true},
		},
		{
			name: "version with quotes inside, row 114", data: `{"version":"9.0.4","release":9.0,"repoid":42}`,
			read: func(ctx context.Context, c *pve.Client) (any, error) {
				v, err := c.GetVersion(ctx)
				if err != nil {
					return nil, err
				}
				return row{v.Version, v.Release, v.RepoID}, nil
			}, want: row{"9.0.4", "9.0", "42"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var misfits []string
			client, _ := newFactsClient(t, always(resttest.ReplyData(tt.data)), pve.WithOnMisfit(func(m pve.Misfit) { misfits = append(misfits, m.Field) }))
			got, err := tt.read(t.Context(), client)
			require.NoError(t, err)
			assert.Equal(t, tt.want, got)
			assert.Equal(t, tt.misfits, misfits)
		})
	}
}

// TestStandaloneNode: a node in no cluster must not pass for a cluster without quorum,
// row 113.
func TestStandaloneNode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		data string
		want *bool
	}{
		{name: "alone", data: `[{"type":"node","id":"node/pve1","name":"pve1","online":1,"local":1,"nodeid":0}]`},
		{name: "cluster", data: `[{"type":"node","id":"node/pve1","name":"pve1","online":"1"},{"type":"cluster","id":"cluster","name":"lab","quorate":1,"nodes":"3","version":"7"}]`, want: new(true)},
		{name: "cluster without quorum", data: `[{"type":"cluster","id":"cluster","name":"lab","quorate":"0"}]`, want: new(false)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client, _ := newFactsClient(t, always(resttest.ReplyData(tt.data)))
			status, err := client.ListClusterStatus(t.Context())
			require.NoError(t, err)
			cluster := pve.ClusterOf(status)
			if tt.want == nil {
				assert.Nil(t, cluster)
				return
			}
			require.NotNil(t, cluster)
			assert.Equal(t, tt.want, cluster.Quorate)
		})
	}
}
