package cpitest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// A play is one scenario being played. Its methods record what is wrong, and
// leave the scenario by a panic when there is no sense in going on.
type play struct {
	*session
	ctx context.Context
	rep *ScenarioReport
	// cli says that the calls are made as "bosh create-env" makes them, else as
	// the Director does.
	cli bool
	// director is the UUID of the Director that calls.
	director string
}

type (
	abort struct{}
	quit  struct{ why string }
)

// fail records what is wrong and leaves the scenario.
func (p *play) fail(format string, args ...any) {
	p.problem(format, args...)
	panic(abort{})
}

// problem records what is wrong.
func (p *play) problem(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if at := p.rep.where(); at != "" {
		text = at + ": " + text
	}
	p.rep.problem(p.mask(text))
}

// leave skips the rest of the scenario.
func (p *play) leave(format string, args ...any) { panic(quit{fmt.Sprintf(format, args...)}) }

func (p *play) step(title string) { p.rep.step(title) }

// essential reports whether a CPI must have a method.
func essential(method string) bool {
	return slices.Contains([]string{
		"info", "create_stemcell", "delete_stemcell", "create_vm", "delete_vm", "has_vm", "reboot_vm",
		"create_disk", "delete_disk", "has_disk", "attach_disk", "detach_disk",
	}, method)
}

// request is a call as the Director or the command line sends it.
func (p *play) request(method string, arguments []any) ([]byte, error) {
	if arguments == nil {
		arguments = []any{}
	}
	about := map[string]any{"director_uuid": p.director}
	r := map[string]any{"method": method, "arguments": arguments, "context": about}
	stemcell := map[string]any{"stemcell": map[string]any{"api_version": 3}}
	version := min(max(p.about.APIVersion, 2), 3)
	switch {
	case p.cli:
		about["vm"] = stemcell
		r["api_version"] = 2
		if method == "info" {
			r["api_version"] = 1
		}
	default:
		about["request_id"] = fmt.Sprintf("cpi-%06d", rand.IntN(1_000_000))
		if slices.Contains([]string{"create_vm", "delete_vm", "attach_disk", "detach_disk"}, method) {
			about["vm"] = stemcell
		}
		if p.about.APIVersion > 0 {
			r["api_version"] = version
		}
		// The properties of the cpi-config come last and override.
		for key, value := range p.opts.Context {
			about[key] = value
		}
	}
	return json.Marshal(r)
}

// ask makes a call and returns an answer that the Director would accept.
func (p *play) ask(method string, arguments ...any) *reply {
	r, err := p.askErr(p.ctx, method, arguments...)
	if err != nil {
		p.fail("%v", err)
	}
	return r
}

// askErr is ask for calls that may be stopped.
func (p *play) askErr(ctx context.Context, method string, arguments ...any) (*reply, error) {
	if p.cli && method != "info" {
		p.info()
	}
	request, err := p.request(method, arguments)
	if err != nil {
		return nil, err
	}
	return p.send(ctx, p.opts.CPI, method, request)
}

// send has a request answered, and holds the answer to the rules.
func (p *play) send(ctx context.Context, cpi CPI, method string, request []byte) (*reply, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.opts.CallLimit, fmt.Errorf("the call takes longer than %s", p.opts.CallLimit))
	defer cancel()
	began := time.Now()
	a, err := cpi.Call(ctx, request)
	c := CallReport{Method: method, Seconds: time.Since(began).Seconds()}
	// What a stopped process has printed counts as well.
	leak := p.leak(a)
	if err != nil {
		c.Error = "stopped"
		p.rep.addCall(c)
		if leak != nil {
			return nil, leak
		}
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return nil, err
	}
	r, err := parseAnswer(a)
	switch {
	case err != nil:
		c.Error = "no valid answer"
	case r.err != nil:
		c.Error = r.err.Type
	}
	if p.opts.Verbose && r != nil {
		c.Log = strings.TrimSpace(r.log + "\n" + string(a.Stderr))
		if r.err != nil {
			c.Log = strings.TrimSpace(r.err.Message + "\n" + c.Log)
		}
		c.Log = p.mask(c.Log)
	}
	p.rep.addCall(c)
	if leak != nil {
		return nil, leak
	}
	if err != nil {
		return nil, err
	}
	if err := checkLength(a, r); err != nil {
		p.problem("%v", err)
	}
	if r.err != nil && r.err.Type == notImplemented && essential(method) {
		return nil, fmt.Errorf("the CPI does not implement %s, without which there is no CPI: %s", method, r.err.Message)
	}
	return r, nil
}

// leak finds secrets in what the CPI printed. The Director copies all of it into
// its logs.
func (p *play) leak(a Answer) error {
	for where, text := range map[string]string{"standard output": string(a.Stdout), "standard error": string(a.Stderr)} {
		if name := p.secretIn(text); name != "" {
			return fmt.Errorf("the CPI prints a secret on %s: %s", where, name)
		}
	}
	return nil
}

// must fails the scenario when the answer is an error, and returns the result.
func (p *play) must(method string, r *reply) json.RawMessage {
	if r.err != nil {
		p.fail("%s in '%s' CPI method", r.err.Error(), method)
	}
	return r.result
}

// optional is must for methods that a CPI need not have. Its answer is false
// when it has it not, which the report shows.
func (p *play) optional(method string, r *reply) (json.RawMessage, bool) {
	if r.err != nil && (r.err.Type == notImplemented || r.err.Type == notSupported) {
		p.rep.skip(fmt.Sprintf("%s: the CPI answers %s: %s", method, r.err.Type, r.err.Message))
		p.look(nil)
		return nil, false
	}
	return p.must(method, r), true
}

// refused demands an error, of one of the classes when some are given.
func (p *play) refused(what string, r *reply, classes ...string) {
	switch {
	case r.err == nil:
		p.problem("%s was accepted: %s", what, brief(r.result))
	case len(classes) > 0 && !slices.Contains(classes, r.err.Type):
		p.problem("%s: the error is %s, not %s: %s", what, r.err.Type, strings.Join(classes, " or "), r.err.Message)
	}
	p.look(nil)
}

func (p *play) info() {
	about, err := resultInfo(p.must("info", p.ask("info")))
	if err != nil {
		p.fail("%v", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.about.APIVersion == 0 {
		p.about = about
	}
}

// look observes the cluster after a call, lets claim take what is new into the
// model, and compares the two. Without a claim nothing new may be there.
func (p *play) look(claim func(c *change) error) {
	if err := p.tryLook(claim); err != nil {
		p.fail("%v", err)
	}
}

func (p *play) tryLook(claim func(c *change) error) error {
	o, err := p.session.look(p.ctx)
	if err != nil {
		return fmt.Errorf("the cluster cannot be looked at: %w", err)
	}
	c := changeBetween(p.seen, o)
	p.seen = o
	if claim != nil {
		if err := claim(c); err != nil {
			return err
		}
	}
	p.model.rebind(c)
	problems := p.verify(p.ctx, o)
	p.rep.setState(p.model.summary(o))
	if len(problems) == 0 {
		return nil
	}
	const most = 4
	if len(problems) > most {
		problems = append(problems[:most], fmt.Sprintf("and %d more", len(problems)-most))
	}
	return errors.New("the cluster does not agree: " + strings.Join(problems, "; "))
}

// unchanged makes a call that may change nothing at all, and returns its answer.
func (p *play) unchanged(method string, arguments ...any) *reply {
	before := p.seen
	r := p.ask(method, arguments...)
	p.look(nil)
	if d := difference(before, p.seen); len(d) > 0 {
		p.fail("the call may change nothing, but %s", strings.Join(d, "; "))
	}
	return r
}

// repeat makes a call again that must be idempotent: it succeeds as before, or
// with one of the classes that mean that it is done, and changes nothing.
func (p *play) repeat(method string, classes []string, arguments ...any) (last *reply) {
	for range p.opts.Repeats {
		before := p.seen
		last = p.ask(method, arguments...)
		if last.err != nil && !slices.Contains(classes, last.err.Type) {
			p.fail("when the call is repeated: %s", last.err.Error())
		}
		p.look(nil)
		if d := difference(before, p.seen); len(d) > 0 {
			p.fail("when the call is repeated it changes something: %s", strings.Join(d, "; "))
		}
	}
	return last
}

// parallel makes calls at once. When one of them leaves the scenario, so does
// parallel, after all have ended.
func (p *play) parallel(n int, f func(i int)) {
	var wg sync.WaitGroup
	failures := make([]any, n)
	for i := range n {
		wg.Go(func() {
			defer func() { failures[i] = recover() }()
			f(i)
		})
	}
	wg.Wait()
	for _, e := range failures {
		if e != nil {
			panic(e)
		}
	}
}

// secretIn returns the name of a secret that stands in text in one of the forms
// in which it may be written, or "".
func (s *session) secretIn(text string) string {
	for _, name := range slices.Sorted(maps.Keys(s.secrets)) {
		for _, form := range forms(s.secrets[name]) {
			if strings.Contains(text, form) {
				return name
			}
		}
	}
	return ""
}

// mask keeps the suite's own report free of secrets.
func (s *session) mask(text string) string {
	for _, value := range s.secrets {
		for _, form := range forms(value) {
			text = strings.ReplaceAll(text, form, "<secret>")
		}
	}
	return text
}

func forms(secret string) []string {
	quoted, _ := json.Marshal(secret)
	out := []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret), strings.Trim(string(quoted), `"`),
		base64.StdEncoding.EncodeToString([]byte(secret)),
	}
	slices.Sort(out)
	return slices.Compact(out)
}
