package cpi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve"
)

// A persistent disk is the volume of a guest of its own that never starts, the
// holder. The disk's CID is the holder's name, one of its tags and the serial of
// its drive. A VM only refers to the volume, so that destroying the VM leaves it
// alone. The template flag keeps the holder from being started while a VM has
// the volume open, the protection flag keeps it from being deleted.
const (
	holderMemory = 16 // MiB
	holderSlot   = "virtio0"
)

// A diskHome says where a disk can be used. The node is empty for a storage that
// all nodes share.
type diskHome struct {
	cid     rpc.DiskCID
	storage string
	node    string
}

// CreateDisk implements [rpc.DiskManager]. PVE allocates whole GiB, so the size is
// rounded up.
func (c *CPI) CreateDisk(ctx context.Context, size int64, cloudProperties json.RawMessage, vm rpc.VMCID) (rpc.DiskCID, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	props, err := ParseDiskProperties(cloudProperties, &c.cfg)
	if err != nil {
		return "", badInput(err)
	}
	if size <= 0 {
		return "", rpc.CloudError("the size must be above 0 MiB, not %d", size)
	}
	var owner vmCID
	if vm != "" {
		if owner, err = parseVMCID(vm); err != nil {
			return "", badInput(err)
		}
	}
	if w := rewrittenTags(props.Tags); w != "" {
		c.log.Printf("warning: %s", w)
	}
	c.sweep(ctx)
	v, err := c.look(ctx)
	if err != nil {
		return "", err
	}
	var home guest
	if vm != "" {
		if home, err = c.needVM(ctx, v, owner); err != nil {
			return "", err
		}
	}
	node, st, err := c.placeDisk(v, props, gibibytes(size)<<10, home.node)
	if err != nil && c.ascertain(ctx, v) {
		node, st, err = c.placeDisk(v, props, gibibytes(size)<<10, home.node)
	}
	if err != nil {
		return "", err
	}
	cid := newDiskCID()
	if err := c.makeHolder(ctx, cid, node, st, size, props); err != nil {
		return "", err
	}
	c.log.Printf("disk %s has %d MiB on storage %s of node %s", cid, gibibytes(size)<<10, st.id, node)
	return cid, nil
}

// gibibytes rounds MiB up: PVE allocates whole GiB.
func gibibytes(mib int64) int64 { return (mib + 1023) / 1024 }

// placeDisk chooses storage and node of a new disk: the node of the VM that will
// use it, else the one with the most free space.
func (c *CPI) placeDisk(v *view, props DiskProperties, size int64, home string) (string, store, error) {
	if err := checkStorages(v, props.storageFrom, props.Storage); err != nil {
		return "", store{}, err
	}
	nodes, err := wantedNodes(v, keyPlace(configPlace, "nodes"), c.cfg.Nodes)
	if err != nil {
		return "", store{}, err
	}
	if home != "" {
		m, _ := v.node(home)
		nodes = []clusterNode{m}
	}
	var refused []refusal
	for _, name := range props.Storage {
		var best store
		for _, m := range nodes {
			if !m.online {
				refused = append(refused, refusal{name: m.name, reason: m.state(), passes: true})
				continue
			}
			s, r := pickStore(v, m.name, []string{name}, size)
			if r == nil && props.Format == formatQcow2 && !fileBased(s.kind) {
				r = &refusal{reason: fmt.Sprintf("storage %s is of type %s, which holds raw volumes only", name, s.kind)}
			}
			if r != nil {
				refused = append(refused, *r.of(m.name, ""))
				continue
			}
			if best.id == "" || s.free() > best.free() {
				best = s
			}
		}
		if best.id != "" {
			return best.node, best, nil
		}
	}
	fail := rpc.CloudError
	if allFull(refused) {
		fail = rpc.NoDiskSpace
	}
	return "", store{}, fail("there is no place for %d MiB: %s", size, joinRefusals(refused)).OKToRetry(merged(refused).passes)
}

// makeHolder makes the guest of a disk. The flags follow the allocation: a drive
// that is allocated in a template becomes a base volume.
func (c *CPI) makeHolder(ctx context.Context, cid rpc.DiskCID, node string, st store, size int64, props DiskProperties) error {
	what := fmt.Sprintf("make disk %s on node %s", cid, node)
	d := newDrive(fmt.Sprintf("%s:%d", st.id, gibibytes(size)), string(cid), props.Drive, st.kind)
	if props.Format != "" {
		d.options = append(d.options, "format="+props.Format)
	}
	promise := c.pledge(ctx, pledged{Kind: tagDisk, Name: string(cid), Node: node})
	id, err := c.claim(ctx, claim{node: node, task: "qmcreate", name: string(cid), pledge: promise, start: c.createGuest(node, string(cid), holderMemory, d)})
	g := guest{vmid: id, node: node, name: string(cid)}
	if err != nil {
		err = c.explain(err, what, c.createNeeds(st.id)...)
	} else {
		n := note{}
		if props.Name != "" {
			n.Facts = map[string]string{"name": props.Name}
		}
		description, _ := n.describe("")
		tags := append(ownershipTags(tagDisk, string(cid), c.director), storageTag(st.id))
		err = c.edit(ctx, g, &guestConfig{}, func(*guestConfig) (*change, error) {
			return &change{
				tags: append(tags, labelTags(props.Tags)...), description: new(description), template: new(true), protection: new(true),
			}, nil
		})
		err = c.explain(err, what, need{"VM.Config.Options", fmt.Sprintf("/vms/%d", id)})
	}
	if err != nil {
		undo, cancel := afterwards(ctx)
		defer cancel()
		err = c.undo(undo, err, g)
	}
	promise.settle(err)
	return err
}

// HasDisk implements [rpc.DiskManager].
func (c *CPI) HasDisk(ctx context.Context, cid rpc.DiskCID) (bool, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	if err := parseDiskCID(cid); err != nil {
		return false, badInput(err)
	}
	v, err := c.look(ctx)
	if err != nil {
		return false, err
	}
	holder, ok, users, err := c.findDisk(ctx, v, cid)
	if err != nil || !ok {
		return false, err
	}
	found, err := c.inspect(ctx, cid, holder.vmid, users)
	if err != nil {
		return false, err
	}
	if len(found.uses) > 0 {
		// A VM could not be running without the volume, and an administrator may
		// have moved it to another storage through the VM.
		return true, nil
	}
	_, there, sure, err := c.holderVolume(ctx, cid, holder)
	if err != nil {
		return false, err
	}
	if !there && len(found.doubtful) > 0 {
		return false, rpc.CloudError("disk %s: its volume is not there, but %s should have the disk and has an unused volume that may be it: attach that with serial=%s, or remove it",
			cid, found.doubtful[0], cid)
	}
	if !there && !sure {
		return false, rpc.CloudError("disk %s: its holder, %s, is there, but its storage shows no volume at all: check that the storage is mounted", cid, holder)
	}
	return there, nil
}

// holderVolume looks for the volume of a disk on its storage. When it is not
// listed, sure says whether the list can be trusted: a storage that is not
// mounted looks empty.
func (c *CPI) holderVolume(ctx context.Context, cid rpc.DiskCID, holder guest) (vol volume, there, sure bool, err error) {
	what := fmt.Sprintf("look at disk %s", cid)
	conf, err := c.config(ctx, holder)
	if err != nil {
		return volume{}, false, false, c.explain(err, what, need{"VM.Audit", fmt.Sprintf("/vms/%d", holder.vmid)})
	}
	d, ok := conf.drive(holderSlot)
	if back := conf.returning(); back != "" {
		// It is on its way, or has arrived under a name of the holder's.
		vol, there, sure, err = c.listedVolume(ctx, cid, holder, volume{conf: conf, drive: drive{slot: holderSlot, volume: back}})
		if err != nil || there || !ok {
			return vol, there, sure, err
		}
	}
	if !ok {
		return volume{conf: conf}, false, true, nil
	}
	return c.listedVolume(ctx, cid, holder, volume{conf: conf, drive: d})
}

// listedVolume looks for a volume in its storage's list.
func (c *CPI) listedVolume(ctx context.Context, cid rpc.DiskCID, holder guest, vol volume) (_ volume, there, sure bool, err error) {
	d := vol.drive
	list, err := call(ctx, c, c.pve.ListVolumes, pve.ListVolumesParams{Node: holder.node, Storage: d.storage()})
	if err != nil {
		return vol, false, false, c.explain(err, fmt.Sprintf("look at disk %s on storage %s of node %s", cid, d.storage(), holder.node),
			need{"Datastore.Audit", "/storage/" + d.storage()})
	}
	for _, row := range list {
		if row.VolID == d.volume {
			vol.size = int64(or(row.Size))
			return vol, true, true, nil
		}
	}
	err = c.unfiltered(ctx, fmt.Sprintf("volume %s of disk %s", d.volume, cid),
		need{"Datastore.Audit", "/storage/" + d.storage()}, need{"VM.Config.Disk", fmt.Sprintf("/vms/%d", holder.vmid)})
	return vol, false, len(list) > 0, err
}

// A volume is the volume of a holder.
type volume struct {
	conf  *guestConfig
	drive drive
	size  int64 // bytes
}

// factVM is the fact in a holder's note that names the VM the disk was attached to
// when its metadata was set, which is right after it was attached.
const factVM = "vm"

// lastVM finds the VM that the disk was last known to be attached to, unless it is
// one of those that carry the disk's tag: its tags may have been edited by hand.
func (vol volume) lastVM(v *view, users []guest) (guest, bool) {
	_, n, _ := parseNote(vol.conf.description)
	cid, err := parseVMCID(rpc.VMCID(n.Facts[factVM]))
	if err != nil {
		return guest{}, false
	}
	g, ok := v.guestByID(cid.VMID)
	if !ok || slices.ContainsFunc(users, func(u guest) bool { return u.vmid == g.vmid }) {
		return guest{}, false
	}
	return g, true
}

// needDisk finds a disk that the call cannot do without.
func (c *CPI) needDisk(ctx context.Context, v *view, cid rpc.DiskCID) (holder guest, users []guest, err error) {
	holder, ok, users, err := c.findDisk(ctx, v, cid)
	if err != nil {
		return guest{}, nil, err
	}
	if !ok {
		return guest{}, nil, rpc.DiskNotFound("disk %s does not exist", cid)
	}
	return holder, users, nil
}

// DeleteDisk implements [rpc.DiskManager].
func (c *CPI) DeleteDisk(ctx context.Context, cid rpc.DiskCID) error {
	ctx, cancel := c.within(ctx)
	defer cancel()
	if err := parseDiskCID(cid); err != nil {
		return badInput(err)
	}
	c.sweep(ctx)
	unlock, err := c.lockDisk(ctx, cid)
	if err != nil {
		return err
	}
	defer unlock()
	v, err := c.look(ctx)
	if err != nil {
		return err
	}
	holder, ok, users, err := c.findDisk(ctx, v, cid)
	if err != nil {
		return err
	}
	if !ok {
		c.dropStale(ctx, cid, users)
		c.forgetUser(cid)
		c.log.Printf("disk %s is gone already", cid)
		return nil
	}
	// PVE destroys a guest although it cannot remove the volume. So the storage
	// must be there first.
	vol, there, sure, err := c.holderVolume(ctx, cid, holder)
	if err != nil {
		return retryable(err)
	}
	// What is destroyed is lost, so every VM that can have the volume is asked, not
	// only those whose tags say so.
	suspects := joined(users, v.mayUse(holder, vol.drive.storage()), holder.vmid)
	if last, ok := vol.lastVM(v, users); ok {
		suspects = joined(suspects, []guest{last}, holder.vmid)
	}
	if err := c.refuseAttached(ctx, cid, holder, suspects); err != nil {
		return err
	}
	if !there && !sure {
		if err := c.vouchEmpty(ctx, v, holder, vol.drive.storage()); err != nil {
			return retryable(err)
		}
	}
	if !there {
		c.log.Printf("disk %s: its volume is gone already", cid)
	}
	if err := c.destroyHolder(ctx, cid, holder, vol); err != nil {
		return err
	}
	c.forgetUser(cid)
	return nil
}

// vouchEmpty returns nil when a storage that lists nothing may well be empty: one
// that is not mounted looks the same.
func (c *CPI) vouchEmpty(ctx context.Context, v *view, holder guest, storage string) error {
	what := fmt.Sprintf("storage %s of node %s shows no volume at all", storage, holder.node)
	row, ok := v.store(storage, holder.node)
	if !ok || !row.available {
		return rpc.CloudError("%s and is not active: check that it is mounted", what)
	}
	for _, g := range v.tagged(tagDisk, storageTag(storage)) {
		if g.vmid != holder.vmid && (row.shared || g.node == holder.node) {
			return rpc.CloudError("%s, but %s should have one there: check that the storage is mounted", what, g)
		}
	}
	status, err := call(ctx, c, c.pve.GetNodeStorageStatus, pve.GetNodeStorageStatusParams{Node: holder.node, Storage: storage})
	if err != nil {
		return c.explain(err, what, need{"Datastore.Audit", "/storage/" + storage})
	}
	if !or(status.Active) {
		return rpc.CloudError("%s and is not active: check that it is mounted", what)
	}
	return nil
}

func (c *CPI) destroyHolder(ctx context.Context, cid rpc.DiskCID, holder guest, vol volume) error {
	path := fmt.Sprintf("/vms/%d", holder.vmid)
	what := fmt.Sprintf("delete disk %s", cid)
	err := c.edit(ctx, holder, vol.conf, func(conf *guestConfig) (*change, error) {
		if !conf.protection {
			return nil, nil
		}
		return &change{protection: new(false)}, nil
	})
	if errors.Is(err, pve.ErrNotFound) {
		return nil
	}
	if err != nil {
		return c.explain(err, what, need{"VM.Config.Options", path})
	}
	err = c.destroy(ctx, holder)
	if unsettled(err) && !isTaskError(err) {
		err = c.destroy(ctx, holder)
	}
	if err == nil || errors.Is(err, pve.ErrNotFound) {
		c.log.Printf("disk %s is deleted", cid)
		return nil
	}
	undo, cancel := afterwards(ctx)
	defer cancel()
	if e := c.updateConfig(undo, holder, change{protection: new(true)}); e != nil && !errors.Is(e, pve.ErrNotFound) {
		c.log.Printf("disk %s: its protection could not be put back: %v", cid, e)
	}
	return c.explain(err, what, need{"VM.Allocate", path})
}

// retryable marks a CloudError as one that passes.
func retryable(err error) error {
	lasts := errors.Is(err, pve.ErrPermission) || errors.Is(err, pve.ErrAuthentication) || errors.Is(err, pve.ErrNotAPI)
	if e, ok := errors.AsType[*rpc.Error](err); ok && e.Class() == rpc.ClassCloudError && !lasts {
		return e.OKToRetry(true)
	}
	return err
}

// vmCIDOf finds the CID of a VM among its tags.
func vmCIDOf(tags []string) string {
	for _, t := range tags {
		if _, err := parseVMCID(rpc.VMCID(t)); err == nil {
			return t
		}
	}
	return ""
}

// SetDiskMetadata implements [rpc.DiskManager].
func (c *CPI) SetDiskMetadata(ctx context.Context, cid rpc.DiskCID, metadata rpc.Metadata) error {
	ctx, cancel := c.within(ctx)
	defer cancel()
	if err := parseDiskCID(cid); err != nil {
		return badInput(err)
	}
	v, err := c.look(ctx)
	if err != nil {
		return err
	}
	holder, users, err := c.needDisk(ctx, v, cid)
	if err != nil {
		return err
	}
	facts := map[string]string{}
	if len(users) == 1 {
		facts[factVM] = vmCIDOf(users[0].tags)
	}
	own := ownershipTags(tagDisk, string(cid), c.director)
	for _, tag := range holder.tags {
		if strings.HasPrefix(tag, tagStoragePrefix) {
			own = append(own, tag)
		}
	}
	err = c.setMetadata(ctx, holder, own, metadata, facts)
	return c.explain(err, fmt.Sprintf("set the metadata of disk %s", cid), need{"VM.Config.Options", fmt.Sprintf("/vms/%d", holder.vmid)})
}

// GetDisks implements [rpc.DiskManager].
func (c *CPI) GetDisks(ctx context.Context, vm rpc.VMCID) ([]rpc.DiskCID, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	cid, err := parseVMCID(vm)
	if err != nil {
		return nil, badInput(err)
	}
	l, ok, err := c.locate(ctx, cid)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, rpc.VMNotFound("VM %s does not exist", cid)
	}
	out := []rpc.DiskCID{}
	for _, d := range l.conf.persistent() {
		out = append(out, rpc.DiskCID(d.serial))
	}
	for _, tag := range l.conf.tags {
		disk := rpc.DiskCID(tag)
		if parseDiskCID(disk) != nil || slices.Contains(out, disk) {
			continue
		}
		// A drive that has lost its serial is the disk all the same.
		if err := c.ensureView(ctx, &l); err != nil {
			return nil, err
		}
		holder, ok, _, err := c.findDisk(ctx, l.view, disk)
		if err != nil {
			return nil, err
		}
		if _, has := l.conf.disk(disk, holder.vmid); ok && has {
			out = append(out, disk)
		}
	}
	return out, nil
}
