package wire_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/internal/wire"
)

func TestEnvelopes(t *testing.T) {
	t.Parallel()
	type guest struct {
		VMID int64 `json:"vmid"`
	}
	for _, tt := range []struct {
		name   string
		answer string
		want   []guest
		env    wire.Envelope
		misfit []string
		err    string
	}{
		{name: "data alone", answer: `{"data":[{"vmid":"100"}]}`, want: []guest{{100}}, env: wire.Envelope{Data: []byte(`[{"vmid":"100"}]`)}},
		{
			name:   "everything, data in the middle",
			answer: ` { "changes" : "--- a\n", "total":"1.2e1", "other":{"a":[1]}, "data" : [ {"vmid":7} ] ,"digest":"d","message":"m","errors":{"a":"b"} } `, want: []guest{{7}},
			env: wire.Envelope{Data: []byte(`[ {"vmid":7} ]`), Total: 12, Changes: []byte(`"--- a\n"`), Digest: []byte(`"d"`), Message: []byte(`"m"`), Errors: []byte(`{"a":"b"}`)},
		},
		{name: "paths begin inside the data", answer: `{"data":[{"vmid":1},{"vmid":{}}]}`, want: []guest{{1}, {0}}, env: wire.Envelope{Data: []byte(`[{"vmid":1},{"vmid":{}}]`)}, misfit: []string{"[1].vmid"}},
		{name: "data that does not fit at all", answer: `{"data":7}`, env: wire.Envelope{Data: []byte(`7`)}, misfit: []string{""}},
		{name: "total that is none", answer: `{"total":"many","data":null}`, env: wire.Envelope{Data: []byte(`null`)}},
		{name: "null", answer: `{"data":null}`, env: wire.Envelope{Data: []byte(`null`)}},
		{name: "no data", answer: `{"status":"ok"}`},
		{name: "empty object", answer: `{}`},
		{name: "empty", answer: " \n"},
		{name: "no object", answer: `[1]`, err: "it is no JSON object"},
		{name: "text", answer: `x`, err: "it is no JSON object"},
		{name: "NUL", answer: "\x00", err: "it is no JSON object"},
		{name: "cut", answer: `{"data":[1,`, err: "unexpected end"},
		{name: "cut after the name", answer: `{"data"`, err: "unexpected end"},
		{name: "bad inside", answer: `{"data":[1 2]}`, err: "after a value"},
		{name: "bad beside", answer: `{"x":[1 2],"data":1}`, err: "after a value"},
		{name: "comma at the end", answer: `{"data":[],}`, err: "where an object's key should be"},
		{name: "something behind", answer: `{"data":[]} x`, err: "after the object"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []guest
			var misfits []string
			env, err := wire.DecodeEnvelope([]byte(tt.answer), &got, func(m wire.Misfit) { misfits = append(misfits, m.Path) })
			raw, rawErr := wire.DecodeEnvelope([]byte(tt.answer), nil, nil)
			if tt.err != "" {
				assert.ErrorContains(t, err, tt.err)
				assert.ErrorContains(t, rawErr, tt.err)
				return
			}
			require.NoError(t, err)
			require.NoError(t, rawErr)
			assert.Equal(t, tt.want, got)
			assert.Equal(t, tt.env, env)
			assert.Equal(t, tt.env, raw)
			assert.Equal(t, tt.misfit, misfits)
		})
	}
	_, err := wire.DecodeEnvelope([]byte(`{}`), guest{}, nil)
	assert.ErrorContains(t, err, "needs a pointer")
}

func FuzzEnvelope(f *testing.F) {
	for _, text := range []string{`{"data":[1,{"a":"}\""}],"total":3}`, `{"data":null}`, `{}`, ``, `{"data"`, `{"data":}`, `{"message":"x","errors":{"a":"b"}}`, `[`, `{"a":1,}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var got any
		env, err := wire.DecodeEnvelope(body, &got, nil)
		raw, rawErr := wire.DecodeEnvelope(body, nil, nil)
		assert.Equal(t, err == nil, rawErr == nil)
		var whole map[string]any
		if jsonErr := json.Unmarshal(body, &whole); jsonErr == nil && whole != nil {
			require.NoError(t, err, "encoding/json takes %q", body)
			data, ok := whole["data"]
			assert.Equal(t, ok, len(env.Data) > 0)
			if ok {
				var again, once any
				require.NoError(t, json.Unmarshal(raw.Data, &again))
				assert.Equal(t, data, again)
				require.NoError(t, wire.Decode(raw.Data, &once, nil))
				assert.Equal(t, once, got, "in one pass or in two")
			}
		}
	})
}

// BenchmarkEnvelope decodes an answer as a call does.
func BenchmarkEnvelope(b *testing.B) {
	var body strings.Builder
	body.WriteString(`{"data":[`)
	for i := range 5000 {
		fmt.Fprintf(&body, `{"id":"qemu/%d","name":"guest-%d","maxmem":%d,"status":"running"},`, i, i, i<<20)
	}
	body.WriteString(`{}]}`)
	answer := []byte(body.String())
	type guest struct {
		ID     string  `json:"id"`
		Name   *string `json:"name"`
		MaxMem *uint64 `json:"maxmem"`
		Status string  `json:"status"`
	}
	for name, decode := range map[string]func(out *[]guest) error{
		"one pass": func(out *[]guest) error {
			_, err := wire.DecodeEnvelope(answer, out, nil)
			return err
		},
		"two passes": func(out *[]guest) error {
			env, err := wire.DecodeEnvelope(answer, nil, nil)
			if err != nil {
				return err
			}
			return wire.Decode(env.Data, out, nil)
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(answer)))
			b.ReportAllocs()
			for b.Loop() {
				var out []guest
				if err := decode(&out); err != nil || len(out) != 5001 {
					b.Fatal(len(out), err)
				}
			}
		})
	}
}
