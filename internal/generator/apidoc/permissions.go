package apidoc

import (
	"slices"
	"strings"

	facts "github.com/proxkit/proxkit/apidoc"
)

// permissions reads who may call an operation, in Perl's form (check is an
// array: a word and its arguments) or Rust's (objects with check, and, or,
// user, userParam, group or withParam).
func (p *parser) permissions(where string, v any) *facts.Permissions {
	if v == nil {
		return nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		p.problem(where, "is %s, want an object", describe(v))
		return nil
	}
	out := new(facts.Permissions)
	condition := map[string]any{}
	for _, k := range sortedKeys(m) {
		switch v := m[k]; k {
		case "description":
			out.Prose = strings.TrimSpace(p.text(where+" description", v)) != ""
		case "user":
			out.User = p.text(where+" user", v)
		case "check":
			if list, ok := v.([]any); ok {
				out.Check = p.perlCheck(where+" check", list, 0)
			} else if v != nil {
				condition[k] = v
			}
		default:
			condition[k] = v
		}
	}
	if len(condition) > 0 {
		if out.Check != nil {
			p.problem(where, "has a check in two forms: an array, and %s", describeKeys(condition))
			return out
		}
		out.Check = p.rustCheck(where, condition, 0)
	}
	return out
}

// perlCheck reads ["perm", path, [privs], option, value, …] and its relatives.
func (p *parser) perlCheck(where string, list []any, depth int) *facts.Check {
	c := new(facts.Check)
	if depth > maxDepth {
		p.problem(where, "more than %d checks within one another", maxDepth)
		return c
	}
	if len(list) == 0 {
		p.problem(where, "is an empty array, want a check such as [\"perm\", PATH, [PRIVILEGES]]")
		return c
	}
	if _, ok := list[0].([]any); ok {
		// A list of checks without a word before it: some releases left the
		// "and" out.
		return p.perlCheck(where, append([]any{"and"}, list...), depth)
	}
	word, ok := list[0].(string)
	if !ok {
		p.problem(where, "begins with %s, want the name of a check", describe(list[0]))
		return c
	}
	c.Op = word
	args := list[1:]
	switch word {
	case "and", "or":
		if len(args) == 0 {
			p.problem(where, "%q has no checks", word)
		}
		for _, a := range args {
			sub, ok := a.([]any)
			if !ok {
				p.problem(where, "%q has %s, want checks", word, describe(a))
				continue
			}
			c.Checks = append(c.Checks, p.perlCheck(where, sub, depth+1))
		}
	case "perm":
		if len(args) < 2 {
			p.problem(where, "\"perm\" has %d arguments, want a path and privileges", len(args))
			return c
		}
		c.Path = p.text(where, args[0])
		c.Privs = p.texts(where, args[1])
		if c.Path == "" || len(c.Privs) == 0 || slices.Contains(c.Privs, "") {
			p.problem(where, "\"perm\" has the path %q and the privileges %q, want neither to be empty", c.Path, c.Privs)
		}
		p.checkOptions(where, c, args[2:])
	case "perm-modify":
		if len(args) != 1 {
			p.problem(where, "\"perm-modify\" has %d arguments, want a path", len(args))
			return c
		}
		c.Path = p.text(where, args[0])
	case "userid-group":
		if len(args) == 0 {
			p.problem(where, "\"userid-group\" has no privileges")
			return c
		}
		c.Privs = p.texts(where, args[0])
		p.checkOptions(where, c, args[1:])
	case "userid-param":
		if len(args) != 1 {
			p.problem(where, "\"userid-param\" has %d arguments, want \"self\" or a privilege", len(args))
			return c
		}
		if s := p.text(where, args[0]); strings.Contains(s, ".") {
			c.Privs = []string{s}
		} else {
			c.Args = []string{s}
		}
	default:
		roles := p.roles(list)
		if roles == nil {
			p.problem(where, "unknown check %q", word)
			return c
		}
		c.Op, c.Args = "role", roles
	}
	return c
}

// roles returns the fixed roles that a check lists instead of privileges, as
// Mail Gateway's do, or nil.
func (p *parser) roles(list []any) []string {
	var out []string
	for _, e := range list {
		s, _ := e.(string)
		if !slices.Contains([]string{"root", "admin", "helpdesk", "audit", "qmanager", "quser"}, s) {
			return nil
		}
		out = append(out, s)
	}
	return out
}

func (p *parser) checkOptions(where string, c *facts.Check, opts []any) {
	if len(opts)%2 != 0 {
		p.problem(where, "%q has an option without a value", c.Op)
		return
	}
	for i := 0; i < len(opts); i += 2 {
		switch name := p.text(where, opts[i]); name {
		case "any":
			c.Any = p.flag(where, opts[i+1])
		case "require_param":
			c.RequireParam = p.text(where, opts[i+1])
		case "groups_param":
			c.Args = append(c.Args, name, p.scalar(where, opts[i+1]))
		default:
			p.problem(where, "%q has the unknown option %q", c.Op, name)
		}
	}
}

// rustCheck reads {"check": {"path": [...], "privs": [...], "partial": bool}}
// and its relatives. partial means that one of the privileges is enough.
func (p *parser) rustCheck(where string, m map[string]any, depth int) *facts.Check {
	c := new(facts.Check)
	if depth > maxDepth {
		p.problem(where, "more than %d checks within one another", maxDepth)
		return c
	}
	if len(m) != 1 {
		p.problem(where, "want one of check, and, or, user, userParam, group and withParam, have %s", describeKeys(m))
		return c
	}
	for k, v := range m {
		switch k {
		case "and", "or":
			list, ok := v.([]any)
			if !ok || len(list) == 0 {
				p.problem(where+" "+k, "is %s, want an array of checks", describe(v))
				return c
			}
			c.Op = k
			for _, e := range list {
				if sub, ok := e.(map[string]any); ok {
					c.Checks = append(c.Checks, p.rustCheck(where+" "+k, sub, depth+1))
				} else {
					p.problem(where+" "+k, "has %s, want checks", describe(e))
				}
			}
			if len(c.Checks) == 1 {
				return c.Checks[0]
			}
		case "user":
			c.Op, c.Path = "user", p.text(where+" user", v)
		case "userParam":
			c.Op, c.Path = "user", "{"+p.text(where+" userParam", v)+"}"
		case "group":
			c.Op, c.Path = "group", p.text(where+" group", v)
		case "withParam":
			return p.withParam(where+" withParam", v, depth)
		case "check":
			p.privilegeCheck(where+" check", c, v)
		default:
			p.problem(where, "unknown key %q", k)
		}
	}
	return c
}

func (p *parser) withParam(where string, v any, depth int) *facts.Check {
	m, _ := v.(map[string]any)
	name, ok := m["name"].(string)
	inner, ok2 := m["permissions"].(map[string]any)
	if !ok || !ok2 || len(m) != 2 {
		p.problem(where, "is %s, want an object with name and permissions", describe(v))
		return new(facts.Check)
	}
	c := p.rustCheck(where, inner, depth+1)
	c.RequireParam = name
	return c
}

func (p *parser) privilegeCheck(where string, c *facts.Check, v any) {
	m, ok := v.(map[string]any)
	if !ok {
		p.problem(where, "is %s, want an object with path and privs", describe(v))
		return
	}
	c.Op = "perm"
	for _, k := range sortedKeys(m) {
		switch v := m[k]; k {
		case "path":
			c.Path = "/" + strings.TrimPrefix(strings.Join(p.texts(where+" path", v), "/"), "/")
		case "privs":
			c.Privs = p.texts(where+" privs", v)
		case "partial":
			c.Any = p.flag(where+" partial", v)
		default:
			p.problem(where, "unknown key %q", k)
		}
	}
	if c.Path == "" || len(c.Privs) == 0 {
		p.problem(where, "is %s, want path and privs", describe(v))
	}
}
