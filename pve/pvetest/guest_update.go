package pvetest

import (
	"slices"
	"sort"
	"strconv"
	"strings"
)

// A change is what a config call asks for.
type change struct {
	set    map[string]string
	unset  []string
	revert []string
	force  bool
	skip   bool // ignore the lock
	digest string
	log    string
}

func guestConfigPut(c *call) (any, error) {
	vmid := int(c.p.int("vmid"))
	ch, err := c.readChange()
	if err != nil {
		return nil, err
	}
	return nil, c.changeNow(vmid, ch)
}

func guestConfigPost(c *call) (any, error) {
	vmid := int(c.p.int("vmid"))
	ch, err := c.readChange()
	if err != nil {
		return nil, err
	}
	if err := c.checkChange(vmid, ch); err != nil {
		return nil, err
	}
	return c.guestWorker("qmconfig", vmid, func(t *task, g *guest) error {
		if err := c.checkChange(vmid, ch); err != nil {
			return err
		}
		t.logf("%s", ch.log)
		return c.apply(c.host(t), g, ch)
	}), nil
}

func guestUnlink(c *call) (any, error) {
	ch := change{unset: c.p.list("idlist"), force: c.p.boolean("force", false), set: map[string]string{}}
	for _, key := range ch.unset {
		if !c.knownOption(key) {
			return nil, failParam("delete", "unknown option '%s'", key)
		}
	}
	vmid := int(c.p.int("vmid"))
	if err := c.mayChange(vmid, "", ch.unset); err != nil {
		return nil, err
	}
	return nil, c.changeNow(vmid, ch)
}

// changeNow checks and applies a change within the call.
func (c *call) changeNow(vmid int, ch change) error {
	if err := c.fileLock(vmid, nil); err != nil {
		return err
	}
	if err := c.checkChange(vmid, ch); err != nil {
		return err
	}
	g, err := c.guestOn(vmid)
	if err != nil {
		return err
	}
	return c.apply(c.host(nil), g, ch)
}

// readChange reads the call's parameters and checks what can be checked
// without the guest.
func (c *call) readChange() (change, error) {
	ch := change{
		set: c.settings(), unset: c.p.list("delete"), revert: c.p.list("revert"),
		force: c.p.boolean("force", false), skip: c.p.boolean("skiplock", false), digest: c.p.str("digest"),
	}
	vmid := int(c.p.int("vmid"))
	if err := c.checkSkiplock(); err != nil {
		return ch, err
	}
	if len(ch.set) == 0 && len(ch.unset) == 0 && len(ch.revert) == 0 {
		return ch, fail(500, "no options specified")
	}
	ch.log = "update VM " + strconv.Itoa(vmid) + ":"
	for _, name := range c.p.names() {
		switch name {
		case "node", "vmid", "digest", "background_delay":
		case "cipassword":
			ch.log += " -cipassword <hidden>"
		default:
			ch.log += " -" + name + " " + c.p.str(name)
		}
	}
	for i, key := range ch.unset {
		if key == "cdrom" {
			ch.unset[i], key = "ide2", "ide2"
		}
		if _, ok := ch.set[key]; ok {
			return ch, failParam("delete", "you can't use '-%s' and -delete %[1]s' at the same time", key)
		}
		if !c.knownOption(key) {
			return ch, failParam("delete", "unknown option '%s'", key)
		}
	}
	for _, key := range ch.revert {
		if !c.knownOption(key) {
			return ch, failParam("revert", "unknown option '%s'", key)
		}
		if _, ok := ch.set[key]; ok {
			return ch, failParam("revert", "you can't use '-%s' and '-revert %[1]s' at the same time", key)
		}
		if slices.Contains(ch.unset, key) {
			return ch, failParam("revert", "you can't use '-delete %s' and '-revert %[1]s' at the same time", key)
		}
	}
	if err := c.tidy(ch.set); err != nil {
		return ch, err
	}
	if err := c.mayChange(vmid, "", ch.unset); err != nil {
		return ch, err
	}
	if err := c.mayChange(vmid, "", sortedKeys(ch.set)); err != nil {
		return ch, err
	}
	if err := c.mayUseDrives(vmid, ch.set); err != nil {
		return ch, err
	}
	return ch, c.mayUseBridges(ch.set)
}

// checkChange checks what is refused before any work is begun.
func (c *call) checkChange(vmid int, ch change) error {
	g, err := c.guestOn(vmid)
	if err != nil {
		return err
	}
	if err := checkDigest(g, ch.digest); err != nil {
		return err
	}
	if !ch.skip {
		if err := g.checkLock(); err != nil {
			return err
		}
	}
	if ch.set["memory"] != "" || ch.set["balloon"] != "" {
		conf := g.effective()
		for _, key := range []string{"memory", "balloon"} {
			if v, ok := ch.set[key]; ok {
				conf[key] = v
			}
		}
		return checkBalloon(conf)
	}
	return nil
}

// apply makes a change pending and then puts in force what can be.
func (c *call) apply(h host, g *guest, ch change) error {
	if g.Pending == nil {
		g.Pending = map[string]string{}
	}
	if g.Delete == nil {
		g.Delete = map[string]bool{}
	}
	for _, key := range ch.revert {
		h.dropPendingDrive(g, key, "")
		delete(g.Pending, key)
		delete(g.Delete, key)
	}
	order := g.Pending["boot"]
	if order == "" {
		order = g.Config["boot"]
	}
	boot := bootOrder(order)
	for _, key := range ch.unset {
		if err := c.unset(h, g, key, ch.force, &boot); err != nil {
			return err
		}
	}
	keys := sortedKeys(ch.set)
	// The boot order is checked against the devices that come with it.
	sort.SliceStable(keys, func(i, j int) bool { return keys[i] != "boot" && keys[j] == "boot" })
	for _, key := range keys {
		// What came before a failure stays pending.
		if err := c.setPending(h, g, key, ch.set[key], &boot, ch); err != nil {
			return err
		}
	}
	problems := map[string]string{}
	c.settleConfig(h, g, ch.touches, problems)
	if len(problems) > 0 {
		return failParams(problems)
	}
	return nil
}

// unset marks an option to go away. Volumes that are not used go at once.
func (c *call) unset(h host, g *guest, key string, force bool, boot *[]string) error {
	text, ok := g.Config[key]
	pending, isPending := g.Pending[key]
	if !ok && !isPending {
		h.logf("cannot delete '%s' - not set in current configuration!", key)
		return nil
	}
	if !ok {
		text = pending
	}
	switch {
	case key == "tags":
		if err := c.mayTag(g.VMID, text, ""); err != nil {
			return err
		}
	case isUnusedKey(key):
		if err := g.checkProtection("can't remove unused disk '" + text + "'"); err != nil {
			return err
		}
		if err := c.vmCheck(g.VMID, "", "VM.Config.Disk"); err != nil {
			return err
		}
		if err := c.deallocate(h, g, key, text); err != nil {
			return err
		}
		delete(g.Config, key)
		return nil
	case isDriveKey(key):
		if err := g.checkProtection("can't remove drive '" + key + "'"); err != nil {
			return err
		}
		if err := c.vmCheck(g.VMID, "", drivePriv(parseDrive(key, text))); err != nil {
			return err
		}
	default:
		if err := c.mayPassThrough(g.VMID, "", map[string]string{key: text}); err != nil {
			return err
		}
	}
	h.dropPendingDrive(g, key, "")
	delete(g.Pending, key)
	if i := slices.Index(*boot, key); i >= 0 {
		*boot = slices.Delete(*boot, i, i+1)
		g.Pending["boot"] = printBoot(*boot)
	}
	if ok {
		g.Delete[key] = force
	}
	return nil
}

// drivePriv is the privilege that changing a drive needs.
func drivePriv(d drive) string {
	if d.isISO() {
		return "VM.Config.CDROM"
	}
	return "VM.Config.Disk"
}

// deallocate removes a volume of the guest that nothing uses any more. A
// volume of another guest is left alone.
func (c *call) deallocate(h host, g *guest, key, text string) error {
	d := parseDrive(key, text)
	if d.isISO() || c.cl().ownerOf(d.file()) != g.VMID {
		return nil
	}
	id, _, _ := strings.Cut(d.file(), ":")
	if err := c.check("/storage/"+id, "Datastore.AllocateSpace"); err != nil {
		return err
	}
	if uses(g.Config, d.file(), key) || g.snapshotUses(d.file()) {
		return fail(500, "unable to delete '%s' - volume is still in use (snapshot?)", d.file())
	}
	return h.free(d.file())
}

// dropPendingDrive keeps the volume of a pending drive that is given up.
func (h host) dropPendingDrive(g *guest, key, next string) {
	text, ok := g.Pending[key]
	if !ok || !isDriveKey(key) || parseDrive(key, text).file() == next {
		return
	}
	if old, ok := g.Config[key]; ok && parseDrive(key, old).file() == parseDrive(key, text).file() {
		return
	}
	h.keepUnused(g, parseDrive(key, text))
}

// keepUnused makes an unusedN entry for a drive's volume if it is the guest's
// own; a cloud-init drive is made anew when needed and therefore removed.
func (h host) keepUnused(g *guest, d drive) {
	switch {
	case d.isCloudinit():
		_ = h.quiet().free(d.file())
	case d.isISO():
	case h.cl().ownerOf(d.file()) == g.VMID:
		addUnused(g.Config, d.file())
	}
}

// setPending makes one option's new value pending.
func (c *call) setPending(h host, g *guest, key, text string, boot *[]string, ch change) error {
	delete(g.Delete, key)
	switch {
	case isDriveKey(key):
		d := parseDrive(key, text)
		if err := c.vmCheck(g.VMID, "", drivePriv(d)); err != nil {
			return err
		}
		if old, ok := g.Config[key]; ok {
			if err := c.vmCheck(g.VMID, "", drivePriv(parseDrive(key, old))); err != nil {
				return err
			}
		}
		conf := g.effective()
		delete(conf, key)
		made, err := c.makeDrives(h, g.VMID, conf, map[string]string{key: text})
		if err != nil {
			return err
		}
		d = parseDrive(key, made[key])
		h.dropPendingDrive(g, key, d.file())
		g.Pending[key] = made[key]
		if len(*boot) > 0 && d.isISO() && !slices.Contains(*boot, key) {
			*boot = append(*boot, key)
			g.Pending["boot"] = printBoot(*boot)
		}
		// A volume that is in use again is no longer an unused one.
		for _, k := range sortedKeys(g.Config) {
			if isUnusedKey(k) && g.Config[k] == d.file() {
				delete(g.Config, k)
			}
		}
		return nil
	case key == "boot":
		conf := g.effective()
		for k, v := range ch.set {
			conf[k] = v
		}
		for _, device := range bootOrder(text) {
			if _, ok := conf[device]; !ok {
				return fail(500, "invalid bootorder: device '%s' does not exist'", device)
			}
		}
		*boot = bootOrder(text)
	case key == "tags":
		old, _ := g.value("tags")
		if err := c.mayTag(g.VMID, old, text); err != nil {
			return err
		}
		text = c.cl().cleanTags(text)
	default:
		if err := c.mayPassThrough(g.VMID, "", map[string]string{key: text}); err != nil {
			return err
		}
	}
	if text == "" {
		delete(g.Pending, key)
		if _, ok := g.Config[key]; ok {
			g.Delete[key] = false
		}
		return nil
	}
	g.Pending[key] = text
	return nil
}

// touches tells whether the change is about a key.
func (ch change) touches(key string) bool {
	_, set := ch.set[key]
	return set || slices.Contains(ch.unset, key)
}

// settleConfig puts pending changes in force: all of them when the guest is
// off, otherwise those that are tried now and that a running machine can take.
// What fails stays pending and is entered in problems.
func (c *call) settleConfig(h host, g *guest, try func(key string) bool, problems map[string]string) {
	plug := plugger{c: c, h: h, g: g, features: hotplugFeatures(g.Config)}
	for _, key := range sortedKeys(g.Delete) {
		text, ok := g.Config[key]
		if !ok {
			delete(g.Delete, key)
			continue
		}
		if g.Running {
			if !try(key) {
				continue
			}
			done, err := plug.out(key, text)
			if err != nil && problems != nil {
				problems[key] = "hotplug problem - " + err.Error() + "\n"
			}
			if err != nil || !done {
				continue
			}
		}
		if isDriveKey(key) {
			d := parseDrive(key, text)
			if g.Delete[key] {
				if err := c.deallocate(h, g, key, text); err != nil {
					if problems != nil {
						problems[key] = err.Error() + "\n"
					}
					continue
				}
			} else {
				h.keepUnused(g, d)
			}
		}
		delete(g.Config, key)
		delete(g.Delete, key)
	}
	for _, key := range sortedKeys(g.Pending) {
		text := g.Pending[key]
		if old, ok := g.Config[key]; ok && old == text {
			delete(g.Pending, key)
			continue
		}
		if g.Running {
			if !try(key) {
				continue
			}
			done, err := plug.in(key, text)
			if err != nil && problems != nil {
				problems[key] = "hotplug problem - " + err.Error() + "\n"
			}
			if err != nil || !done {
				continue
			}
		}
		if old, ok := g.Config[key]; ok && isDriveKey(key) {
			if d := parseDrive(key, old); d.file() != parseDrive(key, text).file() {
				delete(g.Config, key)
				h.keepUnused(g, d)
			}
		}
		g.Config[key] = text
		delete(g.Pending, key)
	}
	if len(g.Pending) == 0 {
		g.Pending = nil
	}
	if len(g.Delete) == 0 {
		g.Delete = nil
	}
}
