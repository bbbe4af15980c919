package pvetest

import (
	"fmt"
	"strconv"
)

// configMap is a config as its JSON is shown.
func (c *call) configMap(conf map[string]string, mask bool) map[string]any {
	m := make(map[string]any, len(conf)+1)
	for k, v := range conf {
		if k == "cipassword" && mask {
			v = "**********"
		}
		m[k] = c.typed(k, v)
	}
	return m
}

func guestConfigGet(c *call) (any, error) {
	g, err := c.theGuest()
	if err != nil {
		return nil, err
	}
	if name := c.p.str("snapshot"); name != "" {
		if c.p.boolean("current", false) {
			return nil, failParams(map[string]string{
				"snapshot": "cannot use 'snapshot' parameter with 'current'",
				"current":  "cannot use 'snapshot' parameter with 'current'",
			})
		}
		s, err := g.snapshot(name)
		if err != nil {
			return nil, err
		}
		return c.configMap(s.full(), true), nil
	}
	conf := g.effective()
	if c.p.boolean("current", false) {
		conf = g.Config
	}
	m := c.configMap(conf, true)
	m["digest"] = g.digest()
	return m, nil
}

func guestPending(c *call) (any, error) {
	g, err := c.theGuest()
	if err != nil {
		return nil, err
	}
	show := func(k, v string) any {
		if k == "cipassword" {
			return "**********"
		}
		return c.typed(k, v)
	}
	rows := []any{}
	for _, k := range sortedKeys(g.Config) {
		row := map[string]any{"key": k, "value": show(k, g.Config[k])}
		if v, ok := g.Pending[k]; ok {
			row["pending"] = show(k, v)
		}
		if force, ok := g.Delete[k]; ok {
			row["delete"] = 1 + flag(force)
		}
		rows = append(rows, row)
	}
	rows = append(rows, map[string]any{"key": "digest", "value": g.digest()})
	for _, k := range sortedKeys(g.Pending) {
		if _, ok := g.Config[k]; !ok {
			rows = append(rows, map[string]any{"key": k, "pending": show(k, g.Pending[k])})
		}
	}
	return rows, nil
}

func guestIndex(c *call) (any, error) {
	return subdirs("config", "cloudinit", "pending", "status", "unlink", "vncproxy", "termproxy", "migrate", "resize", "move",
		"rrd", "rrddata", "monitor", "agent", "snapshot", "spiceproxy", "sendkey", "firewall", "mtunnel", "remote_migrate"), nil
}

func guestStatusIndex(c *call) (any, error) {
	if _, err := c.theGuest(); err != nil {
		return nil, err
	}
	return subdirs("current", "start", "stop", "reset", "shutdown", "suspend", "reboot"), nil
}

func subdirs(names ...string) []any {
	var rows []any
	for _, n := range names {
		rows = append(rows, map[string]any{"subdir": n})
	}
	return rows
}

func guestCloudinitGet(c *call) (any, error) {
	g, err := c.theGuest()
	if err != nil {
		return nil, err
	}
	rows := []any{}
	for _, k := range sortedKeys(g.Config) {
		switch k {
		case "cicustom", "cipassword", "citype", "ciupgrade", "ciuser", "nameserver", "searchdomain", "sshkeys":
		default:
			continue
		}
		v := c.typed(k, g.Config[k])
		if k == "cipassword" {
			v = "**********"
		}
		rows = append(rows, map[string]any{"key": k, "value": v})
	}
	return rows, nil
}

func guestCloudinitPut(c *call) (any, error) {
	g, err := c.theGuest()
	if err != nil {
		return nil, err
	}
	for _, k := range volumeKeys(g.Config, false) {
		if parseDrive(k, g.Config[k]).isCloudinit() {
			return nil, nil
		}
	}
	return nil, fail(500, "no cloud-init drive found")
}

// cloudinitText renders what the generated cloud-init drive holds of a type.
func cloudinitText(g *guest, typ string) string {
	name := g.Config["name"]
	if name == "" {
		name = "VM" + strconv.Itoa(g.VMID)
	}
	switch typ {
	case "meta":
		return fmt.Sprintf("instance-id: %s\n", g.digest())
	case "network":
		return "version: 1\nconfig:\n"
	}
	text := "#cloud-config\nhostname: " + name + "\nmanage_etc_hosts: true\nfqdn: " + name + "\n"
	if u := g.Config["ciuser"]; u != "" {
		text += "user: " + u + "\n"
		if u == "root" {
			text += "disable_root: False\n"
		}
	}
	if p := g.Config["cipassword"]; p != "" {
		text += "password: " + p + "\n"
	}
	text += "chpasswd:\n  expire: False\n"
	if g.Config["ciuser"] == "" {
		text += "users:\n  - default\n"
	}
	if g.Config["ciupgrade"] != "0" {
		text += "package_upgrade: true\n"
	}
	return text
}

func guestCloudinitDump(c *call) (any, error) {
	g, err := c.theGuest()
	if err != nil {
		return nil, err
	}
	return cloudinitText(g, c.p.str("type")), nil
}
