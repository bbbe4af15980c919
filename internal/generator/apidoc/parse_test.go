package apidoc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	facts "github.com/proxkit/proxkit/apidoc"
	"github.com/proxkit/proxkit/internal/generator/apidoc"
)

// tree makes an API tree of one operation, GET /x, in the given dialect.
func tree(dialect, params, returns string) string {
	mark := `"name":"x","allowtoken":1`
	if dialect == "rust" {
		mark = `"unstable":false`
	}
	return fmt.Sprintf(`[{"path":"/x","text":"x","leaf":1,"info":{"GET":{"method":"GET",%s,"parameters":%s,"returns":%s}}}]`, mark, params, returns)
}

func parse(t *testing.T, text string) *facts.Document {
	t.Helper()
	d, err := apidoc.Parse([]byte(text), "demo", "1.0")
	require.NoError(t, err)
	return d
}

func compact(t *testing.T, v any) string {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	require.NoError(t, enc.Encode(v))
	return strings.TrimSpace(b.String())
}

func TestParseForms(t *testing.T) {
	t.Parallel()
	bare := tree("perl", `{"additionalProperties":0}`, `{"type":"null"}`)
	var canonical bytes.Buffer
	require.NoError(t, parse(t, bare).Encode(&canonical))
	for _, tc := range []struct{ name, text string }{
		{"bare JSON", bare},
		{"JSON with a byte order mark and blanks", "\xef\xbb\xbf \n" + bare + "\n"},
		{"const", "const apiSchema = " + bare + "\n;\n\nlet method2cmd = {GET: 'get'};"},
		{"var", "var apiSchema = " + bare + ";\nExt.onReady(function() { if (a === b) {} });"},
		{"another identifier", "let pmgapi=" + bare},
		{"a property", "window.api = " + bare},
		{"export", "export const api = " + bare + ";"},
		{"no semicolon, script after it", "const apiSchema = " + bare + "\nconst other = [1];"},
		{"script before it", "// a [list] = [\n/* x = [1,2 */ 'use strict'; var list = [1, 2];\nvar s = \"a = [\\\"\";\nvar o = {a: 1};\nconst apiSchema = " + bare},
		{"canonical", canonical.String()},
		{"canonical in a script", "const doc = " + canonical.String()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var got bytes.Buffer
			require.NoError(t, parse(t, tc.text).Encode(&got))
			assert.Equal(t, canonical.String(), got.String())
		})
	}
}

func TestParseNamesTheDocument(t *testing.T) {
	t.Parallel()
	d := parse(t, tree("perl", `{}`, `{}`))
	assert.Equal(t, "demo", d.Product)
	assert.Equal(t, "1.0", d.Version)
	var b bytes.Buffer
	require.NoError(t, d.Encode(&b))
	d, err := apidoc.Parse(b.Bytes(), "", "")
	require.NoError(t, err)
	assert.Equal(t, "demo 1.0", d.Product+" "+d.Version, "a canonical document keeps its own name")
	d, err = apidoc.Parse(b.Bytes(), "other", "2")
	require.NoError(t, err)
	assert.Equal(t, "other 2", d.Product+" "+d.Version, "unless given another")
}

// TestParseSchema has one case for each oddity of the published files: what a
// parameter's schema says, and how the document has it.
func TestParseSchema(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, dialect, in, want string }{
		{"plain", "perl", `{"type":"string"}`, `{"type":"string"}`},

		{"optional as 1", "perl", `{"type":"string","optional":1}`, `{"type":"string","optional":true}`},
		{"optional as text 1", "perl", `{"type":"string","optional":"1"}`, `{"type":"string","optional":true}`},
		{"optional as 0", "perl", `{"type":"string","optional":0}`, `{"type":"string"}`},
		{"optional as true", "rust", `{"type":"string","optional":true}`, `{"type":"string","optional":true}`},

		{"type from properties", "perl", `{"properties":{"a":{"type":"string"}}}`, `{"type":"object","properties":{"a":{"type":"string"}}}`},
		{"type from items", "perl", `{"items":{"type":"string"}}`, `{"type":"array","items":{"type":"string"}}`},
		{"type from enum", "perl", `{"enum":["a","b"]}`, `{"type":"string","enum":["a","b"]}`},
		{"type from a format's name", "perl", `{"format":"string"}`, `{"type":"string","format":"string"}`},
		{"type from a pattern", "perl", `{"pattern":"a+"}`, `{"type":"string","pattern":"a+"}`},
		{"no type and no hint", "perl", `{"description":"d"}`, `{"description":"d"}`},
		{"nothing", "perl", `{}`, `{}`},
		{"empty properties", "perl", `{"type":"object","properties":{}}`, `{"type":"object"}`},

		{"bounds as texts", "perl", `{"type":"integer","minimum":"0","maximum":"16777216"}`, `{"type":"integer","minimum":0,"maximum":16777216}`},
		{"bounds as floats", "rust", `{"type":"integer","minimum":2.0,"maximum":1e3}`, `{"type":"integer","minimum":2,"maximum":1000}`},
		{"bounds with a fraction", "perl", `{"type":"number","minimum":0.5}`, `{"type":"number","minimum":0.5}`},
		{"bounds beyond 32 and 63 bits", "perl", `{"type":"integer","minimum":-9223372036854775808,"maximum":18446744073709551615}`, `{"type":"integer","minimum":-9223372036854775808,"maximum":18446744073709551615}`},
		{"min and max", "perl", `{"type":"integer","min":100,"max":999999999}`, `{"type":"integer","minimum":100,"maximum":999999999}`},
		{"lengths", "rust", `{"type":"string","minLength":1,"maxLength":"64"}`, `{"type":"string","minLength":1,"maxLength":64}`},

		{"default of a boolean as 1", "perl", `{"type":"boolean","default":1}`, `{"type":"boolean","default":true}`},
		{"default of a boolean as text", "perl", `{"type":"boolean","default":"0"}`, `{"type":"boolean","default":false}`},
		{"default of a boolean as word", "perl", `{"type":"boolean","default":"yes"}`, `{"type":"boolean","default":true}`},
		{"default of a boolean as prose", "perl", `{"type":"boolean","default":"0; for some: 1"}`, `{"type":"boolean"}`},
		{"default of an integer as text", "perl", `{"type":"integer","default":"16777216"}`, `{"type":"integer","default":16777216}`},
		{"default of an integer as prose", "perl", `{"type":"integer","default":"the limit of the storage"}`, `{"type":"integer"}`},
		{"default of an integer as fraction", "perl", `{"type":"integer","default":1.5}`, `{"type":"integer"}`},
		{"default of a number", "perl", `{"type":"number","default":0.10}`, `{"type":"number","default":0.1}`},
		{"default of a string", "perl", `{"type":"string","default":"<a&b>"}`, `{"type":"string","default":"<a&b>"}`},
		{"default of a string as number", "perl", `{"type":"string","default":4}`, `{"type":"string","default":"4"}`},
		{"default of a string as list", "perl", `{"type":"string","default":"one, two"}`, `{"type":"string","default":"one, two"}`},
		{"default of a string as prose", "perl", `{"type":"string","default":"current connected node"}`, `{"type":"string"}`},
		{"default not in the enum", "perl", `{"enum":["a","b"],"default":"all"}`, `{"type":"string","enum":["a","b"]}`},
		{"default in the enum but for case", "rust", `{"type":"string","enum":["off","on"],"default":"On"}`, `{"type":"string","enum":["off","on"],"default":"on"}`},
		{"default null", "perl", `{"type":"string","default":null}`, `{"type":"string"}`},
		{"default of an array", "rust", `{"type":"array","items":{"type":"string"},"default":["a","b"]}`, `{"type":"array","items":{"type":"string"},"default":["a","b"]}`},
		{"default of an object", "rust", `{"type":"object","default":{}}`, `{"type":"object"}`},

		{"enum null", "perl", `{"type":"string","enum":null}`, `{"type":"string"}`},
		{"enum of numbers", "perl", `{"type":"integer","enum":[1,2.0,"4"]}`, `{"type":"integer","enum":["1","2","4"]}`},

		{"additionalProperties 0", "perl", `{"type":"object","additionalProperties":0}`, `{"type":"object","noAdditional":true}`},
		{"additionalProperties 1", "perl", `{"type":"object","additionalProperties":1}`, `{"type":"object"}`},
		{"additionalProperties false", "rust", `{"type":"object","additionalProperties":false}`, `{"type":"object","noAdditional":true}`},
		{"additionalProperties a schema", "perl", `{"type":"object","additionalProperties":{"type":"integer"}}`, `{"type":"object","additional":{"type":"integer"}}`},

		{"a property whose name is a placeholder", "perl", `{"type":"object","properties":{"{id}":{"type":"string"}}}`, `{"type":"object","additional":{"type":"string"}}`},
		{"an array with such a property", "perl", `{"type":"array","properties":{"{id}":{"type":"string"}}}`, `{"type":"array","items":{"type":"string"}}`},
		{"an array with properties", "perl", `{"type":"array","properties":{"a":{"type":"string"}}}`, `{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"}}}}`},
		{"an object with items", "perl", `{"type":"object","items":{"type":"object","properties":{"a":{"type":"string"}}}}`, `{"type":"object","properties":{"a":{"type":"string"}}}`},

		{
			"format a map", "perl", `{"type":"string","format":{"file":{"type":"string","default_key":1},"size":{"type":"string","optional":1}}}`,
			`{"type":"string","formatSchema":{"type":"object","properties":{"file":{"type":"string","defaultKey":true},"size":{"type":"string","optional":true}},"noAdditional":true}}`,
		},
		{
			"format a map with keys like a schema's", "perl", `{"type":"string","format":{"type":{"type":"string"},"properties":{"type":"integer"},"description":{"type":"string"},"items":{"enum":["a"]}}}`,
			`{"type":"string","formatSchema":{"type":"object","properties":{"description":{"type":"string"},"items":{"type":"string","enum":["a"]},"properties":{"type":"integer"},"type":{"type":"string"}},"noAdditional":true}}`,
		},
		{
			"format a map with aliases", "perl", `{"type":"string","format":{"model":{"type":"string","default_key":1},"macaddr":{"type":"string","optional":1},"virtio":{"alias":"macaddr","keyAlias":"model"},"mac":{"alias":"macaddr"}}}`,
			`{"type":"string","formatSchema":{"type":"object","properties":{"mac":{"alias":"macaddr"},"macaddr":{"type":"string","optional":true},"model":{"type":"string","defaultKey":true},"virtio":{"alias":"macaddr","keyAlias":"model"}},"noAdditional":true}}`,
		},
		{
			"format a schema of an object", "rust", `{"type":"string","format":{"type":"object","additionalProperties":false,"default_key":"type","properties":{"type":{"type":"string"}}}}`,
			`{"type":"string","formatSchema":{"type":"object","properties":{"type":{"type":"string","defaultKey":true}},"noAdditional":true}}`,
		},
		{
			"format a schema of an array", "rust", `{"type":"string","format":{"type":"array","items":{"type":"string","enum":["a","b"]}}}`,
			`{"type":"string","formatSchema":{"type":"array","items":{"type":"string","enum":["a","b"]}}}`,
		},
		{
			"format a schema of only properties", "rust", `{"type":"string","format":{"properties":{"a":{"type":"string"}}}}`,
			`{"type":"string","formatSchema":{"type":"object","properties":{"a":{"type":"string"}}}}`,
		},
		{
			"format a schema in Perl's file", "perl", `{"type":"string","format":{"type":"array","items":{"type":"string"}}}`,
			`{"type":"string","formatSchema":{"type":"array","items":{"type":"string"}}}`,
		},

		{
			"grammar in the typetext", "perl", `{"type":"string","format":"f","typetext":"[[host=]<ID>] [,pcie=<1|0>]"}`,
			`{"type":"string","format":"f","formatSchema":{"type":"object","properties":{"host":{"type":"string","optional":true,"defaultKey":true},"pcie":{"type":"boolean","optional":true}},"noAdditional":true}}`,
		},
		{"typetext that adds nothing", "perl", `{"type":"string","format":"f","typetext":"<string>"}`, `{"type":"string","format":"f"}`},
		{"typetext that cannot be read", "perl", `{"type":"string","format":"f","typetext":"a=<x> or [b"}`, `{"type":"string","format":"f","typetext":"a=<x> or [b"}`},

		{
			"variants by a sibling", "perl", `{"oneOf":[{"type":"array","items":{"type":"string"},"instance-types":["ospf"]},{"items":{"type":"string"},"instance-types":["bgp"]}],"type-property":"protocol"}`,
			`{"type":"array","oneOf":[{"type":"array","items":{"type":"string"},"instanceTypes":["ospf"]},{"type":"array","items":{"type":"string"},"instanceTypes":["bgp"]}],"typeProperty":"protocol"}`,
		},
		{
			"a property for some types", "perl", `{"type":"string","type-property":"type","instance-types":["node-affinity"]}`,
			`{"type":"string","typeProperty":"type","instanceTypes":["node-affinity"]}`,
		},
		{
			"variants by a member", "rust", `{"type":"object","typeProperty":"kind","typeSchema":{"type":"string","enum":["a","b"]},"oneOf":[{"type":"object","title":"a"},{"type":"object","title":"b","description":"d"}]}`,
			`{"type":"object","oneOf":[{"type":"object","instanceTypes":["a"]},{"type":"object","description":"d","instanceTypes":["b"]}],"typeProperty":"kind","typeSchema":{"type":"string","enum":["a","b"]}}`,
		},
		{
			"variants by a member, newer spelling", "rust", `{"type":"object","type-property":"kind","type-property-schema":{"type":"string"},"oneOf":[{"type":"object","instance-type":"a"},{"type":"object","title":"t","instance-type":"b"}]}`,
			`{"type":"object","oneOf":[{"type":"object","instanceTypes":["a"]},{"type":"object","description":"t","instanceTypes":["b"]}],"typeProperty":"kind","typeSchema":{"type":"string"}}`,
		},
		{
			"objects put together", "rust", `{"type":"object","allOf":[{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string"}}},{"type":"object","additionalProperties":false,"properties":{"b":{"type":"string"}}}]}`,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"noAdditional":true}`,
		},
		{
			"objects put together, other keys allowed", "rust", `{"allOf":[{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string"}}},{"type":"object","additionalProperties":true,"properties":{}}]}`,
			`{"type":"object","properties":{"a":{"type":"string"}}}`,
		},
		{"an array's greatest length in Rust's files", "rust", `{"type":"array","items":{"type":"string"},"minLength":1,"maxLength":1}`, `{"type":"array","items":{"type":"string"},"minLength":1}`},
		{"variants of several types", "rust", `{"oneOf":[{"type":"object"},{"type":"string"}]}`, `{"oneOf":[{"type":"object"},{"type":"string"}]}`},

		{"description before its longer form", "perl", `{"type":"string","description":"short","verbose_description":"long","title":"t"}`, `{"type":"string","description":"short"}`},
		{"title where nothing else describes", "perl", `{"type":"string","title":"t","description":""}`, `{"type":"string","description":"t"}`},
		{"facts for display", "perl", `{"type":"integer","renderer":"bytes","requires":"storage","format_description":"N","print_width":20}`, `{"type":"integer","requires":"storage","renderer":"bytes"}`},
		{"a pattern that Go cannot compile", "perl", `{"type":"string","pattern":"(?^u:(?!x)\\d+)"}`, `{"type":"string","pattern":"(?^u:(?!x)\\d+)"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := parse(t, tree(tc.dialect, `{"properties":{"p":`+tc.in+`}}`, `{"type":"null"}`))
			require.Equal(t, tc.dialect, d.Dialect)
			assert.JSONEq(t, tc.want, compact(t, d.Operations[0].Parameters.Properties["p"]))

			d = parse(t, tree(tc.dialect, `{}`, tc.in))
			assert.JSONEq(t, tc.want, compact(t, d.Operations[0].Returns), "as a result")
		})
	}
}

// Large bounds must not lose digits on the way.
func TestParseKeepsDigits(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ in, want string }{
		{"18446744073709551615", "18446744073709551615"},
		{"-9223372036854775808", "-9223372036854775808"},
		{`"9007199254740993"`, "9007199254740993"},
		{"4294967295.0", "4294967295"},
		{"0.1", "0.1"},
		{"1e-7", "1e-7"},
	} {
		d := parse(t, tree("perl", `{}`, `{"type":"number","maximum":`+tc.in+`}`))
		assert.Equal(t, tc.want, string(d.Operations[0].Returns.Maximum), tc.in)
	}
}

func TestParseFamilies(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, in, want string }{
		{"folded by the server", `{"net[n]":{"type":"string"}}`, `{"net[n]":{"type":"string","optional":true}}`},
		{
			"written out", `{"net0":{"type":"string","optional":1,"description":"a"},"net1":{"type":"string","optional":1,"description":"b"},"net2":{"type":"string","optional":1}}`,
			`{"net[n]":{"type":"string","optional":true,"description":"a","maxIndex":2}}`,
		},
		{
			"with a namesake without number", `{"numa":{"type":"boolean"},"numa0":{"type":"string"},"numa1":{"type":"string"}}`,
			`{"numa":{"type":"boolean"},"numa[n]":{"type":"string","optional":true,"maxIndex":1}}`,
		},
		{"with an underscore", `{"numa_array0":{"type":"string"},"numa_array1":{"type":"string"}}`, `{"numa_array[n]":{"type":"string","optional":true,"maxIndex":1}}`},
		{"only one", `{"efidisk0":{"type":"string"}}`, `{"efidisk0":{"type":"string"}}`},
		{"not from 0", `{"dns1":{"type":"string"},"dns2":{"type":"string"}}`, `{"dns1":{"type":"string"},"dns2":{"type":"string"}}`},
		{"with a gap", `{"a0":{"type":"string"},"a2":{"type":"string"}}`, `{"a0":{"type":"string"},"a2":{"type":"string"}}`},
		{"unlike", `{"a0":{"type":"string"},"a1":{"type":"integer"}}`, `{"a0":{"type":"string"},"a1":{"type":"integer"}}`},
		{"folded already besides", `{"a0":{"type":"string"},"a1":{"type":"string"},"a[n]":{"type":"integer"}}`, `{"a0":{"type":"string"},"a1":{"type":"string"},"a[n]":{"type":"integer","optional":true}}`},
		{"a number with a leading zero", `{"a00":{"type":"string"},"a01":{"type":"string"}}`, `{"a00":{"type":"string"},"a01":{"type":"string"}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := parse(t, tree("perl", `{"properties":`+tc.in+`}`, `{"type":"object","properties":`+tc.in+`}`))
			assert.JSONEq(t, tc.want, compact(t, d.Operations[0].Parameters.Properties))
			assert.JSONEq(t, tc.want, compact(t, d.Operations[0].Returns.Properties))
		})
	}
}

// A format that one place describes by its typetext is described by it where
// the file has only the name, as in results.
func TestParseSharesNamedGrammars(t *testing.T) {
	t.Parallel()
	d := parse(t, tree("perl",
		`{"properties":{"a":{"type":"string","format":"f","typetext":"x=<integer>"},"b":{"type":"string","format":"g","typetext":"x=<integer>"},"c":{"type":"string","format":"g","typetext":"y=<integer>"}}}`,
		`{"type":"object","properties":{"a":{"type":"string","format":"f"},"b":{"type":"string","format":"g"}}}`))
	props := d.Operations[0].Returns.Properties
	require.NotNil(t, props["a"].FormatSchema)
	assert.Equal(t, "integer", props["a"].FormatSchema.Properties["x"].Type)
	assert.NotSame(t, d.Operations[0].Parameters.Properties["a"].FormatSchema, props["a"].FormatSchema)
	assert.Nil(t, props["b"].FormatSchema, "two grammars for one name say nothing")
}

func TestParseOperation(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, path, verb, info, want string }{
		{
			"path parameters that are not declared", "/a/{b}/c/{d-e}", "GET", `{"method":"GET","parameters":{"additionalProperties":0}}`,
			`{"path":"/a/{b}/c/{d-e}","method":"GET","parameters":{"type":"object","noAdditional":true,"properties":{"b":{"type":"string"},"d-e":{"type":"string"}}},"returns":{}}`,
		},
		{
			"a path parameter that is marked optional", "/a/{pos}", "PUT", `{"method":"PUT","parameters":{"properties":{"pos":{"type":"integer","optional":1}}}}`,
			`{"path":"/a/{pos}","method":"PUT","parameters":{"type":"object","properties":{"pos":{"type":"integer"}}},"returns":{}}`,
		},
		{"no parameters", "/a", "GET", `{"method":"GET"}`, `{"path":"/a","method":"GET","parameters":{"type":"object"},"returns":{}}`},
		{"the root", "/", "GET", `{"method":"GET"}`, `{"path":"/","method":"GET","parameters":{"type":"object"},"returns":{}}`},
		{"returns null", "/a", "GET", `{"method":"GET","returns":null,"parameters":null}`, `{"path":"/a","method":"GET","parameters":{"type":"object"},"returns":{}}`},
		{
			"links", "/a", "GET", `{"returns":{"type":"array","items":{"type":"object"},"links":[{"rel":"child","href":"{name}"}]}}`,
			`{"path":"/a","method":"GET","parameters":{"type":"object"},"returns":{"type":"array","items":{"type":"object"},"links":["{name}"]}}`,
		},
		{
			"Perl's attributes", "/a", "POST", `{"method":"POST","name":"create","description":"d","protected":1,"proxyto":"node","allowtoken":0,"download_allowed":1,"expose_credentials":1}`,
			`{"path":"/a","method":"POST","name":"create","description":"d","protected":true,"proxyto":"node","notoken":true,"download_allowed":true,"expose_credentials":true,"parameters":{"type":"object"},"returns":{}}`,
		},
		{"tokens allowed, node null", "/a", "POST", `{"allowtoken":1,"proxyto":null}`, `{"path":"/a","method":"POST","parameters":{"type":"object"},"returns":{}}`},
		{"Rust's attributes", "/a", "GET", `{"method":"GET","unstable":true}`, `{"path":"/a","method":"GET","unstable":true,"parameters":{"type":"object"},"returns":{}}`},
		{"a download", "/a", "GET", `{"method":"DOWNLOAD"}`, `{"path":"/a","method":"GET","stream":"download","parameters":{"type":"object"},"returns":{}}`},
		{"an upload", "/a", "POST", `{"method":"UPLOAD"}`, `{"path":"/a","method":"POST","stream":"upload","parameters":{"type":"object"},"returns":{}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := parse(t, fmt.Sprintf(`[{"path":%q,"text":"a","info":{%q:%s}}]`, tc.path, tc.verb, tc.info))
			assert.JSONEq(t, tc.want, compact(t, d.Operations[0]))
		})
	}
}

func TestParseFlattensParameters(t *testing.T) {
	t.Parallel()
	d := parse(t, tree("rust", `{"type":"object","type-property":"kind","type-property-schema":{"type":"string","enum":["x","y"]},"oneOf":[
		{"instance-type":"x","type":"object","additionalProperties":false,"properties":{"all":{"type":"string","description":"p"},"some":{"type":"integer"},"differs":{"type":"string"},"maybe":{"type":"string"}}},
		{"instance-type":"y","type":"object","additionalProperties":false,"properties":{"all":{"type":"string","description":"q"},"differs":{"type":"integer"},"maybe":{"type":"string","optional":1}}}]}`, `{}`))
	assert.JSONEq(t, `{"type":"object","noAdditional":true,"properties":{
		"kind":{"type":"string","enum":["x","y"]},
		"all":{"type":"string","description":"p"},
		"some":{"type":"integer","optional":true,"typeProperty":"kind","instanceTypes":["x"]},
		"differs":{"oneOf":[{"type":"string","instanceTypes":["x"]},{"type":"integer","instanceTypes":["y"]}],"typeProperty":"kind"},
		"maybe":{"type":"string","optional":true}}}`, compact(t, d.Operations[0].Parameters))
}

func TestParseSortsOperations(t *testing.T) {
	t.Parallel()
	d := parse(t, `[{"path":"/b","text":"b","info":{"PUT":{},"GET":{}},"children":[{"path":"/b/{x}","text":"{x}","info":{"GET":{}}}]},{"path":"/a","text":"a","info":{"GET":{}},"children":null}]`)
	var got []string
	for _, op := range d.Operations {
		got = append(got, op.Method+" "+op.Path)
	}
	assert.Equal(t, []string{"GET /a", "GET /b", "PUT /b", "GET /b/{x}"}, got)
}

func TestParseDialect(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, info, want string }{
		{"nothing tells", `{"method":"GET"}`, "perl"},
		{"integers for booleans", `{"parameters":{"additionalProperties":0}}`, "perl"},
		{"booleans", `{"parameters":{"additionalProperties":false}}`, "rust"},
		{"unstable", `{"unstable":false}`, "rust"},
		{"a check as array", `{"permissions":{"check":["perm","/",["Sys.Audit"]]}}`, "perl"},
		{"a check as object", `{"permissions":{"check":{"path":[],"privs":["Sys.Audit"]}}}`, "rust"},
		{"one stray boolean", `{"name":"n","allowtoken":1,"protected":1,"parameters":{"additionalProperties":false}}`, "perl"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tc.want, parse(t, `[{"path":"/x","text":"x","info":{"GET":`+tc.info+`}}]`).Dialect)
		})
	}
}

func TestParsePermissions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, in, want string }{
		{"world", `{"user":"world"}`, `{"user":"world"}`},
		{"all, with conditions in words", `{"user":"all","description":"Only what one may see."}`, `{"user":"all","prose":true}`},
		{"an empty description", `{"user":"all","description":""}`, `{"user":"all"}`},
		{"nothing", `{}`, `{}`},

		{"perm", `{"check":["perm","/vms/{vmid}",["VM.Audit"]]}`, `{"check":{"op":"perm","path":"/vms/{vmid}","privs":["VM.Audit"]}}`},
		{"perm with any", `{"check":["perm","/",["A.B","C.D"],"any",1]}`, `{"check":{"op":"perm","path":"/","privs":["A.B","C.D"],"any":true}}`},
		{"perm with require_param", `{"check":["perm","/pool/{pool}",["A.B"],"require_param","pool"]}`, `{"check":{"op":"perm","path":"/pool/{pool}","privs":["A.B"],"requireParam":"pool"}}`},
		{"perm with one privilege as text", `{"check":["perm","/","A.B"]}`, `{"check":{"op":"perm","path":"/","privs":["A.B"]}}`},
		{
			"and, or", `{"check":["and",["perm","/a",["A.B"]],["or",["perm","/b",["A.B"]],["perm","/c",["A.B"]]]]}`,
			`{"check":{"op":"and","checks":[{"op":"perm","path":"/a","privs":["A.B"]},{"op":"or","checks":[{"op":"perm","path":"/b","privs":["A.B"]},{"op":"perm","path":"/c","privs":["A.B"]}]}]}}`,
		},
		{
			"a list of checks without a word", `{"check":[["perm","/a",["A.B"]],["perm","/b",["A.B"]]]}`,
			`{"check":{"op":"and","checks":[{"op":"perm","path":"/a","privs":["A.B"]},{"op":"perm","path":"/b","privs":["A.B"]}]}}`,
		},
		{"userid-param self", `{"check":["userid-param","self"]}`, `{"check":{"op":"userid-param","args":["self"]}}`},
		{"userid-param with a privilege", `{"check":["userid-param","Realm.AllocateUser"]}`, `{"check":{"op":"userid-param","privs":["Realm.AllocateUser"]}}`},
		{"userid-group", `{"check":["userid-group",["User.Modify"],"groups_param","create"]}`, `{"check":{"op":"userid-group","privs":["User.Modify"],"args":["groups_param","create"]}}`},
		{"perm-modify", `{"check":["perm-modify","{path}"]}`, `{"check":{"op":"perm-modify","path":"{path}"}}`},
		{"roles", `{"check":["admin","audit"]}`, `{"check":{"op":"role","args":["admin","audit"]}}`},
		{"check null", `{"check":null,"user":"all"}`, `{"user":"all"}`},

		{"Rust's check", `{"check":{"partial":false,"path":["system","disks"],"privs":["Sys.Modify"]}}`, `{"check":{"op":"perm","path":"/system/disks","privs":["Sys.Modify"]}}`},
		{"Rust's partial check", `{"check":{"partial":true,"path":["datastore","{store}"],"privs":["D.A","D.B"]}}`, `{"check":{"op":"perm","path":"/datastore/{store}","privs":["D.A","D.B"],"any":true}}`},
		{"Rust's root", `{"check":{"path":[],"privs":["Sys.Audit"]}}`, `{"check":{"op":"perm","path":"/","privs":["Sys.Audit"]}}`},
		{"Rust's root as a slash", `{"check":{"path":["/"],"privs":["Sys.Audit"]}}`, `{"check":{"op":"perm","path":"/","privs":["Sys.Audit"]}}`},
		{
			"Rust's or, userParam", `{"or":[{"check":{"path":["access"],"privs":["A.B"]}},{"userParam":"userid"},{"user":"root@pam"},{"group":"g"}]}`,
			`{"check":{"op":"or","checks":[{"op":"perm","path":"/access","privs":["A.B"]},{"op":"user","path":"{userid}"},{"op":"user","path":"root@pam"},{"op":"group","path":"g"}]}}`,
		},
		{"Rust's and of one", `{"and":[{"check":{"path":["a"],"privs":["A.B"]}}],"description":"And more."}`, `{"check":{"op":"perm","path":"/a","privs":["A.B"]},"prose":true}`},
		{"Rust's withParam", `{"withParam":{"name":"store","permissions":{"check":{"path":["a"],"privs":["A.B"]}}}}`, `{"check":{"op":"perm","path":"/a","privs":["A.B"],"requireParam":"store"}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := parse(t, `[{"path":"/x","text":"x","info":{"GET":{"permissions":`+tc.in+`}}}]`)
			assert.JSONEq(t, tc.want, compact(t, d.Operations[0].Permissions))
		})
	}
}

func TestFacts(t *testing.T) {
	t.Parallel()
	d := parse(t, `[{"path":"/x","text":"x","info":{"GET":{"description":"Does it.","permissions":{"description":"Words."},
		"parameters":{"description":"p","properties":{"description":{"type":"string","description":"q","format":{"a":{"type":"string","description":"r"}}}}},
		"returns":{"description":"s","type":"array","items":{"description":"t","type":"object","properties":{"u":{"oneOf":[{"type":"string","description":"v"}]}}}}}}}]`)
	before := compact(t, d)
	f := apidoc.Facts(d)
	assert.Equal(t, before, compact(t, d), "the document itself stays")
	assert.JSONEq(t, `{"path":"/x","method":"GET","permissions":{"prose":true},
		"parameters":{"type":"object","properties":{"description":{"type":"string","formatSchema":{"type":"object","noAdditional":true,"properties":{"a":{"type":"string"}}}}}},
		"returns":{"type":"array","items":{"type":"object","properties":{"u":{"type":"string","oneOf":[{"type":"string"}]}}}}}`, compact(t, f.Operations[0]))
}

// TestParseRefuses has one case for each kind of bad input; the error must say
// what was found.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	good := tree("perl", `{"additionalProperties":0}`, `{"type":"null"}`)
	for _, tc := range []struct{ name, text, want string }{
		{"an empty file", "", "the file is empty"},
		{"only blanks", " \n\t", "the file is empty"},
		{"a login page", "<!DOCTYPE html>\n<html><head><title>pve1 - Proxmox Virtual Environment</title></head></html>", `an HTML page ("pve1 - Proxmox Virtual Environment")`},
		{"a page without title", "  <html></html>", "an HTML or XML page"},
		{"gzip", "\x1f\x8b\x08\x00", "compressed with gzip"},
		{"UTF-16", "\xff\xfe[\x00", "UTF-16"},
		{"prose", "No such file or directory", `it begins "No such file or directory"`},
		{"a script without a tree", "var x = 1; function f() { return [1]; }", "no API description found"},
		{"a script with another array", "var x = [1, 2];", "its first element is the number 1"},
		{"a truncated script", "const apiSchema = " + good[:len(good)-3], "the file is cut short: it ends at line 1"},
		{"a script cut before the tree", "// API\nconst apiSchema =\n", "cut short: it ends at line 3, after an equals sign"},
		{"a truncated tree", strings.ReplaceAll(good[:60], ",", ",\n"), "cut short"},
		{"a tree that is no JSON", "const apiSchema = [\n{ path: '/x' }\n];", "line 2: not JSON"},
		{"an empty array", "[]", "an empty array"},
		{"an empty array in a script", "const apiSchema = [];", "an empty array"},
		{"an array of numbers", "[1,2]", "its first element is the number 1"},
		{"an array of other objects", `[{"name":"a"}]`, `an object with the keys "name"`},
		{"an API's answer", `{"data":null}`, `a JSON object with the keys "data"`},
		{"an OpenAPI document", `{"openapi":"3.0.3","paths":{}}`, `"openapi", "paths"`},
		{"a tree without operations", `[{"path":"/x","text":"x","leaf":0}]`, "not one operation"},
		{"a damaged canonical document", `{"operations":[],"dialect":"perl"}`, "no operations"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d, err := apidoc.Parse([]byte(tc.text), "demo", "1.0")
			assert.Nil(t, d)
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

// TestParseNotUnderstood has one case for each construct that Parse must not
// skip; the error names the place.
func TestParseNotUnderstood(t *testing.T) {
	t.Parallel()
	info := func(s string) string { return `[{"path":"/x/{y}","text":"x","info":{"POST":` + s + `}}]` }
	param := func(s string) string { return info(`{"parameters":{"properties":{"net[n]":` + s + `}}}`) }
	for _, tc := range []struct{ name, text, where, what string }{
		{"a key of a node", `[{"path":"/x","text":"x","colour":1,"info":{"GET":{}}}]`, "/x", `unknown key "colour"`},
		{"a node that is none", `[{"path":"/x","text":"x","info":{"GET":{}},"children":[7]}]`, "/x child 0", "is the number 7, want an object with a path"},
		{"a node without path", `[{"path":"/x","text":"x","info":{"GET":{}},"children":[{"text":"y"}]}]`, "/x child 0", "path is missing or null"},
		{"children that are none", `[{"path":"/x","text":"x","info":{"GET":{}},"children":{}}]`, "/x", "children is an object with no keys, want an array"},
		{"info that is none", `[{"path":"/x","text":"x","info":[]}]`, "/x", "info is an array of 0"},
		{"a path with an odd brace", `[{"path":"/x/{y","text":"x","info":{"GET":{}}}]`, "/x/{y", `segment "{y"`},
		{"a path with an empty segment", `[{"path":"/x//y","text":"x","info":{"GET":{}}}]`, "/x//y", "empty segment"},
		{"a path with a question mark", `[{"path":"/x?y","text":"x","info":{"GET":{}}}]`, "/x?y", `segment "x?y" has characters`},
		{"a path with a line break", `[{"path":"/x\ny","text":"x","info":{"GET":{}}}]`, "/x\ny", "has characters"},
		{"a path with a parameter twice", `[{"path":"/{y}/{y}","text":"x","info":{"GET":{}}}]`, "/{y}/{y}", "{y} twice"},
		{"an operation twice", `[{"path":"/x","text":"x","info":{"GET":{}}},{"path":"/x","text":"x","info":{"GET":{}}}]`, "/x GET", "appears twice"},
		{"a verb", `[{"path":"/x","text":"x","info":{"FETCH":{}}}]`, "/x FETCH", `"FETCH" is no HTTP method`},
		{"a method unlike the verb", info(`{"method":"PUT"}`), "/x/{y} POST", `method is "PUT", want POST`},
		{"an operation that is none", info(`[]`), "/x/{y} POST", "is an array of 0"},
		{"a key of an operation", info(`{"cache":1}`), "/x/{y} POST", `unknown key "cache"`},
		{"a flag", info(`{"protected":2}`), "/x/{y} POST protected", "is the number 2, want a boolean"},
		{"parameters that are no object", info(`{"parameters":{"type":"string"}}`), "/x/{y} POST parameters", `type is "string", want object`},
		{"parameters that are no schema", info(`{"parameters":[]}`), "/x/{y} POST parameters", "is an array of 0"},

		{"a key of a schema", param(`{"foo":1}`), "/x/{y} POST parameters.net[n]", `unknown key "foo"`},
		{"a key deep in a result", info(`{"returns":{"type":"array","items":{"properties":{"a":{"foo":1}}}}}`), "/x/{y} POST returns[].a", `unknown key "foo"`},
		{"a key in a format", param(`{"type":"string","format":{"model":{"foo":1}}}`), "/x/{y} POST parameters.net[n]~.model", `unknown key "foo"`},
		{"a key in a variant", param(`{"oneOf":[{"type":"string"},{"foo":1}]}`), "/x/{y} POST parameters.net[n]|1", `unknown key "foo"`},
		{"a key in additionalProperties", param(`{"type":"object","additionalProperties":{"foo":1}}`), "/x/{y} POST parameters.net[n].{}", `unknown key "foo"`},
		{"a type", param(`{"type":"text"}`), "/x/{y} POST parameters.net[n]", `unknown type "text"`},
		{"a type that is a list", param(`{"type":["string","null"]}`), "/x/{y} POST parameters.net[n] type", "is an array of 2"},
		{"optional", param(`{"optional":"maybe"}`), "/x/{y} POST parameters.net[n] optional", `is the text "maybe"`},
		{"a bound", param(`{"minimum":"few"}`), "/x/{y} POST parameters.net[n] minimum", `is the text "few", want a number`},
		{"an infinite bound", param(`{"maximum":"Inf"}`), "/x/{y} POST parameters.net[n] maximum", "want a number"},
		{"a length", param(`{"maxLength":-1}`), "/x/{y} POST parameters.net[n] maxLength", "want a length"},
		{"an enum that is none", param(`{"enum":"a"}`), "/x/{y} POST parameters.net[n] enum", `is the text "a", want an array`},
		{"an enum of objects", param(`{"enum":[{}]}`), "/x/{y} POST parameters.net[n] enum", "has an object"},
		{"properties that are none", param(`{"properties":[]}`), "/x/{y} POST parameters.net[n] properties", "is an array of 0"},
		{"a property that is none", param(`{"properties":{"a":"string"}}`), "/x/{y} POST parameters.net[n].a", `is the text "string"`},
		{"a property without name", param(`{"properties":{"":{}}}`), "/x/{y} POST parameters.net[n]", `a property is called ""`},
		{"a property with a quote in its name", param(`{"properties":{"a\"b":{}}}`), "/x/{y} POST parameters.net[n]", `a property is called "a\"b"`},
		{"a key with a blank in its name", param(`{"format":{"a b":{}}}`), "/x/{y} POST parameters.net[n]~", `a property is called "a b"`},
		{"items that are none", param(`{"items":1}`), "/x/{y} POST parameters.net[n][]", "is the number 1"},
		{"no variants", param(`{"oneOf":[]}`), "/x/{y} POST parameters.net[n] oneOf", "is an array of 0"},
		{"something else than objects put together", param(`{"allOf":[{"type":"string"}]}`), "/x/{y} POST parameters.net[n]&0", `has type "string", want object`},
		{"a property in two of the objects put together", param(`{"allOf":[{"properties":{"a":{}}},{"properties":{"a":{}}}]}`), "/x/{y} POST parameters.net[n]&1.a", "two of the schemas"},
		{"nothing put together", param(`{"allOf":{}}`), "/x/{y} POST parameters.net[n] allOf", "want an array of schemas"},
		{"a default key that is none", param(`{"default_key":"a","properties":{"b":{}}}`), "/x/{y} POST parameters.net[n]", `default_key names "a"`},
		{"a key alias that is none", param(`{"format":{"a":{"alias":"b","keyAlias":"c"}}}`), "/x/{y} POST parameters.net[n]~.a", `keyAlias names "c"`},
		{"a link", info(`{"returns":{"links":[{"rel":"child","href":"x","method":"GET"}]}}`), "/x/{y} POST returns links", `unknown key "method"`},
		{"a link to something else", info(`{"returns":{"links":[{"rel":"sibling","href":"x"}]}}`), "/x/{y} POST returns links", `unknown relation "sibling"`},
		{"links that are none", info(`{"returns":{"links":"x"}}`), "/x/{y} POST returns links", `is the text "x"`},
		{"a format that is none", param(`{"format":1}`), "/x/{y} POST parameters.net[n] format", "is the number 1"},

		{"a check", info(`{"permissions":{"check":["vote","/x"]}}`), "/x/{y} POST permissions check", `unknown check "vote"`},
		{"an empty check", info(`{"permissions":{"check":[]}}`), "/x/{y} POST permissions check", "is an empty array"},
		{"a check within one", info(`{"permissions":{"check":["or",["perm","/",["A.B"]],["vote"]]}}`), "/x/{y} POST permissions check", `unknown check "vote"`},
		{"an option of a check", info(`{"permissions":{"check":["perm","/",["A.B"],"some",1]}}`), "/x/{y} POST permissions check", `unknown option "some"`},
		{"an option without value", info(`{"permissions":{"check":["perm","/",["A.B"],"any"]}}`), "/x/{y} POST permissions check", "option without a value"},
		{"perm without privileges", info(`{"permissions":{"check":["perm","/"]}}`), "/x/{y} POST permissions check", "want a path and privileges"},
		{"perm with an empty path", info(`{"permissions":{"check":["perm","",["A.B"]]}}`), "/x/{y} POST permissions check", "want neither to be empty"},
		{"perm with no privileges in the list", info(`{"permissions":{"check":["perm","/",[]]}}`), "/x/{y} POST permissions check", "want neither to be empty"},
		{"and without checks", info(`{"permissions":{"check":["and"]}}`), "/x/{y} POST permissions check", `"and" has no checks`},
		{"a key of permissions", info(`{"permissions":{"quota":1}}`), "/x/{y} POST permissions", `unknown key "quota"`},
		{"a key of Rust's check", info(`{"permissions":{"check":{"path":["a"],"privs":["A.B"],"foo":1}}}`), "/x/{y} POST permissions check", `unknown key "foo"`},
		{"Rust's check without path", info(`{"permissions":{"check":{"privs":["A.B"]}}}`), "/x/{y} POST permissions check", "want path and privs"},
		{"Rust's or of nothing", info(`{"permissions":{"or":[]}}`), "/x/{y} POST permissions or", "is an array of 0"},
		{"two of Rust's forms at once", info(`{"permissions":{"or":[{"user":"a"}],"and":[{"user":"a"}]}}`), "/x/{y} POST permissions", `have the keys "and", "or"`},
		{"Perl's and Rust's form at once", info(`{"permissions":{"check":["perm","/",["A.B"]],"userParam":"u"}}`), "/x/{y} POST permissions", "a check in two forms"},
		{"permissions that are none", info(`{"permissions":"root"}`), "/x/{y} POST permissions", `is the text "root"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d, err := apidoc.Parse([]byte(tc.text), "demo", "1.0")
			assert.Nil(t, d)
			bad, ok := errors.AsType[*apidoc.ParseError](err)
			require.True(t, ok, "%v", err)
			require.Len(t, bad.Problems, 1, "%v", err)
			assert.Equal(t, tc.where, bad.Problems[0].Where)
			assert.Contains(t, bad.Problems[0].What, tc.what)
			assert.ErrorContains(t, err, "1 thing in the API description is not understood:\n  "+tc.where+": ")
		})
	}
}

func TestParseCollectsProblems(t *testing.T) {
	t.Parallel()
	var props []string
	for i := range 50 {
		props = append(props, fmt.Sprintf(`"p%02d":{"foo":1}`, i))
	}
	text := tree("perl", `{"properties":{`+strings.Join(props, ",")+`}}`, `{"type":"what"}`)
	_, err := apidoc.Parse([]byte(text), "demo", "1.0")
	bad, ok := errors.AsType[*apidoc.ParseError](err)
	require.True(t, ok)
	assert.Len(t, bad.Problems, 20)
	assert.Equal(t, 31, bad.More)
	assert.ErrorContains(t, err, "51 things")
	assert.ErrorContains(t, err, "and 31 more")
	for range 5 {
		_, again := apidoc.Parse([]byte(text), "demo", "1.0")
		assert.EqualError(t, again, err.Error(), "the same input gives the same error")
	}
}

func TestParseDepth(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"items":`, 500) + `{}` + strings.Repeat(`}`, 500)
	_, err := apidoc.Parse([]byte(tree("perl", "{}", deep)), "demo", "1.0")
	assert.ErrorContains(t, err, "more than 100 schemas within one another")

	check := strings.Repeat(`["and",`, 500) + `["perm","/",["A.B"]]` + strings.Repeat(`]`, 500)
	_, err = apidoc.Parse([]byte(`[{"path":"/x","text":"x","info":{"GET":{"permissions":{"check":`+check+`}}}}]`), "demo", "1.0")
	assert.ErrorContains(t, err, "more than 100 checks within one another")

	nodes := strings.Repeat(`[{"path":"/x","text":"x","children":`, 500) + `[]` + strings.Repeat(`}]`, 500)
	_, err = apidoc.Parse([]byte(nodes), "demo", "1.0")
	assert.ErrorContains(t, err, "more than 100 levels of paths")
}
