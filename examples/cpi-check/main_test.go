package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi/cpitest"
)

// build builds a program of this module.
func build(t *testing.T, pkg string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(pkg))
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, pkg).CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

// script writes a CPI in another language.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cpi")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700))
	return path
}

func check(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), args, &out, &errs)
	return status, out.String(), errs.String()
}

// The real CPI passes as the program that a Director runs, kill -9 included.
func TestRealCPI(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "report.json")
	status, stdout, stderr := check(t, "-cpi", build(t, "../proxmox-cpi"), "-json", file, "-calls",
		"-only", "protocol,create-env,parallel,stopped,context-only,nothing-left")
	require.Equal(t, passed, status, stdout+stderr)
	assert.Contains(t, stdout, "6 scenarios passed, 0 failed, 0 skipped")
	assert.Contains(t, stdout, "disk calls killed at 45 %")

	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var report cpitest.Report
	require.NoError(t, json.Unmarshal(data, &report))
	assert.Equal(t, cpitest.Passed, report.Outcome)
	assert.Equal(t, 2, report.CPI.APIVersion)
	i := slices.IndexFunc(report.Calls, func(m cpitest.MethodReport) bool { return m.Method == "create_vm" })
	require.GreaterOrEqual(t, i, 0)
	assert.Greater(t, report.Calls[i].Calls, 10)
	assert.Positive(t, report.Calls[i].Median)
	assert.NotContains(t, string(data)+stdout+stderr, "canary")
}

// A CPI in another language is started as it should be, and what is wrong with it
// comes out.
func TestScripts(t *testing.T) {
	t.Parallel()
	const answer = `{"result":null,"error":{"type":"Bosh::Clouds::NotImplemented","message":"no","ok_to_retry":false},"log":""}`
	for _, tc := range []struct{ name, text, want string }{
		{"ends with a status", "cat >/dev/null; echo '" + answer + "'; exit 3", "the exit status is 3"},
		{"says nothing", "cat >/dev/null", "standard output is empty"},
		{"prints its environment", "cat >/dev/null; env | cut -d= -f1 | sort | tr '\\n' ' ' >&2; exit 1", "standard output is empty"},
		{"has no method", "cat >/dev/null; echo '" + answer + "'", "the CPI does not implement info"},
		{"prints its configuration", "cat >/dev/null; cat \"${1#-configFile=}\" >&2; echo '" + answer + "'", "the CPI prints a secret on standard error"},
		{"hangs", "cat >/dev/null; sleep 60 & wait", "the call takes longer than 300ms"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			limit := "1m"
			if tc.name == "hangs" {
				limit = "300ms"
			}
			status, stdout, stderr := check(t, "-cpi", script(t, tc.text), "-only", "protocol", "-limit", limit)
			assert.Equal(t, failed, status, stdout+stderr)
			assert.Contains(t, stdout, tc.want)
			assert.NotContains(t, stdout, "canary")
		})
	}
}

// What the process of a call is given.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	path := script(t, "env | cut -d= -f1 | grep -v -e '^_$' -e '^PWD$' -e '^SHLVL$' -e '^OLDPWD$' | sort | tr '\\n' ' '")
	a, err := cpitest.Program{Path: path, Home: t.TempDir(), Temp: t.TempDir()}.Call(t.Context(), nil)
	require.NoError(t, err)
	assert.Equal(t, "HOME PATH TMPDIR ", string(a.Stdout))
}

func TestArguments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "cpi.json")
	require.NoError(t, os.WriteFile(config, []byte(`{"a":"${WHAT}"}`), 0o600))
	for _, tc := range []struct {
		name   string
		args   []string
		status int
		want   string
	}{
		{"help", []string{"-h"}, passed, "Without -endpoint it starts a simulated cluster"},
		{"no CPI", nil, unusable, "which CPI?"},
		{"too much", []string{"-cpi", "x", "y"}, unusable, `unexpected argument "y"`},
		{"no such program", []string{"-cpi", filepath.Join(dir, "none")}, unusable, "no such file"},
		{"no such scenario", []string{"-cpi", script(t, ""), "-only", "x"}, unusable, `no scenario "x"`},
		{"no such value", []string{"-cpi", script(t, ""), "-config", config}, unusable, "${WHAT}"},
		{"properties that are no object", []string{"-cpi", script(t, ""), "-vm-properties", "5"}, unusable, "-vm-properties must be a JSON object"},
		{"a real cluster by accident", []string{"-cpi", script(t, ""), "-endpoint", "https://127.0.0.1:1"}, unusable, "THIS IS NOT A SIMULATION"},
		{"a real cluster without a token", []string{"-cpi", script(t, ""), "-endpoint", "https://127.0.0.1:1", "-yes-really"}, unusable, "API token of its own"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			status, stdout, stderr := check(t, tc.args...)
			assert.Equal(t, tc.status, status)
			assert.Contains(t, stderr, tc.want)
			assert.Empty(t, stdout)
		})
	}
	status, stdout, _ := check(t, "-list")
	assert.Equal(t, passed, status)
	assert.Len(t, strings.Split(strings.TrimSpace(stdout), "\n"), len(cpitest.Scenarios()))
	status, stdout, _ = check(t, "-print-config")
	assert.Equal(t, passed, status)
	assert.True(t, json.Valid([]byte(stdout)))
}

// A cluster that others use as well: here the simulated one, given by its
// address. Guests that are not the CPI's may come and go.
func TestSharedCluster(t *testing.T) {
	t.Parallel()
	sim, err := cpitest.Simulate("rbd")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sim.Close()) })
	dir := t.TempDir()
	token, config := filepath.Join(dir, "token"), filepath.Join(dir, "cpi.json")
	require.NoError(t, os.WriteFile(token, []byte(sim.Cluster().Token+"\n"), 0o600))
	text, err := cpitest.Expand([]byte(defaultConfig), sim.Values())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(config, text, 0o600))
	before := sim.Snapshot()

	status, stdout, stderr := check(t, "-cpi", build(t, "../proxmox-cpi"), "-config", config, "-endpoint", sim.URL(), "-yes-really",
		"-token-file", token, "-fingerprint", sim.Fingerprint(), "-pool", "bosh", "-storages", "files", "-only", "create-env,nothing-left")

	require.Equal(t, passed, status, stdout+stderr)
	assert.Contains(t, stderr, "THIS IS NOT A SIMULATION")
	assert.Equal(t, before, sim.Snapshot())
}

func TestSecretsIn(t *testing.T) {
	t.Parallel()
	var config any
	require.NoError(t, json.Unmarshal([]byte(`{"token":"a@pve!b=secret-1","token_id":"not-secret","x":[{"password":"secret-2"},{"private_key":"secret-3"}],
		"mbus":"https://user:secret-4@host:1","url":"https://host","short_secret":"a"}`), &config))
	assert.ElementsMatch(t, []string{"secret-1", "secret-2", "secret-3", "secret-4"}, secretsIn("", config))
}

func TestFromDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "template", "iso"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "template", "iso", "a.iso"), []byte("x"), 0o600))
	data, err := fromDirectory(dir)(t.Context(), "files:iso/a.iso")
	require.NoError(t, err)
	assert.Equal(t, "x", string(data))
	_, err = fromDirectory(dir)(t.Context(), "files:iso/b.iso")
	require.ErrorContains(t, err, "there is no file b.iso")
}
