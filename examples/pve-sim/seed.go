package main

import (
	"encoding/json"
	"errors"
	"os"

	"github.com/proxkit/proxkit/pve/pvetest"
)

// A Seed is what a new cluster starts with.
type Seed struct {
	Nodes    map[string]pvetest.Node    `json:"nodes"`
	Storages map[string]pvetest.Storage `json:"storages"`
	Pools    []string                   `json:"pools"`
	Roles    map[string][]string        `json:"roles"`
	Users    map[string]string          `json:"users"`  // name → password
	Tokens   map[string]Token           `json:"tokens"` // "user@realm!id"
	ACL      []ACL                      `json:"acl"`
	Options  map[string]string          `json:"options"`
	VMs      map[int]pvetest.VM         `json:"vms"`
}

// A Token is an API token with a known secret.
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

// plant puts what the file says into the cluster.
func plant(srv *pvetest.Server, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	dec := json.NewDecoder(f)
	dec.DisallowUnknownFields()
	var s Seed
	if err := dec.Decode(&s); err != nil {
		return err
	}
	var errs []error
	for name, n := range s.Nodes {
		srv.AddNode(name, n)
	}
	for id, st := range s.Storages {
		errs = append(errs, srv.AddStorage(id, st))
	}
	for _, id := range s.Pools {
		srv.AddPool(id)
	}
	for id, privs := range s.Roles {
		srv.AddRole(id, privs...)
	}
	for id, password := range s.Users {
		srv.AddUser(id, password)
	}
	for id, t := range s.Tokens {
		srv.AddToken(id, t.Privsep)
		if t.Secret != "" {
			srv.SetTokenSecret(id, t.Secret)
		}
	}
	for _, a := range s.ACL {
		srv.SetACL(a.Path, a.Who, a.Role)
	}
	for k, v := range s.Options {
		srv.SetOption(k, v)
	}
	for id, vm := range s.VMs {
		errs = append(errs, srv.AddVM(id, vm))
	}
	return errors.Join(errs...)
}
