package pvetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// quiet is the [TB] of a server that belongs to no test.
type quiet struct{}

func (quiet) Helper()               {}
func (quiet) Cleanup(func())        {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}

// change runs what one of the methods that change the cluster from Go does,
// with the cluster locked. What it refuses is returned, and fails the test that
// the server belongs to.
func (s *Server) change(method string, f func() error) error {
	s.tb.Helper()
	s.mu.Lock()
	err := f()
	s.mu.Unlock()
	if err == nil {
		err = s.keep(s.touch())
	}
	return s.refuse(method, err)
}

// refuse reports the error of a method called from Go.
func (s *Server) refuse(method string, err error) error {
	s.tb.Helper()
	if err == nil {
		return nil
	}
	err = fmt.Errorf("pvetest: %s: %w", method, err)
	s.tb.Errorf("%v", err)
	return err
}

// refusal makes one line of an error that the API would answer with.
func refusal(err error) error {
	var e *apiError
	if err == nil || !errors.As(err, &e) {
		return err
	}
	if len(e.params) == 0 {
		return errors.New(strings.TrimSpace(e.message))
	}
	var all []string
	for _, k := range sortedKeys(e.params) {
		all = append(all, k+": "+strings.Join(strings.Fields(e.params[k]), " "))
	}
	return errors.New(strings.Join(all, "; "))
}

// acceptable checks parameters by the description of an operation.
func (s *Server) acceptable(op string, in map[string]string) error {
	raw := map[string]rawValue{}
	for k, v := range in {
		raw[k] = rawValue{text: v}
	}
	_, err := s.reg.check.params(s.reg.byName[op], raw)
	return refusal(err)
}

// unknown is the error for a name that is not among those there are.
func unknown(kind, name string, known []string) error {
	err := fmt.Errorf("no %s %q", kind, name)
	switch near := nearest(name, known); {
	case near != "":
		return fmt.Errorf("%w; did you mean %q?", err, near)
	case len(known) > 0 && len(known) <= 8:
		return fmt.Errorf("%w; there is %s", err, strings.Join(known, ", "))
	}
	return err
}

// nearest is the known name that is most like a misspelt one, or "".
func nearest(name string, known []string) string {
	best, least := "", max(min(2, len(name)/2), len(name)/3)+1
	for _, k := range known {
		if strings.EqualFold(k, name) {
			return k
		}
		if d := distance(name, k); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance counts the letters to add, drop or change to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// theNode finds a node for a method called from Go.
func (s *Server) theNode(name string) (*node, error) {
	if n := s.state.Nodes[name]; n != nil {
		return n, nil
	}
	return nil, unknown("node", name, sortedKeys(s.state.Nodes))
}

// theStorage finds a storage for a method called from Go.
func (s *Server) theStorage(id string) (*storage, error) {
	if st := s.state.Storages[id]; st != nil {
		return st, nil
	}
	return nil, unknown("storage", id, sortedKeys(s.state.Storages))
}

// theVM finds a guest for a method called from Go.
func (s *Server) theVM(vmid int) (*guest, error) {
	if g := s.state.Guests[vmid]; g != nil {
		return g, nil
	}
	var known []string
	for _, id := range sortedKeys(s.state.Guests) {
		known = append(known, itoa(id))
	}
	if len(known) > 0 && len(known) <= 8 {
		return nil, fmt.Errorf("no VM %d; there is %s", vmid, strings.Join(known, ", "))
	}
	return nil, fmt.Errorf("no VM %d", vmid)
}

// theToken finds a token by "user@realm!id".
func (s *Server) theToken(id string) (*apiToken, error) {
	name, token, _ := strings.Cut(id, "!")
	if u := s.state.Users[name]; u != nil && u.Tokens[token] != nil {
		return u.Tokens[token], nil
	}
	var known []string
	for _, u := range sortedKeys(s.state.Users) {
		for _, t := range sortedKeys(s.state.Users[u].Tokens) {
			known = append(known, u+"!"+t)
		}
	}
	return nil, unknown("token", id, known)
}

// checkUser tells whether a user may have a name.
func (s *Server) checkUser(id string) error {
	if err := s.acceptable("POST /access/users", map[string]string{"userid": id}); err != nil {
		return fmt.Errorf("%q is no user: %w (such as \"alice@pve\")", id, err)
	}
	if realm := realmOf(id); realm != "pam" && realm != "pve" {
		return fmt.Errorf("user %q: %w", id, unknown("realm", realm, []string{"pam", "pve"}))
	}
	return nil
}

// knownRoles lists all roles.
func (cl *cluster) knownRoles() []string {
	all := append(builtinRoles(), sortedKeys(cl.Roles)...)
	slices.Sort(all)
	return all
}
