// Command pve-sim serves a simulated Proxmox VE cluster.
//
//	pve-sim -listen 127.0.0.1:8006 -nodes pve1,pve2 -state ./cluster
//
// It prints the endpoint, an API token of root@pam and the certificate's
// fingerprint, one a line, and serves until it is interrupted. With -bosh it also
// makes what a BOSH CPI needs, and prints the CPI's token and configuration.
//
// A new cluster can start with more than its nodes: -seed names a JSON file, and
// -h shows what one looks like.
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

// recorded is how many requests a server that runs for long remembers.
const recorded = 1000

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pve-sim:", err)
		if _, usage := errors.AsType[usageError](err); usage {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

// A usageError is a command line that makes no sense.
type usageError string

func (e usageError) Error() string { return string(e) + "; see pve-sim -h" }

// An announcement is what is printed at the start.
type announcement struct {
	Endpoint    string     `json:"endpoint"`
	Token       string     `json:"token"` // "root@pam!pvetest=SECRET"
	Fingerprint string     `json:"fingerprint"`
	CA          string     `json:"ca,omitempty"`  // the file with the authority's certificate
	CPI         *cpiConfig `json:"cpi,omitempty"` // with -bosh
}

// settings are the flags.
type settings struct {
	listen, state, nodes, seed string
	bosh, asJSON, quiet        bool
	taskTime                   time.Duration
	workers, recycle           int
	nodesGiven                 bool
}

// parse reads the command line. It returns nil when only help was asked for.
func parse(args []string, help io.Writer) (*settings, error) {
	var s settings
	flags := flag.NewFlagSet("pve-sim", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&s.listen, "listen", "127.0.0.1:0", "`address` to listen on; port 0 takes a free one")
	flags.StringVar(&s.state, "state", "", "`directory` that keeps the cluster, its certificate and its uploads, up to date even when the program is killed; without it nothing is kept")
	flags.StringVar(&s.nodes, "nodes", "pve1", "comma-separated `names` of the nodes of a new cluster")
	flags.StringVar(&s.seed, "seed", "", "JSON `file` with what else a new cluster has")
	flags.BoolVar(&s.bosh, "bosh", false, "make what a BOSH CPI needs (a storage, a pool, a token with just the rights) and print the CPI's configuration; with -state it is also in cpi.json there")
	flags.BoolVar(&s.asJSON, "json", false, "print one JSON object instead of lines")
	flags.DurationVar(&s.taskTime, "task-time", 0, "how long tasks take; 0 means they are done at once")
	flags.IntVar(&s.workers, "workers", 0, "API workers a node has; 0 means no limit")
	flags.IntVar(&s.recycle, "recycle", 0, "replace a worker after so many requests, cutting those that wait for it; needs -workers")
	flags.BoolVar(&s.quiet, "q", false, "do not log requests")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(help, `pve-sim serves a simulated Proxmox VE cluster.

It prints, one a line, the endpoint, an API token of root@pam ("id=secret") and
the SHA-256 fingerprint of the certificate, and with -bosh the CPI's token and a
line that is its configuration file. Then it serves until SIGINT or SIGTERM.
The password of root@pam is "proxmox". A new cluster has a storage "local" and on
each node a bridge "vmbr0".

`)
		flags.SetOutput(help)
		flags.PrintDefaults()
		fmt.Fprint(help, "\n"+seedHelp+"\nThe exit status is 0 after a signal, 1 when something failed, 2 for a wrong\ncommand line.\n")
		return nil, nil
	case err != nil:
		return nil, usageError(err.Error())
	case flags.NArg() > 0:
		return nil, usageError(fmt.Sprintf("unexpected argument %q", flags.Arg(0)))
	case s.taskTime < 0:
		return nil, usageError(fmt.Sprintf("-task-time %s: tasks cannot end before they begin", s.taskTime))
	case s.workers < 0:
		return nil, usageError(fmt.Sprintf("-workers %d: give a number from 1 on, or 0 for no limit", s.workers))
	case s.recycle < 0:
		return nil, usageError(fmt.Sprintf("-recycle %d: give a number from 1 on, or 0 for never", s.recycle))
	case s.recycle > 0 && s.workers == 0:
		return nil, usageError("-recycle needs -workers, which says how many there are")
	}
	flags.Visit(func(f *flag.Flag) { s.nodesGiven = s.nodesGiven || f.Name == "nodes" })
	return &s, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s, err := parse(args, stdout)
	if s == nil || err != nil {
		return err
	}
	seed := &Seed{}
	if s.seed != "" {
		if seed, err = readSeed(s.seed); err != nil {
			return fmt.Errorf("seed %w", err)
		}
	}
	opts := []pvetest.Option{
		pvetest.WithListen(s.listen), pvetest.WithNodes(strings.Split(s.nodes, ",")...), pvetest.WithIdleTimeout(5 * time.Second), pvetest.WithRecord(recorded),
	}
	fresh := true
	if s.state != "" {
		opts = append(opts, pvetest.WithDir(s.state), pvetest.WithAutoSave())
		if fresh = !exists(filepath.Join(s.state, "state.json")); !fresh && (s.nodesGiven || s.seed != "") {
			fmt.Fprintf(stderr, "pve-sim: the cluster in %s is used as it is; -nodes and -seed are for new ones\n", s.state)
		}
	}
	if s.workers > 0 {
		opts = append(opts, pvetest.WithWorkers(s.workers, s.recycle))
	}
	if !s.quiet {
		opts = append(opts, pvetest.WithLog(func(r pvetest.Request) {
			fmt.Fprintf(stderr, "%s %s %s -> %d %s\n", r.User, r.Method, r.Path, r.Status, r.Phrase)
		}))
	}
	srv, err := pvetest.New(opts...)
	if err != nil {
		return err
	}
	defer srv.Close()
	a, err := s.prepare(srv, seed, fresh)
	if err == nil {
		err = announce(stdout, a, s.asJSON)
	}
	if err != nil {
		if fresh && s.state != "" {
			// A cluster that lacks half of its seed must not be taken for one.
			return errors.Join(err, srv.Close(), os.Remove(filepath.Join(s.state, "state.json")))
		}
		return err
	}
	<-ctx.Done()
	return srv.Close()
}

// prepare makes the cluster what the flags say and returns what is to be
// announced.
func (s *settings) prepare(srv *pvetest.Server, seed *Seed, fresh bool) (*announcement, error) {
	if err := srv.TasksLast(s.taskTime); err != nil {
		return nil, err
	}
	if fresh {
		if err := seed.plant(srv); err != nil {
			return nil, fmt.Errorf("seed %s: %w", s.seed, err)
		}
	}
	id, secret := srv.RootToken()
	a := &announcement{Endpoint: srv.URL(), Token: id + "=" + secret, Fingerprint: srv.Fingerprint()}
	if s.state != "" {
		a.CA = filepath.Join(s.state, "ca.pem")
		if err := os.WriteFile(a.CA, []byte(srv.CertPEM()), 0o600); err != nil {
			return nil, err
		}
	}
	if !s.bosh {
		return a, nil
	}
	config, err := prepareBOSH(srv)
	if err != nil {
		return nil, fmt.Errorf("-bosh: %w", err)
	}
	a.CPI = config
	if s.state != "" {
		return a, os.WriteFile(filepath.Join(s.state, "cpi.json"), []byte(config.String()+"\n"), 0o600)
	}
	return a, nil
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func announce(w io.Writer, a *announcement, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(a)
	}
	text := fmt.Sprintf("%s\n%s\n%s\n", a.Endpoint, a.Token, a.Fingerprint)
	if a.CPI != nil {
		text += fmt.Sprintf("%s\n%s\n", a.CPI.Token, a.CPI)
	}
	_, err := io.WriteString(w, text)
	return err
}
