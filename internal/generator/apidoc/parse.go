package apidoc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	facts "github.com/proxkit/proxkit/apidoc"
)

// maxProblems is how many problems an error spells out.
const maxProblems = 20

// maxDepth limits how deep paths and schemas may nest; the deepest that exists
// has about 15 levels.
const maxDepth = 100

// A Problem is something in an API description that Parse does not understand.
type Problem struct {
	// Where is the apidoc path: "/nodes/{node}/qemu POST parameters.net[n]".
	Where string
	What  string
}

// A ParseError lists everything that Parse did not understand.
type ParseError struct {
	Problems []Problem
	More     int // how many further ones are left out
}

func (e *ParseError) Error() string {
	var b strings.Builder
	if n := len(e.Problems) + e.More; n == 1 {
		b.WriteString("1 thing in the API description is not understood:")
	} else {
		fmt.Fprintf(&b, "%d things in the API description are not understood:", n)
	}
	for _, p := range e.Problems {
		fmt.Fprintf(&b, "\n  %s: %s", p.Where, p.What)
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "\n  and %d more", e.More)
	}
	return b.String()
}

type parser struct {
	dialect string
	ops     []*facts.Operation
	seen    map[string]bool
	err     ParseError
}

// Parse reads an API description in any form: the JavaScript file that a
// Proxmox host serves to its API viewer, the JSON array in it, or the canonical
// form of an [apidoc.Document]. It names the result product and version; where
// they are empty, a canonical document keeps its own.
//
// The document is normalised: numbers are numbers, 0 and 1 booleans, types
// inferred where they are missing, path parameters declared, indexed families
// folded to "name[n]", property strings described by schemas, and defaults that
// are no value of their type dropped. Descriptions stay; [Facts] drops them.
//
// Whatever Parse does not understand is an error: a [*ParseError] lists up to
// 20 such places.
func Parse(data []byte, product, version string) (*facts.Document, error) {
	v, err := findTree(data)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case []any:
		return parseTree(v, product, version)
	case map[string]any:
		if _, ok := v["operations"]; !ok {
			return nil, fmt.Errorf("a JSON object with %s, but no API description; %s", describeKeys(v), whatToDo)
		}
		return parseDocument(data, product, version)
	}
	return nil, fmt.Errorf("no API description; %s", whatToDo)
}

func parseDocument(data []byte, product, version string) (*facts.Document, error) {
	d, err := facts.Decode(bytes.NewReader(data[max(0, bytes.IndexByte(data, '{')):]))
	if err != nil {
		return nil, err
	}
	if product != "" {
		d.Product = product
	}
	if version != "" {
		d.Version = version
	}
	return d, nil
}

func parseTree(nodes []any, product, version string) (*facts.Document, error) {
	if len(nodes) == 0 {
		return nil, fmt.Errorf("the API tree is an empty array; %s", whatToDo)
	}
	if !isNode(nodes[0]) {
		return nil, fmt.Errorf("a JSON array, but no API tree: its first element is %s, want an object with \"path\" and \"info\" or \"children\"; %s", describe(nodes[0]), whatToDo)
	}
	p := &parser{dialect: detectDialect(nodes), seen: map[string]bool{}}
	for i, n := range nodes {
		p.node(fmt.Sprintf("element %d", i), n, 0)
	}
	if len(p.ops) == 0 && len(p.err.Problems) == 0 {
		return nil, fmt.Errorf("the API tree has %d paths but not one operation; %s", len(nodes), whatToDo)
	}
	if len(p.err.Problems) > 0 {
		return nil, &p.err
	}
	d := &facts.Document{Product: product, Version: version, Dialect: p.dialect, Operations: p.ops}
	d.Sort()
	normalise(d)
	return d, nil
}

func (p *parser) problem(where, format string, args ...any) {
	if len(p.err.Problems) >= maxProblems {
		p.err.More++
		return
	}
	p.err.Problems = append(p.err.Problems, Problem{where, fmt.Sprintf(format, args...)})
}

// node reads a node of the tree and those below it.
func (p *parser) node(where string, v any, depth int) {
	n, ok := v.(map[string]any)
	if !ok {
		p.problem(where, "is %s, want an object with a path", describe(v))
		return
	}
	path, ok := n["path"].(string)
	if !ok || !strings.HasPrefix(path, "/") {
		p.problem(where, "path is %s, want a string that begins with /", describe(n["path"]))
		return
	}
	if depth > maxDepth {
		p.problem(path, "more than %d levels of paths", maxDepth)
		return
	}
	if err := checkPath(path); err != nil {
		p.problem(path, "%v", err)
		return
	}
	for _, k := range sortedKeys(n) {
		switch v := n[k]; k {
		case "path", "text", "leaf", "expanded":
		case "info":
			info, ok := v.(map[string]any)
			if !ok && v != nil {
				p.problem(path, "info is %s, want an object with an operation for each method", describe(v))
			}
			for _, verb := range sortedKeys(info) {
				p.operation(path, verb, info[verb])
			}
		case "children":
			children, ok := v.([]any)
			if !ok && v != nil {
				p.problem(path, "children is %s, want an array", describe(v))
			}
			for i, c := range children {
				p.node(fmt.Sprintf("%s child %d", path, i), c, depth+1)
			}
		default:
			p.problem(path, "unknown key %q", k)
		}
	}
}

func (p *parser) operation(path, verb string, v any) {
	where := path + " " + verb
	info, ok := v.(map[string]any)
	if !ok {
		p.problem(where, "is %s, want an object that describes the operation", describe(v))
		return
	}
	if !isVerb(verb) {
		p.problem(where, "%q is no HTTP method", verb)
		return
	}
	if p.seen[where] {
		p.problem(where, "appears twice")
		return
	}
	p.seen[where] = true
	op := &facts.Operation{Path: path, Method: verb}
	for _, k := range sortedKeys(info) {
		at := where + " " + k
		switch v := info[k]; k {
		case "method":
			p.method(where, op, v)
		case "name":
			op.Name = p.text(at, v)
		case "description":
			op.Description = p.text(at, v)
		case "protected":
			op.Protected = p.flag(at, v)
		case "proxyto":
			op.ProxyTo = p.text(at, v)
		case "allowtoken":
			op.NoToken = !p.flag(at, v)
		case "download_allowed", "download":
			op.DownloadAllowed = op.DownloadAllowed || p.flag(at, v)
		case "expose_credentials":
			op.ExposeCredentials = p.flag(at, v)
		case "unstable":
			op.Unstable = p.flag(at, v)
		case "permissions":
			op.Permissions = p.permissions(at, v)
		case "parameters":
			if v != nil {
				op.Parameters = p.schema(at, v, 0)
			}
		case "returns":
			if v != nil {
				op.Returns = p.schema(at, v, 0)
			}
		default:
			p.problem(where, "unknown key %q", k)
		}
	}
	if op.Parameters == nil {
		op.Parameters = &facts.Schema{}
	}
	if t := op.Parameters.Type; t != "" && t != "object" {
		p.problem(where+" parameters", "type is %q, want object", t)
	}
	op.Parameters.Type = "object"
	if op.Returns == nil {
		op.Returns = new(facts.Schema)
	}
	flattenVariants(op.Parameters)
	declarePathParameters(op)
	p.ops = append(p.ops, op)
}

// method reads the "method" of the operation listed under the verb op.Method:
// the same word, or for a body that is not JSON, PBS's UPLOAD or DOWNLOAD.
func (p *parser) method(where string, op *facts.Operation, v any) {
	switch m := p.text(where+" method", v); m {
	case op.Method, "":
	case "UPLOAD":
		op.Stream = "upload"
	case "DOWNLOAD":
		op.Stream = "download"
	default:
		p.problem(where, "method is %q, want %s, UPLOAD or DOWNLOAD", m, op.Method)
	}
}

func isVerb(s string) bool {
	switch s {
	case "GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS":
		return true
	}
	return false
}

// pathParameters returns the names in braces in a path template.
func pathParameters(path string) []string {
	var out []string
	for seg := range strings.SplitSeq(path, "/") {
		if name, ok := strings.CutPrefix(seg, "{"); ok {
			out = append(out, strings.TrimSuffix(name, "}"))
		}
	}
	return out
}

func checkPath(path string) error {
	if path == "/" {
		return nil
	}
	seen := map[string]bool{}
	for seg := range strings.SplitSeq(path[1:], "/") {
		name, open := strings.CutPrefix(seg, "{")
		name, closed := strings.CutSuffix(name, "}")
		switch {
		case seg == "":
			return errors.New("the path has an empty segment")
		case open != closed || name == "" || strings.ContainsAny(name, "{}"):
			return fmt.Errorf("the path's segment %q is neither a word nor a name in braces", seg)
		case strings.ContainsAny(seg, "?#%") || strings.ContainsFunc(seg, isOddInName):
			return fmt.Errorf("the path's segment %q has characters that stand for something else in a URL, or blanks or quotes", seg)
		case open && seen[name]:
			return fmt.Errorf("the path has the parameter {%s} twice", name)
		}
		if open {
			seen[name] = true
		}
	}
	return nil
}

// detectDialect tells which family of servers wrote the tree, by constructs
// that only one of them uses. A tree without any is taken for Perl's.
func detectDialect(nodes []any) string {
	perl, rust := 0, 0
	vote := func(is bool, n *int) {
		if is {
			*n++
		}
	}
	var walk func(nodes []any, depth int)
	walk = func(nodes []any, depth int) {
		for _, n := range nodes {
			node, _ := n.(map[string]any)
			info, _ := node["info"].(map[string]any)
			for _, o := range info {
				op, _ := o.(map[string]any)
				for _, k := range []string{"allowtoken", "name", "protected", "proxyto"} {
					_, ok := op[k]
					vote(ok, &perl)
				}
				_, ok := op["unstable"]
				vote(ok, &rust)
				for _, k := range []string{"parameters", "returns"} {
					s, _ := op[k].(map[string]any)
					switch s["additionalProperties"].(type) {
					case json.Number:
						perl++
					case bool:
						rust++
					}
				}
				perm, _ := op["permissions"].(map[string]any)
				switch perm["check"].(type) {
				case []any:
					perl++
				case map[string]any:
					rust++
				}
				for _, k := range []string{"and", "or", "userParam"} {
					_, ok := perm[k]
					vote(ok, &rust)
				}
			}
			if children, ok := node["children"].([]any); ok && depth < maxDepth {
				walk(children, depth+1)
			}
		}
	}
	walk(nodes, 0)
	if rust > perl {
		return "rust"
	}
	return "perl"
}

func sortedKeys(m map[string]any) []string {
	return slices.Sorted(maps.Keys(m))
}

// describe names a JSON value for an error.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "missing or null"
	case bool:
		return fmt.Sprintf("the boolean %t", v)
	case json.Number:
		return "the number " + clip(v.String(), 40)
	case string:
		return fmt.Sprintf("the text %q", clip(v, 40))
	case []any:
		return fmt.Sprintf("an array of %d", len(v))
	case map[string]any:
		return "an object with " + describeKeys(v)
	}
	return fmt.Sprintf("%T", v)
}

func describeKeys(m map[string]any) string {
	keys := sortedKeys(m)
	if len(keys) == 0 {
		return "no keys"
	}
	n := min(len(keys), 5)
	for i, k := range keys[:n] {
		keys[i] = fmt.Sprintf("%q", clip(k, 30))
	}
	s := strings.Join(keys[:n], ", ")
	if len(keys) > n {
		s += ", …"
	}
	return "the keys " + s
}
