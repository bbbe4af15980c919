package golang

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/apidoc"
)

func TestCheckPackage(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"pve", "pve84", "pmg", "a", "my_product"} {
		assert.NoError(t, CheckPackage(good), good)
	}
	for _, bad := range []string{"", "PVE", "func", "9pve", "a-b", "a.b", "_", "_x", "json", "http", "main", "x_test", "naïve product"} {
		assert.Error(t, CheckPackage(bad), bad)
	}
}

func TestFileNames(t *testing.T) {
	t.Parallel()
	for area, want := range map[string]string{
		"qemu": "zz_qemu.go", "auto-install": "zz_auto_install.go", "": "zz_root.go", "client": "zz_clients.go", "nodes_windows": "zz_nodes_windows_api.go", "test": "zz_test_api.go",
		"amd64": "zz_amd64_api.go", "$schema": "zz_schema.go", "Upper": "zz_upper.go",
	} {
		assert.Equal(t, want, fileName(area))
	}
}

func TestSplitKeepsFilesShort(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	line := strings.Repeat("x\n", 90)
	n := 0
	for _, area := range []string{"qemu/config", "qemu/status", "lxc/config", "storage/content"} {
		for i := range 60 {
			fmt.Fprintf(&code, "%s/nodes/{node}/%s/%03d GET 0\n%s", marker, area, i, line)
			n++
		}
	}
	fmt.Fprintf(&code, "%s/version GET 0\n%s", marker, line)
	fmt.Fprintf(&code, "%s/storage GET 0\n%s", marker, line)
	chunks, err := cut(code.String())
	require.NoError(t, err)
	files := split(chunks)
	total := 0
	for name, chunks := range files {
		assert.LessOrEqual(t, lines(chunks), MaxLines, name)
		total += len(chunks)
		assert.True(t, slices.IsSortedFunc(chunks, func(a, b chunk) int { return strings.Compare(a.path, b.path) }), name)
	}
	assert.Equal(t, n+2, total, "nothing is lost")
	assert.Contains(t, files, "zz_version.go")

	_, err = cut(marker + "only-one\ntext")
	require.Error(t, err)
}

func TestWrap(t *testing.T) {
	t.Parallel()
	assert.Equal(t, []string{"aa bb", "cc", "ddddddddd"}, wrap("aa  bb cc\nddddddddd", 6))
	assert.Empty(t, wrap("  ", 10))
}

func TestPrivilegesInWords(t *testing.T) {
	t.Parallel()
	perm := func(path string, privs ...string) *apidoc.Check {
		return &apidoc.Check{Op: "perm", Path: path, Privs: privs}
	}
	anyOf := perm("/vms/{vmid}", "VM.Audit", "VM.Console")
	anyOf.Any = true
	given := perm("/pool/{pool}", "VM.Allocate")
	given.RequireParam = "pool"
	for want, check := range map[string]*apidoc.Check{
		"Sys.Audit on /":                                  perm("/", "Sys.Audit"),
		"A, B and C on /x":                                perm("/x", "A", "B", "C"),
		"VM.Audit or VM.Console on /vms/{vmid}":           anyOf,
		"VM.Allocate on /pool/{pool} where pool is given": given,
		"being root@pam":                                  {Op: "user", Path: "root@pam"},
		"being the user {userid}":                         {Op: "userid-param", Args: []string{"self"}},
		"the right to modify permissions on /acl":         {Op: "perm-modify", Path: "/acl"},
		"A on /a or B on /b":                              {Op: "or", Checks: []*apidoc.Check{perm("/a", "A"), perm("/b", "B")}},
		"A on /a, and (B on /b or C on /c)":               {Op: "and", Checks: []*apidoc.Check{perm("/a", "A"), {Op: "or", Checks: []*apidoc.Check{perm("/b", "B"), perm("/c", "C")}}}},
	} {
		assert.Equal(t, want, checkText(check, true))
	}
}
