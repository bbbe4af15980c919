package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/proxkit/proxkit/cpi"
	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/internal/testimage"
	"github.com/proxkit/proxkit/pve/pvetest"
)

const (
	gib     = int64(1) << 30
	node    = "n1"
	pool    = "bosh"
	tokenID = "bosh@pve!cpi"
)

type object = map[string]any

// A field is a cluster of one node and a stemcell.
type field struct {
	srv      *pvetest.Server
	dir      string
	program  string
	width    int
	secret   string
	stemcell string

	mu     sync.Mutex
	work   time.Duration // of the writes served
	writes int
	lost   int // requests whose connection was cut
}

// A call is one process to be.
type call struct {
	method string
	args   []any
}

func newField(program string, width, workers, recycle int) (*field, error) {
	dir, err := os.MkdirTemp("", "burst-")
	if err != nil {
		return nil, err
	}
	f := &field{dir: dir, program: program, width: width}
	f.srv, err = pvetest.New(pvetest.WithNodes(node), pvetest.WithWorkers(workers, recycle), pvetest.WithIdleTimeout(5*time.Second), pvetest.WithLog(f.note))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := f.prepare(); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *field) close() {
	_ = f.srv.Close()
	_ = os.RemoveAll(f.dir)
}

func (f *field) prepare() error {
	f.srv.AddNode(node, pvetest.Node{CPUs: 64, Memory: 4096 * gib})
	if err := f.srv.AddStorage("shared", pvetest.Storage{Type: "rbd", Size: 40960 * gib}); err != nil {
		return err
	}
	if err := f.srv.AddStorage("iso", pvetest.Storage{Type: "nfs", Content: []string{"iso", "import"}, Size: 1024 * gib}); err != nil {
		return err
	}
	f.srv.AddPool(pool)
	f.secret = f.srv.AddToken(tokenID, true)
	for _, p := range cpi.Privileges(cpi.PrivilegeScope{Pool: pool, ImageStorages: []string{"shared"}, ISOStorage: "iso", ImportStorage: "iso", Bridges: []string{"vmbr0"}}) {
		role := "R" + regexp.MustCompile(`[^a-zA-Z0-9]`).ReplaceAllString(p.Path, "-")
		f.srv.AddRole(role, p.Privileges...)
		f.srv.SetACL(p.Path, tokenID, role)
		f.srv.SetACL(p.Path, strings.SplitN(tokenID, "!", 2)[0], role)
	}
	image := filepath.Join(f.dir, "image")
	if err := os.WriteFile(image, testimage.Archive(testimage.QCOW2(5*gib, testimage.BootSector(5*gib), 0)), 0o600); err != nil {
		return err
	}
	a := f.here(call{"create_stemcell", []any{image, object{}}})
	f.stemcell = a.cid()
	return a.err
}

// note counts what a request cost the node.
func (f *field) note(r pvetest.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Status == 0 {
		f.lost++
	}
	if r.Method != "GET" {
		f.writes++
		f.work += time.Since(r.At)
	}
}

func (f *field) request(c call) []byte {
	data, err := json.Marshal(object{
		"method": c.method, "arguments": c.args, "api_version": 2,
		"context": object{
			"director_uuid": "dir-a", "request_id": "cpi-000001", "vm": object{"stemcell": object{"api_version": 3}},
			"endpoint": f.srv.URL(), "token": tokenID + "=" + f.secret, "fingerprint": f.srv.Fingerprint(),
			"storage": "shared", "iso_storage": "iso", "import_storage": "iso", "pool": pool,
			"agent":    object{"mbus": "https://mbus:password@0.0.0.0:6868"},
			"lock_dir": filepath.Join(f.dir, "locks"), "node_concurrency": f.width,
		},
	})
	if err != nil {
		panic(err) // nothing in there cannot be encoded
	}
	return data
}

// An answer is what came of a call.
type answer struct {
	result json.RawMessage
	err    error
}

func (a answer) cid() string {
	var s string
	if json.Unmarshal(a.result, &s) == nil {
		return s
	}
	var list []json.RawMessage
	if json.Unmarshal(a.result, &list) == nil && len(list) > 0 {
		_ = json.Unmarshal(list[0], &s)
	}
	return s
}

func readAnswer(c call, out []byte) answer {
	var r struct {
		Result json.RawMessage
		Error  *rpc.ResponseError
		Log    string
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return answer{err: fmt.Errorf("%s: the response %q is no JSON: %w", c.method, out, err)}
	}
	if r.Error != nil {
		return answer{err: fmt.Errorf("%s: %s: %s (%s)", c.method, r.Error.Type, r.Error.Message, r.Log)}
	}
	return answer{result: r.Result}
}

// here makes a call within this process.
func (f *field) here(c call) answer {
	var out bytes.Buffer
	if err := rpc.Serve(context.Background(), cpi.Factory(""), bytes.NewReader(f.request(c)), &out, os.Stderr); err != nil {
		return answer{err: err}
	}
	return readAnswer(c, out.Bytes())
}

// actAsCPI is set in the environment of a process that is to be a CPI.
const actAsCPI = "PROXKIT_BURST_CPI"

// serveCPI is the CPI program, for when no other is given.
func serveCPI() {
	if err := rpc.Serve(context.Background(), cpi.Factory(""), os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// process makes a call as a process of its own.
func (f *field) process(ctx context.Context, c call) answer {
	program := f.program
	cmd := exec.CommandContext(ctx, program)
	if program == "" {
		exe, err := os.Executable()
		if err != nil {
			return answer{err: err}
		}
		cmd = exec.CommandContext(ctx, exe)
		cmd.Env = append(os.Environ(), actAsCPI+"=1")
	}
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(f.request(c)), &stderr
	out, err := cmd.Output()
	if err != nil {
		return answer{err: fmt.Errorf("%s: %w: %s", c.method, err, stderr.Bytes())}
	}
	return readAnswer(c, out)
}

func (f *field) creation(i int) call {
	return call{"create_vm", []any{
		fmt.Sprintf("agent-%d", i), f.stemcell,
		object{"cpu": 1, "ram": 512, "ephemeral_disk": object{"size": 2048}},
		object{"default": object{"type": "manual", "ip": fmt.Sprintf("10.0.%d.%d", i/200, 10+i%200), "netmask": "255.255.0.0", "gateway": "10.0.0.1", "dns": []string{"10.0.0.2"}, "default": []string{"dns", "gateway"}}},
		[]string{},
		object{},
	}}
}

func (f *field) creations(n int) []call {
	calls := make([]call, n)
	for i := range calls {
		calls[i] = f.creation(i)
	}
	return calls
}

// mixture returns n calls of all kinds that do not get into each other's way, and
// makes beforehand what they are about.
func (f *field) mixture(ctx context.Context, n int) ([]call, error) {
	kinds := []struct {
		share  int // of 20
		needs  string
		method string
		args   func(vm, disk string) []any
	}{
		{4, "", "create_vm", nil},
		{4, "", "create_disk", func(string, string) []any { return []any{2048, object{}, ""} }},
		{3, "vm,disk", "attach_disk", func(vm, disk string) []any { return []any{vm, disk} }},
		{2, "vm", "set_vm_metadata", func(vm, _ string) []any { return []any{vm, object{"deployment": "d", "job": "web", "index": "0"}} }},
		{2, "vm", "has_vm", func(vm, _ string) []any { return []any{vm} }},
		{2, "vm", "delete_vm", func(vm, _ string) []any { return []any{vm} }},
		{2, "disk", "delete_disk", func(_, disk string) []any { return []any{disk} }},
		{1, "disk", "resize_disk", func(_, disk string) []any { return []any{disk, 4096} }},
	}
	var calls []call
	for _, k := range kinds {
		for i := range n * k.share / 20 {
			if k.method == "create_vm" {
				calls = append(calls, f.creation(1000+i))
				continue
			}
			var vm, disk answer
			if strings.Contains(k.needs, "vm") {
				vm = f.here(f.creation(2000 + len(calls)))
			}
			if strings.Contains(k.needs, "disk") {
				disk = f.here(call{"create_disk", []any{2048, object{}, ""}})
			}
			if err := errors.Join(vm.err, disk.err, ctx.Err()); err != nil {
				return nil, fmt.Errorf("prepare %s: %w", k.method, err)
			}
			calls = append(calls, call{k.method, k.args(vm.cid(), disk.cid())})
		}
	}
	// Kinds take turns, so that none is first as a whole.
	mixed := make([]call, 0, len(calls))
	for step := range 7 {
		for i := step; i < len(calls); i += 7 {
			mixed = append(mixed, calls[i])
		}
	}
	return mixed, nil
}

// A result is the figures of a burst.
type result struct {
	calls, failed int
	errs          []error
	took          time.Duration
	work          time.Duration // that the node had to do
	width         int
	peakRequests  int // writes served at one time
	peakTasks     int // tasks running at one time
	writes, tasks int
	lost          int
	twice         []string // VMIDs that were given more than once
	guests        map[string]int
}

// burst starts all calls at once and waits for them.
func (f *field) burst(ctx context.Context, calls []call, task time.Duration) result {
	r := result{calls: len(calls), width: f.width, guests: map[string]int{}}
	before := len(f.srv.Tasks())
	f.srv.TasksLast(task)
	f.srv.ResetRequests()
	f.mu.Lock()
	f.work, f.writes, f.lost = 0, 0, 0
	f.mu.Unlock()

	watching, stop := context.WithCancel(ctx)
	var watch, wg sync.WaitGroup
	watch.Go(func() { r.peakTasks = f.watchTasks(watching, before) })
	answers := make([]answer, len(calls))
	begun := time.Now()
	for i, c := range calls {
		wg.Go(func() { answers[i] = f.process(ctx, c) })
	}
	wg.Wait()
	r.took = time.Since(begun)
	stop()
	watch.Wait()
	f.srv.TasksLast(0)

	ids := map[string]int{}
	for i, a := range answers {
		if a.err != nil {
			r.failed++
			r.errs = append(r.errs, a.err)
			continue
		}
		if calls[i].method == "create_vm" {
			ids[strings.SplitN(a.cid(), "-", 3)[1]]++
		}
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		if ids[id] > 1 {
			r.twice = append(r.twice, id)
		}
	}
	r.tasks = len(f.srv.Tasks()) - before
	f.mu.Lock()
	r.writes, r.lost = f.writes, f.lost
	r.work = f.work + time.Duration(r.tasks)*task
	f.mu.Unlock()
	r.peakRequests = f.srv.PeakInFlight("")
	for _, id := range f.srv.VMIDs() {
		vm, _ := f.srv.VM(id)
		r.guests[kindOf(vm)]++
	}
	return r
}

func kindOf(vm pvetest.VM) string {
	tags := strings.Split(vm.Config["tags"], ";")
	for _, kind := range []string{"bosh-vm", "bosh-disk", "bosh-stemcell"} {
		// A clone has its template's tags until it gets its own.
		if slices.Contains(tags, kind) && (kind == "bosh-vm") == (vm.Config["template"] != "1") {
			return kind
		}
	}
	return "unfinished"
}

// watchTasks looks how many tasks run at one time.
func (f *field) watchTasks(ctx context.Context, before int) (peak int) {
	tick := time.NewTicker(15 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return peak
		case <-tick.C:
			running := 0
			for _, t := range f.srv.Tasks()[before:] {
				if t.Status == "" {
					running++
				}
			}
			peak = max(peak, running)
		}
	}
}

// ideal is how long the work would take as many workers as the gate lets in.
func (r result) ideal() time.Duration { return r.work / time.Duration(r.width) }

func (r result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  calls                %d, %d failed\n", r.calls, r.failed)
	for _, err := range r.errs[:min(len(r.errs), 10)] {
		fmt.Fprintf(&b, "    %v\n", err)
	}
	fmt.Fprintf(&b, "  changes at one time  at most %d requests and %d tasks, node_concurrency is %d\n", r.peakRequests, r.peakTasks, r.width)
	fmt.Fprintf(&b, "  time                 %s for %s of work in %d writes and %d tasks: %.2f × (work ÷ %d)\n",
		r.took.Round(10*time.Millisecond), r.work.Round(10*time.Millisecond), r.writes, r.tasks, float64(r.took)/float64(r.ideal()), r.width)
	fmt.Fprintf(&b, "  cut connections      %d\n", r.lost)
	fmt.Fprintf(&b, "  VMIDs given twice    %d\n", len(r.twice))
	fmt.Fprintf(&b, "  guests afterwards    %v\n", r.guests)
	return b.String()
}

// check says what is not as it should be.
func (r result) check(width int, factor float64) error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if r.failed > 0 {
		fail("%d calls failed", r.failed)
	}
	if r.peakRequests > width || r.peakTasks > width {
		fail("%d requests and %d tasks were under way at once, more than %d", r.peakRequests, r.peakTasks, width)
	}
	if len(r.twice) > 0 {
		fail("VMIDs were given twice: %v", r.twice)
	}
	if r.guests["unfinished"] > 0 {
		fail("%d guests are unfinished", r.guests["unfinished"])
	}
	if limit := time.Duration(factor * float64(r.ideal())); r.took > limit {
		fail("it took %s instead of at most %s", r.took.Round(10*time.Millisecond), limit.Round(10*time.Millisecond))
	}
	return errors.Join(errs...)
}
