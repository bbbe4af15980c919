package pvetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/proxkit/proxkit/apidoc"
)

const jsonType = "application/json;charset=UTF-8"

// serve answers one request.
func (s *Server) serve(req *rawRequest) *rawResponse {
	path, query, _ := strings.Cut(req.target, "?")
	path = percentDecode(path)
	rec := &Request{Method: req.method, Path: path}
	if rest, ok := strings.CutPrefix(path, "/api2/"); ok {
		_, uri, _ := strings.Cut(rest, "/")
		rec.Path = "/" + uri
	}
	s.begin(rec)
	served := *rec // the record itself may be read meanwhile
	resp := s.answer(req, path, query, &served)
	s.end(rec, &served, resp)
	return resp
}

// answer goes through the steps of the real server in its order: what the HTTP
// layer refuses, who is asking, then the API.
func (s *Server) answer(req *rawRequest, path, query string, rec *Request) *rawResponse {
	switch req.method {
	case "GET", "POST", "PUT", "DELETE":
	default:
		return bare(501, "method '"+req.method+"' not available")
	}
	if strings.EqualFold(req.header.Get("Transfer-Encoding"), "chunked") {
		return bare(501, "chunked transfer encoding not supported")
	}
	rest, ok := strings.CutPrefix(path, "/api2/")
	if !ok {
		if path == "/" {
			return &rawResponse{status: 200, phrase: "OK", body: []byte("<html><title>pvetest</title></html>\n"), ctype: "text/html"}
		}
		return bare(404, "no such file '"+path+"'")
	}
	format, uri, _ := strings.Cut(rest, "/")
	uri = "/" + uri

	auth, denied := s.authenticate(req, uri)
	if denied != nil {
		return denied
	}
	rec.User = auth.id()

	body, up, refused := s.readContent(req, uri)
	if refused != nil {
		return refused
	}
	if up != nil {
		defer up.discard()
	}
	if format != "json" && format != "extjs" {
		return plain(501, "no formatter for uri "+uri+", "+format)
	}
	raw, bad := collect(req, body, query)
	if bad != nil {
		return bad
	}
	if up != nil {
		for k, v := range up.fields {
			raw[k] = v
		}
	}
	delete(raw, "_dc")
	rec.params = raw
	data, relayed, err := s.api(req, uri, raw, auth, up, rec)
	resp := render(format, data, err)
	resp.relayed = relayed
	return resp
}

// readContent reads a request's body. Uploads are spooled to a file.
func (s *Server) readContent(req *rawRequest, uri string) ([]byte, *spooled, *rawResponse) {
	ctype := req.header.Get("Content-Type")
	mime, boundary := contentType(ctype)
	isUpload := req.method == "POST" && isUploadPath(uri)
	switch {
	case req.length <= 0 && !isUpload:
		return nil, nil, nil
	case req.method != "POST" && req.method != "PUT":
		return nil, nil, bare(501, "Unexpected content for method '"+req.method+"'")
	case isUpload && req.length >= 0 && mime == "multipart/form-data" && boundary != "":
		up, err := s.spool(req, boundary)
		if err != nil {
			return nil, nil, bare(500, err.Error())
		}
		return nil, up, nil
	case isUpload && req.length > 0 && mime != "" && mime != "application/x-www-form-urlencoded" && mime != "application/json":
		return nil, nil, plain(506, "upload 'Content-Type '"+ctype+"' not implemented")
	case isUpload && req.length < 0:
		return nil, nil, bare(501, "upload without content length header not supported")
	case req.length > maxBody:
		return nil, nil, bare(501, "for data too large")
	case mime != "" && mime != "application/x-www-form-urlencoded" && mime != "application/json":
		return nil, nil, plain(506, "upload 'Content-Type '"+ctype+"' not implemented")
	}
	body, err := readBody(req)
	if err != nil {
		return nil, nil, &rawResponse{cut: true}
	}
	return body, nil, nil
}

// contentType splits a Content-Type into its type and the boundary.
func contentType(s string) (mime, boundary string) {
	mime, rest, _ := strings.Cut(s, ";")
	for part := range strings.SplitSeq(rest, ";") {
		if b, ok := strings.CutPrefix(strings.TrimSpace(part), "boundary="); ok {
			boundary = strings.Trim(b, `"`)
		}
	}
	return strings.ToLower(strings.TrimSpace(mime)), boundary
}

// collect gathers the parameters of body and query; the query wins.
func collect(req *rawRequest, body []byte, query string) (map[string]rawValue, *rawResponse) {
	raw := map[string]rawValue{}
	mime, _ := contentType(req.header.Get("Content-Type"))
	if req.method == "POST" || req.method == "PUT" {
		if mime == "application/json" {
			var err error
			if raw, err = decodeBody(body); err != nil {
				return nil, plain(500, err.Error())
			}
		} else {
			raw = decodeForm(string(body))
		}
	}
	for k, v := range decodeForm(query) {
		raw[k] = v
	}
	return raw, nil
}

// api finds and runs an operation. Faults strike around it.
func (s *Server) api(req *rawRequest, uri string, raw map[string]rawValue, auth identity, up *spooled, rec *Request) (any, bool, error) {
	method := req.method
	parts := strings.FieldsFunc(uri, func(r rune) bool { return r == '/' })
	op, vars := s.reg.find(method, parts)
	if op == nil {
		return nil, false, &apiError{status: 501, message: "Method '" + method + " " + uri + "' not implemented", bare: true}
	}
	rec.Template = op.Path
	rec.Protected = op.Protected

	fault := s.fault(method, parts, op.Path)
	release, ok := s.workers.acquire(op, vars["node"])
	if !ok {
		return nil, false, errCut
	}
	defer release()
	if err := s.strike(fault, false); err != nil {
		return nil, false, err
	}
	data, change, err := s.run(op, req.node, vars, raw, auth, up, rec, fault)
	if kept := s.keep(change); kept != nil {
		data, err = nil, kept
	}
	if after := s.strike(fault, true); after != nil {
		return nil, false, after
	}
	return data, op.Protected, err
}

// run does the locked part of a call, and returns the number of the newest
// change with the result.
func (s *Server) run(op *apidoc.Operation, door string, vars map[string]string, raw map[string]rawValue, auth identity, up *spooled, rec *Request, fault *Fault) (any, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	data, err := s.handle(op, door, vars, raw, auth, up, rec, fault)
	if op.Method != http.MethodGet {
		s.changes++ // a write that fails may have changed something too
	}
	return data, s.changes, err
}

func (s *Server) handle(op *apidoc.Operation, door string, vars map[string]string, raw map[string]rawValue, auth identity, up *spooled, rec *Request, fault *Fault) (any, error) {
	for name, val := range vars {
		old, ok := raw[name]
		if ok && (old.kind != isText || old.text != val) {
			return nil, failParam(name, "duplicate parameter (already defined in URI) with conflicting values!")
		}
		raw[name] = rawValue{text: val}
	}
	c := &call{s: s, op: op, vars: vars, auth: auth, perm: newPermitter(s.state, auth), now: s.clock(), fault: fault}
	if op.NoToken && auth.Token != "" {
		return nil, fail(403, "Permission check failed (URI '%s' not available with API token, need proper ticket.\n)", rec.Path)
	}
	if err := c.allowed(raw); err != nil {
		return nil, err
	}
	if err := c.reach(door, vars["node"]); err != nil {
		return nil, err
	}
	h := s.reg.handlers[op]
	if h == nil {
		if s.strict != nil {
			s.strict(op.Method + " " + op.Path)
		}
		return nil, notSimulated(op)
	}
	p, err := s.reg.check.params(op, raw)
	if err != nil {
		return nil, err
	}
	c.p = p
	if up != nil {
		c.upload = &up.upload
	}
	if s.state.NoQuorum && c.needsQuorum() {
		return nil, fail(500, "cluster not ready - no quorum?")
	}
	data, err := h(c)
	if err != nil {
		return nil, err
	}
	// Encode while the cluster is locked: the result may alias its state.
	return freeze(data)
}

// needsQuorum tells whether the call writes to the cluster's file system.
func (c *call) needsQuorum() bool {
	if c.op.Method == http.MethodGet {
		return false
	}
	for _, p := range []string{"/access/ticket", "/nodes/{node}/tasks/", "/nodes/{node}/qemu/{vmid}/agent", "/nodes/{node}/qemu/{vmid}/vncproxy", "/nodes/{node}/qemu/{vmid}/termproxy"} {
		if strings.HasPrefix(c.op.Path, p) {
			return false
		}
	}
	return true
}

// reach finds the node that is to answer: the one that is named, otherwise the
// one whose endpoint the call came to.
func (c *call) reach(door, name string) error {
	if c.node = door; door == "" {
		c.node = c.s.entry()
	}
	if name == "" {
		return nil
	}
	n := c.cl().Nodes[name]
	switch {
	case n == nil:
		return fail(500, "hostname lookup '%s' failed - failed to get address info for: %s: Temporary failure in name resolution", name, name)
	case n.Offline:
		return &apiError{status: 595, message: "No route to host", empty: true}
	}
	c.node = name
	return nil
}

// entry is the node a client has reached: the first one that is up.
func (s *Server) entry() string {
	names := sortedKeys(s.state.Nodes)
	for _, n := range names {
		if !s.state.Nodes[n].Offline {
			return n
		}
	}
	return names[0]
}

// A frozen result has been encoded already.
type frozen struct {
	data    json.RawMessage
	total   int
	changes string
	raw     []byte
	ctype   string
}

func freeze(data any) (*frozen, error) {
	out := &frozen{}
	if r, ok := data.(reply); ok {
		out.total, out.changes, out.raw, out.ctype = r.Total, r.Changes, r.Raw, r.ContentType
		data = r.Data
	}
	b, err := encode(data)
	out.data = b
	return out, err
}

// encode is json.Marshal without escaping what need not be.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// errCut drops the connection instead of answering.
var errCut = errors.New("cut")

// render turns a result or an error into an answer.
func render(format string, data any, err error) *rawResponse {
	if errors.Is(err, errCut) {
		return &rawResponse{cut: true}
	}
	out := map[string]any{"data": nil}
	resp := &rawResponse{status: 200, phrase: "OK", ctype: jsonType}
	if err != nil {
		var e *apiError
		if !errors.As(err, &e) {
			e = &apiError{status: 500, message: strings.TrimSuffix(err.Error(), "\n")}
		}
		if e.empty {
			return bare(e.status, e.phrase())
		}
		if e.html {
			page := "<html><head><title>" + e.phrase() + "</title></head><body><h1>" + e.phrase() + "</h1></body></html>\n"
			return &rawResponse{status: e.status, phrase: e.phrase(), body: []byte(page), ctype: "text/html"}
		}
		message := e.message + "\n"
		if e.bare {
			message = e.message
		}
		out["message"] = message
		if len(e.params) > 0 {
			out["errors"] = e.params
		}
		if format == "extjs" {
			out["success"] = 0
			out["status"] = e.status
			if len(e.params) > 0 {
				out["status"] = itoa(e.status)
			}
		} else {
			resp.status, resp.phrase = e.status, e.phrase()
			if strings.ContainsAny(resp.phrase, "\r\n") {
				return bare(400, "")
			}
		}
	} else if f, ok := data.(*frozen); ok {
		if f.ctype != "" {
			resp.body, resp.ctype = f.raw, f.ctype
			return resp
		}
		out["data"] = f.data
		if f.total > 0 {
			out["total"] = f.total
		}
		if f.changes != "" {
			out["changes"] = f.changes
		}
		if format == "extjs" {
			out["success"] = 1
		}
	}
	b, merr := encode(out)
	if merr != nil {
		return bare(500, merr.Error())
	}
	resp.body = b
	return resp
}
