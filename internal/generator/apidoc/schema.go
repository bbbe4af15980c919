package apidoc

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	facts "github.com/proxkit/proxkit/apidoc"
)

// schema reads a schema. It never returns nil, so that one mistake is reported
// once.
func (p *parser) schema(where string, v any, depth int) *facts.Schema {
	s := new(facts.Schema)
	m, ok := v.(map[string]any)
	if !ok {
		p.problem(where, "is %s, want an object (a schema)", describe(v))
		return s
	}
	if depth > maxDepth {
		p.problem(where, "more than %d schemas within one another", maxDepth)
		return s
	}
	r := schemaReader{parser: p, where: where, depth: depth, raw: m, s: s}
	for _, k := range sortedKeys(m) {
		r.key(k, m[k])
	}
	r.finish()
	return s
}

// A schemaReader holds what reading one schema needs to remember until all of
// its keys are known.
type schemaReader struct {
	*parser
	where string
	depth int
	raw   map[string]any
	s     *facts.Schema

	title, verbose string
	deflt          any
	defaultKey     string // rust: the property that is the default key
	allOf          []*facts.Schema
}

func (r *schemaReader) at(key string) string { return r.where + " " + key }

func (r *schemaReader) key(k string, v any) {
	s := r.s
	switch k {
	case "type":
		s.Type = r.text(r.at(k), v)
		if _, ok := v.(string); ok && !isType(s.Type) {
			r.problem(r.where, "unknown type %q", s.Type)
		}
	case "optional":
		s.Optional = r.flag(r.at(k), v)
	case "description":
		s.Description = r.text(r.at(k), v)
	case "verbose_description":
		r.verbose = r.text(r.at(k), v)
	case "title":
		r.title = r.text(r.at(k), v)
	case "format_description", "print_width": // how to show the value
		r.scalar(r.at(k), v)
	case "properties":
		s.Properties = r.properties(v, r.where)
	case "items":
		s.Items = r.schema(r.where+"[]", v, r.depth+1)
	case "additionalProperties":
		if _, ok := v.(map[string]any); ok {
			s.Additional = r.schema(r.where+".{}", v, r.depth+1)
		} else {
			s.NoAdditional = !r.flag(r.at(k), v)
		}
	case "oneOf":
		s.OneOf = r.variants(v)
	case "allOf":
		r.allOf = r.schemas(k, "&", v)
	case "type-property", "typeProperty":
		s.TypeProperty = r.text(r.at(k), v)
	case "typeSchema", "type-property-schema":
		s.TypeSchema = r.schema(r.where+"!", v, r.depth+1)
	case "instance-types", "instance-type":
		s.InstanceTypes = r.texts(r.at(k), v)
	case "enum":
		s.Enum = r.enum(r.at(k), v)
	case "default":
		r.deflt = v
	case "minimum", "min":
		s.Minimum = r.number(r.at(k), v)
	case "maximum", "max":
		s.Maximum = r.number(r.at(k), v)
	case "minLength":
		s.MinLength = r.size(r.at(k), v)
	case "maxLength":
		s.MaxLength = r.size(r.at(k), v)
	case "pattern":
		s.Pattern = r.text(r.at(k), v)
	case "format":
		r.format(v)
	case "default_key":
		if name, ok := v.(string); ok && name != "0" && name != "1" {
			r.defaultKey = name
		} else {
			s.DefaultKey = r.flag(r.at(k), v)
		}
	case "alias":
		s.Alias = r.text(r.at(k), v)
	case "keyAlias":
		s.KeyAlias = r.text(r.at(k), v)
	case "typetext":
		s.Typetext = r.text(r.at(k), v)
	case "requires":
		s.Requires = r.text(r.at(k), v)
	case "renderer":
		s.Renderer = r.text(r.at(k), v)
	case "links":
		s.Links = r.links(v)
	default:
		r.problem(r.where, "unknown key %q", k)
	}
}

// finish settles what depends on several keys.
func (r *schemaReader) finish() {
	s := r.s
	s.Description = firstOf(s.Description, r.verbose, r.title)
	r.merge()
	r.mendShape()
	if s.Type == "" {
		s.Type = inferType(s)
	}
	if r.defaultKey != "" {
		if sub := s.Properties[r.defaultKey]; sub != nil {
			sub.DefaultKey = true
		} else {
			r.problem(r.where, "default_key names %q, which is no property", r.defaultKey)
		}
	}
	if r.dialect == "rust" && s.Type == "array" {
		// The servers write the least length of an array in place of the
		// greatest.
		s.MaxLength = nil
	}
	s.Default = literal(s, r.deflt)
	typetextToSchema(s)
}

// mendShape gives a schema whose type contradicts its parts the parts that the
// type asks for: an array with "properties" has elements that are such objects
// or, where the only property is a placeholder like "{id}", such a property; an
// object with "items" has the members that the items have; an object whose only
// property is a placeholder has any keys.
func (r *schemaReader) mendShape() {
	s := r.s
	switch {
	case s.Type == "array" && s.Items == nil && s.Properties != nil:
		if placeholder := onlyPlaceholder(s.Properties); placeholder != nil {
			s.Items = placeholder
		} else {
			s.Items = &facts.Schema{Type: "object", Properties: s.Properties}
		}
		s.Properties = nil
	case s.Type == "object" && s.Items != nil && s.Properties == nil:
		s.Properties, s.Items = s.Items.Properties, nil
	}
	if s.Type == "object" || s.Type == "" {
		if placeholder := onlyPlaceholder(s.Properties); placeholder != nil && s.Additional == nil {
			s.Properties, s.Additional, s.NoAdditional = nil, placeholder, false
		}
	}
}

func onlyPlaceholder(props map[string]*facts.Schema) *facts.Schema {
	if len(props) != 1 {
		return nil
	}
	for name, s := range props {
		if len(name) > 2 && name[0] == '{' && name[len(name)-1] == '}' {
			return s
		}
	}
	return nil
}

func inferType(s *facts.Schema) string {
	switch {
	case s.Properties != nil, s.NoAdditional, s.Additional != nil:
		return "object"
	case s.Items != nil:
		return "array"
	case s.OneOf != nil:
		t := s.OneOf[0].Type
		for _, v := range s.OneOf {
			if v.Type != t {
				return ""
			}
		}
		return t
	case s.Enum != nil, s.Format != "", s.FormatSchema != nil, s.Pattern != "":
		return "string"
	}
	return ""
}

func isType(s string) bool {
	switch s {
	case "string", "integer", "number", "boolean", "array", "object", "null", "any":
		return true
	}
	return false
}

func (r *schemaReader) properties(v any, where string) map[string]*facts.Schema {
	m, ok := v.(map[string]any)
	if !ok {
		if v != nil {
			r.problem(where+" properties", "is %s, want an object with a schema for each name", describe(v))
		}
		return nil
	}
	props := make(map[string]*facts.Schema, len(m))
	for _, name := range sortedKeys(m) {
		if name == "" || strings.ContainsFunc(name, isOddInName) {
			r.problem(where, "a property is called %q: a name may not be empty or have blanks, quotes, commas, backslashes or control characters", clip(name, 40))
			continue
		}
		props[name] = r.schema(where+"."+name, m[name], r.depth+1)
	}
	return props
}

// merge gives the schema what is in the schemas of its allOf.
func (r *schemaReader) merge() {
	s := r.s
	for i, part := range r.allOf {
		at := r.where + "&" + itoa(i)
		if part.Type != "object" {
			r.problem(at, "has type %q, want object: only objects can be put together", part.Type)
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(part.Properties)) {
			if s.Properties[name] != nil {
				r.problem(at+"."+name, "stands in two of the schemas that are put together")
				continue
			}
			if s.Properties == nil {
				s.Properties = map[string]*facts.Schema{}
			}
			s.Properties[name] = part.Properties[name]
		}
		if part.OneOf != nil {
			if s.OneOf != nil {
				r.problem(at, "is the second with variants that is put together")
				continue
			}
			s.OneOf, s.TypeProperty, s.TypeSchema = part.OneOf, part.TypeProperty, part.TypeSchema
		}
	}
	if len(r.allOf) > 0 {
		s.Type = "object"
		s.NoAdditional = !slices.ContainsFunc(r.allOf, func(p *facts.Schema) bool { return !p.NoAdditional && p.OneOf == nil })
	}
}

// isOddInName reports whether no name on the wire has r, so that what is made
// of names need not guard against it.
func isOddInName(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || r == unicode.ReplacementChar || strings.ContainsRune("\"'`\\,", r)
}

// variants reads oneOf. Older servers in Rust give the value of the type
// property that selects a variant as its title.
func (r *schemaReader) variants(v any) []*facts.Schema {
	out := r.schemas("oneOf", "|", v)
	if r.raw["typeProperty"] == nil {
		return out
	}
	list, _ := v.([]any)
	for i := range out {
		m, ok := list[i].(map[string]any)
		if title, isText := m["title"].(string); ok && isText && title != "" && out[i].InstanceTypes == nil {
			out[i].InstanceTypes = []string{title}
			if _, ok := m["description"]; !ok {
				out[i].Description = ""
			}
		}
	}
	return out
}

// schemas reads an array of schemas. It returns as many as there are elements.
func (r *schemaReader) schemas(key, step string, v any) []*facts.Schema {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		r.problem(r.at(key), "is %s, want an array of schemas", describe(v))
		return nil
	}
	out := make([]*facts.Schema, len(list))
	for i, e := range list {
		out[i] = r.schema(r.where+step+itoa(i), e, r.depth+1)
	}
	return out
}

// format reads a format: a name, or the description of a property string. That
// is a whole schema in Rust's files and a map from key to schema in Perl's,
// where a key may be called "type" or "properties".
func (r *schemaReader) format(v any) {
	m, ok := v.(map[string]any)
	if !ok {
		r.s.Format = r.text(r.at("format"), v)
		return
	}
	where := r.where + "~"
	whole := r.dialect == "rust"
	for _, e := range m {
		if _, ok := e.(map[string]any); !ok {
			whole = true // a schema has members that are no objects, a map has none
			break
		}
	}
	if whole {
		r.s.FormatSchema = r.schema(where, m, r.depth+1)
		return
	}
	props := r.properties(m, where)
	r.s.FormatSchema = &facts.Schema{Type: "object", Properties: props, NoAdditional: true}
	for _, name := range sortedKeys(m) {
		if s := props[name]; s != nil && s.KeyAlias != "" && props[s.KeyAlias] == nil {
			r.problem(where+"."+name, "keyAlias names %q, which is no key of the format", s.KeyAlias)
		}
	}
}

func (r *schemaReader) enum(where string, v any) []string {
	if v == nil {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		r.problem(where, "is %s, want an array", describe(v))
		return nil
	}
	var out []string
	for _, e := range list {
		switch e := e.(type) {
		case string, bool:
			out = append(out, r.scalar(where, e))
		default:
			if n, ok := plainNumber(e); ok {
				out = append(out, string(n))
			} else {
				r.problem(where, "has %s, want texts or numbers", describe(e))
			}
		}
	}
	return out
}

func (r *schemaReader) links(v any) []string {
	list, ok := v.([]any)
	if !ok {
		if v != nil {
			r.problem(r.at("links"), "is %s, want an array", describe(v))
		}
		return nil
	}
	var out []string
	for _, e := range list {
		m, ok := e.(map[string]any)
		if !ok {
			r.problem(r.at("links"), "has %s, want objects with rel and href", describe(e))
			continue
		}
		for _, k := range sortedKeys(m) {
			if k != "rel" && k != "href" {
				r.problem(r.at("links"), "unknown key %q", k)
			}
		}
		rel, href := r.text(r.at("links rel"), m["rel"]), r.text(r.at("links href"), m["href"])
		if rel != "child" {
			r.problem(r.at("links"), "unknown relation %q", rel)
			continue
		}
		out = append(out, href)
	}
	return out
}

func firstOf(texts ...string) string {
	i := slices.IndexFunc(texts, func(s string) bool { return strings.TrimSpace(s) != "" })
	if i < 0 {
		return ""
	}
	return texts[i]
}
