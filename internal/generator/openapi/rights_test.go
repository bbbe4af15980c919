package openapi

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/apidoc"
)

func TestRights(t *testing.T) {
	t.Parallel()
	words := &apidoc.Permissions{User: "all", Prose: true}
	for _, tc := range []struct {
		name    string
		rights  string // of the overlay
		given   *apidoc.Permissions
		want    *apidoc.Check
		problem string
	}{
		{
			name: "words become a check", given: words,
			rights: `{at: ["POST /things"], needs: "A on /x/{name} or (B&C on /y and D|E on /z) or F on /pool/{pool} if pool", reason: r}`,
			want: &apidoc.Check{Op: "or", Checks: []*apidoc.Check{
				{Op: "perm", Path: "/x/{name}", Privs: []string{"A"}},
				{Op: "and", Checks: []*apidoc.Check{
					{Op: "perm", Path: "/y", Privs: []string{"B", "C"}},
					{Op: "perm", Path: "/z", Privs: []string{"D", "E"}, Any: true},
				}},
				{Op: "perm", Path: "/pool/{pool}", Privs: []string{"F"}, RequireParam: "pool"},
			}},
		},
		{name: "no longer needed", given: &apidoc.Permissions{Check: &apidoc.Check{Op: "perm", Path: "/", Privs: []string{"A"}}, Prose: true}, rights: `{at: ["POST /things"], needs: "A on /", reason: r}`, problem: "rights: POST /things: the description does not leave this to words"},
		{name: "no words", given: &apidoc.Permissions{User: "all"}, rights: `{at: ["POST /things"], needs: "A on /", reason: r}`, problem: "does not leave this to words"},
		{name: "no such operation", given: words, rights: `{at: ["GET /things"], needs: "A on /", reason: r}`, problem: "rights: GET /things: there is no such operation"},
		{name: "bad notation", given: words, rights: `{at: ["POST /things"], needs: "A at /", reason: r}`, problem: `rights[0] [POST /things]: requirement "A at /": no path after "A"`},
		{name: "no privilege", given: words, rights: `{at: ["POST /things"], needs: "user eve@pam", reason: r}`, problem: "only privileges on paths"},
		{name: "no reason", given: words, rights: `{at: ["POST /things"], needs: "A on /"}`, problem: "needs at, needs and reason"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			doc := &apidoc.Document{Product: "lab", Version: "1", Dialect: "perl", Operations: []*apidoc.Operation{{
				Path: "/things", Method: "POST", Permissions: tc.given,
				Parameters: &apidoc.Schema{Type: "object", NoAdditional: true, Properties: map[string]*apidoc.Schema{"name": {Type: "string"}, "pool": {Type: "string", Optional: true}}},
				Returns:    &apidoc.Schema{Type: "null"},
			}}}
			ov, err := ParseOverlay([]byte("product: lab\ntitle: Lab\nrights: [" + tc.rights + "]\n"))
			var result *Result
			if err == nil {
				result, err = Build(doc, Options{Overlay: ov, Strict: true})
			}
			if tc.problem != "" {
				assert.ErrorContains(t, err, tc.problem)
				return
			}
			require.NoError(t, err)
			data, err := json.Marshal(result.Doc.Paths.Value("/things").Post.Extensions[XPermissions])
			require.NoError(t, err)
			var got apidoc.Permissions
			require.NoError(t, json.Unmarshal(data, &got))
			assert.Equal(t, apidoc.Permissions{Check: tc.want, Prose: true}, got)
			assert.Equal(t, words, doc.Operations[0].Permissions, "the facts stay as they are")
		})
	}
}
