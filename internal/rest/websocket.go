package rest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/coder/websocket"

	"github.com/proxkit/proxkit/internal/wire"
)

// WebSocket opens a stream to a console. The connection carries bytes in both
// directions and ends with ctx. It goes through the same transport as other calls, so
// the same authorities and pins apply, with the same credentials.
//
// Some versions do not let API tokens open consoles: the error says so.
func (c *Client) WebSocket(ctx context.Context, path string, params any) (net.Conn, error) {
	call, used, err := c.newTarget(http.MethodGet, path, params)
	if err != nil {
		return nil, err
	}
	if params != nil {
		if call.query, err = wire.EncodeForm(params, used); err != nil {
			return nil, c.argumentError(call, err)
		}
	}
	for tried := 1; ; tried++ {
		endpoint := c.endpoint()
		conn, err := c.dialWebSocket(ctx, call, endpoint)
		if err == nil || tried >= len(c.endpoints) || !errors.Is(err, ErrNotSent) || !IsRetryable(err) {
			return conn, err
		}
		c.leave(endpoint)
	}
}

func (c *Client) dialWebSocket(ctx context.Context, call *call, endpoint *url.URL) (net.Conn, error) {
	req, err := c.newRequest(ctx, call, endpoint)
	if err != nil {
		return nil, err
	}
	if _, err := c.auth.authorize(ctx, req); err != nil {
		return nil, err
	}
	req.Header.Del("Accept")
	conn, resp, err := websocket.Dial(ctx, req.URL.String(), &websocket.DialOptions{
		HTTPClient:   &http.Client{Transport: c.transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		HTTPHeader:   req.Header,
		Subprotocols: []string{"binary"},
	})
	switch {
	case err == nil:
	case resp != nil && resp.StatusCode != http.StatusSwitchingProtocols:
		body, _ := readBody(resp, maxErrorAnswer)
		refusal := c.newError(call, endpoint, resp, body)
		if e, ok := errors.AsType[*Error](refusal); ok && c.config.token != nil && (e.Status == http.StatusForbidden || e.Status == http.StatusUnauthorized || e.Status >= 500) {
			e.hint = "this server may not let API tokens open consoles: log in with a password instead"
		}
		return nil, refusal
	default:
		sent := !neverDialed(err) && !isCertificateError(err)
		return nil, c.transportError(ctx, call, endpoint, fmt.Errorf("open the websocket: %w", contextOr(ctx, err)), sent)
	}
	if conn.Subprotocol() != "binary" {
		conn.CloseNow()
		return nil, c.transportError(ctx, call, endpoint, errors.New("open the websocket: the server does not speak the subprotocol binary"), true)
	}
	conn.SetReadLimit(-1)
	return websocket.NetConn(ctx, conn, websocket.MessageBinary), nil
}
