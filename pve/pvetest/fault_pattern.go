package pvetest

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// A callPattern matches calls; [Fault] says how it is written.
type callPattern struct {
	method string // "*" for any
	words  []string
}

// pattern reads a pattern. One that can match no operation is an error that says
// why.
func (r *registry) pattern(text string) (callPattern, error) {
	method, uri, ok := strings.Cut(strings.TrimSpace(text), " ")
	if !ok {
		method, uri = "*", method
	}
	uri = strings.TrimSpace(uri)
	wrong := func(format string, args ...any) (callPattern, error) {
		return callPattern{}, fmt.Errorf("%q: "+format, append([]any{text}, args...)...)
	}
	switch method {
	case "GET", "POST", "PUT", "DELETE", "*":
	default:
		return wrong(`the method must be GET, POST, PUT or DELETE, in capitals, or "*"`)
	}
	if !strings.HasPrefix(uri, "/") {
		return wrong(`the path must begin with "/", as in "POST /nodes/{node}/qemu"`)
	}
	if strings.ContainsAny(uri, " \t#=") {
		return wrong("a path has no spaces, and a pattern no query")
	}
	p := callPattern{method: method, words: strings.FieldsFunc(uri, func(c rune) bool { return c == '/' })}
	if len(p.words) > 0 && p.words[0] == "api2" {
		return wrong(`leave out "/api2/json": the path is that of the API's description`)
	}
	for i, w := range p.words {
		if _, err := path.Match(w, ""); err != nil {
			return wrong("%q is not closed", w)
		}
		if strings.Contains(w, "**") && (w != "**" || i < len(p.words)-1) {
			return wrong(`"**" is for the end of a path`)
		}
	}
	var methods []string
	for _, op := range r.byName {
		if p.covers(op.Path) {
			if method == "*" || op.Method == method {
				return p, nil
			}
			methods = append(methods, op.Method)
		}
	}
	if len(methods) > 0 {
		slices.Sort(methods)
		return wrong("the API has no %s there, only %s", method, strings.Join(slices.Compact(methods), ", "))
	}
	if near := r.nearPath(method, p); near != "" {
		return wrong("the API has no such path; did you mean %q?", near)
	}
	return wrong("the API has no such path")
}

// nearPath is a path of the API that differs from a pattern in one word.
func (r *registry) nearPath(method string, p callPattern) string {
	for _, name := range sortedKeys(r.byName) {
		op := r.byName[name]
		parts := split(op.Path)
		if len(parts) != len(p.words) || method != "*" && op.Method != method {
			continue
		}
		differ, fixed := 0, slices.Clone(p.words)
		for i, w := range p.words {
			if wordCovers(w, parts[i]) {
				continue
			}
			if differ++; isVariable(parts[i]) || nearest(w, parts[i:i+1]) == "" {
				differ = len(parts) + 1
			}
			fixed[i] = parts[i]
		}
		if differ == 1 {
			return "/" + strings.Join(fixed, "/")
		}
	}
	return ""
}

func split(uri string) []string {
	return strings.FieldsFunc(uri, func(c rune) bool { return c == '/' })
}

func isVariable(part string) bool { return strings.HasPrefix(part, "{") }

// covers tells whether a pattern can match calls of an operation.
func (p callPattern) covers(template string) bool {
	parts := split(template)
	for i, w := range p.words {
		switch {
		case w == "**":
			return true
		case i >= len(parts):
			return len(parts) > 0 && isVariable(parts[len(parts)-1]) && greedy(strings.Trim(parts[len(parts)-1], "{}"))
		case !wordCovers(w, parts[i]):
			return false
		}
	}
	return len(p.words) == len(parts)
}

// wordCovers tells whether a part of a pattern can match a part of the path of
// an operation.
func wordCovers(word, part string) bool {
	if isVariable(word) {
		return isVariable(part)
	}
	if part == "{vmid}" {
		return strings.Trim(word, "0123456789*?[]-^") == ""
	}
	if isVariable(part) {
		return true
	}
	ok, _ := path.Match(word, part)
	return ok
}

// matches tells whether a call matches; template is the path of its operation.
func (p callPattern) matches(method string, parts []string, template string) bool {
	if p.method != "*" && p.method != method {
		return false
	}
	named := split(template)
	if n := len(named); n > 0 && n < len(parts) && isVariable(named[n-1]) && len(p.words) <= n {
		parts = append(slices.Clone(parts[:n-1]), strings.Join(parts[n-1:], "/"))
	}
	for i, w := range p.words {
		if w == "**" {
			return true
		}
		if i >= len(parts) {
			return false
		}
		if isVariable(w) || w == "*" {
			continue
		}
		// A "/" in a volume's name is a letter like any other.
		if ok, _ := path.Match(strings.ReplaceAll(w, "/", "\x00"), strings.ReplaceAll(parts[i], "/", "\x00")); !ok {
			return false
		}
	}
	return len(p.words) == len(parts)
}

// taskTypes lists the types of the tasks that the simulated cluster starts.
func taskTypes() []string {
	return strings.Fields(`download hamigrate hastart hastop imgcopy imgdel qmclone qmconfig qmcreate qmdelsnapshot qmdestroy qmigrate qmmove qmpause
qmreboot qmreset qmresume qmrollback qmshutdown qmsnapshot qmstart qmstop qmsuspend qmtemplate reloadnetworkall resize srvreload startall stopall vncproxy`)
}

// checkTaskPattern refuses a pattern that no task can match.
func checkTaskPattern(pattern string) error {
	if pattern == "*" {
		return nil
	}
	typ, id, ok := strings.Cut(pattern, ":")
	if !ok {
		return fmt.Errorf(`%q: write it as "type:id", such as "qmclone:100" or "qmclone:*", or "*"`, pattern)
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return fmt.Errorf("%q: a bracket is not closed", pattern)
	}
	if id == "" && !slices.Contains([]string{"imgcopy", "reloadnetworkall", "startall", "stopall"}, typ) && !strings.ContainsAny(typ, "*?[") {
		return errors.New(pattern + `: an id is missing; "*" is any`)
	}
	if !slices.ContainsFunc(taskTypes(), func(t string) bool { ok, _ := path.Match(typ, t); return ok }) {
		return fmt.Errorf("%q: %w", pattern, unknown("task type", typ, taskTypes()))
	}
	return nil
}

// matchTask tells whether a task matches a pattern that checkTaskPattern has
// let through.
func matchTask(pattern, typ, id string) bool {
	if pattern == "*" {
		return true
	}
	wantType, wantID, _ := strings.Cut(pattern, ":")
	okType, _ := path.Match(wantType, typ)
	okID, _ := path.Match(wantID, id)
	return okType && (okID || wantID == "*")
}
