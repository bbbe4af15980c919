package pvetest

import (
	"strconv"
	"strings"
)

func guestClone(c *call) (any, error) {
	vmid, newid := int(c.p.int("vmid")), int(c.p.int("newid"))
	pool, target, on := c.p.str("pool"), c.p.str("target"), c.p.str("storage")
	if pool != "" && c.cl().Pools[pool] == nil {
		return nil, fail(403, "Permission check failed (pool '%s' does not exist)", pool)
	}
	if target == c.node {
		target = ""
	}
	if target != "" && c.cl().Nodes[target] == nil {
		return nil, fail(500, "no such cluster node '%s'", target)
	}
	if on != "" {
		st, err := c.cl().storage(on)
		if err != nil {
			return nil, err
		}
		if err := st.checkEnabled(c.node); err != nil {
			return nil, err
		}
		if target != "" {
			if err := st.checkEnabled(target); err != nil {
				return nil, err
			}
			if !st.shared() {
				return nil, fail(500, "can't clone to non-shared storage '%s'", on)
			}
		}
		if !st.has("images") {
			return nil, failParam("storage", "storage '%s' does not support vm images", on)
		}
	}
	g := c.cl().vm(vmid)
	if g == nil || g.Node != c.node {
		return nil, fail(500, "unable to find configuration file for VM %d on node '%s'", vmid, c.node)
	}
	if err := g.checkLock(); err != nil {
		return nil, err
	}
	conf := g.Config
	snap := c.p.str("snapname")
	if snap != "" {
		s, err := g.snapshot(snap)
		if err != nil {
			return nil, err
		}
		conf = s.Config
	}
	full := c.p.boolean("full", !g.template())
	if on != "" && !full {
		return nil, fail(500, "parameter 'storage' not allowed for linked clones")
	}
	if c.p.has("format") && !full {
		return nil, fail(500, "parameter 'format' not allowed for linked clones")
	}
	shared, err := c.mayClone(conf, on)
	if err != nil {
		return nil, err
	}
	if target != "" && !shared {
		return nil, fail(500, "can't clone VM to node '%s' (VM uses local storage)", target)
	}
	if c.cl().Guests[newid] != nil {
		return nil, fail(500, "unable to create VM %d: config file already exists", newid)
	}
	if err := c.canCloneDrives(conf, full, snap != ""); err != nil {
		return nil, err
	}
	return c.reserving(newid, "clone", "qmclone", strconv.Itoa(vmid), func(t *task) error {
		return c.clone(t, vmid, newid, snap, on, full, pool, target)
	}), nil
}

// mayClone checks the caller's rights to clone what a config has, and tells
// whether all of it is on shared storages.
func (c *call) mayClone(conf map[string]string, on string) (shared bool, err error) {
	shared = true
	for _, key := range volumeKeys(conf, false) {
		d := parseDrive(key, conf[key])
		file := d.file()
		if file == "none" || file == "" {
			continue
		}
		if file == "cdrom" {
			if err := c.check("/", "Sys.Console"); err != nil {
				return false, err
			}
			continue
		}
		id, _, _ := strings.Cut(file, ":")
		st, err := c.cl().storage(id)
		if err != nil {
			return false, err
		}
		shared = shared && st.shared()
		if d.isISO() {
			continue
		}
		if on != "" {
			id = on
		}
		if err := c.check("/storage/"+id, "Datastore.AllocateSpace"); err != nil {
			return false, err
		}
	}
	return shared, c.mayUseBridges(conf)
}

// canCloneDrives checks that the storages can make the clones asked for.
func (c *call) canCloneDrives(conf map[string]string, full, snap bool) error {
	for _, key := range volumeKeys(conf, false) {
		d := parseDrive(key, conf[key])
		id, name, ok := strings.Cut(d.file(), ":")
		if d.isISO() || !ok {
			continue
		}
		st, err := c.cl().storage(id)
		if err != nil {
			return err
		}
		n, err := st.parseName(name)
		if err != nil {
			return err
		}
		if full || d.isCloudinit() {
			if !volumeCan(st.Type, canCopy, n.format, n.base) || snap && st.Type == "zfspool" {
				return fail(500, "Full clone feature is not supported for drive '%s'", key)
			}
		} else if !volumeCan(st.Type, canClone, n.format, n.base) {
			return fail(500, "Linked clone feature is not supported for drive '%s'", key)
		}
	}
	return nil
}

// clone is the work of cloning a guest.
func (c *call) clone(t *task, vmid, newid int, snap, on string, full bool, pool, target string) error {
	g, err := c.guestOn(vmid)
	if err != nil {
		return err
	}
	if c.cl().Guests[newid] != nil {
		return fail(500, "unable to create VM %d: config file already exists", newid)
	}
	if err := g.checkLock(); err != nil {
		return err
	}
	from := g.Config
	if snap != "" {
		s, err := g.snapshot(snap)
		if err != nil {
			return err
		}
		from = s.Config
	}
	if err := c.canCloneDrives(from, full, snap != ""); err != nil {
		return err
	}
	t.logf("creating a clone of VM %d with ID %d", vmid, newid)
	conf := c.cloneConfig(from, vmid)
	h := c.host(t)
	var volids []string
	for _, key := range volumeKeys(from, false) {
		d := parseDrive(key, from[key])
		if d.isISO() {
			continue
		}
		volid, err := c.cloneDrive(h, d, newid, snap, on, full)
		if err != nil {
			for _, v := range volids {
				_ = h.quiet().free(v)
			}
			return fail(500, "clone failed: %s", dieText(err))
		}
		volids = append(volids, volid)
		d.set("file", volid)
		conf[key] = d.String()
	}
	node := c.node
	if target != "" {
		node = target
	}
	c.cl().Guests[newid] = &guest{VMID: newid, Node: node, Config: conf, NoOS: g.NoOS}
	c.cl().copyFirewall(g.VMID, newid)
	c.cl().addToPool(pool, newid)
	return nil
}

// cloneConfig is the config of a clone, with its drives still to be made.
func (c *call) cloneConfig(from map[string]string, vmid int) map[string]string {
	conf := map[string]string{}
	for key, text := range from {
		switch {
		case isUnusedKey(key):
		case key == "parent" || key == "vmstate" || key == "snaptime" || key == "template" || key == "lock" ||
			key == "runningmachine" || key == "runningcpu":
		case isNetKey(key):
			n := parseNIC(text)
			n.set("macaddr", randomMAC(c.cl().Options["mac_prefix"], c.s.rng.Uint64()))
			conf[key] = n.String()
		default:
			conf[key] = text
		}
	}
	smbios := parseProps(conf["smbios1"], "uuid")
	smbios.set("uuid", randomUUID(c.s.rng.Uint64(), c.s.rng.Uint64()))
	smbios.def = ""
	conf["smbios1"] = smbios.String()
	if conf["vmgenid"] != "" {
		conf["vmgenid"] = randomUUID(c.s.rng.Uint64(), c.s.rng.Uint64())
	}
	switch {
	case c.p.str("name") != "":
		conf["name"] = c.p.str("name")
	case from["name"] != "":
		conf["name"] = "Copy-of-VM-" + from["name"]
	default:
		conf["name"] = "Copy-of-VM-" + strconv.Itoa(vmid)
	}
	if d := strings.TrimRight(c.p.str("description"), "\n"); d != "" {
		conf["description"] = d
	}
	return conf
}

// cloneDrive clones one disk and returns the new volume's volid.
func (c *call) cloneDrive(h host, d drive, newid int, snap, on string, full bool) (string, error) {
	st, v, err := h.volume(d.file())
	if err != nil {
		return "", err
	}
	full = full || d.isCloudinit()
	size := v.Size
	if snap != "" {
		s, ok := v.Snapshots[snap]
		if !ok {
			return "", fail(500, "snapshot '%s' does not exist on volume '%s'", snap, d.file())
		}
		size = s
	}
	if !full {
		h.logf("create linked clone of drive %s (%s)", d.key, d.file())
		n, err := h.linkedClone(st, v, newid)
		if err != nil {
			return "", err
		}
		return st.volid(n), nil
	}
	h.logf("create full clone of drive %s (%s)", d.key, d.file())
	dst := st
	if on != "" {
		if dst, err = c.cl().storage(on); err != nil {
			return "", err
		}
	}
	format := c.p.str("format")
	if format == "" {
		format = dst.format(v.Format)
	}
	if d.isCloudinit() {
		if c.p.str("format") == "" && dst.kind().files {
			format = "qcow2"
		}
		n, err := h.alloc(dst, newid, format, dst.ownDiskName(newid, "cloudinit", format), v.Size)
		if err != nil {
			return "", err
		}
		return dst.volid(n), nil
	}
	n, err := h.copyTo(st, v, dst, newid, format, size)
	if err != nil {
		return "", err
	}
	return dst.volid(n), nil
}

func guestTemplate(c *call) (any, error) {
	g, err := c.theGuest()
	if err != nil {
		return nil, err
	}
	if err := g.checkLock(); err != nil {
		return nil, err
	}
	if len(g.Snapshots) > 0 {
		return nil, fail(500, "unable to create template, because VM contains snapshots")
	}
	disk := c.p.str("disk")
	if g.template() && disk == "" {
		return nil, fail(500, "you can't convert a template to a template")
	}
	if g.Running {
		return nil, fail(500, "you can't convert a VM to template if VM is running")
	}
	upid := c.guestWorker("qmtemplate", g.VMID, func(t *task, g *guest) error {
		if err := g.checkLock(); err != nil {
			return err
		}
		g.Config["template"] = "1"
		return c.host(t).makeBases(g, disk)
	})
	if t := c.cl().Tasks[len(c.cl().Tasks)-1]; t.UPID == upid && t.running() && !g.template() {
		// The flag is written first, the volumes take their time.
		g.Config["template"] = "1"
		t.undo = func() { delete(g.Config, "template") }
	}
	return upid, nil
}

// makeBases turns a guest's volumes, or that of one disk, into base volumes.
func (h host) makeBases(g *guest, disk string) error {
	for _, key := range volumeKeys(g.Config, false) {
		d := parseDrive(key, g.Config[key])
		if d.isISO() || disk != "" && key != disk {
			continue
		}
		st, v, err := h.volume(d.file())
		if err != nil {
			return err
		}
		if !volumeCan(st.Type, canTemplate, v.Format, v.isBase()) || d.isCloudinit() {
			continue
		}
		if v.VMID != g.VMID {
			continue
		}
		h.makeBase(st, v)
		d.set("file", st.volid(v))
		g.Config[key] = d.String()
	}
	return nil
}
