package wire

import (
	"encoding/json"
	"errors"
)

// Decode reads JSON into out.
func Decode(data []byte, out any, misfit func(Misfit)) error { return json.Unmarshal(data, out) }

// A Misfit reports a value that did not fit the Go type promised for it.
type Misfit struct {
	Path string // where, as "data[3].maxmem"
	Want string // what was promised, as "integer"
	Got  string // the beginning of what came
}

// A Dialect says how a product wants JSON bodies.
type Dialect string

// The dialects.
const (
	Perl Dialect = "perl" // booleans are 1 and 0
	Rust Dialect = "rust" // booleans are true and false
)

// EncodeForm returns params as a form or query, without the names in skip.
func EncodeForm(params any, skip []string) (string, error) { return "", errors.New("soon") }

// FormFits reports whether params can be said in a form.
func FormFits(params any, skip []string) bool { return true }

// EncodeJSON returns params as a JSON object, without the names in skip.
func EncodeJSON(params any, d Dialect, skip []string) ([]byte, error) { return nil, errors.New("soon") }

// Path fills the {name} parts of template from params.
func Path(template string, params any) (path string, used []string, err error) {
	return template, nil, nil
}

// ParseProps parses a property string into the struct v points to.
func ParseProps(text string, v any) error { return errors.New("soon") }

// FormatProps writes the struct v (or a pointer to it) as a property string.
func FormatProps(v any, raw string) string { return raw }

// MarshalProps is FormatProps for MarshalText methods: it refuses values that a property string cannot hold.
func MarshalProps(v any, raw string) ([]byte, error) { return []byte(raw), nil }

// ParseSize parses a size such as "528K".
func ParseSize(text string) (int64, error) { return 0, errors.New("soon") }

// FormatSize writes bytes as Proxmox does.
func FormatSize(n int64) string { return "" }
