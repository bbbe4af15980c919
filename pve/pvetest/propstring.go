package pvetest

import (
	"maps"
	"slices"
	"strings"

	"github.com/proxkit/proxkit/apidoc"
)

// parseProps splits a property string such as "virtio=<MAC>,bridge=vmbr0" into
// its keys. The text it returns is what PVE says about a malformed one.
func (v *validator) parseProps(schema *apidoc.Schema, text string) (map[string]string, string) {
	out := map[string]string{}
	usedDefault := ""
	for part := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		key, val, ok := strings.Cut(part, "=")
		switch {
		case ok && key != "" && val != "":
			if _, dup := out[key]; dup {
				return nil, "duplicate key in comma-separated list property: " + key + "\n"
			}
			sub := schema.Properties[key]
			if sub != nil && sub.Alias != "" {
				if sub.KeyAlias != "" {
					if _, dup := out[sub.KeyAlias]; dup {
						return nil, "key alias '" + sub.KeyAlias + "' is already defined\n"
					}
					out[sub.KeyAlias] = key
				}
				key = sub.Alias
				sub = schema.Properties[key]
			}
			if sub != nil && sub.Type == "boolean" {
				val = propBool(val)
			}
			out[key] = val
		case !ok:
			if usedDefault != "" {
				return nil, "duplicate key in comma-separated list property: " + usedDefault + "\n"
			}
			for _, name := range sortedKeys(schema.Properties) {
				if schema.Properties[name].DefaultKey {
					usedDefault = name
				}
			}
			if usedDefault == "" {
				return nil, "value without key, but schema does not define a default key\n"
			}
			if _, dup := out[usedDefault]; dup {
				return nil, "duplicate key in comma-separated list property: " + usedDefault + "\n"
			}
			out[usedDefault] = part
		default:
			return nil, "missing key in comma-separated list property\n"
		}
	}
	return out, ""
}

// propBool normalises a boolean inside a property string.
func propBool(s string) string {
	switch strings.ToLower(s) {
	case "1", "on", "yes", "true":
		return "1"
	case "0", "off", "no", "false":
		return "0"
	}
	return s
}

// propString checks a property string against its schema and returns what is
// wrong with it.
func (v *validator) propString(path string, schema *apidoc.Schema, text string) string {
	keys, msg := v.parseProps(schema, text)
	if msg != "" {
		return msg
	}
	in := make(map[string]rawValue, len(keys))
	for k, val := range keys {
		in[k] = rawValue{text: val}
	}
	strict := *schema
	strict.NoAdditional = schema.Additional == nil
	errs := complaints{}
	v.object(path, &strict, in, errs)
	if len(errs) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("format error\n")
	for _, k := range slices.Sorted(maps.Keys(errs)) {
		b.WriteString(k + ": " + errs[k] + "\n")
	}
	return b.String()
}
