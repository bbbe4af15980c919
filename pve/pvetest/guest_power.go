package pvetest

import (
	"strconv"
	"strings"
	"time"
)

// start is the work of starting a guest.
func (c *call) start(t *task, g *guest, skiplock bool) error {
	if g.template() {
		return fail(500, "you can't start a vm if it's a template")
	}
	suspended := g.lock() == "suspended"
	if !suspended && !skiplock {
		if err := g.checkLock(); err != nil {
			return err
		}
	}
	if g.Running {
		return fail(500, "VM %d already running", g.VMID)
	}
	h := c.host(t)
	c.settleConfig(h, g, nil, nil)
	if err := c.canStart(h, g); err != nil {
		return err
	}
	if suspended {
		if state := g.Config["vmstate"]; state != "" {
			_ = h.quiet().free(state)
		}
		for _, k := range []string{"lock", "vmstate", "runningmachine", "runningcpu"} {
			delete(g.Config, k)
		}
	}
	n := c.cl().Nodes[g.Node]
	n.PID += 3
	g.Running, g.Paused, g.Started, g.PID = true, false, c.s.clock().Unix(), n.PID
	return nil
}

// canStart finds what keeps a guest from starting on its node.
func (c *call) canStart(h host, g *guest) error {
	conf := g.Config
	if c.cl().Nodes[g.Node].NoKVM && conf["kvm"] != "0" {
		return fail(500, "KVM virtualisation configured, but not available. Either disable in VM configuration or enable in BIOS.")
	}
	if conf["bios"] == "ovmf" {
		efi := parseDrive("efidisk0", conf["efidisk0"])
		switch {
		case conf["efidisk0"] == "":
			h.warnf("no efidisk configured! Using temporary efivars disk.")
		case efi.get("pre-enrolled-keys") == "1" && !efi.has("ms-cert"):
			h.warnf("%s", efiWarning(g.VMID))
		}
	}
	for _, key := range sortedKeys(conf) {
		if !isNetKey(key) {
			continue
		}
		if b := parseNIC(conf[key]).get("bridge"); b != "" && !c.cl().hasBridge(g.Node, b) {
			return fail(500, "bridge '%s' does not exist", b)
		}
	}
	for _, key := range volumeKeys(conf, false) {
		d := parseDrive(key, conf[key])
		if d.file() == "none" || d.file() == "cdrom" || strings.HasPrefix(d.file(), "/") {
			continue
		}
		if _, _, err := h.volume(d.file()); err != nil {
			return err
		}
		if d.isISO() {
			continue
		}
		if d.get("aio") == "native" && d.has("cache") && d.get("cache") != "none" && d.get("cache") != "directsync" {
			h.logf("kvm: -blockdev: aio=native was specified, but it requires cache.direct=on, which was not specified.")
			return fail(500, "start failed: QEMU exited with code 1")
		}
		if other := c.cl().openElsewhere(d.file(), g.VMID); other != nil {
			h.logf("kvm: -blockdev: Failed to get \"write\" lock")
			h.logf("Is another process using the image [%s]?", d.file())
			return fail(500, "start failed: QEMU exited with code 1")
		}
	}
	return nil
}

// warnf is logf for a warning, which the task's exit status counts.
func (h host) warnf(format string, args ...any) {
	if h.t != nil {
		h.t.warnf(format, args...)
	}
}

// efiWarning is what PVE says of an EFI disk with the certificates of 2011.
func efiWarning(vmid int) string {
	return "EFI disk without 'ms-cert=2023k' option, suggesting that not all UEFI 2023\n" +
		"certificates from Microsoft are enrolled yet.\n" +
		"The UEFI 2011 certificates expire in June 2026! The new certificates are required\n" +
		"for secure boot update for Windows and common Linux distributions.\n" +
		"Use 'Disk Action > Enroll Updated Certificates' in the UI or, while the VM is\n" +
		"shut down, run 'qm enroll-efi-keys " + strconv.Itoa(vmid) + "' to enroll the new certificates.\n\n" +
		"For Windows with BitLocker, run the following command inside Powershell:\n" +
		"  manage-bde -protectors -disable <drive>\n" +
		"for each drive with BitLocker (for example, <drive> could be 'C:').\n" +
		"This is required for each drive with BitLocker before proceeding with enrollment.\n" +
		"Otherwise, you will be prompted for the BitLocker recovery key on the next boot."
}

// startGuest starts a guest in a task of its own.
func (c *call) startGuest(vmid int) string {
	return c.guestWorker("qmstart", vmid, func(t *task, g *guest) error { return c.start(t, g, false) })
}

// power checks what all power calls check first and tells whether the cluster's
// high availability takes over.
func (c *call) power() (vmid int, managed bool, err error) {
	vmid = int(c.p.int("vmid"))
	if err := c.checkSkiplock(); err != nil {
		return vmid, false, err
	}
	return vmid, c.cl().managed(vmid), nil
}

// haRequest asks the high availability manager for a state. The task says
// nothing of whether it comes about.
func (c *call) haRequest(what string, vmid int, state string) string {
	return c.task("ha"+what, strconv.Itoa(vmid), func(t *task) error {
		t.logf("Requesting HA %s for VM %d", what, vmid)
		c.cl().request(vmid, state)
		return nil
	})
}

func guestStart(c *call) (any, error) {
	vmid, managed, err := c.power()
	if err != nil {
		return nil, err
	}
	if managed {
		return c.haRequest("start", vmid, "started"), nil
	}
	skip := c.p.boolean("skiplock", false)
	return c.guestWorker("qmstart", vmid, func(t *task, g *guest) error { return c.start(t, g, skip) }), nil
}

func guestStop(c *call) (any, error) {
	vmid, managed, err := c.power()
	if err != nil {
		return nil, err
	}
	if managed {
		return c.haRequest("stop", vmid, "stopped"), nil
	}
	skip := c.p.boolean("skiplock", false)
	return c.guestWorker("qmstop", vmid, func(t *task, g *guest) error {
		if !g.Running {
			return nil
		}
		if !skip {
			if err := g.checkLock(); err != nil {
				return err
			}
		}
		g.stop()
		return nil
	}), nil
}

func guestShutdown(c *call) (any, error) {
	vmid, managed, err := c.power()
	if err != nil {
		return nil, err
	}
	force := c.p.boolean("forceStop", false)
	if g := c.cl().Guests[vmid]; g != nil && g.Paused && !force {
		return nil, fail(500, "VM is paused - cannot shutdown")
	}
	if managed {
		return c.haRequest("stop", vmid, "stopped"), nil
	}
	skip := c.p.boolean("skiplock", false)
	return c.guestWorker("qmshutdown", vmid, func(t *task, g *guest) error {
		if !g.Running {
			return nil
		}
		if !skip {
			if err := g.checkLock(); err != nil {
				return err
			}
		}
		if g.NoOS && !g.Paused {
			if !force {
				return fail(500, "VM quit/powerdown failed - got timeout")
			}
			t.logf("VM still running - terminating now with SIGTERM")
		}
		g.stop()
		return nil
	}), nil
}

// runningGuest returns the call's guest, which must run.
func (c *call) runningGuest() (*guest, error) {
	if err := c.checkSkiplock(); err != nil {
		return nil, err
	}
	vmid := int(c.p.int("vmid"))
	g := c.cl().vm(vmid)
	if g == nil || g.Node != c.node || !g.Running {
		return nil, fail(500, "VM %d not running", vmid)
	}
	return g, nil
}

func guestReboot(c *call) (any, error) {
	g, err := c.runningGuest()
	if err != nil {
		return nil, err
	}
	return c.guestWorker("qmreboot", g.VMID, func(t *task, g *guest) error {
		if err := g.checkLock(); err != nil {
			return err
		}
		if g.NoOS {
			return fail(500, "VM quit/powerdown failed")
		}
		g.stop()
		return c.start(t, g, false)
	}), nil
}

func guestReset(c *call) (any, error) {
	g, err := c.runningGuest()
	if err != nil {
		return nil, err
	}
	skip := c.p.boolean("skiplock", false)
	return c.guestWorker("qmreset", g.VMID, func(_ *task, g *guest) error {
		if skip {
			return nil
		}
		return g.checkLock()
	}), nil
}

func guestSuspend(c *call) (any, error) {
	g, err := c.runningGuest()
	if err != nil {
		return nil, err
	}
	if !c.p.boolean("todisk", false) {
		return c.guestWorker("qmpause", g.VMID, func(_ *task, g *guest) error {
			if err := g.checkLock(); err != nil {
				return err
			}
			g.Paused = true
			return nil
		}), nil
	}
	if err := c.check("/vms/"+strconv.Itoa(g.VMID), "VM.Config.Disk"); err != nil {
		return nil, err
	}
	return c.guestWorker("qmsuspend", g.VMID, func(t *task, g *guest) error {
		if err := g.checkLock(); err != nil {
			return err
		}
		volid, err := c.makeState(c.host(t), g, "suspend-"+c.s.clock().Format(time.DateOnly), c.p.str("statestorage"))
		if err != nil {
			return err
		}
		g.stop()
		g.Config["vmstate"] = volid
		g.setLock("suspended")
		return nil
	}), nil
}

// makeState makes the volume that holds a guest's memory.
func (c *call) makeState(h host, g *guest, what, on string) (string, error) {
	if on == "" {
		on = g.Config["vmstatestorage"]
	}
	if on == "" {
		for _, key := range volumeKeys(g.Config, false) {
			if id, _, ok := strings.Cut(parseDrive(key, g.Config[key]).file(), ":"); ok && !parseDrive(key, g.Config[key]).isCD() {
				on = id
				break
			}
		}
	}
	if on == "" {
		on = "local"
	}
	st, err := c.cl().storage(on)
	if err != nil {
		return "", err
	}
	size := 2*memoryMiB(g.Config)*mib + 500*mib
	v, err := h.alloc(st, g.VMID, "raw", st.ownDiskName(g.VMID, "state-"+what, "raw"), size)
	if err != nil {
		return "", err
	}
	return st.volid(v), nil
}

func guestResume(c *call) (any, error) {
	vmid := int(c.p.int("vmid"))
	if g := c.cl().Guests[vmid]; g != nil && g.Node == c.node && g.lock() == "suspended" {
		return c.guestWorker("qmresume", vmid, func(t *task, g *guest) error { return c.start(t, g, true) }), nil
	}
	g, err := c.runningGuest()
	if err != nil {
		return nil, err
	}
	return c.guestWorker("qmresume", g.VMID, func(_ *task, g *guest) error {
		if err := g.checkLock(); err != nil {
			return err
		}
		g.Paused = false
		return nil
	}), nil
}

func guestSendkey(c *call) (any, error) {
	_, err := c.runningGuest()
	return nil, err
}

func guestMonitor(c *call) (any, error) {
	g, err := c.theGuest()
	if err != nil {
		return nil, err
	}
	if !g.Running {
		return "ERROR: VM " + strconv.Itoa(g.VMID) + " not running\n", nil
	}
	switch c.p.str("command") {
	case "info name":
		return g.name() + "\r\n", nil
	case "info status":
		if g.Paused {
			return "VM status: paused\r\n", nil
		}
		return "VM status: running\r\n", nil
	}
	return "", nil
}

func nodeStartAll(c *call) (any, error) {
	return c.task("startall", "", func(t *task) error {
		for _, vmid := range c.someGuests() {
			g := c.cl().Guests[vmid]
			wanted := c.p.has("vms") || g.Config["onboot"] == "1" || c.p.boolean("force", false)
			if g.Running || g.template() || !wanted {
				continue
			}
			t.logf("Starting VM %d", vmid)
			c.startGuest(vmid)
		}
		return nil
	}), nil
}

func nodeStopAll(c *call) (any, error) {
	return c.task("stopall", "", func(t *task) error {
		for _, vmid := range c.someGuests() {
			if g := c.cl().Guests[vmid]; g.Running {
				t.logf("Stopping VM %d (timeout = 180 seconds)", vmid)
				g.stop()
			}
		}
		return nil
	}), nil
}

// someGuests lists the node's guests that vms names, all without it, as far
// as the caller may switch them.
func (c *call) someGuests() []int {
	wanted := map[string]bool{}
	for _, id := range c.p.list("vms") {
		wanted[id] = true
	}
	var ids []int
	for _, vmid := range sortedKeys(c.cl().Guests) {
		g := c.cl().Guests[vmid]
		if g.Node != c.node || g.Container || len(wanted) > 0 && !wanted[strconv.Itoa(vmid)] {
			continue
		}
		if c.may("/vms/"+strconv.Itoa(vmid), "VM.PowerMgmt") {
			ids = append(ids, vmid)
		}
	}
	return ids
}
