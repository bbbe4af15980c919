package cpi

import (
	"cmp"
	"slices"
)

// A Privilege says what an API token must be allowed on one path.
type Privilege struct {
	Path       string
	Privileges []string // sorted
	// For says what needs them.
	For string
}

// A PrivilegeScope names what a CPI works with.
type PrivilegeScope struct {
	// Pool is the resource pool of all guests; without one, rights are needed on
	// every guest.
	Pool string
	// ImageStorages are the storages of disks.
	ImageStorages []string
	// ISOStorage holds the agents' settings, ImportStorage the images of stemcells
	// while they are uploaded.
	ISOStorage    string
	ImportStorage string
	// Bridges are the bridges of NICs; VNets are vnets by their path below
	// /sdn/zones, "zone/vnet".
	Bridges []string
	VNets   []string
}

// A pathClass is a kind of path that privileges are granted on.
type pathClass int

const (
	pathGuests pathClass = iota
	pathImages
	pathISO
	pathImport
	pathNetworks
)

// An apiCall is an operation that the CPI calls and what it takes. Calls that
// are open to every user, such as the list of the cluster's resources, which is
// filtered by VM.Audit and Datastore.Audit, name what they are useless without.
type apiCall struct {
	operation string
	needs     []callNeed
}

type callNeed struct {
	path      pathClass
	privilege string
}

// apiCalls lists every operation that the CPI calls.
func apiCalls() []apiCall {
	return []apiCall{
		{"GET /cluster/resources", []callNeed{{pathGuests, "VM.Audit"}, {pathImages, "Datastore.Audit"}, {pathISO, "Datastore.Audit"}, {pathImport, "Datastore.Audit"}}},
		{"GET /cluster/nextid", nil},
		// Asked only when half of the nodes are off, and done without when refused.
		{"GET /cluster/status", nil},
		{"GET /access/permissions", nil},
		{"GET /nodes/{node}/network", nil},
		{"GET /nodes/{node}/qemu/{vmid}/config", []callNeed{{pathGuests, "VM.Audit"}}},
		{"GET /nodes/{node}/qemu/{vmid}/snapshot", []callNeed{{pathGuests, "VM.Audit"}}},
		{"GET /nodes/{node}/qemu/{vmid}/status/current", []callNeed{{pathGuests, "VM.Audit"}}},
		{"POST /nodes/{node}/qemu", []callNeed{
			{pathGuests, "VM.Allocate"},
			{pathGuests, "VM.Config.Disk"},
			{pathGuests, "VM.Config.Memory"},
			{pathGuests, "VM.Config.Options"},
			{pathImages, "Datastore.AllocateSpace"},
			{pathImport, "Datastore.Audit"},
		}},
		{"POST /nodes/{node}/qemu/{vmid}/clone", []callNeed{{pathGuests, "VM.Clone"}, {pathGuests, "VM.Allocate"}, {pathImages, "Datastore.AllocateSpace"}}},
		{"PUT /nodes/{node}/qemu/{vmid}/config", []callNeed{
			{pathGuests, "VM.Config.CPU"},
			{pathGuests, "VM.Config.Memory"},
			{pathGuests, "VM.Config.Disk"},
			{pathGuests, "VM.Config.CDROM"},
			{pathGuests, "VM.Config.Network"},
			{pathGuests, "VM.Config.Options"},
			{pathImages, "Datastore.AllocateSpace"},
			{pathImages, "Datastore.Audit"},
			{pathISO, "Datastore.Audit"},
			{pathNetworks, "SDN.Use"},
		}},
		{"PUT /nodes/{node}/qemu/{vmid}/resize", []callNeed{{pathGuests, "VM.Config.Disk"}, {pathImages, "Datastore.AllocateSpace"}}},
		{"POST /nodes/{node}/qemu/{vmid}/move_disk", []callNeed{{pathGuests, "VM.Config.Disk"}, {pathImages, "Datastore.AllocateSpace"}}},
		{"POST /nodes/{node}/qemu/{vmid}/template", []callNeed{{pathGuests, "VM.Allocate"}}},
		{"POST /nodes/{node}/qemu/{vmid}/status/start", []callNeed{{pathGuests, "VM.PowerMgmt"}}},
		{"POST /nodes/{node}/qemu/{vmid}/status/stop", []callNeed{{pathGuests, "VM.PowerMgmt"}}},
		{"POST /nodes/{node}/qemu/{vmid}/status/reboot", []callNeed{{pathGuests, "VM.PowerMgmt"}}},
		{"DELETE /nodes/{node}/qemu/{vmid}", []callNeed{{pathGuests, "VM.Allocate"}}},
		{"GET /nodes/{node}/storage/{storage}/content", []callNeed{{pathImages, "Datastore.Audit"}}},
		{"POST /nodes/{node}/storage/{storage}/upload", []callNeed{{pathISO, "Datastore.AllocateTemplate"}, {pathImport, "Datastore.AllocateTemplate"}}},
		{"DELETE /nodes/{node}/storage/{storage}/content/{volume}", []callNeed{{pathISO, "Datastore.Allocate"}, {pathImport, "Datastore.Allocate"}}},
		// Everybody sees his own tasks.
		{"GET /nodes/{node}/tasks", nil},
		{"GET /nodes/{node}/tasks/{upid}/status", nil},
		{"GET /nodes/{node}/tasks/{upid}/log", nil},
	}
}

// Privileges returns what the API token of a CPI with that scope must be allowed,
// by path: all that its calls take and nothing more. An empty Pool gives the
// rights on /vms.
//
// A token with privilege separation, which is what PVE makes by default, may do
// only what its user may do too: grant the rights to both.
//
// With Sys.Audit on /nodes besides, which is no need, the placement of VMs knows
// the memory and the CPUs of the nodes; without it, nodes with fewer guests come
// first.
func Privileges(s PrivilegeScope) []Privilege {
	paths := map[pathClass][]string{
		pathGuests: {"/vms"},
		pathImages: storagePaths(s.ImageStorages...),
		pathISO:    storagePaths(s.ISOStorage),
		pathImport: storagePaths(s.ImportStorage),
	}
	if s.Pool != "" {
		paths[pathGuests] = []string{"/pool/" + s.Pool}
	}
	for _, b := range s.Bridges {
		paths[pathNetworks] = append(paths[pathNetworks], "/sdn/zones/localnetwork/"+b)
	}
	for _, v := range s.VNets {
		paths[pathNetworks] = append(paths[pathNetworks], "/sdn/zones/"+v)
	}
	var out []Privilege
	for class, purpose := range []string{"guests", "disks", "agent settings", "stemcell images", "networks"} {
		var names []string
		for _, call := range apiCalls() {
			for _, n := range call.needs {
				if n.path == pathClass(class) && !slices.Contains(names, n.privilege) {
					names = append(names, n.privilege)
				}
			}
		}
		slices.Sort(names)
		for _, path := range paths[pathClass(class)] {
			i := slices.IndexFunc(out, func(p Privilege) bool { return p.Path == path })
			if i < 0 {
				out = append(out, Privilege{Path: path, Privileges: slices.Clone(names), For: purpose})
				continue
			}
			out[i].Privileges = union(out[i].Privileges, names)
			slices.Sort(out[i].Privileges)
			out[i].For += ", " + purpose
		}
	}
	slices.SortStableFunc(out, func(a, b Privilege) int { return cmp.Compare(a.Path, b.Path) })
	return out
}

// An APICall is an operation that the CPI calls, with the privileges it takes on
// whatever paths.
type APICall struct {
	Operation  string // "POST /nodes/{node}/qemu"
	Privileges []string
}

// APICalls lists every operation that the CPI calls.
func APICalls() []APICall {
	var out []APICall
	for _, call := range apiCalls() {
		c := APICall{Operation: call.operation}
		for _, n := range call.needs {
			c.Privileges = union(c.Privileges, []string{n.privilege})
		}
		out = append(out, c)
	}
	return out
}

func storagePaths(ids ...string) []string {
	var out []string
	for _, id := range ids {
		if id != "" {
			out = append(out, "/storage/"+id)
		}
	}
	return out
}

// Privileges returns what the API token needs for this configuration: that of
// [Config.PrivilegeScope].
func (c *CPI) Privileges() []Privilege { return Privileges(c.cfg.PrivilegeScope()) }

// PrivilegeScope returns what a CPI with the configuration works with. An
// iso_storage or import_storage that is not configured is found on the cluster when
// it is needed; in its place stands a name in angle brackets, "<iso_storage, not
// configured>". Storages, pools, bridges and vnets that the cloud properties name are
// not in the scope.
func (c *Config) PrivilegeScope() PrivilegeScope {
	found := func(key string) string { return "<" + key + ", not configured>" }
	return PrivilegeScope{
		Pool: c.Pool, ImageStorages: union(c.Storage, c.DiskStorage), Bridges: []string{c.Bridge},
		ISOStorage: cmp.Or(c.ISOStorage, found("iso_storage")), ImportStorage: cmp.Or(c.ImportStorage, found("import_storage")),
	}
}
