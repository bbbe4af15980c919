package pvetest

import "fmt"

// SetKVM tells whether a node has hardware virtualisation, without which
// guests start only with kvm=0.
func (s *Server) SetKVM(node string, there bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.state.Nodes[node]
	if n == nil {
		return errorf("no node %q", node)
	}
	n.NoKVM = !there
	return nil
}

// AddContainer puts a container into the cluster. It takes its number and is in
// the lists, and nothing can be done with it.
func (s *Server) AddContainer(vmid int, node, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Nodes[node] == nil {
		return errorf("no node %q", node)
	}
	if old := s.state.Guests[vmid]; old != nil {
		return errorf("%s", old.there())
	}
	s.state.Guests[vmid] = &guest{VMID: vmid, Node: node, Container: true, Config: map[string]string{"name": name}}
	return nil
}

// SetStorageUsed changes how many bytes of a storage are taken by things that
// are not volumes.
func (s *Server) SetStorageUsed(id string, used int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.state.Storages[id]
	if st == nil {
		return errorf("no storage %q", id)
	}
	st.Other = used
	return nil
}

// ServeURL makes download-url find data behind a URL; nil makes it find that
// there is no such file. Any other URL cannot be reached.
func (s *Server) ServeURL(url string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.URLs == nil {
		s.state.URLs = map[string][]byte{}
	}
	s.state.URLs[url] = data
}

// errorf is an error of the package's Go interface.
func errorf(format string, args ...any) error { return fmt.Errorf("pvetest: "+format, args...) }

// inside returns a call by root on a node, for what is done from Go. The
// cluster is locked.
func (s *Server) inside(node string) *call {
	auth := identity{User: "root@pam"}
	return &call{s: s, node: node, auth: auth, perm: newPermitter(s.state, auth), now: s.clock(), p: params{}, vars: map[string]string{}}
}
