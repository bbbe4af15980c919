package cpitest

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// resolve finds the drive that a path means to the agent: the links that udev
// makes for the drives as QEMU presents them, and the agent's own reading of
// /dev/sdX, for which it tries /dev/vdX first.
func (g *guest) resolve(path string) (drive, error) {
	if link, ok := strings.CutPrefix(path, "/dev/disk/by-id/"); ok {
		return g.byID(path, link)
	}
	m := regexp.MustCompile(`^/dev/(?:xv|v|s)d([a-z])$`).FindStringSubmatch(path)
	if m == nil {
		return drive{}, fmt.Errorf("the path %q leads to no drive of %s", path, g)
	}
	n := int(m[1][0] - 'a')
	virtio := g.bus("virtio")
	if strings.HasPrefix(path, "/dev/sd") && n >= len(virtio) {
		disks := append(g.bus("scsi"), g.bus("sata")...)
		if n < len(disks) {
			return disks[n], nil
		}
	}
	if n < len(virtio) {
		return virtio[n], nil
	}
	return drive{}, fmt.Errorf("the path %q leads to no drive of %s, which has %s", path, g, g.describeDrives())
}

func (g *guest) byID(path, link string) (drive, error) {
	var found []drive
	for _, d := range g.drives {
		if slices.Contains(d.links(), link) {
			found = append(found, d)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return drive{}, fmt.Errorf("the path %q leads to %s and %s of %s", path, found[0].slot, found[1].slot, g)
	}
	for _, d := range g.bus("scsi") {
		if d.serial() != "" && strings.HasSuffix(link, d.serial()) {
			return drive{}, fmt.Errorf("the path %q goes by the serial of %s: on a SCSI disk the serial is in no link, use scsi-0QEMU_QEMU_HARDDISK_drive-%s", path, d.slot, d.slot)
		}
	}
	return drive{}, fmt.Errorf("the path %q leads to no drive of %s, which has %s", path, g, g.describeDrives())
}

// links are the names below /dev/disk/by-id of a drive. virtio-blk has its serial
// there, which QEMU cuts at twenty bytes; of a SCSI disk it is the name that
// Proxmox gives the drive, which displaces the serial.
func (d drive) links() []string {
	switch {
	case d.unused() || d.cdrom():
		return nil
	case strings.HasPrefix(d.slot, "virtio") && d.serial() != "":
		serial := d.serial()
		return []string{"virtio-" + serial[:min(len(serial), 20)]}
	case strings.HasPrefix(d.slot, "scsi"):
		return []string{"scsi-0QEMU_QEMU_HARDDISK_drive-" + d.slot}
	}
	return nil
}

// bus lists the disks on a bus, in the order in which the kernel finds them.
func (g *guest) bus(name string) []drive {
	var out []drive
	for _, d := range g.drives {
		if strings.HasPrefix(d.slot, name) && !d.cdrom() {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b drive) int { return cmp.Compare(a.index(name), b.index(name)) })
	return out
}

func (d drive) index(bus string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(d.slot, bus))
	return n
}

func (g *guest) describeDrives() string {
	var out []string
	for _, d := range g.drives {
		text := d.slot + "=" + d.volume
		if d.serial() != "" {
			text += " (serial " + d.serial() + ")"
		}
		out = append(out, text)
	}
	return cmp.Or(strings.Join(out, ", "), "no drives")
}

// on lists the drives that refer to a volume.
func (g *guest) on(o *observation, key string) []drive {
	var out []drive
	for _, d := range g.drives {
		if d.volume != "" && o.volumeKey(g, d.volume) == key {
			out = append(out, d)
		}
	}
	return out
}

// macs lists the addresses of the guest's NICs, in lower case, and how many NICs
// there are.
func (g *guest) macs() []string {
	var out []string
	address := regexp.MustCompile(`(?i)(?:^|,|=)((?:[0-9a-f]{2}:){5}[0-9a-f]{2})(?:,|$)`)
	for n := range 32 {
		text, ok := g.config[fmt.Sprintf("net%d", n)]
		if !ok {
			continue
		}
		if m := address.FindStringSubmatch(text); m != nil {
			out = append(out, strings.ToLower(m[1]))
		} else {
			out = append(out, "")
		}
	}
	return out
}

// bridges lists what the NICs are plugged into.
func (g *guest) bridges() []string {
	var out []string
	for n := range 32 {
		for part := range strings.SplitSeq(g.config[fmt.Sprintf("net%d", n)], ",") {
			if bridge, ok := strings.CutPrefix(part, "bridge="); ok {
				out = append(out, bridge)
			}
		}
	}
	return out
}

func (g *guest) integer(key string, fallback int64) int64 {
	text, ok := g.config[key]
	if !ok {
		return fallback
	}
	// memory may be written as a property string.
	text = strings.TrimPrefix(strings.Split(text, ",")[0], "current=")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fallback
	}
	return n
}

// cpus is how many virtual CPUs the guest starts with.
func (g *guest) cpus() int64 {
	return g.integer("vcpus", g.integer("cores", 1)*g.integer("sockets", 1))
}

func (g *guest) memory() int64 { return g.integer("memory", 512) }

// agentFinds finds a persistent disk as the agent does: by its identifier when
// that is long enough to be told apart, and else by the hint.
func (g *guest) agentFinds(cid string, h hint) (drive, error) {
	const long = 20
	if len(cid) >= long {
		var found []drive
		for _, d := range g.drives {
			if slices.ContainsFunc(d.links(), func(l string) bool { return strings.HasSuffix(l, cid) }) {
				found = append(found, d)
			}
		}
		if len(found) == 1 {
			return found[0], nil
		}
	}
	if h.path == "" {
		return drive{}, fmt.Errorf("the hint %s has no path, and no drive of %s has the disk's identifier as its serial: the agent finds nothing", h.text, g)
	}
	return g.resolve(h.path)
}

// checkHint makes sure that the agent finds a disk on the drive it is on, and
// that it would by the path alone.
func (g *guest) checkHint(d *disk, on drive) error {
	found, err := g.agentFinds(d.cid, d.hint)
	if err == nil && d.hint.path != "" {
		var byPath drive
		if byPath, err = g.resolve(d.hint.path); err == nil && byPath.slot != on.slot {
			found = byPath
		}
	}
	if err == nil && found.slot != on.slot {
		err = fmt.Errorf("it is %s, but the hint %s leads the agent to %s", on.slot, d.hint.text, found.slot)
	}
	return err
}
