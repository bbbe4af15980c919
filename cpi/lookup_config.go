package cpi

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/proxkit/proxkit/cpi/rpc"
)

// A guestConfig is what the CPI reads of a guest's configuration.
type guestConfig struct {
	name        string
	description string
	lock        string
	digest      string
	hotplug     string
	tags        []string
	template    bool
	protection  bool
	snapshots   bool
	created     time.Time // zero when unknown
	drives      []drive   // in the order of their slots
}

// A drive is one drive of a guest.
type drive struct {
	slot   string // "virtio2", "ide2", "unused0"
	volume string // "shared:vm-101-disk-0", or "none"
	serial string
	size   int64 // bytes, 0 when unknown
	// options are the other options as "key=value", in the server's order, known
	// to the CPI or not.
	options []string
}

// parseDrive reads a drive as PVE writes it. A value holds no comma.
func parseDrive(slot, text string) drive {
	d := drive{slot: slot}
	for i, part := range strings.Split(text, ",") {
		key, value, ok := strings.Cut(part, "=")
		switch {
		case i == 0 && !ok:
			d.volume = part
		case key == "file", key == "volume":
			d.volume = value
		case key == "serial":
			d.serial = value
		case key == "size":
			d.size = parseSize(value)
		default:
			d.options = append(d.options, part)
		}
	}
	return d
}

// parseSize reads a size as PVE writes it, such as 10G; 0 when it cannot.
func parseSize(text string) int64 {
	shift := 0
	if i := strings.IndexAny(text, "KMGT"); i == len(text)-1 && i > 0 {
		shift = 10 * (1 + strings.IndexByte("KMGT", text[i]))
		text = text[:i]
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n < 0 {
		return 0
	}
	return int64(n * float64(int64(1)<<shift))
}

// String returns the drive as PVE reads it. The size is PVE's to know.
func (d drive) String() string {
	parts := []string{d.volume}
	if d.serial != "" {
		parts = append(parts, "serial="+d.serial)
	}
	return strings.Join(append(parts, d.options...), ",")
}

// storage returns the storage that the volume is on.
func (d drive) storage() string {
	storage, _, ok := strings.Cut(d.volume, ":")
	if !ok {
		return ""
	}
	return storage
}

// owner returns the VMID in the volume's name, which says whose destruction takes
// the volume along, or 0.
func (d drive) owner() VMID {
	name := d.volume[strings.LastIndexAny(d.volume, ":/")+1:]
	kind, rest, _ := strings.Cut(name, "-")
	if kind != "vm" && kind != "base" {
		return 0
	}
	number, _, _ := strings.Cut(rest, "-")
	id, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0
	}
	return id
}

// unused reports whether the volume is no drive of the guest, but only noted as
// its own.
func (d drive) unused() bool { return strings.HasPrefix(d.slot, "unused") }

// isISO reports whether the drive holds the ISO of that file name.
func (d drive) isISO(name string) bool { return strings.HasSuffix(d.volume, ":iso/"+name) }

// newDrive returns a virtio drive for a volume, or for one to be allocated.
func newDrive(volume, serial string, o DriveOptions, kind string) drive {
	d := drive{volume: volume, serial: serial}
	if o.DiscardOn(thin(kind)) {
		d.options = append(d.options, "discard=on")
	}
	if o.IOThreadOn() {
		d.options = append(d.options, "iothread=1")
	}
	if o.Cache != "" {
		d.options = append(d.options, "cache="+o.Cache)
	}
	for _, l := range []struct {
		key   string
		value int64
	}{
		{"iops_rd", o.Limits.ReadIOPS},
		{"iops_wr", o.Limits.WriteIOPS},
		{"mbps_rd", o.Limits.ReadMBps},
		{"mbps_wr", o.Limits.WriteMBps},
	} {
		if l.value > 0 {
			d.options = append(d.options, fmt.Sprintf("%s=%d", l.key, l.value))
		}
	}
	return d
}

// drive returns the drive in a slot.
func (c *guestConfig) drive(slot string) (drive, bool) {
	return c.find(func(d drive) bool { return d.slot == slot })
}

// serial returns the drive with a serial.
func (c *guestConfig) serial(serial string) (drive, bool) {
	return c.find(func(d drive) bool { return d.serial == serial && !d.unused() })
}

// volume returns the drive with a volume.
func (c *guestConfig) volume(volume string) (drive, bool) {
	return c.find(func(d drive) bool { return d.volume == volume })
}

func (c *guestConfig) find(match func(drive) bool) (drive, bool) {
	i := slices.IndexFunc(c.drives, match)
	if i < 0 {
		return drive{}, false
	}
	return c.drives[i], true
}

// hasISO reports whether the guest has the ISO of that file name.
func (c *guestConfig) hasISO(name string) bool {
	_, ok := c.find(func(d drive) bool { return d.isISO(name) })
	return ok
}

// persistent returns the drives that are persistent disks.
func (c *guestConfig) persistent() []drive {
	var out []drive
	for _, d := range c.drives {
		if !d.unused() && parseDiskCID(rpc.DiskCID(d.serial)) == nil {
			out = append(out, d)
		}
	}
	return out
}

// diskTags returns the tags that say which persistent disks the guest has.
func (c *guestConfig) diskTags() []string {
	var out []string
	for _, d := range c.persistent() {
		out = append(out, d.serial)
	}
	return out
}

// freeSlot returns the number of a free virtio slot for a persistent disk, or -1.
func (c *guestConfig) freeSlot() int {
	for n := slotPersistent; n <= slotLast; n++ {
		if _, taken := c.drive(virtioSlot(n)); !taken {
			return n
		}
	}
	return -1
}

// storageTagged returns the storage that the guest's tags name.
func (c *guestConfig) storageTagged() string {
	for _, tag := range c.tags {
		if id, ok := strings.CutPrefix(tag, tagStoragePrefix); ok {
			return id
		}
	}
	return ""
}

// hotplugsDisks reports whether a running guest takes and gives disks.
func (c *guestConfig) hotplugsDisks() bool {
	if c.hotplug == "" || c.hotplug == "1" {
		return true
	}
	return slices.Contains(strings.FieldsFunc(c.hotplug, func(r rune) bool { return r == ',' || r == ';' || r == ' ' }), "disk")
}

// sortDrives puts the drives into the order of their slots, virtio2 before
// virtio10.
func sortDrives(drives []drive) {
	slices.SortFunc(drives, func(a, b drive) int {
		return cmp.Or(cmp.Compare(strings.TrimRight(a.slot, "0123456789"), strings.TrimRight(b.slot, "0123456789")),
			cmp.Compare(len(a.slot), len(b.slot)), cmp.Compare(a.slot, b.slot))
	})
}
