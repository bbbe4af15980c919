package wire

import (
	"net/url"
	"reflect"
	"strings"
)

// slice reads an array, or text that stands for one, into v.
func (d *decoder) slice(t *typeInfo, v reflect.Value, f *fieldInfo) (status, error) {
	v.SetZero()
	if d.space() != '[' {
		tok, err := d.token()
		switch {
		case err != nil:
			return unfit, err
		case tok.kind == tokenNull:
			return absent, nil
		case tok.kind <= tokenBool && t.elem.isText():
			return d.list(t, v, f, string(tok.text)), nil
		}
		d.report(t.want, tok.kind, tok.raw)
		return unfit, nil
	}
	if err := d.enter(); err != nil {
		return unfit, err
	}
	if d.empty(']') {
		v.Set(reflect.MakeSlice(t.typ, 0, 0))
		return set, nil
	}
	d.path = append(d.path, frame{})
	top := len(d.path) - 1
	start := d.pos
	for i := 0; ; i++ {
		if i == v.Cap() {
			d.grow(v, i, start)
		}
		v.SetLen(i + 1)
		d.path[top].index = i
		if _, err := d.value(t.elem, v.Index(i)); err != nil {
			return unfit, err
		}
		if more, err := d.more(']'); !more {
			d.path = d.path[:top]
			return set, err
		}
	}
}

// grow makes room in v, which holds n elements read from start on: for as many as
// the rest of the input may hold, at most four times what there is.
func (d *decoder) grow(v reflect.Value, n, start int) {
	add := 3*n + 4
	if n >= 64 {
		perElement := max((d.pos-start)/n, 1)
		add = max(min(add, (len(d.data)-d.pos)/perElement+8), n/4)
	}
	v.Grow(add)
}

// isText reports whether values of the type can be read from text.
func (t *typeInfo) isText() bool {
	if t.op == opPointer {
		t = t.elem
	}
	return opBool <= t.op && t.op <= opText || t.op == opAny
}

// list reads text that stands for an array: a px:"list", SSH keys, or comma text
// where an array was promised.
func (d *decoder) list(t *typeInfo, v reflect.Value, f *fieldInfo, text string) status {
	var items []string
	switch {
	case f != nil && f.sshKeys:
		items = splitKeys(text)
	case f != nil && f.list:
		items = splitList(text)
	case t.elem.op == opText || t.elem.op == opPointer && t.elem.elem.op == opText:
		// A property string holds commas of its own.
		if trim(text) != "" {
			items = []string{text}
		}
	default:
		for item := range strings.SplitSeq(text, ",") {
			if item = trim(item); item != "" {
				items = append(items, item)
			}
		}
	}
	v.Set(reflect.MakeSlice(t.typ, len(items), len(items)))
	d.path = append(d.path, frame{})
	top := len(d.path) - 1
	for i, item := range items {
		d.path[top].index = i
		d.scalar(t.elem, v.Index(i), token{kind: tokenString, text: []byte(item), raw: []byte(item)})
	}
	d.path = d.path[:top]
	return set
}

// splitList splits at the separators that Proxmox knows: comma, semicolon, white
// space and NUL.
func splitList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool {
		return r == ',' || r == ';' || r == 0 || r < ' ' && isSpace(byte(r)) || r == ' '
	})
}

// splitKeys reads what QEMU's sshkeys option holds: percent-encoded lines.
func splitKeys(text string) []string {
	if plain, err := url.PathUnescape(text); err == nil {
		text = plain
	}
	var keys []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			keys = append(keys, line)
		}
	}
	return keys
}

// joinKeys is the inverse. The server demands this encoding of the value itself,
// besides that of the form around it; a space must be %20.
func joinKeys(dst []byte, keys []string) []byte {
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, "%0A"...)
		}
		dst = appendEscape(dst, strings.TrimRight(key, "\r\n"), false)
	}
	return dst
}
