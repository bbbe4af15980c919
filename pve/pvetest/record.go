package pvetest

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Request is one request as it was served.
type Request struct {
	Seq       int               // 1 for the first
	At        time.Time         // by the cluster's clock
	Method    string            //
	Path      string            // decoded, without "/api2/json"
	Template  string            // of the operation; empty when there is none
	Params    map[string]string // of the call, secrets masked
	User      string            // "root@pam" or "root@pam!token"; empty when not authenticated
	Status    int               // of the answer; 0 when the connection was cut
	Phrase    string            // the reason phrase
	Protected bool              // runs in the privileged daemon

	params map[string]rawValue
}

// String is the request's line, "POST /nodes/pve1/qemu".
func (r Request) String() string { return r.Method + " " + r.Path }

// A requestLog records requests.
type requestLog struct {
	mu       sync.Mutex
	all      []*Request
	seq      int
	keep     int            // how many of them; 0: all
	inFlight map[string]int // by node, and all of them under ""
	peak     map[string]int
	f        func(r Request)
}

// begin records a request that has arrived.
func (s *Server) begin(r *Request) {
	l := &s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keep > 0 && len(l.all) >= 2*l.keep {
		l.all = slices.Clone(l.all[len(l.all)-l.keep:])
	}
	l.all = append(l.all, r)
	l.seq++
	r.Seq = l.seq
	r.At = s.clock()
	if r.Method != "GET" {
		ensure(&l.inFlight)
		ensure(&l.peak)
		for _, n := range r.flights() {
			l.inFlight[n]++
			l.peak[n] = max(l.peak[n], l.inFlight[n])
		}
	}
}

// flights names the counts a request belongs to.
func (r *Request) flights() []string {
	_, rest, ok := strings.Cut(r.Path, "/nodes/")
	node, _, _ := strings.Cut(rest, "/")
	if !ok || node == "" {
		return []string{""}
	}
	return []string{"", node}
}

// end completes a record with what became known while the request was served.
func (s *Server) end(r, served *Request, resp *rawResponse) {
	l := &s.log
	if l.f != nil {
		defer func() { l.f(*r) }()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r.User, r.Template, r.Protected = served.User, served.Template, served.Protected
	if r.Method != "GET" {
		for _, n := range r.flights() {
			l.inFlight[n]--
		}
	}
	if !resp.cut {
		r.Status, r.Phrase = resp.status, resp.phrase
	}
	r.Params = map[string]string{}
	for k, v := range served.params {
		r.Params[k] = v.value().String()
		if secretParam(k) {
			r.Params[k] = "***"
		}
	}
}

// secretParam tells the parameters that never appear in a record.
func secretParam(name string) bool {
	switch name {
	case "password", "cipassword", "otp", "tfa-challenge", "value", "keyring", "encryption-key", "master-pubkey", "crypted", "input-data", "content", "new-password", "confirmation-password":
		return name != "content"
	}
	return strings.Contains(name, "secret") || strings.Contains(name, "password")
}

// Requests returns the requests served so far, in the order of their arrival;
// with [WithRecord] the last of them.
func (s *Server) Requests() []Request {
	l := &s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	if l.keep > 0 && len(all) > l.keep {
		all = all[len(all)-l.keep:]
	}
	out := make([]Request, len(all))
	for i, r := range all {
		out[i] = *r
		out[i].Params = maps.Clone(r.Params)
	}
	return out
}

// Count counts the requests that match a pattern such as
// "POST /nodes/*/qemu/*/clone"; see [Fault] for the patterns. It returns -1 for
// a pattern that no call can match.
func (s *Server) Count(pattern string) int {
	s.tb.Helper()
	p, err := s.reg.pattern(pattern)
	if s.refuse("Count", err) != nil {
		return -1
	}
	n := 0
	for _, r := range s.Requests() {
		if p.matches(r.Method, strings.FieldsFunc(r.Path, func(c rune) bool { return c == '/' }), r.Template) {
			n++
		}
	}
	return n
}

// Calls lists the requests served so far as "METHOD path" lines.
func (s *Server) Calls() []string {
	var out []string
	for _, r := range s.Requests() {
		out = append(out, r.String())
	}
	return slices.Clip(out)
}

// PeakInFlight is the greatest number of requests other than GET that were
// being served at one time, by a node when it is named.
func (s *Server) PeakInFlight(node string) int {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return s.log.peak[node]
}

// ResetRequests forgets the requests recorded so far.
func (s *Server) ResetRequests() {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.all, s.log.seq = nil, 0
	s.log.peak = maps.Clone(s.log.inFlight)
}
