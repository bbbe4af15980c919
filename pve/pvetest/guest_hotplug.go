package pvetest

import (
	"fmt"
	"strings"
)

// hotplugFeatures is what may be changed while the guest runs.
func hotplugFeatures(conf map[string]string) map[string]bool {
	text, ok := conf["hotplug"]
	switch {
	case !ok || text == "1":
		text = "network,disk,usb"
	case text == "0":
		text = ""
	}
	m := map[string]bool{}
	for _, f := range splitList(text) {
		m[f] = true
	}
	return m
}

// A plugger changes a running guest.
type plugger struct {
	c        *call
	h        host
	g        *guest
	features map[string]bool
}

// always tells whether an option has no bearing on the running machine.
func always(key string) bool {
	switch key {
	case "lock", "name", "onboot", "shares", "startup", "description", "protection", "vmstatestorage", "hookscript", "tags",
		"cpulimit", "cpuunits", "balloon":
		return true
	}
	return isUnusedKey(key)
}

// hotBus tells whether disks of a key's bus can come and go.
func hotBus(key string) bool {
	bus, _, ok := driveKey(key)
	return ok && (bus == "scsi" || bus == "virtio")
}

// out takes an option away; done is false when it has to wait.
func (p plugger) out(key, text string) (done bool, err error) {
	switch {
	case always(key):
		return true, nil
	case key == "hotplug":
		return !p.features["memory"], nil
	case key == "tablet" || isIndexed(key, "usb"):
		return p.features["usb"], nil
	case isNetKey(key):
		return p.features["network"], p.unplug(key, p.features["network"])
	case hotBus(key) && !parseDrive(key, text).isCD():
		return p.features["disk"], p.unplug(key, p.features["disk"])
	}
	return false, nil
}

// unplug asks the guest to let a device go. SCSI disks need not be asked for,
// but their controllers, when each disk has one.
func (p plugger) unplug(key string, try bool) error {
	device := key
	if bus, index, _ := driveKey(key); bus == "scsi" {
		if p.g.Config["scsihw"] != "virtio-scsi-single" {
			return nil
		}
		device = fmt.Sprintf("virtioscsi%d", index)
	}
	if try && p.g.NoOS {
		return fmt.Errorf("error on hot-unplugging device '%s' - still busy in guest?", device)
	}
	return nil
}

// in gives an option a new value; done is false when it has to wait.
func (p plugger) in(key, text string) (done bool, err error) {
	old, had := p.g.Config[key]
	switch {
	case always(key):
		return true, nil
	case key == "hotplug":
		return !p.features["memory"] && !hotplugFeatures(map[string]string{"hotplug": text})["memory"], nil
	case key == "tablet" || isIndexed(key, "usb"):
		return p.features["usb"], nil
	case isNetKey(key):
		if !p.features["network"] {
			return false, nil
		}
		return p.network(key, old, had, text)
	case isDriveKey(key):
		return p.drive(key, old, had, text)
	}
	return false, nil
}

// network changes a network card: in place if only its connection changes.
func (p plugger) network(key, old string, had bool, text string) (bool, error) {
	n := parseNIC(text)
	if had {
		o := parseNIC(old)
		same := true
		for _, k := range []string{"model", "macaddr", "queues", "mtu"} {
			same = same && o.get(k) == n.get(k)
		}
		if same {
			return true, nil
		}
		if err := p.unplug(key, true); err != nil {
			return false, err
		}
	}
	if b := n.get("bridge"); b != "" && !p.c.cl().hasBridge(p.g.Node, b) {
		return false, fmt.Errorf("VM %d qmp command 'netdev_add' failed - network script /usr/libexec/qemu-server/pve-bridge-hotplug failed with status 512", p.g.VMID)
	}
	return true, nil
}

// drive changes a disk or the medium of a CD-ROM.
func (p plugger) drive(key, old string, had bool, text string) (bool, error) {
	d := parseDrive(key, text)
	if had {
		o := parseDrive(key, old)
		switch {
		case o.isISO() && d.isISO():
			return true, nil // another medium
		case o.isCD() || d.isCD():
			return false, nil
		case o.file() == d.file():
			return liveOnly(o, d), nil
		case !p.features["disk"] || !hotBus(key):
			return false, nil
		}
		if err := p.unplug(key, true); err != nil {
			return false, err
		}
	}
	if !p.features["disk"] || !hotBus(key) || d.isCD() {
		return false, nil
	}
	if other := p.c.cl().openElsewhere(d.file(), p.g.VMID); other != nil {
		return false, fmt.Errorf("VM %d qmp command 'blockdev-add' failed - Failed to get \"write\" lock", p.g.VMID)
	}
	return true, nil
}

// liveOnly tells whether two drives differ in nothing but what can be changed
// while they are in use.
func liveOnly(a, b drive) bool {
	for _, d := range []struct{ x, y drive }{{a, b}, {b, a}} {
		for k, v := range d.x.values {
			switch {
			case strings.HasPrefix(k, "mbps"), strings.HasPrefix(k, "iops"), strings.HasPrefix(k, "bps"):
			case k == "backup" || k == "replicate" || k == "size" || k == "media" || k == "file":
			case d.y.get(k) != v:
				return false
			}
		}
	}
	return true
}
