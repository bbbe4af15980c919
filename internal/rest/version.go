package rest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// A ServerVersion is the version of a server. Two of them can be compared by ==, and
// ordered by Compare.
type ServerVersion struct {
	Major, Minor, Patch int
}

// ParseServerVersion reads a version such as "9.2", "9.2.11" or "6.4-13". What follows
// the numbers is ignored, as in "9.0.0~11".
func ParseServerVersion(text string) (ServerVersion, error) {
	var v ServerVersion
	rest := strings.TrimSpace(text)
	for i, part := range []*int{&v.Major, &v.Minor, &v.Patch} {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.Atoi(rest[:digits])
		if err != nil {
			return ServerVersion{}, fmt.Errorf("%q is no version: want numbers such as 9.2.11", text)
		}
		*part, rest = n, rest[digits:]
		if i == 2 || rest == "" || rest[0] != '.' && rest[0] != '-' {
			break
		}
		rest = rest[1:]
	}
	return v, nil
}

// String returns the version as "9.2.11".
func (v ServerVersion) String() string {
	return strconv.Itoa(v.Major) + "." + strconv.Itoa(v.Minor) + "." + strconv.Itoa(v.Patch)
}

// Compare returns -1 when v is older than w, 1 when it is newer, and 0 when they are
// the same.
func (v ServerVersion) Compare(w ServerVersion) int {
	return cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor), cmp.Compare(v.Patch, w.Patch))
}

// AtLeast reports whether v is major.minor or newer.
func (v ServerVersion) AtLeast(major, minor int) bool {
	return v.Compare(ServerVersion{Major: major, Minor: minor}) >= 0
}

const versionPath = "/version"

// Version asks the server for its version.
func (c *Client) Version(ctx context.Context) (ServerVersion, error) {
	var answer struct {
		Version string `json:"version"`
		Release string `json:"release"`
	}
	if err := c.Call(ctx, http.MethodGet, versionPath, nil, &answer); err != nil {
		return ServerVersion{}, err
	}
	text := answer.Version
	// Where the version has two numbers, the release is the third: "4.0" and "14". Where
	// it has three, the release repeats two of them: "9.2.11" and "9.2".
	if strings.Count(text, ".") == 1 && answer.Release != "" && !strings.Contains(answer.Release, ".") {
		text += "." + answer.Release
	}
	v, err := ParseServerVersion(text)
	if err != nil {
		return ServerVersion{}, fmt.Errorf("%s: GET %s: %w", c.product.Name, versionPath, err)
	}
	return v, nil
}

// explain completes an error that tells that the server does not know an operation or a
// parameter: with what the product's table says about them, and with the server's
// version, which it asks for. Other errors pass unchanged and without a request.
func (c *Client) explain(ctx context.Context, call *call, err error) error {
	var e *Error
	if !errors.As(err, &e) || e.hint != "" || c.product.Version == "" || call.path == versionPath || !e.Is(ErrUnknownToServer) {
		return err
	}
	made, parseErr := ParseServerVersion(c.product.Version)
	if parseErr != nil {
		return err
	}
	server, versionErr := c.Version(ctx)
	if versionErr != nil {
		return err // the refusal says more than the failure to explain it
	}
	path := cmp.Or(call.template, call.path)
	var hints []string
	note := func(what, since string) {
		if v, err := ParseServerVersion(since); err == nil && server.Compare(v) < 0 {
			hints = append(hints, what+" exists since "+since)
		}
	}
	unknown := e.unknownParams()
	if len(unknown) == 0 {
		note("the operation", SinceIn(c.product.Since, call.method, path, ""))
	}
	for _, name := range unknown {
		note("parameter "+name, SinceIn(c.product.Since, call.method, path, name))
	}
	switch {
	case len(hints) > 0:
		e.hint = strings.Join(hints, ", ") + "; the server is " + server.String()
	case server.Compare(made) < 0:
		e.hint = "this client is made for " + c.product.Version + "; the server is " + server.String()
	}
	return err
}

// notInSchema is how all products refuse a parameter that they do not know.
const notInSchema = "schema does not allow additional properties"

// unknownOperation reports whether the server has no such operation.
func (e *Error) unknownOperation() bool {
	switch e.Status {
	case http.StatusNotImplemented:
		return strings.HasPrefix(e.Message, "Method '") && strings.Contains(e.Message, "' not implemented")
	case http.StatusNotFound:
		return strings.HasPrefix(e.Message, "Path '")
	}
	return false
}

// unknownParams lists the parameters that the server does not know, those within a text
// of keys and values as "net0.queues".
func (e *Error) unknownParams() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(e.Params)) {
		for line := range strings.Lines(e.Params[name]) {
			if !strings.Contains(line, notInSchema) {
				continue
			}
			found := name
			if inner, _, ok := strings.Cut(line, ": "); ok && strings.HasPrefix(inner, name+".") {
				found = inner
			}
			names = append(names, found)
		}
	}
	return names
}

// SinceIn looks up since when an operation exists or, with the name of one, a parameter.
// The answer is empty for what is as old as the table reaches or is unknown.
//
// The lines of the table are "GET /cluster/ha/rules 9.1" and
// "PUT /nodes/{node}/qemu/{vmid}/config allow-ksm 9.1", a parameter's name being "net[n]"
// for a family and "net[n].queues" within a text of keys and values. In path, the values
// of parameters may stand in place of their names.
func SinceIn(table, method, path, param string) string {
	best, found := -1, ""
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[0] != method {
			continue
		}
		name := ""
		if len(fields) == 4 {
			name = fields[2]
		}
		if !sameParam(name, param) {
			continue
		}
		if literal := samePath(fields[1], path); literal > best {
			best, found = literal, fields[len(fields)-1]
		}
	}
	return found
}

// samePath tells how many segments of template stand in path too, or -1 when path is not
// of that template.
func samePath(template, path string) int {
	want, have := strings.Split(template, "/"), strings.Split(path, "/")
	if len(want) != len(have) {
		return -1
	}
	literal := 0
	for i, segment := range want {
		switch {
		case segment == have[i]:
			literal++
		case !strings.HasPrefix(segment, "{") || strings.HasPrefix(have[i], "{") || have[i] == "":
			return -1
		}
	}
	return literal
}

// sameParam reports whether name, perhaps a family such as "net[n]", stands for given.
func sameParam(name, given string) bool {
	before, after, family := strings.Cut(name, "[n]")
	if !family {
		return name == given
	}
	rest, ok := strings.CutPrefix(given, before)
	if !ok {
		return false
	}
	index, ok := strings.CutSuffix(rest, after)
	return ok && (index == "[n]" || index != "" && strings.Trim(index, "0123456789") == "")
}

// User returns who the client is for the server, as "root@pam" or
// "automation@pve!deploy", or nothing when it has no credentials.
func (c *Client) User() string {
	switch {
	case c.config.token != nil:
		return c.config.token.id
	case c.config.login != nil:
		return c.config.login.user
	}
	return ""
}
