package pvetest

import (
	"slices"
	"strings"
)

func registerCluster(r *registry) {
	r.handle("GET /cluster", index("name", "acme", "backup", "backup-info", "bulk-action", "ceph", "config", "firewall", "ha", "jobs", "log",
		"mapping", "metrics", "notifications", "nextid", "options", "qemu", "replication", "resources", "status", "tasks", "sdn"))
	r.handle("GET /cluster/nextid", nextID)
	r.handle("GET /cluster/options", optionsGet)
	r.handle("PUT /cluster/options", optionsPut)
	r.handle("GET /cluster/status", clusterStatus)
	r.handle("GET /cluster/resources", clusterResources)
	r.handle("GET /cluster/tasks", clusterTasks)
	r.handle("GET /cluster/log", clusterLog)
	r.handle("GET /cluster/config", index("name", "nodes", "totem", "join", "qdevice", "apiversion"))
	r.handle("GET /cluster/config/nodes", clusterConfigNodes)
	r.handle("GET /cluster/jobs", subdirIndex("schedule-analyze", "realm-sync"))
	r.handle("GET /version", version)
}

func version(*call) (any, error) {
	return map[string]string{"version": "9.2.11", "release": "9.2", "repoid": "14a22df3lab00"}, nil
}

func nextID(c *call) (any, error) {
	if c.p.has("vmid") {
		vmid := int(c.p.int("vmid"))
		if c.cl().Guests[vmid] != nil {
			return nil, failParam("vmid", "VM %d already exists", vmid)
		}
		return itoa(vmid), nil
	}
	lower, upper := 100, 1000000
	for _, part := range splitList(c.cl().Options["next-id"]) {
		k, v, _ := strings.Cut(part, "=")
		switch k {
		case "lower":
			lower = atoi(v)
		case "upper":
			upper = atoi(v)
		}
	}
	// The upper bound is exclusive in effect, although it is printed as if it
	// belonged to the range.
	for id := lower; id < upper; id++ {
		if c.cl().Guests[id] == nil {
			return itoa(id), nil
		}
	}
	return nil, fail(500, "unable to get any free VMID in range [%d, %d]", lower, upper)
}

// optionProps lists the options of the data centre that are property strings.
func optionIsProps(name string) bool {
	switch name {
	case "next-id", "crs", "ha", "migration", "bwlimit", "u2f", "webauthn", "tag-style", "user-tag-access", "notify", "consent-text", "replication":
		return name != "consent-text"
	}
	return false
}

func optionsGet(c *call) (any, error) {
	if c.checkAny("/", "Sys.Audit", "Sys.Modify") != nil {
		return map[string]any{"allowed-tags": c.allowedTags()}, nil
	}
	out := map[string]any{"mac_prefix": "BC:24:11", "description": ""}
	for k, v := range c.cl().Options {
		switch {
		case k == "registered-tags":
			out[k] = splitList(v)
		case optionIsProps(k):
			m := map[string]any{}
			for part := range strings.SplitSeq(v, ",") {
				key, val, _ := strings.Cut(part, "=")
				m[key] = val
				if key == "case-sensitive" {
					m[key] = atoi(val)
				}
			}
			out[k] = m
		default:
			out[k] = v
		}
	}
	out["allowed-tags"] = c.allowedTags()
	return out, nil
}

// allowedTags are the tags the caller may set.
func (c *call) allowedTags() []string {
	access := optionMap(c.cl().Options["user-tag-access"])
	out := map[string]bool{}
	mode := access["user-allow"]
	if mode == "" {
		mode = "free"
	}
	if c.may("/", "Sys.Modify") || mode == "free" || mode == "existing" {
		for _, g := range c.cl().Guests {
			if c.may("/vms/"+itoa(g.VMID), "VM.Audit") {
				for _, t := range splitList(g.Config["tags"]) {
					out[t] = true
				}
			}
		}
	}
	if c.may("/", "Sys.Modify") {
		for _, t := range splitList(c.cl().Options["registered-tags"]) {
			out[t] = true
		}
	}
	for _, t := range splitList(access["user-allow-list"]) {
		out[t] = true
	}
	if len(out) == 0 {
		return []string{}
	}
	return sortedKeys(out)
}

// optionMap splits a property string of datacenter.cfg.
func optionMap(text string) map[string]string {
	m := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		if k, v, ok := strings.Cut(part, "="); ok {
			m[k] = v
		}
	}
	return m
}

func optionsPut(c *call) (any, error) {
	if v := c.p.str("next-id"); v != "" {
		m := optionMap(v)
		if lower, upper := atoi(m["lower"]), atoi(m["upper"]); m["upper"] != "" && lower > upper {
			return nil, fail(500, "lower (%d) <= upper (%d) boundary rule broken", lower, upper)
		}
	}
	for _, name := range c.p.names() {
		if name != "delete" {
			c.cl().Options[name] = c.p.str(name)
		}
	}
	for _, name := range c.p.list("delete") {
		delete(c.cl().Options, name)
	}
	return nil, nil
}

func clusterStatus(c *call) (any, error) {
	out := []map[string]any{}
	cl := c.cl()
	if cl.Name != "" {
		out = append(out, map[string]any{
			"type": "cluster", "id": "cluster", "name": cl.Name, "version": len(cl.Nodes), "nodes": len(cl.Nodes), "quorate": bit(!cl.NoQuorum),
		})
	}
	for _, name := range sortedKeys(cl.Nodes) {
		n := cl.Nodes[name]
		row := map[string]any{
			"type": "node", "id": "node/" + name, "name": name, "ip": n.IP, "nodeid": n.ID, "level": "", "local": bit(name == c.node), "online": bit(!n.Offline),
		}
		if cl.Name == "" {
			row["nodeid"] = 0
		}
		out = append(out, row)
	}
	return out, nil
}

func clusterConfigNodes(c *call) (any, error) {
	out := []map[string]any{}
	if c.cl().Name == "" {
		return out, nil
	}
	for _, name := range sortedKeys(c.cl().Nodes) {
		n := c.cl().Nodes[name]
		out = append(out, map[string]any{"name": name, "node": name, "nodeid": itoa(n.ID), "ring0_addr": n.IP, "quorum_votes": "1"})
	}
	return out, nil
}

// staleRows are the guests' figures as they were last broadcast.
type staleRows struct{ rows map[int]map[string]any }

// StaleResources makes /cluster/resources show the status, names and figures
// of guests as they are now, until it is switched off or called again; guests
// made later have the status unknown and no name. Tags, locks and nodes stay
// fresh, because they do not come from the nodes' broadcasts.
func (s *Server) StaleResources(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stale = nil
	if !on {
		return
	}
	c := &call{s: s, perm: newPermitter(s.state, identity{User: "root@pam"}), now: s.clock()}
	rows := map[int]map[string]any{}
	for vmid, g := range s.state.Guests {
		rows[vmid] = c.resourceGuest(g)
	}
	s.stale = &staleRows{rows}
}

// resourceGuest is a guest's row in /cluster/resources.
func (c *call) resourceGuest(g *guest) map[string]any {
	row := map[string]any{"status": "unknown"}
	node := c.cl().Nodes[g.Node]
	switch {
	case c.s.stale != nil:
		for k, v := range c.s.stale.rows[g.VMID] {
			row[k] = v
		}
		delete(row, "lock")
		delete(row, "tags")
	case node == nil || !node.Offline:
		row = c.guestStats(g)
		row["template"] = bit(g.template())
	}
	row["id"], row["type"], row["node"], row["vmid"] = "qemu/"+itoa(g.VMID), "qemu", g.Node, g.VMID
	if g.Container {
		row["id"], row["type"] = "lxc/"+itoa(g.VMID), "lxc"
	}
	if tags := g.Config["tags"]; tags != "" {
		row["tags"] = tags
	}
	if l := g.lock(); l != "" {
		row["lock"] = l
	}
	if r := c.cl().HA["vm:"+itoa(g.VMID)]; r != nil {
		row["hastate"] = r.State
	}
	return row
}

// resourceStorage is a storage's row in /cluster/resources, nil when the
// storage is not meant for the node.
func (c *call) resourceStorage(st *storage, node string) map[string]any {
	if !st.enabled() || !st.onNode(node) {
		return nil
	}
	row := map[string]any{
		"id": "storage/" + node + "/" + st.ID, "type": "storage", "node": node, "storage": st.ID, "shared": bit(st.shared()),
		"content": c.shuffle(st.Config["content"]), "plugintype": st.Type, "status": "available",
	}
	n := c.cl().Nodes[node]
	if n != nil && n.Offline || !st.online(node) {
		row["status"] = "unknown"
		return row
	}
	total, used, _ := c.cl().usage(st, node)
	row["maxdisk"], row["disk"] = total, used
	return row
}

// shuffle brings a list into some order, as PVE's lists have none.
func (c *call) shuffle(list string) string {
	words := splitList(list)
	c.s.rng.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
	return strings.Join(words, ",")
}

func clusterResources(c *call) (any, error) {
	cl := c.cl()
	typ := c.p.str("type")
	want := func(t string) bool { return typ == "" || typ == t }
	out := []map[string]any{}
	if want("pool") && typ == "" {
		for _, id := range sortedKeys(cl.Pools) {
			if c.checkAny("/pool/"+id, "Pool.Audit") == nil {
				out = append(out, map[string]any{"id": "/pool/" + id, "type": "pool", "pool": id})
			}
		}
	}
	if want("vm") {
		pools := map[int]string{}
		for id, p := range cl.Pools {
			for vmid := range p.Guests {
				pools[vmid] = id
			}
		}
		for _, vmid := range sortedKeys(cl.Guests) {
			if !c.may("/vms/"+itoa(vmid), "VM.Audit") {
				continue
			}
			row := c.resourceGuest(cl.Guests[vmid])
			if p := pools[vmid]; p != "" {
				row["pool"] = p
			}
			out = append(out, row)
		}
	}
	if want("node") {
		for _, name := range sortedKeys(cl.Nodes) {
			out = append(out, c.resourceNode(cl.Nodes[name]))
		}
	}
	if want("storage") {
		for _, id := range sortedKeys(cl.Storages) {
			if !c.seesStorage(id) {
				continue
			}
			for _, name := range sortedKeys(cl.Nodes) {
				if row := c.resourceStorage(cl.Storages[id], name); row != nil {
					out = append(out, row)
				}
			}
		}
	}
	if typ == "" {
		for _, name := range sortedKeys(cl.Nodes) {
			if c.checkAny("/sdn/zones/localnetwork", "SDN.Audit", "SDN.Use", "SDN.Allocate") == nil && !cl.Nodes[name].Offline {
				out = append(out, map[string]any{
					"id": "network/" + name + "/zone/localnetwork", "type": "network", "network": "localnetwork",
					"network-type": "zone", "node": name, "status": "ok",
				})
			}
		}
	}
	return out, nil
}

// resourceNode is a node's row in /cluster/resources.
func (c *call) resourceNode(n *node) map[string]any {
	row := map[string]any{"id": "node/" + n.Name, "type": "node", "node": n.Name, "level": "", "cgroup-mode": 2, "status": "online"}
	if n.Offline {
		row["status"] = "offline"
		delete(row, "cgroup-mode")
		return row
	}
	if !c.may("/nodes/"+n.Name, "Sys.Audit") {
		return row
	}
	for k, v := range c.nodeFigures(n) {
		row[k] = v
	}
	return row
}

// nodeFigures are a node's load and sizes.
func (c *call) nodeFigures(n *node) map[string]any {
	mem, cpu := c.nodeLoad(n)
	return map[string]any{
		"cpu": cpu, "maxcpu": n.CPUs, "mem": mem, "maxmem": n.Memory, "disk": n.Disk / 10, "maxdisk": n.Disk,
		"uptime": int64(c.now.Sub(c.s.booted).Seconds()),
	}
}

// nodeLoad returns the memory in use on a node, which is that of its running
// guests and a gigabyte, and the part of its processors in use.
func (c *call) nodeLoad(n *node) (mem int64, cpu float64) {
	mem = 1 << 30
	cores := 0
	for _, g := range c.cl().Guests {
		if g.Node == n.Name && g.Running {
			m, cpus := g.sizing()
			mem += m
			cores += cpus
		}
	}
	return min(mem, n.Memory), min(float64(cores)/20/float64(max(n.CPUs, 1)), 1)
}

func clusterTasks(c *call) (any, error) {
	out := []map[string]any{}
	all := c.cl().Tasks
	for i := len(all) - 1; i >= 0 && len(out) < 25; i-- {
		t := all[i]
		if !c.seesTask(t) {
			continue
		}
		row := t.row()
		row["saved"] = itoa(bit(!t.running()))
		if t.running() {
			delete(row, "status")
		}
		out = append(out, row)
	}
	return out, nil
}

func clusterLog(c *call) (any, error) {
	out := []map[string]any{}
	all := c.cl().Tasks
	limit := int(c.p.intOr("max", 50))
	for i := len(all) - 1; i >= 0 && len(out) < limit; i-- {
		t := all[i]
		if !c.seesTask(t) {
			continue
		}
		out = append(out, map[string]any{
			"uid": itoa(i + 1), "id": itoa(i+1) + ":" + t.Node, "node": t.Node, "pid": t.PID, "user": t.User, "tag": "pvedaemon",
			"time": t.Start, "pri": 6, "msg": "starting task " + t.UPID,
		})
	}
	slices.Reverse(out)
	return out, nil
}
