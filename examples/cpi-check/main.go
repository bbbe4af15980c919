// Command cpi-check checks that a BOSH CPI for Proxmox VE keeps its contract. The
// CPI is a program in any language, started once for each request as a Director
// starts it, with PATH, HOME and TMPDIR for its environment.
//
//	cpi-check -cpi ./bin/proxmox-cpi
//	cpi-check -cpi ./my-cpi -config my-cpi.json -args '--config {config}'
//
// It starts a simulated cluster for that. With -endpoint it works on a real one,
// where it makes and destroys guests: read what it prints first.
//
// The exit status is 0 when nothing is wrong with the CPI, 1 when something is,
// and 2 when the check could not be made.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/proxkit/proxkit/cpi/cpitest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// The exit statuses.
const (
	passed   = 0
	failed   = 1
	unusable = 2
)

type settings struct {
	cpi, config, args, bareArgs string

	endpoint, tokenFile, fingerprint, ca, pool, storages, volumes string
	really                                                        bool
	storageType                                                   string
	taskTime                                                      time.Duration

	vmProperties, diskProperties, networkProperties, light, contextProperties string
	bridge                                                                    string

	only     string
	parallel int
	repeats  int
	limit    time.Duration
	failFast bool

	jsonFile          string
	calls, verbose    bool
	list, printConfig bool
	keep              bool
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return passed
	case err != nil:
		fmt.Fprintln(stderr, "cpi-check:", err)
		return unusable
	case s.list:
		for _, sc := range cpitest.Scenarios() {
			fmt.Fprintf(stdout, "%-20s %s\n", sc.Name, sc.Title)
		}
		return passed
	case s.printConfig:
		fmt.Fprintln(stdout, defaultConfig)
		return passed
	}
	report, err := s.check(ctx, stdout, stderr)
	if report != nil {
		if e := s.write(report, stdout); e != nil {
			fmt.Fprintln(stderr, "cpi-check:", e)
			return unusable
		}
		if report.Outcome == cpitest.Failed {
			return failed
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "cpi-check:", err)
		return unusable
	}
	return passed
}

func parse(args []string, stderr io.Writer) (*settings, error) {
	s := &settings{}
	flags := flag.NewFlagSet("cpi-check", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, `cpi-check checks that a BOSH CPI for Proxmox VE keeps its contract.

  cpi-check -cpi ./bin/proxmox-cpi
  cpi-check -cpi ./my-cpi -config my-cpi.json -args '--config {config}'

Without -endpoint it starts a simulated cluster. The configuration is JSON in
which ${NAME} stands for a fact of that cluster: ENDPOINT, HOST, TOKEN_ID,
TOKEN_SECRET, FINGERPRINT, CA, POOL, STORAGE, FILE_STORAGE (for ISOs and imports),
BRIDGE, NODE.

Flags:
`)
		flags.PrintDefaults()
	}
	flags.StringVar(&s.cpi, "cpi", "", "the CPI `program`")
	flags.StringVar(&s.config, "config", "", "`file` with the CPI's configuration; default that of proxkit's own CPI, see -print-config")
	flags.StringVar(&s.args, "args", "-configFile={config}", "arguments of the program, separated by spaces; {config} is the file with the configuration")
	flags.StringVar(&s.bareArgs, "bare-args", "", "arguments of the program when all settings come from the context of the request; \"none\" skips that part")
	flags.StringVar(&s.endpoint, "endpoint", "", "`address` of a real cluster's API, https://pve1.example.com:8006")
	flags.BoolVar(&s.really, "yes-really", false, "make and destroy guests on the real cluster")
	flags.StringVar(&s.tokenFile, "token-file", "", "`file` with an API token of an administrator of the real cluster, user@realm!id=secret; or in CPI_CHECK_TOKEN")
	flags.StringVar(&s.fingerprint, "fingerprint", "", "SHA-256 of the real cluster's certificate")
	flags.StringVar(&s.ca, "ca", "", "`file` with the certificates of the real cluster's authority")
	flags.StringVar(&s.pool, "pool", "", "resource pool that the CPI uses on the real cluster")
	flags.StringVar(&s.storages, "storages", "", "storages of the real cluster that nobody but the CPI writes ISOs and images to, separated by commas")
	flags.StringVar(&s.volumes, "volumes", "", "`directory` where the real cluster's ISOs can be read, to check the agents' settings")
	flags.StringVar(&s.storageType, "storage-type", "rbd", "type of the simulated storage for disks")
	flags.DurationVar(&s.taskTime, "task-time", 0, "how long tasks of the simulated cluster take, so that calls are long enough to be stopped in the middle")
	flags.StringVar(&s.vmProperties, "vm-properties", "", "`JSON` cloud properties of VMs, added to what calculate_vm_cloud_properties answers")
	flags.StringVar(&s.diskProperties, "disk-properties", "", "`JSON` cloud properties of disks")
	flags.StringVar(&s.networkProperties, "network-properties", "", "`JSON` cloud properties of networks")
	flags.StringVar(&s.light, "light-stemcell", "", "`JSON` cloud properties of a light stemcell")
	flags.StringVar(&s.contextProperties, "context", "", "`file` with properties of a cpi-config that the Director sends in every context")
	flags.StringVar(&s.bridge, "bridge", "", "bridge that every NIC must be on; default vmbr0 on the simulated cluster")
	flags.StringVar(&s.only, "only", "", "scenarios to play, separated by commas; see -list")
	flags.IntVar(&s.parallel, "parallel", 6, "how many calls run at once")
	flags.IntVar(&s.repeats, "repeats", 2, "how often an idempotent call is repeated")
	flags.DurationVar(&s.limit, "limit", 10*time.Minute, "how long a call may take")
	flags.BoolVar(&s.failFast, "fail-fast", false, "stop at the first scenario that fails")
	flags.StringVar(&s.jsonFile, "json", "", "`file` for the report as JSON; - for standard output instead of text")
	flags.BoolVar(&s.calls, "calls", false, "list every call in the report")
	flags.BoolVar(&s.verbose, "v", false, "print steps and calls as they happen, and keep the CPI's logs in the report")
	flags.BoolVar(&s.keep, "keep", false, "keep the working directory, with the configuration and what the CPI left in HOME and TMPDIR")
	flags.BoolVar(&s.list, "list", false, "list the scenarios and exit")
	flags.BoolVar(&s.printConfig, "print-config", false, "print the configuration that is used without -config and exit")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q; see -h", flags.Arg(0))
	}
	if s.cpi == "" && !s.list && !s.printConfig {
		return nil, errors.New("which CPI? Give its program with -cpi; see -h")
	}
	return s, nil
}

// check makes the check.
func (s *settings) check(ctx context.Context, stdout, stderr io.Writer) (*cpitest.Report, error) {
	dir, err := os.MkdirTemp("", "cpi-check-")
	if err != nil {
		return nil, err
	}
	if s.keep {
		fmt.Fprintln(stderr, "working directory:", dir)
	} else {
		defer os.RemoveAll(dir)
	}
	o, err := s.options(dir)
	if err != nil {
		return nil, err
	}
	var values map[string]string
	if s.endpoint == "" {
		sim, err := cpitest.Simulate(s.storageType)
		if err != nil {
			return nil, err
		}
		defer sim.Close()
		if err := sim.TasksLast(s.taskTime); err != nil {
			return nil, err
		}
		o.Cluster, values = sim.Cluster(), sim.Values()
		o.Secrets = append(o.Secrets, sim.Secret())
		if o.Bridge == "" {
			o.Bridge = values["BRIDGE"]
		}
	} else if o.Cluster, err = s.realCluster(stderr); err != nil {
		return nil, err
	}
	if err := s.configure(&o, dir, values); err != nil {
		return nil, err
	}
	if s.verbose {
		o.Progress = func(event any) {
			switch e := event.(type) {
			case cpitest.Step:
				fmt.Fprintf(stderr, "%s: %s\n", e.Scenario, e.Title)
			case cpitest.CallReport:
				fmt.Fprintf(stderr, "  %s\n", e)
			}
		}
	}
	return cpitest.Check(ctx, o)
}

// options are those that do not depend on the cluster.
func (s *settings) options(dir string) (cpitest.Options, error) {
	o := cpitest.Options{
		Bridge: s.bridge, Parallel: s.parallel, Repeats: s.repeats, CallLimit: s.limit, FailFast: s.failFast, Verbose: s.verbose,
		Dirs: []string{filepath.Join(dir, "home"), filepath.Join(dir, "tmp")},
	}
	for _, d := range o.Dirs {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return o, err
		}
	}
	if s.only != "" {
		o.Only = strings.Split(s.only, ",")
	}
	for _, f := range []struct {
		name, text string
		target     *map[string]any
	}{
		{"-vm-properties", s.vmProperties, &o.VMProperties},
		{"-disk-properties", s.diskProperties, &o.DiskProperties},
		{"-network-properties", s.networkProperties, &o.NetworkProperties},
		{"-light-stemcell", s.light, &o.LightStemcell},
	} {
		if f.text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(f.text), f.target); err != nil {
			return o, fmt.Errorf("%s must be a JSON object: %w", f.name, err)
		}
	}
	if s.contextProperties != "" {
		data, err := os.ReadFile(s.contextProperties)
		if err != nil {
			return o, err
		}
		if err := json.Unmarshal(data, &o.Context); err != nil {
			return o, fmt.Errorf("%s must be a JSON object: %w", s.contextProperties, err)
		}
		o.Secrets = append(o.Secrets, secretsIn("", o.Context)...)
	}
	return o, nil
}

// configure writes the CPI's configuration and says how the program is started.
func (s *settings) configure(o *cpitest.Options, dir string, values map[string]string) error {
	text := []byte(defaultConfig)
	if s.config != "" {
		var err error
		if text, err = os.ReadFile(s.config); err != nil {
			return err
		}
	} else if s.endpoint != "" {
		return errors.New("on a real cluster the CPI needs its own configuration: give it with -config")
	}
	text, err := cpitest.Expand(text, values)
	if err != nil {
		return err
	}
	var config map[string]any
	if json.Unmarshal(text, &config) == nil {
		o.Secrets = append(o.Secrets, secretsIn("", config)...)
	}
	file := filepath.Join(dir, "cpi.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	program, err := filepath.Abs(s.cpi)
	if err != nil {
		return err
	}
	p := cpitest.Program{Path: program, Home: o.Dirs[0], Temp: o.Dirs[1]}
	bare := p
	for _, arg := range strings.Fields(s.args) {
		p.Args = append(p.Args, strings.ReplaceAll(arg, "{config}", file))
	}
	o.CPI = p
	if s.bareArgs != "none" && config != nil {
		bare.Args = strings.Fields(s.bareArgs)
		o.Bare, o.Properties = bare, config
	}
	return nil
}

// secretsIn finds the values in a configuration whose keys say that they are
// secret, and the passwords of addresses.
func secretsIn(key string, value any) []string {
	var out []string
	switch v := value.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out = append(out, secretsIn(k, v[k])...)
		}
	case []any:
		for _, e := range v {
			out = append(out, secretsIn(key, e)...)
		}
	case string:
		if _, rest, ok := strings.Cut(v, "://"); ok {
			if user, _, ok := strings.Cut(rest, "@"); ok {
				_, password, _ := strings.Cut(user, ":")
				out = append(out, password)
			}
			break
		}
		lower := strings.ToLower(key)
		if strings.Contains(lower, "id") {
			break
		}
		for _, word := range []string{"secret", "password", "token", "private"} {
			if strings.Contains(lower, word) {
				_, secret, ok := strings.Cut(v, "=")
				if !ok {
					secret = v
				}
				out = append(out, secret)
				break
			}
		}
	}
	return slices.DeleteFunc(out, func(s string) bool { return len(s) < 6 })
}

func (s *settings) write(report *cpitest.Report, stdout io.Writer) error {
	switch s.jsonFile {
	case "":
		return report.WriteText(stdout, s.calls)
	case "-":
		return report.WriteJSON(stdout)
	}
	f, err := os.OpenFile(s.jsonFile, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(report.WriteJSON(f), f.Close(), report.WriteText(stdout, s.calls))
}
