package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	facts "github.com/proxkit/proxkit/apidoc"
	"github.com/proxkit/proxkit/internal/generator/apidoc"
)

// An exitError ends the program with a status of its own and no message.
type exitError struct{ code int }

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", e.code) }

// runDiff reports what differs between two API descriptions.
func runDiff(_ context.Context, args []string, stdout, stderr io.Writer) error {
	fs := flag.NewFlagSet("diff", flag.ContinueOnError)
	fs.SetOutput(stderr)
	asJSON := fs.Bool("json", false, "write the report as JSON")
	exitCode := fs.Bool("exit-code", false, "exit with 1 when something differs, with 3 when that can break a caller")
	fs.Usage = func() {
		fmt.Fprintln(stderr, "usage: generator diff [-json] [-exit-code] OLD NEW\nOLD and NEW are API descriptions: published JavaScript, its JSON, or facts files.")
		fs.PrintDefaults()
	}
	var files []string
	for rest := args; ; { // flags may also stand after the files
		if err := parseFlags(fs, rest); err != nil {
			return err
		}
		if fs.NArg() == 0 {
			break
		}
		files = append(files, fs.Arg(0))
		rest = fs.Args()[1:]
	}
	if len(files) != 2 {
		return fmt.Errorf("diff: have %d files, want two: the old API description and the new one", len(files))
	}
	older, err := readDescription(files[0])
	if err != nil {
		return fmt.Errorf("diff: %w", err)
	}
	newer, err := readDescription(files[1])
	if err != nil {
		return fmt.Errorf("diff: %w", err)
	}
	report := apidoc.Diff(older, newer)
	if *asJSON {
		enc := json.NewEncoder(stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		err = enc.Encode(report)
	} else {
		err = report.WriteText(stdout)
	}
	switch {
	case err != nil:
		return fmt.Errorf("diff: %w", err)
	case *exitCode && report.Summary.Breaking > 0:
		return exitError{3}
	case *exitCode && !report.Empty():
		return exitError{1}
	}
	return nil
}

// readDescription reads an API description in any form. One that does not name
// its product goes by its file name.
func readDescription(name string) (*facts.Document, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	doc, err := apidoc.Parse(data, "", "")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if doc.Product == "" {
		doc.Product = filepath.Base(name)
	}
	return doc, nil
}
