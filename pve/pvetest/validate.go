package pvetest

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/proxkit/proxkit/apidoc"
)

const (
	notDefined = "property is not defined in schema and the schema does not allow additional properties"
	isMissing  = "property is missing and it is not optional"
)

// A validator checks values against the schemas of the API description the way
// PVE does, texts included.
type validator struct {
	mu       sync.Mutex
	patterns map[string]*regexp.Regexp

	// hook adds what depends on the cluster's state to a format, such as the
	// custom CPU models. It returns "" when there is nothing to object to.
	hook func(format, text string) string
}

// complaints collects the texts about each parameter.
type complaints map[string]string

func (c complaints) add(path, format string, args ...any) {
	msg := fmt.Sprintf(format, args...)
	if path == "" {
		path = "_root"
	}
	if old, ok := c[path]; ok {
		// The server joins with a literal backslash and n.
		msg = old + `\n` + msg
	}
	c[path] = msg
}

// params checks the parameters of a call and returns them as handlers see
// them, or the error that names all that is wrong.
func (v *validator) params(op *apidoc.Operation, in map[string]rawValue) (params, error) {
	schema := op.Parameters
	if schema == nil {
		schema = &apidoc.Schema{Type: "object", NoAdditional: true}
	}
	for name, val := range in {
		sub := lookup(schema, name)
		if sub == nil {
			continue
		}
		switch {
		case val.kind == isArray && sub.Type == "string" && strings.HasSuffix(sub.Format, "-list"):
			words := make([]string, len(val.list))
			for i, e := range val.list {
				words[i] = e.text
			}
			in[name] = rawValue{text: strings.Join(words, ",")}
		case sub.Type == "array" && (val.kind == isText || val.kind == isBool):
			in[name] = rawValue{kind: isArray, list: []rawValue{val}}
		}
	}
	errs := complaints{}
	v.object("", schema, in, errs)
	if strings.HasPrefix(op.Path, "/cluster/ha/rules") {
		checkRuleType(op, in, errs)
	}
	if len(errs) > 0 {
		return nil, failParams(errs)
	}
	out := make(params, len(in))
	for name, val := range in {
		out[name] = val.value()
	}
	return out, nil
}

// join extends the path of a value.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// familyMax holds the greatest index of each indexed family, which the API
// description does not tell.
func familyMax(name string) int {
	switch name {
	case "net", "ipconfig":
		return 31
	case "scsi":
		return 30
	case "ide", "serial":
		return 3
	case "sata":
		return 5
	case "virtio", "hostpci":
		return 15
	case "unused", "mp", "dev":
		return 255
	case "numa", "link":
		return 7
	case "parallel":
		return 2
	case "usb":
		return 13
	case "virtiofs":
		return 9
	case "acmedomain":
		return 5
	}
	return 255
}

// lookup finds the schema of a property, members of indexed families included.
func lookup(schema *apidoc.Schema, name string) *apidoc.Schema {
	if s := schema.Properties[name]; s != nil {
		return s
	}
	base := strings.TrimRight(name, "0123456789")
	if base == name || base == "" {
		return nil
	}
	s := schema.Properties[base+"[n]"]
	if s == nil {
		return nil
	}
	digits := name[len(base):]
	n, err := strconv.Atoi(digits)
	limit := familyMax(base)
	if s.MaxIndex != nil {
		limit = *s.MaxIndex
	}
	if err != nil || n > limit || strconv.Itoa(n) != digits {
		return nil
	}
	return s
}

// object checks the properties of an object.
func (v *validator) object(path string, schema *apidoc.Schema, in map[string]rawValue, errs complaints) {
	for _, name := range sortedKeys(schema.Properties) {
		if strings.HasSuffix(name, "[n]") {
			continue
		}
		sub := schema.Properties[name]
		val, ok := in[name]
		if ok && len(sub.InstanceTypes) > 0 && !slices.Contains(sub.InstanceTypes, in[sub.TypeProperty].text) {
			errs.add(join(path, name), notDefined)
			continue
		}
		if !ok || val.kind == isNull {
			if !sub.Optional && sub.Alias == "" && sub.Type != "null" {
				errs.add(join(path, name), isMissing)
			}
			continue
		}
		v.check(join(path, name), sub, val, errs)
	}
	for _, name := range sortedKeys(in) {
		sub := lookup(schema, name)
		switch {
		case sub == nil && schema.NoAdditional:
			errs.add(join(path, name), notDefined)
		case sub == nil && schema.Additional != nil:
			v.check(join(path, name), schema.Additional, in[name], errs)
		case sub == nil:
		case schema.Properties[name] == nil && in[name].kind != isNull:
			v.check(join(path, name), sub, in[name], errs) // one of a family
			fallthrough
		default:
			if sub.Requires == "" || in[name].kind == isNull {
				break
			}
			if need, ok := in[sub.Requires]; !ok || need.kind == isNull {
				errs.add(join(path, sub.Requires), "missing property required by '%s'", name)
			}
		}
	}
}

// check checks one value.
func (v *validator) check(path string, schema *apidoc.Schema, val rawValue, errs complaints) {
	if len(schema.OneOf) > 0 {
		v.oneOf(path, schema, val, errs)
		return
	}
	if !v.hasType(path, schema.Type, val, errs) {
		return
	}
	if val.kind == isArray {
		if schema.Items != nil {
			for i, e := range val.list {
				v.check(fmt.Sprintf("%s[%d]", path, i), schema.Items, e, errs)
			}
		}
		return
	}
	if val.kind == isObject {
		return
	}
	text := val.text
	if msg := v.format(path, schema, text); msg != "" {
		errs.add(path, "invalid format - %s", msg)
		return
	}
	if schema.Pattern != "" && !v.matches(schema.Pattern, text) {
		errs.add(path, "value does not match the regex pattern")
		return
	}
	if schema.MaxLength != nil && utf8.RuneCountInString(text) > *schema.MaxLength {
		errs.add(path, "value may only be %d characters long", *schema.MaxLength)
		return
	}
	if schema.MinLength != nil && utf8.RuneCountInString(text) < *schema.MinLength {
		errs.add(path, "value must be at least %d characters long", *schema.MinLength)
		return
	}
	if n, ok := number(text); ok {
		if limit, ok := number(schema.Maximum.String()); ok && n.Cmp(limit) > 0 {
			errs.add(path, "value must have a maximum value of %s", schema.Maximum)
			return
		}
		if limit, ok := number(schema.Minimum.String()); ok && n.Cmp(limit) < 0 {
			errs.add(path, "value must have a minimum value of %s", schema.Minimum)
			return
		}
	}
	if len(schema.Enum) > 0 && !slices.Contains(schema.Enum, text) {
		errs.add(path, "value '%s' does not have a value in the enumeration '%s'", text, strings.Join(schema.Enum, ", "))
	}
}

// oneOf accepts a value that one of the variants accepts.
func (v *validator) oneOf(path string, schema *apidoc.Schema, val rawValue, errs complaints) {
	var first complaints
	for _, variant := range schema.OneOf {
		got := complaints{}
		v.check(path, variant, val, got)
		if len(got) == 0 {
			return
		}
		if first == nil {
			first = got
		}
	}
	for k, msg := range first {
		errs.add(k, "%s", msg)
	}
}

// hasType checks a value's type.
func (v *validator) hasType(path, typ string, val rawValue, errs complaints) bool {
	switch typ {
	case "", "any":
		return true
	case "null":
		errs.add(path, "type check ('null') failed - value is not null")
		return false
	case "array":
		if val.kind != isArray {
			errs.add(path, "type check ('array') failed")
			return false
		}
		return true
	case "object":
		if val.kind != isObject {
			errs.add(path, "type check ('object') failed")
			return false
		}
		return true
	}
	if ref := val.perlType(); ref != "" {
		if typ == "boolean" && val.kind == isBool {
			return true
		}
		errs.add(path, "type check ('%s') failed - got %s", typ, ref)
		return false
	}
	ok := true
	switch typ {
	case "boolean":
		ok = val.text == "0" || val.text == "1"
	case "integer":
		ok = isInteger(val.text)
	case "number":
		_, ok = number(val.text)
	}
	if !ok {
		errs.add(path, "type check ('%s') failed - got '%s'", typ, val.text)
	}
	return ok
}

func isInteger(s string) bool {
	s = strings.TrimLeft(s, "+-")
	if s == "" {
		return false
	}
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// number reads a number as PVE's schema checks do.
func number(s string) (*big.Rat, bool) {
	if s == "" || strings.ContainsAny(s, "xX/_pPbBoOiInN") || len(s) > 64 {
		return nil, false
	}
	r, ok := new(big.Rat).SetString(strings.TrimPrefix(s, "+"))
	return r, ok
}

// matches tests a pattern written for Perl. A pattern that Go cannot say is
// taken to match.
func (v *validator) matches(pattern, text string) bool {
	v.mu.Lock()
	re, ok := v.patterns[pattern]
	if !ok {
		re, _ = regexp.Compile("^" + goPattern(pattern) + "$")
		v.patterns[pattern] = re
	}
	v.mu.Unlock()
	return re == nil || re.MatchString(text)
}

// goPattern rewrites what Go spells differently from Perl.
func goPattern(p string) string {
	p = strings.TrimSuffix(strings.TrimPrefix(p, "/"), "/")
	p = strings.NewReplacer(`(?^:`, `(?:`, `(?^i:`, `(?i:`, `(?^n:`, `(?:`, `(?^ni:`, `(?i:`, `(?^aa:`, `(?:`, `\Z`, `\z`, `\/`, `/`, `*+`, `*`, `++`, `+`, `{,`, `{0,`).Replace(p)
	return p
}

// checkRuleType adds what the description does not tell of the two types of
// high availability rules: what each needs, and that without a type nothing
// but the common settings is known.
func checkRuleType(op *apidoc.Operation, in map[string]rawValue, errs complaints) {
	need := ""
	switch in["type"].text {
	case "resource-affinity":
		need = "affinity"
	case "node-affinity":
		need = "nodes"
	default:
		if _, ok := in["resources"]; ok && op.Method != "GET" {
			errs.add("resources", notDefined)
		}
		return
	}
	if _, ok := in[need]; !ok && op.Method == "POST" {
		errs.add("oneOf["+in["type"].text+"]."+need, isMissing)
	}
}
