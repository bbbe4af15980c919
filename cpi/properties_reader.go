package cpi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A KeyError says that a key of the configuration or of the cloud properties is
// wrong, and what to do about it. It never quotes the value of a secret key.
type KeyError struct {
	// Place says whose key it is: "the CPI configuration", "the context of the
	// request", "cloud_properties", or the latter of a network.
	Place string
	// Key is the key, with dots between the levels.
	Key     string
	Problem string
}

// Error implements error.
func (e *KeyError) Error() string { return keyPlace(e.Place, e.Key) + ": " + e.Problem }

// placeProperties is the place of cloud properties, which every caller knows by
// this name.
const placeProperties = "cloud_properties"

// keyPlace says where a key stands, as every message about one does:
// "the CPI configuration: nodes", "cloud_properties root_disk.storage".
func keyPlace(place, key string) string {
	if strings.HasSuffix(place, placeProperties) {
		return place + " " + key
	}
	return place + ": " + key
}

// keyErrors renders several problems on one line, because an error message ends
// up as one line of a task log.
type keyErrors []error

func (e keyErrors) Error() string {
	texts := make([]string, len(e))
	for i, err := range e {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (e keyErrors) Unwrap() []error { return e }

// An objectReader takes the keys out of a JSON object one by one and collects
// what is wrong with them. A key that nobody asked for is unknown, and an error
// with the nearest key that somebody did ask for.
//
// The rules are the same everywhere: null and "" mean "not given", numbers and
// booleans must not be quoted, and nothing is guessed.
type objectReader struct {
	place  string
	prefix string
	fields map[string]json.RawMessage
	asked  []string
	// notYet are the keys that a coming version will have.
	notYet []string
	// secret keeps values out of the messages.
	secret map[string]bool
	errs   *keyErrors
	// notice is told of every key that is asked for, in tests.
	notice func(key string)
}

// newObjectReader reads the object raw. Nothing, null and "" read like {}.
func newObjectReader(place string, raw json.RawMessage) *objectReader {
	r := &objectReader{place: place, errs: new(keyErrors)}
	if given(raw) {
		r.decode(raw)
	}
	return r
}

func (r *objectReader) decode(raw json.RawMessage) {
	if jsonKind(raw) != "an object" {
		*r.errs = append(*r.errs, fmt.Errorf("%s: must be an object, got %s", r.place, jsonKind(raw)))
		return
	}
	if err := json.Unmarshal(raw, &r.fields); err != nil {
		*r.errs = append(*r.errs, fmt.Errorf("%s: is not valid JSON", r.place))
	}
}

func (r *objectReader) fail(key, format string, args ...any) {
	*r.errs = append(*r.errs, &KeyError{Place: r.place, Key: r.prefix + key, Problem: fmt.Sprintf(format, args...)})
}

// take returns the value of a key, or nil when it is not given.
func (r *objectReader) take(key string) json.RawMessage {
	r.asked = append(r.asked, key)
	if r.notice != nil {
		r.notice(r.prefix + key)
	}
	if raw := r.fields[key]; given(raw) {
		return raw
	}
	return nil
}

// later refuses keys that a coming version will have.
func (r *objectReader) later(keys ...string) {
	r.notYet = append(r.notYet, keys...)
	for _, key := range keys {
		if given(r.fields[key]) {
			r.fail(key, "is not supported yet: remove it")
		}
	}
}

// knows reports whether somebody asked for a key, or will.
func (r *objectReader) knows(key string) bool {
	return slices.Contains(r.asked, key) || slices.Contains(r.notYet, key)
}

// has reports whether a key is given.
func (r *objectReader) has(key string) bool { return given(r.fields[key]) }

// finish refuses the keys nobody asked for and returns everything found wrong.
func (r *objectReader) finish() error {
	r.refuseUnknown()
	switch len(*r.errs) {
	case 0:
		return nil
	case 1:
		return (*r.errs)[0]
	default:
		return *r.errs
	}
}

func (r *objectReader) refuseUnknown() {
	for _, key := range sortedKeys(r.fields) {
		if !r.knows(key) {
			r.fail(key, "unknown key: %s", cmp.Or(r.nesting(key), suggest(key, r.asked)))
		}
	}
}

// object reads a nested object.
func (r *objectReader) object(key string) *objectReader {
	sub := &objectReader{place: r.place, prefix: r.prefix + key + ".", errs: r.errs, notice: r.notice}
	if raw := r.take(key); raw != nil {
		if kind := jsonKind(raw); kind != "an object" {
			r.fail(key, "must be an object, got %s", r.show(key, raw))
			return sub
		}
		sub.decode(raw)
	}
	return sub
}

// show names a value in a message.
func (r *objectReader) show(key string, raw json.RawMessage) string {
	if r.secret[key] {
		return jsonKind(raw)
	}
	return shown(raw)
}

// shown renders a value that is no secret for a message.
func shown(raw json.RawMessage) string {
	var text bytes.Buffer
	kind := jsonKind(raw)
	switch {
	case json.Compact(&text, raw) != nil || text.Len() > 80:
		return kind
	case kind == "a number" || kind == "a boolean":
		return text.String()
	}
	return strings.Replace(kind, "a string", "the string", 1) + " " + text.String()
}

func (r *objectReader) text(key string) string {
	raw := r.take(key)
	if raw == nil {
		return ""
	}
	var s string
	if jsonKind(raw) != "a string" || json.Unmarshal(raw, &s) != nil {
		r.fail(key, "must be a string, got %s", r.show(key, raw))
	}
	return s
}

// name reads a string that PVE uses as an identifier.
func (r *objectReader) name(key string) string {
	s := r.text(key)
	if s != "" && !isName(s) {
		r.fail(key, "%s is not a name: use letters, digits and . _ -", strconv.Quote(s))
		return ""
	}
	return s
}

// pool reads the name of a resource pool, which may be nested: parent/child.
func (r *objectReader) pool(key string) string {
	s := r.text(key)
	for part := range strings.SplitSeq(s, "/") {
		if s != "" && !isName(part) {
			r.fail(key, "%s is not the name of a pool: use letters, digits and . _ -, and / between the levels", strconv.Quote(s))
			return ""
		}
	}
	return s
}

func (r *objectReader) choice(key string, values ...string) string {
	s := r.text(key)
	if s != "" && !slices.Contains(values, s) {
		r.fail(key, "must be one of %[2]s, got %[1]s", strconv.Quote(s), strings.Join(values, ", "))
		return ""
	}
	return s
}

func (r *objectReader) boolean(key string) *bool {
	raw := r.take(key)
	if raw == nil {
		return nil
	}
	var b bool
	if jsonKind(raw) != "a boolean" || json.Unmarshal(raw, &b) != nil {
		hint := ""
		if jsonKind(raw) == "a string" {
			hint = ": write true or false without quotes"
		}
		r.fail(key, "must be true or false, got %s%s", r.show(key, raw), hint)
		return nil
	}
	return &b
}

// integer reads a whole number from least to most.
func (r *objectReader) integer(key string, least, most int64) *int64 {
	raw := r.take(key)
	if raw == nil {
		return nil
	}
	n, ok := wholeNumber(raw)
	if !ok {
		hint := ""
		if jsonKind(raw) == "a string" {
			hint = ": write the number without quotes"
		}
		r.fail(key, "must be a whole number, got %s%s", r.show(key, raw), hint)
		return nil
	}
	if n < least || n > most {
		r.fail(key, "must be from %d to %d, got %d", least, most, n)
		return nil
	}
	return &n
}

// mebibytesOf reads a size in MiB, of at least so much.
func (r *objectReader) mebibytesOf(key string, least int64) *int64 {
	raw := r.take(key)
	if raw == nil {
		return nil
	}
	if n, ok := wholeNumber(raw); ok && (n < least || n > maxMiB) {
		limit, bound := "at least", least
		if n > least {
			limit, bound = "at most", maxMiB
		}
		r.fail(key, "must be %s %d MiB, got %d", limit, bound, n)
		return nil
	}
	return r.integer(key, least, maxMiB)
}

// wholeNumber reads an integer. Some writers of JSON make 1024.0 of 1024.
func wholeNumber(raw json.RawMessage) (int64, bool) {
	if jsonKind(raw) != "a number" {
		return 0, false
	}
	var n int64
	if json.Unmarshal(raw, &n) == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(string(bytes.TrimSpace(raw)), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// names reads a list of identifiers: an array, or an object of booleans such as
// {"a": true, "b": false}, which lets VM extensions add to a list where the
// Director would replace an array. With single, one string is a list too.
func (r *objectReader) names(key string, single bool) []string {
	raw := r.take(key)
	if raw == nil {
		return nil
	}
	out, problem := readNames(raw, single)
	if problem != "" {
		r.fail(key, "%s", problem)
		return nil
	}
	if len(out) == 0 {
		r.fail(key, "names nothing: remove the key or name at least one")
	}
	return out
}

func readNames(raw json.RawMessage, single bool) (out []string, problem string) {
	add := func(s string) {
		switch {
		case s == "": // an empty entry means "not given" here as well
		case !isName(s):
			problem = strconv.Quote(s) + " is not a name: use letters, digits and . _ -"
		case !slices.Contains(out, s):
			out = append(out, s)
		}
	}
	switch kind := jsonKind(raw); {
	case kind == "a string" && single:
		var s string
		_ = json.Unmarshal(raw, &s)
		add(s)
	case kind == "an array":
		var list []any
		_ = json.Unmarshal(raw, &list)
		for _, e := range list {
			s, ok := e.(string)
			if !ok {
				return nil, "must be a list of strings, but holds " + strings.TrimSpace(fmt.Sprintf("%v", e))
			}
			add(s)
		}
	case kind == "an object":
		for _, f := range orderedFields(raw) {
			switch string(bytes.TrimSpace(f.value)) {
			case "true":
				add(f.key)
			case "false", "null":
			default:
				return nil, fmt.Sprintf("as a map it must hold true or false, but %s is %s", strconv.Quote(f.key), jsonKind(f.value))
			}
		}
	default:
		want := "a list of strings"
		if single {
			want = "a string or a list of strings"
		}
		return nil, fmt.Sprintf("must be %s, got %s", want, kind)
	}
	return out, problem
}

// texts reads a map of strings.
func (r *objectReader) texts(key string) map[string]string {
	sub := r.object(key)
	var out map[string]string
	for _, k := range sortedKeys(sub.fields) {
		raw := sub.fields[k]
		if !given(raw) {
			continue
		}
		var s string
		if jsonKind(raw) != "a string" || json.Unmarshal(raw, &s) != nil {
			sub.fail(k, "must be a string, got %s: put it in quotes", sub.show(k, raw))
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[k] = s
	}
	return out
}

// given reports whether a value counts: null and "" mean "not given", as an
// empty field of a manifest must not differ from a missing one.
func given(raw json.RawMessage) bool {
	switch string(bytes.TrimSpace(raw)) {
	case "", "null", `""`:
		return false
	default:
		return true
	}
}

func jsonKind(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case 'n':
		return "null"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case '[':
		return "an array"
	case '{':
		return "an object"
	default:
		return "a number"
	}
}

type jsonField struct {
	key   string
	value json.RawMessage
}

// orderedFields returns the members of a JSON object in the order of the text,
// or nil when it is none.
func orderedFields(raw json.RawMessage) []jsonField {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil
	}
	var out []jsonField
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil
		}
		f := jsonField{}
		f.key, _ = key.(string)
		if dec.Decode(&f.value) != nil {
			return nil
		}
		out = append(out, f)
	}
	if _, err := dec.Token(); err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	return out
}

// doubledKey returns a key that stands twice in one object of a valid JSON text,
// with dots between the levels, or "". Readers of JSON take the last one, which
// may not be the one that was meant.
func doubledKey(text []byte) string {
	fields := orderedFields(text)
	seen := map[string]bool{}
	for _, f := range fields {
		if seen[f.key] {
			return f.key
		}
		seen[f.key] = true
		if inner := doubledKey(f.value); inner != "" {
			return f.key + "." + inner
		}
	}
	return ""
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// isName holds for what PVE calls nodes, storages, bridges and vnets.
func isName(s string) bool {
	if s == "" || len(s) > 128 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || i > 0 && strings.IndexByte("._-", c) >= 0) {
			return false
		}
	}
	return true
}

// nesting says how to write a key with dots between its levels, as the keys are
// documented, or "".
func (r *objectReader) nesting(key string) string {
	top, rest, dotted := strings.Cut(key, ".")
	if !dotted || !slices.Contains(r.asked, top) {
		return ""
	}
	return fmt.Sprintf("a dot stands for nesting: write {%q: {%q: …}}", top, rest)
}

// suggest says which known key is meant by an unknown one, or names all of them
// when none is near.
func suggest(key string, known []string) string {
	// What other clouds and PVE itself call these.
	best := map[string]string{
		"memory": "ram", "mem": "ram", "cores": "cpu", "cpus": "cpu", "vcpus": "cpu", "sockets": "cpu",
		"disk": "ephemeral_disk", "datastore": "storage", "datastores": "storage", "resource_pool": "pool",
		"host": "endpoint", "url": "endpoint", "api_token": "token", "secret": "token_secret", "cacert": "ca_certificate",
		"node": "nodes", "tag": "vlan", "onboot": "start_on_boot", "network": "bridge", "name": "bridge",
	}[strings.ToLower(key)]
	if !slices.Contains(known, best) {
		best = nearest(key, known)
	}
	if best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	if len(known) == 0 {
		return "no key is allowed here"
	}
	all := slices.Clone(known)
	slices.Sort(all)
	return "the known keys are " + strings.Join(slices.Compact(all), ", ")
}

// nearest returns the known key that a slip of the pen turns into key, or "". Of
// short words any two are near, so one slip is allowed for every four letters.
func nearest(key string, known []string) string {
	best, distance := "", 0
	for _, k := range known {
		d := editDistance(strings.ToLower(key), k)
		if d <= max(1, min(len(key), len(k))/4) && (best == "" || d < distance) {
			best, distance = k, d
		}
	}
	return best
}

// editDistance is the number of insertions, deletions, substitutions and swaps
// of neighbours between two words.
func editDistance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
