package wire

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"reflect"
)

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
	case opStruct:
		if tok.kind == tokenString && namesField(t.fields, tok.text) {
			// Some answers hold an object in one release and its property string in another.
			v.SetZero()
			return d.parts(t, v, ParseProps(string(tok.text), v.Addr().Interface()), tok)
		}
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
	return d.parts(t, v, v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText(tok.text), tok)
}

// parts keeps what could be read of a property string and reports the rest: one odd
// option does not lose a disk.
func (d *decoder) parts(t *typeInfo, v reflect.Value, err error, tok token) status {
	if err == nil {
		return set
	}
	var parts *PropsError
	if !errors.As(err, &parts) {
		v.SetZero()
		d.report(t.want, tok.kind, tok.raw)
		return unfit
	}
	if d.misfit != nil {
		where := d.where()
		for _, m := range parts.Misfits {
			m.Path = join(where, m.Path)
			d.misfit(m)
		}
	}
	return set
}

// namesField reports whether text is a property string that sets one of the fields.
func namesField(s *structInfo, text []byte) bool {
	if bytes.IndexByte(text, '=') < 0 {
		return false
	}
	for _, p := range splitProps(s, string(text)) {
		if p.field != nil {
			return true
		}
	}
	return false
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
