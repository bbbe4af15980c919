package pvetest

import (
	"slices"
	"strings"
)

// dropACL removes the entries that match.
func (cl *cluster) dropACL(match func(e *aclEntry) bool) {
	cl.ACL = slices.DeleteFunc(cl.ACL, match)
}

func groupList(c *call) (any, error) {
	out := []map[string]any{}
	for _, id := range sortedKeys(c.cl().Groups) {
		if c.checkAny("/access/groups/"+id, "User.Modify", "Sys.Audit", "Group.Allocate") != nil {
			continue
		}
		g := c.cl().Groups[id]
		m := map[string]any{"groupid": id, "users": strings.Join(sortedKeys(g.Users), ",")}
		if g.Comment != "" {
			m["comment"] = g.Comment
		}
		out = append(out, m)
	}
	return out, nil
}

func groupCreate(c *call) (any, error) {
	id := c.p.str("groupid")
	if c.cl().Groups[id] != nil {
		return nil, fail(500, "create group failed: group '%s' already exists", id)
	}
	c.cl().Groups[id] = &group{ID: id, Comment: c.p.str("comment"), Users: map[string]bool{}}
	return nil, nil
}

func (c *call) group(prefix string) (*group, error) {
	id := c.p.str("groupid")
	g := c.cl().Groups[id]
	if g == nil {
		return nil, fail(500, "%sgroup '%s' does not exist", prefix, id)
	}
	return g, nil
}

func groupGet(c *call) (any, error) {
	g, err := c.group("")
	if err != nil {
		return nil, err
	}
	m := map[string]any{"members": sortedKeys(g.Users)}
	if len(g.Users) == 0 {
		m["members"] = []string{}
	}
	if g.Comment != "" {
		m["comment"] = g.Comment
	}
	return m, nil
}

func groupUpdate(c *call) (any, error) {
	g, err := c.group("update group failed: ")
	if err != nil {
		return nil, err
	}
	if c.p.has("comment") {
		g.Comment = c.p.str("comment")
	}
	return nil, nil
}

func groupDelete(c *call) (any, error) {
	g, err := c.group("delete group failed: ")
	if err != nil {
		return nil, err
	}
	delete(c.cl().Groups, g.ID)
	c.cl().dropACL(func(e *aclEntry) bool { return e.Kind == "group" && e.Who == g.ID })
	return nil, nil
}

func roleList(c *call) (any, error) {
	out := []map[string]any{}
	ids := append(builtinRoles(), sortedKeys(c.cl().Roles)...)
	for _, id := range ids {
		privs, _ := c.cl().rolePrivs(id)
		m := map[string]any{"roleid": id, "privs": strings.Join(privs, ",")}
		if _, builtin := builtinRole(id); builtin {
			m["special"] = 1
		}
		out = append(out, m)
	}
	return out, nil
}

func roleCreate(c *call) (any, error) {
	id := c.p.str("roleid")
	if _, ok := c.cl().rolePrivs(id); ok {
		return nil, fail(500, "create role failed: role '%s' already exists", id)
	}
	if strings.HasPrefix(strings.ToUpper(id), "PVE") {
		return nil, failParam("roleid", "cannot use role ID starting with the (case-insensitive) 'PVE' namespace")
	}
	r := &role{ID: id, Privs: map[string]bool{}}
	for _, p := range c.p.list("privs") {
		r.Privs[p] = true
	}
	c.cl().Roles[id] = r
	return nil, nil
}

func (c *call) role(prefix string) (*role, error) {
	id := c.p.str("roleid")
	if _, builtin := builtinRole(id); builtin && prefix != "" {
		return nil, fail(500, "%sauto-generated role '%s' cannot be modified", prefix, id)
	}
	r := c.cl().Roles[id]
	if r == nil {
		return nil, fail(500, "%srole '%s' does not exist", prefix, id)
	}
	return r, nil
}

func roleGet(c *call) (any, error) {
	privs, ok := c.cl().rolePrivs(c.p.str("roleid"))
	if !ok {
		return nil, fail(500, "role '%s' does not exist", c.p.str("roleid"))
	}
	m := map[string]any{}
	for _, p := range privs {
		m[p] = 1
	}
	return m, nil
}

func roleUpdate(c *call) (any, error) {
	r, err := c.role("update role failed: ")
	if err != nil {
		return nil, err
	}
	if !c.p.boolean("append", false) {
		r.Privs = map[string]bool{}
	}
	for _, p := range c.p.list("privs") {
		r.Privs[p] = true
	}
	return nil, nil
}

func roleDelete(c *call) (any, error) {
	r, err := c.role("delete role failed: ")
	if err != nil {
		return nil, err
	}
	delete(c.cl().Roles, r.ID)
	c.cl().dropACL(func(e *aclEntry) bool { return e.Role == r.ID })
	return nil, nil
}

func aclList(c *call) (any, error) {
	out := []map[string]any{}
	audit := c.may("/access", "Sys.Audit")
	for _, e := range c.cl().ACL {
		if !audit && c.checkModify(e.Path) != nil {
			continue
		}
		out = append(out, map[string]any{"path": e.Path, "type": e.Kind, "ugid": e.Who, "roleid": e.Role, "propagate": bit(e.Propagate)})
	}
	return out, nil
}

// aclPathOK tells whether permissions can be set on a path.
func aclPathOK(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch parts[0] {
	case "":
		return path == "/"
	case "access", "nodes", "vms", "storage", "sdn", "mapping", "pool":
		return true
	}
	return false
}

func aclUpdate(c *call) (any, error) {
	path := normalPath(c.p.str("path"))
	if !strings.HasPrefix(path, "/") || !aclPathOK(path) {
		return nil, failParam("path", "invalid ACL path '%s'", c.p.str("path"))
	}
	users, groups, tokens := c.p.list("users"), c.p.list("groups"), c.p.list("tokens")
	if len(users)+len(groups)+len(tokens) == 0 {
		return nil, failParams(map[string]string{
			"users":  "either 'users', 'groups' or 'tokens' is required.",
			"groups": "either 'users', 'groups' or 'tokens' is required.",
			"tokens": "either 'users', 'groups' or 'tokens' is required.",
		})
	}
	var entries []*aclEntry
	propagate := c.p.boolean("propagate", true)
	for _, role := range c.p.list("roles") {
		privs, ok := c.cl().rolePrivs(role)
		if !ok {
			return nil, fail(500, "ACL update failed: role '%s' does not exist", role)
		}
		if !c.may(path, "Permissions.Modify") {
			// Who may only allocate here can hand on no more than what he has.
			for _, p := range privs {
				if !c.may(path, p) {
					return nil, fail(500, "ACL update failed: 403 Permission check failed (%s, %s)", path, p)
				}
			}
		}
		add := func(kind, who string, known bool, format string) error {
			if !known && !c.p.boolean("delete", false) {
				return fail(500, "ACL update failed: "+format, who)
			}
			entries = append(entries, &aclEntry{Path: path, Kind: kind, Who: who, Role: role, Propagate: propagate})
			return nil
		}
		for _, g := range groups {
			if err := add("group", g, c.cl().Groups[g] != nil, "group '%s' does not exist"); err != nil {
				return nil, err
			}
		}
		for _, u := range users {
			if err := add("user", u, c.cl().Users[u] != nil, "user '%s' does not exist"); err != nil {
				return nil, err
			}
		}
		for _, t := range tokens {
			name, id, _ := strings.Cut(t, "!")
			u := c.cl().Users[name]
			if err := add("token", t, u != nil && u.Tokens[id] != nil, "no such token '%s'"); err != nil {
				return nil, err
			}
		}
	}
	for _, e := range entries {
		c.cl().dropACL(func(old *aclEntry) bool {
			return old.Path == e.Path && old.Kind == e.Kind && old.Who == e.Who && old.Role == e.Role
		})
		if !c.p.boolean("delete", false) {
			c.cl().ACL = append(c.cl().ACL, e)
		}
	}
	return nil, nil
}

func domainList(*call) (any, error) {
	return []map[string]any{
		{"realm": "pam", "type": "pam", "comment": "Linux PAM standard authentication"},
		{"realm": "pve", "type": "pve", "comment": "Proxmox VE authentication server"},
	}, nil
}

func domainGet(c *call) (any, error) {
	all, _ := domainList(c)
	for _, d := range all.([]map[string]any) {
		if d["realm"] == c.p.str("realm") {
			delete(d, "realm")
			d["digest"] = sha1hex("domains")
			return d, nil
		}
	}
	return nil, fail(500, "domain '%s' does not exist", c.p.str("realm"))
}

func permissionList(c *call) (any, error) {
	who := c.auth
	if id := c.p.str("userid"); id != "" {
		name, token, _ := strings.Cut(id, "!")
		if name != c.auth.User {
			if err := c.check("/access", "Sys.Audit"); err != nil {
				return nil, err
			}
		}
		u := c.cl().Users[name]
		if u == nil {
			return nil, fail(500, "no such user ('%s')", name)
		}
		if token != "" && u.Tokens[token] == nil {
			return nil, fail(500, "no such token '%s' for user '%s'", token, name)
		}
		who = identity{User: name, Token: token}
	}
	p := newPermitter(c.cl(), who)
	paths := map[string]bool{}
	if only := c.p.str("path"); only != "" {
		paths[normalPath(only)] = true
	} else {
		for _, path := range []string{"/", "/access", "/access/groups", "/nodes", "/pool", "/sdn", "/storage", "/vms"} {
			paths[path] = true
		}
		for _, e := range c.cl().ACL {
			paths[e.Path] = true
		}
		for id, pool := range c.cl().Pools {
			if !strings.Contains(id, "/") { // nested pools are not listed
				paths["/pool/"+id] = true
			}
			for vmid := range pool.Guests {
				paths["/vms/"+itoa(vmid)] = true
			}
			for st := range pool.Storages {
				paths["/storage/"+st] = true
			}
		}
	}
	out := map[string]map[string]int{}
	for path := range paths {
		privs := p.privs(path)
		if len(privs) == 0 {
			continue
		}
		out[path] = map[string]int{}
		for priv, propagate := range privs {
			out[path][priv] = bit(propagate)
		}
	}
	return out, nil
}
