package pvetest

import (
	"fmt"
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
	looks    int // how many more looks at its status before it ends
	run      func(t *task) error
}

// logf adds lines to the task's log.
func (t *task) logf(format string, args ...any) {
	text := format
	if len(args) > 0 {
		text = fmt.Sprintf(format, args...)
	}
	t.Log = append(t.Log, strings.Split(strings.TrimSuffix(text, "\n"), "\n")...)
}

// warn adds a warning, which the exit status counts.
func (t *task) warn(format string, args ...any) {
	t.logf("WARN: "+format, args...)
	t.warnings++
}

// running tells whether the task has not ended yet.
func (t *task) running() bool { return t.Status == "" }

// task starts a worker on the node that answers and returns its UPID. What run
// does happens with the cluster locked: at once, or later when tasks are made
// to take time. The text of its error becomes the exit status.
func (c *call) task(typ, id string, run func(t *task) error) string {
	s := c.s
	n := c.cl().Nodes[c.node]
	n.PID += 7
	now := s.now()
	t := &task{
		Node: c.node, Type: typ, ID: id, User: c.auth.User, Token: c.auth.Token,
		PID: n.PID, PStart: s.pstart(now), Start: now.Unix(), run: run,
	}
	t.UPID = fmt.Sprintf("UPID:%s:%08X:%08X:%08X:%s:%s:%s:", t.Node, t.PID, t.PStart, t.Start, typ, id, c.auth.id())
	c.cl().Tasks = append(c.cl().Tasks, t)
	if s.taskLooks == 0 {
		s.finish(t)
	} else {
		t.looks = s.taskLooks
	}
	return t.UPID
}

// finish does a task's work and ends it.
func (s *Server) finish(t *task) {
	if !t.running() {
		return
	}
	err := t.run(t)
	t.End = s.now().Unix()
	switch {
	case err != nil:
		t.Status = strings.TrimSuffix(err.Error(), "\n")
		t.Status, _, _ = strings.Cut(t.Status, "\n")
		t.logf("TASK ERROR: %s", strings.TrimSuffix(err.Error(), "\n"))
	case t.warnings > 0:
		t.Status = fmt.Sprintf("WARNINGS: %d", t.warnings)
		t.logf("TASK WARNINGS: %d", t.warnings)
	default:
		t.Status = "OK"
		t.logf("TASK OK")
	}
}

// now is the simulated cluster's time.
func (s *Server) now() time.Time { return s.clock() }

// pstart is a process's start time in ticks since the node booted.
func (s *Server) pstart(now time.Time) int64 { return int64(now.Sub(s.booted) / (10 * time.Millisecond)) }

func registerTasks(r *registry) {}
