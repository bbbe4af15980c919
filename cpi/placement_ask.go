package cpi

import (
	"context"
	"slices"
	"sync"

	"github.com/proxkit/proxkit/pve"
)

// ascertain asks nodes themselves where the cluster's list does not know: it has
// the states of nodes and storages from broadcasts, and none for the first seconds
// after the daemons have started or a storage was added. It reports whether
// anything turned out to be usable. Each node costs a request, so it is for when
// nothing else is left.
func (c *CPI) ascertain(ctx context.Context, v *view) bool {
	answers := make([][]pve.NodeStorageListItem, len(v.nodes))
	var wg sync.WaitGroup
	for i, m := range v.nodes {
		idle := slices.ContainsFunc(v.stores, func(s store) bool { return s.node == m.name && !s.available })
		if !m.unknown && !(m.online && idle) {
			continue
		}
		wg.Go(func() {
			rows, err := call(ctx, c, c.pve.ListNodeStorages, pve.ListNodeStoragesParams{Node: m.name})
			if err != nil {
				c.log.Printf("ask node %s for its storages: %v", m.name, err)
				return
			}
			answers[i] = rows
		})
	}
	wg.Wait()
	found := false
	for i, rows := range answers {
		if rows == nil {
			continue
		}
		m := &v.nodes[i]
		found = found || m.unknown
		m.online, m.unknown = m.online || m.unknown, false
		for _, r := range rows {
			at := slices.IndexFunc(v.stores, func(s store) bool { return s.node == m.name && s.id == r.Storage })
			if at < 0 || v.stores[at].available || !or(r.Active) {
				continue
			}
			s := &v.stores[at]
			s.available, s.total, s.used, s.content = true, or(r.Total), or(r.Used), r.Content
			found = true
		}
	}
	return found
}
