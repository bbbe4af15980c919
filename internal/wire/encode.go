package wire

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A Dialect says how a product wants its JSON bodies.
type Dialect string

// The dialects.
const (
	Perl Dialect = "perl" // PVE: booleans are 1 and 0
	Rust Dialect = "rust" // PBS and PDM: booleans are true and false
)

// EncodeForm returns params as a form body or a query: sorted keys, booleans as 1 and
// 0, decimal numbers, arrays as repeated keys. The names in skip are left out; they
// are those that [Path] has used.
//
// Params is a struct, a map with string keys, a pointer to either, or nil. An array in
// a map is sent as repeated keys, which PVE accepts for its comma lists too.
//
// A form cannot hold an object, which is an error, nor an empty array, which is left
// out; ask [FormFits] first.
func EncodeForm(params any, skip []string) (string, error) {
	var few [64]entry
	list, err := entriesOf(few[:0], params, skip)
	if err == nil {
		err = setAndDeleted(list)
	}
	if err != nil || len(list) == 0 {
		return "", err
	}
	e := encoder{out: make([]byte, 0, 64*len(list))}
	for _, entry := range list {
		if err := e.form(entry); err != nil {
			return "", fmt.Errorf("parameter %s: %w", entry.name, err)
		}
	}
	return string(e.out), nil
}

// FormFits reports whether a form can say params without loss: it cannot tell an
// array of one element from a scalar, cannot say an empty array, and holds no objects.
// What [IsForm] always fits.
func FormFits(params any, skip []string) bool {
	if IsForm(params) {
		return true
	}
	list, err := entriesOf(nil, params, skip)
	if err != nil {
		return true // EncodeForm will say what is wrong
	}
	for _, entry := range list {
		t, v, ok := concrete(entry.typ, entry.value)
		if !ok || t.marshalText != marshalNone {
			continue
		}
		switch t.op {
		case opMap, opStruct:
			return false
		case opSlice:
			if !(entry.field != nil && (entry.field.list || entry.field.sshKeys)) && v.Len() < 2 {
				return false
			}
		case opRaw:
			raw := trim(v.Bytes())
			if len(raw) > 0 && (raw[0] == '[' || raw[0] == '{') {
				return false
			}
		}
	}
	return true
}

// IsForm reports whether params are [url.Values], a form already: a single value in them
// is no array of one.
func IsForm(params any) bool {
	switch params.(type) {
	case url.Values, *url.Values:
		return true
	}
	return false
}

// An entry is a parameter that is set.
type entry struct {
	name  string
	value reflect.Value
	typ   *typeInfo
	field *fieldInfo // nil for what comes from a map
}

// entriesOf appends the parameters that are set to list, which is empty, sorted by name.
func entriesOf(list []entry, params any, skip []string) ([]entry, error) {
	if params == nil {
		return nil, nil
	}
	v := reflect.ValueOf(params)
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return nil, nil
		}
		v = v.Elem()
	}
	switch {
	case v.Kind() == reflect.Struct:
		return structEntries(list, typeOf(v.Type()).structFields(), v, skip), nil
	case v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String:
		return mapEntries(list, v, skip)
	}
	return nil, fmt.Errorf("parameters must be a struct or a map with string keys, not %T", params)
}

// structFields returns the fields of a struct type, whatever methods it has.
func (t *typeInfo) structFields() *structInfo {
	if t.fields != nil {
		return t.fields
	}
	return buildStruct(t.typ, map[reflect.Type]*typeInfo{t.typ: t})
}

func structEntries(list []entry, s *structInfo, v reflect.Value, skip []string) []entry {
	for _, f := range s.sorted {
		if fv := f.of(v); !leftOut(f, fv) && !slices.Contains(skip, f.name) {
			list = append(list, entry{f.name, fv, f.typ, f})
		}
	}
	known := len(list)
	for _, f := range s.families {
		if m := f.of(v); m.Len() > 0 {
			list = appendFamily(list, f.name, f, f.typ.elem, m, skip)
		}
	}
	if s.extra != nil && s.extra.of(v).Len() > 0 {
		for iter := s.extra.of(v).MapRange(); iter.Next(); {
			name, value := iter.Key().String(), iter.Value()
			if f, _ := familyOf(s, name); f == nil && find(s, name) == nil && !slices.Contains(skip, name) && !isUnset(value) {
				list = append(list, entry{name, value, s.extra.typ.elem, nil})
			}
		}
	}
	return mergeEntries(list, known)
}

// setAndDeleted refuses a parameter that is given a value and named in the list of those
// to delete: the server would, but of a long list it does not say which.
func setAndDeleted(list []entry) error {
	i, ok := slices.BinarySearchFunc(list, "delete", func(e entry, name string) int { return strings.Compare(e.name, name) })
	if !ok {
		return nil
	}
	_, v, ok := concrete(list[i].typ, list[i].value)
	if !ok || v.Kind() != reflect.Slice || v.Type().Elem().Kind() != reflect.String {
		return nil
	}
	for j := range v.Len() {
		name := v.Index(j).String()
		if _, both := slices.BinarySearchFunc(list, name, func(e entry, name string) int { return strings.Compare(e.name, name) }); both && name != "" {
			return fmt.Errorf("parameter %s: is set and named in delete; give one or the other", shorten(name, maxName))
		}
	}
	return nil
}

func byName(a, b entry) int { return strings.Compare(a.name, b.name) }

// mergeEntries sorts list, whose first known entries are in order already.
func mergeEntries(list []entry, known int) []entry {
	if known == len(list) {
		return list
	}
	slices.SortFunc(list[known:], byName)
	var few [64]entry
	tail := append(few[:0], list[known:]...)
	i, j := known-1, len(tail)-1
	for k := len(list) - 1; j >= 0; k-- {
		if i >= 0 && list[i].name > tail[j].name {
			list[k] = list[i]
			i--
		} else {
			list[k] = tail[j]
			j--
		}
	}
	return list
}

func appendFamily(list []entry, prefix string, f *fieldInfo, elem *typeInfo, m reflect.Value, skip []string) []entry {
	for iter := m.MapRange(); iter.Next(); {
		name, value := prefix+strconv.FormatInt(iter.Key().Int(), 10), iter.Value()
		if !isUnset(value) && !slices.Contains(skip, name) {
			list = append(list, entry{name, value, elem, f})
		}
	}
	return list
}

func mapEntries(list []entry, v reflect.Value, skip []string) ([]entry, error) {
	for iter := v.MapRange(); iter.Next(); {
		name, value := iter.Key().String(), iter.Value()
		for value.Kind() == reflect.Interface && !value.IsNil() {
			value = value.Elem()
		}
		if isUnset(value) || slices.Contains(skip, name) {
			continue
		}
		prefix, indexed := strings.CutSuffix(name, "[n]")
		switch {
		case name == "":
			return nil, errors.New("a parameter has no name")
		case !indexed:
			list = append(list, entry{name, value, typeOf(value.Type()), nil})
		case value.Kind() == reflect.Map && value.CanInterface() && value.Type().Key().Kind() == reflect.Int:
			list = appendFamily(list, prefix, nil, typeOf(value.Type().Elem()), value, skip)
		default:
			return nil, fmt.Errorf("parameter %s: name the members (%s0, %s1) or give a map[int] of them", name, prefix, prefix)
		}
	}
	slices.SortFunc(list, byName)
	return list, nil
}

// leftOut reports whether a field says "no such parameter".
func leftOut(f *fieldInfo, v reflect.Value) bool {
	if f.typ.op == opPointer && f.typ.fast != slow {
		return v.IsNil()
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		return isUnset(v)
	}
	return f.omitEmpty && v.IsZero()
}

// isUnset reports whether v is nil, through as many pointers as there are. An empty
// list that is not nil is set.
func isUnset(v reflect.Value) bool {
	for {
		switch v.Kind() {
		case reflect.Invalid:
			return true
		case reflect.Slice, reflect.Map:
			return v.IsNil() || v.Type() == reflect.TypeFor[json.RawMessage]() && isNull(v.Bytes())
		case reflect.Pointer, reflect.Interface:
			if v.IsNil() {
				return true
			}
			v = v.Elem()
		default:
			return false
		}
	}
}

func isNull(raw []byte) bool {
	raw = trim(raw)
	return len(raw) == 0 || string(raw) == "null"
}

// concrete follows pointers and interfaces to a value: false where there is none. A
// pointer whose type has methods of its own is followed too: the methods of its
// element include them.
func concrete(t *typeInfo, v reflect.Value) (*typeInfo, reflect.Value, bool) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return t, v, false
		}
		v = v.Elem()
		if t.op == opPointer {
			t = t.elem
		} else {
			t = typeOf(v.Type())
		}
	}
	return t, v, true
}

type encoder struct {
	out     []byte
	scratch []byte
	dialect Dialect // of JSON
}

// form appends name=value, once for each element of an array.
func (e *encoder) form(entry entry) error {
	name, f := entry.name, entry.field
	t, v, ok := concrete(entry.typ, entry.value)
	if !ok {
		return nil
	}
	if t.op == opRaw {
		x, err := parseRaw(v.Bytes())
		if err != nil || x == nil {
			return err
		}
		v = reflect.ValueOf(x)
		t = typeOf(v.Type())
	}
	if t.op == opSlice && t.marshalText == marshalNone {
		if f == nil || !f.list && !f.sshKeys {
			for i := range v.Len() {
				if err := e.pair(name, t.elem, v.Index(i)); err != nil {
					return err
				}
			}
			return nil
		}
		var err error
		if e.scratch, err = joinList(e.scratch[:0], f, t, v); err != nil {
			return err
		}
		e.append(name)
		return nil
	}
	return e.pair(name, t, v)
}

func (e *encoder) pair(name string, t *typeInfo, v reflect.Value) error {
	t, v, ok := concrete(t, v)
	if !ok {
		return nil
	}
	var err error
	e.scratch, err = appendText(e.scratch[:0], t, v)
	if err != nil {
		return err
	}
	e.append(name)
	return nil
}

// append writes name and what is in scratch.
func (e *encoder) append(name string) {
	if len(e.out) > 0 {
		e.out = append(e.out, '&')
	}
	e.out = appendEscape(e.out, name, true)
	e.out = append(e.out, '=')
	e.out = appendEscape(e.out, e.scratch, true)
}

func parseRaw(raw []byte) (any, error) {
	d := &decoder{data: raw}
	x, err := d.unknown()
	if d.space(); err == nil && d.pos < len(raw) {
		err = d.unexpected("after the value")
	}
	return x, err
}

// joinList writes a list as one text.
func joinList(dst []byte, f *fieldInfo, t *typeInfo, v reflect.Value) ([]byte, error) {
	if f.sshKeys && t.elem.op == opString {
		keys := make([]string, v.Len())
		for i := range keys {
			keys[i] = v.Index(i).String()
		}
		return joinKeys(dst, keys), nil
	}
	some := false
	for i := range v.Len() {
		et, ev, ok := concrete(t.elem, v.Index(i))
		if !ok {
			continue
		}
		if some {
			dst = append(dst, f.sep...)
		}
		some = true
		var err error
		if dst, err = appendText(dst, et, ev); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// appendText appends a scalar as the text that a form or a property string holds.
func appendText(dst []byte, t *typeInfo, v reflect.Value) ([]byte, error) {
	if t.fields != nil && t.fields.raw >= 0 && t.marshalText != marshalNone {
		// A property string: what its MarshalText would do, without copies of a large struct.
		return formatProps(dst, t.fields, v, v.Field(t.fields.raw).String())
	}
	if t.marshalText != marshalNone {
		text, err := marshaler[encoding.TextMarshaler](t.marshalText, v).MarshalText()
		return append(dst, text...), err
	}
	switch t.op {
	case opBool:
		if v.Bool() {
			return append(dst, '1'), nil
		}
		return append(dst, '0'), nil
	case opInt:
		return strconv.AppendInt(dst, v.Int(), 10), nil
	case opUint:
		return strconv.AppendUint(dst, v.Uint(), 10), nil
	case opFloat:
		return appendFloat(dst, v.Float(), v.Type().Bits())
	case opNumber:
		return appendNumber(dst, v.String())
	}
	if v.Kind() == reflect.String {
		return append(dst, v.String()...), nil
	}
	switch v.Kind() {
	case reflect.Struct, reflect.Map:
		return dst, errors.New("an object cannot be sent in a form")
	case reflect.Slice:
		return dst, errors.New("an array inside an array cannot be sent in a form")
	}
	return dst, fmt.Errorf("a value of type %s cannot be sent", v.Type())
}

// marshaler returns v as M. A value whose pointer has the method is copied where it
// has no address of its own.
func marshaler[M any](kind marshalKind, v reflect.Value) M {
	if kind == marshalPointer {
		if !v.CanAddr() {
			p := reflect.New(v.Type())
			p.Elem().Set(v)
			return p.Interface().(M)
		}
		v = v.Addr()
	}
	return v.Interface().(M)
}

// appendFloat writes the shortest decimal that reads back as f, never an exponent:
// the server takes "1e+02" for text.
func appendFloat(dst []byte, f float64, bits int) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return dst, fmt.Errorf("%v is no number the server could read", f)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, bits), nil
}

// appendNumber writes a json.Number without exponent.
func appendNumber(dst []byte, text string) ([]byte, error) {
	if !isDecimal(text) {
		return dst, fmt.Errorf("%q is not a number", shorten(text, maxGot))
	}
	if !strings.ContainsAny(text, "eE+") {
		return append(dst, text...), nil
	}
	if mag, neg, ok := parseInteger(text); ok {
		if neg && mag > 0 {
			dst = append(dst, '-')
		}
		return strconv.AppendUint(dst, mag, 10), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return dst, fmt.Errorf("%q is beyond the numbers that can be sent", shorten(text, maxGot))
	}
	return appendFloat(dst, f, 64)
}

// appendEscape percent-encodes everything but the unreserved characters of RFC 3986.
// In a form a space is a plus sign.
func appendEscape[T string | []byte](dst []byte, s T, form bool) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(s) {
		switch c := s[i]; {
		case isUnreserved(c):
			dst = append(dst, c)
		case c == ' ' && form:
			dst = append(dst, '+')
		default:
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		}
	}
	return dst
}

func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}
