package cpitest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A guest is a virtual machine as the cluster lists it, with its configuration.
type guest struct {
	VMID     int64
	Node     string
	Name     string
	Template bool
	Tags     []string
	Running  bool
	Pool     string

	config map[string]string
	// current is the configuration that the running guest has; it differs from
	// config by what waits for a restart.
	current map[string]string
	drives  []drive
}

func (g *guest) String() string {
	text := fmt.Sprintf("guest %d", g.VMID)
	if g.Name != "" {
		text += " (" + g.Name + ")"
	}
	return text
}

// A drive is a drive of a guest, a CD drive or an unused volume.
type drive struct {
	slot    string
	volume  string
	options map[string]string
}

func (d drive) unused() bool { return strings.HasPrefix(d.slot, "unused") }
func (d drive) cdrom() bool  { return d.options["media"] == "cdrom" }
func (d drive) serial() string {
	return d.options["serial"]
}

// A volume is a row of a storage's content.
type volume struct {
	id      string
	storage string
	// node is empty on a storage that the nodes share.
	node    string
	content string
	size    int64
	vmid    int64
}

// key tells a volume from one of the same name on another node.
func (v *volume) key() string {
	if v.node == "" {
		return v.id
	}
	return v.node + "/" + v.id
}

// An observation is the whole cluster at one moment. Nothing in it was asked for
// by name, so what nobody expects is in it too.
type observation struct {
	guests  map[int64]*guest
	volumes map[string]*volume
	// local names the storages that each node has for itself.
	local map[string]bool
}

// volumeKey is the key of a volume that a guest refers to.
func (o *observation) volumeKey(g *guest, id string) string {
	storage, _, _ := strings.Cut(id, ":")
	if o.local[storage] {
		return g.Node + "/" + id
	}
	return id
}

func (o *observation) sortedGuests() []*guest {
	return slices.SortedFunc(maps.Values(o.guests), func(a, b *guest) int { return cmp.Compare(a.VMID, b.VMID) })
}

func (o *observation) sortedVolumes() []*volume {
	return slices.SortedFunc(maps.Values(o.volumes), func(a, b *volume) int { return cmp.Compare(a.key(), b.key()) })
}

// users lists the guests with a drive on a volume.
func (o *observation) users(key string) []*guest {
	var out []*guest
	for _, g := range o.sortedGuests() {
		if slices.ContainsFunc(g.drives, func(d drive) bool { return o.volumeKey(g, d.volume) == key }) {
			out = append(out, g)
		}
	}
	return out
}

// number reads what the API gives as a number or as a text.
type number int64

// UnmarshalJSON implements [json.Unmarshaler].
func (n *number) UnmarshalJSON(data []byte) error {
	text := strings.Trim(string(data), `"`)
	if text == "null" || text == "" {
		return nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fmt.Errorf("%s is no number", data)
	}
	*n = number(f)
	return nil
}

// observe lists guests and volumes. It asks again when a guest went away while
// it was looking.
func (a *api) observe(ctx context.Context) (*observation, error) {
	for try := 0; ; try++ {
		o, err := a.observeOnce(ctx)
		var refused *apiError
		if err == nil || try == 3 || !errors.As(err, &refused) {
			return o, err
		}
	}
}

func (a *api) observeOnce(ctx context.Context) (*observation, error) {
	o := &observation{guests: map[int64]*guest{}, volumes: map[string]*volume{}, local: map[string]bool{}}
	// One list has nodes, guests and storages. What it says of a guest's state may
	// be old; of where things are it is not.
	var rows []struct {
		Type     string
		Node     string
		Status   string
		VMID     int64
		Name     string
		Template number
		Tags     string
		Pool     string
		Storage  string
		Shared   number
	}
	if err := a.get(ctx, "/cluster/resources", &rows); err != nil {
		return nil, err
	}
	online := map[string]bool{}
	for _, r := range rows {
		switch r.Type {
		case "node":
			online[r.Node] = r.Status == "online"
		case "qemu":
			o.guests[r.VMID] = &guest{VMID: r.VMID, Node: r.Node, Name: r.Name, Template: r.Template == 1, Tags: splitTags(r.Tags), Pool: r.Pool}
		case "storage":
			o.local[r.Storage] = r.Shared != 1
		}
	}
	if len(online) == 0 {
		return nil, errors.New("the API token sees no node of the cluster")
	}
	var g group
	for _, x := range o.guests {
		g.run(func() error { return a.inspect(ctx, x) })
	}
	var mu sync.Mutex
	listed := map[string]bool{}
	for _, r := range rows {
		if r.Type != "storage" || !online[r.Node] || r.Status != "available" || listed[r.Storage] {
			continue
		}
		listed[r.Storage] = !o.local[r.Storage]
		g.run(func() error {
			list, err := a.content(ctx, r.Node, r.Storage)
			mu.Lock()
			defer mu.Unlock()
			for _, v := range list {
				if o.local[r.Storage] {
					v.node = r.Node
				}
				o.volumes[v.key()] = v
			}
			return err
		})
	}
	return o, g.wait()
}

// inspect reads what a list of guests does not tell, or tells late: the
// cluster's list shows the status of a while ago.
func (a *api) inspect(ctx context.Context, g *guest) error {
	base := fmt.Sprintf("/nodes/%s/qemu/%d", url.PathEscape(g.Node), g.VMID)
	var status struct{ Status string }
	if err := a.get(ctx, base+"/status/current", &status); err != nil {
		return err
	}
	g.Running = status.Status == "running"
	var err error
	if g.config, err = a.config(ctx, base+"/config"); err != nil {
		return err
	}
	g.current = g.config
	if g.Running {
		if g.current, err = a.config(ctx, base+"/config?current=1"); err != nil {
			return err
		}
	}
	g.Name, g.Template, g.Tags = cmp.Or(g.config["name"], g.Name), g.config["template"] == "1", splitTags(g.config["tags"])
	g.drives = drives(g.config)
	return nil
}

func (a *api) config(ctx context.Context, path string) (map[string]string, error) {
	var raw map[string]json.RawMessage
	if err := a.get(ctx, path, &raw); err != nil {
		return nil, err
	}
	config := make(map[string]string, len(raw))
	for key, v := range raw {
		var text string
		if json.Unmarshal(v, &text) != nil {
			text = string(v)
		}
		config[key] = text
	}
	return config, nil
}

func drives(config map[string]string) []drive {
	slots := regexp.MustCompile(`^(ide|sata|scsi|virtio|unused|efidisk|tpmstate)\d+$`)
	var out []drive
	for _, key := range slices.Sorted(maps.Keys(config)) {
		if !slots.MatchString(key) {
			continue
		}
		d := drive{slot: key, options: map[string]string{}}
		for i, part := range strings.Split(config[key], ",") {
			name, value, ok := strings.Cut(part, "=")
			switch {
			case !ok && i == 0:
				d.volume = part
			case name == "file":
				d.volume = value
			default:
				d.options[name] = value
			}
		}
		out = append(out, d)
	}
	return out
}

func (a *api) content(ctx context.Context, node, storage string) ([]*volume, error) {
	var rows []struct {
		VolID   string
		Content string
		Size    number
		VMID    number
	}
	if err := a.get(ctx, fmt.Sprintf("/nodes/%s/storage/%s/content", url.PathEscape(node), url.PathEscape(storage)), &rows); err != nil {
		return nil, err
	}
	var out []*volume
	for _, r := range rows {
		out = append(out, &volume{id: r.VolID, storage: storage, content: r.Content, size: int64(r.Size), vmid: int64(r.VMID)})
	}
	return out, nil
}

func splitTags(text string) []string {
	return strings.FieldsFunc(text, func(c rune) bool { return c == ';' || c == ',' || c == ' ' })
}

// fingerprint is everything about a guest that a call may not change in passing.
func (g *guest) fingerprint() string {
	var b strings.Builder
	fmt.Fprintf(&b, "node=%s pool=%s running=%t\n", g.Node, g.Pool, g.Running)
	for _, key := range slices.Sorted(maps.Keys(g.config)) {
		if key != "digest" {
			fmt.Fprintf(&b, "%s: %s\n", key, g.config[key])
		}
	}
	return b.String()
}

func (v *volume) fingerprint() string { return fmt.Sprintf("%s %d %d", v.content, v.size, v.vmid) }

// difference says what differs between two observations, shortly.
func difference(before, after *observation) []string {
	var out []string
	for _, g := range before.sortedGuests() {
		switch now := after.guests[g.VMID]; {
		case now == nil:
			out = append(out, g.String()+" is gone")
		case now.fingerprint() != g.fingerprint():
			out = append(out, fmt.Sprintf("%s has changed: %s", g, firstChange(g.fingerprint(), now.fingerprint())))
		}
	}
	for _, g := range after.sortedGuests() {
		if before.guests[g.VMID] == nil {
			out = append(out, g.String()+" is new")
		}
	}
	for _, v := range before.sortedVolumes() {
		switch now := after.volumes[v.key()]; {
		case now == nil:
			out = append(out, "volume "+v.key()+" is gone")
		case now.fingerprint() != v.fingerprint():
			out = append(out, "volume "+v.key()+" has changed")
		}
	}
	for _, v := range after.sortedVolumes() {
		if before.volumes[v.key()] == nil {
			out = append(out, "volume "+v.key()+" is new")
		}
	}
	return out
}

func firstChange(before, after string) string {
	old := strings.Split(before, "\n")
	now := strings.Split(after, "\n")
	for _, line := range now {
		if !slices.Contains(old, line) {
			return strconv.Quote(line)
		}
	}
	for _, line := range old {
		if !slices.Contains(now, line) {
			return strconv.Quote(line) + " is gone"
		}
	}
	return "order"
}

// A group runs a few things at once and keeps the first error.
type group struct {
	wg   sync.WaitGroup
	once sync.Once
	gate chan struct{}
	mu   sync.Mutex
	err  error
}

func (g *group) run(f func() error) {
	g.once.Do(func() { g.gate = make(chan struct{}, 8) })
	g.wg.Go(func() {
		g.gate <- struct{}{}
		defer func() { <-g.gate }()
		if err := f(); err != nil {
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.err == nil {
				g.err = err
			}
		}
	})
}

func (g *group) wait() error {
	g.wg.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// tasks lists the types of the tasks of a guest, the newest first.
func (a *api) tasks(ctx context.Context, node string, vmid int64) ([]string, error) {
	var rows []struct{ UPID, Type string }
	if err := a.get(ctx, fmt.Sprintf("/nodes/%s/tasks?vmid=%d&limit=50&source=all", url.PathEscape(node), vmid), &rows); err != nil {
		return nil, err
	}
	var out []string
	for _, r := range rows {
		out = append(out, r.Type+" "+r.UPID)
	}
	return out, nil
}

// busy reports whether tasks are running anywhere.
func (a *api) busy(ctx context.Context) (bool, error) {
	var nodes []struct{ Node, Status string }
	if err := a.get(ctx, "/nodes", &nodes); err != nil {
		return false, err
	}
	for _, n := range nodes {
		var rows []struct{ UPID string }
		if n.Status != "online" {
			continue
		}
		if err := a.get(ctx, "/nodes/"+url.PathEscape(n.Node)+"/tasks?source=active&limit=1", &rows); err != nil {
			return false, err
		}
		if len(rows) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// snapshots counts the snapshots of a guest.
func (a *api) snapshots(ctx context.Context, g *guest) (int, error) {
	var rows []struct{ Name string }
	if err := a.get(ctx, fmt.Sprintf("/nodes/%s/qemu/%d/snapshot", url.PathEscape(g.Node), g.VMID), &rows); err != nil {
		return 0, err
	}
	n := 0
	for _, r := range rows {
		if r.Name != "current" {
			n++
		}
	}
	return n, nil
}

// setConfig changes a guest as an operator would.
func (a *api) setConfig(ctx context.Context, g *guest, form url.Values) error {
	return a.do(ctx, http.MethodPut, fmt.Sprintf("/nodes/%s/qemu/%d/config", url.PathEscape(g.Node), g.VMID), form, nil)
}

// power starts or stops a guest as an operator would.
func (a *api) power(ctx context.Context, g *guest, what string) error {
	return a.perform(ctx, http.MethodPost, fmt.Sprintf("/nodes/%s/qemu/%d/status/%s", url.PathEscape(g.Node), g.VMID, what), url.Values{})
}

func (a *api) destroy(ctx context.Context, g *guest) error {
	return a.perform(ctx, http.MethodDelete, fmt.Sprintf("/nodes/%s/qemu/%d", url.PathEscape(g.Node), g.VMID), url.Values{"purge": {"1"}})
}

func (a *api) deleteVolume(ctx context.Context, node string, v *volume) error {
	return a.perform(ctx, http.MethodDelete, fmt.Sprintf("/nodes/%s/storage/%s/content/%s", url.PathEscape(node), url.PathEscape(v.storage), url.PathEscape(v.id)), nil)
}
