package pvetest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

func guestResize(c *call) (any, error) {
	if err := c.checkSkiplock(); err != nil {
		return nil, err
	}
	vmid := int(c.p.int("vmid"))
	return c.guestWorker("resize", vmid, func(t *task, g *guest) error { return c.resize(t, g) }), nil
}

func (c *call) resize(t *task, g *guest) error {
	if err := checkDigest(g, c.p.str("digest")); err != nil {
		return err
	}
	if !c.p.boolean("skiplock", false) {
		if err := g.checkLock(); err != nil {
			return err
		}
	}
	disk := c.p.str("disk")
	text, ok := g.Config[disk]
	if !ok {
		return fail(500, "disk '%s' does not exist", disk)
	}
	d := parseDrive(disk, text)
	if d.file() == "none" {
		return fail(500, "disk '%s' has no associated volume", disk)
	}
	if d.isCD() {
		return fail(500, "you can't resize a cdrom")
	}
	h := c.host(t)
	st, v, err := h.volume(d.file())
	if err != nil {
		return err
	}
	if err := c.check("/storage/"+st.ID, "Datastore.AllocateSpace"); err != nil {
		return err
	}
	want, grow := strings.CutPrefix(c.p.str("size"), "+")
	size, ok := parseSize(want, 1)
	if !ok {
		return fail(500, "invalid size '%s'", c.p.str("size"))
	}
	if grow {
		size += v.Size
	}
	if size < v.Size {
		return fail(500, "shrinking disks is not supported")
	}
	if size == v.Size {
		return nil
	}
	if c.cl().openElsewhere(d.file(), g.VMID) != nil {
		return fail(500, "command '/usr/bin/qemu-img resize '--preallocation=off' -f %s %s %d' failed: exit code 1", v.Format, st.volumePath(v), size)
	}
	if err := h.resize(st, v, size, g.Running); err != nil {
		return err
	}
	d.set("size", formatSize(size))
	g.Config[disk] = d.String()
	return nil
}

func guestMoveDisk(c *call) (any, error) {
	switch {
	case c.p.has("target-vmid"):
		return c.reassign()
	case c.p.has("storage"):
		return c.moveDisk()
	}
	return nil, fail(500, "Provide either a 'storage' to move the disk to a different storage or 'target-vmid' and 'target-disk' to move the disk to another VM")
}

// checkMove checks what is refused before a disk is copied to another storage.
func (c *call) checkMove(vmid int) (*guest, drive, error) {
	g, err := c.guestOn(vmid)
	if err != nil {
		return nil, drive{}, err
	}
	if err := g.checkLock(); err != nil {
		return nil, drive{}, err
	}
	if err := checkDigest(g, c.p.str("digest")); err != nil {
		return nil, drive{}, err
	}
	disk := c.p.str("disk")
	text, ok := g.Config[disk]
	if !ok {
		return nil, drive{}, fail(500, "disk '%s' does not exist", disk)
	}
	d := parseDrive(disk, text)
	if d.file() == "none" || strings.HasPrefix(d.file(), "/") {
		return nil, d, fail(500, "disk '%s' has no associated volume", disk)
	}
	if d.isISO() {
		return nil, d, fail(500, "you can't move a cdrom")
	}
	from, _, _ := strings.Cut(d.file(), ":")
	old, want := imageFormat(d.file()), c.p.str("format")
	if from == c.p.str("storage") && (want == "" || old == "" || old == want) {
		return nil, d, fail(500, "you can't move to the same storage with same format")
	}
	if c.p.boolean("delete", false) && g.snapshotUses(d.file()) {
		return nil, d, fail(500, "you can't move a disk with snapshots and delete the source")
	}
	return g, d, nil
}

func (c *call) moveDisk() (any, error) {
	on := c.p.str("storage")
	if err := c.check("/storage/"+on, "Datastore.AllocateSpace"); err != nil {
		return nil, err
	}
	dst, err := c.cl().storage(on)
	if err != nil {
		return nil, err
	}
	if !dst.has("images") {
		return nil, failParam("storage", "storage '%s' does not support vm images", on)
	}
	vmid := int(c.p.int("vmid"))
	if _, _, err := c.checkMove(vmid); err != nil {
		return nil, err
	}
	if err := dst.checkEnabled(c.node); err != nil {
		return nil, err
	}
	return c.task("qmmove", strconv.Itoa(vmid), func(t *task) error {
		g, d, err := c.checkMove(vmid)
		if err != nil {
			return err
		}
		return c.move(t, g, d, dst)
	}), nil
}

// move is the work of copying a disk to another storage.
func (c *call) move(t *task, g *guest, d drive, dst *storage) error {
	h := c.host(t)
	old := d.file()
	st, v, err := h.volume(old)
	if err != nil {
		return fail(500, "storage migration failed: %s", dieText(err))
	}
	t.logf("copying volume '%s' from current storage '%s' to target storage '%s'", old, st.ID, dst.ID)
	t.logf("create full clone of drive %s (%s)", d.key, old)
	format := c.p.str("format")
	if format == "" {
		format = dst.format(v.Format)
	}
	n, err := h.copyTo(st, v, dst, g.VMID, format, v.Size)
	if err != nil {
		return fail(500, "storage migration failed: %s", dieText(err))
	}
	if g.template() {
		h.makeBase(dst, n)
	}
	d.set("file", dst.volid(n))
	d.set("size", formatSize(n.Size))
	g.Config[d.key] = d.String()
	if !c.p.boolean("delete", false) {
		addUnused(g.Config, old)
		return nil
	}
	t.logf("removing source volume '%s' after successful copy", old)
	if err := h.quiet().free(old); err != nil {
		t.warnf("%s", dieText(err))
	}
	return nil
}

// checkReassign checks what is refused before a disk changes hands.
func (c *call) checkReassign(vmid, target int, disk, slot string) (from, to *guest, d drive, err error) {
	from, to = c.cl().vm(vmid), c.cl().vm(target)
	switch {
	case from == nil || from.Node != c.node:
		return nil, nil, d, fail(500, "could not find VM %d", vmid)
	case to == nil:
		return nil, nil, d, fail(500, "could not find target VM %d", target)
	case to.Node != from.Node:
		return nil, nil, d, fail(500, "Both VMs need to be on the same node (%s) but target VM is on %s.", from.Node, to.Node)
	}
	for _, g := range []*guest{from, to} {
		if err := g.checkLock(); err != nil {
			return nil, nil, d, err
		}
	}
	if from.template() || to.template() {
		return nil, nil, d, fail(500, "Can't move disks from or to template VMs")
	}
	if digest := c.p.str("digest"); digest != "" && digest != from.digest() {
		return nil, nil, d, fail(500, "VM %d: checksum mismatch (file change by other user?)", vmid)
	}
	if digest := c.p.str("target-digest"); digest != "" && digest != to.digest() {
		return nil, nil, d, fail(500, "VM %d: checksum mismatch (file change by other user?)", target)
	}
	text, ok := from.Config[disk]
	if !ok {
		return nil, nil, d, fail(500, "Disk '%s' for VM '%d' does not exist", disk, vmid)
	}
	if _, ok := to.Config[slot]; ok {
		return nil, nil, d, fail(500, "Target disk key '%s' is already in use for VM '%d'", slot, target)
	}
	d = parseDrive(disk, text)
	switch {
	case d.file() == "none":
		return nil, nil, d, fail(500, "disk '%s' has no associated volume", disk)
	case d.isCD():
		return nil, nil, d, fail(500, "CD drive contents can't be moved to another VM")
	case strings.HasPrefix(d.file(), "/"):
		return nil, nil, d, fail(500, "Can't move physical disk to another VM")
	case from.snapshotUses(d.file()):
		return nil, nil, d, fail(500, "Can't move disk used by a snapshot to another VM")
	}
	st, v := c.cl().findVolume(c.node, d.file())
	if v == nil {
		return nil, nil, d, fail(500, "volume '%s' does not exist", d.file())
	}
	if !volumeCan(st.Type, canRename, v.Format, v.isBase()) {
		return nil, nil, d, fail(500, "Storage does not support moving of this disk to another VM")
	}
	if from.Running && !isUnusedKey(disk) {
		return nil, nil, d, fail(500, "Cannot move disk to another VM while the source VM is running - detach first")
	}
	return from, to, d, nil
}

// reassign gives a disk to another guest.
func (c *call) reassign() (any, error) {
	vmid, target := int(c.p.int("vmid")), int(c.p.int("target-vmid"))
	disk, slot := c.p.str("disk"), c.p.str("target-disk")
	if slot == "" {
		slot = disk
	}
	if c.p.has("storage") {
		return nil, failParam("storage", "cannot be used together with target-vmid")
	}
	if err := c.check("/vms/"+strconv.Itoa(target), "VM.Config.Disk"); err != nil {
		return nil, err
	}
	if vmid == target {
		return nil, failParam("target-vmid", "must be different than source VMID to reassign disk")
	}
	_, _, d, err := c.checkReassign(vmid, target, disk, slot)
	if err != nil {
		return nil, err
	}
	on, _, _ := strings.Cut(d.file(), ":")
	if err := c.check("/storage/"+on, "Datastore.AllocateSpace"); err != nil {
		return nil, err
	}
	id := fmt.Sprintf("%d-%s>%d-%s", vmid, disk, target, slot)
	return c.task("qmmove", id, func(t *task) error {
		from, to, d, err := c.checkReassign(vmid, target, disk, slot)
		if err != nil {
			return err
		}
		t.logf("reassign disk '%s' from VM '%d' as '%s' to VM '%d'", disk, vmid, slot, target)
		h := c.host(t)
		st, v := c.cl().findVolume(c.node, d.file())
		volid := h.rename(st, v, target)
		if boot := bootOrder(from.Config["boot"]); slices.Contains(boot, disk) {
			t.logf("removing disk '%s' from boot order config", disk)
			from.Config["boot"] = printBoot(slices.DeleteFunc(boot, func(k string) bool { return k == disk }))
		}
		t.logf("removing disk '%s' from VM '%d' config", disk, vmid)
		delete(from.Config, disk)
		d.set("file", volid)
		if isUnusedKey(disk) && !isUnusedKey(slot) {
			d.set("size", formatSize(v.Size))
		}
		if isUnusedKey(slot) {
			to.Config[slot] = volid
		} else {
			to.Config[slot] = d.String()
		}
		t.logf("update VM %d: -%s %s", target, slot, to.Config[slot])
		return nil
	}), nil
}

func guestFeature(c *call) (any, error) {
	g, err := c.theGuest()
	if err != nil {
		return nil, err
	}
	conf := g.Config
	if name := c.p.str("snapname"); name != "" {
		s, err := g.snapshot(name)
		if err != nil {
			return nil, err
		}
		conf = s.Config
	}
	has, shared := true, true
	for _, key := range volumeKeys(conf, false) {
		d := parseDrive(key, conf[key])
		if d.isCD() {
			continue
		}
		st, v := c.cl().findVolume(c.node, d.file())
		if v == nil {
			has = false
			continue
		}
		shared = shared && st.shared()
		has = has && volumeCan(st.Type, feature(c.p.str("feature")), v.Format, v.isBase())
	}
	nodes := []string{c.node}
	if shared {
		nodes = sortedKeys(c.cl().Nodes)
	}
	return map[string]any{"hasFeature": flag(has), "nodes": nodes}, nil
}
