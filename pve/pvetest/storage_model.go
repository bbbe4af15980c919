package pvetest

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A storage is one entry of storage.cfg and what is on it.
type storage struct {
	ID     string            `json:"id"`
	Type   string            `json:"type"`
	Config map[string]string `json:"config"` // as in storage.cfg, "content" included

	// Size is the storage's capacity, 0 for that of the node's root file
	// system. Other is what is taken by things that are not volumes.
	Size  int64 `json:"size,omitempty"`
	Other int64 `json:"other,omitempty"`

	// Down makes the storage's activation fail on the nodes named, or on all
	// when "" is named.
	Down map[string]bool `json:"down,omitempty"`

	// Volumes are by node and by name; those of a shared storage are under "".
	Volumes map[string]map[string]*volume `json:"volumes,omitempty"`
}

// A volume is a disk image, an ISO image or another file of a storage.
type volume struct {
	Name    string `json:"name"`    // "100/vm-100-disk-0.qcow2", "vm-100-disk-0", "iso/x.iso"
	Content string `json:"content"` // images, iso, import, …
	Format  string `json:"format"`
	VMID    int    `json:"vmid,omitempty"`
	Size    int64  `json:"size"`           // what a guest sees
	Used    int64  `json:"used"`           // what it takes
	Data    int64  `json:"data,omitempty"` // how much of it is not zeroes
	File    int64  `json:"file,omitempty"` // length of an ISO or import file
	CTime   int64  `json:"ctime"`
	Parent  string `json:"parent,omitempty"` // the base volume's name
	Notes   string `json:"notes,omitempty"`
	Keep    bool   `json:"keep,omitempty"` // a protected backup

	// Blob is the handle of the volume's bytes, "" when it has none: all
	// zeroes. Clones of a volume share it.
	Blob string `json:"blob,omitempty"`

	Snapshots map[string]int64 `json:"snapshots,omitempty"` // name and size
}

func (v *volume) isBase() bool { return isBaseName(v.Name) }

// isBaseName tells whether a volume's name says that it is a template's.
func isBaseName(name string) bool {
	return strings.HasPrefix(name[strings.LastIndexByte(name, '/')+1:], "base-")
}

func (st *storage) kind() storageKind { return kindOf(st.Type) }

// shared tells whether all nodes see the same volumes.
func (st *storage) shared() bool { return st.kind().shared || st.Config["shared"] == "1" }

func (st *storage) enabled() bool { return st.Config["disable"] != "1" }

// has tells whether the storage is set up for a content type.
func (st *storage) has(content string) bool {
	return slices.Contains(splitList(st.Config["content"]), content)
}

// onNode tells whether the storage is meant for a node.
func (st *storage) onNode(node string) bool {
	nodes := splitList(st.Config["nodes"])
	return len(nodes) == 0 || slices.Contains(nodes, node)
}

// checkEnabled fails when the storage is off or not meant for node.
func (st *storage) checkEnabled(node string) error {
	if !st.enabled() {
		return fail(500, "storage '%s' is disabled", st.ID)
	}
	if !st.onNode(node) {
		return fail(500, "storage '%s' is not available on node '%s'", st.ID, node)
	}
	return nil
}

// online tells whether the storage can be activated on node.
func (st *storage) online(node string) bool { return !st.Down[node] && !st.Down[""] }

// activate is checkEnabled and fails when the storage is seeded as down.
func (st *storage) activate(node string) error {
	if err := st.checkEnabled(node); err != nil {
		return err
	}
	if st.online(node) {
		return nil
	}
	switch st.Type {
	case "nfs", "cifs", "cephfs":
		return fail(500, "storage '%s' is not online", st.ID)
	case "dir", "btrfs":
		return fail(500, "unable to activate storage '%s' - directory '%s' does not exist or is unreachable", st.ID, st.path())
	case "lvm", "lvmthin":
		return fail(500, "can't activate VG '%s': Volume group \"%[1]s\" not found", st.Config["vgname"])
	case "zfspool":
		return fail(500, "could not activate storage '%s', zfs error: cannot import '%s': no such pool available", st.ID, st.Config["pool"])
	}
	return fail(500, "rbd error: rbd: couldn't connect to the cluster!")
}

// home is the key of Volumes for what a node sees.
func (st *storage) home(node string) string {
	if st.shared() {
		return ""
	}
	return node
}

// on returns the volumes a node sees.
func (st *storage) on(node string) map[string]*volume { return st.Volumes[st.home(node)] }

// put enters a volume where node sees it.
func (st *storage) put(node string, v *volume) {
	if st.Volumes == nil {
		st.Volumes = map[string]map[string]*volume{}
	}
	home := st.home(node)
	if st.Volumes[home] == nil {
		st.Volumes[home] = map[string]*volume{}
	}
	st.Volumes[home][v.Name] = v
}

// path is the directory of a file storage.
func (st *storage) path() string {
	if p := st.Config["path"]; p != "" {
		return strings.TrimRight(p, "/")
	}
	return "/mnt/pve/" + st.ID
}

// volumePath is where a volume is on a node.
func (st *storage) volumePath(v *volume) string {
	if !st.kind().files {
		switch st.Type {
		case "zfspool":
			return "/dev/zvol/" + st.Config["pool"] + "/" + v.Name
		case "rbd":
			return "/dev/rbd-pve/" + st.Config["pool"] + "/" + v.Name
		}
		return "/dev/" + st.Config["vgname"] + "/" + v.Name
	}
	return st.filePath(v.Content, v.Name)
}

// filePath is where a file storage keeps a volume.
func (st *storage) filePath(content, name string) string {
	base := name[strings.LastIndexByte(name, '/')+1:]
	switch content {
	case "iso":
		return st.path() + "/template/iso/" + base
	case "vztmpl":
		return st.path() + "/template/cache/" + base
	case "backup":
		return st.path() + "/dump/" + base
	case "snippets", "import":
		return st.path() + "/" + content + "/" + base
	}
	return st.path() + "/images/" + name
}

// volid is a volume's identifier as configs and lists show it.
func (st *storage) volid(v *volume) string {
	if v.Parent != "" && st.kind().parent {
		return st.ID + ":" + v.Parent + "/" + v.Name
	}
	return st.ID + ":" + v.Name
}

// A volumeName is a volume's name taken apart.
type volumeName struct {
	key     string // under which the storage keeps it
	content string
	format  string
	vmid    int
	parent  string
	base    bool
}

var (
	blockVolumeName = regexp.MustCompile(`^(vm|base|subvol|basevol)-(\d+)-\S+$`)
	backupName      = regexp.MustCompile(`^vzdump-(?:qemu|lxc)-(\d+)-`)
)

// parseName takes a volume's name apart, as the storage's plugin would.
func (st *storage) parseName(name string) (volumeName, error) {
	if st.kind().files {
		return parseFileName(name)
	}
	plugin := map[string]string{"zfspool": "zfs", "rbd": "rbd"}[st.Type]
	if plugin == "" {
		plugin = "lvm"
	}
	n := volumeName{content: "images", format: "raw", key: name}
	if parent, child, ok := strings.Cut(name, "/"); ok {
		if !st.kind().parent {
			return n, fail(500, "unable to parse %s volume name '%s'", plugin, name)
		}
		n.parent, n.key = parent, child
	}
	m := blockVolumeName.FindStringSubmatch(n.key)
	if m == nil {
		return n, fail(500, "unable to parse %s volume name '%s'", plugin, name)
	}
	n.vmid, _ = strconv.Atoi(m[2])
	n.base = m[1] == "base"
	if strings.HasSuffix(n.key, ".qcow2") {
		n.format = "qcow2"
	}
	return n, nil
}

// parseFileName takes a volume's name on a file storage apart.
func parseFileName(name string) (volumeName, error) {
	n := volumeName{key: name}
	dir, file, ok := strings.Cut(name, "/")
	if !ok || file == "" {
		return n, fail(500, "unable to parse directory volume name '%s'", name)
	}
	lower := strings.ToLower(file)
	ends := func(suffixes ...string) bool {
		return !strings.Contains(file, "/") && slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(lower, s) })
	}
	switch dir {
	case "iso":
		if ends(".iso", ".img") {
			n.content, n.format = "iso", "iso"
			return n, nil
		}
	case "vztmpl":
		if ends(".tar.gz", ".tar.xz", ".tar.zst", ".tar.bz2", ".tar") {
			n.content, n.format = "vztmpl", "t"+lower[strings.LastIndexByte(lower, '.')+1:]
			return n, nil
		}
	case "import":
		if ends(".ova", ".qcow2", ".raw", ".vmdk") {
			n.content, n.format = "import", lower[strings.LastIndexByte(lower, '.')+1:]
			return n, nil
		}
	case "snippets":
		if !strings.Contains(file, "/") {
			n.content, n.format = "snippets", "snippet"
			return n, nil
		}
	case "backup":
		if !strings.Contains(file, "/") {
			n.content, n.format = "backup", file[strings.IndexByte(file, '.')+1:]
			if m := backupName.FindStringSubmatch(file); m != nil {
				n.vmid, _ = strconv.Atoi(m[1])
			}
			return n, nil
		}
	default:
		parts := strings.Split(name, "/")
		if len(parts) != 2 && len(parts) != 4 {
			break
		}
		owner := parts[len(parts)-2]
		id, err := strconv.Atoi(owner)
		if err != nil {
			break
		}
		n.content, n.vmid = "images", id
		n.key = owner + "/" + parts[len(parts)-1]
		if len(parts) == 4 {
			n.parent = parts[0] + "/" + parts[1]
		}
		n.format = imageFormat(parts[len(parts)-1])
		if n.format == "" {
			return n, fail(500, "unable to parse volume filename '%s'", parts[len(parts)-1])
		}
		n.base = isBaseName(n.key)
		return n, nil
	}
	return n, fail(500, "unable to parse directory volume name '%s'", name)
}

// imageFormat is the format a disk image's file name says, "" for none.
func imageFormat(file string) string {
	ext := file[strings.LastIndexByte(file, '.')+1:]
	if ext != file && slices.Contains([]string{"raw", "qcow2", "vmdk", "subvol"}, ext) {
		return ext
	}
	return ""
}

// freeName is the name of a guest's next disk.
func (st *storage) freeName(node string, vmid int, format string) string {
	taken := map[int]bool{}
	re := regexp.MustCompile(`^(?:vm|base)-` + strconv.Itoa(vmid) + `-disk-(\d+)(?:\..*)?$`)
	for name, v := range st.on(node) {
		if v.VMID != vmid {
			continue
		}
		if m := re.FindStringSubmatch(name[strings.LastIndexByte(name, '/')+1:]); m != nil {
			i, _ := strconv.Atoi(m[1])
			taken[i] = true
		}
	}
	i := 0
	for taken[i] {
		i++
	}
	return st.diskName(vmid, "vm-"+strconv.Itoa(vmid)+"-disk-"+strconv.Itoa(i), format)
}

// diskName is the key of a disk of a guest with a name and format.
func (st *storage) diskName(vmid int, name, format string) string {
	if st.kind().files {
		return strconv.Itoa(vmid) + "/" + name + "." + format
	}
	if format == "qcow2" {
		return name + ".qcow2"
	}
	return name
}

// format returns the format a new volume gets when want is asked for, "" for
// anything.
func (st *storage) format(want string) string {
	formats := st.kind().formats
	if slices.Contains(formats, want) {
		return want
	}
	if f := st.Config["format"]; f != "" && slices.Contains(formats, f) {
		return f
	}
	if len(formats) == 0 {
		return "raw"
	}
	return formats[0]
}

// usage returns a storage's total, used and free bytes on a node. Storages
// that are directories of a node's root file system share its figures.
func (cl *cluster) usage(st *storage, node string) (total, used, avail int64) {
	if st.Size > 0 {
		used = st.Other + st.volumeBytes(node)
		total = st.Size
	} else {
		if n := cl.Nodes[node]; n != nil {
			total, used = n.Disk, n.Disk/10
		}
		for _, other := range cl.Storages {
			if other.Size == 0 && other.onNode(node) {
				used += other.Other + other.volumeBytes(node)
			}
		}
	}
	return total, used, max(total-used, 0)
}

// volumeBytes adds up what the volumes that a node sees take.
func (st *storage) volumeBytes(node string) int64 {
	var sum int64
	for _, v := range st.on(node) {
		sum += v.Used
	}
	return sum
}

// findVolume returns the volume of a volid as seen from a node.
func (cl *cluster) findVolume(node, volid string) (*storage, *volume) {
	id, name, ok := strings.Cut(volid, ":")
	st := cl.Storages[id]
	if !ok || st == nil {
		return nil, nil
	}
	n, err := st.parseName(name)
	if err != nil {
		return st, nil
	}
	return st, st.on(node)[n.key]
}

// clones returns the volumes that a node sees of which base is the base.
func (st *storage) clones(node string, base *volume) []*volume {
	var all []*volume
	for _, v := range st.on(node) {
		if v.Parent == base.Name {
			all = append(all, v)
		}
	}
	return all
}
