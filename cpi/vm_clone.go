package cpi

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve"
)

// A cloneSpec is a guest to be made from a template.
type cloneSpec struct {
	from template
	node string
	root store // where its disk goes
	// linked makes a linked clone; the template is on the root storage then.
	linked bool
	// name is given by no other call.
	name string
	pool string
	// pledge notes the VMIDs that are used.
	pledge *pledge
}

// clone makes the guest and returns its VMID, 0 when none was begun.
func (c *CPI) clone(ctx context.Context, v *view, s cloneSpec) (VMID, error) {
	src := s.from.guest
	// PVE does not clone to another node's own storage. Such a clone is made on
	// the template's storage, which the nodes share, and its disk moved from there.
	detour := !s.linked && !s.root.shared && src.node != s.node
	full := !s.linked
	if detour {
		home, _ := v.storeOf(s.from.storage)
		full = !linkable(home.kind)
	}
	what := fmt.Sprintf("clone %s to node %s", src, s.node)
	storage := s.from.storage
	if !detour {
		storage = s.root.id
	}
	id, err := c.claim(ctx, claim{
		node: src.node, target: s.node, task: "qmclone", name: s.name, pledge: s.pledge,
		start: func(ctx context.Context, id VMID) (pve.UPID, error) {
			p := pve.CloneVMParams{Node: src.node, VMID: src.vmid, NewID: id, Name: new(s.name), Full: new(full)}
			if s.node != src.node {
				p.Target = new(s.node)
			}
			if full {
				p.Storage = new(storage)
				if fileBased(s.root.kind) && !detour {
					p.Format = new(formatQcow2)
				}
			}
			if s.pool != "" {
				p.Pool = new(s.pool)
			}
			return begin(ctx, c, c.pve.CloneVM, p)
		},
	})
	if err != nil {
		if errors.Is(err, pve.ErrNotFound) && strings.Contains(err.Error(), "unable to find configuration file") || c.hasGone(ctx, src, err) {
			return id, rpc.CloudError("%s: %w: %w", what, errTemplateLeft, err)
		}
		path := "/vms"
		if s.pool != "" {
			path = "/pool/" + s.pool
		}
		return id, c.explain(err, what,
			need{"VM.Clone", fmt.Sprintf("/vms/%d", src.vmid)}, need{"VM.Allocate", path}, need{"Datastore.AllocateSpace", "/storage/" + storage})
	}
	if !detour {
		return id, nil
	}
	what = fmt.Sprintf("move the disk of guest %d to storage %s of node %s", id, s.root.id, s.node)
	p := pve.MoveVMDiskParams{Node: s.node, VMID: id, Disk: virtioSlot(slotSystem), Storage: new(s.root.id), Delete: new(true)}
	if fileBased(s.root.kind) {
		p.Format = new(formatQcow2)
	}
	err = perform(ctx, c, c.pve.MoveVMDisk, p)
	return id, c.explain(err, what, need{"VM.Config.Disk", fmt.Sprintf("/vms/%d", id)}, need{"Datastore.AllocateSpace", "/storage/" + s.root.id})
}
