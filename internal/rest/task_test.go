package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const testUPID = UPID("UPID:pve1:000011A5:00052BA7:6B0E103A:qmclone:300:root@pam!ci:")

// A taskServer plays one task. script gives the answer to each look at its status, the
// last one again and again; lines are the log's lines at each look.
type taskServer struct {
	script []*http.Response
	errs   []error
	looks  int
	logs   int
	paths  []string
	lines  func(look int) []string
}

func stillRunning() *http.Response {
	return memoryAnswer(200, "OK", `{"data":{"status":"running","upid":"x"}}`)
}

func stopped(exit string) *http.Response {
	data, _ := json.Marshal(map[string]any{"data": map[string]any{"status": "stopped", "exitstatus": exit}})
	return memoryAnswer(200, "OK", string(data))
}

func (s *taskServer) RoundTrip(req *http.Request) (*http.Response, error) {
	s.paths = append(s.paths, req.Method+" "+req.URL.Path)
	if strings.HasSuffix(req.URL.Path, "/log") {
		s.logs++
		query := req.URL.Query()
		start, _ := strconv.Atoi(query.Get("start"))
		limit, _ := strconv.Atoi(query.Get("limit"))
		var lines []string
		if s.lines != nil {
			lines = s.lines(s.looks)
		}
		out := []map[string]any{}
		for i := start; i < min(len(lines), start+limit); i++ {
			out = append(out, map[string]any{"n": i + 1, "t": lines[i]})
		}
		data, err := json.Marshal(map[string]any{"data": out, "total": len(lines)})
		return memoryAnswer(200, "OK", string(data)), err
	}
	i := min(s.looks, len(s.script)-1)
	s.looks++
	if i < len(s.errs) && s.errs[i] != nil {
		return nil, s.errs[i]
	}
	resp := *s.script[i]
	body := resp.Body.(interface{ Reset() string })
	return memoryAnswer(resp.StatusCode, strings.TrimPrefix(resp.Status, strconv.Itoa(resp.StatusCode)+" "), body.Reset()), nil
}

func (s *taskServer) client(t *testing.T) *Client {
	t.Helper()
	for i, resp := range s.script {
		if resp == nil {
			s.script[i] = stillRunning()
		}
		data := readAll(t, s.script[i].Body)
		s.script[i].Body = bodyText{data}
	}
	client, err := New(Product{}, "pve1", WithTransport(s), WithRetry(RetryPolicy{Attempts: 1}))
	require.NoError(t, err)
	return client
}

// bodyText is a body that can be read by many.
type bodyText struct{ text string }

func (a bodyText) Reset() string          { return a.text }
func (bodyText) Read([]byte) (int, error) { return 0, errors.New("read through Reset") }
func (bodyText) Close() error             { return nil }

func TestWaitTask(t *testing.T) {
	t.Parallel()
	noSuchTask := func() *http.Response {
		return memoryAnswer(400, "Parameter verification failed.", `{"data":null,"errors":{"upid":"no such task"}}`)
	}
	for _, tc := range []struct {
		name     string
		script   []*http.Response
		errs     []error
		lines    []string
		warnings int
		wantErr  string
		is       error
		isNot    error
		log      []string
		params   map[string]string
	}{
		{name: "at once", script: []*http.Response{stopped("OK")}},
		{name: "after a while", script: []*http.Response{stillRunning(), stillRunning(), stillRunning(), stopped("OK")}},
		{name: "warnings", script: []*http.Response{stillRunning(), stopped("WARNINGS: 12")}, warnings: 12},
		{name: "proxy faults", script: []*http.Response{
			memoryAnswer(595, "Connection refused", ""), memoryAnswer(596, "Broken pipe", ""), stillRunning(),
			memoryAnswer(599, "Too many redirections", ""), memoryAnswer(502, "Bad Gateway", ""), stopped("OK"),
		}},
		{name: "connection faults", script: []*http.Response{stillRunning(), stillRunning(), stopped("OK")}, errs: []error{errBroken, errBroken}},
		{name: "lost quorum meanwhile", script: []*http.Response{stillRunning(), memoryAnswer(500, "cluster not ready - no quorum?", ""), stopped("OK")}},
		{name: "unknown at first", script: []*http.Response{noSuchTask(), noSuchTask(), stillRunning(), stopped("OK")}},
		{name: "unknown for ever", script: []*http.Response{noSuchTask()}, wantErr: "no such task", is: ErrNotFound},
		{name: "no right to look", script: []*http.Response{memoryAnswer(403, "Permission check failed", "")}, wantErr: "may still run", is: ErrPermission},
		{
			name: "fails", script: []*http.Response{stillRunning(), stopped("can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout")},
			lines: []string{"create full clone", "TASK ERROR: can't lock file"}, wantErr: "task qmclone 300 on pve1 (" + string(testUPID) + ") failed: can't lock file",
			is: ErrLocked, isNot: ErrTimeout, log: []string{"create full clone", "TASK ERROR: can't lock file"},
		},
		{
			name: "parameter refused", script: []*http.Response{stopped("400 Parameter verification failed. scsi3: hotplug problem - duplicate property")},
			wantErr: "hotplug problem", is: ErrInvalidParameter, params: map[string]string{"scsi3": "hotplug problem - duplicate property"},
		},
		{name: "never known", script: []*http.Response{stopped("unexpected status")}, wantErr: "unknown outcome", is: ErrTaskUnknown},
		{name: "known after a moment", script: []*http.Response{stopped("unexpected status"), stopped("unexpected status"), stopped("OK")}},
		{name: "log unreadable", script: []*http.Response{stopped("unable to get last line from task log - no such file")}, wantErr: "unknown outcome", is: ErrTaskUnknown, isNot: ErrNotFound},
		{name: "pbs unknown", script: []*http.Response{stopped("unknown")}, wantErr: "unknown outcome", is: ErrTaskUnknown},
		{name: "interrupted", script: []*http.Response{stopped("received interrupt")}, wantErr: "received interrupt", isNot: ErrTaskUnknown},
		{name: "no log", script: []*http.Response{stopped("boom")}, lines: []string{"no content"}, wantErr: "boom"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := &taskServer{script: tc.script, errs: tc.errs, lines: func(int) []string { return tc.lines }}
				result, err := server.client(t).WaitTask(t.Context(), testUPID)
				if tc.wantErr == "" {
					require.NoError(t, err)
					assert.Equal(t, tc.warnings, result.Warnings)
					assert.Equal(t, testUPID, result.UPID)
					assert.Zero(t, server.logs, "success needs no log")
					return
				}
				require.ErrorContains(t, err, tc.wantErr)
				assert.ErrorContains(t, err, string(testUPID))
				if tc.is != nil {
					assert.ErrorIs(t, err, tc.is)
				}
				if tc.isNot != nil {
					assert.NotErrorIs(t, err, tc.isNot)
				}
				if failed, ok := errors.AsType[*TaskError](err); ok {
					assert.Equal(t, tc.log, failed.Log)
					assert.Equal(t, tc.params, failed.Params)
					assert.Equal(t, testUPID, failed.UPID)
				}
			})
		})
	}
}

func TestWaitTaskPolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &taskServer{script: []*http.Response{stillRunning()}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := server.client(t).WaitTask(ctx, testUPID)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Greater(t, server.looks, 30, "every 2 s at least")
		assert.Less(t, server.looks, 50, "but not much oftener")
		assert.Equal(t, "GET /api2/json/nodes/pve1/tasks/"+string(testUPID)+"/status", server.paths[0])
	})
}

func TestWaitTaskContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &taskServer{script: []*http.Response{stillRunning()}}
		reason := errors.New("maintenance window is over")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, reason)
		defer cancel()
		began := time.Now()
		_, err := server.client(t).WaitTask(ctx, testUPID)
		assert.Equal(t, 3*time.Second, time.Since(began))
		assert.ErrorIs(t, err, reason)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		waiting, ok := errors.AsType[*TaskWaitError](err)
		require.True(t, ok)
		assert.Equal(t, testUPID, waiting.UPID)
		assert.ErrorContains(t, err, "may still run")
		assert.False(t, IsRetryable(err))
	})
}

func TestWaitTaskArguments(t *testing.T) {
	t.Parallel()
	server := &taskServer{script: []*http.Response{stillRunning()}}
	client := server.client(t)
	result, err := client.WaitTask(t.Context(), "")
	require.NoError(t, err, "no UPID: the work was done at once")
	assert.Equal(t, TaskResult{}, result)
	for _, bad := range []UPID{"100", "UPID:", "UPID:n1:1:2:3:qmstart:100"} {
		_, err := client.WaitTask(t.Context(), bad)
		assert.ErrorIs(t, err, ErrInvalidParameter)
	}
	assert.Empty(t, server.paths)
}

func TestTaskLog(t *testing.T) {
	t.Parallel()
	many := make([]string, 1234)
	for i := range many {
		many[i] = fmt.Sprintf("line %d", i+1)
	}
	for _, tc := range []struct {
		name  string
		looks int
		lines func(look int) []string
		want  []string
	}{
		{name: "nothing yet", looks: 3, want: []string{"a", "TASK OK"}, lines: func(look int) []string {
			if look < 3 {
				return []string{"no content"}
			}
			return []string{"a", "TASK OK"}
		}},
		{name: "not there yet", looks: 2, want: []string{"a"}, lines: func(look int) []string {
			if look < 2 {
				return []string{"unable to open file - No such file or directory"}
			}
			return []string{"a"}
		}},
		{name: "grows", looks: 5, want: []string{"a", "b", "b", "c", "TASK OK"}, lines: func(look int) []string {
			return []string{"a", "b", "b", "c", "TASK OK"}[:min(look, 5)]
		}},
		{name: "grows at once at the end", looks: 1, want: many, lines: func(int) []string { return many }},
		{name: "a line grows", looks: 4, want: []string{"a", "progress 50% done", "TASK OK"}, lines: func(look int) []string {
			switch look {
			case 1:
				return []string{"a", "progr"}
			case 2:
				return []string{"a", "progress 50% done"}
			}
			return []string{"a", "progress 50% done", "TASK OK"}
		}},
		{name: "long pages while running", looks: 3, want: many, lines: func(int) []string { return many }},
		{name: "empty", looks: 2, want: nil, lines: func(int) []string { return nil }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := &taskServer{lines: tc.lines}
				for range tc.looks - 1 {
					server.script = append(server.script, stillRunning())
				}
				server.script = append(server.script, stopped("OK"))
				var got []string
				var progress []TaskProgress
				_, err := server.client(t).WaitTask(t.Context(), testUPID,
					WithTaskLog(func(line TaskLogLine) {
						got = append(got, line.Text)
						assert.Equal(t, int64(len(got)), line.N)
					}),
					WithTaskProgress(func(p TaskProgress) { progress = append(progress, p) }),
				)
				require.NoError(t, err)
				assert.Equal(t, tc.want, got)
				assert.Len(t, progress, tc.looks-1)
				if tc.name == "a line grows" {
					assert.InDelta(t, 50.0, progress[len(progress)-1].Percent, 0.01)
				} else if len(progress) > 0 {
					assert.InDelta(t, -1.0, progress[0].Percent, 0.01)
				}
			})
		})
	}
}

func TestTaskErrorTail(t *testing.T) {
	t.Parallel()
	many := make([]string, 1234)
	for i := range many {
		many[i] = fmt.Sprintf("line %d", i+1)
	}
	synctest.Test(t, func(t *testing.T) {
		server := &taskServer{script: []*http.Response{stopped("boom")}, lines: func(int) []string { return many }}
		_, err := server.client(t).WaitTask(t.Context(), testUPID, WithTaskLogTail(3))
		failed, ok := errors.AsType[*TaskError](err)
		require.True(t, ok)
		assert.Equal(t, []string{"line 1232", "line 1233", "line 1234"}, failed.Log)
		assert.Equal(t, 2, server.logs, "the middle of a long log is not read")

		server = &taskServer{script: []*http.Response{stopped("boom")}}
		_, err = server.client(t).WaitTask(t.Context(), testUPID, WithTaskLogTail(0))
		require.Error(t, err)
		assert.Zero(t, server.logs)
	})
}

// TestForeignTasks: PBS tasks, and those that a datacenter manager sees elsewhere.
func TestForeignTasks(t *testing.T) {
	t.Parallel()
	const pbs = "UPID:pbs1:00000267:0011E1D7:00000009:6A48CA08:garbage_collection:store1:root@pam:"
	for upid, want := range map[UPID]string{
		pbs:                   "/nodes/pbs1/tasks/" + pbs,
		"pve:lab!" + testUPID: "/pve/remotes/lab/tasks/pve:lab!" + string(testUPID),
		"lab!" + testUPID:     "/pve/remotes/lab/tasks/lab!" + string(testUPID),
		"lab:" + testUPID:     "/pve/remotes/lab/tasks/lab!" + string(testUPID),
		"backup-1!" + pbs:     "/pbs/remotes/backup-1/tasks/backup-1!" + pbs,
		"pbs:backup-1!" + pbs: "/pbs/remotes/backup-1/tasks/pbs:backup-1!" + pbs,
	} {
		server := &taskServer{script: []*http.Response{stopped("boom")}, lines: func(int) []string { return []string{"a"} }}
		client := server.client(t)
		_, err := client.WaitTask(t.Context(), upid)
		failed, ok := errors.AsType[*TaskError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, upid, failed.UPID)
		require.NoError(t, client.StopTask(t.Context(), upid))
		var paths []string
		for _, p := range server.paths {
			if len(paths) == 0 || paths[len(paths)-1] != p {
				paths = append(paths, p)
			}
		}
		assert.Equal(t, []string{"GET /api2/json" + want + "/status", "GET /api2/json" + want + "/log", "DELETE /api2/json" + want}, paths)
	}
}

func TestWaitTasks(t *testing.T) {
	t.Parallel()
	upid := func(vmid int) UPID {
		return UPID(fmt.Sprintf("UPID:pve1:000011A5:00052BA7:6B0E103A:qmstart:%d:root@pam:", vmid))
	}
	looks := map[string]int{}
	rt := roundTripper(func(req *http.Request) (*http.Response, error) {
		if strings.HasSuffix(req.URL.Path, "/log") {
			return memoryAnswer(200, "OK", `{"data":[]}`), nil
		}
		looks[req.URL.Path]++
		switch {
		case strings.Contains(req.URL.Path, ":103:"):
			return stillRunning(), nil
		case strings.Contains(req.URL.Path, ":102:"):
			return stopped("VM is locked (backup)"), nil
		case looks[req.URL.Path] < 4:
			return stillRunning(), nil
		}
		return stopped("WARNINGS: 1"), nil
	})
	client, err := New(Product{}, "pve1", WithTransport(rt))
	require.NoError(t, err)

	synctest.Test(t, func(t *testing.T) {
		results, err := client.WaitTasks(t.Context(), []UPID{upid(100), "", upid(102), upid(101)})
		assert.Equal(t, []TaskResult{
			{UPID: upid(100), ExitStatus: "WARNINGS: 1", Warnings: 1}, {}, {}, {UPID: upid(101), ExitStatus: "WARNINGS: 1", Warnings: 1},
		}, results)
		failed, ok := errors.AsType[*TaskError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, upid(102), failed.UPID)
		assert.ErrorIs(t, err, ErrLocked)

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = client.WaitTasks(ctx, []UPID{upid(103), upid(100)})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, string(upid(103)))
		assert.NotContains(t, err.Error(), string(upid(100)), "that one has ended")
	})
	results, err := client.WaitTasks(t.Context(), nil)
	require.NoError(t, err)
	assert.Empty(t, results)
	_, err = client.WaitTasks(t.Context(), []UPID{"100"})
	assert.ErrorIs(t, err, ErrInvalidParameter)
}

func TestTaskSecrets(t *testing.T) {
	t.Parallel()
	server := &taskServer{script: []*http.Response{stopped("cannot use " + canaryToken)}, lines: func(int) []string { return []string{"with " + canaryToken} }}
	server.client(t)
	client, err := New(Product{}, "pve1", WithTransport(server), WithAPIToken("a@pve!t", canaryToken))
	require.NoError(t, err)
	var lines []string
	_, err = client.WaitTask(t.Context(), testUPID, WithTaskLog(func(l TaskLogLine) { lines = append(lines, l.Text) }))
	assertClean(t, "task", err)
	assert.Equal(t, []string{"with [redacted]"}, lines)
}

func FuzzUPID(f *testing.F) {
	for _, u := range []UPID{
		testUPID, "UPID:pbs:00000267:0011E1D7:00000009:6A48CA08:acme-register:test1:root@pam:", "pve:lab!" + testUPID, "lab:" + testUPID,
		"UPID:pve1:000011A5:00052BA7:6B0E103A:qmmove:121-scsi0>122-scsi5:root@pam!t0:", "UPID:n1:00000ACD:1FFFFFFFF:679A423B:imgdel:100@local.x:a@b!c:", "", "UPID:", "x!UPID::::::::",
	} {
		f.Add(string(u))
	}
	f.Fuzz(func(t *testing.T, text string) {
		u := UPID(text)
		info, err := u.Parse()
		if err != nil {
			assert.Equal(t, UPIDInfo{}, info)
			return
		}
		assert.NotEmpty(t, info.Node)
		again, err := info.UPID().Parse()
		require.NoError(t, err, "%q became %q", text, info.UPID())
		assert.Equal(t, info, again)
	})
}
