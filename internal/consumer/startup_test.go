package consumer_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestStart runs a program that imports pve and looks at what the import costs.
func TestStart(t *testing.T) {
	t.Parallel()
	dir := consumer(t)
	binary := filepath.Join(dir, "small.exe")
	run(t, dir, "go", "build", "-o", binary, "./small")

	var trace bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	cmd.Stderr = &trace
	out, err := cmd.Output()
	require.NoError(t, err, trace.String())
	assert.Equal(t, "goroutines: 1\n", string(out), "no import starts a goroutine")

	// "init net/http @5.5 ms, 0.1 ms clock, 4240 bytes, 7 allocs"
	line := regexp.MustCompile(`(?m)^init (\S+) @\S+ ms, (\S+) ms clock, (\d+) bytes, (\d+) allocs`)
	var spent float64
	found := line.FindAllStringSubmatch(trace.String(), -1)
	require.NotEmpty(t, found, "this Go prints its trace differently")
	for _, m := range found {
		if !strings.HasPrefix(m[1], "github.com/proxkit/proxkit/") {
			continue
		}
		ms, err := strconv.ParseFloat(m[2], 64)
		require.NoError(t, err)
		spent += ms
		t.Log(m[0])
	}
	assert.LessOrEqual(t, spent, 1.0, "milliseconds to initialise our packages")

	out, err = exec.CommandContext(t.Context(), binary, "https://127.0.0.1:1").Output()
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(string(out), "goroutines: 1 1\n"), "a new client starts none either: %s", out)

	symbols := run(t, dir, "go", "tool", "nm", binary)
	assert.Contains(t, symbols, "proxkit/pve.NewClient")
	assert.NotContains(t, symbols, "proxkit/pve/operations.", "the table of operations is in a program that does not use it")
	assert.NotContains(t, symbols, "proxkit/pve.(*Client).CreateVM\n", "methods that nothing calls are in the program")
}

// TestNoGlobalState reads the packages that make up a client: what they keep outside of
// clients must be constant, so that no client notices another, and starting is free.
func TestNoGlobalState(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, pkg := range []string{"pve", "pbs", "pdm", "pve/operations", "pbs/operations", "pdm/operations", "internal/rest", "internal/wire", "internal/operation"} {
		dir := filepath.Join("..", "..", filepath.FromSlash(pkg))
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, entry := range entries {
			if entry.IsDir() || !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
				continue
			}
			checked++
			checkGlobals(t, filepath.Join(dir, entry.Name()), pkg+"/"+entry.Name())
		}
	}
	assert.Greater(t, checked, 100, "files")
}

func checkGlobals(t *testing.T, file, shown string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(t, err)
	for _, decl := range parsed.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok {
			assert.False(t, f.Recv == nil && f.Name.Name == "init", "%s has an init function", shown)
			continue
		}
		general, ok := decl.(*ast.GenDecl)
		if !ok || general.Tok != token.VAR {
			continue
		}
		for _, spec := range general.Specs {
			vars, ok := spec.(*ast.ValueSpec)
			require.True(t, ok)
			names := vars.Names[0].Name
			if names == "_" {
				continue // a check by the compiler
			}
			if len(vars.Values) == 0 {
				// What is learnt about Go types is the same for every client.
				assert.True(t, shown == "internal/wire/types.go" && names == "types", "%s: the variable %s can change", shown, names)
				continue
			}
			for _, value := range vars.Values {
				assert.True(t, isFixed(value), "%s: the variable %s is more than a sentinel or a table of constants", shown, names)
			}
		}
	}
}

// isFixed accepts another package's sentinel, errors.New, and literals of constants. A
// map literal costs time when the program starts.
func isFixed(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit, *ast.Ident, *ast.SelectorExpr:
		return true
	case *ast.BinaryExpr:
		return isFixed(e.X) && isFixed(e.Y)
	case *ast.UnaryExpr:
		return isFixed(e.X)
	case *ast.KeyValueExpr:
		return isFixed(e.Value)
	case *ast.CallExpr:
		f, ok := e.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		pkg, ok := f.X.(*ast.Ident)
		return ok && pkg.Name == "errors" && f.Sel.Name == "New"
	case *ast.CompositeLit:
		if _, isMap := e.Type.(*ast.MapType); isMap {
			return false
		}
		for _, element := range e.Elts {
			if !isFixed(element) {
				return false
			}
		}
		return true
	}
	return false
}
