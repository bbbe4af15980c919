package apidoc

import (
	"fmt"

	facts "github.com/proxkit/proxkit/apidoc"
)

// A SinceTable tells since which version an operation, a parameter or a result
// field exists. Its answers are empty for what the oldest version has already,
// and for what is as old as that which contains it: a parameter that came with
// its operation has no version of its own.
type SinceTable struct {
	versions []string
	ops      []map[string]*sinceOp // for each version
}

type sinceOp struct {
	params, result map[string]sinceField // by step, "" being the whole
}

type sinceField struct {
	schema *facts.Schema
	outer  string // the step of the schema that contains this one
}

// LoadSince makes the table of a product from the facts files of this module.
// It is empty, yet usable, for a product without any.
func LoadSince(product string) (*SinceTable, error) {
	var docs []*facts.Document
	for _, v := range facts.Versions(product) {
		d, err := facts.Load(product, v)
		if err != nil {
			return nil, fmt.Errorf("since: %w", err)
		}
		docs = append(docs, d)
	}
	return Since(docs), nil
}

// Since makes the table from documents of one product, oldest version first.
func Since(docs []*facts.Document) *SinceTable {
	t := new(SinceTable)
	for _, d := range docs {
		ops := make(map[string]*sinceOp, len(d.Operations))
		for _, op := range d.Operations {
			ops[op.Method+" "+op.Path] = &sinceOp{flatten(op.Parameters), flatten(op.Returns)}
		}
		t.versions = append(t.versions, d.Version)
		t.ops = append(t.ops, ops)
	}
	return t
}

func flatten(s *facts.Schema) map[string]sinceField {
	m := map[string]sinceField{}
	var add func(s *facts.Schema, step, outer string)
	add = func(s *facts.Schema, step, outer string) {
		m[step] = sinceField{s, outer}
		for sub, rest := range s.Children() {
			add(sub, step+rest, step)
		}
	}
	if s != nil {
		add(s, "", "")
	}
	return m
}

// Operation returns since when an operation exists, or "".
func (t *SinceTable) Operation(method, path string) string {
	key := method + " " + path
	return t.since(func(i int) presence {
		if t.ops[i][key] == nil {
			return absent
		}
		return present
	})
}

// Parameter returns since when a parameter of an operation, or a part of one,
// exists, or "". It is named as [apidoc.Schema.Walk] names it from "": ".net[n]"
// or, within a property string, ".net[n]~.queues".
func (t *SinceTable) Parameter(method, path, step string) string {
	return t.field(method, path, step, true, func(o *sinceOp) map[string]sinceField { return o.params })
}

// Result returns since when a field of an operation's result exists, or "". It
// is named as [apidoc.Schema.Walk] names it from "": ".status" in an object,
// "[].status" in a list of objects.
//
// A field that is new in the description of a result which was not described
// at all before counts as old, since the servers sent it all along.
func (t *SinceTable) Result(method, path, step string) string {
	return t.field(method, path, step, false, func(o *sinceOp) map[string]sinceField { return o.result })
}

// field answers for one side of an operation. allKnown says that its outermost
// schema lists all there is even if it lists nothing.
func (t *SinceTable) field(method, path, step string, allKnown bool, side func(*sinceOp) map[string]sinceField) string {
	key := method + " " + path
	if len(t.ops) == 0 || t.ops[len(t.ops)-1][key] == nil {
		return ""
	}
	field, ok := side(t.ops[len(t.ops)-1][key])[step]
	if !ok {
		return ""
	}
	return t.since(func(i int) presence {
		op := t.ops[i][key]
		if op == nil {
			return unknown
		}
		fields := side(op)
		if _, ok := fields[step]; ok {
			return present
		}
		outer, ok := fields[field.outer]
		if !ok || !described(outer.schema) && !(allKnown && field.outer == "") {
			return unknown
		}
		return absent
	})
}

type presence int

const (
	present presence = iota
	absent
	unknown
)

// since goes back from the newest version for as long as at says present.
func (t *SinceTable) since(at func(i int) presence) string {
	last := len(t.versions) - 1
	if last < 0 || at(last) != present {
		return ""
	}
	for i := last - 1; i >= 0; i-- {
		switch at(i) {
		case absent:
			return t.versions[i+1]
		case unknown:
			return ""
		}
	}
	return ""
}

func described(s *facts.Schema) bool {
	return s.Properties != nil || s.Items != nil || s.Additional != nil || s.FormatSchema != nil || s.OneOf != nil
}
