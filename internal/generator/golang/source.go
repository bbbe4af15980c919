package golang

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/doc"
	"go/format"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A sourcePackage is what a package of this module says about itself in its source. The
// generated packages hand its types on under names of their own, of which "go doc" would
// show nothing: their comments repeat what a caller must know.
type sourcePackage struct {
	fset  *token.FileSet
	types map[string]*doc.Type
	errs  []sentinel
}

// A sentinel is a class of errors, with what its comment says.
type sentinel struct{ name, text string }

// readPackage reads the source in the directory dir of root.
func readPackage(root, dir string) (*sourcePackage, error) {
	p := &sourcePackage{fset: token.NewFileSet(), types: map[string]*doc.Type{}}
	dir = filepath.Join(root, filepath.FromSlash(dir))
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(p.fset, name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: %w: the comments of generated packages come from there", dir, fs.ErrNotExist)
	}
	for _, f := range files {
		p.errs = append(p.errs, sentinels(f)...)
	}
	read, err := doc.NewFromFiles(p.fset, files, "x", doc.PreserveAST)
	if err != nil {
		return nil, err
	}
	for _, t := range read.Types {
		p.types[t.Name] = t
	}
	return p, nil
}

// sentinels lists the exported variables of f that begin with Err, in their order.
func sentinels(f *ast.File) []sentinel {
	var out []sentinel
	for _, decl := range f.Decls {
		vars, ok := decl.(*ast.GenDecl)
		if !ok || vars.Tok != token.VAR {
			continue
		}
		for _, spec := range vars.Specs {
			v := spec.(*ast.ValueSpec)
			if name := v.Names[0].Name; strings.HasPrefix(name, "Err") {
				out = append(out, sentinel{name, v.Doc.Text()})
			}
		}
	}
	return out
}

// silent are methods that every reader of Go expects, so that comments need not list them.
var silent = []string{"Error", "String", "GoString", "LogValue", "MarshalText", "UnmarshalText"}

// alias returns the comment and the declaration that hand a type on: its own comment,
// then its fields and methods as the source has them, without what is not exported.
func (p *sourcePackage) alias(pkg, local, name string) (string, error) {
	t := p.types[name]
	if t == nil || t.Doc == "" {
		return "", fmt.Errorf("package %s has no type %s with a comment", pkg, name)
	}
	var b strings.Builder
	text := t.Doc
	if local != name {
		text = strings.ReplaceAll(text, name, local)
	}
	comment(&b, "\t", strings.TrimSpace(text))
	members, err := p.members(t)
	if err != nil {
		return "", err
	}
	if members != "" {
		b.WriteString("\t//\n")
		comment(&b, "\t", strings.ReplaceAll("\t"+members, "\n", "\n\t"))
	}
	fmt.Fprintf(&b, "\t%s = %s.%s", local, pkg, name)
	return b.String(), nil
}

// comment writes the lines of text as comment lines.
func comment(b *strings.Builder, indent, text string) {
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.HasPrefix(line, "\t") {
			line = " " + line
		}
		b.WriteString(strings.TrimRight(indent+"//"+line, " \t") + "\n")
	}
}

// members writes the exported fields and methods of a type.
func (p *sourcePackage) members(t *doc.Type) (string, error) {
	var parts []string
	spec := t.Decl.Specs[0].(*ast.TypeSpec)
	if s, ok := spec.Type.(*ast.StructType); ok {
		fields, err := p.fields(s)
		if err != nil {
			return "", err
		}
		parts = append(parts, fields)
	} else if f, ok := spec.Type.(*ast.FuncType); ok && takesContext(f) {
		text, err := p.print(f)
		if err != nil {
			return "", err
		}
		parts = append(parts, text)
	}
	var methods []string
	for _, m := range t.Methods {
		if slices.Contains(silent, m.Name) {
			continue
		}
		decl := *m.Decl
		decl.Doc, decl.Body = nil, nil
		text, err := p.print(&decl)
		if err != nil {
			return "", err
		}
		about, _, _ := strings.Cut(strings.Join(strings.Fields(m.Doc), " "), ". ")
		about = strings.TrimSuffix(link.ReplaceAllString(about, "$2"), ".")
		switch {
		case m.Name == "Unwrap":
		case len(text)+len(about) < width:
			text += " // " + strings.TrimPrefix(about, m.Name+" ")
		default:
			text = "// " + strings.Join(wrap(about+".", width-5), "\n// ") + "\n" + text
		}
		methods = append(methods, text)
	}
	if len(methods) > 0 {
		parts = append(parts, strings.Join(methods, "\n"))
	}
	return strings.Trim(strings.Join(parts, "\n"), "\n"), nil
}

// takesContext reports whether a function is one that callers write themselves. Others,
// such as options, take what they cannot name.
func takesContext(f *ast.FuncType) bool {
	if len(f.Params.List) == 0 {
		return false
	}
	t, ok := f.Params.List[0].Type.(*ast.SelectorExpr)
	return ok && t.Sel.Name == "Context"
}

var tags = regexp.MustCompile("(?m)[ \t]*`[^`]*`")

// fields writes the exported fields of a structure, one a line with its comment.
func (p *sourcePackage) fields(s *ast.StructType) (string, error) {
	var b bytes.Buffer
	b.WriteString("package x\n\ntype x struct {\n")
	for _, f := range s.Fields.List {
		exported := len(f.Names) == 0
		var names []string
		for _, n := range f.Names {
			if n.IsExported() {
				exported = true
				names = append(names, n.Name)
			}
		}
		if !exported {
			continue
		}
		text, err := p.print(f.Type)
		if err != nil {
			return "", err
		}
		for line := range strings.Lines(f.Doc.Text()) {
			b.WriteString("\t// " + line)
		}
		b.WriteString("\t" + strings.TrimSpace(strings.Join(names, ", ")+" "+text))
		if about := strings.TrimSpace(f.Comment.Text()); about != "" {
			b.WriteString(" // " + strings.Join(strings.Fields(about), " "))
		}
		b.WriteByte('\n')
	}
	b.WriteString("}\n")
	out, err := format.Source(b.Bytes())
	if err != nil {
		return "", err
	}
	_, text, _ := strings.Cut(string(out), "{\n")
	text = strings.TrimSuffix(text, "}\n")
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimPrefix(strings.TrimRight(line, "\n"), "\t"))
	}
	return strings.Join(lines, "\n"), nil
}

func (p *sourcePackage) print(node any) (string, error) {
	var b bytes.Buffer
	if err := printer.Fprint(&b, p.fset, node); err != nil {
		return "", err
	}
	return tags.ReplaceAllString(b.String(), ""), nil
}

// sentinelLines declares the classes of errors under the names they have there, each
// with its comment.
func (p *sourcePackage) sentinelLines(pkg string) string {
	var b strings.Builder
	for _, s := range p.errs {
		comment(&b, "\t", strings.TrimSpace(s.text))
		fmt.Fprintf(&b, "\t%s = %s.%s\n", s.name, pkg, s.name)
	}
	return b.String()
}

// link is a link to another name, in a comment.
var link = regexp.MustCompile(`\[(\*?)([A-Z]\w*(?:\.[A-Z]\w*)?)\]`)

// unlink takes the brackets off links to what src, a Go file, does not declare: the
// comments come from a package with other names.
func unlink(src []byte) ([]byte, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				known[d.Name.Name] = true
			} else {
				known["Client."+d.Name.Name] = true
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					known[s.Name.Name] = true
				case *ast.ValueSpec:
					for _, n := range s.Names {
						known[n.Name] = true
					}
				}
			}
		}
	}
	var out bytes.Buffer
	for line := range bytes.Lines(src) {
		if text := bytes.TrimSpace(line); bytes.HasPrefix(text, []byte("//")) {
			line = link.ReplaceAllFunc(line, func(m []byte) []byte {
				name := string(bytes.Trim(m, "[*]"))
				if known[name] {
					return m
				}
				return []byte(name)
			})
		}
		out.Write(line)
	}
	return out.Bytes(), nil
}
