package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	facts "github.com/proxkit/proxkit/apidoc"
	"github.com/proxkit/proxkit/internal/generator/apidoc"
)

var (
	productName = regexp.MustCompile(`^[a-z][a-z0-9]*$`)
	versionName = regexp.MustCompile(`^[0-9]+(\.[0-9]+)*$`)
)

const apidocHelp = `usage: generator apidoc -product NAME -version V -from SOURCE [-fingerprint HEX | -ca FILE] [-dir DIR]

It takes the facts out of an API description and writes them to DIR/NAME/V.json, with
the original's checksum in DIR/SOURCES.md. SOURCE is the file that a Proxmox host serves
to its API viewer (apidoc.js), the JSON in it, a URL of either, or the host itself, as
https://pve1.example.com:8006: the path of the file follows from the product then, and
-fingerprint or -ca says which certificate to trust. Texts written for readers are left
out. What is not understood is an error, and nothing is written then. The description of
one product under the name of another is refused.

`

// runApidoc adds the facts about one version of a product to the apidoc
// directory: DIR/PRODUCT/VERSION.json and a row in DIR/SOURCES.md. It writes
// nothing unless both could be made.
func runApidoc(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fs := flag.NewFlagSet("apidoc", flag.ContinueOnError)
	fs.SetOutput(stderr)
	var src apidoc.Source
	fs.StringVar(&src.Product, "product", "", "`name` of the product: pve, pbs, pdm or another one in lower case")
	version := fs.String("version", "", "`version` of the product, such as 9.3")
	fs.StringVar(&src.From, "from", "", "the API description: a `file`, a URL, or a host that publishes it")
	fs.StringVar(&src.Fingerprint, "fingerprint", "", "SHA-256 of the host's certificate, in `hex`")
	fs.StringVar(&src.CA, "ca", "", "`file` with the certificate authority of the host, in PEM form")
	dir := fs.String("dir", "apidoc", "`directory` of the facts files")
	fs.Usage = func() {
		fmt.Fprint(stderr, apidocHelp)
		fs.PrintDefaults()
	}
	if err := parseFlags(fs, args); err != nil {
		return err
	}
	switch {
	case fs.NArg() > 0:
		return fmt.Errorf("apidoc: unexpected argument %q", fs.Arg(0))
	case !productName.MatchString(src.Product):
		return fmt.Errorf("apidoc: -product is %q, want a name in lower case such as pve", src.Product)
	case !versionName.MatchString(*version):
		return fmt.Errorf("apidoc: -version is %q, want numbers such as 9.3", *version)
	case src.From == "":
		return errors.New("apidoc: -from is missing: name a file, a URL or a Proxmox host")
	}
	data, origin, err := apidoc.Fetch(ctx, src)
	if err != nil {
		return fmt.Errorf("apidoc: %w", err)
	}
	doc, err := apidoc.Parse(data, src.Product, *version)
	if err != nil {
		return fmt.Errorf("apidoc: %s: %w", origin, err)
	}
	if err := checkFamily(doc); err != nil {
		return fmt.Errorf("apidoc: %s: %w", origin, err)
	}
	doc = apidoc.Facts(doc)
	var out bytes.Buffer
	if err := doc.Encode(&out); err != nil {
		return fmt.Errorf("apidoc: %w", err)
	}
	if _, err := facts.Decode(bytes.NewReader(out.Bytes())); err != nil {
		return fmt.Errorf("apidoc: what was made cannot be read back: %w", err)
	}

	sources := filepath.Join(*dir, "SOURCES.md")
	old, err := os.ReadFile(sources)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("apidoc: %w", err)
	}
	sum := sha256.Sum256(data)
	list, err := updateSources(string(old), sourceRow{
		product: src.Product, version: *version, origin: origin,
		sum: hex.EncodeToString(sum[:]), operations: len(doc.Operations),
	})
	if err != nil {
		return fmt.Errorf("apidoc: %s: %w", sources, err)
	}
	target := filepath.Join(*dir, src.Product, *version+".json")
	if err := writeFiles(map[string][]byte{target: out.Bytes(), sources: []byte(list)}); err != nil {
		return fmt.Errorf("apidoc: %w", err)
	}
	fmt.Fprintf(stdout, "%s: %d operations (%s dialect), %d bytes\n", filepath.ToSlash(target), len(doc.Operations), doc.Dialect, out.Len())
	return nil
}

// A sourceRow is a row of the table in SOURCES.md.
type sourceRow struct {
	product, version, origin, sum string
	operations                    int
}

const sourcesHead = "| Product | Version | Operations | Original | SHA-256 of the original |"

// updateSources puts row into the table in text, in place of an older row of
// the same product and version, and leaves the rest of the text alone.
func updateSources(text string, row sourceRow) (string, error) {
	if strings.TrimSpace(text) == "" {
		text = "# Sources\n\n" + sourcesHead + "\n| --- | --- | --- | --- | --- |\n"
	}
	lines := strings.SplitAfter(text, "\n")
	head := slices.Index(lines, sourcesHead+"\n")
	if head < 0 || head+1 >= len(lines) || !strings.HasPrefix(lines[head+1], "| ---") {
		return "", fmt.Errorf("has no table headed %q", sourcesHead)
	}
	first := head + 2
	last := first
	var rows []sourceRow
	for ; last < len(lines) && strings.HasPrefix(lines[last], "|"); last++ {
		cells := strings.Split(strings.Trim(strings.TrimSpace(lines[last]), "|"), "|")
		if len(cells) != 5 {
			return "", fmt.Errorf("line %d: has %d cells, want 5", last+1, len(cells))
		}
		for i := range cells {
			cells[i] = strings.Trim(strings.TrimSpace(cells[i]), "`")
		}
		n, err := strconv.Atoi(cells[2])
		if err != nil {
			return "", fmt.Errorf("line %d: %q is no number of operations", last+1, cells[2])
		}
		if cells[0] != row.product || cells[1] != row.version {
			rows = append(rows, sourceRow{product: cells[0], version: cells[1], operations: n, origin: cells[3], sum: cells[4]})
		}
	}
	row.origin = strings.NewReplacer("|", "", "`", "", "\n", "").Replace(row.origin)
	rows = append(rows, row)
	slices.SortFunc(rows, func(a, b sourceRow) int {
		if c := strings.Compare(a.product, b.product); c != 0 {
			return c
		}
		return facts.CompareVersions(a.version, b.version)
	})
	var b strings.Builder
	for _, l := range lines[:first] {
		b.WriteString(l)
	}
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %d | `%s` | `%s` |\n", r.product, r.version, r.operations, r.origin, r.sum)
	}
	for _, l := range lines[last:] {
		b.WriteString(l)
	}
	return b.String(), nil
}

// writeFiles writes all files or, if one cannot be written, none: each goes to
// a temporary file first.
func writeFiles(files map[string][]byte) error {
	temp := map[string]string{}
	defer func() {
		for _, name := range temp {
			os.Remove(name)
		}
	}()
	for name, data := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		f, err := os.CreateTemp(filepath.Dir(name), ".new-*")
		if err != nil {
			return err
		}
		temp[name] = f.Name()
		_, err = f.Write(data)
		if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
			return err
		}
	}
	for name := range files {
		if err := os.Rename(temp[name], name); err != nil {
			return err
		}
		delete(temp, name)
	}
	return nil
}
