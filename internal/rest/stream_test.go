package rest

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const uploadPath = "/nodes/pve1/storage/local/upload"

// A receiver stores uploads as pveproxy does: it reads parts in order, and everything
// behind the file's beginning belongs to the file.
type receiver struct {
	fields  []string
	values  map[string]string
	file    []byte
	name    string
	length  int64
	chunked bool
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.length, r.chunked = req.ContentLength, len(req.TransferEncoding) > 0
	_, attributes, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	reader := multipart.NewReader(req.Body, attributes["boundary"])
	r.values = map[string]string{}
	for {
		part, err := reader.NextPart()
		if err != nil {
			break
		}
		data, _ := io.ReadAll(part)
		r.fields = append(r.fields, part.FormName())
		if part.FormName() == "filename" {
			r.file, r.name = data, part.FileName()
		} else {
			r.values[part.FormName()] = string(data)
		}
	}
	w.Header().Set("Content-Type", jsonType)
	fmt.Fprintf(w, `{"data":"UPID:pve1:00012345:0A1B2C3D:6A1B2C3D:imgcopy::ops@pve!ci:"}`)
}

func TestUploadBodies(t *testing.T) {
	t.Parallel()
	content := make([]byte, 300<<10)
	for i := range content {
		content[i] = byte(rand.Uint32())
	}
	sum := sha256.Sum256(content)
	path := filepath.Join(t.TempDir(), "a.img")
	require.NoError(t, os.WriteFile(path, append([]byte("skip"), content...), 0o600))
	for name, body := range map[string]func(t *testing.T) Upload{
		"bytes": func(*testing.T) Upload { return Upload{Body: bytes.NewReader(content)} },
		"reader with size": func(*testing.T) Upload {
			return Upload{Body: onlyReader{bytes.NewReader(content)}, Size: int64(len(content))}
		},
		"reader without": func(*testing.T) Upload { return Upload{Body: onlyReader{bytes.NewReader(content)}} },
		"checksum":       func(*testing.T) Upload { return Upload{Body: bytes.NewReader(content), Checksum: "sha256"} },
		"checksum of a reader": func(*testing.T) Upload {
			return Upload{Body: onlyReader{bytes.NewReader(content)}, Size: int64(len(content)), Checksum: "sha256"}
		},
		"part of a bigger one": func(*testing.T) Upload {
			return Upload{Body: bytes.NewReader(append(append([]byte{}, content...), "more"...)), Size: int64(len(content))}
		},
		"file from where it stands": func(t *testing.T) Upload {
			f, err := os.Open(path)
			require.NoError(t, err)
			t.Cleanup(func() { f.Close() })
			_, err = f.Seek(4, io.SeekStart)
			require.NoError(t, err)
			return Upload{Body: f, Checksum: "sha256"}
		},
		"pipe": func(t *testing.T) Upload {
			r, w, err := os.Pipe()
			require.NoError(t, err)
			go func() {
				_, _ = w.Write(content)
				w.Close()
			}()
			t.Cleanup(func() { r.Close() })
			return Upload{Body: r}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			receiver := &receiver{}
			server := httptest.NewServer(receiver)
			defer server.Close()
			upload := body(t)
			upload.Name = "disk.qcow2"
			var last, size int64
			upload.Progress = func(sent, total int64) {
				assert.Greater(t, sent, last)
				last, size = sent, total
			}
			var upid UPID
			require.NoError(t, newClient(t, server.URL).Upload(t.Context(), http.MethodPost, uploadPath, map[string]string{"content": "import"}, upload, &upid))
			assert.Equal(t, content, receiver.file)
			assert.Equal(t, "disk.qcow2", receiver.name)
			assert.False(t, receiver.chunked)
			assert.Greater(t, receiver.length, int64(len(content)))
			assert.Equal(t, int64(len(content)), last)
			assert.Equal(t, int64(len(content)), size)
			if upload.Checksum != "" {
				assert.Equal(t, []string{"content", "checksum-algorithm", "checksum", "filename"}, receiver.fields)
				assert.Equal(t, hex.EncodeToString(sum[:]), receiver.values["checksum"])
			} else {
				assert.Equal(t, []string{"content", "filename"}, receiver.fields)
			}
		})
	}
}

func TestUploadLeavesNoFileBehind(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	var mode atomic.Uint32
	server := newRawServer(t, func(seen) string {
		entries, err := os.ReadDir(dir)
		if err == nil && len(entries) == 1 {
			if info, err := entries[0].Info(); err == nil {
				mode.Store(uint32(info.Mode().Perm()))
			}
		}
		return replyError(500, "no")
	})
	client := newClient(t, server.URL)
	for _, reader := range []io.Reader{onlyReader{strings.NewReader("secret agent settings")}, io.MultiReader(strings.NewReader("x"), failingReader{errBroken})} {
		require.Error(t, client.Upload(t.Context(), http.MethodPost, uploadPath, nil, Upload{Body: reader, Name: "a.iso"}, nil))
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		assert.Empty(t, entries)
	}
	assert.Equal(t, uint32(0o600), mode.Load())
	assert.Len(t, server.Requests(), 1, "a body that cannot be read is never sent")
}

func TestUploadRefusals(t *testing.T) {
	t.Parallel()
	server := newRawServer(t, func(seen) string { return replyData("null") })
	client := newClient(t, server.URL)
	good := Upload{Body: strings.NewReader("test"), Name: "a.iso"}
	for _, tc := range []struct {
		name   string
		params map[string]string
		change func(*Upload)
		want   string
	}{
		{name: "no body", change: func(u *Upload) { u.Body = nil }, want: "has no body"},
		{name: "no name", change: func(u *Upload) { u.Name = "" }, want: "needs a file name"},
		{name: "directory", change: func(u *Upload) { u.Name = "../a.iso" }, want: "the name alone"},
		{name: "quote", change: func(u *Upload) { u.Name = `a".iso` }, want: "the name alone"},
		{name: "negative size", change: func(u *Upload) { u.Size = -1 }, want: "size is -1"},
		{name: "size too big", change: func(u *Upload) { u.Size = 5 }, want: "its body has 4 bytes"},
		{name: "algorithm", change: func(u *Upload) { u.Checksum = "crc32" }, want: "the servers know md5"},
		{name: "half a checksum", params: map[string]string{"checksum": "x"}, want: "belong together"},
		{name: "tmpfilename", params: map[string]string{"tmpfilename": "x"}, want: "server's own business"},
	} {
		upload := good
		if tc.change != nil {
			tc.change(&upload)
		}
		err := client.Upload(t.Context(), http.MethodPost, uploadPath, tc.params, upload, nil)
		assert.ErrorContains(t, err, tc.want, tc.name)
		assert.ErrorIs(t, err, ErrInvalidParameter, tc.name)
	}
	assert.Empty(t, server.Requests())

	err := client.Upload(t.Context(), http.MethodPost, uploadPath, nil, Upload{Body: onlyReader{strings.NewReader("test")}, Size: 9, Name: "a.iso"}, nil)
	assert.ErrorContains(t, err, "ends 5 bytes early")
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestUploadRetries(t *testing.T) {
	t.Parallel()
	dial := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for _, tc := range []struct {
		name  string
		body  io.Reader
		errs  []error
		calls int
		fails bool
	}{
		{name: "never left, seekable", body: strings.NewReader("test"), errs: []error{dial, dial}, calls: 3},
		{name: "never left, unread reader", body: onlyReader{strings.NewReader("test")}, errs: []error{dial}, calls: 2},
		{name: "may have arrived", body: strings.NewReader("test"), errs: []error{errBroken}, calls: 1, fails: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			rt := roundTripper(func(req *http.Request) (*http.Response, error) {
				calls++
				if calls <= len(tc.errs) {
					return nil, tc.errs[calls-1]
				}
				assert.Contains(t, readAll(t, req.Body), "\r\n\r\ntest\r\n--")
				return memoryAnswer(200, "OK", `{"data":null}`), nil
			})
			client, err := New(Product{}, "pve1", WithTransport(rt), quick())
			require.NoError(t, err)
			err = client.Upload(t.Context(), http.MethodPost, uploadPath, nil, Upload{Body: tc.body, Size: 4, Name: "a.iso"}, nil)
			assert.Equal(t, tc.fails, err != nil, "%v", err)
			assert.Equal(t, tc.calls, calls)
		})
	}
	t.Run("status 596 is no reason", func(t *testing.T) {
		t.Parallel()
		server := newRawServer(t, func(seen) string { return reply(596, "Broken pipe", "", "") })
		err := newClient(t, server.URL).Upload(t.Context(), http.MethodPost, uploadPath, nil, Upload{Body: strings.NewReader("x"), Name: "a.iso"}, nil)
		assert.ErrorIs(t, err, ErrNodeUnreachable)
		assert.Len(t, server.Requests(), 1)
	})
}

func TestBareUpload(t *testing.T) {
	t.Parallel()
	server := newRawServer(t, func(seen) string { return replyData("null") })
	client, err := New(Product{Name: "pbs", Dialect: "rust"}, server.URL)
	require.NoError(t, err)
	require.NoError(t, client.Upload(t.Context(), http.MethodPost, "/admin/datastore/{store}/upload-backup-log",
		map[string]string{"store": "s1", "backup-id": "vm 1"}, Upload{Body: onlyReader{strings.NewReader("log")}, Size: 3}, nil))
	require.NoError(t, client.Upload(t.Context(), http.MethodPost, "/x", nil, Upload{Body: strings.NewReader("")}, nil))
	assert.Zero(t, server.Requests()[1].Length)
	assert.False(t, server.Requests()[1].Chunks)
	got := server.Requests()[0]
	assert.Equal(t, "log", got.Body)
	assert.Equal(t, int64(3), got.Length)
	assert.Equal(t, "application/octet-stream", got.Header.Get("Content-Type"))
	assert.Equal(t, "/api2/json/admin/datastore/s1/upload-backup-log?backup-id=vm+1", got.Target)
}

func TestDownload(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("0123456789", 1000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api2/json/plain":
			w.Header().Set("Content-Disposition", `attachment; filename="log.txt"`)
			http.ServeContent(w, r, "log.txt", time.Time{}, strings.NewReader(content))
		case "/api2/json/noranges":
			w.Header().Set("Content-Length", strconv.Itoa(len(content)))
			_, _ = io.WriteString(w, content)
		case "/api2/json/zipped":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, content)
			z.Close()
		case "/api2/json/cut":
			w.Header().Set("Content-Length", strconv.Itoa(len(content)))
			_, _ = io.WriteString(w, content[:100])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		default:
			w.Header().Set("Content-Type", jsonType)
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"data":null,"message":"no such file\n"}`)
		}
	}))
	defer server.Close()
	server.Config.ErrorLog = discardLog()
	client := newClient(t, server.URL)
	get := func(path string, offset int64) (*Download, string, error) {
		d, err := client.DownloadFrom(t.Context(), http.MethodGet, path, nil, offset)
		if err != nil {
			return nil, "", err
		}
		defer d.Close()
		var received int64
		d.OnProgress(func(n, size int64) {
			assert.Greater(t, n, received)
			assert.Equal(t, d.Size, size)
			received = n
		})
		data, err := io.ReadAll(d)
		assert.Equal(t, int64(len(data)), received)
		return d, string(data), err
	}
	d, text, err := get("/plain", 0)
	require.NoError(t, err)
	assert.Equal(t, content, text)
	assert.Equal(t, int64(len(content)), d.Size)
	assert.Equal(t, "log.txt", d.Name)

	d, text, err = get("/plain", 9990)
	require.NoError(t, err)
	assert.Equal(t, "0123456789", text)
	assert.Equal(t, int64(9990), d.Offset)
	assert.Equal(t, int64(10), d.Size)

	d, text, err = get("/noranges", 9990)
	require.NoError(t, err)
	assert.Equal(t, content, text, "a server without ranges gives the whole")
	assert.Zero(t, d.Offset)

	d, text, err = get("/zipped", 0)
	require.NoError(t, err)
	assert.Equal(t, content, text)
	assert.Equal(t, int64(-1), d.Size)

	_, text, err = get("/cut", 0)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.Len(t, text, 100)

	_, _, err = get("/missing", 0)
	assert.ErrorIs(t, err, ErrNotFound)

	ctx, cancel := context.WithCancel(t.Context())
	open, err := client.Download(ctx, http.MethodGet, "/plain", nil)
	require.NoError(t, err)
	cancel()
	_, err = io.ReadAll(open)
	if err != nil {
		assert.ErrorIs(t, err, context.Canceled)
	}
	require.NoError(t, open.Close())
}

func TestWebSocket(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cert := ca.issue(t, "pve1", net.IPv4(127, 0, 0, 1))
	server := newTLSServer(t, &tls.Config{Certificates: []tls.Certificate{cert}}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api2/json/access/ticket" {
			w.Header().Set("Content-Type", jsonType)
			fmt.Fprint(w, `{"data":{"username":"ops@pve","ticket":"PVE:ops@pve:6A1B2C3D::abc","CSRFPreventionToken":"c"}}`)
			return
		}
		switch {
		case r.Header.Get("Cookie") != "PVEAuthCookie=PVE%3Aops%40pve%3A6A1B2C3D%3A%3Aabc":
			w.WriteHeader(http.StatusForbidden)
			return
		case r.URL.RawQuery != "port=5900&vncticket=PVEVNC%3Ax":
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		protocols := []string{"binary"}
		if r.URL.Path == "/api2/json/other" {
			protocols = nil
		}
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: protocols})
		if err != nil {
			return
		}
		stream := websocket.NetConn(r.Context(), conn, websocket.MessageBinary)
		defer stream.Close()
		_, _ = io.Copy(stream, stream)
	})
	params := map[string]any{"port": 5900, "vncticket": "PVEVNC:x"}
	pin := WithFingerprint(fingerprintOf(cert))

	conn, err := newClient(t, server.URL, pin, WithPassword("ops@pve", "pw")).WebSocket(t.Context(), "/nodes/pve1/qemu/100/vncwebsocket", params)
	require.NoError(t, err)
	for _, message := range []string{"hello", strings.Repeat("x", 100<<10)} {
		_, err = io.WriteString(conn, message)
		require.NoError(t, err)
		got := make([]byte, len(message))
		_, err = io.ReadFull(conn, got)
		require.NoError(t, err)
		assert.Equal(t, message, string(got))
	}
	require.NoError(t, conn.Close())

	_, err = newClient(t, server.URL, pin, WithPassword("ops@pve", "pw")).WebSocket(t.Context(), "/other", params)
	assert.ErrorContains(t, err, "subprotocol binary")

	_, err = newClient(t, server.URL, pin, WithAPIToken("ops@pve!t", "secret")).WebSocket(t.Context(), "/x", params)
	assert.ErrorIs(t, err, ErrPermission)
	assert.ErrorContains(t, err, "API tokens")

	_, err = newClient(t, server.URL, WithFingerprint(strings.Repeat("00", 32)), WithAPIToken("ops@pve!t", "secret")).WebSocket(t.Context(), "/x", params)
	assert.ErrorIs(t, err, ErrCertificate)
	assert.ErrorIs(t, err, ErrNotSent)
}
