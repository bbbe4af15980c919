package apidoc

import (
	"iter"
	"maps"
	"slices"
	"strconv"
)

// Children yields the schemas directly within s, properties by name, each with
// the step that leads to it: ".name" for a property, "[]" for items, ".{}" for
// further keys, "|0" for a variant, "~" for the schema of a property string and
// "!" for the schema of the property that tells variants apart.
func (s *Schema) Children() iter.Seq2[*Schema, string] {
	return func(yield func(*Schema, string) bool) {
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			if !yield(s.Properties[name], "."+name) {
				return
			}
		}
		for i, v := range s.OneOf {
			if !yield(v, "|"+strconv.Itoa(i)) {
				return
			}
		}
		for _, c := range []struct {
			schema *Schema
			step   string
		}{{s.Items, "[]"}, {s.Additional, ".{}"}, {s.TypeSchema, "!"}, {s.FormatSchema, "~"}} {
			if c.schema != nil && !yield(c.schema, c.step) {
				return
			}
		}
	}
}

// Walk calls f for s and every schema within it, outer ones first. The path
// starts with where and goes on by the steps of [Schema.Children].
func (s *Schema) Walk(where string, f func(where string, s *Schema)) {
	if s == nil {
		return
	}
	f(where, s)
	for sub, step := range s.Children() {
		sub.Walk(where+step, f)
	}
}

// Clone returns a deep copy of s.
func (s *Schema) Clone() *Schema {
	if s == nil {
		return nil
	}
	c := *s
	if s.Properties != nil {
		c.Properties = make(map[string]*Schema, len(s.Properties))
		for name, sub := range s.Properties {
			c.Properties[name] = sub.Clone()
		}
	}
	if s.OneOf != nil {
		c.OneOf = make([]*Schema, len(s.OneOf))
		for i, v := range s.OneOf {
			c.OneOf[i] = v.Clone()
		}
	}
	c.Items = s.Items.Clone()
	c.Additional = s.Additional.Clone()
	c.TypeSchema = s.TypeSchema.Clone()
	c.FormatSchema = s.FormatSchema.Clone()
	c.InstanceTypes = slices.Clone(s.InstanceTypes)
	c.Enum = slices.Clone(s.Enum)
	c.Default = slices.Clone(s.Default)
	c.Links = slices.Clone(s.Links)
	return &c
}
