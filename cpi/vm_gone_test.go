package cpi_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi"
	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve/pvetest"
)

func (b *bed) isos() []string {
	var out []string
	for _, v := range b.srv.Volumes("iso") {
		if strings.HasSuffix(v.ID, ".iso") {
			out = append(out, v.ID)
		}
	}
	return out
}

// A VM that is not here may well be on another cluster that has the same storage.
func TestDeleteVMOfAnotherClusterChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	vm, id := b.vm(b.stemcell())
	b.srv.DropVM(id)
	require.Len(t, b.isos(), 1)
	before := b.srv.Snapshot()

	cfg := b.cfg
	cfg.LockDir = t.TempDir()
	elsewhere := b.open(cfg, "dir-a")
	// The directory of locks alone does not tell two clusters apart.
	cfg = b.cfg
	cfg.Endpoints = append(slices.Clone(cfg.Endpoints), strings.Replace(b.srv.URL(), "127.0.0.1", "localhost", 1))
	for _, c := range []*cpi.CPI{elsewhere, b.open(cfg, "dir-a")} {
		b.srv.ResetRequests()
		require.NoError(t, c.DeleteVM(ctx, vm))
		assert.Empty(t, b.writes())
		assert.Equal(t, before, b.srv.Snapshot())
	}

	b.srv.ResetRequests()
	require.NoError(t, b.DeleteVM(ctx, vm))
	assert.LessOrEqual(t, len(b.requests()), 5, "%q", b.requests())
	assert.Empty(t, b.isos(), "this machine made the VM, so the ISO is its own")
	b.srv.ResetRequests()
	require.NoError(t, b.DeleteVM(ctx, vm))
	assert.Empty(t, b.writes())
}

func TestVMIDInUseOutsideThePool(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	vm, id := b.vm(b.stemcell())
	g := b.guest(id)

	t.Run("by the VM, which was taken out of it", func(t *testing.T) {
		require.NoError(t, b.srv.EditVM(id, func(g *pvetest.VM) { g.Pool = "" }))
		_, err := b.HasVM(ctx, vm)
		class(t, err, rpc.ClassCloudError, "VMID "+strconv.Itoa(id), "not in pool "+poolName, "put it back")
		class(t, b.DeleteVM(ctx, vm), rpc.ClassCloudError, "put it back")
		assert.Equal(t, g.Config, b.guest(id).Config)
		require.NoError(t, b.srv.EditVM(id, func(g *pvetest.VM) { g.Pool = poolName }))
		assert.True(t, got(b.HasVM(ctx, vm))(t))
	})
	t.Run("by another guest", func(t *testing.T) {
		require.NoError(t, b.DeleteVM(ctx, vm))
		require.NoError(t, b.srv.AddVM(id, pvetest.VM{Node: "n2", Config: map[string]string{"name": "hidden"}}))
		before := b.srv.Snapshot()
		assert.False(t, got(b.HasVM(ctx, vm))(t))
		require.NoError(t, b.DeleteVM(ctx, vm))
		class(t, b.SetVMMetadata(ctx, vm, rpc.Metadata{"job": "web"}), rpc.ClassVMNotFound)
		assert.Equal(t, before, b.srv.Snapshot())
	})
}
