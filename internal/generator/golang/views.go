package golang

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/oapi-codegen/oapi-codegen/v2/pkg/codegen"

	"github.com/proxkit/proxkit/internal/generator/openapi"
)

// An operationView is what client.tmpl prints of an operation.
type operationView struct {
	Name, Method, Path string
	Verb               string // "http.MethodGet"
	Stream             string // upload, download, websocket or ""
	Comment            string
	Fields             []field
	Result             string // the Go type without pointer, "" for none
	Pointer            bool
	Acts               bool // changes something although it is a GET
}

// Call returns the transport's method for the operation.
func (v operationView) Call() string {
	if v.Acts {
		return "CallOnce"
	}
	return "Call"
}

func (v operationView) ParamsType() string { return v.Name + "Params" }

func (v operationView) ParamDecl() string {
	if len(v.Fields) == 0 {
		return ""
	}
	return ", p " + v.ParamsType()
}

func (v operationView) ParamArg() string {
	if len(v.Fields) == 0 {
		return "nil"
	}
	return "&p"
}

func (v operationView) ResultDecl() string {
	switch {
	case v.Result == "":
		return "error"
	case v.Pointer:
		return "(*" + v.Result + ", error)"
	}
	return "(" + v.Result + ", error)"
}

// A field is a line of a structure.
type field struct {
	goName, goType, tag string
	wireName            string
	above               []string // comment lines
	behind              string
}

// Lines returns the field's source.
func (f field) Lines() string {
	var b strings.Builder
	for _, l := range f.above {
		b.WriteString("\t// " + l + "\n")
	}
	fmt.Fprintf(&b, "\t%s %s `%s`", f.goName, f.goType, f.tag)
	if f.behind != "" {
		b.WriteString(" // " + f.behind)
	}
	return b.String()
}

// operation makes the view of an operation; templates call it.
func (g *generator) operation(op codegen.OperationDefinition) operationView {
	kind, _ := op.Spec.Extensions[openapi.XKind].(string)
	v := operationView{Name: op.Spec.OperationID, Method: op.Method, Path: op.Path, Verb: verb(op.Method)}
	v.Acts = op.Spec.Extensions[openapi.XActs] == true
	if kind == "upload" || kind == "download" || kind == "websocket" {
		v.Stream = kind
	}
	for _, p := range op.PathParams {
		v.Fields = append(v.Fields, g.field(p.ParamName, p.Schema, p.Spec.Schema, true, p.Spec.Description, fieldOptions{params: true}))
	}
	var rest []field
	var required []field
	for _, p := range op.QueryParams {
		f := g.field(p.ParamName, p.Schema, p.Spec.Schema, p.Required, p.Spec.Description, fieldOptions{params: true})
		if p.Required {
			required = append(required, f)
		} else {
			rest = append(rest, f)
		}
	}
	for _, body := range op.Bodies {
		spec := body.Schema.OAPISchema
		for _, p := range body.Schema.Properties {
			f := g.field(p.JsonFieldName, p.Schema, spec.Properties[p.JsonFieldName], p.Required, p.Description, fieldOptions{params: true})
			if p.Required {
				required = append(required, f)
			} else {
				rest = append(rest, f)
			}
		}
	}
	v.Fields = append(v.Fields, byName(required)...)
	v.Fields = append(v.Fields, byName(rest)...)
	if kind != "download" && kind != "websocket" && kind != "none" {
		v.Result, v.Pointer = g.result(op, kind)
	}
	if len(v.Fields) > 0 {
		g.declare(v.ParamsType(), v.Method+" "+v.Path)
	}
	if v.Stream == "" {
		g.results[v.Name] = v.Result
	}
	v.Comment = g.operationComment(op.Spec, v, kind)
	return v
}

func byName(fields []field) []field {
	slices.SortStableFunc(fields, func(a, b field) int { return strings.Compare(a.goName, b.goName) })
	return fields
}

func verb(method string) string {
	switch method {
	case "GET", "POST", "PUT", "DELETE":
		return "http.Method" + method[:1] + strings.ToLower(method[1:])
	}
	return fmt.Sprintf("%q", method)
}

// result returns the Go type of "data" in the answer.
func (g *generator) result(op codegen.OperationDefinition, kind string) (string, bool) {
	media := op.Spec.Responses.Status(200).Value.Content.Get("application/json")
	if media == nil {
		return "", false
	}
	ref := media.Schema.Value.Properties["data"]
	schema, err := codegen.GenerateGoSchema(ref, []string{op.OperationId, "Result"})
	if err != nil {
		g.fail("%s %s: %w", op.Method, op.Path, err)
		return "", false
	}
	t := schema.TypeDecl()
	if kind == "upload" && t == "json.RawMessage" {
		return "", false
	}
	return t, ref.Ref != "" || kind == "value" && extensions(ref)[openapi.XPropertyString] != nil
}

type fieldOptions struct {
	params bool
	props  bool
	of     map[string]any // extensions of the property string
}

// field makes the line for a parameter or a member.
func (g *generator) field(name string, schema codegen.Schema, ref *openapi3.SchemaRef, required bool, description string, opts fieldOptions) field {
	ext := extensions(ref)
	goType := schema.TypeDecl()
	goName, _ := ext[openapi.XGoName].(string)
	if goName == "" {
		g.fail("%s has no Go name", name)
	}
	container := strings.HasPrefix(goType, "[]") || strings.HasPrefix(goType, "map[") || goType == "json.RawMessage"
	f := field{wireName: name, goName: goName, goType: goType, tag: fmt.Sprintf(`json:"%s"`, name)}
	if !required {
		f.tag = fmt.Sprintf(`json:"%s,omitempty"`, name)
		if !container {
			f.goType = "*" + goType
		}
	}
	if px := g.px(name, ref, opts); px != "" {
		f.tag += fmt.Sprintf(` px:"%s"`, px)
	}
	comment := g.fieldComment(name, ref, required && container && opts.params)
	if text := oneParagraph(description); len(text) > 60 {
		f.above = wrap(text, 90)
	} else if text != "" {
		comment = strings.TrimSpace(sentence(text) + " " + comment)
	}
	if len(comment)+len(name)*2+len(f.goType)+20 > 140 {
		f.above = append(f.above, wrap(comment, 90)...)
	} else {
		f.behind = comment
	}
	return f
}

// sentence ends a text with a full stop.
func sentence(text string) string { return strings.TrimSuffix(text, ".") + "." }

// px returns the field's px tag.
func (g *generator) px(name string, ref *openapi3.SchemaRef, opts fieldOptions) string {
	ext := extensions(ref)
	var words []string
	if sep, ok := ext[openapi.XList].(string); ok {
		switch sep {
		case ",":
			words = append(words, "list")
		case "urlencoded":
			words = append(words, "sshkeys")
		default:
			words = append(words, "list="+sep)
		}
	}
	if !opts.props {
		return strings.Join(words, ",")
	}
	if ext[openapi.XDefaultKey] == true {
		words = append(words, "default")
	}
	if keys, ok := opts.of[openapi.XKeyAlias].(map[string]any); ok {
		if k, ok := keys[name].(map[string]any); ok {
			word := fmt.Sprintf("keyalias=%v", k["value"])
			if names := texts(k["keys"]); !sameSet(names, ref.Value.Enum) {
				word += ":" + strings.Join(names, "|")
			}
			words = append(words, word)
		}
	}
	if aliases, ok := opts.of[openapi.XAliases].(map[string]any); ok {
		if names := texts(aliases[name]); len(names) > 0 {
			words = append(words, "alias="+strings.Join(names, "|"))
		}
	}
	return strings.Join(words, ",")
}

func texts(v any) []string {
	list, _ := v.([]any)
	var out []string
	for _, e := range list {
		out = append(out, fmt.Sprint(e))
	}
	return out
}

func sameSet(names []string, enum []any) bool {
	if len(names) != len(enum) {
		return false
	}
	for _, e := range enum {
		if !slices.Contains(names, fmt.Sprint(e)) {
			return false
		}
	}
	return true
}

// A structureView is what typedef.tmpl prints of a type.
type structureView struct {
	Name, Method, Path  string
	Comment             string
	Fields              []field
	Extra, ExtraComment string
	PropertyString      bool
	Quotes              bool // values may be quoted
}

// structure makes the view of a type; templates call it.
func (g *generator) structure(t codegen.TypeDefinition) structureView {
	s := t.Schema.OAPISchema
	owner, _ := s.Extensions[openapi.XOperation].(string)
	key, ok := g.ops[owner]
	if !ok {
		g.fail("type %s belongs to no operation", t.TypeName)
	}
	if t.TypeName != t.JsonName {
		g.fail("type %s would be called %s", t.JsonName, t.TypeName)
	}
	v := structureView{Name: t.TypeName, Method: key.method, Path: key.path, PropertyString: s.Extensions[openapi.XPropertyString] == true}
	// The servers written in Rust read quoted values in such texts, but Proxmox VE's own,
	// which Proxmox Datacenter Manager hands through, know no quotes.
	product, _ := g.doc.Extensions[openapi.XProduct].(map[string]any)
	v.Quotes = product["dialect"] == "rust" && !strings.HasPrefix(key.path, "/pve/")
	opts := fieldOptions{props: v.PropertyString, of: s.Extensions}
	var required, rest []field
	for _, p := range t.Schema.Properties {
		f := g.field(p.JsonFieldName, p.Schema, s.Properties[p.JsonFieldName], p.Required, p.Description, opts)
		if p.Required {
			required = append(required, f)
		} else {
			rest = append(rest, f)
		}
	}
	v.Fields = append(byName(required), byName(rest)...)
	switch has := s.AdditionalProperties.Has; {
	case v.PropertyString:
		v.Extra, v.ExtraComment = "map[string]string", "Keys that this release of the package does not know."
	case has == nil || *has || s.AdditionalProperties.Schema != nil:
		v.Extra, v.ExtraComment = "map[string]json.RawMessage", "Members that the API description does not name."
	}
	source, _ := s.Extensions[openapi.XSource].(string)
	g.declare(v.Name, source)
	if v.PropertyString {
		g.declare("Parse"+v.Name, source)
	}
	v.Comment = g.structureComment(v, s, owner)
	return v
}

// jsonAs reads an extension's value into a Go type.
func jsonAs(v, out any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, out)
}
