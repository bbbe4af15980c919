package cpi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve"
)

// A Finding is something on the cluster that looks like the CPI's and that no CPI
// call would find or keep: left by a call that was killed, or changed by hand.
type Finding struct {
	// VMID is that of a guest, or 0.
	VMID VMID
	Node string
	// Name is the guest's name, or a volume.
	Name string
	// Since is when it was made, zero when that is unknown.
	Since time.Time
	// Problem says what is wrong, and Advice what can be done about it.
	Problem string
	Advice  string
}

func (f Finding) String() string {
	what := f.Name
	if f.VMID != 0 {
		what = fmt.Sprintf("guest %d (%s)", f.VMID, f.Name)
	}
	since := ""
	if !f.Since.IsZero() {
		since = fmt.Sprintf(", made %s (%s ago),", f.Since.Format(time.DateTime), time.Since(f.Since).Round(time.Minute))
	}
	return fmt.Sprintf("%s on node %s%s %s: %s", what, f.Node, since, f.Problem, f.Advice)
}

// Audit looks for what calls have left that nobody will miss, for VMs and disks
// that no Director seems to know, and for disks that have lost their protection.
// It changes nothing: whether a guest without its tags
// is being made at this moment or was forgotten, people can tell.
func (c *CPI) Audit(ctx context.Context) ([]Finding, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	v, err := c.look(ctx)
	if err != nil {
		return nil, err
	}
	var out []Finding
	for _, g := range v.guests {
		f, err := c.auditGuest(ctx, g)
		if err != nil {
			return nil, err
		}
		out = append(out, f...)
	}
	files, err := c.auditUploads(ctx, v)
	if err != nil {
		return nil, err
	}
	out = append(out, files...)
	slices.SortStableFunc(out, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.VMID, b.VMID), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

// auditGuest judges one guest.
func (c *CPI) auditGuest(ctx context.Context, g guest) ([]Finding, error) {
	finding := func(problem, advice string) []Finding {
		return []Finding{{VMID: g.vmid, Node: g.node, Name: g.name, Problem: problem, Advice: advice}}
	}
	const forgotten = "if no CPI call is making it now, it was left by one that was killed: destroy it"
	switch cid := vmCIDOf(g.tags); {
	case hasTags(g.tags, tagVM) && cid != "":
		if !strings.HasPrefix(cid, fmt.Sprintf("%s%d-", vmPrefix, g.vmid)) {
			return finding("is a copy of VM "+cid, "remove its tags, or it will be in the way of the disks of that VM"), nil
		}
		if slices.ContainsFunc(g.tags, func(t string) bool { return !isOwnershipTag(t) }) {
			// Those come from the Director's metadata, or the operator knows it.
			return nil, nil
		}
		return c.auditUnknown(ctx, g, "vms")
	case hasTags(g.tags, tagDisk):
		return c.auditHolder(ctx, g)
	case hasTags(g.tags, tagStemcell):
		if !hasTags(g.tags, templateTag(g.vmid)) {
			return finding("has the tags of a stemcell's template and is none", forgotten), nil
		}
		return nil, nil
	}
	if parseDiskCID(rpc.DiskCID(g.name)) == nil {
		return finding("has the name of a disk and not its tags", forgotten+", or a call of has_disk for "+g.name+" puts them back"), nil
	}
	token, isVM := strings.CutPrefix(g.name, "bosh-")
	isStemcell := strings.HasPrefix(g.name, stemcellPrefix)
	if isVM && isToken(token, vmTokenLength) || isStemcell {
		return finding("has a name that the CPI gives and none of its tags", forgotten), nil
	}
	return nil, nil
}

// unknownAfter is how old something must be for the lack of metadata to mean that
// no Director knows it: metadata follow the making within seconds, or minutes for
// disks.
const unknownAfter = time.Hour

func (c *CPI) auditUnknown(ctx context.Context, g guest, list string) ([]Finding, error) {
	conf, err := c.config(ctx, g)
	if errors.Is(err, pve.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, c.explain(err, fmt.Sprintf("look at %s", g), need{"VM.Audit", fmt.Sprintf("/vms/%d", g.vmid)})
	}
	return unknown(g, conf, list), nil
}

// unknown finds what is complete and has no Director's metadata.
func unknown(g guest, conf *guestConfig, list string) []Finding {
	if known(conf) || conf.created.IsZero() || time.Since(conf.created) < unknownAfter {
		return nil
	}
	return []Finding{{
		VMID: g.vmid, Node: g.node, Name: conf.name, Since: conf.created, Problem: "has no Director's metadata",
		Advice: "if no Director lists it (bosh " + list + "), nobody knows it: remove it",
	}}
}

// auditHolder judges the holder of a disk.
func (c *CPI) auditHolder(ctx context.Context, g guest) ([]Finding, error) {
	conf, err := c.config(ctx, g)
	if errors.Is(err, pve.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, c.explain(err, fmt.Sprintf("look at %s", g), need{"VM.Audit", fmt.Sprintf("/vms/%d", g.vmid)})
	}
	f := Finding{VMID: g.vmid, Node: g.node, Name: conf.name, Since: conf.created}
	switch _, there := conf.drive(holderSlot); {
	case conf.returning() != "":
		f.Problem = "waits for its volume " + conf.returning()
		f.Advice = "detach the disk from the VM that has the volume, or delete that VM, once more"
	case !there:
		f.Problem, f.Advice = "holds a disk and has no volume", "delete the disk when BOSH does not use it"
	case !conf.template || !conf.protection:
		f.Problem = "holds a disk and can be started or removed by mistake"
		f.Advice = "set its options template and protection"
	default:
		return unknown(g, conf, "disks"), nil
	}
	return []Finding{f}, nil
}

// auditUploads looks for settings of VMs that are gone, and for images that were
// not removed after their import.
func (c *CPI) auditUploads(ctx context.Context, v *view) ([]Finding, error) {
	tokens := map[string]bool{}
	for _, g := range v.tagged(tagVM) {
		if cid, err := parseVMCID(rpc.VMCID(vmCIDOf(g.tags))); err == nil {
			tokens[isoName(cid.Token)] = true
		}
	}
	var out []Finding
	done := map[string]bool{}
	for _, m := range v.nodes {
		iso, hasISO := c.isoStore(v, m.name)
		image, hasImage := c.importStore(v, m.name)
		for _, s := range []struct {
			store   store
			ok      bool
			content string
		}{{iso, hasISO, "iso"}, {image, hasImage, "import"}} {
			key := s.store.id + "/" + s.content
			if !m.online || !s.ok || done[key] {
				continue
			}
			done[key] = s.store.shared
			list, err := call(ctx, c, c.pve.ListVolumes, pve.ListVolumesParams{Node: m.name, Storage: s.store.id, Content: new(s.content)})
			if err != nil {
				return nil, c.explain(err, fmt.Sprintf("list storage %s of node %s", s.store.id, m.name), need{"Datastore.Audit", "/storage/" + s.store.id})
			}
			for _, row := range list {
				name := row.VolID[strings.LastIndexByte(row.VolID, '/')+1:]
				f := Finding{Node: m.name, Name: row.VolID}
				if row.CTime != nil {
					f.Since = time.Unix(*row.CTime, 0).UTC()
				}
				token, isSettings := strings.CutPrefix(strings.TrimSuffix(name, ".iso"), "bosh-")
				switch {
				case s.content == "iso" && isSettings && isToken(token, vmTokenLength) && !tokens[name]:
					f.Problem, f.Advice = "holds the agent settings of a VM that is not there", "if no CPI call is making the VM now, remove it"
				case s.content == "import" && strings.HasPrefix(name, stemcellPrefix):
					f.Problem, f.Advice = "is the image of a stemcell", "if no CPI call is making the stemcell now, remove it"
				default:
					continue
				}
				out = append(out, f)
			}
		}
	}
	return out, nil
}
