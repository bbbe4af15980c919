// Package golang turns an OpenAPI document made by package openapi into a Go
// package: oapi-codegen walks the document and runs the templates here, and
// what they print is cut into one file an area.
package golang

import (
	"bytes"
	"embed"
	"fmt"
	"go/format"
	"go/token"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/template"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/oapi-codegen/oapi-codegen/v2/pkg/codegen"

	"github.com/proxkit/proxkit/internal/generator/openapi"
)

//go:embed templates/*.tmpl
var templates embed.FS

// Options say how the package is to look.
type Options struct {
	Package string // its name
	Module  string // the import path of the module that holds internal/rest
	Source  string // where the facts come from, for the first line of each file
	Command string // the command that makes the files again

	// Root is the directory of Module, whose source the comments on its types come from.
	Root string

	// Describe adds the comment on the package, which no other file has.
	Describe bool
}

// MaxLines is how long a file may become.
const MaxLines = 4000

// oapi-codegen keeps global state.
var running sync.Mutex

// Generate returns the package's files by name. All of them begin with "zz_".
// It changes doc.
func Generate(doc *openapi3.T, opts Options) (map[string][]byte, error) {
	if err := CheckPackage(opts.Package); err != nil {
		return nil, err
	}
	g := &generator{doc: doc, opts: opts, ops: map[string]operationKey{}, keys: map[string][]string{}, results: map[string]string{}, declared: map[string]string{}}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			g.ops[op.OperationID] = operationKey{path, method}
		}
	}
	var err error
	if g.rest, err = readPackage(opts.Root, "internal/rest"); err != nil {
		return nil, err
	}
	table, since := g.operations(), g.sinceTable()
	g.decorate()
	code, err := g.run()
	if err != nil {
		return nil, err
	}
	if g.err != nil {
		return nil, g.err
	}
	chunks, err := cut(code)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for name, chunks := range split(chunks) {
		if files[name], err = g.file(chunks); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if files["zz_client.go"], err = g.client(since); err != nil {
		return nil, fmt.Errorf("zz_client.go: %w", err)
	}
	more, err := g.tables(table, since, g.walks())
	if err != nil {
		return nil, err
	}
	maps.Copy(files, more)
	return files, g.err
}

// CheckPackage tells why name cannot be that of a generated package.
func CheckPackage(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("a product needs a name")
	case !token.IsIdentifier(name) || name != strings.ToLower(name) || name == "_" || name[0] == '_':
		return fmt.Errorf("product name %q cannot be a Go package's name: use small letters and digits, a letter first, no keyword", name)
	case slices.Contains(imported, name):
		return fmt.Errorf("product name %q is that of a package the generated code imports", name)
	case name == "main" || name == "init" || strings.HasSuffix(name, "_test"):
		return fmt.Errorf("product name %q means something else to Go", name)
	}
	return nil
}

// imported are the names by which generated code calls other packages.
var imported = []string{"context", "http", "json", "net", "rest", "wire", "tls", "x509", "rate"}

type operationKey struct{ path, method string }

type generator struct {
	doc  *openapi3.T
	opts Options
	ops  map[string]operationKey // by operationId
	err  error

	results  map[string]string   // the Go type of what a method returns, by its name
	declared map[string]string   // what declares each name of the package
	keys     map[string][]string // the names of the values that are texts of a type, by the type
	rest     *sourcePackage
}

// declare makes sure that nothing else has the name.
func (g *generator) declare(name, by string) {
	if other := g.declared[name]; other != "" {
		g.fail("%s and %s would both declare %s: name one of them in the overlay", other, by, name)
	}
	g.declared[name] = by
}

func (g *generator) fail(format string, args ...any) {
	if g.err == nil {
		g.err = fmt.Errorf(format, args...)
	}
}

// run lets oapi-codegen loose on the document.
func (g *generator) run() (string, error) {
	running.Lock()
	defer running.Unlock()
	user := map[string]string{}
	for _, name := range []string{"client.tmpl", "typedef.tmpl"} {
		text, err := templates.ReadFile("templates/" + name)
		if err != nil {
			return "", err
		}
		user[name] = string(text)
	}
	// A template without output does not replace a built-in one, and a text
	// without a line break is taken for the name of a file.
	for _, name := range []string{"client-with-responses.tmpl", "param-types.tmpl", "request-bodies.tmpl", "constants.tmpl", "imports.tmpl"} {
		user[name] = "{{\"\"}}\n"
	}
	codegen.TemplateFunctions["operation"] = g.operation
	codegen.TemplateFunctions["structure"] = g.structure
	defer delete(codegen.TemplateFunctions, "operation")
	defer delete(codegen.TemplateFunctions, "structure")
	code, err := codegen.Generate(g.doc, codegen.Configuration{
		PackageName: g.opts.Package,
		Generate:    codegen.GenerateOptions{Client: true, Models: true},
		OutputOptions: codegen.OutputOptions{
			SkipFmt:        true,
			SkipPrune:      true,
			UserTemplates:  user,
			NameNormalizer: string(codegen.NameNormalizerFunctionToCamelCase),
			PreferSkipOptionalPointerOnContainerTypes: true,
		},
	})
	if err != nil {
		return "", fmt.Errorf("oapi-codegen: %w", err)
	}
	return code, nil
}

// decorate tells oapi-codegen the Go type of what it cannot know: property
// strings, lists in a text, task IDs, families and raw values.
func (g *generator) decorate() {
	for _, name := range slices.Sorted(maps.Keys(g.doc.Components.Schemas)) {
		g.decorateMembers(g.doc.Components.Schemas[name].Value)
	}
	for _, item := range g.doc.Paths.Map() {
		for _, op := range item.Operations() {
			for _, p := range op.Parameters {
				g.noteKey(p.Value.Name, p.Value.Schema)
				g.decorateSchema(p.Value.Schema)
			}
			if op.RequestBody != nil {
				for _, m := range op.RequestBody.Value.Content {
					g.decorateMembers(m.Schema.Value)
				}
			}
			for _, r := range op.Responses.Map() {
				for _, m := range r.Value.Content {
					g.decorateMembers(m.Schema.Value)
				}
			}
		}
	}
}

func (g *generator) decorateMembers(s *openapi3.Schema) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		g.noteKey(name, s.Properties[name])
		g.decorateSchema(s.Properties[name])
	}
	if a := s.AdditionalProperties.Schema; a != nil {
		g.decorateSchema(a)
	}
	if s.Items != nil {
		g.decorateSchema(s.Items)
	}
}

// noteKey remembers which values are texts of which type.
func (g *generator) noteKey(name string, ref *openapi3.SchemaRef) {
	if ref.Ref == "" && ref.Value.Items != nil {
		ref = ref.Value.Items
	}
	if ref.Ref != "" {
		return
	}
	text, ok := ref.Value.Extensions[openapi.XPropertyString].(string)
	if !ok {
		return
	}
	of := text[strings.LastIndexByte(text, '/')+1:]
	if i, found := slices.BinarySearch(g.keys[of], name); !found {
		g.keys[of] = slices.Insert(g.keys[of], i, name)
	}
}

func (g *generator) decorateSchema(ref *openapi3.SchemaRef) {
	if ref.Ref == "" {
		g.decorateMembers(ref.Value)
	}
	special := g.special(ref)
	if special == "" && isIndexed(ref) {
		special = g.plain(ref)
	}
	if special == "" {
		return
	}
	if isIndexed(ref) {
		special = "map[int]" + special
	}
	if ref.Ref != "" {
		if ref.Extensions == nil {
			ref.Extensions = map[string]any{}
		}
		ref.Extensions["x-go-type"] = special
		return
	}
	if ref.Value.Extensions == nil {
		ref.Value.Extensions = map[string]any{}
	}
	ref.Value.Extensions["x-go-type"] = special
}

func extensions(ref *openapi3.SchemaRef) map[string]any {
	if ref.Ref != "" {
		return ref.Extensions
	}
	return ref.Value.Extensions
}

func isIndexed(ref *openapi3.SchemaRef) bool { return extensions(ref)[openapi.XIndexed] == true }

// special returns the Go type of what has another one than its OpenAPI type
// suggests.
func (g *generator) special(ref *openapi3.SchemaRef) string {
	if ref.Ref != "" {
		return ""
	}
	s := ref.Value
	if text, ok := s.Extensions[openapi.XPropertyString].(string); ok {
		return text[strings.LastIndexByte(text, '/')+1:]
	}
	switch {
	case s.Extensions[openapi.XTask] == true:
		return "UPID"
	case s.Extensions[openapi.XList] != nil:
		return "[]string"
	case s.Type == nil && len(s.Properties) == 0 || s.Type.Is("object") && len(s.Properties) == 0 && s.AdditionalProperties.Schema == nil:
		return "json.RawMessage"
	case s.Type.Is("array") && s.Items == nil:
		return "json.RawMessage"
	case len(s.Enum) > 0:
		return g.plain(ref) // no type of its own for each enumeration
	}
	return ""
}

// plain returns the Go type of a schema within a family.
func (g *generator) plain(ref *openapi3.SchemaRef) string {
	if ref.Ref != "" {
		return ref.Ref[strings.LastIndexByte(ref.Ref, '/')+1:]
	}
	s := ref.Value
	switch {
	case s.Type.Is("string"):
		return "string"
	case s.Type.Is("boolean"):
		return "bool"
	case s.Type.Is("integer"):
		return s.Format
	case s.Type.Is("number"):
		return "float64"
	case s.Type.Is("array"):
		if special := g.special(s.Items); special != "" {
			return "[]" + special
		}
		return "[]" + g.plain(s.Items)
	}
	g.fail("a family of %v has no Go type", s.Type)
	return ""
}

// file puts chunks together to a Go file.
func (g *generator) file(chunks []chunk) ([]byte, error) {
	var body strings.Builder
	for _, c := range chunks {
		body.WriteString(c.text)
		body.WriteByte('\n')
	}
	text := body.String()
	var std, own []string
	for _, imp := range []struct{ use, path string }{{"context.Context", "context"}, {"json.RawMessage", "encoding/json"}, {"net.Conn", "net"}, {"http.Method", "net/http"}} {
		if strings.Contains(text, imp.use) {
			std = append(std, imp.path)
		}
	}
	for _, imp := range []struct{ use, path string }{{"rest.", "/internal/rest"}, {"wire.", "/internal/wire"}} {
		if strings.Contains(text, " "+imp.use) || strings.Contains(text, "\t"+imp.use) {
			own = append(own, g.opts.Module+imp.path)
		}
	}
	// Through the field "rest" the transport needs no import.
	own = slices.DeleteFunc(own, func(p string) bool { return strings.HasSuffix(p, "/rest") })
	var b bytes.Buffer
	g.header(&b)
	writeImports(&b, std, own)
	b.WriteString(text)
	return g.format(b.Bytes())
}

func (g *generator) header(b *bytes.Buffer) {
	fmt.Fprintf(b, "// Code generated by internal/generator from %s. DO NOT EDIT.\n// %s\n\npackage %s\n\n", g.opts.Source, g.opts.Command, g.opts.Package)
}

func writeImports(b *bytes.Buffer, groups ...[]string) {
	b.WriteString("import (\n")
	for _, paths := range groups {
		for _, p := range paths {
			fmt.Fprintf(b, "\t%q\n", p)
		}
		b.WriteString("\n")
	}
	b.WriteString(")\n")
}

// format is gofmt, with the line at fault in the error.
func (g *generator) format(src []byte) ([]byte, error) {
	out, err := format.Source(collapse(src))
	if err != nil {
		return nil, fmt.Errorf("the templates made no Go: %w\n%s", err, clip(src))
	}
	return out, nil
}

func clip(src []byte) []byte { return src[:min(len(src), 2000)] }

// collapse drops blank lines that follow one another or a brace.
func collapse(src []byte) []byte {
	var out bytes.Buffer
	blank := false
	open := false
	for line := range bytes.Lines(src) {
		trimmed := bytes.TrimSpace(line)
		if len(trimmed) == 0 {
			blank = true
			continue
		}
		if blank && !open && trimmed[0] != '}' && trimmed[0] != ')' {
			out.WriteByte('\n')
		}
		blank = false
		open = trimmed[len(trimmed)-1] == '{' || trimmed[len(trimmed)-1] == '('
		out.Write(line)
	}
	return out.Bytes()
}

// client makes the file with the client itself.
func (g *generator) client(since string) ([]byte, error) {
	text, err := templates.ReadFile("templates/package.tmpl")
	if err != nil {
		return nil, err
	}
	t, err := template.New("package").Parse(string(text))
	if err != nil {
		return nil, err
	}
	product, _ := g.doc.Extensions[openapi.XProduct].(map[string]any)
	data := maps.Clone(product)
	data["package"] = g.opts.Package
	data["module"] = g.opts.Module
	data["describe"] = g.opts.Describe
	names := slices.Clone(aliases)
	if status := g.doc.Paths.Value("/nodes/{node}/tasks/{upid}/status"); status != nil && status.Get != nil {
		data["tasks"] = true
		names = append(names, taskAliases...)
	}
	var types []string
	for _, name := range names {
		text, err := g.rest.alias("rest", name, name)
		if err != nil {
			return nil, err
		}
		types = append(types, text)
	}
	data["aliases"], data["sentinels"] = types, g.rest.sentinelLines("rest")
	if v := g.doc.Info.Version; v != "unknown" {
		data["version"] = v
	}
	data["since"] = since != ""
	for _, ref := range g.doc.Components.Schemas {
		if ref.Value.Extensions[openapi.XPropertyString] == true {
			data["propertyStrings"] = true
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "// Code generated by internal/generator from %s. DO NOT EDIT.\n// %s\n\n", g.opts.Source, g.opts.Command)
	if err := t.Execute(&b, data); err != nil {
		return nil, err
	}
	out, err := format.Source(b.Bytes())
	if err != nil {
		return nil, err
	}
	return unlink(out)
}

// The types of internal/rest that generated packages hand on, and those of them that are
// about tasks.
var (
	aliases = []string{
		"Option", "UPID", "UPIDInfo", "Error", "TransportError", "ArgumentError", "AnswerError", "FingerprintError", "TaskError", "TFARequiredError",
		"Misfit", "Meta", "ServerVersion", "Upload", "Download", "RetryPolicy", "Ticket", "TFAHandler", "TFAChallenge", "TFAAnswer",
	}
	taskAliases = []string{"TaskResult", "TaskWaitError", "TaskLogLine", "TaskProgress", "WaitOption"}
)
