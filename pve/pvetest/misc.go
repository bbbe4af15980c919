package pvetest

import "encoding/json"

// registerMisc registers the small configuration files of which provisioning
// tools read or write an entry.
func registerMisc(r *registry) {
	r.handle("GET /cluster/backup", sectionList("backup-jobs", "id"))
	r.handle("POST /cluster/backup", backupCreate)
	r.handle("GET /cluster/mapping", index("name", "dir", "pci", "usb"))
	for _, kind := range []string{"pci", "usb", "dir"} {
		r.handle("GET /cluster/mapping/"+kind, sectionList("mapping-"+kind, "id"))
		r.handle("POST /cluster/mapping/"+kind, sectionCreate("mapping-"+kind, "id"))
		r.handle("GET /cluster/mapping/"+kind+"/{id}", sectionGet("mapping-"+kind, "id"))
		r.handle("DELETE /cluster/mapping/"+kind+"/{id}", sectionDelete("mapping-"+kind, "id"))
	}
	r.handle("GET /cluster/metrics/server", sectionList("metric-servers", "id"))
	r.handle("GET /cluster/replication", emptyList)
	r.handle("POST /nodes/{node}/qemu/{vmid}/termproxy", consoleProxy)
	r.handle("GET /cluster/qemu/custom-cpu-models", sectionList("cpu-models", "cputype"))
	r.handle("POST /cluster/qemu/custom-cpu-models", sectionCreate("cpu-models", "cputype"))
	r.handle("GET /cluster/qemu/custom-cpu-models/{cputype}", sectionGet("cpu-models", "cputype"))
	r.handle("DELETE /cluster/qemu/custom-cpu-models/{cputype}", sectionDelete("cpu-models", "cputype"))
}

// sections returns the entries of a kind of configuration.
func (cl *cluster) sections(kind string) map[string]section {
	if cl.Sections[kind] == nil {
		cl.Sections[kind] = map[string]section{}
	}
	return cl.Sections[kind]
}

// sectionDigest is the digest of a configuration file.
func (cl *cluster) sectionDigest(kind string) string {
	data, _ := json.Marshal(cl.Sections[kind])
	return sha1hex(string(data))
}

// typedSection turns an entry's texts into the types its parameters have.
func (c *call) typedSection(s section) map[string]any {
	m := map[string]any{}
	for k, v := range s {
		m[k] = v
		if sub := c.op.Parameters; sub != nil && sub.Properties[k] != nil {
			switch sub.Properties[k].Type {
			case "boolean", "integer":
				m[k] = atoi(v)
			}
		}
	}
	return m
}

func sectionList(kind, key string) handler {
	return func(c *call) (any, error) {
		out := []map[string]any{}
		for _, id := range sortedKeys(c.cl().sections(kind)) {
			m := c.typedSection(c.cl().sections(kind)[id])
			m[key] = id
			out = append(out, m)
		}
		return out, nil
	}
}

func sectionGet(kind, key string) handler {
	return func(c *call) (any, error) {
		id := c.p.str(key)
		s := c.cl().sections(kind)[id]
		if s == nil {
			return nil, fail(500, "no such entry '%s'", id)
		}
		m := c.typedSection(s)
		m[key], m["digest"] = id, c.cl().sectionDigest(kind)
		return m, nil
	}
}

func sectionCreate(kind, key string) handler {
	return func(c *call) (any, error) {
		id := c.p.str(key)
		if c.cl().sections(kind)[id] != nil {
			return nil, fail(500, "'%s' is already defined", id)
		}
		s := section{}
		for _, k := range c.p.names() {
			if k != key && k != "digest" {
				s[k] = c.p.str(k)
			}
		}
		c.cl().sections(kind)[id] = s
		return nil, nil
	}
}

func sectionDelete(kind, key string) handler {
	return func(c *call) (any, error) {
		delete(c.cl().sections(kind), c.p.str(key))
		return nil, nil
	}
}

func backupCreate(c *call) (any, error) {
	s := section{"type": "vzdump"}
	for _, k := range c.p.names() {
		if k != "id" {
			s[k] = c.p.str(k)
		}
	}
	id := c.p.str("id")
	if id == "" {
		id = "backup-" + c.s.uuid()
	}
	c.cl().sections("backup-jobs")[id] = s
	return nil, nil
}

// consoleProxy answers the calls that open a terminal, which have no terminal
// behind them here.
func consoleProxy(c *call) (any, error) {
	if _, err := c.theGuest(); err != nil {
		return nil, err
	}
	return nil, fail(500, "Timeout while waiting for port '5902' to get ready!")
}
