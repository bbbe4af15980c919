package cpi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/proxkit/proxkit/cpi/rpc"
)

// A refusal says why a node or a storage cannot serve.
type refusal struct {
	name   string
	reason string
	full   bool // for lack of space alone
	passes bool // by itself, so that trying again helps
}

func (r refusal) String() string { return r.name + ": " + r.reason }

// joinRefusals renders refusals on one line, a reason of some length only once.
func joinRefusals(list []refusal) string {
	const short = 24
	texts := make([]string, len(list))
	for i, r := range list {
		if len(r.reason) > short && slices.ContainsFunc(list[:i], func(earlier refusal) bool { return earlier.reason == r.reason }) {
			r.reason = "the same"
		}
		texts[i] = r.String()
	}
	return strings.Join(texts, "; ")
}

// A place is where a VM can be made.
type place struct {
	node string
	// root and ephemeral are the storages chosen on this node; ephemeral is empty
	// when there is no such disk.
	root, ephemeral store
	// template is the template to begin with. When it lies on the root storage
	// within reach of the node, the clone is linked; otherwise the template is
	// copied first, or the clone is full.
	template template
	linked   bool
	free     int64 // bytes of memory, for the order
}

// state says in a word why a node that is not online cannot serve.
func (m clusterNode) state() string {
	if m.unknown {
		return "its state is unknown"
	}
	return "offline"
}

// planPlaces decides which nodes can serve a VM, the one with the most free
// memory first, and why the others cannot. What no node can mend is an error.
func (c *CPI) planPlaces(v *view, p VMProperties, templates []template, homes []diskHome) ([]place, []refusal, error) {
	nodes, err := wantedNodes(v, p.source("nodes"), p.Nodes)
	if err != nil {
		return nil, nil, err
	}
	rootSize := p.RootDisk.Size
	for _, t := range templates {
		rootSize = max(rootSize, t.size)
	}
	if err := checkStorages(v, p.source("root_disk.storage", "storage"), p.RootDisk.Storage); err != nil {
		return nil, nil, err
	}
	if p.EphemeralDisk.Size > 0 {
		if err := checkStorages(v, p.source("ephemeral_disk.storage", "storage"), p.EphemeralDisk.Storage); err != nil {
			return nil, nil, err
		}
	}
	var places []place
	var refused []refusal
	busy := c.underWay()
	for _, m := range nodes {
		pl, r := c.planPlace(v, m, p, rootSize, templates, homes)
		pl.free -= int64(busy[m.name]) * p.RAM << 20
		if r != nil {
			refused = append(refused, *r)
			continue
		}
		places = append(places, pl)
	}
	slices.SortStableFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(b.free, a.free), cmp.Compare(a.node, b.node))
	})
	return places, refused, nil
}

// wantedNodes returns the members that may hold the VM. from says where the names
// stand.
func wantedNodes(v *view, from string, names []string) ([]clusterNode, error) {
	if len(names) == 0 {
		return v.nodes, nil
	}
	var out []clusterNode
	for _, name := range names {
		m, ok := v.node(name)
		if !ok {
			members := make([]string, len(v.nodes))
			for i, n := range v.nodes {
				members[i] = n.name
			}
			return nil, rpc.CloudError("%s: %q is no member of the cluster, which has %s", from, name, strings.Join(members, ", "))
		}
		out = append(out, m)
	}
	return out, nil
}

// checkStorages finds what is wrong with storages on every node alike. from says
// where the names stand.
func checkStorages(v *view, from string, names []string) error {
	for _, name := range names {
		s, ok := v.storeOf(name)
		if !ok {
			return rpc.CloudError("%s: storage %q does not exist, or the API token has neither Datastore.Audit nor Datastore.AllocateSpace on /storage/%s",
				from, name, name)
		}
		if !slices.Contains(s.content, "images") {
			return rpc.CloudError("%s: storage %q cannot hold disk images: its content is %s; choose another or add images to it",
				from, name, cmp.Or(strings.Join(s.content, ", "), "empty"))
		}
	}
	return nil
}

func (c *CPI) planPlace(v *view, m clusterNode, p VMProperties, rootSize int64, templates []template, homes []diskHome) (place, *refusal) {
	no := func(format string, args ...any) *refusal {
		return &refusal{name: m.name, reason: fmt.Sprintf(format, args...)}
	}
	passing := func(r *refusal) *refusal {
		r.passes = true
		return r
	}
	var pl place
	switch {
	case !m.online:
		return pl, passing(no("%s", m.state()))
	case m.maintenance:
		return pl, passing(no("maintenance"))
	case m.maxcpu > 0 && int64(p.CPU) > m.maxcpu:
		return pl, no("has %d CPUs, %d are asked for", m.maxcpu, p.CPU)
	}
	free, known := freeMemory(v, m, p.RAM)
	if known && free < p.RAM<<20 {
		r := no("has %d MiB of memory free, %d are asked for", max(free, 0)>>20, p.RAM)
		r.passes = uint64(p.RAM)<<20 <= m.maxmem
		return pl, r
	}
	pl = place{node: m.name, free: free}
	for _, h := range homes {
		if h.node != "" && h.node != m.name {
			return pl, no("disk %s is on storage %s of node %s alone", h.cid, h.storage, h.node)
		}
		if s, ok := v.store(h.storage, m.name); h.storage != "" && (!ok || !s.available) {
			return pl, passing(no("storage %s of disk %s is not available", h.storage, h.cid))
		}
	}
	if _, ok := c.isoStore(v, m.name); !ok {
		r := no("no storage for the agent's settings: %s", storageHint("iso_storage", c.cfg.ISOStorage, "iso"))
		r.passes = v.dormant(m.name, "iso", c.cfg.ISOStorage)
		return pl, r
	}
	var r *refusal
	if pl.root, r = pickStore(v, m.name, p.RootDisk.Storage, rootSize); r != nil {
		return pl, r.of(m.name, "root disk: ")
	}
	if p.EphemeralDisk.Size > 0 {
		if pl.ephemeral, r = pickStore(v, m.name, p.EphemeralDisk.Storage, p.EphemeralDisk.Size); r != nil {
			return pl, r.of(m.name, "ephemeral disk: ")
		}
	}
	if both := uint64(rootSize+p.EphemeralDisk.Size) << 20; pl.ephemeral.id == pl.root.id && pl.root.total > 0 && pl.root.free() < both {
		r := no("storage %s has %d MiB free, the root and the ephemeral disk need %d", pl.root.id, pl.root.free()>>20, both>>20)
		r.full = true
		return pl, r
	}
	var ok bool
	if pl.template, pl.linked, ok = pickTemplate(v, m.name, pl.root, templates); !ok {
		return pl, no("no template of the stemcell is within reach")
	}
	return pl, nil
}

// freeMemory estimates the memory that is free on a node. Guests that were made
// within the last seconds are not in the figures yet and are taken to be of the
// same size as the one to be made, so that parallel calls spread. Where the
// token may not see the figures, fewer guests stand for more memory.
func freeMemory(v *view, m clusterNode, ram int64) (free int64, known bool) {
	known = m.maxmem > 0
	free = int64(m.maxmem) - int64(m.mem)
	for _, g := range v.guests {
		if g.node != m.name || g.template || hasTags(g.tags, tagDisk) {
			continue
		}
		switch {
		case g.maxmem == 0:
			free -= ram << 20
		case !known:
			free -= int64(g.maxmem)
		}
	}
	return free, known
}

// pickStore chooses the first of the storages that is there and has the room.
func pickStore(v *view, node string, names []string, size int64) (store, *refusal) {
	var refused []refusal
	for _, name := range names {
		r := refusal{name: "storage " + name}
		s, ok := v.store(name, node)
		switch {
		case !ok:
			r.reason = "is not on this node"
		case !s.available:
			r.reason, r.passes = "is not active", true
		case !slices.Contains(s.content, "images"):
			r.reason = "cannot hold disk images"
		case s.total > 0 && s.free() < uint64(size)<<20:
			r.reason, r.full = fmt.Sprintf("has %d MiB free, %d are asked for", s.free()>>20, size), true
		default:
			return s, nil
		}
		refused = append(refused, r)
	}
	return store{}, merged(refused)
}

// merged makes one refusal of several.
func merged(list []refusal) *refusal {
	return &refusal{
		reason: joinRefusals(list),
		full:   allFull(list),
		passes: slices.ContainsFunc(list, func(r refusal) bool { return r.passes }),
	}
}

// allFull reports whether nothing but space is lacking.
func allFull(list []refusal) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(r refusal) bool { return !r.full })
}

// of says whose a merged refusal is.
func (r *refusal) of(name, prefix string) *refusal {
	out := *r
	out.name, out.reason = name, prefix+r.reason
	return &out
}

// pickTemplate chooses the template for a VM on a node with its root disk on a
// storage: one that a linked clone can be made of, else one to copy from.
func pickTemplate(v *view, node string, root store, templates []template) (t template, linked, ok bool) {
	reach := func(t template) bool {
		if t.guest.node == node {
			return true
		}
		s, found := v.store(t.storage, node)
		return found && s.shared && s.available && v.online(t.guest.node)
	}
	var best template
	rank := -1
	for _, t := range templates {
		if !reach(t) {
			continue
		}
		r := 0
		if t.storage == root.id {
			r += 2
		}
		if t.guest.node == node {
			r++
		}
		if r > rank {
			best, rank = t, r
		}
	}
	return best, rank >= 2 && linkable(root.kind), rank >= 0
}

// linkable reports whether a storage of that kind can make linked clones.
func linkable(kind string) bool {
	switch kind {
	case "lvm", "iscsi", "iscsidirect", "esxi", "pbs":
		return false
	}
	return true
}

// thin reports whether a storage of that kind gives space back when the guest
// trims.
func thin(kind string) bool { return kind != "lvm" && kind != "iscsi" && kind != "iscsidirect" }

// fileBased reports whether volumes on a storage of that kind are files, where
// only qcow2 can be cloned.
func fileBased(kind string) bool {
	switch kind {
	case "dir", "nfs", "cifs", "cephfs", "glusterfs":
		return true
	}
	return false
}

// isoStore returns the storage for the ISO with the agent's settings as a node
// sees it.
func (c *CPI) isoStore(v *view, node string) (store, bool) {
	return findStore(v, node, "iso", c.cfg.ISOStorage, c.cfg.Storage)
}

// storageHint says what is wrong when no storage for a kind of content is found.
func storageHint(key, configured, content string) string {
	if configured != "" {
		return fmt.Sprintf("%s %s is not there, is not active, lacks content %s, or the API token lacks Datastore.Audit on /storage/%s",
			key, configured, content, configured)
	}
	return fmt.Sprintf("none that the API token sees has content %s: set %s, and grant Datastore.Audit on it", content, key)
}

// dormant reports whether a node has a storage for a kind of content, the
// configured one if there is one, that is not active at the moment.
func (v *view) dormant(node, content, configured string) bool {
	return slices.ContainsFunc(v.stores, func(s store) bool {
		return s.node == node && !s.available && (configured == "" || s.id == configured) && slices.Contains(s.content, content)
	})
}

// importStore returns the storage that stemcell images pass through as a node
// sees it.
func (c *CPI) importStore(v *view, node string) (store, bool) {
	return findStore(v, node, "import", c.cfg.ImportStorage, c.cfg.Storage)
}

// findStore finds the storage for a kind of content on a node: the configured
// one, else the first of the preferred ones that allows the content, else the
// first that does, a shared one before a local one.
func findStore(v *view, node, content, configured string, preferred []string) (store, bool) {
	usable := func(s store) bool {
		return s.node == node && s.available && slices.Contains(s.content, content)
	}
	if configured != "" {
		s, ok := v.store(configured, node)
		return s, ok && usable(s)
	}
	for _, name := range preferred {
		if s, ok := v.store(name, node); ok && usable(s) {
			return s, true
		}
	}
	var found store
	for _, s := range v.stores {
		if usable(s) && (found.id == "" || s.shared && !found.shared || s.shared == found.shared && s.id < found.id) {
			found = s
		}
	}
	return found, found.id != ""
}
