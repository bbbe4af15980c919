package rest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/proxkit/proxkit/internal/wire"
)

const (
	contentForm = "application/x-www-form-urlencoded"
	contentJSON = "application/json"

	// maxRequestBody is what the servers accept for anything but an upload.
	maxRequestBody = 512 << 10
	// maxTarget leaves room for the other header lines within the 8 KiB that the
	// servers accept; they close the connection without an answer beyond that.
	maxTarget = 6 << 10
	// maxAnswer bounds what a hostile or confused server can make us hold.
	maxAnswer = 256 << 20
	// maxErrorAnswer is the same for refusals.
	maxErrorAnswer = 1 << 20
)

// A call is a request that can be made several times.
type call struct {
	method   string
	path     string // escaped, without base path and query: what errors show
	template string // path with the names of parameters in place of their values
	query    string
	kind     callKind

	body        []byte
	contentType string

	// stream replaces body for uploads: it returns the whole body from its beginning.
	stream       func() (io.ReadCloser, error)
	streamLength int64
	rewinds      bool   // stream can be called again
	fields       string // the parameters inside stream, as a form

	// open leaves the body of a success to the caller, for downloads.
	open bool
	// plain sends no credentials, for logins.
	plain bool

	header http.Header // further header lines, or nil
}

// newCall encodes a call. Whatever is wrong with its arguments is found here, before
// anything is sent.
func (c *Client) newCall(method, path string, params any) (*call, error) {
	call, used, err := c.newTarget(method, path, params)
	if err != nil {
		return nil, err
	}
	refuse := func(err error) error { return c.argumentError(call, err) }
	switch {
	case params == nil && (call.kind == kindRead || method == http.MethodDelete):
	case call.kind == kindRead || method == http.MethodDelete:
		if call.query, err = wire.EncodeForm(params, used); err != nil {
			return nil, refuse(err)
		}
	case params == nil:
		if !c.product.perl() {
			call.contentType, call.body = contentJSON, []byte("{}")
		} else {
			call.contentType = contentForm
		}
	case (c.product.perl() || wire.IsForm(params)) && wire.FormFits(params, used):
		form, err := wire.EncodeForm(params, used)
		if err != nil {
			return nil, refuse(err)
		}
		call.contentType, call.body = contentForm, []byte(form)
	default:
		if call.body, err = wire.EncodeJSON(params, wire.Dialect(c.product.Dialect), used); err != nil {
			return nil, refuse(err)
		}
		call.contentType = contentJSON
	}
	if len(call.body) > maxRequestBody {
		return nil, refuse(fmt.Errorf("the parameters take %d bytes, but the server accepts at most %d in one request", len(call.body), maxRequestBody))
	}
	if n := len(call.path) + len(call.query); n > maxTarget {
		return nil, refuse(fmt.Errorf("path and query take %d bytes, but the server accepts about %d", n, maxTarget))
	}
	return call, nil
}

// newTarget fills the path and decides what kind of call this is. used names the
// parameters that went into the path.
func (c *Client) newTarget(method, path string, params any) (*call, []string, error) {
	call := &call{method: method, path: path, template: path, kind: kindWrite}
	switch method {
	case http.MethodGet:
		call.kind = kindRead
	case http.MethodPost, http.MethodPut, http.MethodDelete:
	default:
		return nil, nil, c.argumentError(call, fmt.Errorf("the API has no method %q: use GET, POST, PUT or DELETE", method))
	}
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "?#") {
		return nil, nil, c.argumentError(call, errors.New("a path begins with a slash and has no query: give parameters as parameters"))
	}
	filled, used, err := wire.Path(path, params)
	if err != nil {
		return nil, nil, c.argumentError(call, err)
	}
	call.path = filled
	if call.kind == kindWrite && c.config.safeWrite != nil && c.config.safeWrite(method, filled) {
		call.kind = kindSafeWrite
	}
	return call, used, nil
}

func (c *Client) argumentError(call *call, err error) error {
	err = hide(err, c.secrets(call))
	return &ArgumentError{Method: call.method, Path: call.path, Reason: err.Error(), product: c.product.Name, err: err}
}

// An answer is a success whose body has been read, unless the call left it open.
type answer struct {
	response *http.Response
	body     []byte
}

// send makes the call, as often as the policy says.
func (c *Client) send(ctx context.Context, call *call) (answer, error) {
	policy := c.config.retry
	renewed := false
	repeated, tried := 0, 1 // tried counts endpoints since the last wait
	for {
		ans, seen, f, err := c.attempt(ctx, call)
		if err == nil {
			return ans, nil
		}
		switch judge(call.kind, f) {
		case renew:
			if renewed || call.plain || !c.auth.renew(seen) {
				return answer{}, err
			}
			renewed = true
			continue
		case giveUp:
			if f == faultAuth && !call.plain {
				c.auth.renew(seen) // the next call starts with a new session
			}
			return answer{}, err
		}
		if f == faultNotSent && tried < len(c.endpoints) {
			tried++
			continue
		}
		if repeated++; repeated >= policy.Attempts {
			return answer{}, err
		}
		tried = 1
		if cause := pause(ctx, policy.wait(repeated)); cause != nil {
			return answer{}, c.transportError(ctx, call, c.endpoint(), fmt.Errorf("%w, after %w", contextOr(ctx, ctx.Err()), err), f != faultNotSent)
		}
	}
}

var (
	errHeaderTimeout = errors.New("the server did not answer a read within 3 minutes")
	errEmpty         = errors.New("the answer is empty")
)

// attempt makes the call once. seen identifies the credentials that were used.
func (c *Client) attempt(ctx context.Context, call *call) (ans answer, seen uint64, f fault, err error) {
	endpoint := c.endpoint()
	if c.config.limiter != nil {
		if err := c.config.limiter.Wait(ctx); err != nil {
			if !isContextError(err) {
				// The limiter sees that the deadline will pass before its turn comes.
				err = fmt.Errorf("%w: %w", err, context.DeadlineExceeded)
			}
			return answer{}, 0, faultFinal, c.transportError(ctx, call, endpoint, contextOr(ctx, err), false)
		}
	}
	req, err := c.newRequest(ctx, call, endpoint)
	if err != nil {
		return answer{}, 0, faultFinal, err
	}
	if !call.plain {
		if seen, err = c.auth.authorize(ctx, req); err != nil {
			return answer{}, 0, faultFinal, err
		}
	}
	resp, connected, done, err := c.roundTrip(ctx, call, req)
	if err != nil {
		f = faultOfError(err, connected, c.traced)
		if ctx.Err() != nil {
			f, err = faultFinal, contextOr(ctx, err)
		}
		if f == faultNotSent {
			c.leave(endpoint)
		}
		sent := f != faultNotSent && (connected || !c.traced) && !isCertificateError(err)
		return answer{}, seen, f, c.transportError(ctx, call, endpoint, err, sent)
	}
	if call.open && (resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusPartialContent) {
		resp.Body = &bodyWithCancel{ReadCloser: resp.Body, done: done}
		return answer{response: resp}, seen, faultNone, nil
	}
	defer done()
	defer resp.Body.Close()
	success := resp.StatusCode >= 200 && resp.StatusCode < 300
	limit := int64(maxErrorAnswer)
	if success {
		limit = maxAnswer
	}
	body, readErr := readBody(resp, limit)
	switch {
	case !success:
		// What is left of a refusal is worth more than the fact that its body broke off.
		return answer{}, seen, faultOfStatus(resp.StatusCode), c.newError(call, endpoint, resp, body)
	case readErr != nil:
		f := faultLost
		if ctx.Err() != nil || errors.Is(readErr, errTooLarge) {
			f = faultFinal
		}
		return answer{}, seen, f, c.transportError(ctx, call, endpoint, contextOr(ctx, readErr), true)
	case len(body) == 0 && (call.kind == kindRead || call.kind == kindLogin):
		// A worker that dies between the head of its answer and the body leaves this.
		return answer{}, seen, faultLost, c.transportError(ctx, call, endpoint, errEmpty, true)
	case len(body) > 0 && !isJSON(resp.Header.Get("Content-Type")):
		return answer{}, seen, faultNone, c.newError(call, endpoint, resp, body)
	}
	return answer{response: resp, body: body}, seen, faultNone, nil
}

// roundTrip sends the request and waits for the head of the answer: a read or a login
// for a limited time, a write as long as the caller does. done releases what the request
// holds and must be called after the body is read.
func (c *Client) roundTrip(ctx context.Context, call *call, req *http.Request) (resp *http.Response, connected bool, done func(), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	done = func() { cancel(nil) }
	if call.kind == kindRead || call.kind == kindLogin {
		silence := time.AfterFunc(readHeaderTimeout, func() { cancel(errHeaderTimeout) })
		defer silence.Stop()
	}
	var reached atomic.Bool
	req = req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { reached.Store(true) },
	}))
	resp, err = c.transport.RoundTrip(req)
	if err != nil {
		if errors.Is(context.Cause(ctx), errHeaderTimeout) {
			err = errHeaderTimeout
		}
		done()
	}
	return resp, reached.Load(), done, err
}

// newRequest makes the HTTP request for one attempt, without credentials.
func (c *Client) newRequest(ctx context.Context, call *call, endpoint *url.URL) (*http.Request, error) {
	u := *endpoint
	escaped := endpoint.EscapedPath() + call.path
	path, err := url.PathUnescape(escaped)
	if err != nil {
		return nil, c.argumentError(call, err)
	}
	u.Path, u.RawQuery = path, call.query
	if u.EscapedPath() != escaped {
		u.RawPath = escaped
	}
	req := (&http.Request{
		Method:     call.method,
		URL:        &u,
		Host:       u.Host,
		Proto:      "HTTP/1.1",
		ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{
			"Accept":     {contentJSON},
			"User-Agent": {c.config.userAgent},
		},
	}).WithContext(ctx)
	if call.contentType != "" {
		req.Header["Content-Type"] = []string{call.contentType}
	}
	for name, values := range call.header {
		req.Header[name] = values
	}
	switch {
	case call.stream != nil:
		body, err := call.stream()
		if err != nil {
			return nil, c.transportError(ctx, call, endpoint, err, false)
		}
		req.Body, req.ContentLength = body, call.streamLength
		if call.rewinds {
			req.GetBody = call.stream
		}
		if call.streamLength == 0 {
			req.Body, req.GetBody = http.NoBody, nil // net/http takes 0 beside a body for unknown
		}
	case len(call.body) > 0:
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(call.body)), int64(len(call.body))
		// Lets net/http try another connection when the idle one it picked had been
		// closed by the server before a byte was written.
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(call.body)), nil }
	}
	return req, nil
}

var errTooLarge = errors.New("the answer is larger than any the API gives")

// readBody reads a body up to limit. What was read comes back with the error, if any.
func readBody(resp *http.Response, limit int64) ([]byte, error) {
	size := resp.ContentLength
	if size == 0 {
		return nil, nil
	}
	var buf bytes.Buffer
	if size > 0 {
		// Only so much on the server's word alone.
		buf.Grow(int(min(size, limit, 16<<20)) + bytes.MinRead)
	}
	n, err := buf.ReadFrom(io.LimitReader(resp.Body, limit+1))
	if n > limit {
		return buf.Bytes()[:limit], errTooLarge
	}
	return buf.Bytes(), err
}

func isJSON(contentType string) bool {
	if strings.HasPrefix(contentType, contentJSON) || contentType == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == contentJSON || strings.HasSuffix(media, "+json"))
}

// transportError wraps what the transport says, cleaned of secrets.
func (c *Client) transportError(ctx context.Context, call *call, endpoint *url.URL, err error, sent bool) error {
	e := &TransportError{
		Method: call.method, Path: call.path, Endpoint: hostOf(endpoint), Sent: sent,
		Err: hide(err, c.secrets(call)), product: c.product.Name, ended: ctx.Err() != nil,
		acts: call.kind == kindWrite,
	}
	text := err.Error()
	switch {
	case isCertificateError(err) && !errors.Is(err, ErrCertificate):
		e.hint = "give the cluster's CA or the certificate's SHA-256 fingerprint to the client"
	case isPlainHTTP(err):
		e.hint = "the server speaks plain http on this port: check the endpoint's port"
	case strings.Contains(text, "connection refused") && endpoint.Port() == "":
		e.hint = fmt.Sprintf("the endpoint names no port; the API usually listens on %d", c.product.DefaultPort)
	}
	return e
}

// secrets are the values that must not show up in errors about the call.
func (c *Client) secrets(call *call) []string {
	found := c.auth.secrets()
	if call != nil {
		found = append(found, secretParams(call.query, call.body, call.contentType)...)
		found = append(found, secretParams(call.fields, nil, "")...)
		for name, values := range call.header {
			if name != "Accept" && name != "Accept-Encoding" && name != "Range" {
				found = append(found, values...)
			}
		}
	}
	return slices.DeleteFunc(found, func(s string) bool { return s == "" })
}

// newError reads a refusal, or an answer that is none of the API's.
func (c *Client) newError(call *call, endpoint *url.URL, resp *http.Response, body []byte) error {
	secrets := c.secrets(call)
	e := &Error{
		Method: call.method, Path: call.path,
		Status:  resp.StatusCode,
		Reason:  redact(phrase(resp), secrets),
		product: c.product.Name,
		acts:    call.kind == kindWrite,
	}
	contentType := resp.Header.Get("Content-Type")
	plain := strings.TrimSpace(string(body))
	html := strings.HasPrefix(contentType, "text/html") || strings.HasPrefix(plain, "<")
	var message string
	switch env, err := wire.DecodeEnvelope(body, nil, nil); {
	case html:
		e.notAPI = resp.StatusCode < 400 || e.Reason == http.StatusText(resp.StatusCode)
		if resp.StatusCode < 400 {
			message = "the answer is a web page and not from the API"
			e.hint = "check the endpoint: something else answers at " + hostOf(endpoint)
		}
	case resp.StatusCode < 300:
		e.notAPI = true
		message = fmt.Sprintf("the answer is of type %q and not from the API", contentType)
		e.hint = "check the endpoint: something else answers at " + hostOf(endpoint)
	case resp.StatusCode < 400:
		e.notAPI = true
		message, e.hint = redirectText(endpoint, resp)
	case err == nil && len(body) > 0:
		message = strings.TrimSpace(text(env.Message))
		e.Params = complaints(env.Errors)
	case plain != "" && (e.Reason == "" || e.Reason == http.StatusText(resp.StatusCode)):
		message = plain
	}
	e.Message = redact(cmp.Or(message, e.Reason, http.StatusText(resp.StatusCode)), secrets)
	if e.Params == nil {
		e.Params = paramsFromText(e.Message)
	}
	for name, text := range e.Params {
		e.Params[name] = redact(text, secrets)
	}
	if e.hint == "" {
		e.hint = c.hintFor(e)
	}
	return e
}

// phrase returns the reason phrase as sent. net/http gives it with the number in front.
func phrase(resp *http.Response) string {
	_, after, _ := strings.Cut(resp.Status, " ")
	return strings.TrimSpace(after)
}

func redirectText(endpoint *url.URL, resp *http.Response) (message, hint string) {
	target, err := endpoint.Parse(resp.Header.Get("Location"))
	if err != nil || target.Host == "" {
		return "the server redirects to nowhere", ""
	}
	if endpoint.Scheme == "http" && target.Scheme == "https" && target.Hostname() == endpoint.Hostname() {
		return "the server wants https", "write the endpoint as https://" + target.Host
	}
	return "the server redirects to " + target.Scheme + "://" + target.Host, "credentials are not sent on: if that is the right server, give it as the endpoint"
}

func (c *Client) hintFor(e *Error) string {
	token := c.config.token != nil
	switch {
	case e.Status == http.StatusUnauthorized && token:
		return "check the API token's id and secret, its expiry and whether its user is enabled: the server does not say which it is"
	case e.Status == http.StatusUnauthorized && c.config.login == nil:
		return "the client has no credentials"
	case e.Status == http.StatusForbidden && token &&
		(strings.Contains(e.Message, "not available with API token") || strings.Contains(e.Message, "user != root@pam")):
		return "log in with a password for this call: API tokens cannot make it"
	case strings.Contains(e.Message, "does not look like a valid user name") && token:
		return "log in with a password for consoles: this server does not open them to API tokens"
	case strings.HasPrefix(e.Message, "only root can ") && token:
		return "log in as root@pam with a password for this: API tokens cannot do it, not even root's"
	case e.Status == statusTLS && strings.HasPrefix(e.Path, "/nodes/"):
		return "check the node's name, which is case-sensitive and without domain"
	case e.Status == http.StatusNotImplemented && strings.Contains(e.Message, "/api2/"):
		return "the endpoint or the path names the API's base path twice"
	}
	return ""
}

// contextOr prefers the reason why ctx ended to the transport's words for it.
func contextOr(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); ctx.Err() != nil && cause != nil && isContextError(err) {
		if !errors.Is(cause, ctx.Err()) {
			return fmt.Errorf("%w: %w", ctx.Err(), cause)
		}
		return cause
	}
	return err
}

// bodyWithCancel releases the context of a request together with its body.
type bodyWithCancel struct {
	io.ReadCloser
	done func()
}

func (b *bodyWithCancel) Close() error {
	err := b.ReadCloser.Close()
	b.done()
	return err
}
