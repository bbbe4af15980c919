package pvetest

import (
	"net/netip"
	"slices"
	"strings"
)

// fwCIDR brings a network into the form in which it is stored: host bits are
// cleared, and a single address has no mask.
func fwCIDR(text string) string {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return text
	}
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.Masked().String()
}

func ipVersion(cidr string) int {
	if strings.Contains(cidr, ":") {
		return 6
	}
	return 4
}

func fwAliasList(c *call) (any, error) {
	out := []map[string]any{}
	f := c.fw()
	for _, key := range sortedKeys(f.Aliases) {
		m := fwRow(f.Aliases[key])
		m["digest"], m["ipversion"] = c.fwDigest(), ipVersion(f.Aliases[key]["cidr"])
		out = append(out, m)
	}
	return out, nil
}

func fwAliasCreate(c *call) (any, error) {
	f := c.fw()
	name := c.p.str("name")
	if f.Aliases[strings.ToLower(name)] != nil {
		return nil, failParam("name", "alias '%s' already exists", name)
	}
	a := section{"name": name, "cidr": fwCIDR(c.p.str("cidr"))}
	if c.p.has("comment") {
		a["comment"] = c.p.str("comment")
	}
	f.Aliases[strings.ToLower(name)] = a
	c.keep(f)
	return nil, nil
}

func (c *call) fwAliasNamed() (*firewall, string, error) {
	f := c.fw()
	key := strings.ToLower(c.p.str("name"))
	if f.Aliases[key] == nil {
		return nil, "", failParam("name", "no such alias")
	}
	return f, key, nil
}

func fwAliasGet(c *call) (any, error) {
	f, key, err := c.fwAliasNamed()
	if err != nil {
		return nil, err
	}
	m := fwRow(f.Aliases[key])
	m["ipversion"] = ipVersion(f.Aliases[key]["cidr"])
	return m, nil
}

func fwAliasUpdate(c *call) (any, error) {
	if err := c.fwCheckDigest(); err != nil {
		return nil, err
	}
	f, key, err := c.fwAliasNamed()
	if err != nil {
		return nil, err
	}
	a := f.Aliases[key]
	a["cidr"] = fwCIDR(c.p.str("cidr"))
	if c.p.has("comment") {
		a["comment"] = c.p.str("comment")
	}
	if to := c.p.str("rename"); to != "" {
		if f.Aliases[strings.ToLower(to)] != nil && strings.ToLower(to) != key {
			return nil, failParam("name", "alias '%s' already exists", to)
		}
		delete(f.Aliases, key)
		a["name"] = to
		f.Aliases[strings.ToLower(to)] = a
	}
	c.keep(f)
	return nil, nil
}

func fwAliasDelete(c *call) (any, error) {
	if err := c.fwCheckDigest(); err != nil {
		return nil, err
	}
	f := c.fw()
	delete(f.Aliases, strings.ToLower(c.p.str("name")))
	c.keep(f)
	return nil, nil
}

func fwSetList(c *call) (any, error) {
	out := []map[string]any{}
	f := c.fw()
	for _, name := range sortedKeys(f.IPSets) {
		m := map[string]any{"name": name, "digest": c.fwDigest()}
		if f.IPSets[name].Comment != "" {
			m["comment"] = f.IPSets[name].Comment
		}
		out = append(out, m)
	}
	return out, nil
}

func fwSetCreate(c *call) (any, error) {
	f := c.fw()
	name, from := c.p.str("name"), c.p.str("rename")
	if from == "" {
		if f.IPSets[name] != nil {
			return nil, failParam("name", "IPSet '%s' already exists", name)
		}
		f.IPSets[name] = &ipset{Comment: c.p.str("comment")}
		c.keep(f)
		return nil, nil
	}
	old := f.IPSets[from]
	switch {
	case old == nil:
		return nil, failParam("name", "IPSet '%s' does not exist", from)
	case from != name && f.IPSets[name] != nil:
		return nil, failParam("name", "IPSet '%s' already exists", name)
	}
	delete(f.IPSets, from)
	if c.p.has("comment") {
		old.Comment = c.p.str("comment")
	}
	f.IPSets[name] = old
	c.keep(f)
	return nil, nil
}

// fwSet finds the set a call names.
func (c *call) fwSet() (*firewall, *ipset, error) {
	f := c.fw()
	set := f.IPSets[c.p.str("name")]
	if set == nil {
		return nil, nil, fail(500, "no such IPSet '%s'", c.p.str("name"))
	}
	return f, set, nil
}

func fwSetGet(c *call) (any, error) {
	_, set, err := c.fwSet()
	if err != nil {
		return nil, err
	}
	out := []map[string]any{}
	for _, e := range set.Entries {
		m := fwRow(e)
		m["digest"] = c.fwDigest()
		out = append(out, m)
	}
	return out, nil
}

func fwSetAdd(c *call) (any, error) {
	f, set, err := c.fwSet()
	if err != nil {
		return nil, err
	}
	cidr := fwCIDR(c.p.str("cidr"))
	if set.find(cidr) >= 0 {
		return nil, failParam("cidr", "address '%s' already exists", cidr)
	}
	e := section{"cidr": cidr}
	for _, k := range []string{"nomatch", "comment"} {
		if c.p.has(k) {
			e[k] = c.p.str(k)
		}
	}
	set.Entries = append(set.Entries, e)
	c.keep(f)
	return nil, nil
}

func (s *ipset) find(cidr string) int {
	return slices.IndexFunc(s.Entries, func(e section) bool { return e["cidr"] == cidr })
}

func fwSetDelete(c *call) (any, error) {
	f, set, err := c.fwSet()
	if err != nil {
		return nil, err
	}
	if len(set.Entries) > 0 && !c.p.boolean("force", false) {
		return nil, fail(500, "IPSet '%s' is not empty", c.p.str("name"))
	}
	delete(f.IPSets, c.p.str("name"))
	c.keep(f)
	return nil, nil
}

func fwEntryGet(c *call) (any, error) {
	_, set, err := c.fwSet()
	if err != nil {
		return nil, err
	}
	i := set.find(fwCIDR(c.p.str("cidr")))
	if i < 0 {
		return nil, failParam("cidr", "no such IP/Network")
	}
	m := fwRow(set.Entries[i])
	m["digest"] = c.fwDigest()
	return m, nil
}

func fwEntryUpdate(c *call) (any, error) {
	f, set, err := c.fwSet()
	if err != nil {
		return nil, err
	}
	i := set.find(fwCIDR(c.p.str("cidr")))
	if i < 0 {
		return nil, failParam("cidr", "no such IP/Network")
	}
	for _, k := range []string{"nomatch", "comment"} {
		if c.p.has(k) {
			set.Entries[i][k] = c.p.str(k)
		}
	}
	c.keep(f)
	return nil, nil
}

func fwEntryDelete(c *call) (any, error) {
	f, set, err := c.fwSet()
	if err != nil {
		return nil, err
	}
	if i := set.find(fwCIDR(c.p.str("cidr"))); i >= 0 {
		set.Entries = slices.Delete(set.Entries, i, i+1)
		c.keep(f)
	}
	return nil, nil
}

func fwRefs(c *call) (any, error) {
	out := []map[string]any{}
	add := func(scope string, f *firewall) {
		if f == nil {
			return
		}
		prefix := map[string]string{"dc": "dc/", "guest": "guest/"}[scope]
		if t := c.p.str("type"); t == "" || t == "alias" {
			for _, k := range sortedKeys(f.Aliases) {
				name := f.Aliases[k]["name"]
				out = append(out, map[string]any{"type": "alias", "name": name, "ref": prefix + name, "scope": scope, "comment": f.Aliases[k]["comment"]})
			}
		}
		if t := c.p.str("type"); t == "" || t == "ipset" {
			for _, name := range sortedKeys(f.IPSets) {
				out = append(out, map[string]any{"type": "ipset", "name": name, "ref": "+" + prefix + name, "scope": scope, "comment": f.IPSets[name].Comment})
			}
		}
	}
	if c.vars["vmid"] != "" {
		add("guest", c.fw())
	}
	add("dc", c.cl().Firewalls["cluster"])
	return out, nil
}

func fwGroupList(c *call) (any, error) {
	out := []map[string]any{}
	for _, key := range sortedKeys(c.cl().Firewalls) {
		name, ok := strings.CutPrefix(key, "group/")
		if !ok {
			continue
		}
		m := map[string]any{"group": name, "digest": sha1hex(sortedKeys(c.cl().Firewalls)...)}
		if f := c.cl().Firewalls[key]; f.Comment != "" {
			m["comment"] = f.Comment
		}
		out = append(out, m)
	}
	return out, nil
}

func fwGroupCreate(c *call) (any, error) {
	name, from := strings.ToLower(c.p.str("group")), strings.ToLower(c.p.str("rename"))
	there := c.cl().Firewalls["group/"+name] != nil
	if from == "" {
		if there {
			return nil, failParam("group", "Security group '%s' already exists", name)
		}
		c.cl().Firewalls["group/"+name] = &firewall{Comment: c.p.str("comment")}
		return nil, nil
	}
	old := c.cl().Firewalls["group/"+from]
	switch {
	case old == nil:
		return nil, failParam("group", "Security group '%s' does not exist", from)
	case from != name && there:
		return nil, failParam("group", "Security group '%s' already exists", name)
	}
	delete(c.cl().Firewalls, "group/"+from)
	if c.p.has("comment") {
		old.Comment = c.p.str("comment")
	}
	c.cl().Firewalls["group/"+name] = old
	return nil, nil
}

func fwGroupDelete(c *call) (any, error) {
	name := c.p.str("group")
	f := c.cl().Firewalls["group/"+name]
	if f != nil && len(f.Rules) > 0 {
		return nil, fail(500, "Security group '%s' is not empty", name)
	}
	delete(c.cl().Firewalls, "group/"+name)
	return nil, nil
}
