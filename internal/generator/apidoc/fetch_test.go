package apidoc_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/internal/generator/apidoc"
)

// host starts a TLS server that has files at the given paths, and returns its
// address, its certificate's fingerprint and a file with the certificate.
func host(t *testing.T, files map[string]string) (addr, fingerprint, ca string) {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := files[r.URL.Path]
		if !ok {
			http.Error(w, "no such file", http.StatusNotFound)
			return
		}
		fmt.Fprint(w, text)
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that distrust it are part of the tests
	srv.StartTLS()
	t.Cleanup(srv.Close)
	sum := sha256.Sum256(srv.Certificate().Raw)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600))
	return srv.Listener.Addr().String(), hex.EncodeToString(sum[:]), ca
}

func TestFetchFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "apidoc.js")
	require.NoError(t, os.WriteFile(name, []byte("text"), 0o600))
	data, origin, err := apidoc.Fetch(t.Context(), apidoc.Source{From: name})
	require.NoError(t, err)
	assert.Equal(t, "text", string(data))
	assert.Equal(t, "apidoc.js", origin, "no directory of this machine")
}

func TestFetchHost(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ product, path string }{
		{"pve", "/pve-docs/api-viewer/apidoc.js"},
		{"pve", "/pve-docs/api-viewer/apidata.js"},
		{"pmg", "/pmg-docs/api-viewer/apidoc.js"},
		{"pbs", "/docs/api-viewer/apidoc.js"},
		{"pdm", "/docs/api-viewer/apidoc.js"},
	} {
		t.Run(tc.product+tc.path, func(t *testing.T) {
			t.Parallel()
			addr, fingerprint, ca := host(t, map[string]string{tc.path: "text"})
			for _, src := range []apidoc.Source{
				{Product: tc.product, From: addr, CA: ca},
				{Product: tc.product, From: addr, Fingerprint: fingerprint},
				{Product: tc.product, From: addr, Fingerprint: colons(strings.ToUpper(fingerprint))},
				{Product: "other", From: "https://" + addr + tc.path, CA: ca},
			} {
				data, origin, err := apidoc.Fetch(t.Context(), src)
				require.NoError(t, err)
				assert.Equal(t, "text", string(data))
				assert.Equal(t, tc.path, origin, "no name of a host")
			}
		})
	}
}

func colons(hex string) string {
	var parts []string
	for i := 0; i < len(hex); i += 2 {
		parts = append(parts, hex[i:i+2])
	}
	return strings.Join(parts, ":")
}

func TestFetchRefuses(t *testing.T) {
	t.Parallel()
	addr, fingerprint, ca := host(t, nil)
	dir := t.TempDir()
	notPEM := filepath.Join(dir, "not.pem")
	require.NoError(t, os.WriteFile(notPEM, []byte("hello"), 0o600))
	for _, tc := range []struct {
		name string
		src  apidoc.Source
		want string
	}{
		{"nothing", apidoc.Source{}, "no source"},
		{"no such file", apidoc.Source{Product: "pve", From: filepath.Join(dir, "apidoc.js")}, "no such file"},
		{"no such file, without directory", apidoc.Source{Product: "pve", From: "missing.js"}, "no such file"},
		{"a directory", apidoc.Source{Product: "pve", From: dir}, "is a directory"},
		{"another scheme", apidoc.Source{From: "ftp://u:secret@host/x"}, "no http or https URL"},
		{"a host of an unknown product", apidoc.Source{Product: "xyz", From: addr}, "give the URL"},
		{"a host that has neither file", apidoc.Source{Product: "pve", From: addr, CA: ca}, "apidata.js: 404"},
		{"a URL that is not there", apidoc.Source{From: "https://u:secret@" + addr + "/x", CA: ca}, "404 Not Found"},
		{"a certificate of its own", apidoc.Source{Product: "pve", From: addr}, "-fingerprint"},
		{"another certificate", apidoc.Source{Product: "pve", From: addr, Fingerprint: strings.Repeat("ab", 32)}, "fingerprint " + fingerprint},
		{"a short fingerprint", apidoc.Source{Product: "pve", From: addr, Fingerprint: "ab:cd"}, "64 hex digits"},
		{"both kinds of trust", apidoc.Source{Product: "pve", From: addr, Fingerprint: fingerprint, CA: ca}, "not both"},
		{"no CA file", apidoc.Source{Product: "pve", From: addr, CA: filepath.Join(dir, "none")}, "none"},
		{"a CA file that is none", apidoc.Source{Product: "pve", From: addr, CA: notPEM}, "no certificate in PEM form"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			data, _, err := apidoc.Fetch(t.Context(), tc.src)
			assert.Nil(t, data)
			require.ErrorContains(t, err, tc.want)
			assert.NotContains(t, err.Error(), "secret")
		})
	}
}
