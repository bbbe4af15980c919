package pvetest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

func vnetList(c *call) (any, error) {
	n := c.net()
	rows := c.sdnRows("vnet", n.Edited.VNets, n.Running.VNets, "type")
	return slices.DeleteFunc(rows, func(m map[string]any) bool {
		id, _ := m["vnet"].(string)
		return c.checkAny("/sdn/zones/"+c.cl().vnetZone(id)+"/"+id, "SDN.Audit", "SDN.Use", "SDN.Allocate") != nil
	}), nil
}

// vnet finds the virtual network a call names and wants a right on it.
func (c *call) vnet(privs ...string) (section, error) {
	id := c.p.str("vnet")
	v := c.net().Edited.VNets[id]
	if v == nil {
		return nil, fail(500, "sdn vnet '%s' does not exist", id)
	}
	return v, c.checkAny("/sdn/zones/"+v["zone"]+"/"+id, privs...)
}

// checkVNet finds what is wrong with a virtual network.
func (c *call) checkVNet(what, id string, v section) error {
	n := c.net()
	zone := n.Edited.Zones[v["zone"]]
	if zone == nil {
		return fail(500, "%s: cannot lookup undefined type! at /usr/share/perl5/PVE/API2/Network/SDN/Vnets.pm line 326.", what)
	}
	bad := ""
	tag := v["tag"]
	switch typ := zone["type"]; {
	case typ == "simple" && tag != "":
		bad = "vlan tag is not allowed on simple zone"
	case (typ == "vlan" || typ == "qinq") && tag == "":
		bad = "missing vlan tag"
	case (typ == "vxlan" || typ == "evpn") && tag == "":
		bad = "missing vxlan tag"
	case (typ == "vlan" || typ == "qinq") && atoi(tag) > 4096:
		bad = "vlan tag max value is 4096"
	}
	for _, other := range sortedKeys(n.Edited.VNets) {
		o := n.Edited.VNets[other]
		if bad == "" && tag != "" && other != id && o["zone"] == v["zone"] && o["tag"] == tag {
			bad = "tag " + tag + " already exist in vnet " + other
		}
	}
	if bad != "" {
		return fail(500, "%s: 400 Parameter verification failed.\ntag: %s", what, bad)
	}
	return nil
}

func vnetCreate(c *call) (any, error) {
	const what = "create sdn vnet object failed"
	if err := c.sdnMayWrite(what); err != nil {
		return nil, err
	}
	n, id := c.net(), c.p.str("vnet")
	if n.Edited.VNets[id] != nil {
		return nil, fail(500, "%s: sdn vnet object ID '%s' already defined", what, id)
	}
	v := section{"type": "vnet"}
	if err := c.sdnSet(v, "vnet", what); err != nil {
		return nil, err
	}
	if err := c.checkVNet(what, id, v); err != nil {
		return nil, err
	}
	n.Edited.VNets[id] = v
	return nil, nil
}

func vnetGet(c *call) (any, error) {
	if _, err := c.vnet("SDN.Audit", "SDN.Allocate"); err != nil {
		return nil, err
	}
	return sdnOne("vnet", c.p.str("vnet"), c.net().Edited.VNets), nil
}

func vnetUpdate(c *call) (any, error) {
	const what = "update sdn vnet object failed"
	old, err := c.vnet("SDN.Allocate")
	if err != nil {
		return nil, err
	}
	if err := c.sdnMayWrite(what); err != nil {
		return nil, err
	}
	n, id := c.net(), c.p.str("vnet")
	if err := c.sdnCheckDigest(what, n.Edited.VNets); err != nil {
		return nil, err
	}
	v := maps.Clone(old)
	if err := c.sdnSet(v, "vnet", what); err != nil {
		return nil, err
	}
	if v["zone"] != old["zone"] && len(n.subnetsOf(id)) > 0 {
		return nil, fail(500, "%s: 400 Parameter verification failed.\nzone: can't change zone if subnets exist", what)
	}
	if err := c.checkVNet(what, id, v); err != nil {
		return nil, err
	}
	n.Edited.VNets[id] = v
	return nil, nil
}

func vnetDelete(c *call) (any, error) {
	const what = "delete sdn vnet object failed"
	if _, err := c.vnet("SDN.Allocate"); err != nil {
		return nil, err
	}
	if err := c.sdnMayWrite(what); err != nil {
		return nil, err
	}
	n, id := c.net(), c.p.str("vnet")
	if len(n.subnetsOf(id)) > 0 {
		return nil, fail(500, "%s: 400 Parameter verification failed.\nvnet: Can't delete vnet if subnets exists", what)
	}
	delete(n.Edited.VNets, id)
	return nil, nil
}

// subnetsOf lists the subnets of a virtual network.
func (n *sdn) subnetsOf(vnet string) []string {
	var out []string
	for _, id := range sortedKeys(n.Edited.Subnets) {
		if n.Edited.Subnets[id]["vnet"] == vnet {
			out = append(out, id)
		}
	}
	return out
}

// subnetRow completes what is said of a subnet.
func subnetRow(m map[string]any, s section) map[string]any {
	network, mask, _ := strings.Cut(s["cidr"], "/")
	m["id"], m["network"], m["mask"] = m["subnet"], network, mask
	ranges := []map[string]string{}
	for r := range strings.SplitSeq(s["dhcp-range"], ";") {
		if r != "" {
			ranges = append(ranges, optionMap(r))
		}
	}
	m["dhcp-range"] = ranges
	return m
}

func subnetList(c *call) (any, error) {
	if _, err := c.vnet("SDN.Audit", "SDN.Allocate"); err != nil {
		return nil, err
	}
	n := c.net()
	out := []map[string]any{}
	for _, m := range c.sdnRows("subnet", n.Edited.Subnets, n.Running.Subnets, "type", "vnet", "zone", "cidr") {
		id, _ := m["subnet"].(string)
		s := n.Edited.Subnets[id]
		if s == nil {
			s = n.Running.Subnets[id]
		}
		if s["vnet"] == c.p.str("vnet") {
			out = append(out, subnetRow(m, s))
		}
	}
	return out, nil
}

func subnetCreate(c *call) (any, error) {
	const what = "create sdn subnet object failed"
	v, err := c.vnet("SDN.Allocate")
	if err != nil {
		return nil, err
	}
	if err := c.sdnMayWrite(what); err != nil {
		return nil, err
	}
	cidr := c.p.str("subnet")
	id := subnetID(v["zone"], cidr)
	n := c.net()
	if n.Edited.Subnets[id] != nil {
		return nil, fail(500, "%s: sdn subnet object ID '%s' already defined", what, id)
	}
	s := section{"vnet": c.p.str("vnet"), "zone": v["zone"], "cidr": cidr}
	if err := c.subnetSet(s, what); err != nil {
		return nil, err
	}
	n.Edited.Subnets[id] = s
	return nil, nil
}

// subnetSet takes a subnet's settings from a call.
func (c *call) subnetSet(s section, what string) error {
	if err := c.sdnSet(s, "subnet", what); err != nil {
		return err
	}
	if r := c.p.array("dhcp-range"); len(r) > 0 {
		s["dhcp-range"] = strings.Join(r, ";")
	}
	if g := s["gateway"]; g != "" && !inSubnet(s["cidr"], g) {
		return fail(500, "%s: 400 Parameter verification failed.\ngateway: %s is not in subnet %s", what, g, s["cidr"])
	}
	return nil
}

func subnetGet(c *call) (any, error) {
	if _, err := c.vnet("SDN.Audit", "SDN.Allocate"); err != nil {
		return nil, err
	}
	id := c.p.str("subnet")
	all := c.net().Edited.Subnets
	if all[id] == nil {
		return nil, fail(500, "sdn subnet '%s' does not exist", id)
	}
	return subnetRow(sdnOne("subnet", id, all), all[id]), nil
}

func subnetUpdate(c *call) (any, error) {
	const what = "update sdn subnet object failed"
	if _, err := c.vnet("SDN.Allocate"); err != nil {
		return nil, err
	}
	if err := c.sdnMayWrite(what); err != nil {
		return nil, err
	}
	all, id := c.net().Edited.Subnets, c.p.str("subnet")
	if all[id] == nil {
		return nil, fail(500, "%s: sdn subnet '%s' does not exist", what, id)
	}
	data, _ := json.Marshal(all)
	if d := c.p.str("digest"); d != "" && d != sha1hex(string(data)) {
		return nil, fail(500, "%s: detected modified configuration - file changed by other user? Try again.", what)
	}
	s := maps.Clone(all[id])
	if err := c.subnetSet(s, what); err != nil {
		return nil, err
	}
	all[id] = s
	return nil, nil
}

func subnetDelete(c *call) (any, error) {
	const what = "delete sdn subnet object failed"
	if _, err := c.vnet("SDN.Allocate"); err != nil {
		return nil, err
	}
	if err := c.sdnMayWrite(what); err != nil {
		return nil, err
	}
	delete(c.net().Edited.Subnets, c.p.str("subnet"))
	return nil, nil
}
