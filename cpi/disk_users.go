package cpi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve"
)

// Which VM has a disk is said three times: by the VM's tag, by the serial of its
// drive, and by the name of the volume, which holds the holder's VMID. An operator
// can lose any of them by hand, so none is trusted to say "nobody" alone.

// disk returns the drive of a guest that is the disk: the one with its serial or,
// when somebody has set that drive anew without one, the one with the holder's
// volume.
func (c *guestConfig) disk(cid rpc.DiskCID, holder VMID) (drive, bool) {
	if d, ok := c.serial(string(cid)); ok {
		return d, true
	}
	return c.find(func(d drive) bool { return holder != 0 && !d.unused() && d.owner() == holder })
}

// A use is a drive of a guest that is a disk.
type use struct {
	guest guest
	conf  *guestConfig
	drive drive
}

func (u use) String() string {
	cid := vmCIDOf(u.conf.tags)
	if isCopy(u.guest.vmid, u.conf.tags) {
		return fmt.Sprintf("%s, which is a copy of VM %s (%s)", u.guest, cid, u.drive.slot)
	}
	return fmt.Sprintf("VM %s (%s, %s)", cmp.Or(cid, u.conf.name), u.guest, u.drive.slot)
}

func joinUses(uses []use) string {
	names := make([]string, len(uses))
	for i, u := range uses {
		names[i] = u.String()
	}
	return strings.Join(names, " and to ")
}

// isCopy reports whether a guest has the tags of a VM and is another one: who
// clones a guest clones its tags and the serials of its drives.
func isCopy(id VMID, tags []string) bool {
	cid, err := parseVMCID(rpc.VMCID(vmCIDOf(tags)))
	return err == nil && cid.VMID != id
}

// usage is what a look at the guests that may have a disk brings to light.
type usage struct {
	uses []use
	// stale are guests that carry the disk's tag and do not have the disk.
	stale []guest
	// doubtful are those that, besides, have an unused volume of their own: an
	// administrator who moves a disk and detaches it leaves the data in one.
	doubtful []guest
}

// inspect reads the configurations of guests to see which of them have the disk.
func (c *CPI) inspect(ctx context.Context, cid rpc.DiskCID, holder VMID, guests []guest) (usage, error) {
	confs := make([]*guestConfig, len(guests))
	errs := make([]error, len(guests))
	var wg sync.WaitGroup
	turns := make(chan struct{}, 8)
	for i, g := range guests {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			confs[i], errs[i] = c.config(ctx, g)
		})
	}
	wg.Wait()
	var out usage
	for i, g := range guests {
		if errors.Is(errs[i], pve.ErrNotFound) {
			continue
		}
		if errs[i] != nil {
			return usage{}, c.explain(errs[i], fmt.Sprintf("see whether disk %s is attached to %s", cid, g), need{"VM.Audit", fmt.Sprintf("/vms/%d", g.vmid)})
		}
		conf := confs[i]
		d, ok := conf.disk(cid, holder)
		switch {
		case ok:
			out.uses = append(out.uses, use{guest: g, conf: conf, drive: d})
		case !hasTags(conf.tags, string(cid)):
		case slices.ContainsFunc(conf.drives, func(d drive) bool { return d.unused() && d.owner() == g.vmid }):
			out.doubtful = append(out.doubtful, g)
		default:
			out.stale = append(out.stale, g)
		}
	}
	return out, nil
}

// refuseAttached refuses when one of the guests has the disk. A tag that says so
// and is wrong is removed.
func (c *CPI) refuseAttached(ctx context.Context, cid rpc.DiskCID, holder guest, guests []guest) error {
	found, err := c.inspect(ctx, cid, holder.vmid, guests)
	if err != nil {
		return err
	}
	advice := "detach it first"
	for _, u := range found.uses {
		if isCopy(u.guest.vmid, u.conf.tags) {
			advice += fmt.Sprintf(", and take the copied tags and serials off guest %d", u.guest.vmid)
		}
	}
	if len(found.uses) > 0 {
		return rpc.CloudError("disk %s is attached to %s: %s", cid, joinUses(found.uses), advice)
	}
	for _, g := range found.doubtful {
		c.log.Printf("%s carries the tag of disk %s, but does not have the disk", g, cid)
	}
	c.dropStale(ctx, cid, found.stale)
	return nil
}

// dropStale removes the disk's tag from guests that do not have the disk: someone
// took the drive off by hand.
func (c *CPI) dropStale(ctx context.Context, cid rpc.DiskCID, guests []guest) {
	for _, g := range guests {
		err := c.edit(ctx, g, nil, func(conf *guestConfig) (*change, error) {
			tags := retag(conf.tags, nil, []string{string(cid)}, nil)
			if _, ok := conf.serial(string(cid)); ok || sameTags(tags, conf.tags) {
				return nil, nil
			}
			return &change{tags: tags}, nil
		})
		if err != nil {
			c.log.Printf("%s carries the tag of disk %s and does not have the disk; the tag could not be removed: %v", g, cid, err)
			continue
		}
		c.log.Printf("%s carried the tag of disk %s and did not have the disk; the tag is removed", g, cid)
	}
}

// untagged returns the guests that have the name of a VM and not its tags: what
// their tags would say about disks is not known.
func (v *view) untagged() []guest {
	var out []guest
	for _, g := range v.guests {
		token, ok := strings.CutPrefix(g.name, vmName(""))
		if ok && !g.template && isToken(token, vmTokenLength) && !(hasTags(g.tags, tagVM) && vmCIDOf(g.tags) != "") {
			out = append(out, g)
		}
	}
	return out
}

// mayUse returns the VMs that can see a disk on a storage: all on a shared one,
// else those on the holder's node.
func (v *view) mayUse(holder guest, storage string) []guest {
	var out []guest
	for _, g := range append(v.tagged(tagVM), v.untagged()...) {
		s, sees := v.store(storage, g.node)
		if g.template || !v.online(g.node) || !sees || !s.shared && g.node != holder.node {
			continue
		}
		out = append(out, g)
	}
	return out
}

// joined appends guests that are not among the others, and leaves those out that
// are one of except.
func joined(guests, more []guest, except ...VMID) []guest {
	var out []guest
	for _, g := range slices.Concat(guests, more) {
		same := func(o guest) bool { return o.vmid == g.vmid }
		if !slices.Contains(except, g.vmid) && !slices.ContainsFunc(out, same) {
			out = append(out, g)
		}
	}
	return out
}
