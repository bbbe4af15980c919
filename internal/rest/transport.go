package rest

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-cleanhttp"
)

const (
	// idleConnTimeout stays below the 5 s after which the servers close idle connections.
	idleConnTimeout = 4 * time.Second
	dialTimeout     = 10 * time.Second
	// handshakeTimeout is generous: a busy node forks its API workers slowly.
	handshakeTimeout = 15 * time.Second
	// readHeaderTimeout bounds the silence between a read and its answer. The servers
	// give up on other nodes after 30 s; queued requests may wait for several of those.
	// Writes have no such limit, because giving up on one leaves its outcome unknown.
	readHeaderTimeout = 3 * time.Minute
)

// newTransport returns a transport of the client's own, so that nothing leaks into or
// out of http.DefaultTransport.
func newTransport(c *Config) *http.Transport {
	t := cleanhttp.DefaultPooledTransport()
	t.DialContext = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext
	t.TLSHandshakeTimeout = handshakeTimeout
	t.IdleConnTimeout = idleConnTimeout
	t.MaxIdleConnsPerHost = 32
	t.MaxResponseHeaderBytes = 1 << 20
	t.ForceAttemptHTTP2 = false
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	t.WriteBufferSize = 64 << 10
	t.ReadBufferSize = 16 << 10
	t.TLSClientConfig = newTLSConfig(c)
	return t
}

func newTLSConfig(c *Config) *tls.Config {
	cfg := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		RootCAs:      c.rootCAs,
		Certificates: c.certificates,
		ServerName:   c.serverName,
		// The servers close the connection after every write, so handshakes are frequent.
		ClientSessionCache: tls.NewLRUClientSessionCache(8),
	}
	if len(c.pins) > 0 {
		pins := slices.Clone(c.pins)
		cfg.InsecureSkipVerify = true // the pin replaces the chain; VerifyConnection also runs on resumed sessions
		cfg.VerifyConnection = func(state tls.ConnectionState) error {
			return verifyPin(pins, state)
		}
	}
	return cfg
}

// verifyPin accepts the connection when the server's own certificate has one of the
// fingerprints.
func verifyPin(pins [][sha256.Size]byte, state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return &FingerprintError{}
	}
	got := sha256.Sum256(state.PeerCertificates[0].Raw)
	if !slices.Contains(pins, got) {
		return &FingerprintError{Got: formatFingerprint(got)}
	}
	return nil
}

// A FingerprintError reports a server whose certificate is not the pinned one.
type FingerprintError struct {
	// Got is the SHA-256 fingerprint that the server presented, as "AB:CD:…", or
	// empty when it presented no certificate.
	Got string
}

// Error implements error.
func (e *FingerprintError) Error() string {
	if e.Got == "" {
		return "the server presented no certificate"
	}
	return "the server's certificate has the SHA-256 fingerprint " + e.Got +
		", which is not a pinned one: it was renewed, or this is another server"
}

// Is makes the error an [ErrCertificate].
func (e *FingerprintError) Is(target error) bool { return target == ErrCertificate }

func parseFingerprint(text string) ([sha256.Size]byte, error) {
	var pin [sha256.Size]byte
	plain := strings.TrimSpace(text)
	if cut, ok := cutPrefixFold(plain, "sha256:"); ok {
		plain = cut
	}
	plain = strings.Map(func(r rune) rune {
		if r == ':' || r == ' ' {
			return -1
		}
		return r
	}, plain)
	raw, err := hex.DecodeString(plain)
	switch {
	case err == nil && len(raw) == sha256.Size:
		copy(pin[:], raw)
		return pin, nil
	case err == nil && len(raw) == 20:
		return pin, errors.New("the fingerprint has the length of SHA-1: give the SHA-256 one, as shown under the node's certificates")
	default:
		return pin, fmt.Errorf("the fingerprint must be 64 hexadecimal digits, with or without colons, not %q", text)
	}
}

func formatFingerprint(sum [sha256.Size]byte) string {
	var b strings.Builder
	for i, x := range sum {
		if i > 0 {
			b.WriteByte(':')
		}
		fmt.Fprintf(&b, "%02X", x)
	}
	return b.String()
}

func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix) {
		return s[len(prefix):], true
	}
	return s, false
}
