package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAPIToken(t *testing.T) {
	t.Parallel()
	const secret = "12345678-1234-1234-1234-123456789abc"
	pbs := Product{Name: "pbs", Dialect: "rust", TokenScheme: "PBSAPIToken", TokenSeparator: ":", DefaultPort: 8007}
	for _, tc := range []struct {
		name       string
		product    Product
		id, secret string
		want       string
		wantErr    string
	}{
		{name: "pve", id: "root@pam!t0", secret: secret, want: "PVEAPIToken=root@pam!t0=" + secret},
		{name: "pbs", product: pbs, id: "root@pam!t0", secret: secret, want: "PBSAPIToken=root@pam!t0:" + secret},
		{name: "realm with dot and dash", id: "a.b@corp-1.example.com!ci-1", secret: secret, want: "PVEAPIToken=a.b@corp-1.example.com!ci-1=" + secret},
		{name: "user with an at sign", id: "a@b.example@ldap!t", secret: secret, want: "PVEAPIToken=a@b.example@ldap!t=" + secret},
		{name: "whole token as secret", secret: "root@pam!t0=" + secret, want: "PVEAPIToken=root@pam!t0=" + secret},
		{name: "whole token as id", id: "root@pam!t0=" + secret, want: "PVEAPIToken=root@pam!t0=" + secret},
		{name: "whole token with its id", id: "root@pam!t0", secret: "root@pam!t0=" + secret, want: "PVEAPIToken=root@pam!t0=" + secret},
		{name: "whole header", secret: "PVEAPIToken=root@pam!t0=" + secret, want: "PVEAPIToken=root@pam!t0=" + secret},
		{name: "pbs whole token", product: pbs, secret: "root@pam!t0:" + secret, want: "PBSAPIToken=root@pam!t0:" + secret},
		{name: "pve separator for pbs", product: pbs, secret: "root@pam!t0=" + secret, want: "PBSAPIToken=root@pam!t0:" + secret},
		{name: "line end from a file", id: "root@pam!t0\n", secret: secret + "\n", want: "PVEAPIToken=root@pam!t0=" + secret},

		{name: "nothing", wantErr: "the id is empty"},
		{name: "user alone", id: "root@pam", secret: secret, wantErr: "has no token name"},
		{name: "no realm", id: "root!t0", secret: secret, wantErr: "has no realm"},
		{name: "no name", id: "root@pam!", secret: secret, wantErr: "has no token name"},
		{name: "no secret", id: "root@pam!t0", wantErr: "the secret of root@pam!t0 is empty"},
		{name: "secret alone", secret: secret, wantErr: "the id is empty"},
		{name: "swapped", id: secret, secret: "x", wantErr: "(not shown)"},
		{name: "other id inside", id: "root@pam!t1", secret: "root@pam!t0=" + secret, wantErr: "not the one inside"},
		{name: "header injection", id: "root@pam!t0", secret: "x\r\nX: y", wantErr: "line breaks"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var got string
			client, err := New(tc.product, "pve1", WithAPIToken(tc.id, tc.secret), WithTransport(roundTripper(func(req *http.Request) (*http.Response, error) {
				got = req.Header.Get("Authorization")
				return memoryAnswer(200, "OK", `{"data":null}`), nil
			})))
			if tc.wantErr != "" {
				require.ErrorContains(t, err, tc.wantErr)
				assert.NotContains(t, err.Error(), secret)
				return
			}
			require.NoError(t, err)
			require.NoError(t, client.Call(t.Context(), http.MethodGet, "/version", nil, nil))
			assert.Equal(t, tc.want, got)
		})
	}
}

// A loginServer issues numbered tickets and accepts the newest ones.
type loginServer struct {
	mu       sync.Mutex
	logins   []url.Values
	calls    []*http.Request
	issued   int
	accepted map[string]bool
	delay    time.Duration
	fail     func(form url.Values) *http.Response
	deny     func(req *http.Request) *http.Response
}

func (s *loginServer) RoundTrip(req *http.Request) (*http.Response, error) {
	var body string
	if req.Body != nil {
		data := make([]byte, req.ContentLength)
		_, _ = req.Body.Read(data)
		body = string(data)
		req.Body.Close()
	}
	if err := pause(req.Context(), s.delay); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.HasSuffix(req.URL.Path, "/access/ticket") && req.Method == http.MethodPost {
		form, err := url.ParseQuery(body)
		if err != nil {
			return nil, err
		}
		s.logins = append(s.logins, form)
		if s.fail != nil {
			if resp := s.fail(form); resp != nil {
				return resp, nil
			}
		}
		s.issued++
		ticket := fmt.Sprintf("PVE:ops@pve:%08X::sig%d", time.Now().Unix(), s.issued)
		if s.accepted == nil {
			s.accepted = map[string]bool{}
		}
		s.accepted["PVEAuthCookie="+percent(ticket)] = true
		data, err := json.Marshal(map[string]any{"data": map[string]any{
			"username": "ops@pve", "ticket": ticket, "CSRFPreventionToken": fmt.Sprintf("csrf%d", s.issued),
		}})
		return memoryAnswer(200, "OK", string(data)), err
	}
	s.calls = append(s.calls, req)
	if s.deny != nil {
		if resp := s.deny(req); resp != nil {
			return resp, nil
		}
	}
	if !s.accepted[req.Header.Get("Cookie")] {
		return memoryAnswer(401, "No ticket", ""), nil
	}
	return memoryAnswer(200, "OK", `{"data":null}`), nil
}

func (s *loginServer) client(t *testing.T, opts ...Option) *Client {
	t.Helper()
	client, err := New(Product{}, "pve1", append([]Option{WithTransport(s)}, opts...)...)
	require.NoError(t, err)
	return client
}

func TestLoginOnceForManyFirstCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &loginServer{delay: time.Second}
		client := server.client(t, WithPassword("ops@pve", "pw-secret"))
		var wait sync.WaitGroup
		for range 50 {
			wait.Go(func() {
				assert.NoError(t, client.Call(t.Context(), http.MethodGet, "/version", nil, nil))
			})
		}
		wait.Wait()
		assert.Len(t, server.logins, 1)
		assert.Len(t, server.calls, 50)
		assert.Equal(t, url.Values{"username": {"ops@pve"}, "password": {"pw-secret"}}, server.logins[0])
	})
}

func TestCSRFOnWritesOnly(t *testing.T) {
	t.Parallel()
	server := &loginServer{}
	client := server.client(t, WithPassword("ops@pve", "pw"))
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		require.NoError(t, client.Call(t.Context(), method, "/x", nil, nil))
	}
	for i, want := range []string{"", "csrf1", "csrf1", "csrf1"} {
		assert.Equal(t, want, server.calls[i].Header.Get("CSRFPreventionToken"))
	}
}

func TestTicketIsRenewedFromTheOldOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &loginServer{}
		client := server.client(t, WithPassword("ops@pve", "pw-secret"))
		call := func() error { return client.Call(t.Context(), http.MethodGet, "/version", nil, nil) }
		require.NoError(t, call())
		first, err := client.Ticket(t.Context())
		require.NoError(t, err)

		time.Sleep(ticketRenewal - time.Second)
		require.NoError(t, call())
		assert.Len(t, server.logins, 1, "still young")

		time.Sleep(2 * time.Second)
		require.NoError(t, call())
		require.Len(t, server.logins, 2)
		assert.Equal(t, first.Value, server.logins[1].Get("password"), "the old ticket is the password")

		// A renewal that fails for any reason but a refusal leaves the ticket in use.
		server.fail = func(url.Values) *http.Response { return memoryAnswer(500, "cluster not ready - no quorum?", "") }
		time.Sleep(ticketRenewal + time.Second)
		require.NoError(t, call())

		// A refused renewal is followed by a login.
		server.fail = func(form url.Values) *http.Response {
			if form.Get("password") != "pw-secret" {
				return memoryAnswer(401, "authentication failure", "")
			}
			return nil
		}
		require.NoError(t, call())
		assert.Equal(t, "pw-secret", server.logins[len(server.logins)-1].Get("password"))

		// A ticket past its life is not worth a try.
		before := len(server.logins)
		time.Sleep(3 * time.Hour)
		require.NoError(t, call())
		require.Len(t, server.logins, before+1)
		assert.Equal(t, "pw-secret", server.logins[before].Get("password"))
	})
}

func TestUnauthorizedIsReplayedOnceForReads(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		method string
		opts   []Option
		calls  int
		logins int
		fails  bool
	}{
		{method: http.MethodGet, calls: 2, logins: 2},
		{method: http.MethodPost, calls: 1, logins: 1, fails: true},
		{method: http.MethodDelete, calls: 1, logins: 1, fails: true},
		{method: http.MethodPut, calls: 2, logins: 2, opts: []Option{WithSafeWrites(func(string, string) bool { return true })}},
	} {
		t.Run(tc.method, func(t *testing.T) {
			t.Parallel()
			denied := false
			server := &loginServer{deny: func(*http.Request) *http.Response {
				if denied {
					return nil
				}
				denied = true
				return memoryAnswer(401, "permission denied - invalid PVE ticket", "")
			}}
			client := server.client(t, append(tc.opts, WithPassword("ops@pve", "pw"))...)
			err := client.Call(t.Context(), tc.method, "/x", nil, nil)
			assert.Equal(t, tc.fails, err != nil, "%v", err)
			if tc.fails {
				assert.ErrorIs(t, err, ErrAuthentication)
			}
			assert.Len(t, server.calls, tc.calls)
			assert.Len(t, server.logins, tc.logins)

			require.NoError(t, client.Call(t.Context(), tc.method, "/x", nil, nil), "the next call has a new session")
			assert.Len(t, server.logins, 2)
		})
	}
	t.Run("never more than once", func(t *testing.T) {
		t.Parallel()
		server := &loginServer{deny: func(*http.Request) *http.Response { return memoryAnswer(401, "No ticket", "") }}
		client := server.client(t, WithPassword("ops@pve", "pw"))
		err := client.Call(t.Context(), http.MethodGet, "/x", nil, nil)
		assert.ErrorIs(t, err, ErrAuthentication)
		assert.Len(t, server.calls, 2)
	})
	t.Run("an API token has nothing to renew", func(t *testing.T) {
		t.Parallel()
		server := &loginServer{}
		client := server.client(t, WithAPIToken("ops@pve!t", "secret-of-token"))
		err := client.Call(t.Context(), http.MethodGet, "/x", nil, nil)
		assert.ErrorIs(t, err, ErrAuthentication)
		assert.ErrorContains(t, err, "check the API token")
		assert.Len(t, server.calls, 1)
	})
}

func TestCancelledCallerDoesNotSpoilTheLogin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &loginServer{delay: time.Minute}
		client := server.client(t, WithPassword("ops@pve", "pw"))
		reason := errors.New("user pressed stop")
		first, cancel := context.WithCancelCause(t.Context())
		var wait sync.WaitGroup
		wait.Go(func() {
			err := client.Call(first, http.MethodGet, "/version", nil, nil)
			assert.ErrorIs(t, err, reason)
			assert.ErrorIs(t, err, context.Canceled)
		})
		synctest.Wait()
		wait.Go(func() {
			assert.NoError(t, client.Call(t.Context(), http.MethodGet, "/version", nil, nil))
		})
		synctest.Wait()
		began := time.Now()
		cancel(reason)
		synctest.Wait()
		assert.Zero(t, time.Since(began), "the cancelled caller leaves at once")
		wait.Wait()
		assert.Len(t, server.logins, 1)

		// A login that nobody waits for any more is given up, and the next caller starts anew.
		lonely := server.client(t, WithPassword("ops@pve", "pw"))
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		assert.ErrorIs(t, lonely.Call(ctx, http.MethodGet, "/version", nil, nil), context.DeadlineExceeded)
		require.NoError(t, lonely.Call(t.Context(), http.MethodGet, "/version", nil, nil))
		assert.Len(t, server.logins, 2, "the login given up never arrived")
	})
}

func TestWrongPassword(t *testing.T) {
	t.Parallel()
	server := &loginServer{fail: func(url.Values) *http.Response {
		return memoryAnswer(401, "authentication failure", `{"data":null,"message":"authentication failure\n"}`)
	}}
	client := server.client(t, WithPassword("ops@pve", "pw-secret"))
	err := client.Call(t.Context(), http.MethodGet, "/version", nil, nil)
	require.ErrorIs(t, err, ErrAuthentication)
	assert.NotContains(t, err.Error(), "pw-secret")
	assert.Len(t, server.logins, 1)
	assert.Empty(t, server.calls)
}

// TestLoginSurvivesDyingWorkers: the login is repeated like a read.
func TestLoginSurvivesDyingWorkers(t *testing.T) {
	t.Parallel()
	faults := []*http.Response{memoryAnswer(596, "Broken pipe", ""), memoryAnswer(200, "OK", ""), memoryAnswer(599, "Too many redirections", "")}
	server := &loginServer{fail: func(url.Values) *http.Response {
		if len(faults) == 0 {
			return nil
		}
		next := faults[0]
		faults = faults[1:]
		return next
	}}
	client := server.client(t, WithPassword("ops@pve", "pw"), quick())
	require.NoError(t, client.Call(t.Context(), http.MethodPost, "/x", nil, nil))
	assert.Len(t, server.logins, 4)
	assert.Len(t, server.calls, 1)
}

func TestTicketHandOver(t *testing.T) {
	t.Parallel()
	server := &loginServer{}
	client := server.client(t, WithPassword("ops@pve", "pw"))
	ticket, err := client.Ticket(t.Context())
	require.NoError(t, err)
	for _, shown := range []string{fmt.Sprint(ticket), fmt.Sprintf("%+v", ticket), fmt.Sprintf("%#v", ticket), ticket.LogValue().String()} {
		assert.NotContains(t, shown, "sig1")
		assert.NotContains(t, shown, "csrf1")
	}
	data, err := json.Marshal(ticket)
	require.NoError(t, err)
	var received Ticket
	require.NoError(t, json.Unmarshal(data, &received))

	second := server.client(t, WithTicket(received))
	require.NoError(t, second.Call(t.Context(), http.MethodPost, "/x", nil, nil))
	assert.Len(t, server.logins, 1, "no login of its own")
	assert.Equal(t, "csrf1", server.calls[0].Header.Get("CSRFPreventionToken"))

	server.accepted = nil
	err = second.Call(t.Context(), http.MethodGet, "/x", nil, nil)
	assert.ErrorIs(t, err, ErrAuthentication, "without a password there is no way back")
	assert.Len(t, server.logins, 1)

	_, err = server.client(t, WithAPIToken("ops@pve!t", "secret")).Ticket(t.Context())
	assert.ErrorContains(t, err, "only clients that log in")

	for _, bad := range []Ticket{
		{},
		{Value: "PVE:!tfa!{}:6A1B2C3D::x", User: "ops@pve"},
		{Value: "x\r\nCookie: y", User: "ops@pve"},
		{Value: "garbage"},
	} {
		_, err := New(Product{}, "pve1", WithTicket(bad))
		assert.Error(t, err, "%#v", bad)
	}
	_, err = New(Product{}, "pve1", WithTicket(Ticket{Value: "PVE:a@pve:6A1B2C3D::x"}), WithPassword("b@pve", "pw"))
	assert.ErrorContains(t, err, "the ticket is of a@pve")
}

func TestLogout(t *testing.T) {
	t.Parallel()
	server := &loginServer{}
	client := server.client(t, WithPassword("ops@pve", "pw"))
	require.NoError(t, client.Call(t.Context(), http.MethodGet, "/x", nil, nil))
	require.NoError(t, client.Logout(t.Context()))
	require.NoError(t, client.Call(t.Context(), http.MethodGet, "/x", nil, nil))
	assert.Len(t, server.logins, 2)
	for _, call := range server.calls {
		assert.NotEqual(t, http.MethodDelete, call.Method, "Proxmox VE has no logout call")
	}
}

// TestCookieLogin covers servers that tell the ticket in a cookie only.
func TestCookieLogin(t *testing.T) {
	t.Parallel()
	var deleted atomic.Bool
	rt := roundTripper(func(req *http.Request) (*http.Response, error) {
		switch {
		case req.URL.Path == "/api2/json/access/ticket" && req.Method == http.MethodPost:
			resp := memoryAnswer(200, "OK", `{"data":{"username":"root@pam","ticket-info":"PDM:root@pam:6A1B2C3D","CSRFPreventionToken":"c1"}}`)
			resp.Header["Set-Cookie"] = []string{"other=1", "__Host-PDMAuthCookie=PDM:root@pam:6A1B2C3D::abc; Secure; HttpOnly; Path=/"}
			return resp, nil
		case req.Header.Get("Cookie") != "__Host-PDMAuthCookie=PDM:root@pam:6A1B2C3D::abc":
			return memoryAnswer(401, "Unauthorized", ""), nil
		case req.Method == http.MethodDelete:
			deleted.Store(true)
		}
		return memoryAnswer(200, "OK", `{"data":null}`), nil
	})
	client, err := New(Product{Name: "pdm", Dialect: "rust", CookieName: "__Host-PDMAuthCookie"}, "pdm1", WithTransport(rt), WithPassword("root@pam", "pw"))
	require.NoError(t, err)
	require.NoError(t, client.Call(t.Context(), http.MethodGet, "/version", nil, nil))
	require.NoError(t, client.Logout(t.Context()))
	assert.True(t, deleted.Load())
}

func TestTFA(t *testing.T) {
	t.Parallel()
	partial := func(challenge string) *http.Response {
		data, _ := json.Marshal(map[string]any{"data": map[string]any{
			"NeedTFA": 1, "username": "ops@pve", "CSRFPreventionToken": "c0",
			"ticket": "PVE:!tfa!" + strings.ReplaceAll(challenge, ":", "%3A") + ":6A1B2C3D::cGFydGlhbA==",
		}})
		return memoryAnswer(200, "OK", string(data))
	}
	const challenge = `{"totp":true,"recovery":["available"],"webauthn":{"publicKey":{"challenge":"abc"}},"yubico":false,"u2f":null}`

	t.Run("challenge", func(t *testing.T) {
		t.Parallel()
		server := &loginServer{fail: func(form url.Values) *http.Response {
			if form.Has("tfa-challenge") {
				return nil
			}
			return partial(challenge)
		}}
		client := server.client(t, WithPassword("ops@pve", "pw"), WithTFA(func(_ context.Context, c TFAChallenge) (TFAAnswer, error) {
			assert.Equal(t, "ops@pve", c.User)
			assert.Equal(t, []string{"totp", "recovery", "webauthn"}, c.Methods)
			assert.JSONEq(t, `{"publicKey":{"challenge":"abc"}}`, string(c.Details["webauthn"]))
			return TFAAnswer{Method: "recovery", Value: "1111-2222"}, nil
		}))
		require.NoError(t, client.Call(t.Context(), http.MethodGet, "/x", nil, nil))
		require.Len(t, server.logins, 2)
		assert.Equal(t, "recovery:1111-2222", server.logins[1].Get("password"))
	})
	t.Run("the partial ticket is never a session", func(t *testing.T) {
		t.Parallel()
		for name, answer := range map[string]*http.Response{
			"flag":             partial(challenge),
			"without the flag": memoryAnswer(200, "OK", `{"data":{"ticket":"PBS:!tfa!{}:6A1B2C3D::x","username":"ops@pve"}}`),
			"flag alone":       memoryAnswer(200, "OK", `{"data":{"NeedTFA":true,"ticket":"PVE:x:6A1B2C3D::x"}}`),
		} {
			server := &loginServer{fail: func(url.Values) *http.Response { return answer }}
			client := server.client(t, WithPassword("ops@pve", "pw"))
			err := client.Call(t.Context(), http.MethodGet, "/x", nil, nil)
			assert.ErrorIs(t, err, ErrTFARequired, name)
			assert.Empty(t, server.calls, name)
			assert.NotContains(t, err.Error(), "cGFydGlhbA", name)
		}
	})
	t.Run("handler fails", func(t *testing.T) {
		t.Parallel()
		server := &loginServer{fail: func(url.Values) *http.Response { return partial(challenge) }}
		gone := errors.New("no terminal")
		client := server.client(t, WithPassword("ops@pve", "pw"), WithTFA(func(context.Context, TFAChallenge) (TFAAnswer, error) {
			return TFAAnswer{}, gone
		}))
		assert.ErrorIs(t, client.Call(t.Context(), http.MethodGet, "/x", nil, nil), gone)
	})
	t.Run("asked twice", func(t *testing.T) {
		t.Parallel()
		server := &loginServer{fail: func(url.Values) *http.Response { return partial(challenge) }}
		client := server.client(t, WithPassword("ops@pve", "pw"), WithTFA(func(context.Context, TFAChallenge) (TFAAnswer, error) {
			return TFAAnswer{Method: "totp", Value: "123456"}, nil
		}))
		assert.ErrorIs(t, client.Call(t.Context(), http.MethodGet, "/x", nil, nil), ErrTFARequired)
		assert.Len(t, server.logins, 2)
	})
}
