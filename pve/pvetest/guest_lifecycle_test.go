package pvetest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestStemcellSteps walks the way of a stemcell and a VM step by step.
func TestStemcellSteps(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.addData()

	a := l.upload("data", "bosh-stemcell-abc.qcow2", qcow2(300<<20), "content", "import")
	require.Equal(t, 200, a.status, a.reason)
	assert.Contains(t, a.data, ":imgcopy::")
	exit, _ := l.ended(a.data.(string))
	require.Equal(t, "OK", exit)

	l.done("POST", "/nodes/pve1/qemu", "vmid=200&name=sc&virtio0=data:0,import-from=data:import/bosh-stemcell-abc.qcow2,serial=bosh-system,discard=on&tags=stem")
	assert.Equal(t, "data:200/vm-200-disk-0.qcow2,discard=on,serial=bosh-system,size=300M", l.config("200")["virtio0"])
	l.done("POST", "/nodes/pve1/qemu/200/template", "")
	assert.Equal(t, "data:200/base-200-disk-0.qcow2,discard=on,serial=bosh-system,size=300M", l.config("200")["virtio0"])
	l.done("DELETE", "/nodes/pve1/storage/data/content/data:import/bosh-stemcell-abc.qcow2", "")

	l.done("POST", "/nodes/pve1/qemu/200/clone", "newid=300&name=vm-300")
	conf := l.config("300")
	assert.Equal(t, map[string]any{
		"name": "vm-300", "tags": "stem", "boot": "order=virtio0",
		"virtio0": "data:200/base-200-disk-0.qcow2/300/vm-300-disk-0.qcow2,discard=on,serial=bosh-system,size=300M",
	}, conf)

	a = l.upload("data", "vm-300-config.iso", make([]byte, 65536), "content", "iso")
	require.Equal(t, 200, a.status)
	l.ok("PUT", "/nodes/pve1/qemu/300/config", "memory=1024&cores=2&net0=virtio=bc:24:11:00:00:01,bridge=vmbr0&ide2=data:iso/vm-300-config.iso,media=cdrom&virtio1=data:1,serial=bosh-ephemeral&tags=b;a&onboot=0&description=d")
	assert.Equal(t, map[string]any{
		"name": "vm-300", "tags": "a;b", "boot": "order=virtio0;ide2", "memory": "1024", "cores": 2, "onboot": 0, "description": "d",
		"net0":    "virtio=BC:24:11:00:00:01,bridge=vmbr0",
		"ide2":    "data:iso/vm-300-config.iso,media=cdrom,size=64K",
		"virtio0": "data:200/base-200-disk-0.qcow2/300/vm-300-disk-0.qcow2,discard=on,serial=bosh-system,size=300M",
		"virtio1": "data:300/vm-300-disk-1.raw,serial=bosh-ephemeral,size=1G",
	}, l.config("300"))

	l.done("PUT", "/nodes/pve1/qemu/300/resize", "disk=virtio0&size=1G")
	l.done("POST", "/nodes/pve1/qemu/300/status/start", "")
	cur := l.get("/nodes/pve1/qemu/300/status/current")
	assert.Equal(t, "running", cur["status"])

	data, err := l.s.VolumeBytes("data:200/base-200-disk-0.qcow2/300/vm-300-disk-0.qcow2")
	require.NoError(t, err)
	assert.Equal(t, qcow2(300<<20), data)

	exit, _ = l.task("DELETE", "/nodes/pve1/qemu/200", "")
	assert.Equal(t, "base volume 'data:200/base-200-disk-0.qcow2' is still in use by linked cloned", exit)
	l.done("POST", "/nodes/pve1/qemu/300/status/stop", "")
	l.done("DELETE", "/nodes/pve1/qemu/300", "purge=1")
	l.done("DELETE", "/nodes/pve1/qemu/200", "")
	l.done("DELETE", "/nodes/pve1/storage/data/content/data:iso%2Fvm-300-config.iso", "")
	assert.Empty(t, l.s.Volumes(""))
}
