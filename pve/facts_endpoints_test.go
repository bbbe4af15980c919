package pve_test

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/internal/rest/resttest"
	"github.com/proxkit/proxkit/pve"
)

// TestEndpoints holds how hosts may be written, row 93, and what becomes of a base path,
// row 72.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	for endpoint, want := range map[string]string{
		"2001:db8::1":                          "https://[2001:db8::1]:8006/api2/json/nodes",
		"[2001:db8::1]":                        "https://[2001:db8::1]:8006/api2/json/nodes",
		"[2001:db8::1]:8443":                   "https://[2001:db8::1]:8443/api2/json/nodes",
		"https://[2001:db8::1]:8006/":          "https://[2001:db8::1]:8006/api2/json/nodes",
		"https://2001:db8::1:8006":             "https://[2001:db8::1]:8006/api2/json/nodes",
		"pve1":                                 "https://pve1:8006/api2/json/nodes",
		"https://pve1.example.com":             "https://pve1.example.com/api2/json/nodes",
		"https://pve1:8006/api2/json":          "https://pve1:8006/api2/json/nodes",
		"https://pve1:8006/api2/json/":         "https://pve1:8006/api2/json/nodes",
		"https://proxy.example.com/lab/":       "https://proxy.example.com/lab/api2/json/nodes",
		"https://proxy.example.com/lab/a%2Fb/": "https://proxy.example.com/lab/a%2Fb/api2/json/nodes",
	} {
		t.Run(endpoint, func(t *testing.T) {
			t.Parallel()
			var got string
			client, err := pve.NewClient(endpoint, pve.WithTransport(transportFunc(func(r *http.Request) (*http.Response, error) {
				got = r.URL.String()
				return &http.Response{StatusCode: 200, Status: "200 OK", Header: http.Header{"Content-Type": {resttest.JSONType}}, Body: io.NopCloser(strings.NewReader(`{"data":[]}`)), ContentLength: 11}, nil
			})))
			require.NoError(t, err)
			_, err = client.ListNodes(t.Context())
			require.NoError(t, err)
			assert.Equal(t, want, got)
		})
	}
}

// TestCertificates holds the ways to trust a server whose authority is its own, row 94.
func TestCertificates(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", resttest.JSONType)
		_, _ = io.WriteString(w, `{"data":[]}`)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	sum := sha256.Sum256(server.Certificate().Raw)
	var colons []string
	for _, b := range sum {
		colons = append(colons, fmt.Sprintf("%02X", b))
	}
	for _, tt := range []struct {
		name string
		opts []pve.Option
		is   error
		text string
	}{
		{name: "nobody's authority", is: pve.ErrCertificate, text: "give the cluster's CA or the certificate's SHA-256 fingerprint"},
		{name: "its own authority", opts: []pve.Option{pve.WithRootCAs(pool)}},
		{name: "under another name", opts: []pve.Option{pve.WithRootCAs(pool), pve.WithServerName("example.com")}},
		{name: "under a wrong name", opts: []pve.Option{pve.WithRootCAs(pool), pve.WithServerName("pve9.example.net")}, is: pve.ErrCertificate},
		{name: "fingerprint", opts: []pve.Option{pve.WithFingerprint(hex.EncodeToString(sum[:]))}},
		{name: "fingerprint with colons", opts: []pve.Option{pve.WithFingerprint(strings.Join(colons, ":"))}},
		{name: "another fingerprint", opts: []pve.Option{pve.WithFingerprint(strings.Repeat("ab", 32))}, is: pve.ErrCertificate, text: strings.Join(colons, ":")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client, err := pve.NewClient(server.URL, tt.opts...)
			require.NoError(t, err)
			t.Cleanup(client.CloseIdleConnections)
			_, err = client.ListNodes(t.Context())
			if tt.is == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, tt.is)
			assert.ErrorIs(t, err, pve.ErrNotSent)
			assert.ErrorContains(t, err, tt.text)
			assert.False(t, pve.IsRetryable(err))
		})
	}
}
