//go:build linux

package cpi_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi"
	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve/pvetest"
)

// What a killed call has left is removed by the next one, but not if in doubt.
func TestWhatAKilledCallLeftStaysIfInDoubt(t *testing.T) {
	t.Parallel()
	network := map[string]any{"default": map[string]any{"type": "manual", "ip": "10.0.0.9", "netmask": "255.255.255.0", "gateway": "10.0.0.1", "dns": []string{}}}
	rewrite := func(t *testing.T, b *bed, pattern, with string) {
		files, err := filepath.Glob(filepath.Join(b.cfg.LockDir, "pledges", "*"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		data, err := os.ReadFile(files[0])
		require.NoError(t, err)
		changed := regexp.MustCompile(pattern).ReplaceAll(data, []byte(with))
		require.NotEqual(t, string(data), string(changed))
		require.NoError(t, os.WriteFile(files[0], changed, 0o600))
		if pattern == `$` {
			old := time.Now().Add(-31 * 24 * time.Hour)
			require.NoError(t, os.Chtimes(files[0], old, old))
		}
	}
	for _, tc := range []struct {
		name  string
		doubt func(t *testing.T, b *bed, vm rpc.VMCID)
		stays bool
		notes int // journals left
	}{
		{"no doubt", func(*testing.T, *bed, rpc.VMCID) {}, false, 0},
		{"the Director knows it", func(t *testing.T, b *bed, vm rpc.VMCID) {
			require.NoError(t, b.SetVMMetadata(t.Context(), vm, rpc.Metadata{"job": "web"}))
		}, true, 0},
		{"the machine was started again", func(t *testing.T, b *bed, _ rpc.VMCID) {
			rewrite(t, b, `"boot":"[^"]*"`, `"boot":"another"`)
		}, true, 1},
		{"and long ago", func(t *testing.T, b *bed, _ rpc.VMCID) {
			rewrite(t, b, `"boot":"[^"]*"`, `"boot":"another"`)
			rewrite(t, b, `$`, "\n")
		}, true, 0},
		{"it is on another cluster", func(t *testing.T, b *bed, _ rpc.VMCID) {
			rewrite(t, b, `"cluster":"[^"]*"`, `"cluster":"another"`)
		}, true, 1},
		{"the guest is another's now", func(t *testing.T, b *bed, _ rpc.VMCID) {
			rewrite(t, b, `"name":"bosh-[^"]*"`, `"name":"bosh-000000000000"`)
		}, true, 0},
		{"the journal was never written", func(t *testing.T, b *bed, _ rpc.VMCID) {
			rewrite(t, b, `(?s).+`, ``)
		}, true, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			stemcell := b.stemcell()
			before := len(b.srv.VMIDs())
			// The fourth write starts the VM.
			require.True(t, b.killed(4, true, "create_vm", "agent-1", stemcell, map[string]any{"cpu": 1, "ram": 512}, network, []string{}, map[string]any{}))
			ids := b.srv.VMIDs()
			require.Len(t, ids, before+1)
			left := b.guest(ids[before])
			require.True(t, left.Running)
			var vm rpc.VMCID
			for tag := range strings.SplitSeq(left.Config["tags"], ";") {
				if strings.HasPrefix(tag, "vm-") {
					vm = rpc.VMCID(tag)
				}
			}
			tc.doubt(t, b, vm)
			_ = b.disk("")
			// The disk may have got its VMID.
			now, there := b.srv.VM(ids[before])
			assert.Equal(t, tc.stays, there && now.Config["name"] == left.Config["name"])
			files, err := os.ReadDir(filepath.Join(b.cfg.LockDir, "pledges"))
			require.NoError(t, err)
			assert.Len(t, files, tc.notes)
			iso, _, _ := strings.Cut(left.Config["ide2"], ",")
			if _, kept := b.srv.Volume(iso); tc.name != "the guest is another's now" {
				assert.Equal(t, tc.stays, kept, "the ISO stays with its VM")
			}
		})
	}
}

// Files that nobody owns any more go with the next call that makes something.
func TestOldNotesAreSwept(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(c *cpi.Config) { c.LockDir = t.TempDir() })
	put := func(name string, age time.Duration) {
		path := filepath.Join(b.cfg.LockDir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte("n1"), 0o600))
		when := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(path, when, when))
	}
	put("tries/old", 2*time.Hour)
	put("tries/new", time.Minute)
	put("nodes/vm-100-aaaaaaaaaaaa", 31*24*time.Hour)
	put("nodes/vm-101-aaaaaaaaaaaa", time.Hour)
	put("gate/node-n9/turn", time.Hour)
	put("gate/node-n9/ticket-3", time.Hour)
	_ = b.disk("")
	for name, want := range map[string]bool{
		"tries/old": false, "tries/new": true, "nodes/vm-100-aaaaaaaaaaaa": false, "nodes/vm-101-aaaaaaaaaaaa": true,
		"gate/node-n9/turn": true, "gate/node-n9/ticket-3": false,
	} {
		_, err := os.Stat(filepath.Join(b.cfg.LockDir, name))
		assert.Equal(t, want, err == nil, name)
	}
}

// What cannot be removed takes a call a part of its time, and no more.
func TestWhatCannotBeSweptHoldsUpNoCall(t *testing.T) {
	t.Parallel()
	network := map[string]any{"default": map[string]any{"type": "manual", "ip": "10.0.0.9", "netmask": "255.255.255.0", "gateway": "10.0.0.1", "dns": []string{}}}
	b := newBed(t, func(c *cpi.Config) { c.CallTimeout = 8 * time.Second })
	stemcell := b.stemcell()
	before := len(b.srv.VMIDs())
	require.True(t, b.killed(4, true, "create_vm", "agent-1", stemcell, map[string]any{"cpu": 1, "ram": 512}, network, []string{}, map[string]any{}))
	ids := b.srv.VMIDs()
	require.Len(t, ids, before+1)
	name := b.guest(ids[before]).Config["name"]
	require.NoError(t, b.srv.EditVM(ids[before], func(vm *pvetest.VM) { vm.Config["lock"] = "backup" }))
	start := time.Now()
	_ = b.disk("")
	assert.Less(t, time.Since(start), 6*time.Second)
	assert.Contains(t, b.log.String(), "what an earlier call left is still there")
	require.NoError(t, b.srv.EditVM(ids[before], func(vm *pvetest.VM) { delete(vm.Config, "lock") }))
	_ = b.disk("")
	// The disk may have got its VMID.
	now, there := b.srv.VM(ids[before])
	assert.False(t, there && now.Config["name"] == name)
}
