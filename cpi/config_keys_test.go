package cpi

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// keysRead lists the keys that a reader was asked for, with dots between the
// levels. nested reads the levels below.
func keysRead(read func(r *objectReader)) []string {
	r := newObjectReader("test", nil)
	var all []string
	r.notice = func(key string) { all = append(all, key) }
	read(r)
	// A key with others below it is none by itself.
	return slices.DeleteFunc(all, func(key string) bool {
		return slices.ContainsFunc(all, func(other string) bool { return strings.HasPrefix(other, key+".") })
	})
}

// TestKeyTables compares the lists for people with the keys that are read and with
// the tables in the documentation.
func TestKeyTables(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, file string
		keys       []ConfigKey
		read       func(r *objectReader)
	}{
		{"Config", "config.go", ConfigKeys(), func(r *objectReader) { new(Config).read(r) }},
		{"VMProperties", "properties.go", VMPropertyKeys(), func(r *objectReader) { _, _, _ = readVMProperties(r, &Config{}) }},
		{"DiskProperties", "properties.go", DiskPropertyKeys(), func(r *objectReader) { _, _ = readDiskProperties(r, &Config{}) }},
		{"NetworkProperties", "network_settings.go", NetworkPropertyKeys(), func(r *objectReader) { _, _ = readNetworkProperties(r, &Config{}) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var listed []string
			for _, k := range tc.keys {
				assert.NotEmpty(t, k.Type, k.Name)
				assert.NotEmpty(t, k.Meaning, k.Name)
				listed = append(listed, k.Name)
			}
			assert.ElementsMatch(t, keysRead(tc.read), listed)

			source, err := os.ReadFile(tc.file)
			require.NoError(t, err)
			before, _, ok := strings.Cut(string(source), "\ntype "+tc.name+" struct")
			require.True(t, ok)
			assert.Contains(t, before[strings.LastIndex(before, "\n// "+tc.name):], keyTable(tc.keys), "the documentation of %s has to hold this table", tc.name)
		})
	}
}

// keyTable is the table of keys as it stands in a comment.
func keyTable(keys []ConfigKey) string {
	rows := append([]ConfigKey{{"key", "type", "default", "meaning"}}, keys...)
	var name, kind, preset int
	for _, k := range rows {
		name, kind, preset = max(name, len(k.Name)), max(kind, len(k.Type)), max(preset, len(k.Default))
	}
	pad := func(s string, n int) string { return s + strings.Repeat(" ", n-len(s)+2) }
	var b strings.Builder
	for _, k := range rows {
		b.WriteString("//\t" + pad(k.Name, name) + pad(k.Type, kind) + pad(k.Default, preset) + k.Meaning + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}
