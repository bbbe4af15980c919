package pvetest

import (
	"slices"
	"strings"

	"github.com/proxkit/proxkit/apidoc"
)

// privileges lists every privilege of Proxmox VE 9.2.
func privileges() []string {
	return strings.Fields(`
Datastore.Allocate Datastore.AllocateSpace Datastore.AllocateTemplate Datastore.Audit
Group.Allocate
Mapping.Audit Mapping.Modify Mapping.Use
Permissions.Modify
Pool.Allocate Pool.Audit
Realm.Allocate Realm.AllocateUser
SDN.Allocate SDN.Audit SDN.Use
Sys.AccessNetwork Sys.Audit Sys.Console Sys.Incoming Sys.Modify Sys.PowerMgmt Sys.Syslog
User.Modify
VM.Allocate VM.Audit VM.Backup VM.Clone
VM.Config.CDROM VM.Config.CPU VM.Config.Cloudinit VM.Config.Disk VM.Config.HWType VM.Config.Memory VM.Config.Network VM.Config.Options
VM.Console VM.GuestAgent.Audit VM.GuestAgent.FileRead VM.GuestAgent.FileSystemMgmt VM.GuestAgent.FileWrite VM.GuestAgent.Unrestricted
VM.Migrate VM.PowerMgmt VM.Replicate VM.Snapshot VM.Snapshot.Rollback`)
}

func knownPriv(name string) bool { return slices.Contains(privileges(), name) }

// builtinRoles lists the roles that cannot be changed.
func builtinRoles() []string {
	return strings.Fields(`Administrator NoAccess PVEAdmin PVEAuditor PVEDatastoreAdmin PVEDatastoreUser PVEMappingAdmin
PVEMappingUser PVEPoolAdmin PVEPoolUser PVESDNAdmin PVESDNUser PVESysAdmin PVETemplateUser PVEUserAdmin PVEVMAdmin PVEVMUser`)
}

// builtinRole returns the privileges of a built-in role.
func builtinRole(id string) ([]string, bool) {
	pick := func(keep func(p string) bool) ([]string, bool) {
		var out []string
		for _, p := range privileges() {
			if keep(p) {
				out = append(out, p)
			}
		}
		return out, true
	}
	area := func(areas ...string) func(string) bool {
		return func(p string) bool {
			return slices.ContainsFunc(areas, func(a string) bool { return strings.HasPrefix(p, a+".") })
		}
	}
	switch id {
	case "Administrator":
		return privileges(), true
	case "NoAccess":
		return nil, true
	case "PVEAdmin":
		return pick(func(p string) bool {
			switch p {
			case "Mapping.Modify", "Permissions.Modify", "Realm.Allocate", "Sys.AccessNetwork", "Sys.Incoming", "Sys.Modify", "Sys.PowerMgmt":
				return false
			}
			return true
		})
	case "PVEAuditor":
		return pick(func(p string) bool { return strings.HasSuffix(p, ".Audit") })
	case "PVEDatastoreAdmin":
		return pick(area("Datastore"))
	case "PVEDatastoreUser":
		return []string{"Datastore.AllocateSpace", "Datastore.Audit"}, true
	case "PVEMappingAdmin":
		return pick(area("Mapping"))
	case "PVEMappingUser":
		return []string{"Mapping.Audit", "Mapping.Use"}, true
	case "PVEPoolAdmin":
		return pick(area("Pool"))
	case "PVEPoolUser":
		return []string{"Pool.Audit"}, true
	case "PVESDNAdmin":
		return pick(area("SDN"))
	case "PVESDNUser":
		return []string{"SDN.Audit", "SDN.Use"}, true
	case "PVESysAdmin":
		return []string{"Sys.Audit", "Sys.Console", "Sys.Syslog"}, true
	case "PVETemplateUser":
		return []string{"VM.Audit", "VM.Clone"}, true
	case "PVEUserAdmin":
		return []string{"Group.Allocate", "Realm.AllocateUser", "User.Modify"}, true
	case "PVEVMAdmin":
		return pick(area("VM"))
	case "PVEVMUser":
		return []string{
			"VM.Audit", "VM.Backup", "VM.Config.CDROM", "VM.Config.Cloudinit", "VM.Console", "VM.GuestAgent.Audit",
			"VM.GuestAgent.FileRead", "VM.GuestAgent.FileSystemMgmt", "VM.GuestAgent.FileWrite", "VM.PowerMgmt",
		}, true
	}
	return nil, false
}

// rolePrivs returns the privileges of a role, built-in or not.
func (cl *cluster) rolePrivs(id string) ([]string, bool) {
	if privs, ok := builtinRole(id); ok {
		return privs, true
	}
	if r := cl.Roles[id]; r != nil {
		return sortedKeys(r.Privs), true
	}
	return nil, false
}

// aclNode holds the entries of one path by kind and by whom they are for.
type aclNode map[string]map[string]map[string]bool // kind → who → role → propagate

// aclTree orders the access control list by path.
func (cl *cluster) aclTree() map[string]aclNode {
	tree := map[string]aclNode{}
	for _, e := range cl.ACL {
		n := tree[e.Path]
		if n == nil {
			n = aclNode{}
			tree[e.Path] = n
		}
		if n[e.Kind] == nil {
			n[e.Kind] = map[string]map[string]bool{}
		}
		if n[e.Kind][e.Who] == nil {
			n[e.Kind][e.Who] = map[string]bool{}
		}
		n[e.Kind][e.Who][e.Role] = e.Propagate
	}
	return tree
}

// A permitter answers what a user may do. It is good for one call, because it
// remembers its answers.
type permitter struct {
	cl    *cluster
	who   identity
	tree  map[string]aclNode
	known map[string]map[string]bool // path → privilege → propagates
}

func newPermitter(cl *cluster, who identity) *permitter {
	return &permitter{cl: cl, who: who, known: map[string]map[string]bool{}}
}

// roles returns the roles somebody has on a path: those of the path's parts
// from the root on, where any entry replaces what was inherited.
func (p *permitter) roles(kind, who, path string) map[string]bool {
	if p.tree == nil {
		p.tree = p.cl.aclTree()
	}
	roles := map[string]bool{}
	visit := func(at string, final bool) {
		n := p.tree[at]
		if n == nil {
			return
		}
		take := func(entries map[string]bool, into map[string]bool) map[string]bool {
			for role, propagate := range entries {
				if final || propagate {
					if into == nil {
						into = map[string]bool{}
					}
					into[role] = propagate
				}
			}
			return into
		}
		if got := take(n[kind][who], nil); got != nil {
			roles = got
			return
		}
		if kind != "user" {
			return
		}
		var got map[string]bool
		for group, entries := range n["group"] {
			if g := p.cl.Groups[group]; g != nil && g.Users[who] {
				got = take(entries, got)
			}
		}
		if got != nil {
			roles = got
		}
	}
	parts := strings.Split(strings.Trim(path, "/"), "/")
	visit("/", path == "/")
	if path != "/" {
		at := ""
		for i, part := range parts {
			at += "/" + part
			visit(at, i == len(parts)-1)
		}
	}
	if propagate, ok := roles["NoAccess"]; ok {
		return map[string]bool{"NoAccess": propagate}
	}
	return roles
}

// withPool adds the roles a guest or a storage has through its pool.
func (p *permitter) withPool(kind, who, path string, roles map[string]bool) map[string]bool {
	if _, none := roles["NoAccess"]; none {
		return roles
	}
	pool := ""
	if id, ok := strings.CutPrefix(path, "/vms/"); ok {
		pool = p.cl.poolOf(atoi(id))
	} else if id, ok := strings.CutPrefix(path, "/storage/"); ok {
		pool = p.cl.poolOfStorage(id)
	}
	if pool == "" {
		return roles
	}
	through := p.roles(kind, who, "/pool/"+pool)
	if _, none := through["NoAccess"]; none {
		return map[string]bool{"NoAccess": false}
	}
	for role := range through {
		if _, ok := roles[role]; !ok {
			roles[role] = false
		}
	}
	return roles
}

// privs returns the privileges the user has on a path, each with whether it
// propagates.
func (p *permitter) privs(path string) map[string]bool {
	if got, ok := p.known[path]; ok {
		return got
	}
	out := p.compute(path)
	p.known[path] = out
	return out
}

func (p *permitter) compute(path string) map[string]bool {
	out := map[string]bool{}
	if p.who.User == "" {
		return out
	}
	var mine map[string]bool
	if p.who.User == "root@pam" {
		mine = map[string]bool{}
		for _, priv := range privileges() {
			mine[priv] = true
		}
	} else {
		mine = p.expand(p.withPool("user", p.who.User, path, p.roles("user", p.who.User, path)))
	}
	if p.who.Token == "" {
		return mine
	}
	u := p.cl.Users[p.who.User]
	if u == nil || u.Tokens[p.who.Token] == nil {
		return out
	}
	if !u.Tokens[p.who.Token].Privsep {
		return mine
	}
	id := p.who.id()
	for priv, propagate := range p.expand(p.withPool("token", id, path, p.roles("token", id, path))) {
		if _, ok := mine[priv]; ok {
			out[priv] = propagate
		}
	}
	return out
}

// expand turns roles into privileges.
func (p *permitter) expand(roles map[string]bool) map[string]bool {
	out := map[string]bool{}
	for role, propagate := range roles {
		privs, _ := p.cl.rolePrivs(role)
		for _, priv := range privs {
			out[priv] = out[priv] || propagate
		}
	}
	return out
}

// almighty tells whether the user is root, or a token with all of root's rights.
func (p *permitter) almighty() bool {
	if p.who.User != "root@pam" || p.who.Token == "" {
		return p.who.User == "root@pam"
	}
	u := p.cl.Users[p.who.User]
	return u != nil && u.Tokens[p.who.Token] != nil && !u.Tokens[p.who.Token].Privsep
}

// has tells whether the user has a privilege on a path.
func (p *permitter) has(path, priv string) bool {
	if p.almighty() {
		return true
	}
	_, ok := p.privs(path)[priv]
	return ok
}

// may tells whether the caller has a privilege on a path.
func (c *call) may(path, priv string) bool { return c.perm.has(path, priv) }

// check fails with 403 unless the caller has all privs on path.
func (c *call) check(path string, privs ...string) error {
	for _, p := range privs {
		if !c.may(path, p) {
			return failPerm(path, p)
		}
	}
	return nil
}

// checkAny fails with 403 unless the caller has one of privs on path.
func (c *call) checkAny(path string, privs ...string) error {
	for _, p := range privs {
		if c.may(path, p) {
			return nil
		}
	}
	return failPerm(path, privs...)
}

// allowed evaluates the permissions of the operation itself.
func (c *call) allowed(raw map[string]rawValue) error {
	perms := c.op.Permissions
	switch {
	case perms != nil && perms.User == "world" && c.auth.User == "":
		return nil
	case c.auth.User == "":
		return fail(403, "Permission check failed (user != null)")
	case c.auth.root():
		return nil
	case perms == nil || perms.User == "" && perms.Check == nil:
		return fail(403, "Permission check failed (user != root@pam)")
	case perms.User == "all" || perms.User == "world":
		return nil
	case perms.Check == nil:
		return failPerm("")
	}
	return c.eval(perms.Check, raw)
}

// eval evaluates one node of a permission expression.
func (c *call) eval(check *apidoc.Check, raw map[string]rawValue) error {
	switch check.Op {
	case "and":
		for _, sub := range check.Checks {
			if err := c.eval(sub, raw); err != nil {
				return err
			}
		}
		return nil
	case "or":
		for _, sub := range check.Checks {
			if c.eval(sub, raw) == nil {
				return nil
			}
		}
		return failPerm("")
	case "perm":
		if p := check.RequireParam; p != "" {
			if v, ok := raw[p]; !ok || v.kind == isNull {
				return failPerm("")
			}
		}
		path := fillPath(check.Path, raw)
		if check.Any {
			return c.checkAny(path, check.Privs...)
		}
		return c.check(path, check.Privs...)
	case "user":
		if fillPath(check.Path, raw) == c.auth.User || check.Path == "all" || check.Path == "world" {
			return nil
		}
		return failPerm("")
	case "userid-param":
		return c.evalUserParam(check, raw)
	case "userid-group":
		return c.evalUserGroup(check, raw)
	case "perm-modify":
		return c.checkModify(fillPath(check.Path, raw))
	}
	return failPerm("")
}

// fillPath puts parameters into a permission path.
func fillPath(path string, raw map[string]rawValue) string {
	for {
		before, rest, ok := strings.Cut(path, "{")
		if !ok {
			break
		}
		name, after, ok := strings.Cut(rest, "}")
		if !ok {
			break
		}
		path = before + raw[name].text + after
	}
	return normalPath(path)
}

// normalPath brings an ACL path into its normal form.
func normalPath(path string) string {
	parts := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	if !strings.HasPrefix(path, "/") {
		return strings.Join(parts, "/")
	}
	return "/" + strings.Join(parts, "/")
}

func (c *call) evalUserParam(check *apidoc.Check, raw map[string]rawValue) error {
	userid := raw["userid"].text
	_, realm, _ := strings.Cut(userid, "@")
	if slices.Contains(check.Args, "self") {
		if err := c.userExists(userid); err != nil {
			return err
		}
		if userid == c.auth.User {
			return nil
		}
		return failPerm("")
	}
	privs := check.Privs
	if len(privs) == 0 {
		privs = check.Args
	}
	return c.check("/access/realm/"+realm, privs...)
}

// evalUserGroup wants a privilege on all groups, or on one the user is in.
func (c *call) evalUserGroup(check *apidoc.Check, raw map[string]rawValue) error {
	userid := raw["userid"].text
	param, create := slices.Contains(check.Args, "groups_param"), slices.Contains(check.Args, "create")
	if !create {
		if err := c.userExists(userid); err != nil {
			return err
		}
	}
	if c.checkAny("/access/groups", check.Privs...) == nil {
		return nil
	}
	mine := func(g string) bool { return c.checkAny("/access/groups/"+g, check.Privs...) == nil }
	if param {
		groups := splitList(raw["groups"].text)
		if len(groups) == 0 {
			return fail(403, "Permission check failed (/access/groups, %s)", strings.Join(check.Privs, ", "))
		}
		for _, g := range groups {
			if !mine(g) {
				return failPerm("/access/groups/"+g, check.Privs...)
			}
		}
	}
	if create {
		return nil
	}
	for id, g := range c.cl().Groups {
		if g.Users[userid] && mine(id) {
			return nil
		}
	}
	return failPerm("")
}

// checkModify wants the right to change permissions on a path.
func (c *call) checkModify(path string) error {
	privs := []string{"Permissions.Modify"}
	switch parts := strings.Split(strings.Trim(path, "/"), "/"); parts[0] {
	case "storage":
		privs = append(privs, "Datastore.Allocate")
	case "vms":
		privs = append(privs, "VM.Allocate")
	case "pool":
		privs = append(privs, "Pool.Allocate")
	case "nodes", "access", "mapping", "sdn":
	}
	return c.checkAny(path, privs...)
}

func (c *call) userExists(id string) error {
	if c.cl().Users[id] == nil {
		return fail(500, "no such user ('%s')", id)
	}
	return nil
}
