// Command demo shows a BOSH lifecycle on a simulated Proxmox VE cluster, through
// the CPI binary that a Director would run.
//
// It starts pve-sim on loopback, makes an API token that can touch nothing but
// its own resource pool, and then makes the calls of "bosh create-env" in their
// order: a first deploy, a recreate with the disk still attached, a bigger disk,
// a new stemcell, and delete-env. The CPI is started once per request with JSON
// on its standard input. After every call package cpitest asks the cluster, over a
// connection of its own, whether it agrees with what the CPI said. The exit status
// tells. Command cpi-check plays everything else that a Director does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/proxkit/proxkit/cpi/cpitest"
)

func main() {
	cpi := flag.String("cpi", "bin/proxmox-cpi", "the CPI `program`")
	sim := flag.String("sim", "bin/pve-sim", "the simulator's `program`")
	verbose := flag.Bool("v", false, "also print the log of each CPI call")
	keep := flag.Bool("keep", false, "keep the working directory")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "demo: unexpected argument %q: the demo takes flags alone, see -h\n", flag.Arg(0))
		os.Exit(2)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *cpi, *sim, *verbose, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, program, sim string, verbose, keep bool) (err error) {
	began := time.Now()
	program, err = filepath.Abs(program)
	if err != nil {
		return err
	}
	for _, p := range []struct{ flag, path string }{{"cpi", program}, {"sim", sim}} {
		if _, err := exec.LookPath(p.path); err != nil {
			return fmt.Errorf("-%s: the program cannot be run: %w", p.flag, err)
		}
	}
	dir, err := os.MkdirTemp("", "proxkit-demo-")
	if err != nil {
		return err
	}
	if keep {
		fmt.Println("working directory:", dir)
	} else {
		defer os.RemoveAll(dir)
	}

	cluster, err := startCluster(ctx, sim, filepath.Join(dir, "pve"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.stop()) }()
	fmt.Printf("a simulated cluster of %d nodes answers at %s\n", len(cluster.nodes), cluster.endpoint)

	token, err := cluster.prepare(ctx)
	if err != nil {
		return fmt.Errorf("prepare the cluster: %w", err)
	}
	fmt.Printf("pool %s and token %s are made; the token may do what the CPI needs on that pool, storage %s and bridge vmbr0, and nothing else\n\n", poolID, token.id, storageID)

	o, err := options(program, filepath.Join(dir, "director"), cluster, token)
	if err != nil {
		return err
	}
	o.Progress = follow(verbose)
	report, err := cpitest.Check(ctx, o)
	if err != nil {
		return err
	}
	processes := 0
	for _, m := range report.Calls {
		processes += m.Calls
	}
	fmt.Printf("\n%d CPI processes in %.1f s; the cluster agreed after every call, and nothing is left\n", processes, time.Since(began).Seconds())
	return nil
}
