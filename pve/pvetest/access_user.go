package pvetest

import (
	"strconv"
	"strings"
)

func registerAccess(r *registry) {
	r.handle("GET /access", subdirIndex("users", "groups", "roles", "acl", "domains", "openid", "tfa", "ticket", "password"))
	r.handle("GET /access/users", userList)
	r.handle("POST /access/users", userCreate)
	r.handle("GET /access/users/{userid}", userGet)
	r.handle("PUT /access/users/{userid}", userUpdate)
	r.handle("DELETE /access/users/{userid}", userDelete)
	r.handle("GET /access/users/{userid}/token", tokenList)
	r.handle("GET /access/users/{userid}/token/{tokenid}", tokenGet)
	r.handle("POST /access/users/{userid}/token/{tokenid}", tokenCreate)
	r.handle("PUT /access/users/{userid}/token/{tokenid}", tokenUpdate)
	r.handle("DELETE /access/users/{userid}/token/{tokenid}", tokenDelete)
	r.handle("GET /access/groups", groupList)
	r.handle("POST /access/groups", groupCreate)
	r.handle("GET /access/groups/{groupid}", groupGet)
	r.handle("PUT /access/groups/{groupid}", groupUpdate)
	r.handle("DELETE /access/groups/{groupid}", groupDelete)
	r.handle("GET /access/roles", roleList)
	r.handle("POST /access/roles", roleCreate)
	r.handle("GET /access/roles/{roleid}", roleGet)
	r.handle("PUT /access/roles/{roleid}", roleUpdate)
	r.handle("DELETE /access/roles/{roleid}", roleDelete)
	r.handle("GET /access/acl", aclList)
	r.handle("PUT /access/acl", aclUpdate)
	r.handle("GET /access/domains", domainList)
	r.handle("GET /access/domains/{realm}", domainGet)
	r.handle("GET /access/ticket", func(*call) (any, error) { return nil, nil })
	r.handle("POST /access/ticket", ticketCreate)
	r.handle("PUT /access/password", passwordChange)
	r.handle("GET /access/permissions", permissionList)
	r.handle("GET /access/tfa", tfaList)
}

// subdirIndex answers an index whose entries are called subdir.
func subdirIndex(names ...string) handler { return index("subdir", names...) }

// index answers an index: one object a name.
func index(key string, names ...string) handler {
	return func(*call) (any, error) {
		out := make([]map[string]string, len(names))
		for i, n := range names {
			out[i] = map[string]string{key: n}
		}
		return out, nil
	}
}

// row returns what lists and single answers say of a user.
func (u *user) row() map[string]any {
	m := map[string]any{"enable": bit(!u.Disabled), "expire": u.Expire}
	for k, v := range map[string]*string{"comment": u.Comment, "email": u.Email, "firstname": u.Firstname, "lastname": u.Lastname, "keys": u.Keys} {
		if v != nil {
			m[k] = *v
		}
	}
	return m
}

func (cl *cluster) groupsOf(userid string) []string {
	out := []string{}
	for _, id := range sortedKeys(cl.Groups) {
		if cl.Groups[id].Users[userid] {
			out = append(out, id)
		}
	}
	return out
}

func realmOf(userid string) string { return userid[strings.LastIndexByte(userid, '@')+1:] }

// seesUser tells whether the caller may see a user in lists.
func (c *call) seesUser(id string) bool {
	if id == c.auth.User {
		return true
	}
	privs := []string{"User.Modify", "Sys.Audit"}
	if c.checkAny("/access/groups", privs...) == nil {
		return true
	}
	for _, g := range c.cl().groupsOf(id) {
		if c.checkAny("/access/groups/"+g, privs...) == nil {
			return true
		}
	}
	return false
}

func userList(c *call) (any, error) {
	out := []map[string]any{}
	for _, id := range sortedKeys(c.cl().Users) {
		u := c.cl().Users[id]
		if !c.seesUser(id) || c.p.has("enabled") && c.p.boolean("enabled", true) == u.Disabled {
			continue
		}
		m := u.row()
		m["userid"], m["realm-type"] = id, realmType(realmOf(id))
		if c.p.boolean("full", false) {
			m["groups"] = strings.Join(c.cl().groupsOf(id), ",")
			tokens := []map[string]any{}
			for _, t := range sortedKeys(u.Tokens) {
				row := u.Tokens[t].row()
				row["tokenid"] = t
				tokens = append(tokens, row)
			}
			if len(tokens) > 0 {
				m["tokens"] = tokens
			}
		}
		out = append(out, m)
	}
	return out, nil
}

func realmType(realm string) string {
	if realm == "pam" {
		return "pam"
	}
	return "pve"
}

// optional returns a pointer to a parameter's text, nil when it is absent.
func (p params) optional(name string) *string {
	if !p.has(name) {
		return nil
	}
	return new(p.str(name))
}

func userCreate(c *call) (any, error) {
	id := c.p.str("userid")
	if c.cl().Users[id] != nil {
		return nil, fail(500, "create user failed: user '%s' already exists", id)
	}
	switch realmOf(id) {
	case "pam", "pve":
	default:
		return nil, fail(500, "create user failed: domain '%s' does not exist", realmOf(id))
	}
	for _, g := range c.p.list("groups") {
		if c.cl().Groups[g] == nil {
			return nil, fail(500, "create user failed: no such group '%s'", g)
		}
	}
	u := &user{ID: id, Tokens: map[string]*apiToken{}, Email: new("")}
	u.update(c.p)
	u.Password = c.p.str("password")
	c.cl().Users[id] = u
	for _, g := range c.p.list("groups") {
		c.cl().Groups[g].Users[id] = true
	}
	return nil, nil
}

func (u *user) update(p params) {
	if p.has("enable") {
		u.Disabled = !p.boolean("enable", true)
	}
	if p.has("expire") {
		u.Expire = p.int("expire")
	}
	for name, to := range map[string]**string{"comment": &u.Comment, "email": &u.Email, "firstname": &u.Firstname, "lastname": &u.Lastname, "keys": &u.Keys} {
		if v := p.optional(name); v != nil {
			*to = v
		}
	}
}

// user finds the user a call names.
func (c *call) user() (*user, error) {
	id := c.p.str("userid")
	u := c.cl().Users[id]
	if u == nil {
		return nil, fail(500, "no such user ('%s')", id)
	}
	return u, nil
}

func userGet(c *call) (any, error) {
	u, err := c.user()
	if err != nil {
		return nil, err
	}
	m := u.row()
	m["groups"] = c.cl().groupsOf(u.ID)
	m["tokens"] = nil
	if len(u.Tokens) > 0 {
		tokens := map[string]any{}
		for id, t := range u.Tokens {
			tokens[id] = t.row()
		}
		m["tokens"] = tokens
	}
	return m, nil
}

func userUpdate(c *call) (any, error) {
	u, err := c.user()
	if err != nil {
		return nil, err
	}
	for _, g := range c.p.list("groups") {
		if c.cl().Groups[g] == nil {
			return nil, fail(500, "update user failed: no such group '%s'", g)
		}
	}
	u.update(c.p)
	if c.p.has("groups") {
		if !c.p.boolean("append", false) {
			for _, g := range c.cl().Groups {
				delete(g.Users, u.ID)
			}
		}
		for _, g := range c.p.list("groups") {
			c.cl().Groups[g].Users[u.ID] = true
		}
	}
	return nil, nil
}

func userDelete(c *call) (any, error) {
	u, err := c.user()
	if err != nil {
		return nil, err
	}
	if u.ID == "root@pam" {
		return nil, fail(500, "delete user failed: cannot delete 'root@pam'")
	}
	delete(c.cl().Users, u.ID)
	for _, g := range c.cl().Groups {
		delete(g.Users, u.ID)
	}
	c.cl().dropACL(func(e *aclEntry) bool {
		return e.Kind == "user" && e.Who == u.ID || e.Kind == "token" && strings.HasPrefix(e.Who, u.ID+"!")
	})
	return nil, nil
}

// row returns what is said of a token.
func (t *apiToken) row() map[string]any {
	m := map[string]any{"expire": t.Expire, "privsep": bit(t.Privsep)}
	if t.Comment != nil {
		m["comment"] = *t.Comment
	}
	return m
}

func tokenList(c *call) (any, error) {
	u, err := c.user()
	if err != nil {
		return nil, err
	}
	out := []map[string]any{}
	for _, id := range sortedKeys(u.Tokens) {
		m := u.Tokens[id].row()
		m["tokenid"] = id
		out = append(out, m)
	}
	return out, nil
}

// token finds the token a call names.
func (c *call) token() (*user, *apiToken, error) {
	u, err := c.user()
	if err != nil {
		return nil, nil, err
	}
	id := c.p.str("tokenid")
	t := u.Tokens[id]
	if t == nil {
		return nil, nil, fail(500, "no such token '%s' for user '%s'", id, u.ID)
	}
	return u, t, nil
}

func tokenGet(c *call) (any, error) {
	_, t, err := c.token()
	if err != nil {
		return nil, err
	}
	return t.row(), nil
}

func tokenCreate(c *call) (any, error) {
	u, err := c.user()
	if err != nil {
		return nil, err
	}
	id := c.p.str("tokenid")
	if u.Tokens[id] != nil {
		return nil, failParam("tokenid", "Token already exists.")
	}
	t := &apiToken{ID: id, Secret: c.s.uuid(), Privsep: c.p.boolean("privsep", true), Expire: c.p.int("expire"), Comment: c.p.optional("comment")}
	u.Tokens[id] = t
	info := map[string]any{"privsep": itoa(bit(t.Privsep))}
	if c.p.has("expire") {
		info["expire"] = strconv.FormatInt(t.Expire, 10)
	}
	if t.Comment != nil {
		info["comment"] = *t.Comment
	}
	return map[string]any{"value": t.Secret, "full-tokenid": u.ID + "!" + id, "info": info}, nil
}

func tokenUpdate(c *call) (any, error) {
	u, t, err := c.token()
	if err != nil {
		return nil, err
	}
	if c.p.has("privsep") {
		t.Privsep = c.p.boolean("privsep", true)
	}
	if c.p.has("expire") {
		t.Expire = c.p.int("expire")
	}
	if v := c.p.optional("comment"); v != nil {
		t.Comment = v
	}
	for _, name := range c.p.list("delete") {
		if name == "comment" {
			t.Comment = nil
		}
	}
	m := t.row()
	if c.p.boolean("regenerate", false) {
		t.Secret = c.s.uuid()
		m["value"], m["full-tokenid"] = t.Secret, u.ID+"!"+t.ID
	}
	return m, nil
}

func tokenDelete(c *call) (any, error) {
	u, t, err := c.token()
	if err != nil {
		return nil, err
	}
	delete(u.Tokens, t.ID)
	c.cl().dropACL(func(e *aclEntry) bool { return e.Kind == "token" && e.Who == u.ID+"!"+t.ID })
	return nil, nil
}

func tfaList(c *call) (any, error) {
	out := []map[string]any{}
	for _, id := range sortedKeys(c.cl().Users) {
		if c.seesUser(id) {
			out = append(out, map[string]any{"userid": id, "entries": []any{}})
		}
	}
	return out, nil
}
