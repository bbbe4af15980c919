package apidoc

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	facts "github.com/proxkit/proxkit/apidoc"
)

// declarePathParameters makes every name in the path a required parameter: some
// are not declared and some are marked optional, yet the path needs them all.
func declarePathParameters(op *facts.Operation) {
	for _, name := range pathParameters(op.Path) {
		s := op.Parameters.Properties[name]
		if s == nil {
			s = &facts.Schema{Type: "string"}
			if op.Parameters.Properties == nil {
				op.Parameters.Properties = map[string]*facts.Schema{}
			}
			op.Parameters.Properties[name] = s
		}
		s.Optional = false
	}
}

// flattenVariants replaces the variants of an operation's parameters by one set
// of parameters: a request is flat in any case. A parameter of only some
// variants is optional and tells by InstanceTypes which; one that differs
// between variants has variants itself.
func flattenVariants(s *facts.Schema) {
	if s.OneOf == nil {
		return
	}
	variants, by := s.OneOf, s.TypeProperty
	flat := map[string]*facts.Schema{}
	if by != "" && s.TypeSchema != nil {
		flat[by] = s.TypeSchema
	}
	for _, v := range variants {
		for name := range v.Properties {
			if flat[name] == nil {
				flat[name] = joinVariants(variants, name, by)
			}
		}
		s.NoAdditional = s.NoAdditional || v.NoAdditional
	}
	for name, p := range s.Properties {
		flat[name] = p
	}
	s.Properties, s.OneOf, s.TypeProperty, s.TypeSchema = flat, nil, "", nil
}

// joinVariants makes one schema of what the variants say about a property.
func joinVariants(variants []*facts.Schema, name, by string) *facts.Schema {
	var members []*facts.Schema
	var types []string
	optional, same := false, true
	for _, v := range variants {
		p := v.Properties[name]
		if p == nil {
			optional = true
			continue
		}
		optional = optional || p.Optional
		p = p.Clone()
		p.Optional = false
		same = same && (len(members) == 0 || equal(members[0], p))
		p.InstanceTypes = v.InstanceTypes
		types = append(types, v.InstanceTypes...)
		members = append(members, p)
	}
	joined := members[0].Clone()
	joined.InstanceTypes = nil
	if !same {
		joined = &facts.Schema{OneOf: members, TypeProperty: by}
		joined.Type = inferType(joined)
	} else if len(members) < len(variants) {
		joined.InstanceTypes, joined.TypeProperty = types, by
	}
	joined.Optional = optional
	return joined
}

// equal reports whether two schemas are alike but for their descriptions.
func equal(a, b *facts.Schema) bool {
	a, b = bare(a), bare(b)
	a.InstanceTypes, b.InstanceTypes = nil, nil
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// normalise settles what needs the whole document.
func normalise(d *facts.Document) {
	grammars := namedGrammars(d)
	for s := range schemas(d) {
		if g := grammars[s.Format]; g != nil && s.Type == "string" && s.FormatSchema == nil {
			s.FormatSchema = g.Clone()
			s.Typetext = ""
		}
		foldFamilies(s)
		for name, sub := range s.Properties {
			if strings.HasSuffix(name, "[n]") {
				sub.Optional = true // a family may have no member at all
			}
		}
		if len(s.Properties) == 0 {
			s.Properties = nil
		}
	}
}

// schemas yields every schema of the document, outer ones first.
func schemas(d *facts.Document) func(yield func(*facts.Schema) bool) {
	return func(yield func(*facts.Schema) bool) {
		more := true
		visit := func(_ string, s *facts.Schema) { more = more && yield(s) }
		for _, op := range d.Operations {
			for _, s := range []*facts.Schema{op.Parameters, op.Returns} {
				if s.Walk("", visit); !more {
					return
				}
			}
		}
	}
}

// namedGrammars collects what typetexts told about formats that are otherwise
// only names, to describe the same formats where no typetext stands beside
// them. A format with two different grammars is left out.
func namedGrammars(d *facts.Document) map[string]*facts.Schema {
	grammars := map[string]*facts.Schema{}
	encoded := map[string][]byte{}
	for s := range schemas(d) {
		if s.Format == "" || s.FormatSchema == nil {
			continue
		}
		b, err := json.Marshal(s.FormatSchema)
		if err != nil {
			continue // plain structs always encode
		}
		if old, ok := encoded[s.Format]; !ok {
			encoded[s.Format], grammars[s.Format] = b, s.FormatSchema
		} else if !bytes.Equal(old, b) {
			grammars[s.Format] = nil
		}
	}
	return grammars
}

var familyMember = regexp.MustCompile(`^([a-z][a-z_-]*[a-z]|[a-z])(0|[1-9][0-9]{0,4})$`)

// foldFamilies replaces name0, name1, … nameK by name[n] with MaxIndex K, where
// all of them are there and described alike. Perl's files come folded, without
// the bound.
func foldFamilies(s *facts.Schema) {
	families := map[string]map[int]*facts.Schema{}
	for name, sub := range s.Properties {
		if m := familyMember.FindStringSubmatch(name); m != nil {
			i, err := strconv.Atoi(m[2])
			if err != nil {
				continue // the pattern admits five digits
			}
			if families[m[1]] == nil {
				families[m[1]] = map[int]*facts.Schema{}
			}
			families[m[1]][i] = sub
		}
	}
	for name, members := range families {
		last := len(members) - 1
		if last < 1 || s.Properties[name+"[n]"] != nil || !alike(members) {
			continue
		}
		folded := members[0]
		folded.MaxIndex = &last
		for i := range members {
			delete(s.Properties, name+strconv.Itoa(i))
		}
		s.Properties[name+"[n]"] = folded
	}
}

// alike reports whether members are numbered from 0 without a gap and equal but
// for their descriptions.
func alike(members map[int]*facts.Schema) bool {
	for i := range len(members) {
		if members[i] == nil || i > 0 && !equal(members[0], members[i]) {
			return false
		}
	}
	return true
}

// Facts returns a copy of d without the descriptions.
func Facts(d *facts.Document) *facts.Document {
	out := *d
	out.Operations = slices.Clone(d.Operations)
	for i, op := range d.Operations {
		c := *op
		c.Description = ""
		c.Parameters, c.Returns = bare(op.Parameters), bare(op.Returns)
		out.Operations[i] = &c
	}
	return &out
}

func bare(s *facts.Schema) *facts.Schema {
	c := s.Clone()
	c.Walk("", func(_ string, s *facts.Schema) { s.Description = "" })
	return c
}
