package pvetest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestConfigRefusals(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.addData()
	l.run([]step{
		{"POST ~", "vmid=100&memory=256&scsi0=data:1", "task OK"},
		{"POST ~", "vmid=100", "500 unable to create VM 100 - VM 100 already exists on node 'pve1'"},
		{"POST ~", "vmid=101&scsi0=nostore:1", "500 storage 'nostore' does not exist"},
		{"POST ~", "vmid=101&archive=data:backup/none.vma.zst", "500 volume 'data:backup/none.vma.zst' does not exist"},
		{"POST ~", "vmid=101&ide2=data:iso/none.iso,media=cdrom", "task unable to create VM 101 - volume 'data:iso/none.iso' does not exist"},
		{"POST ~", "vmid=101&scsi0=data:2,import-from=data:100/vm-100-disk-0.raw", "400 scsi0: 'import-from' requires special syntax - use <storage ID>:0,import-from=<source>"},
		{"GET ~/4711/config", "", "500 Configuration file 'nodes/pve1/qemu-server/4711.conf' does not exist"},
		{"PUT ~/100/config", "", "500 no options specified"},
		{"POST ~/100/config", "", "500 no options specified"},
		{"PUT ~/100/config", "name=x&digest=0000000000000000000000000000000000000000", "500 checksum mismatch (file change by other user?)"},
		{"POST ~/100/config", "name=x&digest=0000000000000000000000000000000000000000", "500 checksum mismatch (file change by other user?)"},
		{"PUT ~/100/config", "delete=nosuch", "400 delete: unknown option 'nosuch'"},
		{"PUT ~/100/config", "delete=digest", "400 delete: unknown option 'digest'"},
		{"PUT ~/100/config", "delete=net5,scsi9,sshkeys", ""},
		{"PUT ~/100/config", "name=a&delete=name", "400 delete: you can't use '-name' and -delete name' at the same time"},
		{"PUT ~/100/config", "boot=order=scsi9", "500 invalid bootorder: device 'scsi9' does not exist'"},
		{"PUT ~/100/config", "balloon=512", "500 balloon value too large (must be smaller than assigned memory)"},
		{"PUT ~/100/config", "machine=pc,viommu=intel", "500 to use Intel vIOMMU please set the machine type to q35"},
		{"PUT ~/100/config", "hookscript=nope:snippets/x.pl", "400 hookscript: storage 'nope' does not exist"},
		{"PUT ~/100/config", "hookscript=local:snippets/x.pl", "400 hookscript: script 'local:snippets/x.pl' does not exist"},
		{"PUT ~/100/config", "hookscript=local:iso/x.pl", "400 hookscript: unable to parse directory volume name 'iso/x.pl'"},
		{"PUT ~/100/config", "args=-foo", "500 only root can set 'args' config"},
		{"PUT ~/100/config", "lock=backup", "500 only root can set 'lock' config"},
		{"PUT ~/100/config", "delete=meta", "500 only root can set 'meta' config"},
		{"PUT ~/100/config", "delete=lock", "500 only root can set 'lock' config"},
		{"PUT ~/100/config", "vmgenid=1", "500 only root can set 'vmgenid' config"},
		{"PUT ~/100/config", "hostpci0=0000:01:00.0", "500 only root can set 'hostpci0' config for non-mapped devices"},
		{"PUT ~/100/config", "hostpci0=mapping=gpu1", ""},
		{"PUT ~/100/config", "usb0=host=1234:5678", "500 only root can set 'usb0' config for real devices"},
		{"PUT ~/100/config", "usb0=spice", ""},
		{"PUT ~/100/config", "serial1=/dev/ttyS0", "500 only root can modify 'serial1' config for real devices"},
		{"PUT ~/100/config", "skiplock=1&name=x", "400 skiplock: Only root may use this option."},
		{"PUT ~/100/config", "scsi9=data:nosuch", "500 unable to parse directory volume name 'nosuch'"},
		{"PUT ~/100/config", "scsi9=data:100/nosuch.qcow2", "500 volume 'data:100/nosuch.qcow2' does not exist"},
		{"PUT ~/100/config", "scsi11=data:cloudinit", ""},
		{"PUT ~/100/config", "ide3=data:cloudinit", "500 ide3 - cloud-init drive is already attached at 'scsi11'"},
		{"PUT ~/100/config", "scsi12=data:0,import-from=/etc/passwd", "500 Only root can pass arbitrary filesystem paths."},
		{"PUT ~/100/config", "protection=1", ""},
		{"PUT ~/100/config", "delete=scsi0", "500 can't remove drive 'scsi0' - protection mode enabled"},
		{"DELETE ~/100", "", "500 can't remove VM 100 - protection mode enabled"},
	})
}

func TestConfigValues(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.addData()
	l.done("POST", "/nodes/pve1/qemu", "vmid=500&kvm=0")
	tests := []struct {
		name, form string
		want       map[string]any // nil: the key is gone
	}{
		{"tags", "tags=b a,c;B", map[string]any{"tags": "a;b;c"}},
		{"tags gone", "tags=", map[string]any{"tags": nil}},
		{"newlines at the end", "description=l1\nl2: %41\n\n", map[string]any{"description": "l1\nl2: %41"}},
		{"no description", "description=", map[string]any{"description": nil}},
		{"memory as given", "memory=current=128", map[string]any{"memory": "current=128"}},
		{"numbers and texts", "cores=2&cpulimit=1.5&migrate_downtime=0.2&balloon=0", map[string]any{"cores": 2, "cpulimit": "1.5", "migrate_downtime": "0.2", "balloon": 0}},
		{"EFI disk", "efidisk0=data:1,efitype=4m,pre-enrolled-keys=0", map[string]any{"efidisk0": "data:500/vm-500-disk-0.raw,efitype=4m,pre-enrolled-keys=0,size=528K"}},
		{"another EFI disk", "efidisk0=data:0,efitype=4m", map[string]any{"efidisk0": "data:500/vm-500-disk-1.raw,efitype=4m,size=528K", "unused0": "data:500/vm-500-disk-0.raw"}},
		{"TPM state", "tpmstate0=data:1,version=v2.0", map[string]any{"tpmstate0": "data:500/vm-500-disk-2.raw,size=4M,version=v2.0"}},
		{"half a GiB", "scsi3=data:0.5", map[string]any{"scsi3": "data:500/vm-500-disk-3.raw,size=512M"}},
		{"nothing", "scsi4=data:0", map[string]any{"scsi4": "data:500/vm-500-disk-4.raw,size=0T"}},
		{"size is ignored", "scsi4=data:1,size=5G", map[string]any{"scsi4": "data:500/vm-500-disk-5.raw,size=1G", "unused1": "data:500/vm-500-disk-4.raw"}},
		{"sorted keys", "scsi1=data:1,format=qcow2,ssd=1,cache=writeback,discard=on,serial=abc", map[string]any{"scsi1": "data:500/vm-500-disk-6.qcow2,cache=writeback,discard=on,serial=abc,size=1G,ssd=1"}},
		{"cloud-init", "scsi11=data:cloudinit", map[string]any{"scsi11": "data:500/vm-500-cloudinit.qcow2,media=cdrom"}},
		{"same volume, other options", "scsi1=data:500/vm-500-disk-6.qcow2,discard=on", map[string]any{"scsi1": "data:500/vm-500-disk-6.qcow2,discard=on,size=1G", "unused2": nil}},
		{"empty drive", "ide2=none,media=cdrom", map[string]any{"ide2": "none,media=cdrom"}},
		{"detached", "delete=scsi3", map[string]any{"scsi3": nil, "unused2": "data:500/vm-500-disk-3.raw"}},
		{"attached again", "scsi3=data:500/vm-500-disk-3.raw", map[string]any{"scsi3": "data:500/vm-500-disk-3.raw,size=512M", "unused2": nil}},
		{"destroyed", "delete=scsi3&force=1", map[string]any{"scsi3": nil, "unused2": nil}},
		{"unused destroyed", "delete=unused0", map[string]any{"unused0": nil}},
		{"cloud-init destroyed", "delete=scsi11", map[string]any{"scsi11": nil, "unused0": nil}},
	}
	for _, tt := range tests {
		l.ok("PUT", "/nodes/pve1/qemu/500/config", tt.form)
		conf := l.config("500")
		for k, want := range tt.want {
			assert.Equal(t, want, conf[k], "%s: %s", tt.name, k)
		}
	}
	var ids []string
	for _, v := range l.s.Volumes("data") {
		ids = append(ids, v.ID)
	}
	assert.Equal(t, []string{
		"data:500/vm-500-disk-1.raw", "data:500/vm-500-disk-2.raw", "data:500/vm-500-disk-4.raw", "data:500/vm-500-disk-5.raw", "data:500/vm-500-disk-6.qcow2",
	}, ids)
}

// TestForeignVolumes holds what persistent disks rest on: a volume of another
// guest can be attached, and neither detaching it nor destroying the guest
// that borrowed it touches it.
func TestForeignVolumes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.addData()
	l.run([]step{
		{"POST ~", "vmid=900&memory=16&virtio0=data:2,serial=disk-0123456789abcde", "task OK"},
		{"PUT ~/900/config", "template=1&protection=1", ""},
		{"POST ~/900/status/start", "", "task you can't start a vm if it's a template"},
		{"DELETE ~/900", "", "500 can't remove VM 900 - protection mode enabled"},
		{"POST ~", "vmid=101&kvm=0", "task OK"},
		{"POST ~/101/status/start", "", "task OK"},
		{"PUT ~/101/config", "virtio1=data:900/vm-900-disk-0.raw,serial=disk-0123456789abcde", ""},
	})
	assert.Equal(t, "data:900/vm-900-disk-0.raw,serial=disk-0123456789abcde,size=2G", l.config("101")["virtio1"])
	vm, _ := l.s.VM(101)
	assert.Empty(t, vm.Pending)
	l.run([]step{
		// The running guest has the volume open, so only it can change its size.
		{"PUT ~/900/resize", "disk=virtio0&size=3G", "task command '/usr/bin/qemu-img resize '--preallocation=off' -f raw /var/lib/data/images/900/vm-900-disk-0.raw 3221225472' failed: exit code 1"},
		{"PUT ~/101/resize", "disk=virtio1&size=3G", "task OK"},
		{"PUT ~/101/config", "delete=virtio1", ""},
	})
	vm, _ = l.s.VM(101)
	assert.NotContains(t, vm.Config, "unused0")
	assert.Equal(t, "data:900/vm-900-disk-0.raw,serial=disk-0123456789abcde,size=2G", l.config("900")["virtio0"])
	v, ok := l.s.Volume("data:900/vm-900-disk-0.raw")
	assert.True(t, ok)
	assert.Equal(t, 3*gib, v.Size)
	l.run([]step{
		{"PUT ~/101/config", "virtio1=data:900/vm-900-disk-0.raw", ""},
		{"POST ~/101/status/stop", "", "task OK"},
		{"DELETE ~/101", "purge=1&destroy-unreferenced-disks=1", "task OK"},
		{"PUT ~/900/resize", "disk=virtio0&size=+1G", "task OK"},
		{"PUT ~/900/config", "protection=0", ""},
		{"DELETE ~/900", "purge=1", "task OK"},
	})
	assert.Empty(t, l.s.Volumes("data"))
}

func TestPending(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.addData()
	l.done("POST", "/nodes/pve1/qemu", "vmid=720&kvm=0&memory=64&scsihw=virtio-scsi-single&scsi0=data:1,mbps=10")
	l.done("POST", "/nodes/pve1/qemu/720/status/start", "")
	l.run([]step{
		{"PUT ~/720/config", "scsi0=data:720/vm-720-disk-0.raw,mbps=20", ""},
		{"PUT ~/720/config", "memory=128&cores=2&name=x", ""},
	})
	vm, _ := l.s.VM(720)
	assert.Equal(t, "data:720/vm-720-disk-0.raw,mbps=20,size=1G", vm.Config["scsi0"])
	assert.Equal(t, map[string]string{"memory": "128", "cores": "2"}, vm.Pending)
	conf := l.config("720")
	assert.Equal(t, "128", conf["memory"])
	current := l.get("/nodes/pve1/qemu/720/config?current=1")
	assert.Equal(t, "64", current["memory"])
	assert.NotContains(t, current, "cores")

	l.run([]step{
		{"PUT ~/720/config", "scsi0=data:720/vm-720-disk-0.raw,mbps=20,cache=writeback", ""},
		{"PUT ~/720/config", "delete=scsihw", ""},
		{"PUT ~/720/config", "revert=cores", ""},
		{"PUT ~/720/config", "net0=virtio,bridge=nobr9", "400 net0: hotplug problem - VM 720 qmp command 'netdev_add' failed - network script /usr/libexec/qemu-server/pve-bridge-hotplug failed with status 512"},
		{"PUT ~/720/config", "scsi1=data:1", ""},
		{"PUT ~/720/config", "delete=scsi1", ""},
	})
	vm, _ = l.s.VM(720)
	assert.Equal(t, "data:720/vm-720-disk-1.raw", vm.Config["unused0"])
	assert.Equal(t, []string{"scsihw"}, vm.Delete)
	assert.Equal(t, []string{"memory", "net0", "scsi0"}, sortedKeys(vm.Pending))
	rows := map[string]map[string]any{}
	for _, r := range l.list("/nodes/pve1/qemu/720/pending") {
		rows[r["key"].(string)] = r
	}
	assert.Equal(t, "64", rows["memory"]["value"])
	assert.Equal(t, "128", rows["memory"]["pending"])
	assert.EqualValues(t, "1", rows["scsihw"]["delete"])
	assert.NotContains(t, rows["net0"], "value")

	l.run([]step{
		{"PUT ~/720/config", "revert=net0", ""},
		{"POST ~/720/status/stop", "", "task OK"},
		{"POST ~/720/status/start", "", "task OK"},
	})
	vm, _ = l.s.VM(720)
	assert.Empty(t, vm.Pending)
	assert.Equal(t, "128", vm.Config["memory"])
	assert.NotContains(t, vm.Config, "scsihw")

	require.NoError(t, l.s.EditVM(720, func(vm *VM) { vm.NoOS = true }))
	l.run([]step{
		{"PUT ~/720/config", "scsi2=data:1", ""},
		{"PUT ~/720/config", "delete=scsi2", ""}, // one controller for all: the guest is not asked
		{"PUT ~/720/config", "virtio1=data:1", ""},
		{"PUT ~/720/config", "delete=virtio1", "400 virtio1: hotplug problem - error on hot-unplugging device 'virtio1' - still busy in guest?"},
		{"POST ~/720/config", "delete=virtio1", "task 400 Parameter verification failed. virtio1: hotplug problem - error on hot-unplugging device 'virtio1' - still busy in guest?"},
	})
	vm, _ = l.s.VM(720)
	assert.NotContains(t, vm.Config, "scsi2")
	assert.Contains(t, vm.Config, "virtio1")
	assert.Equal(t, []string{"virtio1"}, vm.Delete)
	require.NoError(t, l.s.EditVM(720, func(vm *VM) { vm.Config["scsihw"] = "virtio-scsi-single" }))
	l.run([]step{{"PUT ~/720/config", "delete=scsi0", "400 scsi0: hotplug problem - error on hot-unplugging device 'virtioscsi0' - still busy in guest?"}})
}

// TestHalfAChange holds that what a failing change has done stays pending, and
// goes with the guest.
func TestHalfAChange(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.addData()
	l.run([]step{
		{"POST ~", "vmid=100", "task OK"},
		{"PUT ~/100/config", "scsi0=data:1&scsi1=data:100/none.raw&tags=a", "500 volume 'data:100/none.raw' does not exist"},
	})
	vm, _ := l.s.VM(100)
	assert.Equal(t, map[string]string{"scsi0": "data:100/vm-100-disk-0.raw,size=1G"}, vm.Pending)
	l.run([]step{{"DELETE ~/100", "", "task OK"}})
	assert.Empty(t, l.s.Volumes("data"))
}
