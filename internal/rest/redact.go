package rest

import (
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
)

// redacted stands where a secret was.
const redacted = "[redacted]"

// minSecret is the length below which a value is not looked for: replacing every "a"
// would ruin the text and protect nothing.
const minSecret = 4

// redact removes the secrets, in plain and in escaped form, from text, and then
// everything that looks like a credential of these products, whoever it belongs to.
func redact(text string, secrets []string) string {
	if text == "" {
		return text
	}
	// Longest first, so that a secret that contains another leaves no rest.
	secrets = slices.Clone(secrets)
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	for _, s := range secrets {
		if len(s) < minSecret {
			continue
		}
		for _, form := range [...]string{s, url.QueryEscape(s), url.PathEscape(s), percent(s)} {
			text = strings.ReplaceAll(text, form, redacted)
		}
		if quoted, err := json.Marshal(s); err == nil {
			text = strings.ReplaceAll(text, string(quoted[1:len(quoted)-1]), redacted)
		}
	}
	return redactPatterns(text)
}

// percent escapes everything but letters and digits, as cookies and sshkeys are.
func percent(s string) string {
	return strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
}

// redactPatterns hides the values after the marks by which credentials travel.
func redactPatterns(text string) string {
	for _, mark := range [...]string{
		"APIToken=", "APIToken ", "AuthCookie=", "AuthCookie%3D", "CSRFPreventionToken:", "CSRFPreventionToken=",
		"Authorization:", "Cookie:", "Proxy-Authorization:", "password=", "tfa-challenge=",
		"PVE:", "PBS:", "PDM:", "PVEVNC:", "PBSTERM:", "PDMTERM:", "PVEVNC%3A",
	} {
		text = redactAfter(text, mark)
	}
	return text
}

// redactAfter hides the word after each mark, which may be followed by a space. A
// ticket ("PVE:user@realm:hex::signature") is told from prose by its colons.
func redactAfter(text, mark string) string {
	ticket := strings.HasSuffix(mark, ":") && strings.ToUpper(mark) == mark
	header := strings.HasSuffix(mark, ":") && !ticket
	var b strings.Builder
	for {
		i := indexFold(text, mark)
		if i < 0 {
			if b.Len() == 0 {
				return text
			}
			b.WriteString(text)
			return b.String()
		}
		i += len(mark)
		if header {
			for i < len(text) && strings.IndexByte(" [", text[i]) >= 0 && !strings.HasPrefix(text[i:], redacted) {
				i++
			}
		}
		b.WriteString(text[:i])
		text = text[i:]
		if strings.HasPrefix(text, redacted) {
			continue
		}
		end := strings.IndexAny(text, " \t\r\n\"'<>&;,]")
		if end < 0 {
			end = len(text)
		}
		if strings.HasSuffix(text[:end]+"]", redacted) && strings.HasPrefix(text[end:], "]") {
			end++
		}
		if word := text[:end]; word != "" && (!ticket || strings.Contains(word, "::")) {
			b.WriteString(redacted)
			text = text[end:]
		}
	}
}

// indexFold finds an ASCII mark whatever its case: HTTP libraries spell header names
// in their own ways.
func indexFold(text, mark string) int {
	for i := 0; i+len(mark) <= len(text); i++ {
		if strings.EqualFold(text[i:i+len(mark)], mark) {
			return i
		}
	}
	return -1
}

// secretParams returns the values of the parameters that are secrets by their name,
// out of an encoded query, form or JSON body. Servers repeat refused values.
func secretParams(query string, body []byte, contentType string) []string {
	var found []string
	form := func(text string) {
		for pair := range strings.SplitSeq(text, "&") {
			name, value, _ := strings.Cut(pair, "=")
			if name, err := url.QueryUnescape(name); err == nil && isSecretName(name) {
				if value, err := url.QueryUnescape(value); err == nil {
					found = append(found, value)
				}
			}
		}
	}
	form(query)
	if contentType != contentJSON {
		form(string(body))
		return found
	}
	var values any
	if json.Unmarshal(body, &values) == nil {
		collectSecrets(values, false, &found)
	}
	return found
}

func collectSecrets(v any, secret bool, found *[]string) {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			collectSecrets(inner, secret || isSecretName(name), found)
		}
	case []any:
		for _, inner := range v {
			collectSecrets(inner, secret, found)
		}
	case string:
		if secret {
			*found = append(*found, v)
		}
	}
}

// isSecretName recognises the parameters that hold secrets in the three products.
func isSecretName(name string) bool {
	name = strings.ToLower(name)
	for _, word := range [...]string{"password", "passwd", "secret", "passphrase", "private", "token-value", "tokenvalue", "challenge", "ticket", "recovery"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	switch name {
	case "key", "token", "otp", "keyring", "credentials":
		return true
	}
	return strings.HasSuffix(name, "-key") || strings.HasSuffix(name, "_key") || strings.HasSuffix(name, "-token")
}

// hide wraps err so that neither its text nor what lies beneath it shows a secret,
// while errors.Is still finds what it found before.
func hide(err error, secrets []string) error {
	if err == nil {
		return nil
	}
	var dirty bool
	walk(err, func(e error) {
		if text := e.Error(); redact(text, secrets) != text {
			dirty = true
		}
	})
	if !dirty {
		return err
	}
	return &hiddenError{text: redact(err.Error(), secrets), err: err}
}

func walk(err error, visit func(error)) {
	if err == nil {
		return
	}
	visit(err)
	switch u := err.(type) {
	case interface{ Unwrap() error }:
		walk(u.Unwrap(), visit)
	case interface{ Unwrap() []error }:
		for _, e := range u.Unwrap() {
			walk(e, visit)
		}
	}
}

// A hiddenError shows a cleaned text and nothing beneath it.
type hiddenError struct {
	text string
	err  error
}

func (e *hiddenError) Error() string        { return e.text }
func (e *hiddenError) Is(target error) bool { return errors.Is(e.err, target) }

// Timeout lets a net.Error behind the curtain be recognised.
func (e *hiddenError) Timeout() bool {
	t, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](e.err)
	return ok && t.Timeout()
}
