package rest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A seen is a request as it arrived.
type seen struct {
	Method string
	Target string // path and query as on the wire
	Header http.Header
	Length int64 // -1 when absent
	Chunks bool
	Body   string
}

// A rawServer speaks HTTP/1.1 by hand, because net/http's server sends no reason
// phrases but its own. The handler returns the whole answer as text; an empty one cuts
// the connection.
type rawServer struct {
	URL string

	handler func(seen) string
	closing chan struct{}
	mu      sync.Mutex
	all     []seen
	conns   int
}

func newRawServer(t testing.TB, handler func(seen) string) *rawServer {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &rawServer{URL: "http://" + listener.Addr().String(), handler: handler, closing: make(chan struct{})}
	var wait sync.WaitGroup
	t.Cleanup(func() {
		close(s.closing)
		listener.Close()
		wait.Wait()
	})
	wait.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns++
			s.mu.Unlock()
			wait.Go(func() {
				defer conn.Close()
				done := make(chan struct{})
				defer close(done)
				go func() {
					select {
					case <-s.closing:
						conn.Close()
					case <-done:
					}
				}()
				s.serve(conn)
			})
		}
	})
	return s
}

func (s *rawServer) serve(conn net.Conn) {
	in := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		_, hasLength := req.Header["Content-Length"]
		length := req.ContentLength
		if length == 0 && !hasLength && len(body) == 0 && !wantsLength(req.Method) {
			length = -1
		}
		this := seen{
			Method: req.Method, Target: req.RequestURI, Header: req.Header, Length: length,
			Chunks: len(req.TransferEncoding) > 0, Body: string(body),
		}
		s.mu.Lock()
		s.all = append(s.all, this)
		s.mu.Unlock()
		answer := s.handler(this)
		if answer == "" {
			return
		}
		if _, err := io.WriteString(conn, answer); err != nil || strings.Contains(answer, "Connection: close") {
			return
		}
	}
}

func wantsLength(method string) bool { return method == http.MethodPost || method == http.MethodPut }

func (s *rawServer) requests() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]seen(nil), s.all...)
}

func (s *rawServer) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

// reply writes an answer with any reason phrase.
func reply(status int, reason, contentType, body string) string {
	connection := "keep-alive"
	if status != 200 {
		connection = "close"
	}
	text := fmt.Sprintf("HTTP/1.1 %d %s\r\nConnection: %s\r\nContent-Length: %d\r\n", status, reason, connection, len(body))
	if contentType != "" {
		text += "Content-Type: " + contentType + "\r\n"
	}
	return text + "\r\n" + body
}

const jsonType = "application/json;charset=UTF-8"

func replyData(data string) string { return reply(200, "OK", jsonType, `{"data":`+data+`}`) }

func replyError(status int, reason string) string {
	return reply(status, reason, jsonType, `{"data":null}`)
}

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
