package rest

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/time/rate"
)

// Config collects what options set. Its fields are private: options are the only
// way in, so that a client can check them together.
type Config struct {
	product      Product
	endpoints    []string
	token        *apiToken
	login        *loginConfig
	rootCAs      *x509.CertPool
	pins         [][32]byte
	certificates []tls.Certificate
	serverName   string
	transport    http.RoundTripper
	userAgent    string
	onMisfit     func(Misfit)
	limiter      *rate.Limiter
	retry        RetryPolicy
	safeWrite    func(method, path string) bool
}

// An Option configures a client. It reports a bad argument when the client is made
// instead of hiding it until the first call.
type Option func(*Config) error

// A Misfit reports a value in an answer that did not fit the type promised for it.
// The field stays zero and the rest of the answer is delivered.
type Misfit struct {
	Method string // the call, as "GET"
	Path   string // and "/nodes/pve1/qemu"
	Field  string // where in the data, as "[3].maxmem"
	Want   string // what was promised, as "integer"
	Got    string // the beginning of what came
}

// WithAPIToken authenticates every call with an API token. The id is
// "user@realm!name". The secret is the UUID shown when the token was made; the whole
// "user@realm!name=uuid" is accepted too, with or without the id beside it.
func WithAPIToken(id, secret string) Option {
	return func(c *Config) error {
		t, err := newAPIToken(c.product, id, secret)
		if err != nil {
			return err
		}
		c.token = t
		return nil
	}
}

// WithPassword logs in with user "name@realm" and password when the first call
// needs it, renews the session before it runs out, and sends its CSRF token with
// every write. Logins of concurrent calls are one login.
func WithPassword(user, password string) Option {
	return func(c *Config) error {
		if err := checkUser(c.product, user); err != nil {
			return err
		}
		if password == "" {
			return fmt.Errorf("%s: the password of %s is empty", c.product.Name, user)
		}
		l := c.loginConfig()
		l.user, l.password = user, password
		return nil
	}
}

// WithTicket continues the session that ticket holds, for example one taken over
// from another process by [Client.Ticket]. It is renewed before it runs out;
// together with [WithPassword] a new login follows when it is refused.
func WithTicket(ticket Ticket) Option {
	return func(c *Config) error {
		if err := ticket.check(c.product); err != nil {
			return err
		}
		l := c.loginConfig()
		l.ticket = &ticket
		if l.user == "" {
			l.user = ticket.User
		}
		return nil
	}
}

// WithTFA answers the second factor of a login. Without it, a login that asks for
// one fails with [*TFARequiredError].
func WithTFA(answer TFAHandler) Option {
	return func(c *Config) error {
		if answer == nil {
			return fmt.Errorf("%s: WithTFA needs a function", c.product.Name)
		}
		c.loginConfig().tfa = answer
		return nil
	}
}

// WithRootCAs verifies the server against pool instead of the system's authorities.
// The CA of a Proxmox VE cluster is /etc/pve/pve-root-ca.pem on every node.
func WithRootCAs(pool *x509.CertPool) Option {
	return func(c *Config) error {
		if pool == nil {
			return fmt.Errorf("%s: WithRootCAs needs a pool: make one with x509.NewCertPool and AppendCertsFromPEM", c.product.Name)
		}
		c.rootCAs = pool
		return nil
	}
}

// WithFingerprint accepts the server whose certificate has this SHA-256 fingerprint
// (64 hex digits, with or without colons) and no other. It replaces the verification
// of chain, name and dates. Given several times, any of the fingerprints will do:
// the nodes of a cluster have certificates of their own.
func WithFingerprint(sha256 string) Option {
	return func(c *Config) error {
		pin, err := parseFingerprint(sha256)
		if err != nil {
			return fmt.Errorf("%s: %w", c.product.Name, err)
		}
		c.pins = append(c.pins, pin)
		return nil
	}
}

// WithClientCertificate offers certificate when the server, usually a reverse
// proxy, asks for one.
func WithClientCertificate(certificate tls.Certificate) Option {
	return func(c *Config) error {
		if len(certificate.Certificate) == 0 || certificate.PrivateKey == nil {
			return fmt.Errorf("%s: the client certificate has no certificate or no private key: use tls.LoadX509KeyPair", c.product.Name)
		}
		c.certificates = append(c.certificates, certificate)
		return nil
	}
}

// WithServerName verifies the server's certificate for name instead of the host in
// the endpoint, for example when the endpoint is an address.
func WithServerName(name string) Option {
	return func(c *Config) error {
		if name == "" {
			return fmt.Errorf("%s: WithServerName needs a name", c.product.Name)
		}
		c.serverName = name
		return nil
	}
}

// WithTransport sends all requests through rt. TLS is then rt's business: the
// options about certificates are refused beside it.
func WithTransport(rt http.RoundTripper) Option {
	return func(c *Config) error {
		if rt == nil {
			return fmt.Errorf("%s: WithTransport needs a round tripper", c.product.Name)
		}
		c.transport = rt
		return nil
	}
}

// WithUserAgent sends agent in the User-Agent header.
func WithUserAgent(agent string) Option {
	return func(c *Config) error {
		if agent == "" || strings.ContainsAny(agent, "\r\n\x00") {
			return fmt.Errorf("%s: user agent %q is empty or has line breaks", c.product.Name, agent)
		}
		c.userAgent = agent
		return nil
	}
}

// WithOnMisfit calls f for every value in an answer that did not fit the type
// promised for it. f may be called from several goroutines at once. The data of a
// read that is as a whole of another kind than promised, such as text where a list
// is due, is an [AnswerError] besides.
func WithOnMisfit(f func(Misfit)) Option {
	return func(c *Config) error {
		c.onMisfit = f
		return nil
	}
}

// WithRateLimit waits for limiter before every request. Clients that share a
// limiter share its rate.
func WithRateLimit(limiter *rate.Limiter) Option {
	return func(c *Config) error {
		if limiter == nil {
			return fmt.Errorf("%s: WithRateLimit needs a limiter: make one with rate.NewLimiter", c.product.Name)
		}
		c.limiter = limiter
		return nil
	}
}

// WithEndpoints adds further endpoints of the same installation, such as the other
// nodes of a cluster. The client stays with one endpoint as long as it can be
// reached and then goes on to the next.
func WithEndpoints(endpoints ...string) Option {
	return func(c *Config) error {
		c.endpoints = append(c.endpoints, endpoints...)
		return nil
	}
}

// WithRetry replaces the default [RetryPolicy].
func WithRetry(policy RetryPolicy) Option {
	return func(c *Config) error {
		if policy.Attempts < 0 || policy.MinWait < 0 || policy.MaxWait < 0 {
			return fmt.Errorf("%s: a retry policy has no negative numbers", c.product.Name)
		}
		c.retry = policy.withDefaults()
		return nil
	}
}

// WithSafeWrites names the writes that may be sent twice, because repeating them
// changes nothing. They are then retried like reads. The path is the one called, as
// "/nodes/pve1/qemu/100/config".
func WithSafeWrites(safe func(method, path string) bool) Option {
	return func(c *Config) error {
		c.safeWrite = safe
		return nil
	}
}

func (c *Config) loginConfig() *loginConfig {
	if c.login == nil {
		c.login = &loginConfig{}
	}
	return c.login
}

// check refuses combinations that would silently do less than they say.
func (c *Config) check() error {
	name := c.product.Name
	switch {
	case c.token != nil && c.login != nil:
		return fmt.Errorf("%s: give either an API token or a login, not both", name)
	case c.login != nil && c.login.password == "" && c.login.ticket == nil:
		return fmt.Errorf("%s: WithTFA needs WithPassword beside it", name)
	case c.login != nil && c.login.ticket != nil && c.login.ticket.User != c.login.user:
		return fmt.Errorf("%s: the ticket is of %s, the password of %s", name, c.login.ticket.User, c.login.user)
	case c.transport != nil && (c.rootCAs != nil || c.pins != nil || c.certificates != nil || c.serverName != ""):
		return fmt.Errorf("%s: with a transport of your own, set certificates, authorities and pins on that transport", name)
	case c.serverName != "" && c.pins != nil:
		return errors.New(name + ": a fingerprint replaces the verification of names: leave out WithServerName")
	}
	return nil
}
