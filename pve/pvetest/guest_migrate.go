package pvetest

import (
	"strconv"
	"strings"
)

// localVolumes lists the volumes of a guest that other nodes do not see.
func (c *call) localVolumes(g *guest) []string {
	var all []string
	add := func(key, text string) {
		d := parseDrive(key, text)
		if d.isISO() && d.file() == "none" {
			return
		}
		id, _, ok := strings.Cut(d.file(), ":")
		if st := c.cl().Storages[id]; ok && st != nil && !st.shared() {
			all = append(all, d.file())
		}
	}
	for _, key := range volumeKeys(g.Config, true) {
		add(key, g.Config[key])
	}
	return all
}

// targetStorage is where a volume of a storage goes in a migration.
func (c *call) targetStorage(id string) string {
	for _, m := range c.p.list("targetstorage") {
		from, to, pair := strings.Cut(m, ":")
		switch {
		case m == "1":
			return id
		case !pair:
			return m
		case from == id:
			return to
		}
	}
	return id
}

// checkTarget fails when a storage the guest uses is missing on a node.
func (c *call) checkTarget(g *guest, target string) error {
	for _, key := range volumeKeys(g.Config, true) {
		d := parseDrive(key, g.Config[key])
		id, _, ok := strings.Cut(d.file(), ":")
		if !ok {
			continue
		}
		st, err := c.cl().storage(c.targetStorage(id))
		if err != nil {
			return err
		}
		if err := st.checkEnabled(target); err != nil {
			return err
		}
	}
	return nil
}

func guestMigrateCheck(c *call) (any, error) {
	g, err := c.theGuest()
	if err != nil {
		return nil, err
	}
	allowed, refused := []string{}, map[string]any{}
	for _, name := range sortedKeys(c.cl().Nodes) {
		if name == c.node {
			continue
		}
		var missing []string
		for _, key := range volumeKeys(g.Config, true) {
			id, _, ok := strings.Cut(parseDrive(key, g.Config[key]).file(), ":")
			if st := c.cl().Storages[id]; ok && (st == nil || st.checkEnabled(name) != nil) {
				missing = append(missing, id)
			}
		}
		if missing != nil {
			refused[name] = map[string]any{"unavailable_storages": missing}
			continue
		}
		allowed = append(allowed, name)
	}
	disks := []any{}
	for _, volid := range c.localVolumes(g) {
		size := int64(0)
		if _, v := c.cl().findVolume(c.node, volid); v != nil {
			size = v.Size
		}
		disks = append(disks, map[string]any{"volid": volid, "size": size, "cdrom": 0, "is_unused": 0})
	}
	return map[string]any{
		"running": flag(g.Running), "local_disks": disks, "local_resources": []any{}, "mapped-resources": []any{},
		"mapped-resource-info": map[string]any{}, "allowed_nodes": allowed, "not_allowed_nodes": refused, "has-dbus-vmstate": 1,
	}, nil
}

func guestMigrate(c *call) (any, error) {
	target := c.p.str("target")
	if target == c.node {
		return nil, failParam("target", "target is local node.")
	}
	if c.cl().Nodes[target] == nil {
		return nil, fail(500, "no such cluster node '%s'", target)
	}
	vmid := int(c.p.int("vmid"))
	g, err := c.guestOn(vmid)
	if err != nil {
		return nil, err
	}
	if err := g.checkLock(); err != nil {
		return nil, err
	}
	online := c.p.boolean("online", false)
	if g.Running && !online {
		return nil, fail(500, "can't migrate running VM without --online")
	}
	if err := c.checkTarget(g, target); err != nil {
		return nil, err
	}
	if c.cl().managed(vmid) {
		return c.task("hamigrate", strconv.Itoa(vmid), func(t *task) error {
			t.logf("Requesting HA migration for VM %d to node %s", vmid, target)
			return nil
		}), nil
	}
	return c.lockingWorker("qmigrate", vmid, "migrate", func(t *task, g *guest) error { return c.migrate(t, g, target) }), nil
}

// migrate is the work of moving a guest to another node, with those of its
// volumes that only this one has.
func (c *call) migrate(t *task, g *guest, target string) error {
	if err := g.checkLock(); err != nil {
		return err
	}
	abort := func(format string, args ...any) error {
		t.logf("ERROR: migration aborted (duration 00:00:00): "+format, args...)
		return fail(500, "migration aborted")
	}
	n := c.cl().Nodes[target]
	t.logf("starting migration of VM %d to node '%s' (%s)", g.VMID, target, n.IP)
	if n.Offline {
		return abort("Can't connect to destination address using public key")
	}
	local := c.localVolumes(g)
	if g.Running && len(local) > 0 && !c.p.boolean("with-local-disks", false) {
		return abort("can't live migrate attached local disks without with-local-disks option")
	}
	h := c.host(t)
	for _, volid := range local {
		st, v := c.cl().findVolume(c.node, volid)
		switch {
		case v == nil:
			return abort("volume '%s' does not exist", volid)
		case v.Content != "images":
			return abort("can't migrate local cdrom '%s'", volid)
		case v.VMID != g.VMID:
			return abort("can't migrate local disk '%s': owned by other VM (owner = VM %d)", volid, v.VMID)
		case v.Parent != "":
			return abort("can't migrate local disk '%s': clone of '%s:%s'", volid, st.ID, v.Parent)
		case v.isBase() && len(st.clones(c.node, v)) > 0:
			return abort("can't migrate local disk '%s': base volume is in use by linked clones", volid)
		}
		t.logf("found local disk '%s' (attached)", volid)
	}
	if len(local) > 0 {
		t.logf("copying local disk images")
	}
	for _, volid := range local {
		st, v := c.cl().findVolume(c.node, volid)
		dst, err := c.cl().storage(c.targetStorage(st.ID))
		if err != nil {
			return abort("%s", err)
		}
		c.renameVolume(g, volid, h.sendVolume(st, v, dst, target))
		t.logf("volume '%s' is '%s:%s' on the target", volid, dst.ID, v.Name)
	}
	g.Node = target
	t.logf("migration finished successfully (duration 00:00:01)")
	return nil
}

// sendVolume moves a volume to a storage of another node and returns its
// volid there.
func (h host) sendVolume(st *storage, v *volume, dst *storage, target string) string {
	if st == dst {
		return h.hand(st, v, target)
	}
	delete(st.on(h.node), v.Name)
	v.Format = dst.format(v.Format)
	v.Name = dst.freeName(target, v.VMID, v.Format)
	dst.put(target, v)
	return dst.volid(v)
}

// renameVolume changes a volume's name wherever a guest's config has it.
func (c *call) renameVolume(g *guest, old, now string) {
	configs := []map[string]string{g.Config, g.Pending}
	for _, s := range g.Snapshots {
		configs = append(configs, s.Config)
	}
	for _, conf := range configs {
		for _, key := range volumeKeys(conf, true) {
			if d := parseDrive(key, conf[key]); d.file() == old {
				d.set("file", now)
				conf[key] = d.String()
			}
		}
	}
}
