package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strings"
)

// artefacts are the exchanges that show limits of the machine on which the
// recording was made.
var artefacts = strings.Fields("c22 c38 c39 c47 e02 e09 e16 m05 m11 m28 m37 n20 o42 o59")

func isArtefact(name string) bool {
	prefix, _, _ := strings.Cut(name, "-")
	return slices.Contains(artefacts, prefix)
}

// compare returns the first difference between the recorded answer and ours.
func (p *player) compare(e *exchange, status int, phrase string, data []byte) string {
	want := e.Answer
	if status != want.Status {
		return fmt.Sprintf("status %d %q instead of %d %q", status, phrase, want.Status, want.Reason)
	}
	if a, b := p.text(phrase), p.text(want.Reason); a != b {
		return fmt.Sprintf("reason %q instead of %q", phrase, want.Reason)
	}
	switch {
	case want.Text != nil:
		if got := string(data); got != *want.Text {
			return fmt.Sprintf("text %q instead of %q", got, *want.Text)
		}
		return ""
	case len(want.JSON) == 0 || string(want.JSON) == "null":
		if len(data) > 0 {
			return fmt.Sprintf("a body %q instead of none", data)
		}
		return ""
	}
	theirs, err := decode(want.JSON)
	if err != nil {
		return err.Error()
	}
	ours, err := decode(data)
	if err != nil {
		return fmt.Sprintf("no JSON: %v", err)
	}
	return p.diff("", ours, theirs)
}

func decode(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	return v, err
}

var (
	resolverText = regexp.MustCompile(`(hostname lookup '[^']*' failed - ).*`)
	spoolFile    = regexp.MustCompile(`pveupload-[0-9a-zA-Z]+`)
	macText      = regexp.MustCompile(`BC:24:11(:[0-9A-F]{2}){3}`)
	uuidText     = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	metaText     = regexp.MustCompile(`creation-qemu=[0-9.]+,ctime=\d+`)
	stampText    = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`)
)

// text takes out of a text what depends on chance, time or the machine.
func (p *player) text(s string) string {
	s = strings.TrimSuffix(s, "\n")
	if strings.HasPrefix(s, "UPID:") {
		words := strings.Split(s, ":")
		for i := 2; i <= 4 && i < len(words); i++ {
			words[i] = "#"
		}
		return strings.Join(words, ":")
	}
	s = resolverText.ReplaceAllString(s, "$1#")
	s = spoolFile.ReplaceAllString(s, "pveupload-#")
	s = macText.ReplaceAllString(s, "MAC")
	s = uuidText.ReplaceAllString(s, "UUID")
	s = metaText.ReplaceAllString(s, "META")
	s = stampText.ReplaceAllString(s, "TIME")
	return s
}

// chance holds the fields whose values depend on time, chance or the machine;
// their types are still compared.
var chance = strings.Fields(`digest uptime cpu mem memhost disk maxmem-node netin netout diskread diskwrite ctime starttime endtime pid pstart
vmgenid ticket CSRFPreventionToken value-secret cert password loadavg used used_fraction avail free available total-bytes snaptime
changes localtime time ssl_fingerprint flags mhz hvm release version-kernel kversion idle wait port data-hosts`)

// compareKey is what identifies an element of a list without an order.
var compareKeys = strings.Fields("id volid key sid roleid userid tokenid groupid poolid subdir name iface storage node upid vmid realm path ugid realm n cmd")

// diff compares two JSON values.
func (p *player) diff(path string, ours, theirs any) string {
	if ours == nil && theirs == nil {
		return ""
	}
	if kindOf(ours) != kindOf(theirs) {
		return fmt.Sprintf("%s is %s instead of %s", where(path), show(ours), show(theirs))
	}
	switch t := theirs.(type) {
	case map[string]any:
		return p.diffObject(path, ours.(map[string]any), t)
	case []any:
		return p.diffList(path, ours.([]any), t)
	}
	if ignored(path, theirs) {
		return ""
	}
	if a, ok := ours.(string); ok {
		b := theirs.(string)
		if strings.HasSuffix(path, ".content") || strings.HasSuffix(path, ".privs") || strings.HasSuffix(path, ".users") {
			if sameSet(a, b) {
				return ""
			}
		}
		if p.text(a) == p.text(b) {
			return ""
		}
	} else if reflect.DeepEqual(ours, theirs) {
		return ""
	}
	return fmt.Sprintf("%s is %s instead of %s", where(path), show(ours), show(theirs))
}

func where(path string) string {
	if path == "" {
		return "the answer"
	}
	return strings.TrimPrefix(path, ".")
}

func show(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	if len(data) > 600 {
		return string(data[:600]) + "…"
	}
	return string(data)
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "bool"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "list"
	}
	return "object"
}

// ignored tells the values that are not compared.
func ignored(path string, theirs any) bool {
	name := path[strings.LastIndexByte(path, '.')+1:]
	name, _, _ = strings.Cut(name, "[")
	if s, ok := theirs.(string); ok {
		switch s {
		case "SECRET", "FINGERPRINT", "SIGNATURE", "VNCTICKET":
			return true
		}
	}
	if strings.HasPrefix(path, ".data.memory.") || strings.HasPrefix(path, ".data.rootfs.") || strings.HasPrefix(path, ".data.current-kernel.") || strings.HasPrefix(path, ".data.loadavg") {
		return true
	}
	if name == "total" && path == ".total" {
		return false
	}
	return slices.Contains(chance, name)
}

func sameSet(a, b string) bool {
	x, y := strings.Split(a, ","), strings.Split(b, ",")
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

func (p *player) diffObject(path string, ours, theirs map[string]any) string {
	for _, k := range slices.Sorted(maps.Keys(theirs)) {
		if _, ok := ours[k]; !ok {
			return fmt.Sprintf("%s.%s is missing, it is %s", where(path), k, show(theirs[k]))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(ours)) {
		if _, ok := theirs[k]; !ok {
			return fmt.Sprintf("%s.%s should not be there, it is %s", where(path), k, show(ours[k]))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(theirs)) {
		if k == "value" && theirs["key"] == "digest" {
			continue // an item of a list of pending changes
		}
		if d := p.diff(path+"."+k, ours[k], theirs[k]); d != "" {
			return d
		}
	}
	return ""
}

func (p *player) diffList(path string, ours, theirs []any) string {
	ours, theirs = ordered(ours), ordered(theirs)
	if len(ours) != len(theirs) {
		return fmt.Sprintf("%s has %d elements instead of %d: %s instead of %s", where(path), len(ours), len(theirs), show(names(ours)), show(names(theirs)))
	}
	for i := range theirs {
		if d := p.diff(fmt.Sprintf("%s[%d]", path, i), ours[i], theirs[i]); d != "" {
			return d
		}
	}
	return ""
}

// ordered sorts a list of objects by what identifies them, and leaves out the
// guests of the second client that was at work on the recorded cluster.
func ordered(list []any) []any {
	var out []any
	for _, v := range list {
		if m, ok := v.(map[string]any); ok {
			if n, ok := m["vmid"].(json.Number); ok {
				if id, err := n.Int64(); err == nil && id >= 9001 && id <= 9101 {
					continue
				}
			}
		}
		out = append(out, v)
	}
	sort.SliceStable(out, func(i, j int) bool { return identity(out[i]) < identity(out[j]) })
	return out
}

func identity(v any) string {
	m, ok := v.(map[string]any)
	if !ok {
		return ""
	}
	var b strings.Builder
	for _, k := range compareKeys {
		switch v := m[k].(type) {
		case json.Number:
			fmt.Fprintf(&b, "%12s|", v)
		case string:
			if k != "upid" {
				b.WriteString(v + "|")
			}
		}
	}
	return b.String()
}

func names(list []any) []string {
	var out []string
	for _, v := range list {
		if s, ok := v.(string); ok {
			out = append(out, s)
			continue
		}
		if m, ok := v.(map[string]any); ok && m["t"] != nil {
			out = append(out, fmt.Sprint(m["t"]))
			continue
		}
		out = append(out, strings.Trim(strings.ReplaceAll(identity(v), " ", ""), "|"))
	}
	return out
}
