package pvetest

import (
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// A firewall is the configuration of one level: the cluster, a node, a guest
// or a security group.
type firewall struct {
	Options section            `json:"options,omitempty"`
	Rules   []section          `json:"rules,omitempty"`
	Aliases map[string]section `json:"aliases,omitempty"` // by lower-case name
	IPSets  map[string]*ipset  `json:"ipsets,omitempty"`
	Comment string             `json:"comment,omitempty"` // of a group
}

// An ipset is a named set of networks.
type ipset struct {
	Comment string    `json:"comment,omitempty"`
	Entries []section `json:"entries,omitempty"`
}

func registerFirewall(r *registry) {
	for _, level := range []string{"/cluster", "/nodes/{node}", "/nodes/{node}/qemu/{vmid}"} {
		base := level + "/firewall"
		r.handle("GET "+base+"/options", fwOptionsGet)
		r.handle("PUT "+base+"/options", fwOptionsPut)
		fwRules(r, base+"/rules")
		if level == "/nodes/{node}" {
			r.handle("GET "+base, index("name", "log", "options", "rules"))
			continue
		}
		r.handle("GET "+base+"/aliases", fwAliasList)
		r.handle("POST "+base+"/aliases", fwAliasCreate)
		r.handle("GET "+base+"/aliases/{name}", fwAliasGet)
		r.handle("PUT "+base+"/aliases/{name}", fwAliasUpdate)
		r.handle("DELETE "+base+"/aliases/{name}", fwAliasDelete)
		r.handle("GET "+base+"/ipset", fwSetList)
		r.handle("POST "+base+"/ipset", fwSetCreate)
		r.handle("GET "+base+"/ipset/{name}", fwSetGet)
		r.handle("POST "+base+"/ipset/{name}", fwSetAdd)
		r.handle("DELETE "+base+"/ipset/{name}", fwSetDelete)
		r.handle("GET "+base+"/ipset/{name}/{cidr}", fwEntryGet)
		r.handle("PUT "+base+"/ipset/{name}/{cidr}", fwEntryUpdate)
		r.handle("DELETE "+base+"/ipset/{name}/{cidr}", fwEntryDelete)
		r.handle("GET "+base+"/refs", fwRefs)
	}
	r.handle("GET /cluster/firewall", index("name", "aliases", "groups", "ipset", "macros", "options", "refs", "rules"))
	r.handle("GET /nodes/{node}/qemu/{vmid}/firewall", index("name", "aliases", "ipset", "log", "options", "refs", "rules"))
	r.handle("GET /cluster/firewall/groups", fwGroupList)
	r.handle("POST /cluster/firewall/groups", fwGroupCreate)
	r.handle("DELETE /cluster/firewall/groups/{group}", fwGroupDelete)
	fwRules(r, "/cluster/firewall/groups/{group}")
	r.handle("GET /cluster/firewall/macros", func(*call) (any, error) {
		out := []map[string]string{}
		for _, m := range fwMacros() {
			out = append(out, map[string]string{"macro": m, "descr": m + " traffic"})
		}
		return out, nil
	})
}

func fwRules(r *registry, base string) {
	r.handle("GET "+base, fwRuleList)
	r.handle("POST "+base, fwRuleCreate)
	r.handle("GET "+base+"/{pos}", fwRuleGet)
	r.handle("PUT "+base+"/{pos}", fwRuleUpdate)
	r.handle("DELETE "+base+"/{pos}", fwRuleDelete)
}

// fwKey is the level a call is about.
func (c *call) fwKey() string {
	switch {
	case c.vars["group"] != "":
		return "group/" + c.vars["group"]
	case c.vars["vmid"] != "":
		return "vm/" + c.vars["vmid"]
	case c.vars["node"] != "":
		return "node/" + c.vars["node"]
	}
	return "cluster"
}

// fw returns the configuration of a call's level, an empty one when there is
// none. There need not be a guest of that number.
func (c *call) fw() *firewall {
	f := c.cl().Firewalls[c.fwKey()]
	if f == nil {
		f = &firewall{}
	}
	if f.Options == nil {
		f.Options = section{}
	}
	ensure(&f.Aliases)
	ensure(&f.IPSets)
	return f
}

// keep stores a level's configuration.
func (c *call) keep(f *firewall) { c.cl().Firewalls[c.fwKey()] = f }

// fwDigest is the digest of a level's file.
func (c *call) fwDigest() string {
	f := c.cl().Firewalls[c.fwKey()]
	if f == nil {
		return sha1hex("")
	}
	data, err := json.Marshal(f)
	if err != nil {
		return ""
	}
	return sha1hex(string(data))
}

// fwCheckDigest refuses a change of what has been changed since it was read.
func (c *call) fwCheckDigest() error {
	if d := c.p.str("digest"); d != "" && d != c.fwDigest() {
		return fail(500, "detected modified configuration - file changed by other user? Try again.")
	}
	return nil
}

// copyFirewall gives a clone its original's firewall.
func (cl *cluster) copyFirewall(from, to int) {
	f := cl.Firewalls["vm/"+itoa(from)]
	if f == nil {
		return
	}
	data, err := json.Marshal(f)
	out := &firewall{}
	if err == nil && json.Unmarshal(data, out) == nil {
		cl.Firewalls["vm/"+itoa(to)] = out
	}
}

// fwTyped gives a value the type it has in answers.
func fwTyped(key, val string) any {
	switch key {
	case "enable", "dhcp", "ndp", "radv", "macfilter", "ipfilter", "ebtables", "nomatch", "nosmurfs", "tcpflags", "nftables",
		"log_nf_conntrack", "nf_conntrack_allow_invalid", "nf_conntrack_max", "nf_conntrack_tcp_timeout_established":
		return atoi(val)
	}
	return val
}

func fwRow(s section) map[string]any {
	m := map[string]any{}
	for k, v := range s {
		m[k] = fwTyped(k, v)
	}
	return m
}

func fwOptionsGet(c *call) (any, error) {
	m := fwRow(c.fw().Options)
	m["digest"] = c.fwDigest()
	return m, nil
}

func fwOptionsPut(c *call) (any, error) {
	if err := c.fwCheckDigest(); err != nil {
		return nil, err
	}
	for _, k := range c.p.list("delete") {
		if c.op.Parameters.Properties[k] == nil {
			return nil, failParam("delete", "no such option '%s'", k)
		}
	}
	f := c.fw()
	for _, k := range c.p.names() {
		switch k {
		case "node", "vmid", "delete", "digest":
		default:
			f.Options[k] = c.p.str(k)
		}
	}
	for _, k := range c.p.list("delete") {
		delete(f.Options, k)
	}
	c.keep(f)
	return nil, nil
}

// fwRuleRow is a rule as lists show it.
func (c *call) fwRuleRow(rule section, pos int, digest string) map[string]any {
	m := fwRow(rule)
	if _, ok := m["enable"]; !ok {
		m["enable"] = 0
	}
	m["pos"], m["digest"] = pos, digest
	problems := map[string]string{}
	for _, k := range []string{"source", "dest"} {
		text := rule[k]
		if text == "" || strings.HasPrefix(text, "+") {
			if msg := c.fwAddressProblem(text); msg != "" {
				problems[k] = msg
			}
			continue
		}
		addr, _, _ := strings.Cut(text, "/")
		if a := c.fwAlias(text); a != nil {
			addr, _, _ = strings.Cut(a["cidr"], "/")
		} else if msg := c.fwAddressProblem(text); msg != "" {
			problems[k] = msg
		}
		if ip, err := netip.ParseAddr(addr); err == nil {
			m["ipversion"] = 4
			if ip.Is6() {
				m["ipversion"] = 6
			}
		}
	}
	if len(problems) > 0 {
		m["errors"] = problems
	}
	return m
}

// fwAlias finds an alias at the call's level or the cluster's.
func (c *call) fwAlias(name string) section {
	key := strings.ToLower(strings.TrimPrefix(strings.TrimPrefix(name, "guest/"), "dc/"))
	if !strings.HasPrefix(name, "dc/") {
		if a := c.fw().Aliases[key]; a != nil {
			return a
		}
	}
	if f := c.cl().Firewalls["cluster"]; f != nil && !strings.HasPrefix(name, "guest/") {
		return f.Aliases[key]
	}
	return nil
}

// fwAddressProblem finds what is wrong with the addresses of a rule.
func (c *call) fwAddressProblem(text string) string {
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		switch {
		case part == "" || isAddr(part) || isCIDR(part, "CIDR"):
		case strings.HasPrefix(part, "+"):
			name := strings.TrimPrefix(strings.TrimPrefix(part[1:], "guest/"), "dc/")
			if strings.HasPrefix(part, "+sdn/") {
				continue
			}
			cluster := c.cl().Firewalls["cluster"]
			here := !strings.HasPrefix(part, "+dc/") && c.fw().IPSets[name] != nil
			there := !strings.HasPrefix(part, "+guest/") && cluster != nil && cluster.IPSets[name] != nil
			if !here && !there {
				return "no such ipset '" + name + "'"
			}
		case strings.Contains(part, "-") && isAddr(part[:strings.IndexByte(part, '-')]):
		case c.fwAlias(part) == nil:
			return "no such alias '" + part + "'"
		}
	}
	return ""
}

func fwRuleList(c *call) (any, error) {
	if err := c.fwGroupThere(); err != nil {
		return nil, err
	}
	digest := c.fwDigest()
	out := []map[string]any{}
	for i, rule := range c.fw().Rules {
		out = append(out, c.fwRuleRow(rule, i, digest))
	}
	return out, nil
}

// fwGroupThere fails for a security group that does not exist.
func (c *call) fwGroupThere() error {
	if g := c.vars["group"]; g != "" && c.cl().Firewalls["group/"+g] == nil {
		return fail(500, "no such security group '%s'", g)
	}
	return nil
}

// fwCheckRule finds what is wrong with a rule.
func (c *call) fwCheckRule(rule section) error {
	errs := map[string]string{}
	if rule["type"] != "group" {
		switch rule["action"] {
		case "ACCEPT", "DROP", "REJECT":
		default:
			errs["action"] = "unknown action '" + rule["action"] + "'"
		}
	}
	if m := rule["macro"]; m != "" && !slices.Contains(fwMacros(), m) {
		errs["macro"] = "unknown macro '" + m + "'"
	}
	if i := rule["iface"]; i != "" && c.vars["vmid"] != "" && !matchOnce(`net\d+`, i) {
		errs["iface"] = "value does not match the regex pattern 'net\\d+'"
	}
	for _, k := range []string{"source", "dest"} {
		if msg := c.fwAddressProblem(rule[k]); msg != "" {
			errs[k] = msg
		}
	}
	for _, k := range []string{"dport", "sport"} {
		if rule[k] != "" && rule["proto"] == "" {
			errs["proto"] = "missing property - required by '" + k + "'"
		}
	}
	if len(errs) > 0 {
		return failParams(errs)
	}
	return nil
}

// fwSetRule takes a rule's settings from a call.
func (c *call) fwSetRule(rule section) {
	for _, k := range c.p.names() {
		switch k {
		case "node", "vmid", "group", "pos", "moveto", "digest", "delete":
		default:
			rule[k] = c.p.str(k)
		}
	}
	for _, k := range c.p.list("delete") {
		delete(rule, k)
	}
}

func fwRuleCreate(c *call) (any, error) {
	if err := c.fwGroupThere(); err != nil {
		return nil, err
	}
	if err := c.fwCheckDigest(); err != nil {
		return nil, err
	}
	rule := section{"enable": "0"}
	c.fwSetRule(rule)
	if err := c.fwCheckRule(rule); err != nil {
		return nil, err
	}
	f := c.fw()
	pos := min(int(c.p.intOr("pos", 0)), len(f.Rules))
	f.Rules = slices.Insert(f.Rules, pos, rule)
	c.keep(f)
	return nil, nil
}

// fwRuleAt finds the rule a call names.
func (c *call) fwRuleAt() (*firewall, int, error) {
	if err := c.fwGroupThere(); err != nil {
		return nil, 0, err
	}
	f := c.fw()
	pos := int(c.p.int("pos"))
	if pos >= len(f.Rules) {
		return nil, 0, fail(500, "no rule at position %d", pos)
	}
	return f, pos, nil
}

func fwRuleGet(c *call) (any, error) {
	f, pos, err := c.fwRuleAt()
	if err != nil {
		return nil, err
	}
	m := c.fwRuleRow(f.Rules[pos], pos, c.fwDigest())
	m["pos"] = strconv.Itoa(pos)
	return m, nil
}

func fwRuleUpdate(c *call) (any, error) {
	if err := c.fwCheckDigest(); err != nil {
		return nil, err
	}
	f, pos, err := c.fwRuleAt()
	if err != nil {
		return nil, err
	}
	rule := maps.Clone(f.Rules[pos])
	if !c.p.has("moveto") {
		c.fwSetRule(rule)
		if err := c.fwCheckRule(rule); err != nil {
			return nil, err
		}
		f.Rules[pos] = rule
		c.keep(f)
		return nil, nil
	}
	to := min(int(c.p.int("moveto")), len(f.Rules))
	f.Rules = slices.Insert(f.Rules, to, rule)
	if pos >= to {
		pos++
	}
	f.Rules = slices.Delete(f.Rules, pos, pos+1)
	c.keep(f)
	return nil, nil
}

func fwRuleDelete(c *call) (any, error) {
	if err := c.fwCheckDigest(); err != nil {
		return nil, err
	}
	f, pos, err := c.fwRuleAt()
	if err != nil {
		return nil, err
	}
	f.Rules = slices.Delete(f.Rules, pos, pos+1)
	c.keep(f)
	return nil, nil
}

// fwMacros lists the names of prepared rules.
func fwMacros() []string {
	return strings.Fields(`Amanda Auth BGP BitTorrent BitTorrent32 CVS Ceph Citrix DAAP DCC DHCPfwd DHCPv6 DNS Distcc FTP Finger GNUnet GRE Git
HKP HTTP HTTPS HTTP/3 ICPV2 ICQ IMAP IMAPS IPIP IPsec IPsecah IPsecnat IRC Jetdirect L2TP LDAP LDAPS MDNS MSNP MSSQL Mail MongoDB Munin MySQL
NNTP NNTPS NTP NeighborDiscovery OSPF OpenVPN PBS PCA PMG POP3 POP3S PPtP Ping PostgreSQL Printer RDP RIP RNDC Razor Rdate Rsync SANE SIP SMB SMBswat
SMTP SMTPS SNMP SPAMD SPICEproxy SSH SVN SixXS Squid Submission Syslog TFTP Telnet Telnets Time Trcrt VNC VNCL VXLAN Web Webcache Webmin Whois`)
}
