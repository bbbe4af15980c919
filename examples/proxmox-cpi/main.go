// Command proxmox-cpi is a BOSH CPI for Proxmox VE: it reads one request from
// standard input and writes one response to standard output.
//
//	proxmox-cpi -configFile cpi.json < request.json
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"

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

func usage(w io.Writer) {
	fmt.Fprint(w, `proxmox-cpi is a BOSH CPI for Proxmox VE. It reads one request from standard
input and writes one response to standard output; BOSH starts it once per call.

  echo '{"method":"info","arguments":[],"context":{}}' | proxmox-cpi
  proxmox-cpi -configFile cpi.json < request.json

The exit status is 0 whenever a response was written, also when it is an error.

Flags:
`)
	flag.PrintDefaults()
	fmt.Fprint(w, `
Keys of the configuration. Any of them may also stand in the properties of a
cpi-config entry, which then win:

`)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, k := range cpi.ConfigKeys() {
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", k.Name, k.Type, k.Default, k.Meaning)
	}
	table.Flush()
}

// printPrivileges lists the rights to grant, one path a line.
func printPrivileges(w io.Writer, config string) error {
	scope := cpi.PrivilegeScope{
		Pool: "POOL", ImageStorages: []string{"STORAGE"}, ISOStorage: "STORAGE", ImportStorage: "STORAGE", Bridges: []string{"BRIDGE"},
	}
	if config != "" {
		cfg, err := cpi.LoadConfig(config, nil)
		if err != nil {
			return err
		}
		scope = cpi.PrivilegeScope{
			Pool: cfg.Pool, ImageStorages: append(cfg.Storage, cfg.DiskStorage...), Bridges: []string{cfg.Bridge},
			ISOStorage: cmp.Or(cfg.ISOStorage, cfg.Storage[0]), ImportStorage: cmp.Or(cfg.ImportStorage, cfg.Storage[0]),
		}
	}
	for _, p := range cpi.Privileges(scope) {
		fmt.Fprintf(w, "%s  %s\n", p.Path, strings.Join(p.Privileges, ","))
	}
	return nil
}
