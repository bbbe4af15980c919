package apidoc_test

import (
	"bytes"
	"testing"

	"github.com/proxkit/proxkit/internal/generator/apidoc"
)

// Parse must not panic, and what it makes must survive being written and read.
func FuzzParse(f *testing.F) {
	// Short seeds: the fuzzer spends its time on shortening long ones.
	for _, s := range []string{
		"", "<html>", "[", "const a = [", "[]", "{}", `{"operations":[]}`, "x = {} = [1]", "'\\", "/*", "//",
		tree("perl", `{"properties":{"a0":{"type":"string"},"a1":{"type":"string"}}}`, `{"oneOf":[{"type":"null"}]}`),
		tree("rust", `{"properties":{"p":{"format":{"type":"array","items":{}}}}}`, `{"type":"string","typetext":"[[a=]<1|0>] ,b=<x>","format":"f"}`),
		`[{"path":"/x","text":"x","info":{"GET":{"permissions":{"check":["and",["perm","/",["A"]],["userid-param","self"]]}}}}]`,
		`[{"path":"/x","text":"x","info":{"GET":{"permissions":{"withParam":{"name":"a","permissions":{"or":[{"user":"b"}]}}}}}}]`,
		`{"dialect":"perl","operations":[{"path":"/x","method":"GET"}]}`,
		`[{"path":"/{a}","text":"x","info":{"GET":{"parameters":{"properties":{"p":{"format":{"a":{"alias":"b","keyAlias":"b"},"b":{"default":"1","type":"boolean"}}}}}}}}]`,
		`[{"path":"/x","text":"x","info":{"POST":{"method":"UPLOAD","returns":{"minimum":"1e3","maximum":2.0,"enum":[1,"a"],"default":4,"type":"string","links":[{"rel":"child","href":"h"}]}}}}]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := apidoc.Parse(data, "", "")
		if err != nil {
			if d != nil {
				t.Fatalf("a document besides the error %v", err)
			}
			return
		}
		var first, second bytes.Buffer
		if err := d.Encode(&first); err != nil {
			t.Fatalf("what was parsed cannot be encoded: %v", err)
		}
		again, err := apidoc.Parse(first.Bytes(), "", "")
		if err != nil {
			t.Fatalf("what was encoded cannot be parsed: %v\n%s", err, first.Bytes())
		}
		if err := again.Encode(&second); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Fatalf("not stable:\n%s\n%s", first.Bytes(), second.Bytes())
		}
		apidoc.Facts(d)
		if !apidoc.Diff(d, again).Empty() {
			t.Fatal("the document differs from itself")
		}
	})
}
