package pvetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// stateFile is where a server with a directory of its own keeps the cluster.
func (s *Server) stateFile() string { return filepath.Join(s.dir, "state.json") }

// load takes the cluster from the state directory, or makes a new one.
func (s *Server) load(o *options) error {
	if !s.ownDir {
		data, err := os.ReadFile(s.stateFile())
		if err == nil {
			var saved savedState
			if err := json.Unmarshal(data, &saved); err != nil {
				return fmt.Errorf("pvetest: %s: %w", s.stateFile(), err)
			}
			s.state, s.secret, s.booted = saved.Cluster, saved.Secret, s.clock().Add(-saved.Uptime)
			s.state.fill()
			s.sweep()
			for _, t := range s.state.Tasks {
				if t.running() {
					s.endTask(t, errors.New("unexpected status"))
				}
			}
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("pvetest: state directory: %w", err)
		}
	}
	s.state = &cluster{}
	s.state.fill()
	for _, name := range o.nodes {
		s.addNode(name)
	}
	if len(o.nodes) > 1 {
		s.state.Name = "pvetest"
	}
	st := newLocal()
	s.state.Storages[st.ID] = st
	s.state.Users["root@pam"] = &user{ID: "root@pam", Password: o.root, Tokens: map[string]*apiToken{}}
	s.addRootToken(o.token)
	return nil
}

// addRootToken makes the token that RootToken returns.
func (s *Server) addRootToken(secret string) {
	if secret == "" {
		secret = s.uuid()
	}
	s.state.Users["root@pam"].Tokens["pvetest"] = &apiToken{ID: "pvetest", Secret: secret}
}

// fill makes the maps that a new or an older state lacks.
func (cl *cluster) fill() {
	ensure(&cl.Nodes)
	ensure(&cl.Storages)
	ensure(&cl.Guests)
	ensure(&cl.Pools)
	ensure(&cl.Users)
	ensure(&cl.Groups)
	ensure(&cl.Roles)
	ensure(&cl.Options)
	ensure(&cl.HA)
	ensure(&cl.Sections)
	ensure(&cl.Firewalls)
	for _, u := range cl.Users {
		ensure(&u.Tokens)
	}
	for _, g := range cl.Groups {
		ensure(&g.Users)
	}
	for _, p := range cl.Pools {
		ensure(&p.Guests)
		ensure(&p.Storages)
	}
	for _, n := range cl.Nodes {
		ensure(&n.Ifaces)
	}
}

func ensure[K comparable, V any](m *map[K]V) {
	if *m == nil {
		*m = map[K]V{}
	}
}

// A savedState is what the state file holds.
type savedState struct {
	Cluster *cluster      `json:"cluster"`
	Secret  []byte        `json:"secret"`
	Uptime  time.Duration `json:"uptime"`
}

// Snapshot returns the whole persistent state of the cluster as JSON in a
// canonical form, without the tasks and without what only passes the time, so
// that two of them are equal when nothing was changed in between.
func (s *Server) Snapshot() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	copied := *s.state
	copied.Tasks = nil
	pids := map[string]int{}
	for name, n := range s.state.Nodes {
		pids[name], n.PID = n.PID, 0
	}
	data, err := json.MarshalIndent(&copied, "", " ")
	for name, n := range s.state.Nodes {
		n.PID = pids[name]
	}
	if err != nil {
		return err.Error()
	}
	return string(data)
}
