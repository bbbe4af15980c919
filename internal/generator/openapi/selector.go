package openapi

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/proxkit/proxkit/apidoc"
)

// A selector picks places in an API description: "GET /nodes/{node}/qemu
// returns[].tags". The first two words pick operations, the third a schema in
// them by the steps of [apidoc.Schema.Children], beginning with params or
// returns; without it the operation itself is meant. The method may be *, in a
// path * stands for one segment and ** for any number of them, and in the third
// word * stands for any text without a dot and ** for any text.
type selector struct {
	text       string
	method     string
	path       *regexp.Regexp
	exactPath  string // where path has no wildcard
	place      *regexp.Regexp
	exactPlace string
}

func parseSelector(text string) (*selector, error) {
	words := strings.Fields(text)
	if len(words) != 2 && len(words) != 3 || !strings.HasPrefix(words[1], "/") && words[1] != "**" {
		return nil, fmt.Errorf("selector %q: want a method, a path and perhaps a place, as in %q", text, "GET /nodes/{node}/qemu returns[].tags")
	}
	s := &selector{text: text, method: words[0], exactPath: words[1]}
	if strings.Contains(words[1], "*") {
		s.exactPath = ""
		s.path = glob(words[1], `[^/]*`)
	}
	if len(words) == 3 {
		if !strings.HasPrefix(words[2], "params") && !strings.HasPrefix(words[2], "returns") && !strings.HasPrefix(words[2], "*") {
			return nil, fmt.Errorf("selector %q: the place must begin with params or returns", text)
		}
		s.exactPlace = words[2]
		if strings.Contains(words[2], "*") {
			s.exactPlace = ""
			s.place = glob(words[2], `[^.]*`)
		}
	}
	return s, nil
}

func glob(pattern, one string) *regexp.Regexp {
	q := regexp.QuoteMeta(pattern)
	q = strings.ReplaceAll(q, `\*\*`, `.*`)
	q = strings.ReplaceAll(q, `\*`, one)
	return regexp.MustCompile(`^` + q + `$`)
}

func (s *selector) operation(op *apidoc.Operation) bool {
	if s.method != "*" && s.method != op.Method {
		return false
	}
	if s.path == nil {
		return s.exactPath == op.Path
	}
	return s.path.MatchString(op.Path)
}

func (s *selector) wholeOperation() bool { return s.place == nil && s.exactPlace == "" }

func (s *selector) at(place string) bool {
	if s.place == nil {
		return s.exactPlace == place
	}
	return s.place.MatchString(place)
}

// A place is a schema within an operation.
type place struct {
	op     *apidoc.Operation
	where  string // "returns[].tags"
	schema *apidoc.Schema
}

func (p place) String() string { return opKey(p.op) + " " + p.where }

// find yields the places that text selects in ops.
func find(ops []*apidoc.Operation, text string) ([]place, error) {
	sel, err := parseSelector(text)
	if err != nil {
		return nil, err
	}
	var out []place
	for _, op := range ops {
		if !sel.operation(op) {
			continue
		}
		if sel.wholeOperation() {
			out = append(out, place{op: op})
			continue
		}
		visit := func(where string, s *apidoc.Schema) {
			if sel.at(where) {
				out = append(out, place{op, where, s})
			}
		}
		op.Parameters.Walk("params", visit)
		op.Returns.Walk("returns", visit)
	}
	return out, nil
}

// correct applies the overlay's corrections to ops, which it changes. It
// returns what is wrong with them: entries that match nothing or change
// nothing.
func correct(ops []*apidoc.Operation, corrections []Correction) (problems []string, err error) {
	for i, c := range corrections {
		label := fmt.Sprintf("corrections[%d] (%s)", i, c.Reason)
		set := c.Set
		if set == nil {
			set = map[string]any{}
		}
		patch, err := json.Marshal(set)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", label, err)
		}
		var model *apidoc.Schema
		if c.Copy != "" {
			places, err := find(ops, c.Copy)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", label, err)
			}
			if len(places) != 1 || places[0].schema == nil {
				problems = append(problems, fmt.Sprintf("%s: copy: %s matches %d places, want 1", label, c.Copy, len(places)))
				continue
			}
			model = places[0].schema
		}
		for _, at := range c.At {
			places, err := find(ops, at)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", label, err)
			}
			if len(places) == 0 {
				problems = append(problems, fmt.Sprintf("%s: %s matches nothing", label, at))
			}
			changed := false
			for _, p := range places {
				if p.schema == nil {
					return nil, fmt.Errorf("%s: %s names no place", label, at)
				}
				before, err := json.Marshal(p.schema)
				if err != nil {
					return nil, err
				}
				if model != nil {
					optional := p.schema.Optional
					*p.schema = *model.Clone()
					p.schema.Optional = optional
				}
				if err := merge(p.schema, patch); err != nil {
					return nil, fmt.Errorf("%s: %s: %w", label, p, err)
				}
				after, err := json.Marshal(p.schema)
				if err != nil {
					return nil, err
				}
				changed = changed || string(before) != string(after)
			}
			if len(places) > 0 && !changed {
				problems = append(problems, fmt.Sprintf("%s: %s is no longer needed: the description says so itself", label, at))
			}
		}
	}
	return problems, nil
}

// merge applies a JSON merge patch to s.
func merge(s *apidoc.Schema, patch []byte) error {
	before, err := json.Marshal(s)
	if err != nil {
		return err
	}
	var doc, p any
	if err := json.Unmarshal(before, &doc); err != nil {
		return err
	}
	if err := json.Unmarshal(patch, &p); err != nil {
		return err
	}
	after, err := json.Marshal(mergePatch(doc, p))
	if err != nil {
		return err
	}
	dec := json.NewDecoder(strings.NewReader(string(after)))
	dec.DisallowUnknownFields()
	var out apidoc.Schema
	if err := dec.Decode(&out); err != nil {
		return err
	}
	*s = out
	return nil
}

// mergePatch is RFC 7386.
func mergePatch(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	t, ok := target.(map[string]any)
	if !ok {
		t = map[string]any{}
	}
	for k, v := range p {
		if v == nil {
			delete(t, k)
			continue
		}
		t[k] = mergePatch(t[k], v)
	}
	return t
}
