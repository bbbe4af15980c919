package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	facts "github.com/proxkit/proxkit/apidoc"
)

const smallTree = `const apiSchema = [{"path":"/x","text":"x","info":{"GET":{"name":"x","allowtoken":1,"description":"Says it."}}}];`

func TestRunApidoc(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in, out := filepath.Join(dir, "apidoc.js"), filepath.Join(dir, "out")
	require.NoError(t, os.WriteFile(in, []byte(smallTree), 0o600))
	for _, version := range []string{"9.10", "9.9", "9.10"} {
		var stdout, stderr bytes.Buffer
		require.NoError(t, runApidoc(t.Context(), []string{"-product", "demo", "-version", version, "-from", in, "-dir", out}, &stdout, &stderr))
		assert.Contains(t, stdout.String(), "demo/"+version+".json: 1 operations")
		assert.Empty(t, stderr.String())
	}
	data, err := os.ReadFile(filepath.Join(out, "demo", "9.10.json"))
	require.NoError(t, err)
	d, err := facts.Decode(bytes.NewReader(data))
	require.NoError(t, err)
	assert.Equal(t, "demo 9.10", d.Product+" "+d.Version)
	assert.Empty(t, d.Operations[0].Description, "facts only")

	sum := sha256.Sum256([]byte(smallTree))
	hash := hex.EncodeToString(sum[:])
	sources, err := os.ReadFile(filepath.Join(out, "SOURCES.md"))
	require.NoError(t, err)
	assert.Equal(t, "# Sources\n\n"+sourcesHead+"\n| --- | --- | --- | --- | --- |\n"+
		"| demo | 9.9 | 1 | `apidoc.js` | `"+hash+"` |\n"+
		"| demo | 9.10 | 1 | `apidoc.js` | `"+hash+"` |\n", string(sources), "one row a version, by number")

	left, err := filepath.Glob(filepath.Join(out, "*", ".new-*"))
	require.NoError(t, err)
	assert.Empty(t, left, "no temporary files stay")
}

// The command must write nothing at all when anything is wrong.
func TestRunApidocRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	good := write("good.js", smallTree)
	bad := write("bad.js", `[{"path":"/x","text":"x","info":{"GET":{"foo":1}}}]`)
	broken := filepath.Dir(write("broken/SOURCES.md", "# Sources without a table\n"))
	oddRow := filepath.Dir(write("odd/SOURCES.md", "# S\n\n"+sourcesHead+"\n| --- | --- | --- | --- | --- |\n| a | 1 | many | x | y |\n"))
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"no product", []string{"-version", "1", "-from", good}, "-product"},
		{"a product that is a path", []string{"-product", "../x", "-version", "1", "-from", good}, "-product"},
		{"no version", []string{"-product", "demo", "-from", good}, "-version"},
		{"a version that is a path", []string{"-product", "demo", "-version", "1/2", "-from", good}, "-version"},
		{"no source", []string{"-product", "demo", "-version", "1"}, "-from"},
		{"an argument too many", []string{"-product", "demo", "-version", "1", "-from", good, "more"}, `"more"`},
		{"an unknown flag", []string{"-colour"}, "colour"},
		{"a missing file", []string{"-product", "demo", "-version", "1", "-from", filepath.Join(dir, "none.js")}, "none.js"},
		{"a file that is not understood", []string{"-product", "demo", "-version", "1", "-from", bad}, `bad.js: 1 thing in the API description is not understood:` + "\n" + `  /x GET: unknown key "foo"`},
		{"a list of sources without table", []string{"-product", "demo", "-version", "1", "-from", good, "-dir", broken}, "no table"},
		{"a list of sources with an odd row", []string{"-product", "demo", "-version", "1", "-from", good, "-dir", oddRow}, `"many"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			out, args := filepath.Join(t.TempDir(), "out"), tc.args
			if i := slices.Index(args, "-dir"); i >= 0 {
				out = filepath.Join(args[i+1], "demo")
			} else {
				args = append([]string{"-dir", out}, args...)
			}
			var stdout, stderr bytes.Buffer
			err := runApidoc(t.Context(), args, &stdout, &stderr)
			assert.ErrorContains(t, err, tc.want)
			assert.NoDirExists(t, out)
			assert.Empty(t, stdout.String())
		})
	}
}

var sourcesRow = regexp.MustCompile("(?m)^\\| (\\w+) \\| ([0-9.]+) \\| [0-9]+ \\| `([^`]+)` \\|")

// The committed facts are what the command makes of the originals. They are
// large, so the test reads them where PROXKIT_APIDOC_DIR says they are, under the
// names that SOURCES.md gives.
func TestFactsComeFromTheOriginals(t *testing.T) {
	t.Parallel()
	originals := os.Getenv("PROXKIT_APIDOC_DIR")
	if originals == "" {
		t.Skip("set PROXKIT_APIDOC_DIR to a directory with the files that apidoc/SOURCES.md names")
	}
	text, err := os.ReadFile("../../apidoc/SOURCES.md")
	require.NoError(t, err)
	rows := sourcesRow.FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, rows)
	out := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(out, "SOURCES.md"), text, 0o600))
	for _, row := range rows {
		product, version, origin := row[1], row[2], row[3]
		var stdout, stderr bytes.Buffer
		require.NoError(t, runApidoc(t.Context(), []string{"-product", product, "-version", version, "-dir", out, "-from", filepath.Join(originals, origin)}, &stdout, &stderr))
		want, err := os.ReadFile(filepath.Join("../../apidoc", product, version+".json"))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(out, product, version+".json"))
		require.NoError(t, err)
		assert.True(t, bytes.Equal(want, got), "%s %s is not what its original gives", product, version)
	}
	after, err := os.ReadFile(filepath.Join(out, "SOURCES.md"))
	require.NoError(t, err)
	assert.Equal(t, string(text), string(after))
}
