package pvetest

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

func registerNetwork(r *registry) {
	r.handle("GET /nodes/{node}/network", networkList)
	r.handle("POST /nodes/{node}/network", networkCreate)
	r.handle("PUT /nodes/{node}/network", networkReload)
	r.handle("DELETE /nodes/{node}/network", networkRevert)
	r.handle("GET /nodes/{node}/network/{iface}", networkGet)
	r.handle("PUT /nodes/{node}/network/{iface}", networkUpdate)
	r.handle("DELETE /nodes/{node}/network/{iface}", networkDelete)
}

// edited returns a node's interfaces as they will be after the next reload.
func (n *node) edited() map[string]*iface {
	if n.Edited != nil {
		return n.Edited
	}
	return n.Ifaces
}

// edit returns the interfaces for editing.
func (n *node) edit() map[string]*iface {
	if n.Edited == nil {
		n.Edited = map[string]*iface{}
		for name, i := range n.Ifaces {
			n.Edited[name] = i.clone()
		}
	}
	return n.Edited
}

// number orders the interfaces as the file is written: by type, then as they
// were, new ones last.
func (n *node) number() {
	rank := map[string]int{"eth": 1, "OVSPort": 1, "bond": 2, "OVSBond": 2, "bridge": 3, "OVSBridge": 3}
	all := slices.SortedFunc(maps.Values(n.Edited), func(a, b *iface) int {
		place := func(i *iface) [2]int {
			r, ok := rank[i.Type]
			if !ok {
				r = 4
			}
			if i.Order == 0 {
				return [2]int{r, 1 << 20}
			}
			return [2]int{r, i.Order}
		}
		x, y := place(a), place(b)
		return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1]), strings.Compare(a.Name, b.Name))
	})
	for i, in := range all {
		in.Order = i + firstOrder
	}
}

// firstOrder is the place of the first interface after the loopback.
const firstOrder = 3

func (i *iface) clone() *iface {
	out := &iface{Name: i.Name, Type: i.Type, Active: i.Active, Order: i.Order, Config: map[string]string{}}
	for k, v := range i.Config {
		out.Config[k] = v
	}
	return out
}

// row is an interface in lists.
func (i *iface) row() map[string]any {
	m := map[string]any{
		"type": i.Type, "method": "manual", "method6": "manual", "families": []string{"inet"}, "priority": max(i.Order, firstOrder),
	}
	for k, v := range i.Config {
		switch k {
		case "autostart", "bridge_vlan_aware", "ovs_tag":
			m[k] = atoi(v)
		case "manual":
		case "comments":
			m[k] = strings.TrimSuffix(v, "\n") + "\n"
		default:
			m[k] = v
		}
	}
	if addr := i.Config["address"]; addr != "" {
		if i.Config["manual"] == "" {
			m["method"] = "static"
		}
		if mask := i.Config["netmask"]; mask != "" {
			m["cidr"] = addr + "/" + mask
		}
	}
	if i.Config["address6"] != "" {
		m["method6"] = "static"
		m["families"] = []string{"inet", "inet6"}
	}
	if i.Active {
		m["active"] = 1
	}
	return m
}

// changes is the diff PVE shows while edits are not applied.
func (n *node) changes() string {
	if n.Edited == nil {
		return ""
	}
	var b strings.Builder
	b.WriteString("--- /etc/network/interfaces\n+++ /etc/network/interfaces.new\n")
	for _, name := range sortedKeys(n.Edited) {
		if n.Ifaces[name] == nil {
			b.WriteString("+iface " + name + "\n")
		}
	}
	for _, name := range sortedKeys(n.Ifaces) {
		if n.Edited[name] == nil {
			b.WriteString("-iface " + name + "\n")
		}
	}
	return b.String()
}

func networkList(c *call) (any, error) {
	n := c.cl().Nodes[c.node]
	typ := c.p.str("type")
	out := []map[string]any{}
	ifaces := n.edited()
	for _, name := range sortedKeys(ifaces) {
		in := ifaces[name]
		bridge := in.Type == "bridge" || in.Type == "OVSBridge"
		switch typ {
		case "", "include_sdn":
		case "any_bridge", "any_local_bridge":
			if !bridge {
				continue
			}
		default:
			if in.Type != typ {
				continue
			}
		}
		if typ == "any_bridge" && c.checkAny("/sdn/zones/localnetwork/"+name, "SDN.Audit", "SDN.Use", "SDN.Allocate") != nil &&
			c.check("/nodes/"+c.node, "Sys.Audit") != nil && c.check("/nodes/"+c.node, "Sys.Modify") != nil {
			continue
		}
		row := in.row()
		row["iface"] = name
		out = append(out, row)
	}
	switch typ {
	case "any_bridge", "include_sdn", "vnet":
		out = append(out, c.vnetIfaces()...)
	}
	return reply{Data: out, Changes: n.changes()}, nil
}

// iface finds an interface as edited.
func (c *call) iface() (*iface, error) {
	i := c.cl().Nodes[c.node].edited()[c.p.str("iface")]
	if i == nil {
		return nil, failParam("iface", "interface does not exist")
	}
	return i, nil
}

func networkGet(c *call) (any, error) {
	i, err := c.iface()
	if err != nil {
		return nil, err
	}
	return i.row(), nil
}

// setIface takes an interface's settings from a call.
func (c *call) setIface(i *iface) error {
	n := c.cl().Nodes[c.node]
	i.Type = c.p.str("type")
	for _, name := range c.p.names() {
		switch name {
		case "node", "iface", "type", "delete":
		case "cidr":
			p, err := netip.ParsePrefix(c.p.str(name))
			if err == nil {
				i.Config["address"], i.Config["netmask"] = p.Addr().String(), itoa(p.Bits())
			}
		default:
			i.Config[name] = c.p.str(name)
		}
	}
	if i.Type == "bridge" {
		for k, v := range map[string]string{"bridge_ports": "", "bridge_stp": "off", "bridge_fd": "0"} {
			if _, ok := i.Config[k]; !ok {
				i.Config[k] = v
			}
		}
		for _, port := range strings.Fields(i.Config["bridge_ports"]) {
			if n.edited()[port] == nil && !strings.HasPrefix(port, "eth") && !strings.HasPrefix(port, "en") || port == "eth77" {
				return fail(500, "bridge '%s' - unable to find bridge port '%s'", i.Name, port)
			}
		}
	}
	if i.Config["gateway"] != "" {
		for name, other := range n.edited() {
			if name != i.Name && other.Config["gateway"] != "" {
				return failParam("gateway", "Default gateway already exists on interface '%s'.", name)
			}
		}
	}
	return nil
}

func networkCreate(c *call) (any, error) {
	n := c.cl().Nodes[c.node]
	name := c.p.str("iface")
	if n.edited()[name] != nil {
		return nil, failParam("iface", "interface already exists")
	}
	i := &iface{Name: name, Config: map[string]string{}}
	if err := c.setIface(i); err != nil {
		return nil, err
	}
	n.edit()[name] = i
	n.number()
	return nil, nil
}

func networkUpdate(c *call) (any, error) {
	old, err := c.iface()
	if err != nil {
		return nil, err
	}
	i := old.clone()
	for _, k := range c.p.list("delete") {
		delete(i.Config, k)
		if k == "cidr" {
			delete(i.Config, "address")
			delete(i.Config, "netmask")
		}
	}
	// An update without an address keeps it and yet ends the static method.
	delete(i.Config, "manual")
	if !c.p.has("cidr") && !c.p.has("address") {
		i.Config["manual"] = "1"
	}
	if err := c.setIface(i); err != nil {
		return nil, err
	}
	n := c.cl().Nodes[c.node]
	n.edit()[i.Name] = i
	n.number()
	return nil, nil
}

func networkDelete(c *call) (any, error) {
	i, err := c.iface()
	if err != nil {
		return nil, err
	}
	n := c.cl().Nodes[c.node]
	delete(n.edit(), i.Name)
	n.number()
	return nil, nil
}

func networkRevert(c *call) (any, error) {
	c.cl().Nodes[c.node].Edited = nil
	return nil, nil
}

func networkReload(c *call) (any, error) {
	n := c.cl().Nodes[c.node]
	return c.task("srvreload", "networking", func(*task) error {
		if n.Edited != nil {
			n.Ifaces, n.Edited = n.Edited, nil
		}
		for _, i := range n.Ifaces {
			i.Active = true
		}
		return nil
	}), nil
}
