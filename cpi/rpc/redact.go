package rpc

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"
)

const mask = "<redacted>"

// minSecret is the length below which masking a value would only make text
// unreadable: it would hit ordinary words and digits everywhere.
const minSecret = 4

// A Redactor masks registered values in text. The zero value is ready; it is
// safe for concurrent use.
type Redactor struct {
	mu    sync.Mutex
	forms []string
}

// Add registers secrets. Each is masked as it is, percent-encoded, JSON-escaped
// and in base64; of a URL the password is masked by itself too, and of a text of
// several lines, such as a private key, every long line. Values shorter than
// four bytes are ignored.
func (r *Redactor) Add(secrets ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range secrets {
		r.add(s)
		if u, err := url.Parse(s); err == nil && u.User != nil {
			if password, ok := u.User.Password(); ok {
				r.add(password)
			}
		}
		if strings.Contains(s, "\n") {
			for line := range strings.Lines(s) {
				line = strings.TrimSpace(line)
				if len(line) >= 16 && !strings.HasPrefix(line, "-----") {
					r.add(line)
				}
			}
		}
	}
	// The longest first, or a secret that contains another would leave its rest.
	slices.SortFunc(r.forms, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	r.forms = slices.Compact(r.forms)
}

func (r *Redactor) add(secret string) {
	secret = strings.TrimSpace(secret)
	if len(secret) < minSecret {
		return
	}
	quoted, _ := json.Marshal(secret)
	unescaped, _ := marshal(secret)
	raw := []byte(secret)
	for _, form := range []string{
		secret,
		url.QueryEscape(secret),
		url.PathEscape(secret),
		url.User(secret).String(),
		percentAll(secret),
		strings.ToLower(percentAll(secret)),
		strings.Trim(string(quoted), `"`),
		strings.Trim(strings.TrimSpace(string(unescaped)), `"`),
		strings.TrimRight(base64.StdEncoding.EncodeToString(raw), "="),
		strings.TrimRight(base64.URLEncoding.EncodeToString(raw), "="),
	} {
		if len(form) >= minSecret {
			r.forms = append(r.forms, form)
		}
	}
}

// percentAll escapes everything RFC 3986 does not call unreserved, which is more
// than net/url does in a path or in user information.
func percentAll(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
	return b.String()
}

// Mask returns text with every registered value replaced.
func (r *Redactor) Mask(text string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, form := range r.forms {
		text = strings.ReplaceAll(text, form, mask)
	}
	return text
}

// A maskedWriter masks what passes through it, a line at a time: a secret may be
// split over several writes, but none has a line break in its masked forms.
type maskedWriter struct {
	mu   sync.Mutex
	w    io.Writer
	mask func(string) string
	rest []byte
}

// maxMaskedLine is how much is kept of a line that does not end.
const maxMaskedLine = 64 << 10

func (m *maskedWriter) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rest = append(m.rest, p...)
	end := bytes.LastIndexByte(m.rest, '\n') + 1
	if end == 0 && len(m.rest) > maxMaskedLine {
		end = len(m.rest)
	}
	if end == 0 {
		return len(p), nil
	}
	_, err := io.WriteString(m.w, m.mask(string(m.rest[:end])))
	m.rest = append(m.rest[:0], m.rest[end:]...)
	return len(p), err
}

// flush writes what is left of the last line.
func (m *maskedWriter) flush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.rest) > 0 {
		_, _ = io.WriteString(m.w, m.mask(string(m.rest))+"\n")
		m.rest = nil
	}
}

// Leaves returns the string values inside a JSON value that are long enough to
// be secrets, below any key, except below the paths in skip (keys joined by
// dots). It is meant for objects whose secrets stand at unknown places, such as
// the env of a VM.
func Leaves(raw json.RawMessage, skip ...string) []string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return nil
	}
	var out []string
	var walk func(path string, v any)
	walk = func(path string, v any) {
		if path != "" && slices.Contains(skip, path) {
			return
		}
		switch v := v.(type) {
		case string:
			if len(v) >= 6 {
				out = append(out, v)
			}
		case []any:
			for _, e := range v {
				walk(path, e)
			}
		case map[string]any:
			for k, e := range v {
				walk(strings.TrimPrefix(path+"."+k, "."), e)
			}
		}
	}
	walk("", v)
	slices.Sort(out)
	return slices.Compact(out)
}
