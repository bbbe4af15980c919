package pvetest

import (
	"fmt"
	"slices"
	"strings"
)

// addNode adds a node with a bridge vmbr0. The cluster is locked.
func (s *Server) addNode(name string) *node {
	id := len(s.state.Nodes) + 1
	n := &node{
		Name: name, ID: id, IP: fmt.Sprintf("192.0.2.%d", 10+id), CPUs: 16, Memory: 64 << 30, Disk: 500 << 30,
		Ifaces: map[string]*iface{}, PID: 1200,
	}
	n.Ifaces["vmbr0"] = &iface{Name: "vmbr0", Type: "bridge", Active: true, Config: map[string]string{
		"address": fmt.Sprintf("192.0.2.%d", id), "netmask": "24", "autostart": "1", "bridge_ports": "", "bridge_stp": "off", "bridge_fd": "0",
	}}
	s.state.Nodes[name] = n
	return n
}

// A Node says what a node is like. Zero fields keep their defaults.
type Node struct {
	CPUs    int      `json:"cpus"`   // default 16
	Memory  int64    `json:"memory"` // bytes, default 64 GiB
	Disk    int64    `json:"disk"`   // bytes of the root file system, default 500 GiB
	IP      string   `json:"ip"`
	Bridges []string `json:"bridges"` // beside vmbr0
	NoKVM   bool     `json:"noKVM"`   // the machine cannot virtualise: guests need kvm=0 to start
}

// AddNode adds a node to the cluster, or changes one that is there.
func (s *Server) AddNode(name string, n Node) error {
	s.tb.Helper()
	return s.change("AddNode", func() error {
		if !matchOnce(nodeName, name) {
			return fmt.Errorf("%q is no node name", name)
		}
		if n.CPUs < 0 || n.Memory < 0 || n.Disk < 0 {
			return fmt.Errorf("node %q: negative CPUs, Memory or Disk", name)
		}
		for _, b := range n.Bridges {
			if err := s.acceptable("POST /nodes/{node}/network", map[string]string{"node": "pve1", "type": "bridge", "iface": b}); err != nil {
				return fmt.Errorf("node %q: bridge %q: %w", name, b, err)
			}
		}
		node := s.state.Nodes[name]
		if node == nil {
			node = s.addNode(name)
			if s.state.Name == "" {
				s.state.Name = "pvetest"
			}
		}
		if n.CPUs > 0 {
			node.CPUs = n.CPUs
		}
		if n.Memory > 0 {
			node.Memory = n.Memory
		}
		if n.Disk > 0 {
			node.Disk = n.Disk
		}
		if n.IP != "" {
			node.IP = n.IP
		}
		node.NoKVM = node.NoKVM || n.NoKVM
		for _, b := range n.Bridges {
			node.Ifaces[b] = &iface{Name: b, Type: "bridge", Active: true, Config: map[string]string{"autostart": "1", "bridge_ports": "", "bridge_stp": "off", "bridge_fd": "0"}}
		}
		return nil
	})
}

// RemoveBridge takes a bridge away from a node.
func (s *Server) RemoveBridge(node, name string) error {
	s.tb.Helper()
	return s.change("RemoveBridge", func() error {
		n, err := s.theNode(node)
		if err != nil {
			return err
		}
		if n.Ifaces[name] == nil {
			return fmt.Errorf("node %q: %w", node, unknown("bridge", name, sortedKeys(n.Ifaces)))
		}
		delete(n.Ifaces, name)
		return nil
	})
}

// SetNodeOnline switches a node off or on. Calls for a node that is off are
// answered with 595, its guests and storages have the status unknown, and a
// cluster with half of its nodes off or more loses its quorum.
func (s *Server) SetNodeOnline(name string, online bool) error {
	s.tb.Helper()
	return s.change("SetNodeOnline", func() error {
		n, err := s.theNode(name)
		if err != nil {
			return err
		}
		n.Offline = !online
		up := 0
		for _, n := range s.state.Nodes {
			if !n.Offline {
				up++
			}
		}
		s.state.NoQuorum = 2*up <= len(s.state.Nodes)
		return nil
	})
}

// SetQuorate takes the quorum away from the cluster or gives it back. Without
// it every write fails, and /cluster/status and /nodes tell.
func (s *Server) SetQuorate(quorate bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.NoQuorum = !quorate
}

// RootToken returns an API token of root@pam that may do all its owner may.
func (s *Server) RootToken() (id, secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.state.Users["root@pam"]
	if u.Tokens["pvetest"] == nil {
		s.addRootToken("")
	}
	return "root@pam!pvetest", u.Tokens["pvetest"].Secret
}

// AddUser adds a user such as "alice@pve", or changes the password of one. An
// empty password makes one that cannot log in with a password.
func (s *Server) AddUser(userid, password string) error {
	s.tb.Helper()
	return s.change("AddUser", func() error {
		if err := s.checkUser(userid); err != nil {
			return err
		}
		s.addUser(userid).Password = password
		return nil
	})
}

func (s *Server) addUser(id string) *user {
	if s.state.Users[id] == nil {
		s.state.Users[id] = &user{ID: id, Tokens: map[string]*apiToken{}}
	}
	return s.state.Users[id]
}

// AddToken makes an API token such as "alice@pve!cpi", and its user when there
// is none, and returns its secret: "" when it refuses to.
//
// A token with privilege separation has what both it and its user have, never
// more than its user: give the same role to both with [Server.SetACL]. One
// without has all that its user has, and needs no entry of its own.
func (s *Server) AddToken(id string, privsep bool) (secret string) {
	s.tb.Helper()
	secret, _ = s.addToken("AddToken", id, "", privsep)
	return secret
}

// AddTokenSecret is [Server.AddToken] with a secret of the caller's choice.
func (s *Server) AddTokenSecret(id, secret string, privsep bool) error {
	s.tb.Helper()
	if secret == "" {
		return s.refuse("AddTokenSecret", fmt.Errorf("token %q: no secret", id))
	}
	_, err := s.addToken("AddTokenSecret", id, secret, privsep)
	return err
}

func (s *Server) addToken(method, id, secret string, privsep bool) (string, error) {
	s.tb.Helper()
	err := s.change(method, func() error {
		name, token, ok := strings.Cut(id, "!")
		if !ok {
			return fmt.Errorf("%q is no token: write it as \"user@realm!id\", such as \"alice@pve!cpi\"", id)
		}
		if err := s.checkUser(name); err != nil {
			return err
		}
		if err := s.acceptable("POST /access/users/{userid}/token/{tokenid}", map[string]string{"userid": name, "tokenid": token}); err != nil {
			return fmt.Errorf("%q is no token: %w", id, err)
		}
		if secret == "" {
			secret = s.uuid()
		}
		s.addUser(name).Tokens[token] = &apiToken{ID: token, Secret: secret, Privsep: privsep}
		return nil
	})
	if err != nil {
		secret = ""
	}
	return secret, err
}

// SetTokenSecret gives a token a secret of the caller's choice.
func (s *Server) SetTokenSecret(id, secret string) error {
	s.tb.Helper()
	return s.change("SetTokenSecret", func() error {
		t, err := s.theToken(id)
		switch {
		case err != nil:
			return err
		case secret == "":
			return fmt.Errorf("token %q: no secret", id)
		}
		t.Secret = secret
		return nil
	})
}

// TokenSecret returns the secret of a token, and whether there is one.
func (s *Server) TokenSecret(id string) (secret string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.theToken(id)
	if err != nil {
		return "", false
	}
	return t.Secret, true
}

// AddRole makes a role, or replaces one that is not built in.
func (s *Server) AddRole(id string, privs ...string) error {
	s.tb.Helper()
	return s.change("AddRole", func() error {
		if err := s.acceptable("POST /access/roles", map[string]string{"roleid": id}); err != nil {
			return fmt.Errorf("role %q: %w", id, err)
		}
		if strings.HasPrefix(strings.ToUpper(id), "PVE") || slices.Contains(builtinRoles(), id) {
			return fmt.Errorf("role %q: this name is kept for built-in roles", id)
		}
		r := &role{ID: id, Privs: map[string]bool{}}
		for _, p := range privs {
			if !knownPriv(p) {
				return fmt.Errorf("role %q: %w", id, unknown("privilege", p, privileges()))
			}
			r.Privs[p] = true
		}
		s.state.Roles[id] = r
		return nil
	})
}

// SetACL gives a role on a path, propagating, to a user ("alice@pve"), a token
// ("alice@pve!cpi") or a group ("@admins"), which are there already as the role
// is. An empty role takes all roles on the path away.
//
// A token with privilege separation needs the role as much as its user does:
//
//	srv.SetACL("/pool/bosh", "bosh@pve", "CPI")
//	srv.SetACL("/pool/bosh", "bosh@pve!cpi", "CPI")
func (s *Server) SetACL(path, who, role string) error {
	s.tb.Helper()
	return s.setACL("SetACL", path, who, role, true)
}

// SetACLHere is [Server.SetACL] for the path alone, without what is below it.
func (s *Server) SetACLHere(path, who, role string) error {
	s.tb.Helper()
	return s.setACL("SetACLHere", path, who, role, false)
}

func (s *Server) setACL(method, path, who, role string, propagate bool) error {
	s.tb.Helper()
	return s.change(method, func() error {
		normal := normalPath(path)
		if !strings.HasPrefix(path, "/") || !aclPathOK(normal) {
			return fmt.Errorf("path %q: an ACL is on \"/\" or below /access, /mapping, /nodes, /pool, /sdn, /storage or /vms", path)
		}
		kind := "user"
		switch {
		case strings.HasPrefix(who, "@"):
			kind, who = "group", who[1:]
			if s.state.Groups[who] == nil {
				return unknown("group", who, sortedKeys(s.state.Groups))
			}
		case strings.Contains(who, "!"):
			kind = "token"
			if _, err := s.theToken(who); err != nil {
				return fmt.Errorf("%w; AddToken makes one", err)
			}
		case s.state.Users[who] == nil:
			return fmt.Errorf("%w; AddUser makes one", unknown("user", who, sortedKeys(s.state.Users)))
		}
		if _, ok := s.state.rolePrivs(role); !ok && role != "" {
			return unknown("role", role, s.state.knownRoles())
		}
		s.state.dropACL(func(e *aclEntry) bool {
			return e.Path == normal && e.Kind == kind && e.Who == who && (role == "" || e.Role == role)
		})
		if role != "" {
			s.state.ACL = append(s.state.ACL, &aclEntry{Path: normal, Kind: kind, Who: who, Role: role, Propagate: propagate})
		}
		return nil
	})
}

// AddPool makes a resource pool. One below another, "bosh/dep1", needs the
// upper one.
func (s *Server) AddPool(id string) error {
	s.tb.Helper()
	return s.change("AddPool", func() error {
		if err := s.acceptable("POST /pools", map[string]string{"poolid": id}); err != nil {
			return fmt.Errorf("pool %q: %w", id, err)
		}
		if !startsWithLetter(id) || !poolName(id) {
			return fmt.Errorf("%q is no pool name: up to three parts with \"/\" between, each of letters, digits, \"-\", \"_\" and \".\", the first letter a letter", id)
		}
		if i := strings.LastIndexByte(id, '/'); i >= 0 && s.state.Pools[id[:i]] == nil {
			return fmt.Errorf("pool %q: %w", id, unknown("pool", id[:i], sortedKeys(s.state.Pools)))
		}
		if s.state.Pools[id] == nil {
			s.state.Pools[id] = newPool(id)
		}
		return nil
	})
}

// poolName tells whether a pool can have a name.
func poolName(id string) bool {
	parts := strings.Split(id, "/")
	return len(parts) <= 3 && !slices.ContainsFunc(parts, func(p string) bool {
		return p == "" || strings.Trim(p, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") != ""
	})
}

// SetOption sets an option of the data centre, such as "next-id" to
// "lower=200,upper=300". An empty value removes it.
func (s *Server) SetOption(name, value string) error {
	s.tb.Helper()
	return s.change("SetOption", func() error {
		schema := s.reg.byName["PUT /cluster/options"].Parameters
		if lookup(schema, name) == nil || name == "delete" {
			return unknown("option", name, sortedKeys(schema.Properties))
		}
		if value == "" {
			delete(s.state.Options, name)
			return nil
		}
		if err := s.acceptable("PUT /cluster/options", map[string]string{name: value}); err != nil {
			return err
		}
		s.state.Options[name] = value
		return nil
	})
}

// Pool returns the guests and storages of a pool, and whether there is one.
func (s *Server) Pool(id string) (vmids []int, storages []string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.state.Pools[id]
	if p == nil {
		return nil, nil, false
	}
	return sortedKeys(p.Guests), sortedKeys(p.Storages), true
}

// A Task is a task as the cluster remembers it.
type Task struct {
	UPID, Node, Type, ID, User string
	Status                     string // the exit status; empty while it runs
	Log                        []string
}

// Tasks returns all tasks, the oldest first.
func (s *Server) Tasks() []Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Task, len(s.state.Tasks))
	for i, t := range s.state.Tasks {
		out[i] = Task{UPID: t.UPID, Node: t.Node, Type: t.Type, ID: t.ID, User: t.User, Status: t.Status, Log: slices.Clone(t.Log)}
	}
	return out
}
