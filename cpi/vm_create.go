package cpi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve"
)

// An order is a VM to be made, with everything decided that does not depend on
// the node.
type order struct {
	req       rpc.CreateVMRequest
	props     VMProperties
	token     string
	nics      []nic
	networks  rpc.Networks
	iso       []byte
	templates []template
	homes     []diskHome
}

// CreateVM implements [rpc.VMManager]. The persistent disks of the request bind
// the VM to where they can be used; attaching them is a call of its own, because
// they may still be attached to the VM that this one replaces.
func (c *CPI) CreateVM(ctx context.Context, req rpc.CreateVMRequest) (rpc.VMCID, rpc.Networks, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	o, err := c.newOrder(req)
	if err != nil {
		return "", nil, badInput(err)
	}
	c.sweep(ctx)
	v, err := c.look(ctx)
	if err != nil {
		return "", nil, creationFailed(err)
	}
	if err := c.prepare(ctx, v, o); err != nil {
		return "", nil, err
	}
	places, refused, err := c.planPlaces(v, o.props, o.templates, o.homes)
	if err == nil && len(places) == 0 && c.ascertain(ctx, v) {
		places, refused, err = c.planPlaces(v, o.props, o.templates, o.homes)
	}
	if err != nil {
		return "", nil, err
	}
	for _, r := range refused {
		c.log.Printf("%s", r)
	}
	places = c.freshFirst(req.AgentID, places)
	for _, pl := range places {
		cid, err := c.createAt(ctx, v, o, pl)
		if err == nil {
			c.forgetTries(req.AgentID)
			return rpc.VMCID(cid.String()), o.networks, nil
		}
		if !nodeFault(err) || isTaskError(err) || strings.Contains(err.Error(), leftBehindText) {
			return "", nil, c.creationError(err, c.rememberTry(req.AgentID, pl, places))
		}
		r := refusal{name: pl.node, reason: reasonOf(err), passes: !errors.Is(err, errRefusedNode)}
		c.log.Printf("%s", r)
		refused = append(refused, r)
	}
	return "", nil, noPlace(refused)
}

// noPlace says why no node can take a VM. A node that is down or short of memory
// may be back for the next try, a missing bridge will not; a full storage has a
// class of its own.
func noPlace(refused []refusal) error {
	slices.SortStableFunc(refused, func(a, b refusal) int { return strings.Compare(a.name, b.name) })
	if allFull(refused) {
		return rpc.NoDiskSpace("no node has the space for the VM's disks: %s", joinRefusals(refused))
	}
	return rpc.VMCreationFailed("no node can take the VM: %s", joinRefusals(refused)).OKToRetry(merged(refused).passes)
}

// creationFailed gives an error of create_vm the class by which the Director
// tries again, when trying again may help.
func creationFailed(err error) error {
	if e, ok := errors.AsType[*rpc.Error](err); ok && e.Class() == rpc.ClassCloudError && e.Retryable() {
		return rpc.VMCreationFailed("%w", err).OKToRetry(true)
	}
	return err
}

// creationError is the outcome of create_vm when a node was tried in earnest.
func (c *CPI) creationError(err error, untried bool) error {
	err = c.explain(err, "")
	e := rpc.ErrorOf(err)
	switch e.Class() {
	case rpc.ClassNoDiskSpace, rpc.ClassNotSupported, rpc.ClassNotImplemented, rpc.ClassCpiError:
		return err
	}
	if errors.Is(err, pve.ErrPermission) || errors.Is(err, pve.ErrAuthentication) {
		return err
	}
	// The retry comes with the same arguments: it helps when another node is left,
	// or when what was in the way passes by itself.
	passes := errors.Is(err, pve.ErrNoQuorum) || errors.Is(err, pve.ErrLocked) || errors.Is(err, pve.ErrWorkerStart)
	return rpc.VMCreationFailed("%w", err).OKToRetry((untried && !sameEverywhere(err) || passes) && !strings.Contains(err.Error(), leftBehindText))
}

// sameEverywhere reports whether err would come from every node alike: arguments
// that PVE does not take, no VMID left, or somebody who ended the call.
func sameEverywhere(err error) bool {
	return errors.Is(err, pve.ErrInvalidParameter) && !isTaskError(err) || errors.Is(err, context.Canceled) ||
		strings.Contains(err.Error(), "unable to get any free VMID")
}

// reasonOf says in a few words what is wrong with a node.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, errRefusedNode):
		return strings.TrimPrefix(err.Error(), errRefusedNode.Error()+": ")
	case errors.Is(err, pve.ErrNodeUnreachable):
		return "unreachable: " + err.Error()
	}
	return err.Error()
}

// newOrder reads the request, and finds whatever can be wrong without asking the
// cluster.
func (c *CPI) newOrder(req rpc.CreateVMRequest) (*order, error) {
	if err := parseStemcellCID(req.Stemcell); err != nil {
		return nil, err
	}
	if most := slotLast - slotPersistent + 1; len(req.Disks) > most {
		return nil, rpc.CloudError("the VM is to have %d persistent disks, at most %d are possible", len(req.Disks), most)
	}
	for i, d := range req.Disks {
		if err := parseDiskCID(d); err != nil {
			return nil, err
		}
		if slices.Contains(req.Disks[:i], d) {
			return nil, rpc.CloudError("disk %s is named twice", d)
		}
	}
	if len(req.Networks) == 0 {
		return nil, rpc.CloudError("no network is given: a VM needs at least one, or nothing can reach its agent")
	}
	props, warnings, err := ParseVMProperties(req.CloudProperties, &c.cfg)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		c.log.Printf("warning: %s", w)
	}
	c.log.Printf("%s", props)
	o := &order{req: req, props: props, token: newVMToken()}
	if o.nics, o.networks, err = planNICs(req.Networks, &c.cfg, c.newMAC); err != nil {
		return nil, err
	}
	settings, err := agentSettings(agentInput{
		AgentID: req.AgentID, VMName: vmName(o.token), Networks: o.networks,
		Ephemeral: props.EphemeralDisk.Size > 0, Env: req.Env, Config: c.cfg.Agent,
	})
	if err != nil {
		return nil, err
	}
	o.iso, err = configDrive(settings, vmName(o.token))
	return o, err
}

// prepare finds the stemcell's templates and the homes of the disks.
func (c *CPI) prepare(ctx context.Context, v *view, o *order) error {
	cid := o.req.Stemcell
	o.templates = v.templates(cid)
	if len(o.templates) == 0 {
		if err := c.proveGone(ctx, v, "stemcell "+string(cid)); err != nil {
			return creationFailed(err)
		}
		return rpc.CloudError("the stemcell %s is not on this cluster: upload it again with bosh upload-stemcell --fix", cid)
	}
	for _, t := range o.templates {
		if want := o.props.RootDisk.Size; want > 0 && want < t.size {
			return rpc.CloudError("%s: must be at least the %d MiB of the stemcell's disk, got %d: make it larger or leave it out", keyPlace(placeProperties, "root_disk.size"), t.size, want)
		}
	}
	for _, d := range o.req.Disks {
		holder, _, err := c.needDisk(ctx, v, d)
		if err != nil {
			return creationFailed(err)
		}
		h := diskHome{cid: d, storage: v.storageOf(holder.tags)}
		if s, ok := v.storeOf(h.storage); ok && !s.shared {
			h.node = holder.node
		}
		o.homes = append(o.homes, h)
	}
	return nil
}

// createAt makes the VM on one node. When the template is removed at that moment,
// by a call that found it to be a second one, the other is used.
func (c *CPI) createAt(ctx context.Context, v *view, o *order, pl place) (vmCID, error) {
	for try := 0; ; try++ {
		cid, err := c.tryAt(ctx, v, o, pl)
		if !errors.Is(err, errTemplateLeft) || strings.Contains(err.Error(), leftBehindText) || try == 2 {
			return cid, err
		}
		now, e := c.look(ctx)
		if e != nil {
			return cid, err
		}
		v, o.templates = now, now.templates(o.req.Stemcell)
		var ok bool
		if pl.template, pl.linked, ok = pickTemplate(v, pl.node, pl.root, o.templates); !ok {
			return cid, err
		}
		c.log.Printf("%v: trying again with %s", err, pl.template.guest)
	}
}

// tryAt makes the VM on one node. When it fails, everything it made is removed
// again, and what cannot be removed is named in the error.
func (c *CPI) tryAt(ctx context.Context, v *view, o *order, pl place) (vmCID, error) {
	// A VM with drive options and a larger root disk takes a request for each; for
	// such a one the bridges are looked at when it cannot be made.
	lookLater := o.tunesRoot() && o.growsRoot(pl)
	if !lookLater {
		if err := c.checkBridges(ctx, pl.node, o.nics); err != nil {
			return vmCID{}, err
		}
	}
	if !pl.linked && linkable(pl.root.kind) {
		t, err := c.copyTemplate(ctx, v, pl, o.req.Stemcell)
		if err != nil {
			return vmCID{}, err
		}
		pl.template, pl.linked = t, true
	}
	if !pl.linked {
		c.log.Printf("storage %s cannot make linked clones: full clone", pl.root.id)
	}
	iso, _ := c.isoStore(v, pl.node)
	isoVolume := iso.id + ":iso/" + isoName(o.token)
	promise := c.pledge(ctx, pledged{Kind: tagVM, Name: vmName(o.token), Volume: isoVolume, Node: pl.node})

	// The clone takes longest, so that the ISO is there when it ends.
	var uploaded error
	var wg sync.WaitGroup
	wg.Go(func() {
		uploaded = c.upload(ctx, pl.node, iso.id, "iso", isoName(o.token), int64(len(o.iso)),
			func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(o.iso)), nil })
	})
	id, err := c.clone(ctx, v, cloneSpec{from: pl.template, node: pl.node, root: pl.root, linked: pl.linked, name: vmName(o.token), pool: o.props.Pool, pledge: promise})
	wg.Wait()
	cid := vmCID{VMID: id, Token: o.token}
	g := guest{vmid: id, node: pl.node, name: vmName(o.token)}
	if err == nil && uploaded != nil {
		err = c.explain(uploaded, fmt.Sprintf("upload the agent's settings to storage %s on node %s", iso.id, pl.node),
			need{"Datastore.AllocateTemplate", "/storage/" + iso.id})
	}
	if err == nil {
		err = c.configure(ctx, o, pl, g, isoVolume)
	}
	if err == nil {
		err = c.launch(ctx, o, pl, g)
	}
	if err == nil {
		c.rememberNode(cid, pl.node)
		c.log.Printf("VM %s runs on node %s", cid, pl.node)
		promise.settle(nil)
		return cid, nil
	}
	undo, cancel := afterwards(ctx)
	defer cancel()
	if lookLater && id != 0 {
		if e := c.checkBridges(undo, pl.node, o.nics); errors.Is(e, errRefusedNode) {
			// PVE speaks of a privilege on the bridge then.
			c.log.Printf("%v", err)
			err = e
		}
	}
	err = c.undo(undo, err, g)
	if strings.Contains(err.Error(), leftBehindText) {
		// The guest refers to the ISO.
		err = leftBehind(err, "volume "+isoVolume)
	} else if gone := c.deleteVolume(undo, pl.node, isoVolume); gone != nil && mayHaveBegun(uploaded) {
		c.log.Printf("undo: %s: %v", isoVolume, gone)
		err = leftBehind(err, "volume "+isoVolume)
	}
	promise.settle(err)
	return vmCID{}, err
}

// checkBridges makes sure that the node has what the NICs are plugged into: PVE
// itself finds a missing bridge only when the VM starts. It is also the first
// word with the node, before anything is made.
func (c *CPI) checkBridges(ctx context.Context, node string, nics []nic) error {
	p := pve.ListNodeNetworksParams{Node: node}
	if slices.ContainsFunc(nics, func(n nic) bool { return n.VNet }) {
		// Only this list has vnets. It leaves out what the token may not use.
		p.Type = new("any_bridge")
	}
	list, err := call(ctx, c, c.pve.ListNodeNetworks, p)
	if err != nil {
		return c.explain(err, "look at node "+node)
	}
	for _, n := range nics {
		if slices.ContainsFunc(list, func(i pve.NodeNetworkListItem) bool { return i.Iface == n.Bridge }) {
			continue
		}
		if n.VNet {
			return fmt.Errorf("%w: has no vnet %s, or the API token lacks SDN.Use on it", errRefusedNode, n.Bridge)
		}
		return fmt.Errorf("%w: has no bridge %s", errRefusedNode, n.Bridge)
	}
	return nil
}

// configure gives the clone everything that makes it this VM, in one change.
func (c *CPI) configure(ctx context.Context, o *order, pl place, g guest, iso string) error {
	cid := vmCID{VMID: g.vmid, Token: o.token}
	p := pve.UpdateVMConfigParams{
		Node: g.node, VMID: g.vmid,
		Cores: new(int64(o.props.CPU)), Sockets: new(int64(1)), Balloon: new(int64(0)), OnBoot: new(o.props.StartOnBoot),
		Memory: &pve.VMMemory{Current: o.props.RAM}, CPU: &pve.VMCPU{CPUType: new(o.props.CPUType)},
		Net: map[int]pve.VMNet{}, IDE: map[int]pve.VMDisk{slotISO: {File: iso, Media: new("cdrom")}},
		Tags:        append(ownershipTags(tagVM, cid.String(), c.director), labelTags(o.props.Tags)...),
		Description: new(o.description(cid)),
	}
	var bad error
	for i, n := range o.nics {
		p.Net[i] = netDevice(n)
	}
	if size := o.props.EphemeralDisk.Size; size > 0 {
		d := newDrive(fmt.Sprintf("%s:%d", pl.ephemeral.id, gibibytes(size)), serialEphemeral, o.props.Drive, pl.ephemeral.kind)
		bad = errors.Join(bad, putAt(&p.VirtIO, slotEphemeral, d.String()))
	}
	what, path := fmt.Sprintf("configure %s", g), fmt.Sprintf("/vms/%d", g.vmid)
	if o.tunesRoot() {
		// The drive's options are written together with its volume, whose name
		// only the clone tells.
		conf, err := c.config(ctx, g)
		if err != nil {
			return c.explain(err, what, need{"VM.Audit", path})
		}
		root, ok := conf.drive(virtioSlot(slotSystem))
		if !ok {
			return rpc.CloudError("%s: the clone has no root disk: the stemcell's template is damaged, upload it again", what)
		}
		d := newDrive(root.volume, serialSystem, o.props.Drive, pl.root.kind)
		bad = errors.Join(bad, putAt(&p.VirtIO, slotSystem, d.String()))
	}
	if bad != nil {
		return rpc.CloudError("%s: %w", what, bad)
	}
	err := request(ctx, c, c.pve.UpdateVMConfig, p)
	for try := 0; unsettled(err) && try < 3; try++ {
		conf, e := c.configured(ctx, g, cid)
		if e != nil {
			return c.explain(errors.Join(err, e), what)
		}
		if hasTags(conf.tags, cid.String()) {
			return nil
		}
		// Made twice, the change would allocate the ephemeral disk twice.
		p.Digest = new(conf.digest)
		if err = request(ctx, c, c.pve.UpdateVMConfig, p); errors.Is(err, pve.ErrDigestMismatch) {
			err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
		}
	}
	return c.explain(err, what, need{"VM.Config.Disk", path}, need{"VM.Config.Options", path})
}

// configured waits a while for a change to show whose answer was lost.
func (c *CPI) configured(ctx context.Context, g guest, cid vmCID) (*guestConfig, error) {
	end := time.Now().Add(c.settleTime)
	for try := 0; ; try++ {
		conf, err := c.config(ctx, g)
		if err != nil || hasTags(conf.tags, cid.String()) || time.Now().After(end) {
			return conf, err
		}
		if err := pause(ctx, try); err != nil {
			return nil, err
		}
	}
}

// tunesRoot reports whether the root drive gets other options than the template's.
func (o *order) tunesRoot() bool { return o.props.Drive != (DriveOptions{}) }

// growsRoot reports whether the root disk is to be larger than the template's.
func (o *order) growsRoot(pl place) bool {
	return gibibytes(o.props.RootDisk.Size)<<10 > pl.template.size
}

// description says to people what the VM is until its metadata comes.
func (o *order) description(cid vmCID) string {
	n := note{Facts: map[string]string{"cid": cid.String(), "agent_id": o.req.AgentID, "stemcell": string(o.req.Stemcell)}}
	text, _ := n.describe("")
	return text
}

// launch grows the root disk where asked for, and starts the VM.
func (c *CPI) launch(ctx context.Context, o *order, pl place, g guest) error {
	path := fmt.Sprintf("/vms/%d", g.vmid)
	if o.growsRoot(pl) {
		what := fmt.Sprintf("grow the root disk of %s", g)
		p := pve.ResizeVMParams{Node: g.node, VMID: g.vmid, Disk: virtioSlot(slotSystem), Size: fmt.Sprintf("%dG", gibibytes(o.props.RootDisk.Size))}
		err := perform(ctx, c, c.pve.ResizeVM, p)
		if unsettled(err) && !isTaskError(err) {
			err = perform(ctx, c, c.pve.ResizeVM, p)
		}
		if err != nil {
			return c.explain(err, what, need{"VM.Config.Disk", path}, need{"Datastore.AllocateSpace", "/storage/" + pl.root.id})
		}
	}
	what := fmt.Sprintf("start %s", g)
	if err := c.start(ctx, g); err != nil {
		return c.explain(err, what, need{"VM.PowerMgmt", path})
	}
	return nil
}
