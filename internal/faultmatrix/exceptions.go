package main

import (
	"path"
	"strings"
)

// An exception is a kind of cell that cannot hold, and the reason.
type exception struct {
	name   string
	method string // pattern for the method's name
	site   string // pattern for the call, "POST /nodes/{node}/qemu"; "*" for all
	fault  string // pattern for the fault's letter
	text   string // what the problems have in common
	why    string
}

// exceptions lists what is known not to hold. One that excuses no cell is an
// error: it is to be removed.
func exceptions() []exception { return nil }

func (e exception) covers(c *cell) bool {
	is := func(pattern, text string) bool {
		ok, err := path.Match(strings.ReplaceAll(pattern, "/", "|"), strings.ReplaceAll(text, "/", "|"))
		return err == nil && ok
	}
	if !is(e.method, c.method.name) || !is(e.site, c.site.line()) || !is(e.fault, c.fault.letter) {
		return false
	}
	for _, p := range c.problems {
		if !strings.Contains(p, e.text) {
			return false
		}
	}
	return true
}

// excuse finds the exception that a failed cell falls under.
func (c *cell) excuse() {
	if len(c.problems) == 0 {
		return
	}
	for _, e := range exceptions() {
		if e.covers(c) {
			c.excused = &e
			return
		}
	}
}
