package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	facts "github.com/proxkit/proxkit/apidoc"
	"github.com/proxkit/proxkit/gen"
	"github.com/proxkit/proxkit/internal/generator/apidoc"
	"github.com/proxkit/proxkit/internal/generator/golang"
	"github.com/proxkit/proxkit/internal/generator/openapi"
)

const generateHelp = `usage: generator generate
       generator generate -product NAME -from FILE -out DIR [-overlay FILE] [-version V]

Without flags it remakes gen/PRODUCT.openapi.json and PRODUCT/zz_*.go for every
product of this module from the newest facts in apidoc/. Run it within the module.

With flags it does the same for any API description: FILE is what a Proxmox host
serves to its API viewer (apidoc.js), the JSON in it, or a facts file; a URL will do
as well. DIR gets
openapi.json and zz_*.go, a package NAME. DIR must lie in this module, or in one whose
path is beneath this one's: the package uses packages that Go keeps to those.
Old zz_*.go files in DIR are removed. Names come from rules; where two operations or
two parameters would get the same one, that is told or, where no rule helps, an error
that names both: nothing is written then. When the description is that of a product this
module knows, perhaps in another release, the product's overlay is used as far as it
applies; -overlay names another one, "none" stands for none.

`

// A job is one product to generate.
type job struct {
	doc     *facts.Document
	overlay *openapi.Overlay
	strict  bool
	since   openapi.Since
	source  string // for the first line of the files
	command string // that makes them again
	pkg     string
	module  string
	root    string // of this module
	openapi string // where the document goes
	dir     string // where the package goes
	methods int    // how many there are, once it has run

	describe bool // no file in dir says what the package is
}

func runGenerate(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("generate", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, generateHelp)
		flags.PrintDefaults()
	}
	product := flags.String("product", "", "`name` of the product and of the Go package")
	from := flags.String("from", "", "`file` with the API description")
	out := flags.String("out", "", "`directory` for openapi.json and the package")
	overlay := flags.String("overlay", "", "overlay `file`, or none")
	version := flags.String("version", "", "the product's `version`")
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("generate takes flags only, not %q", flags.Arg(0))
	}
	var jobs []*job
	var err error
	if *product == "" && *from == "" && *out == "" && *overlay == "" && *version == "" {
		jobs, err = ownJobs()
	} else {
		jobs, err = givenJob(ctx, *product, *from, *out, *overlay, *version)
	}
	if err != nil {
		return err
	}
	// Everything is made before anything is written.
	var writes []write
	var removes []string
	var failed []error
	for _, j := range jobs {
		if err := ctx.Err(); err != nil {
			return err
		}
		w, r, err := j.run(stderr)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", j.pkg, err))
		}
		writes, removes = append(writes, w...), append(removes, r...)
	}
	if len(failed) > 0 {
		return errors.Join(failed...)
	}
	if err := writeAll(writes, removes); err != nil {
		return err
	}
	for _, j := range jobs {
		text := fmt.Sprintf("%s: %d methods from %s", j.pkg, j.methods, j.source)
		if left := len(j.doc.Operations) - j.methods; left > 0 {
			text += fmt.Sprintf(" (%d operations left out, see the overlay)", left)
		}
		fmt.Fprintln(stdout, text)
	}
	return nil
}

// ownJobs are the products of this module, from the newest facts.
func ownJobs() ([]*job, error) {
	root, module, err := moduleRoot(".")
	if err != nil {
		return nil, err
	}
	var jobs []*job
	for _, product := range facts.Products() {
		doc, err := facts.Latest(product)
		if err != nil {
			return nil, err
		}
		ov, err := productOverlay(product)
		if err != nil {
			return nil, err
		}
		if err := checkFamily(doc); err != nil {
			return nil, fmt.Errorf("apidoc/%s/%s.json: %w", product, doc.Version, err)
		}
		since, err := apidoc.LoadSince(product)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, &job{
			doc: doc, overlay: ov, strict: true, since: since,
			source:  fmt.Sprintf("apidoc/%s/%s.json", product, doc.Version),
			command: "Made again by: go run ./internal/generator generate",
			pkg:     product, module: module, root: root,
			openapi: filepath.Join(root, "gen", product+".openapi.json"),
			dir:     filepath.Join(root, product),
		})
	}
	return jobs, nil
}

func productOverlay(product string) (*openapi.Overlay, error) {
	data, err := gen.Overlay(product)
	if err != nil {
		return nil, err
	}
	ov, err := openapi.ParseOverlay(data)
	if err != nil {
		return nil, fmt.Errorf("gen/%s.overlay.yaml: %w", product, err)
	}
	return ov, nil
}

// givenJob is the product that the flags describe.
func givenJob(ctx context.Context, product, from, out, overlayFile, version string) ([]*job, error) {
	var missing []string
	for _, f := range []struct{ name, value string }{{"-product", product}, {"-from", from}, {"-out", out}} {
		if f.value == "" {
			missing = append(missing, f.name)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("generate: %s missing: give -product, -from and -out together, or no flags at all to remake this module's products", strings.Join(missing, " and "))
	}
	if err := golang.CheckPackage(product); err != nil {
		return nil, err
	}
	data, origin, err := apidoc.Fetch(ctx, apidoc.Source{Product: product, From: from})
	if err != nil {
		return nil, err
	}
	doc, err := apidoc.Parse(data, product, version)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", origin, err)
	}
	if info, err := os.Stat(out); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("-out %s is a file, want a directory", out)
	}
	if err := checkFamily(doc); err != nil {
		return nil, fmt.Errorf("%s: %w", origin, err)
	}
	root, err := rootFor(out)
	if err != nil {
		return nil, err
	}
	ov, err := overlayFor(doc, overlayFile)
	if err != nil {
		return nil, err
	}
	source := path.Base(origin)
	command := fmt.Sprintf("Made again by: go run ./internal/generator generate -product %s -from %s -out DIR", product, source)
	if version != "" {
		command += " -version " + version
	}
	described, err := hasPackageComment(out)
	if err != nil {
		return nil, err
	}
	return []*job{{
		describe: !described,
		doc:      doc, overlay: ov, source: oneLine(source), command: oneLine(command), pkg: product, module: ownModule, root: root,
		openapi: filepath.Join(out, "openapi.json"), dir: out,
	}}, nil
}

// hasPackageComment reports whether a file in dir that is not generated says what the
// package is.
func hasPackageComment(dir string) (bool, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return false, err
	}
	for _, name := range names {
		if base := filepath.Base(name); strings.HasPrefix(base, "zz_") || strings.HasSuffix(base, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return false, err
		}
		if file.Doc != nil {
			return true, nil
		}
	}
	return false, nil
}

// checkFamily refuses the description of one product of this module under the name of
// another.
func checkFamily(doc *facts.Document) error {
	products := facts.Products()
	if !slices.Contains(products, doc.Product) {
		return nil
	}
	for _, product := range products {
		ov, err := productOverlay(product)
		if err != nil {
			return err
		}
		if product != doc.Product && ov.Fits(doc) {
			return fmt.Errorf("this is the API of %s (it has %s), not that of %s: check the file and the product's name", ov.Title, ov.Marks[0], doc.Product)
		}
	}
	return nil
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// overlayFor finds the overlay of the product that doc describes.
func overlayFor(doc *facts.Document, file string) (*openapi.Overlay, error) {
	switch file {
	case "none":
		return nil, nil
	case "":
		for _, product := range facts.Products() {
			ov, err := productOverlay(product)
			if err != nil {
				return nil, err
			}
			if ov.Fits(doc) {
				return ov, nil
			}
		}
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	ov, err := openapi.ParseOverlay(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return ov, nil
}

type write struct {
	name string
	data []byte
}

// run makes the files of a job in memory, and the list of old files to remove.
func (j *job) run(stderr io.Writer) ([]write, []string, error) {
	built, err := openapi.Build(j.doc, openapi.Options{Overlay: j.overlay, Strict: j.strict, Since: j.since})
	if err != nil {
		return nil, nil, err
	}
	j.methods = len(built.Methods)
	for _, note := range built.Notes {
		fmt.Fprintf(stderr, "%s: note: %s\n", j.pkg, note)
	}
	document, err := openapi.Marshal(built.Doc)
	if err != nil {
		return nil, nil, err
	}
	files, err := golang.Generate(built.Doc, golang.Options{Package: j.pkg, Module: j.module, Source: j.source, Command: j.command, Root: j.root, Describe: j.describe})
	if err != nil {
		return nil, nil, err
	}
	writes := []write{{j.openapi, document}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		writes = append(writes, write{filepath.Join(j.dir, name), files[name]})
	}
	old, err := filepath.Glob(filepath.Join(j.dir, "zz_*.go"))
	if err != nil {
		return nil, nil, err
	}
	old = slices.DeleteFunc(old, func(name string) bool {
		return files[filepath.Base(name)] != nil || strings.HasSuffix(name, "_test.go")
	})
	return writes, old, nil
}

// writeAll writes every file under another name first, so that a full disk or a
// forbidden directory leaves the old files as they are.
func writeAll(writes []write, removes []string) (err error) {
	var made []string
	defer func() {
		if err != nil {
			for _, name := range made {
				err = errors.Join(err, os.Remove(name))
			}
		}
	}()
	for _, w := range writes {
		if err := os.MkdirAll(filepath.Dir(w.name), 0o755); err != nil {
			return err
		}
		temp := w.name + ".new"
		if err := os.WriteFile(temp, w.data, 0o644); err != nil {
			return err
		}
		made = append(made, temp)
	}
	for len(made) > 0 {
		temp := made[0]
		if err := os.Rename(temp, strings.TrimSuffix(temp, ".new")); err != nil {
			return err
		}
		made = made[1:]
	}
	for _, name := range removes {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

const ownModule = "github.com/proxkit/proxkit"

var moduleLine = regexp.MustCompile(`(?m)^module\s+(\S+)`)

// moduleRoot finds this module from a directory in it.
func moduleRoot(dir string) (root, module string, err error) {
	root, module, err = moduleOf(dir)
	switch {
	case err != nil:
		return "", "", err
	case root == "":
		return "", "", fmt.Errorf("run this within the module %s: no go.mod found", ownModule)
	case module != ownModule:
		return "", "", fmt.Errorf("run this within the module %s: %s is another", ownModule, root)
	}
	return root, module, nil
}

// moduleOf finds the module that dir lies in, or would lie in. Without one, root is empty.
func moduleOf(dir string) (root, module string, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return "", "", err
	}
	for {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil {
			if m := moduleLine.FindSubmatch(data); m != nil {
				return dir, string(m[1]), nil
			}
			return "", "", fmt.Errorf("%s names no module", filepath.Join(dir, "go.mod"))
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", "", nil
		}
		dir = parent
	}
}

// rootFor finds the directory of this module for a package that is to be made in out, and
// refuses a place in which the package could not be compiled.
func rootFor(out string) (string, error) {
	root, module, err := moduleOf(out)
	if err != nil {
		return "", err
	}
	switch {
	case module == ownModule:
		return root, nil
	case strings.HasPrefix(module, ownModule+"/"):
		// The module beneath may lie elsewhere; the source is that of the one at hand.
		if above, _, err := moduleRoot(filepath.Dir(root)); err == nil {
			return above, nil
		}
		root, _, err := moduleRoot(".")
		return root, err
	case root == "":
		return "", fmt.Errorf("-out %s lies in no module, where the package could not be compiled: it uses internal packages of %s, so choose a directory of that module, such as ./pmg", out, ownModule)
	}
	return "", fmt.Errorf("-out %s lies in the module %s, where the package could not be compiled: it uses internal packages of %s, so choose a directory of that module, such as ./pmg", out, module, ownModule)
}
