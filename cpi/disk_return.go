package cpi

import (
	"context"
	"errors"
	"fmt"

	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve"
)

// When an administrator moves a VM's drive to another storage, PVE writes a new
// volume that belongs to the VM and would be destroyed with it. Taking such a
// disk off the VM means to give the volume to the disk's holder. That takes
// several steps, in the midst of which the volume is a nameless unused one of the
// VM; so the holder's description says first which volume is on its way. Until it
// has arrived, the disk cannot be attached, and whoever releases the disk goes on
// where the last one stopped. What the holder had before, the state before the
// move, stays with it as an unused volume.

// factReturning is the fact in a holder's note that names the volume.
const factReturning = "returning"

// returning names the volume that is on its way to the holder, or "".
func (c *guestConfig) returning() string {
	_, n, _ := parseNote(c.description)
	return n.Facts[factReturning]
}

// withReturning returns the description with the volume that is on its way, or
// without one.
func (c *guestConfig) withReturning(volume string) *string {
	text, n, _ := parseNote(c.description)
	facts := map[string]string{}
	for k, v := range n.Facts {
		facts[k] = v
	}
	delete(facts, factReturning)
	if volume != "" {
		facts[factReturning] = volume
	}
	n.Facts = facts
	description, _ := n.describe(text)
	return &description
}

// announceReturn finds the holder of a volume that is to go back, makes sure that
// it can, and notes it there.
func (c *CPI) announceReturn(ctx context.Context, v *view, g guest, d drive) (guest, error) {
	disk := rpc.DiskCID(d.serial)
	holder, ok, _, err := c.findDisk(ctx, v, disk)
	if err != nil {
		return guest{}, err
	}
	if !ok {
		return guest{}, rpc.CloudError("disk %s: its volume %s belongs to %s, and there is no holder to give it back to: move the volume to another guest by hand",
			disk, d.volume, g)
	}
	if holder.node != g.node {
		return guest{}, rpc.CloudError("disk %s: its volume %s belongs to %s and has to go back to %s, which is on another node: migrate guest %d to node %s first",
			disk, d.volume, g, holder, holder.vmid, g.node)
	}
	err = c.edit(ctx, holder, nil, func(conf *guestConfig) (*change, error) {
		if conf.returning() == d.volume {
			return nil, nil
		}
		return &change{description: conf.withReturning(d.volume)}, nil
	})
	return holder, c.explain(err, fmt.Sprintf("note in %s that volume %s comes back", holder, d.volume),
		need{"VM.Config.Options", fmt.Sprintf("/vms/%d", holder.vmid)})
}

// resumeReturn goes on with a return that was interrupted after the disk had been
// taken off the VM. It reports whether there was one.
func (c *CPI) resumeReturn(ctx context.Context, v *view, g guest, conf *guestConfig, disk rpc.DiskCID) (bool, error) {
	holder, ok, _, err := c.findDisk(ctx, v, disk)
	if err != nil || !ok {
		return false, err
	}
	hc, err := c.config(ctx, holder)
	if err != nil {
		return false, c.explain(err, fmt.Sprintf("look at %s, which holds disk %s", holder, disk))
	}
	volume := hc.returning()
	if volume == "" {
		return false, nil
	}
	d, ok := conf.volume(volume)
	old, there := hc.drive(holderSlot)
	switch {
	case ok && !d.unused():
		return false, nil
	case ok:
		d.serial, d.options = string(disk), old.options
		return true, c.handBack(ctx, g, d, holder)
	case there:
		// The volume has left the VM: all but the last steps were done.
		old.serial = string(disk)
		return true, c.finishReturn(ctx, g, old, holder, true)
	}
	return false, rpc.CloudError("disk %s: volume %s was on its way from %s to %s and is with neither", disk, volume, g, holder)
}

// handBack moves a volume, which is an unused one of the VM by now, to its holder.
func (c *CPI) handBack(ctx context.Context, g guest, d drive, holder guest) error {
	what := fmt.Sprintf("give volume %s of disk %s back from %s to %s", d.volume, d.serial, g, holder)
	path := fmt.Sprintf("/vms/%d", holder.vmid)
	conf, err := c.config(ctx, g)
	if err != nil {
		return c.explain(err, what, need{"VM.Audit", fmt.Sprintf("/vms/%d", g.vmid)})
	}
	loose, ok := conf.volume(d.volume)
	if !ok || !loose.unused() {
		return rpc.CloudError("%s: the volume is not where detaching left it", what)
	}
	// Neither side may be a template, a protected drive cannot be removed, and the
	// slot must be free.
	err = c.edit(ctx, holder, nil, func(conf *guestConfig) (*change, error) {
		p := &change{protection: new(false)}
		if conf.template {
			p.delete = []string{"template"}
		}
		return p, nil
	})
	if err == nil {
		err = c.edit(ctx, holder, nil, func(conf *guestConfig) (*change, error) {
			if _, ok := conf.drive(holderSlot); !ok {
				return nil, nil
			}
			return &change{delete: []string{holderSlot}}, nil
		})
	}
	arrived := false
	if err == nil {
		err = perform(ctx, c, c.pve.MoveVMDisk, pve.MoveVMDiskParams{
			Node: g.node, VMID: g.vmid, Disk: loose.slot, TargetVMID: new(holder.vmid), TargetDisk: new(holderSlot),
		})
		arrived = err == nil
		if unsettled(err) {
			if now, e := c.config(ctx, g); e == nil {
				if _, still := now.volume(d.volume); !still {
					arrived, err = true, nil
				}
			}
		}
	}
	undo, cancel := afterwards(ctx)
	defer cancel()
	return errors.Join(
		c.explain(err, what, need{"VM.Config.Options", path}, need{"VM.Config.Disk", path}, need{"VM.Config.Disk", fmt.Sprintf("/vms/%d", g.vmid)}),
		c.finishReturn(undo, g, d, holder, arrived),
	)
}

// finishReturn gives a holder its flags back. When the volume has arrived, its
// drive gets serial and options, the holder's tags name the storage it is on now,
// and the VM loses the disk's tag.
func (c *CPI) finishReturn(ctx context.Context, g guest, d drive, holder guest, arrived bool) error {
	err := c.edit(ctx, holder, nil, func(conf *guestConfig) (*change, error) {
		p := &change{template: new(true), protection: new(true)}
		now, ok := conf.drive(holderSlot)
		if !ok || !arrived {
			return p, nil
		}
		want := d
		want.volume = now.volume
		p.virtio = map[int]drive{0: want}
		p.description = conf.withReturning("")
		p.tags = retag(conf.tags, nil, []string{storageTag(conf.storageTagged())}, []string{storageTag(now.storage())})
		return p, nil
	})
	if err != nil {
		return c.explain(err, fmt.Sprintf("put back the flags of %s, which holds disk %s", holder, d.serial),
			need{"VM.Config.Options", fmt.Sprintf("/vms/%d", holder.vmid)})
	}
	if !arrived {
		return nil
	}
	c.log.Printf("disk %s: the volume it was moved to is back with %s", d.serial, holder)
	err = c.changeTags(ctx, g, nil, []string{d.serial})
	return c.explain(err, fmt.Sprintf("take the tag of disk %s off %s", d.serial, g), need{"VM.Config.Options", fmt.Sprintf("/vms/%d", g.vmid)})
}
