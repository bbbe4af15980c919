package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// build builds a program of this module into dir.
func build(t *testing.T, dir, name, pkg string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, pkg).CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

// TestDemo runs the demo with the real CPI, and then with CPIs that answer one
// method without doing it. The demo must fail with each of those, or it would
// prove nothing.
func TestDemo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sim := build(t, dir, "pve-sim", "../pve-sim")
	real := build(t, dir, "real", "../proxmox-cpi")
	liar := build(t, dir, "liar", "./testdata/liar")

	t.Run("the real CPI", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, run(t.Context(), real, sim, testing.Verbose(), false))
	})
	for method, want := range map[string]string{
		"create_stemcell":   "there are 0 guests, expected 1",
		"create_vm":         "there are 1 guests, expected 2",
		"set_vm_metadata":   "lacks the tag job-bosh",
		"create_disk":       "there are 2 guests, expected 3",
		"attach_disk":       "expected map[",
		"set_disk_metadata": "lacks the tag deployment-demo",
		"has_vm":            "does not find its own VM",
		"delete_vm":         "there are 3 guests, expected 2",
		"detach_disk":       "has the drives",
		"delete_disk":       "there are 4 guests, expected 3",
		"delete_stemcell":   "there are 4 guests, expected 3",
	} {
		t.Run("a CPI that lies about "+method, func(t *testing.T) {
			t.Parallel()
			program := filepath.Join(dir, "liar-"+method)
			require.NoError(t, os.Link(liar, program))
			err := run(t.Context(), program, sim, false, false)
			require.Error(t, err)
			assert.ErrorContains(t, err, want)
		})
	}
	t.Run("no simulator", func(t *testing.T) {
		t.Parallel()
		err := run(t.Context(), real, filepath.Join(dir, "none"), false, false)
		assert.ErrorContains(t, err, "start the simulator")
	})
}

func TestParseReply(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"result":null,"error":null,"log":""}`: "",
		``:                                      "not JSON",
		`{"result":1,"error":null}`:             `no "log"`,
		`{"result":1,"error":null,"log":null}`:  "no string",
		`{"result":1,"error":null,"log":""} {}`: "more than one",
		`{"result":null,"error":{"type":"X","message":"m","ok_to_retry":false},"log":""}`: "none of the Director's",
		`{"result":null,"error":5,"log":""}`:                                              "cannot unmarshal",
	} {
		_, err := parseReply([]byte(text))
		if want == "" {
			assert.NoError(t, err)
			continue
		}
		assert.ErrorContains(t, err, want, text)
	}
}
