package pvetest

// A cluster is the whole state of the simulated cluster. It is JSON so that
// pve-sim can keep it in a directory; all access is under [Server.mu].
type cluster struct {
	Name     string              `json:"name,omitempty"`
	Nodes    map[string]*node    `json:"nodes"`
	Storages map[string]*storage `json:"storages"`
	Guests   map[int]*guest      `json:"guests"`
	URLs     map[string][]byte   `json:"urls,omitempty"` // what download-url finds; nil: 404

	Pools  map[string]*pool  `json:"pools"`
	Users  map[string]*user  `json:"users"`
	Groups map[string]*group `json:"groups"`
	Roles  map[string]*role  `json:"roles"` // the built-in ones are not in here
	ACL    []*aclEntry       `json:"acl"`
	Tasks  []*task           `json:"tasks"`

	Options map[string]string `json:"options"` // datacenter.cfg

	HA       map[string]*haResource        `json:"ha"`       // by sid
	Sections map[string]map[string]section `json:"sections"` // other configuration: kind, then id

	SDN       *sdn                 `json:"sdn,omitempty"`
	Firewalls map[string]*firewall `json:"firewalls"` // "cluster", "node/pve1", "vm/100", "group/web"

	// NoQuorum makes every write fail.
	NoQuorum bool `json:"noQuorum,omitempty"`
}

// A node is one member of the cluster.
type node struct {
	Name    string `json:"name"`
	ID      int    `json:"id"`
	IP      string `json:"ip"`
	Offline bool   `json:"offline,omitempty"`
	NoKVM   bool   `json:"noKVM,omitempty"` // no hardware virtualisation

	CPUs   int   `json:"cpus"`
	Memory int64 `json:"memory"` // bytes
	Disk   int64 `json:"disk"`   // bytes of the root file system

	Ifaces map[string]*iface `json:"ifaces"`
	Edited map[string]*iface `json:"edited,omitempty"` // what a reload will make of them
	PID    int               `json:"pid"`              // the last process id given out
}

// An iface is one network interface of a node.
type iface struct {
	Name   string            `json:"name"`
	Type   string            `json:"type"` // bridge, eth, …
	Active bool              `json:"active"`
	Order  int               `json:"order"` // place in the file
	Config map[string]string `json:"config"`
}

// A pool is a resource pool. Members are vmids and storages.
type pool struct {
	ID       string          `json:"id"`
	Comment  string          `json:"comment,omitempty"`
	Guests   map[int]bool    `json:"guests"`
	Storages map[string]bool `json:"storages"`
}

// A user is an account of a realm.
type user struct {
	ID        string               `json:"id"`
	Password  string               `json:"password,omitempty"`
	Factor    string               `json:"factor,omitempty"` // the code of a second factor
	Disabled  bool                 `json:"disabled,omitempty"`
	Expire    int64                `json:"expire,omitempty"`
	Comment   *string              `json:"comment,omitempty"`
	Email     *string              `json:"email,omitempty"`
	Firstname *string              `json:"firstname,omitempty"`
	Lastname  *string              `json:"lastname,omitempty"`
	Keys      *string              `json:"keys,omitempty"`
	Tokens    map[string]*apiToken `json:"tokens"`
}

// An apiToken is an API token of a user.
type apiToken struct {
	ID      string  `json:"id"`
	Secret  string  `json:"secret"`
	Privsep bool    `json:"privsep"`
	Expire  int64   `json:"expire"`
	Comment *string `json:"comment,omitempty"`
}

// A group is a group of users.
type group struct {
	ID      string          `json:"id"`
	Comment string          `json:"comment,omitempty"`
	Users   map[string]bool `json:"users"`
}

// A role is a set of privileges.
type role struct {
	ID    string          `json:"id"`
	Privs map[string]bool `json:"privs"`
}

// An aclEntry gives a role on a path to a user, group or token.
type aclEntry struct {
	Path      string `json:"path"`
	Kind      string `json:"kind"` // user, group or token
	Who       string `json:"who"`
	Role      string `json:"role"`
	Propagate bool   `json:"propagate"`
}

// poolOf returns the pool a guest is in, "" when it is in none.
func (cl *cluster) poolOf(vmid int) string {
	for id, p := range cl.Pools { // it is in one at most
		if p.Guests[vmid] {
			return id
		}
	}
	return ""
}

// poolOfStorage returns the pool a storage is in, "" when it is in none.
func (cl *cluster) poolOfStorage(id string) string {
	for name, p := range cl.Pools {
		if p.Storages[id] {
			return name
		}
	}
	return ""
}

// addToPool puts a guest into a pool; pool "" does nothing.
func (cl *cluster) addToPool(pool string, vmid int) {
	if p := cl.Pools[pool]; p != nil {
		p.Guests[vmid] = true
	}
}

// leavePool takes a guest out of its pool.
func (cl *cluster) leavePool(vmid int) {
	for _, p := range cl.Pools {
		delete(p.Guests, vmid)
	}
}

// forgetGuest removes what else there is of a destroyed guest: its place in a
// pool, the permissions on it and its firewall.
func (cl *cluster) forgetGuest(vmid int) {
	cl.leavePool(vmid)
	cl.dropACL(func(e *aclEntry) bool { return e.Path == "/vms/"+itoa(vmid) })
	delete(cl.Firewalls, "vm/"+itoa(vmid))
}

// A section is one entry of a configuration file of which only the keys
// matter.
type section map[string]string

// An haResource is a guest under high availability.
type haResource struct {
	SID    string  `json:"sid"`
	State  string  `json:"state"`
	Config section `json:"config"` // what else was set
}
