package openapi

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/apidoc"
)

func TestCaser(t *testing.T) {
	t.Parallel()
	c, err := NewCaser([]string{"FooBar", "XYZ"})
	require.NoError(t, err)
	for in, want := range map[string]string{
		"onboot": "OnBoot", "macaddr": "MACAddr", "skiplock": "SkipLock", "vmid": "VMID", "vmids": "VMIDs", "scsihw": "SCSIHW", "tls-port": "TLSPort", "tpmstate0": "TPMState0",
		"ip6": "IP6", "keepActive": "KeepActive", "CSRFPreventionToken": "CSRFPreventionToken", "Datastore.Allocate": "DatastoreAllocate", "ciphers-tls-1.2": "CiphersTLS12",
		"$schema": "Schema", "2fa": "X2fa", "802.1q": "X8021q", "type": "Type", "foobar": "FooBar", "xyz-is-has": "XYZIsHas", "--": "X", "naïve": "NaVe", "snapshot": "Snapshot",
	} {
		assert.Equal(t, want, c.Name(in), in)
	}
	assert.Empty(t, c.Unused([]string{"FooBar", "XYZ"}))
	assert.Equal(t, []string{"Quasar"}, c.Unused([]string{"Quasar"}))
	_, err = NewCaser([]string{"small"})
	require.Error(t, err)
}

func TestSingularAndPlural(t *testing.T) {
	t.Parallel()
	for one, many := range map[string]string{
		"VM": "VMs", "Entry": "Entries", "Alias": "Aliases", "Status": "Status", "Node": "Nodes", "HAGroup": "HAGroups", "MacroDNS": "MacroDNS", "Mailbox": "Mailboxes", "Journal": "Journal",
		"Key": "Keys", "S3Client": "S3Clients", "Address": "Addresses",
	} {
		assert.Equal(t, many, plural(one))
		assert.Equal(t, one, singular(many))
	}
}

func parse(t *testing.T, ops ...*apidoc.Operation) *apidoc.Document {
	t.Helper()
	return &apidoc.Document{Product: "test", Version: "1", Dialect: "perl", Operations: ops}
}

func object(props map[string]*apidoc.Schema) *apidoc.Schema {
	return &apidoc.Schema{Type: "object", Properties: props}
}

func TestNames(t *testing.T) {
	t.Parallel()
	null, list, thing := &apidoc.Schema{Type: "null"}, &apidoc.Schema{Type: "array", Items: object(map[string]*apidoc.Schema{"id": {Type: "string"}})}, object(map[string]*apidoc.Schema{"id": {Type: "string"}})
	index := &apidoc.Schema{Type: "array", Items: object(map[string]*apidoc.Schema{"subdir": {Type: "string"}}), Links: []string{"{subdir}"}}
	ops := []*apidoc.Operation{}
	want := map[string]string{}
	add := func(key, name string, returns *apidoc.Schema) {
		method, path, _ := strings.Cut(key, " ")
		op := &apidoc.Operation{Method: method, Path: path, Parameters: &apidoc.Schema{Type: "object", NoAdditional: true, Properties: map[string]*apidoc.Schema{}}, Returns: returns}
		for seg := range strings.SplitSeq(path, "/") {
			if isParam(seg) {
				op.Parameters.Properties[seg[1:len(seg)-1]] = &apidoc.Schema{Type: "string"}
			}
		}
		ops = append(ops, op)
		want[key] = name
	}
	add("GET /nodes/{node}/qemu", "ListVMs", list)
	add("POST /nodes/{node}/qemu", "CreateVM", null)
	add("GET /nodes/{node}/qemu/{vmid}", "GetVMIndex", index)
	add("DELETE /nodes/{node}/qemu/{vmid}", "DeleteVM", null)
	add("GET /nodes/{node}/qemu/{vmid}/config", "GetVMConfig", thing)
	add("PUT /nodes/{node}/qemu/{vmid}/config", "UpdateVMConfig", null)
	add("POST /nodes/{node}/qemu/{vmid}/status/start", "StartVM", null)
	add("POST /nodes/{node}/qemu/{vmid}/move_disk", "MoveVMDisk", null)
	add("GET /nodes/{node}/qemu/{vmid}/snapshot/{snapname}", "GetVMSnapshot", thing)
	add("POST /nodes/{node}/qemu/{vmid}/snapshot/{snapname}/rollback", "RollbackVMSnapshot", null)
	add("GET /cluster/options", "GetClusterOptions", thing)
	add("GET /access/roles/{roleid}", "GetAccessRole", thing)
	add("GET /pools", "ListPools", list)
	ov := &Overlay{Nouns: map[string]string{"/nodes/{}/qemu": "VM"}}
	built, err := Build(parse(t, ops...), Options{Overlay: ov, Strict: true})
	require.NoError(t, err)
	assert.Equal(t, want, built.Methods)
	assert.Empty(t, built.Notes)

	add("DELETE /nodes/{node}/qemu", "", null)
	_, err = Build(parse(t, ops...), Options{Overlay: ov, Strict: true})
	require.Error(t, err)
	assert.Contains(t, err.Error(), "DELETE /nodes/{node}/qemu/{vmid} and DELETE /nodes/{node}/qemu would all be called DeleteVM")
	built, err = Build(parse(t, ops...), Options{Overlay: ov})
	require.NoError(t, err)
	assert.Equal(t, "DeleteVM", built.Methods["DELETE /nodes/{node}/qemu"])
	assert.Equal(t, "DeleteNodesByNodeQEMUByVMID", built.Methods["DELETE /nodes/{node}/qemu/{vmid}"])
	assert.Len(t, built.Notes, 1)
}

func TestSelector(t *testing.T) {
	t.Parallel()
	op := &apidoc.Operation{
		Method: "GET", Path: "/nodes/{node}/qemu/{vmid}/config",
		Parameters: object(map[string]*apidoc.Schema{"node": {Type: "string"}}),
		Returns: object(map[string]*apidoc.Schema{
			"net[n]":      {Type: "string", FormatSchema: object(map[string]*apidoc.Schema{"rate": {Type: "number"}})},
			"memory.max":  {Type: "integer"},
			"memory.used": {Type: "integer"},
		}),
	}
	for text, want := range map[string]int{
		"GET /nodes/{node}/qemu/{vmid}/config returns.net[n]":   1,
		"* /nodes/{node}/qemu** **.net[n]~.rate":                1,
		"* ** returns.memory.*":                                 2,
		"GET /nodes/*/qemu/{vmid}/config params.node":           1,
		"POST /nodes/{node}/qemu/{vmid}/config returns.net[n]":  0,
		"GET /nodes/{node} returns.net[n]":                      0,
		"GET /nodes/{node}/qemu/{vmid}/config":                  1,
		"GET /nodes/{node}/qemu/{vmid}/config returns.nothing*": 0,
	} {
		places, err := find([]*apidoc.Operation{op}, text)
		require.NoError(t, err, text)
		assert.Len(t, places, want, text)
	}
	for _, bad := range []string{"", "GET", "GET nodes", "GET /nodes result.x", "GET /nodes returns x"} {
		_, err := find(nil, bad)
		require.Error(t, err, bad)
	}
}

func TestAbsorb(t *testing.T) {
	t.Parallel()
	a := object(map[string]*apidoc.Schema{"both": {Type: "string", Enum: []string{"x"}}, "only-a": {Type: "string"}, "n": {Type: "integer", Minimum: "1"}})
	b := object(map[string]*apidoc.Schema{"both": {Type: "string", Enum: []string{"y", "x"}}, "only-b": {Type: "string"}, "n": {Type: "integer", Minimum: "2", Optional: true}})
	require.NoError(t, absorb(a, b, ""))
	assert.Equal(t, object(map[string]*apidoc.Schema{
		"both": {Type: "string", Enum: []string{"x", "y"}}, "only-a": {Type: "string", Optional: true}, "only-b": {Type: "string", Optional: true}, "n": {Type: "integer", Optional: true},
	}), a)
	for name, other := range map[string]*apidoc.Schema{
		"type":            {Type: "string"},
		"bytes":           {Type: "integer", Renderer: "bytes"},
		"list":            {Type: "string", Format: "x-list"},
		"property string": {Type: "string", FormatSchema: object(map[string]*apidoc.Schema{"k": {Type: "string"}})},
	} {
		of := "string"
		if other.Type == "integer" || name == "type" {
			of = "integer"
		}
		err := absorb(object(map[string]*apidoc.Schema{"x": {Type: of}}), object(map[string]*apidoc.Schema{"x": other}), "")
		require.Error(t, err, name)
		assert.Contains(t, err.Error(), ".x", name)
	}
}

func TestSharedTypeOfUnlikePlaces(t *testing.T) {
	t.Parallel()
	ops := []*apidoc.Operation{
		{Method: "GET", Path: "/a", Parameters: object(nil), Returns: object(map[string]*apidoc.Schema{"x": {Type: "string"}})},
		{Method: "GET", Path: "/b", Parameters: object(nil), Returns: object(map[string]*apidoc.Schema{"x": {Type: "integer"}})},
	}
	ov := &Overlay{Shared: map[string]Selectors{"Both": {"GET /a returns", "GET /b returns"}}}
	_, err := Build(parse(t, ops...), Options{Overlay: ov, Strict: true})
	require.Error(t, err)
	assert.Contains(t, err.Error(), "Both: GET /a returns and GET /b returns do not agree")
	built, err := Build(parse(t, ops...), Options{Overlay: ov})
	require.NoError(t, err)
	assert.NotNil(t, built.Doc.Components.Schemas["A"])
	assert.NotNil(t, built.Doc.Components.Schemas["B"])
}

func TestMergePatch(t *testing.T) {
	t.Parallel()
	s := object(map[string]*apidoc.Schema{"a": {Type: "string"}, "b": {Type: "string"}})
	require.NoError(t, merge(s, []byte(`{"properties":{"a":null,"b":{"optional":true},"c":{"type":"integer"}}}`)))
	assert.Equal(t, object(map[string]*apidoc.Schema{"b": {Type: "string", Optional: true}, "c": {Type: "integer"}}), s)
	require.Error(t, merge(s, []byte(`{"colour":"red"}`)), "no such fact")
}

func TestOverlayIsChecked(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, yaml, want string }{
		{"unknown key", "colour: red", "colour"},
		{"no reason", "corrections:\n- {at: GET /x returns, set: {type: string}}", "needs at, set or copy, and reason"},
		{"no effect", "corrections:\n- {at: GET /x returns, reason: r}", "needs at, set or copy, and reason"},
		{"exception without reason", "exceptions:\n- {at: GET /x returns}", "needs at and reason"},
		{"field without name", "fields:\n- {at: GET /x returns.y}", "needs at and either name or drop"},
		{"unknown stream", "streams: {GET /x: tape}", `"tape" is none of`},
		{"no yaml", "a: [", "overlay:"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseOverlay([]byte(tc.yaml))
			require.Error(t, err)
			assert.Contains(t, err.Error(), tc.want)
		})
	}
	ov, err := ParseOverlay([]byte("marks: [/a]\nexceptions:\n- {at: [GET /x, GET /y], skip: true, reason: r}"))
	require.NoError(t, err)
	assert.Equal(t, Selectors{"GET /x", "GET /y"}, ov.Exceptions[0].At)
	assert.True(t, ov.Fits(parse(t, &apidoc.Operation{Method: "GET", Path: "/a"})))
	assert.False(t, ov.Fits(parse(t, &apidoc.Operation{Method: "GET", Path: "/b"})))
	assert.False(t, new(Overlay).Fits(parse(t)))
}

func TestDocumentKeepsWhatOpenAPICannotSay(t *testing.T) {
	t.Parallel()
	last := 3
	op := &apidoc.Operation{
		Method: "POST", Path: "/things", Protected: true, ProxyTo: "node", NoToken: true, Unstable: true, DownloadAllowed: true,
		Permissions: &apidoc.Permissions{Check: &apidoc.Check{Op: "perm", Path: "/", Privs: []string{"Sys.Audit"}}},
		Parameters: &apidoc.Schema{Type: "object", Properties: map[string]*apidoc.Schema{
			"net[n]":  {Type: "string", Optional: true, MaxIndex: &last, FormatSchema: object(map[string]*apidoc.Schema{"bridge": {Type: "string", DefaultKey: true}})},
			"size":    {Type: "integer", Renderer: "bytes", Requires: "net[n]", Minimum: "5", Default: []byte("1")},
			"pattern": {Type: "string", Pattern: `(?^u:x)`},
			"plain":   {Type: "string", Pattern: `a|b`},
			"list":    {Type: "string", Format: "x-list"},
		}},
		Returns: &apidoc.Schema{Type: "string"},
	}
	built, err := Build(parse(t, op), Options{})
	require.NoError(t, err)
	o := built.Doc.Paths.Value("/things").Post
	for key, want := range map[string]any{XKind: "task", XProtected: true, XProxyTo: "node", XNoToken: true, XUnstable: true, XDownload: true} {
		assert.Equal(t, want, o.Extensions[key], key)
	}
	assert.Contains(t, o.Extensions, XPermissions)
	props := o.RequestBody.Value.Content["application/x-www-form-urlencoded"].Schema.Value.Properties
	net := props["net[n]"].Value
	assert.Equal(t, true, net.Extensions[XIndexed])
	assert.EqualValues(t, 3, net.Extensions[XMaxIndex])
	assert.Equal(t, "#/components/schemas/CreateThingNet", net.Extensions[XPropertyString])
	assert.Equal(t, true, built.Doc.Components.Schemas["CreateThingNet"].Value.Properties["bridge"].Value.Extensions[XDefaultKey])
	size := props["size"].Value
	assert.Equal(t, "int64", size.Format, "only results count bytes beyond the signed range")
	assert.Equal(t, "bytes", size.Extensions[XRenderer])
	assert.Equal(t, "net[n]", size.Extensions[XRequires])
	assert.Nil(t, size.Default, "it lies below the minimum")
	assert.EqualValues(t, 1, size.Extensions["x-proxmox-default"])
	assert.Empty(t, props["pattern"].Value.Pattern)
	assert.Equal(t, `(?^u:x)`, props["pattern"].Value.Extensions[XPattern])
	assert.Equal(t, `^(?:a|b)$`, props["plain"].Value.Pattern)
	assert.Equal(t, ",", props["list"].Value.Extensions[XList])
}

func TestMarshalForReadersOfYAML(t *testing.T) {
	t.Parallel()
	op := &apidoc.Operation{
		Method: "GET", Path: "/x", Description: "A\u0085line \u007f<&>", Parameters: object(nil),
		Returns: &apidoc.Schema{Type: "string", Pattern: "[^\x00-\x1f\x7f]+"},
	}
	built, err := Build(parse(t, op), Options{})
	require.NoError(t, err)
	data, err := Marshal(built.Doc)
	require.NoError(t, err)
	for _, r := range string(data) {
		assert.True(t, r == '\n' || r >= ' ' && r < 0x7f || r > 0x9f, "%q", r)
	}
	assert.Contains(t, string(data), `\u0085line \u007f<&>`)
	again, err := Load(data)
	require.NoError(t, err)
	assert.Equal(t, op.Description, again.Paths.Value("/x").Get.Description)
}
