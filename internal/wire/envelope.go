package wire

import (
	"errors"
	"fmt"
	"reflect"
)

// An Envelope is what the outer object of an answer holds, {"data": …, "total": 12}. All
// but Total is JSON as it came, nil where it did not come.
type Envelope struct {
	Data    []byte
	Total   int64
	Changes []byte
	Digest  []byte
	Message []byte
	Errors  []byte
}

// ErrNoObject tells that an answer is no JSON object.
var ErrNoObject = errors.New("it is no JSON object")

// DecodeEnvelope opens an answer and decodes its data into the value that out points to,
// as [Decode] does, in one pass. A nil out leaves the data to the caller. The paths in
// reports begin inside the data. An empty answer is an empty envelope: some calls answer
// so.
func DecodeEnvelope(answer []byte, out any, misfit func(Misfit)) (Envelope, error) {
	var e Envelope
	d := &decoder{data: answer, misfit: misfit}
	if len(answer) > cacheFrom {
		d.cache = new([cacheSize]string)
	}
	target := reflect.ValueOf(out)
	if out != nil && (target.Kind() != reflect.Pointer || target.IsNil()) {
		return e, fmt.Errorf("DecodeEnvelope needs a pointer to decode into, not %T", out)
	}
	switch d.space() {
	case '{':
	case 0:
		if d.pos == len(answer) {
			return e, nil
		}
		return e, ErrNoObject
	default:
		return e, ErrNoObject
	}
	if err := d.enter(); err != nil {
		return e, err
	}
	for more := !d.empty('}'); more; {
		key, err := d.key()
		if err != nil {
			return e, err
		}
		name := string(key)
		d.space()
		start := d.pos
		switch {
		case name == "data" && out != nil:
			err = d.into(target.Elem())
		case name == "total":
			d.misfit = nil // a total that does not fit is none
			_, err = d.value(typeOf(reflect.TypeFor[int64]()), reflect.ValueOf(&e.Total).Elem())
			d.misfit = misfit
		default:
			err = d.skip()
		}
		if err != nil {
			return e, err
		}
		raw := answer[start:d.pos:d.pos]
		switch name {
		case "data":
			e.Data = raw
		case "changes":
			e.Changes = raw
		case "digest":
			e.Digest = raw
		case "message":
			e.Message = raw
		case "errors":
			e.Errors = raw
		}
		if more, err = d.more('}'); err != nil {
			return e, err
		}
	}
	if d.space(); d.pos < len(answer) {
		return e, d.unexpected("after the object")
	}
	return e, nil
}

// into reads one value into v, the outermost. Members of a struct that the text does not
// name stay as they are.
func (d *decoder) into(v reflect.Value) error {
	t := typeOf(v.Type())
	if t.op == opStruct && d.space() == '{' {
		return d.object(t.fields, v)
	}
	_, err := d.value(t, v)
	return err
}
