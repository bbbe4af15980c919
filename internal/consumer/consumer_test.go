// Package consumer holds a module that imports the clients from outside, and
// the test of what such a module inherits.
package consumer_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// consumer copies the module under testdata to a directory of its own, because
// a build may complete its go.sum, and points it at this checkout.
func consumer(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "consumer"))))
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o600))
	run(t, dir, "go", "mod", "edit", "-replace=github.com/proxkit/proxkit="+root)
	return dir
}

func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %s:\n%s", name, strings.Join(args, " "), out)
	return string(out)
}

// TestWhatUsersInherit fails when a program that uses the clients would build
// or require more than the few modules we promise.
func TestWhatUsersInherit(t *testing.T) {
	t.Parallel()
	dir := consumer(t)

	run(t, dir, "go", "vet", "./...")

	modules := strings.Fields(run(t, dir, "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "."))
	slices.Sort(modules)
	assert.Equal(t, []string{
		"example.com/consumer",
		"github.com/coder/websocket",
		"github.com/hashicorp/go-cleanhttp",
		"github.com/proxkit/proxkit",
		"golang.org/x/time",
	}, slices.Compact(modules), "modules whose packages are built")

	for pkg := range strings.FieldsSeq(run(t, dir, "go", "list", "-deps", ".")) {
		assert.NotContains(t, pkg, "proxkit/internal/generator")
		assert.NotContains(t, pkg, "proxkit/apidoc", "API descriptions must not be linked into users' programs")
		assert.NotEqual(t, "testing", pkg)
		assert.NotEqual(t, "text/template", pkg, "it keeps every method of the clients in the binary")
	}

	before, err := os.ReadFile(filepath.Join("testdata", "consumer", "go.mod"))
	require.NoError(t, err)
	run(t, dir, "go", "mod", "tidy")
	after, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	assert.Equal(t, requires(before), requires(after), "lines in the consumer's go.mod")
}

func requires(gomod []byte) []string {
	var out []string
	for line := range strings.Lines(string(gomod)) {
		if strings.HasPrefix(line, "\t") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}
