package cpi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/proxkit/proxkit/pve"
)

// A claim makes a guest under a VMID that is free.
type claim struct {
	// node is where the request goes, and target where the guest is when all is
	// done; empty means node.
	node, target string
	// task is the type of the task that makes the guest.
	task string
	// name is the guest's name, chosen by this call alone: by it a guest whose
	// answer was lost is told from one that another process made with the same
	// VMID.
	name string
	// pledge notes the VMIDs that are used.
	pledge *pledge
	// start begins the task that makes the guest.
	start func(ctx context.Context, id VMID) (pve.UPID, error)
}

const (
	// claimTries bounds how often another VMID is asked for. PVE reserves nothing
	// between saying which VMID is free and its use, so that of many calls at
	// once all but one lose each round.
	claimTries = 100
	// defaultSettle is how long a request whose answer was lost, and no task of
	// which runs, is given to show. A busy node begins a task seconds late.
	defaultSettle = 5 * time.Second
)

// claim makes the guest and returns its VMID. With an error, a VMID other than 0
// says that a guest of the claim's name may exist under it.
//
// The VMID is asked for when the call's turn on the node has come: one that was
// asked for before would be another's by then.
func (c *CPI) claim(ctx context.Context, cl claim) (VMID, error) {
	leave, err := c.enter(ctx, cl.node)
	if err != nil {
		return 0, err
	}
	defer leave()
	var last error
	for try := range claimTries {
		id, err := call(ctx, c, c.pve.GetNextVMID, pve.GetNextVMIDParams{})
		if err != nil {
			return 0, fmt.Errorf("ask for a free VMID: %w", err)
		}
		cl.pledge.vmid(id)
		begun, err := c.claimID(ctx, cl, id)
		switch {
		case err == nil:
			return id, nil
		case !isTaken(err) && begun:
			return id, err
		case !isTaken(err):
			return 0, err
		}
		last = err
		if err := pause(ctx, min(try, 3)); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("every free VMID was taken by another call: %w", last)
}

// isTaken reports whether a guest could not be made because its VMID is another
// guest's.
func isTaken(err error) bool {
	return errors.Is(err, pve.ErrGuestExists) || strings.Contains(err.Error(), "config file already exists")
}

// claimID makes the guest under one VMID. It reports whether there may be one.
func (c *CPI) claimID(ctx context.Context, cl claim, id VMID) (begun bool, err error) {
	for try := 0; ; try++ {
		upid, err := cl.start(ctx, id)
		if err == nil && upid == "" {
			err = errNoTask
		}
		if err == nil {
			return true, c.wait(ctx, upid)
		}
		// A VMID that is taken after a lost answer may be taken by this very call.
		if !unsettled(err) && !(begun && isTaken(err)) {
			return begun, err
		}
		begun = true
		if try == 3 {
			return begun, err
		}
		c.log.Printf("guest %d: looking for what became of it: %v", id, err)
		found, settled := c.settle(ctx, cl, id)
		if settled != nil {
			return begun, fmt.Errorf("%w (after: %w)", settled, err)
		}
		if found {
			c.log.Printf("guest %d on node %s was made all the same", id, cl.home())
			return begun, nil
		}
		// Asking again for the same VMID cannot make a second guest: should the
		// first request still arrive, one of the two is refused.
	}
}

func (cl claim) home() string {
	if cl.target != "" {
		return cl.target
	}
	return cl.node
}

// settle finds out what became of a request whose answer was lost: the guest is
// there and this call's own, or it is not there. A guest of another process under
// the VMID is an error as if the request had been refused.
func (c *CPI) settle(ctx context.Context, cl claim, id VMID) (found bool, err error) {
	end := time.Now().Add(c.settleTime)
	for try := 0; ; try++ {
		conf, at, err := c.configAt(ctx, id, cl.node, cl.target)
		switch {
		case err == nil && conf.lock != "":
			// Being made, by whomever: the name comes at the end.
		case err == nil && conf.name == cl.name && at != cl.home():
			return true, fmt.Errorf("guest %d is on node %s instead of %s", id, at, cl.home())
		case err == nil && conf.name == cl.name:
			return true, nil
		case err == nil:
			return false, fmt.Errorf("VMID %d is another guest's: %w", id, errTaken)
		case errors.Is(err, pve.ErrNotFound), errors.Is(err, errHidden),
			unsettled(err), errors.Is(err, pve.ErrNotSent), errors.Is(err, pve.ErrNodeUnreachable):
		default:
			return false, err
		}
		waited, e := c.awaitTasks(ctx, cl)
		if e != nil {
			return false, e
		}
		switch {
		case waited:
			end = time.Now().Add(c.settleTime)
		case time.Now().Before(end):
		case errors.Is(err, pve.ErrNotFound):
			return false, nil
		case errors.Is(err, errHidden):
			return false, fmt.Errorf("VMID %d is another guest's: %w", id, errTaken)
		case err != nil:
			return false, err
		default:
			return true, fmt.Errorf("guest %d stays locked (%s)", id, conf.lock)
		}
		if err := pause(ctx, try); err != nil {
			return false, err
		}
	}
}

// awaitTasks waits for the tasks that may be making the claim's guest: those of
// its kind that the token has running on the node. It reports whether there were
// any.
func (c *CPI) awaitTasks(ctx context.Context, cl claim) (bool, error) {
	rows, err := call(ctx, c, c.pve.ListTasks, pve.ListTasksParams{
		Node: cl.node, Source: new("active"), TypeFilter: new(cl.task),
	})
	if err != nil {
		return false, nil
	}
	var running []pve.UPID
	for _, r := range rows {
		// Rows name the user with or without its token.
		if r.EndTime == nil && strings.HasPrefix(c.cfg.TokenID, r.User) {
			running = append(running, r.UPID)
		}
	}
	if len(running) == 0 {
		return false, nil
	}
	// How they end is for those who began them; the guests tell the rest.
	_, err = c.pve.WaitTasks(ctx, running, pve.WithTaskLogTail(0))
	if e, ok := errors.AsType[*pve.TaskWaitError](err); ok && ctx.Err() != nil {
		return true, e
	}
	return true, nil
}

// errTaken stands for the server's own refusal of a VMID that is taken.
var errTaken = errors.New("config file already exists")

// errHidden says that a VMID is taken by a guest that the token may not see. A
// guest that is being made is not in its pool yet, so the caller's own may be one.
var errHidden = errors.New("the guest cannot be seen")

// ownConfig reads the configuration of a guest that this call may have made. A
// token with rights on its pool alone is refused for a guest that does not exist
// and for one that is being made alike, but everybody may ask whether the VMID is
// free.
func (c *CPI) ownConfig(ctx context.Context, g guest) (*guestConfig, error) {
	conf, err := c.config(ctx, g)
	if !errors.Is(err, pve.ErrPermission) {
		return conf, err
	}
	_, taken := call(ctx, c, c.pve.GetNextVMID, pve.GetNextVMIDParams{VMID: new(g.vmid)})
	switch {
	case taken == nil:
		return nil, fmt.Errorf("%s: %w", g, pve.ErrNotFound)
	case errors.Is(taken, pve.ErrGuestExists):
		return nil, fmt.Errorf("%s: %w: %w", g, errHidden, err)
	}
	return nil, taken
}

// configAt reads a guest's configuration from the first of the nodes that has it.
func (c *CPI) configAt(ctx context.Context, id VMID, nodes ...string) (*guestConfig, string, error) {
	var last error
	for _, node := range nodes {
		if node == "" {
			continue
		}
		conf, err := c.ownConfig(ctx, guest{vmid: id, node: node})
		if err == nil {
			return conf, node, nil
		}
		if last == nil || !errors.Is(err, pve.ErrNotFound) {
			last = err
		}
	}
	return nil, "", last
}

// undo removes what a failed call made, as far as it is provably this call's own,
// and returns the first error with what is left behind added to it.
func (c *CPI) undo(ctx context.Context, first error, g guest) error {
	if g.vmid != 0 && !isTaken(first) {
		if err := c.removeOwn(ctx, g); err != nil {
			c.log.Printf("undo: %s: %v", g, err)
			return leftBehind(first, g.String())
		}
	}
	return first
}

// removeOwn destroys a guest of this call's, known by the name that no other call
// gives. No guest of that VMID is success, and so is another's.
func (c *CPI) removeOwn(ctx context.Context, g guest) error {
	for try := 0; ; try++ {
		conf, err := c.ownConfig(ctx, g)
		if errors.Is(err, pve.ErrNotFound) {
			return nil
		}
		switch {
		case err != nil:
		case conf.name == g.name:
			if err = c.stop(ctx, g); err == nil && conf.protection {
				err = c.updateConfig(ctx, g, change{protection: new(false)})
			}
			if err == nil {
				err = c.destroy(ctx, g)
			}
		case conf.lock == "":
			return nil
		default:
			// Being made, and without its name until it is done.
			err = fmt.Errorf("%s is locked (%s)", g, conf.lock)
		}
		if err == nil || errors.Is(err, pve.ErrNotFound) {
			return nil
		}
		// A task of the failed call may still hold the guest.
		passing := errors.Is(err, errHidden) || errors.Is(err, pve.ErrLocked) || unsettled(err) || errors.Is(err, pve.ErrRunning) || conf != nil && conf.lock != ""
		if !passing || try == 5 {
			return err
		}
		if err := pause(ctx, try+2); err != nil {
			return err
		}
	}
}

// stop stops a guest at once. One that is off already is no failure.
func (c *CPI) stop(ctx context.Context, g guest) error {
	for try := 0; ; try++ {
		err := performTask(ctx, c, c.pve.StopVM, pve.StopVMParams{Node: g.node, VMID: g.vmid})
		switch {
		case errors.Is(err, pve.ErrNotRunning):
			return nil
		case !errors.Is(err, errNoTask):
			return c.orGone(ctx, g, err)
		}
		if running, e := c.running(ctx, g); e == nil && !running {
			return nil
		}
		if try == 2 {
			return err
		}
		if err := pause(ctx, try+2); err != nil {
			return err
		}
	}
}

// destroy removes a stopped guest, its own disks and what refers to it.
func (c *CPI) destroy(ctx context.Context, g guest) error {
	for try := 0; ; try++ {
		err := performTask(ctx, c, c.pve.DeleteVM, pve.DeleteVMParams{Node: g.node, VMID: g.vmid, Purge: new(true)})
		if !errors.Is(err, errNoTask) {
			return c.orGone(ctx, g, err)
		}
		if _, e := c.ownConfig(ctx, g); errors.Is(e, pve.ErrNotFound) {
			return nil
		}
		if try == 2 {
			return err
		}
		if err := pause(ctx, try+2); err != nil {
			return err
		}
	}
}

// orGone tells a refusal for lack of a privilege from a guest that is gone, by a
// request whose answer was lost or by somebody else: a guest's privileges go with
// it, before it has gone altogether.
func (c *CPI) orGone(ctx context.Context, g guest, err error) error {
	for try := 0; errors.Is(err, pve.ErrPermission) && !isTaskError(err); try++ {
		_, taken := call(ctx, c, c.pve.GetNextVMID, pve.GetNextVMIDParams{VMID: new(g.vmid)})
		if taken == nil {
			return fmt.Errorf("%s: %w", g, pve.ErrNotFound)
		}
		if !errors.Is(taken, pve.ErrGuestExists) || try == 3 || pause(ctx, try+2) != nil {
			break
		}
	}
	return err
}

// hasGone reports whether err is a refusal for lack of a privilege on a guest that
// does not exist any more.
func (c *CPI) hasGone(ctx context.Context, g guest, err error) bool {
	if !errors.Is(err, pve.ErrPermission) || isTaskError(err) {
		return false
	}
	_, taken := call(ctx, c, c.pve.GetNextVMID, pve.GetNextVMIDParams{VMID: new(g.vmid)})
	return taken == nil
}

// leftBehindText introduces what could not be undone.
const leftBehindText = "left behind: "

// leftBehind adds to an error what could not be undone. The error keeps its class
// but not the promise that the call can simply be made again.
func leftBehind(err error, what string) error {
	return fmt.Errorf("%w; "+leftBehindText+"%s", err, what)
}

// createGuest returns what begins to make a guest with one drive. Options such as
// tags have to follow in a change of their own: while the guest is being made, it
// is not in its pool yet, and a token that has its rights there is refused.
func (c *CPI) createGuest(node, name string, memory int64, d drive) func(context.Context, VMID) (pve.UPID, error) {
	return func(ctx context.Context, id VMID) (pve.UPID, error) {
		p := pve.CreateVMParams{Node: node, VMID: id, Name: new(name), Memory: &pve.VMMemory{Current: memory}}
		if c.cfg.Pool != "" {
			p.Pool = new(c.cfg.Pool)
		}
		if err := putAt(&p.VirtIO, 0, d.String()); err != nil {
			return "", err
		}
		return begin(ctx, c, c.pve.CreateVM, p)
	}
}

// createNeeds are the privileges that making a guest with a disk takes.
func (c *CPI) createNeeds(storages ...string) []need {
	needs := []need{{"VM.Allocate", c.guestPath()}}
	for _, s := range storages {
		needs = append(needs, need{"Datastore.AllocateSpace", "/storage/" + s})
	}
	return needs
}

// guestPath is where privileges on guests are granted.
func (c *CPI) guestPath() string {
	if c.cfg.Pool != "" {
		return "/pool/" + c.cfg.Pool
	}
	return "/vms"
}
