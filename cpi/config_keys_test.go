package cpi

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestConfigKeysAreTheKeys compares the list for people with the keys that are
// read and with the table in the documentation of Config.
func TestConfigKeysAreTheKeys(t *testing.T) {
	t.Parallel()
	r := newConfigReader("test", nil)
	new(Config).read(r)
	var listed, levels []string
	for _, k := range ConfigKeys() {
		top, _, nested := strings.Cut(k.Name, ".")
		if nested && !slices.Contains(levels, top) {
			levels = append(levels, top)
		}
		if !nested {
			listed = append(listed, k.Name)
		}
		assert.NotEmpty(t, k.Type, k.Name)
		assert.NotEmpty(t, k.Meaning, k.Name)
	}
	assert.ElementsMatch(t, r.asked, append(listed, levels...))

	source, err := os.ReadFile("config.go")
	require.NoError(t, err)
	cells := regexp.MustCompile(`\s{2,}`)
	documented := map[string]bool{}
	for line := range strings.Lines(string(source)) {
		if row, ok := strings.CutPrefix(line, "//\t"); ok {
			documented[strings.Join(strings.Fields(cells.ReplaceAllString(row, " ")), " ")] = true
		}
	}
	for _, k := range ConfigKeys() {
		row := strings.Join(strings.Fields(strings.Join([]string{k.Name, k.Type, k.Default, k.Meaning}, " ")), " ")
		assert.True(t, documented[row], "the documentation of Config has no row %q", row)
	}
}
