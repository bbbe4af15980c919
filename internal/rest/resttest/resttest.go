// Package resttest is the other side of the wire for tests: a server that answers
// whatever a test wants, with any reason phrase.
package resttest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// A Request is a request as it arrived.
type Request struct {
	Method string
	Target string // path and query as on the wire
	Header http.Header
	Length int64 // -1 when absent
	Chunks bool
	Body   string
}

// A Server speaks HTTP/1.1 by hand, because net/http's server sends no reason phrases
// but its own.
type Server struct {
	URL string

	handler func(Request) string
	closing chan struct{}
	mu      sync.Mutex
	all     []Request
	conns   int
}

// NewServer starts a server that lives as long as the test. The handler returns the
// whole answer as text, for example from [Reply]; an empty one cuts the connection.
func NewServer(t testing.TB, handler func(Request) string) *Server {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{URL: "http://" + listener.Addr().String(), handler: handler, closing: make(chan struct{})}
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

func (s *Server) serve(conn net.Conn) {
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
		this := Request{
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

// Requests returns what has arrived so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.all...)
}

// Connections counts the connections that were opened so far.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

// JSONType is the content type of the API's answers.
const JSONType = "application/json;charset=UTF-8"

// Reply is an answer with any reason phrase. Like the API's own server, it ends the
// connection after all but successes.
func Reply(status int, reason, contentType, body string) string {
	connection := "keep-alive"
	if status != http.StatusOK {
		connection = "close"
	}
	text := fmt.Sprintf("HTTP/1.1 %d %s\r\nConnection: %s\r\nContent-Length: %d\r\n", status, reason, connection, len(body))
	if contentType != "" {
		text += "Content-Type: " + contentType + "\r\n"
	}
	return text + "\r\n" + body
}

// ReplyData is a success with data, which is JSON.
func ReplyData(data string) string { return Reply(http.StatusOK, "OK", JSONType, `{"data":`+data+`}`) }

// ReplyError is a refusal whose reason phrase says all.
func ReplyError(status int, reason string) string {
	return Reply(status, reason, JSONType, `{"data":null}`)
}
