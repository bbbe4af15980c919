package pvetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
)

// A kind tells apart the forms a parameter's value can come in.
type kind uint8

const (
	isText   kind = iota // from a form or a query, or a JSON string or number
	isBool               // a JSON boolean
	isArray              // a JSON array or a repeated key
	isObject             // a JSON object
	isNull               // a JSON null
)

// A rawValue is a parameter before it was checked.
type rawValue struct {
	kind kind
	text string
	list []rawValue
}

// perlType names a value the way the server's type errors do.
func (v rawValue) perlType() string {
	switch v.kind {
	case isBool:
		return "JSON::PP::Boolean"
	case isArray:
		return "ARRAY"
	case isObject:
		return "HASH"
	}
	return ""
}

// value turns a checked parameter into what handlers see.
func (v rawValue) value() value {
	switch v.kind {
	case isNull:
		return value{null: true}
	case isArray:
		list := make([]string, len(v.list))
		for i, e := range v.list {
			list[i] = e.text
		}
		return value{list: list}
	}
	return value{text: v.text}
}

// decodeForm decodes a form or a query by the server's own rules: "&" and ";"
// separate, a second "=" ends the value, a repeated key makes an array.
func decodeForm(data string) map[string]rawValue {
	out := map[string]rawValue{}
	for _, pair := range strings.FieldsFunc(data, func(r rune) bool { return r == '&' || r == ';' }) {
		words := strings.Split(pair, "=")
		key := formUnescape(words[0])
		if len(words) < 2 {
			out[key] = rawValue{kind: isNull}
			continue
		}
		val := rawValue{text: formUnescape(words[1])}
		if old, ok := out[key]; ok && old.kind != isNull {
			if old.kind != isArray {
				old = rawValue{kind: isArray, list: []rawValue{old}}
			}
			old.list = append(old.list, val)
			val = old
		}
		out[key] = val
	}
	return out
}

// formUnescape decodes "+" and "%XX", leaving malformed escapes alone.
func formUnescape(s string) string {
	return percentDecode(strings.ReplaceAll(s, "+", " "))
}

// percentDecode decodes "%XX", leaving malformed escapes alone.
func percentDecode(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if c, err := url.PathUnescape(s[i : i+3]); err == nil {
				b.WriteString(c)
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// decodeBody decodes the parameters of a JSON body.
func decodeBody(data []byte) (map[string]rawValue, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, malformed(data, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fail(500, "garbage after JSON object, at character offset %d (before %q) at /usr/share/perl5/PVE/APIServer/AnyEvent.pm line 967.",
			dec.InputOffset(), clip(string(data[dec.InputOffset():])))
	}
	obj, ok := v.(map[string]any)
	if !ok {
		return nil, fail(500, "Not a HASH reference at /usr/share/perl5/PVE/APIServer/AnyEvent.pm line 978.")
	}
	out := make(map[string]rawValue, len(obj))
	for k, e := range obj {
		out[k] = rawJSON(e)
	}
	return out, nil
}

func malformed(data []byte, err error) error {
	offset := len(data)
	if se, ok := err.(*json.SyntaxError); ok && int(se.Offset) > 0 && int(se.Offset) <= len(data) {
		offset = int(se.Offset) - 1
	}
	rest := "(end of string)"
	if offset < len(data) {
		rest = clip(string(data[offset:]))
	}
	return fail(500, "malformed JSON string, neither tag, array, object, number, string or atom, at character offset %d (before %q) at /usr/share/perl5/PVE/APIServer/AnyEvent.pm line 967.",
		offset, rest)
}

func clip(s string) string {
	if len(s) > 20 {
		return s[:20] + "..."
	}
	return s
}

// rawJSON turns a decoded JSON value into a parameter.
func rawJSON(v any) rawValue {
	switch v := v.(type) {
	case nil:
		return rawValue{kind: isNull}
	case bool:
		if v {
			return rawValue{kind: isBool, text: "1"}
		}
		return rawValue{kind: isBool, text: "0"}
	case json.Number:
		return rawValue{text: perlNumber(v.String())}
	case string:
		return rawValue{text: v}
	case []any:
		out := rawValue{kind: isArray, list: make([]rawValue, len(v))}
		for i, e := range v {
			out.list[i] = rawJSON(e)
		}
		return out
	}
	return rawValue{kind: isObject}
}

// perlNumber prints a JSON number the way Perl does.
func perlNumber(s string) string {
	if !strings.ContainsAny(s, ".eE") {
		return s
	}
	var f float64
	if _, err := fmt.Sscan(s, &f); err != nil {
		return s
	}
	if f == float64(int64(f)) && f < 1e15 && f > -1e15 {
		return fmt.Sprintf("%d", int64(f))
	}
	return fmt.Sprintf("%.15g", f)
}

// readBody reads a whole body of known length.
func readBody(req *rawRequest) ([]byte, error) {
	if req.length <= 0 {
		return nil, nil
	}
	data := make([]byte, req.length)
	_, err := io.ReadFull(req.body, data)
	return data, err
}
