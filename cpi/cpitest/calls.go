package cpitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/proxkit/proxkit/internal/testimage"
)

// What the suite asks for when it may choose. The sizes are odd enough not to be
// anybody's default.
const (
	wantCPU       = 2
	wantRAM       = 1536 // MiB
	wantEphemeral = 3072 // MiB
	imageSize     = 1 << 30
)

// stemcell returns the stemcell that scenarios share.
func (p *play) stemcell() *stemcell {
	if p.stock == nil {
		p.stock = p.createStemcell(0)
	}
	return p.stock
}

// image writes the file "image" of stemcell n and returns its path, as the
// Director does: in a directory that it removes when the call is over.
func (p *play) image(n int) (path string, properties map[string]any, remove func()) {
	if len(p.opts.Stemcells) > 0 {
		s := p.opts.Stemcells[n]
		return s.Image, s.CloudProperties, func() {}
	}
	dir, err := os.MkdirTemp(p.dir, "stemcell-")
	if err != nil {
		p.fail("%v", err)
	}
	// No two runs have the same image.
	text := fmt.Sprintf("%s stemcell %d\n", p.report.Run, n)
	content := append(testimage.BootSector(imageSize), bytes.Repeat([]byte(text), 5000)...)
	path = filepath.Join(dir, "image")
	if err := os.WriteFile(path, testimage.Archive(testimage.QCOW2(imageSize, content, 0)), 0o600); err != nil {
		p.fail("%v", err)
	}
	return path, map[string]any{
		"name": "bosh-openstack-kvm-cpitest", "version": fmt.Sprintf("%d.0", n+1), "infrastructure": "openstack", "hypervisor": "kvm",
		"disk": imageSize >> 20, "disk_format": "qcow2", "container_format": "bare", "os_type": "linux", "os_distro": "ubuntu",
		"architecture": "x86_64", "auto_disk_config": true,
	}, func() { _ = os.RemoveAll(dir) }
}

// askStemcell makes the call alone.
func (p *play) askStemcell(n int) string {
	path, properties, remove := p.image(n)
	defer remove()
	arguments := []any{path, properties}
	if !p.cli && p.about.APIVersion >= 3 {
		arguments = append(arguments, map[string]any{"tags": map[string]any{"run": p.report.Run}})
	}
	cid, err := resultCID(p.must("create_stemcell", p.ask("create_stemcell", arguments...)))
	if err != nil {
		p.fail("%v", err)
	}
	return cid
}

func (p *play) createStemcell(n int) *stemcell {
	s := &stemcell{cid: p.askStemcell(n), holdings: newHoldings(), director: p.director}
	p.look(func(c *change) error {
		err := p.model.claimStemcell(c, s)
		p.model.stemcells = append(p.model.stemcells, s)
		return err
	})
	return s
}

func (p *play) deleteStemcell(s *stemcell) {
	p.must("delete_stemcell", p.ask("delete_stemcell", s.cid))
	p.model.dropStemcell(s)
	p.look(nil)
}

// order is a VM to ask for, with an address of its own.
func (p *play) order() order {
	p.findCloudProperties()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.instances++
	n := p.instances
	o := order{
		agent: fmt.Sprintf("%s-agent-%d", p.report.Run, n), properties: p.cloud,
		networks: map[string]map[string]any{"private": p.manual(n, "private")}, env: p.env(n),
	}
	if p.sized {
		o.cpu, o.ram, o.ephemeral = wantCPU, wantRAM, wantEphemeral
	}
	return o
}

// manual is a network whose address is in a range that is nobody's.
func (p *play) manual(n int, name string) map[string]any {
	subnet := map[string]string{"private": "192.0.2", "public": "198.51.100"}[name]
	network := map[string]any{
		"type": "manual", "ip": fmt.Sprintf("%s.%d", subnet, 10+n%240), "netmask": "255.255.255.0", "gateway": subnet + ".1",
		"dns": []string{subnet + ".2", subnet + ".3"}, "cloud_properties": orEmpty(p.opts.NetworkProperties),
	}
	if name == "private" {
		network["default"] = []string{"dns", "gateway"}
	}
	return network
}

func orEmpty(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

// env is what the Director or the command line gives the agent, with things in it
// that nobody but the agent knows.
func (p *play) env(n int) map[string]any {
	bosh := map[string]any{
		"password":                 p.secrets["env.bosh.password"],
		"keep_root_password":       false,
		"group":                    p.report.Run + "-web",
		"groups":                   []string{p.report.Run, "web", p.report.Run + "-web"},
		"tags":                     map[string]any{"run": p.report.Run, "n": n},
		"unheard_of":               map[string]any{"deep": []any{p.secrets["env.deep"], 1, nil, true, 0.5, "ü"}},
		"authorized_keys":          []string{},
		"agent":                    map[string]any{"settings": map[string]any{"tmpfs": false}},
		"ipv6":                     map[string]any{"enable": false},
		"persistent_disk_mount_as": nil,
	}
	if !p.cli {
		bosh["mbus"] = map[string]any{
			"urls": []string{"nats://nats:" + strings.ReplaceAll(p.secrets["env.bosh.mbus.urls"], "/", "%2F") + "@10.0.0.6:4222"},
			"cert": map[string]any{"ca": "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n", "certificate": "", "private_key": p.secrets["env.bosh.mbus.cert.private_key"]},
		}
		bosh["blobstores"] = []any{map[string]any{"provider": "dav", "options": map[string]any{"endpoint": "http://10.0.0.6:25250", "user": "agent", "password": p.secrets["env.bosh.blobstores"]}}}
		bosh["ntp"] = []string{"0.pool.example.org"}
	}
	return map[string]any{"bosh": bosh, "persistent_disk_fs": "ext4"}
}

// findCloudProperties asks the CPI once what a VM of the suite's size is to it.
func (p *play) findCloudProperties() {
	if p.cloud != nil {
		return
	}
	r := p.unchanged("calculate_vm_cloud_properties", map[string]any{"ram": wantRAM, "cpu": wantCPU, "ephemeral_disk_size": wantEphemeral})
	cloud := map[string]any{}
	raw, ok := p.optional("calculate_vm_cloud_properties", r)
	if ok {
		var err error
		if cloud, err = resultObject(raw); err != nil {
			p.fail("%v", err)
		}
	}
	maps.Copy(cloud, p.opts.VMProperties)
	p.cloud, p.sized = cloud, ok
}

// askVM makes the call alone.
func (p *play) askVM(from *stemcell, o order, disks ...*disk) string {
	return p.vmOf(o, p.ask("create_vm", o.agent, from.cid, o.properties, o.networks, cids(disks), o.env))
}

func (p *play) vmOf(o order, r *reply) string {
	cid, networks, err := resultVM(p.must("create_vm", r))
	if err != nil {
		p.fail("%v", err)
	}
	var names map[string]json.RawMessage
	if err := json.Unmarshal(networks, &names); err != nil {
		p.fail("the networks: %v", err)
	}
	for name := range o.networks {
		if names[name] == nil {
			p.problem("the answer lacks the network %q of the request", name)
		}
	}
	return cid
}

func cids(disks []*disk) []string {
	out := []string{}
	for _, d := range disks {
		out = append(out, d.cid)
	}
	return out
}

// createVM makes a VM. The disks are those that will be attached to it.
func (p *play) createVM(from *stemcell, o order, disks ...*disk) *vm {
	return p.adoptVM(p.askVM(from, o, disks...), from, o)
}

// adoptVM takes a VM that was just made into the model.
func (p *play) adoptVM(cid string, from *stemcell, o order) *vm {
	v := &vm{cid: cid, order: o, holdings: newHoldings()}
	for _, x := range p.model.vms {
		if x.cid == v.cid {
			p.fail("the CPI gave the identifier %s to two VMs", v.cid)
		}
	}
	p.look(func(c *change) error {
		if err := p.model.claimVM(c, v, from, theOnly); err != nil {
			return err
		}
		p.model.vms = append(p.model.vms, v)
		return nil
	})
	return v
}

// vmLabels are the metadata that the Director sets on a VM.
func (p *play) vmLabels(v *vm, team string) map[string]string {
	return map[string]string{
		"director": p.director, "deployment": "cpitest-deployment", "id": strings.TrimPrefix(v.order.agent, markPrefix), "job": "cpitest-job",
		"instance_group": "cpitest-group", "index": "0", "name": "cpitest-job/" + v.order.agent,
		"created_at": "2026-12-01T00:00:00Z", "team": "cpitest-" + team, "quote": "Ünïcode & spaces of " + team,
	}
}

func (p *play) setVMMetadata(v *vm, labels map[string]string) {
	if _, ok := p.optional("set_vm_metadata", p.ask("set_vm_metadata", v.cid, labels)); !ok {
		return
	}
	v.former, v.labels = replaced(v.labels, labels), labels
	p.look(nil)
}

// replaced lists the values that are no longer true.
func replaced(old, now map[string]string) []string {
	var out []string
	for key, value := range old {
		if now[key] != value && strings.HasPrefix(value, "cpitest-") {
			out = append(out, value)
		}
	}
	return out
}

func (p *play) deleteVM(v *vm) {
	p.must("delete_vm", p.ask("delete_vm", v.cid))
	p.model.dropVM(v)
	p.look(nil)
}

func (p *play) hasVM(v *vm, want bool) {
	got, err := resultBool(p.must("has_vm", p.unchanged("has_vm", v.cid)))
	switch {
	case err != nil:
		p.fail("%v", err)
	case got != want:
		p.fail("the answer is %t for %s, which %s", got, v, map[bool]string{true: "exists", false: "does not exist"}[want])
	}
}

func (p *play) hasDisk(d *disk, want bool) {
	got, err := resultBool(p.must("has_disk", p.unchanged("has_disk", d.cid)))
	switch {
	case err != nil:
		p.fail("%v", err)
	case got != want:
		p.fail("the answer is %t for %s, which %s", got, d, map[bool]string{true: "exists", false: "does not exist"}[want])
	}
}

// askDisk makes the call alone.
func (p *play) askDisk(size int64, v *vm, more map[string]any) string {
	properties := maps.Clone(orEmpty(p.opts.DiskProperties))
	maps.Copy(properties, more)
	cid, err := resultCID(p.must("create_disk", p.ask("create_disk", size, properties, v.cid)))
	if err != nil {
		p.fail("%v", err)
	}
	return cid
}

func (p *play) createDisk(size int64, v *vm, more map[string]any) *disk {
	d := &disk{cid: p.askDisk(size, v, more), size: size, holdings: newHoldings()}
	for _, x := range p.model.disks {
		if x.cid == d.cid {
			p.fail("the CPI gave the identifier %s to two disks", d.cid)
		}
	}
	p.look(func(c *change) error {
		err := p.model.claimDisk(c, d)
		p.model.disks = append(p.model.disks, d)
		return err
	})
	return d
}

func (p *play) deleteDisk(d *disk) {
	p.must("delete_disk", p.ask("delete_disk", d.cid))
	p.model.dropDisk(d)
	p.look(nil)
}

// askAttach makes the call alone.
func (p *play) askAttach(v *vm, d *disk) hint {
	h, err := resultHint(p.must("attach_disk", p.ask("attach_disk", v.cid, d.cid)))
	if err != nil {
		p.fail("%v", err)
	}
	return h
}

func (p *play) attach(v *vm, d *disk) {
	h := p.askAttach(v, d)
	d.on, d.hint = v, h
	p.look(nil)
}

// attachAgain attaches a disk that is attached already: the hint must be the one
// that the agent has.
func (p *play) attachAgain(v *vm, d *disk) {
	for range p.opts.Repeats {
		h, err := resultHint(p.must("attach_disk", p.unchanged("attach_disk", v.cid, d.cid)))
		if err != nil {
			p.fail("%v", err)
		}
		if h.text != d.hint.text {
			p.fail("%s is attached to %s already, but the hint is %s now and was %s before", d, v, h.text, d.hint.text)
		}
	}
}

func (p *play) detach(v *vm, d *disk) {
	p.must("detach_disk", p.ask("detach_disk", v.cid, d.cid))
	d.on, d.hint = nil, hint{}
	p.look(nil)
}

func (p *play) diskLabels(attached string) map[string]string {
	return map[string]string{
		"director": p.director, "deployment": "cpitest-deployment", "instance_id": "0f0c", "instance_index": "0",
		"instance_group": "cpitest-group", "attached_at": attached, "team": "cpitest-" + attached,
	}
}

func (p *play) setDiskMetadata(d *disk, labels map[string]string) {
	if _, ok := p.optional("set_disk_metadata", p.ask("set_disk_metadata", d.cid, labels)); !ok {
		return
	}
	d.former, d.labels = replaced(d.labels, labels), labels
	p.look(nil)
}

// mount is what follows when a disk is to be used: attach_disk and its metadata.
func (p *play) mount(v *vm, d *disk) {
	p.attach(v, d)
	p.setDiskMetadata(d, p.diskLabels("2026-12-01T00:00:00Z"))
}

// newVM is what the Director does for a new instance: create_vm and its metadata.
func (p *play) newVM(from *stemcell, disks ...*disk) *vm {
	v := p.createVM(from, p.order(), disks...)
	p.setVMMetadata(v, p.vmLabels(v, "red"))
	return v
}
