// Package openapi turns the facts about a product's API into an OpenAPI 3.0
// document: it names operations and types, applies the product's overlay, and
// keeps what OpenAPI has no word for in x-proxmox-* extensions.
package openapi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/proxkit/proxkit/apidoc"
)

// The extensions that the documents use.
const (
	XProduct        = "x-proxmox-product"         // name, dialect and facts for a client
	XKind           = "x-proxmox-kind"            // none, value, list, object, task, raw, upload, download or websocket
	XPermissions    = "x-proxmox-permissions"     // who may call it
	XProtected      = "x-proxmox-protected"       // runs in the privileged daemon
	XProxyTo        = "x-proxmox-proxyto"         // the parameter naming the node that answers
	XNoToken        = "x-proxmox-notoken"         // refuses API tokens
	XDownload       = "x-proxmox-download"        // the answer may be a file
	XUnstable       = "x-proxmox-unstable"        // may change without notice
	XCredentials    = "x-proxmox-credentials"     // hands the caller's ticket or token on
	XNoun           = "x-proxmox-noun"            // what the result is called
	XSince          = "x-proxmox-since"           // the first version that has it
	XIndexed        = "x-proxmox-indexed"         // "net[n]" stands for net0, net1, …
	XMaxIndex       = "x-proxmox-max-index"       // the greatest n
	XPropertyString = "x-proxmox-property-string" // the schema of the text "key=value,…"
	XList           = "x-proxmox-list"            // a text that is a list: "a,b,c"
	XFormat         = "x-proxmox-format"          // the server's name for the format
	XRenderer       = "x-proxmox-renderer"        // bytes, duration, timestamp, …
	XPattern        = "x-proxmox-pattern"         // a pattern in the server's own syntax
	XRequires       = "x-proxmox-requires"        // another parameter that must be given too
	XTask           = "x-proxmox-task"            // the ID of a task (UPID)
	XDefaultKey     = "x-proxmox-default-key"     // the key of a property string that may be left out
	XAliases        = "x-proxmox-aliases"         // other spellings of the key
	XKeyAlias       = "x-proxmox-key-alias"       // "virtio=<MAC>": the value is the key of another member
	XInstanceTypes  = "x-proxmox-instance-types"  // the kinds of entry that have it
	XOneOf          = "x-proxmox-one-of"          // the members of each variant
	XTypeProperty   = "x-proxmox-type-property"   // the member that tells the variants apart
	XTypetext       = "x-proxmox-typetext"        // the grammar of the text in the server's notation
	XOperation      = "x-proxmox-operation"       // the operation that a schema belongs to
	XSource         = "x-proxmox-source"          // the place in the API description
	XGoName         = "x-go-name"
	XSkipped        = "x-proxmox-skipped" // operations that are not in the document, with the reason
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

func (b *builder) operation(op *apidoc.Operation) {
	b.cur = op
	nm := b.names[opKey(op)]
	b.result.Methods[opKey(op)] = nm.Method
	o := &openapi3.Operation{
		OperationID: nm.Method,
		Extensions:  map[string]any{XNoun: nm.Noun},
		Tags:        []string{tag(op.Path)},
	}
	if s := b.overlay.Summaries[opKey(op)]; s != "" {
		o.Summary = s
	}
	o.Description = op.Description
	ext := o.Extensions
	setFlag(ext, XProtected, op.Protected)
	setFlag(ext, XNoToken, op.NoToken)
	setFlag(ext, XDownload, op.DownloadAllowed)
	setFlag(ext, XUnstable, op.Unstable)
	setFlag(ext, XCredentials, op.ExposeCredentials)
	setText(ext, XProxyTo, op.ProxyTo)
	if op.Permissions != nil {
		ext[XPermissions] = op.Permissions
	}
	if b.opts.Since != nil {
		setText(ext, XSince, b.opts.Since.Operation(op.Method, op.Path))
	}
	kind := b.kind(op)
	ext[XKind] = kind
	b.parameters(op, o, kind)
	b.returns(op, o, kind, nm)

	item := b.out.Paths.Value(op.Path)
	if item == nil {
		item = &openapi3.PathItem{}
		b.out.Paths.Set(op.Path, item)
	}
	item.SetOperation(op.Method, o)
}

func tag(path string) string {
	var static []string
	for _, seg := range strings.Split(strings.Trim(path, "/"), "/") {
		if !isParam(seg) && seg != "" {
			static = append(static, seg)
		}
	}
	if len(static) > 2 {
		static = static[:2]
	}
	if len(static) == 0 {
		return "root"
	}
	return strings.Join(static, "/")
}

func setFlag(ext map[string]any, key string, v bool) {
	if v {
		ext[key] = true
	}
}

func setText(ext map[string]any, key, v string) {
	if v != "" {
		ext[key] = v
	}
}

// parameters puts op's parameters into the path, the query or the body.
func (b *builder) parameters(op *apidoc.Operation, o *openapi3.Operation, kind string) {
	nm := b.names[opKey(op)]
	inPath := map[string]bool{}
	for _, seg := range strings.Split(op.Path, "/") {
		if isParam(seg) {
			inPath[seg[1:len(seg)-1]] = true
		}
	}
	// Variants are flattened: a caller fills in what its variant has.
	params := b.flatten(op.Parameters, opKey(op)+" params")
	body := &openapi3.Schema{Type: &openapi3.Types{"object"}, Properties: openapi3.Schemas{}, Extensions: map[string]any{}}
	goNames := b.goNames(params, opKey(op)+" params")
	for _, name := range slices.Sorted(maps.Keys(params.Properties)) {
		s := params.Properties[name]
		where := "params." + name
		if b.dropped[opKey(op)+" "+where] {
			continue
		}
		ref := b.schema(s, position{op: op, where: where, typeName: nm.Method + goNames[name], params: true, name: name, goName: goNames[name]})
		switch {
		case inPath[name]:
			o.Parameters = append(o.Parameters, &openapi3.ParameterRef{Value: &openapi3.Parameter{Name: name, In: "path", Required: true, Schema: ref}})
		case op.Method == "GET" || op.Method == "DELETE" || kind == "download" || kind == "websocket":
			p := &openapi3.Parameter{Name: name, In: "query", Required: !s.Optional, Schema: ref}
			o.Parameters = append(o.Parameters, &openapi3.ParameterRef{Value: p})
		case kind == "upload" && b.doc.Dialect == "rust":
			p := &openapi3.Parameter{Name: name, In: "query", Required: !s.Optional, Schema: ref}
			o.Parameters = append(o.Parameters, &openapi3.ParameterRef{Value: p})
		default:
			body.Properties[name] = ref
			if !s.Optional {
				body.Required = append(body.Required, name)
			}
		}
		delete(inPath, name)
	}
	for name := range inPath {
		b.problem("%s: the path has {%s}, which is no parameter", opKey(op), name)
	}
	for _, p := range o.Parameters {
		p.Value.Description, p.Value.Schema = b.describe(p.Value.Schema)
	}
	if !params.NoAdditional && len(params.Properties) > 0 {
		body.Extensions["x-proxmox-additional"] = true
	}
	if len(body.Properties) == 0 {
		return
	}
	media := "application/x-www-form-urlencoded"
	if b.doc.Dialect == "rust" {
		media = "application/json"
	}
	if kind == "upload" {
		media = "multipart/form-data"
	}
	o.RequestBody = &openapi3.RequestBodyRef{Value: &openapi3.RequestBody{
		Required: len(body.Required) > 0,
		Content:  openapi3.Content{media: &openapi3.MediaType{Schema: &openapi3.SchemaRef{Value: body}}},
	}}
}

// describe moves a user's description from a parameter's schema to the
// parameter.
func (b *builder) describe(ref *openapi3.SchemaRef) (string, *openapi3.SchemaRef) {
	if ref.Value == nil || ref.Ref != "" {
		return "", ref
	}
	d := ref.Value.Description
	ref.Value.Description = ""
	return d, ref
}

// returns describes the answer: the envelope around what the description calls
// the result.
func (b *builder) returns(op *apidoc.Operation, o *openapi3.Operation, kind string, nm name) {
	ok := "OK"
	response := &openapi3.Response{Description: &ok}
	switch kind {
	case "download":
		response.Content = openapi3.Content{"application/octet-stream": &openapi3.MediaType{Schema: &openapi3.SchemaRef{Value: &openapi3.Schema{Type: &openapi3.Types{"string"}, Format: "binary", Extensions: map[string]any{}}}}}
	case "websocket":
		response.Content = nil
	default:
		envelope := &openapi3.Schema{Type: &openapi3.Types{"object"}, Properties: openapi3.Schemas{}}
		if kind == "none" || kind == "upload" && op.Returns.Type == "null" {
			envelope.Properties["data"] = &openapi3.SchemaRef{Value: &openapi3.Schema{Nullable: true, Extensions: map[string]any{}}}
		} else {
			envelope.Properties["data"] = b.schema(op.Returns, position{op: op, where: "returns", typeName: nm.Noun, root: true})
		}
		response.Content = openapi3.Content{"application/json": &openapi3.MediaType{Schema: &openapi3.SchemaRef{Value: envelope}}}
	}
	o.Responses = openapi3.NewResponses(openapi3.WithStatus(200, &openapi3.ResponseRef{Value: response}))
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
	for _, e := range b.raws {
		if !e.used {
			b.problem("exceptions: %s is no raw value: drop the entry", e.sel.text)
		}
	}
}
