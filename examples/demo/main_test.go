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
		"create_stemcell":   "nothing was made",
		"create_vm":         "no guest was made",
		"set_vm_metadata":   "stands neither in the tags nor in the description",
		"create_disk":       "no volume was made",
		"attach_disk":       "no drive refers to it",
		"set_disk_metadata": "stands neither in the tags nor in the description",
		"has_vm":            "the answer is false",
		"delete_vm":         "belongs to nothing that the CPI has named",
		"detach_disk":       "but should not",
		"delete_disk":       "belongs to nothing that the CPI has named",
		"delete_stemcell":   "belongs to nothing that the CPI has named",
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
		assert.ErrorContains(t, err, "-sim: the program cannot be run")
	})
	t.Run("no CPI", func(t *testing.T) {
		t.Parallel()
		err := run(t.Context(), filepath.Join(dir, "none"), sim, false, false)
		assert.ErrorContains(t, err, "-cpi: the program cannot be run")
	})
}

// TestFlags holds the demo to the exit statuses that a shell expects.
func TestFlags(t *testing.T) {
	t.Parallel()
	program := build(t, t.TempDir(), "demo", ".")
	for name, tc := range map[string]struct {
		args   []string
		status int
		want   string
	}{
		"help":            {[]string{"-h"}, 0, "-cpi"},
		"an argument":     {[]string{"extra"}, 2, `unexpected argument "extra"`},
		"an unknown flag": {[]string{"-nope"}, 2, "-nope"},
		"no such CPI":     {[]string{"-cpi", "/nope"}, 1, "-cpi: the program cannot be run"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), program, tc.args...)
			out, _ := cmd.CombinedOutput()
			assert.Equal(t, tc.status, cmd.ProcessState.ExitCode())
			assert.Contains(t, string(out), tc.want)
		})
	}
}
