package pvetest

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// A Storage says what a storage is like; see [Server.AddStorage].
type Storage struct {
	Type    string            `json:"type"`    // dir, nfs, cifs, btrfs, cephfs, lvm, lvmthin, zfspool or rbd
	Content []string          `json:"content"` // default what the type has by itself
	Nodes   []string          `json:"nodes"`   // the nodes that have it; default all
	Shared  bool              `json:"shared"`  // for the types that need not be
	Size    int64             `json:"size"`    // bytes; default the node's root file system
	Config  map[string]string `json:"config"`  // further keys of storage.cfg
}

// AddStorage adds a storage to the cluster, or replaces its settings.
func (s *Server) AddStorage(id string, st Storage) error {
	s.tb.Helper()
	return s.change("AddStorage", func() error { return s.addStorage(id, st) })
}

func (s *Server) addStorage(id string, st Storage) error {
	kind := kindOf(st.Type)
	if len(kind.content) == 0 || kind.addr == "" {
		return fmt.Errorf("storage %q: %w", id, unknown("storage type", st.Type, storageTypes()))
	}
	if st.Size < 0 {
		return fmt.Errorf("storage %q: a size of %d bytes", id, st.Size)
	}
	for _, c := range st.Content {
		if !slices.Contains(kind.content, c) && c != "none" {
			return fmt.Errorf("storage %q: %w", id, unknown("content of "+st.Type, c, kind.content))
		}
	}
	for _, n := range st.Nodes {
		if _, err := s.theNode(n); err != nil {
			return fmt.Errorf("storage %q: %w", id, err)
		}
	}
	conf := map[string]string{}
	switch kind.addr {
	case "path":
		conf["path"] = "/srv/" + id
	case "vgname":
		conf["vgname"] = id
		if st.Type == "lvmthin" {
			conf["thinpool"] = "data"
		}
	case "pool":
		conf["pool"] = id
	case "server":
		conf["server"], conf["export"], conf["path"] = "192.0.2.200", "/srv/"+id, "/mnt/pve/"+id
	}
	conf["content"] = kind.initial
	maps.Copy(conf, st.Config)
	if len(st.Content) > 0 {
		conf["content"] = strings.Join(st.Content, ",")
	}
	if len(st.Nodes) > 0 {
		conf["nodes"] = strings.Join(st.Nodes, ",")
	}
	if st.Shared && !kind.shared {
		conf["shared"] = "1"
	}
	check := maps.Clone(conf)
	check["storage"], check["type"] = id, st.Type
	if err := s.acceptable("POST /storage", check); err != nil {
		return fmt.Errorf("storage %q: %w", id, err)
	}
	old := s.state.Storages[id]
	next := &storage{ID: id, Type: st.Type, Config: conf, Size: st.Size}
	if old != nil {
		next.Volumes = old.Volumes
	}
	s.state.Storages[id] = next
	return nil
}

// SetStorageOnline makes a storage fail to activate on a node, or work again.
// An empty node means all of them.
func (s *Server) SetStorageOnline(id, node string, online bool) error {
	s.tb.Helper()
	return s.change("SetStorageOnline", func() error {
		st, err := s.theStorage(id)
		if err != nil {
			return err
		}
		if node != "" {
			if _, err := s.theNode(node); err != nil {
				return err
			}
		}
		ensure(&st.Down)
		st.Down[node] = !online
		return nil
	})
}

// A VM is a virtual machine as tests see it.
type VM struct {
	Node    string            `json:"node"`   // default the first one
	Config  map[string]string `json:"config"` // as in its config file, "name" and "tags" included
	Running bool              `json:"running"`
	NoOS    bool              `json:"noOS"` // nothing has booted on it: it ignores shutdown and unplug requests
	Pool    string            `json:"pool"`

	// These are filled by [Server.VM] and not read by [Server.AddVM].
	Pending   map[string]string `json:"-"` // what waits for the next start
	Delete    []string          `json:"-"` // the keys that go away with it
	Snapshots []string          `json:"-"`
}

// AddVM adds a virtual machine, or replaces one. Its drives name volumes that
// exist; a drive such as "virtio0": "local:8" gets a new volume of 8 GiB, a
// base volume when the config says that it is a template. A network card
// without a MAC address gets one.
func (s *Server) AddVM(vmid int, vm VM) error {
	s.tb.Helper()
	return s.change("AddVM", func() error {
		if err := s.addVM(vmid, vm); err != nil {
			return fmt.Errorf("VM %d: %w", vmid, err)
		}
		return nil
	})
}

func (s *Server) addVM(vmid int, vm VM) error {
	node := vm.Node
	if node == "" {
		node = sortedKeys(s.state.Nodes)[0]
	}
	if _, err := s.theNode(node); err != nil {
		return err
	}
	if vm.Pool != "" && s.state.Pools[vm.Pool] == nil {
		return unknown("pool", vm.Pool, sortedKeys(s.state.Pools))
	}
	if err := s.checkVM(vmid, vm.Config); err != nil {
		return err
	}
	g := &guest{VMID: vmid, Node: node, Config: map[string]string{}, NoOS: vm.NoOS}
	maps.Copy(g.Config, vm.Config)
	h := host{s: s, node: node}
	for _, key := range sortedKeys(g.Config) {
		if !isDriveKey(key) {
			continue
		}
		d := parseDrive(key, g.Config[key])
		id, size, ok := d.alloc()
		if !ok {
			if file := d.file(); file == "none" || file == "cdrom" || strings.HasPrefix(file, "/") {
				continue
			}
			if _, _, err := h.volume(d.file()); err != nil && !strings.HasSuffix(d.file(), ":cloudinit") {
				return fmt.Errorf("%s: %w (\"STORAGE:GiB\" makes a new volume)", key, refusal(err))
			}
			continue
		}
		st, err := s.theStorage(id)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		v, err := h.alloc(st, vmid, st.format(d.get("format")), "", size)
		if err != nil {
			return fmt.Errorf("%s: %w", key, refusal(err))
		}
		if g.template() {
			h.makeBase(st, v)
		}
		d.set("file", st.volid(v))
		d.set("size", formatSize(v.Size))
		d.del("format")
		g.Config[key] = d.String()
	}
	if err := s.inside(node).tidy(g.Config); err != nil {
		return refusal(err)
	}
	if vm.Running {
		s.state.Nodes[node].PID++
		g.Running, g.Started, g.PID = true, s.clock().Unix(), s.state.Nodes[node].PID
	}
	s.state.Guests[vmid] = g
	s.state.leavePool(vmid)
	s.state.addToPool(vm.Pool, vmid)
	return nil
}

// checkVM checks a config by the description of what makes a virtual machine.
func (s *Server) checkVM(vmid int, config map[string]string) error {
	if err := checkVMID(vmid); err != nil {
		return err
	}
	const op = "POST /nodes/{node}/qemu"
	schema := s.reg.byName[op].Parameters
	in := map[string]string{"node": "pve1", "vmid": itoa(vmid)}
	for key, text := range config {
		switch {
		case isUnusedKey(key), inFile(key):
			continue
		case lookup(schema, key) == nil || notInFile(key):
			var known []string
			for name := range schema.Properties {
				if !notInFile(name) {
					// The index of a family is the caller's.
					digits := key[len(strings.TrimRight(key, "0123456789")):]
					known = append(known, strings.Replace(name, "[n]", digits, 1))
				}
			}
			slices.Sort(known)
			return unknown("config key", key, known)
		}
		in[key] = text
	}
	return s.acceptable(op, in)
}

// inFile tells the keys that only stand in a config file.
func inFile(key string) bool {
	switch key {
	case "lock", "template", "meta", "parent", "snaptime", "vmstate", "runningmachine", "runningcpu", "vmgenid", "snapstate":
		return true
	}
	return false
}

// notInFile tells the parameters of a create that are no keys of a config.
func notInFile(name string) bool {
	switch name {
	case "node", "vmid", "pool", "storage", "archive", "force", "unique", "bwlimit", "start", "live-restore", "import-working-storage", "ha-managed":
		return true
	}
	return false
}

// VM returns a virtual machine, and whether there is one.
func (s *Server) VM(vmid int) (VM, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.vm(vmid)
}

func (s *Server) vm(vmid int) (VM, bool) {
	g := s.state.Guests[vmid]
	if g == nil {
		return VM{}, false
	}
	return VM{
		Node: g.Node, Config: maps.Clone(g.Config), Running: g.Running, NoOS: g.NoOS, Pool: s.state.poolOf(vmid),
		Pending: maps.Clone(g.Pending), Delete: sortedKeys(g.Delete), Snapshots: sortedKeys(g.Snapshots),
	}, true
}

// VMIDs lists the virtual machines.
func (s *Server) VMIDs() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sortedKeys(s.state.Guests)
}

// EditVM changes a virtual machine the way an administrator does who edits its
// config file by hand: the config is not checked and nothing else happens.
func (s *Server) EditVM(vmid int, edit func(vm *VM)) error {
	s.tb.Helper()
	return s.change("EditVM", func() error {
		g, err := s.theVM(vmid)
		if err != nil {
			return err
		}
		vm, _ := s.vm(vmid)
		edit(&vm)
		if _, err := s.theNode(vm.Node); err != nil {
			return fmt.Errorf("VM %d: %w", vmid, err)
		}
		if vm.Pool != "" && s.state.Pools[vm.Pool] == nil {
			return fmt.Errorf("VM %d: %w", vmid, unknown("pool", vm.Pool, sortedKeys(s.state.Pools)))
		}
		g.Node, g.Config, g.NoOS = vm.Node, vm.Config, vm.NoOS
		if vm.Running != g.Running {
			g.stop()
			if vm.Running {
				g.Running, g.Started = true, s.clock().Unix()
			}
		}
		s.state.leavePool(vmid)
		s.state.addToPool(vm.Pool, vmid)
		return nil
	})
}

// DropVM removes a virtual machine's config file and leaves its volumes alone,
// as a node does that was lost.
func (s *Server) DropVM(vmid int) error {
	s.tb.Helper()
	return s.change("DropVM", func() error {
		if _, err := s.theVM(vmid); err != nil {
			return err
		}
		delete(s.state.Guests, vmid)
		s.state.leavePool(vmid)
		return nil
	})
}

// A Volume is a volume as tests see it.
type Volume struct {
	ID      string // "local:100/vm-100-disk-0.qcow2"
	Storage string
	Node    string // empty on a shared storage
	Content string // images, iso, import, …
	Format  string
	VMID    int
	Size    int64  // what a guest sees
	Parent  string // the base volume of a linked clone
	Bytes   bool   // there are bytes to read; otherwise it is all zeroes
}

// Volumes lists all volumes, of one storage when it is named.
func (s *Server) Volumes(storageID string) []Volume {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Volume
	for _, id := range sortedKeys(s.state.Storages) {
		st := s.state.Storages[id]
		if storageID != "" && id != storageID {
			continue
		}
		for _, node := range sortedKeys(st.Volumes) {
			for _, name := range sortedKeys(st.Volumes[node]) {
				v := st.Volumes[node][name]
				out = append(out, Volume{
					ID: st.volid(v), Storage: id, Node: node, Content: v.Content, Format: v.Format, VMID: v.VMID,
					Size: v.Size, Parent: v.Parent, Bytes: v.Blob != "",
				})
			}
		}
	}
	return out
}

// Volume returns a volume by its identifier, and whether there is one.
func (s *Server) Volume(volid string) (Volume, bool) {
	all := s.Volumes("")
	i := slices.IndexFunc(all, func(v Volume) bool { return v.ID == volid })
	if i < 0 {
		return Volume{}, false
	}
	return all[i], true
}

// OpenVolume reads what was uploaded as a volume, or what the volume was made
// from.
func (s *Server) OpenVolume(volid string) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, node := range append([]string{""}, sortedKeys(s.state.Nodes)...) {
		id, name, _ := strings.Cut(volid, ":")
		st := s.state.Storages[id]
		if st == nil {
			break
		}
		n, err := st.parseName(name)
		if err != nil {
			return nil, err
		}
		v := st.Volumes[node][n.key]
		if v == nil {
			continue
		}
		if v.Blob == "" {
			return io.NopCloser(io.LimitReader(zeroes{}, v.Size)), nil
		}
		return os.Open(s.blobPath(v.Blob))
	}
	return nil, fmt.Errorf("pvetest: volume %q does not exist", volid)
}

// VolumeBytes is [Server.OpenVolume] for small volumes.
func (s *Server) VolumeBytes(volid string) ([]byte, error) {
	r, err := s.OpenVolume(volid)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// AddVolume puts a volume with the given bytes on a storage, as an upload to a
// node does. The node may be empty on a shared storage.
func (s *Server) AddVolume(node, volid string, data []byte) error {
	s.tb.Helper()
	return s.change("AddVolume", func() error {
		st, n, err := s.named(volid)
		if err != nil {
			return err
		}
		if node == "" {
			node = sortedKeys(s.state.Nodes)[0]
		}
		if _, err := s.theNode(node); err != nil {
			return err
		}
		info, err := probeImage(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return fmt.Errorf("volume %q: %w", volid, err)
		}
		blob, err := s.storeBlob(data)
		if err != nil {
			return err
		}
		v := &volume{
			Name: n.key, Content: n.content, Format: n.format, VMID: n.vmid, Parent: n.parent, Size: info.size,
			Used: int64(len(data)), Data: int64(len(data)), CTime: s.clock().Unix(), Blob: blob,
		}
		if n.content != "images" {
			v.File = int64(len(data))
		}
		st.put(node, v)
		return nil
	})
}

// named takes the identifier of a volume apart.
func (s *Server) named(volid string) (*storage, volumeName, error) {
	id, name, ok := strings.Cut(volid, ":")
	if !ok {
		return nil, volumeName{}, fmt.Errorf("%q is no volume: write it as \"storage:name\"", volid)
	}
	st, err := s.theStorage(id)
	if err != nil {
		return nil, volumeName{}, fmt.Errorf("volume %q: %w", volid, err)
	}
	n, err := st.parseName(name)
	if err != nil {
		return nil, volumeName{}, fmt.Errorf("volume %q: %w", volid, refusal(err))
	}
	return st, n, nil
}

// RemoveVolume takes a volume off its storage behind the cluster's back.
func (s *Server) RemoveVolume(volid string) error {
	s.tb.Helper()
	return s.change("RemoveVolume", func() error {
		st, n, err := s.named(volid)
		if err != nil {
			return err
		}
		found := false
		for _, volumes := range st.Volumes {
			if v := volumes[n.key]; v != nil {
				found = true
				delete(volumes, n.key)
				s.releaseBlob(v.Blob)
			}
		}
		if !found {
			return fmt.Errorf("no volume %q", volid)
		}
		return nil
	})
}

// zeroes reads as zero bytes.
type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
