package rest

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseServerVersion(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		want ServerVersion
		fail bool
	}{
		{text: "9.2.11", want: ServerVersion{9, 2, 11}},
		{text: "9.2", want: ServerVersion{9, 2, 0}},
		{text: "4", want: ServerVersion{4, 0, 0}},
		{text: "6.4-13", want: ServerVersion{6, 4, 13}},
		{text: "9.0.0~11", want: ServerVersion{9, 0, 0}},
		{text: "9.0.4-1-bpo", want: ServerVersion{9, 0, 4}},
		{text: " 8.4.1\n", want: ServerVersion{8, 4, 1}},
		{text: "", fail: true},
		{text: "v9", fail: true},
		{text: "9.", fail: true},
		{text: "-9.2", fail: true},
		{text: "99999999999999999999.1", fail: true},
	} {
		t.Run(tc.text, func(t *testing.T) {
			t.Parallel()
			got, err := ParseServerVersion(tc.text)
			assert.Equal(t, tc.fail, err != nil, "%v", err)
			assert.Equal(t, tc.want, got)
		})
	}
	older, newer := ServerVersion{8, 4, 14}, ServerVersion{9, 1, 2}
	assert.Negative(t, older.Compare(newer))
	assert.Positive(t, newer.Compare(older))
	assert.Zero(t, newer.Compare(ServerVersion{9, 1, 2}))
	assert.True(t, newer.AtLeast(9, 1))
	assert.False(t, newer.AtLeast(9, 2))
	assert.False(t, older.AtLeast(9, 0))
	assert.Equal(t, "8.4.14", older.String())
}

func FuzzParseServerVersion(f *testing.F) {
	for _, text := range []string{"9.2.11", "6.4-13", "9.0.0~11", "", "1."} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := ParseServerVersion(text)
		if err != nil {
			return
		}
		again, err := ParseServerVersion(v.String())
		require.NoError(t, err)
		assert.Equal(t, v, again)
	})
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, data string
		want       ServerVersion
		fail       string
	}{
		{name: "pve", data: `{"version":"9.2.11","release":"9.2","repoid":"1d2e"}`, want: ServerVersion{9, 2, 11}},
		{name: "pve of old", data: `{"version":"5.4","release":"15","repoid":"d0ec33c6"}`, want: ServerVersion{5, 4, 15}},
		{name: "pbs", data: `{"version":"4.0","release":"14","repoid":"a8b1"}`, want: ServerVersion{4, 0, 14}},
		{name: "nonsense", data: `{"version":"latest"}`, fail: "is no version"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := newRawServer(t, func(seen) string { return replyData(tc.data) })
			got, err := newClient(t, server.URL).Version(t.Context())
			if tc.fail != "" {
				assert.ErrorContains(t, err, tc.fail)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
}

const sinceTable = `
GET /cluster/ha/rules 9.1
GET /nodes/{node}/things/special 9.2
PUT /nodes/{node}/qemu/{vmid}/config allow-ksm 9.1
PUT /nodes/{node}/qemu/{vmid}/config net[n].queues 9.2
PUT /nodes/{node}/things/{id} size 9.1
PUT /nodes/{node}/things/special size 9.2
`

func TestSinceIn(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ method, path, param, want string }{
		{"GET", "/cluster/ha/rules", "", "9.1"},
		{"POST", "/cluster/ha/rules", "", ""},
		{"GET", "/cluster/ha", "", ""},
		{"PUT", "/nodes/{node}/qemu/{vmid}/config", "allow-ksm", "9.1"},
		{"PUT", "/nodes/pve1/qemu/100/config", "allow-ksm", "9.1"},
		{"PUT", "/nodes/pve1/qemu/100/config", "memory", ""},
		{"PUT", "/nodes/pve1/qemu/100/config", "", ""},
		{"PUT", "/nodes/pve1/qemu/100/config", "net12.queues", "9.2"},
		{"PUT", "/nodes/pve1/qemu/100/config", "net[n].queues", "9.2"},
		{"PUT", "/nodes/pve1/qemu/100/config", "net.queues", ""},
		{"PUT", "/nodes/pve1/qemu/100/config", "netx.queues", ""},
		{"PUT", "/nodes/pve1/things/other", "size", "9.1"},
		{"PUT", "/nodes/pve1/things/special", "size", "9.2"},
		{"PUT", "/nodes/{node}/things/{id}", "size", "9.1"},
		{"PUT", "/nodes//things/x", "size", ""},
	} {
		assert.Equal(t, tc.want, SinceIn(sinceTable, tc.method, tc.path, tc.param), "%s %s %s", tc.method, tc.path, tc.param)
	}
}

func TestUnknownToServer(t *testing.T) {
	t.Parallel()
	const refused = "Parameter verification failed."
	notDefined := func(params ...string) string {
		var list []string
		for _, p := range params {
			list = append(list, `"`+p+`":"property is not defined in schema and the schema does not allow additional properties"`)
		}
		return reply(400, refused, jsonType, `{"data":null,"message":"Parameter verification failed.\n","errors":{`+strings.Join(list, ",")+`}}`)
	}
	for _, tc := range []struct {
		name         string
		server       string // its version
		method, path string
		answer       string
		is           []error
		want         string // the end of the error's text
		asked        bool   // for the version
	}{
		{
			name: "new operation", server: "8.4.1", method: "GET", path: "/cluster/ha/rules",
			answer: replyError(501, "Method 'GET /cluster/ha/rules' not implemented"), asked: true,
			is: []error{ErrUnknownToServer, ErrNotImplemented}, want: "(status 501); the operation exists since 9.1; the server is 8.4.1",
		},
		{
			name: "new parameter", server: "8.4.1", method: "PUT", path: "/nodes/pve1/qemu/100/config",
			answer: notDefined("allow-ksm"), asked: true,
			is: []error{ErrUnknownToServer, ErrInvalidParameter}, want: "; parameter allow-ksm exists since 9.1; the server is 8.4.1",
		},
		{
			name: "new parameter in a text", server: "9.1.2", method: "PUT", path: "/nodes/pve1/qemu/100/config", asked: true,
			answer: reply(400, refused, jsonType, `{"data":null,"errors":{"net0":"invalid format - format error\nnet0.queues: property is not defined in schema and the schema does not allow additional properties\n"}}`),
			is:     []error{ErrUnknownToServer, ErrInvalidParameter}, want: "; parameter net0.queues exists since 9.2; the server is 9.1.2",
		},
		{
			name: "two", server: "8.4.1", method: "PUT", path: "/nodes/pve1/qemu/100/config", asked: true,
			answer: notDefined("allow-ksm", "nonsense"),
			is:     []error{ErrUnknownToServer}, want: "; parameter allow-ksm exists since 9.1; the server is 8.4.1",
		},
		{
			name: "a server older than all we know", server: "7.4.3", method: "GET", path: "/pools", asked: true,
			answer: replyError(501, "Method 'GET /pools' not implemented"),
			is:     []error{ErrUnknownToServer}, want: "(status 501); this client is made for 9.2; the server is 7.4.3",
		},
		{
			name: "a typing error", server: "9.2.11", method: "GET", path: "/poools", asked: true,
			answer: replyError(501, "Method 'GET /poools' not implemented"),
			is:     []error{ErrUnknownToServer}, want: "(status 501)",
		},
		{
			name: "a path of a rust server", server: "4.0.1", method: "GET", path: "/cluster/ha/rules", asked: true,
			answer: reply(404, "Not Found", "text/plain", "Path '/api2/json/cluster/ha/rules' not found."),
			is:     []error{ErrUnknownToServer, ErrNotImplemented}, want: "; the operation exists since 9.1; the server is 4.0.1",
		},
		{
			name: "a parameter of a rust server", server: "4.0.1", method: "PUT", path: "/nodes/n/things/x", asked: true,
			answer: reply(400, "Bad Request", "text/plain", "parameter verification failed - 'size': schema does not allow additional properties"),
			is:     []error{ErrUnknownToServer, ErrInvalidParameter}, want: "; parameter size exists since 9.1; the server is 4.0.1",
		},
		{
			name: "another refusal", server: "8.4.1", method: "PUT", path: "/nodes/pve1/qemu/100/config",
			answer: reply(400, refused, jsonType, `{"data":null,"errors":{"allow-ksm":"type check ('boolean') failed - got 'x'"}}`),
			is:     []error{ErrInvalidParameter}, want: "(status 400)",
		},
		{
			name: "another 501", server: "8.4.1", method: "DELETE", path: "/pools",
			answer: replyError(501, "Unexpected content for method 'DELETE'"),
			is:     []error{ErrNotImplemented}, want: "(status 501)",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			asked := false
			server := newRawServer(t, func(r seen) string {
				if strings.HasSuffix(r.Target, "/version") {
					asked = true
					return replyData(`{"version":"` + tc.server + `","release":"x.y"}`)
				}
				return tc.answer
			})
			client, err := New(Product{Version: "9.2", Since: sinceTable}, server.URL, quick())
			require.NoError(t, err)
			t.Cleanup(client.CloseIdleConnections)
			err = client.Call(t.Context(), tc.method, tc.path, nil, nil)
			require.Error(t, err)
			for _, class := range []error{ErrUnknownToServer, ErrNotImplemented, ErrInvalidParameter} {
				want := false
				for _, is := range tc.is {
					want = want || is == class
				}
				if class == ErrUnknownToServer || want {
					assert.Equal(t, want, errors.Is(err, class), "%v: %v", class, err)
				}
			}
			assert.True(t, strings.HasSuffix(err.Error(), tc.want), "%v", err)
			assert.Equal(t, tc.asked, asked, "asked for the version")
			assert.False(t, IsRetryable(err))
		})
	}
}

// TestUnknownToServerWithoutVersion: that the explanation fails hides nothing.
func TestUnknownToServerWithoutVersion(t *testing.T) {
	t.Parallel()
	server := newRawServer(t, func(r seen) string {
		return replyError(501, "Method '"+r.Method+" "+strings.TrimPrefix(r.Target, "/api2/json")+"' not implemented")
	})
	client, err := New(Product{Version: "9.2", Since: sinceTable}, server.URL, quick())
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	err = client.Call(t.Context(), http.MethodGet, "/cluster/ha/rules", nil, nil)
	assert.ErrorIs(t, err, ErrUnknownToServer)
	assert.EqualError(t, err, "pve: GET /cluster/ha/rules: Method 'GET /cluster/ha/rules' not implemented (status 501)")
	_, err = client.Version(t.Context())
	assert.ErrorIs(t, err, ErrNotImplemented)
}
