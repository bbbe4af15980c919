package wire

import (
	"net/url"
	"reflect"
	"slices"
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
			return d.list(t, v, f, tok.text), nil
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
func (d *decoder) list(t *typeInfo, v reflect.Value, f *fieldInfo, text []byte) status {
	separates := isComma
	switch {
	case f != nil && f.sshKeys:
		text, separates = unescapeKeys(text), isLineBreak
	case f != nil && f.list:
		separates = isSeparator
	case t.elem.op == opText || t.elem.op == opPointer && t.elem.elem.op == opText:
		separates = isNothing // a property string holds commas of its own
	}
	n := 0
	for item, rest := cutItem(text, separates); item != nil; item, rest = cutItem(rest, separates) {
		n++
	}
	if v.CanAddr() && t.elem.fast == fastString && t.elem.op == opString {
		if list, ok := v.Addr().Interface().(*[]string); ok {
			*list = make([]string, 0, n)
			for item, rest := cutItem(text, separates); item != nil; item, rest = cutItem(rest, separates) {
				*list = append(*list, d.string(item))
			}
			return set
		}
	}
	v.Set(reflect.MakeSlice(t.typ, n, n))
	d.path = append(d.path, frame{})
	top := len(d.path) - 1
	for i := range n {
		var item []byte
		item, text = cutItem(text, separates)
		d.path[top].index = i
		d.scalar(t.elem, v.Index(i), token{kind: tokenString, text: item, raw: item})
	}
	d.path = d.path[:top]
	return set
}

// cutItem returns the first item of text that is not blank, without white space around
// it, and what follows it; nil if there is none.
func cutItem(text []byte, separates func(byte) bool) (item, rest []byte) {
	for len(text) > 0 {
		end := slices.IndexFunc(text, separates)
		if end < 0 {
			end = len(text)
		}
		item, rest = trim(text[:end]), text[min(end+1, len(text)):]
		if len(item) > 0 {
			return item, rest
		}
		text = rest
	}
	return nil, nil
}

// isSeparator knows what separates the items of a Proxmox list.
func isSeparator(c byte) bool { return c == ',' || c == ';' || c == 0 || isSpace(c) }

func isComma(c byte) bool     { return c == ',' }
func isLineBreak(c byte) bool { return c == '\n' }
func isNothing(byte) bool     { return false }

// unescapeKeys undoes what joinKeys does to the lines. Text that is not percent-encoded
// stays as it is.
func unescapeKeys(text []byte) []byte {
	if plain, err := url.PathUnescape(string(text)); err == nil {
		return []byte(plain)
	}
	return text
}

// joinKeys writes keys as QEMU's sshkeys option holds them: percent-encoded lines. The
// server demands this encoding of the value itself, besides that of the form around it;
// a space must be %20.
func joinKeys(dst []byte, keys []string) []byte {
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, "%0A"...)
		}
		dst = appendEscape(dst, strings.TrimRight(key, "\r\n"), false)
	}
	return dst
}
