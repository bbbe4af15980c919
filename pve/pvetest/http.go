package pvetest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"os"
	"strconv"
	"strings"
	"time"
)

// The limits of the API server.
const (
	maxBody        = 512 << 10
	maxHeader      = 8 << 10
	maxHeaderLines = 64
	maxRequests    = 100 // requests a connection serves
	gzipFrom       = 1024
)

// A rawRequest is one HTTP request. net/http's server cannot be used for the
// answers' sake: their reason phrases are free text.
type rawRequest struct {
	method, target, proto string
	header                textproto.MIMEHeader
	length                int64 // of the body; -1 without Content-Length
	body                  *bufio.Reader
	conn                  net.Conn
	node                  string // whose own endpoint it came to; empty for the cluster's
}

// A rawResponse is the answer to a rawRequest.
type rawResponse struct {
	status  int
	phrase  string
	header  [][2]string
	body    []byte
	ctype   string // Content-Type; none when empty
	relayed bool   // came through the privileged daemon
	cut     bool   // drop the connection instead of answering
	file    *os.File
}

// errClosed ends a connection without an answer.
var errClosed = errors.New("closed without an answer")

// readRequest reads the head of a request.
func readRequest(conn net.Conn, r *bufio.Reader) (*rawRequest, error) {
	req := &rawRequest{header: textproto.MIMEHeader{}, length: -1, body: r, conn: conn}
	size := 0
	line := func() (string, error) {
		s, err := r.ReadString('\n')
		if err != nil {
			return "", err
		}
		if size += len(s); size > maxHeader {
			return "", errClosed
		}
		return strings.TrimRight(s, "\r\n"), nil
	}
	first, err := line()
	for err == nil && first == "" {
		first, err = line()
	}
	if err != nil {
		return nil, err
	}
	words := strings.Fields(first)
	if len(words) != 3 || !strings.HasPrefix(words[2], "HTTP/1.") {
		return nil, errClosed
	}
	req.method, req.target, req.proto = words[0], words[1], words[2]
	for n := 0; ; n++ {
		s, err := line()
		if err != nil {
			return nil, err
		}
		if s == "" {
			break
		}
		if n >= maxHeaderLines {
			return nil, errClosed
		}
		name, val, ok := strings.Cut(s, ":")
		if !ok {
			return nil, errClosed
		}
		req.header.Add(strings.TrimSpace(name), strings.TrimSpace(val))
	}
	if text := req.header.Get("Content-Length"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return nil, errClosed
		}
		req.length = n
	}
	return req, nil
}

// serveConn serves one connection until it ends.
func (s *Server) serveConn(conn net.Conn, node string) {
	defer conn.Close()
	first := make([]byte, 1)
	r := bufio.NewReader(conn)
	for range maxRequests {
		if s.idle > 0 {
			_ = conn.SetReadDeadline(time.Now().Add(s.idle))
		}
		if _, err := r.Peek(len(first)); err != nil {
			return
		}
		_ = conn.SetReadDeadline(time.Time{})
		req, err := readRequest(conn, r)
		if err != nil || s.shut(node) {
			return
		}
		req.node = node
		resp := s.serve(req)
		if !s.respond(req, resp) {
			drain(conn, r)
			return
		}
	}
}

// drain reads what the client is still sending for a moment, so that closing
// the connection does not destroy the answer on its way.
func drain(conn net.Conn, r io.Reader) {
	type closeWriter interface{ CloseWrite() error }
	if c, ok := conn.(closeWriter); ok {
		_ = c.CloseWrite()
	}
	_ = conn.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
	_, _ = io.CopyN(io.Discard, r, 8<<20)
}

// respond sends an answer and tells whether the connection stays open.
func (s *Server) respond(req *rawRequest, resp *rawResponse) bool {
	if resp.cut {
		return false
	}
	if resp.file != nil {
		defer resp.file.Close()
	}
	keep := resp.status < 300 && req.proto == "HTTP/1.1" &&
		!strings.EqualFold(req.header.Get("Connection"), "close") && req.length <= maxBody

	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", resp.status, resp.phrase)
	head := func(name, val string) { fmt.Fprintf(&b, "%s: %s\r\n", name, val) }
	body := resp.body
	if len(body) > gzipFrom && strings.Contains(req.header.Get("Accept-Encoding"), "gzip") && resp.file == nil {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		_, _ = w.Write(body)
		_ = w.Close()
		body = z.Bytes()
		head("Content-Encoding", "gzip")
	}
	head("Cache-Control", "max-age=0")
	if !keep || resp.relayed {
		head("Connection", "close")
	}
	if keep {
		head("Connection", "Keep-Alive")
	}
	date := s.clock().UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")
	head("Date", date)
	head("Expires", date)
	head("Pragma", "no-cache")
	head("Server", "pve-api-daemon/3.0")
	length := int64(len(body))
	if resp.file != nil {
		if info, err := resp.file.Stat(); err == nil {
			length = info.Size()
		}
	}
	head("Content-Length", strconv.FormatInt(length, 10))
	if resp.ctype != "" {
		head("Content-Type", resp.ctype)
	}
	for _, h := range resp.header {
		head(h[0], h[1])
	}
	b.WriteString("\r\n")
	if req.method != "HEAD" && resp.file == nil {
		b.Write(body)
	}
	if _, err := req.conn.Write(b.Bytes()); err != nil {
		return false
	}
	if resp.file != nil {
		if _, err := io.Copy(req.conn, resp.file); err != nil {
			return false
		}
	}
	return keep
}

// bare is an answer without a body.
func bare(status int, phrase string) *rawResponse {
	return &rawResponse{status: status, phrase: phrase}
}

// plain is an answer whose body is its phrase.
func plain(status int, phrase string) *rawResponse {
	return &rawResponse{status: status, phrase: phrase, body: []byte(phrase), ctype: "text/plain"}
}
