package apidoc_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	facts "github.com/proxkit/proxkit/apidoc"
)

func TestTypetext(t *testing.T) {
	t.Parallel()
	object := func(props map[string]*facts.Schema) *facts.Schema {
		return &facts.Schema{Type: "object", Properties: props, NoAdditional: true}
	}
	for _, tc := range []struct {
		name, text string
		want       *facts.Schema
	}{
		{"optional default key", "[[host=]<ID>]", object(map[string]*facts.Schema{
			"host": {Type: "string", Optional: true, DefaultKey: true},
		})},
		{"required default key and required key", "[type=]<a-type> ,on=<1|0>", object(map[string]*facts.Schema{
			"type": {Type: "string", DefaultKey: true},
			"on":   {Type: "boolean"},
		})},
		{"types", "i=<integer> [,n=<number>] [,c=<N>] [,d=\\d+] [,b=<0|1>] [,s=<words in brackets>]", object(map[string]*facts.Schema{
			"i": {Type: "integer"},
			"n": {Type: "number", Optional: true},
			"c": {Type: "integer", Optional: true},
			"d": {Type: "integer", Optional: true},
			"b": {Type: "boolean", Optional: true},
			"s": {Type: "string", Optional: true},
		})},
		{"words", "[source=]</dev/urandom|/dev/random>", object(map[string]*facts.Schema{
			"source": {Type: "string", DefaultKey: true, Enum: []string{"/dev/urandom", "/dev/random"}},
		})},
		{"a span is no word", "[bits=<8-64|host>]", object(map[string]*facts.Schema{
			"bits": {Type: "string", Optional: true},
		})},
		{"brackets and signs within a value", "[[host=]<ID[;ID2...]>] [,legacy=<[acdn]{1,4}>] ,token=<A=u@r!t=S>", object(map[string]*facts.Schema{
			"host":   {Type: "string", Optional: true, DefaultKey: true},
			"legacy": {Type: "string", Optional: true},
			"token":  {Type: "string"},
		})},
		{"a choice without angle brackets", "[full=<1|0>] [,remove=([acl];[entry])|none] [,scope=<users|both>]", object(map[string]*facts.Schema{
			"full":   {Type: "boolean", Optional: true},
			"remove": {Type: "string", Optional: true},
			"scope":  {Type: "string", Optional: true, Enum: []string{"users", "both"}},
		})},
		{"no key", "<node>[:<pri>]{,<node>[:<pri>]}*", nil},
		{"keys that are placeholders", "<tag>:<color>[;<tag>=...]", nil},
		{"a key twice", "a=<x> ,a=<y>", nil},
		{"an open bracket", "[a=<x>", nil},
		{"no value", "a=", nil},
		{"plain", "<string>", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := parse(t, tree("perl", `{}`, compact(t, map[string]string{"type": "string", "format": "f", "typetext": tc.text})))
			assert.Equal(t, tc.want, d.Operations[0].Returns.FormatSchema)
		})
	}
}
