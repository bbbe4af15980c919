package pve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/internal/wire"
	"github.com/proxkit/proxkit/pve"
)

// TestEveryFieldIsReached sends each field of each type by itself, under the name that
// its tag gives, and demands that it and nothing else arrives, rows 27 and 28. Results
// and parameters are checked alike.
func TestEveryFieldIsReached(t *testing.T) {
	t.Parallel()
	types := map[reflect.Type]bool{}
	client := reflect.TypeFor[*pve.Client]()
	for method := range client.Methods() {
		for i := range method.Type.NumIn() {
			collectStructs(types, method.Type.In(i))
		}
		for i := range method.Type.NumOut() {
			collectStructs(types, method.Type.Out(i))
		}
	}
	require.Greater(t, len(types), 900)
	fields := 0
	for typ := range types {
		names := map[string]string{}
		for f := range typ.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !f.IsExported() || name == "-" {
				continue
			}
			fields++
			where := typ.Name() + "." + f.Name
			if !assert.NotEmpty(t, name, where) {
				continue
			}
			assert.Empty(t, names[name], "%s and another field are called %s", where, name)
			names[name] = f.Name
			assert.NotRegexp(t, `[\s"'\\=,]`, name, where)
			for _, value := range []string{`"1"`, `{"x":1}`, `[["1"]]`, `["1"]`, `[1]`, `{}`, `[{}]`, `"x=1"`, `{"x":{"y":1}}`, `[]`} {
				if reachesOnly(t, typ, f, strings.Replace(name, "[n]", "7", 1), value) {
					value = ""
				}
				if value == "" {
					names[name] = ""
					break
				}
			}
			if names[name] != "" {
				t.Errorf("%s %s: nothing reaches it under the name %s", where, f.Type, name)
			}
			names[name] = f.Name
		}
	}
	t.Logf("%d fields of %d types", fields, len(types))
}

// reachesOnly decodes one member and reports whether it sets the field f and no other.
func reachesOnly(t *testing.T, typ reflect.Type, f reflect.StructField, name, value string) bool {
	t.Helper()
	key, err := json.Marshal(name)
	require.NoError(t, err)
	got := reflect.New(typ)
	misfit := false
	require.NoError(t, wire.Decode(fmt.Appendf(nil, `{%s:%s}`, key, value), got.Interface(), func(wire.Misfit) { misfit = true }))
	if misfit || got.Elem().FieldByIndex(f.Index).IsZero() {
		return false
	}
	got.Elem().FieldByIndex(f.Index).SetZero()
	return assert.Truef(t, got.Elem().IsZero(), "%s.%s: more than it is set by %s", typ.Name(), f.Name, name)
}

// collectStructs finds the struct types of the package that t leads to.
func collectStructs(found map[reflect.Type]bool, t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array:
		collectStructs(found, t.Elem())
	case reflect.Struct:
		if found[t] || t.PkgPath() != reflect.TypeFor[pve.Client]().PkgPath() || t == reflect.TypeFor[pve.Client]() {
			return
		}
		if _, isText := reflect.PointerTo(t).MethodByName("UnmarshalText"); !isText {
			found[t] = true
		}
		for f := range t.Fields() {
			collectStructs(found, f.Type)
		}
	}
}

// TestRequestsSayWhatIsSet sets each parameter by itself to its zero value and demands
// that it is sent, since no parameter and a parameter of nothing are different, row 25.
func TestRequestsSayWhatIsSet(t *testing.T) {
	t.Parallel()
	client := reflect.TypeFor[*pve.Client]()
	checked := 0
	for method := range client.Methods() {
		if method.Type.NumIn() < 3 || method.Type.In(1) != reflect.TypeFor[context.Context]() {
			continue
		}
		typ := method.Type.In(2)
		if !strings.HasSuffix(typ.Name(), "Params") || typ.Kind() != reflect.Struct {
			continue
		}
		for f := range typ.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			params := reflect.New(typ)
			without, err := wire.EncodeForm(params.Interface(), nil)
			require.NoError(t, err)
			if f.Type.Kind() != reflect.Pointer || f.Type.Elem().Kind() == reflect.Struct {
				continue // required, or a list or a family, or properties, which have no zero value
			}
			assert.NotContains(t, "&"+without, "&"+name+"=", "%s.%s is sent unasked", typ.Name(), f.Name)
			params.Elem().FieldByIndex(f.Index).Set(reflect.New(f.Type.Elem()))
			form, err := wire.EncodeForm(params.Interface(), nil)
			require.NoError(t, err)
			want := "&" + strings.NewReplacer("%2D", "-").Replace(name) + "="
			switch f.Type.Elem().Kind() {
			case reflect.Bool, reflect.Int64, reflect.Float64:
				want += "0"
			}
			assert.Contains(t, "&"+form+"&", want+"&", "%s.%s", typ.Name(), f.Name)
			checked++
		}
	}
	assert.Greater(t, checked, 1500)
	t.Logf("%d parameters", checked)
}
