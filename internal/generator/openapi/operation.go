package openapi

import (
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/proxkit/proxkit/apidoc"
)

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
	setFlag(ext, XActs, slices.Contains(b.overlay.Acts, opKey(op)))
	setFlag(ext, XUnstable, op.Unstable)
	setFlag(ext, XCredentials, op.ExposeCredentials)
	setText(ext, XProxyTo, op.ProxyTo)
	if p := b.permissions(op); p != nil {
		ext[XPermissions] = p
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
