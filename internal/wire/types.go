package wire

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// An op says how values of a type are read.
type op byte

const (
	opUnsupported op = iota
	opBool
	opInt
	opUint
	opFloat
	opString
	opNumber // json.Number
	opText   // encoding.TextUnmarshaler
	opJSON   // json.Unmarshaler
	opRaw    // json.RawMessage
	opAny
	opPointer
	opSlice
	opMap
	opStruct
)

// typeInfo is what the codec knows of a Go type.
type typeInfo struct {
	typ    reflect.Type
	op     op
	fast   fastKind
	want   string // for reports
	elem   *typeInfo
	fields *structInfo // of a struct, also of one that is text

	marshalText, marshalJSON marshalKind
}

// A marshalKind says which receiver a marshalling method has.
type marshalKind byte

const (
	marshalNone marshalKind = iota
	marshalValue
	marshalPointer
)

// A fastKind names the exact types that are read without reflection.
type fastKind byte

const (
	slow fastKind = iota
	fastBool
	fastInt64
	fastUint64
	fastFloat64
	fastString
)

// fieldInfo is a field of a struct as its tags describe it.
type fieldInfo struct {
	name      string // on the wire; of an indexed family: the prefix
	typ       *typeInfo
	index     []int
	first     int // index[0], where that is all there is
	pos       int // in structInfo.fields
	omitEmpty bool
	family    bool // a map[int]T that holds net0, net1, …
	list      bool // text with separators
	sshKeys   bool
	sep       string // between the elements of a list, when written

	aliases     []string // property strings: other spellings of the key
	isDefault   bool     // property strings: the key may be left out
	aliasTarget string   // property strings: the key whose value a key alias carries
	aliasKeys   []string // property strings: the keys that are aliases; empty: any
}

type structInfo struct {
	fields   []*fieldInfo // in order of declaration
	def      *fieldInfo   // of a property string: the one whose key may be left out
	sorted   []*fieldInfo // by name; families and extra left out
	families []*fieldInfo
	extra    *fieldInfo
	raw      int          // index of the text a property string was parsed from; -1: no property string
	quotes   bool         // of a property string: values may be quoted
	table    []*fieldInfo // by hash, open addressing
	mask     uint32
}

// types caches the plans: they depend on nothing but the types.
var types sync.Map // reflect.Type → *typeInfo

func typeOf(t reflect.Type) *typeInfo {
	if info, ok := types.Load(t); ok {
		return info.(*typeInfo)
	}
	building := map[reflect.Type]*typeInfo{}
	info := build(t, building)
	for t, info := range building {
		types.LoadOrStore(t, info)
	}
	return info
}

func build(t reflect.Type, building map[reflect.Type]*typeInfo) *typeInfo {
	if info, ok := types.Load(t); ok {
		return info.(*typeInfo)
	}
	if info := building[t]; info != nil {
		return info
	}
	info := &typeInfo{typ: t}
	building[t] = info

	pointer := reflect.PointerTo(t)
	if t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface {
		info.marshalText = marshals(t, pointer, reflect.TypeFor[encoding.TextMarshaler]())
		info.marshalJSON = marshals(t, pointer, reflect.TypeFor[json.Marshaler]())
	}
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		info.op, info.want = opRaw, "JSON"
	case t == reflect.TypeFor[json.Number]():
		info.op, info.want = opNumber, "number"
	case t.Kind() == reflect.Pointer:
		info.op = opPointer
		info.elem = build(t.Elem(), building)
		info.want = info.elem.want
		if info.elem.op != opPointer && t.Name() == "" {
			info.fast = info.elem.fast
		}
	case t.Kind() == reflect.Interface:
		if t.NumMethod() == 0 {
			info.op = opAny
		}
		info.want = "value"
	case pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		info.op, info.want = opText, t.Name()
		if t.Kind() == reflect.Struct {
			info.fields = buildStruct(t, building)
		}
	case pointer.Implements(reflect.TypeFor[json.Unmarshaler]()):
		info.op, info.want = opJSON, t.Name()
	default:
		buildKind(info, building)
	}
	return info
}

func buildKind(info *typeInfo, building map[reflect.Type]*typeInfo) {
	t := info.typ
	info.want = "value"
	switch t.Kind() {
	case reflect.Bool:
		info.op, info.want = opBool, "boolean"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		info.op, info.want = opInt, "integer"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		info.op, info.want = opUint, "integer, not negative"
	case reflect.Float32, reflect.Float64:
		info.op, info.want = opFloat, "number"
	case reflect.String:
		info.op, info.want = opString, "string"
	case reflect.Slice:
		info.op, info.want = opSlice, "list"
		info.elem = build(t.Elem(), building)
	case reflect.Map:
		info.want = "object"
		if k := t.Key().Kind(); k == reflect.String || k == reflect.Int || k == reflect.Int64 {
			info.op = opMap
			info.elem = build(t.Elem(), building)
		}
	case reflect.Struct:
		info.op, info.want = opStruct, "object"
		info.fields = buildStruct(t, building)
	}
	switch t {
	case reflect.TypeFor[bool]():
		info.fast = fastBool
	case reflect.TypeFor[int64]():
		info.fast = fastInt64
	case reflect.TypeFor[uint64]():
		info.fast = fastUint64
	case reflect.TypeFor[float64]():
		info.fast = fastFloat64
	case reflect.TypeFor[string]():
		info.fast = fastString
	}
}

func marshals(t, pointer, method reflect.Type) marshalKind {
	switch {
	case t.Implements(method):
		return marshalValue
	case pointer.Implements(method):
		return marshalPointer
	}
	return marshalNone
}

func buildStruct(t reflect.Type, building map[reflect.Type]*typeInfo) *structInfo {
	s := &structInfo{raw: -1}
	s.collect(t, nil, building)
	if raw, ok := t.FieldByName("raw"); ok && s.extra != nil && len(raw.Index) == 1 && raw.Type.Kind() == reflect.String {
		s.raw = raw.Index[0]
	}
	for i, f := range s.fields {
		f.pos = i
		if f.isDefault && s.def == nil {
			s.def = f
		}
		if f.family {
			s.families = append(s.families, f)
		} else {
			s.sorted = append(s.sorted, f)
		}
	}
	slices.SortStableFunc(s.sorted, func(a, b *fieldInfo) int { return strings.Compare(a.name, b.name) })
	// A longer prefix wins: of "x[n]" and "x2[n]", x21 belongs to the second.
	slices.SortStableFunc(s.families, func(a, b *fieldInfo) int { return len(b.name) - len(a.name) })

	size := uint32(4)
	for int(size) < 4*len(s.sorted) {
		size *= 2
	}
	s.mask = size - 1
	s.table = make([]*fieldInfo, size)
	for _, f := range s.sorted {
		i := hashName(f.name) & s.mask
		for s.table[i] != nil && s.table[i].name != f.name {
			i = (i + 1) & s.mask
		}
		if s.table[i] == nil { // of two fields with one name, the first counts
			s.table[i] = f
		}
	}
	return s
}

func (s *structInfo) collect(t reflect.Type, path []int, building map[reflect.Type]*typeInfo) {
	for i := range t.NumField() {
		sf := t.Field(i)
		name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
		index := append(slices.Clone(path), i)
		if sf.Anonymous && name == "" && sf.Type.Kind() == reflect.Struct {
			s.collect(sf.Type, index, building)
			continue
		}
		if !sf.IsExported() {
			continue
		}
		f := &fieldInfo{name: name, index: index, first: -1}
		if len(index) == 1 {
			f.first = i
		}
		if f.name == "" {
			f.name = sf.Name
		}
		for option := range strings.SplitSeq(options, ",") {
			f.omitEmpty = f.omitEmpty || option == "omitempty" || option == "omitzero"
		}
		extra, quotes := f.words(sf.Tag.Get("px"))
		if name == "-" && !extra {
			continue
		}
		f.typ = build(sf.Type, building)
		switch prefix, indexed := strings.CutSuffix(f.name, "[n]"); {
		case extra && sf.Type.Kind() == reflect.Map:
			s.extra, s.quotes = f, quotes
			continue
		case indexed && sf.Type.Kind() == reflect.Map && f.typ.op == opMap && sf.Type.Key().Kind() != reflect.String:
			f.name, f.family = prefix, true
		}
		s.fields = append(s.fields, f)
	}
}

// words reads the px tag and reports whether the field keeps unknown keys and whether
// the property string it belongs to may hold quotes.
func (f *fieldInfo) words(tag string) (extra, quotes bool) {
	f.sep = ","
	for word := range strings.SplitSeq(tag, ",") {
		key, value, hasValue := strings.Cut(word, "=")
		switch key {
		case "list":
			f.list = true
			if hasValue && value != "" {
				f.sep = value
			}
		case "sshkeys":
			f.sshKeys = true
		case "extra":
			extra = true
		case "quotes":
			quotes = true
		case "default":
			f.isDefault = true
		case "alias":
			f.aliases = strings.Split(value, "|")
		case "keyalias":
			target, keys, some := strings.Cut(value, ":")
			f.aliasTarget = target
			if some {
				f.aliasKeys = strings.Split(keys, "|")
			}
		}
	}
	return extra, quotes
}

// of returns the field of v, a struct.
func (f *fieldInfo) of(v reflect.Value) reflect.Value {
	if f.first >= 0 {
		return v.Field(f.first)
	}
	return v.FieldByIndex(f.index)
}

// find returns the field with exactly this name, or nil.
func find[T string | []byte](s *structInfo, name T) *fieldInfo {
	for i := hashName(name) & s.mask; ; i = (i + 1) & s.mask {
		f := s.table[i]
		if f == nil || f.name == string(name) {
			return f
		}
	}
}

// hashName mixes the length and four bytes of a name, which is enough to tell apart
// the members of one object.
func hashName[T string | []byte](s T) uint32 {
	n := uint32(len(s)) //nolint:gosec // any mixture will do
	if n == 0 {
		return 0
	}
	h := n*0x9E3779B1 ^ uint32(s[0])*0x85EBCA6B ^ uint32(s[n/2])*0xC2B2AE35 ^ uint32(s[n-1])*0x27D4EB2F ^ uint32(s[n/3])*0x165667B1
	return h ^ h>>15
}

// maxIndexDigits bounds the index of a family's member, so that it fits an int
// everywhere.
const maxIndexDigits = 9

// familyOf returns the family that name is a member of and the index in it. A member
// is the prefix and digits without leading zeros. An index beyond all sense gives -1.
func familyOf[T string | []byte](s *structInfo, name T) (*fieldInfo, int) {
	if len(name) == 0 || !isDigit(name[len(name)-1]) {
		return nil, 0
	}
	for _, f := range s.families {
		if len(name) <= len(f.name) || string(name[:len(f.name)]) != f.name {
			continue
		}
		digits := name[len(f.name):]
		if n, ok := parseIndex(digits); ok {
			return f, n
		}
	}
	return nil, 0
}

// parseIndex reads digits without leading zeros: -1 if they are too many.
func parseIndex[T string | []byte](digits T) (int, bool) {
	if len(digits) == 0 || digits[0] == '0' && len(digits) > 1 {
		return 0, false
	}
	n := 0
	for i := range len(digits) {
		if !isDigit(digits[i]) {
			return 0, false
		}
		if i < maxIndexDigits {
			n = n*10 + int(digits[i]-'0')
		}
	}
	if len(digits) > maxIndexDigits {
		n = -1
	}
	return n, true
}
