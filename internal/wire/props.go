package wire

import (
	"errors"
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
	p := propsParser{d: decoder{}, s: s, v: sv}
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
		return nil, sv, fmt.Errorf("wire: a property string needs a pointer to a struct, not %T", v)
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
	var list []prop
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
			if i := slices.IndexFunc(s.fields, func(f *fieldInfo) bool { return f.isDefault }); i >= 0 && !hasDefault {
				p.field, hasDefault = s.fields[i], true
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
			if rest := trim(s[i+1:]); rest != "" && rest[0] != ',' {
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

// quote is the inverse, for the values that need it: PBS and PDM read quotes, PVE has
// no way to say a comma.
func quote(dst []byte, s string) []byte {
	if !strings.Contains(s, ",") && !strings.HasPrefix(s, `"`) {
		return append(dst, s...)
	}
	dst = append(dst, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, s[i])
	}
	return append(dst, '"')
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
	misfits []Misfit
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
		if m := p.s.extra.of(p.v); p.s.extra.typ.elem.op == opString {
			if m.IsNil() {
				m.Set(reflect.MakeMap(m.Type()))
			}
			m.SetMapIndex(reflect.ValueOf(tok.key), reflect.ValueOf(tok.value).Convert(m.Type().Elem()))
		}
	}
}

func (p *propsParser) set(f *fieldInfo, text string) {
	p.d.misfit = func(m Misfit) {
		m.Path = f.name + m.Path
		if secretName(f.name) {
			m.Got = tokenString.String()
		}
		p.misfits = append(p.misfits, m)
	}
	p.d.path = p.d.path[:0]
	v := f.of(p.v)
	if f.typ.op == opSlice {
		p.d.list(f.typ, v, f, text)
		return
	}
	b := []byte(text)
	p.d.scalar(f.typ, v, token{kind: tokenString, text: b, raw: b})
}

// FormatProps writes the struct v, or the struct it points to, as a property string.
// Raw is the text v was parsed from, or "". Parts whose value is unchanged keep raw's
// own text and place, parts that changed keep their place and their spelling of the
// key, parts that are gone are dropped, and new ones follow in the order of the fields.
//
// A comma in a value is quoted, which PBS and PDM understand. For PVE, which has no
// quotes, use [MarshalProps].
func FormatProps(v any, raw string) string {
	out, err := formatProps(v, raw, false)
	if err != nil {
		return raw
	}
	return string(out)
}

// MarshalProps is [FormatProps] for PVE: values that a property string cannot hold
// there, such as one with a comma, are errors.
func MarshalProps(v any, raw string) ([]byte, error) {
	return formatProps(v, raw, true)
}

func formatProps(v any, raw string, strict bool) ([]byte, error) {
	sv := reflect.ValueOf(v)
	for sv.Kind() == reflect.Pointer && !sv.IsNil() {
		sv = sv.Elem()
	}
	if sv.Kind() != reflect.Struct {
		return nil, fmt.Errorf("wire: %T is not a property string", v)
	}
	s := typeOf(sv.Type()).structFields()
	w := propsWriter{s: s, now: sv, strict: strict, written: make([]bool, len(s.fields)), raw: raw}
	if raw != "" {
		w.before = reflect.New(sv.Type()).Elem()
		w.tokens = splitProps(s, raw)
		p := propsParser{s: s, v: w.before}
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
	written     []bool // by index in s.fields
	out         []byte
	some        bool // something has been written
	strict      bool
	err         error
}

// token writes the i-th part of raw as it is now.
func (w *propsWriter) token(i int) {
	tok := w.tokens[i]
	f := tok.field
	switch {
	case tok.alias:
		w.aliasToken(tok)
	case f != nil:
		w.mark(f)
		switch {
		case !w.changed(f):
			w.verbatim(tok.raw)
		case w.last(i) && w.isSet(f):
			w.pair(f, tok.key, w.text(f))
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
	w.mark(tok.field)
	if target == nil {
		w.verbatim(tok.raw)
		return
	}
	w.mark(target)
	if !w.changed(tok.field) && !w.changed(target) {
		w.verbatim(tok.raw)
		return
	}
	w.aliasPair(tok.field, target)
}

// aliasPair writes a field and its alias target, in the short form where that reads
// back the same.
func (w *propsWriter) aliasPair(f, target *fieldInfo) {
	switch {
	case !w.isSet(target) && !w.isSet(f):
	case !w.isSet(target):
		w.pair(f, "", w.text(f))
	case !w.isSet(f):
		w.pair(target, target.name, w.text(target))
	default:
		key, value := string(w.text(f)), string(w.text(target))
		if w.s.propField(key) == nil && w.s.aliasField(key, value) == f && !strings.ContainsAny(key, "=,\" ") {
			w.check(key, value)
			w.separate()
			w.out = append(append(w.out, key...), '=')
			w.out = quote(w.out, value)
			return
		}
		w.pair(f, f.name, []byte(key))
		w.pair(target, target.name, []byte(value))
	}
}

// rest writes what raw does not name: the key that may be left out first, the others
// in the order of the fields, unknown keys in theirs.
func (w *propsWriter) rest() {
	for _, def := range []bool{true, false} {
		for i, f := range w.s.fields {
			if f.isDefault != def || w.written[i] || !w.isSet(f) || w.raw != "" && !w.changed(f) {
				continue
			}
			w.mark(f)
			if target := w.s.propField(f.aliasTarget); f.aliasTarget != "" && target != nil && !w.isWritten(target) {
				w.mark(target)
				w.aliasPair(f, target)
				continue
			}
			key := f.name
			if def && !slices.ContainsFunc(w.tokens, func(p prop) bool { return p.key == "" && p.field == f }) {
				key = ""
			}
			w.pair(f, key, w.text(f))
		}
	}
	if w.s.extra == nil {
		return
	}
	m := w.s.extra.of(w.now)
	var keys []string
	for iter := m.MapRange(); iter.Next(); {
		key := iter.Key().String()
		old := false
		if w.raw != "" {
			_, old = w.extra(w.before, key)
		}
		if !old && (w.s.propField(key) == nil || !w.isSet(w.s.propField(key))) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		value, _ := w.extra(w.now, key)
		w.extraPair(key, value)
	}
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

func (w *propsWriter) mark(f *fieldInfo) {
	w.written[slices.Index(w.s.fields, f)] = true
}

func (w *propsWriter) isWritten(f *fieldInfo) bool {
	return w.written[slices.Index(w.s.fields, f)]
}

func (w *propsWriter) changed(f *fieldInfo) bool {
	a, b := f.of(w.before), f.of(w.now)
	return !reflect.DeepEqual(a.Interface(), b.Interface())
}

// isSet reports whether a field says something. A required number or flag does even
// when it is zero, unless it was parsed from text without it.
func (w *propsWriter) isSet(f *fieldInfo) bool {
	v := f.of(w.now)
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		return !isUnset(v)
	case reflect.String, reflect.Struct:
		return !v.IsZero()
	}
	return !f.omitEmpty || !v.IsZero()
}

func (w *propsWriter) text(f *fieldInfo) []byte {
	t, v, ok := concrete(f.typ, f.of(w.now))
	if !ok {
		return nil
	}
	var text []byte
	var err error
	if t.op == opSlice && t.marshalText == marshalNone {
		sep := *f
		if !f.list || f.sep == "," {
			sep.sep = ";" // a comma would end the part
		}
		text, err = joinList(nil, &sep, t, v)
		if w.strict && err == nil {
			w.checkList(f, t, v, sep.sep)
		}
	} else {
		text, err = appendText(nil, t, v)
	}
	if err != nil {
		w.fail(f.name, err)
	}
	return text
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
		w.err = fmt.Errorf("wire: property string: %s: %w", key, err)
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
func (w *propsWriter) pair(f *fieldInfo, key string, value []byte) {
	text := string(value)
	if key == "" && (!f.isDefault || text == "" || strings.Contains(text, "=")) {
		key = f.name
	}
	w.check(f.name, text)
	w.separate()
	if key != "" {
		w.out = append(append(w.out, key...), '=')
	}
	w.out = quote(w.out, text)
}

func (w *propsWriter) extraPair(key, value string) {
	if w.strict && (key == "" || strings.ContainsAny(key, "=, \"")) {
		w.fail(fmt.Sprintf("%q", shorten(key, maxGot)), errors.New("is no key"))
	}
	w.check(key, value)
	w.separate()
	w.out = append(append(w.out, key...), '=')
	w.out = quote(w.out, value)
}

// check refuses what PVE would read as something else.
func (w *propsWriter) check(key, value string) {
	if !w.strict {
		return
	}
	switch {
	case strings.Contains(value, ","):
		w.fail(key, errors.New("the value must not contain a comma"))
	case strings.ContainsAny(value, "\r\n\x00"):
		w.fail(key, errors.New("the value must not contain line breaks"))
	case trim(value) != value:
		w.fail(key, errors.New("the value must not begin or end with white space"))
	case strings.HasPrefix(value, `"`):
		w.fail(key, errors.New("the value must not begin with a quote"))
	}
}
