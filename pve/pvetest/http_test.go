package pvetest_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What the HTTP layer answers before the API sees a request.
func TestHTTPLayer(t *testing.T) {
	t.Parallel()
	c := start(t)
	for _, tc := range []struct {
		name, method, path, ctype, body string
		status                          int
		reason, text                    string
	}{
		{name: "unknown content type", method: "PUT", path: "/version", ctype: "text/plain", body: "x", status: 506, reason: "upload 'Content-Type 'text/plain' not implemented", text: "upload 'Content-Type 'text/plain' not implemented"},
		{name: "malformed JSON", method: "POST", path: "/pools", ctype: "application/json", body: "{bad", status: 500, reason: "malformed JSON string"},
		{name: "JSON that is no object", method: "POST", path: "/pools", ctype: "application/json", body: "[1]", status: 500, reason: "Not a HASH reference at /usr/share/perl5/PVE/APIServer/AnyEvent.pm line 978.", text: "Not a HASH reference at /usr/share/perl5/PVE/APIServer/AnyEvent.pm line 978."},
		{name: "body with DELETE", method: "DELETE", path: "/pools/x", body: "a=1", status: 501, reason: "Unexpected content for method 'DELETE'"},
		{name: "body with GET", method: "GET", path: "/version", body: "a=1", status: 501, reason: "Unexpected content for method 'GET'"},
		{name: "large body", method: "POST", path: "/pools", body: strings.Repeat("a", 512<<10+1), status: 501, reason: "for data too large"},
		{name: "HEAD", method: "HEAD", path: "/version", status: 501, reason: "method 'HEAD' not available"},
		{name: "PATCH", method: "PATCH", path: "/version", status: 501, reason: "method 'PATCH' not available"},
		{name: "unknown path", method: "GET", path: "/nope", status: 501, reason: "Method 'GET /nope' not implemented"},
		{name: "unknown method", method: "POST", path: "/version", status: 501, reason: "Method 'POST /version' not implemented"},
		{name: "unknown format", method: "GET", path: "/api2/xml/version", status: 501, reason: "no formatter for uri /version, xml", text: "no formatter for uri /version, xml"},
		{name: "trailing slash", method: "GET", path: "/version/", status: 200, reason: "OK"},
		{name: "double slash", method: "GET", path: "//version", status: 200, reason: "OK"},
		{name: "root", method: "GET", path: "/", status: 200, reason: "OK"},
		{name: "encoded path", method: "GET", path: "/access/users/root%40pam", status: 200, reason: "OK"},
		{name: "unknown node", method: "GET", path: "/nodes/nope/status", status: 500, reason: "hostname lookup 'nope' failed - "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			k := *c
			k.t = t
			call := &k
			if tc.ctype != "" {
				call = call.with("Content-Type", tc.ctype)
			}
			var body []string
			if tc.body != "" {
				body = []string{tc.body}
			}
			g := call.do(tc.method, tc.path, body...)
			assert.Equal(t, tc.status, g.Status)
			assert.True(t, strings.HasPrefix(g.Reason, tc.reason), g.Reason)
			if tc.text != "" {
				assert.Equal(t, tc.text, g.Body)
			}
			if tc.status != 200 {
				assert.True(t, g.Close)
			}
		})
	}
}

func TestRawHTTP(t *testing.T) {
	t.Parallel()
	c := start(t)
	t.Run("chunked", func(t *testing.T) {
		t.Parallel()
		out := c.raw("POST /api2/json/pools HTTP/1.1\r\nHost: x\r\n" + c.auth() + "Transfer-Encoding: chunked\r\n\r\n3\r\na=1\r\n0\r\n\r\n")
		assert.True(t, strings.HasPrefix(out, "HTTP/1.1 501 chunked transfer encoding not supported\r\n"), out)
	})
	t.Run("too many header lines", func(t *testing.T) {
		t.Parallel()
		assert.Empty(t, c.raw("GET /api2/json/version HTTP/1.1\r\nHost: x\r\n"+strings.Repeat("X-A: b\r\n", 70)+"\r\n"))
	})
	t.Run("too long a header", func(t *testing.T) {
		t.Parallel()
		assert.Empty(t, c.raw("GET /api2/json/version HTTP/1.1\r\nX-A: "+strings.Repeat("b", 9000)+"\r\n\r\n"))
	})
	t.Run("relayed answers carry both words", func(t *testing.T) {
		t.Parallel()
		out := c.raw("PUT /api2/json/cluster/options HTTP/1.1\r\n" + c.auth() + "Content-Length: 13\r\n\r\ndescription=x" +
			"GET /api2/json/version HTTP/1.1\r\n" + c.auth() + "Connection: close\r\n\r\n")
		first, second, ok := strings.Cut(out, "}HTTP/1.1 200 OK")
		require.True(t, ok, out)
		assert.Contains(t, first, "Connection: close\r\n")
		assert.Contains(t, first, "Connection: Keep-Alive\r\n")
		assert.NotContains(t, second, "Keep-Alive")
		assert.Contains(t, second, "Server: pve-api-daemon/3.0\r\n")
	})
	t.Run("an error ends the connection", func(t *testing.T) {
		t.Parallel()
		out := c.raw("GET /api2/json/nope HTTP/1.1\r\n" + c.auth() + "\r\nGET /api2/json/version HTTP/1.1\r\n" + c.auth() + "\r\n")
		assert.Equal(t, 1, strings.Count(out, "HTTP/1.1 "))
	})
	t.Run("plain HTTP", func(t *testing.T) {
		t.Parallel()
		conn, err := net.Dial("tcp", strings.TrimPrefix(c.srv.URL(), "https://"))
		require.NoError(t, err)
		defer conn.Close()
		_, err = io.WriteString(conn, "GET / HTTP/1.1\r\n\r\n")
		require.NoError(t, err)
		data, _ := io.ReadAll(conn)
		assert.Contains(t, string(data), "301")
		assert.Contains(t, string(data), "Location: https://")
	})
}

func TestGzip(t *testing.T) {
	t.Parallel()
	c := start(t).with("Accept-Encoding", "gzip")
	assert.Empty(t, c.do("GET", "/version").Header.Get("Content-Encoding"), "a small answer")
	g := c.do("GET", "/access/roles")
	require.Equal(t, "gzip", g.Header.Get("Content-Encoding"))
}

func TestParameters(t *testing.T) {
	t.Parallel()
	c := start(t)
	require.NoError(t, c.srv.AddVM(100, vm(map[string]string{"name": "a", "memory": "64"})))
	js := c.with("Content-Type", "application/json")
	const config = "/nodes/pve1/qemu/100/config"
	for _, tc := range []struct {
		name   string
		c      *caller
		method string
		path   string
		body   []string
		errs   map[string]string // nil: accepted
	}{
		{name: "the query wins over the body", c: c, method: "PUT", path: config + "?name=query", body: []string{"name=body"}},
		{name: "path and body conflict", c: c, method: "PUT", path: config, body: []string{"vmid=101&name=x"}, errs: map[string]string{"vmid": "duplicate parameter (already defined in URI) with conflicting values!"}},
		{name: "path and body agree", c: c, method: "PUT", path: config, body: []string{"vmid=100&name=x"}},
		{name: "unknown in a query", c: c, method: "GET", path: "/version?foo=1", errs: map[string]string{"foo": "property is not defined in schema and the schema does not allow additional properties"}},
		{name: "a word is no boolean", c: c, method: "PUT", path: config, body: []string{"onboot=true"}, errs: map[string]string{"onboot": "type check ('boolean') failed - got 'true'"}},
		{name: "a JSON boolean", c: js, method: "PUT", path: config, body: []string{`{"onboot":true}`}},
		{name: "a JSON number", c: js, method: "PUT", path: config, body: []string{`{"cores":2}`}},
		{name: "a JSON array for a list", c: js, method: "PUT", path: config, body: []string{`{"tags":["a","b"]}`}},
		{name: "a JSON array for a text", c: js, method: "PUT", path: config, body: []string{`{"name":["a"]}`}, errs: map[string]string{"name": "type check ('string') failed - got ARRAY"}},
		{name: "a JSON object", c: js, method: "PUT", path: config, body: []string{`{"net1":{"model":"virtio"}}`}, errs: map[string]string{"net1": "type check ('string') failed - got HASH"}},
		{name: "a JSON null", c: js, method: "PUT", path: config, body: []string{`{"description":null}`}},
		{name: "a repeated key is a list", c: c, method: "PUT", path: config, body: []string{"delete=tags&delete=cores"}},
		{name: "everything at once", c: c, method: "POST", path: "/nodes/pve1/qemu", body: []string{"cores=x&onboot=2&foo=1&net32=virtio"}, errs: map[string]string{
			"vmid": "property is missing and it is not optional", "cores": "type check ('integer') failed - got 'x'", "onboot": "type check ('boolean') failed - got '2'",
			"foo":   "property is not defined in schema and the schema does not allow additional properties",
			"net32": "property is not defined in schema and the schema does not allow additional properties",
		}},
		{name: "a property string without its model", c: c, method: "PUT", path: config, body: []string{"net0=bridge%3Dvmbr0"}, errs: map[string]string{"net0": "invalid format - format error\nnet0.model: property is missing and it is not optional\n"}},
		{name: "a property string with a wrong key", c: c, method: "PUT", path: config, body: []string{"net0=virtio,nope%3D1"}, errs: map[string]string{"net0": "invalid format - format error\nnet0.nope: property is not defined in schema and the schema does not allow additional properties\n"}},
		{name: "a long digest", c: c, method: "PUT", path: config, body: []string{"name=x&digest=" + strings.Repeat("a", 41)}, errs: map[string]string{"digest": "value may only be 40 characters long"}},
		{name: "another parameter is needed", c: c, method: "POST", path: "/nodes/pve1/storage/local/download-url", body: []string{"url=http://x/a.iso&content=iso&filename=a.iso&checksum=abc"}, errs: map[string]string{"checksum-algorithm": "missing property required by 'checksum'"}},
		{name: "a bad name", c: c, method: "PUT", path: config, body: []string{"name=a_b"}, errs: map[string]string{"name": "invalid format - value does not look like a valid DNS name\n"}},
		{name: "a bad tag", c: c, method: "PUT", path: config, body: []string{"tags=bad!tag"}, errs: map[string]string{"tags": "invalid format - invalid characters in tag\n"}},
		{name: "a bad cpu", c: c, method: "PUT", path: config, body: []string{"cpu=nosuchcpu"}, errs: map[string]string{"cpu": "invalid format - Built-in cputype 'nosuchcpu' is not defined (missing 'custom-' prefix?)\n"}},
		{name: "a bad startup order", c: c, method: "PUT", path: config, body: []string{"startup=order%3D-1"}, errs: map[string]string{"startup": "invalid format - unable to parse startup options\n"}},
		{name: "a bad hotplug feature", c: c, method: "PUT", path: config, body: []string{"hotplug=disk,foo"}, errs: map[string]string{"hotplug": "invalid format - invalid hotplug feature 'foo'\n"}},
		{name: "too little memory", c: c, method: "PUT", path: config, body: []string{"memory=8"}, errs: map[string]string{"memory": "invalid format - format error\nmemory.current: value must have a minimum value of 16\n"}},
		{name: "a disk option of another bus", c: c, method: "PUT", path: config, body: []string{"virtio1=local:1,ssd%3D1"}, errs: map[string]string{"virtio1": "invalid format - format error\nvirtio1.ssd: property is not defined in schema and the schema does not allow additional properties\n"}},
		{name: "sshkeys that are not encoded", c: c, method: "PUT", path: config, body: []string{"sshkeys=ssh-rsa%20AAAA"}, errs: map[string]string{"sshkeys": "invalid format - invalid urlencoded string: ssh-rsa AAAA\n"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := *tc.c
			k.t = t
			g := k.do(tc.method, tc.path, tc.body...)
			if tc.errs == nil {
				assert.Equal(t, 200, g.Status, g.Body)
				return
			}
			assert.Equal(t, 400, g.Status, g.Body)
			assert.Equal(t, "Parameter verification failed.", g.Reason)
			assert.Equal(t, "Parameter verification failed.\n", g.Message)
			assert.Equal(t, tc.errs, g.Errors)
		})
	}
}

func TestExtJS(t *testing.T) {
	t.Parallel()
	c := start(t)
	g := c.do("GET", "/api2/extjs/version")
	assert.Equal(t, 200, g.Status)
	assert.Contains(t, g.Body, `"success":1`)
	g = c.do("POST", "/api2/extjs/nodes/pve1/qemu", "vmid=99")
	assert.Equal(t, 200, g.Status)
	assert.Contains(t, g.Body, `"success":0`)
	assert.Contains(t, g.Body, `"status":"400"`)
	g = c.do("GET", "/api2/extjs/nodes/pve1/qemu/4711/config")
	assert.Contains(t, g.Body, `"status":500`)
}

// multi makes a multipart body of fields and a file, in the given order.
func multi(t *testing.T, parts ...string) (ctype, body string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, p := range parts {
		name, val, _ := strings.Cut(p, "=")
		if file, ok := strings.CutPrefix(name, "@"); ok {
			f, err := w.CreateFormFile("filename", file)
			require.NoError(t, err)
			_, err = io.WriteString(f, val)
			require.NoError(t, err)
			continue
		}
		require.NoError(t, w.WriteField(name, val))
	}
	require.NoError(t, w.Close())
	return w.FormDataContentType(), b.String()
}

func TestUpload(t *testing.T) {
	t.Parallel()
	const path = "/nodes/pve1/storage/local/upload"
	t.Run("a file", func(t *testing.T) {
		t.Parallel()
		c := start(t)
		ctype, body := multi(t, "content=iso", "@a.iso=0123456789")
		require.Equal(t, "OK", c.with("Content-Type", ctype).taskOf("POST", path, body))
		data, err := c.srv.VolumeBytes("local:iso/a.iso")
		require.NoError(t, err)
		assert.Equal(t, "0123456789", string(data))
	})
	t.Run("fields after the file end up in it", func(t *testing.T) {
		t.Parallel()
		c := start(t)
		ctype, body := multi(t, "content=iso", "@a.iso=0123456789", "checksum=x")
		require.Equal(t, "OK", c.with("Content-Type", ctype).taskOf("POST", path, body))
		data, err := c.srv.VolumeBytes("local:iso/a.iso")
		require.NoError(t, err)
		assert.Greater(t, len(data), 10)
		assert.Contains(t, string(data), `name="checksum"`)
	})
	t.Run("content after the file", func(t *testing.T) {
		t.Parallel()
		c := start(t)
		ctype, body := multi(t, "@a.iso=0123456789", "content=iso")
		g := c.with("Content-Type", ctype).do("POST", path, body)
		assert.Equal(t, 400, g.Status)
		assert.Equal(t, "property is missing and it is not optional", g.Errors["content"])
	})
	t.Run("larger than a request may be", func(t *testing.T) {
		t.Parallel()
		c := start(t)
		big := strings.Repeat("x", 3<<20)
		ctype, body := multi(t, "content=iso", "@a.iso="+big)
		require.Equal(t, "OK", c.with("Content-Type", ctype).taskOf("POST", path, body))
		v, ok := c.srv.Volume("local:iso/a.iso")
		require.True(t, ok)
		assert.EqualValues(t, 3<<20, v.Size)
	})
}
