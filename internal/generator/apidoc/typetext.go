package apidoc

import (
	"regexp"
	"strings"

	facts "github.com/proxkit/proxkit/apidoc"
)

// typetextToSchema reads the grammar of a property string from its typetext,
// where nothing else gives it, and drops a typetext that says no more than the
// schema does.
func typetextToSchema(s *facts.Schema) {
	text := s.Typetext
	if text == "" {
		return
	}
	s.Typetext = ""
	if s.Type != "string" || s.FormatSchema != nil || s.Enum != nil || !keyValue.MatchString(text) {
		return
	}
	if g, ok := parseTypetext(text); ok {
		s.FormatSchema = g
	} else {
		s.Typetext = text
	}
}

var (
	keyValue = regexp.MustCompile(`(^|[\[, ])[A-Za-z][A-Za-z0-9_-]*=`)
	key      = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9_-]*)=`)
)

// parseTypetext reads the notation in which the API viewer shows property
// strings: "[[host=]<ID>] [,pcie=<1|0>] ,rate=<number>". Brackets hold what may
// be left out, "[host=]" the key that may.
func parseTypetext(text string) (*facts.Schema, bool) {
	out := &facts.Schema{Type: "object", Properties: map[string]*facts.Schema{}, NoAdditional: true}
	rest := text
	for {
		rest = strings.TrimLeft(rest, ", ")
		if rest == "" {
			return out, len(out.Properties) > 0
		}
		var element string
		optional := false
		if inner, after, ok := bracketed(rest, '[', ']'); ok && !strings.HasSuffix(inner, "=") {
			element, rest, optional = strings.TrimLeft(inner, ", "), after, true
		} else {
			element, rest = cutElement(rest)
		}
		name, s, ok := parseElement(element)
		if !ok || out.Properties[name] != nil {
			return nil, false
		}
		s.Optional = optional
		out.Properties[name] = s
	}
}

// parseElement reads "key=value" or "[key=]value".
func parseElement(text string) (string, *facts.Schema, bool) {
	text = strings.TrimSpace(text)
	isDefault := false
	if inner, after, ok := bracketed(text, '[', ']'); ok && strings.HasSuffix(inner, "=") {
		isDefault = true
		text = inner + after
	}
	m := key.FindStringSubmatch(text)
	if m == nil {
		return "", nil, false
	}
	value := text[len(m[0]):]
	if value == "" {
		return "", nil, false
	}
	s := valueSchema(value)
	s.DefaultKey = isDefault
	return m[1], s, true
}

var (
	words       = regexp.MustCompile(`^[A-Za-z0-9_./+-]+(\|[A-Za-z0-9_./+-]+)+$`)
	span        = regexp.MustCompile(`(^|\|)[0-9]+-[0-9]+(\||$)`) // "8-64" is no word
	digitsValue = regexp.MustCompile(`^\\d[+*]?$`)
)

// valueSchema tells the type that a value's placeholder stands for.
func valueSchema(value string) *facts.Schema {
	inner, after, ok := bracketed(value, '<', '>')
	if !ok || after != "" {
		if digitsValue.MatchString(value) {
			return &facts.Schema{Type: "integer"}
		}
		return &facts.Schema{Type: "string"}
	}
	switch {
	case inner == "1|0" || inner == "0|1" || inner == "boolean":
		return &facts.Schema{Type: "boolean"}
	case inner == "integer" || inner == "N":
		return &facts.Schema{Type: "integer"}
	case inner == "number":
		return &facts.Schema{Type: "number"}
	case words.MatchString(inner) && !span.MatchString(inner):
		return &facts.Schema{Type: "string", Enum: strings.Split(inner, "|")}
	}
	return &facts.Schema{Type: "string"}
}

// bracketed splits "[inner]after" at the bracket that closes the first.
func bracketed(s string, open, closing byte) (inner, after string, ok bool) {
	if s == "" || s[0] != open {
		return "", "", false
	}
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case open:
			depth++
		case closing:
			depth--
			if depth == 0 {
				return s[1:i], s[i+1:], true
			}
		}
	}
	return "", "", false
}

// cutElement cuts a required element off: up to the comma or blank that follows
// its value, brackets and placeholders being skipped.
func cutElement(s string) (element, rest string) {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '[', '<', '(':
			depth++
		case ']', '>', ')':
			depth--
		case ',', ' ':
			if depth == 0 {
				return s[:i], s[i:]
			}
		}
	}
	return s, ""
}
