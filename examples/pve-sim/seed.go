package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/proxkit/proxkit/pve/pvetest"
)

// A Seed is what a new cluster starts with.
type Seed struct {
	Nodes    map[string]pvetest.Node    `json:"nodes"`
	Storages map[string]pvetest.Storage `json:"storages"`
	Pools    []string                   `json:"pools"`
	Roles    map[string][]string        `json:"roles"`  // name → privileges
	Users    map[string]string          `json:"users"`  // "user@realm" → password
	Tokens   map[string]Token           `json:"tokens"` // "user@realm!id"
	ACL      []ACL                      `json:"acl"`
	Options  map[string]string          `json:"options"`
	VMs      map[int]pvetest.VM         `json:"vms"`
}

// A Token is an API token.
type Token struct {
	Secret  string `json:"secret"`
	Privsep bool   `json:"privsep"`
}

// An ACL gives a role on a path to a user, a token or an "@group".
type ACL struct {
	Path string `json:"path"`
	Who  string `json:"who"`
	Role string `json:"role"`
}

// seedHelp is what -h says of the file.
const seedHelp = `A seed file says what a new cluster has besides its nodes, for example

  {
    "nodes":    {"pve2": {"cpus": 32, "bridges": ["vmbr1"]}},
    "storages": {"thin": {"type": "lvmthin", "nodes": ["pve2"]}},
    "pools":    ["bosh"],
    "roles":    {"CPI": ["VM.Allocate", "VM.Audit"]},
    "users":    {"alice@pve": "password"},
    "tokens":   {"bosh@pve!cpi": {"secret": "s3cret", "privsep": false}},
    "acl":      [{"path": "/pool/bosh", "who": "bosh@pve", "role": "CPI"}],
    "options":  {"next-id": "lower=200"},
    "vms":      {"100": {"node": "pve2", "pool": "bosh", "running": true,
                         "config": {"name": "web", "virtio0": "local:8"}}}
  }

A drive "STORAGE:GiB" gets a new volume. A token makes its user; with "privsep"
it needs an entry in "acl" of its own beside that of its user.
`

// readSeed reads a seed file.
func readSeed(file string) (*Seed, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var s Seed
	if err := decodeStrictly(data, &s); err != nil {
		return nil, fmt.Errorf("%s:%w", file, err)
	}
	return &s, nil
}

// plant puts what a seed says into the cluster.
func (s *Seed) plant(srv *pvetest.Server) error {
	var errs []error
	add := func(err error) { errs = append(errs, err) }
	for _, name := range slices.Sorted(maps.Keys(s.Nodes)) {
		add(srv.AddNode(name, s.Nodes[name]))
	}
	for _, id := range slices.Sorted(maps.Keys(s.Storages)) {
		add(srv.AddStorage(id, s.Storages[id]))
	}
	for _, id := range s.Pools {
		add(srv.AddPool(id))
	}
	for _, id := range slices.Sorted(maps.Keys(s.Roles)) {
		add(srv.AddRole(id, s.Roles[id]...))
	}
	for _, id := range slices.Sorted(maps.Keys(s.Users)) {
		add(srv.AddUser(id, s.Users[id]))
	}
	for _, id := range slices.Sorted(maps.Keys(s.Tokens)) {
		add(srv.AddTokenSecret(id, s.Tokens[id].Secret, s.Tokens[id].Privsep))
	}
	for _, a := range s.ACL {
		add(srv.SetACL(a.Path, a.Who, a.Role))
	}
	for _, k := range slices.Sorted(maps.Keys(s.Options)) {
		add(srv.SetOption(k, s.Options[k]))
	}
	for _, id := range slices.Sorted(maps.Keys(s.VMs)) {
		add(srv.AddVM(id, s.VMs[id]))
	}
	return errors.Join(errs...)
}

// decodeStrictly is json.Unmarshal that refuses keys it does not know, and says
// where in the text it found what it does not like.
func decodeStrictly(data []byte, out any) error {
	if err := checkKeys(data, out); err != nil {
		return err
	}
	err := json.Unmarshal(data, out)
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return at(data, kind.Offset-1, fmt.Errorf("%s: a %s does not fit", kind.Field, kind.Value))
	}
	return err
}

// at says where in a text an error is.
func at(data []byte, offset int64, err error) error {
	before := data[:min(max(int(offset), 0), len(data))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n')
	return fmt.Errorf("%d:%d: %w", line, column, err)
}
