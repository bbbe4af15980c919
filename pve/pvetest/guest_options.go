package pvetest

import (
	"slices"
	"strconv"
	"strings"
)

// optionPriv is the privilege that changing a guest's option needs, "" when
// it is checked elsewhere; root is set for options of root alone.
func optionPriv(key string) (priv string, root bool) {
	switch key {
	case "affinity", "cores", "cpu", "cpulimit", "cpuunits", "numa", "smp", "sockets", "vcpus":
		return "VM.Config.CPU", false
	case "memory", "balloon", "shares", "allow-ksm":
		return "VM.Config.Memory", false
	case "acpi", "hotplug", "kvm", "machine", "scsihw", "smbios1", "tablet", "vga", "watchdog", "audio0", "rng0", "arch",
		"amd-sev", "intel-tdx":
		return "VM.Config.HWType", false
	case "agent", "autostart", "bios", "description", "keyboard", "localtime", "migrate_downtime", "migrate_speed", "name",
		"onboot", "ostype", "protection", "reboot", "spice_enhancements", "startdate", "startup", "tdf", "template":
		return "VM.Config.Options", false
	case "freeze":
		return "VM.PowerMgmt", false
	case "boot", "bootdisk", "vmstatestorage":
		return "VM.Config.Disk", false
	case "cicustom", "cipassword", "citype", "ciupgrade", "ciuser", "nameserver", "searchdomain", "sshkeys":
		return "VM.Config.Cloudinit", false
	case "cdrom", "tags":
		return "", false
	}
	switch {
	case isDriveKey(key) || isUnusedKey(key):
		return "", false
	case isNetKey(key):
		return "VM.Config.Network", false
	case isIndexed(key, "ipconfig"):
		return "VM.Config.Cloudinit", false
	case isIndexed(key, "numa"):
		return "VM.Config.CPU", false
	case isIndexed(key, "serial"), isIndexed(key, "usb"), isIndexed(key, "hostpci"), isIndexed(key, "virtiofs"):
		return "", false
	}
	return "", true
}

// vmCheck checks a privilege on a guest; for one that is only being made, the
// pool it is going to be in counts too.
func (c *call) vmCheck(vmid int, pool string, privs ...string) error {
	path := "/vms/" + strconv.Itoa(vmid)
	if pool != "" && c.check("/pool/"+pool, privs...) == nil {
		return nil
	}
	return c.check(path, privs...)
}

// mayChange checks the caller's rights to change options of a guest.
func (c *call) mayChange(vmid int, pool string, keys []string) error {
	if c.auth.root() {
		return nil
	}
	for _, key := range keys {
		priv, root := optionPriv(key)
		if root {
			return fail(500, "only root can set '%s' config", key)
		}
		if priv == "" {
			continue
		}
		if priv == "VM.Config.Cloudinit" {
			if c.vmCheck(vmid, pool, priv) == nil || c.vmCheck(vmid, pool, "VM.Config.Network") == nil {
				continue
			}
			return failPerm("/vms/"+strconv.Itoa(vmid), "VM.Config.Cloudinit", "VM.Config.Network")
		}
		if err := c.vmCheck(vmid, pool, priv); err != nil {
			return err
		}
		if key == "startup" {
			if err := c.check("/", "Sys.Modify"); err != nil {
				return err
			}
		}
	}
	return nil
}

// mayPassThrough checks the caller's rights to hand devices of the host, or
// mappings of them, to a guest.
func (c *call) mayPassThrough(vmid int, pool string, settings map[string]string) error {
	if c.auth.root() {
		return nil
	}
	for _, key := range sortedKeys(settings) {
		var kind, def string
		switch {
		case isIndexed(key, "serial"):
			if settings[key] == "socket" {
				if err := c.vmCheck(vmid, pool, "VM.Config.HWType"); err != nil {
					return err
				}
				continue
			}
			return fail(500, "only root can modify '%s' config for real devices", key)
		case isIndexed(key, "usb"):
			kind, def = "usb", "host"
		case isIndexed(key, "hostpci"):
			kind, def = "pci", "host"
		case isIndexed(key, "virtiofs"):
			kind, def = "dir", "dirid"
		default:
			continue
		}
		p := parseProps(settings[key], def)
		id := p.get("mapping")
		if kind == "dir" {
			id = p.get("dirid")
		}
		switch {
		case kind == "usb" && p.get("host") == "spice":
		case id != "":
			if err := c.check("/mapping/"+kind+"/"+id, "Mapping.Use"); err != nil {
				return err
			}
		case kind == "usb":
			return fail(500, "only root can set '%s' config for real devices", key)
		default:
			return fail(500, "only root can set '%s' config for non-mapped devices", key)
		}
		if err := c.vmCheck(vmid, pool, "VM.Config.HWType"); err != nil {
			return err
		}
	}
	return nil
}

// mayUseBridges checks the caller's rights on the networks of a guest's cards.
func (c *call) mayUseBridges(settings map[string]string) error {
	if c.auth.root() {
		return nil
	}
	for _, key := range sortedKeys(settings) {
		if !isNetKey(key) {
			continue
		}
		n := parseNIC(settings[key])
		bridge := n.get("bridge")
		if bridge == "" {
			continue
		}
		path := "/sdn/zones/" + c.cl().zoneOf(bridge) + "/" + bridge
		tags := splitList(n.get("trunks"))
		if tag := n.get("tag"); tag != "" {
			tags = append([]string{tag}, tags...)
		}
		if len(tags) == 0 {
			if err := c.check(path, "SDN.Use"); err != nil {
				return err
			}
		}
		for _, tag := range tags {
			if err := c.check(path+"/"+tag, "SDN.Use"); err != nil {
				return err
			}
		}
	}
	return nil
}

// cleanTags brings tags into the form in which PVE keeps them: without
// duplicates, and sorted in lower case unless the datacenter says otherwise.
func (cl *cluster) cleanTags(text string) string {
	if text != "" && strings.TrimSpace(text) == "" {
		return text
	}
	style := parseProps(cl.Options["tag-style"], "style")
	var tags []string
	for _, tag := range splitList(text) {
		if style.get("case-sensitive") != "1" {
			tag = strings.ToLower(tag)
		}
		if !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	if style.get("ordering") != "config" {
		slices.Sort(tags)
	}
	return strings.Join(tags, ";")
}

// mayTag checks the caller's rights to change a guest's tags.
func (c *call) mayTag(vmid int, old, text string) error {
	if err := c.check("/vms/"+strconv.Itoa(vmid), "VM.Config.Options"); err != nil {
		return err
	}
	if c.may("/", "Sys.Modify") {
		return nil
	}
	before, after := splitList(c.cl().cleanTags(old)), splitList(c.cl().cleanTags(text))
	access := parseProps(c.cl().Options["user-tag-access"], "user-allow")
	registered := splitList(c.cl().Options["registered-tags"])
	var listed []string
	listed = append(listed, splitList(access.get("user-allow-list"))...)
	allowed := func(tag string) bool {
		switch access.get("user-allow") {
		case "none":
			return false
		case "list":
			return slices.Contains(listed, tag)
		case "existing":
			return slices.Contains(listed, tag) || !slices.Contains(registered, tag) && c.cl().tagExists(tag)
		}
		return !slices.Contains(registered, tag)
	}
	for _, change := range []struct{ from, to []string }{{before, after}, {after, before}} {
		for _, tag := range change.to {
			if !slices.Contains(change.from, tag) && !allowed(tag) {
				return fail(403, "Permission check failed (/, Sys.Modify for modifying tag '%s')", tag)
			}
		}
	}
	return nil
}

// tagExists tells whether a guest has a tag.
func (cl *cluster) tagExists(tag string) bool {
	for _, g := range cl.Guests {
		if slices.Contains(splitList(g.Config["tags"]), tag) {
			return true
		}
	}
	return false
}

// controlParam tells whether a parameter of a guest's calls is no option of the
// guest.
func controlParam(name string) bool {
	switch name {
	case "node", "vmid", "digest", "delete", "revert", "force", "skiplock", "background_delay", "import-working-storage",
		"archive", "pool", "start", "storage", "unique", "live-restore", "bwlimit", "ha-managed":
		return true
	}
	return false
}

// settings returns the guest options among the call's parameters.
func (c *call) settings() map[string]string {
	m := map[string]string{}
	for _, name := range c.p.names() {
		switch {
		case controlParam(name):
		case name == "cdrom":
			m["ide2"] = c.p.str(name)
			if !parseDrive("ide2", m["ide2"]).has("media") {
				m["ide2"] += ",media=cdrom"
			}
		default:
			m[name] = c.p.str(name)
		}
	}
	return m
}

// tidy brings options into the form in which they are kept. Options that are
// checked against others or against the cluster are refused here.
func (c *call) tidy(settings map[string]string) error {
	for _, key := range sortedKeys(settings) {
		text := settings[key]
		switch {
		case isDriveKey(key):
			d := parseDrive(key, text)
			if d.file() == "" || d.get("media") == "cdrom" && (d.has("snapshot") || d.has("shared")) {
				return failParam(key, "unable to parse drive options")
			}
			if d.has("import-from") {
				if _, size, ok := d.alloc(); !ok || size != 0 {
					return failParam(key, "'import-from' requires special syntax - use <storage ID>:0,import-from=<source>")
				}
			}
		case isNetKey(key):
			n := parseNIC(text)
			if n.get("macaddr") == "" {
				n.set("macaddr", randomMAC(c.cl().Options["mac_prefix"], c.s.rng.Uint64()))
			}
			n.set("macaddr", strings.ToUpper(n.get("macaddr")))
			settings[key] = n.String()
		case key == "vmgenid" && text == "1":
			settings[key] = randomUUID(c.s.rng.Uint64(), c.s.rng.Uint64())
		case key == "description":
			settings[key] = strings.TrimRight(text, "\n")
		case key == "hookscript":
			if err := c.checkHookscript(text); err != nil {
				return err
			}
		case key == "machine":
			m := parseProps(text, "type")
			if m.get("viommu") == "intel" && !strings.Contains(m.get("type"), "q35") {
				return fail(500, "to use Intel vIOMMU please set the machine type to q35")
			}
		}
	}
	return nil
}

func (c *call) checkHookscript(volid string) error {
	st, _, err := c.host(nil).volume(volid)
	if err == nil && st.kind().files {
		return nil
	}
	if id, name, _ := strings.Cut(volid, ":"); c.cl().Storages[id] != nil {
		if _, perr := c.cl().Storages[id].parseName(name); perr == nil {
			return failParam("hookscript", "script '%s' does not exist\n", volid)
		}
	}
	return failParam("hookscript", "%s\n", err.Error())
}

// checkBalloon refuses a balloon larger than the memory.
func checkBalloon(conf map[string]string) error {
	memory := memoryMiB(conf)
	if b, err := strconv.ParseInt(conf["balloon"], 10, 64); err == nil && b > memory {
		return fail(500, "balloon value too large (must be smaller than assigned memory)")
	}
	return nil
}

// memoryMiB is a guest's memory in MiB.
func memoryMiB(conf map[string]string) int64 {
	n, err := strconv.ParseInt(parseProps(conf["memory"], "current").get("current"), 10, 64)
	if err != nil {
		return 512
	}
	return n
}

// knownOption tells whether a guest can have an option of that name.
func (c *call) knownOption(key string) bool {
	if isUnusedKey(key) {
		return true
	}
	if controlParam(key) {
		return false
	}
	_, ok := c.optionSchema(key)
	return ok
}

// optionSchema returns the type of a guest's option: "integer", "boolean" and so on.
func (c *call) optionSchema(key string) (typ string, ok bool) {
	switch key {
	case "meta", "parent", "vmstate", "snapstate", "runningmachine":
		return "string", true
	case "snaptime":
		return "integer", true
	}
	op := c.s.reg.byName["PUT /nodes/{node}/qemu/{vmid}/config"]
	if op == nil || op.Parameters == nil {
		return "", false
	}
	p := op.Parameters.Properties[key]
	if p == nil {
		i := strings.IndexAny(key, "0123456789")
		if i < 1 || !digits(key[i:]) || isVolumeKey(key[:i]+"0") && !isVolumeKey(key) {
			return "", false
		}
		if p = op.Parameters.Properties[key[:i]+"[n]"]; p == nil {
			return "", false
		}
	}
	return p.Type, true
}

// typed is an option's value as the config's JSON has it.
func (c *call) typed(key, text string) any {
	typ, _ := c.optionSchema(key)
	switch typ {
	case "integer", "boolean":
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	}
	return text
}
