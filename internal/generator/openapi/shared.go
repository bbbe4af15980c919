package openapi

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/proxkit/proxkit/apidoc"
)

// A sharedType is one Go type for several places.
type sharedType struct {
	name   string
	schema *apidoc.Schema // all members of all places
	first  place
	shapes []*apidoc.Schema
}

// share reads the overlay's table of shared types: it merges the schemas of all
// places of a type and makes sure that they agree where they overlap. It tells
// what is wrong with entries; a type whose places do not agree is not shared.
func share(ops []*apidoc.Operation, table map[string]Selectors) (map[*apidoc.Schema]*sharedType, []string, error) {
	out := map[*apidoc.Schema]*sharedType{}
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(table)) {
		t := &sharedType{name: name}
		agree := true
		var shapes []place
		for _, at := range table[name] {
			places, err := find(ops, at)
			if err != nil {
				return nil, nil, fmt.Errorf("shared: %s: %w", name, err)
			}
			if len(places) == 0 {
				problems = append(problems, fmt.Sprintf("shared: %s: %s matches nothing", name, at))
			}
			for _, p := range places {
				shape := shapeOf(p.schema)
				if shape == nil && strings.Contains(at, "*") {
					continue // a wildcard may also meet plain values of the name
				}
				if shape == nil {
					problems = append(problems, fmt.Sprintf("shared: %s: %s has no members to share", name, p))
					continue
				}
				if other := out[shape]; other != nil {
					problems = append(problems, fmt.Sprintf("shared: %s is both %s and %s", p, other.name, name))
					continue
				}
				shapes = append(shapes, p)
				if t.schema == nil {
					t.schema, t.first = shape.Clone(), p
				} else if err := absorb(t.schema, shape, ""); err != nil {
					problems = append(problems, fmt.Sprintf("shared: %s: %s and %s do not agree: %v", name, t.first, p, err))
					agree = false
				}
			}
		}
		if len(shapes) == 1 {
			problems = append(problems, fmt.Sprintf("shared: %s has one place only, %s: nothing to share", name, t.first))
		}
		if agree {
			for _, p := range shapes {
				shape := shapeOf(p.schema)
				out[shape] = t
				t.shapes = append(t.shapes, shape)
			}
		}
	}
	return out, problems, nil
}

// inherit gives the copy of a schema what is known by the address of the
// original and of the schemas within it.
func inherit[V any](known map[*apidoc.Schema]V, original, copied *apidoc.Schema) {
	if original == nil || copied == nil {
		return
	}
	steps := map[string]V{}
	original.Walk("", func(step string, s *apidoc.Schema) {
		if v, ok := known[s]; ok {
			steps[step] = v
		}
	})
	if len(steps) == 0 {
		return
	}
	copied.Walk("", func(step string, s *apidoc.Schema) {
		if v, ok := steps[step]; ok {
			known[s] = v
		}
	})
}

// inherit does so for all that the builder knows by address.
func (b *builder) inherit(original, copied *apidoc.Schema) {
	inherit(b.shared, original, copied)
	inherit(b.fields, original, copied)
}

// shapeOf returns the schema whose members make a Go struct of s.
func shapeOf(s *apidoc.Schema) *apidoc.Schema {
	switch {
	case s == nil:
		return nil
	case s.FormatSchema != nil && len(s.FormatSchema.Properties) > 0:
		return s.FormatSchema
	case len(s.Properties) > 0:
		return s
	}
	return nil
}

// absorb adds to dst what src has beyond it. Where both say something about the
// Go type they must say the same; limits that differ are dropped, values of
// enums added.
func absorb(dst, src *apidoc.Schema, where string) error {
	if dst.Type != src.Type {
		return fmt.Errorf("%s: %s and %s", where, orUnknown(dst.Type), orUnknown(src.Type))
	}
	if isList(dst) != isList(src) {
		return fmt.Errorf("%s: one is a list, the other a text", where)
	}
	if (dst.FormatSchema == nil) != (src.FormatSchema == nil) {
		return fmt.Errorf("%s: one is a property string, the other is not", where)
	}
	if isBytes(dst) != isBytes(src) {
		return fmt.Errorf("%s: one is a count of bytes, the other a plain number", where)
	}
	for _, sub := range []struct{ dst, src *apidoc.Schema }{{dst.Items, src.Items}, {dst.FormatSchema, src.FormatSchema}, {dst.Additional, src.Additional}} {
		if sub.dst != nil && sub.src != nil {
			if err := absorb(sub.dst, sub.src, where); err != nil {
				return err
			}
		}
	}
	switch {
	case len(dst.Enum) == 0 || len(src.Enum) == 0:
		dst.Enum = nil
	default:
		for _, e := range src.Enum {
			if !slices.Contains(dst.Enum, e) {
				dst.Enum = append(dst.Enum, e)
			}
		}
	}
	if dst.Minimum != src.Minimum {
		dst.Minimum = ""
	}
	if dst.Maximum != src.Maximum {
		dst.Maximum = ""
	}
	if string(dst.Default) != string(src.Default) {
		dst.Default = nil
	}
	if dst.MaxIndex == nil {
		dst.MaxIndex = src.MaxIndex
	}
	dst.NoAdditional = dst.NoAdditional && src.NoAdditional
	for _, name := range slices.Sorted(maps.Keys(dst.Properties)) {
		if src.Properties[name] == nil {
			dst.Properties[name].Optional = true
		}
	}
	if dst.Properties == nil && src.Properties != nil {
		dst.Properties = map[string]*apidoc.Schema{}
	}
	for _, name := range slices.Sorted(maps.Keys(src.Properties)) {
		s, d := src.Properties[name], dst.Properties[name]
		if d == nil {
			d = s.Clone()
			d.Optional = true
			dst.Properties[name] = d
			continue
		}
		if err := absorb(d, s, where+"."+name); err != nil {
			return err
		}
		d.Optional = d.Optional || s.Optional
	}
	return nil
}

func orUnknown(s string) string {
	if s == "" {
		return "no type"
	}
	return s
}
