package pvetest_test

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/proxkit/proxkit/pve/pvetest"
	"github.com/stretchr/testify/require"
)

// A caller sends requests to a cluster and takes the answers apart.
type caller struct {
	t       *testing.T
	srv     *pvetest.Server
	headers map[string]string
	client  *http.Client
}

// A got is an answer.
type got struct {
	Status  int
	Reason  string
	Header  http.Header
	Body    string
	Data    any
	Message string
	Errors  map[string]string
	Total   int
	Close   bool // the server ends the connection
}

// start runs a cluster and returns a caller with root's token.
func start(t *testing.T, opts ...pvetest.Option) *caller {
	t.Helper()
	srv := pvetest.RunT(t, opts...)
	id, secret := srv.RootToken()
	return newCaller(t, srv).token(id, secret)
}

// newCaller returns a caller without credentials.
func newCaller(t *testing.T, srv *pvetest.Server) *caller {
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: srv.CertPool()}, DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &caller{t: t, srv: srv, client: &http.Client{Transport: tr}, headers: map[string]string{}}
}

// with returns a caller with another header.
func (c *caller) with(name, val string) *caller {
	out := *c
	out.headers = map[string]string{}
	for k, v := range c.headers {
		out.headers[k] = v
	}
	out.headers[name] = val
	if val == "" {
		delete(out.headers, name)
	}
	return &out
}

func (c *caller) token(id, secret string) *caller {
	return c.with("Authorization", "PVEAPIToken="+id+"="+secret)
}

// do sends a body, if there is one, as a form.
func (c *caller) do(method, path string, body ...string) got {
	c.t.Helper()
	var r io.Reader
	if len(body) > 0 {
		r = strings.NewReader(body[0])
	}
	if !strings.HasPrefix(path, "/api2/") {
		path = "/api2/json" + path
	}
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.srv.URL()+path, r)
	require.NoError(c.t, err)
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for k, v := range c.headers {
		req.Header.Set(k, v)
	}
	resp, err := c.client.Do(req)
	require.NoError(c.t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	require.NoError(c.t, err)
	out := got{Status: resp.StatusCode, Reason: strings.TrimPrefix(resp.Status, resp.Status[:3]+" "), Header: resp.Header, Body: string(data), Close: resp.Close}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") && resp.Header.Get("Content-Encoding") == "" {
		var v struct {
			Data    any
			Message string
			Errors  map[string]string
			Total   int
		}
		require.NoError(c.t, json.Unmarshal(data, &v), string(data))
		out.Data, out.Message, out.Errors, out.Total = v.Data, v.Message, v.Errors, v.Total
	}
	return out
}

// ok is do for a call that must succeed.
func (c *caller) ok(method, path string, body ...string) any {
	c.t.Helper()
	g := c.do(method, path, body...)
	require.Equal(c.t, 200, g.Status, "%s %s: %s %s", method, path, g.Reason, g.Body)
	return g.Data
}

// taskOf is ok for a call that starts a task; it returns the exit status.
func (c *caller) taskOf(method, path string, body ...string) string {
	c.t.Helper()
	upid, ok := c.ok(method, path, body...).(string)
	require.True(c.t, ok)
	node := strings.Split(upid, ":")[1]
	st := c.ok("GET", "/nodes/"+node+"/tasks/"+upid+"/status").(map[string]any)
	exit, _ := st["exitstatus"].(string)
	return exit
}

// login returns a caller with a ticket.
func (c *caller) login(user, password string) *caller {
	c.t.Helper()
	m := c.with("Authorization", "").ok("POST", "/access/ticket", "username="+user+"&password="+password).(map[string]any)
	return c.with("Authorization", "").with("Cookie", "PVEAuthCookie="+strings.ReplaceAll(m["ticket"].(string), "+", "%2B")).
		with("CSRFPreventionToken", m["CSRFPreventionToken"].(string))
}

// raw sends bytes over TLS and returns all that comes back before the server
// closes or falls silent.
func (c *caller) raw(request string) string {
	c.t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(c.srv.URL(), "https://"), &tls.Config{RootCAs: c.srv.CertPool()})
	require.NoError(c.t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, request)
	require.NoError(c.t, err)
	require.NoError(c.t, conn.SetReadDeadline(time.Now().Add(2*time.Second)))
	data, err := io.ReadAll(conn)
	if nerr, ok := err.(net.Error); !ok || !nerr.Timeout() {
		return string(data)
	}
	return string(data)
}

// auth is the line of the caller's credentials for raw requests.
func (c *caller) auth() string { return "Authorization: " + c.headers["Authorization"] + "\r\n" }
