package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The first part of a recording of PVE 9.2, from an empty cluster on.
const recording = "testdata/start.jsonl"

func TestRecordedExchanges(t *testing.T) {
	t.Parallel()
	f, err := os.Open(recording)
	require.NoError(t, err)
	defer f.Close()
	exchanges, err := read(f)
	require.NoError(t, err)
	report, err := replay(exchanges)
	require.NoError(t, err)
	assert.Empty(t, report.notes)
	for _, v := range report.verdicts {
		assert.NotEqual(t, differs, v.kind, "%s: %s", v.e.Name, v.reason)
		assert.NotEqual(t, notSimulated, v.kind, v.e.Name)
	}
	assert.Greater(t, report.count(agrees), 250)
}

// A replay must notice what is wrong.
func TestDifferencesAreSeen(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(recording)
	require.NoError(t, err)
	for _, tc := range []struct{ name, exchange, from, to, want string }{
		{name: "status", exchange: "002-version", from: `"status":200`, to: `"status":201`, want: "status 200"},
		{name: "reason", exchange: "a34-user-get-missing", from: `"reason":"no such user`, to: `"reason":"no user`, want: "reason "},
		{name: "error text", exchange: "v03-vmid-range", from: `a valid VM ID`, to: `a good VM ID`, want: "errors.vmid is "},
		{name: "missing field", exchange: "002-version", from: `"release":`, to: `"released":`, want: "data.released is missing"},
		{name: "type", exchange: "004-nextid", from: `"data":"100"`, to: `"data":100`, want: "data is \"100\" instead of 100"},
		{name: "value", exchange: "c01-config-get", from: `"cores":1`, to: `"cores":2`, want: "data.cores is 1 instead of 2"},
		{name: "element", exchange: "a67-groups", from: `"groupid":"g1"`, to: `"groupid":"g2"`, want: "data[0].groupid"},
		{name: "length", exchange: "008-qemu-empty", from: `"data":[]`, to: `"data":[{"vmid":1}]`, want: "has 0 elements instead of 1"},
		{name: "no body", exchange: "a05-malformed-token", from: `"close"}}}`, to: `"close"},"json":{"data":null}}}`, want: "no JSON"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var changed []string
			for line := range strings.Lines(string(data)) {
				if strings.Contains(line, `"name":"`+tc.exchange+`"`) {
					require.Contains(t, line, tc.from)
					i := strings.LastIndex(line, tc.from)
					line = line[:i] + tc.to + line[i+len(tc.from):]
				}
				changed = append(changed, line)
			}
			exchanges, err := read(strings.NewReader(strings.Join(changed, "")))
			require.NoError(t, err)
			report, err := replay(exchanges)
			require.NoError(t, err)
			found := false
			for _, v := range report.verdicts {
				if v.e.Name == tc.exchange {
					found = true
					assert.Equal(t, differs, v.kind)
					assert.Contains(t, v.reason, tc.want)
				}
			}
			assert.True(t, found)
		})
	}
}

func TestCommand(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	assert.Equal(t, 0, run([]string{"-v", "-wire", recording}, &out, &errs), errs.String())
	assert.Regexp(t, `\d+ of \d+ exchanges agree; \d+ exempt, 0 not simulated\n$`, out.String())

	assert.Equal(t, 2, run(nil, &out, &errs))
	assert.Equal(t, 1, run([]string{"-wire", "nowhere"}, &out, &errs))
	bad := filepath.Join(t.TempDir(), "bad.jsonl")
	require.NoError(t, os.WriteFile(bad, []byte("{"), 0o600))
	errs.Reset()
	assert.Equal(t, 1, run([]string{"-wire", bad}, &out, &errs))
	assert.Contains(t, errs.String(), "line 1")
}

func TestDiff(t *testing.T) {
	t.Parallel()
	p := &player{}
	for _, tc := range []struct {
		name, ours, theirs string
		same               bool
	}{
		{name: "order of objects", ours: `{"data":[{"id":"b"},{"id":"a"}]}`, theirs: `{"data":[{"id":"a"},{"id":"b"}]}`, same: true},
		{name: "guests of a second client", ours: `{"data":[{"vmid":1}]}`, theirs: `{"data":[{"vmid":1},{"vmid":9050}]}`, same: true},
		{name: "order of words", ours: `{"content":"a,b"}`, theirs: `{"content":"b,a"}`, same: true},
		{name: "chance", ours: `{"digest":"a"}`, theirs: `{"digest":"b"}`, same: true},
		{name: "chance of another type", ours: `{"digest":1}`, theirs: `{"digest":"b"}`},
		{name: "random MAC", ours: `{"net0":"virtio=BC:24:11:00:00:01"}`, theirs: `{"net0":"virtio=BC:24:11:FF:00:01"}`, same: true},
		{name: "task", ours: `{"data":"UPID:pve1:1:2:3:qmstart:100:root@pam:"}`, theirs: `{"data":"UPID:pve1:4:5:6:qmstart:100:root@pam:"}`, same: true},
		{name: "another task", ours: `{"data":"UPID:pve1:1:2:3:qmstart:100:root@pam:"}`, theirs: `{"data":"UPID:pve1:4:5:6:qmstop:100:root@pam:"}`},
		{name: "null", ours: `{"a":null}`, theirs: `{"a":null}`, same: true},
		{name: "null and nothing", ours: `{}`, theirs: `{"a":null}`},
		{name: "numbers", ours: `{"a":1}`, theirs: `{"a":1.5}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.True(t, json.Valid([]byte(tc.ours)) && json.Valid([]byte(tc.theirs)))
			ours, err := decode([]byte(tc.ours))
			require.NoError(t, err)
			theirs, err := decode([]byte(tc.theirs))
			require.NoError(t, err)
			assert.Equal(t, tc.same, p.diff("", ours, theirs) == "")
		})
	}
}

func TestUploadBody(t *testing.T) {
	t.Parallel()
	upload := &exchange{Name: "u", Request: request{
		Headers: map[string]string{"Content-Type": "multipart/form-data; boundary=XX"},
		Body:    "--XX\nContent-Disposition: form-data; name=\"content\"\n\niso\n--XX\nContent-Disposition: form-data; name=\"filename\"; filename=\"a.iso\"\n\ngarbage",
	}}
	log := &exchange{Name: "u-tasklog", Answer: response{JSON: json.RawMessage(`{"data":[{"t":"file size is: 5"}]}`)}}
	p := &player{all: map[string]*exchange{"u": upload, "u-tasklog": log}}
	assert.True(t, isUpload(upload))
	assert.Equal(t, "--XX\r\nContent-Disposition: form-data; name=\"content\"\r\n\r\niso\r\n"+
		"--XX\r\nContent-Disposition: form-data; name=\"filename\"; filename=\"a.iso\"\r\n\r\n\x00\x00\x00\x00\x00\r\n--XX--\r\n", p.uploadBody(upload))
}
