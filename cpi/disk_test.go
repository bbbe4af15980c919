package cpi_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve"
	"github.com/proxkit/proxkit/pve/pvetest"
)

// admin is a client of the cluster's administrator.
func (b *bed) admin() *pve.Client {
	b.t.Helper()
	id, secret := b.srv.RootToken()
	c, err := pve.NewClient(b.srv.URL(), pve.WithAPIToken(id, secret), pve.WithRootCAs(b.srv.CertPool()))
	require.NoError(b.t, err)
	return c
}

// task waits for a task of the administrator's.
func task(t testing.TB, c *pve.Client) func(pve.UPID, error) {
	return func(upid pve.UPID, err error) {
		t.Helper()
		require.NoError(t, err)
		_, err = c.WaitTask(t.Context(), upid)
		require.NoError(t, err)
	}
}

func TestHolderOfADisk(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	disk, err := b.CreateDisk(ctx, 1500, raw(`{"cache":"writeback","limits":{"write_mbps":20},"tags":{"team":"db"},"name":"data"}`), "")
	require.NoError(t, err)
	assert.Len(t, string(disk), 20)
	g := b.guest(b.holder(disk))
	assert.Equal(t, poolName, g.Pool)
	for key, want := range map[string]string{"template": "1", "protection": "1", "memory": "16"} {
		assert.Equal(t, want, g.Config[key], key)
	}
	assert.NotContains(t, slices.Sorted(maps.Keys(g.Config)), "net0")
	for _, part := range []string{"serial=" + string(disk), "size=2G", "cache=writeback", "mbps_wr=20"} {
		assert.Contains(t, g.Config["virtio0"], part)
	}
	tags := strings.Split(g.Config["tags"], ";")
	for _, tag := range []string{"bosh", "bosh-disk", string(disk), "team-db", "director-dir-a"} {
		assert.Contains(t, tags, tag)
	}
	// The options travel with the disk.
	vm, id := b.vm(b.stemcell())
	_, err = b.AttachDisk(ctx, vm, disk)
	require.NoError(t, err)
	for _, part := range []string{"serial=" + string(disk), "cache=writeback", "mbps_wr=20"} {
		assert.Contains(t, b.guest(id).Config["virtio2"], part)
	}
	require.NoError(t, b.SetDiskMetadata(ctx, disk, rpc.Metadata{"deployment": "dep", "attached_at": "2026-12-01T00:00:00Z"}))
	g = b.guest(b.holder(disk))
	assert.Contains(t, g.Config["tags"], "deployment-dep")
	assert.Contains(t, g.Config["tags"], "bosh-disk")
	assert.Contains(t, g.Config["tags"], "team-db")
	assert.Contains(t, g.Config["description"], "2026-12-01T00:00:00Z")
	assert.Contains(t, g.Config["description"], `"name": "data"`)
	b.srv.ResetRequests()
	require.NoError(t, b.SetDiskMetadata(ctx, disk, rpc.Metadata{"deployment": "dep", "attached_at": "2026-12-01T00:00:00Z"}))
	assert.Empty(t, b.writes())
}

func TestAttachRefusesASecondVM(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	stemcell := b.stemcell()
	first, _ := b.vm(stemcell)
	second, id := b.vm(stemcell)
	disk := b.disk(first)
	_, err := b.AttachDisk(ctx, first, disk)
	require.NoError(t, err)
	_, err = b.AttachDisk(ctx, second, disk)
	class(t, err, rpc.ClassCloudError, string(first), "detach it first")
	require.NoError(t, b.DetachDisk(ctx, first, disk))
	_, err = b.AttachDisk(ctx, second, disk)
	require.NoError(t, err)
	assert.Contains(t, b.guest(id).Config["virtio2"], string(disk))
	assert.Empty(t, got(b.GetDisks(ctx, first))(t))
}

func TestAttachFillsTheSlots(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	vm, _ := b.vm(b.stemcell())
	var disks []rpc.DiskCID
	for range 14 {
		disk, err := b.CreateDisk(ctx, 1024, raw(`{}`), vm)
		require.NoError(t, err)
		_, err = b.AttachDisk(ctx, vm, disk)
		require.NoError(t, err)
		disks = append(disks, disk)
	}
	more, err := b.CreateDisk(ctx, 1024, raw(`{}`), vm)
	require.NoError(t, err)
	_, err = b.AttachDisk(ctx, vm, more)
	class(t, err, rpc.ClassCloudError, "at most 14 persistent disks")
	assert.Equal(t, disks, got(b.GetDisks(ctx, vm))(t))
	require.NoError(t, b.DeleteVM(ctx, vm))
	for _, d := range disks {
		assert.True(t, got(b.HasDisk(ctx, d))(t))
	}
}

func TestResizeDisk(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	vm, id := b.vm(b.stemcell())
	disk := b.disk(vm)
	size := func() int64 {
		v, ok := b.srv.Volume(strings.SplitN(b.guest(b.holder(disk)).Config["virtio0"], ",", 2)[0])
		require.True(t, ok)
		return v.Size
	}
	require.NoError(t, b.ResizeDisk(ctx, disk, 20480))
	assert.EqualValues(t, 20*gib, size())
	b.srv.ResetRequests()
	require.NoError(t, b.ResizeDisk(ctx, disk, 20480))
	assert.Empty(t, b.writes(), "it has that size already")

	_, err := b.AttachDisk(ctx, vm, disk)
	require.NoError(t, err)
	require.NoError(t, b.ResizeDisk(ctx, disk, 30720))
	assert.EqualValues(t, 30*gib, size())
	assert.Contains(t, b.writes(), "PUT /nodes/"+b.guest(id).Node+"/qemu/"+strconv.Itoa(id)+"/resize", "through the VM")
	class(t, b.ResizeDisk(ctx, disk, 10240), rpc.ClassNotSupported)
}

func TestDiskWithoutItsTagsIsFoundAgain(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	disk := b.disk("")
	id := b.holder(disk)
	require.NoError(t, b.srv.EditVM(id, func(g *pvetest.VM) { g.Config["tags"] = "operator" }))
	assert.True(t, got(b.HasDisk(ctx, disk))(t))
	tags := strings.Split(b.guest(id).Config["tags"], ";")
	assert.Contains(t, tags, string(disk))
	assert.Contains(t, tags, "bosh-disk")
	assert.Contains(t, tags, "operator")
	assert.Contains(t, b.log.String(), "had lost its tags")
}

func TestDeleteDiskOfAVMThatLostItsTags(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	vm, id := b.vm(b.stemcell())
	disk := b.disk(vm)
	_, err := b.AttachDisk(ctx, vm, disk)
	require.NoError(t, err)
	require.NoError(t, b.SetDiskMetadata(ctx, disk, rpc.Metadata{"deployment": "dep"}))
	require.NoError(t, b.srv.EditVM(id, func(g *pvetest.VM) { delete(g.Config, "tags") }))
	class(t, b.DeleteDisk(ctx, disk), rpc.ClassCloudError, "is attached to VM", strconv.Itoa(id))
	require.NoError(t, b.DetachDisk(ctx, vm, disk))
	require.NoError(t, b.DeleteDisk(ctx, disk))
}

func TestCopiesOfGuestsAreNoDisks(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	vm, id := b.vm(b.stemcell())
	disk := b.disk(vm)
	_, err := b.AttachDisk(ctx, vm, disk)
	require.NoError(t, err)
	copied := func(from, to int) {
		g := b.guest(from)
		require.NoError(t, b.srv.AddVM(to, pvetest.VM{Node: g.Node, Pool: poolName, Config: maps.Clone(g.Config)}))
	}
	copied(id, 900)
	class(t, b.DeleteDisk(ctx, disk), rpc.ClassCloudError, "detach it first")
	require.NoError(t, b.DetachDisk(ctx, vm, disk))
	_, err = b.AttachDisk(ctx, vm, disk)
	class(t, err, rpc.ClassCloudError, "guest 900")
	b.srv.DropVM(900)

	copied(b.holder(disk), 901)
	_, err = b.AttachDisk(ctx, vm, disk)
	class(t, err, rpc.ClassCloudError, "two holders", "guest 901", "guest "+strconv.Itoa(b.holder(disk)))
	class(t, b.DeleteDisk(ctx, disk), rpc.ClassCloudError, "two holders")
	b.srv.DropVM(901)
	require.NoError(t, b.DeleteDisk(ctx, disk))
}

// moved makes a VM with a disk, which an administrator then moves to the storage
// fast through the VM.
func (b *bed) moved(t *testing.T, running bool) (vm rpc.VMCID, id int, disk rpc.DiskCID) {
	t.Helper()
	vm, id = b.vm(b.stemcell())
	disk = b.disk(vm)
	_, err := b.AttachDisk(t.Context(), vm, disk)
	require.NoError(t, err)
	if !running {
		require.NoError(t, b.srv.EditVM(id, func(g *pvetest.VM) { g.Running = false }))
	}
	admin := b.admin()
	task(t, admin)(admin.MoveVMDisk(t.Context(), pve.MoveVMDiskParams{
		Node: b.guest(id).Node, VMID: int64(id), Disk: "virtio2", Storage: new("fast"), Delete: new(false),
	}))
	require.Contains(t, b.guest(id).Config["virtio2"], "fast:vm-"+strconv.Itoa(id)+"-")
	return vm, id, disk
}

func TestMovedVolumeGoesBackToItsHolder(t *testing.T) {
	t.Parallel()
	for name, release := range map[string]func(b *bed, vm rpc.VMCID, disk rpc.DiskCID) error{
		"detach_disk": func(b *bed, vm rpc.VMCID, disk rpc.DiskCID) error { return b.DetachDisk(b.t.Context(), vm, disk) },
		"delete_vm":   func(b *bed, vm rpc.VMCID, _ rpc.DiskCID) error { return b.DeleteVM(b.t.Context(), vm) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			ctx := t.Context()
			vm, _, disk := b.moved(t, true)
			assert.True(t, got(b.HasDisk(ctx, disk))(t))
			require.NoError(t, release(b, vm, disk))
			g := b.guest(b.holder(disk))
			assert.True(t, strings.HasPrefix(g.Config["virtio0"], "fast:vm-"+strconv.Itoa(b.holder(disk))+"-"), g.Config["virtio0"])
			assert.Contains(t, g.Config["virtio0"], "serial="+string(disk))
			assert.Equal(t, "1", g.Config["template"])
			assert.Equal(t, "1", g.Config["protection"])
			assert.Contains(t, g.Config["tags"], "bosh-on-fast")
			assert.True(t, got(b.HasDisk(ctx, disk))(t))
			if name == "delete_vm" {
				vm, _ = b.vm(b.stemcell())
			}
			_, err := b.AttachDisk(ctx, vm, disk)
			require.NoError(t, err)
			require.NoError(t, b.DeleteVM(ctx, vm))
			require.NoError(t, b.DeleteDisk(ctx, disk))
			for _, v := range b.srv.Volumes("") {
				assert.Contains(t, v.ID, "base-", "nothing but the template is left")
			}
		})
	}
}

// Every write of a return fails once, one after the other; the next try goes on.
func TestMovedVolumeGoesBackAfterFaults(t *testing.T) {
	t.Parallel()
	for name, release := range map[string]func(b *bed, vm rpc.VMCID, disk rpc.DiskCID) error{
		"detach_disk": func(b *bed, vm rpc.VMCID, disk rpc.DiskCID) error { return b.DetachDisk(b.t.Context(), vm, disk) },
		"delete_vm":   func(b *bed, vm rpc.VMCID, _ rpc.DiskCID) error { return b.DeleteVM(b.t.Context(), vm) },
	} {
		for fault, f := range map[string]pvetest.Fault{
			"refused":   {Status: 500, Phrase: "something went wrong"},
			"cut after": {Cut: pvetest.CutAfter},
		} {
			for n := range 8 {
				t.Run(fmt.Sprintf("%s, write %d %s", name, n+1, fault), func(t *testing.T) {
					t.Parallel()
					b := newBed(t)
					ctx := t.Context()
					vm, id, disk := b.moved(t, true)
					want := strings.SplitN(b.guest(id).Config["virtio2"], ",", 2)[0]
					data, _ := b.srv.Volume(want)
					for _, pattern := range []string{"PUT /nodes/**", "POST /nodes/*/qemu/*/move_disk"} {
						f := f
						f.Match, f.Nth = pattern, n+1
						b.srv.Fail(f)
					}
					err := release(b, vm, disk)
					b.srv.ClearFaults()
					if err != nil {
						assert.True(t, got(b.HasDisk(ctx, disk))(t), "%v", err)
						require.NoError(t, release(b, vm, disk), "after %v", err)
					}
					g := b.guest(b.holder(disk))
					assert.True(t, strings.HasPrefix(g.Config["virtio0"], "fast:vm-"+strconv.Itoa(b.holder(disk))+"-"), g.Config["virtio0"])
					assert.Contains(t, g.Config["virtio0"], "serial="+string(disk))
					assert.Equal(t, "1", g.Config["template"])
					assert.Equal(t, "1", g.Config["protection"])
					assert.NotContains(t, g.Config["description"], "returning")
					after, ok := b.srv.Volume(strings.SplitN(g.Config["virtio0"], ",", 2)[0])
					assert.True(t, ok)
					assert.Equal(t, data.Size, after.Size)
				})
			}
		}
	}
}

func TestDeleteVMKeepsWhatMayBeADisk(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	vm, id, _ := b.moved(t, false)
	// The administrator detaches the moved volume as well: it is a nameless unused
	// volume of the VM now.
	require.NoError(t, b.srv.EditVM(id, func(g *pvetest.VM) {
		g.Config["unused0"] = strings.SplitN(g.Config["virtio2"], ",", 2)[0]
		delete(g.Config, "virtio2")
	}))
	class(t, b.DeleteVM(t.Context(), vm), rpc.ClassCloudError, "unused volume fast:vm-"+strconv.Itoa(id))
	assert.Contains(t, b.srv.VMIDs(), id)
}

func TestDisksInSnapshotsStay(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	vm, id := b.vm(b.stemcell())
	disk := b.disk(vm)
	_, err := b.AttachDisk(ctx, vm, disk)
	require.NoError(t, err)
	admin := b.admin()
	task(t, admin)(admin.CreateVMSnapshot(ctx, pve.CreateVMSnapshotParams{Node: b.guest(id).Node, VMID: int64(id), SnapName: "before"}))
	class(t, b.DetachDisk(ctx, vm, disk), rpc.ClassCloudError, `snapshot "before"`)
	class(t, b.DeleteVM(ctx, vm), rpc.ClassCloudError, `snapshot "before"`)
	assert.True(t, b.guest(id).Running, "nothing was begun")
	task(t, admin)(admin.DeleteVMSnapshot(ctx, pve.DeleteVMSnapshotParams{Node: b.guest(id).Node, VMID: int64(id), SnapName: "before"}))
	require.NoError(t, b.DetachDisk(ctx, vm, disk))
}

func TestGuestThatDoesNotLetGoOfADisk(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	vm, id := b.vm(b.stemcell())
	disk := b.disk(vm)
	_, err := b.AttachDisk(ctx, vm, disk)
	require.NoError(t, err)
	require.NoError(t, b.srv.EditVM(id, func(g *pvetest.VM) { g.NoOS = true }))
	e := class(t, b.DetachDisk(ctx, vm, disk), rpc.ClassCloudError, "does not let go")
	assert.True(t, e.Retryable())
	assert.Equal(t, []rpc.DiskCID{disk}, got(b.GetDisks(ctx, vm))(t))
	assert.Contains(t, b.guest(id).Config["tags"], string(disk))
	assert.Empty(t, b.guest(id).Delete, "nothing waits for the next start")
	require.NoError(t, b.srv.EditVM(id, func(g *pvetest.VM) { g.NoOS = false }))
	require.NoError(t, b.DetachDisk(ctx, vm, disk))
	assert.NotContains(t, b.guest(id).Config["tags"], string(disk))

	t.Run("with hotplugging of disks turned off", func(t *testing.T) {
		require.NoError(t, b.srv.EditVM(id, func(g *pvetest.VM) { g.Config["hotplug"] = "network" }))
		_, err := b.AttachDisk(ctx, vm, disk)
		class(t, err, rpc.ClassCloudError, `hotplug lacks "disk"`)
		assert.Empty(t, b.guest(id).Pending)
		assert.NotContains(t, b.guest(id).Config["tags"], string(disk))
		require.NoError(t, b.srv.EditVM(id, func(g *pvetest.VM) { g.Running = false }))
		_, err = b.AttachDisk(ctx, vm, disk)
		require.NoError(t, err, "a VM that is off takes it")
	})
}

func TestAttachWhenTheHoldersNodeIsDown(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	stemcell := b.stemcell()
	disk := b.disk("")
	require.NoError(t, b.srv.EditVM(b.holder(disk), func(g *pvetest.VM) { g.Node = "n3" }))
	vm, _, err := b.CreateVM(ctx, order(stemcell, "agent", `{"cpu":1,"ram":512,"nodes":["n1"],"ephemeral_disk":{"size":2048}}`))
	require.NoError(t, err)
	b.srv.SetNodeOnline("n3", false)
	assert.True(t, got(b.HasVM(ctx, vm))(t))
	_, err = b.AttachDisk(ctx, vm, disk)
	require.NoError(t, err)
	assert.Equal(t, []rpc.DiskCID{disk}, got(b.GetDisks(ctx, vm))(t))
	require.NoError(t, b.DetachDisk(ctx, vm, disk))
}

// Every write of the disk methods fails once, one after the other; the Director's
// next try succeeds, and nothing is lost or left.
func TestDiskMethodsSurviveFaults(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]pvetest.Fault{
		"refused":    {Status: 500, Phrase: "something went wrong"},
		"no worker":  {Status: 500, Phrase: "got no worker upid - start worker failed"},
		"cut before": {Cut: pvetest.CutBefore},
		"cut after":  {Cut: pvetest.CutAfter},
		"task fails": {TaskError: "device busy"},
		"changed":    {Status: 500, Phrase: "checksum mismatch (file change by other user?)"},
	} {
		for _, pattern := range []string{"POST /nodes/*/qemu", "PUT /nodes/*/qemu/*/config", "DELETE /nodes/*/qemu/*", "PUT /nodes/*/qemu/*/resize"} {
			t.Run(name+" "+pattern, func(t *testing.T) {
				t.Parallel()
				b := newBed(t)
				ctx := t.Context()
				vm, _ := b.vm(b.stemcell())
				guests, volumes := b.made()
				again := func(call func() error) {
					t.Helper()
					f := f
					f.Match = pattern
					b.srv.Fail(f)
					err := call()
					b.srv.ClearFaults()
					if err != nil {
						require.NoError(t, call())
					}
				}
				var disk rpc.DiskCID
				again(func() (err error) {
					disk, err = b.CreateDisk(ctx, 1024, raw(`{}`), vm)
					return err
				})
				assert.Len(t, b.srv.VMIDs(), len(guests)+1)
				again(func() error { _, err := b.AttachDisk(ctx, vm, disk); return err })
				again(func() error { return b.ResizeDisk(ctx, disk, 2048) })
				again(func() error {
					err := b.DetachDisk(ctx, vm, disk)
					if rpc.ClassOf(err) == rpc.ClassDiskNotAttached {
						return nil
					}
					return err
				})
				assert.Empty(t, got(b.GetDisks(ctx, vm))(t))
				again(func() error { return b.ResizeDisk(ctx, disk, 3072) })
				again(func() error { return b.DeleteDisk(ctx, disk) })
				g, v := b.made()
				assert.Equal(t, guests, g)
				assert.ElementsMatch(t, volumes, v)
			})
		}
	}
}
