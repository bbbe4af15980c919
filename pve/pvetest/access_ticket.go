package pvetest

import (
	"crypto/hmac"
	"fmt"
	"slices"
	"strings"
)

// SetSecondFactor makes logins of a user need a second factor: a code that a
// client sends as "totp:CODE". An empty code ends that.
func (s *Server) SetSecondFactor(userid, code string) error {
	s.tb.Helper()
	return s.change("SetSecondFactor", func() error {
		u := s.state.Users[userid]
		if u == nil {
			return unknown("user", userid, sortedKeys(s.state.Users))
		}
		u.Factor = code
		return nil
	})
}

// challenge is what a login that needs a second factor gets in its ticket instead
// of the user's name, which only the signature covers.
const challenge = `PVE:!tfa!{"totp"%3Atrue}:`

func (s *Server) halfTicket(user string) string {
	text := challenge + fmt.Sprintf("%08X", s.clock().Unix())
	return text + "::" + s.sign(text+" "+user)
}

func (s *Server) checkHalfTicket(ticket, user string) bool {
	text, sig, ok := strings.Cut(ticket, "::")
	at, is := strings.CutPrefix(text, challenge)
	return ok && is && hmac.Equal([]byte(sig), []byte(s.sign(text+" "+user))) && s.fresh(at)
}

func ticketCreate(c *call) (any, error) {
	name, password := c.p.str("username"), c.p.str("password")
	if realm := c.p.str("realm"); realm != "" && !strings.HasSuffix(name, "@"+realm) {
		name += "@" + realm
	}
	u := c.cl().Users[name]
	refused := fail(401, "authentication failure")
	if u == nil || !u.usable(c.now) {
		return nil, refused
	}
	out := map[string]any{"username": name, "CSRFPreventionToken": c.s.csrf(name)}
	if c.cl().Name != "" {
		out["clustername"] = c.cl().Name
	}
	if first := c.p.str("tfa-challenge"); first != "" {
		if !c.s.checkHalfTicket(first, name) || u.Factor == "" || password != "totp:"+u.Factor {
			return nil, refused
		}
	} else if who, ok := c.s.checkTicket(password); ok {
		if who != name {
			return nil, refused
		}
	} else if u.Password == "" || u.Password != password {
		return nil, refused
	} else if u.Factor != "" {
		out["NeedTFA"], out["ticket"] = 1, c.s.halfTicket(name)
		return out, nil
	}
	out["ticket"] = c.s.ticket(name)
	out["cap"] = capabilities(newPermitter(c.cl(), identity{User: name}))
	return out, nil
}

// capabilities sums up what a user may do anywhere, for user interfaces.
func capabilities(p *permitter) map[string]map[string]int {
	areas := map[string][]string{
		"vms": {"VM.", "Permissions.Modify"}, "storage": {"Datastore.", "Permissions.Modify"},
		"access": {"User.", "Group.", "Permissions.Modify"}, "nodes": {"Sys.", "Permissions.Modify"},
		"sdn": {"SDN.", "Permissions.Modify"}, "dc": {"Sys.Audit", "Sys.Modify", "SDN."}, "mapping": {"Mapping.", "Permissions.Modify"},
	}
	out := map[string]map[string]int{}
	for area := range areas {
		out[area] = map[string]int{}
	}
	add := func(path string, only ...string) {
		for priv := range p.privs(path) {
			for _, area := range only {
				if slices.ContainsFunc(areas[area], func(prefix string) bool { return strings.HasPrefix(priv, prefix) }) {
					out[area][priv] = 1
				}
			}
		}
	}
	add("/", sortedKeys(areas)...)
	add("/vms", "vms")
	add("/storage", "storage")
	add("/access", "access")
	add("/access/groups", "access")
	add("/nodes", "nodes")
	add("/sdn", "sdn")
	add("/mapping", "mapping")
	for id := range p.cl.Pools {
		add("/pool/"+id, "vms")
	}
	return out
}

func passwordChange(c *call) (any, error) {
	u, err := c.user()
	if err != nil {
		return nil, err
	}
	if !c.auth.root() {
		asked := c.p.str("confirmation-password")
		if me := c.cl().Users[c.auth.User]; asked == "" || me.Password != asked {
			return nil, failParam("confirmation-password", "password confirmation failed")
		}
	}
	u.Password = c.p.str("password")
	return nil, nil
}
