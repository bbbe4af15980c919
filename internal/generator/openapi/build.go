// Package openapi turns the facts about a product's API into an OpenAPI 3.0
// document: it names operations and types, applies the product's overlay, and
// keeps what OpenAPI has no word for in x-proxmox-* extensions.
package openapi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/proxkit/proxkit/apidoc"
)

// Options say how to build a document.
type Options struct {
	// Overlay may be nil. When Strict, each of its entries must have an effect,
	// names must not clash, and raw JSON needs an exception: so it is for the
	// product the overlay is written for.
	Overlay *Overlay
	Strict  bool

	// Since may be nil.
	Since Since
}

// A Since tells the first version that has something, or "" where that is the
// oldest known or the version of what contains it. Steps are those of
// [apidoc.Schema.Children].
type Since interface {
	Operation(method, path string) string
	Parameter(method, path, step string) string
	Result(method, path, step string) string
}

// A Result is a document and what is to be said about it.
type Result struct {
	Doc *openapi3.T

	// Notes are decisions that a user may want to know of.
	Notes []string

	// Raw lists the places whose values stay raw JSON.
	Raw []string

	// Methods maps "GET /path" to the method name.
	Methods map[string]string
}

type builder struct {
	doc     *apidoc.Document
	opts    Options
	overlay *Overlay
	caser   *Caser
	strict  bool
	ops     []*apidoc.Operation
	names   map[string]name
	shared  map[*apidoc.Schema]*sharedType
	types   map[string]*component
	fields  map[*apidoc.Schema]string
	typed   map[string]string // place → type name
	dropped map[string]bool   // places left out
	raws    []*rawException
	cur     *apidoc.Operation

	result   Result
	problems []string
	out      *openapi3.T
}

// A rawException lets places be raw JSON.
type rawException struct {
	sel  *selector
	used bool
}

type component struct {
	where string
	from  *apidoc.Schema
	ref   *openapi3.SchemaRef
}

func (b *builder) problem(format string, args ...any) {
	b.problems = append(b.problems, fmt.Sprintf(format, args...))
}

// Build makes the OpenAPI document of doc, which it does not change.
func Build(doc *apidoc.Document, opts Options) (*Result, error) {
	ov := opts.Overlay
	if ov == nil {
		ov = new(Overlay)
	}
	caser, err := NewCaser(ov.Words)
	if err != nil {
		return nil, err
	}
	b := &builder{
		doc: doc, opts: opts, overlay: ov, caser: caser, strict: opts.Strict,
		types: map[string]*component{}, fields: map[*apidoc.Schema]string{}, typed: map[string]string{},
		dropped: map[string]bool{},
	}
	b.result.Methods = map[string]string{}
	for _, op := range doc.Operations {
		b.ops = append(b.ops, cloneOperation(op))
	}
	if err := b.applyOverlay(); err != nil {
		return nil, err
	}
	namer := newNamer(caser, ov, b.ops)
	for _, op := range b.ops {
		fillIndex(op)
	}
	if b.doc.Dialect == "rust" {
		for _, op := range b.ops {
			if isSubdirs(op) && namer.isIndex(op) {
				op.Returns = &apidoc.Schema{Type: "array", Items: &apidoc.Schema{Type: "object", NoAdditional: true, Properties: map[string]*apidoc.Schema{"subdir": {Type: "string"}}}}
				op.Returns.Links = []string{"{subdir}"}
			}
		}
	}
	names, notes, err := namer.names(b.ops, opts.Strict)
	if err != nil {
		return nil, err
	}
	b.names = names
	b.shareIndexes(namer)
	b.result.Notes = append(b.result.Notes, notes...)

	b.begin()
	for _, op := range b.ops {
		b.operation(op)
	}
	b.finish(namer)
	if len(b.problems) > 0 {
		slices.Sort(b.problems)
		return nil, problemError(slices.Compact(b.problems))
	}
	if b.result.Doc, err = reload(b.out); err != nil {
		return nil, err
	}
	return &b.result, nil
}

// shareIndexes gives all indexes whose elements only hold "subdir" one type.
func (b *builder) shareIndexes(n *namer) {
	var t *sharedType
	for _, op := range b.ops {
		items := op.Returns.Items
		if !n.isIndex(op) || items == nil || len(items.Properties) != 1 || b.shared[items] != nil {
			continue
		}
		if s := items.Properties["subdir"]; s == nil || s.Type != "string" {
			continue
		}
		if t == nil {
			t = &sharedType{name: "Subdirectory", schema: items, first: place{op, "returns[]", items}}
			if b.shared == nil {
				b.shared = map[*apidoc.Schema]*sharedType{}
			}
		}
		b.shared[items] = t
	}
}

// reload writes doc and reads it again, so that references are resolved and
// what is handed out is what a file would hold.
func reload(doc *openapi3.T) (*openapi3.T, error) {
	data, err := Marshal(doc)
	if err != nil {
		return nil, err
	}
	return Load(data)
}

// Load reads an OpenAPI document and validates it.
func Load(data []byte) (*openapi3.T, error) {
	loader := openapi3.NewLoader()
	doc, err := loader.LoadFromData(data)
	if err != nil {
		return nil, fmt.Errorf("the OpenAPI document does not load: %w", err)
	}
	if err := doc.Validate(context.Background(), openapi3.DisableExamplesValidation()); err != nil {
		return nil, fmt.Errorf("the OpenAPI document is not valid: %w", err)
	}
	return doc, nil
}

// Marshal writes doc as JSON with sorted keys, one line a member.
func Marshal(doc *openapi3.T) ([]byte, error) {
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	var v any
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	var sb strings.Builder
	enc := json.NewEncoder(&sb)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	// JSON leaves these characters alone, tools that read JSON as YAML do not.
	var out strings.Builder
	for _, r := range sb.String() {
		if r >= 0x7f && r <= 0x9f || r == 0xfeff || r == 0xfffe || r == 0xffff {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return []byte(out.String()), nil
}

func cloneOperation(op *apidoc.Operation) *apidoc.Operation {
	c := *op
	c.Parameters = op.Parameters.Clone()
	if c.Parameters == nil {
		c.Parameters = &apidoc.Schema{Type: "object"}
	}
	c.Returns = op.Returns.Clone()
	if c.Returns == nil {
		c.Returns = &apidoc.Schema{Type: "null"}
	}
	return &c
}

// applyOverlay corrects the operations and resolves what the overlay selects.
func (b *builder) applyOverlay() error {
	problems, err := correct(b.ops, b.overlay.Corrections)
	if err != nil {
		return err
	}
	b.maybe(problems)
	var notes []Correction
	for _, n := range b.overlay.Notes {
		notes = append(notes, Correction{At: n.At, Set: map[string]any{"description": n.Text}, Reason: n.Text})
	}
	if problems, err = correct(b.ops, notes); err != nil {
		return fmt.Errorf("notes: %w", err)
	}
	for i, p := range problems {
		problems[i] = "notes" + strings.TrimPrefix(p, "corrections")
	}
	b.maybe(problems)
	if b.shared, problems, err = share(b.ops, b.overlay.Shared); err != nil {
		return err
	}
	b.maybe(problems)
	for i, f := range b.overlay.Fields {
		for _, at := range f.At {
			places, err := find(b.ops, at)
			if err != nil {
				return fmt.Errorf("fields[%d]: %w", i, err)
			}
			if len(places) == 0 {
				b.maybe([]string{fmt.Sprintf("fields[%d]: %s matches nothing", i, at)})
			}
			for _, p := range places {
				if f.Drop {
					b.dropped[p.String()] = true
				} else {
					b.fields[p.schema] = f.Name
				}
			}
		}
	}
	var types []*sharedType
	seen := map[*sharedType]bool{}
	for _, t := range b.shared {
		if !seen[t] {
			seen[t] = true
			types = append(types, t)
		}
	}
	for _, t := range types {
		for _, shape := range t.shapes {
			own := b.shared[shape]
			b.inherit(shape, t.schema)
			b.shared[t.schema] = own
		}
	}
	for at, typeName := range b.overlay.Types {
		places, err := find(b.ops, at)
		if err != nil {
			return fmt.Errorf("types: %w", err)
		}
		if len(places) != 1 {
			b.maybe([]string{fmt.Sprintf("types: %s matches %d places, want 1", at, len(places))})
		}
		for _, p := range places {
			b.typed[p.String()] = typeName
		}
	}
	return b.applyExceptions()
}

func (b *builder) applyExceptions() error {
	skipped := map[string]string{}
	for i, e := range b.overlay.Exceptions {
		for _, at := range e.At {
			if !e.Skip {
				// Variants are merged later, so their places are not known yet.
				sel, err := parseSelector(at)
				if err != nil {
					return fmt.Errorf("exceptions[%d]: %w", i, err)
				}
				b.raws = append(b.raws, &rawException{sel: sel})
				continue
			}
			places, err := find(b.ops, at)
			if err != nil {
				return fmt.Errorf("exceptions[%d]: %w", i, err)
			}
			if len(places) == 0 {
				b.maybe([]string{fmt.Sprintf("exceptions[%d]: %s matches nothing", i, at)})
			}
			for _, p := range places {
				skipped[opKey(p.op)] = e.Reason
			}
		}
	}
	for _, op := range b.ops {
		if skipped[opKey(op)] == "" && strings.Contains(op.Path, "/_upgrade_") {
			if b.strict {
				b.problem("%s: part of a protocol beyond plain HTTP: list it under exceptions with skip", opKey(op))
			}
			skipped[opKey(op)] = "part of a protocol that an HTTP upgrade starts"
		}
	}
	if len(skipped) == 0 {
		return nil
	}
	b.ops = slices.DeleteFunc(b.ops, func(op *apidoc.Operation) bool { return skipped[opKey(op)] != "" })
	b.begin()
	b.out.Extensions[XSkipped] = skipped
	return nil
}

// maybe reports problems with overlay entries, which are none when the overlay
// is that of a relative.
func (b *builder) maybe(problems []string) {
	if b.strict {
		b.problems = append(b.problems, problems...)
	}
}

func (b *builder) begin() {
	if b.out != nil {
		return
	}
	title := b.overlay.Title
	if title == "" {
		title = b.doc.Product
	}
	version := b.doc.Version
	if version == "" {
		version = "unknown"
	}
	client := b.client()
	b.out = &openapi3.T{
		OpenAPI:    "3.0.3",
		Info:       &openapi3.Info{Title: title + " API", Version: version, Description: b.readme(title)},
		Paths:      openapi3.NewPaths(),
		Components: &openapi3.Components{Schemas: openapi3.Schemas{}},
		Servers: openapi3.Servers{{
			URL: fmt.Sprintf("https://{host}:%d%s", client.Port, client.BasePath),
			Variables: map[string]*openapi3.ServerVariable{
				"host": {Default: "localhost"},
			},
		}},
		Extensions: map[string]any{XProduct: map[string]any{
			"name": b.doc.Product, "title": title, "dialect": b.doc.Dialect, "tokenScheme": client.TokenScheme, "tokenSeparator": client.TokenSeparator,
			"cookie": client.Cookie, "port": client.Port, "basePath": client.BasePath,
		}},
	}
	b.out.Components.SecuritySchemes = openapi3.SecuritySchemes{
		"token":  {Value: &openapi3.SecurityScheme{Type: "apiKey", In: "header", Name: "Authorization", Description: client.TokenScheme + "=USER@REALM!TOKENID" + client.TokenSeparator + "SECRET"}},
		"ticket": {Value: &openapi3.SecurityScheme{Type: "apiKey", In: "cookie", Name: client.Cookie}},
	}
	b.out.Security = openapi3.SecurityRequirements{{"token": {}}, {"ticket": {}}}
}

// readme tells users of other tools what OpenAPI cannot.
func (b *builder) readme(title string) string {
	text := "Facts about the " + title + " API, as its servers publish them for their API viewer.\n\n" +
		"Every answer is an object whose member data is the result. "
	if b.doc.Dialect == "rust" {
		text += "Bodies are JSON. "
	} else {
		text += "Bodies are forms, in which booleans are 1 and 0 and an array is a repeated key; JSON is accepted too. "
	}
	return text + "A member or parameter called name[n] stands for name0, name1, and so on. " +
		"Extensions: " + XKind + " is what a call gives (task: the ID of a task, to be waited for); " + XPropertyString + " refers to the schema of a text of the form key=value,…; " +
		XList + " marks a text that is a list, by its separator; " + XRenderer + " is the unit; " + XPermissions + " is who may call."
}

// client completes the overlay's facts about the server from the dialect and
// the product's name.
func (b *builder) client() Client {
	c := b.overlay.Client
	family := strings.ToUpper(strings.TrimRight(b.doc.Product, "0123456789_"))
	sep, port := "=", 8006
	if b.doc.Dialect == "rust" {
		sep, port = ":", 8007
	}
	set := func(p *string, v string) {
		if *p == "" {
			*p = v
		}
	}
	set(&c.TokenScheme, family+"APIToken")
	set(&c.TokenSeparator, sep)
	set(&c.Cookie, family+"AuthCookie")
	set(&c.BasePath, "/api2/json")
	if c.Port == 0 {
		c.Port = port
	}
	return c
}

// finish reports overlay entries that had no effect.
func (b *builder) finish(n *namer) {
	if !b.strict {
		return
	}
	for _, w := range b.caser.Unused(b.overlay.Words) {
		b.problem("words: %s: no name has this word", w)
	}
	for noun := range b.overlay.Nouns {
		if !n.usedNoun[noun] {
			b.problem("nouns: %s: no operation is below this path", noun)
		}
	}
	known := map[string]bool{}
	for _, op := range b.ops {
		known[opKey(op)] = true
	}
	for what, table := range map[string]map[string]string{"names": b.overlay.Names, "streams": b.overlay.Streams, "summaries": b.overlay.Summaries} {
		for key := range table {
			if !known[key] {
				b.problem("%s: %s: there is no such operation", what, key)
			}
		}
	}
	for _, r := range b.overlay.Rights {
		for _, key := range r.At {
			if !known[key] {
				b.problem("rights: %s: there is no such operation", key)
			}
		}
	}
	for _, key := range b.overlay.Acts {
		if !known[key] {
			b.problem("acts: %s: there is no such operation", key)
		}
	}
	for _, e := range b.raws {
		if !e.used {
			b.problem("exceptions: %s is no raw value: drop the entry", e.sel.text)
		}
	}
}
