package rest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/proxkit/proxkit/internal/wire"
)

// A Client calls one Proxmox installation. It is safe for concurrent use.
type Client struct {
	product   Product
	config    Config
	endpoints []*url.URL
	current   atomic.Uint32 // index of the endpoint in use
	transport http.RoundTripper
	traced    bool // transport is net/http's, which reports its connections
	auth      authenticator
}

// New returns a client for the API at endpoint: a host name or address, host:port, or
// a URL, which may have a path prefix in front of the API. It opens no connection.
func New(product Product, endpoint string, opts ...Option) (*Client, error) {
	product, err := product.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Client{product: product}
	c.config = Config{
		product:   product,
		endpoints: []string{endpoint},
		userAgent: "proxkit",
		retry:     RetryPolicy{}.withDefaults(),
	}
	for _, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("%s: an option is nil", product.Name)
		}
		if err := opt(&c.config); err != nil {
			return nil, err
		}
	}
	if err := c.config.check(); err != nil {
		return nil, err
	}
	for _, text := range c.config.endpoints {
		u, err := parseEndpoint(product, text)
		if err != nil {
			return nil, err
		}
		if u.Scheme == "http" && c.config.transport == nil && !isLoopback(u) {
			return nil, fmt.Errorf("%s: endpoint %q: plain http would send the credentials in the clear: use https", product.Name, text)
		}
		c.endpoints = append(c.endpoints, u)
	}
	c.transport = c.config.transport
	if c.transport == nil {
		c.transport = newTransport(&c.config)
	}
	_, c.traced = c.transport.(*http.Transport)
	switch {
	case c.config.token != nil:
		c.auth = c.config.token
	case c.config.login != nil:
		c.auth = newSession(c, c.config.login)
	default:
		c.auth = noAuth{}
	}
	return c, nil
}

// Product returns what the client knows about its product.
func (c *Client) Product() Product { return c.product }

// Endpoint returns the endpoint in use, without the base path of the API.
func (c *Client) Endpoint() string {
	u := *c.endpoint()
	u.Path = strings.TrimSuffix(u.Path, c.product.BasePath)
	u.RawPath = ""
	return u.String()
}

// CloseIdleConnections closes the connections that are not in use.
func (c *Client) CloseIdleConnections() {
	if t, ok := c.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// Meta is what some answers say beside their data.
type Meta struct {
	Total   int64  // length of the whole list, when the answer is a part of one
	Changes string // pending changes, as a unified diff
	Digest  string // of the configuration
}

// Call makes one call and decodes the data of the answer into out. params is a struct
// or a map, or a pointer to one, or nil; its values fill the {names} in path and
// become the query of reads and deletes, the body of other calls. A nil out ignores
// the data.
func (c *Client) Call(ctx context.Context, method, path string, params, out any) error {
	_, err := c.CallMeta(ctx, method, path, params, out)
	return err
}

// CallMeta is Call for those who need what stands beside the data.
func (c *Client) CallMeta(ctx context.Context, method, path string, params, out any) (Meta, error) {
	call, err := c.newCall(method, path, params)
	if err != nil {
		return Meta{}, err
	}
	return c.finish(ctx, call, out)
}

// CallOnce is Call for operations that change something although their method is GET: it
// repeats them no more than a write.
func (c *Client) CallOnce(ctx context.Context, method, path string, params, out any) error {
	call, err := c.newCall(method, path, params)
	if err != nil {
		return err
	}
	if call.kind == kindRead {
		call.kind = kindWrite
	}
	_, err = c.finish(ctx, call, out)
	return err
}

func (c *Client) finish(ctx context.Context, call *call, out any) (Meta, error) {
	answer, err := c.send(ctx, call)
	if err != nil {
		return Meta{}, c.explain(ctx, call, err)
	}
	meta, err := c.decode(call, answer.body, out)
	noteMeta(ctx, meta)
	return meta, err
}

// decode takes the envelope off an answer and decodes its data.
func (c *Client) decode(call *call, body []byte, out any) (Meta, error) {
	if callsAgent(call.path) {
		env, err := wire.DecodeEnvelope(body, nil, nil)
		if err == nil {
			err = c.agentError(call, env.Data)
		}
		if refused, ok := errors.AsType[*Error](err); ok {
			return metaOf(env), refused
		}
	}
	var whole error
	misfit := func(m wire.Misfit) {
		if m.Path == "" {
			whole = errors.New(m.String())
		}
		if hook := c.config.onMisfit; hook != nil {
			hook(Misfit{Method: call.method, Path: call.path, Field: m.Path, Want: m.Want, Got: m.Got})
		}
	}
	env, err := wire.DecodeEnvelope(body, out, misfit)
	switch {
	case err != nil:
		return Meta{}, c.decodeError(call, err)
	case out != nil && len(env.Data) == 0:
		return metaOf(env), c.decodeError(call, errors.New("it has no data"))
	case whole != nil && call.kind == kindRead:
		// One odd value costs no more than itself, but a list that is none must not
		// pass for an empty one. What a write did is done, whatever it answers.
		return metaOf(env), c.decodeError(call, whole)
	}
	return metaOf(env), nil
}

func (c *Client) decodeError(call *call, err error) error {
	return &AnswerError{
		Method: call.method, Path: call.path,
		Err: hide(err, c.secrets(call)), product: c.product.Name,
	}
}

// An AnswerError reports an answer of success that could not be read: the call has
// taken effect.
type AnswerError struct {
	Method string
	Path   string
	Err    error

	product string
}

// Error implements error.
func (e *AnswerError) Error() string {
	return cmpOr(e.product, "proxmox") + ": " + e.Method + " " + e.Path + ": the call succeeded, but its answer is damaged: " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *AnswerError) Unwrap() error { return e.Err }

// endpoint returns the one in use.
func (c *Client) endpoint() *url.URL {
	return c.endpoints[int(c.current.Load())%len(c.endpoints)]
}

// leave moves on from an endpoint that could not be reached, unless another call has
// done so already, and reports whether there is another one to go to.
func (c *Client) leave(u *url.URL) bool {
	if len(c.endpoints) < 2 {
		return false
	}
	i := c.current.Load()
	if c.endpoints[int(i)%len(c.endpoints)] == u {
		c.current.CompareAndSwap(i, i+1)
	}
	return true
}

// hostOf names an endpoint in errors.
func hostOf(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	port := "443"
	if u.Scheme == "http" {
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}
