package rest

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime"
	"mime/multipart"
	"net/textproto"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/proxkit/proxkit/internal/wire"
)

// An Upload is a file on its way to the server. Its bytes are streamed; they are never
// held in memory.
type Upload struct {
	// Body holds the file. It is read from its current position on, and never closed. A
	// body that can seek is its own measure, can be checksummed and can be sent again
	// when the first request did not leave; any other body needs Size, or goes through a
	// temporary file.
	Body io.Reader

	// Size is the number of bytes in Body. 0 means unknown, unless Body can seek.
	Size int64

	// Name is the file's name on the server, where the call takes files.
	Name string

	// Checksum makes the server check the file: "md5", "sha1", "sha224", "sha256",
	// "sha384" or "sha512". It takes one more pass over the body.
	Checksum string

	// Progress is called from time to time with the number of bytes sent, and again
	// from zero when the request has to be repeated.
	Progress func(sent, size int64)

	// ContentType is for calls that take a bare stream, "application/octet-stream"
	// unless set. Files always have that type.
	ContentType string
}

// Upload makes a call whose body is a file. Products with the perl dialect get a
// multipart form, the others a bare stream with the parameters in the query.
//
// An upload is repeated only when its request never left and the body can seek.
func (c *Client) Upload(ctx context.Context, method, path string, params any, body Upload, out any) error {
	call, used, err := c.newTarget(method, path, params)
	if err != nil {
		return err
	}
	call.kind = kindUpload
	if body.Body == nil {
		return c.argumentError(call, errors.New("the upload has no body"))
	}
	form := ""
	if params != nil {
		if form, err = wire.EncodeForm(params, used); err != nil {
			return c.argumentError(call, err)
		}
	}
	source, err := newUploadSource(ctx, body)
	if err != nil {
		return c.argumentError(call, err)
	}
	defer source.close()
	if c.product.perl() {
		err = c.multipart(call, source, body, form)
	} else {
		call.query = form
		call.contentType = cmpOr(body.ContentType, "application/octet-stream")
		call.stream, call.streamLength = func() (io.ReadCloser, error) { return source.open(nil, nil) }, source.size
	}
	if err != nil {
		return c.argumentError(call, err)
	}
	call.rewinds, call.fields = source.seeker != nil, form
	answer, err := c.send(ctx, call)
	if err != nil {
		return c.explain(ctx, call, err)
	}
	_, err = c.decode(call, answer.body, out)
	return err
}

// multipart puts the fields and the file into the shape that pveproxy's own parser
// reads: content, checksum-algorithm, checksum, other fields, and the file last, since
// fields behind it end up inside the stored file.
func (c *Client) multipart(call *call, source *uploadSource, body Upload, form string) error {
	values, err := url.ParseQuery(form)
	if err != nil {
		return err
	}
	name := cmpOr(body.Name, values.Get("filename"))
	values.Del("filename")
	switch {
	case name == "":
		return errors.New("the upload needs a file name")
	case strings.ContainsAny(name, "/\\\"\r\n\x00"):
		return fmt.Errorf("file name %q: the name alone is wanted, without directory or quotes", name)
	case values.Has("tmpfilename"):
		return errors.New("tmpfilename is the server's own business")
	case values.Has("checksum") != values.Has("checksum-algorithm"):
		return errors.New("checksum and checksum-algorithm belong together")
	}
	if body.Checksum != "" && !values.Has("checksum") {
		sum, err := source.checksum(body.Checksum)
		if err != nil {
			return err
		}
		values.Set("checksum-algorithm", body.Checksum)
		values.Set("checksum", sum)
	}
	var head bytes.Buffer
	w := multipart.NewWriter(&head)
	if err := w.SetBoundary(boundary()); err != nil {
		return err
	}
	order := []string{"content", "checksum-algorithm", "checksum"}
	for pair := range strings.SplitSeq(form, "&") {
		key, _, _ := strings.Cut(pair, "=")
		if key, err = url.QueryUnescape(key); err == nil && key != "" {
			order = append(order, key)
		}
	}
	for _, key := range order {
		for _, value := range values[key] {
			if err := w.WriteField(key, value); err != nil {
				return err
			}
		}
		values.Del(key)
	}
	if _, err := w.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="filename"; filename="` + name + `"`},
		"Content-Type":        {"application/octet-stream"},
	}); err != nil {
		return err
	}
	tail := []byte("\r\n--" + w.Boundary() + "--\r\n")
	call.contentType = mime.FormatMediaType("multipart/form-data", map[string]string{"boundary": w.Boundary()})
	call.streamLength = int64(head.Len()) + source.size + int64(len(tail))
	call.stream = func() (io.ReadCloser, error) { return source.open(head.Bytes(), tail) }
	return nil
}

// boundary needs no quotes in the header, which the server's parser does not expect.
func boundary() string { return "proxkit" + strings.ToLower(rand.Text()) }

// An uploadSource opens an upload's body, once or as often as needed.
type uploadSource struct {
	body     io.Reader
	seeker   io.ReadSeeker // body, if it can seek
	start    int64         // where body began
	size     int64
	progress func(sent, size int64)
	spool    *os.File

	// mu and reader make sure that only the newest reader touches the body: net/http
	// may still hold an older one when it asks for another.
	mu     sync.Mutex
	reader *uploadReader
	over   atomic.Bool
}

var errBodyGone = errors.New("the body of the upload has been read and cannot be read again")

// newUploadSource finds the body's size, through a temporary file where that is the
// only way: the servers refuse requests without a length.
func newUploadSource(ctx context.Context, u Upload) (*uploadSource, error) {
	s := &uploadSource{body: u.Body, size: u.Size, progress: u.Progress}
	if u.Size < 0 {
		return nil, fmt.Errorf("the upload's size is %d", u.Size)
	}
	if seeker, ok := u.Body.(io.ReadSeeker); ok {
		// Pipes and terminals are files that cannot seek: the error says so.
		if start, err := seeker.Seek(0, io.SeekCurrent); err == nil {
			end, err := seeker.Seek(0, io.SeekEnd)
			if err == nil {
				_, err = seeker.Seek(start, io.SeekStart)
			}
			if err != nil {
				return nil, fmt.Errorf("measure the upload's body: %w", err)
			}
			s.seeker, s.start = seeker, start
			switch left := end - start; {
			case u.Size == 0:
				s.size = left
			case u.Size > left:
				return nil, fmt.Errorf("the upload's size is %d, but its body has %d bytes", u.Size, left)
			}
			return s, nil
		}
	}
	if u.Size > 0 && u.Checksum == "" {
		return s, nil
	}
	return s, s.spoolTo(ctx)
}

// spoolTo copies the body into a file that only this user can read and that has no
// name any more where the system allows that.
func (s *uploadSource) spoolTo(ctx context.Context) error {
	f, err := os.CreateTemp("", "proxkit-upload-*") // mode 0600
	if err != nil {
		return fmt.Errorf("the upload's size is unknown, and no temporary file can be made: %w", err)
	}
	s.spool = f
	var reader io.Reader = contextReader{ctx, s.body}
	if s.size > 0 {
		reader = io.LimitReader(reader, s.size)
	}
	n, err := io.Copy(f, reader)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err == nil && s.size > 0 && n < s.size {
		err = fmt.Errorf("it ends after %d of %d bytes: %w", n, s.size, io.ErrUnexpectedEOF)
	}
	if err != nil {
		s.close()
		return fmt.Errorf("read the upload's body: %w", err)
	}
	s.body, s.seeker, s.start, s.size = f, f, 0, n
	return nil
}

// close keeps net/http from reading on after the call. A read that is under way, and may
// hang, is not waited for.
func (s *uploadSource) close() {
	s.over.Store(true)
	if s.spool != nil {
		s.spool.Close()
		os.Remove(s.spool.Name())
	}
}

// checksum reads the body once and goes back to its beginning.
func (s *uploadSource) checksum(algorithm string) (string, error) {
	var h hash.Hash
	switch algorithm {
	case "md5":
		h = md5.New()
	case "sha1":
		h = sha1.New()
	case "sha224":
		h = sha256.New224()
	case "sha256":
		h = sha256.New()
	case "sha384":
		h = sha512.New384()
	case "sha512":
		h = sha512.New()
	default:
		return "", fmt.Errorf("checksum algorithm %q: the servers know md5, sha1, sha224, sha256, sha384 and sha512", algorithm)
	}
	if _, err := io.CopyN(h, s.seeker, s.size); err != nil {
		return "", fmt.Errorf("read the upload's body for its checksum: %w", err)
	}
	if _, err := s.seeker.Seek(s.start, io.SeekStart); err != nil {
		return "", fmt.Errorf("go back to the beginning of the upload's body: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// open returns the whole request body from its beginning.
func (s *uploadSource) open(head, tail []byte) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.reader == nil || s.seeker == nil && s.reader.left == s.size:
	case s.seeker == nil:
		return nil, errBodyGone
	default:
		if _, err := s.seeker.Seek(s.start, io.SeekStart); err != nil {
			return nil, fmt.Errorf("go back to the beginning of the upload's body: %w", err)
		}
	}
	s.reader = &uploadReader{source: s, head: head, tail: tail, left: s.size}
	return s.reader, nil
}

// An uploadReader gives head, file and tail. It never closes the caller's body.
type uploadReader struct {
	source     *uploadSource
	head, tail []byte
	left       int64 // bytes of the file still to come
	closed     atomic.Bool
}

func (r *uploadReader) Read(p []byte) (int, error) {
	switch {
	case r.closed.Load():
		return 0, errBodyGone
	case len(r.head) > 0:
		n := copy(p, r.head)
		r.head = r.head[n:]
		return n, nil
	case r.left > 0:
		return r.readFile(p)
	case len(r.tail) > 0:
		n := copy(p, r.tail)
		r.tail = r.tail[n:]
		return n, nil
	}
	return 0, io.EOF
}

func (r *uploadReader) readFile(p []byte) (int, error) {
	s := r.source
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reader != r || s.over.Load() {
		return 0, errBodyGone
	}
	n, err := s.body.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	if n > 0 && s.progress != nil {
		s.progress(s.size-r.left, s.size)
	}
	if errors.Is(err, io.EOF) {
		if err = nil; r.left > 0 {
			err = fmt.Errorf("the upload's body ends %d bytes early: %w", r.left, io.ErrUnexpectedEOF)
		}
	}
	return n, err
}

func (r *uploadReader) Close() error {
	r.closed.Store(true)
	return nil
}

// A contextReader stops reading when its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
