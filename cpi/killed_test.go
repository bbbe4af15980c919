//go:build unix

package cpi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi"
	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve"
)

// A deadline for a process: the write at which it is killed.
type death struct {
	Nth    int32 // counted from 1
	After  bool  // the write has taken effect
	Config cpi.Config
	Secret string
}

const deathEnv = "PROXKIT_CPI_DEATH"

// dyingTransport kills the process at a write.
type dyingTransport struct {
	http.RoundTripper
	death  death
	writes atomic.Int32
}

func (d *dyingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	due := r.Method != http.MethodGet && d.writes.Add(1) == d.death.Nth
	if due && !d.death.After {
		die()
	}
	resp, err := d.RoundTripper.RoundTrip(r)
	if due {
		die()
	}
	return resp, err
}

func die() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }

// TestDyingProcess is the process that the tests below start and kill.
func TestDyingProcess(t *testing.T) {
	text := os.Getenv(deathEnv)
	if text == "" {
		t.Skip("only for a process of its own")
	}
	var d death
	require.NoError(t, json.Unmarshal([]byte(text), &d))
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig.InsecureSkipVerify = true // a simulated cluster on loopback
	client, err := pve.NewClient(d.Config.Endpoints[0], pve.WithAPIToken(tokenID, d.Secret), pve.WithTransport(&dyingTransport{RoundTripper: transport, death: d}))
	require.NoError(t, err)
	c, err := cpi.New(d.Config, cpi.Options{DirectorUUID: "dir-a", Client: client})
	require.NoError(t, err)
	require.NoError(t, rpc.Serve(t.Context(), rpc.Static(c), os.Stdin, os.Stdout, os.Stderr))
}

// killed runs a call in a process of its own that is killed at its nth write, and
// reports whether it was: a call with fewer writes ends well.
func (b *bed) killed(nth int, after bool, method string, arguments ...any) bool {
	b.t.Helper()
	text, err := json.Marshal(death{Nth: int32(nth), After: after, Config: b.cfg, Secret: b.secret})
	require.NoError(b.t, err)
	request, err := json.Marshal(map[string]any{
		"method": method, "arguments": arguments, "api_version": 2, "context": map[string]any{"director_uuid": "dir-a"},
	})
	require.NoError(b.t, err)
	cmd := exec.CommandContext(b.t.Context(), os.Args[0], "-test.run=^TestDyingProcess$")
	cmd.Env = append(os.Environ(), deathEnv+"="+string(text))
	cmd.Stdin = bytes.NewReader(request)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(b.t, ok && status.Signaled() && status.Signal() == syscall.SIGKILL, "%v: %s", err, out)
	return true
}

// Every call is killed at each of its writes, before it is sent and after it took
// effect. The Director's natural next step succeeds, and in the end nothing is
// left.
func TestKilledCalls(t *testing.T) {
	t.Parallel()
	type step struct {
		method string
		// kill runs the call to be killed, next is what the Director does then.
		kill func(b *bed, nth int, after bool, s *state) bool
		next func(t *testing.T, b *bed, s *state)
	}
	network := map[string]any{"default": map[string]any{"type": "manual", "ip": "10.0.0.9", "netmask": "255.255.255.0", "gateway": "10.0.0.1", "dns": []string{}}}
	properties := map[string]any{"cpu": 1, "ram": 512, "root_disk": map[string]any{"size": 8192}, "ephemeral_disk": map[string]any{"size": 2048}}
	for _, s := range []step{
		{"create_stemcell", func(b *bed, nth int, after bool, s *state) bool {
			return b.killed(nth, after, "create_stemcell", s.image, map[string]any{})
		}, func(t *testing.T, b *bed, s *state) {
			var err error
			s.second, err = b.CreateStemcell(t.Context(), s.image, raw(`{}`), nil)
			require.NoError(t, err)
		}},
		{"create_vm", func(b *bed, nth int, after bool, s *state) bool {
			return b.killed(nth, after, "create_vm", "agent-2", s.stemcell, properties, network, []string{}, map[string]any{})
		}, func(t *testing.T, b *bed, s *state) {
			vm, _ := b.vm(s.stemcell)
			require.NoError(t, b.DeleteVM(t.Context(), vm))
		}},
		{"create_disk", func(b *bed, nth int, after bool, s *state) bool {
			return b.killed(nth, after, "create_disk", 1024, map[string]any{}, s.vm)
		}, func(t *testing.T, b *bed, s *state) {
			require.NoError(t, b.DeleteDisk(t.Context(), b.disk(s.vm)))
		}},
		{"attach_disk", func(b *bed, nth int, after bool, s *state) bool {
			return b.killed(nth, after, "attach_disk", s.vm, s.loose)
		}, func(t *testing.T, b *bed, s *state) {
			_, err := b.AttachDisk(t.Context(), s.vm, s.loose)
			require.NoError(t, err)
		}},
		{"detach_disk", func(b *bed, nth int, after bool, s *state) bool {
			return b.killed(nth, after, "detach_disk", s.vm, s.disk)
		}, func(t *testing.T, b *bed, s *state) {
			if err := b.DetachDisk(t.Context(), s.vm, s.disk); err != nil {
				class(t, err, rpc.ClassDiskNotAttached)
			}
		}},
		{"resize_disk", func(b *bed, nth int, after bool, s *state) bool {
			return b.killed(nth, after, "resize_disk", s.disk, 20480)
		}, func(t *testing.T, b *bed, s *state) {
			require.NoError(t, b.ResizeDisk(t.Context(), s.disk, 20480))
		}},
		{"delete_disk", func(b *bed, nth int, after bool, s *state) bool {
			return b.killed(nth, after, "delete_disk", s.loose)
		}, func(t *testing.T, b *bed, s *state) {
			require.NoError(t, b.DeleteDisk(t.Context(), s.loose))
		}},
		{"delete_vm", func(b *bed, nth int, after bool, s *state) bool {
			return b.killed(nth, after, "delete_vm", s.vm)
		}, func(t *testing.T, b *bed, s *state) {
			require.NoError(t, b.DeleteVM(t.Context(), s.vm))
		}},
		{"delete_stemcell", func(b *bed, nth int, after bool, s *state) bool {
			require.NoError(b.t, b.DeleteVM(b.t.Context(), s.vm))
			return b.killed(nth, after, "delete_stemcell", s.stemcell)
		}, func(t *testing.T, b *bed, s *state) {
			require.NoError(t, b.DeleteStemcell(t.Context(), s.stemcell))
		}},
	} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, after effect %t", s.method, after), func(t *testing.T) {
				t.Parallel()
				for nth := 1; ; nth++ {
					b := newBed(t)
					st := b.state()
					if !s.kill(b, nth, after, st) {
						assert.Greater(t, nth, 1, "the call makes no write")
						return
					}
					s.next(t, b, st)
					b.nothingLeft(t, st, nth)
				}
			})
		}
	}
}

// A state is what there is before a call is killed.
type state struct {
	image            string
	stemcell, second rpc.StemcellCID
	vm               rpc.VMCID
	disk, loose      rpc.DiskCID
}

func (b *bed) state() *state {
	b.t.Helper()
	s := &state{image: b.image(6 * gib), stemcell: b.stemcell()}
	s.vm, _ = b.vm(s.stemcell)
	s.disk, s.loose = b.disk(s.vm), b.disk(s.vm)
	_, err := b.AttachDisk(b.t.Context(), s.vm, s.disk)
	require.NoError(b.t, err)
	return s
}

// nothingLeft deletes what the Director knows of and looks for the rest.
func (b *bed) nothingLeft(t *testing.T, s *state, nth int) {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, b.DeleteVM(ctx, s.vm), "write %d", nth)
	require.NoError(t, b.DeleteDisk(ctx, s.disk), "write %d", nth)
	require.NoError(t, b.DeleteDisk(ctx, s.loose), "write %d", nth)
	require.NoError(t, b.DeleteStemcell(ctx, s.stemcell), "write %d", nth)
	if s.second != "" {
		require.NoError(t, b.DeleteStemcell(ctx, s.second), "write %d", nth)
	}
	guests, volumes := b.made()
	assert.Empty(t, guests, "write %d", nth)
	assert.Empty(t, volumes, "write %d", nth)
	for _, dir := range []string{"pledges", "nodes", "tries"} {
		files, _ := os.ReadDir(filepath.Join(b.cfg.LockDir, dir))
		assert.Empty(t, files, "write %d: %s", nth, dir)
	}
}
