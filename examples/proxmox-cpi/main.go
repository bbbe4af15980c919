// Command proxmox-cpi is a BOSH CPI for Proxmox VE: it reads one request from
// standard input and writes one response to standard output.
//
//	proxmox-cpi -configFile cpi.json < request.json
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/proxkit/proxkit/cpi"
	"github.com/proxkit/proxkit/cpi/rpc"
)

func main() {
	config := flag.String("configFile", "", "JSON `file` with the configuration; without it everything comes from the request's context")
	privileges := flag.Bool("privileges", false, "print what the API token must be allowed, for the configuration if one is given, and exit")
	audit := flag.Bool("audit", false, "list what calls that were killed have left on the cluster of the configuration, and exit; nothing is changed")
	flag.Usage = func() { usage(flag.CommandLine.Output()) }
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "proxmox-cpi: unexpected argument %q: the request comes on standard input, see -h\n", flag.Arg(0))
		os.Exit(2)
	}
	if *privileges {
		if err := printPrivileges(os.Stdout, *config); err != nil {
			fmt.Fprintln(os.Stderr, "proxmox-cpi:", err)
			os.Exit(1)
		}
		return
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	if *audit {
		if err := printAudit(ctx, os.Stdout, *config); err != nil {
			fmt.Fprintln(os.Stderr, "proxmox-cpi:", err)
			os.Exit(1)
		}
		return
	}
	open := cpi.Factory(*config)
	// BOSH asks for info before nearly every call, so info does without what it
	// does not need; watching signals takes a tenth of its time.
	factory := func(ctx context.Context, call *rpc.Call) (rpc.Handler, error) {
		if call.Method != "info" {
			cancelOnSignal(cancel)
		}
		return open(ctx, call)
	}
	if err := rpc.Serve(ctx, factory, os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "proxmox-cpi:", err)
		os.Exit(1)
	}
}

// cancelOnSignal lets a call that is interrupted undo what it has begun.
func cancelOnSignal(cancel context.CancelCauseFunc) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() { cancel(fmt.Errorf("the CPI was stopped by a signal (%s)", <-signals)) }()
}
