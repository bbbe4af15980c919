// Command pve-sim serves a simulated Proxmox VE cluster.
//
//	pve-sim -listen 127.0.0.1:8006 -nodes pve1,pve2 -state ./cluster
//
// It prints the endpoint, an API token of root@pam and the certificate's
// fingerprint, one a line, and serves until it is interrupted.
//
// A new cluster can start with more than its nodes; -seed names a file such as
//
//	{
//	  "storages": {"thin": {"type": "lvmthin", "nodes": ["pve2"]}},
//	  "pools":    ["bosh"],
//	  "roles":    {"CPI": ["VM.Allocate", "VM.Audit"]},
//	  "tokens":   {"bosh@pve!cpi": {"secret": "s3cret", "privsep": false}},
//	  "acl":      [{"path": "/pool/bosh", "who": "bosh@pve", "role": "CPI"}],
//	  "options":  {"next-id": "lower=200"},
//	  "vms":      {"100": {"config": {"name": "web", "virtio0": "local:8"}}}
//	}
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/proxkit/proxkit/pve/pvetest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "pve-sim:", err)
		os.Exit(1)
	}
}

// An announcement is what is printed at the start.
type announcement struct {
	Endpoint    string `json:"endpoint"`
	Token       string `json:"token"` // "root@pam!pvetest=SECRET"
	Fingerprint string `json:"fingerprint"`
	CA          string `json:"ca,omitempty"` // the file with the authority's certificate
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("pve-sim", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, `pve-sim serves a simulated Proxmox VE cluster.

It prints the endpoint, an API token of root@pam ("id=secret") and the SHA-256
fingerprint of the certificate, one a line, and serves until SIGINT or SIGTERM.
The password of root@pam is "proxmox".

`)
		flags.PrintDefaults()
	}
	var (
		listen   = flags.String("listen", "127.0.0.1:0", "`address` to listen on; port 0 takes a free one")
		state    = flags.String("state", "", "`directory` that keeps the cluster, its certificate and its uploads; without it nothing is kept")
		nodes    = flags.String("nodes", "pve1", "comma-separated `names` of the nodes of a new cluster")
		seed     = flags.String("seed", "", "JSON `file` with the storages, pools, roles, tokens, permissions and options of a new cluster (this program's documentation has an example)")
		asJSON   = flags.Bool("json", false, "print one JSON object instead of lines")
		taskTime = flags.Duration("task-time", 0, "how long tasks take; 0 means they are done at once")
		workers  = flags.Int("workers", 0, "API workers a node has; 0 means no limit")
		recycle  = flags.Int("recycle", 0, "replace a worker after so many requests, cutting those that wait for it")
		quiet    = flags.Bool("q", false, "do not log requests")
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; see -h", flags.Arg(0))
	}
	opts := []pvetest.Option{
		pvetest.WithListen(*listen), pvetest.WithNodes(strings.Split(*nodes, ",")...), pvetest.WithIdleTimeout(5 * time.Second),
	}
	if *state != "" {
		opts = append(opts, pvetest.WithDir(*state))
	}
	if *workers > 0 {
		opts = append(opts, pvetest.WithWorkers(*workers, *recycle))
	}
	if !*quiet {
		opts = append(opts, pvetest.WithLog(func(r pvetest.Request) {
			fmt.Fprintf(stderr, "%s %s %s -> %d %s\n", r.User, r.Method, r.Path, r.Status, r.Phrase)
		}))
	}
	fresh := *state == "" || !exists(filepath.Join(*state, "state.json"))
	srv, err := pvetest.New(opts...)
	if err != nil {
		return err
	}
	defer srv.Close()
	srv.TasksLast(*taskTime)
	if *seed != "" && fresh {
		if err := plant(srv, *seed); err != nil {
			return fmt.Errorf("seed %s: %w", *seed, err)
		}
	}
	id, secret := srv.RootToken()
	a := announcement{Endpoint: srv.URL(), Token: id + "=" + secret, Fingerprint: srv.Fingerprint()}
	if *state != "" {
		a.CA = filepath.Join(*state, "ca.pem")
		if err := os.WriteFile(a.CA, []byte(srv.CertPEM()), 0o600); err != nil {
			return err
		}
	}
	if err := announce(stdout, a, *asJSON); err != nil {
		return err
	}
	<-ctx.Done()
	return srv.Close()
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func announce(w io.Writer, a announcement, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(a)
	}
	_, err := fmt.Fprintf(w, "%s\n%s\n%s\n", a.Endpoint, a.Token, a.Fingerprint)
	return err
}
