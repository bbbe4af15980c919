package pve

import (
	"fmt"
	"strings"

	"github.com/proxkit/proxkit/internal/rest"
	"github.com/proxkit/proxkit/pve/operations"
)

// Since tells since which version of Proxmox VE an operation exists or, with the name of
// one, a parameter of it, as "net0" or "net0.queues". The operation is named as for
// [Privileges]; the empty name stands for the operation itself.
//
// What is known are the API descriptions of 8.4, 9.1 and 9.2, so that 9.1 may mean 9.0.
// The zero version says that 8.4 has it already.
//
// Calls need no such check before: an error that is [ErrUnknownToServer] says the same.
func Since(op, param string) (ServerVersion, error) {
	o, err := operations.Find(op)
	if err != nil {
		return ServerVersion{}, fmt.Errorf("pve: %w", err)
	}
	text := ""
	if param != "" {
		name, _, _ := strings.Cut(param, ".")
		if _, ok := o.Param(name); !ok {
			return ServerVersion{}, fmt.Errorf("pve: %s has no parameter %s", o.Name, name)
		}
		text = rest.SinceIn(since, o.Method, o.Path, param)
		if text == "" {
			text = rest.SinceIn(since, o.Method, o.Path, name)
		}
	}
	if text == "" {
		text = o.Since
	}
	if text == "" {
		return ServerVersion{}, nil
	}
	return rest.ParseServerVersion(text)
}
