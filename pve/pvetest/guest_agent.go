package pvetest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A guestAgent is a simulated QEMU guest agent.
type guestAgent struct {
	Replies map[string]json.RawMessage `json:"replies"`
	Files   map[string][]byte          `json:"files"`
	Exec    map[string]AgentExec       `json:"exec"`
	Pids    map[int]AgentExec          `json:"pids"`
	NextPID int                        `json:"nextPID"`
}

// An AgentExec is what a command does that is run through the guest agent.
type AgentExec struct {
	ExitCode int    `json:"exitCode"`
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	Running  bool   `json:"running"` // it never ends
}

func registerAgent(r *registry) {
	const base = "/nodes/{node}/qemu/{vmid}/agent"
	r.handle("GET "+base, agentIndex)
	r.handle("POST "+base, func(c *call) (any, error) { return c.agentCommand(c.p.str("command")) })
	for _, name := range agentReads() {
		r.handle("GET "+base+"/"+name, func(c *call) (any, error) { return c.agentCommand(name) })
	}
	for _, name := range agentWrites() {
		r.handle("POST "+base+"/"+name, func(c *call) (any, error) { return c.agentCommand(name) })
	}
	r.handle("POST "+base+"/set-user-password", func(c *call) (any, error) { return c.agentCommand("set-user-password") })
	r.handle("POST "+base+"/exec", agentExec)
	r.handle("GET "+base+"/exec-status", agentExecStatus)
	r.handle("GET "+base+"/file-read", agentFileRead)
	r.handle("POST "+base+"/file-write", agentFileWrite)
}

func agentReads() []string {
	return []string{
		"get-fsinfo", "get-host-name", "get-memory-block-info", "get-memory-blocks", "get-osinfo", "get-time", "get-timezone",
		"get-users", "get-vcpus", "info", "network-get-interfaces",
	}
}

func agentWrites() []string {
	return []string{
		"fsfreeze-freeze", "fsfreeze-status", "fsfreeze-thaw", "fstrim", "ping", "shutdown", "suspend-disk", "suspend-hybrid", "suspend-ram",
	}
}

func agentIndex(c *call) (any, error) {
	names := append(agentReads(), agentWrites()...)
	names = append(names, "exec", "exec-status", "file-read", "file-write", "set-user-password")
	slices.Sort(names)
	var rows []any
	for _, n := range names {
		rows = append(rows, map[string]any{"name": n})
	}
	return rows, nil
}

// agent returns the guest's agent, if it can be talked to.
func (c *call) agent() (*guest, *guestAgent, error) {
	g, err := c.theGuest()
	if err != nil {
		return nil, nil, err
	}
	switch {
	case !agentOn(g.Config):
		return nil, nil, fail(500, "No QEMU guest agent configured")
	case !g.Running:
		return nil, nil, fail(500, "VM %d is not running", g.VMID)
	case g.Agent == nil || g.Paused:
		return nil, nil, fail(500, "QEMU guest agent is not running")
	}
	return g, g.Agent, nil
}

// agentCommand runs one of the agent's plain commands.
func (c *call) agentCommand(name string) (any, error) {
	g, a, err := c.agent()
	if err != nil {
		return nil, err
	}
	if raw, ok := a.Replies[name]; ok {
		return map[string]any{"result": raw}, nil
	}
	switch name {
	case "ping", "set-user-password":
		return map[string]any{"result": map[string]any{}}, nil
	case "fsfreeze-status":
		return map[string]any{"result": "thawed"}, nil
	case "fsfreeze-freeze", "fsfreeze-thaw":
		return map[string]any{"result": 1}, nil
	case "get-time":
		return map[string]any{"result": c.s.clock().UnixNano()}, nil
	case "shutdown":
		g.stop()
		return map[string]any{"result": map[string]any{}}, nil
	}
	return map[string]any{"result": map[string]any{"error": map[string]any{
		"class": "CommandNotFound", "desc": "The command guest-" + name + " has not been found",
	}}}, nil
}

func agentExec(c *call) (any, error) {
	_, a, err := c.agent()
	if err != nil {
		return nil, err
	}
	command := strings.Join(c.p.array("command"), " ")
	result, ok := a.Exec[command]
	if !ok {
		for _, name := range slices.Backward(slices.Sorted(maps.Keys(a.Exec))) {
			if strings.HasPrefix(command, name+" ") {
				result = a.Exec[name]
				break
			}
		}
	}
	pid := a.NextPID
	a.NextPID++
	if a.Pids == nil {
		a.Pids = map[int]AgentExec{}
	}
	a.Pids[pid] = result
	return map[string]any{"pid": pid}, nil
}

func agentExecStatus(c *call) (any, error) {
	_, a, err := c.agent()
	if err != nil {
		return nil, err
	}
	pid := int(c.p.int("pid"))
	r, ok := a.Pids[pid]
	if !ok {
		return nil, fail(500, "Agent error: Invalid parameter 'pid'")
	}
	if r.Running {
		return map[string]any{"exited": 0}, nil
	}
	delete(a.Pids, pid)
	m := map[string]any{"exited": 1, "exitcode": r.ExitCode}
	if r.Stdout != "" {
		m["out-data"] = r.Stdout
	}
	if r.Stderr != "" {
		m["err-data"] = r.Stderr
	}
	return m, nil
}

func agentFileRead(c *call) (any, error) {
	_, a, err := c.agent()
	if err != nil {
		return nil, err
	}
	name := c.p.str("file")
	data, ok := a.Files[name]
	if !ok {
		return nil, fail(500, "Agent error: failed to open file '%s' (mode: 'r'): No such file or directory", name)
	}
	return map[string]any{"bytes-read": len(data), "content": string(data)}, nil
}

func agentFileWrite(c *call) (any, error) {
	_, a, err := c.agent()
	if err != nil {
		return nil, err
	}
	data := []byte(c.p.str("content"))
	if !c.p.boolean("encode", true) {
		if data, err = base64.StdEncoding.DecodeString(c.p.str("content")); err != nil {
			return nil, fail(500, "Agent error: invalid base64 in 'buf-b64'")
		}
	}
	if a.Files == nil {
		a.Files = map[string][]byte{}
	}
	a.Files[c.p.str("file")] = data
	return nil, nil
}

// An Agent is a guest's QEMU guest agent. It answers ping, set-user-password,
// get-time, shutdown and fsfreeze by itself.
type Agent struct {
	Replies map[string]any       // what else it knows: "get-osinfo" and the JSON of its result
	Files   map[string]string    // what can be read
	Exec    map[string]AgentExec // by command line, or by its first words
}

// SetAgent gives a guest an agent that answers while the guest runs and has
// its agent option on; nil takes it away.
func (s *Server) SetAgent(vmid int, a *Agent) error {
	s.tb.Helper()
	return s.change("SetAgent", func() error {
		g, err := s.theVM(vmid)
		if err != nil {
			return err
		}
		if a == nil {
			g.Agent = nil
			return nil
		}
		made := &guestAgent{Replies: map[string]json.RawMessage{}, Files: map[string][]byte{}, Exec: a.Exec, NextPID: 1000}
		for name, reply := range a.Replies {
			raw, err := json.Marshal(reply)
			if err != nil {
				return fmt.Errorf("the agent's reply to %s: %w", name, err)
			}
			made.Replies[name] = raw
		}
		for name, text := range a.Files {
			made.Files[name] = []byte(text)
		}
		g.Agent = made
		return nil
	})
}
