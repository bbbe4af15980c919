package wire

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// FormatProps writes the struct v, or the struct it points to, as a property string.
// Raw is the text v was parsed from, or "". Parts whose value is unchanged keep raw's
// own text and place, parts that changed keep their place and their spelling of the
// key, parts that are gone are dropped, and new ones follow in the order of the fields.
//
// It is meant for String methods: what a property string cannot hold is written as well
// as can be. [MarshalProps] refuses it.
func FormatProps(v any, raw string) string {
	s, sv, err := formattable(v)
	if err != nil {
		return raw
	}
	out, _ := formatProps(nil, s, sv, raw)
	return string(out)
}

// MarshalProps is [FormatProps] for MarshalText methods: a value that the server would
// read as something else, such as one with a comma, is an error. PBS and PDM understand
// quotes; px:"extra,quotes" says that a property string is one of theirs.
func MarshalProps(v any, raw string) ([]byte, error) {
	s, sv, err := formattable(v)
	if err != nil {
		return nil, err
	}
	out, err := formatProps(make([]byte, 0, max(len(raw)+16, 64)), s, sv, raw)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func formattable(v any) (*structInfo, reflect.Value, error) {
	sv := reflect.ValueOf(v)
	for sv.Kind() == reflect.Pointer && !sv.IsNil() {
		sv = sv.Elem()
	}
	if sv.Kind() != reflect.Struct {
		return nil, sv, fmt.Errorf("%T is not a property string", v)
	}
	return typeOf(sv.Type()).structFields(), sv, nil
}

// formatProps appends the property string sv to out. The error is about values that do
// not fit into one; the text is complete nevertheless.
func formatProps(out []byte, s *structInfo, sv reflect.Value, raw string) ([]byte, error) {
	w := propsWriter{s: s, now: sv, raw: raw, out: out}
	if len(s.fields) <= len(w.few) {
		w.written = w.few[:]
	} else {
		w.written = make([]bool, len(s.fields))
	}
	if raw != "" {
		w.before = reflect.New(sv.Type()).Elem()
		w.tokens = splitProps(s, raw)
		p := newPropsParser(s, w.before)
		for _, tok := range w.tokens {
			p.read(tok)
		}
		for i := range w.tokens {
			w.token(i)
		}
	}
	w.rest()
	return w.out, w.err
}

type propsWriter struct {
	s           *structInfo
	now, before reflect.Value
	raw         string
	tokens      []prop
	written     []bool // by fieldInfo.pos
	out         []byte
	scratch     []byte
	some        bool // something has been written
	few         [64]bool
	err         error // the first value that a property string cannot hold
}

// token writes the i-th part of raw as it is now.
func (w *propsWriter) token(i int) {
	tok := w.tokens[i]
	f := tok.field
	switch {
	case tok.alias:
		w.aliasToken(tok)
	case f != nil:
		w.written[f.pos] = true
		switch {
		case !w.changed(f):
			w.verbatim(tok.raw)
		case w.last(i) && w.isSet(f):
			w.pair(f, tok.key)
		}
	case tok.key == "" || w.s.extra == nil:
		w.verbatim(tok.raw)
	default:
		before, _ := w.extra(w.before, tok.key)
		now, ok := w.extra(w.now, tok.key)
		switch {
		case ok && now == before:
			w.verbatim(tok.raw)
		case ok && w.last(i):
			w.extraPair(tok.key, now)
		}
	}
}

// last reports whether no later part of raw sets the same thing as the i-th: only the
// last of several equal keys counts, so only that one is rewritten.
func (w *propsWriter) last(i int) bool {
	for _, later := range w.tokens[i+1:] {
		if later.field == w.tokens[i].field && (later.field != nil || later.key == w.tokens[i].key) {
			return false
		}
	}
	return true
}

// aliasToken writes "virtio=<MAC>" as it is now.
func (w *propsWriter) aliasToken(tok prop) {
	target := w.s.propField(tok.field.aliasTarget)
	w.written[tok.field.pos] = true
	if target == nil {
		w.verbatim(tok.raw)
		return
	}
	w.written[target.pos] = true
	if !w.changed(tok.field) && !w.changed(target) {
		w.verbatim(tok.raw)
		return
	}
	w.aliasPair(tok.field, target)
}

// aliasPair writes a field and its alias target, in the short form where that reads
// back the same.
func (w *propsWriter) aliasPair(f, target *fieldInfo) {
	hasField, hasTarget := w.isSet(f), w.isSet(target)
	if hasField && hasTarget {
		key := string(w.text(f))
		value := w.text(target)
		if w.s.propField(key) == nil && w.s.aliasField(key, string(value)) == f && !strings.ContainsAny(key, "=,\" ") {
			w.put(f, key, value)
			return
		}
	}
	if hasField {
		key := ""
		if hasTarget {
			key = f.name
		}
		w.pair(f, key)
	}
	if hasTarget {
		w.pair(target, target.name)
	}
}

// rest writes what raw does not name: the key that may be left out first, the others
// in the order of the fields, unknown keys in theirs.
func (w *propsWriter) rest() {
	if f := w.s.def; f != nil && w.isNew(f) {
		key := ""
		if slices.ContainsFunc(w.tokens, func(p prop) bool { return p.key == "" && p.bad == "" && trim(p.raw) != "" }) {
			key = f.name // another value has the place without key
		}
		w.add(f, key)
	}
	for _, f := range w.s.fields {
		if w.isNew(f) {
			w.add(f, f.name)
		}
	}
	if w.s.extra == nil || w.s.extra.of(w.now).Len() == 0 {
		return
	}
	var keys []string
	for iter := w.s.extra.of(w.now).MapRange(); iter.Next(); {
		key := iter.Key().String()
		old := false
		if w.raw != "" {
			_, old = w.extra(w.before, key)
		}
		if f := w.s.propField(key); !old && (f == nil || !w.isSet(f)) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		value, _ := w.extra(w.now, key)
		w.extraPair(key, value)
	}
}

// isNew reports whether f is set and raw does not name it.
func (w *propsWriter) isNew(f *fieldInfo) bool {
	return !w.written[f.pos] && w.isSet(f) && (w.raw == "" || w.changed(f))
}

func (w *propsWriter) add(f *fieldInfo, key string) {
	w.written[f.pos] = true
	if f.aliasTarget != "" {
		if target := w.s.propField(f.aliasTarget); target != nil && !w.written[target.pos] {
			w.written[target.pos] = true
			w.aliasPair(f, target)
			return
		}
	}
	w.pair(f, key)
}

func (w *propsWriter) extra(v reflect.Value, key string) (string, bool) {
	m := w.s.extra.of(v)
	if w.s.extra.typ.elem.op != opString {
		return "", false
	}
	e := m.MapIndex(reflect.ValueOf(key))
	if !e.IsValid() {
		return "", false
	}
	return e.String(), true
}

func (w *propsWriter) changed(f *fieldInfo) bool {
	a, b := f.of(w.before), f.of(w.now)
	return !reflect.DeepEqual(a.Interface(), b.Interface())
}

// isSet reports whether a field says something. A required number or flag does even
// when it is zero, unless it was parsed from text without it.
func (w *propsWriter) isSet(f *fieldInfo) bool {
	v := f.of(w.now)
	if f.typ.op == opPointer && f.typ.fast != slow {
		return !v.IsNil()
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		return !isUnset(v)
	case reflect.String, reflect.Struct:
		return !v.IsZero()
	}
	return !f.omitEmpty || !v.IsZero()
}

// text returns the value of a field as it is written, until the next call.
func (w *propsWriter) text(f *fieldInfo) []byte {
	t, v, ok := concrete(f.typ, f.of(w.now))
	w.scratch = w.scratch[:0]
	if !ok {
		return nil
	}
	var err error
	if t.op == opSlice && t.marshalText == marshalNone {
		sep := *f
		if !f.list || f.sep == "," {
			sep.sep = ";" // a comma would end the part
		}
		w.scratch, err = joinList(w.scratch, &sep, t, v)
		if err == nil {
			w.checkList(f, t, v, sep.sep)
		}
	} else {
		w.scratch, err = appendText(w.scratch, t, v)
	}
	if err != nil {
		w.fail(f.name, err)
	}
	return w.scratch
}

func (w *propsWriter) checkList(f *fieldInfo, t *typeInfo, v reflect.Value, sep string) {
	if t.elem.op != opString {
		return
	}
	for i := range v.Len() {
		if strings.Contains(v.Index(i).String(), sep) {
			w.fail(f.name, fmt.Errorf("an element must not contain %q", sep))
		}
	}
}

func (w *propsWriter) fail(key string, err error) {
	if w.err == nil {
		w.err = fmt.Errorf("property string: %s: %w", key, err)
	}
}

func (w *propsWriter) separate() {
	if w.some {
		w.out = append(w.out, ',')
	}
	w.some = true
}

func (w *propsWriter) verbatim(raw string) {
	w.separate()
	w.out = append(w.out, raw...)
}

// pair writes key=value, or the value alone where key is "" and that reads back.
func (w *propsWriter) pair(f *fieldInfo, key string) {
	text := w.text(f)
	if key == "" && (!f.isDefault || len(text) == 0 || bytes.IndexByte(text, '=') >= 0) {
		key = f.name
	}
	w.put(f, key, text)
}

func (w *propsWriter) put(f *fieldInfo, key string, value []byte) {
	w.check(f.name, value)
	w.separate()
	if key != "" {
		w.out = append(append(w.out, key...), '=')
	}
	w.out = quote(w.out, value)
}

func (w *propsWriter) extraPair(key, value string) {
	if key == "" || strings.ContainsAny(key, "=, \"") {
		w.fail(fmt.Sprintf("%q", shorten(key, maxGot)), errors.New("is no key"))
	}
	w.scratch = append(w.scratch[:0], value...)
	w.check(key, w.scratch)
	w.separate()
	w.out = append(append(w.out, key...), '=')
	w.out = quote(w.out, w.scratch)
}

// check finds what the server would read as something else.
func (w *propsWriter) check(key string, value []byte) {
	if len(value) == 0 {
		return
	}
	switch {
	case isSpace(value[0]) || isSpace(value[len(value)-1]):
		w.fail(key, errors.New("the value must not begin or end with white space"))
	case value[0] == '"' && !w.s.quotes:
		w.fail(key, errors.New("the value must not begin with a quote"))
	}
	for _, c := range value {
		switch {
		case c == ',' && !w.s.quotes:
			w.fail(key, errors.New("the value must not contain a comma"))
		case c == '\r' || c == '\n' || c == 0:
			w.fail(key, errors.New("the value must not contain line breaks"))
		}
	}
}

// quote is the inverse of unquote, for the values that need it: PBS and PDM read quotes, PVE has
// no way to say a comma.
func quote(dst, s []byte) []byte {
	if bytes.IndexByte(s, ',') < 0 && (len(s) == 0 || s[0] != '"') {
		return append(dst, s...)
	}
	dst = append(dst, '"')
	for _, c := range s {
		if c == '"' || c == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return append(dst, '"')
}
