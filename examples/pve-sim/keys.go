package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// checkKeys finds the first key in a JSON text that out has no field for.
func checkKeys(data []byte, out any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	w := walker{data: data, d: d}
	err := w.value(reflect.TypeOf(out).Elem())
	if err == nil {
		if _, end := d.Token(); !errors.Is(end, io.EOF) {
			err = at(data, d.InputOffset(), errors.New("there is something after the end"))
		}
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return at(data, syntax.Offset, syntax)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return at(data, int64(len(data)), errors.New("it ends too early"))
	}
	return err
}

type walker struct {
	data []byte
	d    *json.Decoder
}

// value reads one value of a type.
func (w *walker) value(t reflect.Type) error {
	tok, err := w.d.Token()
	if err != nil {
		return err
	}
	open, ok := tok.(json.Delim)
	if !ok {
		return nil
	}
	for w.d.More() {
		next := reflect.TypeFor[any]()
		if open == '{' {
			key, err := w.d.Token()
			if err != nil {
				return err
			}
			if next, err = w.member(t, fmt.Sprint(key)); err != nil {
				return err
			}
		} else if t.Kind() == reflect.Slice {
			next = t.Elem()
		}
		if err := w.value(next); err != nil {
			return err
		}
	}
	_, err = w.d.Token()
	return err
}

// member is the type of what is under a key.
func (w *walker) member(t reflect.Type, key string) (reflect.Type, error) {
	switch t.Kind() {
	case reflect.Map:
		return t.Elem(), nil
	case reflect.Struct:
	default:
		return reflect.TypeFor[any](), nil
	}
	var known []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if name == key {
			return t.Field(i).Type, nil
		}
		known = append(known, name)
	}
	// The offset is behind the key's closing quote.
	return nil, at(w.data, w.d.InputOffset()-int64(len(key))-2, fmt.Errorf("no key %q here; did you mean %q?", key, closest(key, known)))
}

// closest is the known word that shares most with another.
func closest(word string, known []string) string {
	best, score := "", -1
	for _, k := range known {
		n := 0
		for i := range len(word) - 1 {
			if strings.Contains(strings.ToLower(k), strings.ToLower(word[i:i+2])) {
				n += 2
			}
		}
		if k != "" && word != "" && strings.EqualFold(k[:1], word[:1]) {
			n++
		}
		if n > score {
			best, score = k, n
		}
	}
	return best
}
