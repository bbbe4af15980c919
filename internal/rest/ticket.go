package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/proxkit/proxkit/internal/wire"
)

const (
	// ticketLife is how long the servers accept a ticket.
	ticketLife = 2 * time.Hour
	// ticketRenewal is the age at which a ticket is renewed, early enough that a clock
	// that is off or a server that is down for a while does no harm.
	ticketRenewal = 1 * time.Hour
	// partialTicket marks a ticket that only proves the first factor.
	partialTicket = ":!tfa!"
)

// A Ticket is the session of a user. Whoever holds it acts as that user until it runs
// out: treat it like a password. It survives JSON, but prints without its secrets.
type Ticket struct {
	User   string    `json:"user"`
	Value  string    `json:"value"`
	CSRF   string    `json:"csrf"`
	Issued time.Time `json:"issued"`
	// Cookie is the cookie's text where the server sets the cookie itself instead of
	// telling the ticket.
	Cookie     string `json:"cookie,omitempty"`
	CookieName string `json:"cookie_name,omitempty"`
}

// String implements fmt.Stringer without the secrets.
func (t Ticket) String() string {
	return "ticket of " + t.User + " of " + t.Issued.Format(time.RFC3339)
}

// GoString keeps %#v from showing the secrets.
func (t Ticket) GoString() string { return "rest.Ticket{" + strconv.Quote(t.String()) + "}" }

// LogValue implements slog.LogValuer without the secrets.
func (t Ticket) LogValue() slog.Value { return slog.StringValue(t.String()) }

func (t *Ticket) check(product Product) error {
	switch {
	case t.Value == "" && t.Cookie == "":
		return fmt.Errorf("%s: the ticket is empty", product.Name)
	case strings.Contains(t.Value, partialTicket):
		return fmt.Errorf("%s: the ticket lacks the second factor and is no session", product.Name)
	case strings.ContainsAny(t.Value+t.Cookie+t.CookieName+t.CSRF, "\r\n\x00;"):
		return fmt.Errorf("%s: the ticket is damaged: it has line breaks or semicolons", product.Name)
	}
	if t.User == "" {
		// "PVE:user@realm:6A1B2C3D::signature"
		if parts := strings.Split(t.Value, ":"); len(parts) > 2 {
			t.User = parts[1]
		}
	}
	if t.User == "" {
		return fmt.Errorf("%s: the ticket names no user", product.Name)
	}
	if t.Issued.IsZero() {
		t.Issued = issuedAt(t.Value)
	}
	return nil
}

// issuedAt reads the time inside a ticket; the zero time means unknown.
func issuedAt(ticket string) time.Time {
	head, _, ok := strings.Cut(ticket, "::")
	if !ok {
		return time.Time{}
	}
	sec, err := strconv.ParseInt(head[strings.LastIndexByte(head, ':')+1:], 16, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(sec, 0)
}

func (t *Ticket) age() time.Duration { return time.Since(t.Issued) }

// A TFAChallenge is a server's question for the second factor.
type TFAChallenge struct {
	User string
	// Methods are those that will do, as "totp", "recovery", "webauthn", "u2f" or "yubico".
	Methods []string
	// Details holds what the server says about each method. For "webauthn" it is the
	// options that go to the authenticator.
	Details map[string]json.RawMessage
}

// A TFAAnswer answers a [TFAChallenge].
type TFAAnswer struct {
	// Method is one of the challenge's methods.
	Method string
	// Value is the code for "totp", "recovery" and "yubico", and the authenticator's
	// answer as JSON for "webauthn" and "u2f".
	Value string
}

// A TFAHandler answers the second factor of a login, usually by asking someone. It
// should return when ctx ends.
type TFAHandler func(ctx context.Context, challenge TFAChallenge) (TFAAnswer, error)

// A TFARequiredError reports a login that needs a second factor while the client has
// no [WithTFA].
type TFARequiredError struct {
	User    string
	Methods []string // what would do, as "totp"

	product string
}

// Error implements error.
func (e *TFARequiredError) Error() string {
	return cmpOr(e.product, "proxmox") + ": the login of " + e.User + " needs a second factor (" +
		strings.Join(e.Methods, ", ") + "): answer it with WithTFA, or use an API token"
}

// Is makes the error an [ErrTFARequired].
func (e *TFARequiredError) Is(target error) bool { return target == ErrTFARequired }

// loginConfig is what options say about logins.
type loginConfig struct {
	user, password string
	ticket         *Ticket
	tfa            TFAHandler
}

// A session holds the ticket of a user and gets a new one when needed. Concurrent
// calls share one login.
type session struct {
	client *Client
	config loginConfig

	mu         sync.Mutex
	ticket     *Ticket
	generation uint64 // counts tickets
	flight     *loginFlight
	old        []string // secrets of earlier tickets, still kept out of errors
}

// A loginFlight is a login under way. It belongs to all callers that wait for it and
// ends early only when none is left, so that a caller who gives up spoils nothing for
// the others.
type loginFlight struct {
	done    chan struct{}
	cancel  context.CancelFunc
	waiters int
	ticket  *Ticket
	err     error
}

func newSession(c *Client, config *loginConfig) *session {
	s := &session{client: c, config: *config}
	if t := config.ticket; t != nil {
		s.ticket, s.generation = t, 1
	}
	return s
}

func (s *session) authorize(ctx context.Context, req *http.Request) (uint64, error) {
	t, generation, err := s.get(ctx)
	if err != nil {
		return 0, err
	}
	name, value := cmpOr(t.CookieName, s.client.product.CookieName), t.Cookie
	if value == "" {
		value = percent(t.Value)
	}
	req.Header["Cookie"] = []string{name + "=" + value}
	if req.Method != http.MethodGet && t.CSRF != "" {
		req.Header[http.CanonicalHeaderKey(s.client.product.CSRFHeader)] = []string{t.CSRF}
	}
	return generation, nil
}

// renew drops a refused ticket when a new login is possible. A ticket that another
// call has replaced meanwhile is a reason to try again, too.
func (s *session) renew(seen uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.generation != seen {
		return true
	}
	if s.config.password == "" {
		return false
	}
	s.forget()
	return true
}

func (s *session) forget() {
	if s.ticket == nil {
		return
	}
	s.old = append(s.old, s.ticket.Value, s.ticket.Cookie, s.ticket.CSRF)
	if len(s.old) > 12 {
		s.old = s.old[len(s.old)-12:]
	}
	s.ticket = nil
}

func (s *session) secrets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := append([]string{s.config.password}, s.old...)
	if s.ticket != nil {
		found = append(found, s.ticket.Value, s.ticket.Cookie, s.ticket.CSRF)
	}
	return found
}

// get returns the ticket to use, after a login or a renewal where one is due.
func (s *session) get(ctx context.Context) (*Ticket, uint64, error) {
	s.mu.Lock()
	if t := s.ticket; t != nil {
		age := t.age()
		if age < ticketRenewal && age > -ticketRenewal || s.flight != nil && age < ticketLife {
			defer s.mu.Unlock()
			return t, s.generation, nil
		}
	}
	f := s.flight
	if f == nil {
		flightCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		f = &loginFlight{done: make(chan struct{}), cancel: cancel}
		s.flight = f
		go s.fly(flightCtx, f, s.ticket)
	}
	f.waiters++
	s.mu.Unlock()

	select {
	case <-f.done:
		if f.err != nil {
			return nil, 0, f.err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return f.ticket, s.generation, nil
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		if f.waiters--; f.waiters == 0 {
			f.cancel()
			if s.flight == f {
				s.flight = nil
			}
		}
		return nil, 0, fmt.Errorf("%s: waiting for the login of %s: %w", s.client.product.Name, s.config.user, contextOr(ctx, ctx.Err()))
	}
}

// fly logs in, or renews the session that old stands for, and tells the waiters.
func (s *session) fly(ctx context.Context, f *loginFlight, old *Ticket) {
	defer f.cancel()
	var t *Ticket
	var err error
	if old != nil && (old.age() < ticketLife || s.config.password == "") {
		if t, err = s.login(ctx, old.Value); err != nil && old.age() < ticketLife && !errors.Is(err, ErrAuthentication) {
			t, err = old, nil // renewal failed, but the ticket still holds
		}
	}
	if t == nil && s.config.password != "" && ctx.Err() == nil {
		t, err = s.login(ctx, s.config.password)
	}
	s.mu.Lock()
	f.ticket, f.err = t, err
	if s.flight == f {
		s.flight = nil
		if err == nil && t != old {
			s.forget()
			s.ticket = t
			s.generation++
		}
	}
	s.mu.Unlock()
	close(f.done)
}

// loginAnswer is what the servers say to a login. NeedTFA is a number in some
// versions and a boolean in others.
type loginAnswer struct {
	Username string          `json:"username"`
	Ticket   string          `json:"ticket"`
	CSRF     string          `json:"CSRFPreventionToken"`
	NeedTFA  json.RawMessage `json:"NeedTFA"`
}

// login asks for a ticket with a password, which may be an older ticket.
func (s *session) login(ctx context.Context, password string) (*Ticket, error) {
	form := url.Values{"username": {s.config.user}, "password": {password}}
	a, header, err := s.post(ctx, form, "")
	if err != nil {
		return nil, err
	}
	if strings.Contains(a.Ticket, partialTicket) || isTrue(a.NeedTFA) {
		challenge := readChallenge(s.config.user, a.Ticket)
		if s.config.tfa == nil {
			return nil, &TFARequiredError{User: challenge.User, Methods: challenge.Methods, product: s.client.product.Name}
		}
		answer, err := s.config.tfa(ctx, challenge)
		if err != nil {
			return nil, fmt.Errorf("%s: second factor of %s: %w", s.client.product.Name, s.config.user, err)
		}
		if answer.Method == "" || answer.Value == "" {
			return nil, fmt.Errorf("%s: second factor of %s: the answer has no method or no value", s.client.product.Name, s.config.user)
		}
		form.Set("password", answer.Method+":"+answer.Value)
		form.Set("tfa-challenge", a.Ticket)
		if a, header, err = s.post(ctx, form, a.CSRF); err != nil {
			return nil, err
		}
		if strings.Contains(a.Ticket, partialTicket) || isTrue(a.NeedTFA) {
			return nil, fmt.Errorf("%s: the server asks for the second factor of %s again: %w", s.client.product.Name, s.config.user, ErrTFARequired)
		}
	}
	t := &Ticket{User: cmpOr(a.Username, s.config.user), Value: a.Ticket, CSRF: a.CSRF, Issued: time.Now()}
	if t.Value == "" {
		t.CookieName, t.Cookie = s.cookie(header)
	}
	if err := t.check(s.client.product); err != nil {
		return nil, fmt.Errorf("%s: login of %s: the answer holds no usable ticket", s.client.product.Name, s.config.user)
	}
	return t, nil
}

// cookie finds the ticket in the cookies of an answer, for servers that keep it out of
// the body.
func (s *session) cookie(header http.Header) (name, value string) {
	want := strings.TrimPrefix(s.client.product.CookieName, "__Host-")
	for _, line := range header["Set-Cookie"] {
		pair, _, _ := strings.Cut(line, ";")
		name, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if ok && strings.TrimPrefix(name, "__Host-") == want && value != "" {
			return name, value
		}
	}
	return "", ""
}

func (s *session) post(ctx context.Context, form url.Values, csrf string) (loginAnswer, http.Header, error) {
	call := &call{
		method: http.MethodPost, path: s.client.product.TicketPath, kind: kindLogin, plain: true,
		contentType: contentForm, body: []byte(form.Encode()),
	}
	if csrf != "" {
		call.header = http.Header{http.CanonicalHeaderKey(s.client.product.CSRFHeader): {csrf}}
	}
	answer, err := s.client.send(ctx, call)
	if err != nil {
		return loginAnswer{}, nil, err
	}
	var a loginAnswer
	env, err := wire.DecodeEnvelope(answer.body, &a, nil)
	if err != nil || len(env.Data) == 0 {
		return loginAnswer{}, nil, s.client.decodeError(call, errors.New("the answer to the login is no JSON object with data"))
	}
	return a, answer.response.Header, nil
}

func isTrue(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", "false", "0", `"0"`, `""`:
		return false
	}
	return true
}

// readChallenge reads what a partial ticket asks for:
// "PVE:!tfa!{"totp"%3Atrue}:6A1B2C3D::signature". A ticket that cannot be read asks
// for nothing in particular.
func readChallenge(user, ticket string) TFAChallenge {
	challenge := TFAChallenge{User: user}
	_, after, ok := strings.Cut(ticket, partialTicket)
	if !ok {
		return challenge
	}
	encoded, _, _ := strings.Cut(after, ":")
	text, err := url.PathUnescape(encoded)
	if err != nil || json.Unmarshal([]byte(text), &challenge.Details) != nil {
		return challenge
	}
	for _, method := range [...]string{"totp", "recovery", "webauthn", "u2f", "yubico"} {
		detail, ok := challenge.Details[method]
		if ok && isTrue(detail) && string(detail) != `"unavailable"` && string(detail) != "[]" {
			challenge.Methods = append(challenge.Methods, method)
		}
	}
	return challenge
}

// Ticket returns the session's ticket, after a login where one is due, so that another
// process can go on with it by [WithTicket]. Clients with an API token have none.
func (c *Client) Ticket(ctx context.Context) (Ticket, error) {
	s, ok := c.auth.(*session)
	if !ok {
		return Ticket{}, fmt.Errorf("%s: only clients that log in have a ticket", c.product.Name)
	}
	t, _, err := s.get(ctx)
	if err != nil {
		return Ticket{}, err
	}
	return *t, nil
}

// Logout ends the session. Proxmox VE cannot revoke tickets: there it is only
// forgotten. A later call logs in again, if the client knows the password.
func (c *Client) Logout(ctx context.Context) error {
	s, ok := c.auth.(*session)
	if !ok {
		return nil
	}
	s.mu.Lock()
	held := s.ticket != nil
	s.mu.Unlock()
	var err error
	if held && !c.product.perl() {
		err = c.Call(ctx, http.MethodDelete, c.product.TicketPath, nil, nil)
	}
	s.mu.Lock()
	s.forget()
	s.mu.Unlock()
	return err
}
