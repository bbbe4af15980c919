package pvetest

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
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// A Server is a simulated cluster. Its methods may be used from several
// goroutines, and while requests are being served.
type Server struct {
	mu     sync.Mutex // guards all below that is not fixed by New
	state  *cluster
	clock  func() time.Time
	booted time.Time
	rng    *mathrand.Rand
	secret []byte // signs tickets
	tasks  taskMode
	active []*task // those that end by the clock
	faults []*Fault
	log    requestLog
	stale  *staleRows
	closed bool
	// changes counts the changes to the state, when it is saved after each.
	changes uint64
	saver   saver
	doors   map[string]net.Listener // the nodes' own endpoints

	reg     *registry
	dir     string // uploads and volumes with bytes
	ownDir  bool
	idle    time.Duration
	strict  func(op string) // called for an operation that is not simulated
	tb      TB              // of the test that the server belongs to
	workers *workerPool

	listener net.Listener
	cert     tls.Certificate
	pool     *x509.CertPool
	certPEM  string        // the CA's, as nodes hand it out
	quit     chan struct{} // closed by Close
	conns    map[net.Conn]bool
	connMu   sync.Mutex
	done     sync.WaitGroup
}

// An Option changes what [New] makes.
type Option func(*options) error

type options struct {
	nodes   []string
	listen  string
	clock   func() time.Time
	idle    time.Duration
	dir     string
	seed    uint64
	workers int
	recycle int
	root    string
	token   string
	strict  func(op string)
	tb      TB
	log     func(r Request)
	save    bool
	record  int
}

const nodeName = `[a-zA-Z0-9](?:[a-zA-Z0-9\-]*[a-zA-Z0-9])?`

// WithNodes names the cluster's nodes; the default is one, "pve1". With more
// than one the nodes are a cluster.
func WithNodes(names ...string) Option {
	return func(o *options) error {
		if len(names) == 0 {
			return errors.New("pvetest: a cluster needs a node")
		}
		for i, n := range names {
			if !matchOnce(nodeName, n) {
				return fmt.Errorf("pvetest: %q is no node name", n)
			}
			for _, other := range names[:i] {
				if other == n {
					return fmt.Errorf("pvetest: node %q is named twice", n)
				}
			}
		}
		o.nodes = names
		return nil
	}
}

// WithListen sets the address to listen on; the default is a free port on
// loopback.
func WithListen(addr string) Option {
	return func(o *options) error {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return fmt.Errorf("pvetest: listen address: %w", err)
		}
		o.listen = addr
		return nil
	}
}

// WithClock makes now the cluster's time. It is called from several goroutines.
func WithClock(now func() time.Time) Option {
	return func(o *options) error {
		o.clock = now
		return nil
	}
}

// WithIdleTimeout closes connections that are idle for d, as the real server
// does after five seconds. Without it idle connections stay.
func WithIdleTimeout(d time.Duration) Option {
	return func(o *options) error {
		o.idle = d
		return nil
	}
}

// WithDir keeps uploads and other bytes in dir instead of a temporary
// directory, and the cluster's state in dir/state.json: it is read by [New]
// when it is there, and written by [Server.Save] and [Server.Close], and after
// every change with [WithAutoSave]. Of the tasks that have ended it has the
// last thousand.
func WithDir(dir string) Option {
	return func(o *options) error {
		if dir == "" {
			return errors.New("pvetest: empty state directory")
		}
		o.dir = dir
		return nil
	}
}

// WithAutoSave saves the state in the directory of [WithDir] after every change,
// before the call that made it is answered, so that a program that is killed
// loses no change that anyone was told of.
func WithAutoSave() Option {
	return func(o *options) error {
		o.save = true
		return nil
	}
}

// WithRecord bounds the record that [Server.Requests] returns to the last n
// requests; the default is to keep all. It is for servers that run for long.
func WithRecord(n int) Option {
	return func(o *options) error {
		if n < 1 {
			return errors.New("pvetest: the record of requests must hold at least one")
		}
		o.record = n
		return nil
	}
}

// WithSeed makes MAC addresses and other random values repeatable.
func WithSeed(n uint64) Option {
	return func(o *options) error {
		o.seed = n
		return nil
	}
}

// WithWorkers limits each node to count requests at a time for the calls that
// Proxmox runs in its privileged daemon. A worker is replaced after it has
// served recycle requests (0: never), which cuts the requests that wait for it.
func WithWorkers(count, recycle int) Option {
	return func(o *options) error {
		if count < 1 || recycle < 0 {
			return errors.New("pvetest: workers must be at least one, and recycle not negative")
		}
		o.workers, o.recycle = count, recycle
		return nil
	}
}

// WithRootPassword sets the password of root@pam; the default is "proxmox".
func WithRootPassword(password string) Option {
	return func(o *options) error {
		o.root = password
		return nil
	}
}

// WithRootTokenSecret sets the secret of the token that [Server.RootToken]
// returns; the default is random.
func WithRootTokenSecret(secret string) Option {
	return func(o *options) error {
		o.token = secret
		return nil
	}
}

// WithLog calls f for every request when it has been answered.
func WithLog(f func(r Request)) Option {
	return func(o *options) error {
		o.log = f
		return nil
	}
}

// New starts a simulated cluster. Close it when done.
func New(opts ...Option) (*Server, error) {
	o := options{nodes: []string{"pve1"}, listen: "127.0.0.1:0", clock: time.Now, root: "proxmox", tb: quiet{}}
	for _, opt := range opts {
		if err := opt(&o); err != nil {
			return nil, err
		}
	}
	if o.save && o.dir == "" {
		return nil, errors.New("pvetest: WithAutoSave needs WithDir")
	}
	doc, err := facts()
	if err != nil {
		return nil, err
	}
	s := &Server{
		clock: o.clock, booted: o.clock().Add(-30 * time.Minute), idle: o.idle, strict: o.strict, tb: o.tb,
		reg: newRegistry(doc), quit: make(chan struct{}), conns: map[net.Conn]bool{}, secret: make([]byte, 32),
	}
	_, _ = rand.Read(s.secret)
	seed := o.seed
	if seed == 0 {
		var b [8]byte
		_, _ = rand.Read(b[:])
		for _, c := range b {
			seed = seed<<8 | uint64(c)
		}
	}
	s.log.f, s.log.keep = o.log, o.record
	s.saver.on = o.save
	s.rng = mathrand.New(mathrand.NewPCG(seed, seed>>1|1))
	if o.workers > 0 {
		s.workers = newWorkerPool(o.workers, o.recycle)
	}
	if err := s.makeDir(o.dir); err != nil {
		return nil, err
	}
	if err := s.load(&o); err != nil {
		s.removeDir()
		return nil, err
	}
	s.reg.check.hook = func(format, text string) string {
		if format == "pve-vm-cpu-conf" {
			return s.state.cpuProblem(text)
		}
		return ""
	}
	if err := s.makeCert(o.listen); err != nil {
		s.removeDir()
		return nil, err
	}
	if err := s.keep(s.touch()); err != nil {
		return nil, err
	}
	if err := s.start(o.listen); err != nil {
		s.removeDir()
		return nil, err
	}
	return s, nil
}

// A TB is what [RunT] needs of a *testing.T.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// RunT starts a simulated cluster for a test and stops it with the test. A
// request for an operation that is not simulated fails the test.
func RunT(t TB, opts ...Option) *Server {
	t.Helper()
	opts = append(opts, func(o *options) error {
		o.tb = t
		o.strict = func(op string) { t.Errorf("pvetest: %s is not simulated", op) }
		return nil
	})
	s, err := New(opts...)
	if err != nil {
		t.Fatalf("%v", err)
		return nil
	}
	t.Cleanup(func() {
		t.Helper()
		_ = s.Close()
		for _, text := range s.missed() {
			t.Errorf("pvetest: %s", text)
		}
	})
	return s
}

func (s *Server) makeDir(dir string) error {
	if dir == "" {
		tmp, err := os.MkdirTemp("", "pvetest-")
		if err != nil {
			return fmt.Errorf("pvetest: %w", err)
		}
		s.dir, s.ownDir = tmp, true
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("pvetest: state directory: %w", err)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("pvetest: state directory: %w", err)
	}
	s.dir = abs
	return nil
}

func (s *Server) removeDir() {
	if s.ownDir {
		_ = os.RemoveAll(s.dir)
	}
}

// makeCert makes an authority and the server's certificate, or takes those
// kept in the state directory.
func (s *Server) makeCert(listen string) error {
	file := filepath.Join(s.dir, "tls.pem")
	if s.ownDir {
		return s.newCert("", listen)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return s.newCert(file, listen)
	}
	return s.useCert(data)
}

func (s *Server) newCert(file, listen string) error {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("pvetest: %w", err)
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Proxmox Virtual Environment", Organization: []string{"PVE Cluster Manager CA"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return fmt.Errorf("pvetest: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("pvetest: %w", err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "pve1"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(2, 0, 0),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if host, _, err := net.SplitHostPort(listen); err == nil && host != "" {
		if ip := net.ParseIP(host); ip == nil {
			leaf.DNSNames = append(leaf.DNSNames, host)
		} else if !ip.IsUnspecified() {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	if err != nil {
		return fmt.Errorf("pvetest: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("pvetest: %w", err)
	}
	var out []byte
	out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})...)
	out = append(out, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})...)
	if file != "" {
		if err := os.WriteFile(file, out, 0o600); err != nil {
			return fmt.Errorf("pvetest: %w", err)
		}
	}
	return s.useCert(out)
}

func (s *Server) useCert(data []byte) error {
	cert, err := tls.X509KeyPair(data, data)
	if err != nil || len(cert.Certificate) < 2 {
		return fmt.Errorf("pvetest: certificate file of the state directory: %w", errors.Join(err, errIncomplete(cert)))
	}
	ca, err := x509.ParseCertificate(cert.Certificate[1])
	if err != nil {
		return fmt.Errorf("pvetest: %w", err)
	}
	s.cert = cert
	s.pool = x509.NewCertPool()
	s.pool.AddCert(ca)
	s.certPEM = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[1]}))
	return nil
}

func errIncomplete(cert tls.Certificate) error {
	if len(cert.Certificate) < 2 {
		return errors.New("it must hold the certificate, its authority and the key")
	}
	return nil
}

func (s *Server) start(addr string) error {
	l, err := s.listen(addr, "")
	s.listener = l
	return err
}

// listen serves an address: that of a node when it is named, otherwise of
// whichever node is up.
func (s *Server) listen(addr, node string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("pvetest: %w", err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{s.cert}, MinVersion: tls.VersionTLS12}
	s.done.Add(1)
	go func() {
		defer s.done.Done()
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.connMu.Lock()
			if s.conns == nil {
				s.connMu.Unlock()
				conn.Close()
				return
			}
			s.conns[conn] = true
			s.done.Add(1)
			s.connMu.Unlock()
			go func() {
				defer s.done.Done()
				s.accept(conn, config, node)
				s.connMu.Lock()
				delete(s.conns, conn)
				s.connMu.Unlock()
			}()
		}
	}()
	return l, nil
}

// NodeURL is an endpoint of one node. While that node is off, connections to
// it are closed without an answer; [Server.URL] is always answered, by the
// first node that is up.
func (s *Server) NodeURL(node string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Nodes[node] == nil {
		return "", fmt.Errorf("pvetest: no node %q", node)
	}
	if s.closed {
		return "", errors.New("pvetest: the cluster is closed")
	}
	if s.doors[node] == nil {
		l, err := s.listen("127.0.0.1:0", node)
		if err != nil {
			return "", err
		}
		ensure(&s.doors)
		s.doors[node] = l
	}
	return "https://" + s.doors[node].Addr().String(), nil
}

// shut tells whether a connection that came in by a node's own endpoint finds
// that node switched off.
func (s *Server) shut(node string) bool {
	if node == "" {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Nodes[node] == nil || s.state.Nodes[node].Offline
}

// accept serves a new connection: TLS, or a redirect for those who speak plain
// HTTP to the port.
func (s *Server) accept(conn net.Conn, config *tls.Config, node string) {
	if s.shut(node) {
		conn.Close()
		return
	}
	first := make([]byte, 1)
	if _, err := conn.Read(first); err != nil {
		conn.Close()
		return
	}
	back := &prefixConn{Conn: conn, first: first}
	if first[0] != 0x16 {
		_, _ = fmt.Fprintf(conn, "HTTP/1.0 301 Moved Permanently\r\nLocation: %s/\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", s.URL())
		conn.Close()
		return
	}
	s.serveConn(tls.Server(back, config), node)
}

// A prefixConn gives back the byte that was read to tell TLS from HTTP.
type prefixConn struct {
	net.Conn
	first []byte
}

func (c *prefixConn) Read(p []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// CloseWrite ends the sending side, so that an answer arrives whole.
func (c *prefixConn) CloseWrite() error {
	if t, ok := c.Conn.(*net.TCPConn); ok {
		return t.CloseWrite()
	}
	return nil
}

// Close stops the server, ends its connections and removes its files, unless
// they are in a directory given by [WithDir]; there the state is saved.
func (s *Server) Close() error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	for _, l := range s.doors {
		_ = l.Close()
	}
	s.mu.Unlock()
	if closed {
		return nil
	}
	close(s.quit)
	err := s.listener.Close()
	s.connMu.Lock()
	for c := range s.conns {
		c.Close()
	}
	s.conns = nil
	s.connMu.Unlock()
	s.done.Wait()
	if s.ownDir {
		s.removeDir()
		return err
	}
	return errors.Join(err, s.Save())
}

// URL is the endpoint, "https://127.0.0.1:PORT".
func (s *Server) URL() string { return "https://" + s.listener.Addr().String() }

// CertPool trusts the server's certificate.
func (s *Server) CertPool() *x509.CertPool { return s.pool }

// CertPEM is the certificate of the cluster's authority.
func (s *Server) CertPEM() string { return s.certPEM }

// Fingerprint is the SHA-256 fingerprint of the server's certificate as
// Proxmox writes it, "AB:CD:…".
func (s *Server) Fingerprint() string {
	sum := sha256.Sum256(s.cert.Certificate[0])
	text := strings.ToUpper(hex.EncodeToString(sum[:]))
	parts := make([]string, 0, len(sum))
	for i := 0; i < len(text); i += 2 {
		parts = append(parts, text[i:i+2])
	}
	return strings.Join(parts, ":")
}
