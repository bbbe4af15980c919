package wire_test

import (
	"encoding/json"
	"errors"
	"math"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/internal/wire"
)

// remote is an object that PDM takes as a parameter.
type remote struct {
	ID    string   `json:"id"`
	Nodes []string `json:"nodes,omitempty"`
	On    *bool    `json:"on,omitempty"`
	Tags  []string `json:"tags,omitempty" px:"list"`
}

// broken is text that cannot be written.
type broken struct{}

func (broken) MarshalText() ([]byte, error) { return nil, errors.New("no text for this") }

// pointerText is text by its pointer's method alone.
type pointerText struct{ s string }

func (p *pointerText) MarshalText() ([]byte, error) { return []byte("<" + p.s + ">"), nil }

func TestEncode(t *testing.T) {
	t.Parallel()
	type text string
	for _, tc := range []struct {
		name   string
		params any
		skip   []string
		form   string
		perl   string
		rust   string
		noForm bool // cannot be said in a form without loss

		badForm bool // cannot be said in a form at all
	}{
		{name: "nil", params: nil, form: "", perl: `{}`},
		{name: "nil pointer", params: (*remote)(nil), form: "", perl: `{}`},
		{
			name: "scalars", params: &struct {
				Z string   `json:"z"`
				B *bool    `json:"b,omitempty"`
				C bool     `json:"c"`
				I int64    `json:"i"`
				U *uint64  `json:"u,omitempty"`
				F *float64 `json:"f,omitempty"`
				T text     `json:"t"`
				N *int64   `json:"n,omitempty"`
			}{Z: "", B: new(false), C: true, I: math.MinInt64, U: new(uint64(math.MaxUint64)), F: new(1e21), T: "a b"},
			form: "b=0&c=1&f=1000000000000000000000&i=-9223372036854775808&t=a+b&u=18446744073709551615&z=",
			perl: `{"b":0,"c":1,"f":1000000000000000000000,"i":-9223372036854775808,"t":"a b","u":18446744073709551615,"z":""}`,
			rust: `{"b":false,"c":true,"f":1000000000000000000000,"i":-9223372036854775808,"t":"a b","u":18446744073709551615,"z":""}`,
		},
		{
			name: "numbers are never exponents", params: map[string]any{"a": 1e-7, "b": 100.0, "c": float32(0.1), "d": json.Number("1.5e3"), "e": json.Number("1e-3"), "f": 1048576.0, "g": json.Number("1.50")},
			form: "a=0.0000001&b=100&c=0.1&d=1500&e=0.001&f=1048576&g=1.50",
			perl: `{"a":0.0000001,"b":100,"c":0.1,"d":1500,"e":0.001,"f":1048576,"g":1.50}`,
		},
		{name: "omitempty", params: struct {
			A string      `json:"a,omitempty"`
			B int64       `json:"b,omitempty"`
			C bool        `json:"c,omitempty"`
			D vmNet       `json:"d,omitempty"`
			E *string     `json:"e,omitempty"`
			F *string     `json:"f"`
			G []string    `json:"g"`
			H any         `json:"h"`
			I json.Number `json:"i,omitempty"`
			J string      `json:"-"`
			k string
		}{J: "no", k: "no"}, form: "", perl: `{}`},
		{
			name: "path parameters are skipped", params: &struct {
				Node string         `json:"node"`
				VMID int64          `json:"vmid"`
				Name *string        `json:"name,omitempty"`
				Net  map[int]string `json:"net[n],omitempty"`
			}{Node: "pve1", VMID: 7, Name: new("a"), Net: map[int]string{0: "x", 1: "y"}}, skip: []string{"node", "vmid", "net1"},
			form: "name=a&net0=x", perl: `{"name":"a","net0":"x"}`,
		},
		{
			name: "families sort with the rest", params: &struct {
				Net map[int]*vmNet `json:"net[n],omitempty"`
				N   string         `json:"nets"`
				A   string         `json:"name"`
			}{Net: map[int]*vmNet{2: {Model: "virtio", Bridge: new("vmbr0"), Firewall: new(false)}, 10: {Model: "e1000"}, 3: nil}, N: "x", A: "a"},
			form: "name=a&net10=e1000&net2=virtio%2Cbridge%3Dvmbr0%2Cfirewall%3D0&nets=x",
			perl: `{"name":"a","net10":"e1000","net2":"virtio,bridge=vmbr0,firewall=0","nets":"x"}`,
		},
		{
			name: "lists and arrays", params: &remote{ID: "r", Nodes: []string{"a", "b"}, Tags: []string{"x", "y"}},
			form: "id=r&nodes=a&nodes=b&tags=x%2Cy", perl: `{"id":"r","nodes":["a","b"],"tags":"x,y"}`,
		},
		{
			name: "array of one", params: &remote{ID: "r", Nodes: []string{"a"}, Tags: []string{"x"}},
			form: "id=r&nodes=a&tags=x", perl: `{"id":"r","nodes":["a"],"tags":"x"}`, noForm: true,
		},
		{
			name: "empty array and empty list", params: &remote{ID: "r", Nodes: []string{}, Tags: []string{}},
			form: "id=r&tags=", perl: `{"id":"r","nodes":[],"tags":""}`, noForm: true,
		},
		{
			name: "keys", params: struct {
				Q []string `json:"sshkeys,omitempty" px:"sshkeys"`
			}{[]string{"ssh-rsa A+ b\n", "ssh-rsa B"}},
			form: "sshkeys=ssh-rsa%2520A%252B%2520b%250Assh-rsa%2520B", perl: `{"sshkeys":"ssh-rsa%20A%2B%20b%0Assh-rsa%20B"}`,
		},
		{
			name: "numbers in lists", params: struct {
				L []int64  `json:"l,omitempty" px:"list"`
				A []uint64 `json:"a,omitempty"`
				F []bool   `json:"f,omitempty"`
			}{[]int64{1, -2}, []uint64{1, math.MaxUint64}, []bool{true, false}},
			form: "a=1&a=18446744073709551615&f=1&f=0&l=1%2C-2",
			perl: `{"a":[1,18446744073709551615],"f":[1,0],"l":"1,-2"}`,
			rust: `{"a":[1,18446744073709551615],"f":[true,false],"l":"1,-2"}`,
		},
		{name: "a list joined by another character", params: struct {
			L []string `json:"l,omitempty" px:"list=;"`
		}{[]string{"a", "b"}}, form: "l=a%3Bb", perl: `{"l":"a;b"}`},
		{
			name: "text types", params: struct {
				A upper        `json:"a"`
				B *upper       `json:"b,omitempty"`
				C pointerText  `json:"c"`
				D *pointerText `json:"d,omitempty"`
				E []upper      `json:"e,omitempty"`
				T time.Time    `json:"t"`
			}{"A", new(upper("B")), pointerText{"c"}, &pointerText{"d"}, []upper{"X", "Y"}, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
			form: "a=A&b=B&c=%3Cc%3E&d=%3Cd%3E&e=X&e=Y&t=2026-01-02T03%3A04%3A05Z",
			perl: `{"a":"A","b":"B","c":"<c>","d":"<d>","e":["X","Y"],"t":"2026-01-02T03:04:05Z"}`,
		},
		{
			name: "extra parameters", params: struct {
				Name  string                     `json:"name"`
				Net   map[int]string             `json:"net[n],omitempty"`
				Extra map[string]json.RawMessage `json:"-" px:"extra"`
			}{"a", map[int]string{0: "x"}, map[string]json.RawMessage{
				"new": json.RawMessage(`true`), "name": json.RawMessage(`"twice"`), "net0": json.RawMessage(`"twice"`), "list": json.RawMessage(` ["a", 1.5e2]`), "nil": json.RawMessage(`null`), "none": nil,
			}},
			form: "list=a&list=150&name=a&net0=x&new=1", perl: `{"list":["a",1.5e2],"name":"a","net0":"x","new":true}`, noForm: true,
		},
		{
			name: "map", params: map[string]any{"b": true, "a": "x", "n": 7, "u": uint8(3), "p": new(false), "nil": nil, "nilp": (*int)(nil), "list": []string{"x", "y"}, "any": []any{1, "z", true}, "net[n]": map[int]string{1: "q"}, "raw": json.RawMessage(`"s"`)},
			form: "a=x&any=1&any=z&any=1&b=1&list=x&list=y&n=7&net1=q&p=0&raw=s&u=3",
			perl: `{"a":"x","any":[1,"z",1],"b":1,"list":["x","y"],"n":7,"net1":"q","p":0,"raw":"s","u":3}`,
			rust: `{"a":"x","any":[1,"z",true],"b":true,"list":["x","y"],"n":7,"net1":"q","p":false,"raw":"s","u":3}`,
		},
		{
			name: "JSON types and raw values", params: &struct {
				T celsius           `json:"t"`
				R json.RawMessage   `json:"r,omitempty"`
				S []json.RawMessage `json:"s,omitempty"`
				N json.RawMessage   `json:"n,omitempty"`
				P **bool            `json:"p,omitempty"`
				L *[]string         `json:"l,omitempty" px:"list"`
			}{T: celsius{21}, R: json.RawMessage(` { "a" : [1] }`), S: []json.RawMessage{json.RawMessage(`1`), json.RawMessage(`null`), nil}, N: json.RawMessage(` null`), P: new(new(true)), L: &[]string{"a", "b"}},
			perl: `{"l":"a,b","p":1,"r":{"a":[1]},"s":[1,null,null],"t":21}`, rust: `{"l":"a,b","p":true,"r":{"a":[1]},"s":[1,null,null],"t":21}`, noForm: true, badForm: true,
		},
		{name: "JSON type as a whole", params: celsius{21}, form: "Degrees=21", perl: `{"Degrees":21}`},
		{name: "list with holes", params: struct {
			L []*string `json:"l,omitempty" px:"list"`
			A []*string `json:"a,omitempty"`
		}{[]*string{nil, new("x"), nil, new("y")}, []*string{new("x"), nil, new("y")}}, form: "a=x&a=y&l=x%2Cy", perl: `{"a":["x",null,"y"],"l":"x,y"}`},
		{name: "map of strings", params: map[string]string{"b": "2", "a": "&"}, form: "a=%26&b=2", perl: `{"a":"&","b":"2"}`},
		{name: "url.Values", params: url.Values{"b": {"2", "3"}, "a": {"x", "y"}}, form: "a=x&a=y&b=2&b=3", perl: `{"a":["x","y"],"b":["2","3"]}`},
		{name: "strange keys", params: map[string]any{"a&b": "1", "ü": "2"}, form: "a%26b=1&%C3%BC=2", perl: `{"a&b":"1","ü":"2"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			form, err := wire.EncodeForm(tc.params, tc.skip)
			if tc.badForm {
				assert.Error(t, err)
			} else {
				require.NoError(t, err)
			}
			assert.Equal(t, tc.form, form)

			perl, err := wire.EncodeJSON(tc.params, wire.Perl, tc.skip)
			require.NoError(t, err)
			assert.Equal(t, tc.perl, string(perl))

			want := tc.rust
			if want == "" {
				want = tc.perl
			}
			rust, err := wire.EncodeJSON(tc.params, wire.Rust, tc.skip)
			require.NoError(t, err)
			assert.Equal(t, want, string(rust))
			assert.True(t, json.Valid(rust))

			assert.Equal(t, !tc.noForm, wire.FormFits(tc.params, tc.skip))
		})
	}
}

func TestEncodeObjects(t *testing.T) {
	t.Parallel()
	type params struct {
		Name   string            `json:"name"`
		Remote *remote           `json:"remote,omitempty"`
		More   []remote          `json:"more,omitempty"`
		Map    map[string]bool   `json:"map,omitempty"`
		Ints   map[int]string    `json:"ints,omitempty"`
		Any    any               `json:"any,omitempty"`
		Labels map[string]string `json:"labels,omitempty"`
	}
	p := params{
		Name: "a", Remote: &remote{ID: "r", On: new(true), Tags: []string{"x", "y"}}, More: []remote{{ID: "s"}, {ID: "t", Nodes: []string{}}},
		Map: map[string]bool{"b": false, "a": true}, Ints: map[int]string{2: "b", 10: "a"}, Any: map[string]any{"on": true, "list": []any{false, nil}}, Labels: map[string]string{},
	}
	body, err := wire.EncodeJSON(&p, wire.Rust, nil)
	require.NoError(t, err)
	assert.Equal(t, `{"any":{"list":[false,null],"on":true},"ints":{"10":"a","2":"b"},"labels":{},"map":{"a":true,"b":false},"more":[{"id":"s"},{"id":"t","nodes":[]}],"name":"a","remote":{"id":"r","on":true,"tags":"x,y"}}`, string(body))
	body, err = wire.EncodeJSON(&p, wire.Perl, []string{"more", "ints"})
	require.NoError(t, err)
	assert.Equal(t, `{"any":{"list":[0,null],"on":1},"labels":{},"map":{"a":1,"b":0},"name":"a","remote":{"id":"r","on":1,"tags":"x,y"}}`, string(body))

	assert.False(t, wire.FormFits(&p, nil))
	assert.False(t, wire.FormFits(&params{Map: map[string]bool{}}, nil))
	assert.False(t, wire.FormFits(&params{Any: map[string]any{}}, nil))
	assert.True(t, wire.FormFits(&params{Name: "a", Any: "x"}, nil))
	assert.True(t, wire.FormFits(&p, []string{"remote", "more", "map", "ints", "any", "labels"}))
	_, err = wire.EncodeForm(&p, nil)
	assert.EqualError(t, err, "parameter any: an object cannot be sent in a form")
}

func TestEncodeRefuses(t *testing.T) {
	t.Parallel()
	one := func(v any) any { return map[string]any{"x": v} }
	for _, tc := range []struct {
		name   string
		params any
		form   string // error of the form; "" if it can be said
		json   string
	}{
		{name: "no parameters at all", params: 7, form: "parameters must be a struct or a map with string keys, not int", json: "not int"},
		{name: "map with other keys", params: map[int]string{1: "a"}, form: "not map[int]string", json: "not map[int]string"},
		{name: "not a number", params: one(math.NaN()), form: "parameter x: NaN is no number the server could read", json: "parameter x: NaN"},
		{name: "infinite", params: one(math.Inf(1)), form: "+Inf", json: "+Inf"},
		{name: "number that is none", params: one(json.Number("1x")), form: `"1x" is not a number`, json: `"1x" is not a number`},
		{name: "number beyond a float", params: one(json.Number("1e400")), form: "beyond", json: "beyond"},
		{name: "array of arrays", params: one([][]string{{"a"}, {"b"}}), form: "an array inside an array"},
		{name: "channel", params: one(make(chan int)), form: "a value of type chan int cannot be sent", json: "chan int"},
		{name: "function", params: one(func() {}), form: "func()", json: "func()"},
		{name: "text that fails", params: one(broken{}), form: "parameter x: no text for this", json: "parameter x: no text for this"},
		{name: "set and deleted", params: map[string]any{"net1": "virtio", "delete": []string{"net0", "net1"}}, form: "parameter net1: is set and named in delete", json: "parameter net1: is set and named in delete"},
		{name: "failing text inside", params: one([]any{map[string]any{"y": broken{}}}), form: "an object", json: "parameter x: [0]: y: no text for this"},
		{name: "no name", params: map[string]any{"": 1}, form: "no name", json: "no name"},
		{name: "family without members", params: map[string]any{"net[n]": "virtio"}, form: "name the members (net0, net1)", json: "name the members (net0, net1)"},
		{name: "raw text that is no JSON", params: one(json.RawMessage(`{`)), form: "invalid JSON", json: "not JSON"},
		{name: "bytes that are no UTF-8", params: one("\xff"), json: "parameter x: the text is not valid UTF-8"},
		{name: "property string with a comma", params: one(vmNet{Model: "virtio", Bridge: new("vmbr0,tag=5")}), form: "bridge: the value must not contain a comma", json: "bridge: the value must not contain a comma"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			form, err := wire.EncodeForm(tc.params, nil)
			if tc.form == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, tc.form)
				assert.Empty(t, form)
			}
			body, err := wire.EncodeJSON(tc.params, wire.Perl, nil)
			if tc.json == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, tc.json)
				assert.Empty(t, body)
			}
		})
	}
}

// What is sent does not depend on map order.
func TestEncodeIsStable(t *testing.T) {
	t.Parallel()
	p := bigCreateVM()
	first, err := wire.EncodeForm(p, nil)
	require.NoError(t, err)
	for range 50 {
		again, err := wire.EncodeForm(&p, nil)
		require.NoError(t, err)
		require.Equal(t, first, again)
	}
	values, err := url.ParseQuery(first)
	require.NoError(t, err)
	assert.Equal(t, values.Encode(), first, "escaped and sorted as net/url does")
}
