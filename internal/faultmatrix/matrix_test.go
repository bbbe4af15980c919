package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve/pvetest"
)

func TestMain(m *testing.M) {
	if os.Getenv(actAsCPI) != "" {
		serveCPI()
	}
	os.Exit(m.Run())
}

func prepared(t *testing.T) *matrix {
	t.Helper()
	m, err := newMatrix(t.TempDir(), "", 40)
	require.NoError(t, err)
	m.limits = limits{request: 3, call: 8}
	return m
}

// The reduced form of the matrix: all methods, the worst faults.
func TestWorstFaults(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	m := prepared(t)
	worst := slices.DeleteFunc(faults(), func(f fault) bool { return !f.worst })
	require.Len(t, worst, 4)
	// The other ways that a method can take are for the whole matrix.
	plain := slices.DeleteFunc(methods(), func(md method) bool { return md.name != md.call })
	require.Len(t, plain, 15, "every method that asks the cluster for anything")
	cells, err := m.plan(plain, worst)
	require.NoError(t, err)
	require.Greater(t, len(cells), 150)
	m.run(cells)
	total := count(cells)
	t.Log(total)
	if total.fail > 0 {
		var out bytes.Buffer
		printProblems(&out, cells)
		t.Errorf("%d cells do not hold: %s", total.fail, out.String())
	}
	assert.NotZero(t, total.ok)
	assert.NotZero(t, total.typed)
	assert.NotZero(t, total.killed)
}

func TestMethodsThatAskTheClusterForNothing(t *testing.T) {
	t.Parallel()
	m := prepared(t)
	w, err := m.open()
	require.NoError(t, err)
	defer w.close()
	known := map[string]bool{}
	for _, md := range methods() {
		known[md.call] = true
	}
	for name, args := range silent() {
		w.srv.ResetRequests()
		a := w.call(name, args...)
		assert.Empty(t, a.broken, name)
		assert.Empty(t, w.srv.Calls(), "%s belongs into the matrix", name)
		assert.False(t, known[name], name)
	}
}

// The verifier must see whatever may be wrong.
func TestCheckFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	m := prepared(t)
	idOf := func(t *testing.T, w *world, name string) int {
		t.Helper()
		for _, id := range w.srv.VMIDs() {
			if vm, _ := w.srv.VM(id); strings.Contains(vm.Config["tags"], name) {
				return id
			}
		}
		t.Fatalf("no guest is tagged %s", name)
		return 0
	}
	edit := func(tag func(w *world) string, change func(vm *pvetest.VM)) func(*testing.T, *world, *ledger) {
		return func(t *testing.T, w *world, _ *ledger) {
			require.NoError(t, w.srv.EditVM(idOf(t, w, tag(w)), change))
		}
	}
	vm := func(w *world) string { return w.VM }
	disk := func(w *world) string { return w.Free }
	file := func(name, text string) func(*testing.T, *world, *ledger) {
		return func(t *testing.T, w *world, _ *ledger) {
			path := filepath.Join(w.locks, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		}
	}
	for _, tc := range []struct {
		name  string
		spoil func(t *testing.T, w *world, l *ledger)
		want  string
	}{
		{"nothing", func(*testing.T, *world, *ledger) {}, ""},
		{"a guest of nobody's", func(t *testing.T, w *world, _ *ledger) {
			require.NoError(t, w.srv.AddVM(800, pvetest.VM{Pool: pool, Config: map[string]string{"name": "bosh-aaaaaaaaaaaa"}}))
		}, "is nobody's"},
		{"a VM that was not asked for", func(_ *testing.T, w *world, l *ledger) { delete(l.vms, w.VM) }, "is a VM that nobody owns"},
		{"a VM that is gone", func(t *testing.T, w *world, _ *ledger) { w.srv.DropVM(idOf(t, w, w.VM)) }, "is gone"},
		{"a locked guest", edit(vm, func(vm *pvetest.VM) { vm.Config["lock"] = "clone" }), "is locked (clone)"},
		{"a VM that is off", edit(vm, func(vm *pvetest.VM) { vm.Running = false }), "does not run"},
		{"a tag too many", edit(vm, func(vm *pvetest.VM) { vm.Config["tags"] += ";disk-k3v5q2m4x6z7c4b" }), "should have the disks"},
		{"a disk too few", edit(vm, func(vm *pvetest.VM) { delete(vm.Config, "virtio2") }), "should have the disks"},
		{"an unused volume", edit(vm, func(vm *pvetest.VM) { vm.Config["unused0"] = "shared:vm-1-disk-9" }), "has the unused volume"},
		{"no ISO", edit(vm, func(vm *pvetest.VM) { delete(vm.Config, "ide2") }), "ide2 is"},
		{"outside the pool", edit(vm, func(vm *pvetest.VM) { vm.Pool = "" }), "is not in the pool"},
		{"an unprotected disk", edit(disk, func(vm *pvetest.VM) { delete(vm.Config, "protection") }), "lacks a flag"},
		{"a disk without its volume", func(t *testing.T, w *world, _ *ledger) {
			holder, _ := w.srv.VM(idOf(t, w, w.Free))
			volume, _, _ := strings.Cut(holder.Config["virtio0"], ",")
			w.srv.RemoveVolume(volume)
		}, "does not exist"},
		{"an ISO of nobody's", func(t *testing.T, w *world, _ *ledger) {
			require.NoError(t, w.srv.AddVolume("", "iso:iso/bosh-aaaaaaaaaaaa.iso", []byte("x")))
		}, "volume iso:iso/bosh-aaaaaaaaaaaa.iso is nobody's"},
		{"an image of nobody's", func(t *testing.T, w *world, _ *ledger) {
			require.NoError(t, w.srv.AddVolume("", "iso:import/stemcell-1.raw", []byte("x")))
		}, "is nobody's"},
		{"a volume of nobody's", func(t *testing.T, w *world, _ *ledger) { w.srv.DropVM(idOf(t, w, w.Free)) }, "is nobody's"},
		{"metadata that was not written", func(_ *testing.T, w *world, l *ledger) { l.metadata[w.VM] = true }, "lacks its metadata"},
		{"a journal of nobody's", file("pledges/abc", "{}"), "file pledges/abc is nobody's"},
		{"a ticket of nobody's", file("gate/node-n1/ticket-7", ""), "is nobody's"},
		{"a note about a VM that is gone", file("nodes/vm-9999-k3v5q2m4x6z7", "n1"), "is nobody's"},
		{"a secret in a file", file("tries/abc", "token "+tokenSecret), "holds a secret"},
		{"an open file", func(t *testing.T, w *world, _ *ledger) {
			file("tries/abc", "n1")(t, w, nil)
			require.NoError(t, os.Chmod(filepath.Join(w.locks, "tries/abc"), 0o644))
		}, "has the mode 644"},
		{"an operator's guest", func(t *testing.T, w *world, _ *ledger) {
			require.NoError(t, w.srv.EditVM(701, func(vm *pvetest.VM) { vm.Config["tags"] = "" }))
		}, "the operator's guest 701 was changed"},
		{"an operator's volume", func(_ *testing.T, w *world, _ *ledger) { w.srv.RemoveVolume("iso:iso/operator.iso") }, "the operator's volume"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w, err := m.open()
			require.NoError(t, err)
			t.Cleanup(w.close)
			l, before := newLedger(w.subject), w.operators()
			tc.spoil(t, w, l)
			found := w.settled("now", l, before)
			if tc.want == "" {
				assert.Empty(t, found)
				return
			}
			assert.Contains(t, strings.Join(found, "\n"), tc.want)
		})
	}
}

func byLetter(t *testing.T, letter string) fault {
	t.Helper()
	i := slices.IndexFunc(faults(), func(f fault) bool { return f.letter == letter })
	require.GreaterOrEqual(t, i, 0, letter)
	return faults()[i]
}

func TestJudge(t *testing.T) {
	t.Parallel()
	response := func(class rpc.Class, retry bool, message string) []byte {
		return fmt.Appendf(nil, `{"result":null,"error":{"type":%q,"message":%q,"ok_to_retry":%t},"log":""}`, class, message, retry)
	}
	const text = "attach disk disk-1 to guest 100 on n1: something or other went wrong"
	for _, tc := range []struct {
		name, call, letter string
		out                []byte
		want               string
	}{
		{"success", "has_vm", "lock", []byte(`{"result":true,"error":null,"log":""}`), ""},
		{"a fault that passes", "attach_disk", "lock", response(rpc.ClassCloudError, true, text), ""},
		{"and is not marked", "attach_disk", "lock", response(rpc.ClassCloudError, false, text), "not marked as such"},
		{"a fault that stays and is marked", "attach_disk", "403", response(rpc.ClassCloudError, true, text), "is marked as one that passes"},
		{"a privilege that is not named", "attach_disk", "403", response(rpc.ClassCloudError, false, text), "does not say which privilege"},
		{"the wrong class", "attach_disk", "cut-", response(rpc.ClassDiskNotFound, true, text), "the error is a Bosh::Clouds::DiskNotFound"},
		{"a class of create_vm's", "create_vm", "cut-", response(rpc.ClassVMCreationFailed, true, text), ""},
		{"an unknown class", "attach_disk", "cut-", response("Bosh::Clouds::SnapshotNotFound", true, text), "does not know the class"},
		{"too little", "attach_disk", "cut-", response(rpc.ClassCloudError, true, "EOF"), "says too little"},
		{"a page", "attach_disk", "html5", response(rpc.ClassCloudError, true, text+"<html>"), "too little or too much"},
		{"a warning that fails", "attach_disk", "warn", response(rpc.ClassCloudError, false, text), "fails: attach"},
		{"a secret", "attach_disk", "cut-", response(rpc.ClassCloudError, true, text+mbusPassword), "shows a secret"},
		{"no JSON", "attach_disk", "cut-", []byte("panic"), "no JSON object"},
		{"two documents", "attach_disk", "cut-", []byte(`{"result":1,"error":null,"log":""}{}`), "more than one document"},
		{"no log", "attach_disk", "cut-", []byte(`{"result":1,"error":null}`), "lacks log"},
		{"not killed", "attach_disk", "kill+", []byte(`{"result":1,"error":null,"log":""}`), "was not killed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := &cell{method: method{call: tc.call}, fault: byLetter(t, tc.letter)}
			found := strings.Join(judge(c, readAnswer(tc.out, nil)), "\n")
			if tc.want == "" {
				assert.Empty(t, found)
				return
			}
			assert.Contains(t, found, tc.want)
		})
	}
}

func TestExceptions(t *testing.T) {
	t.Parallel()
	c := &cell{
		method: method{name: "create_vm, larger"}, site: site{method: "PUT", template: "/nodes/{node}/qemu/{vmid}/config"}, fault: fault{letter: "kill+"},
		problems: []string{"then: a ticket is left"},
	}
	e := exception{method: "create_vm*", site: "PUT */config", fault: "kill*", text: "a ticket"}
	assert.True(t, e.covers(c))
	for name, e := range map[string]exception{
		"another method":  {method: "create_disk", site: "*", fault: "*"},
		"another call":    {method: "*", site: "POST *", fault: "*"},
		"another fault":   {method: "*", site: "*", fault: "cut+"},
		"another problem": {method: "*", site: "*", fault: "*", text: "a guest"},
	} {
		assert.False(t, e.covers(c), name)
	}
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]string{
		"/cluster/resources":                               "GET /cluster/resources",
		"/nodes/{node}/qemu/{vmid}/clone":                  "GET /nodes/*/qemu/*/clone",
		"/nodes/{node}/storage/{storage}/content/{volume}": "GET /nodes/*/storage/*/content/**",
	} {
		assert.Equal(t, want, site{method: "GET", template: template}.pattern())
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	s := site{method: "GET", template: "/cluster/resources", nth: 1}
	cells := []*cell{
		{method: method{name: "has_vm"}, site: s, fault: byLetter(t, "lock"), outcome: "error", message: "the call's message"},
		{method: method{name: "has_vm"}, site: s, fault: byLetter(t, "500"), outcome: "ok", problems: []string{"something is left"}},
	}
	var out bytes.Buffer
	printTable(&out, cells, faults())
	printProblems(&out, cells)
	assert.Regexp(t, `(?m)^method +API call +lock 500$`, out.String())
	assert.Regexp(t, `(?m)^has_vm +GET /cluster/resources +e +FAIL$`, out.String())
	assert.Contains(t, out.String(), "FAIL has_vm | GET /cluster/resources #1 | 500, something else\n  - something is left")
	assert.Equal(t, totals{cells: 2, hold: 1, fail: 1, ok: 1, typed: 1}, count(cells))
}

func TestBadArguments(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	assert.ErrorContains(t, run([]string{"surplus"}, &out, &out), "unexpected argument")
	assert.Error(t, run([]string{"-nonsense"}, &out, &out))
	assert.ErrorContains(t, run([]string{"-method", "no_such_method"}, &out, &out), "no cell of the matrix")
}
