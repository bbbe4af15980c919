package pvetest

import (
	"fmt"
	"strings"
)

// An apiError is an error a handler answers with. The reason phrase is the
// first line of its text.
type apiError struct {
	status  int
	message string            // without the trailing newline
	params  map[string]string // "errors" of a 400
	bare    bool              // message without trailing newline on the wire
	empty   bool              // no body at all
	html    bool              // a page
}

func (e *apiError) Error() string { return e.message }

// phrase returns the first line of the message.
func (e *apiError) phrase() string {
	first, _, _ := strings.Cut(e.message, "\n")
	return first
}

// fail returns an error with a status and a text, as PVE's die and raise do.
func fail(status int, format string, args ...any) error {
	msg := format
	if len(args) > 0 {
		msg = fmt.Sprintf(format, args...)
	}
	return &apiError{status: status, message: strings.TrimSuffix(msg, "\n")}
}

// failParams returns the 400 that names each bad parameter.
func failParams(errs map[string]string) error {
	return &apiError{status: 400, message: "Parameter verification failed.", params: errs}
}

// failParam is failParams for one parameter.
func failParam(name, format string, args ...any) error {
	msg := format
	if len(args) > 0 {
		msg = fmt.Sprintf(format, args...)
	}
	return failParams(map[string]string{name: msg})
}

// failPerm returns the 403 that names the privileges missing on path. Without
// a path it says only that something is missing.
func failPerm(path string, privs ...string) error {
	if path == "" {
		return fail(403, "Permission check failed")
	}
	return fail(403, "Permission check failed (%s, %s)", path, strings.Join(privs, "|"))
}

// dieText is an error as Perl prints it into another text or a task's log: with
// its status in front when it was raised rather than died of, and with the
// texts about parameters.
func dieText(err error) string {
	e, ok := err.(*apiError)
	if !ok || e.status == 500 && len(e.params) == 0 {
		return err.Error()
	}
	text := fmt.Sprintf("%d %s", e.status, e.message)
	for _, k := range sortedKeys(e.params) {
		text += "\n" + k + ": " + strings.TrimSuffix(e.params[k], "\n")
	}
	return text
}
