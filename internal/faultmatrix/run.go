package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/proxkit/proxkit/cpi/rpc"
)

// A cell is one fault at one API call of one method, and what came of it.
type cell struct {
	method method
	site   site
	fault  fault

	outcome  string   // of the call: "ok", "error", "killed"
	message  string   // of the error
	problems []string // nothing when the cell holds
	took     time.Duration
	excused  *exception
}

func (c *cell) String() string {
	return fmt.Sprintf("%s | %s #%d | %s", c.method.name, c.site.line(), c.site.nth, c.fault.name)
}

// A matrix runs cells.
type matrix struct {
	base     string // directory of the world that cells begin with
	subject  subject
	program  string // the CPI to kill; this very program when empty
	limits   limits
	jobs     int
	progress func(done, all int)
}

// newMatrix prepares the world in dir.
func newMatrix(dir, program string, jobs int) (*matrix, error) {
	s, err := newBase(dir)
	if err != nil {
		return nil, fmt.Errorf("prepare the cluster: %w", err)
	}
	return &matrix{base: dir, subject: s, program: program, limits: strict, jobs: jobs}, nil
}

// open makes a world for one cell.
func (m *matrix) open() (*world, error) {
	dir, err := os.MkdirTemp(m.base, "cell-")
	if err != nil {
		return nil, err
	}
	return openWorld(m.base, dir, m.subject, m.program)
}

var nodeInPath = regexp.MustCompile(`^/nodes/([^/]+)`)

// record runs a method without a fault and lists the API calls it makes. A method
// that leaves something wrong even so is an error.
func (m *matrix) record(md method) ([]site, error) {
	w, err := m.open()
	if err != nil {
		return nil, err
	}
	defer w.close()
	l, before := newLedger(w.subject), w.operators()
	w.srv.ResetRequests()
	first := w.call(md.call, md.args(w)...)
	requests := w.srv.Requests()
	problems := w.afterSuccess(md, l, first, before)
	if !first.ok() {
		problems = append(problems, "fails: "+first.Error.Message)
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("%s without a fault: %s", md.name, strings.Join(problems, "; "))
	}
	home := "n1"
	for _, r := range requests {
		if found := nodeInPath.FindStringSubmatch(r.Path); found != nil {
			home = found[1]
			break
		}
	}
	var out []site
	count := map[string]int{}
	for _, r := range requests {
		s := site{method: r.Method, template: r.Template, node: home}
		if found := nodeInPath.FindStringSubmatch(r.Path); found != nil {
			s.node = found[1]
		}
		count[s.line()]++
		s.nth = count[s.line()]
		out = append(out, s)
	}
	return out, nil
}

// plan lists the cells of some methods under some faults.
func (m *matrix) plan(methods []method, faults []fault) ([]*cell, error) {
	var cells []*cell
	for _, md := range methods {
		sites, err := m.record(md)
		if err != nil {
			return nil, err
		}
		for _, s := range sites {
			for _, f := range faults {
				if f.befalls == nil || f.befalls(s) {
					cells = append(cells, &cell{method: md, site: s, fault: f})
				}
			}
		}
	}
	return cells, nil
}

// run runs the cells, several at once: most of their time is waiting.
func (m *matrix) run(cells []*cell) {
	queue := make(chan *cell)
	var wg sync.WaitGroup
	var done atomic.Int64
	for range m.jobs {
		wg.Go(func() {
			for c := range queue {
				m.try(c)
				if m.progress != nil {
					m.progress(int(done.Add(1)), len(cells))
				}
			}
		})
	}
	for _, c := range cells {
		queue <- c
	}
	close(queue)
	wg.Wait()
}

func (m *matrix) try(c *cell) {
	begun := time.Now()
	over := make(chan struct{})
	var problems []string
	go func() {
		defer close(over)
		problems = m.attempt(c)
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-over:
		c.problems = problems
	case <-timer.C:
		c.problems = []string{"hangs"}
	}
	c.took = time.Since(begun)
	c.excuse()
}

// attempt makes the call under the fault, heals the cluster, does what the
// Director does next, and checks what is there then.
func (m *matrix) attempt(c *cell) (problems []string) {
	w, err := m.open()
	if err != nil {
		return []string{err.Error()}
	}
	defer w.close()
	l, before := newLedger(w.subject), w.operators()
	w.limits = m.limits
	first, struck, err := w.suffer(c)
	if err != nil {
		return []string{err.Error()}
	}
	if !struck {
		problems = append(problems, "the fault did not strike")
	}
	switch {
	case first.killed:
		c.outcome = "killed"
	case first.ok():
		c.outcome = "ok"
	default:
		c.outcome, c.message = "error", first.Error.Message
	}
	problems = append(problems, judge(c, first)...)
	// What undoes a call may take as long again.
	if limit := time.Duration(2*w.limits.call+15) * time.Second; first.took > limit {
		problems = append(problems, fmt.Sprintf("takes %s", first.took.Round(time.Second)))
	}
	w.limits = generous
	if c.method.reads {
		for _, r := range w.srv.Requests() {
			if r.Method != "GET" {
				problems = append(problems, "changes something: "+r.String())
			}
		}
	}
	w.heal()
	if c.fault.hangs {
		if err := w.stopTasks(context.Background()); err != nil {
			problems = append(problems, err.Error())
		}
	}
	if first.ok() {
		return append(problems, w.afterSuccess(c.method, l, first, before)...)
	}
	return append(problems, w.afterFailure(c.method, l, first, before)...)
}

// suffer makes the call of a cell with its fault in place.
func (w *world) suffer(c *cell) (first *answer, struck bool, err error) {
	var hit atomic.Bool
	var victim *process
	f := c.fault.make(w, c.site)
	f.Match, f.Nth = c.site.pattern(), c.site.nth
	do := f.Do
	f.Do = func() {
		hit.Store(true)
		if do != nil {
			do()
		}
		if c.fault.kills {
			victim.kill()
		}
	}
	if c.fault.during != nil {
		c.fault.during(w)
	}
	w.srv.Fail(f)
	args := c.method.args(w)
	if c.fault.kills {
		first, err = w.start(func(p *process) { victim = p }, c.method.call, args...)
	} else {
		first = w.call(c.method.call, args...)
	}
	return first, hit.Load(), err
}

// afterSuccess enters the result into the ledger, and does what follows.
func (w *world) afterSuccess(md method, l *ledger, a *answer, before map[string]string) (problems []string) {
	if md.apply != nil {
		if text := md.apply(w, l, a); text != "" {
			return []string{text}
		}
	}
	problems = append(problems, w.settled("then", l, before)...)
	for _, s := range md.follow {
		next := w.call(s.call, s.args(w, l, a)...)
		if next.broken != "" {
			problems = append(problems, s.call+" afterwards: "+next.broken)
		}
		if !next.ok() && !slices.Contains(s.done, next.Error.Type) {
			return append(problems, fmt.Sprintf("%s afterwards fails: %s", s.call, next.Error.Message))
		}
		if s.apply != nil {
			s.apply(w, l, a)
		}
	}
	if len(md.follow) > 0 && len(problems) == 0 {
		problems = append(problems, w.settled("after what follows", l, before)...)
	}
	return problems
}

// afterFailure makes the next attempt on the healed cluster.
func (w *world) afterFailure(md method, l *ledger, failed *answer, before map[string]string) (problems []string) {
	if md.look != nil {
		call, args := md.look(w)
		a := w.call(call, args...)
		if !a.ok() || string(a.Result) != "true" && string(a.Result) != "false" {
			problems = append(problems, fmt.Sprintf("%s on the healed cluster does not answer: %s", call, a.raw))
		}
	}
	args := md.args(w)
	if md.again != nil {
		args = md.again(w, failed)
	}
	next := w.call(md.call, args...)
	if next.broken != "" {
		problems = append(problems, "the next attempt: "+next.broken)
	}
	if !next.ok() && !slices.Contains(md.done, next.Error.Type) {
		return append(problems, "the next attempt fails: "+next.Error.Message)
	}
	defer func() {
		if len(problems) > 0 {
			problems = append(problems, fmt.Sprintf("the next attempt's log: %.2000s", next.Log))
		}
	}()
	if text := secretIn(append(next.raw, next.stderr...)); text != "" {
		problems = append(problems, "the next attempt shows a secret: "+text)
	}
	return append(problems, w.afterSuccess(md, l, next, before)...)
}

// settled checks cluster, locks and the operator's own things.
func (w *world) settled(when string, l *ledger, before map[string]string) (problems []string) {
	for _, text := range w.check(l) {
		problems = append(problems, when+": "+text)
	}
	now := w.operators()
	for what, was := range before {
		if now[what] != was {
			problems = append(problems, fmt.Sprintf("%s: the operator's %s was changed: %s", when, what, now[what]))
		}
	}
	return problems
}

// judge looks at the answer to the call that met the fault.
func judge(c *cell, a *answer) (bad []string) {
	complain := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	if text := secretIn(append(slices.Clone(a.raw), a.stderr...)); text != "" {
		complain("the answer shows a secret: %s", text)
	}
	if a.killed {
		return bad
	}
	if c.fault.kills {
		complain("the process was not killed: %s", a.raw)
	}
	if a.broken != "" {
		complain("%s", a.broken)
	}
	if len(a.Log)+len(a.stderr) > 8<<10 {
		complain("log and standard error are %d characters long", len(a.Log)+len(a.stderr))
	}
	if a.Error == nil {
		if c.fault.letter == "quorum" && string(a.Result) == "false" && c.site.nth == 1 && c.site.template == "/cluster/resources" {
			complain("something is said to be gone without a quorum")
		}
		return bad
	}
	e := a.Error
	switch {
	case c.fault.manner == harmless:
		complain("fails: %s", e.Message)
	case e.Type != rpc.ClassCloudError && (c.method.call != "create_vm" || e.Type != rpc.ClassVMCreationFailed):
		complain("the error is a %s: %s", e.Type, e.Message)
	case c.fault.manner == passes && !e.OKToRetry && !strings.Contains(e.Message, "left behind"):
		complain("the error of a fault that passes is not marked as such: %s", e.Message)
	case c.fault.manner == lasts && e.OKToRetry && e.Type != rpc.ClassVMCreationFailed && c.fault.letter != "500":
		complain("the error of a fault that stays is marked as one that passes: %s", e.Message)
	case strings.Contains(c.fault.name, "403") && !strings.Contains(e.Message, "lacks"):
		complain("the error does not say which privilege is missing: %s", e.Message)
	case c.fault.letter == "quorum" && !regexp.MustCompile(`quorum|offline|No route|call_timeout`).MatchString(e.Message):
		complain("the error does not speak of the nodes that are down: %s", e.Message)
	case strings.ContainsAny(e.Message, "<>") || strings.Contains(e.Message, "%!") || len(e.Message) < 40:
		complain("the error says too little or too much: %s", e.Message)
	}
	return bad
}
