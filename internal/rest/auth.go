package rest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// An authenticator puts credentials on requests.
type authenticator interface {
	// authorize sets the credentials on req and returns a number that names them.
	authorize(ctx context.Context, req *http.Request) (seen uint64, err error)
	// renew says that the credentials seen were refused, and reports whether another
	// try may fare better.
	renew(seen uint64) bool
	// secrets are the values to keep out of errors.
	secrets() []string
}

// noAuth serves the few calls that need no credentials.
type noAuth struct{}

func (noAuth) authorize(context.Context, *http.Request) (uint64, error) { return 0, nil }
func (noAuth) renew(uint64) bool                                        { return false }
func (noAuth) secrets() []string                                        { return nil }

// An apiToken is sent with every request and never renewed.
type apiToken struct {
	id     string
	secret string
	header []string
}

// newAPIToken checks the shape of a token's parts. It does not check what servers
// accept in names: realms may have dots and dashes, and rules change.
func newAPIToken(product Product, id, secret string) (*apiToken, error) {
	fail := func(text string) (*apiToken, error) {
		return nil, fmt.Errorf("%s: API token: %s; a token has the form user@realm!name and a secret", product.Name, text)
	}
	id, secret = strings.TrimSpace(id), strings.TrimSpace(secret)
	for _, prefix := range [...]string{product.TokenScheme + "=", product.TokenScheme + " "} {
		secret, id = strings.TrimPrefix(secret, prefix), strings.TrimPrefix(id, prefix)
	}
	if secret == "" || strings.Contains(secret, "!") {
		// The whole token in one text, in either argument.
		whole := cmpOr(secret, id)
		if i := strings.IndexByte(whole, '!'); i >= 0 {
			if j := strings.IndexAny(whole[i:], "=:"); j >= 0 {
				wholeID := whole[:i+j]
				if secret != "" && id != "" && id != wholeID {
					return fail("the id given is not the one inside the secret")
				}
				id, secret = wholeID, whole[i+j+1:]
			}
		}
	}
	user, name, ok := strings.Cut(id, "!")
	switch {
	case id == "":
		return fail("the id is empty")
	case !ok || name == "":
		return fail("the id " + quoteID(id) + " has no token name after the user")
	case strings.ContainsAny(id, " \t\r\n=:/\x00"):
		return fail("the id " + quoteID(user) + "!… has characters that no token has")
	case !isUser(user):
		return fail("the user " + quoteID(user) + " has no realm, as in user@pve")
	case secret == "":
		return fail("the secret of " + id + " is empty")
	case strings.ContainsAny(secret, " \t\r\n\x00"):
		return fail("the secret of " + id + " has spaces or line breaks")
	}
	return &apiToken{
		id: id, secret: secret,
		header: []string{product.TokenScheme + "=" + id + product.TokenSeparator + secret},
	}, nil
}

// quoteID quotes what was given as an id, unless it may be a secret by mistake.
func quoteID(id string) string {
	if !strings.Contains(id, "@") {
		return "(not shown)"
	}
	if i := strings.IndexAny(id, "=:"); i >= 0 {
		id = id[:i] + "…"
	}
	return fmt.Sprintf("%q", id)
}

// isUser reports whether user has a name and a realm. Names may hold an @ themselves.
func isUser(user string) bool {
	i := strings.LastIndexByte(user, '@')
	return i > 0 && i < len(user)-1
}

func checkUser(product Product, user string) error {
	switch {
	case user == "":
		return fmt.Errorf("%s: the user is empty: give name@realm, as root@pam", product.Name)
	case strings.Contains(user, "!"):
		return fmt.Errorf("%s: %q is an API token: give it as one", product.Name, user)
	case !isUser(user):
		return fmt.Errorf("%s: user %q has no realm: give name@realm, as root@pam", product.Name, user)
	}
	return nil
}

func (t *apiToken) authorize(_ context.Context, req *http.Request) (uint64, error) {
	req.Header["Authorization"] = t.header
	return 0, nil
}

func (*apiToken) renew(uint64) bool { return false }

func (t *apiToken) secrets() []string { return []string{t.secret} }
