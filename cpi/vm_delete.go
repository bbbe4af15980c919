package cpi

import (
	"context"
	"errors"
	"fmt"

	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve"
)

// DeleteVM implements [rpc.VMManager]. Persistent disks are taken off the VM
// first, and when that fails, nothing is destroyed.
func (c *CPI) DeleteVM(ctx context.Context, vm rpc.VMCID) error {
	ctx, cancel := c.within(ctx)
	defer cancel()
	cid, err := parseVMCID(vm)
	if err != nil {
		return badInput(err)
	}
	c.sweep(ctx)
	l, ok, err := c.locate(ctx, cid)
	if err != nil {
		return err
	}
	if !ok {
		c.log.Printf("VM %s is gone already", cid)
		if err := c.deleteISO(ctx, l.view, cid); err != nil {
			return err
		}
		c.forgetNode(cid)
		return nil
	}
	if err := c.dismantle(ctx, cid, l); err != nil {
		return err
	}
	c.forgetEverywhere("nodes", cid.String())
	return nil
}

// A located VM is a guest with its configuration, and the view it was found in,
// if there was one.
type located struct {
	guest guest
	conf  *guestConfig
	view  *view
}

// locate finds a VM and reads its configuration: at once when this machine
// remembers the VM's node and the VM is still there, else by the list.
func (c *CPI) locate(ctx context.Context, cid vmCID) (located, bool, error) {
	if node := c.rememberedNode(cid); node != "" {
		g := guest{vmid: cid.VMID, node: node}
		if conf, err := c.config(ctx, g); err == nil && hasTags(conf.tags, tagVM, cid.String()) {
			return located{guest: g, conf: conf}, true, nil
		}
	}
	v, err := c.look(ctx)
	if err != nil {
		return located{}, false, err
	}
	g, ok, err := c.findVM(ctx, v, cid)
	if err != nil || !ok {
		return located{view: v}, false, err
	}
	conf, err := c.config(ctx, g)
	if errors.Is(err, pve.ErrNotFound) {
		// Gone or moved since the list was made.
		return located{}, false, rpc.CloudError("VM %s has just left %s: try again", cid, g).OKToRetry(true)
	}
	if err != nil {
		return located{}, false, c.explain(err, fmt.Sprintf("look at VM %s", cid), need{"VM.Audit", fmt.Sprintf("/vms/%d", g.vmid)})
	}
	return located{guest: g, conf: conf, view: v}, true, nil
}

// dismantle removes a VM and everything that is its own.
func (c *CPI) dismantle(ctx context.Context, cid vmCID, l located) error {
	g := l.guest
	path := fmt.Sprintf("/vms/%d", g.vmid)
	if err := c.recoverStrays(ctx, cid, &l); err != nil {
		return err
	}
	if l.conf.protection {
		return rpc.CloudError("VM %s is protected: remove the option protection of %s, then try again", cid, g)
	}
	attached := l.conf.persistent()
	if err := c.refuseSnapshots(ctx, g, l.conf, attached); err != nil {
		return err
	}
	what := fmt.Sprintf("stop VM %s", cid)
	if err := c.stop(ctx, g); err != nil && !errors.Is(err, pve.ErrNotFound) {
		return c.explain(err, what, need{"VM.PowerMgmt", path})
	}
	if err := c.releaseDisks(ctx, l, attached); err != nil {
		return fmt.Errorf("VM %s is stopped but not deleted, because its persistent disks could not be taken off it: %w", cid, err)
	}
	what = fmt.Sprintf("destroy VM %s", cid)
	if err := c.destroyStopped(ctx, g); err != nil {
		return c.explain(err, what, need{"VM.Allocate", path})
	}
	for _, d := range l.conf.drives {
		if d.isISO(isoName(cid.Token)) {
			if err := c.deleteVolume(ctx, g.node, d.volume); err != nil {
				what := fmt.Sprintf("VM %s is destroyed, but its ISO with the agent's settings, %s, is left", cid, d.volume)
				return c.explain(err, what, need{"Datastore.Allocate", "/storage/" + d.storage()})
			}
		}
	}
	c.log.Printf("VM %s is deleted", cid)
	return nil
}

// recoverStrays sees to persistent disks that the VM should have attached and has
// not. A volume that was on its way back to its holder is sent on. While the VM
// has another unused volume of its own, nothing is destroyed: an administrator
// who moves a disk to another storage and then detaches it leaves the data in
// such a volume, without its serial.
func (c *CPI) recoverStrays(ctx context.Context, cid vmCID, l *located) error {
	own, risky := l.conf.find(func(d drive) bool { return d.unused() && d.owner() == l.guest.vmid })
	for _, tag := range l.conf.tags {
		if parseDiskCID(rpc.DiskCID(tag)) != nil {
			continue
		}
		if _, attached := l.conf.serial(tag); attached {
			continue
		}
		if err := c.ensureView(ctx, l); err != nil {
			return err
		}
		done, err := c.resumeReturn(ctx, l.view, l.guest, l.conf, rpc.DiskCID(tag))
		if err != nil {
			return err
		}
		if !done && risky {
			return rpc.CloudError("VM %s should have disk %s attached and does not, but %s has the unused volume %s, which may be that disk: attach it with serial=%s or remove it, then try again",
				cid, tag, l.guest, own.volume, tag)
		}
		if l.conf, err = c.config(ctx, l.guest); err != nil {
			return c.explain(err, fmt.Sprintf("look at VM %s", cid))
		}
	}
	return nil
}

// ensureView looks at the cluster unless that was done.
func (c *CPI) ensureView(ctx context.Context, l *located) (err error) {
	if l.view == nil {
		l.view, err = c.look(ctx)
	}
	return err
}

// releaseDisks takes the persistent disks off a stopped VM, in one change, and
// hands volumes back that an administrator has moved.
func (c *CPI) releaseDisks(ctx context.Context, l located, attached []drive) error {
	if len(attached) == 0 {
		return nil
	}
	holders := map[string]guest{}
	for _, d := range attached {
		if d.owner() != l.guest.vmid {
			continue
		}
		if err := c.ensureView(ctx, &l); err != nil {
			return err
		}
		h, err := c.announceReturn(ctx, l.view, l.guest, d)
		if err != nil {
			return err
		}
		holders[d.serial] = h
	}
	err := c.edit(ctx, l.guest, l.conf, func(conf *guestConfig) (*change, error) {
		p := &change{}
		var gone []string
		for _, d := range conf.persistent() {
			p.delete = append(p.delete, d.slot)
			// The tag of a disk whose volume goes back stays until it is there.
			if _, moved := holders[d.serial]; !moved {
				gone = append(gone, d.serial)
			}
		}
		if len(p.delete) == 0 {
			return nil, nil
		}
		p.tags = retag(conf.tags, nil, gone, nil)
		return p, nil
	})
	if err != nil {
		return c.explain(err, fmt.Sprintf("detach the disks of %s", l.guest),
			need{"VM.Config.Disk", fmt.Sprintf("/vms/%d", l.guest.vmid)}, need{"VM.Config.Options", fmt.Sprintf("/vms/%d", l.guest.vmid)})
	}
	for _, d := range attached {
		holder, moved := holders[d.serial]
		if moved {
			if err := c.handBack(ctx, l.guest, d, holder); err != nil {
				return err
			}
		}
		c.forgetUser(rpc.DiskCID(d.serial))
		c.log.Printf("disk %s is detached", d.serial)
	}
	return nil
}

// destroyStopped destroys a guest that was stopped. Where the cluster's high
// availability runs guests, the stop is a request that takes its time.
func (c *CPI) destroyStopped(ctx context.Context, g guest) error {
	for try := 0; ; try++ {
		err := c.destroy(ctx, g)
		switch {
		case err == nil, errors.Is(err, pve.ErrNotFound):
			return nil
		case errors.Is(err, pve.ErrRunning):
			if try == 20 {
				return err
			}
			if try%4 == 3 {
				// A start that was asked for before the stop may have come after it.
				if err := c.stop(ctx, g); err != nil && !errors.Is(err, pve.ErrNotFound) {
					return err
				}
			}
		case unsettled(err) && !isTaskError(err):
			if try == 20 {
				return err
			}
		default:
			return err
		}
		if err := pause(ctx, try+2); err != nil {
			return err
		}
	}
}

// refuseSnapshots refuses to take disks off a VM with snapshots that hold them:
// the snapshot stays inside the disk's volume when the VM is gone, and the disk
// can then neither be resized nor deleted.
func (c *CPI) refuseSnapshots(ctx context.Context, g guest, conf *guestConfig, disks []drive) error {
	if !conf.snapshots || len(disks) == 0 {
		return nil
	}
	list, err := call(ctx, c, c.pve.ListVMSnapshots, pve.ListVMSnapshotsParams{Node: g.node, VMID: g.vmid})
	if err != nil {
		return c.explain(err, fmt.Sprintf("list the snapshots of %s", g), need{"VM.Audit", fmt.Sprintf("/vms/%d", g.vmid)})
	}
	for _, s := range list {
		if s.Name == "current" {
			continue
		}
		old, err := c.snapshotConfig(ctx, g, s.Name)
		if err != nil {
			return c.explain(err, fmt.Sprintf("look at snapshot %s of %s", s.Name, g))
		}
		for _, d := range disks {
			if _, ok := old.serial(d.serial); ok {
				return rpc.CloudError("disk %s is part of snapshot %q of %s: delete the snapshot first", d.serial, s.Name, g)
			}
		}
	}
	return nil
}

// deleteISO removes the ISO of a VM that is gone, if this machine made the VM: the
// storage may be shared with another cluster, on which the VM is and needs it.
func (c *CPI) deleteISO(ctx context.Context, v *view, cid vmCID) error {
	home := c.rememberedNode(cid)
	if home == "" {
		return nil
	}
	at, volume, err := c.findISO(ctx, v, cid, func(s store) bool { return s.shared || s.node == home })
	if err == nil && volume != "" {
		err = c.deleteVolume(ctx, at.node, volume)
	}
	return c.explain(err, fmt.Sprintf("VM %s is gone; remove its ISO", cid), need{"Datastore.Allocate", "/storage/" + at.id})
}

// findISO looks for the ISO of a VM on the storages for ISOs.
func (c *CPI) findISO(ctx context.Context, v *view, cid vmCID, where func(store) bool) (at store, volume string, err error) {
	seen := map[string]bool{}
	for _, m := range v.nodes {
		s, ok := c.isoStore(v, m.name)
		if !m.online || !ok || seen[s.id] || !where(s) {
			continue
		}
		seen[s.id] = s.shared
		list, err := call(ctx, c, c.pve.ListVolumes, pve.ListVolumesParams{Node: m.name, Storage: s.id, Content: new("iso")})
		if err != nil {
			return s, "", c.explain(err, fmt.Sprintf("list storage %s of node %s", s.id, m.name), need{"Datastore.Audit", "/storage/" + s.id})
		}
		for _, row := range list {
			if (drive{volume: row.VolID}).isISO(isoName(cid.Token)) {
				return s, row.VolID, nil
			}
		}
	}
	return store{}, "", nil
}

// deleteVolume removes a volume of a storage. One that is gone is no failure.
func (c *CPI) deleteVolume(ctx context.Context, node, volume string) error {
	storage := drive{volume: volume}.storage()
	err := perform(ctx, c, c.pve.DeleteVolume, pve.DeleteVolumeParams{Node: node, Storage: storage, Volume: volume})
	if errors.Is(err, pve.ErrNotFound) {
		return nil
	}
	return err
}
