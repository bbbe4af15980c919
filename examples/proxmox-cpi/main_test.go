package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi"
)

func buildCPI(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "proxmox-cpi")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

// TestProgram holds the program to what the Director and the command line need:
// one JSON answer with the three keys, and exit status 0 whenever there is one.
func TestProgram(t *testing.T) {
	t.Parallel()
	program := buildCPI(t)
	info, err := os.Stat(program)
	require.NoError(t, err)
	assert.LessOrEqual(t, info.Size(), int64(12<<20), "the stripped program has at most 12 MB")
	config := filepath.Join(t.TempDir(), "cpi.json")
	require.NoError(t, os.WriteFile(config, []byte(`{"endpoint":"https://127.0.0.1:1","token":"a@pve!b=canary-secret","storage":"s"}`), 0o600))
	broken := filepath.Join(t.TempDir(), "broken.json")
	require.NoError(t, os.WriteFile(broken, []byte(`{"endpoint":"https://127.0.0.1:1","token":"a@pve!b=canary-secret","storage":"s","pol":"x"}`), 0o600))

	for _, tc := range []struct {
		name, request string
		args          []string
		result, want  string
	}{
		{"info without any configuration", `{"method":"info","arguments":[],"context":{}}`, nil, `{"api_version":2,"stemcell_formats":["openstack-qcow2","openstack-raw"]}`, ""},
		{"info with a missing configuration", `{"method":"info","arguments":[],"context":{}}`, []string{"-configFile", "/none"}, `{"api_version":2,"stemcell_formats":["openstack-qcow2","openstack-raw"]}`, ""},
		{"empty input", ``, nil, "", "the request is empty"},
		{"malformed input", `{"method":`, nil, "", "middle of its JSON"},
		{"an unknown method", `{"method":"configure_networks","arguments":[]}`, nil, "", `no method "configure_networks"`},
		{"no configuration", `{"method":"has_vm","arguments":["vm-101-abcdefghjkmn"],"context":{}}`, nil, "", "endpoint: is missing"},
		{"a missing file", `{"method":"has_vm","arguments":["vm-101-abcdefghjkmn"],"context":{}}`, []string{"-configFile", "/none/cpi.json"}, "", "check -configFile"},
		{"an unknown key", `{"method":"has_vm","arguments":["vm-101-abcdefghjkmn"],"context":{}}`, []string{"-configFile", broken}, "", `pol: unknown key: did you mean "pool"?`},
		{"nobody at the endpoint", `{"method":"has_vm","arguments":["vm-101-abcdefghjkmn"],"context":{}}`, []string{"-configFile", config}, "", "connection refused"},
		{"a blank CID", `{"method":"delete_stemcell","arguments":[""],"context":{}}`, []string{"-configFile", config}, "", "the stemcell CID is empty"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			cmd := exec.CommandContext(t.Context(), program, tc.args...)
			cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir()}
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(tc.request), &stdout, &stderr

			require.NoError(t, cmd.Run(), "a program that wrote an answer ends with status 0")

			assert.Empty(t, stderr.String())
			var keys map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(stdout.Bytes(), &keys))
			require.Len(t, keys, 3)
			require.Contains(t, string(keys["log"]), `"`)
			assert.NotContains(t, stdout.String(), "canary")
			if tc.want == "" {
				assert.JSONEq(t, "null", string(keys["error"]))
				assert.JSONEq(t, tc.result, string(keys["result"]))
				return
			}
			var e struct{ Type, Message string }
			require.NoError(t, json.Unmarshal(keys["error"], &e))
			assert.Contains(t, e.Type, "Bosh::Clouds::")
			assert.Contains(t, e.Message, tc.want)
		})
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	program := buildCPI(t)
	run := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
		return string(out), err
	}

	help, err := run("-h")
	require.NoError(t, err)
	assert.Contains(t, help, "-configFile")
	for _, want := range []string{"token_secret", `"token": "bosh@pve!cpi=SECRET"`, "ephemeral_disk.size", "limits.read_iops", "vlan", "format", "examples/proxmox-cpi/release", "to its user too"} {
		assert.Contains(t, help, want)
	}
	_, after, ok := strings.Cut(help, "certificate:\n\n")
	require.True(t, ok)
	example, _, _ := strings.Cut(after, "\n\n")
	_, err = cpi.ParseConfig([]byte(example), nil)
	require.NoError(t, err, "the example of -h is a configuration")

	rights, err := run("-privileges")
	require.NoError(t, err)
	assert.Contains(t, rights, "/pool/POOL  ")
	assert.Contains(t, rights, "/storage/STORAGE  Datastore.Allocate,")

	config := filepath.Join(t.TempDir(), "cpi.json")
	require.NoError(t, os.WriteFile(config, []byte(`{"endpoint":"https://a","token":"a@pve!b=c","storage":"fast","iso_storage":"iso","pool":"bosh"}`), 0o600))
	rights, err = run("-privileges", "-configFile", config)
	require.NoError(t, err)
	for _, path := range []string{"/pool/bosh  ", "/storage/fast  ", "/storage/iso  ", "/sdn/zones/localnetwork/vmbr0  "} {
		assert.Contains(t, rights, path)
	}

	assert.Contains(t, rights, "to its user too")
	assert.Contains(t, rights, "/storage/<import_storage, not configured>  ")
	assert.Contains(t, rights, "# import_storage is not configured")
	assert.NotContains(t, rights, "<iso_storage")

	for name, tc := range map[string]struct {
		args   []string
		status int
		want   string
	}{
		"an argument":         {[]string{"info"}, 2, `unexpected argument "info"`},
		"an unknown flag":     {[]string{"-nope"}, 2, "-nope"},
		"a flag that lacks":   {[]string{"-configFile"}, 2, "needs an argument"},
		"rights of no file":   {[]string{"-privileges", "-configFile", "/none"}, 1, "check -configFile"},
		"an audit of nothing": {[]string{"-audit"}, 1, "needs -configFile"},
	} {
		out, err := run(tc.args...)
		status, ok := errors.AsType[*exec.ExitError](err)
		require.True(t, ok, name)
		assert.Equal(t, tc.status, status.ExitCode(), name)
		assert.Contains(t, out, tc.want, name)
	}
}

// TestSignal stops a call that waits for an answer that never comes. It must
// still write its own.
func TestSignal(t *testing.T) {
	t.Parallel()
	program := buildCPI(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	var stdout bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Stdin = strings.NewReader(`{"method":"has_vm","arguments":["vm-101-abcdefghjkmn"],"context":{"endpoint":"https://` +
		silent.Addr().String() + `","token":"a@pve!b=canary-secret","storage":"s"}}`)
	cmd.Stdout = &stdout
	require.NoError(t, cmd.Start())
	conn, err := silent.Accept()
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))

	require.NoError(t, cmd.Wait())
	var r struct {
		Error struct{ Type, Message string }
	}
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &r))
	assert.Equal(t, "Bosh::Clouds::CloudError", r.Error.Type)
	assert.Contains(t, r.Error.Message, "stopped by a signal (terminated)")
}
