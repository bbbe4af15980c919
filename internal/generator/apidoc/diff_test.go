package apidoc_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	facts "github.com/proxkit/proxkit/apidoc"
	"github.com/proxkit/proxkit/internal/generator/apidoc"
)

// TestDiffChanges has one case for each kind of change. The lines are those of
// the text report; ! marks what is breaking.
func TestDiffChanges(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, older, newer string // the operation
		want               []string
	}{
		{"nothing", `{"description":"a"}`, `{"description":"b"}`, nil},

		{"parameter added", params(``), params(`"a":{"type":"integer","optional":1}`), []string{"  parameter a added (optional integer)"}},
		{"parameter added and required", params(``), params(`"a":{"type":"array","items":{"type":"string"}}`), []string{"! parameter a added (array of string)"}},
		{"parameter removed", params(`"a":{"type":"string","optional":1}`), params(``), []string{"! parameter a removed (optional string)"}},
		{"parameter retyped", params(`"a":{"type":"integer"}`), params(`"a":{"type":"string"}`), []string{"! parameter a type: integer -> string"}},
		{"parameter retyped to hold more", params(`"a":{"type":"integer"}`), params(`"a":{"type":"number"}`), []string{"  parameter a type: integer -> number"}},
		{"parameter newly required", params(`"a":{"type":"string","optional":1}`), params(`"a":{"type":"string"}`), []string{"! parameter a is required now"}},
		{"parameter no longer required", params(`"a":{"type":"string"}`), params(`"a":{"type":"string","optional":1}`), []string{"  parameter a is optional now"}},
		{
			"limits narrowed", params(`"a":{"type":"integer","minimum":1}`), params(`"a":{"type":"integer","minimum":2,"maximum":9}`),
			[]string{"! parameter a minimum: 1 -> 2", "! parameter a maximum: none -> 9"},
		},
		{
			"limits widened", params(`"a":{"type":"string","minLength":2,"maxLength":8}`), params(`"a":{"type":"string","maxLength":9}`),
			[]string{"  parameter a minLength: 2 -> none", "  parameter a maxLength: 8 -> 9"},
		},
		{"enum values", params(`"a":{"enum":["x","y"]}`), params(`"a":{"enum":["y","z"]}`), []string{"! parameter a enum +z -x"}},
		{"enum value added", params(`"a":{"enum":["x"]}`), params(`"a":{"enum":["x","y"]}`), []string{"  parameter a enum +y"}},
		{"enum in another order", params(`"a":{"enum":["x","y"]}`), params(`"a":{"enum":["y","x"]}`), nil},
		{"enum introduced", params(`"a":{"type":"string"}`), params(`"a":{"type":"string","enum":["x","y"]}`), []string{"! parameter a must be one of x, y now"}},
		{"enum dropped", params(`"a":{"type":"string","enum":["x"]}`), params(`"a":{"type":"string"}`), []string{"  parameter a may be any value now"}},
		{"default", params(`"a":{"type":"boolean","default":1}`), params(`"a":{"type":"boolean","default":0}`), []string{"  parameter a default: true -> false"}},
		{
			"pattern and format", params(`"a":{"type":"string","pattern":"x"}`), params(`"a":{"type":"string","format":"f"}`),
			[]string{"  parameter a pattern: x -> none", "  parameter a format: none -> f"},
		},
		{"other keys refused", params(``), `{"parameters":{"additionalProperties":0,"properties":{}}}`, []string{"! parameter additional: true -> false"}},
		{
			"within a property string", params(`"a[n]":{"type":"string","format":{"k":{"type":"string"}}}`), params(`"a[n]":{"type":"string","format":{"k":{"type":"integer"},"l":{"alias":"k"}}}`),
			[]string{"! parameter a[n]~k type: string -> integer", "  parameter a[n]~l added (another name of k)"},
		},
		{
			"a property string described", params(`"a":{"type":"string"}`), params(`"a":{"type":"string","format":{"k":{"type":"string"}}}`),
			[]string{"  parameter a~ format: not described -> object"},
		},

		{"field added", result(`{"type":"object"}`), result(`{"type":"object","properties":{"a":{"type":"string"}}}`), []string{"  result a added (string)"}},
		{"field removed", result(`{"type":"array","items":{"properties":{"a":{"type":"string"}}}}`), result(`{"type":"array","items":{"type":"object"}}`), []string{"! result [].a removed (string)"}},
		{"field retyped", result(`{"properties":{"a":{"type":"string"}}}`), result(`{"properties":{"a":{"type":"integer"}}}`), []string{"! result a type: string -> integer"}},
		{"field that may be missing now", result(`{"properties":{"a":{"type":"string"}}}`), result(`{"properties":{"a":{"type":"string","optional":1}}}`), []string{"! result a is optional now"}},
		{"field always there now", result(`{"properties":{"a":{"type":"string","optional":1}}}`), result(`{"properties":{"a":{"type":"string"}}}`), []string{"  result a is required now"}},
		{"field with another limit", result(`{"properties":{"a":{"type":"integer"}}}`), result(`{"properties":{"a":{"type":"integer","minimum":1}}}`), []string{"  result a minimum: none -> 1"}},
		{"result of another kind", result(`{"type":"string"}`), result(`{"type":"object"}`), []string{"! result: value -> object"}},
		{"result described at last", result(`{}`), result(`{"type":"array"}`), []string{"  result: undescribed -> list"}},
		{"result where nothing was promised", result(`{"type":"null"}`), result(`{"type":"string"}`), []string{"  result: nothing -> value"}},
		{"values of a map", result(`{"type":"object","additionalProperties":{"type":"string"}}`), result(`{"type":"object","additionalProperties":{"type":"integer"}}`), []string{"! result .{} type: string -> integer"}},
		{
			"variants", result(`{"type":"object","oneOf":[{"type":"object"},{"type":"object"}]}`), result(`{"type":"object","oneOf":[{"type":"object","properties":{"a":{"type":"string"}}}]}`),
			[]string{"! result variants: 2 -> 1", "  result |0.a added (string)"},
		},

		{"tokens refused", `{"allowtoken":1}`, `{"allowtoken":0}`, []string{"! token: accepted -> refused"}},
		{"node", `{"allowtoken":1}`, `{"allowtoken":1,"proxyto":"node"}`, []string{"  node: none -> node"}},
		{"stream", `{"method":"GET"}`, `{"method":"DOWNLOAD"}`, []string{"! stream: none -> download"}},
		{"protected", `{}`, `{"protected":1}`, []string{"  protected: false -> true"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := apidoc.Diff(operation(t, tc.older), operation(t, tc.newer))
			assert.Equal(t, tc.want, lines(r))
		})
	}
}

func TestDiffPrivileges(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, older, newer string
		want               []string
	}{
		{"the same in another form", `{"check":["perm","/",["A.B"]]}`, `{"check":{"path":[],"privs":["A.B"]}}`, nil},
		{"another privilege", `{"check":["perm","/",["A.B"]]}`, `{"check":["perm","/",["C.D"]]}`, []string{"! privileges: A.B on / -> C.D on /"}},
		{"one more privilege", `{"check":["perm","/",["A.B"]]}`, `{"check":["perm","/",["A.B","C.D"]]}`, []string{"! privileges: A.B on / -> A.B and C.D on /"}},
		{"another privilege will do", `{"check":["perm","/",["A.B"]]}`, `{"check":["perm","/",["A.B","C.D"],"any",1]}`, []string{"  privileges: A.B on / -> A.B or C.D on /"}},
		{"another path will do", `{"check":["perm","/a",["A.B"]]}`, `{"check":["or",["perm","/a",["A.B"]],["perm","/b",["A.B"]]]}`, []string{"  privileges: A.B on /a -> (A.B on /a or A.B on /b)"}},
		{"both paths needed", `{"check":["perm","/a",["A.B"]]}`, `{"check":["and",["perm","/a",["A.B"]],["perm","/b",["A.B"]]]}`, []string{"! privileges: A.B on /a -> (A.B on /a and A.B on /b)"}},
		{"opened to users", `{"check":["perm","/",["A.B"]]}`, `{"user":"all"}`, []string{"  privileges: A.B on / -> every user"}},
		{"closed to users", `{"user":"all"}`, `{"check":["perm","/",["A.B"]]}`, []string{"! privileges: every user -> A.B on /"}},
		{"opened to everybody", `{"user":"all"}`, `{"user":"world"}`, []string{"  privileges: every user -> everybody"}},
		{"closed to strangers", `{"user":"world"}`, `{"user":"all"}`, []string{"! privileges: everybody -> every user"}},
		{"opened beyond root", `{}`, `{"check":["perm","/",["A.B"]]}`, []string{"  privileges: root only -> A.B on /"}},
		{"closed but to root", `{"check":["perm","/",["A.B"]]}`, `{}`, []string{"! privileges: A.B on / -> root only"}},
		{"a user besides", `{"user":"a@pve"}`, `{"user":"all"}`, []string{"  privileges: user a@pve -> every user"}},
		{"a parameter to be given", `{"check":["perm","/",["A.B"],"require_param","p"]}`, `{"check":["perm","/",["A.B"]]}`, []string{"  privileges: A.B on / (with p) -> A.B on /"}},
		{"conditions in words", `{"user":"all"}`, `{"user":"all","description":"Only on Sundays."}`, []string{"! privileges: every user -> every user; conditions in words"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := apidoc.Diff(operation(t, `{"permissions":`+tc.older+`}`), operation(t, `{"permissions":`+tc.newer+`}`))
			assert.Equal(t, tc.want, lines(r))
		})
	}
}

func params(props string) string   { return `{"parameters":{"properties":{` + props + `}}}` }
func result(returns string) string { return `{"returns":` + returns + `}` }

func operation(t *testing.T, info string) *facts.Document {
	t.Helper()
	return parse(t, `[{"path":"/x","text":"x","info":{"GET":`+info+`}}]`)
}

func lines(r *apidoc.Report) []string {
	var out []string
	for _, op := range r.Changed {
		for _, c := range op.Changes {
			mark := "  "
			if c.Breaking {
				mark = "! "
			}
			out = append(out, mark+c.String())
		}
	}
	return out
}

// Each directory in testdata/diff holds two API descriptions and both reports.
func TestDiffGolden(t *testing.T) {
	t.Parallel()
	read := func(name string) *facts.Document {
		data, err := os.ReadFile("testdata/diff/" + name)
		require.NoError(t, err)
		return parse(t, string(data))
	}
	r := apidoc.Diff(read("old.json"), read("new.json"))
	var text bytes.Buffer
	require.NoError(t, r.WriteText(&text))
	golden(t, "testdata/diff/report.txt", text.Bytes())
	asJSON, err := json.MarshalIndent(r, "", "  ")
	require.NoError(t, err)
	golden(t, "testdata/diff/report.json", append(asJSON, '\n'))
}

func TestDiffOfReleases(t *testing.T) {
	t.Parallel()
	load := func(version string) *facts.Document {
		d, err := facts.Load("pve", version)
		require.NoError(t, err)
		return d
	}
	r := apidoc.Diff(load("8.4"), load("9.2"))
	got, err := json.MarshalIndent(r.Summary, "", "  ")
	require.NoError(t, err)
	golden(t, "testdata/diff/pve-8.4-9.2.summary.json", append(got, '\n'))
	assert.Equal(t, []apidoc.OperationName{{Method: "GET", Path: "/nodes/{node}/scan/glusterfs"}}, r.Removed)
	assert.Contains(t, r.Added, apidoc.OperationName{Method: "GET", Path: "/cluster/ha/rules"})
	assert.Equal(t, 605+len(r.Added)-len(r.Removed), r.New.Operations)

	back := apidoc.Diff(load("9.2"), load("8.4"))
	assert.Equal(t, r.Added, back.Removed)
	assert.Len(t, back.Changed, len(r.Changed))
	assert.True(t, apidoc.Diff(load("9.2"), load("9.2")).Empty())
}

func TestDiffWriteTextOfNothing(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	d := operation(t, `{}`)
	require.NoError(t, apidoc.Diff(d, d).WriteText(&b))
	assert.True(t, strings.HasSuffix(b.String(), "\nno differences\n"), b.String())
}

func ExampleDiff() {
	older, err := apidoc.Parse([]byte(`[{"path":"/v","text":"v","info":{"GET":{"parameters":{"properties":{"full":{"type":"boolean","optional":1}}}}}}]`), "demo", "1")
	if err != nil {
		fmt.Println(err)
		return
	}
	newer, err := apidoc.Parse([]byte(`[{"path":"/v","text":"v","info":{"GET":{}}}]`), "demo", "2")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, op := range apidoc.Diff(older, newer).Changed {
		fmt.Println(op.Method, op.Path, op.Changes[0])
	}
	// Output: GET /v parameter full removed (optional boolean)
}
