package apidoc

import (
	"slices"
	"strings"

	facts "github.com/proxkit/proxkit/apidoc"
)

// permissionText writes a permission so that equal ones look alike.
func permissionText(p *facts.Permissions) string {
	if p == nil {
		return "root only"
	}
	var parts []string
	switch p.User {
	case "":
	case "world":
		parts = append(parts, "everybody")
	case "all":
		parts = append(parts, "every user")
	default:
		parts = append(parts, "user "+p.User)
	}
	if p.Check != nil {
		parts = append(parts, checkText(p.Check))
	}
	if p.Prose {
		parts = append(parts, "conditions in words")
	}
	if len(parts) == 0 {
		return "root only"
	}
	return strings.Join(parts, "; ")
}

func checkText(c *facts.Check) string {
	var b strings.Builder
	switch c.Op {
	case "and", "or":
		var subs []string
		for _, s := range c.Checks {
			subs = append(subs, checkText(s))
		}
		b.WriteString("(" + strings.Join(subs, " "+c.Op+" ") + ")")
	case "perm":
		join := " and "
		if c.Any {
			join = " or "
		}
		b.WriteString(strings.Join(c.Privs, join) + " on " + c.Path)
	default:
		b.WriteString(strings.Join(append(append([]string{c.Op}, c.Args...), c.Privs...), " "))
		if c.Path != "" {
			b.WriteString(" " + c.Path)
		}
	}
	if c.RequireParam != "" {
		b.WriteString(" (with " + c.RequireParam + ")")
	}
	return b.String()
}

// maxAtoms bounds the truth table of allows.
const maxAtoms = 14

// allows reports whether whoever may call by older may call by newer too. It
// tries every combination of the rights that the two name. With too many of
// them, or with conditions in words that older does not have, it says no.
func allows(older, newer *facts.Permissions) bool {
	if hasProse(newer) && !hasProse(older) {
		return false
	}
	var atoms []string
	collect := func(atom string) bool {
		if !slices.Contains(atoms, atom) {
			atoms = append(atoms, atom)
		}
		return false
	}
	granted(older, collect)
	granted(newer, collect)
	if len(atoms) > maxAtoms {
		return false
	}
	for set := range 1 << len(atoms) {
		has := func(atom string) bool { return set&(1<<slices.Index(atoms, atom)) != 0 }
		if granted(older, has) && !granted(newer, has) {
			return false
		}
	}
	return true
}

func hasProse(p *facts.Permissions) bool { return p != nil && p.Prose }

// granted evaluates a permission, given which rights the caller has. It asks
// for every right, so that has can collect them. Root may call everything; any
// right implies being a user.
func granted(p *facts.Permissions, has func(string) bool) bool {
	root, user := has("root"), has("user")
	if p == nil {
		return root
	}
	var ok bool
	switch p.User {
	case "world":
		return true
	case "all", "":
		ok = p.User == "all" || p.Check != nil
	default:
		ok = has("user " + p.User)
	}
	if p.Check != nil {
		check := holds(p.Check, has)
		ok = ok && check
	}
	return root || ok && user
}

func holds(c *facts.Check, has func(string) bool) bool {
	switch c.Op {
	case "and", "or":
		all, some := true, false
		for _, s := range c.Checks {
			h := holds(s, has)
			all, some = all && h, some || h
		}
		if c.Op == "and" {
			return all
		}
		return some
	case "perm":
		all, some := true, false
		for _, priv := range c.Privs {
			h := has(priv + " on " + c.Path)
			all, some = all && h, some || h
		}
		ok := all
		if c.Any {
			ok = some
		}
		if c.RequireParam != "" {
			given := has("with " + c.RequireParam)
			return ok && given
		}
		return ok
	}
	return has(checkText(c))
}
