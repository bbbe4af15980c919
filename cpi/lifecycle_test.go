package cpi_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi/rpc"
)

// The order of bosh create-env: first deploy, recreate with the disk still
// attached, a bigger disk with two attached at once, a new stemcell, delete-env.
func TestCreateEnvLifecycle(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()

	stemcell := b.stemcell()
	vm, id := b.vm(stemcell)
	require.NoError(t, b.SetVMMetadata(ctx, vm, rpc.Metadata{"director": "d", "deployment": "dep", "job": "bosh", "index": "0"}))
	disk := b.disk(vm)
	hint := got(b.AttachDisk(ctx, vm, disk))(t)
	assert.Equal(t, rpc.DiskHint{"path": "/dev/disk/by-id/virtio-" + string(disk)}, hint)
	require.NoError(t, b.SetDiskMetadata(ctx, disk, rpc.Metadata{"deployment": "dep", "attached_at": "2026-12-01T00:00:00Z"}))
	assert.Contains(t, b.guest(id).Config["virtio2"], "serial="+string(disk))

	// Recreate without detaching.
	assert.True(t, got(b.HasVM(ctx, vm))(t))
	require.NoError(t, b.DeleteVM(ctx, vm))
	assert.False(t, got(b.HasVM(ctx, vm))(t))
	assert.True(t, got(b.HasDisk(ctx, disk))(t))
	vm, _, err := b.CreateVM(ctx, order(stemcell, "agent-2", smallVM, disk))
	require.NoError(t, err)
	_, err = b.AttachDisk(ctx, vm, disk)
	require.NoError(t, err)

	// A bigger disk: two attached at once.
	bigger, err := b.CreateDisk(ctx, 20480, raw(`{}`), vm)
	require.NoError(t, err)
	_, err = b.AttachDisk(ctx, vm, bigger)
	require.NoError(t, err)
	assert.ElementsMatch(t, []rpc.DiskCID{disk, bigger}, got(b.GetDisks(ctx, vm))(t))
	require.NoError(t, b.DetachDisk(ctx, vm, disk))
	require.NoError(t, b.DeleteDisk(ctx, disk))
	assert.False(t, got(b.HasDisk(ctx, disk))(t))

	// A new stemcell.
	next, err := b.CreateStemcell(ctx, b.image(6*gib), raw(`{"name":"s","version":"2"}`), nil)
	require.NoError(t, err)
	require.NoError(t, b.DeleteVM(ctx, vm))
	vm, _, err = b.CreateVM(ctx, order(next, "agent-3", smallVM, bigger))
	require.NoError(t, err)
	_, err = b.AttachDisk(ctx, vm, bigger)
	require.NoError(t, err)
	require.NoError(t, b.DeleteStemcell(ctx, stemcell))

	// delete-env.
	require.NoError(t, b.DeleteVM(ctx, vm))
	require.NoError(t, b.DeleteDisk(ctx, bigger))
	require.NoError(t, b.DeleteStemcell(ctx, next))
	assert.Empty(t, b.srv.VMIDs())
	assert.Empty(t, b.srv.Volumes(""))
}
