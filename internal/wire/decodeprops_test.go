package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/internal/wire"
)

func TestTextInPlaceOfAnObject(t *testing.T) {
	t.Parallel()
	type settings struct {
		HA      *string                    `json:"ha,omitempty"`
		On      *bool                      `json:"on,omitempty"`
		Count   *int64                     `json:"count,omitempty"`
		Further map[string]json.RawMessage `json:"-" px:"extra"`
	}
	type answer struct {
		CRS  *settings `json:"crs"`
		Name string    `json:"name"`
	}
	for _, tt := range []struct {
		name   string
		json   string
		want   *settings
		misfit []string
	}{
		{name: "object", json: `{"crs":{"ha":"static","on":"1","x":[2]}}`, want: &settings{HA: new("static"), On: new(true), Further: map[string]json.RawMessage{"x": json.RawMessage("[2]")}}},
		{name: "property string", json: `{"crs":"ha=static,on=yes,x=a\"b"}`, want: &settings{HA: new("static"), On: new(true), Further: map[string]json.RawMessage{"x": json.RawMessage(`"a\"b"`)}}},
		{name: "one part that does not fit", json: `{"crs":"ha=static,count=many"}`, want: &settings{HA: new("static")}, misfit: []string{`crs.count: want integer, got many`}},
		{name: "prose", json: `{"crs":"static"}`, misfit: []string{`crs: want object, got "static"`}},
		{name: "equals signs in prose", json: `{"crs":"a=b"}`, misfit: []string{`crs: want object, got "a=b"`}},
		{name: "nothing", json: `{"crs":""}`, misfit: []string{`crs: want object, got ""`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got answer
			var misfits []string
			require.NoError(t, wire.Decode([]byte(tt.json), &got, func(m wire.Misfit) { misfits = append(misfits, m.String()) }))
			assert.Equal(t, tt.want, got.CRS)
			assert.Equal(t, tt.misfit, misfits)
		})
	}
}
