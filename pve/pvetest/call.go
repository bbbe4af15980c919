package pvetest

import (
	"strconv"
	"strings"
	"time"

	"github.com/proxkit/proxkit/apidoc"
)

// A call is one API request being served. Handlers run with the cluster locked.
type call struct {
	s      *Server
	op     *apidoc.Operation
	node   string            // the node that answers
	vars   map[string]string // path parameters
	p      params            // all parameters, path parameters included
	auth   identity
	perm   *permitter
	now    time.Time
	upload *upload // the file part of an upload, otherwise nil
	fault  *Fault  // what is to go wrong, if anything
}

// cl returns the cluster's state.
func (c *call) cl() *cluster { return c.s.state }

// A handler serves one operation. Its result is the JSON of "data", or a
// [reply] when more than that is to be said.
type handler func(c *call) (any, error)

// A reply is a result with more than data in it.
type reply struct {
	Data    any
	Total   int    // "total" beside data, left out when 0
	Changes string // "changes" beside data, left out when empty

	Raw         []byte // sent instead of JSON when ContentType is set
	ContentType string
}

// An identity is who is asking.
type identity struct {
	User  string // "root@pam"; empty: nobody
	Token string // "t0" when an API token is used
}

// id returns the form used in task identifiers: "root@pam" or "root@pam!t0".
func (i identity) id() string {
	if i.Token == "" {
		return i.User
	}
	return i.User + "!" + i.Token
}

// root tells whether this is root@pam itself, not one of its tokens.
func (i identity) root() bool { return i.User == "root@pam" && i.Token == "" }

// An upload is the file part of a multipart request, spooled to a file.
type upload struct {
	Name string // as the client named it
	Path string
	Size int64
}

// A value is one parameter as it came in: booleans and numbers as text.
type value struct {
	text string
	list []string // set when it came as a JSON array or a repeated key
	null bool     // JSON null
}

func (v value) String() string {
	if v.list != nil {
		return strings.Join(v.list, ",")
	}
	return v.text
}

// params are the parameters of a call, checked against the schema.
type params map[string]value

func (p params) has(name string) bool {
	_, ok := p[name]
	return ok
}

// names returns the names of all parameters, sorted.
func (p params) names() []string { return sortedKeys(p) }

// str returns a parameter's text, "" when it is absent.
func (p params) str(name string) string { return p[name].String() }

// int returns a parameter's number, 0 when it is absent.
func (p params) int(name string) int64 {
	n, _ := strconv.ParseInt(p[name].text, 10, 64)
	return n
}

// intOr returns a parameter's number, def when it is absent.
func (p params) intOr(name string, def int64) int64 {
	if v := p[name]; v.text != "" {
		return p.int(name)
	}
	return def
}

func (p params) boolean(name string, def bool) bool {
	switch p[name].text {
	case "1":
		return true
	case "0":
		return false
	}
	return def
}

// list returns the elements of an array, or of a text split on commas,
// semicolons, NULs and white space as Proxmox splits every list.
func (p params) list(name string) []string {
	v := p[name]
	if v.list == nil {
		return splitList(v.text)
	}
	var all []string
	for _, e := range v.list {
		all = append(all, splitList(e)...)
	}
	return all
}

// array returns the elements of an array parameter as they are.
func (p params) array(name string) []string {
	v, ok := p[name]
	switch {
	case !ok:
		return nil
	case v.list != nil:
		return v.list
	}
	return []string{v.text}
}

// splitList splits a list parameter the way PVE does.
func splitList(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool {
		return r == ',' || r == ';' || r == 0 || r == ' ' || r == '\t' || r == '\n' || r == '\r'
	})
}
