package pvetest

import "slices"

// A storageKind is what a type of storage can do.
type storageKind struct {
	files   bool     // volumes are files below a directory
	shared  bool     // the same volumes on every node
	parent  bool     // a linked clone's name includes its base's
	thick   bool     // space is taken when a volume is allocated
	formats []string // of guest volumes, the natural one first; none: no guest volumes
	content []string // what may be switched on
	initial string   // what is on when nothing is said
	addr    string   // the config key that says where the storage is
	fixed   []string // config keys that cannot be changed later
}

// kindOf returns what a type of storage can do. The types that hold no guest
// volumes here are known by name only.
func kindOf(typ string) storageKind {
	all := []string{"images", "rootdir", "vztmpl", "iso", "backup", "snippets", "import"}
	block := []string{"images", "rootdir"}
	fileFormats := []string{"raw", "qcow2", "vmdk", "subvol"}
	switch typ {
	case "dir":
		return storageKind{files: true, parent: true, formats: fileFormats, content: all, initial: "images,rootdir", addr: "path", fixed: []string{"path"}}
	case "nfs":
		return storageKind{files: true, parent: true, shared: true, formats: fileFormats, content: all, initial: "images", addr: "server", fixed: []string{"export", "server", "path"}}
	case "cifs":
		return storageKind{files: true, parent: true, shared: true, formats: fileFormats, content: all, initial: "images", addr: "server", fixed: []string{"share", "server", "path"}}
	case "btrfs":
		return storageKind{files: true, parent: true, formats: []string{"raw", "qcow2", "subvol"}, content: all, initial: "images,rootdir", addr: "path", fixed: []string{"path"}}
	case "cephfs":
		return storageKind{files: true, shared: true, content: []string{"vztmpl", "iso", "backup", "snippets", "import"}, initial: "backup", addr: "monhost", fixed: []string{"path"}}
	case "lvm":
		return storageKind{thick: true, formats: []string{"raw", "qcow2"}, content: block, initial: "images,rootdir", addr: "vgname", fixed: []string{"vgname", "base"}}
	case "lvmthin":
		return storageKind{formats: []string{"raw"}, content: block, initial: "images,rootdir", addr: "vgname", fixed: []string{"vgname", "thinpool"}}
	case "zfspool":
		return storageKind{parent: true, thick: true, formats: []string{"raw", "subvol"}, content: block, initial: "images,rootdir", addr: "pool", fixed: []string{}}
	case "rbd":
		return storageKind{parent: true, shared: true, formats: []string{"raw"}, content: block, initial: "images", addr: "pool", fixed: []string{}}
	}
	return storageKind{content: all, initial: "images"}
}

// A feature is something a volume can take part in.
type feature string

const (
	canSnapshot feature = "snapshot"
	canClone    feature = "clone" // be the base of a linked clone
	canCopy     feature = "copy"
	canTemplate feature = "template"
	canRename   feature = "rename"
)

// volumeCan tells whether a volume of a storage of that type has a feature.
// base tells whether the volume is a template's base volume.
func volumeCan(typ string, f feature, format string, base bool) bool {
	disk := slices.Contains([]string{"raw", "qcow2", "vmdk"}, format)
	switch f {
	case canCopy:
		return disk
	case canRename:
		return disk && !base
	case canTemplate:
		return typ != "lvm" && !base
	case canClone:
		return typ != "lvm" && base && disk
	case canSnapshot:
		switch typ {
		case "dir", "nfs", "cifs":
			return format == "qcow2" && !base
		case "btrfs":
			return (format == "qcow2" || format == "raw" || format == "subvol") && !base
		case "lvm":
			return format == "qcow2" && !base
		case "lvmthin", "zfspool", "rbd":
			return !base
		}
	}
	return false
}

// storageTypes lists the types that can hold something here.
func storageTypes() []string {
	return []string{"btrfs", "cephfs", "cifs", "dir", "lvm", "lvmthin", "nfs", "rbd", "zfspool"}
}
