package pvetest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/proxkit/proxkit/apidoc"
)

// A Cut says when a connection is dropped.
type Cut int

// The moments at which a connection can be dropped.
const (
	CutNone   Cut = iota
	CutBefore     // the request does nothing
	CutAfter      // the request takes effect, its answer is lost
)

// A Fault is something that goes wrong with certain calls. Its zero fields do
// nothing, so a Fault with a Delay only is a slow server.
type Fault struct {
	// Match is a method in capitals and a path as the API's description has it,
	// without "/api2/json": "POST /nodes/pve1/qemu". Without a method, or with
	// "*" for one, it matches any. A part of the path may be
	//
	//	{node}   any text, as may each part in braces
	//	*        the same; "vm-*" any text that begins so
	//	**       at the end, any number of parts, none included
	//
	// The last part of a path whose operation ends in a volume or a network
	// matches all of its name, slashes included.
	Match string

	Nth   int // the first matching call that is hit, counted from now on; 0 means the first
	Times int // how many in a row; 0 means one, less than 0 all from then on

	Delay time.Duration // before the call is served

	// Status and Phrase are the answer, for instance 500 and
	// "got no worker upid - start worker failed". The call does nothing unless
	// After is set; then it takes effect and its answer is replaced.
	Status  int
	Phrase  string
	Message string            // of the body; default the phrase
	Params  map[string]string // "errors" of the body
	NoBody  bool              // an answer without a body, as 595 and 596 are
	After   bool

	// HTML makes the body a page, as a proxy between client and cluster sends it.
	HTML bool

	Cut Cut

	// Do is called when the fault strikes, before anything else of it happens:
	// when the call has taken effect if After or [CutAfter] is set, otherwise
	// before it is served. It may use the Server.
	Do func()

	// TaskError is the exit status of the task the call starts. The task's
	// work is not done unless After is set. TaskWarnings makes the task end
	// with that many warnings, its work done.
	TaskError    string
	TaskWarnings int

	// Optional says that the test need not come to the fault: [RunT] fails a test
	// at its end when a fault never struck.
	Optional bool

	pattern callPattern
	hits    int
	struck  bool
	origin  *Fault // of the copy that a call carries
}

// Fail makes calls go wrong. Several faults may match a call: all of them count
// it, and the first one that is due strikes. A fault that matches no operation of
// the API, or that does nothing, is refused.
func (s *Server) Fail(f Fault) error {
	s.tb.Helper()
	return s.fail("Fail", f)
}

// FailNext makes the next call that matches the pattern fail with a status and
// a phrase, without effect.
func (s *Server) FailNext(pattern string, status int, phrase string) error {
	s.tb.Helper()
	return s.fail("FailNext", Fault{Match: pattern, Status: status, Phrase: phrase})
}

func (s *Server) fail(method string, f Fault) error {
	s.tb.Helper()
	return s.change(method, func() error {
		p, err := s.reg.pattern(f.Match)
		if err != nil {
			return err
		}
		if err := f.check(); err != nil {
			return fmt.Errorf("%q: %w", f.Match, err)
		}
		f.pattern = p
		s.faults = append(s.faults, &f)
		return nil
	})
}

// check finds what makes no sense in a fault.
func (f *Fault) check() error {
	switch {
	case f.Status == 0 && f.Cut == CutNone && f.Delay == 0 && f.Do == nil && f.TaskError == "" && f.TaskWarnings == 0:
		return errors.New("a fault that does nothing: give it a Status, Cut, Delay, Do, TaskError or TaskWarnings")
	case f.Status != 0 && (f.Status < 200 || f.Status > 999):
		return fmt.Errorf("an answer cannot have the status %d", f.Status)
	case f.Status == 0 && (f.Phrase != "" || f.Message != "" || len(f.Params) > 0 || f.NoBody || f.HTML):
		return errors.New("the fields Phrase, Message, Params, NoBody and HTML need a Status")
	case f.Nth < 0 || f.Delay < 0 || f.TaskWarnings < 0:
		return errors.New("negative Nth, Delay or TaskWarnings")
	case f.Cut < CutNone || f.Cut > CutAfter:
		return fmt.Errorf("no such Cut: %d", f.Cut)
	}
	return nil
}

// ClearFaults removes all faults, those of tasks included. What has not struck
// until then is not missed at the end of a test.
func (s *Server) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults, s.tasks.fail, s.tasks.hold = nil, nil, nil
}

// FailTask makes the next task whose type and id match a pattern, such as
// "qmclone:100", "qmstart:*" or "*", fail with exit status without doing its
// work. The id is that of the guest, the source's for a clone, in most types.
func (s *Server) FailTask(pattern, status string) error {
	s.tb.Helper()
	return s.change("FailTask", func() error {
		if err := checkTaskPattern(pattern); err != nil {
			return err
		}
		if status == "" || status == "OK" {
			return fmt.Errorf("%q: a task that fails has another exit status than %q", pattern, status)
		}
		s.tasks.fail = append(s.tasks.fail, taskFault{pattern: pattern, status: status})
		return nil
	})
}

// missed lists the faults that a test did not come to.
func (s *Server) missed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, f := range s.faults {
		if f.struck || f.Optional {
			continue
		}
		text := fmt.Sprintf("the fault for %q never struck: ", f.Match)
		switch {
		case f.hits == 0:
			text += "there was no such call"
		case f.hits < f.Nth:
			text += fmt.Sprintf("there were %d such calls, it was for number %d", f.hits, f.Nth)
		case f.TaskError != "" || f.TaskWarnings > 0:
			text += "such calls started no task, or others struck them first"
		default:
			text += "others struck the same calls first"
		}
		out = append(out, text+" (Optional allows that)")
	}
	for _, f := range s.tasks.fail {
		out = append(out, fmt.Sprintf("FailTask(%q): there was no such task (ClearFaults takes it back)", f.pattern))
	}
	for _, pattern := range s.tasks.hold {
		out = append(out, fmt.Sprintf("HoldTask(%q): there was no such task (ClearFaults takes it back)", pattern))
	}
	return out
}

// fault returns the fault that is due for a call.
func (s *Server) fault(method string, parts []string, template string) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	var struck *Fault
	for _, f := range s.faults {
		if !f.pattern.matches(method, parts, template) {
			continue
		}
		f.hits++
		first, times := max(f.Nth, 1), f.Times
		if times == 0 {
			times = 1
		}
		if struck == nil && f.hits >= first && (times < 0 || f.hits < first+times) {
			due := *f
			due.origin = f
			// One that is about a task strikes when there is one.
			f.struck = f.struck || f.TaskError == "" && f.TaskWarnings == 0
			struck = &due
		}
	}
	return struck
}

// strike applies what a fault does before or after a call is served.
func (s *Server) strike(f *Fault, after bool) error {
	if f == nil {
		return nil
	}
	if f.Do != nil && after == (f.After || f.Cut == CutAfter) {
		f.Do()
	}
	if !after && f.Delay > 0 {
		timer := time.NewTimer(f.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-s.quit:
			return errCut
		}
	}
	if f.Cut == CutBefore && !after || f.Cut == CutAfter && after {
		return errCut
	}
	if f.Status == 0 || f.After != after {
		return nil
	}
	msg := f.Message
	if msg == "" {
		msg = f.Phrase
	}
	return &apiError{status: f.Status, message: msg, params: f.Params, empty: f.NoBody || f.Status >= 590, html: f.HTML}
}

// A workerPool limits how many calls a node's privileged daemon serves at once.
type workerPool struct {
	mu      sync.Mutex
	count   int
	recycle int
	nodes   map[string][]*worker
	next    map[string]int
}

// A worker serves one call at a time.
type worker struct {
	busy   sync.Mutex
	served int
	gen    int // which incarnation
}

func newWorkerPool(count, recycle int) *workerPool {
	return &workerPool{count: count, recycle: recycle, nodes: map[string][]*worker{}, next: map[string]int{}}
}

// acquire waits for a worker. It fails when the worker was replaced meanwhile.
func (p *workerPool) acquire(op *apidoc.Operation, node string) (release func(), ok bool) {
	if p == nil || !op.Protected {
		return func() {}, true
	}
	p.mu.Lock()
	if p.nodes[node] == nil {
		for range p.count {
			p.nodes[node] = append(p.nodes[node], &worker{})
		}
	}
	w := p.nodes[node][p.next[node]%p.count]
	p.next[node]++
	gen := w.gen
	p.mu.Unlock()
	w.busy.Lock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.gen != gen {
		w.busy.Unlock()
		return nil, false
	}
	return func() {
		p.mu.Lock()
		w.served++
		if p.recycle > 0 && w.served >= p.recycle {
			w.served = 0
			w.gen++
		}
		p.mu.Unlock()
		w.busy.Unlock()
	}, true
}
