package apidoc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

const whatToDo = "take the file /usr/share/pve-docs/api-viewer/apidoc.js of a Proxmox VE host " +
	"(or fetch https://HOST:8006/pve-docs/api-viewer/apidoc.js), or the matching one of another product"

// findTree returns the JSON value in data that holds the API: data itself, or
// the array that a script assigns to a variable.
func findTree(data []byte) (any, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	text := bytes.TrimSpace(data)
	switch {
	case len(text) == 0:
		return nil, fmt.Errorf("the file is empty; %s", whatToDo)
	case text[0] == '<':
		return nil, fmt.Errorf("this is %s, not an API description: perhaps a login or an error page came instead of the file; %s", describeHTML(text), whatToDo)
	case bytes.HasPrefix(data, []byte{0x1f, 0x8b}):
		return nil, errors.New("the file is compressed with gzip: unpack it first")
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}), bytes.HasPrefix(data, []byte{0xfe, 0xff}):
		return nil, errors.New("the file is UTF-16: convert it to UTF-8 first")
	case text[0] == '[' || text[0] == '{':
		v, err := decodeAt(data, bytes.IndexByte(data, text[0]))
		if err != nil {
			return nil, err
		}
		return v, nil
	}
	return findAssigned(data)
}

// findAssigned looks through a script for an assignment of an array or object
// that is an API tree.
func findAssigned(data []byte) (any, error) {
	var other any // an array or object that is no tree
	var firstErr error
	for i := 0; i < len(data); {
		switch c := data[i]; {
		case c == '/' && bytes.HasPrefix(data[i:], []byte("//")):
			i = skipTo(data, i, "\n")
		case c == '/' && bytes.HasPrefix(data[i:], []byte("/*")):
			i = skipTo(data, i+2, "*/")
		case c == '"' || c == '\'' || c == '`':
			i = skipString(data, i)
		case c == '=':
			j := i + 1
			for j < len(data) && strings.IndexByte(" \t\r\n", data[j]) >= 0 {
				j++
			}
			i++
			if j >= len(data) {
				return nil, fmt.Errorf("%w: it ends at line %d, after an equals sign; fetch it again", errTruncated, line(data, len(data)))
			}
			if data[j] != '[' && data[j] != '{' {
				continue
			}
			v, err := decodeAt(data, j)
			switch {
			case errors.Is(err, errTruncated):
				return nil, err
			case err != nil:
				if firstErr == nil {
					firstErr = err
				}
			case isTree(v):
				return v, nil
			case other == nil:
				other = v
			}
		default:
			i++
		}
	}
	switch {
	case other != nil:
		return other, nil // the caller says what is wrong with it
	case firstErr != nil:
		return nil, firstErr
	}
	return nil, fmt.Errorf("no API description found: neither JSON nor a script that assigns an array to a variable (it begins %q); %s", clip(string(bytes.TrimSpace(data)), 40), whatToDo)
}

func isTree(v any) bool {
	switch v := v.(type) {
	case []any:
		return len(v) > 0 && isNode(v[0])
	case map[string]any:
		_, ok := v["operations"].([]any)
		return ok
	}
	return false
}

func isNode(v any) bool {
	m, ok := v.(map[string]any)
	if !ok {
		return false
	}
	_, path := m["path"]
	_, text := m["text"]
	_, info := m["info"]
	_, children := m["children"]
	return path && (text || info || children)
}

var errTruncated = errors.New("the file is cut short")

// decodeAt decodes the JSON value that starts at data[pos]. Text after it is
// the rest of the script.
func decodeAt(data []byte, pos int) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data[pos:]))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return v, nil
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%w: it ends at line %d, within the JSON that begins at line %d; fetch it again", errTruncated, line(data, len(data)), line(data, pos))
	case errors.As(err, &syntax):
		return nil, fmt.Errorf("line %d: not JSON: %w", line(data, pos+int(syntax.Offset)), err)
	}
	return nil, fmt.Errorf("from line %d: %w", line(data, pos), err)
}

func line(data []byte, pos int) int {
	return 1 + bytes.Count(data[:min(max(pos, 0), len(data))], []byte("\n"))
}

func skipTo(data []byte, from int, end string) int {
	from = min(from, len(data))
	i := bytes.Index(data[from:], []byte(end))
	if i < 0 {
		return len(data)
	}
	return from + i + len(end)
}

func skipString(data []byte, i int) int {
	quote := data[i]
	for i++; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case quote:
			return i + 1
		case '\n':
			if quote != '`' {
				return i // no string after all, perhaps a quote in a regular expression
			}
		}
	}
	return len(data)
}

var htmlTitle = regexp.MustCompile(`(?is)<title[^>]*>\s*(.*?)\s*</title>`)

func describeHTML(text []byte) string {
	if m := htmlTitle.FindSubmatch(text); m != nil && len(m[1]) > 0 {
		return fmt.Sprintf("an HTML page (%q)", clip(string(m[1]), 60))
	}
	return "an HTML or XML page"
}

func clip(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n]) + "…"
}
