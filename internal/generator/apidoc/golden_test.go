package apidoc_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/internal/generator/apidoc"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(name, got, 0o644))
	}
	want, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got), "run the test with -update and look at the difference")
}

// Each directory in testdata/parse holds a small file as a server publishes it
// and the document it gives, with descriptions and without.
func TestGolden(t *testing.T) {
	t.Parallel()
	cases, err := filepath.Glob("testdata/parse/*/apidoc.js")
	require.NoError(t, err)
	require.NotEmpty(t, cases)
	for _, name := range cases {
		dir := filepath.Dir(name)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			d, err := apidoc.Parse(data, "demo", "1.0")
			require.NoError(t, err)
			var full, facts bytes.Buffer
			require.NoError(t, d.Encode(&full))
			golden(t, filepath.Join(dir, "document.json"), full.Bytes())
			require.NoError(t, apidoc.Facts(d).Encode(&facts))
			golden(t, filepath.Join(dir, "facts.json"), facts.Bytes())
		})
	}
}
