package rest

import (
	"encoding/json"
	"strings"

	"github.com/proxkit/proxkit/internal/wire"
)

// metaOf reads what stands beside the data of an answer.
func metaOf(e wire.Envelope) Meta {
	return Meta{Total: e.Total, Changes: text(e.Changes), Digest: text(e.Digest)}
}

// text reads a JSON value that should be a string.
func text(raw []byte) string {
	var s string
	if len(raw) == 0 || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// complaints reads the complaints by parameter of a refusal.
func complaints(errors []byte) map[string]string {
	var raw map[string]json.RawMessage
	if len(errors) == 0 || json.Unmarshal(errors, &raw) != nil || len(raw) == 0 {
		return nil
	}
	params := make(map[string]string, len(raw))
	for name, value := range raw {
		var s string
		if json.Unmarshal(value, &s) != nil {
			s = string(value)
		}
		params[name] = strings.TrimSpace(s)
	}
	return params
}
