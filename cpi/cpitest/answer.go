package cpitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// What the Director reads slowly, byte by byte, and copies into its task log
// should be short.
const (
	maxLog    = 32 << 10
	maxStderr = 32 << 10
)

// A reply is an answer that the Director accepts.
type reply struct {
	result json.RawMessage
	err    *replyError
	log    string
}

type replyError struct {
	Type      string
	Message   string
	OKToRetry bool
}

// Error implements error, in the words that the Director has for the operator.
func (e *replyError) Error() string {
	return fmt.Sprintf("CPI error '%s' with message '%s'", e.Type, e.Message)
}

// The classes of error that the Director knows.
const (
	cloudError      = "Bosh::Clouds::CloudError"
	diskNotAttached = "Bosh::Clouds::DiskNotAttached"
	diskNotFound    = "Bosh::Clouds::DiskNotFound"
	networkNotFound = "Bosh::Clouds::NetworkNotFound"
	noDiskSpace     = "Bosh::Clouds::NoDiskSpace"
	notImplemented  = "Bosh::Clouds::NotImplemented"
	notSupported    = "Bosh::Clouds::NotSupported"
	vmCreationFail  = "Bosh::Clouds::VMCreationFailed"
	vmNotFound      = "Bosh::Clouds::VMNotFound"
	cpiError        = "Bosh::Clouds::CpiError"
)

func knownClass(class string) bool {
	switch class {
	case cpiError, notSupported, notImplemented, cloudError, vmNotFound, networkNotFound, noDiskSpace, diskNotAttached, diskNotFound, vmCreationFail:
		return true
	}
	return false
}

// parseAnswer holds an answer to the rules of the Director and of the command
// line, which refuse it whole when one is broken.
func parseAnswer(a Answer) (*reply, error) {
	if len(bytes.TrimSpace(a.Stdout)) == 0 {
		return nil, fmt.Errorf("standard output is empty (exit status %d): a CPI answers every request, also one it cannot serve", a.Status)
	}
	dec := json.NewDecoder(bytes.NewReader(a.Stdout))
	var keys map[string]json.RawMessage
	if err := dec.Decode(&keys); err != nil {
		return nil, fmt.Errorf("standard output is not one JSON object: %w", err)
	}
	if keys == nil {
		return nil, errors.New("standard output is null, not an object")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("standard output holds more than one JSON document")
	}
	for _, key := range []string{"result", "error", "log"} {
		if keys[key] == nil {
			return nil, fmt.Errorf("the answer lacks the key %q: all of result, error and log are required", key)
		}
	}
	r := &reply{result: keys["result"]}
	if kindOf(keys["log"]) != kindString {
		return nil, fmt.Errorf("the log is %s, not a string", kindOf(keys["log"]))
	}
	if err := json.Unmarshal(keys["log"], &r.log); err != nil {
		return nil, fmt.Errorf("the log: %w", err)
	}
	if a.Status != 0 {
		return nil, fmt.Errorf("the exit status is %d although an answer was written: bosh create-env takes that for a crash", a.Status)
	}
	if kindOf(keys["error"]) == kindNull {
		return r, nil
	}
	var err error
	r.err, err = parseError(keys["error"])
	return r, err
}

func parseError(raw json.RawMessage) (*replyError, error) {
	if kindOf(raw) != kindObject {
		return nil, fmt.Errorf("the error is %s, not an object or null", kindOf(raw))
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Errorf("the error: %w", err)
	}
	for _, f := range []struct{ key, kind string }{{"type", kindString}, {"message", kindString}, {"ok_to_retry", kindBool}} {
		if got := kindOf(fields[f.key]); got != f.kind {
			return nil, fmt.Errorf("the error's %q is %s, not %s: the Director refuses the answer", f.key, got, f.kind)
		}
	}
	var e replyError
	for key, target := range map[string]any{"type": &e.Type, "message": &e.Message, "ok_to_retry": &e.OKToRetry} {
		if err := json.Unmarshal(fields[key], target); err != nil {
			return nil, fmt.Errorf("the error's %q: %w", key, err)
		}
	}
	// The one old spelling that the Director translates.
	if e.Type == "InvalidCall" && strings.HasPrefix(e.Message, "Method is not known, got") {
		e.Type = notImplemented
	}
	if e.Type == cloudError && strings.HasPrefix(e.Message, "Invalid Method:") {
		e.Type = notImplemented
	}
	if !knownClass(e.Type) {
		return nil, fmt.Errorf("the error type %q is none of the ten that the Director knows: it becomes an unknown error", e.Type)
	}
	if strings.TrimSpace(e.Message) == "" {
		return nil, errors.New("the error has no message: the operator learns nothing")
	}
	return &e, nil
}

// checkLength finds logs that slow the Director down.
func checkLength(a Answer, r *reply) error {
	if len(a.Stderr) > maxStderr {
		return fmt.Errorf("%d bytes on standard error: keep it short", len(a.Stderr))
	}
	if len(r.log) > maxLog {
		return fmt.Errorf("a log of %d bytes: the Director reads it byte by byte, keep it short", len(r.log))
	}
	return nil
}

// The JSON kinds as messages name them.
const (
	kindMissing = "missing"
	kindNull    = "null"
	kindString  = "a string"
	kindNumber  = "a number"
	kindBool    = "a boolean"
	kindArray   = "an array"
	kindObject  = "an object"
)

func kindOf(raw json.RawMessage) string {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 {
		return kindMissing
	}
	switch raw[0] {
	case 'n':
		return kindNull
	case '"':
		return kindString
	case 't', 'f':
		return kindBool
	case '[':
		return kindArray
	case '{':
		return kindObject
	}
	return kindNumber
}

// resultCID reads the identifier that a create method returns.
func resultCID(raw json.RawMessage) (string, error) {
	var cid string
	if kindOf(raw) != kindString || json.Unmarshal(raw, &cid) != nil || strings.TrimSpace(cid) == "" {
		return "", fmt.Errorf("the result must be an identifier, not %s", brief(raw))
	}
	return cid, nil
}

// resultVM reads the result of create_vm. Of a bare string, as version 1 of the
// interface had it, the Director would take the first character for the CID.
func resultVM(raw json.RawMessage) (cid string, networks json.RawMessage, err error) {
	var parts []json.RawMessage
	if kindOf(raw) != kindArray || json.Unmarshal(raw, &parts) != nil || len(parts) == 0 {
		return "", nil, fmt.Errorf("the result must be an array of the VM's identifier and its networks, not %s", brief(raw))
	}
	if cid, err = resultCID(parts[0]); err != nil {
		return "", nil, err
	}
	if len(parts) < 2 || kindOf(parts[1]) != kindObject {
		return "", nil, fmt.Errorf("the second part of the result must be the networks, an object: %s", brief(raw))
	}
	return cid, parts[1], nil
}

func resultBool(raw json.RawMessage) (bool, error) {
	var b bool
	if kindOf(raw) != kindBool || json.Unmarshal(raw, &b) != nil {
		return false, fmt.Errorf("the result must be true or false, not %s", brief(raw))
	}
	return b, nil
}

func resultList(raw json.RawMessage) ([]string, error) {
	var list []string
	if kindOf(raw) != kindArray || json.Unmarshal(raw, &list) != nil {
		return nil, fmt.Errorf("the result must be an array of strings, not %s", brief(raw))
	}
	return list, nil
}

func resultObject(raw json.RawMessage) (map[string]any, error) {
	var m map[string]any
	if kindOf(raw) != kindObject || json.Unmarshal(raw, &m) != nil || len(m) == 0 {
		return nil, fmt.Errorf("the result must be an object with something in it, not %s", brief(raw))
	}
	return m, nil
}

// A hint is what attach_disk returns: where the agent finds the disk.
type hint struct {
	// text is the hint as it was sent, without insignificant space.
	text string
	// path is the hint itself when it is a string, or its key path.
	path string
}

// resultHint reads the result of attach_disk. The Director refuses an empty one,
// and a value that is not a string makes the agent panic.
func resultHint(raw json.RawMessage) (hint, error) {
	var h hint
	switch kindOf(raw) {
	case kindString:
		if err := json.Unmarshal(raw, &h.path); err != nil || h.path == "" {
			return hint{}, errors.New("the hint is an empty string")
		}
	case kindObject:
		var values map[string]json.RawMessage
		if err := json.Unmarshal(raw, &values); err != nil || len(values) == 0 {
			return hint{}, errors.New("the hint is an empty object")
		}
		for key, v := range values {
			if kindOf(v) != kindString {
				return hint{}, fmt.Errorf("the hint's %q is %s: only strings are allowed, the agent panics otherwise", key, kindOf(v))
			}
		}
		if values["path"] != nil {
			_ = json.Unmarshal(values["path"], &h.path)
		}
	default:
		return hint{}, fmt.Errorf("the hint must be a string or an object of strings, not %s", brief(raw))
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return hint{}, err
	}
	h.text = b.String()
	return h, nil
}

// About is what info answers.
type About struct {
	APIVersion      int      `json:"api_version"`
	StemcellFormats []string `json:"stemcell_formats"`
}

func resultInfo(raw json.RawMessage) (About, error) {
	var fields map[string]json.RawMessage
	if kindOf(raw) != kindObject || json.Unmarshal(raw, &fields) != nil {
		return About{}, fmt.Errorf("the result must be an object, not %s", brief(raw))
	}
	var about About
	if kindOf(fields["api_version"]) != kindNumber || json.Unmarshal(fields["api_version"], &about.APIVersion) != nil {
		return About{}, fmt.Errorf("api_version must be an integer, not %s", brief(fields["api_version"]))
	}
	if about.APIVersion < 2 {
		return About{}, fmt.Errorf("api_version is %d, the least that Director and command line speak is 2", about.APIVersion)
	}
	if kindOf(fields["stemcell_formats"]) != kindArray || json.Unmarshal(fields["stemcell_formats"], &about.StemcellFormats) != nil {
		return About{}, fmt.Errorf("stemcell_formats must be an array of strings, not %s", brief(fields["stemcell_formats"]))
	}
	if slices.Contains(about.StemcellFormats, "") {
		return About{}, errors.New("stemcell_formats has an empty string in it")
	}
	return about, nil
}

// brief is a value short enough for a message.
func brief(raw json.RawMessage) string {
	if len(raw) == 0 {
		return kindMissing
	}
	text := string(raw)
	if len(text) > 160 {
		text = strings.ToValidUTF8(text[:160], "") + "…"
	}
	return text
}
