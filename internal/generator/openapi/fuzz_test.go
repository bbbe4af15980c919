package openapi_test

import (
	"go/token"
	"os"
	"path/filepath"
	"testing"

	"github.com/proxkit/proxkit/internal/generator/apidoc"
	"github.com/proxkit/proxkit/internal/generator/openapi"
)

// FuzzBuild demands of any API description that is understood at all that it
// becomes a valid document or an error, never a panic.
func FuzzBuild(f *testing.F) {
	files, err := filepath.Glob("../testdata/cases/*/apidoc.*")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`[{"path":"/x","info":{"GET":{"method":"GET","parameters":{"properties":{"a":{"oneOf":[{"type":"array"},{"type":"object"}]}}},"returns":{"oneOf":[{"type":"object","properties":{"b":{"type":"string","format":{"c":{"alias":"d"}}}}}]}}}}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := apidoc.Parse(data, "some", "1")
		if err != nil {
			return
		}
		built, err := openapi.Build(doc, openapi.Options{})
		if err != nil {
			return
		}
		text, err := openapi.Marshal(built.Doc)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := openapi.Load(text); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzParseOverlay(f *testing.F) {
	for _, product := range []string{"pve", "pbs", "pdm"} {
		data, err := os.ReadFile(filepath.Join("..", "..", "..", "gen", product+".overlay.yaml"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data[:min(len(data), 3000)]))
	}
	f.Add("shared: {A: [\"* ** **.x[n]~|0\"]}\nfields: [{at: GET /x params.y, name: Z}]")
	doc, err := apidoc.Parse([]byte(`[{"path":"/x","info":{"GET":{"method":"GET","parameters":{"properties":{"y":{"type":"string"}}},"returns":{"type":"object","properties":{"z":{"type":"integer"}}}}}}]`), "some", "1")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ov, err := openapi.ParseOverlay([]byte(text))
		if err != nil {
			return
		}
		for _, strict := range []bool{true, false} {
			if built, err := openapi.Build(doc, openapi.Options{Overlay: ov, Strict: strict}); err == nil && built.Doc == nil {
				t.Fatal("neither a document nor an error")
			}
		}
	})
}

func FuzzCaser(f *testing.F) {
	for _, name := range []string{"onboot", "net[n]", "ciphers-tls-1.2", "$schema", "2fa", "", "Datastore.Allocate", "ÄÖ", "s", "ids"} {
		f.Add(name)
	}
	caser, err := openapi.NewCaser()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if got := caser.Name(name); !token.IsIdentifier(got) || !token.IsExported(got) {
			t.Fatalf("%q became %q", name, got)
		}
	})
}
