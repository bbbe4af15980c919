package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
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
openapi.json and zz_*.go, a package NAME that compiles when DIR lies in this module.
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
	openapi string // where the document goes
	dir     string // where the package goes
	methods int    // how many there are, once it has run

	standalone bool // nothing in dir is written by hand
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
	if err := flags.Parse(args); err != nil {
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
		fmt.Fprintf(stdout, "%s: %d operations from %s, %d of them methods\n", j.pkg, len(j.doc.Operations), j.source, j.methods)
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
		since, err := apidoc.LoadSince(product)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, &job{
			doc: doc, overlay: ov, strict: true, since: since,
			source:  fmt.Sprintf("apidoc/%s/%s.json", product, doc.Version),
			command: "Made again by: go run ./internal/generator generate",
			pkg:     product, module: module,
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
	_, module, err := moduleRoot(".")
	if err != nil {
		module = ownModule
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
	_, err = os.Stat(filepath.Join(out, "task.go"))
	return []*job{{
		standalone: err != nil,
		doc:        doc, overlay: ov, source: oneLine(source), command: oneLine(command), pkg: product, module: module,
		openapi: filepath.Join(out, "openapi.json"), dir: out,
	}}, nil
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
	files, err := golang.Generate(built.Doc, golang.Options{Package: j.pkg, Module: j.module, Source: j.source, Command: j.command, Standalone: j.standalone})
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

// moduleRoot finds the module that dir lies in.
func moduleRoot(dir string) (root, module string, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", "", err
	}
	for {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil {
			m := moduleLine.FindSubmatch(data)
			if m == nil || string(m[1]) != ownModule {
				return "", "", fmt.Errorf("run this within the module %s: %s is another", ownModule, dir)
			}
			return dir, string(m[1]), nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", "", fmt.Errorf("run this within the module %s: no go.mod found", ownModule)
		}
		dir = parent
	}
}
