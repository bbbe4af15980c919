package pvetest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// props is a property string taken apart: "file,key=value,…". The part
// without a key is kept under the default key.
type props struct {
	def    string
	values map[string]string
}

// parseProps reads a property string whose default key is def.
func parseProps(text, def string) props {
	p := props{def: def, values: map[string]string{}}
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		key, value, ok := strings.Cut(part, "=")
		if !ok {
			key, value = def, part
		}
		p.values[key] = value
	}
	return p
}

func (p props) get(key string) string { return p.values[key] }

func (p props) has(key string) bool {
	_, ok := p.values[key]
	return ok
}

func (p props) set(key, value string) { p.values[key] = value }

func (p props) del(keys ...string) {
	for _, k := range keys {
		delete(p.values, k)
	}
}

// String prints the default key's value first and the others sorted.
func (p props) String() string {
	var b strings.Builder
	if v, ok := p.values[p.def]; ok {
		if strings.Contains(v, "=") {
			b.WriteString(p.def + "=")
		}
		b.WriteString(v)
	}
	for _, k := range sortedKeys(p.values) {
		if k == p.def {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(k + "=" + p.values[k])
	}
	return b.String()
}

// A drive is the value of a drive key of a guest's config.
type drive struct {
	key string
	props
}

// parseDrive reads a drive, for example "data:100/vm-100-disk-0.raw,size=1G".
func parseDrive(key, text string) drive {
	return drive{key: key, props: parseProps(text, "file")}
}

// file is the drive's volume, path, "none" or "cdrom".
func (d drive) file() string { return d.get("file") }

// isCloudinit tells whether the drive holds generated cloud-init data.
func (d drive) isCloudinit() bool {
	_, vol, ok := strings.Cut(d.file(), ":")
	if !ok {
		return false
	}
	if vol == "cloudinit" {
		return true
	}
	vol = vol[strings.LastIndexByte(vol, '/')+1:]
	vol, _, _ = strings.Cut(vol, ".")
	return strings.HasPrefix(vol, "vm-") && strings.HasSuffix(vol, "-cloudinit")
}

// isCD tells whether the drive is a CD-ROM, a cloud-init drive included.
func (d drive) isCD() bool { return d.get("media") == "cdrom" || d.isCloudinit() }

// isISO is isCD without cloud-init drives, which are the guest's own disks.
func (d drive) isISO() bool { return d.isCD() && !d.isCloudinit() }

// alloc returns the storage and the size in bytes when the drive asks for a
// new volume as "storage:GiB".
func (d drive) alloc() (storage string, size int64, ok bool) {
	storage, num, found := strings.Cut(d.file(), ":")
	if !found || storage == "" || strings.ContainsAny(storage, "/ \t") {
		return "", 0, false
	}
	size, ok = parseSize(num, gib)
	if !ok || strings.TrimLeft(num, "0123456789.") != "" {
		return "", 0, false
	}
	return storage, size / kib * kib, true
}

// driveKey splits a drive's key into bus and index; ok is false for keys that
// are no drives or lie beyond the bus.
func driveKey(key string) (bus string, index int, ok bool) {
	switch key {
	case "efidisk0", "tpmstate0":
		return key[:len(key)-1], 0, true
	}
	i := strings.IndexAny(key, "0123456789")
	if i < 1 {
		return "", 0, false
	}
	bus = key[:i]
	index, err := strconv.Atoi(key[i:])
	if err != nil || strconv.Itoa(index) != key[i:] {
		return "", 0, false
	}
	switch bus {
	case "ide":
		ok = index < 4
	case "sata":
		ok = index < 6
	case "virtio":
		ok = index < 16
	case "scsi":
		ok = index < 31
	}
	return bus, index, ok
}

func isDriveKey(key string) bool {
	_, _, ok := driveKey(key)
	return ok
}

// isIndexed tells whether key is prefix followed by a number.
func isIndexed(key, prefix string) bool {
	num, ok := strings.CutPrefix(key, prefix)
	return ok && digits(num)
}

func isUnusedKey(key string) bool { return isIndexed(key, "unused") }
func isNetKey(key string) bool    { return isIndexed(key, "net") }

// isVolumeKey tells whether key's value is a volume of the guest.
func isVolumeKey(key string) bool { return isDriveKey(key) || isUnusedKey(key) }

// bootDriveKeys lists the drives in the order in which PVE looks for one to
// boot from.
func bootDriveKeys() []string {
	var keys []string
	for _, bus := range []struct {
		name string
		n    int
	}{{"ide", 4}, {"scsi", 31}, {"virtio", 16}, {"sata", 6}} {
		for i := range bus.n {
			keys = append(keys, bus.name+strconv.Itoa(i))
		}
	}
	return keys
}

// defaultBoot is the boot order of a guest that names none: its first disk,
// its first CD-ROM and its first network card.
func defaultBoot(config map[string]string) string {
	var disk, cd, nic string
	for _, key := range bootDriveKeys() {
		text, ok := config[key]
		if !ok {
			continue
		}
		isCD := parseDrive(key, text).isCD()
		switch {
		case isCD && cd == "":
			cd = key
		case !isCD && disk == "":
			disk = key
		}
	}
	for i := range 32 {
		if key := "net" + strconv.Itoa(i); config[key] != "" {
			nic = key
			break
		}
	}
	return printBoot(slices.DeleteFunc([]string{disk, cd, nic}, func(s string) bool { return s == "" }))
}

func printBoot(devices []string) string {
	if len(devices) == 0 {
		return " "
	}
	return "order=" + strings.Join(devices, ";")
}

// bootOrder returns the devices of a boot order.
func bootOrder(text string) []string {
	order := parseProps(text, "legacy").get("order")
	if order == "" {
		return nil
	}
	return strings.Split(order, ";")
}

// A nic is the value of a network card's key of a guest's config.
type nic struct{ props }

// nicModels lists the network cards, whose names may stand in front of the MAC.
func nicModels() []string {
	return []string{
		"virtio", "e1000", "e1000-82540em", "e1000-82544gc", "e1000-82545em", "e1000e", "i82551",
		"i82557b", "i82559er", "ne2k_isa", "ne2k_pci", "pcnet", "rtl8139", "vmxnet3",
	}
}

// parseNIC reads "virtio=MAC,bridge=…", "virtio,bridge=…" or "model=virtio,…".
func parseNIC(text string) nic {
	n := nic{parseProps(text, "model")}
	for _, m := range nicModels() {
		if mac, ok := n.values[m]; ok {
			n.set("model", m)
			n.set("macaddr", mac)
			n.del(m)
		}
	}
	return n
}

// String prints the card with its model and MAC first, the rest sorted.
func (n nic) String() string {
	rest := props{values: map[string]string{}}
	for k, v := range n.values {
		if k != "model" && k != "macaddr" {
			rest.values[k] = v
		}
	}
	text := n.get("model")
	if mac := n.get("macaddr"); mac != "" {
		text += "=" + mac
	}
	if len(rest.values) > 0 {
		text += "," + rest.String()
	}
	return text
}

// randomMAC returns an address with a prefix such as "BC:24:11".
func randomMAC(prefix string, rnd uint64) string {
	if prefix == "" {
		prefix = "BC:24:11"
	}
	parts := strings.Split(strings.ToUpper(prefix), ":")
	for i := 0; len(parts) < 6; i++ {
		parts = append(parts, fmt.Sprintf("%02X", byte(rnd>>(8*i))))
	}
	return strings.Join(parts, ":")
}

// randomUUID returns a version 4 UUID made of two random words.
func randomUUID(a, b uint64) string {
	return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x",
		uint32(a>>32), uint16(a>>16), a&0xfff, b>>48&0x3fff|0x8000, b&0xffffffffffff)
}
