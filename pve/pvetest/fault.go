package pvetest

import (
	"path"
	"strings"
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
	// Match is a method and a path, "POST /nodes/pve1/qemu". A "*" stands for
	// any method, for one part of the path or for some of its characters, a
	// "**" at the end for any number of parts.
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

	hits int
}

// Fail makes calls go wrong. Several faults may match a call: all of them count
// it, and the first one that is due strikes.
func (s *Server) Fail(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
}

// FailNext makes the next call that matches the pattern fail with a status and
// a phrase, without effect.
func (s *Server) FailNext(pattern string, status int, phrase string) {
	s.Fail(Fault{Match: pattern, Status: status, Phrase: phrase})
}

// ClearFaults removes all faults.
func (s *Server) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// FailTask makes the next task whose type and id match, such as "qmclone:100",
// "qmstart:*" or "*", fail with exit status without doing its work.
func (s *Server) FailTask(pattern, status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks.fail = append(s.tasks.fail, taskFault{pattern: pattern, status: status})
}

// fault returns the fault that is due for a call.
func (s *Server) fault(method string, parts []string) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	var struck *Fault
	for _, f := range s.faults {
		if !matchCall(f.Match, method, parts) {
			continue
		}
		f.hits++
		first, times := max(f.Nth, 1), f.Times
		if times == 0 {
			times = 1
		}
		if struck == nil && f.hits >= first && (times < 0 || f.hits < first+times) {
			due := *f
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

// matchCall matches a call against a pattern.
func matchCall(pattern, method string, parts []string) bool {
	m, p, ok := strings.Cut(pattern, " ")
	if !ok {
		m, p = "*", pattern
	}
	if m != "*" && m != method {
		return false
	}
	words := strings.FieldsFunc(p, func(r rune) bool { return r == '/' })
	for i, w := range words {
		if w == "**" && i == len(words)-1 {
			return true
		}
		if i >= len(parts) {
			return false
		}
		if strings.HasPrefix(w, "{") {
			w = "*"
		}
		if ok, err := path.Match(w, parts[i]); err != nil || !ok {
			return false
		}
	}
	return len(words) == len(parts)
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
