package pvetest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTaskTypes holds that every type of task that the package starts can be
// named in a pattern.
func TestTaskTypes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	starts := regexp.MustCompile(`\.(?:task|guestWorker|lockingWorker|reserving)\((?:[^"\n]*"(?:clone|create)", )?"([a-z]+)"`)
	found := map[string]bool{"hastart": true, "hastop": true}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		for _, m := range starts.FindAllStringSubmatch(string(text), -1) {
			found[m[1]] = true
		}
	}
	delete(found, "ha") // of which these are made
	assert.Equal(t, taskTypes(), sortedKeys(found))
}

// TestEveryOperationCanBeMatched holds that the path of every operation is a
// pattern that covers it.
func TestEveryOperationCanBeMatched(t *testing.T) {
	t.Parallel()
	s := RunT(t)
	for name, op := range s.reg.byName {
		for _, text := range []string{name, op.Path} {
			p, err := s.reg.pattern(text)
			require.NoError(t, err, text)
			assert.True(t, p.matches(op.Method, split(op.Path), op.Path), text)
		}
	}
}

// FuzzPattern holds that a pattern is refused or matches the path of some
// operation.
func FuzzPattern(f *testing.F) {
	doc, err := facts()
	require.NoError(f, err)
	r := newRegistry(doc)
	for _, seed := range []string{"POST /nodes/{node}/qemu", "* /**", "GET /nodes/*/qemu/1[0-9]?/config", "/pools", "post /x", "GET /a/**/b", "GET /[", "DELETE /nodes/*/storage/*/content/a:b/c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := r.pattern(text)
		if err != nil {
			assert.NotEmpty(t, err.Error())
			return
		}
		for _, op := range r.byName {
			if (p.method == "*" || p.method == op.Method) && p.covers(op.Path) {
				return
			}
		}
		t.Errorf("%q covers nothing", text)
	})
}
