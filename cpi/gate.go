package cpi

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/proxkit/proxkit/cpi/rpc"
)

// A gate bounds how many changes are made at once on one node, by all CPI
// processes of a machine together: BOSH starts a process for each call, many at a
// time, while a node has three workers and its storages one lock each.
//
// For each node there is a directory of tickets. A ticket is an empty file with a
// number for its name, which the process that drew it keeps locked with flock.
// Who wants to make a change draws the next number, one above the highest, and
// may begin when fewer live tickets than the gate is wide have a lower number.
// Who is done, removes its ticket. So the width is kept without a server, and
// also between processes that were given different widths: each counts for
// itself. Turns come strictly in the order in which the tickets were drawn, so
// that nobody starves.
//
// A ticket is live as long as it is locked. The kernel lets go of a lock when the
// process ends, however it ends; the ticket of a process that was killed counts
// no longer from that moment on, and the next one to draw removes it. Tickets are
// drawn under a lock of their own, "turn", and appear under their number only
// when they are locked already; so a number is above all that are live, and no
// live ticket is ever taken for a dead one.
//
// Waiting is looking again after a while, a shorter one for those who are next.
// It ends with the context and leaves nothing running.
//
// The directory belongs to one user: what another may write there, he may also
// remove. In TMPDIR each user therefore has one of his own, and for two users to
// have one gate, both processes must run as the same. Nodes of the same name in
// two clusters share a gate, which makes it narrower for each and never too wide.
type gate struct {
	dir   string
	width int
}

// A turn that a process waited longer for than this is told to the operator.
const longWait = 5 * time.Second

// errNoLocks says that the file system, or the operating system, cannot lock
// files.
var errNoLocks = errors.New("files cannot be locked here")

// enter waits for the right to change something on a node, and returns what gives
// the right back. It is held for one change at a time: from the request to the
// end of its task. Nobody holds one while waiting for another.
func (c *CPI) enter(ctx context.Context, node string) (leave func(), err error) {
	g := gate{dir: c.cfg.LockDir, width: c.cfg.NodeConcurrency}
	if !canLock || g.dir == "" || g.width <= 0 || node == "" {
		return func() {}, nil
	}
	begun := time.Now()
	leave, err = g.enter(ctx, node)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, rpc.CloudError("the call waited %s for its turn on node %s: %w", time.Since(begun).Round(time.Second), node, err).OKToRetry(true)
	default:
		return nil, rpc.CloudError("lock_dir %s cannot be used: %w: set lock_dir to a directory on a local disk that belongs to the user of the CPI", g.dir, err)
	}
	if waited := time.Since(begun); waited > longWait {
		c.log.Printf("waited %s for a turn on node %s, where node_concurrency (%d) changes were being made", waited.Round(time.Second), node, g.width)
	}
	return leave, nil
}

// nodeOf returns the node that a call's parameters name. All calls to a node have
// it as the field Node.
func nodeOf(params any) string {
	f := reflect.ValueOf(params).FieldByName("Node")
	if f.Kind() != reflect.String {
		return ""
	}
	return f.String()
}

// The waits between two looks: this much for each ticket that has to go first, up
// to a limit.
const (
	lookAgain     = 5 * time.Millisecond
	lookAgainMost = 400 * time.Millisecond
)

func (g gate) enter(ctx context.Context, node string) (leave func(), err error) {
	// A name of any form stays one name in one directory.
	dir := filepath.Join(g.dir, "gate", "node-"+url.PathEscape(node))
	if err := privateDir(g.dir, dir); err != nil {
		return nil, err
	}
	t, err := drawTicket(ctx, dir)
	for err == nil {
		var ahead int
		ahead, err = t.ahead(g.width)
		if errors.Is(err, errNoTicket) {
			// The directory was cleared: what is in it now does not know of us.
			t.leave()
			t, err = drawTicket(ctx, dir)
			continue
		}
		if err == nil && ahead < g.width {
			return t.leave, nil
		}
		if err == nil {
			err = wait(ctx, min(lookAgain*time.Duration(ahead-g.width+1), lookAgainMost))
		}
		if err != nil {
			t.leave()
		}
	}
	return nil, err
}

// wait waits for a time or for the end of the context.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// A ticket is a place in the queue of a node. Its file is locked.
type ticket struct {
	dir    string
	number int64
	file   *os.File
}

// errNoTicket says that a ticket is no longer in its directory.
var errNoTicket = errors.New("the ticket is gone")

// drawTicket takes the next place in the queue.
func drawTicket(ctx context.Context, dir string) (*ticket, error) {
	turn, err := lockFile(ctx, filepath.Join(dir, "turn"))
	if err != nil {
		return nil, err
	}
	defer turn.Close()
	last, err := removeDead(dir)
	if err != nil {
		return nil, err
	}
	t := &ticket{dir: dir, number: last + 1}
	// One that is left over from a process that was killed here is used again.
	draft := filepath.Join(dir, "new")
	if t.file, err = lockFile(ctx, draft); err != nil {
		return nil, err
	}
	if err := os.Rename(draft, ticketFile(dir, t.number)); err != nil {
		t.file.Close()
		return nil, err
	}
	return t, nil
}

// removeDead removes the tickets of dead processes and returns the highest number.
// The caller has the turn: nobody makes tickets meanwhile, so that a dead one stays
// the same one.
func removeDead(dir string) (last int64, err error) {
	numbers, err := tickets(dir)
	for _, n := range numbers {
		last = max(last, n)
		if !ticketLives(dir, n) {
			_ = os.Remove(ticketFile(dir, n))
		}
	}
	return last, err
}

// sweepTickets removes the tickets of dead processes from all queues that nobody
// is drawing from. Their next user would, but there may not be one for long.
func (c *CPI) sweepTickets() {
	if c.cfg.LockDir == "" {
		return
	}
	nodes, _ := filepath.Glob(filepath.Join(c.cfg.LockDir, "gate", "node-*"))
	for _, dir := range nodes {
		if numbers, err := tickets(dir); err != nil || len(numbers) == 0 {
			continue
		}
		turn, err := os.OpenFile(filepath.Join(dir, "turn"), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if ok, err := tryLock(turn); ok && err == nil {
			_, _ = removeDead(dir)
		}
		turn.Close()
	}
}

// ahead counts the live tickets that come before this one. Of many, only the
// first ones are looked at more closely unless one of these is dead: those who
// wait far behind would otherwise keep the machine busy.
func (t *ticket) ahead(width int) (int, error) {
	numbers, err := tickets(t.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	if !slices.Contains(numbers, t.number) {
		return 0, errNoTicket
	}
	numbers = slices.DeleteFunc(numbers, func(n int64) bool { return n >= t.number })
	slices.Sort(numbers)
	ahead := 0
	for i, n := range numbers {
		if ticketLives(t.dir, n) {
			ahead++
		}
		if ahead > width && ahead == i+1 {
			return len(numbers), nil
		}
	}
	return ahead, nil
}

// leave gives the place back.
func (t *ticket) leave() {
	name := ticketFile(t.dir, t.number)
	// After the directory was cleared, the number may be another's.
	if mine, err := t.file.Stat(); err == nil {
		if there, err := os.Stat(name); err == nil && os.SameFile(mine, there) {
			_ = os.Remove(name)
		}
	}
	_ = t.file.Close()
}

func ticketFile(dir string, number int64) string {
	return filepath.Join(dir, "ticket-"+strconv.FormatInt(number, 10))
}

// tickets lists the numbers of all tickets, live or not.
func tickets(dir string) ([]int64, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var out []int64
	for _, name := range names {
		const prefix = "ticket-"
		if len(name) <= len(prefix) || name[:len(prefix)] != prefix {
			continue
		}
		if n, err := strconv.ParseInt(name[len(prefix):], 10, 64); err == nil {
			out = append(out, n)
		}
	}
	return out, nil
}

// ticketLives reports whether the process that drew a ticket is still there.
func ticketLives(dir string, number int64) bool {
	f, err := os.Open(ticketFile(dir, number))
	if err != nil {
		return false
	}
	defer f.Close()
	return isLocked(f)
}

// lockFile opens a file, making it when it is not there, and waits until it has
// the file's lock, which goes when the file is closed.
func lockFile(ctx context.Context, name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		ok, err := tryLock(f)
		if err == nil && !ok {
			// The lock is held for a few operations on files.
			err = wait(ctx, time.Millisecond)
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		if !ok {
			continue
		}
		// Somebody may have removed the file, and another one may be there now.
		mine, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, err
		}
		if there, err := os.Stat(name); err == nil && os.SameFile(mine, there) {
			return f, nil
		}
		f.Close()
		if f, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
			return nil, err
		}
	}
}

// notesLast is how long notes are kept that may be of no more use.
const notesLast = 30 * 24 * time.Hour

// sweepNotes removes old notes about VMs and agents from lock_dir.
func (c *CPI) sweepNotes(now time.Time) {
	for sub, age := range map[string]time.Duration{"tries": triesLast, "nodes": notesLast} {
		dir := filepath.Join(c.cfg.LockDir, sub)
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > age {
				_ = os.Remove(filepath.Join(dir, e.Name()))
			}
		}
	}
}
