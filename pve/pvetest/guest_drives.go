package pvetest

import (
	"strconv"
	"strings"
)

// mayUseDrives checks the caller's rights on the volumes and storages that new
// drives of a guest name, and that these can be used.
func (c *call) mayUseDrives(vmid int, settings map[string]string) error {
	for _, key := range sortedKeys(settings) {
		if !isDriveKey(key) {
			continue
		}
		d := parseDrive(key, settings[key])
		if err := c.mayUseDrive(vmid, d); err != nil {
			return err
		}
		source := d.get("import-from")
		if source == "" {
			continue
		}
		if id, name, ok := strings.Cut(source, ":"); ok && !strings.HasPrefix(source, "/") {
			st, err := c.cl().storage(id)
			if err != nil {
				return err
			}
			n, err := st.parseName(name)
			if err != nil {
				return err
			}
			if n.content != "images" && n.content != "import" {
				return failParam(key, "%s has wrong type '%s' - needs to be 'images' or 'import'", source, n.content)
			}
			if n.vmid != 0 {
				if err := c.check("/vms/"+strconv.Itoa(n.vmid), "VM.Clone"); err != nil {
					return err
				}
				continue
			}
		}
		if err := c.volumeAccess(vmid, source); err != nil {
			return err
		}
	}
	if id := settings["vmstatestorage"]; id != "" {
		return c.check("/storage/"+id, "Datastore.AllocateSpace")
	}
	return nil
}

func (c *call) mayUseDrive(vmid int, d drive) error {
	file := d.file()
	if file == "" || file == "none" || strings.HasSuffix(file, ":cloudinit") {
		return nil
	}
	if d.isISO() && file == "cdrom" {
		return c.check("/", "Sys.Console")
	}
	if id, _, ok := d.alloc(); ok && !d.isISO() {
		if err := c.check("/storage/"+id, "Datastore.AllocateSpace"); err != nil {
			return err
		}
		st, err := c.cl().storage(id)
		if err != nil {
			return err
		}
		if !st.has("images") {
			return failParam("storage", "storage '%s' does not support vm images", id)
		}
		return nil
	}
	if err := c.volumeAccess(vmid, file); err != nil {
		return err
	}
	if id, name, ok := strings.Cut(file, ":"); ok {
		n, err := c.cl().Storages[id].parseName(name)
		if err != nil {
			return err
		}
		if n.content != "images" && n.content != "iso" {
			return failParam(d.key, "content type needs to be 'images' or 'iso'")
		}
	}
	return nil
}

// makeDrives makes the volumes that settings ask for and returns the drives
// as the config keeps them. conf is the guest's config so far. What was made
// is removed again when something fails.
func (c *call) makeDrives(h host, vmid int, conf, settings map[string]string) (made map[string]string, err error) {
	made = map[string]string{}
	var volids []string
	defer func() {
		if err == nil {
			return
		}
		for _, volid := range volids {
			_ = h.quiet().free(volid)
		}
	}()
	for _, key := range sortedKeys(settings) {
		if !isDriveKey(key) {
			continue
		}
		d := parseDrive(key, settings[key])
		volid, err := c.makeDrive(h, vmid, conf, made, d)
		if err != nil {
			return nil, err
		}
		if volid != "" {
			volids = append(volids, volid)
		}
		made[key] = d.String()
		if volid != "" {
			h.logf("%s: successfully created disk '%s'", key, made[key])
		}
	}
	return made, nil
}

// quiet returns h without a log.
func (h host) quiet() host {
	h.t = nil
	return h
}

// makeDrive fills in one drive and returns the volid of a volume it made.
func (c *call) makeDrive(h host, vmid int, conf, made map[string]string, d drive) (string, error) {
	file := d.file()
	switch {
	case file == "none" || file == "cdrom":
		d.del("size")
		return "", nil
	case strings.HasSuffix(file, ":cloudinit"):
		return c.makeCloudinit(h, vmid, conf, made, d)
	}
	if id, size, ok := d.alloc(); ok {
		st, err := c.cl().storage(id)
		if err != nil {
			return "", err
		}
		v, err := c.makeVolume(h, vmid, st, size, d)
		if err != nil {
			return "", err
		}
		d.set("size", formatSize(v.Size))
		d.del("format", "import-from")
		if conf["template"] == "1" {
			h.makeBase(st, v)
		}
		d.set("file", st.volid(v))
		return d.file(), nil
	}
	d.del("format")
	if strings.HasPrefix(file, "/") {
		return "", nil
	}
	_, v, err := h.volume(file)
	if err != nil {
		return "", err
	}
	if d.isCloudinit() {
		return "", nil
	}
	size := v.Size
	if v.Content == "iso" {
		size = v.File
	}
	d.set("size", formatSize(size))
	return "", nil
}

const cloudinitSize = 4 * mib

func (c *call) makeCloudinit(h host, vmid int, conf, made map[string]string, d drive) (string, error) {
	for _, other := range []map[string]string{conf, made} {
		for _, key := range sortedKeys(other) {
			if key != d.key && isDriveKey(key) && parseDrive(key, other[key]).isCloudinit() {
				return "", fail(500, "%s - cloud-init drive is already attached at '%s'", d.key, key)
			}
		}
	}
	id, _, _ := strings.Cut(d.file(), ":")
	st, err := c.cl().storage(id)
	if err != nil {
		return "", err
	}
	format := d.get("format")
	if format == "" {
		format = "raw"
		if st.kind().files {
			format = "qcow2"
		}
	}
	v, err := h.alloc(st, vmid, format, st.ownDiskName(vmid, "cloudinit", format), cloudinitSize)
	if err != nil {
		return "", err
	}
	if st.kind().files {
		v.Used = 462848 // the image with its few files in it
	}
	d.set("file", st.volid(v))
	d.set("media", "cdrom")
	d.del("format", "size")
	return d.file(), nil
}

// makeVolume makes the volume of a new disk.
func (c *call) makeVolume(h host, vmid int, st *storage, size int64, d drive) (*volume, error) {
	if source := d.get("import-from"); source != "" {
		return c.importVolume(h, vmid, st, source, d)
	}
	switch d.key {
	case "efidisk0":
		size = 528 * kib
		if d.get("efitype") == "2m" || d.get("efitype") == "" {
			size = 128 * kib
		}
		v, err := h.alloc(st, vmid, st.format(d.get("format")), "", size)
		if err != nil {
			return nil, err
		}
		for _, part := range []int64{0, size, size} {
			h.logf("transferred %s of %s (%.2f%%)", humanSize(part), humanSize(size), float64(100*part)/float64(size))
		}
		v.Data = v.Size
		v.Used = max(v.Used, v.Size)
		return v, nil
	case "tpmstate0":
		v, err := h.alloc(st, vmid, "raw", "", 4*mib)
		if err != nil {
			return nil, err
		}
		return v, nil
	}
	format := d.get("format")
	if format == "" {
		format = st.format("")
	}
	return h.alloc(st, vmid, format, "", size)
}

// importVolume makes a new disk out of another volume's or file's contents.
func (c *call) importVolume(h host, vmid int, st *storage, source string, d drive) (*volume, error) {
	wrap := func(err error) error {
		if err == nil {
			return nil
		}
		return fail(500, "cannot import from '%s' - %s", source, err.Error())
	}
	from, v, err := h.importSource(source)
	if err != nil {
		return nil, wrap(err)
	}
	if v.Format == "ova" {
		return nil, wrap(fail(500, "cannot use an OVA file as a disk image"))
	}
	format := d.get("format")
	if format == "" {
		format = st.format(v.Format)
	}
	if strings.HasPrefix(source, "/") {
		n, err := h.alloc(st, vmid, format, "", v.Size)
		if err != nil {
			return nil, wrap(err)
		}
		return n, wrap(h.fill(n, st, v, source))
	}
	slot := ""
	if owner := c.cl().Guests[v.VMID]; owner != nil && v.Content == "images" {
		for _, key := range volumeKeys(owner.Config, false) {
			if parseDrive(key, owner.Config[key]).file() == source {
				slot = key + " "
			}
		}
	}
	h.logf("create full clone of drive %s(%s)", slot, source)
	n, err := h.copyTo(from, v, st, vmid, format, v.Size)
	return n, wrap(err)
}

// importSource finds what an import-from names.
func (h host) importSource(source string) (*storage, *volume, error) {
	if !strings.HasPrefix(source, "/") {
		id, name, _ := strings.Cut(source, ":")
		st, err := h.cl().storage(id)
		if err != nil {
			return nil, nil, err
		}
		if n, err := st.parseName(name); err == nil && st.on(h.node)[n.key] != nil && st.checkEnabled(h.node) == nil {
			return st, st.on(h.node)[n.key], nil
		}
		return h.volume(source)
	}
	for _, st := range h.cl().Storages {
		for _, v := range st.on(h.node) {
			if st.volumePath(v) == source {
				return st, v, nil
			}
		}
	}
	return nil, nil, fail(500, "could not stat '%s'", source)
}
