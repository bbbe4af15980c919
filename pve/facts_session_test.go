package pve_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/internal/rest/resttest"
	"github.com/proxkit/proxkit/pbs"
	"github.com/proxkit/proxkit/pdm"
	"github.com/proxkit/proxkit/pve"
)

// A gate logs users in and lets their calls pass, as far as a test needs it.
type gate struct {
	logins   atomic.Int64
	refused  atomic.Int64 // calls still to be refused
	phrase   string
	handover sync.Map // credentials seen with calls
}

func (g *gate) answer(r resttest.Request) string {
	if strings.HasSuffix(r.Target, "/access/ticket") {
		n := string(rune('0' + g.logins.Add(1)))
		return resttest.ReplyData(`{"username":"ops@pve","ticket":"PVE:ops@pve:6FFFFFF` + n + `::c2ln` + n + `","CSRFPreventionToken":"6FFFFFF` + n + `:csrf` + n + `"}`)
	}
	g.handover.Store(r.Header.Get("Cookie")+" "+r.Header.Get("CSRFPreventionToken")+" "+r.Header.Get("Authorization"), true)
	if g.refused.Add(-1) >= 0 {
		return resttest.Reply(401, g.phrase, "", "")
	}
	return resttest.ReplyData(`null`)
}

func (g *gate) credentials() (all []string) {
	g.handover.Range(func(key, _ any) bool {
		all = append(all, key.(string))
		return true
	})
	return all
}

func listVMs(ctx context.Context, c *pve.Client) error {
	_, err := c.ListVMs(ctx, pve.ListVMsParams{Node: "pve1"})
	return err
}

func startVM(ctx context.Context, c *pve.Client) error {
	_, err := c.StartVM(ctx, pve.StartVMParams{Node: "pve1", VMID: 100})
	return err
}

// TestSessions holds what becomes of a session whose ticket the server no longer takes,
// rows 73 and 74.
func TestSessions(t *testing.T) {
	t.Parallel()
	for _, phrase := range []string{"No ticket", "Authentication failed!", "permission denied - invalid PVE ticket", "Permission denied - invalid csrf token"} {
		t.Run(phrase, func(t *testing.T) {
			t.Parallel()
			g := &gate{phrase: phrase}
			client, server := newFactsClient(t, g.answer, pve.WithPassword("ops@pve", "p&w=1;x+%"))
			require.NoError(t, listVMs(t.Context(), client))
			assert.EqualValues(t, 1, g.logins.Load())

			g.refused.Store(1)
			require.NoError(t, listVMs(t.Context(), client), "a read is made again in a new session")
			assert.EqualValues(t, 2, g.logins.Load())

			g.refused.Store(2)
			require.ErrorIs(t, listVMs(t.Context(), client), pve.ErrAuthentication, "but once only")
			assert.EqualValues(t, 3, g.logins.Load())

			g.refused.Store(1)
			before := len(server.Requests())
			require.ErrorIs(t, startVM(t.Context(), client), pve.ErrAuthentication, "a write is not")
			require.NoError(t, startVM(t.Context(), client), "the next call begins with a new session")
			starts := 0
			for _, r := range server.Requests()[before:] {
				if strings.HasSuffix(r.Target, "/start") {
					starts++
					assert.NotEmpty(t, r.Header.Get("CSRFPreventionToken"))
				}
			}
			assert.Equal(t, 2, starts)
			form, err := url.ParseQuery(server.Requests()[0].Body)
			require.NoError(t, err)
			assert.Equal(t, url.Values{"username": {"ops@pve"}, "password": {"p&w=1;x+%"}}, form, "row 51")
			for _, seen := range g.credentials() {
				assert.NotContains(t, seen, "PVEAPIToken", "row 80")
				n := seen[strings.Index(seen, "6FFFFFF")+len("6FFFFFF")]
				assert.Contains(t, seen, "PVEAuthCookie=PVE%3Aops%40pve%3A6FFFFFF"+string(n)+"%3A%3Ac2ln"+string(n))
				if strings.Contains(seen, "csrf") {
					assert.Contains(t, seen, "csrf"+string(n), "cookie and CSRF token belong together, row 74")
				}
			}
		})
	}
}

// TestOneLoginForMany: the first calls of many callers share a login, row 75.
func TestOneLoginForMany(t *testing.T) {
	t.Parallel()
	g := &gate{}
	client, _ := newFactsClient(t, g.answer, pve.WithPassword("ops@pve", "pw"))
	var wait sync.WaitGroup
	for range 50 {
		wait.Go(func() { assert.NoError(t, listVMs(t.Context(), client)) })
	}
	wait.Wait()
	assert.EqualValues(t, 1, g.logins.Load())
	ticket, err := client.Ticket(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "PVE:ops@pve:6FFFFFF1::c2ln1", ticket.Value)
	assert.NotContains(t, ticket.String(), "c2ln1")
}

// TestSecondFactors holds logins that need more than a password, row 76.
func TestSecondFactors(t *testing.T) {
	t.Parallel()
	const challenge = `PVE:!tfa!{"totp"%3Atrue,"recovery"%3A{"count"%3A3}}:6A1B2C3D::c2ln`
	noCode := errors.New("nobody is there")
	for _, tt := range []struct {
		name    string
		need    string // the server's NeedTFA
		handler pve.TFAHandler
		want    string // the second password
		is      error
	}{
		{name: "nobody to ask", need: "1", is: pve.ErrTFARequired},
		{name: "nobody to ask, flag as text", need: `"1"`, is: pve.ErrTFARequired},
		{name: "nobody to ask, flag left out", need: `null`, is: pve.ErrTFARequired},
		{name: "code", need: "1", handler: func(context.Context, pve.TFAChallenge) (pve.TFAAnswer, error) {
			return pve.TFAAnswer{Method: "totp", Value: "123456"}, nil
		}, want: "totp:123456"},
		{name: "recovery key", need: "true", handler: func(context.Context, pve.TFAChallenge) (pve.TFAAnswer, error) {
			return pve.TFAAnswer{Method: "recovery", Value: "aaaa-bbbb"}, nil
		}, want: "recovery:aaaa-bbbb"},
		{name: "authenticator", need: "1", handler: func(context.Context, pve.TFAChallenge) (pve.TFAAnswer, error) {
			return pve.TFAAnswer{Method: "webauthn", Value: `{"id":"x"}`}, nil
		}, want: `webauthn:{"id":"x"}`},
		{name: "handler that fails", need: "1", handler: func(context.Context, pve.TFAChallenge) (pve.TFAAnswer, error) { return pve.TFAAnswer{}, noCode }, is: noCode},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var asked pve.TFAChallenge
			opts := []pve.Option{pve.WithPassword("ops@pve", "pw")}
			if tt.handler != nil {
				opts = append(opts, pve.WithTFA(func(ctx context.Context, c pve.TFAChallenge) (pve.TFAAnswer, error) {
					asked = c
					return tt.handler(ctx, c)
				}))
			}
			client, server := newFactsClient(t, func(r resttest.Request) string {
				form, _ := url.ParseQuery(r.Body)
				switch {
				case !strings.HasSuffix(r.Target, "/access/ticket"):
					return resttest.ReplyData("[]")
				case form.Has("tfa-challenge"):
					return resttest.ReplyData(`{"username":"ops@pve","CSRFPreventionToken":"6A1B2C3E:csrf2","ticket":"PVE:ops@pve:6FFFFFFF::ZnVsbA=="}`)
				}
				return resttest.ReplyData(`{"NeedTFA":` + tt.need + `,"username":"ops@pve","CSRFPreventionToken":"6A1B2C3D:csrf1","ticket":` + quote(challenge) + `}`)
			}, opts...)
			err := listVMs(t.Context(), client)
			if tt.is != nil {
				require.ErrorIs(t, err, tt.is)
				var required *pve.TFARequiredError
				if errors.As(err, &required) {
					assert.Equal(t, []string{"totp", "recovery"}, required.Methods)
				}
				assert.Len(t, server.Requests(), 1, "a partial ticket is no session")
				return
			}
			require.NoError(t, err)
			requests := server.Requests()
			require.Len(t, requests, 3)
			form, err := url.ParseQuery(requests[1].Body)
			require.NoError(t, err)
			assert.Equal(t, url.Values{"username": {"ops@pve"}, "password": {tt.want}, "tfa-challenge": {challenge}}, form)
			assert.Equal(t, []string{"totp", "recovery"}, asked.Methods)
			assert.Contains(t, requests[2].Header.Get("Cookie"), "ZnVsbA")
		})
	}
}

func quote(text string) string { return `"` + strings.ReplaceAll(text, `"`, `\"`) + `"` }

// TestTokensOfAllProducts holds schemes, separators and names of realms, rows 81 and 82.
func TestTokensOfAllProducts(t *testing.T) {
	t.Parallel()
	const secret = "12345678-1234-1234-1234-123456789abc"
	for _, id := range []string{"root@pam!t0", "a.b@corp-1.example.com!ci-1", "a@b.example@ldap!t"} {
		for _, tt := range []struct {
			product string
			call    func(ctx context.Context, endpoint string) error
			want    string
		}{
			{product: "pve", want: "PVEAPIToken=" + id + "=" + secret, call: func(ctx context.Context, endpoint string) error {
				client, err := pve.NewClient(endpoint, pve.WithAPIToken(id, secret))
				require.NoError(t, err)
				defer client.CloseIdleConnections()
				return client.Do(ctx, "GET", "/version", nil, nil)
			}},
			{product: "pbs", want: "PBSAPIToken=" + id + ":" + secret, call: func(ctx context.Context, endpoint string) error {
				client, err := pbs.NewClient(endpoint, pbs.WithAPIToken(id, secret))
				require.NoError(t, err)
				defer client.CloseIdleConnections()
				return client.Do(ctx, "GET", "/version", nil, nil)
			}},
			{product: "pdm", want: "PDMAPIToken=" + id + ":" + secret, call: func(ctx context.Context, endpoint string) error {
				client, err := pdm.NewClient(endpoint, pdm.WithAPIToken(id, secret))
				require.NoError(t, err)
				defer client.CloseIdleConnections()
				return client.Do(ctx, "GET", "/version", nil, nil)
			}},
		} {
			t.Run(tt.product+" "+id, func(t *testing.T) {
				t.Parallel()
				server := resttest.NewServer(t, always(resttest.ReplyData(`{}`)))
				require.NoError(t, tt.call(t.Context(), server.URL))
				got := server.Requests()[0]
				assert.Equal(t, tt.want, got.Header.Get("Authorization"))
				assert.Empty(t, got.Header.Get("Cookie"))
				assert.Empty(t, got.Header.Get("CSRFPreventionToken"))
			})
		}
	}
}

// TestCookiesOfAllProducts: products call the session's cookie differently, and some
// keep the ticket out of the answer's body, row 81.
func TestCookiesOfAllProducts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		login  string // answer
		cookie string
		call   func(ctx context.Context, endpoint string) error
	}{
		{name: "pbs", login: resttest.ReplyData(`{"username":"ops@pbs","ticket":"PBS:ops@pbs:6FFFFFFF::c2ln","CSRFPreventionToken":"c"}`), cookie: "PBSAuthCookie=PBS%3Aops%40pbs%3A6FFFFFFF%3A%3Ac2ln", call: pbsVersion},
		{
			name: "pdm, ticket in a cookie", cookie: "__Host-PDMAuthCookie=PDM:ops@pbs:6FFFFFFF::c2ln", call: pdmVersion,
			login: strings.Replace(resttest.ReplyData(`{"username":"ops@pbs","ticket-info":"PDM:ops@pbs:6FFFFFFF","CSRFPreventionToken":"c"}`), "\r\n\r\n", "\r\nSet-Cookie: __Host-PDMAuthCookie=PDM:ops@pbs:6FFFFFFF::c2ln; Secure; SameSite=Lax; HttpOnly; Path=/;\r\n\r\n", 1),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := resttest.NewServer(t, func(r resttest.Request) string {
				if strings.HasSuffix(r.Target, "/access/ticket") {
					return tt.login
				}
				return resttest.ReplyData(`{}`)
			})
			require.NoError(t, tt.call(t.Context(), server.URL))
			requests := server.Requests()
			require.Len(t, requests, 2)
			assert.Equal(t, tt.cookie, requests[1].Header.Get("Cookie"))
		})
	}
}

func pbsVersion(ctx context.Context, endpoint string) error {
	client, err := pbs.NewClient(endpoint, pbs.WithPassword("ops@pbs", "pw"))
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	return client.Do(ctx, "GET", "/version", nil, nil)
}

func pdmVersion(ctx context.Context, endpoint string) error {
	client, err := pdm.NewClient(endpoint, pdm.WithPassword("ops@pbs", "pw"))
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	return client.Do(ctx, "GET", "/version", nil, nil)
}
