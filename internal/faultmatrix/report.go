package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// totals counts the cells of a matrix.
type totals struct {
	cells, hold, excused, fail int
	ok, typed, killed          int
}

func count(cells []*cell) totals {
	t := totals{cells: len(cells)}
	for _, c := range cells {
		switch {
		case len(c.problems) == 0:
			t.hold++
		case c.excused != nil:
			t.excused++
		default:
			t.fail++
		}
		switch c.outcome {
		case "ok":
			t.ok++
		case "error":
			t.typed++
		case "killed":
			t.killed++
		}
	}
	return t
}

func (t totals) String() string {
	return fmt.Sprintf("%d cells: %d hold, %d are exceptions, %d fail; of the calls %d succeeded all the same, %d gave an error, %d were killed",
		t.cells, t.hold, t.excused, t.fail, t.ok, t.typed, t.killed)
}

// mark is a cell in the table.
func (c *cell) mark() string {
	switch {
	case c == nil:
		return ""
	case len(c.problems) > 0 && c.excused == nil:
		return "FAIL"
	case len(c.problems) > 0:
		return "x"
	}
	return map[string]string{"ok": ".", "error": "e", "killed": "k"}[c.outcome]
}

// printTable prints a line for each API call of each method, and a column for
// each fault.
func printTable(w io.Writer, cells []*cell, faults []fault) {
	type row struct {
		method string
		site   site
	}
	var rows []row
	at := map[row]map[string]*cell{}
	for _, c := range cells {
		r := row{c.method.name, c.site}
		if at[r] == nil {
			rows = append(rows, r)
			at[r] = map[string]*cell{}
		}
		at[r][c.fault.letter] = c
	}
	faults = slices.DeleteFunc(slices.Clone(faults), func(f fault) bool {
		return !slices.ContainsFunc(cells, func(c *cell) bool { return c.fault.letter == f.letter })
	})
	table := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprint(table, "method\tAPI call")
	for _, f := range faults {
		fmt.Fprint(table, "\t"+f.letter)
	}
	fmt.Fprintln(table)
	last := ""
	for _, r := range rows {
		name := r.method
		if name == last {
			name = ""
		}
		last = r.method
		line := r.site.line()
		if r.site.nth > 1 {
			line += fmt.Sprintf(" #%d", r.site.nth)
		}
		fmt.Fprint(table, name+"\t"+line)
		for _, f := range faults {
			fmt.Fprint(table, "\t"+at[r][f.letter].mark())
		}
		fmt.Fprintln(table)
	}
	table.Flush()
	fmt.Fprintln(w, "\n. succeeds all the same   e typed error   k killed   x exception   FAIL does not hold   (blank: the fault cannot befall the call)")
	for _, f := range faults {
		fmt.Fprintf(w, "  %-7s %s\n", f.letter, f.name)
	}
}

// printProblems explains the cells that do not hold, and the exceptions.
func printProblems(w io.Writer, cells []*cell) {
	for _, c := range cells {
		if len(c.problems) > 0 && c.excused == nil {
			fmt.Fprintf(w, "\nFAIL %s\n", c)
			if c.message != "" {
				fmt.Fprintf(w, "  the call's error: %s\n", c.message)
			}
			for _, p := range c.problems {
				fmt.Fprintf(w, "  - %s\n", p)
			}
		}
	}
	for _, e := range exceptions() {
		var names []string
		for _, c := range cells {
			if c.excused != nil && c.excused.name == e.name {
				names = append(names, c.String())
			}
		}
		if len(names) > 0 {
			fmt.Fprintf(w, "\nexception %q, %d cells: %s\n  %s\n", e.name, len(names), e.why, strings.Join(names, "\n  "))
		}
	}
}

// stale lists the exceptions that excuse nothing any more.
func stale(cells []*cell) (names []string) {
	for _, e := range exceptions() {
		if !slices.ContainsFunc(cells, func(c *cell) bool { return c.excused != nil && c.excused.name == e.name }) {
			names = append(names, e.name)
		}
	}
	return names
}
