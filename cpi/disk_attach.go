package cpi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve"
)

// The slots of a VM's drives: the root disk, the ephemeral disk, and what is left
// for persistent disks.
const (
	slotSystem     = 0
	slotEphemeral  = 1
	slotPersistent = 2
	slotLast       = 15

	// slotISO is the IDE slot of the ISO with the agent's settings.
	slotISO = 2
)

func virtioSlot(n int) string { return fmt.Sprintf("virtio%d", n) }

// AttachDisk implements [rpc.DiskManager]. The VM refers to the holder's volume;
// its tags say which disks it has, so that a second VM is refused without looking
// into the configuration of every guest.
func (c *CPI) AttachDisk(ctx context.Context, vm rpc.VMCID, disk rpc.DiskCID) (rpc.DiskHint, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	cid, err := parseVMCID(vm)
	if err != nil {
		return nil, badInput(err)
	}
	if err := parseDiskCID(disk); err != nil {
		return nil, badInput(err)
	}
	unlock, err := c.lockDisk(ctx, disk)
	if err != nil {
		return nil, err
	}
	defer unlock()
	v, err := c.look(ctx)
	if err != nil {
		return nil, err
	}
	g, err := c.needVM(ctx, v, cid)
	if err != nil {
		return nil, err
	}
	holder, users, err := c.needDisk(ctx, v, disk)
	if err != nil {
		return nil, err
	}
	others := joined(users, append(v.untagged(), c.notedUser(v, disk)...), g.vmid, holder.vmid)
	if err := c.refuseAttached(ctx, disk, holder, others); err != nil {
		return nil, err
	}
	if err := c.attach(ctx, v, g, holder, disk); err != nil {
		return nil, err
	}
	c.noteUser(disk, cid)
	return rpc.DiskHint{"path": devicePath(string(disk))}, nil
}

func (c *CPI) attach(ctx context.Context, v *view, g, holder guest, disk rpc.DiskCID) error {
	what := fmt.Sprintf("attach disk %s to %s", disk, g)
	source, back, vc, err := c.attachInput(ctx, v, g, holder)
	if err != nil {
		return c.explain(err, what, need{"VM.Audit", fmt.Sprintf("/vms/%d", g.vmid)}, need{"VM.Audit", fmt.Sprintf("/vms/%d", holder.vmid)})
	}
	if _, attached := vc.serial(string(disk)); !attached {
		if back != "" {
			return rpc.CloudError("disk %s: its volume %s is on its way back to %s: detach the disk from the VM that had it, or delete that VM, once more", disk, back, holder)
		}
		if source.volume == "" {
			return rpc.CloudError("disk %s: its holder, %s, has no volume any more", disk, holder)
		}
		if err := reachable(v, g, holder, disk, source); err != nil {
			return err
		}
	}
	slot := -1
	var before []string
	err = c.edit(ctx, g, vc, func(conf *guestConfig) (*change, error) {
		tags := union(union(conf.tags, conf.diskTags()), []string{string(disk)})
		if _, ok := conf.serial(string(disk)); ok {
			slot = -1
			if sameTags(tags, conf.tags) {
				return nil, nil
			}
			return &change{tags: tags}, nil
		}
		if d, ok := conf.volume(source.volume); ok && !d.unused() {
			return nil, rpc.CloudError("%s: the VM has the disk's volume already, as %s with the serial %q: take it off there first", what, d.slot, d.serial)
		}
		slot, before = conf.freeSlot(), conf.tags
		if slot < 0 {
			return nil, rpc.CloudError("%s: the VM has no free slot, a VM can have at most %d persistent disks", what, slotLast-slotPersistent+1)
		}
		d := source
		d.serial = string(disk)
		return &change{virtio: map[int]drive{slot: d}, tags: tags}, nil
	})
	if err != nil && slot >= 0 && hotplugProblem(err) {
		undo, cancel := afterwards(ctx)
		defer cancel()
		if e := c.updateConfig(undo, g, change{revert: []string{virtioSlot(slot)}, tags: before}); e != nil {
			err = leftBehind(err, fmt.Sprintf("a pending change of %s in %s", virtioSlot(slot), g))
		}
	}
	if err != nil {
		return c.explain(err, what, need{"VM.Config.Disk", fmt.Sprintf("/vms/%d", g.vmid)}, need{"VM.Config.Disk", fmt.Sprintf("/vms/%d", holder.vmid)},
			need{"Datastore.Audit", "/storage/" + source.storage()})
	}
	if slot >= 0 {
		c.log.Printf("disk %s is %s of %s", disk, virtioSlot(slot), g)
		return c.confirmHotplug(ctx, g, vc, virtioSlot(slot), before)
	}
	return nil
}

// attachInput reads the configuration of the VM, and the drive of the holder with
// the volume that may be on its way back to it. A holder on a node that is down
// cannot be asked; its volume is looked up on the storage that the holder's tags
// name, and its drive has the default options then.
func (c *CPI) attachInput(ctx context.Context, v *view, g, holder guest) (source drive, back string, vc *guestConfig, err error) {
	var wg sync.WaitGroup
	var errHolder, errVM error
	wg.Go(func() {
		if !v.online(holder.node) {
			source, errHolder = c.strandedDrive(ctx, v, g.node, holder)
			return
		}
		hc, err := c.config(ctx, holder)
		if err != nil {
			errHolder = err
			return
		}
		source, _ = hc.drive(holderSlot)
		back = hc.returning()
	})
	wg.Go(func() { vc, errVM = c.config(ctx, g) })
	wg.Wait()
	return source, back, vc, errors.Join(errHolder, errVM)
}

// strandedDrive finds the volume of a holder whose node is down, as another node
// sees it.
func (c *CPI) strandedDrive(ctx context.Context, v *view, node string, holder guest) (drive, error) {
	storage := v.storageOf(holder.tags)
	s, ok := v.store(storage, node)
	if !ok || !s.shared {
		return drive{}, rpc.CloudError("node %s is offline, and with it storage %s of the disk", holder.node, storage).OKToRetry(true)
	}
	list, err := call(ctx, c, c.pve.ListVolumes, pve.ListVolumesParams{Node: node, Storage: storage, Content: new("images"), VMID: new(holder.vmid)})
	if err != nil {
		return drive{}, err
	}
	if len(list) != 1 {
		return drive{}, rpc.CloudError("node %s is offline, and storage %s has %d volumes of %s: which one is the disk is known there alone",
			holder.node, storage, len(list), holder).OKToRetry(true)
	}
	c.log.Printf("%s is offline, its volume is %s", holder, list[0].VolID)
	return newDrive(list[0].VolID, "", DriveOptions{}, s.kind), nil
}

// reachable refuses a disk that the VM's node cannot see.
func reachable(v *view, g, holder guest, disk rpc.DiskCID, source drive) error {
	s, ok := v.store(source.storage(), g.node)
	switch {
	case !ok:
		return rpc.CloudError("disk %s is on storage %s, which node %s of the VM does not have", disk, source.storage(), g.node)
	case !s.available:
		return rpc.CloudError("disk %s is on storage %s, which is not active on node %s", disk, source.storage(), g.node).OKToRetry(true)
	case !s.shared && holder.node != g.node:
		return rpc.CloudError("disk %s is on storage %s of node %s alone, and the VM is on node %s: migrate guest %d, which holds the disk, or recreate the VM on node %s",
			disk, source.storage(), holder.node, g.node, holder.vmid, holder.node)
	}
	return nil
}

// hotplugProblem reports whether a running guest did not take a change. The
// change then waits for the next start.
func hotplugProblem(err error) bool {
	e, ok := errors.AsType[*pve.Error](err)
	if !ok {
		return false
	}
	for _, text := range e.Params {
		if strings.Contains(text, "hotplug problem") || strings.Contains(text, "hot-unplug") {
			return true
		}
	}
	return strings.Contains(e.Message, "hotplug problem")
}

// confirmHotplug makes sure that a change of a drive did not have to wait for a
// restart without a word, which happens only when hotplugging of disks is turned
// off in the guest.
func (c *CPI) confirmHotplug(ctx context.Context, g guest, conf *guestConfig, slot string, tags []string) error {
	if conf.hotplugsDisks() {
		return nil
	}
	now, err := c.config(ctx, g)
	if err != nil {
		return c.explain(err, fmt.Sprintf("see whether %s has taken the change of %s", g, slot))
	}
	current, err := c.currentConfig(ctx, g)
	if err != nil {
		return c.explain(err, fmt.Sprintf("see whether %s has taken the change of %s", g, slot))
	}
	a, inPending := now.drive(slot)
	b, inCurrent := current.drive(slot)
	if inPending == inCurrent && a.volume == b.volume {
		return nil
	}
	undo, cancel := afterwards(ctx)
	defer cancel()
	if err := c.updateConfig(undo, g, change{revert: []string{slot}, tags: tags}); err != nil {
		c.log.Printf("%s: the pending change of %s could not be taken back: %v", g, slot, err)
	}
	return rpc.CloudError("%s is running and does not take the change of %s: its option hotplug lacks \"disk\"; add it, or stop the VM first", g, slot)
}

// DetachDisk implements [rpc.DiskManager].
func (c *CPI) DetachDisk(ctx context.Context, vm rpc.VMCID, disk rpc.DiskCID) error {
	ctx, cancel := c.within(ctx)
	defer cancel()
	cid, err := parseVMCID(vm)
	if err != nil {
		return badInput(err)
	}
	if err := parseDiskCID(disk); err != nil {
		return badInput(err)
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
	g, err := c.needVM(ctx, v, cid)
	if err != nil {
		return err
	}
	conf, err := c.config(ctx, g)
	if err != nil {
		return c.explain(err, fmt.Sprintf("detach disk %s from VM %s", disk, cid), need{"VM.Audit", fmt.Sprintf("/vms/%d", g.vmid)})
	}
	err = c.detach(ctx, v, cid, g, conf, disk)
	if noted := c.notedUser(v, disk); err == nil || rpc.ClassOf(err) == rpc.ClassDiskNotAttached && len(noted) == 1 && noted[0].vmid == g.vmid {
		c.forgetUser(disk)
	}
	return err
}

func (c *CPI) detach(ctx context.Context, v *view, cid vmCID, g guest, conf *guestConfig, disk rpc.DiskCID) error {
	what := fmt.Sprintf("detach disk %s from VM %s", disk, cid)
	d, attached := conf.serial(string(disk))
	if !attached && hasTags(conf.tags, string(disk)) {
		if done, err := c.resumeReturn(ctx, v, g, conf, disk); done || err != nil {
			return err
		}
	}
	var holder guest
	if !attached {
		// Its serial may have been lost, and the drive be there all the same.
		h, ok, _, err := c.findDisk(ctx, v, disk)
		if err != nil {
			return err
		}
		if ok {
			holder = h
			d, attached = conf.disk(disk, holder.vmid)
			d.serial = string(disk)
		}
	}
	if attached {
		if err := c.refuseSnapshots(ctx, g, conf, []drive{d}); err != nil {
			return err
		}
	}
	moved := attached && d.owner() == g.vmid
	if moved {
		var err error
		if holder, err = c.announceReturn(ctx, v, g, d); err != nil {
			return err
		}
	}
	before, interrupted := conf.tags, false
	release := func(conf *guestConfig) (*change, error) {
		p := &change{tags: retag(conf.tags, nil, []string{string(disk)}, nil)}
		now, ok := conf.disk(disk, holder.vmid)
		switch {
		case ok:
			attached = true
			p.delete = []string{now.slot}
		case sameTags(p.tags, conf.tags):
			return nil, nil
		default:
			// The tag is what an earlier call left.
			interrupted = true
		}
		if moved {
			// The tag stays until the volume is back.
			p.tags = nil
			if !ok {
				return nil, nil
			}
		}
		return p, nil
	}
	err := c.edit(ctx, g, conf, release)
	for begun, try := time.Now(), 2; err != nil && hotplugProblem(err); try++ {
		undo, cancel := afterwards(ctx)
		e := c.updateConfig(undo, g, change{revert: []string{d.slot}, tags: before})
		cancel()
		if e != nil {
			err = leftBehind(err, fmt.Sprintf("a pending change of %s in %s", d.slot, g))
		}
		// A guest that has just unmounted the disk may take a moment to let go of it.
		if e != nil || time.Since(begun) > c.settleTime || pause(ctx, try) != nil {
			return rpc.CloudError("%s: the guest does not let go of %s, unmount the disk there first: %w", what, d.slot, err).OKToRetry(true)
		}
		err = c.edit(ctx, g, nil, release)
	}
	if err != nil {
		return c.explain(err, what, need{"VM.Config.Disk", fmt.Sprintf("/vms/%d", g.vmid)}, need{"VM.Config.Options", fmt.Sprintf("/vms/%d", g.vmid)})
	}
	if !attached && interrupted {
		c.log.Printf("disk %s is off %s already", disk, g)
		return nil
	}
	if !attached {
		return rpc.DiskNotAttached("disk %s is not attached to VM %s", disk, cid)
	}
	if err := c.confirmHotplug(ctx, g, conf, d.slot, before); err != nil {
		return err
	}
	if moved {
		if err := c.handBack(ctx, g, d, holder); err != nil {
			return err
		}
	}
	c.log.Printf("disk %s is detached from %s", disk, g)
	return nil
}
