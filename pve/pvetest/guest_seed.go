package pvetest

import (
	"errors"
	"fmt"
	"net/url"
)

// SetKVM tells whether a node has hardware virtualisation, without which
// guests start only with kvm=0.
func (s *Server) SetKVM(node string, there bool) error {
	s.tb.Helper()
	return s.change("SetKVM", func() error {
		n, err := s.theNode(node)
		if err != nil {
			return err
		}
		n.NoKVM = !there
		return nil
	})
}

// AddContainer puts a container into the cluster. It takes its number and is in
// the lists, and nothing can be done with it.
func (s *Server) AddContainer(vmid int, node, name string) error {
	s.tb.Helper()
	return s.change("AddContainer", func() error {
		if _, err := s.theNode(node); err != nil {
			return err
		}
		if err := checkVMID(vmid); err != nil {
			return err
		}
		if old := s.state.Guests[vmid]; old != nil {
			return errors.New(old.there())
		}
		s.state.Guests[vmid] = &guest{VMID: vmid, Node: node, Container: true, Config: map[string]string{"name": name}}
		return nil
	})
}

// checkVMID tells whether a guest can have a number.
func checkVMID(vmid int) error {
	if vmid < 100 || vmid > 999999999 {
		return fmt.Errorf("VMID %d: the numbers of guests go from 100 to 999999999", vmid)
	}
	return nil
}

// SetStorageUsed changes how many bytes of a storage are taken by things that
// are not volumes.
func (s *Server) SetStorageUsed(id string, used int64) error {
	s.tb.Helper()
	return s.change("SetStorageUsed", func() error {
		st, err := s.theStorage(id)
		switch {
		case err != nil:
			return err
		case used < 0:
			return fmt.Errorf("storage %q: %d bytes", id, used)
		}
		st.Other = used
		return nil
	})
}

// ServeURL makes download-url find data behind a URL; nil makes it find that
// there is no such file. Any other URL cannot be reached.
func (s *Server) ServeURL(address string, data []byte) error {
	s.tb.Helper()
	return s.change("ServeURL", func() error {
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("%q is no URL of HTTP or HTTPS", address)
		}
		ensure(&s.state.URLs)
		s.state.URLs[address] = data
		return nil
	})
}

// inside returns a call by root on a node, for what is done from Go. The
// cluster is locked.
func (s *Server) inside(node string) *call {
	auth := identity{User: "root@pam"}
	return &call{s: s, node: node, auth: auth, perm: newPermitter(s.state, auth), now: s.clock(), p: params{}, vars: map[string]string{}}
}
