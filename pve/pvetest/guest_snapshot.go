package pvetest

import (
	"strconv"
	"strings"
)

// snapshot returns one of the guest's snapshots.
func (g *guest) snapshot(name string) (*snapshot, error) {
	if s := g.Snapshots[name]; s != nil {
		return s, nil
	}
	return nil, fail(500, "snapshot '%s' does not exist", name)
}

// full is a snapshot's section of the config file.
func (s *snapshot) full() map[string]string {
	conf := map[string]string{"snaptime": strconv.FormatInt(s.Time, 10)}
	for k, v := range s.Config {
		conf[k] = v
	}
	if s.Description != "" {
		conf["description"] = s.Description
	}
	if s.Parent != "" {
		conf["parent"] = s.Parent
	}
	if s.VMState != "" {
		conf["vmstate"] = s.VMState
	}
	return conf
}

func snapshotList(c *call) (any, error) {
	g, err := c.theGuest()
	if err != nil {
		return nil, err
	}
	rows := []any{}
	for _, name := range sortedKeys(g.Snapshots) {
		s := g.Snapshots[name]
		row := map[string]any{"name": name, "description": s.Description, "snaptime": s.Time, "vmstate": flag(s.VMState != "")}
		if s.Parent != "" {
			row["parent"] = s.Parent
		}
		rows = append(rows, row)
	}
	current := map[string]any{"name": "current", "description": "You are here!", "digest": g.digest(), "running": flag(g.Running)}
	if p := g.Config["parent"]; p != "" {
		current["parent"] = p
	}
	return append(rows, current), nil
}

func snapshotIndex(c *call) (any, error) {
	return []any{map[string]any{"cmd": "rollback"}, map[string]any{"cmd": "config"}}, nil
}

func snapshotConfig(c *call) (any, error) {
	g, err := c.theGuest()
	if err != nil {
		return nil, err
	}
	s, err := g.snapshot(c.vars["snapname"])
	if err != nil {
		return nil, err
	}
	return c.configMap(s.full(), false), nil
}

func snapshotDescribe(c *call) (any, error) {
	g, err := c.theGuest()
	if err != nil {
		return nil, err
	}
	if err := g.checkLock(); err != nil {
		return nil, err
	}
	s, err := g.snapshot(c.vars["snapname"])
	if err != nil {
		return nil, err
	}
	if c.p.has("description") {
		s.Description = strings.TrimRight(c.p.str("description"), "\n")
	}
	return nil, nil
}

func snapshotCreate(c *call) (any, error) {
	name := c.p.str("snapname")
	if name == "current" || name == "pending" {
		return nil, fail(500, "unable to use snapshot name '%s' (reserved name)", name)
	}
	vmid := int(c.p.int("vmid"))
	return c.lockingWorker("qmsnapshot", vmid, "snapshot", func(t *task, g *guest) error {
		return c.takeSnapshot(t, g, name)
	}), nil
}

func (c *call) takeSnapshot(t *task, g *guest, name string) error {
	if g.template() {
		return fail(500, "you can't take a snapshot if it's a template")
	}
	if err := g.checkLock(); err != nil {
		return err
	}
	if g.Snapshots[name] != nil {
		return fail(500, "snapshot name '%s' already used", name)
	}
	h := c.host(t)
	type part struct {
		key string
		v   *volume
	}
	var parts []part
	for _, key := range volumeKeys(g.Config, false) {
		d := parseDrive(key, g.Config[key])
		if d.isCD() {
			continue
		}
		st, v, err := h.volume(d.file())
		if err != nil {
			return err
		}
		if !volumeCan(st.Type, canSnapshot, v.Format, v.isBase()) {
			return fail(500, "snapshot feature is not available")
		}
		parts = append(parts, part{key, v})
	}
	s := &snapshot{
		Name: name, Description: strings.TrimRight(c.p.str("description"), "\n"), Time: c.s.clock().Unix(),
		Parent: g.Config["parent"], Config: snapshotOf(g.Config),
	}
	if g.Running && c.p.boolean("vmstate", false) {
		volid, err := c.makeState(h, g, name, "")
		if err != nil {
			return err
		}
		s.VMState = volid
		t.logf("saving VM state and RAM using storage '%s'", strings.SplitN(volid, ":", 2)[0])
		t.logf("completed saving the VM state in 0s, saved 0.00 B")
	}
	for _, p := range parts {
		t.logf("snapshotting 'drive-%s' (%s)", p.key, parseDrive(p.key, g.Config[p.key]).file())
		if p.v.Snapshots == nil {
			p.v.Snapshots = map[string]int64{}
		}
		p.v.Snapshots[name] = p.v.Size
	}
	if g.Snapshots == nil {
		g.Snapshots = map[string]*snapshot{}
	}
	g.Snapshots[name] = s
	g.Config["parent"] = name
	return nil
}

// snapshotOf is what a snapshot keeps of a config.
func snapshotOf(conf map[string]string) map[string]string {
	m := map[string]string{}
	for k, v := range conf {
		switch {
		case k == "lock" || k == "description" || k == "parent" || k == "vmstate" || isUnusedKey(k):
		default:
			m[k] = v
		}
	}
	return m
}

func snapshotRollback(c *call) (any, error) {
	name, vmid := c.vars["snapname"], int(c.p.int("vmid"))
	start := c.p.boolean("start", false)
	return c.lockingWorker("qmrollback", vmid, "rollback", func(t *task, g *guest) error {
		if err := c.rollback(t, g, name); err != nil {
			return err
		}
		if start && !g.Running {
			c.startGuest(vmid)
		}
		return nil
	}), nil
}

func (c *call) rollback(t *task, g *guest, name string) error {
	if g.template() {
		return fail(500, "you can't rollback if vm is a template")
	}
	s, err := g.snapshot(name)
	if err != nil {
		return err
	}
	if err := g.checkLock(); err != nil {
		return err
	}
	h := c.host(t)
	var volumes []*volume
	for _, key := range volumeKeys(s.Config, false) {
		d := parseDrive(key, s.Config[key])
		if d.isCD() {
			continue
		}
		st, v, err := h.volume(d.file())
		if err != nil {
			return err
		}
		if _, ok := v.Snapshots[name]; !ok {
			return fail(500, "snapshot '%s' does not exist on volume '%s'", name, d.file())
		}
		if st.Type == "zfspool" && g.Config["parent"] != name {
			return fail(500, "can't rollback, '%s' is not most recent snapshot on '%s'", name, d.file())
		}
		volumes = append(volumes, v)
	}
	for _, v := range volumes {
		v.Size = v.Snapshots[name]
	}
	g.stop()
	conf := snapshotOf(s.Config)
	for k, v := range g.Config {
		if isUnusedKey(k) || k == "description" {
			conf[k] = v
		}
	}
	for _, key := range volumeKeys(g.Config, false) {
		d := parseDrive(key, g.Config[key])
		if !d.isCD() && !uses(conf, d.file(), "") && c.cl().ownerOf(d.file()) == g.VMID {
			addUnused(conf, d.file())
		}
	}
	for _, key := range volumeKeys(conf, true) {
		if isUnusedKey(key) && uses(conf, conf[key], key) {
			delete(conf, key)
		}
	}
	if conf["vmgenid"] != "" {
		conf["vmgenid"] = randomUUID(c.s.rng.Uint64(), c.s.rng.Uint64())
	}
	conf["parent"] = name
	g.Config, g.Pending, g.Delete = conf, nil, nil
	if s.VMState != "" {
		return c.start(t, g, true)
	}
	return nil
}

func snapshotDelete(c *call) (any, error) {
	name, vmid := c.vars["snapname"], int(c.p.int("vmid"))
	force := c.p.boolean("force", false)
	return c.lockingWorker("qmdelsnapshot", vmid, "snapshot-delete", func(t *task, g *guest) error {
		s, err := g.snapshot(name)
		if err != nil {
			return err
		}
		if err := g.checkLock(); err != nil {
			return err
		}
		// The lock comes before the refusal, and stays behind.
		g.setLock("snapshot-delete")
		if g.template() {
			return fail(500, "you can't delete a snapshot if vm is a template")
		}
		h := c.host(t)
		for _, key := range volumeKeys(s.Config, false) {
			d := parseDrive(key, s.Config[key])
			if d.isCD() {
				continue
			}
			_, v, err := h.volume(d.file())
			if err != nil {
				if force {
					continue
				}
				return err
			}
			delete(v.Snapshots, name)
		}
		if s.VMState != "" {
			_ = h.quiet().free(s.VMState)
		}
		delete(g.Snapshots, name)
		for _, other := range g.Snapshots {
			if other.Parent == name {
				other.Parent = s.Parent
			}
		}
		if g.Config["parent"] == name {
			g.Config["parent"] = s.Parent
			if s.Parent == "" {
				delete(g.Config, "parent")
			}
		}
		g.setLock("")
		return nil
	}), nil
}
