package apidoc

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	facts "github.com/proxkit/proxkit/apidoc"
)

func itoa(n int) string { return strconv.Itoa(n) }

// text reads a string. null is the empty one.
func (p *parser) text(where string, v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	p.problem(where, "is %s, want a text", describe(v))
	return ""
}

func (p *parser) texts(where string, v any) []string {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		return []string{v}
	case []any:
		out := make([]string, 0, len(v))
		for _, e := range v {
			if s, ok := e.(string); ok {
				out = append(out, s)
			} else {
				p.problem(where, "has %s, want texts", describe(e))
			}
		}
		return out
	}
	p.problem(where, "is %s, want an array of texts", describe(v))
	return nil
}

// scalar reads a text, number or boolean as text.
func (p *parser) scalar(where string, v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return v.String()
	}
	p.problem(where, "is %s, want a text, a number or a boolean", describe(v))
	return ""
}

// flag reads a boolean in any of its spellings: true, 1, "1" and their
// opposites. null is false.
func (p *parser) flag(where string, v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case json.Number:
		if v == "0" || v == "1" {
			return v == "1"
		}
	case string:
		switch v {
		case "", "0":
			return false
		case "1":
			return true
		}
	}
	p.problem(where, "is %s, want a boolean (0, 1, true or false)", describe(v))
	return false
}

// number reads a number, which may stand in quotes.
func (p *parser) number(where string, v any) json.Number {
	if v == nil {
		return ""
	}
	n, ok := plainNumber(v)
	if !ok {
		p.problem(where, "is %s, want a number", describe(v))
	}
	return n
}

// size reads a length: a whole number that is not negative.
func (p *parser) size(where string, v any) *int {
	if v == nil {
		return nil
	}
	n, ok := plainNumber(v)
	i, err := strconv.Atoi(string(n))
	if !ok || err != nil || i < 0 {
		p.problem(where, "is %s, want a length", describe(v))
		return nil
	}
	return &i
}

// plainNumber brings a number into one spelling: whole ones without fraction
// and exponent ("2" for 2.0, "1000" for "1e3"), others as short as possible.
func plainNumber(v any) (json.Number, bool) {
	var s string
	switch v := v.(type) {
	case json.Number:
		s = v.String()
	case string:
		s = strings.TrimSpace(v)
	default:
		return "", false
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return json.Number(strconv.FormatInt(i, 10)), true
	}
	if u, err := strconv.ParseUint(s, 10, 64); err == nil {
		return json.Number(strconv.FormatUint(u, 10)), true
	}
	if strings.ContainsAny(s, "xXpP_") { // Go's spellings, not JSON's
		return "", false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return "", false
	}
	if f == math.Trunc(f) && math.Abs(f) < 1<<63 {
		return json.Number(strconv.FormatInt(int64(f), 10)), true
	}
	b, err := json.Marshal(f)
	return json.Number(b), err == nil
}

// literal returns v as a value of s's type in its one spelling, or nothing
// where v is none: a wrong type, prose, or a text that the enum does not have.
func literal(s *facts.Schema, v any) json.RawMessage {
	switch s.Type {
	case "boolean":
		return booleanLiteral(v)
	case "integer", "number":
		n, ok := plainNumber(v)
		if !ok || s.Type == "integer" && strings.ContainsAny(string(n), ".eE") {
			return nil
		}
		return json.RawMessage(n)
	case "string":
		return stringLiteral(s, v)
	case "array":
		return arrayLiteral(v)
	}
	return nil
}

func booleanLiteral(v any) json.RawMessage {
	text := ""
	switch v := v.(type) {
	case bool:
		text = strconv.FormatBool(v)
	case json.Number:
		text = v.String()
	case string:
		text = strings.ToLower(v)
	}
	switch text {
	case "1", "true", "yes", "on":
		return json.RawMessage("true")
	case "0", "false", "no", "off":
		return json.RawMessage("false")
	}
	return nil
}

func stringLiteral(s *facts.Schema, v any) json.RawMessage {
	var text string
	switch v := v.(type) {
	case string:
		text = v
	case json.Number:
		text = v.String()
	default:
		return nil
	}
	if s.Enum != nil {
		i := slices.IndexFunc(s.Enum, func(e string) bool { return strings.EqualFold(e, text) })
		if i < 0 {
			return nil
		}
		if !slices.Contains(s.Enum, text) {
			text = s.Enum[i]
		}
	}
	if isProse(text) {
		return nil
	}
	return quote(text)
}

func arrayLiteral(v any) json.RawMessage {
	list, ok := v.([]any)
	if !ok {
		return nil
	}
	for _, e := range list {
		switch e := e.(type) {
		case string:
			if isProse(e) {
				return nil
			}
		case json.Number, bool:
		default:
			return nil
		}
	}
	b, err := json.Marshal(list)
	if err != nil {
		return nil
	}
	return b
}

// isProse tells words that explain a value from a value: it has blanks other
// than those after a comma.
func isProse(s string) bool {
	for part := range strings.SplitSeq(s, ",") {
		if strings.ContainsAny(strings.TrimSpace(part), " \t\r\n") {
			return true
		}
	}
	return false
}

func quote(s string) json.RawMessage {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(s) != nil {
		return nil
	}
	return json.RawMessage(strings.TrimSuffix(b.String(), "\n"))
}
