// Command burst lets many CPI processes loose on one node at once, as BOSH does,
// and measures how they get on.
//
//	burst -cpi ./bin/proxmox-cpi [-n 64] [-mixed 200]
//
// The node's three API workers are replaced after every 20 requests, which cuts
// what waits for them. All calls must succeed, no more changes than
// node_concurrency be under way at any moment, no VMID be given twice, and the
// whole take at most 1.3 times as long as its work would take that many workers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

func main() {
	if os.Getenv(actAsCPI) != "" {
		serveCPI()
	}
	if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "burst:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("burst", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var (
		program = flags.String("cpi", "", "CPI `program`; this program itself when empty")
		n       = flags.Int("n", 64, "how many create_vm processes")
		mixed   = flags.Int("mixed", 200, "how many processes of all kinds, afterwards")
		width   = flags.Int("width", 3, "node_concurrency of the CPI")
		task    = flags.Duration("task", 400*time.Millisecond, "how long the node's tasks take")
		workers = flags.Int("workers", 3, "API workers of the node")
		recycle = flags.Int("recycle", 20, "how many requests a worker serves")
		factor  = flags.Float64("factor", 1.3, "how much longer than its work a burst may take")
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; see -h", flags.Arg(0))
	}
	f, err := newField(*program, *width, *workers, *recycle)
	if err != nil {
		return err
	}
	defer f.close()
	var errs []error
	for _, b := range []struct {
		name  string
		calls func() ([]call, error)
	}{
		{fmt.Sprintf("%d create_vm at once", *n), func() ([]call, error) { return f.creations(*n), nil }},
		{fmt.Sprintf("%d mixed calls at once", *mixed), func() ([]call, error) { return f.mixture(ctx, *mixed) }},
	} {
		calls, err := b.calls()
		if err != nil {
			return err
		}
		if len(calls) == 0 {
			continue
		}
		r := f.burst(ctx, calls, *task)
		fmt.Fprintf(stdout, "%s, on one node with %d workers that recycle every %d requests, tasks of %s:\n%s", b.name, *workers, *recycle, *task, r)
		if err := r.check(*width, *factor); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", b.name, err))
		}
	}
	return errors.Join(errs...)
}
