package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// An envelope is the outer object of an answer: {"data": …, "total": 12}. The data
// stays as it came, so that it is decoded once, into its own type.
type envelope struct {
	data    []byte
	total   []byte
	changes []byte
	digest  []byte
	message []byte
	errors  []byte
}

var errNoObject = errors.New("it is no JSON object")

// openEnvelope finds the parts of an answer in one pass over it. It checks the outer
// object's syntax; that of the values is the decoder's business. An empty body is an
// empty envelope: some calls answer so.
func openEnvelope(body []byte) (envelope, error) {
	var e envelope
	s := scanner{text: body}
	s.space()
	if s.end() {
		return e, nil
	}
	if !s.take('{') {
		return e, errNoObject
	}
	for first := true; ; first = false {
		s.space()
		if s.take('}') {
			break
		}
		if !first && !s.take(',') {
			return e, s.errorf("expected a comma")
		}
		s.space()
		name := s.value()
		s.space()
		if len(name) < 2 || name[0] != '"' || !s.take(':') {
			return e, s.errorf("expected a name")
		}
		s.space()
		value := s.value()
		if len(value) == 0 {
			return e, s.errorf("expected a value")
		}
		switch string(name) {
		case `"data"`:
			e.data = value
		case `"total"`:
			e.total = value
		case `"changes"`:
			e.changes = value
		case `"digest"`:
			e.digest = value
		case `"message"`:
			e.message = value
		case `"errors"`:
			e.errors = value
		}
	}
	s.space()
	if !s.end() {
		return e, s.errorf("something follows the object")
	}
	return e, nil
}

func (e envelope) meta() Meta {
	var m Meta
	if len(e.total) > 0 {
		var total json.Number
		if json.Unmarshal(e.total, &total) == nil {
			m.Total, _ = total.Int64()
		}
	}
	m.Changes = text(e.changes)
	m.Digest = text(e.digest)
	return m
}

// text reads a JSON value that should be a string.
func text(raw []byte) string {
	var s string
	if len(raw) == 0 || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// params reads the complaints by parameter of a refusal.
func (e envelope) params() map[string]string {
	var raw map[string]json.RawMessage
	if len(e.errors) == 0 || json.Unmarshal(e.errors, &raw) != nil || len(raw) == 0 {
		return nil
	}
	params := make(map[string]string, len(raw))
	for name, value := range raw {
		var s string
		if json.Unmarshal(value, &s) != nil {
			s = string(value)
		}
		params[name] = strings.TrimSpace(s)
	}
	return params
}

// A scanner steps over JSON values without looking into them.
type scanner struct {
	text []byte
	pos  int
}

func (s *scanner) end() bool { return s.pos >= len(s.text) }

func (s *scanner) space() {
	for s.pos < len(s.text) {
		switch s.text[s.pos] {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return
		}
	}
}

func (s *scanner) take(c byte) bool {
	if s.end() || s.text[s.pos] != c {
		return false
	}
	s.pos++
	return true
}

// value steps over one value and returns its text, or nothing when there is none or it
// does not end.
func (s *scanner) value() []byte {
	start, depth := s.pos, 0
	for s.pos < len(s.text) {
		switch s.text[s.pos] {
		case '"':
			if !s.skipString() {
				return nil
			}
		case '{', '[':
			depth++
			s.pos++
		case '}', ']':
			if depth == 0 {
				return s.text[start:s.pos]
			}
			depth--
			s.pos++
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return s.text[start:s.pos]
			}
			s.pos++
			continue
		default:
			// Digits, letters and punctuation of nested values need no look of their own.
			for s.pos++; s.pos < len(s.text) && s.text[s.pos] != '"' && s.text[s.pos] < '['; s.pos++ {
				if depth == 0 && (s.text[s.pos] == ',' || s.text[s.pos] <= ' ' || s.text[s.pos] == ':') {
					break
				}
			}
			continue
		}
		if depth == 0 {
			return s.text[start:s.pos]
		}
	}
	if depth > 0 {
		return nil
	}
	return s.text[start:s.pos]
}

func (s *scanner) skipString() bool {
	for s.pos++; ; {
		// Strings are short: a loop beats a call of bytes.IndexByte on most of them.
		for s.pos < len(s.text) && s.text[s.pos] != '"' && s.text[s.pos] != '\\' {
			s.pos++
		}
		switch {
		case s.pos >= len(s.text):
			s.pos = len(s.text)
			return false
		case s.text[s.pos] == '"':
			s.pos++
			return true
		}
		s.pos += 2
	}
}

func (s *scanner) errorf(what string) error {
	if s.end() {
		return fmt.Errorf("it ends in the middle: %s", what)
	}
	return fmt.Errorf("bad JSON at byte %d: %s", s.pos, what)
}
