package cpitest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// verify compares the cluster with the model: everything in the model is there
// as it was asked for, and nothing else has appeared or changed since the base
// observation.
func (s *session) verify(ctx context.Context, o *observation) []string {
	var problems []string
	note := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for _, x := range s.model.stemcells {
		for id := range x.guests {
			switch g := o.guests[id]; {
			case g == nil:
				note("%s: guest %d, which is the stemcell, is gone", x, id)
			case g.Running:
				note("%s: %s runs", x, g)
			}
		}
		for key := range x.volumes {
			if o.volumes[key] == nil {
				note("%s: volume %s is gone", x, key)
			}
		}
	}
	for _, d := range s.model.disks {
		for _, err := range s.verifyDisk(o, d) {
			note("%s: %v", d, err)
		}
	}
	for _, v := range s.model.vms {
		for _, err := range s.verifyVM(ctx, o, v) {
			note("%s: %v", v, err)
		}
	}
	problems = append(problems, s.verifyRest(o)...)
	return problems
}

// verifyRest finds what nothing in the model explains, and what has happened to
// the things of others.
func (s *session) verifyRest(o *observation) []string {
	var problems []string
	note := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for _, g := range o.sortedGuests() {
		old := s.base.guests[g.VMID]
		switch {
		case s.model.guestOwner(g.VMID) != nil:
		case old == nil:
			note("%s belongs to nothing that the CPI has named: left behind", g)
		case old.fingerprint() != g.fingerprint():
			note("%s is not the CPI's, but has changed: %s", g, firstChange(old.fingerprint(), g.fingerprint()))
		}
	}
	for _, v := range o.sortedVolumes() {
		old := s.base.volumes[v.key()]
		switch {
		case s.model.volumeOwner(v.key()) != nil:
		case old == nil && s.model.guestOwner(v.vmid) != nil && v.content == "images":
			note("volume %s of %s belongs to nothing that the CPI has named: left behind", v.key(), s.model.guestOwner(v.vmid))
		case old == nil:
			note("volume %s belongs to nothing that the CPI has named: left behind", v.key())
		case old.fingerprint() != v.fingerprint():
			note("volume %s is not the CPI's, but has changed", v.key())
		}
	}
	for _, g := range s.base.sortedGuests() {
		if o.guests[g.VMID] == nil {
			note("%s is not the CPI's, but is gone", g)
		}
	}
	for _, v := range s.base.sortedVolumes() {
		if o.volumes[v.key()] == nil {
			note("volume %s is not the CPI's, but is gone", v.key())
		}
	}
	macs := map[string]*guest{}
	for _, g := range o.sortedGuests() {
		for _, mac := range g.macs() {
			if other := macs[mac]; other != nil && mac != "" {
				note("%s and %s have the same MAC address %s", other, g, mac)
			}
			macs[mac] = g
		}
	}
	return problems
}

func (s *session) verifyDisk(o *observation, d *disk) []error {
	var errs []error
	note := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for id := range d.guests {
		switch g := o.guests[id]; {
		case g == nil:
			note("guest %d, which holds it, is gone", id)
		case g.Running:
			note("%s, which holds it, runs", g)
		default:
			errs = append(errs, tells(g, d.labels, d.former)...)
		}
	}
	for key := range d.volumes {
		v := o.volumes[key]
		if v == nil {
			note("volume %s is gone", key)
			continue
		}
		if !d.fits(v.size) {
			note("should have %d MiB, but volume %s has %d", d.size, key, v.size>>20)
		}
		for _, g := range o.users(key) {
			if !d.guests[g.VMID] && (d.on == nil || g.VMID != d.on.guest) {
				note("should not be attached to %s, which has it as %s", g, g.on(o, key)[0].slot)
			}
		}
	}
	return errs
}

func (s *session) verifyVM(ctx context.Context, o *observation, v *vm) []error {
	g := o.guests[v.guest]
	switch {
	case g == nil && v.lost:
		return nil
	case g == nil:
		return []error{fmt.Errorf("guest %d is gone", v.guest)}
	}
	var errs []error
	note := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch {
	case g.Template:
		note("%s is a template", g)
	case g.Running && v.off:
		note("%s runs, but was stopped", g)
	case !g.Running && !v.off:
		note("%s does not run", g)
	}
	if want := v.order.cpu; want > 0 && g.cpus() != want {
		note("has %d CPUs, not %d", g.cpus(), want)
	}
	if want := v.order.ram; want > 0 && g.memory() != want {
		note("has %d MiB of memory, not %d", g.memory(), want)
	}
	nics := 0
	for _, n := range v.order.networks {
		if n["type"] != "vip" {
			nics++
		}
	}
	macs := g.macs()
	if len(macs) != nics || slices.Contains(macs, "") {
		note("has %d NICs with the addresses %q, not one for each of %d networks", len(macs), macs, nics)
	}
	if want := s.opts.Bridge; want != "" && slices.ContainsFunc(g.bridges(), func(b string) bool { return b != want }) {
		note("is plugged into %q, not into %s", g.bridges(), want)
	}
	for key := range v.volumes {
		if o.volumes[key] == nil {
			note("volume %s is gone", key)
		}
	}
	errs = append(errs, s.verifyDrives(o, v, g)...)
	errs = append(errs, tells(g, v.labels, v.former)...)
	if v.keepTag != "" && !slices.Contains(g.Tags, v.keepTag) {
		note("lost the tag %s that an operator has given it", v.keepTag)
	}
	if err := s.verifySettings(ctx, o, v, g); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// verifyDrives checks that each drive of a VM is its own or an attached disk's,
// that each attached disk is there once, and that nothing waits for a restart.
func (s *session) verifyDrives(o *observation, v *vm, g *guest) []error {
	var errs []error
	note := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, d := range g.drives {
		if d.volume == "none" || d.volume == "" {
			continue
		}
		key := o.volumeKey(g, d.volume)
		disk, persistent := s.model.volumeOwner(key).(*disk)
		switch {
		case d.unused() && persistent:
			note("still has %s as %s: it would go with the VM", disk, d.slot)
		case d.unused():
			note("has a stray %s (%s)", d.slot, d.volume)
		case persistent && disk.on != v:
			note("has %s as %s, but should not", disk, d.slot)
		case o.volumes[key] == nil:
			note("refers to %s as %s, which does not exist", d.volume, d.slot)
		case !persistent && !v.volumes[key]:
			note("refers to %s as %s, which is not its own", d.volume, d.slot)
		}
	}
	for _, d := range s.model.attached(v) {
		var on []drive
		for key := range d.volumes {
			on = append(on, g.on(o, key)...)
		}
		switch {
		case len(on) == 0:
			note("should have %s attached, but no drive refers to it: %s", d, g.describeDrives())
		case len(on) > 1:
			note("has %s attached twice, as %s and %s", d, on[0].slot, on[1].slot)
		case d.hint.text != "":
			if err := g.checkHint(d, on[0]); err != nil {
				note("%s: %w", d, err)
			}
		}
	}
	if g.Running {
		now := drives(g.current)
		for _, d := range g.drives {
			if !d.unused() && !slices.ContainsFunc(now, func(x drive) bool { return x.slot == d.slot && x.volume == d.volume }) {
				note("has %s only after its next restart: the running guest did not take it", d.slot)
			}
		}
		for _, d := range now {
			if !slices.ContainsFunc(g.drives, func(x drive) bool { return x.slot == d.slot }) {
				note("keeps %s until its next restart: the running guest did not let go of it", d.slot)
			}
		}
	}
	return errs
}

// verifySettings reads the VM's CD and compares what the agent will make of it
// with what was asked for and with the guest.
func (s *session) verifySettings(ctx context.Context, o *observation, v *vm, g *guest) error {
	var cds []drive
	for _, d := range g.drives {
		if strings.Contains(d.volume, "cloudinit") {
			return fmt.Errorf("has Proxmox's own cloud-init drive as %s, which cannot carry the agent's settings", d.slot)
		}
		if d.cdrom() && d.volume != "none" {
			cds = append(cds, d)
		}
	}
	if len(cds) != 1 {
		return fmt.Errorf("has %d CDs, not one with the agent's settings: %s", len(cds), g.describeDrives())
	}
	cd := o.volumes[o.volumeKey(g, cds[0].volume)]
	if cd == nil || cd.content != "iso" {
		return fmt.Errorf("the CD %s does not exist", cds[0].volume)
	}
	if s.opts.Cluster.ReadVolume == nil {
		return nil
	}
	image, err := s.opts.Cluster.ReadVolume(ctx, cd.id)
	if err != nil {
		return fmt.Errorf("the CD %s cannot be read: %w", cd.id, err)
	}
	data, err := agentDisc(image)
	if err != nil {
		return fmt.Errorf("%s: %w", cd.id, err)
	}
	c, err := parseSettings(data)
	if err != nil {
		return err
	}
	return s.compareSettings(o, v, g, c)
}

func (s *session) compareSettings(o *observation, v *vm, g *guest, c *agentConfig) error {
	if c.agentID != v.order.agent {
		return fmt.Errorf("the agent's settings are for agent %q, not %q", c.agentID, v.order.agent)
	}
	if err := c.checkNetworks(v.order.networks, g.macs()); err != nil {
		return err
	}
	env, err := json.Marshal(v.order.env)
	if err != nil {
		return err
	}
	if !sameJSON(env, c.env) {
		return errors.New("the env in the agent's settings is not the one that the Director sent: it must be passed on untouched")
	}
	system, err := g.resolve(c.system)
	if err != nil {
		return fmt.Errorf("disks.system: %w", err)
	}
	if boot := g.config["boot"]; strings.Contains(boot, "order=") && !strings.Contains(boot, system.slot) {
		return fmt.Errorf("disks.system leads to %s, but the guest boots from %q", system.slot, boot)
	}
	root := o.volumes[o.volumeKey(g, system.volume)]
	switch {
	case root == nil || !v.volumes[root.key()]:
		return fmt.Errorf("disks.system leads to %s, whose volume is not the VM's own", system.slot)
	case c.ephemeral == "":
		// The agent then uses what is free on the root disk.
		if need := v.order.ephemeral; need > 0 && root.size < need<<20 {
			return fmt.Errorf("there is no ephemeral disk, and the root disk of %d MiB has no room for the %d MiB asked for", root.size>>20, need)
		}
	default:
		d, err := g.resolve(c.ephemeral)
		if err != nil {
			return fmt.Errorf("disks.ephemeral: %w", err)
		}
		vol := o.volumes[o.volumeKey(g, d.volume)]
		switch {
		case vol == nil || !v.volumes[vol.key()] || vol == root:
			return fmt.Errorf("disks.ephemeral leads to %s, which is not an ephemeral disk of the VM's own", d.slot)
		case v.order.ephemeral > 0 && vol.size < v.order.ephemeral<<20:
			return fmt.Errorf("the ephemeral disk has %d MiB, not %d", vol.size>>20, v.order.ephemeral)
		}
	}
	for cid, path := range c.persistent {
		i := slices.IndexFunc(s.model.disks, func(d *disk) bool { return d.cid == cid && d.on == v })
		if i < 0 {
			// The agent waits half a minute for each of them at every start.
			continue
		}
		if _, err := g.agentFinds(cid, hint{path: path}); err != nil {
			return fmt.Errorf("disks.persistent: %w", err)
		}
	}
	return nil
}

// tells checks that labels can be read off a guest, in its description, its name
// or its tags, and that those they have replaced cannot.
func tells(g *guest, labels map[string]string, former []string) []error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if !g.says(labels[key]) {
			errs = append(errs, fmt.Errorf("the metadata %s=%q stands neither in the tags nor in the description of %s", key, labels[key], g))
		}
	}
	for _, value := range former {
		if g.says(value) {
			errs = append(errs, fmt.Errorf("the metadata %q was replaced, but %s still has it", value, g))
		}
	}
	return errs
}

func (g *guest) says(value string) bool {
	quoted, _ := json.Marshal(value)
	for _, text := range []string{g.config["description"], g.Name} {
		if strings.Contains(text, value) || strings.Contains(text, strings.Trim(string(quoted), `"`)) {
			return true
		}
	}
	plain := strings.Map(func(c rune) rune {
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || strings.ContainsRune("_.+-", c) {
			return c
		}
		return '-'
	}, strings.ToLower(value))
	return slices.ContainsFunc(g.Tags, func(t string) bool { return strings.Contains(t, plain) })
}

// gone reports whether err says that something does not exist.
func gone(err error) bool {
	var e *apiError
	return errors.As(err, &e) && (e.status == http.StatusNotFound || strings.Contains(e.text, "does not exist"))
}
