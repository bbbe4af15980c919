package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Canaries have characters that are escaped in forms, cookies and JSON.
const (
	canaryToken    = "canary-token-1234/5678+9"
	canaryPassword = `canary "pass" wörd&=/+%`
	canaryTicket   = "PVE:ops@pve:6A1B2C3D::Y2FuYXJ5LXRpY2tldA=="
	canaryCSRF     = "6A1B2C3D:canary-csrf+x/y"
	canaryCI       = "canary-ci-password"
	canaryTOTP     = "totp-canary-99"
)

// assertClean fails when any form of a canary is in any text of the error's tree.
func assertClean(t *testing.T, name string, err error) {
	t.Helper()
	require.Error(t, err, name)
	var texts []string
	walk(err, func(e error) {
		texts = append(texts, e.Error(), fmt.Sprintf("%+v", e))
		switch e := e.(type) {
		case *Error:
			texts = append(texts, e.Message, e.Reason, fmt.Sprint(e.Params))
		case *TaskError:
			texts = append(texts, e.ExitStatus, fmt.Sprint(e.Log, e.Params))
		}
	})
	for _, canary := range []string{canaryToken, canaryPassword, canaryTicket, canaryCSRF, canaryCI, canaryTOTP, "Y2FuYXJ5LXRpY2tldA"} {
		quoted, jerr := json.Marshal(canary)
		require.NoError(t, jerr)
		for _, form := range []string{canary, url.QueryEscape(canary), url.PathEscape(canary), percent(canary), strings.Trim(string(quoted), `"`)} {
			for _, text := range texts {
				assert.NotContains(t, text, form, name)
			}
		}
	}
}

// echo describes a request with everything in it, as a careless server or round
// tripper does in its complaints.
func echo(req *http.Request) string {
	body := ""
	if req.Body != nil {
		data, _ := io.ReadAll(req.Body)
		decoded, _ := url.QueryUnescape(string(data))
		body = string(data) + " " + decoded
	}
	var headers []string
	for name, values := range req.Header {
		headers = append(headers, fmt.Sprintf("%s: %s; %q", name, strings.Join(values, ","), values))
	}
	return fmt.Sprintf("%s %s %s %s", req.Method, req.URL, strings.Join(headers, " | "), body)
}

func TestSecretsStayOut(t *testing.T) {
	t.Parallel()
	login := func(req *http.Request) *http.Response {
		if req.URL.Path != "/api2/json/access/ticket" {
			return nil
		}
		data, _ := json.Marshal(map[string]any{"data": map[string]any{"username": "ops@pve", "ticket": canaryTicket, "CSRFPreventionToken": canaryCSRF}})
		return memoryAnswer(200, "OK", string(data))
	}
	failures := map[string]func(*http.Request) (*http.Response, error){
		"round tripper repeats the request": func(req *http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("cannot send: %s", echo(req))
		},
		"error wrapped in url.Error": func(req *http.Request) (*http.Response, error) {
			return nil, &url.Error{Op: "Post", URL: req.URL.String(), Err: fmt.Errorf("dump %s", echo(req))}
		},
		"joined errors": func(req *http.Request) (*http.Response, error) {
			return nil, errors.Join(errBroken, fmt.Errorf("dump %s", echo(req)))
		},
		"reason phrase": func(req *http.Request) (*http.Response, error) {
			return memoryAnswer(500, "bad "+strings.ReplaceAll(echo(req), "\n", " "), ""), nil
		},
		"message and parameters": func(req *http.Request) (*http.Response, error) {
			text := echo(req)
			data, _ := json.Marshal(map[string]any{"data": nil, "message": "Parameter verification failed.\n" + "cipassword: got " + text + "\n", "errors": map[string]any{"cipassword": "got '" + text + "'", "x": map[string]any{"nested": text}}})
			return memoryAnswer(400, "Parameter verification failed.", string(data)), nil
		},
		"plain text": func(req *http.Request) (*http.Response, error) {
			resp := memoryAnswer(500, "Internal Server Error", "dump: "+echo(req))
			resp.Header.Set("Content-Type", "text/plain")
			return resp, nil
		},
		"unauthorized": func(req *http.Request) (*http.Response, error) {
			return memoryAnswer(401, "who is "+strings.ReplaceAll(echo(req), "\n", " "), ""), nil
		},
		"body breaks off": func(req *http.Request) (*http.Response, error) {
			resp := memoryAnswer(200, "OK", "")
			resp.ContentLength = -1
			resp.Body = io.NopCloser(failingReader{errors.New(echo(req))})
			return resp, nil
		},
		"damaged answer": func(req *http.Request) (*http.Response, error) {
			return memoryAnswer(200, "OK", `{"data": `+echo(req)), nil
		},
		"redirect": func(req *http.Request) (*http.Response, error) {
			resp := memoryAnswer(302, "Found", "")
			resp.Header.Set("Location", "https://"+url.QueryEscape(canaryToken)+"@other/?"+url.QueryEscape(echo(req)))
			return resp, nil
		},
	}
	params := map[string]string{"cipassword": canaryCI, "name": "web-1"}
	for name, fail := range failures {
		for credentials, opts := range map[string][]Option{
			"token":    {WithAPIToken("ops@pve!ci", canaryToken)},
			"password": {WithPassword("ops@pve", canaryPassword)},
		} {
			t.Run(name+", "+credentials, func(t *testing.T) {
				t.Parallel()
				rt := roundTripper(func(req *http.Request) (*http.Response, error) {
					if resp := login(req); resp != nil {
						return resp, nil
					}
					return fail(req)
				})
				client, err := New(Product{}, "pve1", append(opts, WithTransport(rt), quick())...)
				require.NoError(t, err)
				for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
					var out string
					assertClean(t, method, client.Call(t.Context(), method, "/nodes/pve1/qemu", params, &out))
				}
				assertClean(t, "upload", client.Upload(t.Context(), http.MethodPost, "/x", map[string]string{"content": "iso", "cipassword": canaryCI}, Upload{Body: strings.NewReader("x"), Name: "a.iso"}, nil))
				if _, err := client.Download(t.Context(), http.MethodGet, "/x", params); err != nil {
					assertClean(t, "download", err)
				}
				if _, err := client.WebSocket(t.Context(), "/x", map[string]string{"vncticket": canaryTicket}); err != nil {
					assertClean(t, "websocket", err)
				}
			})
		}
	}
	for name, fail := range failures {
		t.Run("login: "+name, func(t *testing.T) {
			t.Parallel()
			client, err := New(Product{}, "pve1", WithPassword("ops@pve", canaryPassword), WithTransport(roundTripper(fail)), quick())
			require.NoError(t, err)
			assertClean(t, name, client.Call(t.Context(), http.MethodGet, "/x", nil, nil))
		})
		t.Run("second factor: "+name, func(t *testing.T) {
			t.Parallel()
			first := true
			rt := roundTripper(func(req *http.Request) (*http.Response, error) {
				if first {
					first = false
					data, _ := json.Marshal(map[string]any{"data": map[string]any{"NeedTFA": 1, "ticket": "PVE:!tfa!{\"totp\"%3Atrue}:6A1B2C3D::Y2FuYXJ5LXRpY2tldA==", "CSRFPreventionToken": canaryCSRF}})
					return memoryAnswer(200, "OK", string(data)), nil
				}
				return fail(req)
			})
			client, err := New(Product{}, "pve1", WithPassword("ops@pve", canaryPassword), WithTransport(rt), quick(), WithTFA(func(context.Context, TFAChallenge) (TFAAnswer, error) {
				return TFAAnswer{Method: "totp", Value: canaryTOTP}, nil
			}))
			require.NoError(t, err)
			assertClean(t, name, client.Call(t.Context(), http.MethodGet, "/x", nil, nil))
		})
		t.Run("given ticket: "+name, func(t *testing.T) {
			t.Parallel()
			client, err := New(Product{}, "pve1", WithTicket(Ticket{Value: canaryTicket, CSRF: canaryCSRF}), WithTransport(roundTripper(fail)), quick())
			require.NoError(t, err)
			assertClean(t, name, client.Call(t.Context(), http.MethodPost, "/x", params, nil))
		})
	}
}

// TestHiddenErrorsAreStillFound: cleaning a text does not hide what kind of error it was.
func TestHiddenErrorsAreStillFound(t *testing.T) {
	t.Parallel()
	err := hide(fmt.Errorf("token canary-1 refused: %w", io.ErrUnexpectedEOF), []string{"canary-1"})
	assert.Equal(t, "token [redacted] refused: unexpected EOF", err.Error())
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	clean := fmt.Errorf("nothing to hide: %w", io.EOF)
	assert.Equal(t, clean, hide(clean, []string{"canary-1"}))
	assert.NoError(t, hide(nil, nil))
}

func TestRedactPatterns(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Authorization: PVEAPIToken=root@pam!t0=uuid-1":        "Authorization: [redacted]",
		"header [PVEAPIToken=root@pam!t0=uuid-1] sent":         "header [PVEAPIToken=[redacted]] sent",
		"Cookie: PVEAuthCookie=PVE%3Aroot%40pam; other":        "Cookie: [redacted]; other",
		"ticket PVE:root@pam:6A1B2C3D::abc+/= refused":         "ticket PVE:[redacted] refused",
		"PVE: not a ticket":                                    "PVE: not a ticket",
		"CSRFPreventionToken: 6A1B:xyz":                        "CSRFPreventionToken: [redacted]",
		"username=a&password=hunter2&x=1":                      "username=a&password=[redacted]&x=1",
		"VM is locked (backup)":                                "VM is locked (backup)",
		"UPID:pve1:000011A5:00052BA7:6B0E103A:x:100:root@pam:": "UPID:pve1:000011A5:00052BA7:6B0E103A:x:100:root@pam:",
	} {
		assert.Equal(t, want, redact(text, nil))
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("Authorization: PVEAPIToken=a=b", "secret")
	f.Add("x Cookie: y::z PVE:a::b", "PVE:")
	f.Fuzz(func(t *testing.T, text, secret string) {
		if len(secret) < minSecret || strings.Contains(redacted, secret) {
			return
		}
		once := redact(text+secret+text, []string{secret})
		assert.NotContains(t, once, secret)
	})
}
