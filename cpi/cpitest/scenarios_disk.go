package cpitest

import "slices"

// playResizeCopy is how the Director makes a disk bigger by itself.
func playResizeCopy(p *play) {
	p.step("an instance with a disk")
	v := p.newVM(p.stemcell())
	d := p.createDisk(1024, v, nil)
	p.mount(v, d)
	p.step("the bigger disk beside the old one")
	bigger := p.createDisk(3072, v, nil)
	p.mount(v, bigger)
	p.getDisks(v, d, bigger)
	p.attachAgain(v, d)
	p.attachAgain(v, bigger)
	p.step("the old one goes")
	p.detach(v, d)
	p.getDisks(v, bigger)
	p.step("and is deleted days later")
	p.deleteDisk(d)
	p.step("tear down")
	p.deleteVM(v)
	p.deleteDisk(bigger)
}

// playResizeDisk lets the CPI make a disk bigger.
func playResizeDisk(p *play) {
	p.step("an instance with a disk")
	v := p.newVM(p.stemcell())
	d := p.createDisk(1024, v, nil)
	p.mount(v, d)
	p.step("resize")
	p.detach(v, d)
	// It grows by the answer's time, so the model must know before it looks.
	r := p.ask("resize_disk", d.cid, 3072)
	implemented := r.err == nil || r.err.Type != notImplemented && r.err.Type != notSupported
	if implemented {
		p.must("resize_disk", r)
		d.size = 3072
		p.look(nil)
		p.repeat("resize_disk", nil, d.cid, 3072)
		p.step("a disk never shrinks")
		r := p.ask("resize_disk", d.cid, 1024)
		if r.err != nil && r.err.Type != notSupported && r.err.Type != notImplemented && r.err.Type != cloudError {
			p.problem("resize_disk to less: the error is %s, not %s", r.err.Type, notSupported)
		}
		p.look(nil)
	} else {
		p.optional("resize_disk", r)
	}
	p.step("use it")
	p.mount(v, d)
	p.step("tear down")
	p.deleteVM(v)
	p.deleteDisk(d)
	if !implemented {
		p.leave("the CPI does not resize disks: %s", r.err.Message)
	}
}

// playUpdateDisk lets the CPI change a disk, which may have another identifier
// afterwards.
func playUpdateDisk(p *play) {
	p.step("an instance with a disk")
	v := p.newVM(p.stemcell())
	d := p.createDisk(1024, v, nil)
	p.mount(v, d)
	p.step("update")
	p.detach(v, d)
	r := p.ask("update_disk", d.cid, 2048, orEmpty(p.opts.DiskProperties))
	implemented := r.err == nil || r.err.Type != notImplemented && r.err.Type != notSupported
	if implemented {
		raw := p.must("update_disk", r)
		d.size = 2048
		if kindOf(raw) != kindNull {
			cid, err := resultCID(raw)
			if err != nil {
				p.fail("%v", err)
			}
			if cid != d.cid {
				next := &disk{cid: cid, size: 2048, holdings: newHoldings()}
				p.model.dropDisk(d)
				p.look(func(c *change) error {
					p.model.disks = append(p.model.disks, next)
					return p.model.claimDisk(c, next)
				})
				d = next
			}
		}
		p.look(nil)
	} else {
		p.optional("update_disk", r)
	}
	p.step("use it")
	p.mount(v, d)
	p.step("tear down")
	p.deleteVM(v)
	p.deleteDisk(d)
	if !implemented {
		p.leave("the CPI does not update disks: %s", r.err.Message)
	}
}

// playDynamicDisks gives disks to a running VM and takes them away, by a name
// that the Director gives them in their properties.
func playDynamicDisks(p *play) {
	p.step("an instance")
	v := p.newVM(p.stemcell())
	var disks []*disk
	for _, name := range []string{"cpitest-data-1", "cpitest-data-2"} {
		p.step("provide " + name)
		d := p.createDisk(1024, v, map[string]any{"name": name})
		p.mount(v, d)
		disks = append(disks, d)
	}
	p.getDisks(v, disks...)
	for _, d := range disks {
		p.step("detach and delete " + d.cid)
		p.detach(v, d)
		p.hasDisk(d, true)
		p.deleteDisk(d)
		p.hasDisk(d, false)
	}
	p.step("tear down")
	p.deleteVM(v)
}

// playSnapshots takes a snapshot of an attached disk and deletes it.
func playSnapshots(p *play) {
	p.step("an instance with a disk")
	v := p.newVM(p.stemcell())
	d := p.createDisk(1024, v, nil)
	p.mount(v, d)
	before := p.countSnapshots()
	p.step("take a snapshot of the running VM's disk")
	labels := map[string]any{
		"deployment": "cpitest-deployment", "job": "cpitest-job", "index": 0, "director_name": "cpitest", "director_uuid": p.director,
		"agent_id": v.order.agent, "instance_id": "0f0c",
	}
	r := p.ask("snapshot_disk", d.cid, labels)
	implemented := r.err == nil || r.err.Type != notImplemented && r.err.Type != notSupported
	if implemented {
		cid, err := resultCID(p.must("snapshot_disk", r))
		if err != nil {
			p.fail("%v", err)
		}
		p.lookAtSnapshot(d)
		if p.countSnapshots() <= before {
			p.fail("snapshot_disk says that %s exists, but the cluster has no more snapshots than before", cid)
		}
		p.attachAgain(v, d)
		p.step("delete the snapshot, twice")
		p.must("delete_snapshot", p.ask("delete_snapshot", cid))
		p.lookAtSnapshot(d)
		if n := p.countSnapshots(); n != before {
			p.fail("delete_snapshot left something: there are %d snapshots, %d before", n, before)
		}
		p.repeat("delete_snapshot", []string{diskNotFound}, cid)
	} else {
		p.optional("snapshot_disk", r)
	}
	p.step("tear down")
	p.deleteVM(v)
	p.deleteDisk(d)
	if !implemented {
		p.leave("the CPI takes no snapshots: %s", r.err.Message)
	}
}

// lookAtSnapshot looks at the cluster when volumes that hold a snapshot may have
// come or gone: they are the disk's.
func (p *play) lookAtSnapshot(d *disk) {
	p.look(func(c *change) error {
		for _, v := range c.unclaimedVolumes(&p.model) {
			d.volumes[v.key()] = true
		}
		for _, v := range c.goneVolumes {
			delete(d.volumes, v.key())
		}
		return nil
	})
}

// countSnapshots counts the snapshots of all guests, and volumes beyond the
// disks' own.
func (p *play) countSnapshots() int {
	n := 0
	for _, g := range p.seen.sortedGuests() {
		if p.model.guestOwner(g.VMID) == nil {
			continue
		}
		k, err := p.api.snapshots(p.ctx, g)
		if err != nil {
			p.fail("the suite cannot list snapshots: %v", err)
		}
		n += k
	}
	for _, d := range p.model.disks {
		n += len(d.volumes) - 1
	}
	return n
}

// playRefusals asks for what cannot be done. The error has a class that the
// Director can act on, and nothing changes.
func playRefusals(p *play) {
	p.step("two instances and a disk")
	a, b := p.newVM(p.stemcell()), p.newVM(p.stemcell())
	d := p.createDisk(1024, a, nil)
	p.mount(a, d)

	quietly := func(what, method string, classes []string, arguments ...any) {
		p.refused(what, p.unchanged(method, arguments...), classes...)
	}
	p.step("identifiers that are blank, malformed or of something else")
	for _, cid := range []string{"", " ", "no-such-thing", a.cid} {
		quietly("delete_stemcell of "+quoted(cid), "delete_stemcell", nil, cid)
	}
	for _, cid := range []string{"", " ", d.cid} {
		quietly("delete_vm of "+quoted(cid), "delete_vm", nil, cid)
		quietly("attach_disk to "+quoted(cid), "attach_disk", nil, cid, d.cid)
	}
	for _, cid := range []string{"", " ", a.cid} {
		quietly("delete_disk of "+quoted(cid), "delete_disk", nil, cid)
	}
	p.step("a disk that is attached")
	quietly("delete_disk of a disk that is attached", "delete_disk", nil, d.cid)
	quietly("attach_disk of a disk that another VM has", "attach_disk", nil, b.cid, d.cid)
	quietly("detach_disk from a VM that does not have the disk", "detach_disk", []string{diskNotAttached}, b.cid, d.cid)
	p.step("sizes that make no sense")
	for _, size := range []int{0, -1024} {
		quietly("create_disk of no size", "create_disk", nil, size, orEmpty(p.opts.DiskProperties), a.cid)
	}
	p.step("a stemcell that does not exist, a network that cannot be had")
	o := p.order()
	quietly("create_vm without a stemcell", "create_vm", nil, o.agent, "", o.properties, o.networks, []string{}, o.env)
	o.networks["floating"] = map[string]any{"type": "vip", "ip": "203.0.113.9", "cloud_properties": map[string]any{}}
	r := p.ask("create_vm", o.agent, p.stemcell().cid, o.properties, o.networks, []string{}, o.env)
	if r.err == nil {
		v := p.adoptVM(p.vmOf(o, r), p.stemcell(), o)
		p.deleteVM(v)
	} else {
		// Refused before anything is made.
		p.refused("create_vm with a floating address", r)
	}

	p.step("a VM and a disk that are gone")
	p.detach(a, d)
	p.deleteVM(a)
	p.deleteDisk(d)
	quietly("set_vm_metadata of a VM that is gone", "set_vm_metadata", []string{vmNotFound, notImplemented}, a.cid, p.vmLabels(a, "red"))
	quietly("reboot_vm of a VM that is gone", "reboot_vm", []string{vmNotFound}, a.cid)
	quietly("attach_disk of a disk that is gone", "attach_disk", []string{diskNotFound}, b.cid, d.cid)
	quietly("create_vm for a disk that is gone", "create_vm", []string{diskNotFound, cloudError, vmCreationFail},
		o.agent, p.stemcell().cid, o.properties, map[string]any{"private": o.networks["private"]}, []string{d.cid}, o.env)
	p.hasVM(a, false)
	p.hasDisk(d, false)
	p.step("tear down")
	p.deleteVM(b)
}

func quoted(cid string) string {
	if slices.Contains([]string{"", " "}, cid) {
		return "a blank identifier"
	}
	return cid
}
