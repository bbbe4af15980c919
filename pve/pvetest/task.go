package pvetest

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A task is a worker process of a node.
type task struct {
	UPID   string   `json:"upid"`
	Node   string   `json:"node"`
	Type   string   `json:"type"`
	ID     string   `json:"id"`
	User   string   `json:"user"`
	Token  string   `json:"token,omitempty"`
	PID    int      `json:"pid"`
	PStart int64    `json:"pstart"`
	Start  int64    `json:"start"`
	End    int64    `json:"end,omitempty"`
	Status string   `json:"status,omitempty"` // exit status; empty while it runs
	Log    []string `json:"log"`

	warnings int
	looks    int       // how many more looks at its status before it ends
	until    time.Time // when it ends, in a cluster where tasks last
	fail     string    // the exit status it is bound to have
	failLate bool      // ... after its work was done
	bound    int       // warnings it is bound to have
	working  bool      // its work is being done right now
	held     bool      // runs until it is stopped or released
	run      func(t *task) error
	undo     func() // takes back what was reserved, when the work is never done
}

// A taskMode says how long tasks take.
type taskMode struct {
	looks int
	last  time.Duration
	fail  []taskFault
	hold  []string
}

// A taskFault makes a task fail.
type taskFault struct{ pattern, status string }

// logf adds lines to the task's log.
func (t *task) logf(format string, args ...any) {
	text := format
	if len(args) > 0 {
		text = fmt.Sprintf(format, args...)
	}
	t.Log = append(t.Log, strings.Split(strings.TrimSuffix(text, "\n"), "\n")...)
}

// warnf adds a warning, which the exit status counts.
func (t *task) warnf(format string, args ...any) {
	t.logf("WARN: "+format, args...)
	t.warnings++
}

// running tells whether the task has not ended yet.
func (t *task) running() bool { return t.Status == "" }

// TasksTake makes tasks end, and do their work, only after n looks at their
// status. With 0, the default, they are done before the call that starts them
// is answered.
func (s *Server) TasksTake(n int) error {
	s.tb.Helper()
	return s.change("TasksTake", func() error {
		if n < 0 {
			return fmt.Errorf("%d looks", n)
		}
		s.tasks.looks = n
		return nil
	})
}

// TasksLast makes tasks end, and do their work, when d has passed by the
// cluster's clock.
func (s *Server) TasksLast(d time.Duration) error {
	s.tb.Helper()
	return s.change("TasksLast", func() error {
		if d < 0 {
			return fmt.Errorf("a time of %s", d)
		}
		s.tasks.last = d
		return nil
	})
}

// HoldTask keeps the next task that matches a pattern, such as
// "qmshutdown:100", running until it is stopped. The patterns are those of
// [Server.FailTask].
func (s *Server) HoldTask(pattern string) error {
	s.tb.Helper()
	return s.change("HoldTask", func() error {
		if err := checkTaskPattern(pattern); err != nil {
			return err
		}
		s.tasks.hold = append(s.tasks.hold, pattern)
		return nil
	})
}

// task starts a worker on the node that answers and returns its UPID. What run
// does happens with the cluster locked: at once, or later when tasks are made
// to take time. The text of its error becomes the exit status.
func (c *call) task(typ, id string, run func(t *task) error) string {
	return c.taskOn(c.node, typ, id, run)
}

// taskOn is task on a given node.
func (c *call) taskOn(nodeName, typ, id string, run func(t *task) error) string {
	s := c.s
	n := c.cl().Nodes[nodeName]
	n.PID += 7
	now := s.clock()
	t := &task{
		Node: nodeName, Type: typ, ID: id, User: c.auth.User, Token: c.auth.Token,
		PID: n.PID, PStart: int64(now.Sub(s.booted) / (10 * time.Millisecond)), Start: now.Unix(), run: run,
	}
	t.UPID = fmt.Sprintf("UPID:%s:%08X:%08X:%08X:%s:%s:%s:", t.Node, t.PID, t.PStart, t.Start, typ, id, c.auth.id())
	c.cl().Tasks = append(c.cl().Tasks, t)
	if f := c.fault; f != nil {
		t.fail, t.failLate, t.bound = f.TaskError, f.After, f.TaskWarnings
		if f.origin != nil {
			f.origin.struck = true
		}
		c.fault = nil // not for tasks that this one starts
	}
	for i, f := range s.tasks.fail {
		if matchTask(f.pattern, typ, id) {
			t.fail = f.status
			s.tasks.fail = append(s.tasks.fail[:i], s.tasks.fail[i+1:]...)
			break
		}
	}
	for i, pattern := range s.tasks.hold {
		if matchTask(pattern, typ, id) {
			t.held = true
			s.tasks.hold = append(s.tasks.hold[:i], s.tasks.hold[i+1:]...)
			break
		}
	}
	switch {
	case t.held:
	case s.tasks.looks > 0:
		t.looks = s.tasks.looks
	case s.tasks.last > 0:
		t.until = now.Add(s.tasks.last)
		s.active = append(s.active, t)
	default:
		s.finish(t)
	}
	return t.UPID
}

// finish does a task's work and ends it. Older tasks of the same guest end
// first, as they hold its lock.
func (s *Server) finish(t *task) {
	if !t.running() {
		return
	}
	for _, older := range s.state.Tasks {
		if older == t {
			break
		}
		if older.running() && !older.held && !older.working && older.ID == t.ID && older.ID != "" && older.Node == t.Node {
			s.finishOne(older)
		}
	}
	s.finishOne(t)
}

func (s *Server) finishOne(t *task) {
	var err error
	t.working = true
	if t.fail == "" || t.failLate {
		if t.run == nil {
			err = fmt.Errorf("unexpected status")
		} else {
			t.undo = nil
			err = t.run(t)
		}
	}
	if err == nil && t.fail != "" {
		err = fmt.Errorf("%s", t.fail)
	}
	for range t.bound {
		t.warnf("injected warning")
	}
	s.endTask(t, err)
}

// endTask closes a task's log.
func (s *Server) endTask(t *task, err error) {
	if t.undo != nil {
		t.undo()
	}
	t.run, t.undo = nil, nil
	s.changes++
	t.End = s.clock().Unix()
	switch {
	case err != nil:
		t.Status = strings.ReplaceAll(strings.TrimSuffix(dieText(err), "\n"), "\n", " ")
		t.logf("%s", "TASK ERROR: "+t.Status)
	case t.warnings > 0:
		t.Status = fmt.Sprintf("WARNINGS: %d", t.warnings)
		t.logf("TASK WARNINGS: %d", t.warnings)
	default:
		t.Status = "OK"
		t.logf("TASK OK")
	}
}

// settle ends the tasks whose time has come.
func (s *Server) settle() {
	if len(s.active) == 0 {
		return
	}
	now := s.clock()
	for _, t := range slices.Clone(s.active) {
		if t.running() && !t.until.IsZero() && !now.Before(t.until) {
			s.finish(t)
		}
	}
	s.active = slices.DeleteFunc(s.active, func(t *task) bool { return !t.running() })
}

// look counts a look at a task's status, which may end it.
func (s *Server) look(t *task) {
	if !t.running() || t.looks == 0 {
		return
	}
	t.looks--
	if t.looks == 0 {
		s.finish(t)
	}
}

// findTask finds a task of a node.
func (cl *cluster) findTask(upid string) *task {
	for i := len(cl.Tasks) - 1; i >= 0; i-- {
		if cl.Tasks[i].UPID == upid {
			return cl.Tasks[i]
		}
	}
	return nil
}
