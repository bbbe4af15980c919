package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/proxkit/proxkit/internal/wire"
)

// everything has each kind of field once.
type everything struct {
	Required string                     `json:"required"`
	B        *bool                      `json:"b,omitempty"`
	I        *int64                     `json:"i,omitempty"`
	U        *uint64                    `json:"u,omitempty"`
	F        *float64                   `json:"f,omitempty"`
	S        *string                    `json:"s,omitempty"`
	Int      int64                      `json:"int"`
	Small    int32                      `json:"small,omitempty"`
	Flag     bool                       `json:"flag"`
	Text     *upper                     `json:"text,omitempty"`
	List     []string                   `json:"list,omitempty" px:"list"`
	Numbers  []int64                    `json:"numbers,omitempty" px:"list"`
	Array    []string                   `json:"array,omitempty"`
	Keys     []string                   `json:"sshkeys,omitempty" px:"sshkeys"`
	Net      map[int]vmNet              `json:"net[n],omitempty"`
	SCSI     map[int]*string            `json:"scsi[n],omitempty"`
	Inner    *everything                `json:"inner,omitempty"`
	Items    []everything               `json:"items,omitempty"`
	Map      map[string]uint64          `json:"map,omitempty"`
	Any      any                        `json:"any,omitempty"`
	Raw      json.RawMessage            `json:"raw,omitempty"`
	Extra    map[string]json.RawMessage `json:"-" px:"extra"`
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"required":"a","b":1,"i":"42","u":1.8446744073709551615e19,"f":"0.5","s":7,"list":"a,b","array":["x"],"net0":"virtio=BC:24:11:00:00:01,x=y","inner":{"items":[{},null,3]}}`,
		`{"i":1.12589990684262e+15,"u":-0,"small":2147483648,"text":"A","sshkeys":"a%20b%0Ac","map":{"a":"1"},"any":[1.5,{"a":null}],"raw":[1, 2],"unknown":{"a":[{}]}}`,
		`{"b":"maybe","list":{"a":1},"net99999999999":"x","net0":null,"scsi01":1,"s":"\ud83d\u0041\u00e9","s":"` + "\xff\xc3" + `","i":null}`,
		`[[[[]]],{"a":{"b":[1,2,{"c":"\\\""}]}}]`, ` null `, `"`, `{"a":01}`, `[1,]`, `1e`, `-`, "\"\x00\"", `{"a" : "b" , "c":tru}`, `{"text":{"a":1}}`, `{"net1":{"model":"x","mtu":[]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		valid := json.Valid(data)
		before := bytes.Clone(data)
		hook := func(m wire.Misfit) {
			if len(m.Got) > 40 || len(m.Path) > 700 {
				t.Errorf("misfit %+v", m)
			}
		}
		for _, out := range []any{
			new(everything), new([]everything), new(map[string]everything), new(map[int]int64), new(json.RawMessage), new(*string),
			new(int64), new(bool), new(float64), new(string), new([]string), new(json.Number), new(upper), new(vmNet),
		} {
			if err := wire.Decode(data, out, hook); (err == nil) != valid {
				t.Fatalf("Decode of %q into %T: %v; valid: %t", data, out, err, valid)
			}
		}
		var own any
		if err := wire.Decode(data, &own, hook); (err == nil) != valid {
			t.Fatalf("Decode of %q: %v; valid: %t", data, err, valid)
		}
		if valid {
			var std any
			decoder := json.NewDecoder(bytes.NewReader(data))
			decoder.UseNumber()
			if err := decoder.Decode(&std); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(std, own) {
				t.Fatalf("%q\nencoding/json %#v\nDecode        %#v", data, std, own)
			}
		}
		if !bytes.Equal(before, data) {
			t.Fatal("Decode wrote into its input")
		}
	})
}

// FuzzDecodeNumber compares with math/big what becomes of a number.
func FuzzDecodeNumber(f *testing.F) {
	for _, seed := range []string{"0", "-1", "18446744073709551615", "18446744073709551616", "1.12589990684262e+15", "9223372036854775807.000", "-9223372036854775808", "1e-400", "0.1e1", "123456789012345678901234567890e-12"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 300 || !json.Valid([]byte(text)) || strings.Trim(text, "0123456789+-.eE") != "" {
			return
		}
		signed, unsigned, exact := oracle(text)
		if !exact {
			return
		}
		for _, doc := range []string{`{"i":` + text + `,"u":` + text + `}`, `{"i":"` + text + `","u":"` + text + `"}`} {
			var out everything
			if err := wire.Decode([]byte(doc), &out, nil); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(out.I, signed) || !reflect.DeepEqual(out.U, unsigned) {
				t.Fatalf("%s: int64 %v, want %v; uint64 %v, want %v", text, deref(out.I), deref(signed), deref(out.U), deref(unsigned))
			}
		}
	})
}

func deref[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

func FuzzRoundTrip(f *testing.F) {
	for seed := range uint64(30) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		in := randomThing(rand.New(rand.NewPCG(seed, 1)), 2)
		for _, dialect := range []wire.Dialect{wire.Perl, wire.Rust} {
			body, err := wire.EncodeJSON(&in, dialect, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !json.Valid(body) {
				t.Fatalf("not JSON: %s", body)
			}
			compare(t, in, body)
		}

		in.Inner, in.Items, in.Map, in.Any, in.Raw, in.Extra = nil, nil, nil, nil, nil, nil
		if len(in.Array) == 0 {
			in.Array = nil // a form cannot say it
		}
		form, err := wire.EncodeForm(&in, nil)
		if err != nil {
			t.Fatal(err)
		}
		values, err := url.ParseQuery(form)
		if err != nil {
			t.Fatal(err)
		}
		if values.Encode() != form {
			t.Fatalf("form %s\nwant %s", form, values.Encode())
		}
		answer := map[string]any{}
		for key, v := range values {
			answer[key] = v
			if len(v) == 1 {
				answer[key] = v[0]
			}
		}
		body, err := json.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		compare(t, in, body)
	})
}

func compare(t *testing.T, want everything, body []byte) {
	t.Helper()
	var got everything
	if err := wire.Decode(body, &got, func(m wire.Misfit) { t.Errorf("%v in %s", m, body) }); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	forgetRaw(&got)
	if !reflect.DeepEqual(want, got) {
		t.Fatalf("%s\nwant %s\ngot  %s", body, dump(want), dump(got))
	}
}

func dump(e everything) string {
	text, err := json.Marshal(e)
	return fmt.Sprintf("%s %v", text, err)
}

// forgetRaw makes property strings comparable with ones that were never text.
func forgetRaw(e *everything) {
	for i, n := range e.Net {
		n.raw = ""
		e.Net[i] = n
	}
	if e.Inner != nil {
		forgetRaw(e.Inner)
	}
	for i := range e.Items {
		forgetRaw(&e.Items[i])
	}
}

func randomThing(r *rand.Rand, depth int) everything {
	letters := []rune("abcXYZ019-_.:/@!é✓— %&=+?#\"\\\n;,")
	text := func(alphabet []rune) string {
		b := make([]rune, 1+r.IntN(8))
		for i := range b {
			b[i] = alphabet[r.IntN(len(alphabet))]
		}
		return string(b)
	}
	word := func() string { return text(letters[:17]) }
	words := func() []string {
		list := make([]string, r.IntN(4))
		for i := range list {
			list[i] = word()
		}
		return list
	}
	some := func() bool { return r.IntN(2) == 0 }
	e := everything{Required: text(letters), Int: r.Int64() - r.Int64(), Small: r.Int32(), Flag: some()}
	if some() {
		e.B, e.I, e.U = new(some()), new(int64(r.Uint64())), new(r.Uint64()) //nolint:gosec // any bits will do
	}
	if some() {
		e.F = new(math.Float64frombits(r.Uint64()))
		if math.IsNaN(*e.F) || math.IsInf(*e.F, 0) {
			e.F = new(0.1)
		}
	}
	if some() {
		e.S, e.Text = new(text(letters)), new(upper(strings.ToUpper(word())))
	}
	if some() {
		e.List, e.Array = words(), words()
		e.Keys = append(words(), "ssh-ed25519 AAAA+/= é@b")
		e.Numbers = []int64{r.Int64(), -1}
	}
	if some() {
		e.Net, e.SCSI = map[int]vmNet{}, map[int]*string{}
		for range 1 + r.IntN(4) {
			n := vmNet{Model: word(), MTU: new(r.Int64()), Trunks: append(words(), "1")}
			if some() {
				n.MACAddr, n.Firewall, n.Rate = new("BC:24:11:00:00:01"), new(some()), new(r.Float64())
				n.Extra = map[string]string{"x-" + strings.Trim(word(), " "): word()}
			}
			e.Net[r.IntN(1000)] = n
			e.SCSI[r.IntN(40)] = new(text(letters))
		}
	}
	if depth > 0 {
		e.Inner = new(randomThing(r, depth-1))
		e.Items = []everything{randomThing(r, 0), randomThing(r, 0)}
		e.Map = map[string]uint64{text(letters): r.Uint64()}
		e.Any = map[string]any{text(letters): []any{json.Number("1.50"), text(letters), nil}}
		e.Raw = json.RawMessage(`{"a":[1,true]}`)
		e.Extra = map[string]json.RawMessage{"x-" + word(): json.RawMessage(`"kept"`)}
	}
	return e
}

func FuzzProps(f *testing.F) {
	for _, seed := range []string{"virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1", " a , b=c,,", "x=1,x=2,mtu=big", "tag=5,model=e1000,=x", `a="b,c",d="e\"`, "trunks=1;2,link_down=yes", ",", "="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, _ := parseNet(text)
		if got := n.String(); got != text {
			t.Fatalf("%q is written %q", text, got)
		}
		if strings.Contains(text, `"`) {
			return // a quote that is not closed swallows what is written behind it
		}
		before, _ := parseNet(text)
		n.Tag = new(int64(77))
		n.Firewall = nil
		delete(n.Extra, "gone")
		after, _ := parseNet(n.String())
		before.Tag, before.Firewall = n.Tag, nil
		delete(before.Extra, "gone")
		before.raw, after.raw = "", ""
		if len(before.Extra) == 0 {
			before.Extra = nil
		}
		if len(after.Extra) == 0 {
			after.Extra = nil
		}
		if !reflect.DeepEqual(before, after) {
			t.Fatalf("%q changed is %q: %+v, want %+v", text, n.String(), after, before)
		}
		var disk vmDisk
		_ = disk.UnmarshalText([]byte(text))
		if got := disk.String(); got != text {
			t.Fatalf("%q as a disk is written %q", text, got)
		}
	})
}

func FuzzPath(f *testing.F) {
	for _, seed := range []string{"pve1", "local:iso/my file.iso", "..", "a/../b", "/", "", "%2e%2e", "a\x00", "é"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		path, _, err := wire.Path("/a/{x}", map[string]string{"x": value})
		if err != nil {
			return
		}
		plain, err := url.PathUnescape(path)
		if err != nil || plain != "/a/"+value {
			t.Fatalf("%q became %q, %v", value, path, err)
		}
		parts := strings.Split(plain, "/")[1:]
		if strings.Count(path, "/") != 2 || slices.Contains(parts, "") || slices.Contains(parts, ".") || slices.Contains(parts, "..") {
			t.Fatalf("%q leads to %q", value, path)
		}
	})
}

func FuzzEncodeForm(f *testing.F) {
	f.Add("net0", "virtio,bridge=vmbr0", "a&b;c=d+e%f ü\n\x00\xff")
	f.Fuzz(func(t *testing.T, key, a, b string) {
		if key == "" || strings.HasSuffix(key, "[n]") {
			return
		}
		got, err := wire.EncodeForm(map[string][]string{key: {a, b}}, nil)
		if want := (url.Values{key: {a, b}}).Encode(); err != nil || got != want {
			t.Fatalf("%s, %v, want %s", got, err, want)
		}
	})
}
