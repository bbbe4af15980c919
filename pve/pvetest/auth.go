package pvetest

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const ticketLife = 2 * time.Hour

// authenticate finds out who sends a request. A refusal has no body.
func (s *Server) authenticate(req *rawRequest, uri string) (identity, *rawResponse) {
	public := openToAll(req.method, strings.TrimRight(uri, "/"))
	authorization := req.header.Get("Authorization")
	s.mu.Lock()
	defer s.mu.Unlock()
	if rest, ok := strings.CutPrefix(authorization, "PVEAPIToken="); ok {
		id, ok := s.checkToken(rest)
		if !ok {
			return identity{}, bare(401, "Authentication failed!")
		}
		return id, nil
	}
	ticket := cookie(req.header.Values("Cookie"), "PVEAuthCookie")
	if ticket == "" {
		ticket = strings.TrimPrefix(authorization, "PVEAuthCookie=")
		if ticket == authorization {
			ticket = ""
		}
		ticket = percentDecode(ticket)
	}
	if ticket == "" || public {
		if public {
			return identity{}, nil
		}
		return identity{}, bare(401, "No ticket")
	}
	user, ok := s.checkTicket(ticket)
	if strings.HasPrefix(ticket, challenge) {
		return identity{}, bare(401, "No ticket") // only half a login
	}
	if !ok {
		return identity{}, bare(401, "Authentication failed!")
	}
	if req.method != "GET" && !s.checkCSRF(req.header.Get("CSRFPreventionToken"), user) {
		return identity{}, bare(401, "Permission denied - invalid csrf token")
	}
	return identity{User: user}, nil
}

// openToAll tells the calls that need no authentication.
func openToAll(method, uri string) bool {
	switch uri {
	case "/access/domains":
		return method == "GET"
	case "/access/ticket":
		return method == "GET" || method == "POST"
	case "/access/openid/login", "/access/openid/auth-url":
		return method == "POST"
	}
	return false
}

func cookie(headers []string, name string) string {
	for _, h := range headers {
		for part := range strings.SplitSeq(h, ";") {
			if v, ok := strings.CutPrefix(strings.TrimSpace(part), name+"="); ok {
				return percentDecode(v)
			}
		}
	}
	return ""
}

// checkToken reads "user@realm!id=secret".
func (s *Server) checkToken(text string) (identity, bool) {
	id, secret, ok := strings.Cut(text, "=")
	if !ok {
		id, secret, _ = strings.Cut(text, ":")
	}
	id = percentDecode(id)
	name, tokenid, ok := strings.Cut(id, "!")
	u := s.state.Users[name]
	if !ok || u == nil || !u.usable(s.clock()) {
		return identity{}, false
	}
	t := u.Tokens[tokenid]
	if t == nil || t.Expire != 0 && t.Expire < s.clock().Unix() {
		return identity{}, false
	}
	if subtle.ConstantTimeCompare([]byte(t.Secret), []byte(secret)) != 1 {
		return identity{}, false
	}
	return identity{User: name, Token: tokenid}, true
}

// usable tells whether the account may be used now.
func (u *user) usable(now time.Time) bool {
	return !u.Disabled && (u.Expire == 0 || u.Expire > now.Unix())
}

func (s *Server) sign(text string) string {
	mac := hmac.New(sha256.New, s.secret)
	mac.Write([]byte(text))
	return base64.RawStdEncoding.EncodeToString(mac.Sum(nil))
}

// ticket makes a login ticket.
func (s *Server) ticket(user string) string {
	text := fmt.Sprintf("PVE:%s:%08X", user, s.clock().Unix())
	return text + "::" + s.sign(text)
}

// csrf makes the token that goes with a ticket.
func (s *Server) csrf(user string) string {
	at := fmt.Sprintf("%08X", s.clock().Unix())
	return at + ":" + s.sign("csrf "+at+" "+user)
}

func (s *Server) fresh(hex string) bool {
	at, err := strconv.ParseInt(hex, 16, 64)
	age := s.clock().Unix() - at
	return err == nil && age > -300 && age < int64(ticketLife/time.Second)
}

// checkTicket returns the user of a ticket that is valid.
func (s *Server) checkTicket(ticket string) (string, bool) {
	name, ok := s.openTicket(ticket)
	u := s.state.Users[name]
	return name, ok && u != nil && u.usable(s.clock())
}

// openTicket returns what a ticket that is signed and not too old is about.
func (s *Server) openTicket(ticket string) (string, bool) {
	text, sig, ok := strings.Cut(ticket, "::")
	words := strings.SplitN(text, ":", 2)
	if !ok || len(words) != 2 || words[0] != "PVE" {
		return "", false
	}
	i := strings.LastIndex(words[1], ":")
	if i < 0 || !hmac.Equal([]byte(sig), []byte(s.sign(text))) || !s.fresh(words[1][i+1:]) {
		return "", false
	}
	return words[1][:i], true
}

func (s *Server) checkCSRF(token, user string) bool {
	at, sig, ok := strings.Cut(token, ":")
	return ok && s.fresh(at) && hmac.Equal([]byte(sig), []byte(s.sign("csrf "+at+" "+user)))
}
