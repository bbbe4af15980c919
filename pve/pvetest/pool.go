package pvetest

import (
	"maps"
	"slices"
	"strings"
)

func registerPools(r *registry) {
	r.handle("GET /pools", poolList)
	r.handle("POST /pools", poolCreate)
	r.handle("PUT /pools", poolUpdate)
	r.handle("DELETE /pools", poolDelete)
	r.handle("GET /pools/{poolid}", poolGet)
	r.handle("PUT /pools/{poolid}", poolUpdate)
	r.handle("DELETE /pools/{poolid}", poolDelete)
}

func newPool(id string) *pool {
	return &pool{ID: id, Guests: map[int]bool{}, Storages: map[string]bool{}}
}

// row returns what lists say of a pool.
func (p *pool) row() map[string]any {
	m := map[string]any{"poolid": p.ID}
	if p.Comment != "" {
		m["comment"] = p.Comment
	}
	return m
}

func poolList(c *call) (any, error) {
	if c.p.has("poolid") {
		m, err := c.poolDetails(c.p.str("poolid"))
		if err != nil {
			return nil, err
		}
		m["poolid"] = c.p.str("poolid")
		return []any{m}, nil
	}
	out := []map[string]any{}
	for _, id := range sortedKeys(c.cl().Pools) {
		if c.checkAny("/pool/"+id, "Pool.Audit", "Pool.Allocate") == nil {
			out = append(out, c.cl().Pools[id].row())
		}
	}
	return out, nil
}

func poolGet(c *call) (any, error) {
	m, err := c.poolDetails(c.p.str("poolid"))
	if err != nil {
		return nil, err
	}
	m["poolid"] = c.p.str("poolid")
	return m, nil
}

// poolDetails returns a pool with its members.
func (c *call) poolDetails(id string) (map[string]any, error) {
	if err := c.check("/pool/"+id, "Pool.Audit"); err != nil {
		return nil, err
	}
	p := c.cl().Pools[id]
	if p == nil {
		return nil, fail(500, "pool '%s' does not exist", id)
	}
	m := p.row()
	members := []map[string]any{}
	typ := c.p.str("type")
	for _, vmid := range sortedKeys(p.Guests) {
		g := c.cl().Guests[vmid]
		if g == nil || typ != "" && typ != "qemu" {
			continue
		}
		row := c.resourceGuest(g)
		delete(row, "tags")
		members = append(members, row)
	}
	for _, st := range sortedKeys(p.Storages) {
		if c.cl().Storages[st] == nil || typ != "" && typ != "storage" {
			continue
		}
		for _, n := range sortedKeys(c.cl().Nodes) {
			if row := c.resourceStorage(c.cl().Storages[st], n); row != nil {
				members = append(members, row)
			}
		}
	}
	m["members"] = members
	return m, nil
}

func poolCreate(c *call) (any, error) {
	id := c.p.str("poolid")
	if c.cl().Pools[id] != nil {
		return nil, fail(500, "create pool failed: pool '%s' already exists", id)
	}
	if !startsWithLetter(id) {
		return nil, fail(500, "create pool failed: pool name '%s' contains invalid characters", id)
	}
	if i := strings.LastIndexByte(id, '/'); i >= 0 && c.cl().Pools[id[:i]] == nil {
		return nil, fail(500, "create pool failed: parent '%s' of pool '%s' does not exist", id[:i], id)
	}
	p := newPool(id)
	p.Comment = c.p.str("comment")
	c.cl().Pools[id] = p
	return nil, nil
}

func startsWithLetter(s string) bool {
	return s != "" && (s[0] >= 'a' && s[0] <= 'z' || s[0] >= 'A' && s[0] <= 'Z')
}

func poolUpdate(c *call) (any, error) {
	id := c.p.str("poolid")
	p := c.cl().Pools[id]
	if p == nil {
		return nil, fail(500, "update pools failed: pool '%s' does not exist", id)
	}
	remove, move := c.p.boolean("delete", false), c.p.boolean("allow-move", false)
	guests, storages := maps.Clone(p.Guests), maps.Clone(p.Storages)
	var moved []int
	for _, word := range c.p.list("vms") {
		vmid := atoi(word)
		if err := c.poolMayVM(vmid); err != nil {
			return nil, err
		}
		old := c.cl().poolOf(vmid)
		switch {
		case remove && !guests[vmid]:
			return nil, fail(500, "update pools failed: VM %d is not a pool member", vmid)
		case remove:
			delete(guests, vmid)
		case guests[vmid]:
			return nil, fail(500, "update pools failed: VM %d is already a pool member", vmid)
		case old != "" && !move:
			return nil, fail(500, "update pools failed: VM %d belongs already to pool '%s' and 'allow-move' is not set", vmid, old)
		default:
			if old != "" {
				if err := c.check("/pool/"+old, "Pool.Allocate"); err != nil {
					return nil, err
				}
				moved = append(moved, vmid)
			}
			guests[vmid] = true
		}
	}
	for _, st := range c.p.list("storage") {
		if err := c.check("/storage/"+st, "Datastore.Allocate"); err != nil {
			return nil, err
		}
		switch {
		case remove && !storages[st]:
			return nil, fail(500, "update pools failed: Storage '%s' is not a pool member", st)
		case remove:
			delete(storages, st)
		case storages[st]:
			return nil, fail(500, "update pools failed: Storage '%s' is already a pool member", st)
		default:
			storages[st] = true
		}
	}
	for _, vmid := range moved {
		c.cl().leavePool(vmid)
	}
	p.Guests, p.Storages = guests, storages
	if c.p.has("comment") {
		p.Comment = c.p.str("comment")
	}
	return nil, nil
}

// poolMayVM wants the right to put a guest into a pool or take it out.
func (c *call) poolMayVM(vmid int) error {
	return c.checkAny("/vms/"+itoa(vmid), "VM.Allocate", "Permissions.Modify")
}

func poolDelete(c *call) (any, error) {
	id := c.p.str("poolid")
	p := c.cl().Pools[id]
	if p == nil {
		return nil, fail(500, "delete pool failed: pool '%s' does not exist", id)
	}
	notEmpty := func(what string) error {
		return fail(500, "delete pool failed: pool '%s' is not empty (contains %s)", id, what)
	}
	for _, other := range sortedKeys(c.cl().Pools) {
		if strings.HasPrefix(other, id+"/") {
			return nil, notEmpty("pool '" + other + "'")
		}
	}
	for _, vmid := range sortedKeys(p.Guests) {
		if c.cl().Guests[vmid] != nil {
			return nil, notEmpty("VM " + itoa(vmid))
		}
	}
	for _, st := range sortedKeys(p.Storages) {
		if c.cl().Storages[st] != nil {
			return nil, notEmpty("storage '" + st + "'")
		}
	}
	delete(c.cl().Pools, id)
	c.cl().ACL = slices.DeleteFunc(c.cl().ACL, func(e *aclEntry) bool { return e.Path == "/pool/"+id })
	return nil, nil
}
