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
	CPUs    int   // default 16
	Memory  int64 // bytes, default 64 GiB
	Disk    int64 // bytes of the root file system, default 500 GiB
	IP      string
	Bridges []string // beside vmbr0
	NoKVM   bool     // the machine cannot virtualise: guests need kvm=0 to start
}

// AddNode adds a node to the cluster, or changes one that is there.
func (s *Server) AddNode(name string, n Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
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
}

// RemoveBridge takes a bridge away from a node.
func (s *Server) RemoveBridge(node, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.state.Nodes[node]; n != nil {
		delete(n.Ifaces, name)
	}
}

// SetNodeOnline switches a node off or on. Calls for a node that is off are
// answered with 595, its guests and storages have the status unknown, and a
// cluster with half of its nodes off or more loses its quorum.
func (s *Server) SetNodeOnline(name string, online bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.state.Nodes[name]
	if n == nil {
		return
	}
	n.Offline = !online
	up := 0
	for _, n := range s.state.Nodes {
		if !n.Offline {
			up++
		}
	}
	s.state.NoQuorum = 2*up <= len(s.state.Nodes)
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

// AddUser adds a user such as "alice@pve". An empty password makes one that
// cannot log in with a password.
func (s *Server) AddUser(userid, password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Users[userid] == nil {
		s.state.Users[userid] = &user{ID: userid, Tokens: map[string]*apiToken{}}
	}
	s.state.Users[userid].Password = password
}

// AddToken makes an API token such as "alice@pve!cpi", and its user when there
// is none, and returns its secret. A token with privilege separation has no
// rights but those given to the token itself.
func (s *Server) AddToken(id string, privsep bool) (secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, token, _ := strings.Cut(id, "!")
	if s.state.Users[name] == nil {
		s.state.Users[name] = &user{ID: name, Tokens: map[string]*apiToken{}}
	}
	secret = s.uuid()
	s.state.Users[name].Tokens[token] = &apiToken{ID: token, Secret: secret, Privsep: privsep}
	return secret
}

// SetTokenSecret gives a token a secret of the caller's choice.
func (s *Server) SetTokenSecret(id, secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, token, _ := strings.Cut(id, "!")
	if u := s.state.Users[name]; u != nil && u.Tokens[token] != nil {
		u.Tokens[token].Secret = secret
	}
}

// AddRole makes a role, or replaces one.
func (s *Server) AddRole(id string, privs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &role{ID: id, Privs: map[string]bool{}}
	for _, p := range privs {
		r.Privs[p] = true
	}
	s.state.Roles[id] = r
}

// SetACL gives a role on a path, propagating, to a user ("alice@pve"), a token
// ("alice@pve!cpi") or a group ("@admins"). An empty role takes all roles on
// the path away.
func (s *Server) SetACL(path, who, role string) { s.setACL(path, who, role, true) }

// SetACLHere is [Server.SetACL] for the path alone, without what is below it.
func (s *Server) SetACLHere(path, who, role string) { s.setACL(path, who, role, false) }

func (s *Server) setACL(path, who, role string, propagate bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path = normalPath(path)
	kind := "user"
	switch {
	case strings.HasPrefix(who, "@"):
		kind, who = "group", who[1:]
	case strings.Contains(who, "!"):
		kind = "token"
	}
	s.state.ACL = slices.DeleteFunc(s.state.ACL, func(e *aclEntry) bool {
		return e.Path == path && e.Kind == kind && e.Who == who && (role == "" || e.Role == role)
	})
	if role != "" {
		s.state.ACL = append(s.state.ACL, &aclEntry{Path: path, Kind: kind, Who: who, Role: role, Propagate: propagate})
	}
}

// AddPool makes a resource pool.
func (s *Server) AddPool(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Pools[id] == nil {
		s.state.Pools[id] = newPool(id)
	}
}

// SetOption sets an option of the data centre, such as "next-id" to
// "lower=200,upper=300". An empty value removes it.
func (s *Server) SetOption(name, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if value == "" {
		delete(s.state.Options, name)
		return
	}
	s.state.Options[name] = value
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
