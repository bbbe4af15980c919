package openapi

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/proxkit/proxkit/apidoc"
)

// A namer gives every operation its method name.
//
// The rule: a verb from the HTTP method and the shape of the path, then the
// noun. GET is Get, List where the result is a list, Get…Index where it only
// names the next path segments; POST is Create, PUT Update, DELETE Delete; a
// last segment that begins with a verb of its own (start, clone, move_disk) is
// the verb instead. The noun is the longest matching entry of the overlay's
// nouns followed by the remaining segments in CamelCase.
type namer struct {
	caser    *Caser
	overlay  *Overlay
	verbs    map[string]bool
	children map[string][]string // path → next segments
	usedNoun map[string]bool
}

func newNamer(caser *Caser, ov *Overlay, ops []*apidoc.Operation) *namer {
	n := &namer{caser: caser, overlay: ov, verbs: map[string]bool{}, children: map[string][]string{}, usedNoun: map[string]bool{}}
	for _, v := range strings.Fields(`abort adopt apply assign attach cancel change check clean clear clone convert copy create
		detach disarm download eject enable disable export extract force format import init join relocate label load lock mark migrate mount
		move order probe prune pull push reboot reload refresh regenerate remove rename renew replace rescan reset resize restart
		restore resume revert revoke rewind rollback run scan scrub send set shutdown start stop suspend sync test transfer trigger
		unassign unlink unload unlock unmount upload verify wake wipe queue dump exec execute ping reconfigure
		flush purge release retry requeue deliver approve reject whitelist blacklist`) {
		n.verbs[v] = true
	}
	seen := map[string]bool{}
	for _, op := range ops {
		segs := strings.Split(strings.Trim(op.Path, "/"), "/")
		for i := range segs {
			parent := "/" + strings.Join(segs[:i], "/")
			if key := parent + "\x00" + segs[i]; !seen[key] && segs[i] != "" {
				seen[key] = true
				n.children[parent] = append(n.children[parent], segs[i])
			}
		}
	}
	return n
}

// isIndex reports whether op lists nothing but the segments that may follow.
func (n *namer) isIndex(op *apidoc.Operation) bool {
	if op.Method != "GET" || op.Returns == nil {
		return false
	}
	children := n.children[op.Path]
	if len(children) == 0 || slices.ContainsFunc(children, isParam) {
		return false
	}
	return len(op.Returns.Links) > 0 || isSubdirs(op)
}

// isSubdirs reports whether op is what servers written in Rust make of a router
// without a handler of its own: no result is documented and any parameter is
// let through. The answer lists the next segments as "subdir".
func isSubdirs(op *apidoc.Operation) bool {
	return op.Method == "GET" && op.Returns.Type == "null" && !op.Parameters.NoAdditional && op.Stream == ""
}

// fillIndex describes the elements of an index where the description leaves
// them open: the child link's href names the member that it is made of.
func fillIndex(op *apidoc.Operation) {
	r := op.Returns
	if r.Type != "array" || r.Items == nil || len(r.Items.Properties) > 0 || len(r.Links) != 1 {
		return
	}
	if r.Items.Type != "" && r.Items.Type != "object" {
		return
	}
	if href := r.Links[0]; isParam(href) && !strings.ContainsAny(href[1:len(href)-1], "{}/") {
		r.Items.Type = "object"
		r.Items.Properties = map[string]*apidoc.Schema{href[1 : len(href)-1]: {Type: "string"}}
	}
}

func isParam(seg string) bool { return strings.HasPrefix(seg, "{") && strings.HasSuffix(seg, "}") }

// A name is a method name in its parts, because types are named after the noun.
type name struct {
	Method string
	Noun   string // what a result type is called
}

// rule names op without looking at the overlay's names.
func (n *namer) rule(op *apidoc.Operation, index bool) name {
	segs := strings.Split(strings.Trim(op.Path, "/"), "/")
	last := segs[len(segs)-1]
	if op.Path == "/" {
		last = ""
	}
	words := splitWords(last)
	if (op.Method == "POST" || op.Method == "PUT") && len(segs) > 0 && !isParam(last) && len(words) > 0 && n.verbs[strings.ToLower(words[0])] && len(n.children[op.Path]) == 0 {
		parent := segs[:len(segs)-1]
		if len(parent) > 0 && parent[len(parent)-1] == "status" {
			parent = parent[:len(parent)-1]
		}
		rest := join2(n.caser, words[1:])
		noun := n.noun(parent, true, false)
		verb := n.caser.Word(words[0])
		return name{Method: verb + noun + rest, Noun: verb + noun + rest + "Result"}
	}
	switch {
	case op.Method == "GET" && index:
		noun := n.noun(segs, true, true)
		return name{Method: "Get" + noun + "Index", Noun: noun + "Index"}
	case op.Method == "GET" && op.Returns != nil && op.Returns.Type == "array":
		noun := n.noun(segs, true, true)
		return name{Method: "List" + plural(noun), Noun: noun + "ListItem"}
	case op.Method == "GET":
		noun := n.noun(segs, false, true)
		return name{Method: "Get" + noun, Noun: noun}
	case op.Method == "POST":
		noun := n.noun(segs, true, true)
		return name{Method: "Create" + noun, Noun: "Create" + noun + "Result"}
	case op.Method == "PUT":
		noun := n.noun(segs, false, true)
		return name{Method: "Update" + noun, Noun: "Update" + noun + "Result"}
	case op.Method == "DELETE":
		noun := n.noun(segs, true, true)
		return name{Method: "Delete" + noun, Noun: "Delete" + noun + "Result"}
	}
	noun := n.noun(segs, true, true)
	verb := n.caser.Name(strings.ToLower(op.Method))
	return name{Method: verb + noun, Noun: verb + noun + "Result"}
}

// named names a method that the overlay names, keeping the noun for types.
func (n *namer) named(method string, op *apidoc.Operation) name {
	list := op.Method == "GET" && op.Returns != nil && op.Returns.Type == "array"
	switch {
	case list && strings.HasPrefix(method, "List"):
		return name{Method: method, Noun: singular(strings.TrimPrefix(method, "List")) + "ListItem"}
	case list && strings.HasPrefix(method, "Get") && strings.HasSuffix(method, "Index"):
		return name{Method: method, Noun: strings.TrimPrefix(method, "Get")}
	case list:
		return name{Method: method, Noun: strings.TrimPrefix(method, "Get") + "Item"}
	case op.Method == "GET" && strings.HasPrefix(method, "Get"):
		return name{Method: method, Noun: strings.TrimPrefix(method, "Get")}
	}
	return name{Method: method, Noun: method + "Result"}
}

// noun names what segs lead to. A segment before a parameter is a collection
// and stands in the singular, as does the last one where one asks for it.
func (n *namer) noun(segs []string, one, useWhole bool) string {
	base, rest := n.alias(segs, useWhole)
	var b strings.Builder
	b.WriteString(base)
	for i, seg := range rest {
		if isParam(seg) || seg == "" {
			continue
		}
		name := n.caser.Name(seg)
		if i+1 < len(rest) && isParam(rest[i+1]) || i+1 == len(rest) && one {
			name = singular(name)
		}
		b.WriteString(name)
	}
	s := b.String()
	if s == "" {
		// A path of parameters alone.
		for _, seg := range segs {
			if seg != "" {
				s += n.caser.Name(seg)
			}
		}
	}
	if s == "" {
		return "API"
	}
	return join([]string{s})
}

// alias finds the longest entry of the overlay's nouns that segs begin with.
func (n *namer) alias(segs []string, _ bool) (noun string, rest []string) {
	generic := make([]string, len(segs))
	for i, s := range segs {
		if isParam(s) {
			s = "{}"
		}
		generic[i] = s
	}
	for i := len(segs); i > 0 && segs[0] != ""; i-- {
		key := "/" + strings.Join(generic[:i], "/")
		if noun, ok := n.overlay.Nouns[key]; ok {
			n.usedNoun[key] = true
			return noun, segs[i:]
		}
	}
	return "", segs
}

// long is the name of last resort, told from its whole path: unique unless two
// paths differ in nothing that Go's casing keeps.
func (n *namer) long(op *apidoc.Operation) name {
	var b strings.Builder
	for _, seg := range strings.Split(strings.Trim(op.Path, "/"), "/") {
		if isParam(seg) {
			b.WriteString("By")
		}
		b.WriteString(n.caser.Name(seg))
	}
	verb := map[string]string{"GET": "Get", "POST": "Post", "PUT": "Put", "DELETE": "Delete"}[op.Method]
	if op.Method == "GET" && op.Returns.Type == "array" {
		verb = "List"
	}
	if verb == "" {
		verb = n.caser.Name(strings.ToLower(op.Method))
	}
	s := verb + b.String()
	return name{Method: s, Noun: s + "Result"}
}

func join2(c *Caser, words []string) string {
	var parts []string
	for _, w := range words {
		parts = append(parts, c.Word(w))
	}
	if len(parts) == 0 {
		return ""
	}
	return join(parts)
}

func opKey(op *apidoc.Operation) string { return op.Method + " " + op.Path }

// names gives every operation its name: the overlay's where it has one, else
// the rule's. Two operations of one name are an error when strict; otherwise
// both get their long names, which notes tell.
func (n *namer) names(ops []*apidoc.Operation, strict bool) (map[string]name, []string, error) {
	var err error
	out := map[string]name{}
	by := map[string][]*apidoc.Operation{}
	var problems []string
	for _, op := range ops {
		key := opKey(op)
		auto := n.rule(op, n.isIndex(op))
		nm := auto
		if method, ok := n.overlay.Names[key]; ok {
			if method == auto.Method && strict {
				problems = append(problems, fmt.Sprintf("names: %s: the rule gives %s by itself: drop the entry", key, method))
			}
			nm = n.named(method, op)
		}
		out[key] = nm
		by[nm.Method] = append(by[nm.Method], op)
	}
	var notes []string
	if strict {
		for _, method := range slices.Sorted(maps.Keys(by)) {
			if len(by[method]) > 1 {
				problems = append(problems, fmt.Sprintf("%s would all be called %s: give all but one of them a name in the overlay's names", keysOf(by[method]), method))
			}
		}
	} else if notes, err = n.lengthen(ops, out); err != nil {
		return nil, nil, err
	}
	if len(problems) > 0 {
		return nil, nil, problemError(problems)
	}
	return out, notes, nil
}

// lengthen gives operations whose names clash their long names, all but the one
// with the shortest path, until no two are the same.
func (n *namer) lengthen(ops []*apidoc.Operation, out map[string]name) (notes []string, err error) {
	fixed := map[string]bool{}
	for key := range n.overlay.Names {
		fixed[key] = true // a name given on purpose stays
	}
	for {
		by := map[string][]*apidoc.Operation{}
		for _, op := range ops {
			method := out[opKey(op)].Method
			by[method] = append(by[method], op)
		}
		changed := false
		for _, method := range slices.Sorted(maps.Keys(by)) {
			clash := by[method]
			if len(clash) < 2 {
				continue
			}
			progress := false
			slices.SortStableFunc(clash, func(a, b *apidoc.Operation) int {
				return cmp.Or(compareBool(fixed[opKey(b)], fixed[opKey(a)]), cmp.Compare(len(a.Path), len(b.Path)), strings.Compare(a.Path, b.Path))
			})
			for i, op := range clash {
				if key := opKey(op); !fixed[key] && (i > 0 || fixed[opKey(clash[1])]) {
					fixed[key] = true
					progress = true
					out[key] = n.long(op)
					notes = append(notes, fmt.Sprintf("%s is called %s, because %s would stand for %s", key, out[key].Method, method, keysOf(clash)))
				}
			}
			if !progress {
				return nil, fmt.Errorf("%s: their names are the same in Go's spelling (%s), so they cannot both be methods: name one of them in an overlay (names)", keysOf(clash), method)
			}
			changed = true
		}
		if !changed {
			return notes, nil
		}
	}
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func keysOf(ops []*apidoc.Operation) string {
	var keys []string
	for _, op := range ops {
		keys = append(keys, opKey(op))
	}
	return strings.Join(keys, " and ")
}
