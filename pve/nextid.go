package pve

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// CreateVMWithNextID creates a virtual machine under the next free VMID and waits for
// the task. It returns the VMID.
//
// The server's next VMID reserves nothing: of several callers who ask at the same time,
// one gets it and the others learn that it is taken. They try again here, with the
// next, until ctx ends; the datacenter's next-id range is honoured, and no VMID is
// passed over. That a VMID is taken may also come out only in the task, which is why
// this waits for it. A server so busy that it cannot start the task is asked again a few
// times. p.VMID must be 0.
//
// When the outcome is unknown because no answer came, or ctx ended during the task, the
// VMID comes with the error, so that the caller can look.
func (c *Client) CreateVMWithNextID(ctx context.Context, p CreateVMParams, opts ...WaitOption) (int64, error) {
	if p.VMID != 0 {
		return 0, errVMIDGiven(p.VMID)
	}
	return c.withNextID(ctx, opts, func(vmid int64) (UPID, error) {
		p.VMID = vmid
		return c.CreateVM(ctx, p)
	})
}

// CloneVMWithNextID is [Client.CreateVMWithNextID] for a clone. p.NewID must be 0.
func (c *Client) CloneVMWithNextID(ctx context.Context, p CloneVMParams, opts ...WaitOption) (int64, error) {
	if p.NewID != 0 {
		return 0, errVMIDGiven(p.NewID)
	}
	return c.withNextID(ctx, opts, func(vmid int64) (UPID, error) {
		p.NewID = vmid
		return c.CloneVM(ctx, p)
	})
}

// CreateContainerWithNextID is [Client.CreateVMWithNextID] for a container. p.VMID must
// be 0.
func (c *Client) CreateContainerWithNextID(ctx context.Context, p CreateContainerParams, opts ...WaitOption) (int64, error) {
	if p.VMID != 0 {
		return 0, errVMIDGiven(p.VMID)
	}
	return c.withNextID(ctx, opts, func(vmid int64) (UPID, error) {
		p.VMID = vmid
		return c.CreateContainer(ctx, p)
	})
}

// CloneContainerWithNextID is [Client.CreateVMWithNextID] for the clone of a container.
// p.NewID must be 0.
func (c *Client) CloneContainerWithNextID(ctx context.Context, p CloneContainerParams, opts ...WaitOption) (int64, error) {
	if p.NewID != 0 {
		return 0, errVMIDGiven(p.NewID)
	}
	return c.withNextID(ctx, opts, func(vmid int64) (UPID, error) {
		p.NewID = vmid
		return c.CloneContainer(ctx, p)
	})
}

func errVMIDGiven(vmid int64) error {
	return fmt.Errorf("pve: the VMID %d is given, but the next free one is to be used: leave it 0: %w", vmid, ErrInvalidParameter)
}

func (c *Client) withNextID(ctx context.Context, opts []WaitOption, start func(vmid int64) (UPID, error)) (int64, error) {
	const patience = 5 // with a server that starts no worker
	for lost, unstarted := 0, 0; ; lost++ {
		vmid, err := c.GetNextVMID(ctx, GetNextVMIDParams{})
		if err != nil {
			return 0, fmt.Errorf("next VMID: %w", err)
		}
		upid, err := start(vmid)
		if err == nil {
			_, err = c.WaitTask(ctx, upid, opts...)
		}
		idle := errors.Is(err, ErrWorkerStart)
		if idle {
			unstarted++
		}
		switch {
		case err == nil:
			return vmid, nil
		case errors.Is(err, ErrGuestExists), idle && unstarted < patience:
			// Someone else won the race, or nothing was done. Whoever has lost often waits
			// longer, so that the callers spread out.
			if cause := nap(ctx, time.Duration(rand.Int64N(int64(min(lost+1, 20))*int64(20*time.Millisecond)))); cause != nil {
				return 0, fmt.Errorf("%w; no time was left for another try: %w", err, cause)
			}
		case outcomeUnknown(err):
			return vmid, err
		default:
			return 0, err
		}
	}
}

// outcomeUnknown reports whether the guest may exist in spite of err.
func outcomeUnknown(err error) bool {
	_, waiting := errors.AsType[*TaskWaitError](err)
	_, damaged := errors.AsType[*AnswerError](err)
	return waiting || damaged || errors.Is(err, ErrNoAnswer) || errors.Is(err, ErrProxy) || errors.Is(err, ErrNodeUnreachable) || errors.Is(err, ErrTaskUnknown)
}

// nap waits for d or the end of ctx.
func nap(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
