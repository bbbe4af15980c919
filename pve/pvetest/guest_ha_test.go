package pvetest

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestHighAvailability(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run([]step{
		{"POST ~", "vmid=930&kvm=0&ha-managed=1", "task OK"},
		{"POST ~/930/status/start", "", "task OK"},
	})
	cur := l.get("/nodes/pve1/qemu/930/status/current")
	assert.Equal(t, "stopped", cur["status"], "a request is not a start")
	assert.EqualValues(t, "1", cur["ha"].(map[string]any)["managed"])
	assert.Equal(t, []int{930}, l.s.RunHA())
	assert.Equal(t, "running", l.get("/nodes/pve1/qemu/930/status/current")["status"])
	assert.Empty(t, l.s.RunHA())
	l.run([]step{{"POST ~/930/status/stop", "", "task OK"}})
	assert.Equal(t, []int{930}, l.s.RunHA())
	l.run([]step{
		{"DELETE ~/930", "", "500 unable to remove VM 930 - used in HA resources and purge parameter not set."},
		{"PUT /cluster/ha/resources/vm:930", "state=ignored", ""},
		{"POST ~/930/status/start", "", "task OK"},
	})
	vm, _ := l.s.VM(930)
	assert.True(t, vm.Running, "an ignored resource is started as any guest")
	l.run([]step{{"POST ~/930/status/stop", "", "task OK"}})
	log := l.done("DELETE", "/nodes/pve1/qemu/930", "purge=1")
	assert.Contains(t, log, "NOTE: removed VM 930 from HA resource configuration.")
	l.run([]step{{"GET /cluster/ha/resources/vm:930", "", "500 no such resource 'vm:930'"}})
}
