package cpitest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// playParallel makes many calls at once, each of them in a process of its own, as
// a deployment of several instances does.
func playParallel(p *play) {
	n := p.opts.Parallel
	from := p.stemcell()
	orders := make([]order, n)
	for i := range n {
		orders[i] = p.order()
	}
	vms, disks := make([]*vm, n), make([]*disk, n)

	p.step(fmt.Sprintf("%d create_vm at once", n))
	names := make([]string, n)
	p.parallel(n, func(i int) { names[i] = p.askVM(from, orders[i]) })
	p.look(func(c *change) error {
		for i, cid := range names {
			if slices.Contains(names[:i], cid) {
				return fmt.Errorf("the CPI gave the identifier %s to two VMs", cid)
			}
			vms[i] = &vm{cid: cid, order: orders[i], holdings: newHoldings()}
			err := p.model.claimVM(c, vms[i], from, func(made []*guest) (*guest, error) { return p.guestOf(p.ctx, c.after, vms[i], made) })
			if err != nil {
				return err
			}
			p.model.vms = append(p.model.vms, vms[i])
		}
		return nil
	})

	p.step("metadata and disks at once")
	p.parallel(n, func(i int) {
		labels := p.vmLabels(vms[i], "red")
		if _, ok := p.quietOptional("set_vm_metadata", p.ask("set_vm_metadata", vms[i].cid, labels)); ok {
			vms[i].labels = labels
		}
		// Each has a size of its own, by which it is known again.
		size := int64(i+1) << 10
		disks[i] = &disk{cid: p.askDisk(size, vms[i], nil), size: size, holdings: newHoldings()}
	})
	p.look(func(c *change) error { return p.claimDisks(c, disks) })

	p.step("attach at once")
	p.parallel(n, func(i int) { disks[i].hint = p.askAttach(vms[i], disks[i]) })
	for i := range n {
		disks[i].on = vms[i]
	}
	p.look(nil)

	p.step("two disks for one VM at once, and one disk for two VMs")
	a := p.createDisk(1024, vms[0], nil)
	b := p.createDisk(1024, vms[0], nil)
	p.parallel(2, func(i int) {
		d := []*disk{a, b}[i]
		d.hint = p.askAttach(vms[0], d)
	})
	a.on, b.on = vms[0], vms[0]
	p.look(nil)
	p.parallel(2, func(i int) { p.must("detach_disk", p.ask("detach_disk", vms[0].cid, []*disk{a, b}[i].cid)) })
	a.on, b.on = nil, nil
	p.look(nil)
	p.contend(vms[0], vms[1], a)

	p.step("has_vm and has_disk at once")
	p.parallel(2*n, func(i int) {
		method, cid := "has_vm", vms[i/2].cid
		if i%2 == 1 {
			method, cid = "has_disk", disks[i/2].cid
		}
		if there, err := resultBool(p.must(method, p.ask(method, cid))); err != nil || !there {
			p.fail("%s of %s: the answer is not true: %v", method, cid, err)
		}
	})
	p.look(nil)

	p.step("delete_vm at once")
	p.parallel(n, func(i int) { p.must("delete_vm", p.ask("delete_vm", vms[i].cid)) })
	for _, v := range vms {
		p.model.dropVM(v)
	}
	p.look(nil)
	p.step("delete_disk at once")
	disks = append(disks, a, b)
	p.parallel(len(disks), func(i int) { p.must("delete_disk", p.ask("delete_disk", disks[i].cid)) })
	for _, d := range disks {
		p.model.dropDisk(d)
	}
	p.look(nil)
	p.sameStemcellAtOnce()
}

// quietOptional is optional without a look at the cluster.
func (p *play) quietOptional(method string, r *reply) ([]byte, bool) {
	if r.err != nil && (r.err.Type == notImplemented || r.err.Type == notSupported) {
		p.rep.skip(fmt.Sprintf("%s: the CPI answers %s: %s", method, r.err.Type, r.err.Message))
		return nil, false
	}
	return p.must(method, r), true
}

// guestOf finds the guest of a VM among several that were made at once: by the
// agent that its CD is for, else by what its configuration says.
func (s *session) guestOf(ctx context.Context, o *observation, v *vm, made []*guest) (*guest, error) {
	for _, g := range made {
		if strings.Contains(g.fingerprint(), v.order.agent) || slices.Contains(g.Tags, strings.ToLower(v.cid)) {
			return g, nil
		}
		if s.opts.Cluster.ReadVolume == nil {
			continue
		}
		for _, d := range g.drives {
			if !d.cdrom() || o.volumes[o.volumeKey(g, d.volume)] == nil {
				continue
			}
			image, err := s.opts.Cluster.ReadVolume(ctx, d.volume)
			if err != nil {
				return nil, fmt.Errorf("the CD %s cannot be read: %w", d.volume, err)
			}
			data, err := agentDisc(image)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", d.volume, err)
			}
			if c, err := parseSettings(data); err == nil && c.agentID == v.order.agent {
				return g, nil
			}
		}
	}
	return nil, fmt.Errorf("%s: none of the %d guests that were made is for agent %q", v, len(made), v.order.agent)
}

// claimDisks takes disks that were made at once, which differ in size.
func (p *play) claimDisks(c *change, disks []*disk) error {
	for i, d := range disks {
		if slices.ContainsFunc(disks[:i], func(x *disk) bool { return x.cid == d.cid }) {
			return fmt.Errorf("the CPI gave the identifier %s to two disks", d.cid)
		}
		for _, v := range c.unclaimedVolumes(&p.model) {
			if v.content != "images" || !d.fits(v.size) {
				continue
			}
			d.volumes[v.key()] = true
			if g := c.after.guests[v.vmid]; g != nil && c.before.guests[v.vmid] == nil {
				d.guests[g.VMID] = true
			}
			break
		}
		if len(d.volumes) == 0 {
			return fmt.Errorf("create_disk says that %s exists, but there is no volume of %d MiB", d, d.size)
		}
		p.model.disks = append(p.model.disks, d)
	}
	return nil
}

// contend lets two VMs have the same disk at once: at most one of them may get
// it.
func (p *play) contend(a, b *vm, d *disk) {
	vms := []*vm{a, b}
	replies := make([]*reply, 2)
	p.parallel(2, func(i int) { replies[i] = p.ask("attach_disk", vms[i].cid, d.cid) })
	var winners []*vm
	for i, r := range replies {
		if r.err != nil {
			continue
		}
		h, err := resultHint(r.result)
		if err != nil {
			p.fail("%v", err)
		}
		winners = append(winners, vms[i])
		d.hint = h
	}
	if len(winners) == 2 {
		p.fail("%s was attached to %s and %s at the same moment, and both calls succeeded: two VMs write to one disk", d, a, b)
	}
	if len(winners) == 1 {
		d.on = winners[0]
	}
	p.look(nil)
	if d.on != nil {
		p.detach(d.on, d)
	}
}

// sameStemcellAtOnce uploads one image several times at the same moment.
func (p *play) sameStemcellAtOnce() {
	p.step("the same stemcell uploaded three times at once")
	names := make([]string, 3)
	p.parallel(len(names), func(i int) { names[i] = p.askStemcell(1) })
	all := newHoldings()
	var made []*stemcell
	p.look(func(c *change) error {
		for _, g := range c.unclaimedGuests(&p.model) {
			all.guests[g.VMID] = true
		}
		for _, v := range c.unclaimedVolumes(&p.model) {
			if !all.guests[v.vmid] && len(all.guests) > 0 {
				return fmt.Errorf("volume %s was left behind", v.key())
			}
			all.volumes[v.key()] = true
		}
		for i, cid := range names {
			if !slices.Contains(names[:i], cid) {
				made = append(made, &stemcell{cid: cid, holdings: all, director: p.director})
			}
		}
		p.model.stemcells = append(p.model.stemcells, made...)
		return nil
	})
	p.step("and deleted")
	for _, s := range made {
		p.must("delete_stemcell", p.ask("delete_stemcell", s.cid))
		p.model.dropStemcell(s)
	}
	p.look(nil)
}

// errTerminated is the end of a call that can still be cleaned up after.
var errTerminated = errors.New("terminated")

// playStopped ends calls in the middle: politely, and where there is a process by
// kill -9. An answer that was given all the same binds the CPI. Without one,
// something may be left, but what the Director does next must work.
func playStopped(p *play) {
	causes := []error{errTerminated}
	if m, ok := p.opts.CPI.(Mortal); ok && m.Mortal() {
		causes = append(causes, ErrKilled)
	}
	from := p.stemcell()
	p.step("how long the calls take")
	v := p.createVM(from, p.order())
	d := p.createDisk(1024, v, nil)
	p.attach(v, d)
	p.detach(v, d)
	p.deleteDisk(d)
	p.deleteVM(v)
	took := p.rep.durations()
	v = p.createVM(from, p.order())
	for _, cause := range causes {
		for _, percent := range []int{15, 45, 75} {
			after := func(method string) time.Duration { return took[method] * time.Duration(percent) / 100 }
			p.stopDisk(v, cause, percent, after)
			p.stopVM(from, cause, percent, after)
		}
		p.stopStemcell(cause)
	}
	p.step("tear down")
	p.deleteVM(v)
}

// interrupt makes a call and ends it after a while.
func (p *play) interrupt(cause error, after time.Duration, method string, arguments ...any) *reply {
	ctx, cancel := context.WithCancelCause(p.ctx)
	defer cancel(nil)
	timer := time.AfterFunc(after, func() { cancel(cause) })
	defer timer.Stop()
	r, err := p.askErr(ctx, method, arguments...)
	if err != nil && ctx.Err() == nil {
		p.fail("%v", err)
	}
	if err != nil {
		// No answer. A broken one is no answer either when the process was ended.
		r = nil
	}
	p.settle()
	return r
}

// settle waits until what a stopped call has begun in the cluster is over: until
// no task runs and nothing changes any more. On a cluster that others use there is
// always a task, so that it does not wait for long.
func (p *play) settle() {
	var last *observation
	for range 100 {
		busy, err := p.api.busy(p.ctx)
		if err != nil {
			p.fail("the suite cannot list tasks: %v", err)
		}
		now, err := p.session.look(p.ctx)
		if err != nil {
			p.fail("the cluster cannot be looked at: %v", err)
		}
		if !busy && last != nil && len(difference(last, now)) == 0 {
			return
		}
		last = now
		if err := pause(p.ctx, 20*time.Millisecond); err != nil {
			p.fail("%v", err)
		}
	}
}

// orphans looks at the cluster after a call that ended without an answer and the
// one that came next, which claim takes into the model. What is left of the
// first, and was not removed by the second, nobody but an audit can find: it is
// noted, and removed by the suite.
func (p *play) orphans(what string, claim func(c *change) error) {
	o, err := p.session.look(p.ctx)
	if err != nil {
		p.fail("the cluster cannot be looked at: %v", err)
	}
	if claim != nil {
		if err := claim(changeBetween(p.seen, o)); err != nil {
			p.fail("%v", err)
		}
	}
	var left []string
	for _, g := range changeBetween(p.seen, o).unclaimedGuests(&p.model) {
		left = append(left, g.String())
		if err := p.remove(p.ctx, g); err != nil {
			p.fail("the suite cannot remove %s: %v", g, err)
		}
	}
	if o, err = p.session.look(p.ctx); err != nil {
		p.fail("the cluster cannot be looked at: %v", err)
	}
	for _, v := range changeBetween(p.seen, o).unclaimedVolumes(&p.model) {
		left = append(left, "volume "+v.key())
		node := v.node
		if node == "" {
			node = p.someNode(p.ctx)
		}
		if err := p.api.deleteVolume(p.ctx, node, v); err != nil {
			p.fail("the suite cannot remove volume %s: %v", v.key(), err)
		}
	}
	if len(left) > 0 {
		p.rep.note(fmt.Sprintf("%s left %s", what, strings.Join(left, ", ")))
	}
	p.look(nil)
}

// stopDisk ends the calls that concern a disk, one after the other.
func (p *play) stopDisk(v *vm, cause error, percent int, after func(string) time.Duration) {
	p.step(fmt.Sprintf("disk calls %v at %d %%, and what comes next", cause, percent))
	d := &disk{size: 1024, holdings: newHoldings()}
	claim := func(c *change) error { return p.claimDisks(c, []*disk{d}) }
	r := p.interrupt(cause, after("create_disk"), "create_disk", d.size, orEmpty(p.opts.DiskProperties), v.cid)
	switch {
	case r != nil && r.err == nil:
		var err error
		if d.cid, err = resultCID(r.result); err != nil {
			p.fail("%v", err)
		}
		p.look(claim)
	case r != nil:
		// It says that it failed, so that nothing may be left.
		p.look(nil)
		d = p.createDisk(d.size, v, nil)
	default:
		d.size = 2048
		d.cid = p.askDisk(d.size, v, nil)
		p.orphans(fmt.Sprintf("create_disk, %v at %d %% without an answer,", cause, percent), claim)
	}
	p.interrupt(cause, after("attach_disk"), "attach_disk", v.cid, d.cid)
	p.attach(v, d)
	p.interrupt(cause, after("detach_disk"), "detach_disk", v.cid, d.cid)
	r = p.ask("detach_disk", v.cid, d.cid)
	if r.err != nil && r.err.Type != diskNotAttached {
		p.fail("detach_disk once more: %s", r.err.Error())
	}
	d.on, d.hint = nil, hint{}
	p.look(nil)
	p.interrupt(cause, after("delete_disk"), "delete_disk", d.cid)
	r = p.ask("delete_disk", d.cid)
	if r.err != nil && r.err.Type != diskNotFound {
		p.fail("delete_disk once more: %s", r.err.Error())
	}
	p.model.dropDisk(d)
	p.look(nil)
}

// stopVM ends create_vm, and delete_vm while a disk is attached.
func (p *play) stopVM(from *stemcell, cause error, percent int, after func(string) time.Duration) {
	p.step(fmt.Sprintf("VM calls %v at %d %%, and what comes next", cause, percent))
	o := p.order()
	r := p.interrupt(cause, after("create_vm"), "create_vm", o.agent, from.cid, o.properties, o.networks, []string{}, o.env)
	var v *vm
	switch {
	case r != nil && r.err == nil:
		v = p.adoptVM(p.vmOf(o, r), from, o)
	case r != nil:
		p.look(nil)
		v = p.createVM(from, o)
	default:
		// The Director begins anew, with the same arguments.
		v = &vm{cid: p.askVM(from, o), order: o, holdings: newHoldings()}
		p.orphans(fmt.Sprintf("create_vm, %v at %d %% without an answer,", cause, percent), func(c *change) error {
			p.model.vms = append(p.model.vms, v)
			return p.model.claimVM(c, v, from, v.latest)
		})
	}
	d := p.createDisk(1024, v, nil)
	p.attach(v, d)
	p.interrupt(cause, after("delete_vm"), "delete_vm", v.cid)
	r = p.ask("delete_vm", v.cid)
	if r.err != nil && r.err.Type != vmNotFound {
		p.fail("delete_vm once more: %s", r.err.Error())
	}
	p.model.dropVM(v)
	p.look(nil)
	p.deleteDisk(d)
}

// latest tells the guest of a VM from what an earlier call for the same agent has
// left.
func (v *vm) latest(made []*guest) (*guest, error) {
	for _, g := range made {
		if strings.Contains(strings.ToLower(g.fingerprint()), strings.ToLower(v.cid)) {
			return g, nil
		}
	}
	return made[len(made)-1], nil
}

func (p *play) stopStemcell(cause error) {
	p.step(fmt.Sprintf("create_stemcell %v, and once more", cause))
	path, properties, remove := p.image(1)
	defer remove()
	r := p.interrupt(cause, 10*time.Millisecond, "create_stemcell", path, properties)
	switch {
	case r != nil && r.err == nil:
		cid, err := resultCID(r.result)
		if err != nil {
			p.fail("%v", err)
		}
		s := &stemcell{cid: cid, holdings: newHoldings(), director: p.director}
		p.look(func(c *change) error {
			p.model.stemcells = append(p.model.stemcells, s)
			return p.model.claimStemcell(c, s)
		})
		p.deleteStemcell(s)
	case r != nil:
		p.look(nil)
		p.deleteStemcell(p.createStemcell(1))
	default:
		cid := p.askStemcell(1)
		p.must("delete_stemcell", p.ask("delete_stemcell", cid))
		p.orphans(fmt.Sprintf("create_stemcell, %v without an answer,", cause), nil)
	}
}
