package cpi_test

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi"
	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve/pvetest"
)

// removeTags takes tags off a guest as an operator does.
func (b *bed) removeTags(id int, tags ...string) {
	b.t.Helper()
	require.NoError(b.t, b.srv.EditVM(id, func(g *pvetest.VM) {
		g.Config["tags"] = strings.Join(slices.DeleteFunc(strings.Split(g.Config["tags"], ";"), func(tag string) bool {
			return slices.Contains(tags, tag)
		}), ";")
	}))
}

// attached makes a VM with a disk, and a second VM.
func (b *bed) attached() (vm rpc.VMCID, id int, disk rpc.DiskCID, other rpc.VMCID) {
	b.t.Helper()
	stemcell := b.stemcell()
	vm, id = b.vm(stemcell)
	other, _ = b.vm(stemcell)
	disk = b.disk(vm)
	_, err := b.AttachDisk(b.t.Context(), vm, disk)
	require.NoError(b.t, err)
	return vm, id, disk, other
}

func (b *bed) volumeOf(disk rpc.DiskCID) string {
	b.t.Helper()
	return strings.SplitN(b.guest(b.holder(disk)).Config["virtio0"], ",", 2)[0]
}

func TestHolderThatLostTagsIsFoundAgain(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]func(disk rpc.DiskCID) []string{
		"its CID":       func(disk rpc.DiskCID) []string { return []string{string(disk)} },
		"its kind":      func(rpc.DiskCID) []string { return []string{"bosh-disk"} },
		"both":          func(disk rpc.DiskCID) []string { return []string{"bosh-disk", string(disk)} },
		"all ownership": func(disk rpc.DiskCID) []string { return []string{"bosh", "bosh-disk", string(disk)} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			ctx := t.Context()
			vm, _ := b.vm(b.stemcell())
			disk := b.disk(vm)
			id := b.holder(disk)
			lose := func() { b.removeTags(id, lost(disk)...) }
			lose()
			assert.True(t, got(b.HasDisk(ctx, disk))(t))
			assert.Contains(t, strings.Split(b.guest(id).Config["tags"], ";"), string(disk))
			lose()
			_, err := b.AttachDisk(ctx, vm, disk)
			require.NoError(t, err)
			lose()
			class(t, b.DeleteDisk(ctx, disk), rpc.ClassCloudError, "is attached to VM "+string(vm))
			require.NoError(t, b.DetachDisk(ctx, vm, disk))
			lose()
			require.NoError(t, b.DeleteDisk(ctx, disk))
			assert.NotContains(t, b.srv.VMIDs(), id)
		})
	}
}

func TestDriveThatLostItsSerialIsStillTheDisk(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	vm, id, disk, other := b.attached()
	require.NoError(t, b.srv.EditVM(id, func(g *pvetest.VM) {
		g.Config["virtio2"] = strings.Replace(g.Config["virtio2"], ",serial="+string(disk), "", 1)
	}))
	_, err := b.AttachDisk(ctx, other, disk)
	class(t, err, rpc.ClassCloudError, "is attached to VM "+string(vm), "virtio2")
	class(t, b.DeleteDisk(ctx, disk), rpc.ClassCloudError, "is attached to VM "+string(vm))
	assert.True(t, got(b.HasDisk(ctx, disk))(t))
	assert.Equal(t, []rpc.DiskCID{disk}, got(b.GetDisks(ctx, vm))(t))
	require.NoError(t, b.DetachDisk(ctx, vm, disk))
	assert.NotContains(t, b.guest(id).Config, "virtio2")
	assert.Empty(t, got(b.GetDisks(ctx, vm))(t))
	_, err = b.AttachDisk(ctx, other, disk)
	require.NoError(t, err)
	class(t, b.DetachDisk(ctx, vm, disk), rpc.ClassDiskNotAttached)
}

// A disk that goes from VM to VM takes no more requests than the first time.
func TestRequestsOfADiskThatChangesVMs(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	vm, _, disk, other := b.attached()
	require.NoError(t, b.SetDiskMetadata(ctx, disk, rpc.Metadata{"deployment": "dep"}))
	b.srv.ResetRequests()
	require.NoError(t, b.DetachDisk(ctx, vm, disk))
	assert.LessOrEqual(t, len(b.requests()), 3, "%q", b.requests())
	b.srv.ResetRequests()
	_, err := b.AttachDisk(ctx, other, disk)
	require.NoError(t, err)
	assert.LessOrEqual(t, len(b.requests()), 4, "%q", b.requests())
}

func TestDiskOfAVMWhoseTagsWereEdited(t *testing.T) {
	t.Parallel()
	t.Run("the tag of the disk", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		vm, id, disk, other := b.attached()
		b.removeTags(id, string(disk))
		_, err := b.AttachDisk(t.Context(), other, disk)
		class(t, err, rpc.ClassCloudError, "is attached to VM "+string(vm))
		class(t, b.DeleteDisk(t.Context(), disk), rpc.ClassCloudError, "is attached to VM "+string(vm))
		require.NoError(t, b.SetVMMetadata(t.Context(), vm, rpc.Metadata{"job": "web"}))
		assert.Contains(t, b.guest(id).Config["tags"], string(disk))
	})
	t.Run("all tags", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		ctx := t.Context()
		vm, id, disk, other := b.attached()
		require.NoError(t, b.srv.EditVM(id, func(g *pvetest.VM) { delete(g.Config, "tags") }))
		_, err := b.AttachDisk(ctx, other, disk)
		class(t, err, rpc.ClassCloudError, "is attached to VM")
		class(t, b.DeleteDisk(ctx, disk), rpc.ClassCloudError, "is attached to VM")
		require.NoError(t, b.SetVMMetadata(ctx, vm, rpc.Metadata{"job": "web"}))
		assert.Contains(t, b.guest(id).Config["tags"], string(disk))
		_, err = b.AttachDisk(ctx, other, disk)
		class(t, err, rpc.ClassCloudError, "is attached to VM "+string(vm))
	})
}

func TestTagOfADiskThatTheVMDoesNotHave(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(b *bed, vm rpc.VMCID, disk rpc.DiskCID) error{
		"detach_disk": func(b *bed, vm rpc.VMCID, disk rpc.DiskCID) error { return b.DetachDisk(b.t.Context(), vm, disk) },
		"delete_disk": func(b *bed, _ rpc.VMCID, disk rpc.DiskCID) error { return b.DeleteDisk(b.t.Context(), disk) },
		"delete_vm":   func(b *bed, vm rpc.VMCID, _ rpc.DiskCID) error { return b.DeleteVM(b.t.Context(), vm) },
		"has_disk": func(b *bed, _ rpc.VMCID, disk rpc.DiskCID) error {
			there, err := b.HasDisk(b.t.Context(), disk)
			assert.False(b.t, there)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			vm, id, disk, _ := b.attached()
			require.NoError(t, b.srv.EditVM(id, func(g *pvetest.VM) { delete(g.Config, "virtio2") }))
			require.NoError(t, b.DeleteDisk(t.Context(), disk))
			assert.NotContains(t, b.guest(id).Config["tags"], string(disk), "the tag goes with the disk")
			require.NoError(t, b.srv.EditVM(id, func(g *pvetest.VM) { g.Config["tags"] += ";" + string(disk) }))
			require.NoError(t, call(b, vm, disk))
			if name == "detach_disk" || name == "delete_disk" {
				assert.NotContains(t, b.guest(id).Config["tags"], string(disk))
			}
		})
	}
	t.Run("whose volume is gone as well", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		_, id, disk, _ := b.attached()
		require.NoError(t, b.srv.EditVM(id, func(g *pvetest.VM) { delete(g.Config, "virtio2") }))
		b.srv.RemoveVolume(b.volumeOf(disk))
		assert.False(t, got(b.HasDisk(t.Context(), disk))(t))
	})
}

func TestDeleteDiskWhoseStorageListsNothing(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(b *bed, disk rpc.DiskCID)
		gone   bool
	}{
		{"the only volume was removed", func(*bed, rpc.DiskCID) {}, true},
		{"another disk should be there", func(b *bed, disk rpc.DiskCID) {
			other := got(b.CreateDisk(b.t.Context(), 1024, raw(`{}`), ""))(b.t)
			node := b.guest(b.holder(disk)).Node
			require.NoError(b.t, b.srv.EditVM(b.holder(other), func(g *pvetest.VM) { g.Node = node }))
			b.srv.RemoveVolume(b.volumeOf(other))
		}, false},
		{"the storage is not active", func(b *bed, _ rpc.DiskCID) { b.srv.SetStorageOnline("fast", "", false) }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, func(c *cpi.Config) { c.DiskStorage = []string{"fast"} })
			disk := got(b.CreateDisk(t.Context(), 1024, raw(`{}`), ""))(t)
			id := b.holder(disk)
			b.srv.RemoveVolume(b.volumeOf(disk))
			tc.change(b, disk)
			err := b.DeleteDisk(t.Context(), disk)
			if tc.gone {
				require.NoError(t, err)
				assert.NotContains(t, b.srv.VMIDs(), id)
				return
			}
			assert.True(t, class(t, err, rpc.ClassCloudError, "fast").Retryable())
			assert.Contains(t, b.srv.VMIDs(), id)
		})
	}
}

func TestResizeDiskKeepsOffCopies(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	vm, id, disk, _ := b.attached()
	conf := maps.Clone(b.guest(id).Config)
	conf["name"] = "Copy-of-VM"
	conf["virtio0"], conf["virtio1"], conf["virtio2"] = "shared:5", "shared:4", "shared:10,serial="+string(disk)
	require.NoError(t, b.srv.AddVM(900, pvetest.VM{Node: "n1", Pool: poolName, Config: conf}))
	before := b.srv.Snapshot()
	class(t, b.ResizeDisk(ctx, disk, 20480), rpc.ClassCloudError, "VM "+string(vm), "guest 900 on n1, which is a copy of VM "+string(vm))
	assert.Equal(t, before, b.srv.Snapshot())
	_, err := b.AttachDisk(ctx, vm, disk)
	class(t, err, rpc.ClassCloudError, "guest 900 on n1, which is a copy of VM "+string(vm))
	require.NoError(t, b.DetachDisk(ctx, vm, disk))
	class(t, b.ResizeDisk(ctx, disk, 20480), rpc.ClassCloudError, "guest 900")
	class(t, b.DeleteDisk(ctx, disk), rpc.ClassCloudError, "guest 900")
}

func TestDiskWhoseHolderTheListLacks(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	vm, _ := b.vm(b.stemcell())
	disk := b.disk(vm)
	id := b.holder(disk)
	stale := b.withResources(func(rows []map[string]any) []map[string]any {
		return slices.DeleteFunc(rows, func(r map[string]any) bool { return r["vmid"] == float64(id) })
	})
	assert.True(t, got(stale.HasDisk(ctx, disk))(t))
	_, err := stale.AttachDisk(ctx, vm, disk)
	require.NoError(t, err)
	class(t, stale.DeleteDisk(ctx, disk), rpc.ClassCloudError, string(vm))
	require.NoError(t, b.DetachDisk(ctx, vm, disk))
	require.NoError(t, stale.DeleteDisk(ctx, disk))
	assert.NotContains(t, b.srv.VMIDs(), id)
}

func TestNothingIsGoneWithoutAQuorum(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	b.grant("/", "Sys.Audit")
	b.srv.SetQuorate(false)
	gone := rpc.DiskCID("disk-abcdefghijklmno")
	_, err := b.HasDisk(ctx, gone)
	assert.True(t, class(t, err, rpc.ClassCloudError, "quorum").Retryable())
	class(t, b.DeleteDisk(ctx, gone), rpc.ClassCloudError, "quorum")
	class(t, b.DeleteStemcell(ctx, rpc.StemcellCID("stemcell-"+strings.Repeat("0", 32))), rpc.ClassCloudError, "quorum")
	b.srv.SetQuorate(true)
	assert.False(t, got(b.HasDisk(ctx, gone))(t))
}

func TestDeleteProtectedVMStopsNothing(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	vm, id, disk, _ := b.attached()
	require.NoError(t, b.srv.EditVM(id, func(g *pvetest.VM) { g.Config["protection"] = "1" }))
	b.srv.ResetRequests()
	class(t, b.DeleteVM(t.Context(), vm), rpc.ClassCloudError, "protection", "guest "+strconv.Itoa(id))
	assert.Empty(t, b.writes())
	assert.True(t, b.guest(id).Running)
	assert.Contains(t, b.guest(id).Config["virtio2"], string(disk))
}

func TestAttachAndDeleteAtOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	vm, _ := b.vm(b.stemcell())
	for range 8 {
		disk := b.disk(vm)
		var attach, remove error
		var wg sync.WaitGroup
		wg.Go(func() { _, attach = b.open(b.cfg, "dir-a").AttachDisk(ctx, vm, disk) })
		wg.Go(func() { remove = b.open(b.cfg, "dir-a").DeleteDisk(ctx, disk) })
		wg.Wait()
		require.Error(t, errors.Join(attach, remove))
		require.Equal(t, attach == nil, got(b.HasDisk(ctx, disk))(t), "attach: %v, delete: %v", attach, remove)
		if attach == nil {
			require.NoError(t, b.DetachDisk(ctx, vm, disk))
		}
	}
}

func TestDetachWaitsForAGuestThatIsBusy(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	vm, id, disk, _ := b.attached()
	require.NoError(t, b.srv.EditVM(id, func(g *pvetest.VM) { g.NoOS = true }))
	b.SetSettleTime(time.Minute)
	b.srv.ResetRequests()
	done := make(chan error, 1)
	go func() { done <- b.DetachDisk(t.Context(), vm, disk) }()
	require.Eventually(t, func() bool { return b.srv.Count("PUT /nodes/*/qemu/*/config") >= 2 }, 10*time.Second, time.Millisecond)
	require.NoError(t, b.srv.EditVM(id, func(g *pvetest.VM) { g.NoOS = false }))
	require.NoError(t, <-done)
	assert.NotContains(t, b.guest(id).Config, "virtio2")
	assert.NotContains(t, b.guest(id).Config["tags"], string(disk))
	assert.Empty(t, b.guest(id).Delete)
}
