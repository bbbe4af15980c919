package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/internal/rest/resttest"
)

type (
	seen      = resttest.Request
	rawServer = resttest.Server
)

func newRawServer(t testing.TB, handler func(seen) string) *rawServer {
	t.Helper()
	return resttest.NewServer(t, handler)
}

func reply(status int, reason, contentType, body string) string {
	return resttest.Reply(status, reason, contentType, body)
}

const jsonType = resttest.JSONType

func replyData(data string) string { return resttest.ReplyData(data) }

func replyError(status int, reason string) string { return resttest.ReplyError(status, reason) }

// quick keeps retries fast.
func quick() Option { return WithRetry(RetryPolicy{MinWait: 1, MaxWait: 2}) }

func newClient(t testing.TB, endpoint string, opts ...Option) *Client {
	t.Helper()
	client, err := New(Product{}, endpoint, append([]Option{quick()}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// A roundTripper is an in-memory transport.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := f(req)
	if req.Body != nil {
		req.Body.Close()
	}
	return resp, err
}

func memoryAnswer(status int, reason, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Status: fmt.Sprintf("%d %s", status, reason),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {jsonType}}, ContentLength: int64(len(body)),
		Body: io.NopCloser(strings.NewReader(body)),
	}
}

var errBroken = errors.New("connection reset by peer")

func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }

// tunnel connects a proxy's client with addr.
func tunnel(ctx context.Context, w http.ResponseWriter, addr string) {
	upstream, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer upstream.Close()
	w.WriteHeader(http.StatusOK)
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(upstream, buffered)
		upstream.Close()
	}()
	_, _ = io.Copy(client, upstream)
	client.Close()
	<-done
}
