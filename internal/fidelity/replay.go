package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/proxkit/proxkit/pve/pvetest"
)

// An exchange is one recorded request with its answer.
type exchange struct {
	Seq     int      `json:"seq"`
	At      float64  `json:"at"` // seconds since the first one
	Name    string   `json:"name"`
	Request request  `json:"request"`
	Answer  response `json:"response"`
}

type request struct {
	Method  string            `json:"method"`
	Target  string            `json:"target"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

type response struct {
	Status  int               `json:"status"`
	Reason  string            `json:"reason"`
	Headers map[string]string `json:"headers"`
	JSON    json.RawMessage   `json:"json"`
	Text    *string           `json:"text"`
}

// read reads a recording.
func read(r io.Reader) ([]*exchange, error) {
	var out []*exchange
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		e := &exchange{}
		if err := json.Unmarshal(lines.Bytes(), e); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		out = append(out, e)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, errors.New("no exchanges in it")
	}
	return out, nil
}

// A verdict is what became of one exchange.
type verdict struct {
	e      *exchange
	kind   verdictKind
	reason string
}

type verdictKind int

const (
	agrees verdictKind = iota
	differs
	exempt
	notSimulated
)

// A report sums up a replay.
type report struct {
	verdicts []verdict
	notes    []string
}

func (r *report) count(k verdictKind) int {
	n := 0
	for _, v := range r.verdicts {
		if v.kind == k {
			n++
		}
	}
	return n
}

func (r *report) disagree() int { return r.count(differs) }

func (r *report) print(w io.Writer, verbose bool, only string) {
	for _, v := range r.verdicts {
		if !strings.HasPrefix(v.e.Name, only) {
			continue
		}
		switch {
		case v.kind == differs:
			fmt.Fprintf(w, "%s: %s\n", v.e.Name, v.reason)
		case verbose && v.kind == exempt:
			fmt.Fprintf(w, "%s: exempt\n", v.e.Name)
		case verbose && v.kind == notSimulated:
			fmt.Fprintf(w, "%s: not simulated: %s %s\n", v.e.Name, v.e.Request.Method, v.e.Request.Target)
		}
	}
	for _, n := range r.notes {
		fmt.Fprintln(w, n)
	}
	good := r.count(agrees)
	fmt.Fprintf(w, "%d of %d exchanges agree; %d exempt, %d not simulated\n", good, good+r.count(differs), r.count(exempt), r.count(notSimulated))
}

// The recorded machine.
const (
	epoch      = 1796082243 // the cluster's time at the first exchange
	password   = "PASSWORD"
	nodeMemory = 25276026880
	nodeDisk   = 270553174016
)

// A player replays a recording.
type player struct {
	srv    *pvetest.Server
	client *http.Client
	now    *clock
	names  map[string]bool // the exchanges in the recording
	all    map[string]*exchange
	tokens map[string]string // token → secret
	upids  map[string]string // recorded → ours
	ticket string
	csrf   string
	done   map[string]bool // gaps that were filled
	steps  []step
}

type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = t
}

// replay sends the exchanges to a fresh cluster.
func replay(exchanges []*exchange, steps ...step) (*report, error) {
	now := &clock{at: time.Unix(epoch, 0)}
	srv, err := pvetest.New(pvetest.WithClock(now.now), pvetest.WithRootPassword(password), pvetest.WithSeed(1))
	if err != nil {
		return nil, err
	}
	defer srv.Close()
	srv.AddNode("pve1", pvetest.Node{CPUs: 2, Memory: nodeMemory, Disk: nodeDisk, NoKVM: true, IP: "192.0.2.11"})
	p := &player{
		srv: srv, now: now, names: map[string]bool{}, all: map[string]*exchange{}, tokens: map[string]string{}, upids: map[string]string{}, done: map[string]bool{}, steps: steps,
		client: &http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: srv.CertPool(), MinVersion: tls.VersionTLS12}, DisableCompression: true, DisableKeepAlives: true,
		}},
	}
	for _, e := range exchanges {
		p.names[e.Name] = true
		p.all[e.Name] = e
	}
	if err := p.login(); err != nil {
		return nil, err
	}
	out := &report{}
	for _, e := range exchanges {
		now.set(time.Unix(epoch, 0).Add(time.Duration(e.At * float64(time.Second))))
		if err := p.prepare(e); err != nil {
			// Something recorded earlier went differently; that is a line of its own.
			out.notes = append(out.notes, fmt.Sprintf("before %s: %v", e.Name, err))
		}
		v, err := p.play(e)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name, err)
		}
		out.verdicts = append(out.verdicts, v)
	}
	return out, nil
}

// login gets the ticket that stands in for the recorded one.
func (p *player) login() error {
	var out struct {
		Ticket string `json:"ticket"`
		CSRF   string `json:"CSRFPreventionToken"`
	}
	err := p.call("POST", "/access/ticket", url.Values{"username": {"root@pam"}, "password": {password}}, &out)
	p.ticket, p.csrf = out.Ticket, out.CSRF
	return err
}

// call makes a request of the player's own, as root.
func (p *player) call(method, path string, params url.Values, out any) error {
	target := p.srv.URL() + "/api2/json" + path
	var body io.Reader
	if method == "GET" || method == "DELETE" {
		if len(params) > 0 {
			target += "?" + params.Encode()
		}
	} else {
		body = strings.NewReader(params.Encode())
	}
	req, err := http.NewRequest(method, target, body)
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return p.send(req, out)
}

func (p *player) send(req *http.Request, out any) error {
	id, secret := p.srv.RootToken()
	if t := p.tokens["root@pam!t0"]; t != "" {
		id, secret = "root@pam!t0", t // whose tasks are compared
	}
	if !strings.HasSuffix(req.URL.Path, "/access/ticket") {
		req.Header.Set("Authorization", "PVEAPIToken="+id+"="+secret)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != 200 {
		return fmt.Errorf("%s %s: %s: %s", req.Method, req.URL.Path, resp.Status, data)
	}
	return json.Unmarshal(data, &struct{ Data any }{out})
}

var (
	tokenHeader = regexp.MustCompile(`^PVEAPIToken=([^=]+)=SECRET$`)
	upidText    = regexp.MustCompile(`UPID(?::|%3A)[^/?&]+`)
	digestText  = regexp.MustCompile(`digest=([0-9a-f]{40})`)
	configPath  = regexp.MustCompile(`^/api2/json(/nodes/[^/]+/qemu/\d+/config)`)
)

const (
	recordedTicket = "PVE:root@pam:00000000::SIGNATURE"
	recordedCSRF   = "6B0E0A40:"
)

// play sends one exchange and compares the answer.
func (p *player) play(e *exchange) (verdict, error) {
	target, body := e.Request.Target, e.Request.Body
	target = upidText.ReplaceAllStringFunc(target, func(s string) string {
		plain, err := url.PathUnescape(s)
		if err != nil {
			return s
		}
		if ours, ok := p.upids[plain]; ok {
			return url.PathEscape(ours)
		}
		return s
	})
	refused := e.Answer.Status == 401
	if !refused {
		body = strings.ReplaceAll(body, url.QueryEscape(recordedTicket), url.QueryEscape(p.ticket))
	}
	body = strings.ReplaceAll(body, "%2Flab-data", "%2Fdata")
	body = p.freshDigest(e, body)
	if isUpload(e) {
		body = p.uploadBody(e)
	}

	req, err := http.NewRequest(e.Request.Method, p.srv.URL(), nil)
	if err != nil {
		return verdict{}, err
	}
	req.URL.Opaque = target
	if body != "" {
		req.Body, req.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
	for name, val := range e.Request.Headers {
		switch name {
		case "Authorization":
			if m := tokenHeader.FindStringSubmatch(val); m != nil {
				if p.tokens[m[1]] == "" && !refused {
					// A token made before the recording began.
					p.tokens[m[1]] = p.srv.AddToken(m[1], false)
				}
				val = "PVEAPIToken=" + m[1] + "=" + p.tokens[m[1]]
			}
		case "Cookie":
			if !refused || strings.HasPrefix(e.Answer.Reason, "Permission denied") {
				val = strings.ReplaceAll(val, url.QueryEscape(recordedTicket), url.QueryEscape(p.ticket))
			}
		case "Csrfpreventiontoken", "CSRFPreventionToken":
			if strings.HasPrefix(val, recordedCSRF) {
				val = p.csrf
			}
		}
		req.Header.Set(name, val)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return verdict{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return verdict{}, err
	}
	p.learn(e, data)
	phrase := strings.TrimPrefix(resp.Status, fmt.Sprintf("%d ", resp.StatusCode))
	if strings.HasPrefix(phrase, "pvetest does not simulate") || strings.Contains(phrase, " not simulated") {
		return verdict{e, notSimulated, ""}, nil
	}
	if isArtefact(e.Name) {
		return verdict{e, exempt, ""}, nil
	}
	if diff := p.compare(e, resp.StatusCode, phrase, data); diff != "" {
		return verdict{e, differs, diff}, nil
	}
	return verdict{e, agrees, ""}, nil
}

// freshDigest puts the current digest in place of a recorded one that was
// right.
func (p *player) freshDigest(e *exchange, body string) string {
	m := digestText.FindStringSubmatch(body)
	at := configPath.FindStringSubmatch(e.Request.Target)
	if m == nil || at == nil || e.Answer.Status != 200 || strings.Trim(m[1], "0") == "" {
		return body
	}
	var conf struct {
		Digest string `json:"digest"`
	}
	if p.call("GET", at[1], nil, &conf) != nil {
		return body
	}
	return strings.Replace(body, m[1], conf.Digest, 1)
}

// learn remembers what stands for what is named in later exchanges.
func (p *player) learn(e *exchange, data []byte) {
	var theirs, ours struct{ Data json.RawMessage }
	if json.Unmarshal(e.Answer.JSON, &theirs) != nil || json.Unmarshal(data, &ours) != nil {
		return
	}
	var a, b string
	if json.Unmarshal(theirs.Data, &a) == nil && json.Unmarshal(ours.Data, &b) == nil &&
		strings.HasPrefix(a, "UPID:") && strings.HasPrefix(b, "UPID:") {
		p.upids[a] = b
	}
	var tok struct {
		Full  string `json:"full-tokenid"`
		Value string `json:"value"`
	}
	// The recording went on with the old secret of a token it had renewed.
	if e.Request.Method == "POST" && json.Unmarshal(ours.Data, &tok) == nil && tok.Value != "" && tok.Full != "" {
		p.tokens[tok.Full] = tok.Value
	}
}
