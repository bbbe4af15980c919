package wire

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
)

// Decode reads JSON into the value that out points to, leniently: what a Proxmox
// server sends is rarely what its API description promises.
//
//   - A boolean is read from 0, 1, true, false, the same in quotes, yes, no, on, off and "".
//   - An integer is read from plain, quoted, exponent and float forms, exactly or not at all.
//   - A string is read from a bare number or boolean, whose literal is kept.
//   - A list is read from an array or from text with separators.
//   - An object is read from a property string too, when the text sets one of its members.
//   - null is an absent value, and so is "" where a number is wanted: a nil pointer, a zero value.
//   - An any holds what encoding/json would put there, with numbers as [json.Number].
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
		return fmt.Errorf("Decode needs a pointer to decode into, not %T", out)
	}
	d := &decoder{data: data, misfit: misfit}
	if len(data) > cacheFrom {
		d.cache = new([cacheSize]string)
	}
	if err := d.into(v.Elem()); err != nil {
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
