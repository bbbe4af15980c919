package cpi

import (
	"context"
	crand "crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve"
)

// A CPI makes BOSH's VMs, disks and stemcells on one Proxmox VE cluster. It
// implements [rpc.Handler]; the methods that it does not have answer
// NotImplemented. It keeps nothing between calls: what it knows stands in the
// cluster, as tags of guests.
type CPI struct {
	rpc.Unimplemented

	cfg      Config
	pve      *pve.Client
	log      *rpc.Log
	director string
	newMAC   func() (net.HardwareAddr, error)
	// settleTime is [defaultSettle] but in tests.
	settleTime time.Duration
}

var _ rpc.Handler = (*CPI)(nil)

// Options are what a [CPI] gets besides its configuration. All may be left out.
type Options struct {
	// Log collects the lines for the operator.
	Log *rpc.Log
	// DirectorUUID marks what is made with the Director it was made for.
	DirectorUUID string
	// Client is used instead of one made from the configuration.
	Client *pve.Client
}

// New returns a CPI for the cluster that cfg names. It opens no connection.
func New(cfg Config, o Options) (*CPI, error) {
	c := &CPI{cfg: cfg, pve: o.Client, log: o.Log, director: o.DirectorUUID, newMAC: randomMAC(crand.Read), settleTime: defaultSettle}
	if c.log == nil {
		c.log = &rpc.Log{}
	}
	if c.pve == nil {
		client, err := newClient(cfg, c.log)
		if err != nil {
			return nil, rpc.CloudError("%w", err)
		}
		c.pve = client
	}
	return c, nil
}

func newClient(cfg Config, log *rpc.Log) (*pve.Client, error) {
	if len(cfg.Endpoints) == 0 {
		return nil, &KeyError{Place: configPlace, Key: "endpoint", Problem: "is missing"}
	}
	opts := []pve.Option{
		pve.WithAPIToken(cfg.TokenID, cfg.TokenSecret), pve.WithUserAgent("proxkit-cpi"),
		pve.WithOnMisfit(func(m pve.Misfit) {
			log.Printf("warning: the answer to %s %s has at %q something else than expected: want %s, got %s", m.Method, m.Path, m.Field, m.Want, m.Got)
		}),
	}
	if len(cfg.Endpoints) > 1 {
		opts = append(opts, pve.WithEndpoints(cfg.Endpoints[1:]...))
	}
	if cfg.CACertificate != "" {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(cfg.CACertificate)) {
			return nil, &KeyError{Place: configPlace, Key: "ca_certificate", Problem: "holds no certificate"}
		}
		opts = append(opts, pve.WithRootCAs(pool))
	}
	if cfg.Fingerprint != "" {
		opts = append(opts, pve.WithFingerprint(cfg.Fingerprint))
	}
	return pve.NewClient(cfg.Endpoints[0], opts...)
}

// Factory returns what a program gives to [rpc.Serve]: a CPI made anew for each
// call, from the configuration file at path, which may be empty, overlaid by the
// properties in the call's context. The method info needs neither and always
// answers.
func Factory(path string) rpc.Factory {
	return func(_ context.Context, r *rpc.Call) (rpc.Handler, error) {
		if r.Method == "info" {
			return &CPI{}, nil
		}
		cfg, err := LoadConfig(path, r.Context.Properties)
		if err != nil {
			return nil, rpc.CloudError("%w", err)
		}
		r.Secret(cfg.Secrets()...)
		return New(cfg, Options{Log: r.Log, DirectorUUID: r.Context.DirectorUUID})
	}
}

// Info implements [rpc.InfoProvider].
func (*CPI) Info(context.Context) (rpc.Info, error) {
	return rpc.Info{APIVersion: 2, StemcellFormats: []string{"openstack-qcow2", "openstack-raw"}}, nil
}

// DeleteSnapshot answers that the snapshot does not exist: this CPI makes none,
// so no identifier can be of one of its snapshots. The Director takes that for
// done.
func (*CPI) DeleteSnapshot(_ context.Context, cid rpc.SnapshotCID) error {
	return rpc.DiskNotFound("snapshot %q does not exist: this CPI makes no snapshots", string(cid))
}

// within bounds a CPI call. The Director waits for ever, so that every call needs
// an end of its own.
func (c *CPI) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.cfg.CallTimeout <= 0 {
		return context.WithCancel(ctx)
	}
	ctx = context.WithValue(ctx, limitKey{}, c.cfg.CallTimeout)
	return context.WithTimeoutCause(ctx, c.cfg.CallTimeout,
		fmt.Errorf("call_timeout of %s is over: %w", c.cfg.CallTimeout, context.DeadlineExceeded))
}

// cleanupTime is what undoing a failed call may take at most after the time for
// the call itself is over. It never gets longer than the call.
const cleanupTime = 10 * time.Minute

// limitKey finds the time limit of a call in its context.
type limitKey struct{}

// afterwards returns a context for undoing what was begun, which goes on when the
// call's own context has ended.
func afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := cleanupTime
	if call, ok := ctx.Value(limitKey{}).(time.Duration); ok {
		limit = min(limit, call)
	}
	return context.WithTimeoutCause(context.WithoutCancel(ctx), limit, fmt.Errorf("undoing took longer than %s: %w", limit, context.DeadlineExceeded))
}

// call makes one API request within its own time limit.
func call[P, R any](ctx context.Context, c *CPI, f func(context.Context, P) (R, error), p P) (R, error) {
	ctx, cancel := c.forRequest(ctx)
	defer cancel()
	return f(ctx, p)
}

// request makes a change that is done when it is answered.
func request[P any](ctx context.Context, c *CPI, f func(context.Context, P) error, p P) error {
	leave, err := c.enter(ctx, nodeOf(p))
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := c.forRequest(ctx)
	defer cancel()
	return f(ctx, p)
}

func (c *CPI) forRequest(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.cfg.RequestTimeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, c.cfg.RequestTimeout, errRequestTimeout)
}

// workerStarts is how often a task is begun when the server has no worker for it.
const workerStarts = 8

// begin starts a task. A busy server now and then fails to start the worker,
// having done nothing; then it is asked again.
func begin[P any](ctx context.Context, c *CPI, f func(context.Context, P) (pve.UPID, error), p P) (pve.UPID, error) {
	for try := 0; ; try++ {
		upid, err := call(ctx, c, f, p)
		if err == nil || !errors.Is(err, pve.ErrWorkerStart) || try == workerStarts-1 {
			return upid, err
		}
		if err := pause(ctx, try); err != nil {
			return "", err
		}
	}
}

// perform makes a change that is a task and waits for its end.
func perform[P any](ctx context.Context, c *CPI, f func(context.Context, P) (pve.UPID, error), p P) error {
	leave, err := c.enter(ctx, nodeOf(p))
	if err != nil {
		return err
	}
	defer leave()
	upid, err := begin(ctx, c, f, p)
	if err != nil {
		return err
	}
	return c.wait(ctx, upid)
}

// performTask is perform for a change that is always a task. An answer that names
// none is an [errNoTask].
func performTask[P any](ctx context.Context, c *CPI, f func(context.Context, P) (pve.UPID, error), p P) error {
	return perform(ctx, c, func(ctx context.Context, p P) (pve.UPID, error) {
		upid, err := f(ctx, p)
		if err == nil && upid == "" {
			err = errNoTask
		}
		return upid, err
	}, p)
}

// wait waits for the end of a task. Its warnings are no failure.
func (c *CPI) wait(ctx context.Context, upid pve.UPID) error {
	if upid == "" {
		return nil
	}
	_, err := c.pve.WaitTask(ctx, upid)
	return err
}

// pause waits before attempt number try is repeated, longer each time.
func pause(ctx context.Context, try int) error {
	d := min(100*time.Millisecond<<min(try, 6), 3*time.Second)
	timer := time.NewTimer(d/2 + rand.N(d/2+1))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// badInput gives an error about the Director's arguments its class.
func badInput(err error) error {
	if err == nil {
		return nil
	}
	var classed *rpc.Error
	if errors.As(err, &classed) {
		return err
	}
	return rpc.CloudError("%w", err)
}
