// Package operation holds what is known about the operations of a product's API: how
// they are called, since when they exist and what a caller needs to be allowed. The
// generated packages of tables, such as pve/operations, are made of its types.
package operation

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// An Operation is one operation of an API.
type Operation struct {
	Name   string // of the client's method, as "CloneVM"
	Method string // "POST"
	Path   string // "/nodes/{node}/qemu/{vmid}/clone"

	// Kind tells what the call gives: none, value, list, object, task, raw (JSON that
	// the API description does not explain), upload, download or websocket.
	Kind string

	// Since is the first of the known releases that has the operation, or empty when
	// the oldest of them has it.
	Since string

	// NoToken: the server refuses the call to API tokens.
	NoToken bool

	// Needs says who may call the operation, in the notation of [ParseRequirement].
	Needs string

	// Parameters lists the parameters, each as "name:type!@since": without the type for
	// a string, without the exclamation mark for an optional one, and without the
	// release for one that is as old as the operation. [Operation.Params] reads it.
	Parameters string
}

// A Param is a parameter of an operation.
type Param struct {
	Name     string // on the wire; "net[n]" stands for net0, net1, …
	Type     string // string, integer, number, boolean, array or object
	Required bool
	Since    string // the first known release that has it, or empty: see [Operation.Since]
}

// Params yields the operation's parameters: those of the path first, then the required
// ones, each in the order of their names.
func (o Operation) Params() iter.Seq[Param] {
	return func(yield func(Param) bool) {
		for text := range strings.FieldsSeq(o.Parameters) {
			var p Param
			text, p.Since, _ = strings.Cut(text, "@")
			text, p.Required = strings.CutSuffix(text, "!")
			p.Name, p.Type, _ = strings.Cut(text, ":")
			p.Type = cmp.Or(p.Type, "string")
			if !yield(p) {
				return
			}
		}
	}
}

// Param finds a parameter by its name on the wire. A member of a family may be named as
// such: "net0" is a "net[n]".
func (o Operation) Param(name string) (Param, bool) {
	family := strings.TrimRight(name, "0123456789") + "[n]"
	for p := range o.Params() {
		if p.Name == name || family != name+"[n]" && p.Name == family {
			return p, true
		}
	}
	return Param{}, false
}

// Requirement tells who may call the operation.
func (o Operation) Requirement() Requirement {
	r, err := ParseRequirement(o.Needs)
	if err != nil {
		return Requirement{Kind: Unstated}
	}
	return r
}

// String names the operation by method and path.
func (o Operation) String() string { return o.Method + " " + o.Path }

// A Table is all operations of a product, sorted by name.
type Table []Operation

// Find looks an operation up by the name of the client's method, as "CloneVM", or by
// method and path, as "POST /nodes/{node}/qemu/{vmid}/clone". In the path, values may
// stand in place of the names of parameters.
func (t Table) Find(op string) (Operation, error) {
	if i, ok := slices.BinarySearchFunc(t, op, func(o Operation, name string) int { return strings.Compare(o.Name, name) }); ok {
		return t[i], nil
	}
	method, path, ok := strings.Cut(op, " ")
	if !ok {
		return Operation{}, fmt.Errorf("%q is no operation: give the name of a method of the client, or method and path as in %q", op, "GET /version")
	}
	best, found := -1, Operation{}
	for _, o := range t {
		if o.Method != method {
			continue
		}
		if literal := literals(o.Path, path); literal > best {
			best, found = literal, o
		}
	}
	if best < 0 {
		return Operation{}, fmt.Errorf("there is no operation %s", op)
	}
	return found, nil
}

// literals tells how many segments of template stand in path too, or -1 when path is not
// of that template.
func literals(template, path string) int {
	want, have := strings.Split(template, "/"), strings.Split(path, "/")
	if len(want) != len(have) {
		return -1
	}
	n := 0
	for i, segment := range want {
		switch {
		case segment == have[i]:
			n++
		case !strings.HasPrefix(segment, "{") || have[i] == "":
			return -1
		}
	}
	return n
}
