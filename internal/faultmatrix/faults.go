package main

import (
	"context"
	"strings"
	"time"

	"github.com/proxkit/proxkit/pve"
	"github.com/proxkit/proxkit/pve/pvetest"
)

// A site is one API call that a method makes: the nth of its kind.
type site struct {
	method, template string
	nth              int
	node             string // the node that the call goes to, or that the method works on
}

// starters are the calls whose work is a task.
var starters = []string{
	"POST /nodes/{node}/qemu", "DELETE /nodes/{node}/qemu/{vmid}", "POST /nodes/{node}/qemu/{vmid}/clone", "POST /nodes/{node}/qemu/{vmid}/template",
	"PUT /nodes/{node}/qemu/{vmid}/resize", "POST /nodes/{node}/qemu/{vmid}/move_disk", "POST /nodes/{node}/storage/{storage}/upload",
	"DELETE /nodes/{node}/storage/{storage}/content/{volume}", "POST /nodes/{node}/qemu/{vmid}/config",
	"POST /nodes/{node}/qemu/{vmid}/status/start", "POST /nodes/{node}/qemu/{vmid}/status/stop", "POST /nodes/{node}/qemu/{vmid}/status/reboot",
}

func (s site) line() string { return s.method + " " + s.template }

func (s site) startsTask() bool {
	for _, line := range starters {
		if s.line() == line {
			return true
		}
	}
	return false
}

func (s site) writes() bool { return s.method != "GET" }

// pattern is the site's call as [pvetest.Fault] matches it.
func (s site) pattern() string {
	var out []string
	for part := range strings.SplitSeq(strings.TrimPrefix(s.template, "/"), "/") {
		switch {
		case part == "{volume}":
			// The name of a volume has slashes.
			part = "**"
		case strings.HasPrefix(part, "{"):
			part = "*"
		}
		out = append(out, part)
	}
	return s.method + " /" + strings.Join(out, "/")
}

// A manner says how often the fault strikes and what the Director must be told.
type manner int

const (
	// passes is a fault that is gone when the call is made again.
	passes manner = iota
	// lasts is a fault that trying again does not mend.
	lasts
	// harmless is one that the method must do its work in spite of.
	harmless
)

// A fault is a column of the matrix.
type fault struct {
	name   string
	letter string // for the table's head
	manner manner
	// for tells the sites that it can befall; all when nil.
	befalls func(s site) bool
	// make returns what happens at the site. The Do of it is called besides the
	// one that the runner needs.
	make func(w *world, s site) pvetest.Fault
	// during changes the cluster for the whole call.
	during func(w *world)
	// hangs says that the operator has to stop a task afterwards.
	hangs bool
	// kills says that the process is killed when the fault strikes.
	kills bool
	// worst marks the faults of the reduced form.
	worst bool
}

func refusal(status int, phrase string) func(*world, site) pvetest.Fault {
	return func(*world, site) pvetest.Fault { return pvetest.Fault{Status: status, Phrase: phrase} }
}

const (
	lockText   = "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout"
	workerText = "got no worker upid - start worker failed"
	cfsText    = "cfs-lock 'storage-shared' error: got lock request timeout"
	denialText = "Permission check failed (/vms/100, VM.Allocate)"
)

// faults lists the columns.
func faults() []fault {
	writes, starts := site.writes, site.startsTask
	offline := func(w *world, s site) func() { return func() { w.srv.SetNodeOnline(s.node, false) } }
	return []fault{
		{name: "500, the guest's lock is held", letter: "lock", manner: passes, make: refusal(500, lockText)},
		{name: "500, the guest is locked", letter: "locked", manner: passes, befalls: writes, make: refusal(500, "VM is locked (backup)")},
		{name: "500, no worker was started", letter: "worker", manner: passes, befalls: starts, make: refusal(500, workerText)},
		{name: "500, the storage's lock is held", letter: "cfs", manner: passes, befalls: writes, make: refusal(500, cfsText)},
		{name: "500, something else", letter: "500", manner: lasts, make: refusal(500, "an unforeseen thing happened")},
		{name: "500, no quorum", letter: "noquo", manner: passes, befalls: writes, make: refusal(500, "cluster not ready - no quorum?")},
		{name: "401", letter: "401", manner: lasts, make: refusal(401, "invalid token value!")},
		{name: "403", letter: "403", manner: lasts, make: refusal(403, denialText)},
		{name: "403 from here on", letter: "403…", manner: lasts, make: func(w *world, _ site) pvetest.Fault {
			return w.fromHere(pvetest.Fault{Status: 403, Phrase: denialText}, pvetest.Fault{Status: 403, Phrase: denialText})
		}},
		{name: "595", letter: "595", manner: passes, make: refusal(595, "Connection refused")},
		{name: "596, without effect", letter: "596-", manner: passes, make: refusal(596, "Connection timed out")},
		{name: "596, with effect", letter: "596+", manner: passes, befalls: writes, make: func(*world, site) pvetest.Fault {
			return pvetest.Fault{Status: 596, Phrase: "Connection timed out", After: true}
		}},
		{name: "connection dropped before the effect", letter: "cut-", manner: passes, make: func(*world, site) pvetest.Fault {
			return pvetest.Fault{Cut: pvetest.CutBefore}
		}},
		{name: "connection dropped after the effect", letter: "cut+", manner: passes, worst: true, make: func(*world, site) pvetest.Fault {
			return pvetest.Fault{Cut: pvetest.CutAfter}
		}},
		{name: "API gone from here on", letter: "gone-", manner: passes, make: func(w *world, _ site) pvetest.Fault {
			return w.fromHere(pvetest.Fault{Cut: pvetest.CutBefore}, pvetest.Fault{Cut: pvetest.CutBefore})
		}},
		{name: "API gone after the effect", letter: "gone+", manner: passes, befalls: writes, worst: true, make: func(w *world, _ site) pvetest.Fault {
			return w.fromHere(pvetest.Fault{Cut: pvetest.CutAfter}, pvetest.Fault{Cut: pvetest.CutBefore})
		}},
		{name: "task fails", letter: "task-", manner: lasts, befalls: starts, make: func(*world, site) pvetest.Fault {
			return pvetest.Fault{TaskError: "command '/usr/bin/something' failed: exit code 1"}
		}},
		{name: "task fails for a lock", letter: "tlock", manner: passes, befalls: starts, make: func(*world, site) pvetest.Fault {
			return pvetest.Fault{TaskError: cfsText}
		}},
		{name: "task fails when its work is done", letter: "task+", manner: lasts, befalls: starts, make: func(*world, site) pvetest.Fault {
			return pvetest.Fault{TaskError: "command '/usr/bin/something' failed: exit code 1", After: true}
		}},
		{name: "task's worker dies", letter: "tdie-", manner: lasts, befalls: starts, make: func(*world, site) pvetest.Fault {
			return pvetest.Fault{TaskError: "unexpected status"}
		}},
		{name: "task's worker dies when its work is done", letter: "tdie+", manner: lasts, befalls: starts, make: func(*world, site) pvetest.Fault {
			return pvetest.Fault{TaskError: "unexpected status", After: true}
		}},
		{name: "task ends with warnings", letter: "warn", manner: harmless, befalls: starts, make: func(*world, site) pvetest.Fault {
			return pvetest.Fault{TaskWarnings: 2}
		}},
		{name: "task takes its time", letter: "slow", manner: harmless, befalls: starts, make: func(w *world, _ site) pvetest.Fault {
			return pvetest.Fault{Do: func() { w.srv.TasksTake(3) }}
		}},
		{name: "task outlasts the call", letter: "hang", manner: passes, hangs: true, befalls: starts, make: func(w *world, _ site) pvetest.Fault {
			return pvetest.Fault{Do: func() { w.srv.HoldTask("*") }}
		}},
		{name: "answer comes too late", letter: "late", manner: passes, make: func(w *world, _ site) pvetest.Fault {
			return pvetest.Fault{Delay: time.Duration(w.limits.request)*time.Second + 500*time.Millisecond}
		}},
		{name: "page of a proxy, 502", letter: "html5", manner: passes, make: func(*world, site) pvetest.Fault {
			return pvetest.Fault{Status: 502, Phrase: "Bad Gateway", HTML: true}
		}},
		{name: "page of a proxy, 200", letter: "html2", manner: lasts, make: func(*world, site) pvetest.Fault {
			return pvetest.Fault{Status: 200, Phrase: "OK", HTML: true}
		}},
		{name: "node down from here on", letter: "down", manner: passes, worst: true, make: func(w *world, s site) pvetest.Fault {
			return pvetest.Fault{Do: offline(w, s)}
		}},
		{name: "quorum lost from here on", letter: "quorum", manner: passes, make: func(w *world, s site) pvetest.Fault {
			// The node that answers is alone.
			return pvetest.Fault{Do: func() {
				for _, n := range nodes {
					w.srv.SetNodeOnline(n, n == s.node)
				}
			}}
		}},
		{name: "killed before the effect", letter: "kill-", kills: true, befalls: writes, make: func(*world, site) pvetest.Fault {
			return pvetest.Fault{Cut: pvetest.CutBefore}
		}},
		{name: "killed after the effect", letter: "kill+", kills: true, worst: true, make: func(*world, site) pvetest.Fault {
			return pvetest.Fault{Cut: pvetest.CutAfter}
		}},
		{name: "killed while the task runs", letter: "killt", kills: true, befalls: starts, during: func(w *world) { w.srv.TasksLast(time.Second) }, make: func(*world, site) pvetest.Fault {
			return pvetest.Fault{Cut: pvetest.CutAfter}
		}},
	}
}

// fromHere returns a fault after which all calls suffer another one.
func (w *world) fromHere(first, rest pvetest.Fault) pvetest.Fault {
	rest.Match, rest.Times = "* /**", -1
	first.Do = func() { w.srv.Fail(rest) }
	return first
}

// heal ends whatever is wrong with the cluster.
func (w *world) heal() {
	w.srv.ClearFaults()
	for _, n := range nodes {
		w.srv.SetNodeOnline(n, true)
	}
	w.srv.SetQuorate(true)
	w.srv.TasksTake(0)
	w.srv.TasksLast(0)
}

// stopTasks stops the tasks that still run, as an operator would.
func (w *world) stopTasks(ctx context.Context) error {
	id, secret := w.srv.RootToken()
	root, err := pve.NewClient(w.srv.URL(), pve.WithAPIToken(id, secret), pve.WithFingerprint(w.srv.Fingerprint()))
	if err != nil {
		return err
	}
	for _, t := range w.srv.Tasks() {
		if t.Status != "" {
			continue
		}
		if err := root.StopTask(ctx, pve.StopTaskParams{Node: t.Node, UPID: pve.UPID(t.UPID)}); err != nil {
			return err
		}
	}
	return nil
}
