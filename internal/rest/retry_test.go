package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
)

// TestJudge is the table in RetryPolicy's comment.
func TestJudge(t *testing.T) {
	t.Parallel()
	columns := []callKind{kindRead, kindWrite, kindSafeWrite, kindUpload, kindLogin}
	for f, want := range map[fault][]verdict{
		faultNone:    {giveUp, giveUp, giveUp, giveUp, giveUp},
		faultNotSent: {again, again, again, again, again},
		faultLost:    {again, giveUp, again, giveUp, again},
		faultProxy:   {again, giveUp, again, giveUp, again},
		faultGateway: {again, giveUp, again, giveUp, again},
		faultAuth:    {renew, giveUp, renew, giveUp, giveUp},
		faultFinal:   {giveUp, giveUp, giveUp, giveUp, giveUp},
	} {
		for i, kind := range columns {
			assert.Equal(t, want[i], judge(kind, f), "kind %d, fault %d", kind, f)
		}
	}
}

func TestRetryWait(t *testing.T) {
	t.Parallel()
	policy := RetryPolicy{}.withDefaults()
	for repetition, want := range map[int]time.Duration{
		1: 150 * time.Millisecond, 2: 300 * time.Millisecond, 5: 2400 * time.Millisecond,
		6: 3 * time.Second, 63: 3 * time.Second, 1000: 3 * time.Second,
	} {
		for range 50 {
			got := policy.wait(repetition)
			assert.GreaterOrEqual(t, got, want/2)
			assert.LessOrEqual(t, got, want)
		}
	}
}

func TestRetries(t *testing.T) {
	t.Parallel()
	dial := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for _, tc := range []struct {
		name   string
		method string
		status int
		err    error
		cut    bool // the answer breaks off
		acts   bool // a read that changes something
		opts   []Option
		want   int
		is     error
	}{
		{name: "read, connection refused", method: "GET", err: dial, want: 4, is: ErrNotSent},
		{name: "write, connection refused", method: "POST", err: dial, want: 4, is: ErrNotSent},
		{name: "read, no answer", method: "GET", err: errBroken, want: 4, is: ErrNoAnswer},
		{name: "write, no answer", method: "POST", err: errBroken, want: 1, is: ErrNoAnswer},
		{name: "put, no answer", method: "PUT", err: errBroken, want: 1, is: ErrNoAnswer},
		{name: "delete, no answer", method: "DELETE", err: errBroken, want: 1, is: ErrNoAnswer},
		{name: "safe write, no answer", method: "PUT", err: errBroken, want: 4, is: ErrNoAnswer, opts: []Option{WithSafeWrites(func(method, path string) bool { return method == "PUT" && path == "/x" })}},
		{name: "other write beside a safe one", method: "POST", err: errBroken, want: 1, is: ErrNoAnswer, opts: []Option{WithSafeWrites(func(method, _ string) bool { return method == "PUT" })}},
		{name: "read, half an answer", method: "GET", cut: true, want: 4, is: ErrNoAnswer},
		{name: "write, half an answer", method: "POST", cut: true, want: 1, is: ErrNoAnswer},
		{name: "read 595", method: "GET", status: 595, want: 4, is: ErrNodeUnreachable},
		{name: "read 596", method: "GET", status: 596, want: 4, is: ErrNodeUnreachable},
		{name: "read 599", method: "GET", status: 599, want: 4, is: ErrProxy},
		{name: "write 595", method: "POST", status: 595, want: 1, is: ErrNodeUnreachable},
		{name: "write 596", method: "POST", status: 596, want: 1, is: ErrNodeUnreachable},
		{name: "write 599", method: "POST", status: 599, want: 1, is: ErrProxy},
		{name: "read 503", method: "GET", status: 503, want: 4},
		{name: "write 503", method: "POST", status: 503, want: 1},
		{name: "read 500", method: "GET", status: 500, want: 1},
		{name: "read 403", method: "GET", status: 403, want: 1, is: ErrPermission},
		{name: "read 400", method: "GET", status: 400, want: 1},
		{name: "read 401", method: "GET", status: 401, want: 1, is: ErrAuthentication},
		{name: "acting read, connection refused", method: "GET", acts: true, err: dial, want: 4, is: ErrNotSent},
		{name: "acting read, no answer", method: "GET", acts: true, err: errBroken, want: 1, is: ErrNoAnswer},
		{name: "acting read 595", method: "GET", acts: true, status: 595, want: 1, is: ErrNodeUnreachable},
		{name: "acting read 503", method: "GET", acts: true, status: 503, want: 1},
		{name: "turned off", method: "GET", status: 595, want: 1, is: ErrNodeUnreachable, opts: []Option{WithRetry(RetryPolicy{Attempts: 1})}},
		{name: "twice", method: "GET", status: 595, want: 2, is: ErrNodeUnreachable, opts: []Option{WithRetry(RetryPolicy{Attempts: 2})}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var calls int
				rt := roundTripper(func(*http.Request) (*http.Response, error) {
					calls++
					switch {
					case tc.err != nil:
						return nil, tc.err
					case tc.cut:
						resp := memoryAnswer(200, "OK", `{"data":`)
						resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"data":`), failingReader{io.ErrUnexpectedEOF}))
						return resp, nil
					}
					return memoryAnswer(tc.status, "reason", ""), nil
				})
				client, err := New(Product{}, "pve1", append([]Option{WithTransport(rt)}, tc.opts...)...)
				require.NoError(t, err)
				send := client.Call
				if tc.acts {
					send = client.CallOnce
				}
				err = send(t.Context(), tc.method, "/x", nil, nil)
				require.Error(t, err)
				if tc.acts && tc.err == errBroken {
					assert.ErrorContains(t, err, "the call may have taken effect")
					assert.False(t, IsRetryable(err))
				}
				if tc.is != nil {
					assert.ErrorIs(t, err, tc.is)
				}
				assert.Equal(t, tc.want, calls)
			})
		})
	}
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

func TestRetrySucceeds(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	server := newRawServer(t, func(seen) string {
		switch calls.Add(1) {
		case 1:
			return "" // cut
		case 2:
			return reply(599, "Too many redirections", "", "")
		}
		return replyData(`"9.2"`)
	})
	client := newClient(t, server.URL)
	var version string
	require.NoError(t, client.Call(t.Context(), http.MethodGet, "/version", nil, &version))
	assert.Equal(t, "9.2", version)
	assert.Len(t, server.Requests(), 3)
}

// TestWriteThatMayHaveArrivedIsSentOnce cuts real connections at the worst moment, on
// fresh and on reused ones.
func TestWriteThatMayHaveArrivedIsSentOnce(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		for _, reused := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s reused=%t", method, reused), func(t *testing.T) {
				t.Parallel()
				server := newRawServer(t, func(s seen) string {
					if s.Method == http.MethodGet {
						return replyData("null")
					}
					return ""
				})
				client := newClient(t, server.URL)
				if reused {
					require.NoError(t, client.Call(t.Context(), http.MethodGet, "/version", nil, nil))
				}
				err := client.Call(t.Context(), method, "/nodes/pve1/qemu/100/status/start", map[string]string{"timeout": "5"}, nil)
				failed, ok := errors.AsType[*TransportError](err)
				require.True(t, ok, "%v", err)
				assert.True(t, failed.Sent)
				assert.ErrorIs(t, err, ErrNoAnswer)
				assert.NotErrorIs(t, err, ErrNotSent)
				assert.ErrorContains(t, err, "the call may have taken effect")
				assert.False(t, IsRetryable(err))
				writes := 0
				for _, r := range server.Requests() {
					if r.Method == method {
						writes++
					}
				}
				assert.Equal(t, 1, writes)
			})
		}
	}
}

func TestFailover(t *testing.T) {
	t.Parallel()
	dead := func(t *testing.T) string {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer listener.Close()
		return "http://" + listener.Addr().String()
	}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		t.Run("dead endpoint, "+method, func(t *testing.T) {
			t.Parallel()
			server := newRawServer(t, func(seen) string { return replyData("null") })
			client := newClient(t, dead(t), WithEndpoints(dead(t), server.URL), WithRetry(RetryPolicy{Attempts: 1}))
			require.NoError(t, client.Call(t.Context(), method, "/x", nil, nil))
			assert.Equal(t, server.URL, client.Endpoint(), "it stays with the one that answers")
			require.NoError(t, client.Call(t.Context(), method, "/x", nil, nil))
			assert.Len(t, server.Requests(), 2)
		})
	}
	t.Run("all dead", func(t *testing.T) {
		t.Parallel()
		client := newClient(t, dead(t), WithEndpoints(dead(t)))
		err := client.Call(t.Context(), http.MethodPost, "/x", nil, nil)
		assert.ErrorIs(t, err, ErrNotSent)
		assert.True(t, IsRetryable(err))
		assert.ErrorContains(t, err, "not sent to 127.0.0.1")
	})
	t.Run("a write that may have arrived goes nowhere else", func(t *testing.T) {
		t.Parallel()
		first := newRawServer(t, func(seen) string { return "" })
		second := newRawServer(t, func(seen) string { return replyData("null") })
		client := newClient(t, first.URL, WithEndpoints(second.URL))
		assert.ErrorIs(t, client.Call(t.Context(), http.MethodPost, "/x", nil, nil), ErrNoAnswer)
		assert.Len(t, first.Requests(), 1)
		assert.Empty(t, second.Requests())
	})
	t.Run("refusals are no reason to move", func(t *testing.T) {
		t.Parallel()
		first := newRawServer(t, func(seen) string { return replyError(500, "no") })
		second := newRawServer(t, func(seen) string { return replyData("null") })
		client := newClient(t, first.URL, WithEndpoints(second.URL))
		require.Error(t, client.Call(t.Context(), http.MethodGet, "/x", nil, nil))
		assert.Empty(t, second.Requests())
	})
}

func TestContextEndsRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reason := errors.New("deploy was aborted")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, reason)
		defer cancel()
		rt := roundTripper(func(*http.Request) (*http.Response, error) { return nil, errBroken })
		client, err := New(Product{}, "pve1", WithTransport(rt), WithRetry(RetryPolicy{Attempts: 1000, MinWait: time.Minute, MaxWait: time.Hour}))
		require.NoError(t, err)
		began := time.Now()
		err = client.Call(ctx, http.MethodGet, "/x", nil, nil)
		assert.Equal(t, 200*time.Millisecond, time.Since(began))
		assert.ErrorIs(t, err, reason)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, errBroken, "what went wrong before is told as well")
		assert.False(t, IsRetryable(err))
	})
}

func TestSilentServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := roundTripper(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		})
		client, err := New(Product{}, "pve1", WithTransport(rt), WithRetry(RetryPolicy{Attempts: 1}))
		require.NoError(t, err)
		began := time.Now()
		err = client.Call(t.Context(), http.MethodGet, "/x", nil, nil)
		assert.ErrorIs(t, err, errHeaderTimeout)
		assert.NotErrorIs(t, err, context.Canceled)
		assert.True(t, IsRetryable(err))
		assert.Equal(t, readHeaderTimeout, time.Since(began))

		ctx, cancel := context.WithTimeout(t.Context(), 10*readHeaderTimeout)
		defer cancel()
		err = client.Call(ctx, http.MethodPost, "/x", nil, nil)
		assert.ErrorIs(t, err, context.DeadlineExceeded, "a write is limited by its context alone")
		assert.Equal(t, 11*readHeaderTimeout, time.Since(began))
	})
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls int
		rt := roundTripper(func(*http.Request) (*http.Response, error) {
			calls++
			return memoryAnswer(200, "OK", `{"data":null}`), nil
		})
		client, err := New(Product{}, "pve1", WithTransport(rt), WithRateLimit(rate.NewLimiter(rate.Every(time.Second), 1)))
		require.NoError(t, err)
		began := time.Now()
		for range 5 {
			require.NoError(t, client.Call(t.Context(), http.MethodPost, "/x", nil, nil))
		}
		assert.Equal(t, 4*time.Second, time.Since(began))

		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		err = client.Call(ctx, http.MethodPost, "/x", nil, nil)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, ErrNotSent)
		assert.Equal(t, 5, calls)
	})
}

func TestIdleConnections(t *testing.T) {
	t.Parallel()
	assert.Less(t, idleConnTimeout, 5*time.Second, "the servers close idle connections after 5 s")
	server := newRawServer(t, func(seen) string { return replyData("null") })
	client := newClient(t, server.URL)
	for range 20 {
		require.NoError(t, client.Call(t.Context(), http.MethodGet, "/version", nil, nil))
	}
	assert.Equal(t, 1, server.Connections(), "connections are reused")
	transport, ok := client.transport.(*http.Transport)
	require.True(t, ok)
	assert.Equal(t, idleConnTimeout, transport.IdleConnTimeout)
	assert.False(t, transport.Protocols.HTTP2())
	assert.NotSame(t, http.DefaultTransport, transport)
}

func TestArguments(t *testing.T) {
	t.Parallel()
	server := newRawServer(t, func(seen) string { return replyData("null") })
	client := newClient(t, server.URL)
	for _, tc := range []struct {
		name, method, path string
		params             any
		want               string
	}{
		{name: "method", method: "HEAD", path: "/x", want: "use GET, POST, PUT or DELETE"},
		{name: "no slash", method: "GET", path: "x", want: "begins with a slash"},
		{name: "query", method: "GET", path: "/x?a=1", want: "give parameters as parameters"},
		{name: "missing path parameter", method: "GET", path: "/nodes/{node}", params: map[string]string{"x": "y"}, want: "node"},
		{name: "dots", method: "GET", path: "/nodes/{node}", params: map[string]string{"node": ".."}, want: "node"},
		{name: "hidden dots", method: "GET", path: "/nodes/{node}", params: map[string]string{"node": "a/../b"}, want: "node"},
		{name: "big body", method: "POST", path: "/x", params: map[string]string{"d": strings.Repeat("x", 600<<10)}, want: "the server accepts at most 524288"},
		{name: "long query", method: "GET", path: "/x", params: map[string]string{"d": strings.Repeat("x", 9<<10)}, want: "the server accepts about"},
	} {
		err := client.Call(t.Context(), tc.method, tc.path, tc.params, nil)
		_, ok := errors.AsType[*ArgumentError](err)
		assert.True(t, ok, "%s: %v", tc.name, err)
		assert.ErrorContains(t, err, tc.want, tc.name)
		assert.ErrorIs(t, err, ErrInvalidParameter)
		assert.False(t, IsRetryable(err))
	}
	assert.Empty(t, server.Requests())
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, answer string
		want         string
		is           error
	}{
		{name: "web page", answer: reply(200, "OK", "text/html; charset=utf-8", "<html>sign in</html>"), is: ErrNotAPI, want: "check the endpoint"},
		{name: "text", answer: reply(200, "OK", "text/plain", "hello"), is: ErrNotAPI, want: `of type "text/plain"`},
		{name: "other JSON", answer: reply(200, "OK", jsonType, `{"status":"ok"}`), want: "it has no data"},
		{name: "nothing", answer: reply(200, "OK", jsonType, ""), want: "the answer is empty", is: ErrNoAnswer},
		{name: "no object", answer: reply(200, "OK", jsonType, `[1]`), want: "no JSON object"},
		{name: "cut JSON", answer: reply(200, "OK", jsonType, `{"data":[1,`), want: "damaged"},
		{name: "bad JSON inside", answer: reply(200, "OK", jsonType, `{"data":[1 2]}`), want: "damaged"},
		{name: "trailing", answer: reply(200, "OK", jsonType, `{"data":[1]} x`), want: "after the object"},
		{name: "proxy page", answer: reply(502, "Bad Gateway", "text/html", "<html>nginx</html>"), is: ErrNotAPI, want: "Bad Gateway"},
		{name: "redirect", answer: "HTTP/1.1 302 Found\r\nLocation: https://evil.example.com/x?secret=1\r\nContent-Length: 0\r\n\r\n", is: ErrNotAPI, want: "the server redirects to https://evil.example.com (status 302); credentials are not sent on"},
		{name: "redirect to https", answer: "HTTP/1.1 301 Moved Permanently\r\nLocation: https://127.0.0.1:8006/\r\nContent-Length: 0\r\n\r\n", is: ErrNotAPI, want: "write the endpoint as https://127.0.0.1:8006"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := newRawServer(t, func(seen) string { return tc.answer })
			client := newClient(t, server.URL, WithRetry(RetryPolicy{Attempts: 1}))
			var out []int64
			err := client.Call(t.Context(), http.MethodGet, "/x", nil, &out)
			require.ErrorContains(t, err, tc.want)
			if tc.is != nil {
				assert.ErrorIs(t, err, tc.is)
			}
			assert.NotContains(t, err.Error(), "secret=1")
			assert.Len(t, server.Requests(), 1)
		})
	}
}

func TestMeta(t *testing.T) {
	t.Parallel()
	server := newRawServer(t, func(seen) string {
		return reply(200, "OK", jsonType, `{"changes":"--- a\n","total":"12","data":["x"],"digest":"abc"}`)
	})
	var out []string
	meta, err := newClient(t, server.URL).CallMeta(t.Context(), http.MethodGet, "/x", nil, &out)
	require.NoError(t, err)
	assert.Equal(t, Meta{Total: 12, Changes: "--- a\n", Digest: "abc"}, meta)
	assert.Equal(t, []string{"x"}, out)
}

func TestMisfitNamesTheCall(t *testing.T) {
	t.Parallel()
	server := newRawServer(t, func(seen) string {
		return replyData(`[{"vmid":100,"name":"a"},{"vmid":{"odd":1},"name":"b"}]`)
	})
	var misfits []Misfit
	client := newClient(t, server.URL, WithOnMisfit(func(m Misfit) { misfits = append(misfits, m) }))
	var out []struct {
		VMID int64  `json:"vmid"`
		Name string `json:"name"`
	}
	require.NoError(t, client.Call(t.Context(), http.MethodGet, "/nodes/{node}/qemu", map[string]string{"node": "pve1"}, &out))
	require.Len(t, out, 2)
	assert.Equal(t, "b", out[1].Name)
	assert.Zero(t, out[1].VMID)
	require.Len(t, misfits, 1)
	assert.Equal(t, "GET", misfits[0].Method)
	assert.Equal(t, "/nodes/pve1/qemu", misfits[0].Path)
	assert.Contains(t, misfits[0].Field, "vmid")
}

// A list that is none must not pass for an empty one.
func TestAnswerOfAnotherKind(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, method, data string
		want               string
	}{
		{"an object for a list", http.MethodGet, `{"vmid":100}`, "want list"},
		{"a number for a list", http.MethodGet, `7`, "want list"},
		{"an empty list", http.MethodGet, `[]`, ""},
		{"nothing", http.MethodGet, `null`, ""},
		{"odd elements", http.MethodGet, `[7,{"vmid":100}]`, ""},
		{"a write has taken effect", http.MethodPost, `{"vmid":100}`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := newRawServer(t, func(seen) string { return replyData(tc.data) })
			var out []struct {
				VMID int64 `json:"vmid"`
			}
			err := newClient(t, server.URL).Call(t.Context(), tc.method, "/nodes", nil, &out)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			damaged, ok := errors.AsType[*AnswerError](err)
			require.True(t, ok, "%v", err)
			assert.ErrorContains(t, damaged, tc.want)
		})
	}
}

func TestRustBodies(t *testing.T) {
	t.Parallel()
	server := newRawServer(t, func(seen) string { return replyData("null") })
	client, err := New(Product{Name: "pbs", Dialect: "rust"}, server.URL)
	require.NoError(t, err)
	type params struct {
		Store string `json:"store"`
		Force *bool  `json:"force,omitempty"`
	}
	require.NoError(t, client.Call(t.Context(), http.MethodPost, "/admin/{store}", &params{Store: "a", Force: new(true)}, nil))
	require.NoError(t, client.Call(t.Context(), http.MethodPost, "/x", nil, nil))
	require.NoError(t, client.Call(t.Context(), http.MethodDelete, "/x", &params{Store: "a", Force: new(false)}, nil))
	got := server.Requests()
	require.Len(t, got, 3)
	assert.Equal(t, []string{`{"force":true}`, "{}", ""}, []string{got[0].Body, got[1].Body, got[2].Body})
	assert.Equal(t, "application/json", got[0].Header.Get("Content-Type"))
	assert.Contains(t, got[2].Target, "store=a")
}

// TestFormsAsParameters: what is a form already is sent as one, also with single values.
func TestFormsAsParameters(t *testing.T) {
	t.Parallel()
	for _, dialect := range []string{"perl", "rust"} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			server := newRawServer(t, func(seen) string { return replyData("null") })
			client, err := New(Product{Name: "p", Dialect: dialect}, server.URL)
			require.NoError(t, err)
			form := url.Values{"node": {"pve1"}, "a": {"1"}, "b": {"x", "y"}, "c": {""}}
			require.NoError(t, client.Call(t.Context(), http.MethodPut, "/nodes/{node}/x", form, nil))
			require.NoError(t, client.Call(t.Context(), http.MethodPost, "/nodes/{node}/x", &form, nil))
			require.NoError(t, client.Call(t.Context(), http.MethodGet, "/nodes/{node}/x", form, nil))
			got := server.Requests()
			for _, request := range got[:2] {
				assert.Equal(t, "application/x-www-form-urlencoded", request.Header.Get("Content-Type"))
				assert.Equal(t, "a=1&b=x&b=y&c=", request.Body)
				assert.Equal(t, "/api2/json/nodes/pve1/x", request.Target)
			}
			assert.Equal(t, "/api2/json/nodes/pve1/x?a=1&b=x&b=y&c=", got[2].Target)
		})
	}
}

// TestPerlArrays: a form cannot say an array of one element.
func TestPerlArrays(t *testing.T) {
	t.Parallel()
	server := newRawServer(t, func(seen) string { return replyData("null") })
	client := newClient(t, server.URL)
	type params struct {
		Command []string `json:"command,omitempty"`
		Sync    *bool    `json:"sync,omitempty"`
	}
	require.NoError(t, client.Call(t.Context(), http.MethodPost, "/x", &params{Command: []string{"ls"}, Sync: new(true)}, nil))
	got := server.Requests()[0]
	assert.Equal(t, "application/json", got.Header.Get("Content-Type"))
	assert.JSONEq(t, `{"command":["ls"],"sync":1}`, got.Body)
}
