package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// serve runs the program until the test ends it.
func serve(t *testing.T, args ...string) (out *bufio.Reader, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := run(ctx, args, w, io.Discard)
		w.CloseWithError(err)
		done <- err
	}()
	return bufio.NewReader(r), func() error {
		cancel()
		return <-done
	}
}

func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	s, err := r.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(s)
}

func TestServe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	seed := filepath.Join(dir, "seed.json")
	require.NoError(t, os.WriteFile(seed, []byte(`{
		"storages": {"thin": {"Type": "lvmthin", "Nodes": ["b"]}},
		"pools": ["bosh"], "roles": {"CPI": ["VM.Audit", "Pool.Audit"]},
		"tokens": {"bosh@pve!cpi": {"secret": "s3cret"}},
		"acl": [{"path": "/pool/bosh", "who": "bosh@pve", "role": "CPI"}],
		"vms": {"100": {"Pool": "bosh", "Config": {"name": "one"}}}
	}`), 0o600))
	state := filepath.Join(dir, "state")
	out, stop := serve(t, "-state", state, "-nodes", "a,b", "-seed", seed)
	endpoint, token, print := line(t, out), line(t, out), line(t, out)
	assert.Regexp(t, `^https://127\.0\.0\.1:\d+$`, endpoint)
	assert.Regexp(t, `^root@pam!pvetest=[0-9a-f-]{36}$`, token)
	assert.Regexp(t, `^([0-9A-F]{2}:){31}[0-9A-F]{2}$`, print)

	ca, err := os.ReadFile(filepath.Join(state, "ca.pem"))
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(ca))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(t.Context(), "GET", endpoint+"/api2/json/cluster/resources?type=vm", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "PVEAPIToken=bosh@pve!cpi=s3cret")
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	var got struct{ Data []struct{ Name string } }
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&got))
	require.Len(t, got.Data, 1)
	assert.Equal(t, "one", got.Data[0].Name)
	require.NoError(t, stop())

	out, stop = serve(t, "-state", state, "-json", "-seed", seed)
	var a announcement
	require.NoError(t, json.Unmarshal([]byte(line(t, out)), &a))
	assert.Equal(t, token, a.Token, "the cluster is the same")
	assert.Equal(t, print, a.Fingerprint)
	require.NoError(t, stop())
}

func TestBadArguments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.json")
	require.NoError(t, os.WriteFile(bad, []byte(`{"nonsense": 1}`), 0o600))
	for name, args := range map[string][]string{
		"argument": {"x"}, "node": {"-nodes", "a_b"}, "address": {"-listen", "x"}, "seed": {"-seed", bad}, "no seed": {"-seed", filepath.Join(dir, "none")},
	} {
		assert.Error(t, run(t.Context(), args, io.Discard, io.Discard), name)
	}
	var help bytes.Buffer
	err := run(t.Context(), []string{"-h"}, io.Discard, &help)
	assert.True(t, errors.Is(err, flag.ErrHelp))
	assert.Contains(t, help.String(), "-state")
}
