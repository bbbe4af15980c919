package pvetest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkManyGuests shows what calls cost on a cluster with 2,000 guests.
func BenchmarkManyGuests(b *testing.B) {
	s, err := New(WithSeed(1))
	require.NoError(b, err)
	defer s.Close()
	for i := range 2000 {
		require.NoError(b, s.AddVM(1000+i, VM{Config: map[string]string{
			"name": fmt.Sprintf("vm-%d", i), "tags": "a;b", "virtio0": "local:1", "net0": "virtio,bridge=vmbr0",
		}}))
	}
	calls := []struct {
		name string
		vars map[string]string
		op   string
		p    params
	}{
		{"list", nil, "GET /nodes/{node}/qemu", params{}},
		{"resources", nil, "GET /cluster/resources", params{}},
		{"content", map[string]string{"storage": "local"}, "GET /nodes/{node}/storage/{storage}/content", params{}},
		{"config", map[string]string{"vmid": "1500"}, "GET /nodes/{node}/qemu/{vmid}/config", params{}},
		{"attach", map[string]string{"vmid": "1500"}, "PUT /nodes/{node}/qemu/{vmid}/config", params{"vmid": value{text: "1500"}, "virtio1": value{text: "local:1"}}},
	}
	for _, bc := range calls {
		b.Run(bc.name, func(b *testing.B) {
			for b.Loop() {
				s.mu.Lock()
				c := s.inside("pve1")
				c.vars, c.p = bc.vars, bc.p
				data, err := s.reg.handlers[s.reg.byName[bc.op]](c)
				require.NoError(b, err)
				_, err = freeze(data)
				require.NoError(b, err)
				s.mu.Unlock()
			}
		})
	}
}
