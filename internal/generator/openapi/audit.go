package openapi

import "github.com/proxkit/proxkit/apidoc"

// RuleNames is for audit.
func RuleNames(doc *apidoc.Document, ov *Overlay) (map[string]string, []string) {
	caser, err := NewCaser(ov.Words)
	if err != nil {
		panic(err)
	}
	var ops []*apidoc.Operation
	for _, op := range doc.Operations {
		ops = append(ops, cloneOperation(op))
	}
	correct(ops, ov.Corrections)
	n := newNamer(caser, ov, ops)
	out := map[string]string{}
	for _, op := range ops {
		out[opKey(op)] = n.rule(op, n.isIndex(op)).Method
	}
	var unused []string
	for k := range ov.Nouns {
		if !n.usedNoun[k] {
			unused = append(unused, k)
		}
	}
	return out, unused
}
