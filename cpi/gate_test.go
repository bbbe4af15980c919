package cpi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi/rpc"
)

// queue returns the tickets of a node.
func (g gate) queue(node string) []int64 {
	out, _ := tickets(filepath.Join(g.dir, "gate", "node-"+node))
	slices.Sort(out)
	return out
}

func (g gate) await(t *testing.T, node string, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return len(g.queue(node)) == n }, 20*time.Second, time.Millisecond)
}

func TestGateKeepsItsWidth(t *testing.T) {
	t.Parallel()
	for _, width := range []int{1, 3, 64} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			t.Parallel()
			g := gate{dir: filepath.Join(t.TempDir(), "locks"), width: width}
			var now, peak atomic.Int64
			var wg sync.WaitGroup
			for range 24 {
				wg.Go(func() {
					leave, err := g.enter(t.Context(), "n1")
					if !assert.NoError(t, err) {
						return
					}
					defer leave()
					n := now.Add(1)
					for p := peak.Load(); n > p && !peak.CompareAndSwap(p, n); p = peak.Load() {
					}
					assert.NoError(t, wait(t.Context(), 3*time.Millisecond))
					now.Add(-1)
				})
			}
			wg.Wait()
			assert.LessOrEqual(t, peak.Load(), int64(width))
			if width == 3 {
				assert.Equal(t, int64(3), peak.Load(), "the width is used")
			}
			assert.Empty(t, g.queue("n1"), "no ticket is left")
		})
	}
}

func TestGateServesInOrder(t *testing.T) {
	t.Parallel()
	g := gate{dir: t.TempDir(), width: 1}
	leave, err := g.enter(t.Context(), "n1")
	require.NoError(t, err)
	var mu sync.Mutex
	var order []int
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			leave, err := g.enter(t.Context(), "n1")
			if assert.NoError(t, err) {
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				leave()
			}
		})
		g.await(t, "n1", i+2)
	}
	leave()
	wg.Wait()
	assert.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7}, order)
}

func TestGateIsOneForEachNode(t *testing.T) {
	t.Parallel()
	g := gate{dir: t.TempDir(), width: 1}
	for _, node := range []string{"n1", "n2", "../odd/name", ""} {
		leave, err := g.enter(t.Context(), node)
		require.NoError(t, err, node)
		defer leave()
	}
	entries, err := os.ReadDir(filepath.Join(g.dir, "gate"))
	require.NoError(t, err)
	assert.Len(t, entries, 4, "every name is a directory of its own in there")
}

func TestGateEndsWithTheContext(t *testing.T) {
	t.Parallel()
	g := gate{dir: t.TempDir(), width: 1}
	leave, err := g.enter(t.Context(), "n1")
	require.NoError(t, err)
	before := runtime.NumGoroutine()
	why := errors.New("the operator gave up")
	ctx, cancel := context.WithCancelCause(t.Context())
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			_, err := g.enter(ctx, "n1")
			assert.ErrorIs(t, err, why)
		})
	}
	g.await(t, "n1", 17)
	cancel(why)
	wg.Wait()
	assert.Len(t, g.queue("n1"), 1, "those who gave up do not stand in the way")
	assert.LessOrEqual(t, runtime.NumGoroutine(), before+8, "nothing goes on in the background")
	leave()
	again, err := g.enter(t.Context(), "n1")
	require.NoError(t, err)
	again()
}

func TestGateWhoseDirectoryIsCleared(t *testing.T) {
	t.Parallel()
	g := gate{dir: t.TempDir(), width: 1}
	first, err := g.enter(t.Context(), "n1")
	require.NoError(t, err)
	entered := make(chan func(), 1)
	go func() {
		leave, err := g.enter(t.Context(), "n1")
		assert.NoError(t, err)
		entered <- leave
	}()
	g.await(t, "n1", 2)
	for _, n := range g.queue("n1") {
		require.NoError(t, os.Remove(ticketFile(filepath.Join(g.dir, "gate", "node-n1"), n)))
	}
	select {
	case leave := <-entered:
		first() // must not take the ticket that has its number now
		assert.Len(t, g.queue("n1"), 1)
		leave()
	case <-time.After(20 * time.Second):
		t.Fatal("who waited is stuck")
	}
	assert.Empty(t, g.queue("n1"))
}

func TestGateThatCannotBeUsedSaysWhatToDo(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	c := &CPI{cfg: Config{LockDir: file, NodeConcurrency: 1}, log: &rpc.Log{}}
	_, err := c.enter(t.Context(), "n1")
	require.Error(t, err)
	assert.Contains(t, err.Error(), "set lock_dir to a directory")
	assert.Equal(t, rpc.ClassCloudError, rpc.ErrorOf(err).Class())

	c.cfg.LockDir = t.TempDir()
	leave, err := c.enter(t.Context(), "n1")
	require.NoError(t, err)
	defer leave()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = c.enter(ctx, "n1")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Contains(t, err.Error(), "its turn on node n1")
	assert.True(t, rpc.ErrorOf(err).Retryable())
}

const gateEnv = "PROXKIT_TEST_GATE"

// TestGateHelper is the other processes of the tests below: it enters, says so,
// and leaves when its standard input ends.
func TestGateHelper(t *testing.T) {
	dir := os.Getenv(gateEnv)
	if dir == "" {
		t.Skip("a helper of other tests")
	}
	leave, err := gate{dir: dir, width: 2}.enter(t.Context(), "n1")
	require.NoError(t, err)
	fmt.Println("entered")
	_, _ = io.Copy(io.Discard, os.Stdin)
	leave()
}

// A gateProcess waits at, or has passed, the gate.
type gateProcess struct {
	cmd     *exec.Cmd
	stdin   io.Closer
	entered chan struct{}
}

func (g gate) process(t *testing.T) *gateProcess {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	p := &gateProcess{cmd: exec.Command(exe, "-test.run=^TestGateHelper$"), entered: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), gateEnv+"="+g.dir)
	p.stdin, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "entered") {
				close(p.entered)
			}
		}
	}()
	t.Cleanup(func() {
		_ = p.stdin.Close()
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

func (p *gateProcess) in() bool {
	select {
	case <-p.entered:
		return true
	default:
		return false
	}
}

func (p *gateProcess) awaitIn(t *testing.T) {
	t.Helper()
	require.Eventually(t, p.in, 30*time.Second, time.Millisecond)
}

func TestGateBetweenProcesses(t *testing.T) {
	t.Parallel()
	if _, err := tryLockProbe(t); errors.Is(err, errNoLocks) {
		t.Skip("files cannot be locked here")
	}
	g := gate{dir: t.TempDir(), width: 2}
	var ps []*gateProcess
	for i := range 6 {
		ps = append(ps, g.process(t))
		require.Eventually(t, func() bool { return len(g.queue("n1")) == i+1 }, 30*time.Second, time.Millisecond)
	}
	ps[0].awaitIn(t)
	ps[1].awaitIn(t)
	require.NoError(t, wait(t.Context(), 250*time.Millisecond))
	for i, p := range ps {
		assert.Equal(t, i < 2, p.in(), "process %d", i)
	}

	// A killed process that had entered makes room, and so does one that is
	// killed while it waits.
	require.NoError(t, ps[3].cmd.Process.Kill())
	require.NoError(t, ps[0].cmd.Process.Kill())
	ps[2].awaitIn(t)
	require.NoError(t, ps[1].stdin.Close())
	ps[4].awaitIn(t)
	require.NoError(t, wait(t.Context(), 250*time.Millisecond))
	assert.False(t, ps[5].in())
	assert.False(t, ps[3].in())

	// This process is the last, and goes behind those that still wait.
	require.NoError(t, ps[2].stdin.Close())
	ps[5].awaitIn(t)
	require.NoError(t, ps[4].cmd.Process.Kill())
	leave, err := g.enter(t.Context(), "n1")
	require.NoError(t, err)
	leave()
	require.NoError(t, ps[5].stdin.Close())
	_ = ps[5].cmd.Wait()
	leave, err = g.enter(t.Context(), "n1")
	require.NoError(t, err)
	leave()
	assert.Empty(t, g.queue("n1"), "the tickets of the killed are gone too")
}

func tryLockProbe(t *testing.T) (bool, error) {
	f, err := os.Create(filepath.Join(t.TempDir(), "probe"))
	require.NoError(t, err)
	defer f.Close()
	return tryLock(f)
}

func BenchmarkGate(b *testing.B) {
	g := gate{dir: b.TempDir(), width: 3}
	for b.Loop() {
		leave, err := g.enter(b.Context(), "n1")
		if err != nil {
			b.Fatal(err)
		}
		leave()
	}
}
