package apidoc

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	facts "github.com/proxkit/proxkit/apidoc"
)

// A Report says what differs between two API descriptions. Its JSON form is
// stable: members may be added, but not renamed or removed.
type Report struct {
	Old     Side    `json:"old"`
	New     Side    `json:"new"`
	Summary Summary `json:"summary"`

	Added   []OperationName    `json:"added"`   // operations that only the new one has
	Removed []OperationName    `json:"removed"` // operations that only the old one has; breaking
	Changed []OperationChanges `json:"changed"`
}

// A Side names one of the two descriptions.
type Side struct {
	Product    string `json:"product,omitempty"`
	Version    string `json:"version,omitempty"`
	Operations int    `json:"operations"`
}

// A Summary counts what a report lists. Parameters and result fields are
// counted at every depth; what is within an added or removed one, or operation,
// is not counted again.
type Summary struct {
	OperationsAdded   int `json:"operationsAdded"`
	OperationsRemoved int `json:"operationsRemoved"`
	OperationsChanged int `json:"operationsChanged"`

	ParametersAdded         int `json:"parametersAdded"`
	ParametersAddedRequired int `json:"parametersAddedRequired"`
	ParametersRemoved       int `json:"parametersRemoved"`
	ParametersRetyped       int `json:"parametersRetyped"`
	ParametersNewlyRequired int `json:"parametersNewlyRequired"`

	ResultFieldsAdded   int `json:"resultFieldsAdded"`
	ResultFieldsRemoved int `json:"resultFieldsRemoved"`
	ResultFieldsRetyped int `json:"resultFieldsRetyped"`
	ResultKindsChanged  int `json:"resultKindsChanged"`

	EnumValuesAdded   int `json:"enumValuesAdded"`
	EnumValuesRemoved int `json:"enumValuesRemoved"`
	PrivilegesChanged int `json:"privilegesChanged"`
	Breaking          int `json:"breaking"` // removed operations and breaking changes
}

// An OperationName is the method and path template of an operation.
type OperationName struct {
	Method string `json:"method"`
	Path   string `json:"path"`
}

// OperationChanges are the changes of an operation that both sides have.
type OperationChanges struct {
	OperationName
	Changes []Change `json:"changes"`
}

// A Change is one difference.
type Change struct {
	// Of is what has changed: "operation", "parameter" or "result".
	Of string `json:"of"`

	// Name is the parameter or the place in the result. It is empty for the
	// whole. A dot goes to a member, "[]" to the elements of a list, "~" into
	// a property string, "|0" to a variant, ".{}" to the values of a map.
	Name string `json:"name,omitempty"`

	// What says how: "added", "removed", "type", "required" (also for a result
	// field that may be missing now, or no longer), "enum", "default",
	// "minimum", "maximum", "minLength", "maxLength", "maxIndex", "pattern",
	// "format" (also a property string's grammar that appears or vanishes),
	// "additional" (keys that are not listed), "variants"; of an operation
	// "privileges", "token", "stream", "node" (which one answers),
	// "protected" and "unstable"; of a result as a whole "kind" when it changes
	// between value, object, list and nothing.
	What string `json:"what"`

	Old      string   `json:"old,omitempty"`
	New      string   `json:"new,omitempty"`
	Added    []string `json:"added,omitempty"`   // enum values
	Removed  []string `json:"removed,omitempty"` // enum values
	Breaking bool     `json:"breaking,omitempty"`
}

// Diff compares two descriptions. A change is breaking when a caller that did
// right by the old one can fail by the new one: what it sends may be refused,
// or what it reads may be missing or of another type.
func Diff(older, newer *facts.Document) *Report {
	r := &Report{
		Old:     Side{older.Product, older.Version, len(older.Operations)},
		New:     Side{newer.Product, newer.Version, len(newer.Operations)},
		Added:   []OperationName{},
		Removed: []OperationName{},
		Changed: []OperationChanges{},
	}
	index := func(d *facts.Document) map[OperationName]*facts.Operation {
		m := make(map[OperationName]*facts.Operation, len(d.Operations))
		for _, op := range d.Operations {
			m[OperationName{op.Method, op.Path}] = op
		}
		return m
	}
	olds, news := index(older), index(newer)
	for _, name := range sortedOperations(olds, news) {
		a, b := olds[name], news[name]
		switch {
		case a == nil:
			r.Added = append(r.Added, name)
		case b == nil:
			r.Removed = append(r.Removed, name)
		default:
			if changes := diffOperation(a, b); len(changes) > 0 {
				r.Changed = append(r.Changed, OperationChanges{name, changes})
			}
		}
	}
	r.Summary = summarise(r)
	return r
}

// Empty reports whether nothing differs.
func (r *Report) Empty() bool {
	return len(r.Added)+len(r.Removed)+len(r.Changed) == 0
}

func sortedOperations(a, b map[OperationName]*facts.Operation) []OperationName {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.SortedFunc(maps.Keys(all), func(a, b OperationName) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return strings.Compare(a.Method, b.Method)
	})
}

// A differ collects the changes of one operation.
type differ struct {
	of      string // "parameter" or "result"
	changes []Change
}

func diffOperation(a, b *facts.Operation) []Change {
	d := &differ{of: "operation"}
	if older, newer := permissionText(a.Permissions), permissionText(b.Permissions); older != newer {
		d.add(Change{What: "privileges", Old: older, New: newer, Breaking: !allows(a.Permissions, b.Permissions)})
	}
	if a.NoToken != b.NoToken {
		d.add(Change{What: "token", Old: tokenText(a.NoToken), New: tokenText(b.NoToken), Breaking: b.NoToken})
	}
	d.text("stream", "", a.Stream, b.Stream, true)
	d.text("node", "", a.ProxyTo, b.ProxyTo, false)
	d.flag("protected", "", a.Protected, b.Protected, false)
	d.flag("unstable", "", a.Unstable, b.Unstable, false)
	d.of = "parameter"
	d.schema("", orEmpty(a.Parameters), orEmpty(b.Parameters))
	d.of = "result"
	if older, newer := kind(a.Returns), kind(b.Returns); older != newer {
		// A result that was not described, or null by mistake, breaks nobody
		// when it is described.
		d.add(Change{What: "kind", Old: older, New: newer, Breaking: older != "undescribed" && older != "nothing"})
	} else {
		d.schema("", orEmpty(a.Returns), orEmpty(b.Returns))
	}
	return d.changes
}

func orEmpty(s *facts.Schema) *facts.Schema {
	if s == nil {
		return new(facts.Schema)
	}
	return s
}

func kind(s *facts.Schema) string {
	switch {
	case s == nil || s.Type == "" && s.OneOf == nil:
		return "undescribed"
	case s.Type == "null":
		return "nothing"
	case s.Type == "object" || s.Type == "" && s.OneOf != nil:
		return "object"
	case s.Type == "array":
		return "list"
	}
	return "value"
}

func tokenText(refused bool) string {
	if refused {
		return "refused"
	}
	return "accepted"
}

func (d *differ) add(c Change) {
	c.Of = d.of
	d.changes = append(d.changes, c)
}

func (d *differ) text(what, name, older, newer string, breaking bool) {
	if older != newer {
		d.add(Change{Name: name, What: what, Old: older, New: newer, Breaking: breaking})
	}
}

func (d *differ) flag(what, name string, older, newer, breaking bool) {
	if older != newer {
		d.add(Change{Name: name, What: what, Old: fmt.Sprint(older), New: fmt.Sprint(newer), Breaking: breaking})
	}
}

// schema compares two schemas of the same name.
func (d *differ) schema(name string, a, b *facts.Schema) {
	param := d.of == "parameter"
	if older, newer := typeText(a), typeText(b); older != newer {
		d.add(Change{Name: name, What: "type", Old: older, New: newer, Breaking: !widerType(older, newer, param)})
		if a.Type != b.Type {
			return // the parts have nothing in common
		}
	}
	if a.Optional != b.Optional {
		d.add(Change{
			Name: name, What: "required", Old: fmt.Sprint(!a.Optional), New: fmt.Sprint(!b.Optional),
			Breaking: a.Optional == param,
		})
	}
	d.enum(name, a.Enum, b.Enum)
	d.text("default", name, string(a.Default), string(b.Default), false)
	d.limit("minimum", name, a.Minimum, b.Minimum, +1)
	d.limit("maximum", name, a.Maximum, b.Maximum, -1)
	d.limit("minLength", name, length(a.MinLength), length(b.MinLength), +1)
	d.limit("maxLength", name, length(a.MaxLength), length(b.MaxLength), -1)
	d.limit("maxIndex", name, length(a.MaxIndex), length(b.MaxIndex), -1)
	d.text("pattern", name, a.Pattern, b.Pattern, false)
	d.text("format", name, a.Format, b.Format, false)
	d.flag("additional", name, !a.NoAdditional, !b.NoAdditional, param && b.NoAdditional)
	d.parts(name, a, b)
}

// parts compares what is within two schemas of the same type.
func (d *differ) parts(name string, a, b *facts.Schema) {
	all := maps.Clone(a.Properties)
	if all == nil {
		all = map[string]*facts.Schema{}
	}
	maps.Copy(all, b.Properties)
	for _, p := range slices.Sorted(maps.Keys(all)) {
		d.part(member(name, p), a.Properties[p], b.Properties[p])
	}
	if a.Items != nil && b.Items != nil {
		d.schema(name+"[]", a.Items, b.Items)
	} else {
		d.described("format", name+"[]", a.Items, b.Items)
	}
	if a.FormatSchema != nil && b.FormatSchema != nil {
		d.schema(name+"~", a.FormatSchema, b.FormatSchema)
	} else {
		d.described("format", name+"~", a.FormatSchema, b.FormatSchema)
	}
	if a.Additional != nil && b.Additional != nil {
		d.schema(name+".{}", a.Additional, b.Additional)
	} else {
		d.described("additional", name+".{}", a.Additional, b.Additional)
	}
	if len(a.OneOf) != len(b.OneOf) {
		d.text("variants", name, itoa(len(a.OneOf)), itoa(len(b.OneOf)), len(b.OneOf) < len(a.OneOf))
	}
	for i := range min(len(a.OneOf), len(b.OneOf)) {
		d.schema(name+"|"+itoa(i), a.OneOf[i], b.OneOf[i])
	}
}

func member(name, p string) string {
	if name == "" || strings.HasSuffix(name, "~") {
		return name + p
	}
	return name + "." + p
}

// part compares a property that one or both sides have.
func (d *differ) part(name string, a, b *facts.Schema) {
	param := d.of == "parameter"
	switch {
	case a == nil:
		d.add(Change{Name: name, What: "added", New: partText(b), Breaking: param && !b.Optional && b.Alias == ""})
	case b == nil:
		d.add(Change{Name: name, What: "removed", Old: partText(a), Breaking: true})
	default:
		d.schema(name, a, b)
	}
}

// described reports the description of a part that appears or vanishes.
func (d *differ) described(what, name string, a, b *facts.Schema) {
	switch {
	case a == nil && b != nil:
		d.add(Change{Name: name, What: what, Old: "not described", New: typeText(b)})
	case a != nil && b == nil:
		d.add(Change{Name: name, What: what, Old: typeText(a), New: "not described"})
	}
}

func (d *differ) enum(name string, a, b []string) {
	param := d.of == "parameter"
	if len(a) == 0 && len(b) == 0 {
		return
	}
	c := Change{Name: name, What: "enum"}
	for _, v := range b {
		if !slices.Contains(a, v) {
			c.Added = append(c.Added, v)
		}
	}
	for _, v := range a {
		if !slices.Contains(b, v) {
			c.Removed = append(c.Removed, v)
		}
	}
	switch {
	case len(a) == 0: // any text was allowed
		c.Old, c.Breaking = "any", param
	case len(b) == 0:
		c.New, c.Removed = "any", nil
	default:
		c.Breaking = param && len(c.Removed) > 0
	}
	if len(c.Added)+len(c.Removed) > 0 || c.New != "" {
		d.add(c)
	}
}

// limit compares a bound. A larger one is stricter where stricter is +1, a
// smaller one where it is -1; none is the least strict.
func (d *differ) limit(what, name string, a, b json.Number, stricter int) {
	if a == b {
		return
	}
	breaking := false
	if d.of == "parameter" && b != "" {
		older, errA := a.Float64()
		newer, errB := b.Float64()
		breaking = a == "" || errA != nil || errB != nil || (newer-older)*float64(stricter) > 0
	}
	d.text(what, name, string(a), string(b), breaking)
}

func length(n *int) json.Number {
	if n == nil {
		return ""
	}
	return json.Number(itoa(*n))
}

func typeText(s *facts.Schema) string {
	if s.Type == "" {
		return "undescribed"
	}
	return s.Type
}

// widerType reports whether no caller fails by a change of type: because
// nothing was known of it before, or because a parameter now takes more.
func widerType(older, newer string, param bool) bool {
	return older == "undescribed" || older == "any" && !param || older == "null" ||
		param && (newer == "any" || newer == "undescribed" || older == "integer" && newer == "number")
}

// partText describes an added or removed property: "optional integer".
func partText(s *facts.Schema) string {
	t := typeText(s)
	if s.Alias != "" {
		t = "another name of " + s.Alias
	} else if s.Type == "array" && s.Items != nil && s.Items.Type != "" {
		t = "array of " + s.Items.Type
	}
	if s.Optional {
		return "optional " + t
	}
	return t
}

func summarise(r *Report) Summary {
	s := Summary{
		OperationsAdded:   len(r.Added),
		OperationsRemoved: len(r.Removed),
		OperationsChanged: len(r.Changed),
		Breaking:          len(r.Removed),
	}
	for _, op := range r.Changed {
		for _, c := range op.Changes {
			s.count(c)
		}
	}
	return s
}

func (s *Summary) count(c Change) {
	plus := func(n *int, when bool) {
		if when {
			*n++
		}
	}
	param, result := c.Of == "parameter", c.Of == "result"
	plus(&s.Breaking, c.Breaking)
	switch c.What {
	case "added":
		plus(&s.ParametersAdded, param)
		plus(&s.ParametersAddedRequired, param && c.Breaking)
		plus(&s.ResultFieldsAdded, result)
	case "removed":
		plus(&s.ParametersRemoved, param)
		plus(&s.ResultFieldsRemoved, result)
	case "type":
		plus(&s.ParametersRetyped, param)
		plus(&s.ResultFieldsRetyped, result)
	case "required":
		plus(&s.ParametersNewlyRequired, param && c.Breaking)
	case "kind":
		s.ResultKindsChanged++
	case "privileges":
		s.PrivilegesChanged++
	case "enum":
		s.EnumValuesAdded += len(c.Added)
		s.EnumValuesRemoved += len(c.Removed)
	}
}
