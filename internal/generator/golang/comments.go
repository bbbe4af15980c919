package golang

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/proxkit/proxkit/apidoc"
	"github.com/proxkit/proxkit/internal/generator/openapi"
)

// width is where doc comments wrap.
const width = 100

// operationComment tells what a method calls and what one must know to call it.
func (g *generator) operationComment(op *openapi3.Operation, v operationView, kind string) string {
	var paragraphs []string
	first := fmt.Sprintf("%s calls %s %s.", v.Name, v.Method, v.Path)
	if op.Summary != "" {
		first += " " + op.Summary
	}
	paragraphs = append(paragraphs, first)
	if op.Description != "" {
		for p := range strings.SplitSeq(strings.TrimSpace(op.Description), "\n\n") {
			paragraphs = append(paragraphs, oneParagraph(p))
		}
	}
	var facts []string
	switch kind {
	case "task":
		facts = append(facts, "The result names the task that does the work.")
	case "upload":
		if v.Result == "UPID" {
			facts = append(facts, "It sends body as a file; the result names the task that takes it over.")
		} else {
			facts = append(facts, "It sends body as a stream.")
		}
	case "download":
		facts = append(facts, "The caller closes the result.")
	case "websocket":
		facts = append(facts, "The caller closes the connection.")
	case "raw":
		facts = append(facts, "The API description does not tell what the result holds.")
	}
	if text := g.permissions(op, v); text != "" {
		facts = append(facts, text)
	}
	if v.Acts {
		facts = append(facts, "Changes something although it is a GET, so that it is not repeated like one.")
	}
	if op.Extensions[openapi.XNoToken] == true {
		facts = append(facts, "Refuses API tokens.")
	}
	if p, _ := op.Extensions[openapi.XProxyTo].(string); p != "" && p != "node" {
		facts = append(facts, fmt.Sprintf("Runs on the node {%s}.", p))
	}
	if op.Extensions[openapi.XUnstable] == true {
		facts = append(facts, "May change without notice.")
	}
	if since, _ := op.Extensions[openapi.XSince].(string); since != "" {
		facts = append(facts, "Since "+since+".")
	}
	switch text := strings.Join(facts, " "); {
	case text == "":
	case len(paragraphs) == 1 && (op.Summary == "" || len(first)+len(text) < 2*width):
		paragraphs[0] += " " + text // short, and without prose between them
	default:
		paragraphs = append(paragraphs, text)
	}
	var b strings.Builder
	for i, p := range paragraphs {
		if i > 0 {
			b.WriteString("//\n")
		}
		for _, l := range wrap(p, width) {
			b.WriteString("// " + l + "\n")
		}
	}
	fmt.Fprintf(&b, "//\n//api:operation %s %s", v.Method, v.Path)
	return b.String()
}

// permissions tells in words who may call op.
func (g *generator) permissions(op *openapi3.Operation, v operationView) string {
	raw := op.Extensions[openapi.XPermissions]
	if raw == nil {
		return "Needs root@pam."
	}
	var p apidoc.Permissions
	if err := jsonAs(raw, &p); err != nil {
		g.fail("%s %s: permissions: %w", v.Method, v.Path, err)
		return ""
	}
	var out []string
	switch {
	case p.Check != nil:
		text := checkText(p.Check, true)
		if p.User != "" && p.User != "all" && p.User != "world" {
			text = "being " + p.User + ", or " + text
		}
		if p.Prose {
			text += ", and more than the API description states"
		}
		out = append(out, "Needs "+text+".")
	case p.User == "world":
		out = append(out, "Open to everyone, without a login.")
	case p.User == "all" && p.Prose:
		out = append(out, "Needs a login, and more than the API description states.")
	case p.User == "all":
		out = append(out, "Open to every authenticated user.")
	case p.User != "":
		out = append(out, "Needs "+p.User+".")
	case p.Prose:
		out = append(out, "Needs what the API description does not state.")
	default:
		out = append(out, "Needs root@pam.")
	}
	return strings.Join(out, " ")
}

func checkText(c *apidoc.Check, top bool) string {
	var text string
	switch c.Op {
	case "and", "or":
		var parts []string
		for _, sub := range c.Checks {
			parts = append(parts, checkText(sub, len(c.Checks) == 1 && top))
		}
		sep := ", " + c.Op + " "
		if len(parts) == 2 && !slices.ContainsFunc(parts, func(p string) bool {
			return strings.Contains(p, ", ") || strings.Contains(p, " and ") || strings.Contains(p, " or ") || strings.Contains(p, " where ")
		}) {
			sep = " " + c.Op + " "
		}
		text = strings.Join(parts, sep)
		if !top && len(parts) > 1 {
			text = "(" + text + ")"
		}
	case "perm":
		text = privileges(c) + " on " + c.Path
	case "user":
		switch {
		case c.Path == "all" || c.Path == "world":
			text = "any user"
		case strings.HasPrefix(c.Path, "{"):
			text = "being the user " + c.Path
		default:
			text = "being " + c.Path
		}
	case "group":
		text = "being in the group " + c.Path
	case "role":
		text = "the role " + strings.Join(c.Args, " or ")
	case "userid-param":
		if slices.Contains(c.Args, "self") {
			text = "being the user {userid}"
		} else {
			text = privileges(c) + " on the realm of {userid}"
		}
	case "userid-group":
		text = privileges(c) + " on a group of {userid}"
	case "perm-modify":
		text = "the right to modify permissions on " + c.Path
	default:
		text = c.Op
		if c.Path != "" {
			text += " on " + c.Path
		}
	}
	if c.RequireParam != "" {
		text += " where " + c.RequireParam + " is given"
	}
	return text
}

func privileges(c *apidoc.Check) string {
	word := "and"
	if c.Any {
		word = "or"
	}
	return enumerate(c.Privs, word)
}

func enumerate(items []string, word string) string {
	switch len(items) {
	case 0:
		return "no privilege"
	case 1:
		return items[0]
	}
	return strings.Join(items[:len(items)-1], ", ") + " " + word + " " + items[len(items)-1]
}

// structureComment tells where a type occurs.
func (g *generator) structureComment(v structureView, s *openapi3.Schema, owner string) string {
	var text string
	source, _ := s.Extensions[openapi.XSource].(string)
	_, where, _ := strings.Cut(source, " returns")
	inParams := !strings.Contains(source, " returns")
	switch {
	case v.PropertyString:
		text = fmt.Sprintf("%s %s is the value of %s, a text of the form %s.", article(v.Name), v.Name, g.keysOf(v.Name), propsForm(v, s))
		if s.Description != "" {
			text += " " + oneParagraph(s.Description)
		}
		text += " It keeps the text it was read from."
	case v.Name == "Subdirectory":
		text = "A Subdirectory is a path segment that may follow."
	case inParams:
		text = fmt.Sprintf("%s is part of [%sParams].", v.Name, owner)
	case where == "":
		text = fmt.Sprintf("%s is the result of [Client.%s].", v.Name, owner)
	case where == "[]":
		text = fmt.Sprintf("%s is an element of the result of [Client.%s].", v.Name, owner)
	default:
		text = fmt.Sprintf("%s is part of the result of [Client.%s].", v.Name, owner)
	}
	var b []string
	for _, l := range wrap(text, width) {
		b = append(b, "// "+l)
	}
	if s.Description != "" && !v.PropertyString {
		b = append(b, "//")
		for _, l := range wrap(oneParagraph(s.Description), width) {
			b = append(b, "// "+l)
		}
	}
	return strings.Join(b, "\n")
}

// article returns the article for a type's name. A name that begins with an abbreviation
// goes by how its first letter is spoken.
func article(name string) string {
	if name == "" {
		return "A"
	}
	spelled := len(name) > 1 && name[1] >= 'A' && name[1] <= 'Z'
	if strings.ContainsRune("AEIO", rune(name[0])) || strings.HasPrefix(name, "Up") || strings.HasPrefix(name, "Un") || spelled && strings.ContainsRune("FHLMNRSX", rune(name[0])) {
		return "An"
	}
	return "A"
}

// keysOf tells for which parameters and members a text of a type is, in the words of the
// API: "net0, net1, …".
func (g *generator) keysOf(name string) string {
	var families, single []string
	for _, key := range g.keys[name] {
		if base, ok := strings.CutSuffix(key, "[n]"); ok {
			families = append(families, base)
		} else {
			single = append(single, key)
		}
	}
	switch {
	case len(families) == 1 && len(single) == 0:
		return families[0] + "0, " + families[0] + "1, …"
	case len(families) > 0:
		for i := range families {
			families[i] += "0…"
		}
		return enumerate(append(families, single...), "and")
	case len(single) == 0:
		return "the result"
	}
	return enumerate(single, "or")
}

// propsForm shows how a text of keys and values looks: what stands first without its key,
// in capitals, then the others. Brackets enclose what may be missing.
func propsForm(v structureView, s *openapi3.Schema) string {
	const others = "KEY=VALUE…"
	for _, f := range v.Fields {
		if extensions(s.Properties[f.wireName])[openapi.XDefaultKey] != true {
			continue
		}
		head := strings.ToUpper(f.wireName)
		if keys, ok := s.Extensions[openapi.XKeyAlias].(map[string]any); ok {
			if k, ok := keys[f.wireName].(map[string]any); ok {
				head += fmt.Sprintf("[=%s]", strings.ToUpper(fmt.Sprint(k["value"])))
			}
		}
		switch {
		case len(v.Fields) == 1:
			return head
		case strings.HasPrefix(f.goType, "*"):
			return head + "[," + others + "] or " + others
		}
		return head + "[," + others + "]"
	}
	return others
}

// fieldComment puts a schema's facts into words.
func (g *generator) fieldComment(name string, ref *openapi3.SchemaRef, required bool) string {
	ext := extensions(ref)
	var out []string
	if required {
		out = append(out, "Required.")
	}
	if ext[openapi.XIndexed] == true {
		base := strings.TrimSuffix(name, "[n]")
		if last, ok := integer(ext[openapi.XMaxIndex]); ok {
			out = append(out, fmt.Sprintf("%s0 to %s%d.", base, base, last))
		} else {
			out = append(out, fmt.Sprintf("%s0, %s1, and so on.", base, base))
		}
	}
	if ref.Ref == "" {
		out = append(out, schemaFacts(ref.Value, ext)...)
	}
	if types := texts(ext[openapi.XInstanceTypes]); len(types) > 0 {
		out = append(out, "Only for "+enumerate(types, "and")+".")
	}
	if r, _ := ext[openapi.XRequires].(string); r != "" {
		out = append(out, "Needs "+r+" as well.")
	}
	if since, _ := ext[openapi.XSince].(string); since != "" {
		out = append(out, "Since "+since+".")
	}
	return strings.Join(out, " ")
}

func integer(v any) (int, bool) {
	switch v := v.(type) {
	case float64:
		return int(v), true
	case int:
		return v, true
	}
	return 0, false
}

func schemaFacts(s *openapi3.Schema, ext map[string]any) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if s.Type.Is("array") && s.Items != nil && s.Items.Ref == "" {
		if len(s.Items.Value.Enum) > 0 {
			add("Any of %s.", values(s.Items.Value.Enum))
		}
		if limits := limitText(s.Items.Value); limits != "" {
			add("Each %s.", lowerFirst(limits))
		}
	}
	if len(s.Enum) == 1 {
		add("Always %s.", values(s.Enum))
	} else if len(s.Enum) > 0 {
		add("One of %s.", values(s.Enum))
	}
	if limits := limitText(s); limits != "" {
		add("%s.", limits)
	}
	switch r, _ := ext[openapi.XRenderer].(string); r {
	case "":
	case "bytes":
		add("Bytes.")
	case "duration":
		add("Seconds.")
	case "timestamp", "timestamp_gmt":
		add("Seconds since 1970.")
	case "fraction_as_percentage":
		add("A fraction: 1 is all.")
	case "percentage":
		add("Per cent.")
	}
	if f, _ := ext[openapi.XFormat].(string); f != "" {
		if text := formatText(f); text != "" {
			add("%s.", text)
		}
	}
	if t, _ := ext[openapi.XTypetext].(string); t != "" {
		add("In the form %s.", t)
	}
	if d := defaultText(s.Default); d != "" && len(s.Enum) != 1 {
		add("Default %s.", d)
	} else if d := defaultText(ext["x-proxmox-default"]); d != "" {
		add("Default %s.", d)
	}
	return out
}

// formatText tells in words what a format asks for, where the field's name does
// not say it.
func formatText(format string) string {
	switch format {
	case "CIDR":
		return "An address with prefix length"
	case "CIDRv4":
		return "An IPv4 address with prefix length"
	case "CIDRv6":
		return "An IPv6 address with prefix length"
	case "ip":
		return "An IP address"
	case "ipv4":
		return "An IPv4 address"
	case "ipv6":
		return "An IPv6 address"
	case "IPorCIDR":
		return "An address, with or without prefix length"
	case "mac-addr":
		return "A MAC address"
	case "pve-calendar-event":
		return "A calendar event such as mon..fri 22:00"
	case "pem-certificate", "pem-certificate-chain", "pem-string":
		return "PEM"
	}
	return ""
}

func limitText(s *openapi3.Schema) string {
	switch {
	case s.Min != nil && s.Max != nil && *s.Min == *s.Max:
		return num(*s.Min)
	case s.Min != nil && s.Max != nil:
		return num(*s.Min) + " to " + num(*s.Max)
	case s.Min != nil:
		return "At least " + num(*s.Min)
	case s.Max != nil:
		return "At most " + num(*s.Max)
	case s.MaxLength != nil && s.MinLength == *s.MaxLength:
		return fmt.Sprintf("%d characters", s.MinLength)
	case s.MaxLength != nil && s.MinLength > 1:
		return fmt.Sprintf("%d to %d characters", s.MinLength, *s.MaxLength)
	case s.MaxLength != nil:
		return fmt.Sprintf("At most %d characters", *s.MaxLength)
	case s.MinLength > 1:
		return fmt.Sprintf("At least %d characters", s.MinLength)
	case s.MaxItems != nil:
		return fmt.Sprintf("At most %d elements", *s.MaxItems)
	}
	return ""
}

func num(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1<<63 {
		return strconv.FormatInt(int64(f), 10)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

func lowerFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

func values(enum []any) string {
	var out []string
	for _, e := range enum {
		switch e := e.(type) {
		case string:
			if e == "" {
				e = `""`
			}
			out = append(out, e)
		case float64:
			out = append(out, num(e))
		case json.Number:
			out = append(out, e.String())
		default:
			out = append(out, fmt.Sprint(e))
		}
	}
	return strings.Join(out, ", ")
}

func defaultText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		if v == "" || strings.ContainsAny(v, "\n") {
			return ""
		}
		return v
	case float64:
		return num(v)
	case bool:
		return strconv.FormatBool(v)
	case []any:
		if len(v) == 0 {
			return ""
		}
		return values(v)
	}
	return ""
}

// oneParagraph makes a line of a text that may hold line breaks and tags.
func oneParagraph(s string) string {
	return strings.Join(strings.Fields(s), " ")
}

// wrap breaks text into lines of at most n characters.
func wrap(text string, n int) []string {
	var out []string
	line := ""
	for _, w := range strings.Fields(text) {
		if line != "" && len(line)+1+len(w) > n {
			out = append(out, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += w
	}
	if line != "" {
		out = append(out, line)
	}
	return out
}
