package wire

import (
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how deeply arrays and objects may be nested, as in encoding/json.
const maxDepth = 10000

// A SyntaxError says that the text is not JSON.
type SyntaxError struct {
	Offset int // bytes read before the error
	msg    string
}

// Error says what is wrong and where.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("invalid JSON at byte %d: %s", e.Offset, e.msg)
}

type tokenKind byte

const (
	tokenString tokenKind = iota
	tokenNumber
	tokenBool
	tokenNull
	tokenObject
	tokenArray
)

// String names the kind as a report does.
func (k tokenKind) String() string {
	return [...]string{"a string", "a number", "a boolean", "null", "an object", "an array"}[k]
}

// A token is one whole JSON value: text is the content of a string, without quotes
// and escapes, or the literal of any other value. It is valid until the next token.
type token struct {
	text []byte
	raw  []byte
	kind tokenKind
}

func (d *decoder) fail(format string, args ...any) error {
	return &SyntaxError{Offset: d.pos, msg: fmt.Sprintf(format, args...)}
}

// unexpected is the error for the byte at the current position.
func (d *decoder) unexpected(where string) error {
	if d.pos >= len(d.data) {
		return d.fail("unexpected end")
	}
	return d.fail("unexpected %q %s", rune(d.data[d.pos]), where)
}

// space skips white space and returns the byte that follows, 0 at the end.
func (d *decoder) space() byte {
	for d.pos < len(d.data) {
		c := d.data[d.pos]
		if c > ' ' || !isSpace(c) {
			return c
		}
		d.pos++
	}
	return 0
}

func (d *decoder) enter() error {
	d.pos++
	if d.depth++; d.depth > maxDepth {
		return d.fail("nested deeper than %d", maxDepth)
	}
	return nil
}

// more reads what follows a member or an element: a comma (true) or the closing byte.
func (d *decoder) more(closing byte) (bool, error) {
	switch d.space() {
	case ',':
		d.pos++
		return true, nil
	case closing:
		d.pos++
		d.depth--
		return false, nil
	}
	return false, d.unexpected("after a value")
}

// empty reads the closing byte of an empty object or array, if it is there.
func (d *decoder) empty(closing byte) bool {
	if d.space() != closing {
		return false
	}
	d.pos++
	d.depth--
	return true
}

// key reads an object's key and the colon behind it.
func (d *decoder) key() ([]byte, error) {
	if d.space() != '"' {
		return nil, d.unexpected("where an object's key should be")
	}
	key, err := d.text()
	if err != nil {
		return nil, err
	}
	if d.space() != ':' {
		return nil, d.unexpected("after an object's key")
	}
	d.pos++
	return key, nil
}

// token reads one value of any kind.
func (d *decoder) token() (token, error) {
	c := d.space()
	start := d.pos
	var t token
	var err error
	switch {
	case c == '"':
		t.kind = tokenString
		t.text, err = d.text()
		t.raw = d.data[start:d.pos]
		return t, err
	case c == '{' || c == '[':
		t.kind = tokenObject
		if c == '[' {
			t.kind = tokenArray
		}
		err = d.skip()
	case c == '-' || isDigit(c):
		t.kind = tokenNumber
		err = d.number()
	case c == 't':
		t.kind = tokenBool
		err = d.literal("true")
	case c == 'f':
		t.kind = tokenBool
		err = d.literal("false")
	case c == 'n':
		t.kind = tokenNull
		err = d.literal("null")
	default:
		return t, d.unexpected("where a value should be")
	}
	t.raw = d.data[start:d.pos]
	t.text = t.raw
	return t, err
}

// skip reads a value and forgets it; its syntax is checked all the same.
func (d *decoder) skip() error {
	switch c := d.space(); {
	case c == '"':
		return d.skipString()
	case c == '{':
		if err := d.enter(); err != nil {
			return err
		}
		if d.empty('}') {
			return nil
		}
		for {
			if d.space() != '"' {
				return d.unexpected("where an object's key should be")
			}
			if err := d.skipString(); err != nil {
				return err
			}
			if d.space() != ':' {
				return d.unexpected("after an object's key")
			}
			d.pos++
			if err := d.skip(); err != nil {
				return err
			}
			if more, err := d.more('}'); !more {
				return err
			}
		}
	case c == '[':
		if err := d.enter(); err != nil {
			return err
		}
		if d.empty(']') {
			return nil
		}
		for {
			if err := d.skip(); err != nil {
				return err
			}
			if more, err := d.more(']'); !more {
				return err
			}
		}
	case c == '-' || isDigit(c):
		return d.number()
	case c == 't':
		return d.literal("true")
	case c == 'f':
		return d.literal("false")
	case c == 'n':
		return d.literal("null")
	}
	return d.unexpected("where a value should be")
}

func (d *decoder) literal(word string) error {
	for i := range len(word) {
		if d.pos >= len(d.data) || d.data[d.pos] != word[i] {
			return d.unexpected("in " + word)
		}
		d.pos++
	}
	return nil
}

// number reads a number by JSON's grammar.
func (d *decoder) number() error {
	data, i := d.data, d.pos
	if i < len(data) && data[i] == '-' {
		i++
	}
	digits := func() bool {
		start := i
		for i < len(data) && isDigit(data[i]) {
			i++
		}
		d.pos = i
		return i > start
	}
	if i < len(data) && data[i] == '0' {
		i++
	} else if !digits() {
		return d.unexpected("in a number")
	}
	if i < len(data) && data[i] == '.' {
		i++
		if !digits() {
			return d.unexpected("in a number")
		}
	}
	if i < len(data) && (data[i] == 'e' || data[i] == 'E') {
		i++
		if i < len(data) && (data[i] == '-' || data[i] == '+') {
			i++
		}
		if !digits() {
			return d.unexpected("in a number")
		}
	}
	d.pos = i
	return nil
}

// text reads a string and returns its content, which lies in the input or, where it
// holds escapes or invalid UTF-8, in a buffer that the next call overwrites.
func (d *decoder) text() ([]byte, error) {
	data, start := d.data, d.pos+1
	high := byte(0)
	for i := start; i < len(data); i++ {
		c := data[i]
		high |= c
		switch {
		case c == '"':
			d.pos = i + 1
			s := data[start:i]
			if high >= utf8.RuneSelf && !utf8.Valid(s) {
				d.scratch = appendValid(d.scratch[:0], s)
				return d.scratch, nil
			}
			return s, nil
		case c == '\\':
			d.pos = i
			return d.escaped(start)
		case c < ' ':
			d.pos = i
			return nil, d.fail("control character %q in a string", rune(c))
		}
	}
	d.pos = len(data)
	return nil, d.unexpected("in a string")
}

// escaped goes on where text met the first backslash.
func (d *decoder) escaped(start int) ([]byte, error) {
	data, i := d.data, d.pos
	out := appendValid(d.scratch[:0], data[start:i])
	defer func() { d.scratch = out }()
	plain := i
	for i < len(data) {
		switch c := data[i]; {
		case c == '"':
			out = appendValid(out, data[plain:i])
			d.pos = i + 1
			return out, nil
		case c < ' ':
			d.pos = i
			return nil, d.fail("control character %q in a string", rune(c))
		case c != '\\':
			i++
			continue
		}
		out = appendValid(out, data[plain:i])
		d.pos = i
		n, err := d.escape()
		if err != nil {
			return nil, err
		}
		if n == 2 {
			out = append(out, unescape(data[i+1]))
		} else {
			r, n := unicodeEscape(data[i:])
			out = utf8.AppendRune(out, r)
			i += n - 2
		}
		i += 2
		plain = i
	}
	d.pos = len(data)
	return nil, d.unexpected("in a string")
}

// escape checks the escape at the current position and returns its length.
func (d *decoder) escape() (int, error) {
	data, i := d.data, d.pos
	if i+1 >= len(data) {
		d.pos = len(data)
		return 0, d.unexpected("in a string")
	}
	switch data[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2, nil
	case 'u':
		for j := i + 2; j < i+6; j++ {
			if j >= len(data) || hexDigit(data[j]) < 0 {
				d.pos = j
				return 0, d.unexpected(`in a \u escape`)
			}
		}
		return 6, nil
	}
	d.pos = i + 1
	return 0, d.unexpected("after a backslash")
}

func (d *decoder) skipString() error {
	data := d.data
	for i := d.pos + 1; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			d.pos = i + 1
			return nil
		case c == '\\':
			d.pos = i
			n, err := d.escape()
			if err != nil {
				return err
			}
			i += n - 1
		case c < ' ':
			d.pos = i
			return d.fail("control character %q in a string", rune(c))
		}
	}
	d.pos = len(data)
	return d.unexpected("in a string")
}

func unescape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

// unicodeEscape reads the \u escape, or the pair of them, that s begins with. Half a
// pair becomes the replacement character.
func unicodeEscape(s []byte) (rune, int) {
	r := hex4(s[2:])
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(s) >= 12 && s[6] == '\\' && s[7] == 'u' {
		if low := hex4(s[8:]); low >= 0 {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return pair, 12
			}
		}
	}
	return utf8.RuneError, 6
}

// hex4 reads four hexadecimal digits, or returns -1.
func hex4(s []byte) rune {
	var r rune
	for _, c := range s[:4] {
		h := hexDigit(c)
		if h < 0 {
			return -1
		}
		r = r<<4 | h
	}
	return r
}

func hexDigit(c byte) rune {
	switch {
	case isDigit(c):
		return rune(c - '0')
	case 'a' <= c && c <= 'f':
		return rune(c - 'a' + 10)
	case 'A' <= c && c <= 'F':
		return rune(c - 'A' + 10)
	}
	return -1
}

// appendValid appends s with a replacement character for each invalid byte.
func appendValid(dst, s []byte) []byte {
	if utf8.Valid(s) {
		return append(dst, s...)
	}
	for len(s) > 0 {
		r, n := utf8.DecodeRune(s)
		dst = utf8.AppendRune(dst, r)
		s = s[n:]
	}
	return dst
}
