package wire

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Path fills the {name} parts of template with the parameters of that name, each
// percent-encoded, and returns the names it used.
//
// The server decodes a path as a whole, splits it at slashes and drops empty parts, so
// some values would reach another endpoint than the one meant. They are errors: empty
// ones, "." and ".." (also between slashes), control characters, and a slash in any
// but the last part of the path.
func Path(template string, params any) (path string, used []string, err error) {
	if !strings.ContainsAny(template, "{}") {
		return template, nil, nil
	}
	out := make([]byte, 0, len(template)+32)
	rest := template
	for {
		before, after, ok := strings.Cut(rest, "{")
		if strings.Contains(before, "}") {
			return "", nil, fmt.Errorf("path %s: unbalanced braces", template)
		}
		out = append(out, before...)
		if !ok {
			return string(out), used, nil
		}
		name, tail, ok := strings.Cut(after, "}")
		if !ok || name == "" || strings.Contains(name, "{") {
			return "", nil, fmt.Errorf("path %s: unbalanced braces", template)
		}
		value, err := pathValue(params, name)
		if err == nil {
			err = checkPathValue(value, tail == "")
		}
		if err != nil {
			return "", nil, fmt.Errorf("path parameter %s: %w", name, err)
		}
		out = appendEscape(out, value, false)
		if !slices.Contains(used, name) {
			used = append(used, name)
		}
		rest = tail
	}
}

// pathValue returns the text of the parameter called name.
func pathValue(params any, name string) (string, error) {
	v := reflect.ValueOf(params)
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	switch {
	case !v.IsValid():
	case v.Kind() == reflect.Struct:
		if f := find(typeOf(v.Type()).structFields(), name); f != nil {
			v = f.of(v)
		} else {
			v = reflect.Value{}
		}
	case v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String:
		v = v.MapIndex(reflect.ValueOf(name).Convert(v.Type().Key()))
	default:
		return "", fmt.Errorf("parameters must be a struct or a map with string keys, not %T", params)
	}
	if isUnset(v) {
		return "", fmt.Errorf("is missing")
	}
	t, v, _ := concrete(typeOf(v.Type()), v)
	if IsForm(params) && v.Len() == 1 {
		return v.Index(0).String(), nil
	}
	switch t.op {
	case opSlice, opRaw:
		return "", fmt.Errorf("must be one value, not a list")
	}
	text, err := appendText(nil, t, v)
	return string(text), err
}

func checkPathValue(value string, last bool) error {
	switch {
	case value == "":
		return fmt.Errorf("must not be empty")
	case !last && strings.Contains(value, "/"):
		return fmt.Errorf("%q must not contain a slash", shorten(value, maxGot))
	}
	for i := range len(value) {
		if value[i] < ' ' || value[i] == 0x7f {
			return fmt.Errorf("%q must not contain control characters", shorten(value, maxGot))
		}
	}
	for part := range strings.SplitSeq(value, "/") {
		switch part {
		case "":
			return fmt.Errorf("%q must not have an empty part before, between or after slashes", shorten(value, maxGot))
		case ".", "..":
			return fmt.Errorf("%q would lead to another path", shorten(value, maxGot))
		}
	}
	return nil
}
