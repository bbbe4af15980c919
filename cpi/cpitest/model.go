package cpitest

import (
	"fmt"
	"slices"
	"strings"
)

// A model is what must exist according to the answers of the CPI. Which guests
// and volumes stand for what is learned from what appeared in the cluster while
// it was made: the suite knows nothing about a CPI's names.
type model struct {
	stemcells []*stemcell
	vms       []*vm
	disks     []*disk
}

// holdings are guests and volumes that stand for something.
type holdings struct {
	guests  map[int64]bool
	volumes map[string]bool
}

func newHoldings() holdings { return holdings{map[int64]bool{}, map[string]bool{}} }

type stemcell struct {
	cid string
	holdings
	// director is who made it, others who else asked for the same one.
	director string
}

func (s *stemcell) String() string { return "stemcell " + s.cid }

type vm struct {
	cid   string
	guest int64
	order order
	holdings
	// off says that it was stopped, lost that its guest was destroyed, both behind
	// the CPI's back.
	off, lost bool
	labels    map[string]string
	former    []string // values of labels that were replaced
	keepTag   string   // a tag that an operator has added
}

func (v *vm) String() string { return "VM " + v.cid }

type disk struct {
	cid  string
	size int64 // MiB
	holdings
	on     *vm
	hint   hint
	labels map[string]string
	former []string
}

func (d *disk) String() string { return "disk " + d.cid }

// An order is a VM as the Director asks for it.
type order struct {
	agent      string
	properties map[string]any
	// cpu, ram and ephemeral are what properties means, or 0 when that is not
	// known. Sizes are in MiB.
	cpu, ram, ephemeral int64
	networks            map[string]map[string]any
	env                 map[string]any
}

func (m *model) guestOwner(id int64) fmt.Stringer {
	for _, s := range m.stemcells {
		if s.guests[id] {
			return s
		}
	}
	for _, v := range m.vms {
		if v.guests[id] {
			return v
		}
	}
	for _, d := range m.disks {
		if d.guests[id] {
			return d
		}
	}
	return nil
}

func (m *model) volumeOwner(key string) fmt.Stringer {
	for _, s := range m.stemcells {
		if s.volumes[key] {
			return s
		}
	}
	for _, v := range m.vms {
		if v.volumes[key] {
			return v
		}
	}
	for _, d := range m.disks {
		if d.volumes[key] {
			return d
		}
	}
	return nil
}

func (m *model) attached(v *vm) []*disk {
	return slices.DeleteFunc(slices.Clone(m.disks), func(d *disk) bool { return d.on != v })
}

func (m *model) dropStemcell(s *stemcell) {
	m.stemcells = slices.DeleteFunc(m.stemcells, func(x *stemcell) bool { return x == s })
}

func (m *model) dropDisk(d *disk) {
	m.disks = slices.DeleteFunc(m.disks, func(x *disk) bool { return x == d })
}

func (m *model) dropVM(v *vm) {
	m.vms = slices.DeleteFunc(m.vms, func(x *vm) bool { return x == v })
	for _, d := range m.disks {
		if d.on == v {
			d.on, d.hint = nil, hint{}
		}
	}
}

// summary says what exists, in a line.
func (m *model) summary(o *observation) string {
	var parts []string
	switch n := len(m.stemcells); n {
	case 0:
		parts = append(parts, "no stemcell")
	case 1:
		parts = append(parts, "1 stemcell")
	default:
		parts = append(parts, fmt.Sprintf("%d stemcells", n))
	}
	if len(m.vms) == 0 {
		parts = append(parts, "no VM")
	}
	for _, v := range m.vms {
		text := v.cid
		if g := o.guests[v.guest]; g != nil && g.Running {
			text += " running on " + g.Node
		} else {
			text += " stopped"
		}
		parts = append(parts, text)
	}
	for _, d := range m.disks {
		state := "detached"
		if d.on != nil {
			state = "attached"
		}
		parts = append(parts, fmt.Sprintf("%s of %d MiB %s", d.cid, d.size, state))
	}
	const most = 5
	if len(parts) > most {
		parts = append(parts[:most], fmt.Sprintf("and %d more", len(parts)-most))
	}
	return strings.Join(parts, ", ")
}

// A change is what a call did to the cluster.
type change struct {
	before, after *observation
	newGuests     []*guest
	goneGuests    []*guest
	newVolumes    []*volume
	goneVolumes   []*volume
}

func changeBetween(before, after *observation) *change {
	c := &change{before: before, after: after}
	for _, g := range after.sortedGuests() {
		if before.guests[g.VMID] == nil {
			c.newGuests = append(c.newGuests, g)
		}
	}
	for _, g := range before.sortedGuests() {
		if after.guests[g.VMID] == nil {
			c.goneGuests = append(c.goneGuests, g)
		}
	}
	for _, v := range after.sortedVolumes() {
		if before.volumes[v.key()] == nil {
			c.newVolumes = append(c.newVolumes, v)
		}
	}
	for _, v := range before.sortedVolumes() {
		if after.volumes[v.key()] == nil {
			c.goneVolumes = append(c.goneVolumes, v)
		}
	}
	return c
}

// unclaimed lists what is new and belongs to nothing in the model yet.
func (c *change) unclaimedGuests(m *model) []*guest {
	return slices.DeleteFunc(slices.Clone(c.newGuests), func(g *guest) bool { return m.guestOwner(g.VMID) != nil })
}

func (c *change) unclaimedVolumes(m *model) []*volume {
	return slices.DeleteFunc(slices.Clone(c.newVolumes), func(v *volume) bool { return m.volumeOwner(v.key()) != nil })
}

// claimStemcell takes what create_stemcell made. Another call for the same image
// may make nothing.
func (m *model) claimStemcell(c *change, s *stemcell) error {
	template := false
	for _, g := range c.unclaimedGuests(m) {
		if g.Running {
			return fmt.Errorf("%s was made and is running: a stemcell never runs", g)
		}
		s.guests[g.VMID] = true
		template = true
	}
	for _, v := range c.unclaimedVolumes(m) {
		if template && !s.guests[v.vmid] {
			return fmt.Errorf("volume %s was left behind: the stemcell is %s", v.key(), c.newGuests[0])
		}
		s.volumes[v.key()] = true
	}
	if len(s.guests)+len(s.volumes) > 0 {
		return nil
	}
	for _, x := range m.stemcells {
		if x.cid == s.cid {
			s.holdings = x.holdings
			return nil
		}
	}
	return fmt.Errorf("create_stemcell says that %s exists, but nothing was made", s)
}

// claimVM takes what create_vm made: one guest with its volumes, and perhaps
// further templates of the stemcell.
func (m *model) claimVM(c *change, v *vm, from *stemcell, choose func([]*guest) (*guest, error)) error {
	var made []*guest
	for _, g := range c.unclaimedGuests(m) {
		if g.Template && !g.Running {
			from.guests[g.VMID] = true
		} else {
			made = append(made, g)
		}
	}
	if len(made) == 0 {
		return fmt.Errorf("create_vm says that %s exists, but no guest was made", v)
	}
	g, err := choose(made)
	if err != nil {
		return err
	}
	v.guest, v.guests[g.VMID] = g.VMID, true
	for _, d := range g.drives {
		key := c.after.volumeKey(g, d.volume)
		if c.after.volumes[key] != nil && m.volumeOwner(key) == nil && c.before.volumes[key] == nil {
			v.volumes[key] = true
		}
	}
	for _, x := range c.unclaimedVolumes(m) {
		switch {
		case from.guests[x.vmid]:
			from.volumes[x.key()] = true
		case x.vmid == g.VMID && !v.volumes[x.key()]:
			return fmt.Errorf("volume %s was made for %s, but no drive of the guest refers to it", x.key(), v)
		}
	}
	return nil
}

// theOnly is for calls that are made one at a time.
func theOnly(made []*guest) (*guest, error) {
	if len(made) > 1 {
		return nil, fmt.Errorf("create_vm made %d guests, %s and %s among them", len(made), made[0], made[1])
	}
	return made[0], nil
}

// claimDisk takes what create_disk made: a volume of the right size, and perhaps
// a guest that holds it.
func (m *model) claimDisk(c *change, d *disk) error {
	var wrong []*volume
	for _, v := range c.unclaimedVolumes(m) {
		if v.content != "images" {
			continue
		}
		if !d.fits(v.size) {
			wrong = append(wrong, v)
			continue
		}
		if len(d.volumes) > 0 {
			return fmt.Errorf("create_disk made more than one volume for %s", d)
		}
		d.volumes[v.key()] = true
		if g := c.after.guests[v.vmid]; g != nil && c.before.guests[v.vmid] == nil {
			d.guests[g.VMID] = true
		}
	}
	switch {
	case len(d.volumes) == 0 && len(wrong) > 0:
		return fmt.Errorf("create_disk was asked for %d MiB and made %s of %d MiB", d.size, wrong[0].key(), wrong[0].size>>20)
	case len(d.volumes) == 0:
		return fmt.Errorf("create_disk says that %s exists, but no volume was made", d)
	case len(wrong) > 0:
		return fmt.Errorf("create_disk made another volume besides the disk: %s of %d MiB", wrong[0].key(), wrong[0].size>>20)
	}
	return nil
}

// fits reports whether a volume is as large as was asked for. Proxmox allocates
// whole GiB.
func (d *disk) fits(bytes int64) bool {
	return bytes >= d.size<<20 && bytes < d.size<<20+1<<30
}

// rebind follows disks whose volume got another name while it was attached or
// detached, as happens when a CPI hands the volume from guest to guest.
func (m *model) rebind(c *change) {
	for _, d := range m.disks {
		for _, old := range c.goneVolumes {
			if !d.volumes[old.key()] {
				continue
			}
			var next []*volume
			for _, v := range c.unclaimedVolumes(m) {
				if v.content == "images" && v.size == old.size {
					next = append(next, v)
				}
			}
			if len(next) == 1 {
				delete(d.volumes, old.key())
				d.volumes[next[0].key()] = true
			}
		}
	}
}
