package operation

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func testTable() Table {
	return Table{
		{Name: "CloneVM", Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/clone", Needs: "VM.Clone on /vms/{vmid}", Parameters: "node! vmid:integer! newid:integer! full:boolean snapname@9.1 net[n] unit:integer"},
		{Name: "GetThing", Method: "GET", Path: "/things/{id}", Needs: "login"},
		{Name: "GetThingIndex", Method: "GET", Path: "/things/index", Since: "9.1", Needs: "everyone"},
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ op, want, fail string }{
		{op: "CloneVM", want: "CloneVM"},
		{op: "POST /nodes/{node}/qemu/{vmid}/clone", want: "CloneVM"},
		{op: "POST /nodes/pve1/qemu/100/clone", want: "CloneVM"},
		{op: "GET /things/{id}", want: "GetThing"},
		{op: "GET /things/index", want: "GetThingIndex"},
		{op: "GET /things/7", want: "GetThing"},
		{op: "GET /things/", fail: "there is no operation GET /things/"},
		{op: "PUT /things/7", fail: "there is no operation"},
		{op: "clonevm", fail: "is no operation: give the name of a method"},
		{op: "", fail: "is no operation"},
	} {
		t.Run(tc.op, func(t *testing.T) {
			t.Parallel()
			o, err := testTable().Find(tc.op)
			if tc.fail != "" {
				assert.ErrorContains(t, err, tc.fail)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, o.Name)
		})
	}
}

func TestParams(t *testing.T) {
	t.Parallel()
	o := testTable()[0]
	assert.Equal(t, "POST /nodes/{node}/qemu/{vmid}/clone", o.String())
	assert.Equal(t, []Param{
		{Name: "node", Type: "string", Required: true},
		{Name: "vmid", Type: "integer", Required: true},
		{Name: "newid", Type: "integer", Required: true},
		{Name: "full", Type: "boolean"},
		{Name: "snapname", Type: "string", Since: "9.1"},
		{Name: "net[n]", Type: "string"},
		{Name: "unit", Type: "integer"},
	}, slices.Collect(o.Params()))
	for name, want := range map[string]string{"net0": "net[n]", "net[n]": "net[n]", "snapname": "snapname", "unit": "unit", "net": "", "unit3": "", "nope": ""} {
		p, ok := o.Param(name)
		assert.Equal(t, want != "", ok, name)
		assert.Equal(t, want, p.Name)
	}
	assert.Empty(t, slices.Collect(Operation{}.Params()))
	for p := range o.Params() {
		assert.Equal(t, "node", p.Name)
		break
	}
}

func TestRequirementText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"everyone",
		"login and more",
		"user root@pam",
		"role Admin or group ops",
		"VM.Audit on /vms/{vmid}",
		"A&B on / or A|B on /x",
		"VM.Clone on /vms/{vmid} and (VM.Allocate on /vms/{newid} or VM.Allocate on /pool/{pool} if pool) and more",
		"(user {userid} or (A on /access/realm/{userid@realm} and (B on /access/groups or B on a-group-of {userid}))) and more",
		"Permissions.Modify* on {path}",
	} {
		r, err := ParseRequirement(text)
		require.NoError(t, err, text)
		assert.Equal(t, text, r.String())
	}
	for text, want := range map[string]string{
		"":                      "condition is missing",
		"A":                     "no path after",
		"A on":                  "no path after",
		"A on / B on /":         "unexpected",
		"A on / and":            "condition is missing",
		"(A on /":               "not closed",
		"A on / if":             "no parameter",
		"user":                  "no name",
		"| on /":                "no privilege",
		"A on / and B on / or":  "unexpected",
		strings.Repeat("(", 99): "nested",
	} {
		_, err := ParseRequirement(text)
		assert.ErrorContains(t, err, want, text)
	}
	r, err := ParseRequirement("VM.Clone on /vms/1 and (VM.Audit|VM.Clone on / or login)")
	require.NoError(t, err)
	assert.Equal(t, []string{"VM.Audit", "VM.Clone"}, r.Privs())
}

func FuzzParseRequirement(f *testing.F) {
	for _, text := range []string{"login and more", "A&B on /x/{y} if z", "(A on / or (B on / and user {u}))", "A on a-group-of {u}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRequirement(text)
		if err != nil {
			return
		}
		again, err := ParseRequirement(r.String())
		require.NoError(t, err, r.String())
		assert.Equal(t, r.String(), again.String())
		r.Fill(map[string]string{"y": "1"}, true)
	})
}

func TestFill(t *testing.T) {
	t.Parallel()
	clone := "VM.Clone on /vms/{vmid} and (VM.Allocate on /vms/{newid} or VM.Allocate on /pool/{pool} if pool)"
	for _, tc := range []struct {
		name, need string
		values     map[string]string
		part       bool // more parameters may come
		want       string
	}{
		{name: "all", need: clone, values: map[string]string{"vmid": "9000", "newid": "101", "pool": "web/a"}, want: "VM.Clone on /vms/9000 and (VM.Allocate on /vms/101 or VM.Allocate on /pool/web/a)"},
		{name: "without the pool", need: clone, values: map[string]string{"vmid": "9000", "newid": "101"}, want: "VM.Clone on /vms/9000 and VM.Allocate on /vms/101"},
		{name: "in part", need: clone, values: map[string]string{"vmid": "9000"}, part: true, want: "VM.Clone on /vms/9000 and (VM.Allocate on /vms/{newid} or VM.Allocate on /pool/{pool} if pool)"},
		{name: "missing", need: "A on /storage/{storage}/{x}", want: "A on /storage"},
		{name: "realm", need: "A on /access/realm/{userid@realm}", values: map[string]string{"userid": "a@b@ldap.x"}, want: "A on /access/realm/ldap.x"},
		{name: "realm, in part", need: "A on /access/realm/{userid@realm}", part: true, want: "A on /access/realm/{userid@realm}"},
		{name: "groups", need: "A on /access/groups/{groups…}", values: map[string]string{"groups": "one,two; three"}, want: "A on /access/groups/one and A on /access/groups/two and A on /access/groups/three"},
		{name: "a group", need: "A on / or A on /access/groups/{groups…}", values: map[string]string{"groups": "one"}, want: "A on / or A on /access/groups/one"},
		{name: "no group", need: "A on / or A on /access/groups/{groups…}", want: "A on /"},
		{name: "no group, in part", need: "A on /access/groups/{groups…}", part: true, want: "A on /access/groups/{groups…}"},
		{name: "no way", need: "A on / if x", want: "never"},
		{name: "no way among others", need: "A on / and (B on / if x or C on / if y)", want: "never"},
		{name: "user", need: "user {userid} or more", values: map[string]string{"userid": "a@pam"}, want: "user a@pam or more"},
		{name: "no user", need: "user {userid}", want: "never"},
		{name: "member", need: "A on a-group-of {userid}", values: map[string]string{"userid": "a@pam"}, want: "A on a-group-of a@pam"},
		{name: "may modify a guest", need: "Permissions.Modify* on {path}", values: map[string]string{"path": "/vms/100"}, want: "Permissions.Modify|VM.Allocate on /vms/100"},
		{name: "may modify a storage", need: "Permissions.Modify* on {path}", values: map[string]string{"path": "/storage/x"}, want: "Permissions.Modify|Datastore.Allocate on /storage/x"},
		{name: "may modify a pool", need: "Permissions.Modify* on {path}", values: map[string]string{"path": "/pool/x"}, want: "Permissions.Modify|Pool.Allocate on /pool/x"},
		{name: "may modify all", need: "Permissions.Modify* on {path}", values: map[string]string{"path": "/"}, want: "Permissions.Modify on /"},
		{name: "may modify something", need: "Permissions.Modify* on {path}", part: true, want: "Permissions.Modify* on {path}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, err := ParseRequirement(tc.need)
			require.NoError(t, err)
			assert.Equal(t, tc.want, r.Fill(tc.values, !tc.part).String())
			assert.Equal(t, tc.need, r.String(), "the requirement itself stays as it is")
		})
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	grants := map[string]map[string]bool{
		"/":           {"Sys.Audit": true, "Sys.Modify": false},
		"/vms":        {"Sys.Audit": true},
		"/vms/100":    {"Sys.Audit": true, "VM.Audit": false, "VM.Clone": true},
		"/pool/web":   {"VM.Allocate": true},
		"/nodes":      {"Sys.Audit": true},
		"/nodes/pve1": {"Sys.Audit": true},
	}
	const token, root = "ops@pve!t", "root@pam"
	for _, tc := range []struct {
		name, need, user string
		noToken          bool
		missing, unsure  []string
	}{
		{name: "granted", need: "VM.Audit on /vms/100"},
		{name: "both", need: "VM.Audit&VM.Clone on /vms/100"},
		{name: "one of two", need: "VM.Audit&VM.Migrate on /vms/100", missing: []string{"VM.Migrate on /vms/100"}},
		{name: "none of two", need: "VM.Backup&VM.Migrate on /vms/100", missing: []string{"VM.Backup on /vms/100", "VM.Migrate on /vms/100"}},
		{name: "any", need: "VM.Migrate|VM.Audit on /vms/100"},
		{name: "not any", need: "VM.Migrate|VM.Backup on /vms/100", missing: []string{"VM.Migrate on /vms/100, or VM.Backup on /vms/100"}},
		{name: "the path with its slash", need: "Sys.Modify on /"},
		{name: "by the pool", need: "VM.Clone on /vms/100 and (VM.Allocate on /vms/101 or VM.Allocate on /pool/web)"},
		{name: "by neither", need: "VM.Clone on /vms/100 and (VM.Allocate on /vms/101 or VM.Allocate on /pool/db)", missing: []string{"VM.Allocate on /vms/101, or VM.Allocate on /pool/db"}},
		{name: "two conditions", need: "VM.Migrate on /vms/100 and VM.Allocate on /pool/db", missing: []string{"VM.Migrate on /vms/100", "VM.Allocate on /pool/db"}},
		{name: "ways of several grants", need: "(A on /x and (B on /x or C on /x)) or D on /x", missing: []string{"A on /x and B on /x, or A on /x and C on /x, or D on /x"}},
		{name: "any guest", need: "Sys.Audit on /vms/{vmid}"},
		{name: "some guest", need: "VM.Audit on /vms/{vmid}", unsure: []string{"VM.Audit on /vms/{vmid} depends on a parameter that is not given"}},
		{name: "granted above but not below", need: "Sys.Modify on {path}", unsure: []string{"Sys.Modify on {path} depends on a parameter that is not given"}},
		{name: "words", need: "login and more", unsure: []string{"the server checks more than the API description says"}},
		{name: "words on top of what is missing", need: "VM.Migrate on /vms/100 and more", missing: []string{"VM.Migrate on /vms/100"}, unsure: []string{"the server checks more than the API description says"}},
		{name: "words or a privilege", need: "VM.Migrate on /vms/100 or more", unsure: []string{"the server checks more than the API description says (certain would be: VM.Migrate on /vms/100)"}},
		{name: "words or a granted privilege", need: "more or VM.Audit on /vms/100"},
		{name: "nothing", need: "everyone", user: "nobody"},
		{name: "not logged in", need: "login", user: "nobody", missing: []string{"being logged in"}},
		{name: "root only, by a token", need: "user root@pam", missing: []string{"being root@pam"}},
		{name: "root only, by root", need: "user root@pam", user: root},
		{name: "root only, by root's token", need: "user root@pam", user: "root@pam!x", missing: []string{"being root@pam"}},
		{name: "root only, by who knows", need: "user root@pam", user: "nobody", unsure: []string{"only for root@pam, and who calls is not known"}},
		{name: "oneself", need: "user ops@pve", user: "ops@pve"},
		{name: "somebody", need: "user {userid}", unsure: []string{"it depends on the parameter {userid}"}},
		{name: "root may do all", need: "A on /x and more", user: root},
		{name: "no tokens", need: "login", noToken: true, missing: []string{"being logged in with a password: API tokens are refused"}},
		{name: "no tokens, with a ticket", need: "login", user: "ops@pve", noToken: true},
		{name: "never", need: "never", missing: []string{"not possible with these parameters"}},
		{name: "groups of a user", need: "A on a-group-of x@pam", unsure: []string{"A on a-group-of x@pam: which groups x@pam is in is not asked"}},
		{name: "role", need: "role Admin", unsure: []string{"whether the caller is of role Admin cannot be asked"}},
		{name: "depends", need: "VM.Audit on /vms/100 if x", unsure: []string{"VM.Audit on /vms/100 if x counts only when the parameter x is given"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			user := tc.user
			switch user {
			case "":
				user = token
			case "nobody":
				user = ""
			}
			asked := map[string]int{}
			caller := Caller{User: user, Granted: func(_ context.Context, path string) (map[string]bool, error) {
				asked[path]++
				return grants[path], nil
			}}
			need, err := ParseRequirement(tc.need)
			require.NoError(t, err)
			for range 2 { // the second time from memory
				missing, unsure, err := caller.Check(t.Context(), Operation{Name: "Op", NoToken: tc.noToken}, need)
				require.NoError(t, err)
				var got, doubts []string
				for _, m := range missing {
					assert.Equal(t, "Op", m.Op)
					got = append(got, m.String())
				}
				for _, u := range unsure {
					assert.Equal(t, "Op: "+u.Reason, u.String())
					doubts = append(doubts, u.Reason)
				}
				assert.Equal(t, tc.missing, got)
				assert.Equal(t, tc.unsure, doubts)
			}
			for path, n := range asked {
				assert.Equal(t, 1, n, path)
			}
		})
	}
}

// TestCheckOfWrites: one of several privileges lets a call begin, but a change asks for
// those of what it changes.
func TestCheckOfWrites(t *testing.T) {
	t.Parallel()
	caller := Caller{User: "ops@pve", Granted: func(context.Context, string) (map[string]bool, error) {
		return map[string]bool{"VM.Config.CPU": true, "VM.Config.Disk": true}, nil
	}}
	for _, tc := range []struct{ method, need, unsure string }{
		{"PUT", "VM.Config.CPU|VM.Config.Memory|VM.Config.Disk|VM.Config.Network on /vms/100", "a parameter may need VM.Config.Memory or VM.Config.Network on /vms/100, which is missing"},
		{"POST", "login and VM.Config.CPU|VM.Config.Memory on /vms/100", "a parameter may need VM.Config.Memory on /vms/100, which is missing"},
		{"PUT", "VM.Config.CPU|VM.Config.Disk on /vms/100", ""},
		{"GET", "VM.Config.CPU|VM.Config.Memory on /vms/100", ""},
		{"PUT", "login or VM.Config.CPU|VM.Config.Memory on /vms/100", ""},
	} {
		need, err := ParseRequirement(tc.need)
		require.NoError(t, err)
		missing, unsure, err := caller.Check(t.Context(), Operation{Name: "Op", Method: tc.method}, need)
		require.NoError(t, err)
		assert.Empty(t, missing)
		var got []string
		for _, u := range unsure {
			got = append(got, u.Reason)
		}
		assert.Equal(t, tc.unsure, strings.Join(got, "; "), tc.need)
	}
}

func TestCheckFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	caller := Caller{User: "ops@pve", Granted: func(context.Context, string) (map[string]bool, error) { return nil, broken }}
	for _, text := range []string{"A on /", "A on / or login", "login and A on /"} {
		need, err := ParseRequirement(text)
		require.NoError(t, err)
		_, _, err = caller.Check(t.Context(), Operation{}, need)
		assert.ErrorIs(t, err, broken)
	}
}

func TestPrivilegeError(t *testing.T) {
	t.Parallel()
	way := [][]Grant{{{Privilege: "VM.Audit", Path: "/vms/100"}}}
	for user, want := range map[string]string{
		"a@pve!t": "pve: the API token a@pve!t lacks: VM.Audit on /vms/100 (for A, B); being root@pam (for C)",
		"a@pve":   "pve: a@pve lacks: VM.Audit on /vms/100 (for A, B); being root@pam (for C)",
		"":        "pve: the caller lacks: VM.Audit on /vms/100 (for A, B); being root@pam (for C)",
	} {
		err := &PrivilegeError{Product: "pve", User: user, Missing: []Missing{
			{Op: "A", Ways: way}, {Op: "B", Ways: way}, {Op: "C", Ways: [][]Grant{{{Be: "root@pam"}}}}, {Op: "A", Ways: way},
		}}
		assert.EqualError(t, err, want)
	}
}
