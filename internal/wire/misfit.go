package wire

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	maxGot  = 40  // bytes of a value kept in a report
	maxName = 64  // bytes of one name kept in a path
	maxPath = 512 // bytes of a path
)

// A Misfit reports a value that does not fit what the API's description promises for
// its place. The Go field keeps its zero value.
type Misfit struct {
	Path string // where: "data[3].maxmem"; a part of a property string is "net0.mtu"
	Want string // what was promised: "integer", "boolean", "list", …
	Got  string // the beginning of what came; its kind alone where it may be a secret
}

// String says what is wrong where.
func (m Misfit) String() string {
	if m.Path == "" {
		return fmt.Sprintf("want %s, got %s", m.Want, m.Got)
	}
	return fmt.Sprintf("%s: want %s, got %s", m.Path, m.Want, m.Got)
}

// A PropsError says which parts of a property string could not be read. All other
// parts have been.
type PropsError struct {
	Misfits []Misfit
}

// Error names the parts.
func (e *PropsError) Error() string {
	var b strings.Builder
	b.WriteString("property string: ")
	for i, m := range e.Misfits {
		if i == 3 {
			fmt.Fprintf(&b, "; and %d more", len(e.Misfits)-i)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(m.String())
	}
	return b.String()
}

// A frame is one step of the path to the value being decoded.
type frame struct {
	name  string
	index int // -1: name alone
}

func (d *decoder) where() string {
	var b []byte
	for _, f := range d.path {
		if f.name != "" || f.index < 0 {
			if len(b) > 0 {
				b = append(b, '.')
			}
			b = append(b, shorten(f.name, maxName)...)
		}
		switch {
		case f.index < 0:
		case f.name != "":
			b = strconv.AppendInt(b, int64(f.index), 10)
		default:
			b = append(b, '[')
			b = strconv.AppendInt(b, int64(f.index), 10)
			b = append(b, ']')
		}
		if len(b) > maxPath {
			b = append(b[:maxPath], "…"...)
			break
		}
	}
	return string(b)
}

// report tells the hook that the value raw, in JSON syntax or as plain text, did not fit.
func (d *decoder) report(want string, kind tokenKind, raw []byte) {
	if d.misfit == nil {
		return
	}
	m := Misfit{Path: d.where(), Want: want, Got: shorten(string(raw[:min(len(raw), maxGot+1)]), maxGot)}
	if secretName(m.Path) {
		m.Got = kind.String()
	}
	d.misfit(m)
}

// secretName reports whether a value at path may be a secret, which no report may show.
func secretName(path string) bool {
	path = strings.ToLower(path)
	for _, word := range [...]string{"pass", "secret", "ticket", "token", "csrf", "private", "key"} {
		if strings.Contains(path, word) {
			return true
		}
	}
	return false
}

// shorten returns at most limit bytes of s, cut between runes and marked where cut.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return strings.ToValidUTF8(s, "?")
	}
	cut := limit - len("…")
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strings.ToValidUTF8(s[:cut], "?") + "…"
}
