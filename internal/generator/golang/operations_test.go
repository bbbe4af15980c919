package golang

import (
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/apidoc"
	"github.com/proxkit/proxkit/internal/generator/openapi"
	"github.com/proxkit/proxkit/internal/operation"
)

func TestRequirement(t *testing.T) {
	t.Parallel()
	perm := func(path string, privs ...string) *apidoc.Check {
		return &apidoc.Check{Op: "perm", Path: path, Privs: privs}
	}
	join := func(op string, checks ...*apidoc.Check) *apidoc.Check {
		return &apidoc.Check{Op: op, Checks: checks}
	}
	for _, tc := range []struct {
		name string
		p    *apidoc.Permissions
		want string
	}{
		{"nothing said", nil, "user root@pam"},
		{"empty", &apidoc.Permissions{}, "user root@pam"},
		{"world", &apidoc.Permissions{User: "world"}, "everyone"},
		{"all", &apidoc.Permissions{User: "all"}, "login"},
		{"all, with words", &apidoc.Permissions{User: "all", Prose: true}, "login and more"},
		{"words alone", &apidoc.Permissions{Prose: true}, "more"},
		{"a user", &apidoc.Permissions{User: "root@pam"}, "user root@pam"},
		{"a user or a privilege", &apidoc.Permissions{User: "eve@pam", Check: perm("/", "A")}, "user eve@pam or A on /"},
		{"a privilege", &apidoc.Permissions{Check: perm("/vms/{vmid}", "VM.Audit")}, "VM.Audit on /vms/{vmid}"},
		{"privileges", &apidoc.Permissions{Check: perm("/", "A", "B")}, "A&B on /"},
		{"any privilege", &apidoc.Permissions{Check: &apidoc.Check{Op: "perm", Path: "/", Privs: []string{"A", "B"}, Any: true}}, "A|B on /"},
		{"any of one", &apidoc.Permissions{Check: &apidoc.Check{Op: "perm", Path: "/", Privs: []string{"A"}, Any: true}}, "A on /"},
		{
			"nested", &apidoc.Permissions{Check: join("and", perm("/a", "A"), join("or", perm("/b", "B"), &apidoc.Check{Op: "perm", Path: "/c", Privs: []string{"C"}, RequireParam: "pool"}), join("and", perm("/d", "D"))), Prose: true},
			"A on /a and (B on /b or C on /c if pool) and D on /d and more",
		},
		{"one alternative", &apidoc.Permissions{Check: join("or", join("and", perm("/a", "A")))}, "A on /a"},
		{"one alternative with a parameter", &apidoc.Permissions{Check: &apidoc.Check{Op: "or", RequireParam: "x", Checks: []*apidoc.Check{perm("/a", "A")}}}, "A on /a if x"},
		{"oneself", &apidoc.Permissions{Check: &apidoc.Check{Op: "user", Path: "{userid}"}}, "user {userid}"},
		{"any user", &apidoc.Permissions{Check: join("or", &apidoc.Check{Op: "user", Path: "all"}, &apidoc.Check{Op: "user", Path: "world"})}, "login or everyone"},
		{"group", &apidoc.Permissions{Check: &apidoc.Check{Op: "group", Path: "ops"}}, "group ops"},
		{"roles", &apidoc.Permissions{Check: &apidoc.Check{Op: "role", Args: []string{"Admin", "Owner"}}}, "role Admin or role Owner"},
		{"self", &apidoc.Permissions{Check: &apidoc.Check{Op: "userid-param", Args: []string{"self"}}}, "user {userid}"},
		{"realm", &apidoc.Permissions{Check: &apidoc.Check{Op: "userid-param", Privs: []string{"Realm.AllocateUser"}}}, "Realm.AllocateUser on /access/realm/{userid@realm}"},
		{"users of groups", &apidoc.Permissions{Check: &apidoc.Check{Op: "userid-group", Privs: []string{"A", "B"}}}, "A|B on /access/groups or A|B on a-group-of {userid}"},
		{"new users", &apidoc.Permissions{Check: &apidoc.Check{Op: "userid-group", Privs: []string{"A"}, Args: []string{"groups_param", "create"}}}, "A on /access/groups or A on /access/groups/{groups…}"},
		{"users changed", &apidoc.Permissions{Check: &apidoc.Check{Op: "userid-group", Privs: []string{"A"}, Args: []string{"groups_param", "update"}}}, "A on /access/groups or (A on /access/groups/{groups…} and A on a-group-of {userid})"},
		{"permissions", &apidoc.Permissions{Check: &apidoc.Check{Op: "perm-modify", Path: "{path}"}}, "Permissions.Modify* on {path}"},
		{"something new", &apidoc.Permissions{Check: &apidoc.Check{Op: "moon-phase"}}, "more"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := requirement(tc.p).String()
			assert.Equal(t, tc.want, got)
			_, err := operation.ParseRequirement(got)
			assert.NoError(t, err)
		})
	}
}

// TestWalks finds the lists that come in pages, and refuses a name that is taken.
func TestWalks(t *testing.T) {
	t.Parallel()
	param := func(name, kind string, required bool) *openapi3.ParameterRef {
		return &openapi3.ParameterRef{Value: &openapi3.Parameter{Name: name, In: "query", Required: required, Schema: &openapi3.SchemaRef{
			Value: &openapi3.Schema{Type: &openapi3.Types{kind}, Extensions: map[string]any{}},
		}}}
	}
	doc := &openapi3.T{Paths: openapi3.NewPaths(), Info: &openapi3.Info{}}
	g := &generator{doc: doc, ops: map[string]operationKey{}, results: map[string]string{}}
	add := func(path, name, result string, params ...*openapi3.ParameterRef) {
		doc.Paths.Set(path, &openapi3.PathItem{Get: &openapi3.Operation{OperationID: name, Parameters: params, Extensions: map[string]any{openapi.XKind: "list"}}})
		g.ops[name], g.results[name] = operationKey{path, "GET"}, result
	}
	start, limit := param("start", "integer", false), param("limit", "integer", false)
	add("/tasks", "ListTasks", "[]Task", start, limit, param("node", "string", false))
	add("/log", "GetLog", "[]string", limit, start)
	add("/object", "GetObject", "Object", start, limit)
	add("/limit", "ListLimited", "[]Task", limit)
	add("/required", "ListRequired", "[]Task", start, param("limit", "integer", true))
	add("/flag", "ListFlag", "[]Task", param("start", "boolean", false), limit)
	assert.Equal(t, []walk{{All: "AllLog", List: "GetLog", Item: "string"}, {All: "AllTasks", List: "ListTasks", Item: "Task"}}, g.walks())
	require.NoError(t, g.err)

	add("/alltasks", "AllTasks", "")
	g.walks()
	assert.ErrorContains(t, g.err, "GET /tasks: the method for the whole list would be called AllTasks, as another is")
}
