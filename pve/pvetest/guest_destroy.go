package pvetest

import "strconv"

func guestDestroy(c *call) (any, error) {
	vmid := int(c.p.int("vmid"))
	if err := c.checkSkiplock(); err != nil {
		return nil, err
	}
	purge := c.p.boolean("purge", false)
	check := func() error {
		g, err := c.guestOn(vmid)
		if err != nil {
			return err
		}
		if err := g.checkProtection("can't remove VM " + strconv.Itoa(vmid)); err != nil {
			return err
		}
		if !purge && c.cl().HA["vm:"+strconv.Itoa(vmid)] != nil {
			return fail(500, "unable to remove VM %d - used in HA resources and purge parameter not set.", vmid)
		}
		if g.Running {
			return fail(500, "VM %d is running - destroy failed", vmid)
		}
		return nil
	}
	if err := check(); err != nil {
		return nil, err
	}
	skip, unreferenced := c.p.boolean("skiplock", false), c.p.boolean("destroy-unreferenced-disks", false)
	return c.guestWorker("qmdestroy", vmid, func(t *task, g *guest) error {
		if err := check(); err != nil {
			return err
		}
		return c.destroy(t, g, purge, unreferenced, skip)
	}), nil
}

// destroy is the work of removing a guest with the volumes that are its own.
func (c *call) destroy(t *task, g *guest, purge, unreferenced, skip bool) error {
	if !skip {
		if err := g.checkLock(); err != nil {
			return err
		}
	}
	h := c.host(t)
	if g.template() {
		for _, key := range volumeKeys(g.Config, true) {
			d := parseDrive(key, g.Config[key])
			if d.isISO() {
				continue
			}
			if st, v := c.cl().findVolume(g.Node, d.file()); v != nil && v.isBase() && len(st.clones(g.Node, v)) > 0 {
				return fail(500, "base volume '%s' is still in use by linked cloned", d.file())
			}
		}
	}
	// What the config and its snapshots refer to goes first, then what is
	// left with the guest's number.
	volids := map[string]bool{}
	collect := func(conf map[string]string) {
		for _, key := range volumeKeys(conf, true) {
			if d := parseDrive(key, conf[key]); !d.isISO() {
				volids[d.file()] = true
			}
		}
		if v := conf["vmstate"]; v != "" {
			volids[v] = true
		}
	}
	collect(g.Config)
	collect(g.Pending)
	for _, s := range g.Snapshots {
		collect(s.Config)
		if s.VMState != "" {
			volids[s.VMState] = true
		}
	}
	if unreferenced {
		for _, volid := range h.owned(g.VMID) {
			volids[volid] = true
		}
	}
	for _, volid := range sortedKeys(volids) {
		if c.cl().ownerOf(volid) != g.VMID {
			continue
		}
		if err := h.quiet().free(volid); err != nil {
			t.warnf("Could not remove disk '%s', check manually: %s", volid, err.Error())
		}
	}
	delete(c.cl().Guests, g.VMID)
	c.cl().forgetGuest(g.VMID)
	if purge {
		t.logf("purging VM %d from related configurations..", g.VMID)
		if id := "vm:" + strconv.Itoa(g.VMID); c.cl().HA[id] != nil {
			c.cl().dropHA(id)
			t.logf("NOTE: removed VM %d from HA resource configuration.", g.VMID)
		}
	}
	return nil
}
