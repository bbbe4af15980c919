package pvetest

import (
	"strconv"
	"strings"
)

// agentOn tells whether a guest's config has its agent enabled.
func agentOn(conf map[string]string) bool {
	v := parseProps(conf["agent"], "enabled").get("enabled")
	return v == "1" || v == "on" || v == "yes" || v == "true"
}

// statusFields is what lists and the current status both tell of a guest.
func (c *call) statusFields(g *guest) map[string]any {
	conf := g.Config
	memory, cpus := g.sizing()
	m := map[string]any{
		"vmid": g.VMID, "name": g.name(), "status": "stopped", "cpus": cpus, "cpu": 0, "mem": 0, "memhost": 0,
		"maxmem": memory, "maxdisk": g.bootDiskSize(), "disk": 0, "netin": 0, "netout": 0, "uptime": 0,
	}
	if g.Running {
		m["status"], m["pid"], m["uptime"] = "running", g.PID, c.s.clock().Unix()-g.Started
		for _, what := range []string{"cpu", "io", "memory"} {
			m["pressure"+what+"some"], m["pressure"+what+"full"] = 0, 0
		}
	}
	if b, err := strconv.ParseInt(conf["balloon"], 10, 64); err == nil && b > 0 {
		m["balloon_min"], m["shares"] = b*mib, 1000
		if n, err := strconv.ParseInt(conf["shares"], 10, 64); err == nil {
			m["shares"] = n
		}
	}
	if g.template() {
		m["template"] = 1
	}
	for _, key := range []string{"tags", "lock"} {
		if v := conf[key]; v != "" {
			m[key] = v
		}
	}
	for i := range 4 {
		if conf["serial"+strconv.Itoa(i)] != "" {
			m["serial"] = 1
		}
	}
	return m
}

func guestList(c *call) (any, error) {
	rows := []any{}
	for _, vmid := range sortedKeys(c.cl().Guests) {
		g := c.cl().Guests[vmid]
		if g.Node == c.node && !g.Container && c.may("/vms/"+strconv.Itoa(vmid), "VM.Audit") {
			rows = append(rows, c.statusFields(g))
		}
	}
	return rows, nil
}

func guestCurrent(c *call) (any, error) {
	g, err := c.theGuest()
	if err != nil {
		return nil, err
	}
	m := c.statusFields(g)
	m["qmpstatus"] = m["status"]
	if g.Paused {
		m["qmpstatus"] = "paused"
	}
	m["ha"] = c.cl().haOf(g.VMID)
	if agentOn(g.Config) {
		m["agent"] = 1
	}
	if vga, ok := g.Config["vga"]; ok {
		p := parseProps(vga, "type")
		if strings.HasPrefix(p.get("type"), "qxl") {
			m["spice"] = 1
		}
		m["clipboard"] = nil
		if v := p.get("clipboard"); v != "" {
			m["clipboard"] = v
		}
	}
	if g.Running {
		nics := map[string]any{}
		for _, key := range sortedKeys(g.Config) {
			if isNetKey(key) {
				nics["tap"+strconv.Itoa(g.VMID)+"i"+key[3:]] = map[string]any{"netin": 0, "netout": 0}
			}
		}
		if len(nics) > 0 {
			m["nics"] = nics
		}
	}
	return m, nil
}
