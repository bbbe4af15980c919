package cpi

import (
	"encoding/json"
	"strings"
)

// StemcellProperties are what the CPI reads of a stemcell's cloud properties.
// They are written by the stemcell's builder, not by an operator, so unknown keys
// are no mistake and numbers may be quoted.
type StemcellProperties struct {
	Name    string
	Version string
	// ImageID names the image of a light stemcell, which has no image of its own.
	ImageID string
}

// ParseStemcellProperties reads the cloud properties of a stemcell.
func ParseStemcellProperties(raw json.RawMessage) StemcellProperties {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(raw, &fields)
	text := func(key string) string {
		v := fields[key]
		var s string
		if json.Unmarshal(v, &s) == nil {
			return strings.TrimSpace(s)
		}
		if jsonKind(v) == "a number" {
			return string(v)
		}
		return ""
	}
	return StemcellProperties{Name: text("name"), Version: text("version"), ImageID: text("image_id")}
}
