package pbs

import (
	"context"
	"fmt"

	"github.com/proxkit/proxkit/internal/operation"
	"github.com/proxkit/proxkit/pbs/operations"
)

type (
	// An Op is an operation that is to be called, for [Client.CheckPrivileges].
	Op = operation.Op

	// A Requirement is what a caller needs to be allowed an operation. Its String is such
	// as "Datastore.Modify on /datastore/store1".
	Requirement = operation.Requirement

	// A Grant is a privilege on a path, or being somebody.
	Grant = operation.Grant

	// A MissingPrivilege is a condition that the caller does not meet, with the ways to
	// meet it.
	MissingPrivilege = operation.Missing

	// An UnsurePrivilege is a condition of which it cannot be told whether the caller
	// meets it, with the reason.
	UnsurePrivilege = operation.Unsure

	// A PrivilegeError tells what a caller lacks for the operations it was asked about.
	PrivilegeError = operation.PrivilegeError
)

// Privileges tells what a caller needs to be allowed an operation, from the API
// description of Proxmox Backup Server. The operation is named by its method, as "StartGarbageCollection",
// or by method and path, as "POST /admin/datastore/{store}/gc". params is the structure
// that the method takes, whose values are filled in, or nil.
func Privileges(op string, params any) (Requirement, error) {
	_, need, err := operations.Plan(Op{Name: op, Params: params})
	if err != nil {
		return Requirement{}, fmt.Errorf("pbs: %w", err)
	}
	return need, nil
}

// CheckPrivileges asks the server whether the client may call the operations, without
// calling them:
//
//	unsure, err := client.CheckPrivileges(ctx,
//		pbs.Op{Name: "StartGarbageCollection", Params: pbs.StartGarbageCollectionParams{Store: "store1"}},
//		pbs.Op{Name: "GetVersion"},
//	)
//
// What is missing is told by a [*PrivilegeError]: each privilege with the path it is
// missing on, and the other ways to the same end where there are some. Inheritance,
// pools, groups and the limits of tokens are the server's answer; there is one request
// for each path. Conditions that the API description gives in words only, that depend on
// parameters not given, or that the server checks for single parameters, come back as
// unsure.
func (c *Client) CheckPrivileges(ctx context.Context, ops ...Op) (unsure []UnsurePrivilege, err error) {
	caller := &operations.Caller{User: c.rest.User(), Granted: func(ctx context.Context, path string) (map[string]bool, error) {
		tree, err := c.GetPermissions(ctx, GetPermissionsParams{Path: &path})
		return tree[path], err
	}}
	return operations.Check(ctx, caller, ops...)
}
