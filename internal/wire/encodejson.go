package wire

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"
)

// EncodeJSON returns params as a JSON object by the rules of [EncodeForm]: sorted keys,
// families expanded, lists joined. Booleans are written as the dialect wants them, and
// arrays and objects stay what they are. No parameter at all gives "{}".
func EncodeJSON(params any, dialect Dialect, skip []string) ([]byte, error) {
	list, err := entriesOf(nil, params, skip)
	if err == nil {
		err = setAndDeleted(list)
	}
	if err != nil {
		return nil, err
	}
	e := encoder{out: make([]byte, 0, 2+32*len(list)), dialect: dialect}
	if err := e.object(list); err != nil {
		return nil, fmt.Errorf("parameter %w", err)
	}
	return e.out, nil
}

func (e *encoder) object(list []entry) error {
	e.out = append(e.out, '{')
	for i, entry := range list {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		err := e.string(entry.name)
		if err == nil {
			e.out = append(e.out, ':')
			err = e.json(entry.field, entry.typ, entry.value)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", entry.name, err)
		}
	}
	e.out = append(e.out, '}')
	return nil
}

// json appends a value; f, which may be nil, is the field that holds it.
func (e *encoder) json(f *fieldInfo, t *typeInfo, v reflect.Value) error {
	t, v, ok := concrete(t, v)
	if !ok {
		e.out = append(e.out, "null"...)
		return nil
	}
	switch {
	case t.op == opRaw:
		return e.raw(v.Bytes())
	case t.marshalText != marshalNone:
		text, err := marshaler[encoding.TextMarshaler](t.marshalText, v).MarshalText()
		if err != nil {
			return err
		}
		return e.string(string(text))
	case t.marshalJSON != marshalNone && t.op != opNumber:
		raw, err := marshaler[json.Marshaler](t.marshalJSON, v).MarshalJSON()
		if err != nil {
			return err
		}
		return e.raw(raw)
	case v.Kind() == reflect.Struct:
		return e.object(structEntries(nil, t.structFields(), v, nil))
	}
	var err error
	switch t.op {
	case opBool:
		switch {
		case e.dialect == Perl && v.Bool():
			e.out = append(e.out, '1')
		case e.dialect == Perl:
			e.out = append(e.out, '0')
		default:
			e.out = strconv.AppendBool(e.out, v.Bool())
		}
	case opInt, opUint, opFloat, opNumber:
		e.out, err = appendText(e.out, t, v)
	case opSlice:
		return e.slice(f, t, v)
	case opMap:
		return e.mapping(t, v)
	default:
		if v.Kind() != reflect.String {
			return fmt.Errorf("a value of type %s cannot be sent", v.Type())
		}
		return e.string(v.String())
	}
	return err
}

func (e *encoder) slice(f *fieldInfo, t *typeInfo, v reflect.Value) (err error) {
	if f != nil && (f.list || f.sshKeys) {
		if e.scratch, err = joinList(e.scratch[:0], f, t, v); err != nil {
			return err
		}
		return e.string(string(e.scratch))
	}
	e.out = append(e.out, '[')
	for i := range v.Len() {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		if err := e.json(nil, t.elem, v.Index(i)); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
	}
	e.out = append(e.out, ']')
	return nil
}

func (e *encoder) mapping(t *typeInfo, v reflect.Value) error {
	list := make([]entry, 0, v.Len())
	for iter := v.MapRange(); iter.Next(); {
		name := iter.Key().String()
		if iter.Key().CanInt() {
			name = strconv.FormatInt(iter.Key().Int(), 10)
		}
		list = append(list, entry{name, iter.Value(), t.elem, nil})
	}
	slices.SortFunc(list, byName)
	return e.object(list)
}

// raw appends JSON that somebody else wrote, if it is JSON.
func (e *encoder) raw(raw []byte) error {
	if isNull(raw) {
		e.out = append(e.out, "null"...)
		return nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return errors.New("the raw value is not JSON")
	}
	e.out = append(e.out, b.Bytes()...)
	return nil
}

// string appends a JSON string. Bytes that are no UTF-8 cannot be said in JSON.
func (e *encoder) string(s string) error {
	const hex = "0123456789abcdef"
	if !utf8.ValidString(s) {
		return errors.New("the text is not valid UTF-8")
	}
	e.out = append(e.out, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			e.out = append(e.out, '\\', c)
		case c == '\n':
			e.out = append(e.out, '\\', 'n')
		case c < ' ' || c == 0x7f:
			e.out = append(e.out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			e.out = append(e.out, c)
		}
	}
	e.out = append(e.out, '"')
	return nil
}
