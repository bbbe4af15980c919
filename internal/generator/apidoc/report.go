package apidoc

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// WriteText writes the report for people: a summary, then what was added, what
// was removed, and every change. Lines that begin with an exclamation mark are
// breaking.
func (r *Report) WriteText(w io.Writer) error {
	b := bufio.NewWriter(w)
	s := r.Summary
	fmt.Fprintf(b, "%s -> %s: %d -> %d operations (%d added, %d removed, %d changed), %d breaking changes\n",
		r.Old.name("old"), r.New.name("new"), r.Old.Operations, r.New.Operations,
		s.OperationsAdded, s.OperationsRemoved, s.OperationsChanged, s.Breaking)
	fmt.Fprintf(b, "parameters: %d added (%d required), %d removed, %d retyped, %d newly required\n",
		s.ParametersAdded, s.ParametersAddedRequired, s.ParametersRemoved, s.ParametersRetyped, s.ParametersNewlyRequired)
	fmt.Fprintf(b, "results: %d fields added, %d removed, %d retyped, %d results of another kind\n",
		s.ResultFieldsAdded, s.ResultFieldsRemoved, s.ResultFieldsRetyped, s.ResultKindsChanged)
	fmt.Fprintf(b, "enum values: %d added, %d removed; privileges of %d operations changed\n",
		s.EnumValuesAdded, s.EnumValuesRemoved, s.PrivilegesChanged)
	if r.Empty() {
		fmt.Fprintln(b, "no differences")
		return b.Flush()
	}
	fmt.Fprintln(b, "! marks what can break a caller")
	list := func(title, mark string, ops []OperationName) {
		if len(ops) > 0 {
			fmt.Fprintf(b, "\n%s operations (%d)\n", title, len(ops))
		}
		for _, op := range ops {
			fmt.Fprintf(b, "%s %-6s %s\n", mark, op.Method, op.Path)
		}
	}
	list("Removed", "!", r.Removed)
	list("Added", " ", r.Added)
	if len(r.Changed) > 0 {
		fmt.Fprintf(b, "\nChanged operations (%d)\n", len(r.Changed))
	}
	for _, op := range r.Changed {
		fmt.Fprintf(b, "  %-6s %s\n", op.Method, op.Path)
		for _, c := range op.Changes {
			mark := " "
			if c.Breaking {
				mark = "!"
			}
			fmt.Fprintf(b, "%s     %s\n", mark, c)
		}
	}
	return b.Flush()
}

func (s Side) name(otherwise string) string {
	if s.Product == "" && s.Version == "" {
		return otherwise
	}
	return strings.TrimSpace(s.Product + " " + s.Version)
}

// String says what has changed in one line.
func (c Change) String() string {
	subject := c.Of
	if c.Name != "" {
		subject += " " + c.Name
	}
	switch {
	case c.Of == "operation" || c.What == "kind":
		if c.Of == "operation" {
			subject = c.What
		}
		return fmt.Sprintf("%s: %s -> %s", subject, orNone(c.Old), orNone(c.New))
	case c.What == "added":
		return fmt.Sprintf("%s added (%s)", subject, c.New)
	case c.What == "removed":
		return fmt.Sprintf("%s removed (%s)", subject, c.Old)
	case c.What == "required" && c.New == "true":
		return subject + " is required now"
	case c.What == "required":
		return subject + " is optional now"
	case c.What == "enum" && c.New != "":
		return subject + " may be any value now"
	case c.What == "enum" && c.Old != "":
		return fmt.Sprintf("%s must be one of %s now", subject, strings.Join(c.Added, ", "))
	case c.What == "enum":
		words := make([]string, 0, len(c.Added)+len(c.Removed))
		for _, v := range c.Added {
			words = append(words, "+"+v)
		}
		for _, v := range c.Removed {
			words = append(words, "-"+v)
		}
		return subject + " enum " + strings.Join(words, " ")
	}
	return fmt.Sprintf("%s %s: %s -> %s", subject, c.What, orNone(c.Old), orNone(c.New))
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
