package openapi

import (
	"fmt"
	"maps"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/proxkit/proxkit/apidoc"
)

// flatten gives an object the members of all its variants; those that not every
// variant has are optional.
func (b *builder) flatten(s *apidoc.Schema, where string) *apidoc.Schema {
	if len(s.OneOf) == 0 {
		return s
	}
	out := *s
	out.OneOf = nil
	out.Properties = maps.Clone(s.Properties)
	if out.Properties == nil {
		out.Properties = map[string]*apidoc.Schema{}
	}
	var merged *apidoc.Schema
	for i, v := range s.OneOf {
		v = b.flatten(v, fmt.Sprintf("%s|%d", where, i))
		if v.Type != "object" && v.Type != "" {
			return s // not an object: see variants
		}
		if merged == nil {
			merged = v.Clone()
			b.inherit(v, merged)
			merged.Type = "object"
			continue
		}
		original := v
		v = v.Clone()
		v.Type = "object"
		err := absorb(merged, v, "")
		b.inherit(original, merged)
		if err != nil {
			b.problem("%s: variants do not agree: %v", where, err)
		}
	}
	for name, p := range merged.Properties {
		if out.Properties[name] == nil {
			out.Properties[name] = p
		}
	}
	if s.TypeProperty != "" && s.TypeSchema != nil && out.Properties[s.TypeProperty] == nil {
		out.Properties[s.TypeProperty] = s.TypeSchema.Clone()
	}
	out.NoAdditional = s.NoAdditional || merged.NoAdditional
	return &out
}

// variants converts a value that is one of several. Objects become one object
// with the members of all; lists and scalars must be alike, which they are but
// for the values they allow.
func (b *builder) variants(s *apidoc.Schema, p position) *openapi3.SchemaRef {
	first := s.OneOf[0]
	object := true
	for _, v := range s.OneOf {
		if v.Type != "object" && !(v.Type == "" && len(v.OneOf) > 0) {
			object = false
		}
	}
	if object {
		flat := b.flatten(s, p.String())
		flat.Type = "object"
		return b.object(flat, p)
	}
	merged := first.Clone()
	b.inherit(first, merged)
	for _, v := range s.OneOf[1:] {
		v = v.Clone()
		alignPropertyStrings(merged, v)
		alignPropertyStrings(merged.Items, v.Items)
		if err := absorb(merged, v, ""); err != nil {
			// Of different types: nothing in Go but the raw value holds them.
			b.raw(p)
			return &openapi3.SchemaRef{Value: &openapi3.Schema{Extensions: map[string]any{XOneOf: variantTypes(s)}}}
		}
	}
	merged.Optional = s.Optional
	if merged.Description == "" || s.Description != "" {
		merged.Description = s.Description
	}
	ref := b.bare(merged, p)
	if ref.Ref == "" {
		setText(ref.Value.Extensions, XTypeProperty, s.TypeProperty)
		ref.Value.Extensions[XOneOf] = variantTypes(s)
	}
	return ref
}

// alignPropertyStrings gives a text of a named format the keys of the property
// string that its fellow variant is: it is one as well, with keys of its own
// that the description does not tell.
func alignPropertyStrings(a, b *apidoc.Schema) {
	if a == nil || b == nil || a.Type != "string" || b.Type != "string" {
		return
	}
	for _, pair := range [][2]*apidoc.Schema{{a, b}, {b, a}} {
		if with, without := pair[0], pair[1]; with.FormatSchema != nil && without.FormatSchema == nil && without.Format != "" {
			without.FormatSchema = with.FormatSchema.Clone()
			for _, p := range without.FormatSchema.Properties {
				p.Optional = true
			}
		}
	}
}

func variantTypes(s *apidoc.Schema) []map[string]any {
	var out []map[string]any
	for _, v := range s.OneOf {
		m := map[string]any{"type": v.Type}
		if len(v.InstanceTypes) > 0 {
			m["instance-types"] = v.InstanceTypes
		}
		if len(v.Properties) > 0 {
			m["properties"] = slices.Sorted(maps.Keys(v.Properties))
		}
		out = append(out, m)
	}
	return out
}
