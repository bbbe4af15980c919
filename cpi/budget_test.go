package cpi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve/pvetest"
)

// Requests per call, task polls aside, whatever else lives on the cluster.
func TestRequestBudgets(t *testing.T) {
	t.Parallel()
	for _, others := range []int{0, 2000} {
		t.Run(fmt.Sprintf("%d other guests", others), func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			ctx := t.Context()
			stemcell := b.stemcell()
			for i := range others {
				vm := pvetest.VM{Node: fmt.Sprintf("n%d", 1+i%3), Config: map[string]string{"name": fmt.Sprintf("other-%d", i), "tags": "prod"}}
				if i%2 == 0 {
					vm.Pool = poolName
				}
				require.NoError(t, b.srv.AddVM(10000+i, vm))
			}
			within := func(most int, what string, call func() error) {
				t.Helper()
				b.srv.ResetRequests()
				require.NoError(t, call(), what)
				requests := b.requests()
				assert.LessOrEqual(t, len(requests), most, "%s: %s", what, strings.Join(requests, "\n"))
				t.Logf("%s: %d requests, at most %d", what, len(requests), most)
			}
			var vm rpc.VMCID
			create := func(properties string, disks ...rpc.DiskCID) func() error {
				return func() (err error) {
					vm, _, err = b.CreateVM(ctx, order(stemcell, "agent", properties, disks...))
					return err
				}
			}
			disk := b.disk("")
			within(8, "create_vm with everything", create(
				`{"cpu":2,"ram":2048,"root_disk":{"size":10240},"ephemeral_disk":{"size":4096},"cache":"writeback"}`, disk))
			require.NoError(t, b.DeleteVM(ctx, vm))
			within(8, "create_vm with a larger root disk", create(
				`{"cpu":2,"ram":2048,"root_disk":{"size":10240},"ephemeral_disk":{"size":4096}}`, disk))
			require.NoError(t, b.DeleteVM(ctx, vm))
			within(7, "create_vm", create(smallVM, disk))
			within(1, "has_vm, present", func() error { _, err := b.HasVM(ctx, vm); return err })
			within(2, "has_vm, absent", func() error {
				there, err := b.HasVM(ctx, "vm-9999-abcdefghijkl")
				assert.False(t, there)
				return err
			})
			within(4, "attach_disk", func() error { _, err := b.AttachDisk(ctx, vm, disk); return err })
			within(3, "detach_disk", func() error { return b.DetachDisk(ctx, vm, disk) })
			_, err := b.AttachDisk(ctx, vm, disk)
			require.NoError(t, err)
			within(5, "delete_vm with a disk attached", func() error { return b.DeleteVM(ctx, vm) })
			require.NoError(t, create(smallVM)())
			within(5, "delete_vm", func() error { return b.DeleteVM(ctx, vm) })
			require.NoError(t, create(smallVM)())
			b.cfg.LockDir = t.TempDir()
			b.CPI = b.open(b.cfg, "dir-a")
			within(5, "delete_vm on another machine", func() error { return b.DeleteVM(ctx, vm) })
		})
	}
}
