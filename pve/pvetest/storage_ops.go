package pvetest

import (
	"strconv"
	"strings"
)

// A host is a node at work on its storages, with a log for what the tools
// would print.
type host struct {
	s    *Server
	node string
	t    *task // nil: nobody reads the log
}

// host returns the node that answers the call; t may be nil.
func (c *call) host(t *task) host { return host{s: c.s, node: c.node, t: t} }

func (h host) cl() *cluster { return h.s.state }

func (h host) logf(format string, args ...any) {
	if h.t != nil {
		h.t.logf(format, args...)
	}
}

// storage returns a storage by its name.
func (cl *cluster) storage(id string) (*storage, error) {
	if st := cl.Storages[id]; st != nil {
		return st, nil
	}
	return nil, fail(500, "storage '%s' does not exist", id)
}

// volume returns the volume of a volid, or an error that says it is missing.
func (h host) volume(volid string) (*storage, *volume, error) {
	id, name, _ := strings.Cut(volid, ":")
	st, err := h.cl().storage(id)
	if err != nil {
		return nil, nil, err
	}
	n, err := st.parseName(name)
	if err != nil {
		return nil, nil, err
	}
	if err := st.activate(h.node); err != nil {
		return nil, nil, err
	}
	if v := st.on(h.node)[n.key]; v != nil {
		return st, v, nil
	}
	return nil, nil, fail(500, "volume '%s' does not exist", volid)
}

// alloc makes an empty volume for a guest. An empty name takes the guest's
// next free one.
func (h host) alloc(st *storage, vmid int, format, name string, size int64) (*volume, error) {
	if err := st.activate(h.node); err != nil {
		return nil, err
	}
	if format == "" {
		format = st.format("")
	}
	if st.format(format) != format {
		return nil, fail(500, "unsupported format '%s'", format)
	}
	if name == "" {
		name = st.freeName(h.node, vmid, format)
	}
	v := &volume{Name: name, Content: "images", Format: format, VMID: vmid, Size: size, CTime: h.s.clock().Unix()}
	if st.on(h.node)[name] != nil {
		switch {
		case st.kind().files:
			return nil, fail(500, "disk image '%s' already exists", st.volumePath(v))
		case st.Type == "zfspool":
			return nil, fail(500, "zfs error: cannot create '%s/%s': dataset already exists", st.Config["pool"], name)
		case st.Type == "rbd":
			return nil, fail(500, "rbd create '%s' error: rbd: create error: (17) File exists", name)
		}
		return nil, fail(500, "lvcreate '%s/%s' error:   Logical Volume \"%[2]s\" already exists in volume group \"%[1]s\"", st.Config["vgname"], name)
	}
	if err := h.room(st, v); err != nil {
		return nil, err
	}
	v.Used = blankUsed(st, v)
	h.logFormatting(st, v)
	st.put(h.node, v)
	return v, nil
}

// room rounds a new volume's size to what the storage can make and fails when
// the storage reserves space and has not enough.
func (h host) room(st *storage, v *volume) error {
	if st.Type == "lvm" || st.Type == "lvmthin" {
		v.Size = roundUp(v.Size, 4*mib)
	}
	if !st.thick() {
		return nil
	}
	_, _, avail := h.cl().usage(st, h.node)
	if v.Size <= avail {
		return nil
	}
	if st.Type == "zfspool" {
		return fail(500, "zfs error: cannot create '%s/%s': out of space", st.Config["pool"], v.Name)
	}
	return fail(500, "lvcreate '%s/%s' error:   Volume group \"%[1]s\" has insufficient free space (%[3]d extents): %[4]d required.",
		st.Config["vgname"], v.Name, avail/(4*mib), v.Size/(4*mib))
}

// thick tells whether volumes take their whole size at once.
func (st *storage) thick() bool { return st.kind().thick && st.Config["sparse"] != "1" }

// blankUsed is what a new volume without data takes.
func blankUsed(st *storage, v *volume) int64 {
	switch {
	case st.thick():
		return v.Size
	case v.Format == "qcow2" && v.Parent != "":
		return 128*kib*(3+roundUp(v.Size, gib)/gib) + 4*kib
	case v.Format == "qcow2":
		return 64*kib*(3+roundUp(v.Size, 512*mib)/(512*mib)) + 4*kib
	case v.Format == "vmdk":
		return 12 * kib
	case st.kind().files && v.Size > 0:
		return 4 * kib
	}
	return 0
}

// logFormatting writes what the storage's tool says of a new volume.
func (h host) logFormatting(st *storage, v *volume) {
	switch {
	case st.kind().files && v.Parent != "":
		h.logf("Formatting '%s', fmt=qcow2 cluster_size=131072 extended_l2=on preallocation=metadata compression_type=zlib size=%d backing_file=../%s backing_fmt=%s lazy_refcounts=off refcount_bits=16",
			st.volumePath(v), v.Size, v.Parent, imageFormat(v.Parent))
	case st.kind().files && v.Format == "qcow2":
		h.logf("Formatting '%s', fmt=qcow2 cluster_size=65536 extended_l2=off preallocation=metadata compression_type=zlib size=%d lazy_refcounts=off refcount_bits=16",
			st.volumePath(v), v.Size)
	case st.kind().files && v.Format == "raw":
		h.logf("Formatting '%s', fmt=raw size=%d preallocation=off", st.volumePath(v), v.Size)
	case st.kind().files && v.Format == "vmdk":
		h.logf("Formatting '%s', fmt=vmdk size=%d compat6=off hwversion=undefined", st.volumePath(v), v.Size)
	case st.Type == "lvm" || st.Type == "lvmthin":
		h.logf("  Logical volume \"%s\" created.", v.Name)
	}
}

// free removes a volume. One that is gone already is fine.
func (h host) free(volid string) error {
	id, name, _ := strings.Cut(volid, ":")
	st, err := h.cl().storage(id)
	if err != nil {
		return err
	}
	n, err := st.parseName(name)
	if err != nil {
		return err
	}
	if err := st.activate(h.node); err != nil {
		return err
	}
	v := st.on(h.node)[n.key]
	if v == nil {
		if st.kind().files {
			h.logf("disk image '%s' does not exist", st.filePath(n.content, n.key))
		}
		return nil
	}
	if v.isBase() && len(st.clones(h.node, v)) > 0 {
		return fail(500, "base volume '%s' is still in use by linked cloned", volid)
	}
	switch st.Type {
	case "lvm", "lvmthin":
		h.logf("  Logical volume \"%s\" successfully removed.", v.Name)
	}
	h.drop(st, v)
	return nil
}

// drop takes a volume off its storage.
func (h host) drop(st *storage, v *volume) {
	delete(st.on(h.node), v.Name)
	h.s.releaseBlob(v.Blob)
}

// makeBase turns a guest's volume into a base volume.
func (h host) makeBase(st *storage, v *volume) {
	delete(st.on(h.node), v.Name)
	i := strings.LastIndexByte(v.Name, '/') + 1
	v.Name = v.Name[:i] + "base-" + strings.TrimPrefix(v.Name[i:], "vm-")
	v.Parent = ""
	st.put(h.node, v)
}

// linkedClone makes a clone of a base volume for a guest.
func (h host) linkedClone(st *storage, base *volume, vmid int) (*volume, error) {
	if err := st.activate(h.node); err != nil {
		return nil, err
	}
	format := base.Format
	// On btrfs a raw image is a subvolume, whose snapshot needs no base.
	backed := st.kind().files && (st.Type != "btrfs" || format != "raw")
	if backed {
		format = "qcow2"
	}
	v := &volume{
		Name: st.freeName(h.node, vmid, format), Content: "images", Format: format, VMID: vmid,
		Size: base.Size, CTime: h.s.clock().Unix(), Blob: base.Blob,
	}
	if backed || st.kind().parent && !st.kind().files {
		v.Parent = base.Name
	}
	if backed {
		file := v.Name[strings.LastIndexByte(v.Name, '/')+1:]
		h.logf("clone %s: images, %s, %d to %[2]s (base=../%[1]s)", base.Name, file, vmid)
		v.Used = blankUsed(st, v)
		h.logFormatting(st, v)
	} else if st.Type == "lvmthin" {
		h.logFormatting(st, v)
	}
	st.put(h.node, v)
	return v, nil
}

// copyTo makes a full copy of a volume, or of its state at a snapshot, for a
// guest on storage dst.
func (h host) copyTo(st *storage, v *volume, dst *storage, vmid int, format string, size int64) (*volume, error) {
	source := st.volumePath(v)
	n, err := h.alloc(dst, vmid, format, "", size)
	if err != nil {
		return nil, err
	}
	if v.isImportFile() || st.kind().files || dst.kind().files || st != dst {
		h.logf("allocated target volume '%s'", dst.volid(n))
	}
	if err := h.fill(n, dst, v, source); err != nil {
		return nil, err
	}
	return n, nil
}

func (v *volume) isImportFile() bool { return v.Content == "import" }

// fill writes the data of v to the new volume n, and removes n when the
// storage has no room for it.
func (h host) fill(n *volume, dst *storage, v *volume, source string) error {
	_, _, avail := h.cl().usage(dst, h.node)
	h.logf("transferred 0.0 B of %s (0.00%%)", humanSize(n.Size))
	if !dst.thick() && v.Data > avail {
		h.drop(dst, n)
		return fail(500, "copy failed: command '/usr/bin/qemu-img convert -p -n -f %s -O %s %s zeroinit:%s' failed: exit code 1",
			v.Format, n.Format, source, dst.volumePath(n))
	}
	h.logf("transferred %s of %[1]s (100.00%%)", humanSize(n.Size))
	n.Data, n.Blob = v.Data, v.Blob
	if !dst.thick() {
		n.Used = v.Data
		if n.Format == "qcow2" {
			n.Used += blankUsed(dst, n)
		}
	}
	return nil
}

// resize changes a volume's size. live tells whether a running guest does it.
func (h host) resize(st *storage, v *volume, size int64, live bool) error {
	if v.Format == "qcow2" || st.Type == "rbd" {
		size = roundUp(size, 512)
	}
	if st.Type == "lvm" || st.Type == "lvmthin" {
		size = roundUp(size, 4*mib)
	}
	if st.Type == "zfspool" {
		size = roundUp(size, mib)
	}
	grow := size - v.Size
	if st.thick() {
		if _, _, avail := h.cl().usage(st, h.node); grow > avail {
			if st.Type == "zfspool" {
				return fail(500, "zfs error: cannot set property for '%s/%s': size is greater than available space", st.Config["pool"], v.Name)
			}
			return fail(500, "error resizing volume '/dev/%s/%s':   Insufficient free space: %d extents needed, but only %d available",
				st.Config["vgname"], v.Name, roundUp(grow, 4*mib)/(4*mib), avail/(4*mib))
		}
		v.Used += grow
	}
	switch {
	case st.kind().files && v.Format == "qcow2":
		v.Used += 64*kib*(1+roundUp(grow, 512*mib)/(512*mib)) + 4*kib
	case st.Type == "lvm" || st.Type == "lvmthin":
		h.logf("  Logical volume %s/%s successfully resized.", st.Config["vgname"], v.Name)
	}
	if st.kind().files && !live {
		h.logf("Image resized.")
	}
	v.Size = size
	return nil
}

// rename gives a volume to another guest and returns its new volid.
func (h host) rename(st *storage, v *volume, vmid int) string {
	name := st.freeName(h.node, vmid, v.Format)
	delete(st.on(h.node), v.Name)
	v.Name, v.VMID = name, vmid
	st.put(h.node, v)
	return st.volid(v)
}

// hand moves a volume of a node's own storage to the same storage of another
// node and returns its volid there.
func (h host) hand(st *storage, v *volume, target string) string {
	delete(st.on(h.node), v.Name)
	if st.on(target)[v.Name] != nil {
		v.Name = st.freeName(target, v.VMID, v.Format)
	}
	st.put(target, v)
	return st.volid(v)
}

// owned lists the volumes of a guest that its node sees, sorted by volid.
func (h host) owned(vmid int) []string {
	all := map[string]bool{}
	for _, st := range h.cl().Storages {
		if !st.enabled() || !st.onNode(h.node) || !st.online(h.node) {
			continue
		}
		for _, v := range st.on(h.node) {
			if v.VMID == vmid && v.Content == "images" {
				all[st.volid(v)] = true
			}
		}
	}
	return sortedKeys(all)
}

// ownerOf is the guest whose VMID a volume's name carries, 0 for none.
func (cl *cluster) ownerOf(volid string) int {
	id, name, ok := strings.Cut(volid, ":")
	st := cl.Storages[id]
	if !ok || st == nil {
		return 0
	}
	n, err := st.parseName(name)
	if err != nil {
		return 0
	}
	return n.vmid
}

// ownDiskName returns the fixed name of a guest's special disk, such as its
// cloud-init drive.
func (st *storage) ownDiskName(vmid int, what, format string) string {
	return st.diskName(vmid, "vm-"+strconv.Itoa(vmid)+"-"+what, format)
}
