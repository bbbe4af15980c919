package pvetest

import (
	"fmt"
	"strings"
)

func registerTasks(r *registry) {
	r.handle("GET /nodes/{node}/tasks", taskList)
	r.handle("GET /nodes/{node}/tasks/{upid}", index("name", "log", "status"))
	r.handle("GET /nodes/{node}/tasks/{upid}/status", taskStatus)
	r.handle("GET /nodes/{node}/tasks/{upid}/log", taskLog)
	r.handle("DELETE /nodes/{node}/tasks/{upid}", taskStop)
}

// row is a task's entry in lists.
func (t *task) row() map[string]any {
	m := map[string]any{
		"upid": t.UPID, "node": t.Node, "pid": t.PID, "pstart": t.PStart, "starttime": t.Start, "type": t.Type, "id": t.ID, "user": t.User,
	}
	if t.Token != "" {
		m["tokenid"] = t.Token
	}
	if !t.running() {
		m["endtime"], m["status"] = t.End, t.Status
	}
	return m
}

// owner is who started the task, as task identifiers show it.
func (t *task) owner() string { return identity{User: t.User, Token: t.Token}.id() }

// seesTask tells whether the caller may see a task.
func (c *call) seesTask(t *task) bool {
	return t.User == c.auth.User && (c.auth.Token == "" || t.Token == c.auth.Token) || c.may("/nodes/"+t.Node, "Sys.Audit")
}

func taskList(c *call) (any, error) {
	source := c.p.str("source")
	if source == "" {
		source = "archive"
	}
	var rows []map[string]any
	all := c.cl().Tasks
	for _, running := range []bool{true, false} {
		if running && source == "archive" || !running && source == "active" {
			continue
		}
		for i := len(all) - 1; i >= 0; i-- {
			t := all[i]
			if t.running() != running || t.Node != c.node || !c.seesTask(t) || !c.taskWanted(t) {
				continue
			}
			row := t.row()
			if running {
				row["status"], row["saved"], row["user"] = "RUNNING", "0", t.owner()
				delete(row, "tokenid")
			}
			rows = append(rows, row)
		}
	}
	total := len(rows)
	start, limit := int(c.p.intOr("start", 0)), int(c.p.intOr("limit", 50))
	rows = rows[min(start, total):]
	if limit > 0 {
		rows = rows[:min(limit, len(rows))]
	}
	if len(rows) == 0 {
		rows = []map[string]any{}
	}
	return reply{Data: rows, Total: total}, nil
}

// taskWanted applies the filters of a task list.
func (c *call) taskWanted(t *task) bool {
	p := c.p
	switch {
	case p.has("vmid") && t.ID != p.str("vmid"),
		p.has("typefilter") && t.Type != p.str("typefilter"),
		p.has("userfilter") && !strings.Contains(strings.ToLower(t.owner()), strings.ToLower(p.str("userfilter"))),
		p.has("since") && t.Start < p.int("since"),
		p.has("until") && t.Start > p.int("until"),
		p.boolean("errors", false) && (t.running() || t.ok() || t.warned()):
		return false
	}
	if !p.has("statusfilter") {
		return true
	}
	for _, f := range p.list("statusfilter") {
		switch f {
		case "ok":
			if t.ok() {
				return true
			}
		case "warning":
			if t.warned() {
				return true
			}
		case "unknown":
			if t.Status == "unexpected status" || t.Status == "unknown" {
				return true
			}
		case "error":
			if !t.running() && !t.ok() && !t.warned() {
				return true
			}
		}
	}
	return false
}

func (t *task) ok() bool     { return t.Status == "OK" }
func (t *task) warned() bool { return strings.HasPrefix(t.Status, "WARNINGS: ") }

// upidOK tells whether a text has the form of a task identifier.
func upidOK(s string) bool {
	return matchOnce(`UPID:[a-zA-Z0-9](?:[a-zA-Z0-9\-]*[a-zA-Z0-9])?:[0-9A-Fa-f]{8}:[0-9A-Fa-f]{8,9}:[0-9A-Fa-f]{8}:[^:\s]+:[^:\s]*:[^:\s]+:`, s)
}

// ownTask checks the form of a task identifier and the right to its task, as
// the calls about a single task do.
func (c *call) ownTask(upid string) (*task, error) {
	if !upidOK(upid) {
		return nil, failParam("upid", "unable to parse worker upid")
	}
	parts := strings.Split(upid, ":")
	owner := strings.Join(parts[7:len(parts)-1], ":")
	if owner != c.auth.id() && owner != c.auth.User {
		if err := c.check("/nodes/"+c.node, "Sys.Audit"); err != nil {
			return nil, err
		}
	}
	t := c.cl().findTask(upid)
	if t != nil && t.Node != c.node {
		t = nil
	}
	return t, nil
}

func taskStatus(c *call) (any, error) {
	t, err := c.ownTask(c.p.str("upid"))
	if err != nil {
		return nil, err
	}
	if t == nil {
		return nil, failParam("upid", "no such task")
	}
	c.s.look(t)
	m := t.row()
	delete(m, "endtime")
	m["status"] = "running"
	if !t.running() {
		m["status"], m["exitstatus"] = "stopped", t.Status
	}
	return m, nil
}

func taskLog(c *call) (any, error) {
	t, err := c.ownTask(c.p.str("upid"))
	if err != nil {
		return nil, err
	}
	lines := []string{"unable to open file - No such file or directory"}
	if t != nil {
		if lines = t.Log; len(lines) == 0 {
			lines = []string{"no content"}
		}
	}
	if c.p.boolean("download", false) {
		return reply{Raw: []byte(strings.Join(lines, "\n") + "\n"), ContentType: "text/plain"}, nil
	}
	start, limit := int(c.p.intOr("start", 0)), int(c.p.intOr("limit", 50))
	out := []map[string]any{}
	for i := start; i < len(lines) && (limit == 0 || i < start+limit); i++ {
		out = append(out, map[string]any{"n": i + 1, "t": lines[i]})
	}
	return reply{Data: out, Total: len(lines)}, nil
}

func taskStop(c *call) (any, error) {
	upid := c.p.str("upid")
	if !upidOK(upid) {
		return nil, failParam("upid", "unable to parse worker upid")
	}
	t := c.cl().findTask(upid)
	if t == nil || t.owner() != c.auth.id() && t.User != c.auth.User {
		if err := c.check("/nodes/"+c.node, "Sys.Modify"); err != nil {
			return nil, err
		}
	}
	if t != nil && t.running() {
		c.s.endTask(t, fmt.Errorf("received interrupt"))
	}
	return nil, nil
}
