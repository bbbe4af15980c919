package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi"
)

func releaseFile(t *testing.T, path ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{"release"}, path...)...))
	require.NoError(t, err)
	return data
}

// TestReleaseConfiguration renders the template of cpi.json in the only way it can
// be: the property as JSON. The outcome must be a configuration.
func TestReleaseConfiguration(t *testing.T) {
	t.Parallel()
	require.Equal(t, "<%= JSON.dump(p('proxmox')) %>\n", string(releaseFile(t, "jobs", "proxmox_cpi", "templates", "cpi.json.erb")))
	var properties struct {
		Proxmox json.RawMessage `json:"proxmox"`
	}
	require.NoError(t, json.Unmarshal(releaseFile(t, "examples", "properties.json"), &properties))
	var rendered bytes.Buffer
	require.NoError(t, json.Compact(&rendered, properties.Proxmox))
	c, err := cpi.ParseConfig(rendered.Bytes(), nil)
	require.NoError(t, err)
	assert.Equal(t, "bosh", c.Pool)
	_, err = cpi.New(c, cpi.Options{})
	require.NoError(t, err)

	// Without any property everything comes from the cpi-config.
	c, err = cpi.ParseConfig([]byte("{}\n"), map[string]json.RawMessage{
		"endpoint": json.RawMessage(`"pve1"`), "token": json.RawMessage(`"a@pve!b=c"`), "storage": json.RawMessage(`"s"`),
	})
	require.NoError(t, err)
	assert.Equal(t, []string{"pve1"}, c.Endpoints)
}

// TestReleaseScript runs bin/cpi, which holds no ERB, with the directories that
// "bosh create-env" gives.
func TestReleaseScript(t *testing.T) {
	t.Parallel()
	script := releaseFile(t, "jobs", "proxmox_cpi", "templates", "cpi.erb")
	require.NotContains(t, string(script), "<%")
	for _, want := range []string{"BOSH_PACKAGES_DIR:-/var/vcap/packages}", "BOSH_JOBS_DIR:-/var/vcap/jobs}"} {
		require.Contains(t, string(script), want)
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "packages", "proxmox_cpi", "bin", "proxmox-cpi")
	require.NoError(t, os.MkdirAll(filepath.Dir(program), 0o700))
	require.NoError(t, os.Rename(buildCPI(t), program))
	config := filepath.Join(dir, "jobs", "proxmox_cpi", "config", "cpi.json")
	require.NoError(t, os.MkdirAll(filepath.Dir(config), 0o700))
	require.NoError(t, os.WriteFile(config, []byte(`{"endpoint":"https://127.0.0.1:1","token":"a@pve!b=c","storage":"s","pol":"x"}`), 0o600))
	file := filepath.Join(dir, "cpi")
	require.NoError(t, os.WriteFile(file, script, 0o600))
	cmd := exec.CommandContext(t.Context(), bash, file)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "BOSH_PACKAGES_DIR=" + filepath.Join(dir, "packages"), "BOSH_JOBS_DIR=" + filepath.Join(dir, "jobs")}
	cmd.Stdin = strings.NewReader(`{"method":"has_vm","arguments":["vm-101-abcdefghjkmn"],"context":{}}`)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Contains(t, string(out), `pol: unknown key: did you mean \"pool\"?`, "the file of the job was read")
}
