package pvetest

import (
	"encoding/json"
	"slices"
	"strings"
)

func registerHA(r *registry) {
	r.handle("GET /cluster/ha", index("id", "status", "resources", "groups", "rules"))
	r.handle("GET /cluster/ha/resources", haList)
	r.handle("POST /cluster/ha/resources", haCreate)
	r.handle("GET /cluster/ha/resources/{sid}", haGet)
	r.handle("PUT /cluster/ha/resources/{sid}", haUpdate)
	r.handle("DELETE /cluster/ha/resources/{sid}", haDelete)
	r.handle("GET /cluster/ha/groups", func(*call) (any, error) {
		return nil, fail(500, "cannot index groups: ha groups have been migrated to rules")
	})
	r.handle("POST /cluster/ha/groups", func(*call) (any, error) {
		return nil, fail(500, "cannot create group: ha groups have been migrated to rules")
	})
	r.handle("GET /cluster/ha/status/current", haStatus)
	r.handle("POST /cluster/ha/resources/{sid}/migrate", haMove)
	r.handle("POST /cluster/ha/resources/{sid}/relocate", haMove)
	r.handle("GET /cluster/ha/rules", haRuleList)
	r.handle("POST /cluster/ha/rules", haRuleCreate)
	r.handle("GET /cluster/ha/rules/{rule}", haRuleGet)
	r.handle("PUT /cluster/ha/rules/{rule}", haRuleUpdate)
	r.handle("DELETE /cluster/ha/rules/{rule}", haRuleDelete)
}

// sid brings the name of a resource into its full form.
func sid(s string) string {
	if !strings.Contains(s, ":") {
		return "vm:" + s
	}
	return s
}

func (cl *cluster) haDigest() string {
	data, _ := json.Marshal(cl.HA)
	if len(cl.HA) == 0 {
		data = nil
	}
	return sha1hex(string(data))
}

func (cl *cluster) haRow(r *haResource) map[string]any {
	m := map[string]any{"sid": r.SID, "type": "vm", "state": r.State, "digest": cl.haDigest()}
	for k, v := range r.Config {
		m[k] = v
		if k != "comment" {
			m[k] = atoi(v)
		}
	}
	return m
}

func haList(c *call) (any, error) {
	out := []map[string]any{}
	if t := c.p.str("type"); t != "" && t != "vm" {
		return out, nil
	}
	for _, id := range sortedKeys(c.cl().HA) {
		out = append(out, c.cl().haRow(c.cl().HA[id]))
	}
	return out, nil
}

// haState is the state a resource gets when one is asked for.
func haState(s string) string {
	switch s {
	case "":
		return "started"
	case "enabled":
		return "started"
	}
	return s
}

func (c *call) haSet(r *haResource) error {
	if c.p.has("group") {
		return fail(500, "invalid parameter 'group': ha groups have been migrated to rules")
	}
	if c.p.has("state") {
		r.State = haState(c.p.str("state"))
	}
	for _, k := range []string{"max_restart", "max_relocate", "failback", "comment", "auto-rebalance"} {
		if c.p.has(k) {
			r.Config[k] = c.p.str(k)
		}
	}
	for _, k := range c.p.list("delete") {
		delete(r.Config, k)
	}
	return nil
}

func haCreate(c *call) (any, error) {
	given := c.p.str("sid")
	kind, id, full := strings.Cut(given, ":")
	if !full {
		kind, id = "vm", given
	}
	switch {
	case kind != "vm" && kind != "ct":
		return nil, fail(500, "unknown section type '%s'", kind)
	case c.cl().Guests[atoi(id)] == nil && !full:
		return nil, fail(500, "unable to detect SID from VMID - VM/CT %s does not exist", id)
	case c.cl().Guests[atoi(id)] == nil:
		return nil, fail(500, "resource '%s' does not exist in cluster", given)
	case kind == "ct":
		return nil, fail(500, "resource '%s' - guest with ID %s is not a container", given, id)
	case c.p.has("group"):
		return nil, fail(500, "invalid parameter 'group': ha groups have been migrated to rules")
	}
	s := sid(given)
	if c.cl().HA[s] != nil {
		return nil, fail(500, "create resource failed: resource ID '%s' already defined", s)
	}
	r := &haResource{SID: s, State: "started", Config: section{}}
	if err := c.haSet(r); err != nil {
		return nil, err
	}
	c.cl().HA[s] = r
	return nil, nil
}

func haGet(c *call) (any, error) {
	s := sid(c.p.str("sid"))
	r := c.cl().HA[s]
	if r == nil {
		return nil, fail(500, "no such resource '%s'", s)
	}
	return c.cl().haRow(r), nil
}

func haUpdate(c *call) (any, error) {
	s := sid(c.p.str("sid"))
	r := c.cl().HA[s]
	if c.p.has("group") {
		return nil, fail(500, "invalid parameter 'group': ha groups have been migrated to rules")
	}
	if d := c.p.str("digest"); d != "" && d != c.cl().haDigest() {
		return nil, fail(500, "update resources config failed: detected modified configuration - file changed by other user? Try again.")
	}
	if r == nil {
		return nil, fail(500, "update resources config failed: no such resource '%s'", s)
	}
	return nil, c.haSet(r)
}

func haDelete(c *call) (any, error) {
	s := sid(c.p.str("sid"))
	if c.cl().HA[s] == nil {
		return nil, fail(500, "cannot delete service '%s', not HA managed!", s)
	}
	c.cl().dropHA(s)
	return nil, nil
}

// dropHA takes a resource out of high availability and out of its rules.
func (cl *cluster) dropHA(s string) {
	delete(cl.HA, s)
	for id, rule := range cl.Sections["ha-rules"] {
		left := slices.DeleteFunc(splitList(rule["resources"]), func(r string) bool { return r == s })
		rule["resources"] = strings.Join(left, ",")
		if len(left) == 0 {
			delete(cl.Sections["ha-rules"], id)
		}
	}
}

func haMove(c *call) (any, error) {
	s := sid(c.p.str("sid"))
	if c.cl().HA[s] == nil {
		return nil, fail(500, "resource '%s' is not HA managed", s)
	}
	return map[string]any{"sid": s, "requested-node": c.p.str("node")}, nil
}

func haStatus(c *call) (any, error) {
	out := []map[string]any{
		{"id": "quorum", "type": "quorum", "node": c.node, "status": "OK", "quorate": 1},
		{"id": "fencing", "type": "fencing", "node": c.node, "status": "standby (CRM watchdog standby)", "armed-state": "standby"},
	}
	if c.cl().NoQuorum {
		out[0]["status"], out[0]["quorate"] = "No quorum on node '"+c.node+"'!", 0
	}
	for _, id := range sortedKeys(c.cl().HA) {
		r := c.cl().HA[id]
		g := c.cl().Guests[atoi(strings.TrimPrefix(id, "vm:"))]
		if g == nil {
			continue
		}
		state := r.State
		if state == "started" && !g.Running || state == "stopped" {
			state = "queued"
		}
		row := map[string]any{
			"id": "service:" + id, "type": "service", "sid": id, "state": state, "request_state": r.State, "node": g.Node,
			"status": id + " (" + g.Node + ", " + state + ")", "max_restart": 1, "max_relocate": 1, "failback": 1,
		}
		for k, v := range r.Config {
			row[k] = v
			if k != "comment" {
				row[k] = atoi(v)
			}
		}
		out = append(out, row)
	}
	return out, nil
}

func (cl *cluster) rules() map[string]section {
	if cl.Sections["ha-rules"] == nil {
		cl.Sections["ha-rules"] = map[string]section{}
	}
	return cl.Sections["ha-rules"]
}

func (cl *cluster) ruleRow(id string, order int) map[string]any {
	rule := cl.rules()[id]
	data, _ := json.Marshal(cl.rules())
	m := map[string]any{"rule": id, "digest": sha1hex(string(data)), "order": order}
	for k, v := range rule {
		switch k {
		case "strict", "disable":
			m[k] = atoi(v)
		default:
			m[k] = v
		}
	}
	if rule["type"] == "resource-affinity" && len(splitList(rule["resources"])) < 2 {
		m["errors"] = map[string]any{"resources": []string{"rule is ineffective as there are less than two resources"}}
	}
	return m
}

func haRuleList(c *call) (any, error) {
	out := []map[string]any{}
	for i, id := range sortedKeys(c.cl().rules()) {
		rule := c.cl().rules()[id]
		if t := c.p.str("type"); t != "" && rule["type"] != t {
			continue
		}
		if r := c.p.str("resource"); r != "" && !slices.Contains(splitList(rule["resources"]), sid(r)) {
			continue
		}
		out = append(out, c.cl().ruleRow(id, i+1))
	}
	return out, nil
}

func haRuleGet(c *call) (any, error) {
	id := c.p.str("rule")
	if c.cl().rules()[id] == nil {
		return nil, fail(500, "no such ha rule '%s'", id)
	}
	return c.cl().ruleRow(id, slices.Index(sortedKeys(c.cl().rules()), id)+1), nil
}

// checkRule finds what makes a rule impossible.
func (c *call) checkRule(prefix, id string, rule section) error {
	var unmanaged, unknown []string
	resources := splitList(rule["resources"])
	for _, r := range resources {
		if c.cl().HA[r] == nil {
			unmanaged = append(unmanaged, r)
		}
	}
	for _, n := range splitList(rule["nodes"]) {
		name, _, _ := strings.Cut(n, ":")
		if c.cl().Nodes[name] == nil {
			unknown = append(unknown, name)
		}
	}
	if len(unmanaged) > 0 {
		return fail(500, "%scannot use unmanaged resource(s) %s.", prefix, strings.Join(unmanaged, ", "))
	}
	if len(unknown) > 0 {
		return fail(500, "%scannot use non-existent node(s) %s.", prefix, strings.Join(unknown, ", "))
	}
	var bad []string
	if rule["type"] == "node-affinity" {
		for other, o := range c.cl().rules() {
			if other == id || o["type"] != "node-affinity" {
				continue
			}
			for _, r := range resources {
				if slices.Contains(splitList(o["resources"]), r) {
					bad = append(bad, "resource '"+r+"' is already used in another node affinity rule")
				}
			}
		}
		if c.splitsTogether(id, resources) {
			bad = append(bad, "at least one resource is in a positive resource affinity rule and there are other resources in at least one other node affinity rule already")
		}
	} else {
		if len(resources) < 2 {
			bad = append(bad, "rule is ineffective as there are less than two resources")
		}
		if rule["affinity"] == "negative" && len(resources) > len(c.cl().Nodes) || rule["affinity"] == "negative" && len(c.cl().Nodes) < 2 {
			bad = append(bad, "rule defines more resources than available nodes")
		}
	}
	if len(bad) > 0 {
		return fail(500, "%s400 Rule '%s' is invalid.\nresources: %s", prefix, id, strings.Join(bad, ", "))
	}
	return nil
}

// splitsTogether tells whether resources that are to be kept together would
// have different rules about their nodes.
func (c *call) splitsTogether(id string, resources []string) bool {
	for _, together := range c.cl().rules() {
		if together["affinity"] != "positive" {
			continue
		}
		all := splitList(together["resources"])
		if !slices.ContainsFunc(resources, func(r string) bool { return slices.Contains(all, r) }) {
			continue
		}
		for other, o := range c.cl().rules() {
			if other == id || o["type"] != "node-affinity" {
				continue
			}
			for _, r := range splitList(o["resources"]) {
				if slices.Contains(all, r) && !slices.Contains(resources, r) {
					return true
				}
			}
		}
	}
	return false
}

// setRule takes a rule's settings from a call.
func (c *call) setRule(rule section) {
	for _, k := range c.p.names() {
		switch k {
		case "rule", "digest", "delete":
		case "resources":
			var all []string
			for _, r := range c.p.list(k) {
				all = append(all, sid(r))
			}
			rule[k] = strings.Join(all, ",")
		default:
			rule[k] = c.p.str(k)
		}
	}
	for _, k := range c.p.list("delete") {
		delete(rule, k)
	}
}

func haRuleCreate(c *call) (any, error) {
	id := c.p.str("rule")
	if c.cl().rules()[id] != nil {
		return nil, fail(500, "create ha rule failed: HA rule '%s' already defined", id)
	}
	rule := section{}
	c.setRule(rule)
	if err := c.checkRule("create ha rule failed: ", id, rule); err != nil {
		return nil, err
	}
	c.cl().rules()[id] = rule
	return nil, nil
}

func haRuleUpdate(c *call) (any, error) {
	id := c.p.str("rule")
	old := c.cl().rules()[id]
	if old == nil {
		return nil, fail(500, "update HA rules failed: HA rule '%s' does not exist", id)
	}
	if old["type"] != c.p.str("type") {
		for _, k := range []string{"affinity", "nodes", "strict"} {
			if c.p.has(k) {
				return nil, fail(500, "update HA rules failed: unexpected property '%s'", k)
			}
		}
	}
	rule := section{}
	for k, v := range old {
		rule[k] = v
	}
	c.setRule(rule)
	if err := c.checkRule("update HA rules failed: ", id, rule); err != nil {
		return nil, err
	}
	c.cl().rules()[id] = rule
	return nil, nil
}

func haRuleDelete(c *call) (any, error) {
	delete(c.cl().rules(), c.p.str("rule"))
	return nil, nil
}
