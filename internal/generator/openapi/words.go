package openapi

import (
	_ "embed"
	"fmt"
	"go/token"
	"strings"
	"unicode"
)

//go:embed words.txt
var baseWords string

// A Caser turns names of the API into Go identifiers: "onboot" into OnBoot,
// "tls-ca" into TLSCA. It knows initialisms and compound words from a list.
type Caser struct {
	words map[string]string
	used  map[string]bool
}

// NewCaser returns a Caser that knows the generator's own list of words and
// those given, of which later ones win.
func NewCaser(lists ...[]string) (*Caser, error) {
	c := &Caser{words: map[string]string{}, used: map[string]bool{}}
	var base []string
	for line := range strings.Lines(baseWords) {
		line, _, _ = strings.Cut(line, "#")
		base = append(base, strings.Fields(line)...)
	}
	for _, list := range append([][]string{base}, lists...) {
		for _, w := range list {
			if !token.IsIdentifier(w) || !token.IsExported(w) {
				return nil, fmt.Errorf("word %q must be an identifier that begins with a capital", w)
			}
			c.words[strings.ToLower(w)] = w
		}
	}
	return c, nil
}

// Word returns one word in Go's casing.
func (c *Caser) Word(s string) string {
	lower := strings.ToLower(s)
	if w, ok := c.words[lower]; ok {
		c.used[lower] = true
		return w
	}
	// A plural of a known word: vmids, uuids, hostnames. "has" is none.
	if stem, ok := strings.CutSuffix(lower, "s"); ok && len(stem) > 1 && lower != "has" {
		if w, ok := c.words[stem]; ok {
			c.used[stem] = true
			return w + "s"
		}
	}
	// Digits at the end belong to the word before them: ip6, ipv4.
	if stem := strings.TrimRightFunc(lower, unicode.IsDigit); stem != lower && stem != "" {
		if w, ok := c.words[stem]; ok {
			c.used[stem] = true
			return w + lower[len(stem):]
		}
	}
	r := []rune(s)
	r[0] = unicode.ToUpper(r[0])
	return string(r)
}

// Name returns the Go identifier for a name of the API.
func (c *Caser) Name(name string) string { return join(c.parts(name)) }

func (c *Caser) parts(name string) []string {
	var parts []string
	for _, word := range splitWords(name) {
		parts = append(parts, c.Word(word))
	}
	return parts
}

// join concatenates words to an exported identifier.
func join(parts []string) string {
	s := strings.Join(parts, "")
	if s == "" || s[0] < 'A' || s[0] > 'Z' {
		return "X" + s
	}
	return s
}

// splitWords cuts at everything that is neither letter nor digit, and before a
// capital that follows a small letter.
func splitWords(s string) []string {
	var (
		words []string
		cur   []rune
		prev  rune
	)
	flush := func() {
		if len(cur) > 0 {
			words = append(words, string(cur))
			cur = cur[:0]
		}
	}
	for _, r := range s {
		switch {
		case r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r):
			flush()
		case unicode.IsUpper(r) && (unicode.IsLower(prev) || unicode.IsDigit(prev)):
			flush()
			cur = append(cur, r)
		default:
			cur = append(cur, r)
		}
		prev = r
	}
	flush()
	return words
}

// Unused returns the words of list that cased nothing.
func (c *Caser) Unused(list []string) []string {
	var out []string
	for _, w := range list {
		if !c.used[strings.ToLower(w)] {
			out = append(out, w)
		}
	}
	return out
}

// singular returns the singular of an English plural in Go's casing; a word
// that is none, or that only looks like one, is returned as it is.
func singular(w string) string {
	switch {
	case len(w) > 2 && strings.HasSuffix(w, "s") && unicode.IsUpper(rune(w[len(w)-2])):
		return strings.TrimSuffix(w, "s") // VMs, IDs
	case uncountable(w), strings.HasSuffix(w, "ss"), strings.HasSuffix(w, "us"), strings.HasSuffix(w, "is"), len(w) < 4:
		return w
	case strings.HasSuffix(w, "Children"):
		return strings.TrimSuffix(w, "ren")
	case strings.HasSuffix(w, "ies"):
		return strings.TrimSuffix(w, "ies") + "y"
	case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "xes"), strings.HasSuffix(w, "ches"), strings.HasSuffix(w, "iases"), strings.HasSuffix(w, "uses"):
		return strings.TrimSuffix(w, "es")
	case strings.HasSuffix(w, "s"):
		return strings.TrimSuffix(w, "s")
	}
	return w
}

// plural is the inverse of singular.
func plural(w string) string {
	last := w[len(w)-1]
	switch {
	case uncountable(w):
		return w
	case strings.HasSuffix(w, "S") || last >= '0' && last <= '9':
		return w + "s"
	case strings.HasSuffix(w, "s"):
		if strings.HasSuffix(w, "ss") || strings.HasSuffix(w, "us") || strings.HasSuffix(w, "ias") {
			return w + "es"
		}
		return w
	case strings.HasSuffix(w, "x"), strings.HasSuffix(w, "ch"):
		return w + "es"
	case last == 'y' && !strings.ContainsRune("aeiou", rune(w[len(w)-2])):
		return strings.TrimSuffix(w, "y") + "ies"
	}
	return w + "s"
}

// uncountable reports whether w, or the last word in it, has no plural of its
// own or is one that operators never use in the singular.
func uncountable(w string) bool {
	for _, u := range strings.Fields(`Status Config Content Log Syslog Journal Pending Netstat TFA ACL CloudInit DNS Data VRF
		CPU Options Hosts Statistics Metadata Info Info Schema Inventory Usage Media Memory Tasklog TOS Safety Notes Defaults
		SMART Tree Crush Raw Cfg Settings Permissions Features Preconditions Details News Series Process S3 KVM DB NetworkInfo`) {
		if strings.HasSuffix(w, u) {
			return true
		}
	}
	return false
}
