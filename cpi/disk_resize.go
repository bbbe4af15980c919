package cpi

import (
	"context"
	"fmt"

	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve"
)

// ResizeDisk implements [rpc.DiskManager]. PVE allocates whole GiB, so the size is
// rounded up, and a disk that has the rounded size is left alone, even if it was
// made for a larger one within the same GiB. A smaller disk is refused with
// NotSupported, which makes the Director copy the disk to a new one. A disk that
// is attached is resized through the VM, because a running VM has the volume
// locked.
func (c *CPI) ResizeDisk(ctx context.Context, disk rpc.DiskCID, size int64) error {
	ctx, cancel := c.within(ctx)
	defer cancel()
	if err := parseDiskCID(disk); err != nil {
		return badInput(err)
	}
	if size <= 0 {
		return rpc.CloudError("the size must be above 0 MiB, not %d", size)
	}
	unlock, err := c.lockDisk(ctx, disk)
	if err != nil {
		return err
	}
	defer unlock()
	v, err := c.look(ctx)
	if err != nil {
		return err
	}
	holder, users, err := c.needDisk(ctx, v, disk)
	if err != nil {
		return err
	}
	vol, there, _, err := c.holderVolume(ctx, disk, holder)
	if err != nil {
		return err
	}
	at, slot := holder, holderSlot
	found, err := c.inspect(ctx, disk, holder.vmid, joined(users, v.untagged(), holder.vmid))
	if err != nil {
		return err
	}
	if len(found.uses) > 1 {
		return rpc.CloudError("disk %s is attached to %s: only one can have it; detach it from the other, or remove the serial from a copy's drive", disk, joinUses(found.uses))
	}
	if len(found.uses) == 1 {
		u := found.uses[0]
		at, slot = u.guest, u.drive.slot
		if u.drive.volume != vol.drive.volume {
			if u.drive.owner() != u.guest.vmid || isCopy(u.guest.vmid, u.conf.tags) {
				return rpc.CloudError("%s has the serial of disk %s on another volume, %s, than %s, which holds the disk: remove the serial and the tag from it",
					u, disk, u.drive.volume, holder)
			}
			// Moved by an administrator: the size is known to the VM alone.
			vol.size, there = u.drive.size, true
		}
	}
	if !there {
		return rpc.DiskNotFound("disk %s: its volume %s does not exist", disk, vol.drive.volume)
	}
	want := gibibytes(size) << 30
	switch {
	case vol.size == want || vol.size > want && vol.size>>20 == size:
		c.log.Printf("disk %s has %d MiB already, which is what %d MiB are rounded up to", disk, vol.size>>20, size)
		return nil
	case vol.size > want:
		return rpc.NotSupported("disk %s has %d MiB and cannot shrink to %d MiB: only a copy can be smaller", disk, vol.size>>20, size)
	}
	s, ok := v.store(vol.drive.storage(), at.node)
	if grow := uint64(want - vol.size); ok && s.total > 0 && s.free() < grow {
		return rpc.NoDiskSpace("storage %s has %d MiB free, disk %s needs %d more", s.id, s.free()>>20, disk, grow>>20)
	}
	what := fmt.Sprintf("resize disk %s", disk)
	err = perform(ctx, c, c.pve.ResizeVM, pve.ResizeVMParams{
		Node: at.node, VMID: at.vmid, Disk: slot, Size: fmt.Sprintf("%dG", gibibytes(size)),
	})
	if unsettled(err) && !isTaskError(err) {
		// The size is absolute, so twice is as good as once.
		err = perform(ctx, c, c.pve.ResizeVM, pve.ResizeVMParams{
			Node: at.node, VMID: at.vmid, Disk: slot, Size: fmt.Sprintf("%dG", gibibytes(size)),
		})
	}
	if err == nil {
		c.log.Printf("disk %s has grown from %d MiB to %d MiB", disk, vol.size>>20, want>>20)
	}
	return c.explain(err, what,
		need{"VM.Config.Disk", fmt.Sprintf("/vms/%d", at.vmid)}, need{"Datastore.AllocateSpace", "/storage/" + vol.drive.storage()})
}
