package openapi

import (
	"strings"

	"github.com/proxkit/proxkit/apidoc"
)

// kind tells what a call of op gives: none, value, list, object, task, raw,
// upload, download or websocket.
func (b *builder) kind(op *apidoc.Operation) string {
	if k := b.overlay.Streams[opKey(op)]; k != "" {
		if b.strict && k == ruleStream(op) {
			b.problem("streams: %s: the rule says %s by itself: drop the entry", opKey(op), k)
		}
		if k != "json" {
			return k
		}
	} else if k := ruleStream(op); k != "" {
		return k
	}
	r := op.Returns
	switch {
	case r.Type == "null" && (op.Method != "GET" || r.Format == "nothing"):
		return "none"
	case b.isTask(op):
		return "task"
	case b.isRaw(r):
		return "raw"
	case r.Type == "array":
		return "list"
	case r.Type == "object":
		return "object"
	}
	return "value"
}

func ruleStream(op *apidoc.Operation) string {
	if op.Stream != "" {
		if op.Method == "GET" && strings.HasSuffix(op.Path, "websocket") {
			return "websocket"
		}
		return op.Stream
	}
	switch {
	case op.Method == "GET" && strings.HasSuffix(op.Path, "websocket"):
		return "websocket"
	case op.Method == "POST" && op.Parameters.Properties["tmpfilename"] != nil && op.Parameters.Properties["filename"] != nil:
		return "upload"
	case op.Method == "GET" && op.DownloadAllowed && strings.HasSuffix(op.Path, "/download"):
		return "download"
	}
	return ""
}

// isTask reports whether op answers with the ID of a task. Servers written in
// Rust say so by a pattern. In Perl's files it is the plain text that nearly
// every write without other result gives; the few that give another text are
// told by a format in the overlay.
func (b *builder) isTask(op *apidoc.Operation) bool {
	r := op.Returns
	if r.Type != "string" {
		return false
	}
	if r.Format == "upid" || strings.Contains(r.Pattern, "UPID:") {
		return true
	}
	return b.doc.Dialect != "rust" && op.Method != "GET" && r.Format == "" && r.Pattern == "" && len(r.Enum) == 0 && r.FormatSchema == nil
}

// isRaw reports whether nothing describes the value of s.
func (b *builder) isRaw(s *apidoc.Schema) bool {
	if len(s.OneOf) > 0 {
		return false
	}
	switch s.Type {
	case "", "any", "null":
		return true
	case "object":
		return len(s.Properties) == 0 && s.Additional == nil
	case "array":
		return s.Items == nil
	}
	return false
}

// isList reports whether s is a text that holds a list.
func isList(s *apidoc.Schema) bool {
	if s.Type != "string" {
		return false
	}
	if f := s.FormatSchema; f != nil {
		return f.Type == "array"
	}
	return strings.HasSuffix(s.Format, "-list") || strings.HasSuffix(s.Format, "-alist") || s.Format == "urlencoded"
}

// isBytes reports whether s counts bytes.
func isBytes(s *apidoc.Schema) bool { return s.Type == "integer" && s.Renderer == "bytes" }
