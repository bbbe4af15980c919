package pvetest

import (
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// An sdnConfig is a software-defined network: zones, virtual networks, subnets
// and controllers by name.
type sdnConfig struct {
	Zones       map[string]section `json:"zones,omitempty"`
	VNets       map[string]section `json:"vnets,omitempty"`
	Subnets     map[string]section `json:"subnets,omitempty"`
	Controllers map[string]section `json:"controllers,omitempty"`
}

// An sdn is the network as edited and as it runs.
type sdn struct {
	Edited  sdnConfig `json:"edited"`
	Running sdnConfig `json:"running"`
	Lock    string    `json:"lock,omitempty"` // the token of who holds the lock
}

func registerSDN(r *registry) {
	r.handle("GET /cluster/sdn", index("id", "vnets", "zones", "controllers", "ipams", "dns", "fabrics"))
	r.handle("PUT /cluster/sdn", sdnApply)
	r.handle("POST /cluster/sdn/rollback", sdnRollback)
	r.handle("POST /cluster/sdn/lock", sdnLock)
	r.handle("DELETE /cluster/sdn/lock", sdnUnlock)
	r.handle("GET /cluster/sdn/ipams", func(*call) (any, error) {
		return []map[string]any{{"ipam": "pve", "type": "pve", "digest": sha1hex("")}}, nil
	})
	r.handle("GET /cluster/sdn/dns", emptyList)
	r.handle("GET /cluster/sdn/zones", zoneList)
	r.handle("POST /cluster/sdn/zones", zoneCreate)
	r.handle("GET /cluster/sdn/zones/{zone}", zoneGet)
	r.handle("PUT /cluster/sdn/zones/{zone}", zoneUpdate)
	r.handle("DELETE /cluster/sdn/zones/{zone}", zoneDelete)
	r.handle("GET /cluster/sdn/controllers", controllerList)
	r.handle("POST /cluster/sdn/controllers", controllerCreate)
	r.handle("DELETE /cluster/sdn/controllers/{controller}", controllerDelete)
	r.handle("GET /cluster/sdn/vnets", vnetList)
	r.handle("POST /cluster/sdn/vnets", vnetCreate)
	r.handle("GET /cluster/sdn/vnets/{vnet}", vnetGet)
	r.handle("PUT /cluster/sdn/vnets/{vnet}", vnetUpdate)
	r.handle("DELETE /cluster/sdn/vnets/{vnet}", vnetDelete)
	r.handle("GET /cluster/sdn/vnets/{vnet}/subnets", subnetList)
	r.handle("POST /cluster/sdn/vnets/{vnet}/subnets", subnetCreate)
	r.handle("GET /cluster/sdn/vnets/{vnet}/subnets/{subnet}", subnetGet)
	r.handle("PUT /cluster/sdn/vnets/{vnet}/subnets/{subnet}", subnetUpdate)
	r.handle("DELETE /cluster/sdn/vnets/{vnet}/subnets/{subnet}", subnetDelete)
	r.handle("GET /nodes/{node}/sdn", index("name", "fabrics", "vnets", "zones"))
	r.handle("GET /nodes/{node}/sdn/zones", nodeZones)
	r.handle("GET /nodes/{node}/sdn/zones/{zone}/content", nodeZoneContent)
}

// net returns the software-defined network.
func (c *call) net() *sdn {
	if c.cl().SDN == nil {
		c.cl().SDN = &sdn{}
	}
	n := c.cl().SDN
	for _, cfg := range []*sdnConfig{&n.Edited, &n.Running} {
		ensure(&cfg.Zones)
		ensure(&cfg.VNets)
		ensure(&cfg.Subnets)
		ensure(&cfg.Controllers)
	}
	return n
}

func (cfg sdnConfig) clone() sdnConfig {
	deep := func(m map[string]section) map[string]section {
		out := map[string]section{}
		for k, v := range m {
			out[k] = maps.Clone(v)
		}
		return out
	}
	return sdnConfig{deep(cfg.Zones), deep(cfg.VNets), deep(cfg.Subnets), deep(cfg.Controllers)}
}

func (n *sdn) pending() bool {
	a, err1 := json.Marshal(n.Edited)
	b, err2 := json.Marshal(n.Running)
	return err1 != nil || err2 != nil || string(a) != string(b)
}

// sdnMayWrite fails when somebody else holds the lock; what says what failed.
func (c *call) sdnMayWrite(what string) error {
	if lock := c.net().Lock; lock != "" && c.p.str("lock-token") != lock {
		return fail(500, "%s: invalid lock token provided! at /usr/share/perl5/PVE/Network/SDN.pm line 291.", what)
	}
	return nil
}

func sdnApply(c *call) (any, error) {
	if err := c.sdnMayWrite("could not commit SDN config"); err != nil {
		return nil, err
	}
	n := c.net()
	n.Running = n.Edited.clone()
	if c.p.boolean("release-lock", true) {
		n.Lock = ""
	}
	return c.task("reloadnetworkall", "", func(t *task) error {
		for _, name := range sortedKeys(c.cl().Nodes) {
			if !c.cl().Nodes[name].Offline {
				t.logf("%s: reloading network config", name)
			}
		}
		return nil
	}), nil
}

func sdnRollback(c *call) (any, error) {
	if err := c.sdnMayWrite("could not rollback SDN config"); err != nil {
		return nil, err
	}
	n := c.net()
	n.Edited = n.Running.clone()
	if c.p.boolean("release-lock", true) {
		n.Lock = ""
	}
	return nil, nil
}

func sdnLock(c *call) (any, error) {
	n := c.net()
	if n.Lock != "" {
		return nil, fail(500, "could not acquire lock for SDN config: invalid lock token provided! at /usr/share/perl5/PVE/Network/SDN.pm line 291.")
	}
	if n.pending() && !c.p.boolean("allow-pending", false) {
		return nil, fail(500, "could not acquire lock for SDN config: configuration has pending changes at /usr/share/perl5/PVE/API2/Network/SDN.pm line 150.")
	}
	n.Lock = c.s.uuid()
	return n.Lock, nil
}

func sdnUnlock(c *call) (any, error) {
	if !c.p.boolean("force", false) {
		if err := c.sdnMayWrite("could not release lock"); err != nil {
			return nil, err
		}
	}
	c.net().Lock = ""
	return nil, nil
}

// sdnTyped gives an entry's values their types.
func sdnTyped(s section) map[string]any {
	m := map[string]any{}
	for k, v := range s {
		switch k {
		case "tag", "mtu", "vlanaware", "isolate-ports", "vrf-vxlan", "asn", "snat", "vxlan-port", "advertise-subnets", "ebgp", "ebgp-multihop":
			m[k] = atoi(v)
		default:
			m[k] = v
		}
	}
	return m
}

// sdnRows lists the entries of a kind: as edited, as they run, or with what is
// pending. key names the entry, fixed the fields that are never pending.
func (c *call) sdnRows(key string, edited, running map[string]section, fixed ...string) []map[string]any {
	out := []map[string]any{}
	data, _ := json.Marshal(edited)
	digest := any(sha1hex(string(data)))
	row := func(id string, s section) map[string]any {
		m := sdnTyped(s)
		m[key], m["digest"] = id, digest
		return m
	}
	switch {
	case c.p.boolean("running", false):
		digest = nil
		for _, id := range sortedKeys(running) {
			out = append(out, row(id, running[id]))
		}
	case c.p.boolean("pending", false):
		digest = nil
		all := map[string]bool{}
		for id := range edited {
			all[id] = true
		}
		for id := range running {
			all[id] = true
		}
		for _, id := range sortedKeys(all) {
			out = append(out, sdnPending(row, id, edited[id], running[id], fixed))
		}
	default:
		for _, id := range sortedKeys(edited) {
			out = append(out, row(id, edited[id]))
		}
	}
	return out
}

func sdnPending(row func(string, section) map[string]any, id string, now, was section, fixed []string) map[string]any {
	switch {
	case was == nil:
		m, pending := row(id, section{}), map[string]any{}
		for k, v := range sdnTyped(now) {
			if slices.Contains(fixed, k) {
				m[k] = v
			} else {
				pending[k] = v
			}
		}
		m["state"], m["pending"] = "new", pending
		return m
	case now == nil:
		m := row(id, was)
		m["state"] = "deleted"
		return m
	case maps.Equal(now, was):
		return row(id, now)
	}
	m, pending := row(id, was), map[string]any{}
	for k, v := range sdnTyped(now) {
		if was[k] != now[k] {
			pending[k] = v
		}
	}
	for k := range was {
		if _, ok := now[k]; !ok {
			pending[k] = "deleted"
		}
	}
	m["state"], m["pending"] = "changed", pending
	return m
}

// sdnOne is an entry as a single answer.
func sdnOne(key, id string, all map[string]section) map[string]any {
	m := sdnTyped(all[id])
	data, _ := json.Marshal(all)
	m[key], m["digest"] = id, sha1hex(string(data))
	return m
}

// sdnSet takes an entry's settings from a call.
func (c *call) sdnSet(s section, key, what string) error {
	for _, k := range c.p.list("delete") {
		if c.op.Parameters.Properties[k] == nil {
			return fail(500, "%s: no such option '%s'", what, k)
		}
		delete(s, k)
	}
	for _, k := range c.p.names() {
		switch k {
		case key, "vnet-id", "lock-token", "digest", "delete":
		default:
			s[k] = c.p.str(k)
		}
	}
	return nil
}

// sdnCheckDigest refuses a change of what has been changed since it was read.
func (c *call) sdnCheckDigest(what string, all map[string]section) error {
	data, _ := json.Marshal(all)
	if d := c.p.str("digest"); d != "" && d != sha1hex(string(data)) {
		return fail(500, "%s: detected modified configuration - file changed by other user? Try again.", what)
	}
	return nil
}

// seesZone tells whether the caller may see a zone.
func (c *call) seesZone(zone string) bool {
	return c.checkAny("/sdn/zones/"+zone, "SDN.Audit", "SDN.Use", "SDN.Allocate") == nil
}

func zoneList(c *call) (any, error) {
	n := c.net()
	rows := c.sdnRows("zone", n.Edited.Zones, n.Running.Zones, "type")
	return slices.DeleteFunc(rows, func(m map[string]any) bool {
		zone, _ := m["zone"].(string)
		t := c.p.str("type")
		return !c.seesZone(zone) || t != "" && m["type"] != t
	}), nil
}

func zoneCreate(c *call) (any, error) {
	const what = "create sdn zone object failed"
	if err := c.sdnMayWrite(what); err != nil {
		return nil, err
	}
	n, id := c.net(), c.p.str("zone")
	z := section{}
	if err := c.sdnSet(z, "zone", what); err != nil {
		return nil, err
	}
	need := map[string]string{"vlan": "bridge", "qinq": "bridge", "evpn": "controller"}[z["type"]]
	switch {
	case need != "" && z[need] == "":
		return nil, fail(500, "missing value for required option '%s'", need)
	case z["type"] == "simple" && z["bridge"] != "":
		return nil, fail(500, "unexpected property 'bridge'")
	case n.Edited.Zones[id] != nil:
		return nil, fail(500, "%s: sdn zone object ID '%s' already defined", what, id)
	case z["type"] == "vxlan" && (z["peers"] == "") == (z["fabric"] == ""):
		return nil, fail(500, "%s: 400 Parameter verification failed.\npeers: must have exactly one of peers / fabric defined", what)
	case z["type"] == "evpn" && n.Edited.Controllers[z["controller"]] == nil:
		return nil, fail(500, "%s: controller %s don't exist at /usr/share/perl5/PVE/Network/SDN/Zones/EvpnPlugin.pm line 354.", what, z["controller"])
	}
	if z["type"] == "evpn" && z["mac"] == "" {
		z["mac"] = c.s.mac()
	}
	n.Edited.Zones[id] = z
	return nil, nil
}

func zoneGet(c *call) (any, error) {
	id := c.p.str("zone")
	if c.net().Edited.Zones[id] == nil {
		return nil, fail(500, "sdn '%s' does not exist", id)
	}
	return sdnOne("zone", id, c.net().Edited.Zones), nil
}

func zoneUpdate(c *call) (any, error) {
	const what = "update sdn zone object failed"
	if err := c.sdnMayWrite(what); err != nil {
		return nil, err
	}
	zones, id := c.net().Edited.Zones, c.p.str("zone")
	if err := c.sdnCheckDigest(what, zones); err != nil {
		return nil, err
	}
	if zones[id] == nil {
		return nil, fail(500, "%s: sdn '%s' does not exist", what, id)
	}
	z := maps.Clone(zones[id])
	if err := c.sdnSet(z, "zone", what); err != nil {
		return nil, err
	}
	zones[id] = z
	return nil, nil
}

func zoneDelete(c *call) (any, error) {
	const what = "delete sdn zone object failed"
	if err := c.sdnMayWrite(what); err != nil {
		return nil, err
	}
	n, id := c.net(), c.p.str("zone")
	if n.Edited.Zones[id] == nil {
		return nil, fail(500, "%s: sdn '%s' does not exist", what, id)
	}
	for _, v := range sortedKeys(n.Edited.VNets) {
		if n.Edited.VNets[v]["zone"] == id {
			return nil, fail(500, "%s: zone %s is used by vnet %s at /usr/share/perl5/PVE/Network/SDN/Zones/Plugin.pm line 149.", what, id, v)
		}
	}
	delete(n.Edited.Zones, id)
	return nil, nil
}

func controllerList(c *call) (any, error) {
	n := c.net()
	return c.sdnRows("controller", n.Edited.Controllers, n.Running.Controllers, "type"), nil
}

func controllerCreate(c *call) (any, error) {
	const what = "create sdn controller object failed"
	if err := c.sdnMayWrite(what); err != nil {
		return nil, err
	}
	n, id := c.net(), c.p.str("controller")
	if n.Edited.Controllers[id] != nil {
		return nil, fail(500, "%s: sdn controller object ID '%s' already defined", what, id)
	}
	s := section{}
	if err := c.sdnSet(s, "controller", what); err != nil {
		return nil, err
	}
	n.Edited.Controllers[id] = s
	return nil, nil
}

func controllerDelete(c *call) (any, error) {
	const what = "delete sdn controller object failed"
	if err := c.sdnMayWrite(what); err != nil {
		return nil, err
	}
	n, id := c.net(), c.p.str("controller")
	if n.Edited.Controllers[id] == nil {
		return nil, fail(500, "%s: sdn '%s' does not exist", what, id)
	}
	for _, z := range sortedKeys(n.Edited.Zones) {
		if n.Edited.Zones[z]["controller"] == id {
			return nil, fail(500, "%s: controller %s is used by %s at /usr/share/perl5/PVE/Network/SDN/Controllers/EvpnPlugin.pm line 476.", what, id, z)
		}
	}
	delete(n.Edited.Controllers, id)
	return nil, nil
}

// nodeZones lists the zones of a node with whether what runs is what is
// configured.
func nodeZones(c *call) (any, error) {
	n := c.net()
	out := []map[string]any{}
	for _, id := range sortedKeys(n.Edited.Zones) {
		if nodes := splitList(n.Edited.Zones[id]["nodes"]); len(nodes) > 0 && !slices.Contains(nodes, c.node) {
			continue
		}
		status := "available"
		if n.Running.Zones[id] == nil || !maps.Equal(n.Running.Zones[id], n.Edited.Zones[id]) {
			status = "pending"
		}
		out = append(out, map[string]any{"zone": id, "status": status})
	}
	return out, nil
}

func nodeZoneContent(c *call) (any, error) {
	out := []map[string]any{}
	for _, id := range sortedKeys(c.net().Running.VNets) {
		if c.net().Running.VNets[id]["zone"] == c.p.str("zone") {
			out = append(out, map[string]any{"vnet": id, "status": "available", "statusmsg": nil})
		}
	}
	return out, nil
}

// vnetIfaces lists the virtual networks that are applied as interfaces of a
// node.
func (c *call) vnetIfaces() []map[string]any {
	var out []map[string]any
	n := c.net()
	for _, id := range sortedKeys(n.Running.VNets) {
		v := n.Running.VNets[id]
		if c.checkAny("/sdn/zones/"+v["zone"]+"/"+id, "SDN.Audit", "SDN.Use", "SDN.Allocate") != nil {
			continue
		}
		m := map[string]any{"iface": id, "type": "vnet", "active": "1", "ipam": 0, "vlanaware": atoi(v["vlanaware"]), "comments": nil}
		if v["alias"] != "" {
			m["comments"] = v["alias"]
		}
		out = append(out, m)
	}
	return out
}

// vnetZone returns the zone of a virtual network, "" when there is none.
func (cl *cluster) vnetZone(name string) string {
	if cl.SDN == nil {
		return ""
	}
	if v := cl.SDN.Running.VNets[name]; v != nil {
		return v["zone"]
	}
	return cl.SDN.Edited.VNets[name]["zone"]
}

// vnetOn tells whether a virtual network is applied on a node.
func (cl *cluster) vnetOn(node, name string) bool {
	if cl.SDN == nil || cl.SDN.Running.VNets[name] == nil {
		return false
	}
	nodes := splitList(cl.SDN.Running.Zones[cl.SDN.Running.VNets[name]["zone"]]["nodes"])
	return len(nodes) == 0 || slices.Contains(nodes, node)
}

// subnetID is the name of a subnet: its zone, network and mask.
func subnetID(zone, cidr string) string {
	return zone + "-" + strings.Replace(cidr, "/", "-", 1)
}

// inSubnet tells whether an address belongs to a network.
func inSubnet(cidr, addr string) bool {
	p, err1 := netip.ParsePrefix(cidr)
	a, err2 := netip.ParseAddr(addr)
	return err1 == nil && err2 == nil && p.Contains(a)
}
