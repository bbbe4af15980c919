package pve_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/internal/wire"
	"github.com/proxkit/proxkit/pve"
)

// An exchange is a request that a server of Proxmox VE 9.2 was sent, and its answer.
type exchange struct {
	Name    string `json:"name"`
	Request struct {
		Method  string            `json:"method"`
		Target  string            `json:"target"`
		Headers map[string]string `json:"headers"`
		Body    string            `json:"body"`
	} `json:"request"`
	Answer struct {
		Status int             `json:"status"`
		JSON   json.RawMessage `json:"json"`
	} `json:"response"`
}

// TestRecordedAnswers makes recorded calls again, each by its method, and demands that
// the request is the one recorded, that every value of the answer fits its type, and
// that no part of the answer is lost: what was decoded is encoded again and compared.
//
// A selection lies in testdata. PROXKIT_RECORDINGS names a directory with more.
func TestRecordedAnswers(t *testing.T) {
	t.Parallel()
	operations := readOperations(t)
	for _, dir := range []string{"testdata", os.Getenv("PROXKIT_RECORDINGS"), "../../shared/wire"} {
		files, err := filepath.Glob(filepath.Join(dir, "pve-*.jsonl"))
		require.NoError(t, err)
		if dir == "" {
			continue
		}
		if dir == "testdata" {
			require.NotEmpty(t, files)
		}
		for _, file := range files {
			t.Run(filepath.Base(file), func(t *testing.T) {
				t.Parallel()
				replayed := 0
				for _, e := range readExchanges(t, file) {
					if e.Answer.Status != http.StatusOK || len(e.Answer.JSON) == 0 || !strings.HasPrefix(e.Request.Target, apiBase) {
						continue
					}
					if faults := operations.replay(t, e); len(faults) > 0 {
						t.Errorf("%s: %s %s\n\t%s\n\t%.1000s", e.Name, e.Request.Method, e.Request.Target, strings.Join(faults, "\n\t"), e.Answer.JSON)
					}
					replayed++
				}
				assert.Positive(t, replayed)
				t.Logf("%d answers", replayed)
			})
		}
	}
}

const apiBase = "/api2/json"

func readExchanges(t *testing.T, file string) []exchange {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	var all []exchange
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e exchange
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e))
		all = append(all, e)
	}
	require.NoError(t, lines.Err())
	return all
}

// operations are the methods of the client by the HTTP method and the path they call,
// as their comments tell.
type operations []operation

type operation struct {
	method   string // of HTTP
	template string
	name     string // of the client's method
}

func readOperations(t *testing.T) operations {
	t.Helper()
	var all operations
	files, err := filepath.Glob("zz_*.go")
	require.NoError(t, err)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range parsed.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Doc == nil {
				continue
			}
			for _, line := range f.Doc.List {
				if text, ok := strings.CutPrefix(line.Text, "//api:operation "); ok {
					method, template, _ := strings.Cut(text, " ")
					all = append(all, operation{method, template, f.Name.Name})
				}
			}
		}
	}
	require.Greater(t, len(all), 600)
	return all
}

// find returns the operation that serves a path, and the values in the path.
func (all operations) find(method, path string) (*operation, map[string]any) {
	var best *operation
	var bestValues map[string]any
	bestScore := -1
	for i := range all {
		if all[i].method != method {
			continue
		}
		if values, score := matchPath(all[i].template, path); score > bestScore {
			best, bestValues, bestScore = &all[i], values, score
		}
	}
	return best, bestValues
}

// matchPath compares a path with a template. The last value may hold slashes.
func matchPath(template, path string) (map[string]any, int) {
	want := strings.Split(template, "/")
	have := strings.SplitN(path, "/", len(want))
	if len(have) != len(want) {
		return nil, -1
	}
	values, score := map[string]any{}, 0
	for i, part := range want {
		switch {
		case strings.HasPrefix(part, "{"):
			values[strings.Trim(part, "{}")] = have[i]
		case part != have[i]:
			return nil, -1
		default:
			score++
		}
	}
	return values, score
}

func (all operations) replay(t *testing.T, e exchange) (faults []string) {
	t.Helper()
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	target, err := url.Parse(e.Request.Target)
	require.NoError(t, err)
	path := strings.TrimRight(strings.ReplaceAll(strings.TrimPrefix(target.Path, apiBase), "//", "/"), "/")
	op, params := all.find(e.Request.Method, path)
	if op == nil && path != "" {
		return []string{"no method calls this"}
	}
	if op == nil {
		return nil // the root has no description
	}
	sent := paramsOf(t, e.Request.Headers["Content-Type"], target.RawQuery, e.Request.Body)
	maps.Copy(params, sent)

	var transport transportFunc = func(req *http.Request) (*http.Response, error) {
		body := []byte(nil)
		if req.Body != nil {
			if body, err = io.ReadAll(req.Body); err != nil {
				return nil, err
			}
		}
		if req.Method != e.Request.Method || strings.TrimPrefix(req.URL.Path, apiBase) != path {
			fault("the client calls %s %s", req.Method, req.URL.Path)
		}
		got := paramsOf(t, req.Header.Get("Content-Type"), req.URL.RawQuery, string(body))
		for _, lost := range lostParts("", any(sent), any(got)) {
			fault("request: %s", lost)
		}
		for _, more := range lostParts("", any(got), any(sent)) {
			fault("request, not recorded: %s", more)
		}
		return &http.Response{
			StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header:        http.Header{"Content-Type": {"application/json;charset=UTF-8"}},
			ContentLength: int64(len(e.Answer.JSON)), Body: io.NopCloser(bytes.NewReader(e.Answer.JSON)),
		}, nil
	}
	client, err := pve.NewClient("https://pve1.example.com:8006", pve.WithTransport(transport),
		pve.WithOnMisfit(func(m pve.Misfit) { fault("misfit at %s: want %s, got %s", m.Field, m.Want, m.Got) }))
	require.NoError(t, err)

	method := reflect.ValueOf(client).MethodByName(op.name)
	require.True(t, method.IsValid(), op.name)
	in := []reflect.Value{reflect.ValueOf(context.Context(t.Context()))}
	for i := 1; i < method.Type().NumIn(); i++ {
		arg := reflect.New(method.Type().In(i)).Elem()
		if arg.Type() == reflect.TypeFor[pve.Upload]() {
			arg.Set(reflect.ValueOf(pve.Upload{Body: strings.NewReader("x"), Name: "x.iso"}))
		} else {
			raw, err := json.Marshal(arraysOf(arg.Type(), params))
			require.NoError(t, err)
			require.NoError(t, wire.Decode(raw, arg.Addr().Interface(), func(m wire.Misfit) { fault("parameter %s", m) }))
		}
		in = append(in, arg)
	}
	if method.Type().NumIn() == 1 && len(params) > 0 {
		fault("%s takes no parameters", op.name)
	}
	results := method.Call(in)
	if refusal := agentRefusal(e.Answer.JSON); refusal != "" {
		err, _ := results[len(results)-1].Interface().(error)
		if refused, ok := errors.AsType[*pve.Error](err); !ok || refused.Message != refusal {
			fault("the agent's refusal became %v", err)
		}
		return faults
	}
	if err, _ := results[len(results)-1].Interface().(error); err != nil {
		fault("%v", err)
		return faults
	}
	var answer struct {
		Data any `json:"data"`
	}
	require.NoError(t, decodeNumbers(e.Answer.JSON, &answer))
	if len(results) == 1 {
		if answer.Data != nil {
			fault("%s has no result", op.name)
		}
		return faults
	}
	if _, closes := results[0].Interface().(io.Closer); closes {
		return faults
	}
	raw, err := wire.EncodeJSON(map[string]any{"data": results[0].Interface()}, wire.Perl, nil)
	if err != nil {
		return append(faults, "encode again: "+err.Error())
	}
	again := map[string]any{}
	require.NoError(t, decodeNumbers(raw, &again))
	for _, lost := range lostParts("data", answer.Data, again["data"]) {
		fault("%s", lost)
	}
	return faults
}

// paramsOf reads the parameters of a request as the server does.
func paramsOf(t *testing.T, contentType, query, body string) map[string]any {
	t.Helper()
	params := map[string]any{}
	addForm := func(text string) {
		values, err := url.ParseQuery(text)
		require.NoError(t, err)
		for name, list := range values {
			if params[name] = list[0]; len(list) > 1 {
				many := make([]any, len(list))
				for i := range list {
					many[i] = list[i]
				}
				params[name] = many
			}
		}
	}
	switch media, rest, _ := mime.ParseMediaType(contentType); {
	case media == "application/json":
		require.NoError(t, decodeNumbers([]byte(body), &params))
	case media == "multipart/form-data":
		form := multipart.NewReader(strings.NewReader(body), rest["boundary"])
		for {
			part, err := form.NextPart()
			if err != nil {
				break
			}
			if part.FileName() == "" {
				value, _ := io.ReadAll(part)
				params[part.FormName()] = string(value)
			}
		}
	default:
		addForm(body)
	}
	addForm(query)
	return params
}

// arraysOf makes arrays of what a form holds but once where the parameter is one.
func arraysOf(t reflect.Type, params map[string]any) map[string]any {
	params = maps.Clone(params)
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if text, ok := params[name].(string); ok && f.Type.Kind() == reflect.Slice && f.Tag.Get("px") == "" {
			params[name] = []any{text}
		}
	}
	return params
}

// agentRefusal returns what a guest's agent says in an answer of success.
func agentRefusal(answer []byte) string {
	var a struct {
		Data struct {
			Result struct {
				Error struct {
					Desc string `json:"desc"`
				} `json:"error"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return "" // an answer of another shape
	}
	return a.Data.Result.Error.Desc
}

func decodeNumbers(raw []byte, out any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d.Decode(out)
}

// lostParts lists where got says less than want, or something else. Types do not
// matter: 1, "1" and true are the same, and so are a list and its text.
func lostParts(path string, want, got any) []string {
	if want == nil || blank(want) && (got == nil || blank(got)) {
		return nil
	}
	switch w := want.(type) {
	case map[string]any:
		if text, ok := got.(string); ok {
			got = partsOf(text)
		}
		g, ok := got.(map[string]any)
		if !ok {
			break
		}
		var lost []string
		for _, key := range slices.Sorted(maps.Keys(w)) {
			lost = append(lost, lostParts(path+"."+key, w[key], g[key])...)
		}
		return lost
	case []any:
		if text, ok := got.(string); ok && len(w) == 1 && sameScalar(w[0], text) {
			return nil
		} else if ok {
			items := strings.FieldsFunc(text, isListSeparator)
			list := make([]any, len(items))
			for i := range items {
				list[i] = items[i]
			}
			got = list
		}
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			break
		}
		var lost []string
		for i := range w {
			lost = append(lost, lostParts(fmt.Sprintf("%s[%d]", path, i), w[i], g[i])...)
		}
		return lost
	default:
		switch g := got.(type) {
		case []any:
			return lostParts(path, g, want)
		case map[string]any: // of a property string
			if text, ok := want.(string); ok {
				return lostParts(path, partsOf(text), g)
			}
		}
		if sameScalar(want, got) {
			return nil
		}
	}
	return []string{fmt.Sprintf("lost %s: %.200v became %.200v", path, want, got)}
}

func blank(x any) bool {
	switch x := x.(type) {
	case string:
		return strings.TrimSpace(x) == ""
	case map[string]any:
		return len(x) == 0
	case []any:
		return len(x) == 0
	}
	return false
}

func isListSeparator(r rune) bool { return strings.ContainsRune(",; \n\t\x00", r) }

func partsOf(text string) map[string]any {
	parts := map[string]any{}
	for part := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(part, "=")
		parts[key] = value
	}
	return parts
}

func sameScalar(want, got any) bool {
	w, g := scalarText(want), scalarText(got)
	if w == g || w == "" && g == "0" {
		return true // Perl prints what is false as nothing
	}
	if wf, err := strconv.ParseFloat(w, 64); err == nil {
		gf, err := strconv.ParseFloat(g, 64)
		return err == nil && wf == gf
	}
	return slices.Equal(strings.FieldsFunc(w, isListSeparator), strings.FieldsFunc(g, isListSeparator))
}

func scalarText(x any) string {
	switch x {
	case nil:
		return ""
	case true:
		return "1"
	case false:
		return "0"
	}
	return fmt.Sprint(x)
}

// A transportFunc is a transport in memory.
type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// TestRecordedAnswersInOtherShapes reads the recorded answers with their scalars written
// in every other way that servers have been seen to write them.
func TestRecordedAnswersInOtherShapes(t *testing.T) {
	t.Parallel()
	operations := readOperations(t)
	exchanges := readExchanges(t, "testdata/pve-9.2.jsonl")
	for _, tt := range []struct {
		name  string
		write func(scalar any) any
	}{
		{name: "numbers in quotes", write: onNumbers(func(n json.Number) any { return n.String() })},
		{name: "integers with exponents", write: onNumbers(func(n json.Number) any { return json.Number(withExponent(n.String())) })},
		{name: "integers with exponents in quotes", write: onNumbers(func(n json.Number) any { return withExponent(n.String()) })},
		{name: "integers with fractions", write: onNumbers(func(n json.Number) any {
			if strings.ContainsAny(n.String(), ".eE") {
				return n
			}
			return n + ".0"
		})},
		{name: "numbers without quotes", write: func(scalar any) any {
			text, _ := scalar.(string)
			if n, err := strconv.ParseInt(text, 10, 64); err == nil && strconv.FormatInt(n, 10) == text {
				return json.Number(text)
			}
			return scalar
		}},
		{name: "nothing but nulls", write: func(any) any { return nil }},
		{name: "texts with blanks around", write: func(scalar any) any {
			if n, ok := scalar.(json.Number); ok {
				return " " + n.String() + "\n"
			}
			return scalar
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, e := range exchanges {
				var answer map[string]any
				require.NoError(t, decodeNumbers(e.Answer.JSON, &answer))
				raw, err := json.Marshal(rewrite(answer, tt.write))
				require.NoError(t, err)
				e.Answer.JSON = raw
				if faults := operations.replay(t, e); len(faults) > 0 {
					t.Errorf("%s: %s %s\n\t%s\n\t%.1000s", e.Name, e.Request.Method, e.Request.Target, strings.Join(faults, "\n\t"), e.Answer.JSON)
				}
			}
		})
	}
}

func onNumbers(write func(json.Number) any) func(any) any {
	return func(scalar any) any {
		if n, ok := scalar.(json.Number); ok {
			return write(n)
		}
		return scalar
	}
}

// withExponent writes an integer as 4.2e1; other numbers stay.
func withExponent(text string) string {
	digits := strings.TrimRight(text, "0")
	if strings.ContainsAny(text, ".eE-") || len(text) < 2 {
		return text
	}
	mantissa := digits[:1]
	if len(digits) > 1 {
		mantissa += "." + digits[1:]
	}
	return mantissa + "e+" + strconv.Itoa(len(text)-1)
}

// rewrite writes all scalars anew.
func rewrite(x any, write func(scalar any) any) any {
	switch x := x.(type) {
	case map[string]any:
		for key := range x {
			x[key] = rewrite(x[key], write)
		}
		return x
	case []any:
		for i := range x {
			x[i] = rewrite(x[i], write)
		}
		return x
	}
	return write(x)
}
