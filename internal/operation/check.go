package operation

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// A Grant is something that a caller may be given: a privilege on a path, or else being
// somebody.
type Grant struct {
	Privilege string // "VM.Clone"
	Path      string // "/vms/9000"
	Be        string // "root@pam", or in words what the caller would have to be
}

// String returns the grant as "VM.Clone on /vms/9000".
func (g Grant) String() string {
	if g.Be != "" {
		return "being " + g.Be
	}
	return g.Privilege + " on " + g.Path
}

// A Missing is a condition that the caller does not meet.
type Missing struct {
	Op string // the operation, as "CloneVM"

	// Ways lists how the condition can be met: by all grants of one of them. It is empty
	// when nothing helps with the parameters given.
	Ways [][]Grant
}

// String returns the condition as "VM.Allocate on /vms/101, or VM.Allocate on /pool/web".
func (m Missing) String() string {
	if len(m.Ways) == 0 {
		return "not possible with these parameters"
	}
	var ways []string
	for _, way := range m.Ways {
		var grants []string
		for _, g := range way {
			grants = append(grants, g.String())
		}
		ways = append(ways, strings.Join(grants, " and "))
	}
	return strings.Join(ways, ", or ")
}

// An Unsure is a condition of which it cannot be told whether the caller meets it.
type Unsure struct {
	Op     string // the operation, as "CreateVM"
	Reason string
}

// String returns the condition as "CreateVM: the server checks more than it says".
func (u Unsure) String() string { return u.Op + ": " + u.Reason }

// A Caller says who calls and what the server grants.
type Caller struct {
	User string // "root@pam" or "automation@pve!deploy"; empty when not known

	// Granted asks for the privileges on a path. A privilege that is there is granted;
	// its value tells whether it also holds for what is below the path.
	Granted func(ctx context.Context, path string) (map[string]bool, error)

	known map[string]map[string]bool
}

func (c *Caller) granted(ctx context.Context, path string) (map[string]bool, error) {
	if privs, ok := c.known[path]; ok {
		return privs, nil
	}
	privs, err := c.Granted(ctx, path)
	if err != nil {
		return nil, err
	}
	if c.known == nil {
		c.known = map[string]map[string]bool{}
	}
	c.known[path] = privs
	return privs, nil
}

func (c *Caller) isToken() bool { return strings.Contains(c.User, "!") }

const superuser = "root@pam"

// Check tells what the caller lacks for an operation whose requirement has been filled.
func (c *Caller) Check(ctx context.Context, o Operation, need Requirement) ([]Missing, []Unsure, error) {
	var missing []Missing
	if o.NoToken && c.isToken() {
		missing = append(missing, Missing{Op: o.Name, Ways: [][]Grant{{{Be: "logged in with a password: API tokens are refused"}}}})
	}
	if c.User == superuser {
		return missing, nil, nil
	}
	e := evaluator{Caller: c, write: o.Method == http.MethodPost || o.Method == http.MethodPut}
	res, err := e.eval(ctx, need)
	if err != nil {
		return nil, nil, err
	}
	if res.state == no {
		for _, ways := range res.lacks {
			missing = append(missing, Missing{Op: o.Name, Ways: ways})
		}
	}
	var unsure []Unsure
	for _, reason := range res.unsure {
		unsure = append(unsure, Unsure{Op: o.Name, Reason: reason})
	}
	return missing, unsure, nil
}

type state int

const (
	yes state = iota
	maybe
	no
)

// A result is the value of a requirement. Its lacks are conditions all of which are to be
// met, each in one of several ways.
type result struct {
	state  state
	lacks  [][][]Grant
	unsure []string
}

func lack(ways ...[]Grant) result { return result{state: no, lacks: [][][]Grant{ways}} }

func doubt(format string, args ...any) result {
	return result{state: maybe, unsure: []string{fmt.Sprintf(format, args...)}}
}

// An evaluator evaluates the requirement of one operation.
type evaluator struct {
	*Caller
	write bool
}

func (c *evaluator) eval(ctx context.Context, r Requirement) (result, error) {
	if r.If != "" {
		return doubt("%s counts only when the parameter %s is given", r, r.If), nil
	}
	switch r.Kind {
	case And, Or:
		return c.evalJoined(ctx, r)
	case Everyone:
		return result{}, nil
	case Login:
		if c.User == "" {
			return lack([]Grant{{Be: "logged in"}}), nil
		}
		return result{}, nil
	case Never:
		return lack(), nil
	case Unstated:
		return doubt("the server checks more than the API description says"), nil
	case User:
		switch {
		case strings.Contains(r.Name, "{"):
			return doubt("it depends on the parameter %s", r.Name), nil
		case c.User == "":
			return doubt("only for %s, and who calls is not known", r.Name), nil
		case c.User == r.Name:
			return result{}, nil
		}
		return lack([]Grant{{Be: r.Name}}), nil
	case Priv:
		return c.evalPriv(ctx, r)
	}
	return doubt("whether the caller is of %s cannot be asked", r), nil
}

func (c *evaluator) evalJoined(ctx context.Context, r Requirement) (result, error) {
	var all []result
	for _, sub := range r.Of {
		res, err := c.eval(ctx, sub)
		if err != nil {
			return result{}, err
		}
		if r.Kind == Or && res.state == yes {
			return res, nil
		}
		all = append(all, res)
	}
	var sum result
	if r.Kind == And {
		for _, res := range all {
			sum.state = max(sum.state, res.state)
			sum.lacks = append(sum.lacks, res.lacks...)
			sum.unsure = append(sum.unsure, res.unsure...)
		}
		return sum, nil
	}
	// Every way of every alternative would do, and so might what is not known.
	sum.state = no
	var ways [][]Grant
	for _, res := range all {
		sum.state = min(sum.state, res.state)
		sum.unsure = append(sum.unsure, res.unsure...)
		if res.state == no {
			ways = append(ways, product(res.lacks)...)
		}
	}
	if sum.state == maybe {
		for i, reason := range sum.unsure {
			if len(ways) > 0 {
				sum.unsure[i] = reason + " (certain would be: " + Missing{Ways: ways}.String() + ")"
			}
		}
		return sum, nil
	}
	sum.lacks = [][][]Grant{ways}
	return sum, nil
}

// product turns conditions to be met all into ways of which one is enough.
func product(lacks [][][]Grant) [][]Grant {
	ways := [][]Grant{nil}
	for _, alternatives := range lacks {
		var longer [][]Grant
		for _, way := range ways {
			for _, alternative := range alternatives {
				longer = append(longer, slices.Concat(way, alternative))
			}
		}
		ways = longer
	}
	return ways
}

func (c *evaluator) evalPriv(ctx context.Context, r Requirement) (result, error) {
	if r.GroupOf != "" {
		return doubt("%s: which groups %s is in is not asked", r, r.GroupOf), nil
	}
	path, open := r.Path, strings.Contains(r.Path, "{")
	if open {
		// A privilege above that reaches down is enough, whatever the parameter is.
		path = path[:strings.IndexByte(path, '{')]
		path = "/" + strings.Trim(path, "/")
	}
	privs, err := c.granted(ctx, path)
	if err != nil {
		return result{}, err
	}
	has := func(priv string) bool {
		below, ok := privs[priv]
		return ok && (below || !open)
	}
	var ways [][]Grant
	var there, absent []string
	for _, priv := range r.Privileges {
		if has(priv) {
			there = append(there, priv)
			continue
		}
		absent = append(absent, priv)
		ways = append(ways, []Grant{{Privilege: priv, Path: r.Path}})
	}
	switch {
	case len(absent) == 0:
		return result{}, nil
	case r.Any && len(there) > 0:
		// The server lets the call begin, and then asks for what its parameters touch.
		var res result
		if c.write {
			res.unsure = []string{"a parameter may need " + strings.Join(absent, " or ") + " on " + r.Path + ", which is missing"}
		}
		return res, nil
	case open:
		return doubt("%s depends on a parameter that is not given", r), nil
	case r.Any:
		return lack(ways...), nil
	}
	res := result{state: no}
	for _, way := range ways {
		res.lacks = append(res.lacks, [][]Grant{way})
	}
	return res, nil
}

// A PrivilegeError tells what a caller lacks.
type PrivilegeError struct {
	User    string // who lacks it, where known
	Missing []Missing
	Product string
}

// Error implements error. It names each condition once, with the operations that need it.
func (e *PrivilegeError) Error() string {
	var order []string
	ops := map[string][]string{}
	for _, m := range e.Missing {
		text := m.String()
		if _, ok := ops[text]; !ok {
			order = append(order, text)
		}
		if !slices.Contains(ops[text], m.Op) {
			ops[text] = append(ops[text], m.Op)
		}
	}
	for i, text := range order {
		order[i] = text + " (for " + strings.Join(ops[text], ", ") + ")"
	}
	who := "the caller"
	switch {
	case strings.Contains(e.User, "!"):
		who = "the API token " + e.User
	case e.User != "":
		who = e.User
	}
	return e.Product + ": " + who + " lacks: " + strings.Join(order, "; ")
}
