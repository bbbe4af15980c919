package operation

import (
	"fmt"
	"slices"
	"strings"
)

// A Kind tells what a [Requirement] asks for.
type Kind string

// The kinds of requirement.
const (
	And      Kind = "and"       // all of Of
	Or       Kind = "or"        // one of Of
	Priv     Kind = "privilege" // Privileges on Path
	User     Kind = "user"      // being the user Name
	Group    Kind = "group"     // being in the group Name
	Role     Kind = "role"      // having the role Name
	Everyone Kind = "everyone"  // nothing, not even a login
	Login    Kind = "login"     // any user
	Unstated Kind = "more"      // conditions that the API description gives in words only
	Never    Kind = "never"     // cannot be met, with the parameters given
)

// A Requirement is what a caller needs to be allowed an operation: an expression whose
// inner nodes are [And] and [Or].
type Requirement struct {
	Kind Kind
	Of   []Requirement // what And and Or join

	// For Priv: the privileges, all of which must be there, or one when Any is set.
	// "Permissions.Modify*" stands for the right to change permissions on Path, which
	// some of the privileges to allocate what is there give as well.
	// Placeholders in Path, as in "/vms/{vmid}", stand for parameters; "{userid@realm}"
	// for the realm of a user, and "{groups…}" for each element of a list.
	Privileges []string
	Any        bool
	Path       string

	// Name of a user, group or role. The user may be a placeholder.
	Name string

	// GroupOf replaces Path: any group that this user is in.
	GroupOf string

	// If names a parameter without which this way is closed.
	If string
}

// String writes the requirement in the notation of [ParseRequirement].
func (r Requirement) String() string { return r.text(false) }

func (r Requirement) text(inner bool) string {
	var b strings.Builder
	switch r.Kind {
	case And, Or:
		for i, sub := range r.Of {
			if i > 0 {
				b.WriteString(" " + string(r.Kind) + " ")
			}
			b.WriteString(sub.text(true))
		}
		if inner {
			return "(" + b.String() + ")"
		}
		return b.String()
	case Priv:
		sep := "&"
		if r.Any {
			sep = "|"
		}
		b.WriteString(strings.Join(r.Privileges, sep))
		if r.GroupOf != "" {
			b.WriteString(" on a-group-of " + r.GroupOf)
		} else {
			b.WriteString(" on " + r.Path)
		}
	case User, Group, Role:
		b.WriteString(string(r.Kind) + " " + r.Name)
	default:
		b.WriteString(string(r.Kind))
	}
	if r.If != "" {
		b.WriteString(" if " + r.If)
	}
	return b.String()
}

// ParseRequirement reads a requirement such as
//
//	VM.Clone on /vms/{vmid} and (VM.Allocate on /vms/{newid} or VM.Allocate on /pool/{pool} if pool)
//
// The privileges before "on" are joined by & when all are needed and by | when one is
// enough. "if pool" closes a way unless that parameter is given. Other atoms are "user
// NAME", "group NAME", "role NAME", "everyone", "login" and "more"; "on a-group-of NAME"
// stands for any group of a user.
func ParseRequirement(text string) (Requirement, error) {
	p := &parser{words: words(text)}
	r, err := p.expression()
	if err == nil && len(p.words) > 0 {
		err = fmt.Errorf("unexpected %q", p.words[0])
	}
	if err != nil {
		return Requirement{}, fmt.Errorf("requirement %q: %w", text, err)
	}
	return r, nil
}

// words splits text at spaces and at parentheses.
func words(text string) []string {
	text = strings.NewReplacer("(", " ( ", ")", " ) ").Replace(text)
	return strings.Fields(text)
}

type parser struct {
	words []string
	depth int
}

// maxDepth is far beyond what any description nests.
const maxDepth = 50

func (p *parser) next() string {
	if len(p.words) == 0 {
		return ""
	}
	word := p.words[0]
	p.words = p.words[1:]
	return word
}

func (p *parser) take(word string) bool {
	if len(p.words) == 0 || p.words[0] != word {
		return false
	}
	p.words = p.words[1:]
	return true
}

func (p *parser) expression() (Requirement, error) {
	if p.depth++; p.depth > maxDepth {
		return Requirement{}, fmt.Errorf("nested more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	first, err := p.term()
	if err != nil || len(p.words) == 0 || p.words[0] != string(And) && p.words[0] != string(Or) {
		return first, err
	}
	all := Requirement{Kind: Kind(p.words[0]), Of: []Requirement{first}}
	for p.take(string(all.Kind)) {
		sub, err := p.term()
		if err != nil {
			return Requirement{}, err
		}
		all.Of = append(all.Of, sub)
	}
	return all, nil
}

func (p *parser) term() (Requirement, error) {
	if p.take("(") {
		r, err := p.expression()
		if err == nil && !p.take(")") {
			err = fmt.Errorf("a parenthesis is not closed")
		}
		return r, err
	}
	r, err := p.atom()
	if err == nil && p.take("if") {
		if r.If = p.next(); r.If == "" || r.If == ")" {
			err = fmt.Errorf("no parameter after if")
		}
	}
	return r, err
}

func (p *parser) atom() (Requirement, error) {
	switch word := p.next(); Kind(word) {
	case "", "(", ")", And, Or, "if", "on":
		return Requirement{}, fmt.Errorf("a condition is missing")
	case Everyone, Login, Unstated, Never:
		return Requirement{Kind: Kind(word)}, nil
	case User, Group, Role:
		name := p.next()
		if name == "" || name == "(" || name == ")" {
			return Requirement{}, fmt.Errorf("no name after %s", word)
		}
		return Requirement{Kind: Kind(word), Name: name}, nil
	default:
		r := Requirement{Kind: Priv, Any: strings.Contains(word, "|")}
		r.Privileges = strings.FieldsFunc(word, func(c rune) bool { return c == '|' || c == '&' })
		if len(r.Privileges) == 0 {
			return Requirement{}, fmt.Errorf("no privilege in %q", word)
		}
		if !p.take("on") {
			return Requirement{}, fmt.Errorf("no path after %q", word)
		}
		target := &r.Path
		if p.take("a-group-of") {
			target = &r.GroupOf
		}
		if *target = p.next(); *target == "" || *target == "(" || *target == ")" {
			return Requirement{}, fmt.Errorf("no path after %q", word)
		}
		return r, nil
	}
}

// Fill puts the values of parameters into the requirement. complete says that there are
// no others: what depends on one that is missing is then left out.
func (r Requirement) Fill(values map[string]string, complete bool) Requirement {
	if r.If != "" {
		if values[r.If] != "" {
			r.If = ""
		} else if complete {
			return Requirement{Kind: Never}
		}
	}
	switch r.Kind {
	case And, Or:
		of := make([]Requirement, 0, len(r.Of))
		for _, sub := range r.Of {
			sub = sub.Fill(values, complete)
			if sub.Kind == Never && r.Kind == And {
				return sub
			}
			if sub.Kind != Never {
				of = append(of, sub)
			}
		}
		switch len(of) {
		case 0:
			return Requirement{Kind: Never}
		case 1:
			return of[0]
		}
		r.Of = of
	case Priv:
		if name, ok := listParam(r.Path); ok {
			return r.fillList(name, values, complete)
		}
		r.GroupOf = fill(r.GroupOf, values, complete)
		r.Path = cleanPath(fill(r.Path, values, complete))
		r = r.expandModify()
	case User:
		r.Name = fill(r.Name, values, complete)
		if r.Name == "" {
			return Requirement{Kind: Never}
		}
	}
	return r
}

const modifyAny = "Permissions.Modify*"

// expandModify spells out who may change the permissions on a path that is known.
func (r Requirement) expandModify() Requirement {
	if !slices.Equal(r.Privileges, []string{modifyAny}) || !strings.HasPrefix(r.Path, "/") {
		return r
	}
	r.Any = true
	r.Privileges = []string{"Permissions.Modify"}
	top, _, _ := strings.Cut(strings.TrimPrefix(r.Path, "/"), "/")
	switch top {
	case "storage":
		r.Privileges = append(r.Privileges, "Datastore.Allocate")
	case "vms":
		r.Privileges = append(r.Privileges, "VM.Allocate")
	case "pool":
		r.Privileges = append(r.Privileges, "Pool.Allocate")
	}
	return r
}

// listParam finds the parameter that a path such as "/access/groups/{groups…}" lists.
func listParam(path string) (string, bool) {
	_, after, ok := strings.Cut(path, "{")
	if !ok {
		return "", false
	}
	name, _, ok := strings.Cut(after, "…}")
	return name, ok && !strings.Contains(name, "}")
}

// fillList makes one requirement for each element of a list.
func (r Requirement) fillList(name string, values map[string]string, complete bool) Requirement {
	items := strings.FieldsFunc(values[name], func(c rune) bool { return c == ',' || c == ';' || c <= ' ' })
	if len(items) == 0 {
		if complete {
			return Requirement{Kind: Never}
		}
		return r
	}
	all := Requirement{Kind: And}
	for _, item := range items {
		one := r
		one.Path = cleanPath(strings.ReplaceAll(r.Path, "{"+name+"…}", item))
		all.Of = append(all.Of, one.Fill(values, complete))
	}
	if len(all.Of) == 1 {
		return all.Of[0]
	}
	return all
}

// fill replaces the placeholders of text for which there is a value and, when the values
// are complete, also the others.
func fill(text string, values map[string]string, complete bool) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "{")
		name, after, closed := strings.Cut(rest, "}")
		if !ok || !closed {
			return b.String() + text
		}
		b.WriteString(before)
		name, part, _ := strings.Cut(name, "@")
		value, given := values[name]
		if part == "realm" {
			value = value[strings.LastIndexByte(value, '@')+1:]
		}
		switch {
		case given || complete:
			b.WriteString(value)
		case part != "":
			b.WriteString("{" + name + "@" + part + "}")
		default:
			b.WriteString("{" + name + "}")
		}
		text = after
	}
}

// cleanPath drops the empty segments that missing values leave.
func cleanPath(path string) string {
	if path == "" {
		return ""
	}
	parts := strings.FieldsFunc(path, func(c rune) bool { return c == '/' })
	if strings.HasPrefix(path, "{") {
		return strings.Join(parts, "/")
	}
	return "/" + strings.Join(parts, "/")
}

// Privs lists the privileges that the requirement names, sorted.
func (r Requirement) Privs() []string {
	var all []string
	var collect func(r Requirement)
	collect = func(r Requirement) {
		all = append(all, r.Privileges...)
		for _, sub := range r.Of {
			collect(sub)
		}
	}
	collect(r)
	slices.Sort(all)
	return slices.Compact(all)
}
