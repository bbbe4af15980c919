package cpitest

import (
	"net/url"
	"slices"
	"strings"
)

// playNewVM is a new instance with a persistent disk, and every question that can
// be asked about it.
func playNewVM(p *play) {
	p.step("create_vm and its metadata, as the Director does for a new instance")
	o := p.order()
	o.networks["public"] = p.manual(p.instances, "public")
	v := p.createVM(p.stemcell(), o)
	labels := p.vmLabels(v, "red")
	p.setVMMetadata(v, labels)
	if v.labels != nil {
		p.repeat("set_vm_metadata", nil, v.cid, labels)
	}

	p.step("a disk")
	d := p.createDisk(2048, v, nil)
	p.mount(v, d)
	p.attachAgain(v, d)
	if d.labels != nil {
		p.repeat("set_disk_metadata", nil, d.cid, d.labels)
	}

	p.step("questions change nothing")
	p.hasVM(v, true)
	p.hasDisk(d, true)
	p.getDisks(v, d)

	p.step("other metadata replaces the old, an operator's tag stays")
	g := p.seen.guests[v.guest]
	tags := append(slices.Clone(g.Tags), "cpitest-operator")
	if err := p.api.setConfig(p.ctx, g, url.Values{"tags": {strings.Join(tags, ";")}}); err != nil {
		p.fail("the suite cannot tag %s: %v", g, err)
	}
	v.keepTag = "cpitest-operator"
	p.look(nil)
	p.setVMMetadata(v, p.vmLabels(v, "blue"))
	p.setDiskMetadata(d, p.diskLabels("2026-12-02T00:00:00Z"))

	p.step("tear down")
	p.detach(v, d)
	p.getDisks(v)
	p.deleteVM(v)
	p.hasVM(v, false)
	p.repeat("delete_vm", []string{vmNotFound}, v.cid)
	p.deleteDisk(d)
	p.hasDisk(d, false)
	p.repeat("delete_disk", []string{diskNotFound}, d.cid)
}

// getDisks compares get_disks with what is attached.
func (p *play) getDisks(v *vm, want ...*disk) {
	raw, ok := p.optional("get_disks", p.unchanged("get_disks", v.cid))
	if !ok {
		return
	}
	got, err := resultList(raw)
	if err != nil {
		p.fail("%v", err)
	}
	expected := cids(want)
	slices.Sort(got)
	slices.Sort(expected)
	if !slices.Equal(got, expected) {
		p.fail("the disks of %s are %q, not %q", v, expected, got)
	}
}

// playRecreate replaces a VM with a disk, the two ways that the Director has.
func playRecreate(p *play) {
	p.step("an instance with a disk")
	v := p.newVM(p.stemcell())
	d := p.createDisk(2048, v, nil)
	p.mount(v, d)
	p.step("recreate, the agent answers")
	p.detach(v, d)
	p.deleteVM(v)
	v = p.newVM(p.stemcell(), d)
	p.mount(v, d)
	p.step("recreate, the agent is silent: the disk is still attached when the VM is deleted")
	p.deleteVM(v)
	p.hasDisk(d, true)
	v = p.newVM(p.stemcell(), d)
	p.mount(v, d)
	p.step("the old VM is deleted once more")
	p.deleteVM(v)
	p.repeat("delete_vm", []string{vmNotFound}, v.cid)
	p.hasDisk(d, true)
	p.deleteDisk(d)
}

// playHotswap has two VMs of one instance at once.
func playHotswap(p *play) {
	p.step("an instance with a disk")
	old := p.newVM(p.stemcell())
	d := p.createDisk(2048, old, nil)
	p.mount(old, d)
	p.step("the new VM, early")
	v := p.newVM(p.stemcell(), d)
	p.step("the disk moves")
	p.detach(old, d)
	p.mount(v, d)
	p.step("the old VM is orphaned, a later task deletes it")
	p.deleteVM(old)
	p.hasVM(old, false)
	p.hasVM(v, true)
	p.getDisks(v, d)
	p.step("tear down")
	p.detach(v, d)
	p.deleteVM(v)
	p.deleteDisk(d)
}

// playStopHard deletes the VM and keeps the disk for the next start.
func playStopHard(p *play) {
	p.step("an instance with a disk")
	v := p.newVM(p.stemcell())
	d := p.createDisk(2048, v, nil)
	p.mount(v, d)
	p.step("stop --hard")
	p.detach(v, d)
	p.deleteVM(v)
	p.hasDisk(d, true)
	p.step("start")
	v = p.newVM(p.stemcell(), d)
	p.mount(v, d)
	p.step("tear down")
	p.detach(v, d)
	p.deleteVM(v)
	p.deleteDisk(d)
}

// playDeleteDeployment deletes VMs with their disks attached. The disks are
// orphans then, and are deleted by a task that tries again for ever when the
// answer is anything but success or DiskNotFound.
func playDeleteDeployment(p *play) {
	p.step("two instances with disks")
	var vms []*vm
	var disks []*disk
	for range 2 {
		v := p.newVM(p.stemcell())
		d := p.createDisk(1024, v, nil)
		p.mount(v, d)
		vms, disks = append(vms, v), append(disks, d)
	}
	p.step("delete the deployment")
	for _, v := range vms {
		p.deleteVM(v)
	}
	p.step("clean up the orphaned disks, days later")
	for _, d := range disks {
		p.hasDisk(d, true)
		p.deleteDisk(d)
	}
	p.step("and again half an hour later")
	for _, d := range disks {
		p.repeat("delete_disk", []string{diskNotFound}, d.cid)
		p.hasDisk(d, false)
	}
}

// playCloudCheck is the scan of cck and its repairs.
func playCloudCheck(p *play) {
	p.step("an instance with a disk")
	v := p.newVM(p.stemcell())
	d := p.createDisk(2048, v, nil)
	p.mount(v, d)

	p.step("scan")
	p.hasVM(v, true)
	p.hasDisk(d, true)

	p.step("attach what is attached already")
	p.attachAgain(v, d)

	p.step("reboot")
	p.reboot(v)
	p.step("reboot a VM that is off")
	if err := p.api.power(p.ctx, p.seen.guests[v.guest], "stop"); err != nil {
		p.fail("the suite cannot stop %s: %v", v, err)
	}
	v.off = true
	p.look(nil)
	p.hasVM(v, true)
	v.off = false
	p.must("reboot_vm", p.ask("reboot_vm", v.cid))
	p.look(nil)
	p.attachAgain(v, d)

	p.step("a disk that is attached, but should not be")
	p.detach(v, d)
	r := p.ask("detach_disk", v.cid, d.cid)
	if r.err != nil && r.err.Type != diskNotAttached {
		p.problem("detach_disk of a disk that is not attached: the error is %s, not %s", r.err.Type, diskNotAttached)
	}
	p.look(nil)
	p.step("a disk that should be attached, but is not")
	p.mount(v, d)

	p.step("the VM vanishes by itself")
	p.detach(v, d)
	if err := p.remove(p.ctx, p.seen.guests[v.guest]); err != nil {
		p.fail("the suite cannot destroy %s: %v", v, err)
	}
	// Whoever destroys the guest leaves its CD.
	for key := range v.volumes {
		if vol := p.seen.volumes[key]; vol == nil || vol.content != "iso" {
			delete(v.volumes, key)
		}
	}
	v.lost = true
	p.look(nil)
	p.hasVM(v, false)
	p.hasDisk(d, true)
	p.step("recreate the missing VM")
	r = p.ask("delete_vm", v.cid)
	if r.err != nil && r.err.Type != vmNotFound {
		p.fail("delete_vm of a VM that is gone: %s", r.err.Error())
	}
	p.model.dropVM(v)
	p.look(nil)
	v = p.newVM(p.stemcell(), d)
	p.mount(v, d)

	p.step("tear down")
	p.deleteVM(v)
	p.deleteDisk(d)
}

// playNodeOff turns off the node that a VM is on. What nobody can know is an error:
// a wrong "no" makes the Director build a twin, a wrong "done" forgets the VM.
func playNodeOff(p *play) {
	if p.opts.Cluster.Switch == nil {
		p.leave("the options have nothing to turn a node off with")
	}
	p.step("an instance with a disk")
	v := p.newVM(p.stemcell())
	d := p.createDisk(1024, v, nil)
	p.mount(v, d)

	p.step("its node is off")
	node := p.seen.guests[v.guest].Node
	turn := func(on bool) {
		if err := p.opts.Cluster.Switch(node, on); err != nil {
			p.fail("the suite cannot turn node %s off and on: %v", node, err)
		}
	}
	turn(false)
	defer turn(true)
	for _, q := range []struct{ method, cid string }{{"has_vm", v.cid}, {"has_disk", d.cid}} {
		r := p.ask(q.method, q.cid)
		if r.err != nil {
			continue
		}
		if there, err := resultBool(r.result); err != nil || !there {
			p.fail("the answer is %s for %s on node %s, which is off: what cannot be known is an error", brief(r.result), q.cid, node)
		}
	}
	r := p.ask("delete_vm", v.cid)
	if r.err == nil || r.err.Type == vmNotFound {
		p.fail("delete_vm says that %s is gone, but nobody can know: its node %s is off", v, node)
	}
	p.step("a new VM finds another node or none")
	o := p.order()
	r = p.ask("create_vm", o.agent, p.stemcell().cid, o.properties, o.networks, []string{}, o.env)

	p.step("the node is back, and all is as it was")
	turn(true)
	if r.err == nil {
		next := p.adoptVM(p.vmOf(o, r), p.stemcell(), o)
		if at := p.seen.guests[next.guest].Node; at == node {
			p.problem("%s was made on node %s, which was off", next, at)
		}
		p.deleteVM(next)
	}
	p.look(nil)
	p.hasVM(v, true)
	p.hasDisk(d, true)
	p.step("tear down")
	p.deleteVM(v)
	p.deleteDisk(d)
}

// reboot restarts a VM that runs, and looks for the traces.
func (p *play) reboot(v *vm) {
	g := p.seen.guests[v.guest]
	before, err := p.api.tasks(p.ctx, g.Node, g.VMID)
	if err != nil {
		p.fail("the suite cannot list tasks: %v", err)
	}
	p.must("reboot_vm", p.ask("reboot_vm", v.cid))
	p.look(nil)
	after, err := p.api.tasks(p.ctx, p.seen.guests[v.guest].Node, g.VMID)
	if err != nil {
		p.fail("the suite cannot list tasks: %v", err)
	}
	var kinds []string
	for _, t := range after {
		if kind, _, _ := strings.Cut(t, " "); !slices.Contains(before, t) {
			kinds = append(kinds, kind)
		}
	}
	if !slices.Contains(kinds, "qmreboot") && !slices.Contains(kinds, "qmreset") && !slices.Contains(kinds, "qmstart") {
		p.fail("%s was not restarted: the cluster has seen only the tasks %q since", v, kinds)
	}
}
