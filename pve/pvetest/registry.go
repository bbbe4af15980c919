package pvetest

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/proxkit/proxkit/apidoc"
)

// A registry maps operations to handlers.
type registry struct {
	doc      *apidoc.Document
	handlers map[*apidoc.Operation]handler
	byName   map[string]*apidoc.Operation // "GET /nodes/{node}/qemu"
	root     *routeNode
	check    *validator
}

// registrations lists every group of handlers.
func registrations() []func(*registry) {
	return []func(*registry){
		registerRoot,
		registerAccess,
		registerPools,
		registerCluster,
		registerNodes,
		registerNetwork,
		registerHA,
		registerMisc,
		registerFirewall,
		registerSDN,
		registerTasks,
		registerGuests,   // guest_*.go
		registerStorages, // storage_*.go
	}
}

// facts reads the API's description once; nobody changes it after that.
var facts = sync.OnceValues(func() (*apidoc.Document, error) {
	doc, err := apidoc.Latest("pve")
	if err != nil {
		return nil, err
	}
	for _, op := range doc.Operations {
		if op.Method != "PUT" || op.Path != "/cluster/options" {
			continue
		}
		// The bounds of the VMID range are written in a form that PVE itself
		// does not enforce.
		if s := op.Parameters.Properties["next-id"]; s != nil && s.FormatSchema != nil {
			for _, bound := range s.FormatSchema.Properties {
				bound.Minimum, bound.Maximum = "", ""
			}
		}
	}
	return doc, nil
})

// newRegistry returns the handlers for doc's operations.
func newRegistry(doc *apidoc.Document) *registry {
	r := &registry{
		doc:      doc,
		handlers: map[*apidoc.Operation]handler{},
		byName:   map[string]*apidoc.Operation{},
		root:     &routeNode{},
		check:    &validator{patterns: map[string]*regexp.Regexp{}},
	}
	// The description has no entry for the root's own index.
	root := &apidoc.Operation{Path: "/", Method: "GET", Permissions: &apidoc.Permissions{User: "all"}}
	for _, op := range append([]*apidoc.Operation{root}, doc.Operations...) {
		r.byName[op.Method+" "+op.Path] = op
		r.root.add(op)
	}
	for _, register := range registrations() {
		register(r)
	}
	return r
}

// handle registers h for an operation named like "POST /nodes/{node}/qemu".
func (r *registry) handle(name string, h handler) {
	op := r.byName[name]
	if op == nil {
		panic("pvetest: no such operation: " + name)
	}
	if r.handlers[op] != nil {
		panic("pvetest: two handlers for " + name)
	}
	r.handlers[op] = h
}

// A routeNode is one part of the paths.
type routeNode struct {
	static   map[string]*routeNode
	variable *routeNode
	varName  string
	ops      map[string]*apidoc.Operation
}

// add enters an operation.
func (n *routeNode) add(op *apidoc.Operation) {
	for part := range strings.SplitSeq(strings.Trim(op.Path, "/"), "/") {
		switch {
		case part == "":
		case strings.HasPrefix(part, "{"):
			if n.variable == nil {
				n.variable = &routeNode{}
				n.varName = strings.Trim(part, "{}")
			}
			n = n.variable
		default:
			if n.static == nil {
				n.static = map[string]*routeNode{}
			}
			if n.static[part] == nil {
				n.static[part] = &routeNode{}
			}
			n = n.static[part]
		}
	}
	if n.ops == nil {
		n.ops = map[string]*apidoc.Operation{}
	}
	n.ops[op.Method] = op
}

// greedy tells the path parameters that swallow all remaining parts of a path,
// because volumes and networks have slashes in their names.
func greedy(name string) bool { return name == "volume" || name == "cidr" }

// find returns the operation for a method and the parts of a path, and the
// path's parameters.
func (r *registry) find(method string, parts []string) (*apidoc.Operation, map[string]string) {
	vars := map[string]string{}
	n := r.root
	for i, part := range parts {
		if next := n.static[part]; next != nil {
			n = next
			continue
		}
		if n.variable == nil {
			return nil, nil
		}
		name := n.varName
		n = n.variable
		if greedy(name) {
			vars[name] = strings.Join(parts[i:], "/")
			break
		}
		vars[name] = part
	}
	return n.ops[method], vars
}

// sortedKeys returns m's keys in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}

// notSimulated is the answer for an operation without a handler.
func notSimulated(op *apidoc.Operation) error {
	return fail(501, "%s", fmt.Sprintf("pvetest does not simulate %s %s", op.Method, op.Path))
}
