package cpitest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// markPrefix begins the mark of every run, by which a later run finds what an
// earlier one has left.
const markPrefix = "cpicheck-"

// A session is one check.
type session struct {
	opts   Options
	api    *api
	report *Report
	began  time.Time
	// dir holds the images of the stemcells while they are uploaded.
	dir     string
	secrets map[string]string

	// base is what was there before the run, seen the last observation.
	base, seen *observation
	model      model
	// stock is the stemcell that scenarios share.
	stock *stemcell

	mu        sync.Mutex
	about     About
	instances int
	// cloud holds the cloud properties of VMs once they are known.
	cloud map[string]any
	sized bool
}

// newSession checks the options, connects, and removes what earlier runs left.
func newSession(ctx context.Context, o Options) (*session, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &session{opts: o, began: time.Now(), secrets: map[string]string{}}
	if s.api, err = o.Cluster.connect(); err != nil {
		return nil, err
	}
	run := fmt.Sprintf("%s%08x", markPrefix, rand.Uint32())
	s.report = &Report{Run: run, Began: s.began.UTC().Truncate(time.Second)}
	for i, secret := range o.Secrets {
		s.secrets[fmt.Sprintf("secret %d of the configuration", i+1)] = secret
	}
	s.addCanaries(run)
	if s.dir, err = os.MkdirTemp("", "cpitest-"); err != nil {
		return nil, err
	}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}
	return s, nil
}

func (s *session) open(ctx context.Context) error {
	if removed, err := s.sweep(ctx, markPrefix); err != nil {
		return fmt.Errorf("remove what an earlier run left: %w", err)
	} else if len(removed) > 0 {
		s.report.Notes = append(s.report.Notes, "an earlier run had left, and it was removed: "+strings.Join(removed, ", "))
	}
	var err error
	if s.base, err = s.look(ctx); err != nil {
		return fmt.Errorf("look at the cluster: %w", err)
	}
	s.seen = s.base
	return nil
}

// look observes the part of the cluster that concerns the run.
func (s *session) look(ctx context.Context) (*observation, error) {
	o, err := s.api.observe(ctx)
	if err != nil || s.opts.Cluster.Exclusive {
		return o, err
	}
	ours := &observation{guests: map[int64]*guest{}, volumes: map[string]*volume{}, local: o.local}
	referred := map[string]bool{}
	for id, g := range o.guests {
		pooled := s.opts.Cluster.Pool != "" && g.Pool == s.opts.Cluster.Pool
		if !pooled && !g.marked(s.report.Run) && s.model.guestOwner(id) == nil {
			continue
		}
		ours.guests[id] = g
		for _, d := range g.drives {
			referred[o.volumeKey(g, d.volume)] = true
		}
	}
	for key, v := range o.volumes {
		own := ours.guests[v.vmid] != nil || referred[key] || s.model.volumeOwner(key) != nil
		if own || v.content != "images" && slices.Contains(s.opts.Cluster.Storages, v.storage) {
			ours.volumes[key] = v
		}
	}
	return ours, nil
}

// marked reports whether a guest carries the mark of a run.
func (g *guest) marked(run string) bool {
	return slices.ContainsFunc(g.Tags, func(t string) bool { return strings.Contains(t, run) })
}

// sweep removes guests that carry the mark, and their CDs. On a cluster that is
// the suite's alone it removes everything that was not there before.
func (s *session) sweep(ctx context.Context, run string) (removed []string, err error) {
	cds := map[string]bool{}
	for {
		o, err := s.api.observe(ctx)
		if err != nil {
			return removed, err
		}
		alone := s.opts.Cluster.Exclusive && s.base != nil
		var left []error
		progress := false
		for _, g := range o.sortedGuests() {
			fresh := s.base == nil || s.base.guests[g.VMID] == nil
			if !fresh || !alone && !g.marked(run) {
				continue
			}
			for _, d := range g.drives {
				if d.cdrom() {
					cds[o.volumeKey(g, d.volume)] = true
				}
			}
			// Templates go when their clones have gone, in a later round.
			if err := s.remove(ctx, g); err != nil && !gone(err) {
				left = append(left, fmt.Errorf("%s: %w", g, err))
				continue
			}
			removed, progress = append(removed, g.String()), true
		}
		if len(left) > 0 && !progress {
			return removed, errors.Join(left...)
		}
		if len(left) == 0 {
			more, err := s.sweepVolumes(ctx, alone, cds)
			return append(removed, more...), err
		}
	}
}

func (s *session) sweepVolumes(ctx context.Context, alone bool, cds map[string]bool) (removed []string, err error) {
	o, err := s.api.observe(ctx)
	if err != nil {
		return nil, err
	}
	for _, v := range o.sortedVolumes() {
		fresh := s.base == nil || s.base.volumes[v.key()] == nil
		if !fresh || len(o.users(v.key())) > 0 || !alone && !cds[v.key()] {
			continue
		}
		node := v.node
		if node == "" {
			node = s.someNode(ctx)
		}
		if err := s.api.deleteVolume(ctx, node, v); err != nil && !gone(err) {
			return removed, err
		}
		removed = append(removed, "volume "+v.key())
	}
	return removed, nil
}

func (s *session) someNode(ctx context.Context) string {
	var nodes []struct{ Node, Status string }
	if s.api.get(ctx, "/nodes", &nodes) != nil {
		return ""
	}
	for _, n := range nodes {
		if n.Status == "online" {
			return n.Node
		}
	}
	return ""
}

// remove destroys a guest whatever protects it. Persistent disks of other guests
// are taken off first.
func (s *session) remove(ctx context.Context, g *guest) error {
	if g.Running {
		if err := s.api.power(ctx, g, "stop"); err != nil {
			return err
		}
	}
	if g.config["protection"] == "1" {
		if err := s.api.setConfig(ctx, g, url.Values{"protection": {"0"}}); err != nil {
			return err
		}
	}
	return s.api.destroy(ctx, g)
}

// play plays one scenario.
func (s *session) play(ctx context.Context, sc scenario) *ScenarioReport {
	began := time.Now()
	rep := &ScenarioReport{Name: sc.name, Title: sc.title, Outcome: Passed, live: s.opts.Progress}
	s.report.Scenarios = append(s.report.Scenarios, rep)
	p := &play{session: s, ctx: ctx, rep: rep, director: s.report.Run}
	func() {
		defer func() {
			switch e := recover().(type) {
			case nil, abort:
			case quit:
				rep.Outcome, rep.Why = Skipped, p.mask(e.why)
			default:
				panic(e)
			}
		}()
		sc.play(p)
	}()
	if err := ctx.Err(); err != nil {
		p.problem("the check was interrupted: %v", context.Cause(ctx))
	}
	if err := s.searchFiles(); err != nil {
		p.problem("%v", err)
	}
	s.tidy(p)
	if len(rep.Problems) > 0 {
		rep.Outcome = Failed
	}
	rep.Seconds = time.Since(began).Seconds()
	return rep
}

// tidy makes the ground even for the next scenario. What one leaves when all is
// well is a mistake in the suite, so that it only has work after a failure.
func (s *session) tidy(p *play) {
	if len(p.rep.Problems) == 0 && len(s.model.vms)+len(s.model.disks) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), 5*time.Minute)
	defer cancel()
	removed, err := s.sweep(ctx, s.report.Run)
	if err != nil {
		p.problem("what the scenario left could not be removed: %v", err)
	}
	if len(removed) > 0 {
		p.rep.note("removed by the suite: " + strings.Join(removed, ", "))
	}
	s.model, s.stock = model{}, nil
	if o, err := s.look(ctx); err == nil {
		s.seen = o
		// What cannot be removed is not every later scenario's problem.
		s.base = o
	}
}

// searchFiles looks for secrets in what the CPI has left on this machine.
func (s *session) searchFiles() error {
	var errs []error
	for _, dir := range s.opts.Dirs {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			data, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			if name := s.secretIn(string(data)); name != "" {
				return fmt.Errorf("the CPI left a secret behind in %s: %s", path, name)
			}
			return nil
		})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// close removes what is left of the run.
func (s *session) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Minute)
	defer cancel()
	defer s.api.close()
	errs := []error{os.RemoveAll(s.dir)}
	if s.base != nil {
		removed, err := s.sweep(ctx, s.report.Run)
		if err != nil {
			errs = append(errs, fmt.Errorf("remove what the run left: %w", err))
		}
		if len(removed) > 0 {
			s.report.Notes = append(s.report.Notes, "removed at the end: "+strings.Join(removed, ", "))
		}
	}
	s.report.CPI = s.about
	s.report.finish(s.began)
	return errors.Join(errs...)
}

// canaries are secrets of the suite's own at every place where a Director sends
// some.
func (s *session) addCanaries(run string) {
	token := strings.TrimPrefix(run, markPrefix)
	maps.Copy(s.secrets, map[string]string{
		"env.bosh.password":              "$6$" + token + "$canary/password+hash",
		"env.bosh.mbus.urls":             "canary-nats/" + token + "&pass",
		"env.bosh.mbus.cert.private_key": "-----BEGIN PRIVATE KEY-----\ncanarykey" + token + "AAAAB3NzaC1yc2EAAAADAQABAAABAQ\n-----END PRIVATE KEY-----\n",
		"env.bosh.blobstores":            "canary-blobstore-" + token,
		"env.deep":                       "canary-deep-" + token,
	})
}
