package rpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi/rpc"
)

// response is a reply as the Director judges it.
type response struct {
	Result json.RawMessage
	Error  *struct {
		Type      string
		Message   string
		OKToRetry bool
	}
	Log string
}

// directorAccepts parses a reply by the Director's rules: one JSON document, the
// three keys, log a string, and an error with exactly the right types.
func directorAccepts(t testing.TB, out []byte) response {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(out))
	var top map[string]any
	require.NoError(t, dec.Decode(&top), "the reply is no JSON: %s", out)
	_, err := dec.Token()
	require.ErrorIs(t, err, io.EOF, "the reply is more than one document")
	for _, key := range []string{"result", "error", "log"} {
		require.Contains(t, top, key)
	}
	require.IsType(t, "", top["log"])
	if top["error"] != nil {
		e, ok := top["error"].(map[string]any)
		require.True(t, ok, "error is %T", top["error"])
		require.IsType(t, "", e["type"])
		require.IsType(t, "", e["message"])
		require.IsType(t, true, e["ok_to_retry"])
		require.NotEmpty(t, e["message"])
		require.Contains(t, directorsClasses(), rpc.Class(e["type"].(string)))
		require.Nil(t, top["result"], "a reply with an error has no result")
	}
	var r struct {
		Result json.RawMessage
		Error  *struct {
			Type      string
			Message   string
			OKToRetry bool `json:"ok_to_retry"`
		}
		Log string
	}
	require.NoError(t, json.Unmarshal(out, &r))
	resp := response{Result: r.Result, Log: r.Log}
	if r.Error != nil {
		resp.Error = &struct {
			Type      string
			Message   string
			OKToRetry bool
		}{r.Error.Type, r.Error.Message, r.Error.OKToRetry}
	}
	return resp
}

func directorsClasses() []rpc.Class {
	return []rpc.Class{
		"Bosh::Clouds::CpiError", "Bosh::Clouds::NotSupported", "Bosh::Clouds::NotImplemented", "Bosh::Clouds::CloudError",
		"Bosh::Clouds::VMNotFound", "Bosh::Clouds::NetworkNotFound", "Bosh::Clouds::NoDiskSpace",
		"Bosh::Clouds::DiskNotAttached", "Bosh::Clouds::DiskNotFound", "Bosh::Clouds::VMCreationFailed",
	}
}

func serve(t testing.TB, open rpc.Factory, request string) (response, string) {
	t.Helper()
	var out, logw bytes.Buffer
	require.NoError(t, rpc.Serve(t.Context(), open, strings.NewReader(request), &out, &logw))
	return directorAccepts(t, out.Bytes()), logw.String()
}

// recorder answers every method with a fixed result and notes what it was called
// with.
type recorder struct {
	rpc.Unimplemented

	got  []any
	fail error
}

func (r *recorder) note(args ...any) error {
	r.got = args
	return r.fail
}

func (r *recorder) Info(context.Context) (rpc.Info, error) {
	return rpc.Info{APIVersion: 2, StemcellFormats: []string{"raw"}}, r.note()
}

func (r *recorder) CreateStemcell(_ context.Context, path string, props, env json.RawMessage) (rpc.StemcellCID, error) {
	return "sc", r.note(path, string(props), string(env))
}
func (r *recorder) DeleteStemcell(_ context.Context, c rpc.StemcellCID) error { return r.note(c) }
func (r *recorder) CreateVM(_ context.Context, q rpc.CreateVMRequest) (rpc.VMCID, rpc.Networks, error) {
	return "vm", q.Networks, r.note(q.AgentID, q.Stemcell, string(q.CloudProperties), q.Disks, string(q.Env))
}
func (r *recorder) DeleteVM(_ context.Context, c rpc.VMCID) error      { return r.note(c) }
func (r *recorder) HasVM(_ context.Context, c rpc.VMCID) (bool, error) { return true, r.note(c) }
func (r *recorder) RebootVM(_ context.Context, c rpc.VMCID) error      { return r.note(c) }
func (r *recorder) SetVMMetadata(_ context.Context, c rpc.VMCID, m rpc.Metadata) error {
	return r.note(c, m)
}

func (r *recorder) CalculateVMCloudProperties(_ context.Context, w rpc.VMResources) (map[string]any, error) {
	return map[string]any{"cpu": w.CPU}, r.note(w)
}

func (r *recorder) CreateDisk(_ context.Context, size int64, p json.RawMessage, vm rpc.VMCID) (rpc.DiskCID, error) {
	return "disk", r.note(size, string(p), vm)
}
func (r *recorder) DeleteDisk(_ context.Context, c rpc.DiskCID) error      { return r.note(c) }
func (r *recorder) HasDisk(_ context.Context, c rpc.DiskCID) (bool, error) { return false, r.note(c) }

func (r *recorder) AttachDisk(_ context.Context, vm rpc.VMCID, d rpc.DiskCID) (rpc.DiskHint, error) {
	return rpc.DiskHint{"path": "/dev/x"}, r.note(vm, d)
}

func (r *recorder) DetachDisk(_ context.Context, vm rpc.VMCID, d rpc.DiskCID) error {
	return r.note(vm, d)
}

func (r *recorder) GetDisks(_ context.Context, vm rpc.VMCID) ([]rpc.DiskCID, error) {
	return nil, r.note(vm)
}

func (r *recorder) ResizeDisk(_ context.Context, c rpc.DiskCID, size int64) error {
	return r.note(c, size)
}

func (r *recorder) UpdateDisk(_ context.Context, c rpc.DiskCID, size int64, p json.RawMessage) (rpc.DiskCID, error) {
	return "", r.note(c, size, string(p))
}

func (r *recorder) SetDiskMetadata(_ context.Context, c rpc.DiskCID, m rpc.Metadata) error {
	return r.note(c, m)
}

func (r *recorder) SnapshotDisk(_ context.Context, c rpc.DiskCID, m rpc.Metadata) (rpc.SnapshotCID, error) {
	return "snap", r.note(c, m)
}
func (r *recorder) DeleteSnapshot(_ context.Context, c rpc.SnapshotCID) error { return r.note(c) }
func (r *recorder) CreateNetwork(_ context.Context, d rpc.NetworkDefinition) (rpc.NetworkResult, error) {
	return rpc.NetworkResult{CID: "net", Range: d.Range}, r.note(d.Type, d.NetmaskBits)
}
func (r *recorder) DeleteNetwork(_ context.Context, c rpc.NetworkCID) error { return r.note(c) }

func TestEveryMethodReachesItsHandler(t *testing.T) {
	t.Parallel()
	const networks = `{"b":{"type":"manual","ip":"10.0.0.2","netmask":"255.255.255.0","dns":["10.0.0.1"],"default":["dns"],"cloud_properties":{"x":1}},"a":{"type":"dynamic"}}`
	for _, tc := range []struct {
		method, arguments string
		version           int
		got               []any
		result            string
	}{
		{"info", `[]`, 1, nil, `{"api_version":2,"stemcell_formats":["raw"]}`},
		{"create_stemcell", `["/image",{"a":1}]`, 2, []any{"/image", `{"a":1}`, ""}, `"sc"`},
		{"create_stemcell", `["/image",{"a":1},{"tags":{}}]`, 3, []any{"/image", `{"a":1}`, `{"tags":{}}`}, `"sc"`},
		{"create_stemcell", `["/image",null]`, 3, []any{"/image", `{}`, ""}, `"sc"`},
		{"delete_stemcell", `[""]`, 2, []any{rpc.StemcellCID("")}, `null`},
		{
			"create_vm", `["agent","sc",{"cpu":1},` + networks + `,["d1"],{"bosh": {"group":"g"} }]`, 2,
			[]any{"agent", rpc.StemcellCID("sc"), `{"cpu":1}`, []rpc.DiskCID{"d1"}, `{"bosh": {"group":"g"} }`},
			`["vm",` + networks + `]`,
		},
		{"create_vm", `["agent","sc",{},{},null,null]`, 2, []any{"agent", rpc.StemcellCID("sc"), `{}`, []rpc.DiskCID(nil), `{}`}, `["vm",{}]`},
		{"delete_vm", `["vm-1"]`, 2, []any{rpc.VMCID("vm-1")}, `null`},
		{"has_vm", `["vm-1"]`, 2, []any{rpc.VMCID("vm-1")}, `true`},
		{"reboot_vm", `["vm-1"]`, 2, []any{rpc.VMCID("vm-1")}, `null`},
		{"set_vm_metadata", `["vm-1",{"a":"b","n":3,"z":null}]`, 2, []any{rpc.VMCID("vm-1"), rpc.Metadata{"a": "b", "n": "3", "z": ""}}, `null`},
		{"calculate_vm_cloud_properties", `[{"ram":1024,"cpu":2,"ephemeral_disk_size":4096}]`, 2, []any{rpc.VMResources{RAM: 1024, CPU: 2, EphemeralDiskSize: 4096}}, `{"cpu":2}`},
		{"create_disk", `[1024,{},"vm-1"]`, 2, []any{int64(1024), `{}`, rpc.VMCID("vm-1")}, `"disk"`},
		{"create_disk", `[1024.0,{},null]`, 2, []any{int64(1024), `{}`, rpc.VMCID("")}, `"disk"`},
		{"delete_disk", `["d"]`, 2, []any{rpc.DiskCID("d")}, `null`},
		{"has_disk", `["d"]`, 2, []any{rpc.DiskCID("d")}, `false`},
		{"attach_disk", `["v","d"]`, 2, []any{rpc.VMCID("v"), rpc.DiskCID("d")}, `{"path":"/dev/x"}`},
		{"detach_disk", `["v","d"]`, 2, []any{rpc.VMCID("v"), rpc.DiskCID("d")}, `null`},
		{"get_disks", `["v"]`, 2, []any{rpc.VMCID("v")}, `[]`},
		{"resize_disk", `["d",2048]`, 2, []any{rpc.DiskCID("d"), int64(2048)}, `null`},
		{"update_disk", `["d",2048,{}]`, 2, []any{rpc.DiskCID("d"), int64(2048), `{}`}, `null`},
		{"set_disk_metadata", `["d",{"a":"b"}]`, 2, []any{rpc.DiskCID("d"), rpc.Metadata{"a": "b"}}, `null`},
		{"snapshot_disk", `["d",{"index":0}]`, 2, []any{rpc.DiskCID("d"), rpc.Metadata{"index": "0"}}, `"snap"`},
		{"delete_snapshot", `["s"]`, 2, []any{rpc.SnapshotCID("s")}, `null`},
		{
			"create_network", `[{"type":"manual","range":"10.0.0.0/24","netmask_bits":24}]`, 2,
			[]any{"manual", 24},
			`["net",{"range":"10.0.0.0/24","gateway":"","reserved":[]},{}]`,
		},
		{"delete_network", `["n"]`, 2, []any{rpc.NetworkCID("n")}, `null`},
	} {
		t.Run(tc.method+" "+tc.arguments, func(t *testing.T) {
			t.Parallel()
			h := &recorder{}
			request := fmt.Sprintf(`{"method":%q,"arguments":%s,"context":{},"api_version":%d}`, tc.method, tc.arguments, tc.version)

			resp, logged := serve(t, rpc.Static(h), request)

			require.Nil(t, resp.Error)
			assert.Equal(t, tc.result, string(resp.Result))
			assert.Equal(t, tc.got, h.got)
			assert.Empty(t, resp.Log)
			assert.Empty(t, logged)

			h.fail = fmt.Errorf("context: %w", rpc.NoDiskSpace("full").OKToRetry(true))
			resp, _ = serve(t, rpc.Static(h), request)
			require.NotNil(t, resp.Error)
			assert.Equal(t, "Bosh::Clouds::NoDiskSpace", resp.Error.Type)
			assert.Equal(t, tc.method+": context: full", resp.Error.Message)
			assert.True(t, resp.Error.OKToRetry)

			var around []string
			before := *h
			h.fail = nil
			resp, _ = serve(t, rpc.Static(rpc.Around(h, func(ctx context.Context, method string, next func(context.Context) error) error {
				around = append(around, method)
				return next(ctx)
			})), request)
			require.Nil(t, resp.Error)
			assert.Equal(t, tc.result, string(resp.Result))
			assert.Equal(t, before.got, h.got)
			assert.Equal(t, []string{tc.method}, around)

			resp, _ = serve(t, rpc.Static(rpc.Unimplemented{}), request)
			require.NotNil(t, resp.Error)
			assert.Equal(t, "Bosh::Clouds::NotImplemented", resp.Error.Type)
			assert.Contains(t, resp.Error.Message, tc.method)
		})
	}
}

func TestBrokenRequests(t *testing.T) {
	t.Parallel()
	const cloudError, notImplemented = "Bosh::Clouds::CloudError", "Bosh::Clouds::NotImplemented"
	for _, tc := range []struct {
		name, request, class, message string
	}{
		{"nothing", "", cloudError, "empty"},
		{"blank", " \n\t ", cloudError, "empty"},
		{"not JSON", "method: info", cloudError, "not JSON"},
		{"cut", `{"method":"info","argum`, cloudError, "middle of its JSON"},
		{"null", `null`, cloudError, "null"},
		{"an array", `[]`, cloudError, "an array"},
		{"a text", `"info"`, cloudError, "a string"},
		{"two documents", `{"method":"info","arguments":[]} {"method":"info","arguments":[]}`, cloudError, "followed by more"},
		{"text behind", `{"method":"info","arguments":[]} x`, cloudError, "followed by more"},
		{"no method", `{"arguments":[]}`, cloudError, `no "method"`},
		{"empty method", `{"method":"","arguments":[]}`, cloudError, `"method" is empty`},
		{"method no text", `{"method":1}`, cloudError, "must be a string, not a number"},
		{"arguments no array", `{"method":"info","arguments":{}}`, cloudError, "must be an array, not an object"},
		{"context no object", `{"method":"info","context":"x"}`, cloudError, "must be an object, not a string"},
		{"version no integer", `{"method":"info","api_version":"2"}`, cloudError, "must be an integer, not a string"},
		{"version a fraction", `{"method":"info","api_version":2.5}`, cloudError, "must be an integer"},
		{"unknown method", `{"method":"configure_networks","arguments":["a",1]}`, notImplemented, `"configure_networks"`},
		{"current_vm_id", `{"method":"current_vm_id","arguments":[]}`, notImplemented, "current_vm_id"},
		{"ping", `{"method":"ping","arguments":[]}`, notImplemented, "ping"},
		{"too few", `{"method":"has_vm","arguments":[]}`, cloudError, "has_vm: got 0, expected 1 argument (vm_cid)"},
		{"too many", `{"method":"info","arguments":[1]}`, cloudError, "info: got 1, expected 0 arguments"},
		{"two or three", `{"method":"create_disk","arguments":[1]}`, cloudError, "create_disk: got 1, expected 2 or 3 arguments (size, cloud_properties, vm_cid)"},
		{"third argument in version 2", `{"method":"create_stemcell","arguments":["p",{},{}],"api_version":2}`, cloudError, "got 3, expected 2 arguments"},
		{"missing arguments", `{"method":"delete_vm"}`, cloudError, "delete_vm: got 0"},
		{"a number for a CID", `{"method":"has_vm","arguments":[101]}`, cloudError, "has_vm: argument 1 (vm_cid) must be a string, not a number"},
		{"null for a CID", `{"method":"has_vm","arguments":[null]}`, cloudError, "argument 1 (vm_cid) must be a string, not null"},
		{"a quoted size", `{"method":"create_disk","arguments":["1024",{},"v"]}`, cloudError, "argument 1 (size) must be a number, not a string"},
		{"half a MiB", `{"method":"create_disk","arguments":[10.5,{},"v"]}`, cloudError, "whole number"},
		{"no size", `{"method":"resize_disk","arguments":["d",0]}`, cloudError, "argument 2 (new_size) must be a size in MiB above 0, not 0"},
		{"a size beyond reason", `{"method":"resize_disk","arguments":["d",9e300]}`, cloudError, "whole number"},
		{"properties no object", `{"method":"create_stemcell","arguments":["p","x"]}`, cloudError, "argument 2 (cloud_properties) must be an object"},
		{"disks no texts", `{"method":"create_vm","arguments":["a","s",{},{},[1],{}]}`, cloudError, "argument 5 (disk_cids) must be an array of strings"},
		{"network no object", `{"method":"create_vm","arguments":["a","s",{},{"n":1},[],{}]}`, cloudError, `network "n" must be an object`},
		{"network with a wrong type", `{"method":"create_vm","arguments":["a","s",{},{"n":{"ip":5}},[],{}]}`, cloudError, `network "n": "ip" must be a string`},
		{"network with wrong properties", `{"method":"create_vm","arguments":["a","s",{},{"n":{"cloud_properties":[]}},[],{}]}`, cloudError, "must be an object, not an array"},
		{"networks null", `{"method":"create_vm","arguments":["a","s",{},null,[],{}]}`, cloudError, "argument 4 (networks)"},
		{"resources without ram", `{"method":"calculate_vm_cloud_properties","arguments":[{"cpu":1}]}`, cloudError, `needs the number "ram"`},
		{"resources below one", `{"method":"calculate_vm_cloud_properties","arguments":[{"ram":1,"cpu":0,"ephemeral_disk_size":1}]}`, cloudError, `"cpu" above 0`},
		{"metadata no object", `{"method":"set_vm_metadata","arguments":["v",[]]}`, cloudError, "argument 2 (metadata)"},
		{"a network of wrong types", `{"method":"create_network","arguments":[{"netmask_bits":"x"}]}`, cloudError, "argument 1 (subnet_definition)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			open := func(context.Context, *rpc.Call) (rpc.Handler, error) {
				t.Error("a broken request must not reach the handler")
				return rpc.Unimplemented{}, nil
			}

			resp, _ := serve(t, open, tc.request)

			require.NotNil(t, resp.Error)
			assert.Equal(t, tc.class, resp.Error.Type)
			assert.Contains(t, resp.Error.Message, tc.message)
			assert.False(t, resp.Error.OKToRetry)
		})
	}
}

func TestRequestTooLong(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, rpc.Serve(t.Context(), rpc.Static(&recorder{}), io.LimitReader(blanks{}, 40<<20), &out, io.Discard))
	resp := directorAccepts(t, out.Bytes())
	require.NotNil(t, resp.Error)
	assert.Contains(t, resp.Error.Message, "longer than 32 MiB")
}

type blanks struct{}

func (blanks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestInputThatCannotBeRead(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	broken := io.MultiReader(strings.NewReader(`{"method"`), errReader{errors.New("pipe broke")})
	require.NoError(t, rpc.Serve(t.Context(), rpc.Static(&recorder{}), broken, &out, io.Discard))
	resp := directorAccepts(t, out.Bytes())
	require.NotNil(t, resp.Error)
	assert.Contains(t, resp.Error.Message, "pipe broke")
}

type errReader struct{ err error }

func (e errReader) Read([]byte) (int, error) { return 0, e.err }

func TestOutputThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	err := rpc.Serve(t.Context(), rpc.Static(&recorder{}), strings.NewReader(`{"method":"info","arguments":[]}`), errWriter{}, io.Discard)
	assert.ErrorIs(t, err, io.ErrClosedPipe)
}

type errWriter struct{}

func (errWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

type panicking struct{ rpc.Unimplemented }

func (panicking) HasVM(context.Context, rpc.VMCID) (bool, error) {
	var none []int
	return none[len(none)] == 0, nil
}

func (panicking) DeleteVM(_ context.Context, cid rpc.VMCID) error {
	panic("cannot delete with token s3cr3t-token")
}

func TestPanicBecomesAnError(t *testing.T) {
	t.Parallel()
	open := func(_ context.Context, call *rpc.Call) (rpc.Handler, error) {
		call.Secret("s3cr3t-token")
		return panicking{}, nil
	}

	resp, logged := serve(t, open, `{"method":"has_vm","arguments":["v"],"context":{}}`)
	require.NotNil(t, resp.Error)
	assert.Equal(t, "Bosh::Clouds::CloudError", resp.Error.Type)
	assert.Contains(t, resp.Error.Message, "has_vm: the CPI has a bug, it panicked: runtime error: index out of range")
	assert.NotContains(t, resp.Error.Message, "goroutine")
	assert.NotContains(t, resp.Log, "goroutine")
	assert.Contains(t, logged, "goroutine", "whoever mends it needs the trace")
	assert.Less(t, len(logged), 5000)

	resp, logged = serve(t, open, `{"method":"delete_vm","arguments":["v"],"context":{}}`)
	require.NotNil(t, resp.Error)
	assert.Contains(t, resp.Error.Message, "<redacted>")
	assert.NotContains(t, resp.Error.Message+logged, "s3cr3t")
}

type unencodable struct{ rpc.Unimplemented }

func (unencodable) CalculateVMCloudProperties(context.Context, rpc.VMResources) (map[string]any, error) {
	return map[string]any{"f": func() {}}, nil
}

func (unencodable) AttachDisk(context.Context, rpc.VMCID, rpc.DiskCID) (rpc.DiskHint, error) {
	return nil, nil
}

func TestResultsTheDirectorWouldRefuse(t *testing.T) {
	t.Parallel()
	resp, _ := serve(t, rpc.Static(unencodable{}), `{"method":"calculate_vm_cloud_properties","arguments":[{"ram":1,"cpu":1,"ephemeral_disk_size":1}]}`)
	require.NotNil(t, resp.Error)
	assert.Equal(t, "Bosh::Clouds::CpiError", resp.Error.Type)

	resp, _ = serve(t, rpc.Static(unencodable{}), `{"method":"attach_disk","arguments":["v","d"]}`)
	require.NotNil(t, resp.Error, "an empty hint makes the Director fail in its own way")
	assert.Equal(t, "Bosh::Clouds::CpiError", resp.Error.Type)
}

type logging struct {
	rpc.Unimplemented

	call *rpc.Call
}

func (h logging) HasVM(context.Context, rpc.VMCID) (bool, error) {
	h.call.Log.Printf("refused n1: token %s,\n second line", "tok&en/1")
	for i := range 5000 {
		h.call.Log.Printf("line %d is of no interest to anybody", i)
	}
	return false, fmt.Errorf("asked with tok%%26en%%2F1 and Tok&en/1 and tok&en/1: %s", strings.Repeat("ü", 10_000))
}

func TestLogAndMessageAreShortAndMasked(t *testing.T) {
	t.Parallel()
	resp, _ := serve(t, func(_ context.Context, call *rpc.Call) (rpc.Handler, error) {
		call.Secret("tok&en/1")
		return logging{call: call}, nil
	}, `{"method":"has_vm","arguments":["v"]}`)

	require.NotNil(t, resp.Error)
	assert.Less(t, len(resp.Log), 9000)
	assert.Less(t, len(resp.Error.Message), 5000)
	first, _, _ := strings.Cut(resp.Log, "\n")
	assert.Equal(t, "refused n1: token <redacted>,  second line", first)
	assert.Contains(t, resp.Log, "more lines")
	assert.NotContains(t, resp.Error.Message, "tok&en")
	assert.NotContains(t, resp.Error.Message, "tok%26en")
	assert.Contains(t, resp.Error.Message, "Tok&en/1", "another value is left alone")
}

func TestSecretAtTheEndOfALongLine(t *testing.T) {
	t.Parallel()
	const secret = "canary-0123456789-0123456789-0123456789"
	for pad := 970; pad < 1024; pad++ {
		resp, _ := serve(t, func(_ context.Context, call *rpc.Call) (rpc.Handler, error) {
			call.Secret(secret)
			call.Log.Printf("%s%s", strings.Repeat("x", pad), secret)
			return nil, errors.New(strings.Repeat("x", pad+3072) + secret)
		}, `{"method":"has_vm","arguments":["v"]}`)
		require.NotContains(t, resp.Log+resp.Error.Message, "canar", "half a secret is one too")
	}
}

func TestEnvNeverShowsInAnAnswer(t *testing.T) {
	t.Parallel()
	const key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEAcanarycanarycanary\n-----END RSA PRIVATE KEY-----\n"
	env, err := json.Marshal(map[string]any{"bosh": map[string]any{
		"password": "$6$canary-hash", "group": "dir-dep-web",
		"mbus": map[string]any{"urls": []string{"nats://user:canary-pw@10.0.0.1:4222"}, "cert": map[string]any{"private_key": key}},
		"tags": map[string]any{"owner": "operators"},
	}})
	require.NoError(t, err)
	h := &recorder{fail: fmt.Errorf("sent %s canary-pw MIIEpAIBAAKCAQEAcanarycanarycanary dir-dep-web operators", env)}

	resp, _ := serve(t, rpc.Static(h), fmt.Sprintf(`{"method":"create_vm","arguments":["a","s",{},{},[],%s]}`, env))

	require.NotNil(t, resp.Error)
	assert.NotContains(t, resp.Error.Message, "canary")
	assert.Contains(t, resp.Error.Message, "dir-dep-web operators", "labels are no secrets")
}

func TestContextReachesTheFactory(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, context string
		want          rpc.Context
	}{
		{
			"of a Director", `{"director_uuid":"d","request_id":"cpi-1","vm":{"stemcell":{"api_version":3}},"endpoint":"https://a"}`,
			rpc.Context{DirectorUUID: "d", RequestID: "cpi-1", StemcellAPIVersion: 3, Properties: map[string]json.RawMessage{"endpoint": json.RawMessage(`"https://a"`)}},
		},
		{"without an id", `{"director_uuid":"d"}`, rpc.Context{DirectorUUID: "d", Properties: map[string]json.RawMessage{}}},
		{
			"overridden by a cpi-config", `{"director_uuid":"d","request_id":{"a":1},"vm":"x"}`,
			rpc.Context{DirectorUUID: "d", Properties: map[string]json.RawMessage{"request_id": json.RawMessage(`{"a":1}`), "vm": json.RawMessage(`"x"`)}},
		},
		{"null", `null`, rpc.Context{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var got *rpc.Call
			resp, _ := serve(t, func(_ context.Context, call *rpc.Call) (rpc.Handler, error) {
				got = call
				return nil, rpc.CpiError("no configuration")
			}, `{"method":"has_vm","arguments":["v"],"api_version":2,"context":`+tc.context+`}`)

			require.NotNil(t, got)
			assert.Equal(t, tc.want, got.Context)
			assert.Equal(t, 2, got.APIVersion)
			assert.Equal(t, "has_vm", got.Method)
			require.NotNil(t, resp.Error)
			assert.Equal(t, "Bosh::Clouds::CpiError", resp.Error.Type)
			assert.Equal(t, "has_vm: no configuration", resp.Error.Message)
		})
	}
}

func FuzzServe(f *testing.F) {
	for _, seed := range []string{
		``, `{`, `null`, `{"method":"info","arguments":[],"context":{},"api_version":1}`,
		`{"method":"create_vm","arguments":["a","s",{},{"n":{"type":"manual","prefix":24}},["d"],{"bosh":{}}],"context":{"vm":{"stemcell":{"api_version":3}}}}`,
		`{"method":"calculate_vm_cloud_properties","arguments":[{"ram":1e3,"cpu":1,"ephemeral_disk_size":1}]}`,
		`{"method":"create_network","arguments":[{"type":"manual"}],"api_version":1e2}`, "{\"method\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, request []byte) {
		var out, logw bytes.Buffer
		require.NoError(t, rpc.Serve(t.Context(), rpc.Static(&recorder{}), bytes.NewReader(request), &out, &logw))
		directorAccepts(t, out.Bytes())
		require.Empty(t, logw.String(), "nothing in a request makes the CPI panic")
	})
}

func BenchmarkServeInfo(b *testing.B) {
	const request = `{"method":"info","arguments":[],"context":{"director_uuid":"d","vm":{"stemcell":{"api_version":3}}},"api_version":1}`
	b.ReportAllocs()
	for b.Loop() {
		if err := rpc.Serve(b.Context(), rpc.Static(&recorder{}), strings.NewReader(request), io.Discard, io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}

type writing struct {
	rpc.Unimplemented
	call *rpc.Call
}

func (w writing) DeleteVM(context.Context, rpc.VMCID) error {
	for _, part := range []string{"the token is s3cr", "3t-token\nand ", "once more s3cr3t-token"} {
		if _, err := io.WriteString(w.call.Stderr, part); err != nil {
			return err
		}
	}
	return rpc.CloudError("delete_vm: not with s3cr3t-token")
}

func TestStandardErrorIsMasked(t *testing.T) {
	t.Parallel()
	open := func(_ context.Context, call *rpc.Call) (rpc.Handler, error) {
		call.Secret("s3cr3t-token")
		return writing{call: call}, nil
	}
	resp, logged := serve(t, open, `{"method":"delete_vm","arguments":["v"],"context":{}}`)
	assert.Equal(t, "the token is <redacted>\nand once more <redacted>\n", logged)
	require.NotNil(t, resp.Error)
	assert.Equal(t, "delete_vm: not with <redacted>", resp.Error.Message, "the method stands there once")
}
