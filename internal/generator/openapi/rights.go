package openapi

import (
	"fmt"
	"slices"

	"github.com/proxkit/proxkit/apidoc"
	"github.com/proxkit/proxkit/internal/operation"
)

// Rights tell who may call operations whose description says it in words only.
type Rights struct {
	At []string `yaml:"at"` // "POST /nodes/{node}/qemu"

	// Needs is what a caller needs at least, in the notation of
	// [operation.ParseRequirement]. The rest stays words.
	Needs  string `yaml:"needs"`
	Reason string `yaml:"reason"`
}

// checkRights finds what is wrong with the overlay's rights in themselves.
func checkRights(rights []Rights, say func(format string, args ...any)) {
	for i, r := range rights {
		if len(r.At) == 0 || r.Reason == "" {
			say("rights[%d] %v needs at, needs and reason", i, r.At)
		}
		if _, err := r.check(); err != nil {
			say("rights[%d] %v: %v", i, r.At, err)
		}
	}
}

func (r Rights) check() (*apidoc.Check, error) {
	need, err := operation.ParseRequirement(r.Needs)
	if err != nil {
		return nil, err
	}
	return checkOf(need)
}

func checkOf(need operation.Requirement) (*apidoc.Check, error) {
	c := &apidoc.Check{Path: need.Path, Privs: need.Privileges, Any: need.Any, RequireParam: need.If}
	switch {
	case need.Kind == operation.And || need.Kind == operation.Or:
		c.Op = string(need.Kind)
		for _, sub := range need.Of {
			s, err := checkOf(sub)
			if err != nil {
				return nil, err
			}
			c.Checks = append(c.Checks, s)
		}
	case need.Kind == operation.Priv && need.GroupOf == "":
		c.Op = "perm"
	default:
		return nil, fmt.Errorf("%s: only privileges on paths, joined by and and or, can be given here", need)
	}
	return c, nil
}

// permissions returns who may call op, with what the overlay says of it.
func (b *builder) permissions(op *apidoc.Operation) *apidoc.Permissions {
	for _, r := range b.overlay.Rights {
		if !slices.Contains(r.At, opKey(op)) {
			continue
		}
		if p := op.Permissions; p == nil || !p.Prose || p.Check != nil || p.User != "all" {
			if b.strict {
				b.problem("rights: %s: the description does not leave this to words: drop the entry", opKey(op))
			}
			break
		}
		check, err := r.check()
		if err != nil {
			b.problem("rights: %s: %v", opKey(op), err)
			break
		}
		return &apidoc.Permissions{Check: check, Prose: true}
	}
	return op.Permissions
}
