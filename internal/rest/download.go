package rest

import (
	"compress/gzip"
	"context"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/proxkit/proxkit/internal/wire"
)

// A Download is a file on its way from the server. The caller closes it.
type Download struct {
	io.ReadCloser

	// Size is the number of bytes to come, or -1 where the server does not say.
	Size int64

	ContentType string

	// Name is the file name that the server suggests, or empty.
	Name string

	// Offset is where in the file the stream begins: not 0 when a range was asked for
	// and granted.
	Offset int64
}

// OnProgress calls f after every read with the number of bytes that this stream has
// given and with Size. It must be called before the first read.
func (d *Download) OnProgress(f func(received, size int64)) {
	d.ReadCloser = &countingReader{ReadCloser: d.ReadCloser, size: d.Size, progress: f}
}

type countingReader struct {
	io.ReadCloser
	received, size int64
	progress       func(received, size int64)
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if n > 0 {
		r.received += int64(n)
		r.progress(r.received, r.size)
	}
	return n, err
}

// Download makes a call whose answer is a file. A body that breaks off is an error of
// the reader, never a silent end. Repeated are only requests whose answer has not begun.
func (c *Client) Download(ctx context.Context, method, path string, params any) (*Download, error) {
	return c.DownloadFrom(ctx, method, path, params, 0)
}

// DownloadFrom is Download from the given offset on, where the server allows it;
// [Download.Offset] says where the stream really begins.
func (c *Client) DownloadFrom(ctx context.Context, method, path string, params any, offset int64) (*Download, error) {
	call, used, err := c.newTarget(method, path, params)
	if err != nil {
		return nil, err
	}
	if params != nil {
		if call.query, err = wire.EncodeForm(params, used); err != nil {
			return nil, c.argumentError(call, err)
		}
	}
	call.open = true
	// Compressed answers have no size, and files are mostly compressed already.
	call.header = http.Header{"Accept": {"*/*"}, "Accept-Encoding": {"identity"}}
	if offset > 0 {
		call.header["Range"] = []string{"bytes=" + strconv.FormatInt(offset, 10) + "-"}
	}
	answer, err := c.send(ctx, call)
	if err != nil {
		return nil, c.explain(ctx, call, err)
	}
	resp := answer.response
	d := &Download{ReadCloser: resp.Body, Size: resp.ContentLength, ContentType: resp.Header.Get("Content-Type")}
	if _, attributes, err := mime.ParseMediaType(resp.Header.Get("Content-Disposition")); err == nil {
		d.Name = attributes["filename"]
	}
	if resp.StatusCode == http.StatusPartialContent {
		// "bytes 100-199/200"
		text, _ := strings.CutPrefix(resp.Header.Get("Content-Range"), "bytes ")
		first, _, _ := strings.Cut(text, "-")
		d.Offset, _ = strconv.ParseInt(first, 10, 64)
	}
	if resp.Header.Get("Content-Encoding") == "gzip" {
		// Some calls compress whatever was asked for.
		unzip, err := gzip.NewReader(resp.Body)
		if err != nil {
			resp.Body.Close()
			return nil, c.decodeError(call, err)
		}
		d.ReadCloser, d.Size = &gunzip{unzip, resp.Body}, -1
	}
	return d, nil
}

type gunzip struct {
	*gzip.Reader
	body io.Closer
}

func (g *gunzip) Close() error { return g.body.Close() }
