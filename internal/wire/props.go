package wire

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// ParseProps reads a property string such as "virtio=BC:24:11:00:00:01,bridge=vmbr0"
// into the struct v points to, with the leniency of [Decode]. Fields the text does not
// name become zero; keys the struct does not know go to its Extra map.
//
// Parts that do not fit are left out and named in a [*PropsError]; everything else has
// been read then.
func ParseProps(text string, v any) error {
	s, sv, err := propsOf(v)
	if err != nil {
		return err
	}
	p := newPropsParser(s, sv)
	for _, f := range s.fields {
		f.of(sv).SetZero()
	}
	if s.extra != nil {
		s.extra.of(sv).SetZero()
	}
	for _, tok := range splitProps(s, text) {
		p.read(tok)
	}
	if len(p.misfits) > 0 {
		return &PropsError{Misfits: p.misfits}
	}
	return nil
}

func propsOf(v any) (*structInfo, reflect.Value, error) {
	sv := reflect.ValueOf(v)
	if sv.Kind() != reflect.Pointer || sv.IsNil() || sv.Elem().Kind() != reflect.Struct {
		return nil, sv, fmt.Errorf("a property string needs a pointer to a struct, not %T", v)
	}
	return typeOf(sv.Type().Elem()).structFields(), sv.Elem(), nil
}

// A prop is one part of a property string.
type prop struct {
	raw   string // as it stands, with white space
	key   string // as it stands: "" where it was left out
	value string // unquoted
	field *fieldInfo
	alias bool // the key is the value of field, and value that of its alias target
	bad   string
}

// splitProps splits text at its commas and finds the field of each part.
func splitProps(s *structInfo, text string) []prop {
	list := make([]prop, 0, strings.Count(text, ",")+1)
	hasDefault := false
	for raw := range propParts(text) {
		p := prop{raw: raw}
		part := trim(raw)
		key, value, hasKey := strings.Cut(part, "=")
		if !hasKey || strings.HasPrefix(part, `"`) {
			key, value = "", part
		}
		p.key = trim(key)
		p.value = unquote(trim(value))
		switch {
		case part == "":
		case hasKey && key == "" && !strings.HasPrefix(part, `"`):
			p.bad = "a key before the equals sign"
		case p.key != "":
			p.field = s.propField(p.key)
			if p.field == nil {
				if f := s.aliasField(p.key, p.value); f != nil {
					p.field, p.alias = f, true
				}
			}
		default:
			if s.def != nil && !hasDefault {
				p.field, hasDefault = s.def, true
			} else {
				p.bad = "key=value"
			}
		}
		list = append(list, p)
	}
	return list
}

// propParts yields the parts between commas. A comma inside quotes separates nothing,
// if the quotes enclose a whole value.
func propParts(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for text != "" {
			end := strings.IndexByte(text, ',')
			if open := quotedAt(text, end); open >= 0 {
				if n := quotedLen(text[open:]); n > 0 {
					end = strings.IndexByte(text[open+n:], ',')
					if end >= 0 {
						end += open + n
					}
				}
			}
			if end < 0 {
				yield(text)
				return
			}
			if !yield(text[:end]) {
				return
			}
			if text = text[end+1:]; text == "" {
				yield("")
				return
			}
		}
	}
}

// quotedAt returns where the first value of text opens a quote, or -1; end is the
// first comma.
func quotedAt(text string, end int) int {
	part := text
	if end >= 0 {
		part = text[:end]
	}
	i := len(part) - len(strings.TrimLeft(part, " \t\r\n"))
	if !strings.HasPrefix(part[i:], `"`) {
		eq := strings.IndexByte(part, '=')
		if eq < 0 {
			return -1
		}
		i = eq + 1
		i += len(part[i:]) - len(strings.TrimLeft(part[i:], " \t\r\n"))
	}
	if !strings.HasPrefix(part[i:], `"`) {
		return -1
	}
	return i
}

// quotedLen returns the length of the quoted text that s begins with, or 0 if the
// quote is not closed before a comma or the end.
func quotedLen(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			if rest := strings.TrimLeft(s[i+1:], " \t\r\n"); rest != "" && rest[0] != ',' {
				return 0
			}
			return i + 1
		}
	}
	return 0
}

func unquote(s string) string {
	if !strings.HasPrefix(s, `"`) || quotedLen(s) != len(s) {
		return s
	}
	s = s[1 : len(s)-1]
	if !strings.Contains(s, `\`) {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\') {
			i++
		}
		out = append(out, s[i])
	}
	return string(out)
}

// propField returns the field with this key or alias.
func (s *structInfo) propField(key string) *fieldInfo {
	if f := find(s, key); f != nil {
		return f
	}
	for _, f := range s.fields {
		if slices.Contains(f.aliases, key) {
			return f
		}
	}
	return nil
}

// aliasField returns the field whose value key is, in "virtio=<MAC>". Where the tag
// does not list the keys, the shape of the value decides, so that a new option is not
// taken for a model.
func (s *structInfo) aliasField(key, value string) *fieldInfo {
	for _, f := range s.fields {
		if f.aliasTarget == "" {
			continue
		}
		if len(f.aliasKeys) > 0 && slices.Contains(f.aliasKeys, key) || len(f.aliasKeys) == 0 && isMAC(value) {
			return f
		}
	}
	return nil
}

func isMAC(s string) bool {
	if len(s) != len("BC:24:11:00:00:01") {
		return false
	}
	for i := range len(s) {
		if i%3 == 2 {
			if s[i] != ':' {
				return false
			}
		} else if hexDigit(s[i]) < 0 {
			return false
		}
	}
	return true
}

type propsParser struct {
	d       decoder
	s       *structInfo
	v       reflect.Value
	field   *fieldInfo // the one being set
	text    []byte
	misfits []Misfit
}

func newPropsParser(s *structInfo, v reflect.Value) *propsParser {
	p := &propsParser{s: s, v: v}
	p.d.misfit = func(m Misfit) {
		m.Path = p.field.name + m.Path
		if secretName(p.field.name) {
			m.Got = tokenString.String()
		}
		p.misfits = append(p.misfits, m)
	}
	return p
}

func (p *propsParser) read(tok prop) {
	switch {
	case tok.bad != "":
		p.misfits = append(p.misfits, Misfit{Want: tok.bad, Got: shorten(tok.raw, maxGot)})
	case tok.alias:
		p.set(tok.field, tok.key)
		if target := p.s.propField(tok.field.aliasTarget); target != nil {
			p.set(target, tok.value)
		}
	case tok.field != nil:
		p.set(tok.field, tok.value)
	case tok.key != "" && p.s.extra != nil:
		value := reflect.ValueOf(tok.value)
		switch p.s.extra.typ.elem.op {
		case opString:
		case opRaw: // an object where the description has one, a text in this answer
			raw, err := json.Marshal(tok.value)
			if err != nil {
				return
			}
			value = reflect.ValueOf(raw)
		default:
			return
		}
		m := p.s.extra.of(p.v)
		if m.IsNil() {
			m.Set(reflect.MakeMap(m.Type()))
		}
		m.SetMapIndex(reflect.ValueOf(tok.key), value.Convert(m.Type().Elem()))
	}
}

func (p *propsParser) set(f *fieldInfo, text string) {
	p.field = f
	v := f.of(p.v)
	p.text = append(p.text[:0], text...)
	if f.typ.op == opSlice {
		p.d.list(f.typ, v, f, p.text)
		return
	}
	p.d.scalar(f.typ, v, token{kind: tokenString, text: p.text, raw: p.text})
}
