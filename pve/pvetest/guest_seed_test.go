package pvetest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestContainers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	require.NoError(t, l.s.AddContainer(100, "pve1", "ct"))
	assert.Equal(t, "101", l.ok("GET", "/cluster/nextid", ""))
	assert.Empty(t, l.list("/nodes/pve1/qemu"))
	rows := l.list("/nodes/pve1/lxc")
	require.Len(t, rows, 1)
	assert.Equal(t, "ct", rows[0]["name"])
	rows = l.list("/cluster/resources?type=vm")
	require.Len(t, rows, 1)
	assert.Equal(t, "lxc/100", rows[0]["id"])
	l.run([]step{
		{"POST ~", "vmid=100", "500 unable to create VM 100 - CT 100 already exists on node 'pve1'"},
		{"GET ~/100/config", "", "500 Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist"},
		{"POST ~/100/status/stop", "", "task Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist"},
		{"POST ~/100/clone", "newid=101", "500 unable to find configuration file for VM 100 on node 'pve1'"},
		{"POST /nodes/pve1/stopall", "", "task OK"},
	})
}

func TestSeededVM(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	require.NoError(t, l.s.AddVM(100, VM{Running: true, Config: map[string]string{"net0": "virtio,bridge=vmbr0", "scsi0": "local:2"}}))
	conf := l.config("100")
	assert.Regexp(t, `^virtio=BC:24:11:..:..:..,bridge=vmbr0$`, conf["net0"])
	row := l.list("/nodes/pve1/qemu")[0]
	assert.EqualValues(t, "2147483648", row["maxdisk"])
	assert.NotEqualValues(t, "0", row["pid"])
	require.NoError(t, l.s.AddVM(200, VM{Config: map[string]string{"template": "1", "scsi0": "local:2,format=qcow2"}}))
	l.run([]step{
		{"POST ~/200/clone", "newid=201", "task OK"},
		{"DELETE ~/200", "", "task base volume 'local:200/base-200-disk-0.qcow2' is still in use by linked cloned"},
	})
}
