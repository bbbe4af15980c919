package apidoc_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/apidoc"
)

func TestLoad(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		product, version, dialect string
		operations                int
	}{
		{"pve", "8.4", "perl", 605},
		{"pve", "9.1", "perl", 649},
		{"pve", "9.2", "perl", 675},
		{"pbs", "4", "rust", 367},
		{"pdm", "1.1", "rust", 327},
	} {
		t.Run(tc.product+" "+tc.version, func(t *testing.T) {
			t.Parallel()
			d, err := apidoc.Load(tc.product, tc.version)
			require.NoError(t, err)
			assert.Equal(t, tc.product, d.Product)
			assert.Equal(t, tc.version, d.Version)
			assert.Equal(t, tc.dialect, d.Dialect)
			assert.Len(t, d.Operations, tc.operations)
		})
	}
}

func TestLoadUnknown(t *testing.T) {
	t.Parallel()
	_, err := apidoc.Load("pve", "1.0")
	assert.ErrorContains(t, err, "pve 1.0")
	assert.ErrorContains(t, err, "pve 9.2", "the error lists what there is")
	_, err = apidoc.Latest("nothing")
	assert.ErrorContains(t, err, "nothing")
	_, err = apidoc.Load("../apidoc/pve", "9.2")
	assert.Error(t, err)
}

func TestVersions(t *testing.T) {
	t.Parallel()
	versions := apidoc.Versions("pve")
	assert.Subset(t, versions, []string{"8.4", "9.1", "9.2"})
	assert.True(t, slices.IsSortedFunc(versions, apidoc.CompareVersions))
	assert.Empty(t, apidoc.Versions("nothing"))
	assert.Subset(t, apidoc.Products(), []string{"pbs", "pdm", "pve"})
	d, err := apidoc.Latest("pve")
	require.NoError(t, err)
	assert.Equal(t, versions[len(versions)-1], d.Version)
}

func TestCompareVersions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b string
		want int
	}{
		{"9.2", "9.10", -1},
		{"10", "9.2", 1},
		{"9", "9.0", -1},
		{"8.4", "8.4", 0},
		{"9.2", "9.2.1", -1},
	} {
		got := apidoc.CompareVersions(tc.a, tc.b)
		assert.Equal(t, tc.want, sign(got), "%s and %s", tc.a, tc.b)
		assert.Equal(t, -tc.want, sign(apidoc.CompareVersions(tc.b, tc.a)), "%s and %s", tc.b, tc.a)
	}
}

func sign(n int) int {
	return max(-1, min(1, n))
}

// eachFile calls f for every committed facts file.
func eachFile(t *testing.T, f func(t *testing.T, name string, data []byte)) {
	t.Helper()
	names, err := filepath.Glob("*/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			f(t, name, data)
		})
	}
}

func TestFilesAreCanonical(t *testing.T) {
	t.Parallel()
	eachFile(t, func(t *testing.T, name string, data []byte) {
		d, err := apidoc.Decode(bytes.NewReader(data))
		require.NoError(t, err)
		var b bytes.Buffer
		require.NoError(t, d.Encode(&b))
		assert.True(t, bytes.Equal(data, b.Bytes()), "decoding and encoding changes the file")
		assert.Equal(t, filepath.ToSlash(name), d.Product+"/"+d.Version+".json")
	})
}

// A sentence is what the files must not have: words that explain. Values are
// names, numbers, patterns and the like.
var sentence = regexp.MustCompile(`[A-Za-z]{2,} [A-Za-z]{2,} [A-Za-z]{2,}|[a-z]{3,}[.!?:;] [A-Z]|[a-z]{2,} [a-z]{2,}[.]$`)

func TestFilesHoldNoProse(t *testing.T) {
	t.Parallel()
	for _, prose := range []string{"The name of the node.", "restore limit from datacenter", "Only root. Others cannot"} {
		require.Regexp(t, sentence, prose)
	}
	eachFile(t, func(t *testing.T, _ string, data []byte) {
		var v any
		require.NoError(t, json.Unmarshal(data, &v))
		var walk func(path string, v any)
		walk = func(path string, v any) {
			switch v := v.(type) {
			case string:
				if strings.Contains(v, " ") && sentence.MatchString(v) {
					t.Errorf("%s: %q looks like prose", path, v)
				}
			case []any:
				for i, e := range v {
					walk(fmt.Sprintf("%s[%d]", path, i), e)
				}
			case map[string]any:
				for k, e := range v {
					if k == "description" && !strings.HasSuffix(path, ".properties") {
						t.Errorf("%s has a description", path)
					}
					walk(path+"."+k, e)
				}
			}
		}
		walk("", v)
	})
}

func TestEveryPathParameterIsDeclared(t *testing.T) {
	t.Parallel()
	braces := regexp.MustCompile(`\{([^}]+)\}`)
	eachFile(t, func(t *testing.T, _ string, data []byte) {
		d, err := apidoc.Decode(bytes.NewReader(data))
		require.NoError(t, err)
		for _, op := range d.Operations {
			for _, m := range braces.FindAllStringSubmatch(op.Path, -1) {
				s := op.Parameters.Properties[m[1]]
				if assert.NotNil(t, s, "%s %s: {%s}", op.Path, op.Method, m[1]) {
					assert.False(t, s.Optional, "%s %s: {%s}", op.Path, op.Method, m[1])
				}
			}
		}
	})
}

func TestSourcesListEveryFile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("SOURCES.md")
	require.NoError(t, err)
	row := regexp.MustCompile("(?m)^\\| (\\w+) \\| ([0-9.]+) \\| ([0-9]+) \\| `[^`]+` \\| `[0-9a-f]{64}` \\|$")
	listed := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		listed[m[1]+"/"+m[2]+".json"] = m[3]
	}
	names, err := filepath.Glob("*/*.json")
	require.NoError(t, err)
	require.Len(t, listed, len(names))
	for _, name := range names {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		d, err := apidoc.Decode(bytes.NewReader(data))
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprint(len(d.Operations)), listed[filepath.ToSlash(name)], name)
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, text, want string }{
		{"nothing", ``, "EOF"},
		{"an unknown field", `{"dialect":"perl","colour":1}`, "colour"},
		{"an unknown dialect", `{"dialect":"go","operations":[{"path":"/","method":"GET"}]}`, `"go"`},
		{"no operations", `{"dialect":"perl","operations":[]}`, "no operations"},
		{"a null operation", `{"dialect":"perl","operations":[null]}`, "null"},
		{"a path without slash", `{"dialect":"perl","operations":[{"path":"x","method":"GET"}]}`, `"x"`},
		{"a doubled operation", `{"dialect":"perl","operations":[{"path":"/x","method":"GET"},{"path":"/x","method":"GET"}]}`, "/x GET appears twice"},
		{"a null property", `{"dialect":"perl","operations":[{"path":"/x","method":"GET","parameters":{"properties":{"a":{"items":{"properties":{"b":null}}}}}}]}`, "/x GET parameters.a[].b is null"},
		{"a null variant", `{"dialect":"perl","operations":[{"path":"/x","method":"GET","returns":{"oneOf":[null]}}]}`, "/x GET returns|0 is null"},
		{"a null check", `{"dialect":"perl","operations":[{"path":"/x","method":"GET","permissions":{"check":{"op":"and","checks":[null]}}}]}`, "null"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := apidoc.Decode(strings.NewReader(tc.text))
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	d, err := apidoc.Load("pve", "9.2")
	require.NoError(t, err)
	for _, op := range d.Operations {
		require.Same(t, op, d.Find(op.Method, op.Path))
	}
	assert.Nil(t, d.Find("PATCH", "/version"))
	assert.Nil(t, d.Find("GET", "/versions"))
}

func TestClone(t *testing.T) {
	t.Parallel()
	d, err := apidoc.Load("pve", "9.2")
	require.NoError(t, err)
	s := d.Find("POST", "/nodes/{node}/qemu").Parameters
	before, err := json.Marshal(s)
	require.NoError(t, err)
	c := s.Clone()
	assert.Equal(t, s, c)
	c.Walk("", func(_ string, s *apidoc.Schema) {
		s.Description = "changed"
		if len(s.Enum) > 0 {
			s.Enum[0] = "changed"
		}
	})
	after, err := json.Marshal(s)
	require.NoError(t, err)
	assert.Equal(t, string(before), string(after), "the copy shares nothing")
}

func ExampleLoad() {
	d, err := apidoc.Load("pve", "9.2")
	if err != nil {
		fmt.Println(err)
		return
	}
	op := d.Find("POST", "/nodes/{node}/qemu/{vmid}/clone")
	fmt.Println(op.Parameters.Properties["newid"].Type, op.Permissions.Check.Op)
	// Output: integer and
}

func ExampleSchema_Walk() {
	d, err := apidoc.Load("pve", "9.2")
	if err != nil {
		fmt.Println(err)
		return
	}
	d.Find("GET", "/version").Returns.Walk("result", func(where string, s *apidoc.Schema) {
		fmt.Println(where, s.Type)
	})
	// Output:
	// result object
	// result.console string
	// result.release string
	// result.repoid string
	// result.version string
}

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		if _, err := apidoc.Load("pve", "9.2"); err != nil {
			b.Fatal(err)
		}
	}
}
