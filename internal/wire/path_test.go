package wire_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/internal/wire"
)

func TestPath(t *testing.T) {
	t.Parallel()
	type params struct {
		Node   string  `json:"node"`
		VMID   int64   `json:"vmid"`
		Pos    *int64  `json:"pos,omitempty"`
		Volume *string `json:"volume,omitempty"`
		UserID *upper  `json:"userid,omitempty"`
	}
	for _, tc := range []struct {
		name     string
		template string
		params   any
		want     string
		used     []string
		err      string
	}{
		{name: "nothing to fill", template: "/cluster/resources", want: "/cluster/resources"},
		{name: "struct", template: "/nodes/{node}/qemu/{vmid}/config", params: &params{Node: "pve1", VMID: 100}, want: "/nodes/pve1/qemu/100/config", used: []string{"node", "vmid"}},
		{name: "map", template: "/nodes/{node}/qemu/{vmid}", params: map[string]any{"node": "pve1", "vmid": 100}, want: "/nodes/pve1/qemu/100", used: []string{"node", "vmid"}},
		{name: "used once, filled twice", template: "/{node}/x/{node}", params: params{Node: "a"}, want: "/a/x/a", used: []string{"node"}},
		{name: "position zero", template: "/firewall/rules/{pos}", params: params{Pos: new(int64(0))}, want: "/firewall/rules/0", used: []string{"pos"}},
		{name: "volume", template: "/content/{volume}", params: params{Volume: new("local:iso/my file.iso")}, want: "/content/local%3Aiso%2Fmy%20file.iso", used: []string{"volume"}},
		{name: "CIDR", template: "/ipset/a/{cidr}", params: map[string]string{"cidr": "10.0.0.0/24"}, want: "/ipset/a/10.0.0.0%2F24", used: []string{"cidr"}},
		{name: "user and token", template: "/access/users/{userid}/token/{tokenid}", params: map[string]string{"userid": "ops@pve", "tokenid": "ci!x"}, want: "/access/users/ops%40pve/token/ci%21x", used: []string{"userid", "tokenid"}},
		{name: "task", template: "/tasks/{upid}/status", params: map[string]string{"upid": "UPID:pve1:000011A5:00052BA7:6B0E103A:qmmove:121-scsi0>122-scsi5:root@pam!t0:"}, want: "/tasks/UPID%3Apve1%3A000011A5%3A00052BA7%3A6B0E103A%3Aqmmove%3A121-scsi0%3E122-scsi5%3Aroot%40pam%21t0%3A/status", used: []string{"upid"}},
		{name: "text type", template: "/{userid}", params: params{UserID: new(upper("A B"))}, want: "/A%20B", used: []string{"userid"}},
		{name: "what looks escaped is escaped", template: "/{x}", params: map[string]string{"x": "%2e%2e?a#b+ü"}, want: "/%252e%252e%3Fa%23b%2B%C3%BC", used: []string{"x"}},
		{name: "dots inside a name", template: "/{x}", params: map[string]string{"x": "a..b.c"}, want: "/a..b.c", used: []string{"x"}},
		{name: "three dots", template: "/{x}", params: map[string]string{"x": "..."}, want: "/...", used: []string{"x"}},

		{name: "empty", template: "/nodes/{node}/qemu", params: &params{}, err: "path parameter node: must not be empty"},
		{name: "missing", template: "/content/{volume}", params: &params{}, err: "path parameter volume: is missing"},
		{name: "missing in a map", template: "/{a}", params: map[string]any{"b": 1}, err: "path parameter a: is missing"},
		{name: "nil in a map", template: "/{a}", params: map[string]any{"a": nil}, err: "path parameter a: is missing"},
		{name: "unknown", template: "/{what}", params: &params{}, err: "path parameter what: is missing"},
		{name: "no parameters", template: "/{a}", err: "path parameter a: is missing"},
		{name: "nil parameters", template: "/{a}", params: (*params)(nil), err: "path parameter a: is missing"},
		{name: "dot", template: "/{a}", params: map[string]string{"a": "."}, err: `path parameter a: "." would lead to another path`},
		{name: "dot dot", template: "/{a}", params: map[string]string{"a": ".."}, err: `".." would lead to another path`},
		{name: "dot dot inside", template: "/content/{volume}", params: map[string]string{"volume": "local:iso/../../x"}, err: "would lead to another path"},
		{name: "dot dot at the end", template: "/content/{volume}", params: map[string]string{"volume": "local:iso/.."}, err: "would lead to another path"},
		{name: "slash alone", template: "/x/{a}", params: map[string]string{"a": "/"}, err: "must not have an empty part"},
		{name: "trailing slash", template: "/x/{a}", params: map[string]string{"a": "a/"}, err: "must not have an empty part"},
		{name: "double slash", template: "/x/{a}", params: map[string]string{"a": "a//b"}, err: "must not have an empty part"},
		{name: "slash before the end", template: "/nodes/{node}/status", params: params{Node: "pve1/qemu/100"}, err: `path parameter node: "pve1/qemu/100" must not contain a slash`},
		{name: "NUL", template: "/{a}", params: map[string]string{"a": "a\x00"}, err: "must not contain control characters"},
		{name: "newline", template: "/{a}", params: map[string]string{"a": "a\nb"}, err: "must not contain control characters"},
		{name: "delete", template: "/{a}", params: map[string]string{"a": "\x7f"}, err: "must not contain control characters"},
		{name: "list", template: "/{a}", params: map[string]any{"a": []string{"x"}}, err: "must be one value"},
		{name: "object", template: "/{a}", params: map[string]any{"a": map[string]any{}}, err: "object"},
		{name: "other parameters", template: "/{a}", params: 7, err: "parameters must be a struct or a map with string keys, not int"},
		{name: "open brace", template: "/{a", params: map[string]string{"a": "x"}, err: "unbalanced braces"},
		{name: "closed brace", template: "/a}", err: "unbalanced braces"},
		{name: "no name", template: "/{}", err: "unbalanced braces"},
		{name: "brace in a brace", template: "/{{a}}", params: map[string]string{"a": "x"}, err: "unbalanced braces"},
		{name: "long values are cut", template: "/{a}/x", params: map[string]string{"a": "/" + string(make([]byte, 4000))}, err: "…"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			path, used, err := wire.Path(tc.template, tc.params)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				assert.Empty(t, path)
				assert.Empty(t, used)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, path)
			assert.Equal(t, tc.used, used)
		})
	}
}
