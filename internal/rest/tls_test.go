package rest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An authority issues certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Test CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &authority{cert: cert, key: key, pool: pool}
}

func (a *authority) issue(t *testing.T, name string, ips ...net.IP) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IPAddresses: ips,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func fingerprintOf(cert tls.Certificate) string {
	sum := sha256.Sum256(cert.Certificate[0])
	return formatFingerprint(sum)
}

func newTLSServer(t *testing.T, config *tls.Config, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.TLS = config
	server.Config.ErrorLog = nil
	server.EnableHTTP2 = true
	server.Config.ErrorLog = discardLog()
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

func answerNull(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", jsonType)
	_, _ = w.Write([]byte(`{"data":null}`))
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t), newAuthority(t)
	local := []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	good := ca.issue(t, "pve1.example.com", local...)
	misnamed := ca.issue(t, "pve2.example.com")
	pin := fingerprintOf(good)
	for _, tc := range []struct {
		name    string
		config  *tls.Config
		opts    []Option
		wantErr string
	}{
		{name: "own authority", config: &tls.Config{Certificates: []tls.Certificate{good}}, opts: []Option{WithRootCAs(ca.pool)}},
		{name: "unknown authority", config: &tls.Config{Certificates: []tls.Certificate{good}}, wantErr: "give the cluster's CA or the certificate's SHA-256 fingerprint"},
		{name: "other authority", config: &tls.Config{Certificates: []tls.Certificate{good}}, opts: []Option{WithRootCAs(other.pool)}, wantErr: "unknown authority"},
		{name: "other name", config: &tls.Config{Certificates: []tls.Certificate{misnamed}}, opts: []Option{WithRootCAs(ca.pool)}, wantErr: "127.0.0.1"},
		{name: "name given", config: &tls.Config{Certificates: []tls.Certificate{misnamed}}, opts: []Option{WithRootCAs(ca.pool), WithServerName("pve2.example.com")}},
		{name: "pin", config: &tls.Config{Certificates: []tls.Certificate{good}}, opts: []Option{WithFingerprint(pin)}},
		{name: "pin in plain hex", config: &tls.Config{Certificates: []tls.Certificate{good}}, opts: []Option{WithFingerprint(strings.ToLower(strings.ReplaceAll(pin, ":", "")))}},
		{name: "one of two pins", config: &tls.Config{Certificates: []tls.Certificate{good}}, opts: []Option{WithFingerprint(fingerprintOf(misnamed)), WithFingerprint("sha256:" + pin)}},
		{name: "pin of another", config: &tls.Config{Certificates: []tls.Certificate{good}}, opts: []Option{WithFingerprint(fingerprintOf(misnamed))}, wantErr: pin},
		{name: "pin beats a good chain", config: &tls.Config{Certificates: []tls.Certificate{good}}, opts: []Option{WithRootCAs(ca.pool), WithFingerprint(fingerprintOf(misnamed))}, wantErr: "not a pinned one"},
		{name: "TLS 1.2", config: &tls.Config{Certificates: []tls.Certificate{good}, MaxVersion: tls.VersionTLS12}, opts: []Option{WithFingerprint(pin)}},
		{name: "TLS 1.1", config: &tls.Config{Certificates: []tls.Certificate{good}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, opts: []Option{WithFingerprint(pin)}, wantErr: "tls"},
		{
			name:   "client certificate",
			config: &tls.Config{Certificates: []tls.Certificate{good}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: other.pool},
			opts:   []Option{WithRootCAs(ca.pool), WithClientCertificate(other.issue(t, "me"))},
		},
		{
			name:    "client certificate missing",
			config:  &tls.Config{Certificates: []tls.Certificate{good}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: other.pool},
			opts:    []Option{WithRootCAs(ca.pool)},
			wantErr: "certificate required",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			server := newTLSServer(t, tc.config, func(w http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				assert.Equal(t, 1, r.ProtoMajor, "HTTP/1.1 only")
				answerNull(w, r)
			})
			client := newClient(t, server.URL, append(tc.opts, WithAPIToken("a@pve!t", "secret"))...)
			err := client.Call(t.Context(), http.MethodPost, "/x", nil, nil)
			if tc.wantErr == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.wantErr)
			assert.Zero(t, calls.Load(), "the token was not sent")
			if strings.Contains(tc.name, "authority") || strings.Contains(tc.name, "pin") || strings.Contains(tc.name, "name") {
				assert.ErrorIs(t, err, ErrCertificate)
				assert.ErrorIs(t, err, ErrNotSent)
				assert.False(t, IsRetryable(err))
			}
		})
	}
}

func TestFingerprintErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":      "64 hexadecimal digits",
		"abcd":  "64 hexadecimal digits",
		"zz:yy": "64 hexadecimal digits",
		"AA:BB:CC:DD:EE:FF:00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD": "SHA-1",
	} {
		_, err := New(Product{}, "pve1", WithFingerprint(text))
		assert.ErrorContains(t, err, want, text)
	}
}

// TestPinOnResumedSessions: a resumed session skips the verification of chains, but
// never that of the pin.
func TestPinOnResumedSessions(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cert := ca.issue(t, "pve1", net.IPv4(127, 0, 0, 1))
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		var resumed atomic.Int32
		server := newTLSServer(t, &tls.Config{Certificates: []tls.Certificate{cert}, MaxVersion: version}, func(w http.ResponseWriter, r *http.Request) {
			if r.TLS.DidResume {
				resumed.Add(1)
			}
			answerNull(w, r)
		})
		client := newClient(t, server.URL, WithFingerprint(fingerprintOf(cert)))
		for range 3 {
			require.NoError(t, client.Call(t.Context(), http.MethodGet, "/x", nil, nil))
			client.CloseIdleConnections()
		}
		assert.Positive(t, resumed.Load(), "sessions are resumed")

		// The same session with another pin.
		transport, ok := client.transport.(*http.Transport)
		require.True(t, ok)
		pins := [][32]byte{{1}}
		transport.TLSClientConfig.VerifyConnection = func(state tls.ConnectionState) error {
			assert.True(t, state.DidResume)
			return verifyPin(pins, state)
		}
		err := client.Call(t.Context(), http.MethodGet, "/x", nil, nil)
		assert.ErrorIs(t, err, ErrCertificate)
		var mismatch *FingerprintError
		assert.ErrorAs(t, err, &mismatch)
	}
}

func TestPlainHTTPServerBehindHTTPS(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(answerNull))
	defer server.Close()
	client := newClient(t, strings.Replace(server.URL, "http:", "https:", 1))
	err := client.Call(t.Context(), http.MethodGet, "/x", nil, nil)
	require.ErrorContains(t, err, "speaks plain http on this port")
	assert.False(t, IsRetryable(err))
}

func TestPathPrefixAndIPv6(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 here")
	}
	var target atomic.Value
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		target.Store(r.Host + r.RequestURI)
		answerNull(w, r)
	})}}
	server.Start()
	defer server.Close()
	client := newClient(t, "http://"+listener.Addr().String()+"/lab/pve/")
	require.NoError(t, client.Call(t.Context(), http.MethodGet, "/version", nil, nil))
	assert.Equal(t, listener.Addr().String()+"/lab/pve/api2/json/version", target.Load())
	assert.Equal(t, "http://"+listener.Addr().String()+"/lab/pve", client.Endpoint())
}

func TestProxyFromEnvironment(t *testing.T) {
	t.Parallel()
	client, err := New(Product{}, "pve1.example.com")
	require.NoError(t, err)
	transport, ok := client.transport.(*http.Transport)
	require.True(t, ok)
	require.NotNil(t, transport.Proxy)

	// Through a real proxy that tunnels to the real server.
	ca := newAuthority(t)
	cert := ca.issue(t, "pve1.example.com")
	server := newTLSServer(t, &tls.Config{Certificates: []tls.Certificate{cert}}, answerNull)
	var tunnels atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != "pve1.example.com:8006" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		tunnels.Add(1)
		tunnel(r.Context(), w, server.Listener.Addr().String())
	}))
	defer proxy.Close()
	client, err = New(Product{}, "pve1.example.com", WithRootCAs(ca.pool))
	require.NoError(t, err)
	transport, ok = client.transport.(*http.Transport)
	require.True(t, ok)
	address, err := url.Parse(proxy.URL)
	require.NoError(t, err)
	transport.Proxy = http.ProxyURL(address)
	require.NoError(t, client.Call(t.Context(), http.MethodPost, "/x", nil, nil))
	assert.Equal(t, int32(1), tunnels.Load())
	client.CloseIdleConnections()
}

func TestConfigRefusals(t *testing.T) {
	t.Parallel()
	rt := WithTransport(roundTripper(nil))
	for name, opts := range map[string][]Option{
		"API token or a login":       {WithAPIToken("a@pve!t", "s"), WithPassword("a@pve", "p")},
		"WithPassword beside":        {WithTFA(func(context.Context, TFAChallenge) (TFAAnswer, error) { return TFAAnswer{}, nil })},
		"transport of your own":      {rt, WithRootCAs(x509.NewCertPool())},
		"leave out WithServerName":   {WithServerName("x"), WithFingerprint(hex.EncodeToString(make([]byte, 32)))},
		"an option is nil":           {nil},
		"needs a pool":               {WithRootCAs(nil)},
		"needs a round tripper":      {WithTransport(nil)},
		"needs a limiter":            {WithRateLimit(nil)},
		"is an API token":            {WithPassword("a@pve!t", "p")},
		"has no realm":               {WithPassword("root", "p")},
		"password of a@pve is empty": {WithPassword("a@pve", "")},
		"no private key":             {WithClientCertificate(tls.Certificate{})},
		"no negative":                {WithRetry(RetryPolicy{Attempts: -1})},
		"line breaks":                {WithUserAgent("a\r\nb")},
	} {
		_, err := New(Product{}, "pve1", opts...)
		assert.ErrorContains(t, err, name)
	}
	_, err := New(Product{Dialect: "cobol"}, "pve1")
	assert.ErrorContains(t, err, "neither perl nor rust")
}

// TestClientsShareNothing: two clients with different pins do not notice each other.
func TestClientsShareNothing(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cert := ca.issue(t, "pve1", net.IPv4(127, 0, 0, 1))
	server := newTLSServer(t, &tls.Config{Certificates: []tls.Certificate{cert}}, answerNull)
	good := newClient(t, server.URL, WithFingerprint(fingerprintOf(cert)))
	require.NoError(t, good.Call(t.Context(), http.MethodGet, "/x", nil, nil))
	bad := newClient(t, server.URL, WithFingerprint(strings.Repeat("00", 32)))
	assert.ErrorIs(t, bad.Call(t.Context(), http.MethodGet, "/x", nil, nil), ErrCertificate)
	resp, err := http.Get(server.URL) //nolint:noctx // the default client must not have learned anything
	if err == nil {
		resp.Body.Close()
	}
	assert.True(t, errors.As(err, new(x509.UnknownAuthorityError)), "%v", err)
}
