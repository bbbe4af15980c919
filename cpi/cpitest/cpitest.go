package cpitest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Options say what is checked and how.
type Options struct {
	// CPI is what is checked.
	CPI CPI
	// Cluster is where it works.
	Cluster Cluster

	// Bare is the same CPI without any configuration of its own, and Properties
	// is its configuration as the properties of an entry in the cpi-config, from
	// which it must work just as well. Without Bare this is skipped.
	Bare       CPI
	Properties map[string]any

	// Context are properties of a cpi-config that every call of the Director
	// carries in its context.
	Context map[string]any

	// VMProperties, DiskProperties and NetworkProperties are cloud properties
	// that the CPI needs. Those of VMs are added to what the CPI itself answers
	// to calculate_vm_cloud_properties.
	VMProperties      map[string]any
	DiskProperties    map[string]any
	NetworkProperties map[string]any
	// Bridge is what every NIC must be plugged into; empty does not check it.
	Bridge string

	// Stemcells are two different images that are uploaded. Without them the
	// suite makes small ones, which have a partition table and do not boot.
	Stemcells []Stemcell
	// LightStemcell are the cloud properties of a light stemcell, one that names
	// an image instead of carrying it. Without them light stemcells are skipped.
	LightStemcell map[string]any
	// Network are the cloud properties and the range of a network to make where
	// the CPI manages networks.
	Network map[string]any

	// Secrets are those of the CPI's configuration. They must show nowhere. The
	// suite adds secrets of its own to what it sends.
	Secrets []string
	// Dirs are searched after each scenario for secrets that the CPI left there:
	// its HOME and its TMPDIR.
	Dirs []string

	// Only names the scenarios to play; none means all. See [Scenarios].
	Only []string
	// Repeats is how often an idempotent call is repeated, Parallel how many
	// calls run at once, CallLimit how long a call may take.
	Repeats   int
	Parallel  int
	CallLimit time.Duration
	// FailFast stops at the first scenario that fails.
	FailFast bool
	// Verbose keeps the logs of the calls in the report.
	Verbose bool
	// Progress, when not nil, is told of every [Step] and [CallReport] as it
	// happens.
	Progress func(event any)
}

// A Stemcell is an image to upload.
type Stemcell struct {
	// Image is the file "image" of the stemcell's tarball.
	Image           string
	CloudProperties map[string]any
}

func (o Options) withDefaults() (Options, error) {
	if o.CPI == nil {
		return o, errors.New("cpitest: Options.CPI is missing: what is to be checked?")
	}
	if n := len(o.Stemcells); n != 0 && n != 2 {
		return o, fmt.Errorf("cpitest: Options.Stemcells must be two different stemcells, not %d", n)
	}
	known := Scenarios()
	for _, name := range o.Only {
		if !slices.ContainsFunc(known, func(s ScenarioInfo) bool { return s.Name == name }) {
			return o, fmt.Errorf("cpitest: there is no scenario %q", name)
		}
	}
	if o.Repeats <= 0 {
		o.Repeats = 2
	}
	if o.Parallel <= 0 {
		o.Parallel = 6
	}
	if o.CallLimit <= 0 {
		o.CallLimit = 10 * time.Minute
	}
	if p, ok := o.CPI.(Program); ok {
		if err := Executable(p.Path); err != nil {
			return o, fmt.Errorf("cpitest: the CPI: %w", err)
		}
	}
	return o, nil
}

// Check plays the scenarios against the CPI. The report is there whenever they
// could be begun. The error says what is wrong with the CPI, as [Report.Err]
// does, or why the check could not be made.
func Check(ctx context.Context, o Options) (*Report, error) {
	s, err := newSession(ctx, o)
	if err != nil {
		return nil, err
	}
	for _, sc := range scenarios() {
		if len(o.Only) > 0 && !slices.Contains(o.Only, sc.name) {
			continue
		}
		rep := s.play(ctx, sc)
		if rep.Outcome == Failed && o.FailFast || ctx.Err() != nil {
			break
		}
	}
	closed := s.close(ctx)
	return s.report, errors.Join(s.report.Err(), closed)
}

// TB is what [Run] needs of a *testing.T, so that package testing is not linked
// into programs that use this one.
type TB interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
	Skipf(format string, args ...any)
}

// A Runner is a [TB] that runs subtests, as *testing.T is.
type Runner[T any] interface {
	TB
	Run(name string, f func(t T)) bool
}

// Run is [Check] as a test with one subtest for each scenario:
//
//	cpitest.Run(t, cpitest.Options{CPI: …, Cluster: …})
func Run[T TB](t Runner[T], o Options) {
	t.Helper()
	s, err := newSession(t.Context(), o)
	if err != nil {
		t.Fatalf("%v", err)
		return
	}
	for _, sc := range scenarios() {
		if len(o.Only) > 0 && !slices.Contains(o.Only, sc.name) {
			continue
		}
		ok := t.Run(sc.name, func(t T) {
			rep := s.play(t.Context(), sc)
			for _, text := range rep.Problems {
				t.Errorf("%s", text)
			}
			for _, text := range rep.Skips {
				t.Logf("skipped: %s", text)
			}
			for _, text := range rep.Notes {
				t.Logf("note: %s", text)
			}
			if rep.Outcome == Skipped {
				t.Skipf("%s", rep.Why)
			}
		})
		if !ok && o.FailFast {
			break
		}
	}
	if err := s.close(t.Context()); err != nil {
		t.Errorf("%v", err)
	}
	var text strings.Builder
	if err := s.report.WriteText(&text, false); err == nil {
		t.Logf("%s", text.String())
	}
}

// A ScenarioInfo describes a scenario.
type ScenarioInfo struct{ Name, Title string }

// Scenarios lists the scenarios in the order in which they are played.
func Scenarios() []ScenarioInfo {
	var out []ScenarioInfo
	for _, s := range scenarios() {
		out = append(out, ScenarioInfo{s.name, s.title})
	}
	return out
}

// A scenario is a piece of the life of a deployment. It leaves nothing behind but
// the stemcell that scenarios share.
type scenario struct {
	name, title string
	play        func(p *play)
}
