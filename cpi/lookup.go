package cpi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve"
)

// A view is what one look at the list of the cluster's resources shows. Node,
// tags and lock of a guest come straight from the cluster's file system and are
// as fresh as the answering node; name, status and all figures are broadcast
// every ten seconds or so, and a new guest has none at first.
type view struct {
	guests []guest
	nodes  []clusterNode
	stores []store
}

// A guest is a virtual machine in the list: a VM of the Director's, the holder
// of a disk, a template of a stemcell, or somebody else's.
type guest struct {
	vmid     VMID
	node     string
	name     string
	status   string
	lock     string
	tags     []string
	template bool
	maxmem   uint64
}

func (g guest) String() string { return fmt.Sprintf("guest %d on %s", g.vmid, g.node) }

// A clusterNode is a node of the cluster.
type clusterNode struct {
	name        string
	online      bool
	unknown     bool // not online as far as the list knows, but not known to be offline
	maintenance bool
	// The figures are 0 where the token may not see them.
	maxmem, mem uint64
	maxcpu      int64
}

// A store is a storage as one node sees it.
type store struct {
	id        string
	node      string
	kind      string
	shared    bool
	available bool
	content   []string
	total     uint64
	used      uint64
}

func (s store) free() uint64 { return s.total - min(s.used, s.total) }

// look asks for the whole list at once, nodes and storages included: they say
// whether the cluster is in the majority, which is half of every proof that
// something is gone.
func (c *CPI) look(ctx context.Context) (*view, error) {
	c.sweepTickets()
	rows, err := call(ctx, c, c.pve.ListClusterResources, pve.ListClusterResourcesParams{})
	if err != nil {
		return nil, c.explain(err, "list the cluster's resources")
	}
	return newView(rows), nil
}

// guestByID returns the guest with the VMID.
func (v *view) guestByID(id VMID) (guest, bool) {
	i := slices.IndexFunc(v.guests, func(g guest) bool { return g.vmid == id })
	if i < 0 {
		return guest{}, false
	}
	return v.guests[i], true
}

// tagged returns the guests that carry all of the tags, the lowest VMID first.
func (v *view) tagged(tags ...string) []guest {
	var out []guest
	for _, g := range v.guests {
		if hasTags(g.tags, tags...) {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b guest) int { return cmp.Compare(a.vmid, b.vmid) })
	return out
}

// node returns the member of that name.
func (v *view) node(name string) (clusterNode, bool) {
	i := slices.IndexFunc(v.nodes, func(m clusterNode) bool { return m.name == name })
	if i < 0 {
		return clusterNode{}, false
	}
	return v.nodes[i], true
}

// online reports whether the node of that name is up.
func (v *view) online(name string) bool {
	m, ok := v.node(name)
	return ok && m.online
}

// store returns the storage as the node sees it.
func (v *view) store(id, node string) (store, bool) {
	i := slices.IndexFunc(v.stores, func(s store) bool { return s.id == id && s.node == node })
	if i < 0 {
		return store{}, false
	}
	return v.stores[i], true
}

// storeOf returns the storage as any node sees it.
func (v *view) storeOf(id string) (store, bool) {
	i := slices.IndexFunc(v.stores, func(s store) bool { return s.id == id })
	if i < 0 {
		return store{}, false
	}
	return v.stores[i], true
}

// majority reports whether more than half of the nodes are online, and names
// those that are not. Every node holds the configurations of all guests, so what
// a member of the majority does not know does not exist.
func (v *view) majority() (ok bool, offline []string) {
	up := 0
	for _, m := range v.nodes {
		if m.online {
			up++
		} else {
			offline = append(offline, m.name)
		}
	}
	slices.Sort(offline)
	return 2*up > len(v.nodes), offline
}

// proveQuorum returns nil when what the view lacks is proved not to exist, and
// otherwise an error that can be tried again. A cluster with a vote outside its
// nodes may be quorate with half of them, so the cluster's own word is asked for
// where the token may have it.
func (c *CPI) proveQuorum(ctx context.Context, v *view, what string) error {
	ok, offline := v.majority()
	if ok {
		return nil
	}
	if rows, err := c.pve.ListClusterStatus(ctx); err == nil && clusterQuorate(rows) {
		return nil
	}
	return rpc.CloudError("%s cannot be found, but that proves nothing while the cluster may lack its quorum: of %d nodes these are not online: %s",
		what, len(v.nodes), cmp.Or(strings.Join(offline, ", "), "none is listed")).OKToRetry(true)
}

// findVM finds the VM of a CID. The three answers are a guest, nothing, and an
// error when it cannot be decided. Nothing costs one request beyond the view's.
func (c *CPI) findVM(ctx context.Context, v *view, cid vmCID) (guest, bool, error) {
	g, listed := v.guestByID(cid.VMID)
	if listed && isVM(g, cid) {
		return g, true, nil
	}
	if listed {
		// Either the VMID was given to another guest, or somebody removed the
		// tags. The ISO with the agent's settings bears the CID's token too.
		return c.identify(ctx, g, cid)
	}
	_, err := call(ctx, c, c.pve.GetNextVMID, pve.GetNextVMIDParams{VMID: new(cid.VMID)})
	switch {
	case err == nil:
		return guest{}, false, c.proveQuorum(ctx, v, "VM "+cid.String())
	case errors.Is(err, pve.ErrGuestExists):
		return c.seek(ctx, v, cid)
	}
	return guest{}, false, c.explain(err, fmt.Sprintf("look for VM %s", cid))
}

func isVM(g guest, cid vmCID) bool {
	return g.vmid == cid.VMID && hasTags(g.tags, tagVM, cid.String())
}

// seek looks for a guest that exists but is missing from the list, on every node
// in turn: the list may be behind, or the token may not see the guest.
func (c *CPI) seek(ctx context.Context, v *view, cid vmCID) (guest, bool, error) {
	var unknown []error
	hidden := 0
	for _, m := range v.nodes {
		g := guest{vmid: cid.VMID, node: m.name}
		if !m.online {
			hidden++
			unknown = append(unknown, fmt.Errorf("node %s is offline", m.name))
			continue
		}
		found, ours, err := c.identify(ctx, g, cid)
		switch {
		case err == nil && ours:
			return found, true, nil
		case err == nil && found.vmid != 0:
			return guest{}, false, nil
		case err != nil:
			if errors.Is(err, pve.ErrPermission) {
				hidden++
			}
			unknown = append(unknown, err)
		}
	}
	refused := slices.ContainsFunc(unknown, func(err error) bool { return errors.Is(err, pve.ErrPermission) })
	if refused && hidden == len(unknown) && c.cfg.Pool != "" {
		return guest{}, false, c.proveForeign(ctx, v, cid)
	}
	if len(unknown) == 0 {
		// It has gone in the meantime, or moved past the search.
		return guest{}, false, rpc.CloudError("VM %s: VMID %d is in use, but no node shows the guest: try again", cid, cid.VMID).OKToRetry(true)
	}
	if err := unknown[0]; len(unknown) == 1 || errors.Is(err, pve.ErrPermission) {
		return guest{}, false, fmt.Errorf("VM %s: VMID %d is in use by a guest that cannot be looked at: %w", cid, cid.VMID, err)
	}
	return guest{}, false, rpc.CloudError("VM %s: VMID %d is in use by a guest that cannot be looked at: %w",
		cid, cid.VMID, errors.Join(unknown...)).OKToRetry(true)
}

// proveForeign returns nil when a VMID is proved to be in use by a guest that is not
// the VM: one that is not in the pool, in which everything of ours is, while the
// VM's ISO, which goes with the VM, is gone.
func (c *CPI) proveForeign(ctx context.Context, v *view, cid vmCID) error {
	what := fmt.Sprintf("VM %s: VMID %d is in use by a guest that is not in pool %s", cid, cid.VMID, c.cfg.Pool)
	if err := c.unfiltered(ctx, "VM "+cid.String(), need{"VM.Audit", "/pool/" + c.cfg.Pool}); err != nil {
		return err
	}
	if err := c.proveQuorum(ctx, v, "VM "+cid.String()); err != nil {
		return err
	}
	_, iso, err := c.findISO(ctx, v, cid, func(store) bool { return true })
	if err != nil {
		return err
	}
	if iso != "" {
		return rpc.CloudError("%s, and the VM's ISO, %s, is still there: if the guest is the VM, put it back into the pool; if the VM was destroyed by hand, remove the ISO; then try again",
			what, iso)
	}
	c.log.Printf("%s, so it is another one", what)
	return nil
}

// identify reads a guest's configuration to decide whether it is the VM of the
// CID. A guest that is not is returned with its VMID and false.
func (c *CPI) identify(ctx context.Context, g guest, cid vmCID) (guest, bool, error) {
	conf, err := c.config(ctx, g)
	switch {
	case errors.Is(err, pve.ErrNotFound):
		return guest{}, false, nil
	case err != nil:
		return guest{}, false, c.explain(err, fmt.Sprintf("look at %s", g), need{"VM.Audit", fmt.Sprintf("/vms/%d", g.vmid)})
	}
	g.name, g.tags, g.lock, g.template = conf.name, conf.tags, conf.lock, conf.template
	if isVM(g, cid) {
		return g, true, nil
	}
	if conf.name == vmName(cid.Token) || conf.hasISO(isoName(cid.Token)) {
		c.log.Printf("VM %s has lost its tags; they come back with its next metadata", cid)
		return g, true, nil
	}
	return g, false, nil
}

// findDisk finds the holder of a disk and the VMs that the disk is attached to,
// by their tags. The three answers are a holder, nothing, and an error. With
// nothing come the guests whose tag says that they have a disk that is gone.
func (c *CPI) findDisk(ctx context.Context, v *view, cid rpc.DiskCID) (holder guest, ok bool, users []guest, err error) {
	holders, users, err := c.sightDisk(ctx, v, cid)
	if err == nil && len(holders) == 0 {
		var more bool
		if more, err = c.relist(ctx, v); err == nil && more {
			holders, users, err = c.sightDisk(ctx, v, cid)
		}
	}
	if err != nil {
		return guest{}, false, nil, err
	}
	switch len(holders) {
	case 1:
		return holders[0], true, users, nil
	case 0:
		found, err := c.inspect(ctx, cid, 0, users)
		if err != nil {
			return guest{}, false, nil, err
		}
		for _, u := range found.uses {
			found.doubtful = append(found.doubtful, u.guest)
		}
		if len(found.doubtful) > 0 {
			return guest{}, false, nil, rpc.CloudError("disk %s: %s carries its tag, but no guest holds the disk itself: look for a guest called %s, and give it the tags %s and %s",
				cid, found.doubtful[0], cid, tagDisk, cid)
		}
		return guest{}, false, found.stale, c.proveGone(ctx, v, "disk "+string(cid))
	}
	return guest{}, false, nil, rpc.CloudError("disk %s has two holders, %s and %s: one is a copy of the other; remove the tag %s from the copy",
		cid, holders[0], holders[1], cid)
}

// sightDisk finds the holders of a disk, and its users, in a view.
func (c *CPI) sightDisk(ctx context.Context, v *view, cid rpc.DiskCID) (holders, users []guest, err error) {
	for _, g := range v.tagged(string(cid)) {
		if hasTags(g.tags, tagDisk) {
			holders = append(holders, g)
		} else {
			users = append(users, g)
		}
	}
	if len(holders) > 0 {
		return holders, users, nil
	}
	g, found, err := c.recoverHolder(ctx, v, cid)
	if found {
		holders = []guest{g}
		users = joined(users, nil, g.vmid)
	}
	return holders, users, err
}

// relist asks every node for its guests, and adds those to the view that the
// cluster's list lacks. It reports whether there were any.
func (c *CPI) relist(ctx context.Context, v *view) (more bool, err error) {
	for _, m := range v.nodes {
		if !m.online {
			continue
		}
		rows, err := call(ctx, c, c.pve.ListVMs, pve.ListVMsParams{Node: m.name})
		if err != nil {
			return more, c.explain(err, fmt.Sprintf("list the guests of node %s", m.name))
		}
		for _, r := range rows {
			if _, known := v.guestByID(r.VMID); known {
				continue
			}
			more = true
			v.guests = append(v.guests, guest{
				vmid: r.VMID, node: m.name, name: or(r.Name), status: string(r.Status), lock: or(r.Lock), tags: r.Tags, template: or(r.Template), maxmem: or(r.MaxMem),
			})
		}
	}
	return more, nil
}

// recoverHolder finds a holder whose tags were removed by hand, by the serial of
// its drive, and gives the tags back. Only guests that may be a holder are looked
// at: those of its name, and those that look like one and carry no other tag of
// the CPI.
func (c *CPI) recoverHolder(ctx context.Context, v *view, cid rpc.DiskCID) (guest, bool, error) {
	for _, g := range v.guests {
		if hasTags(g.tags, tagVM) || hasTags(g.tags, tagStemcell) || hasTags(g.tags, tagDisk) && diskTagged(g.tags) {
			continue
		}
		if g.name != string(cid) && !g.template && g.maxmem != holderMemory<<20 {
			continue
		}
		conf, err := c.config(ctx, g)
		if errors.Is(err, pve.ErrNotFound) {
			continue
		}
		if err != nil {
			return guest{}, false, c.explain(err, fmt.Sprintf("look for disk %s in %s", cid, g), need{"VM.Audit", fmt.Sprintf("/vms/%d", g.vmid)})
		}
		d, ok := conf.serial(string(cid))
		if !ok || d.slot != holderSlot || !conf.template {
			continue
		}
		c.log.Printf("disk %s: %s had lost its tags; they are put back", cid, g)
		tags := retag(conf.tags, ownershipTags(tagDisk, string(cid), c.director), nil, nil)
		if err := c.updateConfig(ctx, g, change{tags: tags, digest: conf.digest}); err != nil {
			return guest{}, false, c.explain(err, fmt.Sprintf("put back the tags of %s", g), need{"VM.Config.Options", fmt.Sprintf("/vms/%d", g.vmid)})
		}
		g.tags = tags
		return g, true, nil
	}
	return guest{}, false, nil
}

// diskTagged reports whether one of the tags is the CID of a disk.
func diskTagged(tags []string) bool {
	return slices.ContainsFunc(tags, func(t string) bool { return parseDiskCID(rpc.DiskCID(t)) == nil })
}

// proveGone returns nil when something that no tag leads to is proved to be gone:
// the answering node is in the majority, and the token would see it.
func (c *CPI) proveGone(ctx context.Context, v *view, what string) error {
	if err := c.proveQuorum(ctx, v, what); err != nil {
		return err
	}
	// The list shows nodes as online for a while after the quorum is lost.
	rows, err := c.pve.ListClusterStatus(ctx)
	switch {
	case err == nil && !clusterQuorate(rows):
		return rpc.CloudError("%s cannot be found, but that proves nothing while the cluster lacks its quorum (see pvecm status)", what).OKToRetry(true)
	case err != nil && !errors.Is(err, pve.ErrPermission):
		return c.explain(err, what+" cannot be found; ask whether the cluster has its quorum")
	}
	if len(v.tagged(tagOwner)) > 0 {
		return nil
	}
	// A token without VM.Audit sees an empty cluster.
	path := "/vms"
	if c.cfg.Pool != "" {
		path = "/pool/" + c.cfg.Pool
	}
	return c.unfiltered(ctx, what, need{"VM.Audit", path})
}

// unfiltered returns nil when a list that lacks something was not filtered for
// lack of a privilege: PVE leaves out what the token may not see.
func (c *CPI) unfiltered(ctx context.Context, what string, needs ...need) error {
	for _, n := range needs {
		ok, err := c.granted(ctx, n.Path, n.Privilege)
		if err != nil {
			return c.explain(err, what+" cannot be found; ask what the token may see")
		}
		if ok {
			continue
		}
		where := n.Path
		if strings.HasPrefix(where, "/vms/") {
			where = c.guestPath()
		}
		return rpc.CloudError("%s cannot be found, but the API token %s would not see it: it lacks %s on %s: %s%s",
			what, c.cfg.TokenID, n.Privilege, where, grantThere, c.poolHint([]need{{n.Privilege, where}}))
	}
	return nil
}

// granted asks whether the token has a privilege on a path.
func (c *CPI) granted(ctx context.Context, path, privilege string) (bool, error) {
	tree, err := call(ctx, c, c.pve.GetPermissions, pve.GetPermissionsParams{Path: new(path)})
	if err != nil {
		return false, err
	}
	// The value beside a privilege only says whether it reaches what is below the
	// path.
	_, ok := tree[path][privilege]
	return ok, nil
}
