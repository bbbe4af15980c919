package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	facts "github.com/proxkit/proxkit/apidoc"
	"github.com/proxkit/proxkit/gen"
	"github.com/proxkit/proxkit/internal/generator/openapi"
	"github.com/proxkit/proxkit/pve"
	"github.com/proxkit/proxkit/pve/operations"
)

// parseDir parses the Go files in a directory of the module, tests left out.
func parseDir(t *testing.T, dir string) []*ast.File {
	t.Helper()
	root, _, err := moduleRoot(".")
	require.NoError(t, err)
	names, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "*.go"))
	require.NoError(t, err)
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		require.NoError(t, err)
		files = append(files, f)
	}
	require.NotEmpty(t, files, dir)
	return files
}

// typeComments returns the comments on the types that files declare.
func typeComments(files []*ast.File) map[string]string {
	out := map[string]string{}
	for _, f := range files {
		for _, decl := range f.Decls {
			if d, ok := decl.(*ast.GenDecl); ok && d.Tok == token.TYPE {
				for _, spec := range d.Specs {
					s := spec.(*ast.TypeSpec)
					out[s.Name.Name] = s.Doc.Text() + d.Doc.Text()
				}
			}
		}
	}
	return out
}

// TestAliasesSayWhatTheyStandFor compares the comments on types that are handed on with
// the types: "go doc" shows nothing else of them.
func TestAliasesSayWhatTheyStandFor(t *testing.T) {
	t.Parallel()
	aliases := map[string][]any{
		"pve": {
			pve.Error{},
			pve.TaskError{},
			pve.TransportError{},
			pve.ArgumentError{},
			pve.AnswerError{},
			pve.FingerprintError{},
			pve.TFARequiredError{},
			pve.TaskResult{},
			pve.TaskProgress{},
			pve.TaskLogLine{},
			pve.TaskWaitError{},
			pve.Upload{},
			pve.Download{},
			pve.RetryPolicy{},
			pve.Ticket{},
			pve.TFAChallenge{},
			pve.TFAAnswer{},
			pve.Misfit{},
			pve.Meta{},
			pve.UPID(""),
			pve.UPIDInfo{},
			pve.ServerVersion{},
		},
		"pve/operations": {operations.Operation{}, operations.Param{}, operations.Requirement{}, operations.Op{}, operations.Caller{}, operations.Unsure{}, operations.And},
	}
	silent := []string{"Error", "String", "GoString", "LogValue", "MarshalText", "UnmarshalText"}
	for dir, values := range aliases {
		comments := typeComments(parseDir(t, dir))
		for _, v := range values {
			real := reflect.TypeOf(v)
			comment := comments[real.Name()]
			require.NotEmpty(t, comment, "%s.%s", dir, real.Name())
			listed := map[string]bool{}
			for line := range strings.Lines(comment) {
				if !strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "\t//") {
					continue
				}
				if m := regexp.MustCompile(`^\tfunc \([^)]*\) (\w+)`).FindStringSubmatch(line); m != nil {
					listed[m[1]] = true
				} else if m := regexp.MustCompile(`^\t([A-Z]\w*(?:, [A-Z]\w*)*) +\S`).FindStringSubmatch(line); m != nil {
					for name := range strings.SplitSeq(m[1], ", ") {
						listed[name] = true
					}
				} else if m := regexp.MustCompile(`^\t\w+\.(\w+)\n?$`).FindStringSubmatch(line); m != nil {
					listed[m[1]] = true // embedded
				}
			}
			want := map[string]bool{}
			embeds := false
			if real.Kind() == reflect.Struct {
				for f := range real.Fields() {
					if f.IsExported() {
						want[f.Name] = true
						embeds = embeds || f.Anonymous
					}
				}
			}
			pointer := reflect.PointerTo(real)
			for m := range pointer.Methods() {
				if promoted := embeds && (m.Name == "Read" || m.Name == "Close"); !promoted && !slices.Contains(silent, m.Name) {
					want[m.Name] = true
				}
			}
			for name := range listed { // the table of RetryPolicy has lines like fields
				if !want[name] && real.Name() == "RetryPolicy" {
					delete(listed, name)
				}
			}
			assert.Equal(t, want, listed, "%s.%s", dir, real.Name())
		}
	}
}

// TestSentinelsSayWhatTheyMean: each class of errors has a comment of its own.
func TestSentinelsSayWhatTheyMean(t *testing.T) {
	t.Parallel()
	for _, product := range facts.Products() {
		seen := map[string]bool{}
		for _, f := range parseDir(t, product) {
			for _, decl := range f.Decls {
				d, ok := decl.(*ast.GenDecl)
				if !ok || d.Tok != token.VAR {
					continue
				}
				for _, spec := range d.Specs {
					v := spec.(*ast.ValueSpec)
					name := v.Names[0].Name
					if !strings.HasPrefix(name, "Err") {
						continue
					}
					assert.Greater(t, len(v.Doc.Text()), len(name)+20, "%s.%s", product, name)
					assert.False(t, seen[v.Doc.Text()], "%s.%s", product, name)
					seen[v.Doc.Text()] = true
				}
			}
		}
		assert.Greater(t, len(seen), 20, product)
	}
}

var docLink = regexp.MustCompile(`\[\*?([A-Z]\w*(?:\.[A-Z]\w*)?)\]`)

// TestLinksLead follows the links in all comments of the client packages.
func TestLinksLead(t *testing.T) {
	t.Parallel()
	for _, product := range facts.Products() {
		for _, dir := range []string{product, product + "/operations"} {
			files := parseDir(t, dir)
			known := map[string]bool{}
			for _, f := range files {
				for _, decl := range f.Decls {
					switch d := decl.(type) {
					case *ast.FuncDecl:
						name := d.Name.Name
						if d.Recv != nil {
							of := d.Recv.List[0].Type
							if star, ok := of.(*ast.StarExpr); ok {
								of = star.X
							}
							name = of.(*ast.Ident).Name + "." + name
						}
						known[name] = true
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
			}
			links := 0
			for _, f := range files {
				for _, group := range f.Comments {
					for line := range strings.Lines(group.Text()) {
						if strings.HasPrefix(line, "\t") {
							continue // code
						}
						for _, m := range docLink.FindAllStringSubmatch(line, -1) {
							links++
							assert.True(t, known[m[1]], "%s: a comment links to %s, which does not exist: %s", dir, m[1], line)
						}
					}
				}
			}
			assert.Positive(t, links, dir)
		}
	}
}

var readmeRow = regexp.MustCompile("(?m)^\\| \\[`(\\w+)`\\]\\(\\w+\\) \\| .* ([0-9.]+): ([0-9]+) operations")

// TestReadmeCounts compares the numbers in the README with the documents.
func TestReadmeCounts(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	rows := readmeRow.FindAllStringSubmatch(string(text), -1)
	require.Len(t, rows, len(facts.Products()))
	for _, row := range rows {
		doc, err := facts.Latest(row[1])
		require.NoError(t, err)
		assert.Equal(t, doc.Version, row[2], row[1])
		methods := 0
		data, err := os.ReadFile("testdata/methods/" + row[1] + ".txt")
		require.NoError(t, err)
		methods = strings.Count(string(data), "\n")
		assert.Equal(t, fmt.Sprint(methods), row[3], "methods of %s", row[1])
	}
}

// TestOverlaysAreSentences: summaries and notes are whole sentences, as they stand in
// comments among others.
func TestOverlaysAreSentences(t *testing.T) {
	t.Parallel()
	for _, product := range facts.Products() {
		data, err := gen.Overlay(product)
		require.NoError(t, err)
		ov, err := openapi.ParseOverlay(data)
		require.NoError(t, err)
		texts := map[string]string{}
		for op, s := range ov.Summaries {
			texts[op] = s
		}
		for _, n := range ov.Notes {
			texts[n.At[0]] = n.Text
		}
		for at, s := range texts {
			assert.Regexp(t, `^[A-Z1-9\[].*\.$`, s, at)
		}
	}
}
