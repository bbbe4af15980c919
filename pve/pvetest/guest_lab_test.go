package pvetest

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A lab is a simulated cluster with a client that speaks plain HTTP.
type lab struct {
	t    *testing.T
	s    *Server
	auth string
	http *http.Client
}

func newLab(t *testing.T, opts ...Option) *lab {
	t.Helper()
	s := RunT(t, append([]Option{WithSeed(1)}, opts...)...)
	id, secret := s.RootToken()
	return &lab{t: t, s: s, auth: "PVEAPIToken=" + id + "=" + secret, http: trusting(t, s)}
}

// trusting is a client that trusts the cluster's authority.
func trusting(t *testing.T, s *Server) *http.Client {
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.CertPool()}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// as returns the lab seen by the owner of another token.
func (l *lab) as(id, secret string) *lab {
	other := *l
	other.auth = "PVEAPIToken=" + id + "=" + secret
	return &other
}

// asRoot returns the lab seen by root itself, with a ticket.
func (l *lab) asRoot() *lab {
	other := *l
	other.auth = ""
	a := other.call("POST", "/access/ticket", "username=root@pam&password=proxmox")
	require.Equal(l.t, 200, a.status)
	m := a.data.(map[string]any)
	other.auth = "ticket " + m["ticket"].(string) + " " + m["CSRFPreventionToken"].(string)
	return &other
}

// An answer is a response taken apart.
type answer struct {
	status int
	reason string
	errs   map[string]string
	data   any
}

// call sends a form; for GET and DELETE it goes into the query.
func (l *lab) call(method, path, form string) answer {
	l.t.Helper()
	form = encodeForm(form)
	target := l.s.URL() + "/api2/json" + path
	var body io.Reader
	if method == "GET" || method == "DELETE" {
		if form != "" {
			target += "?" + form
		}
	} else {
		body = strings.NewReader(form)
	}
	req, err := http.NewRequestWithContext(l.t.Context(), method, target, body)
	require.NoError(l.t, err)
	if body != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return l.send(req)
}

// encodeForm escapes what stands in a form written by hand.
func encodeForm(form string) string {
	if form == "" {
		return ""
	}
	var parts []string
	for pair := range strings.SplitSeq(form, "&") {
		k, v, _ := strings.Cut(pair, "=")
		parts = append(parts, k+"="+url.QueryEscape(v))
	}
	return strings.Join(parts, "&")
}

func (l *lab) send(req *http.Request) answer {
	l.t.Helper()
	if rest, ok := strings.CutPrefix(l.auth, "ticket "); ok {
		ticket, csrf, _ := strings.Cut(rest, " ")
		req.Header.Set("Cookie", "PVEAuthCookie="+url.QueryEscape(ticket))
		req.Header.Set("CSRFPreventionToken", csrf)
	} else if l.auth != "" {
		req.Header.Set("Authorization", l.auth)
	}
	resp, err := l.http.Do(req)
	require.NoError(l.t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(l.t, err)
	a := answer{status: resp.StatusCode, reason: strings.TrimPrefix(resp.Status, resp.Status[:3]+" ")}
	var m struct {
		Data   any               `json:"data"`
		Errors map[string]string `json:"errors"`
	}
	if len(raw) > 0 {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		require.NoError(l.t, d.Decode(&m), "%s", raw)
	}
	a.data, a.errs = m.Data, m.Errors
	return a
}

// ok is call that must succeed, and returns its data.
func (l *lab) ok(method, path, form string) any {
	l.t.Helper()
	a := l.call(method, path, form)
	require.Equal(l.t, 200, a.status, "%s %s: %s %v", method, path, a.reason, a.errs)
	return a.data
}

// get is a GET of an object.
func (l *lab) get(path string) map[string]any {
	l.t.Helper()
	m, ok := l.ok("GET", path, "").(map[string]any)
	require.True(l.t, ok, "%s is no object", path)
	return m
}

// list is a GET of a list of objects.
func (l *lab) list(path string) []map[string]any {
	l.t.Helper()
	var rows []map[string]any
	for _, e := range l.ok("GET", path, "").([]any) {
		rows = append(rows, e.(map[string]any))
	}
	return rows
}

// task runs a call that starts a task, and returns its exit status and log.
func (l *lab) task(method, path, form string) (exit string, log []string) {
	l.t.Helper()
	upid, ok := l.ok(method, path, form).(string)
	require.True(l.t, ok && strings.HasPrefix(upid, "UPID:"), "%s %s gave no task: %v", method, path, upid)
	return l.ended(upid)
}

// ended returns how a task ended.
func (l *lab) ended(upid string) (exit string, log []string) {
	l.t.Helper()
	for _, t := range l.s.Tasks() {
		if t.UPID == upid {
			return t.Status, t.Log
		}
	}
	l.t.Fatalf("no task %s", upid)
	return "", nil
}

// done is task that must end well.
func (l *lab) done(method, path, form string) []string {
	l.t.Helper()
	exit, log := l.task(method, path, form)
	require.Equal(l.t, "OK", exit, "%s %s: %q", method, path, log)
	return log
}

// config returns a guest's config without what is random.
func (l *lab) config(vmid string) map[string]any {
	l.t.Helper()
	m := l.get("/nodes/pve1/qemu/" + vmid + "/config")
	for _, k := range []string{"digest", "meta", "smbios1", "vmgenid"} {
		delete(m, k)
	}
	for k, v := range m {
		if n, ok := v.(json.Number); ok {
			i, err := n.Int64()
			require.NoError(l.t, err)
			m[k] = int(i)
		}
	}
	return m
}

// upload sends a file with fields before it.
func (l *lab) upload(storage, name string, data []byte, fields ...string) answer {
	l.t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i < len(fields); i += 2 {
		require.NoError(l.t, w.WriteField(fields[i], fields[i+1]))
	}
	f, err := w.CreateFormFile("filename", name)
	require.NoError(l.t, err)
	_, err = f.Write(data)
	require.NoError(l.t, err)
	require.NoError(l.t, w.Close())
	req, err := http.NewRequestWithContext(l.t.Context(), "POST", l.s.URL()+"/api2/json/nodes/pve1/storage/"+storage+"/upload", &b)
	require.NoError(l.t, err)
	req.Header.Set("Content-Type", w.FormDataContentType())
	return l.send(req)
}

// qcow2 returns the header of a qcow2 image of a size, with some data behind.
func qcow2(size uint64) []byte {
	head := make([]byte, 1024)
	copy(head, "QFI\xfb")
	head[7] = 3
	for i := range 8 {
		head[24+i] = byte(size >> (56 - 8*i))
	}
	copy(head[512:], "payload")
	return head
}

// addData adds the storage of the recordings, a directory.
func (l *lab) addData() {
	l.t.Helper()
	l.ok("POST", "/storage", "storage=data&type=dir&path=/var/lib/data&content=images,iso,backup,snippets,import")
}

// A step is one call and how it is answered: "" for 200, "500 text" for an
// error, "400 parameter: text", or "task text" for how its task ends.
type step struct{ call, form, want string }

// run makes the calls in turn.
func (l *lab) run(steps []step) {
	l.t.Helper()
	for _, s := range steps {
		method, path, _ := strings.Cut(s.call, " ")
		path = strings.Replace(path, "~", "/nodes/pve1/qemu", 1)
		a := l.call(method, path, s.form)
		got := ""
		if a.status != 200 {
			got = strconv.Itoa(a.status) + " " + a.reason
		}
		for _, k := range sortedKeys(a.errs) {
			got = strconv.Itoa(a.status) + " " + k + ": " + strings.TrimSuffix(a.errs[k], "\n")
		}
		if upid, ok := a.data.(string); ok && a.status == 200 && strings.HasPrefix(upid, "UPID:") {
			exit, _ := l.ended(upid)
			got = "task " + exit
		}
		require.Equal(l.t, s.want, got, "%s %s", s.call, s.form)
	}
}
