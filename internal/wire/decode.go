package wire

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Decode reads JSON into the value that out points to, leniently: what a Proxmox
// server sends is rarely what its API description promises.
//
//   - A boolean is read from 0, 1, true, false, the same in quotes, yes, no, on, off and "".
//   - An integer is read from plain, quoted, exponent and float forms, exactly or not at all.
//   - A string is read from a bare number or boolean, whose literal is kept.
//   - A list is read from an array or from text with separators.
//   - null is an absent value, and so is "" where a number is wanted: a nil pointer, a zero value.
//   - Keys match exactly; the last of several equal keys counts; unknown keys are ignored,
//     unless the struct has a px:"extra" map.
//
// A value that does not fit leaves its field zero and is handed to misfit, which may be
// nil; a list keeps the element. Only invalid JSON is an error, and then the contents of
// out are unspecified.
//
// Members of the outermost struct that the text does not name stay as they are, and one
// that is an interface holding a pointer is decoded into what it points to: an envelope
// can carry any result.
func Decode(data []byte, out any, misfit func(Misfit)) error {
	v := reflect.ValueOf(out)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return fmt.Errorf("wire: Decode needs a pointer to decode into, not %T", out)
	}
	d := &decoder{data: data, misfit: misfit}
	if len(data) > cacheFrom {
		d.cache = new([cacheSize]string)
	}
	t, v := typeOf(v.Type().Elem()), v.Elem()
	var err error
	if t.op == opStruct && d.space() == '{' {
		err = d.object(t.fields, v) // what the caller has put into the struct stays
	} else {
		_, err = d.value(t, v)
	}
	if err != nil {
		return err
	}
	if d.space(); d.pos < len(data) {
		return d.unexpected("after the value")
	}
	return nil
}

const (
	cacheSize = 256     // recent strings, shared where they repeat
	cacheFrom = 4 << 10 // bytes of input from which sharing pays
)

type decoder struct {
	data    []byte
	pos     int
	depth   int
	misfit  func(Misfit)
	path    []frame
	scratch []byte
	cache   *[cacheSize]string

	bools   slab[bool]
	ints    slab[int64]
	uints   slab[uint64]
	floats  slab[float64]
	strings slab[string]
}

// A slab hands out pointers from small blocks: an answer has many optional scalars,
// and an allocation for each would cost more than all the rest. A block is small
// enough that whoever keeps one pointer keeps little else alive.
type slab[T any] struct {
	free []T
	size int
}

const maxSlab = 64

func (s *slab[T]) new(v T) *T {
	if len(s.free) == 0 {
		s.size = min(max(2*s.size, 1), maxSlab)
		s.free = make([]T, s.size)
	}
	p := &s.free[0]
	s.free = s.free[1:]
	*p = v
	return p
}

// A status says what became of a value.
type status byte

const (
	set    status = iota
	absent        // null, or "" for a number
	unfit         // reported
)

// value reads one value into v, which is left zero unless the status is set.
func (d *decoder) value(t *typeInfo, v reflect.Value) (status, error) {
	c := d.space()
	switch t.op {
	case opInt, opUint, opPointer:
		if isDigit(c) {
			if done := d.plainInteger(t, v); done {
				return set, nil
			}
		}
		if t.op == opPointer && (t.fast == slow || c == '{' || c == '[') {
			return d.pointer(t, v)
		}
	case opRaw:
		start := d.pos
		if err := d.skip(); err != nil {
			return unfit, err
		}
		v.SetBytes(append([]byte(nil), d.data[start:d.pos]...))
		return set, nil
	case opJSON:
		if c != 'n' {
			return d.unmarshalJSON(t, v)
		}
	case opAny:
		return d.any(v)
	case opSlice:
		return d.slice(t, v, nil)
	case opMap, opStruct, opText:
		if c == '{' && t.fields != nil {
			v.SetZero()
			return set, d.object(t.fields, v)
		}
		if c == '{' && t.op == opMap {
			return set, d.mapping(t, v)
		}
	}
	tok, err := d.token()
	if err != nil {
		return unfit, err
	}
	return d.scalar(t, v, tok), nil
}

// plainInteger reads what most numbers are: digits that fit. It reads nothing when
// they do not, or when v is no integer.
func (d *decoder) plainInteger(t *typeInfo, v reflect.Value) bool {
	if t.fast != fastInt64 && t.fast != fastUint64 {
		return false
	}
	data, i := d.data, d.pos
	n := uint64(0)
	for i < len(data) && isDigit(data[i]) {
		n = n*10 + uint64(data[i]-'0')
		i++
	}
	if i-d.pos > 18 || data[d.pos] == '0' && i-d.pos > 1 {
		return false
	}
	if i < len(data) && (data[i] == '.' || data[i] == 'e' || data[i] == 'E') {
		return false
	}
	d.pos = i
	switch {
	case t.op == opInt:
		v.SetInt(int64(n)) //nolint:gosec // 18 digits fit
	case t.op == opUint:
		v.SetUint(n)
	case t.fast == fastInt64:
		*v.Addr().Interface().(**int64) = d.ints.new(int64(n)) //nolint:gosec // 18 digits fit
	default:
		*v.Addr().Interface().(**uint64) = d.uints.new(n)
	}
	return true
}

func (d *decoder) pointer(t *typeInfo, v reflect.Value) (status, error) {
	if d.space() == 'n' && t.elem.op != opRaw {
		v.SetZero()
		return absent, d.literal("null")
	}
	p := reflect.New(t.elem.typ)
	st, err := d.value(t.elem, p.Elem())
	if st == set {
		v.Set(p)
	} else {
		v.SetZero()
	}
	return st, err
}

// scalar puts the token into v, which may be of any type.
func (d *decoder) scalar(t *typeInfo, v reflect.Value, tok token) status {
	if tok.kind == tokenNull {
		v.SetZero()
		return absent
	}
	st := unfit
	switch t.op {
	case opPointer:
		st = d.scalarPointer(t, v, tok)
	case opBool:
		var b bool
		if b, st = tok.bool(); st == set {
			v.SetBool(b)
		}
	case opInt:
		var n int64
		if n, st = tok.int(); st == set {
			if v.OverflowInt(n) {
				st = unfit
			} else {
				v.SetInt(n)
			}
		}
	case opUint:
		var n uint64
		if n, st = tok.uint(); st == set {
			if v.OverflowUint(n) {
				st = unfit
			} else {
				v.SetUint(n)
			}
		}
	case opFloat:
		var f float64
		if f, st = tok.float(); st == set {
			if v.OverflowFloat(f) {
				st = unfit
			} else {
				v.SetFloat(f)
			}
		}
	case opString:
		if tok.kind <= tokenBool {
			v.SetString(d.string(tok.text))
			return set
		}
	case opNumber:
		text := trim(tok.text)
		switch {
		case tok.kind == tokenString && len(text) == 0:
			st = absent
		case tok.kind <= tokenNumber && isDecimal(text):
			v.SetString(d.string(text))
			return set
		}
	case opText:
		return d.unmarshalText(t, v, tok)
	case opAny:
		if tok.kind <= tokenBool {
			v.Set(reflect.ValueOf(d.string(tok.text)))
			return set
		}
	}
	if st != set {
		v.SetZero()
	}
	if st == unfit && t.op != opPointer {
		d.report(t.want, tok.kind, tok.raw)
	}
	return st
}

func (d *decoder) scalarPointer(t *typeInfo, v reflect.Value, tok token) (st status) {
	p := v.Addr().Interface()
	switch t.fast {
	case fastBool:
		var b bool
		if b, st = tok.bool(); st == set {
			*p.(**bool) = d.bools.new(b)
		}
	case fastInt64:
		var n int64
		if n, st = tok.int(); st == set {
			*p.(**int64) = d.ints.new(n)
		}
	case fastUint64:
		var n uint64
		if n, st = tok.uint(); st == set {
			*p.(**uint64) = d.uints.new(n)
		}
	case fastFloat64:
		var f float64
		if f, st = tok.float(); st == set {
			*p.(**float64) = d.floats.new(f)
		}
	case fastString:
		if st = unfit; tok.kind <= tokenBool {
			st = set
			*p.(**string) = d.strings.new(d.string(tok.text))
		}
	default:
		e := reflect.New(t.elem.typ)
		if st = d.scalar(t.elem, e.Elem(), tok); st == set {
			v.Set(e)
		}
		return st
	}
	if st == unfit {
		d.report(t.want, tok.kind, tok.raw)
	}
	return st
}

func (t *token) bool() (bool, status) {
	switch t.kind {
	case tokenBool:
		return t.text[0] == 't', set
	case tokenString:
		if b, ok := parseBool(trim(t.text)); ok {
			return b, set
		}
	case tokenNumber:
		if n, neg, ok := parseInteger(t.text); ok && n <= 1 && (!neg || n == 0) {
			return n == 1, set
		}
	}
	return false, unfit
}

func (t *token) integer() (mag uint64, neg bool, st status) {
	if t.kind > tokenNumber {
		return 0, false, unfit
	}
	text := trim(t.text)
	if len(text) == 0 {
		return 0, false, absent
	}
	mag, neg, ok := parseInteger(text)
	if !ok {
		return 0, false, unfit
	}
	return mag, neg, set
}

func (t *token) int() (int64, status) {
	mag, neg, st := t.integer()
	n, ok := toInt64(mag, neg)
	if !ok {
		return 0, unfit
	}
	return n, st
}

func (t *token) uint() (uint64, status) {
	mag, neg, st := t.integer()
	if neg && mag != 0 {
		return 0, unfit
	}
	return mag, st
}

func (t *token) float() (float64, status) {
	if t.kind > tokenNumber {
		return 0, unfit
	}
	text := trim(t.text)
	if len(text) == 0 {
		return 0, absent
	}
	f, ok := parseFloat(text)
	if !ok {
		return 0, unfit
	}
	return f, set
}

// string returns b as a string, sharing it with an equal one seen a moment ago.
func (d *decoder) string(b []byte) string {
	if d.cache == nil || len(b) == 0 || len(b) > 32 {
		return string(b)
	}
	slot := &d.cache[hashName(b)%cacheSize]
	if *slot != string(b) {
		*slot = string(b)
	}
	return *slot
}

func (d *decoder) unmarshalText(t *typeInfo, v reflect.Value, tok token) status {
	v.SetZero()
	if tok.kind > tokenBool {
		d.report(t.want, tok.kind, tok.raw)
		return unfit
	}
	if len(trim(tok.text)) == 0 {
		return absent
	}
	err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText(tok.text)
	if err == nil {
		return set
	}
	var parts *PropsError
	if !errors.As(err, &parts) {
		v.SetZero()
		d.report(t.want, tok.kind, tok.raw)
		return unfit
	}
	// What could be read is kept: one odd option does not lose a disk.
	if d.misfit != nil {
		where := d.where()
		for _, m := range parts.Misfits {
			m.Path = join(where, m.Path)
			d.misfit(m)
		}
	}
	return set
}

func join(path, name string) string {
	if path == "" || name == "" {
		return path + name
	}
	return path + "." + name
}

func (d *decoder) unmarshalJSON(t *typeInfo, v reflect.Value) (status, error) {
	v.SetZero()
	tok, err := d.token()
	if err != nil {
		return unfit, err
	}
	if v.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(tok.raw) != nil {
		v.SetZero()
		d.report(t.want, tok.kind, tok.raw)
		return unfit, nil
	}
	return set, nil
}

// object reads an object into the struct v.
func (d *decoder) object(s *structInfo, v reflect.Value) error {
	if err := d.enter(); err != nil {
		return err
	}
	if d.empty('}') {
		return nil
	}
	d.path = append(d.path, frame{})
	top := len(d.path) - 1
	for {
		key, err := d.key()
		if err != nil {
			return err
		}
		if f := find(s, key); f != nil {
			d.path[top] = frame{name: f.name, index: -1}
			_, err = d.field(f, f.typ, f.of(v))
		} else if f, n := familyOf(s, key); f != nil {
			d.path[top] = frame{name: f.name, index: n}
			if n < 0 {
				d.path[top].name = string(key)
			}
			err = d.member(f, n, v)
		} else if s.extra != nil {
			name := string(key)
			d.path[top] = frame{name: name, index: -1}
			err = d.entry(s.extra.typ, s.extra.of(v), reflect.ValueOf(name))
		} else {
			err = d.skip()
		}
		if err != nil {
			return err
		}
		if more, err := d.more('}'); !more {
			d.path = d.path[:top]
			return err
		}
	}
}

// field reads the value of a field, or of a family's member, into v.
func (d *decoder) field(f *fieldInfo, t *typeInfo, v reflect.Value) (status, error) {
	if !f.list && !f.sshKeys {
		return d.value(t, v)
	}
	switch {
	case t.op == opSlice:
		return d.slice(t, v, f)
	case t.op == opPointer && t.elem.op == opSlice:
		p := reflect.New(t.elem.typ)
		st, err := d.slice(t.elem, p.Elem(), f)
		if v.SetZero(); st == set {
			v.Set(p)
		}
		return st, err
	}
	return d.value(t, v)
}

// member reads the value of net0 and its like into the map that v has for the family.
func (d *decoder) member(f *fieldInfo, n int, v reflect.Value) error {
	if n < 0 {
		tok, err := d.token()
		if err == nil {
			d.report("member with an index of at most "+strconv.Itoa(maxIndexDigits)+" digits", tok.kind, tok.raw)
		}
		return err
	}
	m := f.of(v)
	key := reflect.ValueOf(n).Convert(m.Type().Key())
	elem := reflect.New(f.typ.elem.typ).Elem()
	st, err := d.field(f, f.typ.elem, elem)
	switch {
	case err != nil:
		return err
	case st == absent && m.IsNil():
		return nil
	case st == absent:
		m.SetMapIndex(key, reflect.Value{})
		return nil
	case m.IsNil():
		m.Set(reflect.MakeMap(m.Type()))
	}
	// A member that does not fit is there all the same: its index is taken.
	m.SetMapIndex(key, elem)
	return nil
}

// entry reads a value into the map m.
func (d *decoder) entry(t *typeInfo, m, key reflect.Value) error {
	elem := reflect.New(t.elem.typ).Elem()
	if _, err := d.value(t.elem, elem); err != nil {
		return err
	}
	if m.IsNil() {
		m.Set(reflect.MakeMap(t.typ))
	}
	m.SetMapIndex(key.Convert(t.typ.Key()), elem)
	return nil
}

// mapping reads an object into a map.
func (d *decoder) mapping(t *typeInfo, v reflect.Value) error {
	v.Set(reflect.MakeMap(t.typ))
	if err := d.enter(); err != nil {
		return err
	}
	if d.empty('}') {
		return nil
	}
	d.path = append(d.path, frame{})
	top := len(d.path) - 1
	for {
		key, err := d.key()
		if err != nil {
			return err
		}
		name := d.string(key)
		d.path[top] = frame{name: name, index: -1}
		if t.typ.Key().Kind() == reflect.String {
			err = d.entry(t, v, reflect.ValueOf(name))
		} else if n, ok := parseIndex(name); ok && n >= 0 {
			err = d.entry(t, v, reflect.ValueOf(n))
		} else {
			d.report("number as a key", tokenString, key)
			err = d.skip()
		}
		if err != nil {
			return err
		}
		if more, err := d.more('}'); !more {
			d.path = d.path[:top]
			return err
		}
	}
}

// slice reads an array, or text that stands for one, into v.
func (d *decoder) slice(t *typeInfo, v reflect.Value, f *fieldInfo) (status, error) {
	v.SetZero()
	if d.space() != '[' {
		tok, err := d.token()
		switch {
		case err != nil:
			return unfit, err
		case tok.kind == tokenNull:
			return absent, nil
		case tok.kind <= tokenBool && t.elem.isText():
			return d.list(t, v, f, string(tok.text)), nil
		}
		d.report(t.want, tok.kind, tok.raw)
		return unfit, nil
	}
	if err := d.enter(); err != nil {
		return unfit, err
	}
	if d.empty(']') {
		v.Set(reflect.MakeSlice(t.typ, 0, 0))
		return set, nil
	}
	d.path = append(d.path, frame{})
	top := len(d.path) - 1
	start := d.pos
	for i := 0; ; i++ {
		if i == v.Cap() {
			d.grow(v, i, start)
		}
		v.SetLen(i + 1)
		d.path[top].index = i
		if _, err := d.value(t.elem, v.Index(i)); err != nil {
			return unfit, err
		}
		if more, err := d.more(']'); !more {
			d.path = d.path[:top]
			return set, err
		}
	}
}

// grow makes room in v, which holds n elements read from start on: for as many as
// the rest of the input may hold, at most four times what there is.
func (d *decoder) grow(v reflect.Value, n, start int) {
	add := 3*n + 4
	if n >= 64 {
		perElement := max((d.pos-start)/n, 1)
		add = max(min(add, (len(d.data)-d.pos)/perElement+8), n/4)
	}
	v.Grow(add)
}

// isText reports whether values of the type can be read from text.
func (t *typeInfo) isText() bool {
	if t.op == opPointer {
		t = t.elem
	}
	return opBool <= t.op && t.op <= opText || t.op == opAny
}

// list reads text that stands for an array: a px:"list", SSH keys, or comma text
// where an array was promised.
func (d *decoder) list(t *typeInfo, v reflect.Value, f *fieldInfo, text string) status {
	var items []string
	switch {
	case f != nil && f.sshKeys:
		items = splitKeys(text)
	case f != nil && f.list:
		items = splitList(text)
	case t.elem.op == opText || t.elem.op == opPointer && t.elem.elem.op == opText:
		// A property string holds commas of its own.
		if trim(text) != "" {
			items = []string{text}
		}
	default:
		for item := range strings.SplitSeq(text, ",") {
			if item = trim(item); item != "" {
				items = append(items, item)
			}
		}
	}
	v.Set(reflect.MakeSlice(t.typ, len(items), len(items)))
	d.path = append(d.path, frame{})
	top := len(d.path) - 1
	for i, item := range items {
		d.path[top].index = i
		d.scalar(t.elem, v.Index(i), token{kind: tokenString, text: []byte(item), raw: []byte(item)})
	}
	d.path = d.path[:top]
	return set
}

// splitList splits at the separators that Proxmox knows: comma, semicolon, white
// space and NUL.
func splitList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool {
		return r == ',' || r == ';' || r == 0 || r < ' ' && isSpace(byte(r)) || r == ' '
	})
}

// any reads a value of unknown shape: numbers become json.Number, which loses nothing.
func (d *decoder) any(v reflect.Value) (status, error) {
	if e := v.Elem(); e.Kind() == reflect.Pointer && !e.IsNil() {
		return d.value(typeOf(e.Type().Elem()), e.Elem())
	}
	x, err := d.unknown()
	if err != nil {
		return unfit, err
	}
	if x == nil {
		v.SetZero()
		return absent, nil
	}
	v.Set(reflect.ValueOf(x))
	return set, nil
}

func (d *decoder) unknown() (any, error) {
	switch d.space() {
	case '{':
		m := map[string]any{}
		if err := d.enter(); err != nil {
			return nil, err
		}
		if d.empty('}') {
			return m, nil
		}
		for {
			key, err := d.key()
			if err != nil {
				return nil, err
			}
			name := d.string(key)
			if m[name], err = d.unknown(); err != nil {
				return nil, err
			}
			if more, err := d.more('}'); !more {
				return m, err
			}
		}
	case '[':
		list := []any{}
		if err := d.enter(); err != nil {
			return nil, err
		}
		if d.empty(']') {
			return list, nil
		}
		for {
			x, err := d.unknown()
			if err != nil {
				return nil, err
			}
			list = append(list, x)
			if more, err := d.more(']'); !more {
				return list, err
			}
		}
	}
	tok, err := d.token()
	if err != nil {
		return nil, err
	}
	switch tok.kind {
	case tokenString:
		return d.string(tok.text), nil
	case tokenNumber:
		return json.Number(d.string(tok.text)), nil
	case tokenBool:
		return tok.text[0] == 't', nil
	}
	return nil, nil
}
