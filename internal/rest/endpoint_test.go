package rest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseEndpoint(t *testing.T) {
	t.Parallel()
	product, err := Product{}.withDefaults()
	require.NoError(t, err)
	for _, tc := range []struct {
		name, text, want, wantErr string
	}{
		{name: "bare host", text: "pve1", want: "https://pve1:8006/api2/json"},
		{name: "bare domain", text: "pve1.example.com", want: "https://pve1.example.com:8006/api2/json"},
		{name: "host and port", text: "pve1:443", want: "https://pve1:443/api2/json"},
		{name: "spaces around", text: " pve1 \n", want: "https://pve1:8006/api2/json"},
		{name: "URL", text: "https://pve1.example.com:8006", want: "https://pve1.example.com:8006/api2/json"},
		{name: "URL with slash", text: "https://pve1:8006/", want: "https://pve1:8006/api2/json"},
		{name: "URL without port", text: "https://pve.example.com", want: "https://pve.example.com/api2/json"},
		{name: "upper-case scheme", text: "HTTPS://pve1:8006", want: "https://pve1:8006/api2/json"},
		{name: "API path", text: "https://pve1:8006/api2/json", want: "https://pve1:8006/api2/json"},
		{name: "API path with slash", text: "https://pve1:8006/api2/json/", want: "https://pve1:8006/api2/json"},
		{name: "half the API path", text: "pve1:8006/api2", want: "https://pve1:8006/api2/json"},
		{name: "prefix", text: "https://proxy.example.com/lab/pve/", want: "https://proxy.example.com/lab/pve/api2/json"},
		{name: "prefix and API path", text: "https://proxy.example.com/lab/api2/json", want: "https://proxy.example.com/lab/api2/json"},
		{name: "escaped prefix", text: "https://proxy.example.com/a%2Fb", want: "https://proxy.example.com/a%2Fb/api2/json"},
		{name: "IPv4", text: "192.0.2.1", want: "https://192.0.2.1:8006/api2/json"},
		{name: "IPv6 bare", text: "2001:db8::1", want: "https://[2001:db8::1]:8006/api2/json"},
		{name: "IPv6 in brackets", text: "[2001:db8::1]", want: "https://[2001:db8::1]:8006/api2/json"},
		{name: "IPv6 in brackets with port", text: "[2001:db8::1]:8443", want: "https://[2001:db8::1]:8443/api2/json"},
		{name: "IPv6 bare with the product's port", text: "https://2001:db8::1:8006", want: "https://[2001:db8::1]:8006/api2/json"},
		{name: "IPv6 bare in URL", text: "https://2001:db8::1", want: "https://[2001:db8::1]/api2/json"},
		{name: "IPv6 loopback", text: "::1", want: "https://[::1]:8006/api2/json"},

		{name: "IPv6 with zone", text: "fe80::1%eth0", want: "https://[fe80::1%25eth0]:8006/api2/json"},
		{name: "IPv6 with zone in URL", text: "https://[fe80::1%25eth0]:8006", want: "https://[fe80::1%25eth0]:8006/api2/json"},

		{name: "empty", text: " ", wantErr: "is empty"},
		{name: "no host", text: "https://", wantErr: "has no host"},
		{name: "port alone", text: ":8006", wantErr: "has no host"},
		{name: "other scheme", text: "ftp://pve1", wantErr: `the scheme is "ftp"`},
		{name: "port missing", text: "pve1:", wantErr: "the port is missing"},
		{name: "port is no number", text: "pve1:https", wantErr: `port "https" is not a number`},
		{name: "port too high", text: "pve1:70000", wantErr: "not a number from 1 to 65535"},
		{name: "port zero", text: "pve1:0", wantErr: "not a number from 1 to 65535"},
		{name: "query", text: "https://pve1:8006/?x=1", wantErr: "query or fragment"},
		{name: "fragment from the browser", text: "https://pve1:8006/#v1:0", wantErr: "query or fragment"},
		{name: "user and password", text: "https://root:hunter2@pve1:8006", wantErr: "holds a user name"},
		{name: "user and password without scheme", text: "root:hunter2@pve1:8006", wantErr: "holds a user name"},
		{name: "space inside", text: "pve 1", wantErr: "is no host name"},
		{name: "bracket left open", text: "[2001:db8::1", wantErr: "no IPv6 address in brackets"},
		{name: "name in brackets", text: "[pve1]:8006", wantErr: "no IPv6 address in brackets"},
		{name: "too many colons", text: "pve1:8006:1", wantErr: "write [address]:port"},
		{name: "bad escape", text: "https://pve1/%zz", wantErr: "path is not valid"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			u, err := parseEndpoint(product, tc.text)
			if tc.wantErr != "" {
				require.ErrorContains(t, err, tc.wantErr)
				assert.NotContains(t, err.Error(), "hunter2")
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, u.String())
		})
	}
}

func TestPlainHTTPOnlyOnThisMachine(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{"http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1"} {
		_, err := New(Product{}, endpoint)
		assert.NoError(t, err, endpoint)
	}
	_, err := New(Product{}, "http://pve1.example.com:8006")
	assert.ErrorContains(t, err, "use https")
	_, err = New(Product{}, "pve1.example.com", WithEndpoints("http://pve2.example.com"))
	assert.ErrorContains(t, err, "use https")
	_, err = New(Product{}, "http://gateway.internal", WithTransport(roundTripper(nil)))
	assert.NoError(t, err, "a transport of one's own may do what it likes")
}

func FuzzParseEndpoint(f *testing.F) {
	product, err := Product{}.withDefaults()
	require.NoError(f, err)
	for _, text := range []string{"pve1", "https://pve1:8006/api2/json", "[::1]:8006", "2001:db8::1:8006", "https://a@b", "%", "a/%2e/b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := parseEndpoint(product, text)
		if err != nil {
			return
		}
		again, err := parseEndpoint(product, u.String())
		require.NoError(t, err, "%q became %q", text, u)
		assert.Equal(t, u.String(), again.String())
	})
}
