package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/internal/generator/apidoc"
)

func TestRunDiff(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	one := write("one.js", smallTree)
	more := write("more.json", `[{"path":"/x","text":"x","info":{"GET":{"name":"x","allowtoken":1},"PUT":{}}}]`)
	less := write("less.json", `[{"path":"/y","text":"y","info":{"GET":{"name":"y","allowtoken":1}}}]`)
	bad := write("bad.html", "<html><title>Login</title></html>")

	for _, tc := range []struct {
		name string
		args []string
		out  string // part of the output
		err  string
		code int
	}{
		{"text", []string{one, more}, "one.js -> more.json: 1 -> 2 operations (1 added, 0 removed, 0 changed), 0 breaking changes\n", "", 0},
		{"nothing differs", []string{one, one}, "no differences\n", "", 0},
		{"nothing differs, with status", []string{"-exit-code", one, one}, "no differences\n", "", 0},
		{"added, with status", []string{"-exit-code", one, more}, "  PUT    /x\n", "", 1},
		{"removed, with status, flag last", []string{one, less, "-exit-code"}, "! GET    /x\n", "", 3},
		{"facts files", []string{"../../apidoc/pve/9.1.json", "../../apidoc/pve/9.2.json"}, "pve 9.1 -> pve 9.2: 649 -> 675 operations", "", 0},
		{"one file", []string{one}, "", "have 1 files, want two", 0},
		{"three files", []string{one, more, less}, "", "have 3 files, want two", 0},
		{"a missing file", []string{one, filepath.Join(dir, "none")}, "", "none", 0},
		{"a login page", []string{bad, one}, "", `bad.html: this is an HTML page ("Login")`, 0},
		{"an unknown flag", []string{"-colour"}, "", "colour", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			err := runDiff(t.Context(), tc.args, &stdout, &stderr)
			switch {
			case tc.err != "":
				require.ErrorContains(t, err, tc.err)
				assert.Empty(t, stdout.String())
			case tc.code != 0:
				exit, ok := errors.AsType[exitError](err)
				require.True(t, ok, "%v", err)
				assert.Equal(t, tc.code, exit.code)
			default:
				require.NoError(t, err)
			}
			assert.Contains(t, stdout.String(), tc.out)
		})
	}
}

func TestRunDiffJSON(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"-json", "../../apidoc/pve/8.4.json", "../../apidoc/pve/9.2.json"},
		{"../../apidoc/pve/8.4.json", "../../apidoc/pve/9.2.json", "-json"},
	} {
		var stdout, stderr bytes.Buffer
		require.NoError(t, runDiff(t.Context(), args, &stdout, &stderr))
		dec := json.NewDecoder(&stdout)
		dec.DisallowUnknownFields()
		var r apidoc.Report
		require.NoError(t, dec.Decode(&r))
		assert.Equal(t, 605, r.Old.Operations)
		assert.Equal(t, 675, r.New.Operations)
		assert.Len(t, r.Added, r.Summary.OperationsAdded)
		assert.Len(t, r.Removed, r.Summary.OperationsRemoved)
		assert.Len(t, r.Changed, r.Summary.OperationsChanged)
	}
}

func TestRunDiffHelp(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	assert.ErrorIs(t, runDiff(t.Context(), []string{"-h"}, &stdout, &stderr), flag.ErrHelp)
	assert.Contains(t, stderr.String(), "OLD NEW")
}
