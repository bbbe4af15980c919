package pvetest

import (
	"fmt"
	"strconv"
	"strings"
)

// qemuVersion is what new guests' machines and meta data say.
const qemuVersion = "10.0.2"

func guestCreate(c *call) (any, error) {
	vmid, pool := int(c.p.int("vmid")), c.p.str("pool")
	if pool != "" && c.cl().Pools[pool] == nil {
		return nil, fail(403, "Permission check failed (pool '%s' does not exist)", pool)
	}
	path := "/vms/" + strconv.Itoa(vmid)
	if !c.may(path, "VM.Allocate") && (pool == "" || !c.may("/pool/"+pool, "VM.Allocate")) {
		return nil, failPerm("")
	}
	if archive := c.p.str("archive"); archive != "" {
		if _, _, err := c.host(nil).volume(archive); err != nil {
			return nil, err
		}
		return nil, fail(501, "pvetest does not restore backups")
	}
	settings := c.settings()
	if err := c.mayCreate(vmid, pool, settings); err != nil {
		return nil, err
	}
	if c.p.boolean("ha-managed", false) {
		if err := c.check("/", "Sys.Console"); err != nil {
			return nil, err
		}
	}
	if err := c.tidy(settings); err != nil {
		return nil, err
	}
	if err := checkBalloon(settings); err != nil {
		return nil, err
	}
	if old := c.cl().Guests[vmid]; old != nil {
		return nil, fail(500, "unable to create VM %d - %s", vmid, old.there())
	}
	return c.reserving(vmid, "create", "qmcreate", strconv.Itoa(vmid), func(t *task) error {
		if err := c.create(t, vmid, pool, settings); err != nil {
			return fail(500, "unable to create VM %d - %s", vmid, dieText(err))
		}
		c.afterCreate(t, vmid)
		return nil
	}), nil
}

// there says that the guest is in the way of one with its number.
func (g *guest) there() string {
	kind := "VM"
	if g.Container {
		kind = "CT"
	}
	return fmt.Sprintf("%s %d already exists on node '%s'", kind, g.VMID, g.Node)
}

// mayCreate checks the caller's rights to make a guest with settings.
func (c *call) mayCreate(vmid int, pool string, settings map[string]string) error {
	if err := c.mayUseDrives(vmid, settings); err != nil {
		return err
	}
	if err := c.mayChange(vmid, pool, sortedKeys(settings)); err != nil {
		return err
	}
	if err := c.mayPassThrough(vmid, pool, settings); err != nil {
		return err
	}
	return c.mayUseBridges(settings)
}

// reserving is task for work that makes a guest: its number is taken from
// the start, by a config with nothing but a lock, which goes away again when
// the work fails.
func (c *call) reserving(vmid int, lock, typ, id string, run func(t *task) error) string {
	g := &guest{VMID: vmid, Node: c.node, Config: map[string]string{"lock": lock}}
	cl := c.cl()
	cl.Guests[vmid] = g
	drop := func() {
		if cl.Guests[vmid] == g {
			delete(cl.Guests, vmid)
		}
	}
	upid := c.task(typ, id, func(t *task) error {
		drop()
		return run(t)
	})
	if t := cl.Tasks[len(cl.Tasks)-1]; t.UPID == upid && t.running() {
		t.undo = drop
	} else {
		drop()
	}
	return upid
}

// create is the work of making a guest.
func (c *call) create(t *task, vmid int, pool string, settings map[string]string) error {
	if old := c.cl().Guests[vmid]; old != nil {
		return fail(500, "%s", old.there())
	}
	// The guest is not in its pool yet, so rights on the pool do not count
	// for the options that are checked again here.
	for _, key := range sortedKeys(settings) {
		if priv, _ := optionPriv(key); key == "tags" || priv == "VM.Config.Options" && key != "name" {
			if err := c.check("/vms/"+strconv.Itoa(vmid), "VM.Config.Options"); err != nil {
				return err
			}
		}
	}
	if tags, ok := settings["tags"]; ok {
		if err := c.mayTag(vmid, "", tags); err != nil {
			return err
		}
	}
	conf := map[string]string{}
	for key, text := range settings {
		conf[key] = text
	}
	drives, err := c.makeDrives(c.host(t), vmid, map[string]string{}, settings)
	if err != nil {
		return err
	}
	for key, text := range drives {
		conf[key] = text
	}
	conf["meta"] = fmt.Sprintf("creation-qemu=%s,ctime=%d", qemuVersion, c.s.clock().Unix())
	if conf["boot"] == "" {
		conf["boot"] = defaultBoot(conf)
	}
	if conf["smbios1"] == "" {
		conf["smbios1"] = "uuid=" + randomUUID(c.s.rng.Uint64(), c.s.rng.Uint64())
	}
	if conf["vmgenid"] == "" {
		conf["vmgenid"] = randomUUID(c.s.rng.Uint64(), c.s.rng.Uint64())
	}
	if tags, ok := conf["tags"]; ok {
		conf["tags"] = c.cl().cleanTags(tags)
	}
	if pin := pinnedMachine(conf); pin != "" {
		t.logf("pinning machine type to '%s' for Windows guest OS", pin)
		conf["machine"] = pin
	}
	dropEmpty(conf)
	c.cl().Guests[vmid] = &guest{VMID: vmid, Node: c.node, Config: conf}
	c.cl().addToPool(pool, vmid)
	return nil
}

// dropEmpty removes options without a value, which a config file cannot hold.
func dropEmpty(conf map[string]string) {
	for k, v := range conf {
		if v == "" {
			delete(conf, k)
		}
	}
}

// pinnedMachine is the machine a new Windows guest is given, "" for none.
func pinnedMachine(conf map[string]string) string {
	ostype := conf["ostype"]
	if !strings.HasPrefix(ostype, "w") {
		return ""
	}
	m := parseProps(conf["machine"], "type")
	switch m.get("type") {
	case "", "pc":
		m.set("type", "pc-i440fx-10.0+pve1")
	case "q35":
		m.set("type", "pc-q35-10.0+pve1")
	default:
		return ""
	}
	return m.String()
}

// afterCreate does what a create call asks for beyond the guest itself.
func (c *call) afterCreate(t *task, vmid int) {
	start := c.p.boolean("start", false)
	if c.p.boolean("ha-managed", false) {
		t.logf("Add as HA resource")
		c.cl().manage(vmid, start)
		return
	}
	if start {
		t.logf("Execute autostart")
		c.startGuest(vmid)
	}
}
