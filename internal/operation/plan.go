package operation

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/proxkit/proxkit/internal/wire"
)

// An Op is an operation that is to be called.
type Op struct {
	// Name is that of the client's method, as "CloneVM", or method and path as in
	// "POST /nodes/{node}/qemu/{vmid}/clone".
	Name string

	// Params are the parameters of the call, where they are known: the structure that
	// the method takes, or a map. A required one that is not known yet is left zero.
	Params any
}

// Plan finds the operation and tells what a caller needs for it, with the parameters
// filled in.
func (t Table) Plan(op Op) (Operation, Requirement, error) {
	o, err := t.Find(op.Name)
	if err != nil {
		return Operation{}, Requirement{}, err
	}
	need, err := ParseRequirement(o.Needs)
	if err != nil {
		return Operation{}, Requirement{}, err
	}
	if op.Params == nil {
		return o, need.Fill(nil, o.Parameters == ""), nil
	}
	values, err := o.values(op.Params)
	if err != nil {
		return Operation{}, Requirement{}, fmt.Errorf("%s: %w", o.Name, err)
	}
	return o, need.Fill(values, true), nil
}

// values returns the parameters as texts.
func (o Operation) values(params any) (map[string]string, error) {
	form, err := wire.EncodeForm(params, nil)
	if err != nil {
		return nil, err
	}
	query, err := url.ParseQuery(form)
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for name, texts := range query {
		p, ok := o.Param(name)
		if !ok {
			return nil, fmt.Errorf("it has no parameter %s: are these the parameters of another operation?", name)
		}
		values[name] = strings.Join(texts, ",")
		if p.Required && (texts[0] == "" || texts[0] == "0") {
			values[name] = "{" + name + "}" // not known yet
		}
	}
	for p := range o.Params() {
		if _, given := values[p.Name]; p.Required && !given {
			values[p.Name] = "{" + p.Name + "}"
		}
	}
	return values, nil
}

// CheckAll tells what the caller lacks for the operations, as a [*PrivilegeError], and of
// which conditions that cannot be told.
func (t Table) CheckAll(ctx context.Context, product string, caller *Caller, ops []Op) ([]Unsure, error) {
	var missing []Missing
	var unsure []Unsure
	for _, op := range ops {
		o, need, err := t.Plan(op)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", product, err)
		}
		m, u, err := caller.Check(ctx, o, need)
		if err != nil {
			return nil, err
		}
		missing, unsure = append(missing, m...), append(unsure, u...)
	}
	if len(missing) > 0 {
		return unsure, &PrivilegeError{Product: product, User: caller.User, Missing: missing}
	}
	return unsure, nil
}
