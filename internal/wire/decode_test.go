package wire_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/internal/wire"
)

// decode reads text into a new T and returns the misfits as text.
func decode[T any](t *testing.T, text string) (T, []string) {
	t.Helper()
	var out T
	var misfits []wire.Misfit
	require.NoError(t, wire.Decode([]byte(text), &out, func(m wire.Misfit) { misfits = append(misfits, m) }), text)
	return out, texts(misfits)
}

// pair is a value in its two forms: required and optional.
type pair[T any] struct {
	V T  `json:"v"`
	P *T `json:"p,omitempty"`
}

// scalarCase is a JSON value and what becomes of it: nil for absent.
type scalarCase[T any] struct {
	name string
	json string
	want *T
	odd  bool // a misfit
}

func testScalar[T any](t *testing.T, promised string, cases []scalarCase[T]) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, misfits := decode[pair[T]](t, `{"v":`+tc.json+`,"p":`+tc.json+`}`)
			var zero T
			if tc.want == nil {
				assert.Equal(t, zero, got.V)
				assert.Nil(t, got.P)
			} else {
				assert.Equal(t, *tc.want, got.V)
				require.NotNil(t, got.P)
				assert.Equal(t, *tc.want, *got.P)
			}
			if !tc.odd {
				assert.Empty(t, misfits)
				return
			}
			require.Len(t, misfits, 2)
			assert.Contains(t, misfits[0], "v: want "+promised+", got ")
			assert.Contains(t, misfits[1], "p: want "+promised+", got ")
		})
	}
}

func TestDecodeBoolean(t *testing.T) {
	t.Parallel()
	testScalar(t, "boolean", []scalarCase[bool]{
		{name: "0", json: `0`, want: new(false)},
		{name: "1", json: `1`, want: new(true)},
		{name: "quoted 0", json: `"0"`, want: new(false)},
		{name: "quoted 1", json: `"1"`, want: new(true)},
		{name: "true", json: `true`, want: new(true)},
		{name: "false", json: `false`, want: new(false)},
		{name: "Perl's false", json: `""`, want: new(false)},
		{name: "blank", json: `" "`, want: new(false)},
		{name: "null", json: `null`},
		{name: "yes", json: `"yes"`, want: new(true)},
		{name: "no", json: `"no"`, want: new(false)},
		{name: "on", json: `"on"`, want: new(true)},
		{name: "off", json: `"off"`, want: new(false)},
		{name: "quoted true", json: `"true"`, want: new(true)},
		{name: "capitals", json: `"False"`, want: new(false)},
		{name: "float one", json: `1.0`, want: new(true)},
		{name: "minus zero", json: `-0`, want: new(false)},
		{name: "two", json: `2`, odd: true},
		{name: "minus one", json: `-1`, odd: true},
		{name: "a half", json: `0.5`, odd: true},
		{name: "a word", json: `"maybe"`, odd: true},
		{name: "a long word", json: `"trueish"`, odd: true},
		{name: "object", json: `{"a":1}`, odd: true},
		{name: "array", json: `[true]`, odd: true},
	})
}

func TestDecodeInt64(t *testing.T) {
	t.Parallel()
	testScalar(t, "integer", []scalarCase[int64]{
		{name: "plain", json: `42`, want: new(int64(42))},
		{name: "zero", json: `0`, want: new(int64(0))},
		{name: "negative", json: `-1`, want: new(int64(-1))},
		{name: "minus zero", json: `-0`, want: new(int64(0))},
		{name: "quoted", json: `"100"`, want: new(int64(100))},
		{name: "quoted with space", json: `" 100\n"`, want: new(int64(100))},
		{name: "quoted negative", json: `"-100"`, want: new(int64(-100))},
		{name: "float form", json: `1073741824.0`, want: new(int64(1073741824))},
		{name: "exponent", json: `1e3`, want: new(int64(1000))},
		{name: "exponent with fraction", json: `1.7179869184e10`, want: new(int64(17179869184))},
		{name: "rounded by the server", json: `1.12589990684262e+15`, want: new(int64(1125899906842620))},
		{name: "quoted exponent", json: `"1.12589990684262E+15"`, want: new(int64(1125899906842620))},
		{name: "negative exponent, whole", json: `1500e-2`, want: new(int64(15))},
		{name: "beyond a float's precision", json: `9007199254740993`, want: new(int64(9007199254740993))},
		{name: "the same as float form", json: `9007199254740993.0`, want: new(int64(9007199254740993))},
		{name: "18 digits", json: `999999999999999999`, want: new(int64(999999999999999999))},
		{name: "largest", json: `9223372036854775807`, want: new(int64(math.MaxInt64))},
		{name: "smallest", json: `-9223372036854775808`, want: new(int64(math.MinInt64))},
		{name: "smallest, quoted", json: `"-9223372036854775808"`, want: new(int64(math.MinInt64))},
		{name: "zero with a huge exponent", json: `0e999999999999`, want: new(int64(0))},
		{name: "many zeros", json: `1` + strings.Repeat("0", 30) + `e-30`, want: new(int64(1))},
		{name: "zeros behind the point", json: `5.` + strings.Repeat("0", 40), want: new(int64(5))},
		{name: "empty text", json: `""`},
		{name: "blank text", json: `" "`},
		{name: "null", json: `null`},
		{name: "one too large", json: `9223372036854775808`, odd: true},
		{name: "one too small", json: `-9223372036854775809`, odd: true},
		{name: "would wrap", json: `18446744073692774400`, odd: true},
		{name: "huge exponent", json: `1e999999999999999999`, odd: true},
		{name: "fraction", json: `1.5`, odd: true},
		{name: "tiny fraction", json: `1.0000000000000000001`, odd: true},
		{name: "quoted fraction", json: `"0.4"`, odd: true},
		{name: "boolean", json: `true`, odd: true},
		{name: "text", json: `"N/A"`, odd: true},
		{name: "hexadecimal", json: `"0x10"`, odd: true},
		{name: "underscores", json: `"1_000"`, odd: true},
		{name: "two numbers", json: `"1 2"`, odd: true},
		{name: "point without digits", json: `"1."`, odd: true},
		{name: "object", json: `{}`, odd: true},
		{name: "array", json: `[1]`, odd: true},
	})
}

func TestDecodeUint64(t *testing.T) {
	t.Parallel()
	testScalar(t, "integer, not negative", []scalarCase[uint64]{
		{name: "plain", json: `42`, want: new(uint64(42))},
		{name: "above int64", json: `18446744073692774400`, want: new(uint64(18446744073692774400))},
		{name: "largest", json: `18446744073709551615`, want: new(uint64(math.MaxUint64))},
		{name: "largest, quoted", json: `"18446744073709551615"`, want: new(uint64(math.MaxUint64))},
		{name: "largest as exponent", json: `1.8446744073709551615e19`, want: new(uint64(math.MaxUint64))},
		{name: "rounded by the server", json: `3.47726673451418e+15`, want: new(uint64(3477266734514180))},
		{name: "minus zero", json: `-0`, want: new(uint64(0))},
		{name: "empty text", json: `""`},
		{name: "null", json: `null`},
		{name: "one too large", json: `18446744073709551616`, odd: true},
		{name: "overflow in the last digit", json: `18446744073709551619`, odd: true},
		{name: "exponent too large", json: `2e19`, odd: true},
		{name: "negative", json: `-1`, odd: true},
		{name: "fraction", json: `0.1`, odd: true},
	})
}

func TestDecodeSmallIntegers(t *testing.T) {
	t.Parallel()
	type small struct {
		I8  int8   `json:"i8"`
		U8  uint8  `json:"u8"`
		I32 int32  `json:"i32"`
		U16 uint16 `json:"u16"`
		I   int    `json:"i"`
	}
	got, misfits := decode[small](t, `{"i8":-128,"u8":"255","i32":2147483647,"u16":6.5535e4,"i":7}`)
	assert.Equal(t, small{-128, 255, math.MaxInt32, math.MaxUint16, 7}, got)
	assert.Empty(t, misfits)

	got, misfits = decode[small](t, `{"i8":128,"u8":256,"i32":42268934144,"u16":65536}`)
	assert.Zero(t, got)
	assert.Len(t, misfits, 4)
}

func TestDecodeFloat(t *testing.T) {
	t.Parallel()
	testScalar(t, "number", []scalarCase[float64]{
		{name: "plain", json: `0.0123456789`, want: new(0.0123456789)},
		{name: "whole", json: `4`, want: new(4.0)},
		{name: "quoted", json: `"0.5"`, want: new(0.5)},
		{name: "quoted with space", json: `" 1.5 "`, want: new(1.5)},
		{name: "exponent", json: `1e-7`, want: new(1e-7)},
		{name: "empty text", json: `""`},
		{name: "null", json: `null`},
		{name: "not a number", json: `"NaN"`, odd: true},
		{name: "infinite", json: `"inf"`, odd: true},
		{name: "beyond the range", json: `1e999`, odd: true},
		{name: "hexadecimal", json: `"0x1p-2"`, odd: true},
		{name: "text", json: `"N/A"`, odd: true},
		{name: "boolean", json: `true`, odd: true},
		{name: "object", json: `{}`, odd: true},
	})
}

func TestDecodeString(t *testing.T) {
	t.Parallel()
	testScalar(t, "string", []scalarCase[string]{
		{name: "text", json: `"web"`, want: new("web")},
		{name: "empty", json: `""`, want: new("")},
		{name: "blank stays", json: `" "`, want: new(" ")},
		{name: "number", json: `123`, want: new("123")},
		{name: "number keeps its literal", json: `1.50e+02`, want: new("1.50e+02")},
		{name: "large number", json: `18446744073709551616`, want: new("18446744073709551616")},
		{name: "boolean", json: `true`, want: new("true")},
		{name: "null", json: `null`},
		{name: "escapes", json: `"a\"\\\/\b\f\n\r\té✓\ud83d\ude00"`, want: new("a\"\\/\b\f\n\r\té✓😀")},
		{name: "umlauts and dashes", json: `"é ✓ — % :"`, want: new("é ✓ — % :")},
		{name: "half a surrogate pair", json: `"\ud83dx"`, want: new("\uFFFDx")},
		{name: "two first halves", json: `"\ud83d\ud83d\ude00"`, want: new("\uFFFD😀")},
		{name: "invalid UTF-8", json: "\"a\xffb\xc3\"", want: new("a\uFFFDb\uFFFD")},
		{name: "invalid UTF-8 beside an escape", json: "\"\xff\\n\xff\"", want: new("\uFFFD\n\uFFFD")},
		{name: "object", json: `{"a":"b"}`, odd: true},
		{name: "array", json: `["a"]`, odd: true},
	})
}

func TestDecodeNamedTypes(t *testing.T) {
	t.Parallel()
	type name string
	type flag bool
	type count int64
	type named struct {
		Name   *name       `json:"name,omitempty"`
		Flag   *flag       `json:"flag,omitempty"`
		Count  *count      `json:"count,omitempty"`
		Number json.Number `json:"number"`
		Upper  *upper      `json:"upper,omitempty"`
		Time   time.Time   `json:"time"`
		Float  *float32    `json:"float,omitempty"`
	}
	got, misfits := decode[named](t, `{"name":42,"flag":"on","count":"7","number":"1e3","upper":"A","time":"2026-01-02T03:04:05Z","float":"0.5"}`)
	assert.Empty(t, misfits)
	assert.Equal(t, named{
		Name: new(name("42")), Flag: new(flag(true)), Count: new(count(7)), Number: "1e3", Upper: new(upper("A")),
		Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Float: new(float32(0.5)),
	}, got)

	got, misfits = decode[named](t, `{"name":[],"flag":3,"count":"","number":"x","upper":"a","time":"then","float":1e300}`)
	assert.Zero(t, got)
	assert.Equal(t, []string{
		"name: want string, got []", "flag: want boolean, got 3", `number: want number, got "x"`,
		`upper: want upper, got "a"`, `time: want Time, got "then"`, "float: want number, got 1e300",
	}, misfits)
}

func TestDecodeList(t *testing.T) {
	t.Parallel()
	type lists struct {
		List    []string `json:"list,omitempty" px:"list"`
		Array   []string `json:"array,omitempty"`
		Numbers []int64  `json:"numbers,omitempty" px:"list"`
	}
	for _, tc := range []struct {
		name   string
		json   string
		want   lists
		misfit []string
	}{
		{name: "commas", json: `{"list":"a,b"}`, want: lists{List: []string{"a", "b"}}},
		{name: "semicolons", json: `{"list":"prod;web"}`, want: lists{List: []string{"prod", "web"}}},
		{name: "all separators", json: `{"list":" a, b;c\td\n"}`, want: lists{List: []string{"a", "b", "c", "d"}}},
		{name: "NUL", json: `{"list":"a\u0000b"}`, want: lists{List: []string{"a", "b"}}},
		{name: "array for a list", json: `{"list":["a","b,c"]}`, want: lists{List: []string{"a", "b,c"}}},
		{name: "blank list", json: `{"list":" "}`, want: lists{List: []string{}}},
		{name: "empty list", json: `{"list":""}`, want: lists{List: []string{}}},
		{name: "absent list", json: `{"list":null}`, want: lists{}},
		{name: "number for a list", json: `{"list":42}`, want: lists{List: []string{"42"}}},
		{name: "object for a list", json: `{"list":{"a":1}}`, misfit: []string{`list: want list, got {"a":1}`}},
		{name: "array", json: `{"array":["a",1,true,null]}`, want: lists{Array: []string{"a", "1", "true", ""}}},
		{name: "empty array", json: `{"array":[]}`, want: lists{Array: []string{}}},
		{name: "comma text for an array", json: `{"array":"pve1, pve2"}`, want: lists{Array: []string{"pve1", "pve2"}}},
		{name: "spaces inside an array's text", json: `{"array":"ls -la"}`, want: lists{Array: []string{"ls -la"}}},
		{name: "odd element keeps its place", json: `{"array":["a",{},"c"]}`, want: lists{Array: []string{"a", "", "c"}}, misfit: []string{"array[1]: want string, got {}"}},
		{name: "numbers", json: `{"numbers":"1;2 3"}`, want: lists{Numbers: []int64{1, 2, 3}}},
		{name: "numbers in quotes", json: `{"numbers":["1",2]}`, want: lists{Numbers: []int64{1, 2}}},
		{name: "odd number", json: `{"numbers":"1,x,3"}`, want: lists{Numbers: []int64{1, 0, 3}}, misfit: []string{"numbers[1]: want integer, got x"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, misfits := decode[lists](t, tc.json)
			assert.Equal(t, tc.want, got)
			assert.Equal(t, tc.misfit, misfits)
		})
	}
}

func TestDecodeListsOfStructs(t *testing.T) {
	t.Parallel()
	type item struct {
		ID   int64 `json:"id"`
		Next *item `json:"next,omitempty"`
	}
	type answer struct {
		Data  []item     `json:"data"`
		Ptr   []*item    `json:"ptr,omitempty"`
		Pairs [][]string `json:"lxc,omitempty"`
	}
	got, misfits := decode[answer](t, `{"data":[{"id":1},"odd",{"id":3,"next":{"id":4}}],"ptr":[{"id":5},null],"lxc":[["lxc.idmap","u 0 100000 65536"],["lxc.idmap","g 0 100000 65536"]]}`)
	assert.Equal(t, answer{
		Data:  []item{{ID: 1}, {}, {ID: 3, Next: &item{ID: 4}}},
		Ptr:   []*item{{ID: 5}, nil},
		Pairs: [][]string{{"lxc.idmap", "u 0 100000 65536"}, {"lxc.idmap", "g 0 100000 65536"}},
	}, got)
	assert.Equal(t, []string{`data[1]: want object, got "odd"`}, misfits)

	for name, text := range map[string]string{"object": `{"data":{"id":1}}`, "text": `{"data":"none"}`, "number": `{"data":1}`} {
		got, misfits = decode[answer](t, text)
		assert.Nil(t, got.Data, name)
		require.Len(t, misfits, 1, name)
		assert.Contains(t, misfits[0], "data: want list, got ", name)
	}
}

func TestDecodeFamilies(t *testing.T) {
	t.Parallel()
	type config struct {
		NUMA   *bool            `json:"numa,omitempty"`
		SCSIHW *string          `json:"scsihw,omitempty"`
		NUMAs  map[int]string   `json:"numa[n],omitempty"`
		SCSI   map[int]*string  `json:"scsi[n],omitempty"`
		Net    map[int]vmNet    `json:"net[n],omitempty"`
		Mp     map[int]string   `json:"mp[n],omitempty"`
		Unused map[int]string   `json:"unused[n],omitempty"`
		Lists  map[int][]string `json:"l[n],omitempty" px:"list"`
		X      map[int]string   `json:"x[n],omitempty"`
		X2     map[int]string   `json:"x2[n],omitempty"`
	}
	t.Run("gaps and high indexes", func(t *testing.T) {
		t.Parallel()
		got, misfits := decode[config](t, `{"scsi0":"a","scsi30":"b","unused255":"c","mp255":"d","net31":"virtio,bridge=vmbr0","l3":"a,b","numa0":"cpus=0"}`)
		assert.Empty(t, misfits)
		assert.Equal(t, map[int]*string{0: new("a"), 30: new("b")}, got.SCSI)
		assert.Equal(t, map[int]string{255: "c"}, got.Unused)
		assert.Equal(t, map[int]string{255: "d"}, got.Mp)
		assert.Equal(t, "vmbr0", *got.Net[31].Bridge)
		assert.Equal(t, map[int][]string{3: {"a", "b"}}, got.Lists)
		assert.Equal(t, map[int]string{0: "cpus=0"}, got.NUMAs)
	})
	t.Run("look-alikes", func(t *testing.T) {
		t.Parallel()
		got, misfits := decode[config](t, `{"scsihw":"virtio-scsi-single","numa":1,"scsi":"x","scsi01":"x","scsi-1":"x","scsi1a":"x","SCSI1":"x","mp":"x","mp0x1":"x","net[n]":"x"}`)
		assert.Empty(t, misfits)
		assert.Equal(t, config{NUMA: new(true), SCSIHW: new("virtio-scsi-single")}, got)
	})
	t.Run("absent members", func(t *testing.T) {
		t.Parallel()
		got, misfits := decode[config](t, `{"scsi1":null,"unused0":"a","unused0":null}`)
		assert.Empty(t, misfits)
		assert.Empty(t, got.SCSI)
		assert.Empty(t, got.Unused)
	})
	t.Run("a prefix that ends in a digit", func(t *testing.T) {
		t.Parallel()
		got, misfits := decode[config](t, `{"x1":"a","x21":"b","x2":"c"}`)
		assert.Empty(t, misfits)
		assert.Equal(t, map[int]string{1: "a", 2: "c"}, got.X)
		assert.Equal(t, map[int]string{1: "b"}, got.X2)
	})
	t.Run("misfits", func(t *testing.T) {
		t.Parallel()
		got, misfits := decode[config](t, `{"net0":{"model":"virtio","mtu":"1500","new":7},"net1":[],"net2":"e1000,mtu=big","scsi99999999999999999999":"x","scsi999999999":"y"}`)
		assert.Equal(t, []string{
			"net1: want vmNet, got []",
			"net2.mtu: want integer, got big",
			`scsi99999999999999999999: want member with an index of at most 9 digits, got "x"`,
		}, misfits)
		assert.Equal(t, "virtio,mtu=1500,new=7", got.Net[0].String(), "a property string that comes as an object")
		assert.Contains(t, got.Net, 1, "the index is taken")
		assert.Equal(t, "e1000", got.Net[2].Model)
		assert.Equal(t, "e1000,mtu=big", got.Net[2].String())
		assert.Equal(t, map[int]*string{999999999: new("y")}, got.SCSI)
	})
}

func TestDecodeKeys(t *testing.T) {
	t.Parallel()
	type keys struct {
		Lower  string                     `json:"storage"`
		Upper  string                     `json:"Storage"`
		Dash   string                     `json:"icmp-type"`
		Hidden string                     `json:"-"`
		Plain  string                     // no tag
		Extra  map[string]json.RawMessage `json:"-" px:"extra"`
		secret string
	}
	got, misfits := decode[keys](t, `{"Storage":"B","storage":"a","STORAGE":"no","icmp-type":"c","icmp_type":"no","Plain":"d","Hidden":"no","secret":"no","n":null}`)
	assert.Empty(t, misfits)
	assert.Equal(t, keys{
		Lower: "a", Upper: "B", Dash: "c", Plain: "d",
		Extra: map[string]json.RawMessage{
			"STORAGE": json.RawMessage(`"no"`), "icmp_type": json.RawMessage(`"no"`), "Hidden": json.RawMessage(`"no"`),
			"secret": json.RawMessage(`"no"`), "n": json.RawMessage(`null`),
		},
	}, got)
	assert.Empty(t, got.secret)

	type inner struct {
		A *int64 `json:"a,omitempty"`
		B *int64 `json:"b,omitempty"`
	}
	type outer struct {
		N  *int64           `json:"n,omitempty"`
		In inner            `json:"in"`
		L  []int64          `json:"l,omitempty"`
		M  map[string]int64 `json:"m,omitempty"`
	}
	last, misfits := decode[outer](t, `{"n":1,"n":2,"in":{"a":1},"in":{"b":2},"l":[1,2],"l":[3],"m":{"a":1},"m":{"b":2,"b":3}}`)
	assert.Empty(t, misfits)
	assert.Equal(t, outer{N: new(int64(2)), In: inner{B: new(int64(2))}, L: []int64{3}, M: map[string]int64{"b": 3}}, last, "the last of several equal keys")

	last, misfits = decode[outer](t, `{"n":1,"n":"odd","in":{"a":1},"in":null}`)
	assert.Len(t, misfits, 1)
	assert.Zero(t, last)
}

func TestDecodeMapsAndUnknownShapes(t *testing.T) {
	t.Parallel()
	type shapes struct {
		Any   any                `json:"any"`
		Raw   json.RawMessage    `json:"raw,omitempty"`
		Flags map[string]bool    `json:"flags,omitempty"`
		Ints  map[int]*int64     `json:"ints,omitempty"`
		Deep  map[string][]int64 `json:"deep,omitempty"`
	}
	got, misfits := decode[shapes](t, `{"any":{"n":18446744073709551616,"l":[1.50,"a",true,null,{}],"n":1e3},"raw": { "a" : 1 } ,
		"flags":{"Datastore.Audit":1,"VM.Audit":"","x":null,"odd":{}},"ints":{"0":"1","12":2,"01":3,"x":4},"deep":{"a":"1,2"}}`)
	assert.Equal(t, shapes{
		Any:   map[string]any{"n": json.Number("1e3"), "l": []any{json.Number("1.50"), "a", true, nil, map[string]any{}}},
		Raw:   json.RawMessage(`{ "a" : 1 }`),
		Flags: map[string]bool{"Datastore.Audit": true, "VM.Audit": false, "x": false, "odd": false},
		Ints:  map[int]*int64{0: new(int64(1)), 12: new(int64(2))},
		Deep:  map[string][]int64{"a": {1, 2}},
	}, got)
	assert.Equal(t, []string{"flags.odd: want boolean, got {}", "ints.01: want number as a key, got 01", "ints.x: want number as a key, got x"}, misfits)

	input := []byte(`{"raw":"before"}`)
	var out shapes
	require.NoError(t, wire.Decode(input, &out, nil))
	copy(input, strings.Repeat("x", len(input)))
	assert.Equal(t, `"before"`, string(out.Raw), "raw JSON is a copy")
}

func TestDecodeEnvelope(t *testing.T) {
	t.Parallel()
	type item struct {
		VMID   int64   `json:"vmid"`
		MaxMem *uint64 `json:"maxmem,omitempty"`
	}
	var (
		items   []item
		misfits []wire.Misfit
	)
	envelope := struct {
		Data  any    `json:"data"`
		Total *int64 `json:"total"`
	}{Data: &items}
	err := wire.Decode([]byte(`{"total":"2","data":[{"vmid":"100"},{"vmid":101,"maxmem":{"bytes":1}}]}`), &envelope, func(m wire.Misfit) { misfits = append(misfits, m) })
	require.NoError(t, err)
	assert.Equal(t, []item{{VMID: 100}, {VMID: 101}}, items)
	assert.Equal(t, int64(2), *envelope.Total)
	assert.Equal(t, []wire.Misfit{{Path: "data[1].maxmem", Want: "integer, not negative", Got: `{"bytes":1}`}}, misfits)

	require.NoError(t, wire.Decode([]byte(`{"data":null}`), &envelope, nil))
	assert.Nil(t, items)
}

func TestMisfitIsShortAndDiscreet(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", 100)
	_, misfits := decode[map[string]int64](t, `{"v":"`+long+`","password":"hunter2","ticket":{"a":"hunter2"},"`+long+`":"x"}`)
	require.Len(t, misfits, 4)
	var got map[string]int64
	require.NoError(t, wire.Decode([]byte(`{"v":"`+long+`"}`), &got, func(m wire.Misfit) {
		assert.LessOrEqual(t, len(m.Got), 40)
		assert.True(t, strings.HasPrefix(m.Got, `"üü`) && strings.HasSuffix(m.Got, "ü…"), m.Got)
	}))
	assert.Equal(t, "password: want integer, got a string", misfits[1])
	assert.Equal(t, "ticket: want integer, got an object", misfits[2])
	assert.LessOrEqual(t, len(misfits[3]), 120)
}

func TestDecodeRefusesWhatIsNotJSON(t *testing.T) {
	t.Parallel()
	type target struct {
		V any      `json:"v"`
		N *int64   `json:"n"`
		S *string  `json:"s"`
		L []string `json:"l"`
		O struct{} `json:"o"`
		M map[string]string
	}
	for _, text := range []string{
		``, ` `, `{`, `[`, `"`, `{"v"`, `{"v":`, `{"v":1`, `{"v":1,`, `{"v":1,}`, `{,}`, `{v:1}`, `{"v" 1}`, `{"v":1 "n":2}`, `[1,]`, `[1 2]`, `[,]`,
		`{} x`, `{}{}`, `1 2`, `nul`, `tru`, `falsy`, `nullx`, `01`, `-`, `-x`, `1.`, `.5`, `1e`, `1e+`, `+1`, `0x1`, `NaN`, `Infinity`, `--1`,
		`{"n":01}`, `{"n":1.}`, `{"n":-}`, `{"n":1e}`, `{"n":12x}`, `{"s":"a`, `{"s":"\x"}`, `{"s":"\u12"}`, `{"s":"\u12g4"}`, `{"s":"\`, "{\"s\":\"a\nb\"}", "{\"s\":\"\x00\"}",
		`{"unknown":[1,}`, `{"unknown":"\q"}`, "{\"unknown\":\"\x01\"}", `{"unknown":{"a":}}`, `{"l":["a",]}`, `{"l":"a}`, `{"o":{"a":1,}}`, `{"M":{"a":"b",}}`, `{"v":{"a":[}}`,
		`<html></html>`, `'a'`, `{"s":'a'}`, "\ufeff{}", "{}\x00", strings.Repeat("[", 10001) + strings.Repeat("]", 10001), `{"v":` + strings.Repeat(`{"a":`, 100000),
	} {
		var out target
		err := wire.Decode([]byte(text), &out, nil)
		var syntax *wire.SyntaxError
		if assert.ErrorAs(t, err, &syntax, "%.40q", text) {
			assert.LessOrEqual(t, syntax.Offset, len(text))
			assert.Contains(t, err.Error(), "invalid JSON at byte")
		}
		assert.False(t, json.Valid([]byte(text)), "%.40q", text)
	}
	var deep any
	require.NoError(t, wire.Decode([]byte(strings.Repeat("[", 10000)+strings.Repeat("]", 10000)), &deep, nil))
}

func TestDecodeNeedsAPointer(t *testing.T) {
	t.Parallel()
	for _, out := range []any{nil, 1, struct{}{}, (*int)(nil)} {
		assert.ErrorContains(t, wire.Decode([]byte(`1`), out, nil), "pointer")
	}
}

func TestDecodeEmbedded(t *testing.T) {
	t.Parallel()
	type Base struct {
		ID string `json:"id"`
	}
	type full struct {
		Base
		Name string         `json:"name"`
		Bad  chan int       `json:"bad"`
		Odd  func()         `json:"odd"`
		Key  map[bool]int64 `json:"key"`
	}
	got, misfits := decode[full](t, `{"id":7,"name":"a","bad":null,"odd":1,"key":{"true":1}}`)
	assert.Equal(t, "7", got.ID)
	assert.Equal(t, []string{"odd: want value, got 1", "key: want object, got an object"}, misfits)
}

// Pointers come from small blocks; writing through one must not reach another.
func TestDecodePointersAreApart(t *testing.T) {
	t.Parallel()
	got, _ := decode[[]pair[int64]](t, `[{"p":1},{"p":2},{"p":3},{"p":4},{"p":5}]`)
	*got[2].P = 99
	for i, want := range []int64{1, 2, 99, 4, 5} {
		assert.Equal(t, want, *got[i].P)
	}
}

// celsius speaks JSON of its own.
type celsius struct{ Degrees int }

func (c *celsius) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &c.Degrees) }
func (c celsius) MarshalJSON() ([]byte, error)  { return json.Marshal(c.Degrees) }

func TestDecodeRareTypes(t *testing.T) {
	t.Parallel()
	type rare struct {
		Temp   celsius     `json:"temp"`
		Temps  []*celsius  `json:"temps,omitempty"`
		List   *[]string   `json:"list,omitempty" px:"list"`
		Array  *[]string   `json:"array,omitempty"`
		Scalar []string    `json:"scalar,omitempty" px:"default"`
		One    string      `json:"one" px:"list"` // the word means nothing here
		Ptrs   []*int64    `json:"ptrs,omitempty"`
		Words  []*name     `json:"words,omitempty"`
		Anys   []any       `json:"anys,omitempty" px:"list"`
		Nets   []vmNet     `json:"nets,omitempty"`
		NetPtr []*vmNet    `json:"netptr,omitempty"`
		Deep   **int64     `json:"deep,omitempty"`
		Number json.Number `json:"number"`
	}
	got, misfits := decode[rare](t, `{"temp":21,"temps":[3,null,"x"],"list":"a,b","array":["c"],"one":"a,b","ptrs":"1,,2","words":["a",{}],"anys":"x;y",
		"nets":"virtio,bridge=vmbr0","netptr":["e1000",null,[]],"deep":"7","number":""}`)
	assert.Equal(t, []string{"temps[2]: want celsius, got \"x\"", "words[1]: want string, got {}", "netptr[2]: want vmNet, got []"}, misfits)
	assert.Equal(t, celsius{21}, got.Temp)
	assert.Equal(t, []*celsius{{3}, nil, nil}, got.Temps)
	assert.Equal(t, &[]string{"a", "b"}, got.List)
	assert.Equal(t, &[]string{"c"}, got.Array)
	assert.Equal(t, "a,b", got.One)
	assert.Equal(t, []*int64{new(int64(1)), new(int64(2))}, got.Ptrs)
	assert.Equal(t, []*name{new(name("a")), nil}, got.Words)
	assert.Equal(t, []any{"x", "y"}, got.Anys)
	require.Len(t, got.Nets, 1)
	assert.Equal(t, "vmbr0", *got.Nets[0].Bridge)
	require.Len(t, got.NetPtr, 3)
	assert.Equal(t, "e1000", got.NetPtr[0].Model)
	assert.Nil(t, got.NetPtr[2])
	assert.Equal(t, int64(7), **got.Deep)
	assert.Empty(t, got.Number)

	got, misfits = decode[rare](t, `{"temp":null,"list":null,"array":"","nets":"","deep":null}`)
	assert.Empty(t, misfits)
	assert.Equal(t, rare{Array: &[]string{}, Nets: []vmNet{}}, got)

	top, misfits := decode[vmNet](t, `"virtio,mtu=x"`)
	assert.Equal(t, []string{"mtu: want integer, got x"}, misfits)
	assert.Equal(t, "virtio", top.Model)
}

type name string

func TestDecodeLongLists(t *testing.T) {
	t.Parallel()
	for _, n := range []int{63, 64, 65, 1000, 5000} {
		var out resources
		require.NoError(t, wire.Decode(guestList(n, false), &out, func(m wire.Misfit) { t.Error(m) }))
		require.Len(t, out.Data, n)
		assert.Less(t, cap(out.Data), 4*n+8)
		var std resources
		require.NoError(t, json.Unmarshal(guestList(n, true), &std))
		for i := range std.Data {
			require.Equal(t, std.Data[i], out.Data[i])
		}
	}
}

func TestMisfitPathIsBounded(t *testing.T) {
	t.Parallel()
	type tree struct {
		Children []tree `json:"children_with_a_name_that_is_long"`
	}
	const open = `{"children_with_a_name_that_is_long":[`
	_, misfits := decode[tree](t, strings.Repeat(open, 500)+`1`+strings.Repeat(`]}`, 500))
	require.Len(t, misfits, 1)
	assert.Less(t, len(misfits[0]), 700)
	assert.Contains(t, misfits[0], "…: want object, got 1")
}
