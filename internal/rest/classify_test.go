package rest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite golden files")

// sentinels are all classes by the names that golden files use.
func sentinels() []struct {
	name string
	err  error
} {
	return []struct {
		name string
		err  error
	}{
		{"not_found", ErrNotFound},
		{"exists", ErrExists},
		{"guest_exists", ErrGuestExists},
		{"locked", ErrLocked},
		{"permission", ErrPermission},
		{"authentication", ErrAuthentication},
		{"invalid_parameter", ErrInvalidParameter},
		{"digest_mismatch", ErrDigestMismatch},
		{"node_unreachable", ErrNodeUnreachable},
		{"proxy", ErrProxy},
		{"no_quorum", ErrNoQuorum},
		{"timeout", ErrTimeout},
		{"not_implemented", ErrNotImplemented},
		{"removed", ErrRemoved},
		{"not_api", ErrNotAPI},
		{"worker_start", ErrWorkerStart},
		{"agent", ErrAgent},
		{"running", ErrRunning},
		{"not_running", ErrNotRunning},
		{"protected", ErrProtected},
		{"in_use", ErrInUse},
		{"no_space", ErrNoSpace},
		{"task_unknown", ErrTaskUnknown},
		{"retryable", nil},
	}
}

func classNames(err error) []string {
	names := []string{}
	for _, s := range sentinels() {
		if s.err == nil && IsRetryable(err) || s.err != nil && isErr(err, s.err) {
			names = append(names, s.name)
		}
	}
	return names
}

type refusal struct {
	Method      string          `json:"method"`
	Status      int             `json:"status"`
	Reason      string          `json:"reason"`
	Body        json.RawMessage `json:"body,omitempty"`
	BodyText    string          `json:"body_text,omitempty"`
	ContentType string          `json:"content_type,omitempty"`
	Classes     []string        `json:"classes"`
}

// TestRefusals holds the class of every refusal that real servers were seen to send.
func TestRefusals(t *testing.T) {
	t.Parallel()
	client, err := New(Product{}, "pve1.example.com")
	require.NoError(t, err)
	goldenLines(t, "refusals.jsonl", func(t *testing.T, line []byte) (string, []string, any) {
		var r refusal
		require.NoError(t, json.Unmarshal(line, &r))
		body := []byte(r.BodyText)
		contentType := r.ContentType
		if r.Body != nil {
			body, contentType = r.Body, "application/json;charset=UTF-8"
		}
		err := client.newError(
			&call{method: r.Method, path: "/x"}, &url.URL{Scheme: "https", Host: "pve1.example.com:8006"},
			&http.Response{StatusCode: r.Status, Status: strconv.Itoa(r.Status) + " " + r.Reason, Header: http.Header{"Content-Type": {contentType}}},
			body,
		)
		got := classNames(err)
		want := r.Classes
		r.Classes = got
		return err.Error(), want, r
	})
}

// TestExits does the same for the ends of tasks.
func TestExits(t *testing.T) {
	t.Parallel()
	client, err := New(Product{}, "pve1.example.com")
	require.NoError(t, err)
	goldenLines(t, "exits.jsonl", func(t *testing.T, line []byte) (string, []string, any) {
		var e struct {
			Exit    string   `json:"exit"`
			Classes []string `json:"classes"`
		}
		require.NoError(t, json.Unmarshal(line, &e))
		_, err := client.ParseExitStatus("UPID:pve1:000011A5:00052BA7:6B0E103A:qmstart:300:root@pam:", e.Exit)
		want := e.Classes
		e.Classes = classNames(err)
		return e.Exit, want, e
	})
}

// goldenLines runs check over the lines of a golden file. check returns the name of
// the line, the classes expected in it, and the line with the classes found.
func goldenLines(t *testing.T, name string, check func(*testing.T, []byte) (string, []string, any)) {
	t.Helper()
	path := filepath.Join("testdata", name)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var out bytes.Buffer
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	n := 0
	for lines.Scan() {
		n++
		text, want, found := check(t, lines.Bytes())
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)
		require.NoError(t, encoder.Encode(found))
		if !*update {
			var got struct {
				Classes []string `json:"classes"`
			}
			raw, err := json.Marshal(found)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(raw, &got))
			assert.Equal(t, want, got.Classes, "%s line %d: %s", name, n, text)
		}
	}
	require.NoError(t, lines.Err())
	require.Positive(t, n)
	if *update {
		require.NoError(t, os.WriteFile(path, out.Bytes(), 0o644))
	}
}

func isErr(err, target error) bool {
	type is interface{ Is(error) bool }
	for err != nil {
		if x, ok := err.(is); ok && x.Is(target) {
			return true
		}
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return false
		}
		err = u.Unwrap()
	}
	return false
}

func readCase(t *testing.T, name string, into any) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "cases", name+".json"))
	require.NoError(t, err)
	defer f.Close()
	data, err := io.ReadAll(f)
	require.NoError(t, err)
	require.NoError(t, json.NewDecoder(strings.NewReader(string(data))).Decode(into))
}

func TestParamsFromText(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text string
		want       map[string]string
	}{
		{name: "none", text: "VM is locked (backup)"},
		{name: "prose with a colon", text: "command failed: exit code 1\nlvcreate: not enough space"},
		{
			name: "nested refusal", text: "create sdn subnet object failed: 400 Parameter verification failed.\nipam: ipam-simple not existing",
			want: map[string]string{"ipam": "ipam-simple not existing"},
		},
		{
			name: "several lines", text: "create ha rule failed: 400 Rule 'x' is invalid.\nresources: too few\nnodes: unknown",
			want: map[string]string{"resources": "too few", "nodes": "unknown"},
		},
		{name: "end of a task", text: "400 Parameter verification failed. scsi3: hotplug problem - a: b", want: map[string]string{"scsi3": "hotplug problem - a: b"}},
		{name: "pbs, one", text: "parameter verification failed - 'store': too short", want: map[string]string{"store": "too short"}},
		{
			name: "pbs, several", text: "parameter verification errors\n\nparameter 'store': too short\nparameter 'backup-id': missing",
			want: map[string]string{"store": "too short", "backup-id": "missing"},
		},
		{name: "pbs, list", text: "parameter verification failed:\n- 'store': too short", want: map[string]string{"store": "too short"}},
	} {
		assert.Equal(t, tc.want, paramsFromText(tc.text), tc.name)
	}
}

func TestLockNames(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"VM is locked (backup)":                                                      "backup",
		"CT is locked (disk)":                                                        "disk",
		"clone failed: VM is locked (snapshot-delete)":                               "snapshot-delete",
		"can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout":        "lock-100.conf",
		"cfs-lock 'storage-x' error: got lock request timeout":                       "storage-x",
		"error during cfs-locked 'storage-p' operation: got lock timeout - aborting": "storage-p",
		"command '/sbin/lvs' failed: got timeout":                                    "",
		"no lock (here)":                         "",
		"cfs-lock 'domain-ha' error: no quorum!": "",
	} {
		assert.Equal(t, want, (&Error{Status: 500, Message: text}).Lock(), text)
		assert.Equal(t, want, (&TaskError{ExitStatus: text}).Lock(), text)
	}
}

// TestStatusBeforeText: what a 400, 401 or 403 says does not change what it is.
func TestStatusBeforeText(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]error{401: ErrAuthentication, 403: ErrPermission} {
		err := &Error{Method: "GET", Status: status, Message: "can't lock file 'x' - got timeout: VM 100 already exists, no quorum"}
		assert.ErrorIs(t, err, want)
		for _, other := range []error{ErrLocked, ErrTimeout, ErrExists, ErrNoQuorum} {
			assert.NotErrorIs(t, err, other)
		}
		assert.False(t, IsRetryable(err))
	}
}

// TestErrorsThroughWraps: classes and types survive every kind of wrapping.
func TestErrorsThroughWraps(t *testing.T) {
	t.Parallel()
	inner := &Error{Method: "POST", Path: "/x", Status: 500, Message: "VM is locked (backup)"}
	for _, err := range []error{inner, fmt.Errorf("a: %w", fmt.Errorf("b: %w", inner)), errors.Join(io.EOF, inner), fmt.Errorf("%w and %w", io.EOF, inner)} {
		assert.ErrorIs(t, err, ErrLocked)
		assert.True(t, IsRetryable(err))
		found, ok := errors.AsType[*Error](err)
		require.True(t, ok)
		assert.Equal(t, "backup", found.Lock())
	}
	assert.False(t, IsRetryable(nil))
	assert.False(t, IsRetryable(io.EOF))
	assert.False(t, IsRetryable(context.DeadlineExceeded))
}
