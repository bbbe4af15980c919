package openapi

import (
	"encoding/json"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/proxkit/proxkit/apidoc"
)

// A position is where a schema stands and what its type would be called.
type position struct {
	op       *apidoc.Operation
	where    string
	typeName string
	name     string // of the parameter or member
	goName   string
	params   bool
	root     bool // the result itself
	props    bool // within a property string
	shared   bool // within a type that several places share
}

func (p position) String() string { return opKey(p.op) + " " + p.where }

// schema converts s, making components of what needs a type of its own.
func (b *builder) schema(s *apidoc.Schema, p position) *openapi3.SchemaRef {
	ref := b.bare(s, p)
	ext := map[string]any{}
	if strings.HasSuffix(p.name, "[n]") {
		ext[XIndexed] = true
		if s.MaxIndex != nil {
			ext[XMaxIndex] = *s.MaxIndex
		}
	}
	setText(ext, XGoName, p.goName)
	setText(ext, XRequires, s.Requires)
	if len(s.InstanceTypes) > 0 {
		ext[XInstanceTypes] = s.InstanceTypes
	}
	if p.props {
		setFlag(ext, XDefaultKey, s.DefaultKey)
	}
	if b.opts.Since != nil && !p.shared && p.name != "" {
		if step, ok := strings.CutPrefix(p.where, "params"); ok {
			setText(ext, XSince, b.opts.Since.Parameter(p.op.Method, p.op.Path, step))
		} else if step, ok := strings.CutPrefix(p.where, "returns"); ok {
			setText(ext, XSince, b.opts.Since.Result(p.op.Method, p.op.Path, step))
		}
	}
	if ref.Ref != "" {
		if ref.Extensions == nil {
			ref.Extensions = map[string]any{}
		}
		maps.Copy(ref.Extensions, ext)
		return ref
	}
	if ref.Value.Extensions == nil {
		ref.Value.Extensions = map[string]any{}
	}
	maps.Copy(ref.Value.Extensions, ext)
	return ref
}

func (b *builder) bare(s *apidoc.Schema, p position) *openapi3.SchemaRef {
	o := &openapi3.Schema{Extensions: map[string]any{}, Description: s.Description}
	ref := &openapi3.SchemaRef{Value: o}
	setText(o.Extensions, XRenderer, s.Renderer)
	setText(o.Extensions, XFormat, s.Format)
	if b.isRaw(s) {
		b.raw(p)
		return ref
	}
	switch s.Type {
	case "boolean":
		o.Type = &openapi3.Types{"boolean"}
	case "integer":
		o.Type = &openapi3.Types{"integer"}
		o.Format = "int64"
		if isBytes(s) && !p.params {
			o.Format = "uint64"
		}
	case "number":
		o.Type = &openapi3.Types{"number"}
		o.Format = "double"
	case "string":
		o.Type = &openapi3.Types{"string"}
		b.text(s, o, p)
	case "array":
		if len(s.OneOf) > 0 {
			return b.variants(s, p)
		}
		o.Type = &openapi3.Types{"array"}
		q := p
		q.where += "[]"
		q.name, q.goName = "", ""
		q.typeName = itemName(p)
		q.root = false
		o.Items = b.schema(s.Items, q)
	case "object":
		return b.object(s, p)
	default:
		if len(s.OneOf) > 0 {
			return b.variants(s, p)
		}
		b.problem("%s: type %q is not understood", p, s.Type)
		return ref
	}
	if len(s.OneOf) > 0 && s.Type != "string" {
		return b.variants(s, p)
	}
	b.limits(s, o, p)
	return ref
}

// itemName names the elements of a list: what the list is named after, in the
// singular.
func itemName(p position) string {
	if p.root {
		return p.typeName // Noun is the element's name already where the result is a list
	}
	if one := singular(p.typeName); one != p.typeName {
		return one
	}
	return p.typeName + "Item"
}

// raw notes that the value at p stays raw JSON.
func (b *builder) raw(p position) {
	place := p.String()
	b.result.Raw = append(b.result.Raw, place)
	listed := false
	for _, e := range b.raws {
		if e.sel.operation(p.op) && e.sel.at(p.where) {
			e.used, listed = true, true
		}
	}
	if b.strict && !listed {
		b.problem("%s: nothing describes this value: correct its type in the overlay, or list it under exceptions", place)
	}
}

// text fills in what is special about a text: lists, property strings, task IDs.
func (b *builder) text(s *apidoc.Schema, o *openapi3.Schema, p position) {
	setText(o.Extensions, XTypetext, s.Typetext)
	switch {
	case p.root && b.isTask(p.op), p.name == "upid" && !p.props && s.FormatSchema == nil && !isList(s), s.Format == "upid":
		o.Extensions[XTask] = true
	case s.FormatSchema != nil && s.FormatSchema.Type == "object" && len(s.FormatSchema.Properties) > 0:
		name := b.define(s.FormatSchema, position{op: p.op, where: p.where + "~", typeName: p.typeName, props: true, params: p.params})
		o.Extensions[XPropertyString] = "#/components/schemas/" + name
		if len(s.FormatSchema.Properties) == 0 {
			b.problem("%s: a property string without keys", p)
		}
	case p.props && s.Format == "urlencoded":
		// A disk's serial or model is one text, escaped: no list of keys.
	case isList(s) && !p.root:
		o.Extensions[XList] = separator(s, p)
	}
}

// separator returns what to write between the items of a list. The server reads lists by
// commas, semicolons and white space alike, but stores some as they come, for programs
// that know white space alone: name servers and search domains that go into a guest, and
// what goes into a node's network configuration.
func separator(s *apidoc.Schema, p position) string {
	switch {
	case s.Format == "urlencoded":
		return "urlencoded"
	case p.props:
		return ";"
	}
	switch s.Format {
	case "address-list", "dns-name-list", "lxc-ip-with-ll-iface-list", "pve-iface-list", "pve-vlan-id-or-range-list":
		return " "
	}
	return ","
}

// limits copies what OpenAPI has words for.
func (b *builder) limits(s *apidoc.Schema, o *openapi3.Schema, p position) {
	for _, e := range s.Enum {
		switch s.Type {
		case "integer", "number":
			f, err := strconv.ParseFloat(e, 64)
			if err != nil {
				b.problem("%s: enum value %q is no number", p, e)
				continue
			}
			o.Enum = append(o.Enum, json.Number(e))
			_ = f
		default:
			o.Enum = append(o.Enum, e)
		}
	}
	minimum, hasMin := number(s.Minimum)
	maximum, hasMax := number(s.Maximum)
	if hasMin && (s.Type == "integer" || s.Type == "number") {
		o.Min = &minimum
	}
	if hasMax && (s.Type == "integer" || s.Type == "number") {
		o.Max = &maximum
	}
	if o.Min != nil && o.Max != nil && minimum > maximum {
		b.problem("%s: minimum %s is above maximum %s", p, s.Minimum, s.Maximum)
	}
	if s.Type == "string" && o.Extensions[XList] == nil && o.Extensions[XPropertyString] == nil {
		if s.MinLength != nil {
			o.MinLength = uint64(*s.MinLength)
		}
		if s.MaxLength != nil {
			m := uint64(*s.MaxLength)
			o.MaxLength = &m
		}
	}
	if s.Type == "array" {
		if s.MinLength != nil {
			o.MinItems = uint64(*s.MinLength)
		}
		if s.MaxLength != nil {
			m := uint64(*s.MaxLength)
			o.MaxItems = &m
		}
	}
	b.pattern(s, o)
	b.deflt(s, o)
}

func number(n json.Number) (float64, bool) {
	if n == "" {
		return 0, false
	}
	f, err := n.Float64()
	return f, err == nil && !math.IsInf(f, 0)
}

// pattern keeps a pattern that is a plain regular expression everywhere; others
// stay in the server's own syntax.
func (b *builder) pattern(s *apidoc.Schema, o *openapi3.Schema) {
	if s.Pattern == "" {
		return
	}
	pattern := s.Pattern
	if strings.HasPrefix(pattern, "/") && strings.HasSuffix(pattern, "/") && len(pattern) > 2 {
		pattern = pattern[1 : len(pattern)-1]
	} else if b.doc.Dialect != "rust" {
		pattern = "^(?:" + pattern + ")$" // Perl's servers anchor patterns
	}
	_, err := regexp.Compile(pattern)
	if err != nil || strings.ContainsAny(pattern, "\n") || strings.Contains(pattern, "(?^") || strings.Contains(pattern, "(?m)") || strings.Contains(pattern, "(?i)") || s.Type != "string" ||
		o.Extensions[XList] != nil || o.Extensions[XPropertyString] != nil {
		o.Extensions[XPattern] = s.Pattern
		return
	}
	o.Pattern = pattern
}

// deflt keeps a default that is a valid value of the schema.
func (b *builder) deflt(s *apidoc.Schema, o *openapi3.Schema) {
	if len(s.Default) == 0 {
		return
	}
	var v any
	if err := json.Unmarshal(s.Default, &v); err != nil {
		o.Extensions["x-proxmox-default"] = string(s.Default)
		return
	}
	check := &openapi3.SchemaRef{Value: o}
	if o.Type.Is("array") && o.Items != nil && (o.Items.Ref != "" || o.Items.Value.Type == nil || o.Items.Value.Type.Is("object")) {
		o.Extensions["x-proxmox-default"] = v
		return
	}
	if err := check.Value.VisitJSON(v); err != nil {
		o.Extensions["x-proxmox-default"] = v
		return
	}
	o.Default = v
}

// object makes a component of an object, or a map where its keys are data.
func (b *builder) object(s *apidoc.Schema, p position) *openapi3.SchemaRef {
	if t := b.shared[s]; t == nil && len(s.OneOf) > 0 {
		s2 := b.flatten(s, p.String())
		if len(s2.OneOf) > 0 {
			return b.variants(s, p)
		}
		s = s2
	}
	if len(s.Properties) == 0 && s.Additional != nil {
		q := p
		q.where += ".{}"
		q.root, q.name, q.goName = false, "", ""
		q.typeName = itemName(position{typeName: p.typeName})
		return &openapi3.SchemaRef{Value: &openapi3.Schema{
			Type: &openapi3.Types{"object"}, Description: s.Description, Extensions: map[string]any{},
			AdditionalProperties: openapi3.AdditionalProperties{Schema: b.schema(s.Additional, q)},
		}}
	}
	name := b.define(s, p)
	return &openapi3.SchemaRef{Ref: "#/components/schemas/" + name, Value: b.types[name].ref.Value}
}

// define makes the component for the members of s, under a name of its own or
// the one it shares, and returns the name.
func (b *builder) define(s *apidoc.Schema, p position) string {
	name := p.typeName
	shared := b.shared[s]
	if shared != nil {
		name = shared.name
		s = shared.schema
		p.where = shared.first.where
		p.op = shared.first.op
		p.shared = true
	} else if t := b.typed[strings.TrimSuffix(p.String(), "~")]; t != "" {
		name = t
	}
	if isReserved(name) {
		name += "Info"
	}
	if old := b.types[name]; old != nil {
		if shared != nil && old.from == s {
			return name
		}
		if !b.strict {
			// The method's name and the whole way to the place tell it apart.
			name = b.names[opKey(p.op)].Method + b.caser.Name(strings.NewReplacer("returns", "result", "params", "", "[n]", "").Replace(p.where))
			old = b.types[name]
		}
		if old != nil {
			b.problem("%s and %s would both be the type %s: name one of them in the overlay's types", old.where, p, name)
			return name
		}
	}
	o := &openapi3.Schema{
		Type: &openapi3.Types{"object"}, Properties: openapi3.Schemas{}, Description: s.Description,
		Extensions: map[string]any{XOperation: b.names[opKey(b.cur)].Method, XSource: p.String()},
	}
	b.types[name] = &component{where: p.String(), from: s, ref: &openapi3.SchemaRef{Value: o}}
	b.out.Components.Schemas[name] = b.types[name].ref
	if p.props {
		o.Extensions[XPropertyString] = true
		s = b.keyAliases(s, o, p)
	}
	goNames := b.goNames(s, p.String())
	for _, member := range slices.Sorted(maps.Keys(s.Properties)) {
		sub := s.Properties[member]
		where := p.where + "." + member
		if b.dropped[opKey(p.op)+" "+where] {
			continue
		}
		q := position{op: p.op, where: where, typeName: name + goNames[member], name: member, goName: goNames[member], params: p.params, props: p.props, shared: p.shared}
		ref := b.schema(sub, q)
		o.Properties[member] = ref
		if !sub.Optional {
			o.Required = append(o.Required, member)
		}
	}
	switch {
	case s.Additional != nil:
		q := position{op: p.op, where: p.where + ".{}", typeName: name + "Item", params: p.params}
		o.AdditionalProperties = openapi3.AdditionalProperties{Schema: b.schema(s.Additional, q)}
	case s.NoAdditional:
		no := false
		o.AdditionalProperties = openapi3.AdditionalProperties{Has: &no}
	}
	return name
}

// keyAliases takes the keys out of a property string's schema that are only
// other spellings: of a key (mac for macaddr), or of a value of one (virtio=<MAC>).
func (b *builder) keyAliases(s *apidoc.Schema, o *openapi3.Schema, p position) *apidoc.Schema {
	out := *s
	out.Properties = maps.Clone(s.Properties)
	aliases := map[string][]string{}
	type keyAlias struct {
		key, value string
		names      []string
	}
	byKey := map[string]*keyAlias{}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		sub := s.Properties[name]
		switch {
		case sub.KeyAlias != "":
			k := byKey[sub.KeyAlias]
			if k == nil {
				k = &keyAlias{key: sub.KeyAlias, value: sub.Alias}
				byKey[sub.KeyAlias] = k
			}
			if k.value != sub.Alias {
				b.problem("%s.%s: keyAlias %s stands for %s here and for %s elsewhere", p, name, sub.KeyAlias, sub.Alias, k.value)
			}
			k.names = append(k.names, name)
			delete(out.Properties, name)
		case sub.Alias != "":
			aliases[sub.Alias] = append(aliases[sub.Alias], name)
			delete(out.Properties, name)
		}
	}
	for target, names := range aliases {
		if out.Properties[target] == nil {
			b.problem("%s: %s is another spelling of %s, which is no key", p, strings.Join(names, " and "), target)
		}
	}
	if len(aliases) > 0 {
		o.Extensions[XAliases] = aliases
	}
	keys := map[string]any{}
	for _, k := range byKey {
		if out.Properties[k.key] == nil {
			b.problem("%s: %s tell the value of %s, which is no key", p, strings.Join(k.names, ", "), k.key)
		}
		keys[k.key] = map[string]any{"value": k.value, "keys": k.names}
	}
	if len(keys) > 0 {
		o.Extensions[XKeyAlias] = keys
	}
	return &out
}

// goNames gives each member its Go name, all of them distinct.
func (b *builder) goNames(s *apidoc.Schema, where string) map[string]string {
	out := map[string]string{}
	by := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if b.dropped[where+"."+name] {
			continue
		}
		g := b.caser.Name(strings.TrimSuffix(name, "[n]"))
		if f := b.fields[s.Properties[name]]; f != "" {
			g = f
		}
		if g == "Extra" || g == "String" {
			g += "Value" // taken by what every structure may have
		}
		out[name] = g
		by[g] = append(by[g], name)
	}
	for _, g := range slices.Sorted(maps.Keys(by)) {
		names := by[g]
		if len(names) < 2 {
			continue
		}
		// A family beside a single value of the same name: numa and numa[n].
		fixed := 0
		for _, name := range names {
			if strings.HasSuffix(name, "[n]") {
				out[name] = g + "ByIndex"
				fixed++
			}
		}
		if !b.strict && fixed < len(names)-1 {
			// A word list made for another release may bring them together.
			plain := map[string]bool{}
			for _, name := range names {
				out[name] = join(titles(name))
				plain[out[name]] = true
			}
			if len(plain) == len(names) {
				continue
			}
		}
		if b.strict && fixed > 0 || fixed < len(names)-1 {
			b.problem("%s: %s are all %s in Go: name one of them in the overlay's fields", where, strings.Join(names, " and "), g)
		}
	}
	return out
}

func titles(name string) []string {
	var out []string
	for _, w := range splitWords(name) {
		out = append(out, strings.ToUpper(w[:1])+w[1:])
	}
	return out
}

// isReserved reports whether generated packages may use name themselves.
func isReserved(name string) bool {
	for _, prefix := range []string{"New", "With", "Err", "Parse"} { // functions and variables
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" && rest[0] >= 'A' && rest[0] <= 'Z' {
			return true
		}
	}
	return reserved[name]
}

// reserved are the types that generated packages, or the files beside them,
// declare themselves.
var reserved = map[string]bool{
	"AnswerError": true, "ArgumentError": true, "Client": true, "Download": true, "Error": true, "FingerprintError": true, "Meta": true, "Misfit": true,
	"Option": true, "RetryPolicy": true, "ServerVersion": true, "TFAAnswer": true, "TFAChallenge": true, "TFAHandler": true, "TFARequiredError": true, "TaskError": true,
	"TaskLogLine": true, "TaskProgress": true, "TaskResult": true, "TaskWaitError": true, "Ticket": true, "TransportError": true, "UPID": true,
	"UPIDInfo": true, "Upload": true, "WaitOption": true, "All": true,
}
