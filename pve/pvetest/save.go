package pvetest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// A saver keeps the state file as new as the cluster. Changes that come while a
// file is being written share the next one.
type saver struct {
	on    bool
	mu    sync.Mutex
	saved uint64   // the newest change that the file has
	stale []string // blobs that no volume has any more, but maybe the file's; guarded by Server.mu
}

// keptTasks is how many tasks that have ended a state file keeps.
const keptTasks = 1000

// touch counts a change and returns its number.
func (s *Server) touch() uint64 {
	if !s.saver.on {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	return s.changes
}

// keep returns when the state file has a change.
func (s *Server) keep(change uint64) error {
	if !s.saver.on || change == 0 {
		return nil
	}
	s.saver.mu.Lock()
	defer s.saver.mu.Unlock()
	if s.saver.saved >= change {
		return nil
	}
	return s.write()
}

// Save writes the cluster's state to the directory given by [WithDir]. Without
// one it does nothing. With [WithAutoSave] there is no need to call it.
func (s *Server) Save() error {
	if s.ownDir {
		return nil
	}
	s.saver.mu.Lock()
	defer s.saver.mu.Unlock()
	return s.write()
}

// write replaces the state file. A server that dies meanwhile leaves the old
// one.
func (s *Server) write() error {
	s.mu.Lock()
	number, stale := s.changes, s.saver.stale
	s.saver.stale = nil
	kept := *s.state
	kept.Tasks = recent(s.state.Tasks)
	data, err := json.Marshal(savedState{&kept, s.secret, s.clock().Sub(s.booted)})
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("pvetest: %w", err)
	}
	tmp := s.stateFile() + ".tmp"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return fmt.Errorf("pvetest: %w", err)
	}
	if err := os.Rename(tmp, s.stateFile()); err != nil {
		return fmt.Errorf("pvetest: %w", err)
	}
	s.saver.saved = max(s.saver.saved, number)
	for _, handle := range stale {
		_ = os.Remove(s.blobPath(handle)) // a file left behind does no harm
	}
	return nil
}

// recent leaves out the oldest of many tasks that have ended.
func recent(all []*task) []*task {
	if len(all) <= keptTasks {
		return all
	}
	var out []*task
	for i, t := range all {
		if t.running() || i >= len(all)-keptTasks {
			out = append(out, t)
		}
	}
	return out
}

// sweep removes what a server that was killed has left: blobs of volumes that
// the state file does not have, and uploads that did not arrive whole.
func (s *Server) sweep() {
	used := map[string]bool{}
	for _, st := range s.state.Storages {
		for _, volumes := range st.Volumes {
			for _, v := range volumes {
				used[v.Blob] = true
			}
		}
	}
	blobs, err := os.ReadDir(s.blobDir())
	if err == nil {
		for _, f := range blobs {
			if !used[f.Name()] {
				_ = os.Remove(s.blobPath(f.Name()))
			}
		}
	}
	uploads, err := filepath.Glob(filepath.Join(s.dir, "uploads", "pveupload-*"))
	if err == nil {
		for _, f := range uploads {
			_ = os.Remove(f)
		}
	}
}
