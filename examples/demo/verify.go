package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kdomanski/iso9660"
)

// A model is what must exist in the cluster after the calls made so far.
type model struct {
	stemcells []string
	vms       []vm
	disks     []disk
}

type vm struct {
	cid, agent, ip string
	// tag is one that comes from the metadata.
	tag string
}

type disk struct {
	cid  string
	size int // MiB
	// on is the VM that holds it, or "".
	on, tag string
}

func (m *model) deleteStemcell(cid string) {
	m.stemcells = slices.DeleteFunc(m.stemcells, func(s string) bool { return s == cid })
}

func (m *model) deleteDisk(cid string) {
	m.disks = slices.DeleteFunc(m.disks, func(d disk) bool { return d.cid == cid })
}

func (m *model) deleteVM(cid string) {
	m.vms = slices.DeleteFunc(m.vms, func(v vm) bool { return v.cid == cid })
	for i := range m.disks {
		if m.disks[i].on == cid {
			m.disks[i].on = ""
		}
	}
}

func (m *model) attach(vm, cid string) { m.disks[m.disk(cid)].on = vm }
func (m *model) detach(cid string)     { m.disks[m.disk(cid)].on = "" }
func (m *model) disk(cid string) int {
	return slices.IndexFunc(m.disks, func(d disk) bool { return d.cid == cid })
}

// A guest is a row of the cluster's list of guests, with its configuration.
type guest struct {
	VMID     int64
	Node     string
	Name     string
	Template int
	Tags     string

	status string
	config map[string]any
}

func (g *guest) tags() []string { return strings.Split(g.Tags, ";") }

// text returns an option of the configuration.
func (g *guest) text(key string) string {
	s, _ := g.config[key].(string)
	return s
}

// A volume is a row of a storage's content.
type volume struct {
	Volid   string
	Content string
	Size    int64
	VMID    int64
}

// look lists everything in the cluster. Nothing is asked by name, so what nobody
// expects is seen too.
func look(ctx context.Context, c *cluster) (guests []*guest, volumes []volume, err error) {
	if err := c.get(ctx, "/cluster/resources?type=vm", &guests); err != nil {
		return nil, nil, err
	}
	status := map[int64]string{}
	for _, node := range c.nodes {
		var rows []struct {
			VMID   int64
			Status string
		}
		if err := c.get(ctx, "/nodes/"+node+"/qemu", &rows); err != nil {
			return nil, nil, err
		}
		for _, r := range rows {
			status[r.VMID] = r.Status
		}
	}
	if len(status) != len(guests) {
		return nil, nil, fmt.Errorf("the nodes list %d guests, the cluster %d", len(status), len(guests))
	}
	for _, g := range guests {
		g.status = status[g.VMID]
		if err := c.get(ctx, fmt.Sprintf("/nodes/%s/qemu/%d/config", g.Node, g.VMID), &g.config); err != nil {
			return nil, nil, err
		}
	}
	seen := map[string]bool{}
	for _, node := range c.nodes {
		var storages []struct{ Storage string }
		if err := c.get(ctx, "/nodes/"+node+"/storage", &storages); err != nil {
			return nil, nil, err
		}
		for _, s := range storages {
			var rows []volume
			if err := c.get(ctx, "/nodes/"+node+"/storage/"+s.Storage+"/content", &rows); err != nil {
				return nil, nil, err
			}
			for _, v := range rows {
				// A shared storage shows the same on every node.
				key := v.Volid
				if s.Storage != storageID {
					key = node + "/" + key
				}
				if !seen[key] {
					seen[key] = true
					volumes = append(volumes, v)
				}
			}
		}
	}
	return guests, volumes, nil
}

// verify compares the cluster with the model and describes what exists.
func (m *model) verify(ctx context.Context, c *cluster) (string, error) {
	guests, volumes, err := look(ctx, c)
	if err != nil {
		return "", err
	}
	if want := len(m.stemcells) + len(m.vms) + len(m.disks); len(guests) != want {
		return "", fmt.Errorf("there are %d guests, expected %d: %s", len(guests), want, describe(guests))
	}
	find := func(kind, cid string) (*guest, error) {
		var found *guest
		for _, g := range guests {
			if slices.Contains(g.tags(), cid) && slices.Contains(g.tags(), kind) {
				if found != nil {
					return nil, fmt.Errorf("guests %d and %d both claim to be %s", found.VMID, g.VMID, cid)
				}
				found = g
			}
		}
		if found == nil {
			return nil, fmt.Errorf("no guest is %s: %s", cid, describe(guests))
		}
		if !slices.Contains(found.tags(), "bosh") {
			return nil, fmt.Errorf("%s has no tag of ownership", cid)
		}
		return found, nil
	}
	var problems []error
	note := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }

	var owners []int64
	for _, cid := range m.stemcells {
		g, err := find("bosh-stemcell", cid)
		if err != nil {
			return "", err
		}
		owners = append(owners, g.VMID)
		if g.Template != 1 || g.status != "stopped" {
			note("%s is no template at rest", cid)
		}
	}
	var running []string
	isos := 0
	for _, v := range m.vms {
		g, err := find("bosh-vm", v.cid)
		if err != nil {
			return "", err
		}
		owners = append(owners, g.VMID)
		running = append(running, g.Node)
		isos++
		problems = append(problems, m.checkVM(c, v, g, volumes)...)
	}
	attached := 0
	for _, d := range m.disks {
		g, err := find("bosh-disk", d.cid)
		if err != nil {
			return "", err
		}
		owners = append(owners, g.VMID)
		if g.Template != 1 || g.status != "stopped" || g.config["protection"] != float64(1) {
			note("the holder of %s is not guarded against a start and against deletion", d.cid)
		}
		if d.tag != "" && !slices.Contains(g.tags(), d.tag) {
			note("%s lacks the tag %s", d.cid, d.tag)
		}
		var own []volume
		for _, v := range volumes {
			if v.VMID == g.VMID && v.Content == "images" {
				own = append(own, v)
			}
		}
		if len(own) != 1 || own[0].Size != int64(d.size)<<20 {
			note("%s should be one volume of %d MiB: %v", d.cid, d.size, own)
		}
		if d.on != "" {
			attached++
		}
	}
	images := 0
	for _, v := range volumes {
		switch v.Content {
		case "iso":
			isos--
		case "import":
			note("the image %s was left after it was imported", v.Volid)
		default:
			images++
			if !slices.Contains(owners, v.VMID) {
				note("volume %s belongs to nobody", v.Volid)
			}
		}
	}
	if isos != 0 {
		note("there are %d ISOs too few", isos)
	}
	// A template has one volume, a VM its root and its ephemeral disk, a disk one.
	if want := len(m.stemcells) + 2*len(m.vms) + len(m.disks); images != want {
		note("there are %d volumes, expected %d", images, want)
	}
	if err := checkPool(ctx, c, owners); err != nil {
		problems = append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return "", err
	}
	return m.summary(running, attached), nil
}

func (m *model) summary(running []string, attached int) string {
	text := "no stemcell"
	switch n := len(m.stemcells); n {
	case 0:
	case 1:
		text = "1 stemcell"
	default:
		text = fmt.Sprintf("%d stemcells", n)
	}
	for i, v := range m.vms {
		text += fmt.Sprintf(", %s running on %s", v.cid, running[i])
	}
	if len(m.vms) == 0 {
		text += ", no VM"
	}
	for _, d := range m.disks {
		state := "detached"
		if d.on != "" {
			state = "attached"
		}
		text += fmt.Sprintf(", %s of %d MiB %s", d.cid, d.size, state)
	}
	return text
}

// checkVM compares a running VM with what was asked for, down to the settings on
// its CD.
func (m *model) checkVM(c *cluster, v vm, g *guest, volumes []volume) (problems []error) {
	note := func(format string, args ...any) { problems = append(problems, fmt.Errorf(v.cid+": "+format, args...)) }
	if g.Template != 0 || g.status != "running" {
		note("is %q, not running", g.status)
	}
	if v.tag != "" && !slices.Contains(g.tags(), v.tag) {
		note("lacks the tag %s", v.tag)
	}
	if slices.Contains(g.tags(), "bosh-stemcell") {
		note("still has the tag of the stemcell that it was cloned from")
	}
	if fmt.Sprint(g.config["cores"]) != "2" || fmt.Sprint(g.config["memory"]) != "2048" {
		note("has %v cores and %v MiB of memory, not 2 and 2048", g.config["cores"], g.config["memory"])
	}
	serials := map[string]int{}
	for key, value := range g.config {
		text, _ := value.(string)
		if slot, ok := strings.CutPrefix(key, "virtio"); !ok || slot == "" {
			continue
		}
		for option := range strings.SplitSeq(text, ",") {
			if serial, ok := strings.CutPrefix(option, "serial="); ok {
				serials[serial]++
			}
		}
	}
	want := map[string]int{"bosh-system": 1, "bosh-ephemeral": 1}
	for _, d := range m.disks {
		if d.on == v.cid {
			want[d.cid] = 1
		}
	}
	if fmt.Sprint(serials) != fmt.Sprint(want) {
		note("has the drives %v, expected %v", serials, want)
	}
	for key := range g.config {
		if strings.HasPrefix(key, "unused") {
			note("has a stray %s", key)
		}
	}
	mac, _, _ := strings.Cut(strings.TrimPrefix(g.text("net0"), "virtio="), ",")
	iso, _, _ := strings.Cut(g.text("ide2"), ",")
	if !slices.ContainsFunc(volumes, func(x volume) bool { return x.Volid == iso && x.Content == "iso" }) {
		note("the CD %q does not exist", iso)
		return problems
	}
	if err := checkSettings(c, v, mac); err != nil {
		note("settings: %w", err)
	}
	return problems
}

// checkSettings opens the CDs that the simulator keeps, which has no call to read
// one, and reads them as the agent would, with a library that had no part in
// writing them. One must be for the agent of v.
func checkSettings(c *cluster, v vm, mac string) error {
	var others []string
	var found bool
	err := filepath.WalkDir(c.stateDir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || len(data) < 0x8006 || string(data[0x8001:0x8006]) != "CD001" {
			return err
		}
		text, err := userData(data)
		if err != nil {
			return err
		}
		var owner struct {
			AgentID string `json:"agent_id"`
		}
		if err := json.Unmarshal(text, &owner); err != nil {
			return err
		}
		if owner.AgentID != v.agent {
			others = append(others, owner.AgentID)
			return nil
		}
		found = true
		return v.checkUserData(text, mac)
	})
	if err == nil && !found {
		err = fmt.Errorf("no CD is for the agent %q, only for %q", v.agent, others)
	}
	return err
}

// userData returns what the agent reads from its CD.
func userData(image []byte) ([]byte, error) {
	img, err := iso9660.OpenImage(bytes.NewReader(image))
	if err != nil {
		return nil, err
	}
	if label, err := img.Label(); err != nil || strings.TrimSpace(label) != "config-2" {
		return nil, fmt.Errorf("the label of the CD is %q: %w", label, err)
	}
	at, err := img.RootDir()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"ec2", "latest", "user-data"} {
		children, err := at.GetChildren()
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(children, func(f *iso9660.File) bool { return f.Name() == name })
		if i < 0 {
			return nil, fmt.Errorf("the CD has no %s", name)
		}
		at = children[i]
	}
	return io.ReadAll(at.Reader())
}

// checkUserData compares the settings with what was asked for and with the NIC.
func (v vm) checkUserData(text []byte, mac string) error {
	var settings struct {
		MBus     string
		Networks map[string]struct{ IP, MAC string }
		Disks    struct {
			System    string
			Ephemeral struct{ Path string }
		}
		Env struct {
			Bosh struct{ Password string }
		}
	}
	if err := json.Unmarshal(text, &settings); err != nil {
		return err
	}
	switch network := settings.Networks["default"]; {
	case network.IP != v.ip || network.MAC != strings.ToLower(mac):
		return fmt.Errorf("say address %s on %s, but the NIC is %s", network.IP, network.MAC, mac)
	case settings.Disks.System != "/dev/disk/by-id/virtio-bosh-system" || settings.Disks.Ephemeral.Path != "/dev/disk/by-id/virtio-bosh-ephemeral":
		return fmt.Errorf("name other drives: %v", settings.Disks)
	case !strings.Contains(settings.MBus, mbusPassword) || settings.Env.Bosh.Password != rootPassword:
		return errors.New("lack the message bus or the env")
	}
	return nil
}

// checkPool proves that the CPI's guests, and nothing else, are in the pool.
func checkPool(ctx context.Context, c *cluster, owners []int64) error {
	var pool struct {
		Members []struct{ VMID int64 }
	}
	if err := c.get(ctx, "/pools/"+poolID, &pool); err != nil {
		return err
	}
	var members []int64
	for _, m := range pool.Members {
		if m.VMID != 0 {
			members = append(members, m.VMID)
		}
	}
	slices.Sort(members)
	owners = slices.Clone(owners)
	slices.Sort(owners)
	if !slices.Equal(members, owners) {
		return fmt.Errorf("the pool holds the guests %v, not %v", members, owners)
	}
	return nil
}

func describe(guests []*guest) string {
	var texts []string
	for _, g := range guests {
		texts = append(texts, fmt.Sprintf("%d %s [%s]", g.VMID, g.Name, g.Tags))
	}
	return strings.Join(texts, ", ")
}

// proveEmpty proves that the CPI left nothing of its own.
func (m *model) proveEmpty(ctx context.Context, c *cluster) error {
	guests, volumes, err := look(ctx, c)
	if err != nil {
		return err
	}
	if len(guests)+len(volumes) > 0 {
		return fmt.Errorf("guests: %s; volumes: %v", describe(guests), volumes)
	}
	return checkPool(ctx, c, nil)
}
