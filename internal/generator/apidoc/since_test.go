package apidoc_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	facts "github.com/proxkit/proxkit/apidoc"
	"github.com/proxkit/proxkit/internal/generator/apidoc"
)

func TestSince(t *testing.T) {
	t.Parallel()
	version := func(v, text string) *facts.Document {
		d, err := apidoc.Parse([]byte(text), "demo", v)
		require.NoError(t, err)
		return d
	}
	old := version("1", `[{"path":"/a","text":"a","info":{
		"GET":{"parameters":{"properties":{"p":{"type":"string"},"gone":{"type":"string"}}},"returns":{"type":"object","properties":{"f":{"type":"object"},"g":{"properties":{"h":{"type":"string"}}}}}},
		"PUT":{"parameters":{"properties":{"s":{"type":"string"}}}}}}]`)
	middle := version("2", `[{"path":"/a","text":"a","info":{
		"GET":{"parameters":{"properties":{"p":{"type":"string"},"q-1.2":{"type":"string"}}},"returns":{"type":"object","properties":{"f":{"type":"object"},"g":{"properties":{"h":{"type":"string"}}}}}},
		"POST":{}}}]`)
	newest := version("3", `[{"path":"/a","text":"a","info":{
		"GET":{"parameters":{"properties":{"p":{"type":"string"},"gone":{"type":"string"},"q-1.2":{"type":"string"},"r[n]":{"type":"string","format":{"k":{"type":"string"}}}}},
			"returns":{"type":"object","properties":{"f":{"properties":{"x":{"type":"string"}}},"g":{"properties":{"h":{"type":"string"},"i":{"type":"string"}}}}}},
		"PUT":{"parameters":{"properties":{"s":{"type":"string"}}}},
		"POST":{"parameters":{"properties":{"t":{"type":"string"}}}},
		"DELETE":{"parameters":{"properties":{"u":{"type":"string"}}}}}}]`)
	s := apidoc.Since([]*facts.Document{old, middle, newest})

	for _, tc := range []struct{ name, got, want string }{
		{"operation there from the first", s.Operation("GET", "/a"), ""},
		{"operation of the middle version", s.Operation("POST", "/a"), "2"},
		{"operation of the newest", s.Operation("DELETE", "/a"), "3"},
		{"operation that was gone for a while", s.Operation("PUT", "/a"), "3"},
		{"no such operation", s.Operation("GET", "/b"), ""},

		{"parameter there from the first", s.Parameter("GET", "/a", ".p"), ""},
		{"parameter of the middle version, with a dot in its name", s.Parameter("GET", "/a", ".q-1.2"), "2"},
		{"parameter of the newest", s.Parameter("GET", "/a", ".r[n]"), "3"},
		{"what came with its parameter", s.Parameter("GET", "/a", ".r[n]~.k"), ""},
		{"parameter that was gone for a while", s.Parameter("GET", "/a", ".gone"), "3"},
		{"parameter that came with its operation", s.Parameter("DELETE", "/a", ".u"), ""},
		{"parameter newer than its operation, which had none", s.Parameter("POST", "/a", ".t"), "3"},
		{"no such parameter", s.Parameter("GET", "/a", ".none"), ""},
		{"parameter of no such operation", s.Parameter("GET", "/b", ".p"), ""},

		{"field there from the first", s.Result("GET", "/a", ".g.h"), ""},
		{"field of the newest", s.Result("GET", "/a", ".g.i"), "3"},
		{"field of an object that was not described", s.Result("GET", "/a", ".f.x"), ""},
		{"no such field", s.Result("GET", "/a", ".g.z"), ""},
	} {
		assert.Equal(t, tc.want, tc.got, tc.name)
	}

	none := apidoc.Since(nil)
	assert.Empty(t, none.Operation("GET", "/a"))
	assert.Empty(t, none.Parameter("GET", "/a", ".p"))
	one := apidoc.Since([]*facts.Document{newest})
	assert.Empty(t, one.Operation("DELETE", "/a"))
}

func TestLoadSince(t *testing.T) {
	t.Parallel()
	s, err := apidoc.LoadSince("pve")
	require.NoError(t, err)
	assert.Empty(t, s.Operation("GET", "/version"))
	assert.Equal(t, "9.1", s.Operation("GET", "/cluster/ha/rules"))
	assert.Equal(t, "9.1", s.Parameter("POST", "/nodes/{node}/qemu/{vmid}/status/start", ".with-conntrack-state"))
	assert.Empty(t, s.Parameter("POST", "/nodes/{node}/qemu/{vmid}/status/start", ".timeout"))
	assert.Equal(t, "9.1", s.Result("GET", "/nodes/{node}/qemu", "[].memhost"))

	s, err = apidoc.LoadSince("a-product-without-files")
	require.NoError(t, err)
	assert.Empty(t, s.Operation("GET", "/version"))
}
