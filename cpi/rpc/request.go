package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxRequest bounds what Serve reads. A request with certificates for many
// agents stays below a hundredth of it.
const maxRequest = 32 << 20

// A Request is what the Director or the BOSH command line sends.
type Request struct {
	Method    string
	Arguments []json.RawMessage
	Context   Context
	// APIVersion is 0 when the request has none: the Director's first info call
	// comes before a version is chosen.
	APIVersion int
}

// A Context is the context object of a request.
type Context struct {
	DirectorUUID string
	// RequestID is empty when the caller is "bosh create-env".
	RequestID string
	// StemcellAPIVersion is context.vm.stemcell.api_version, or 0. The Director
	// sends it only with the calls that concern a VM.
	StemcellAPIVersion int
	// Properties holds every other key. They are the properties of the matching
	// entry of the cpi-config, which the Director merges in at the top level.
	Properties map[string]json.RawMessage
}

// ParseRequest reads one request. It refuses anything but exactly one JSON
// object that names a method. The errors never quote the input, which may hold
// secrets.
func ParseRequest(data []byte) (*Request, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("the request is empty: expected one JSON object on standard input")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	var top map[string]json.RawMessage
	if err := dec.Decode(&top); err != nil {
		return nil, describeSyntax(data, dec, err)
	}
	if top == nil {
		return nil, errors.New("the request is null: expected a JSON object")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the request is followed by more input: expected exactly one JSON object")
	}

	req := &Request{}
	switch kind, raw := kindOf(top["method"]), top["method"]; kind {
	case "":
		return nil, errors.New(`the request has no "method"`)
	case kindString:
		if err := json.Unmarshal(raw, &req.Method); err != nil {
			return nil, errors.New(`the request's "method" is not a valid string`)
		}
	default:
		return nil, fmt.Errorf(`the request's "method" must be a string, not %s`, kind)
	}
	if req.Method == "" {
		return nil, errors.New(`the request's "method" is empty`)
	}
	switch kind := kindOf(top["arguments"]); kind {
	case "", kindNull:
	case kindArray:
		if err := json.Unmarshal(top["arguments"], &req.Arguments); err != nil {
			return nil, errors.New(`the request's "arguments" cannot be read`)
		}
	default:
		return nil, fmt.Errorf(`the request's "arguments" must be an array, not %s`, kind)
	}
	switch kind := kindOf(top["api_version"]); kind {
	case "", kindNull:
	case kindNumber:
		if err := json.Unmarshal(top["api_version"], &req.APIVersion); err != nil {
			return nil, errors.New(`the request's "api_version" must be an integer`)
		}
	default:
		return nil, fmt.Errorf(`the request's "api_version" must be an integer, not %s`, kind)
	}
	switch kind := kindOf(top["context"]); kind {
	case "", kindNull:
	case kindObject:
		var err error
		if req.Context, err = parseContext(top["context"]); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf(`the request's "context" must be an object, not %s`, kind)
	}
	return req, nil
}

func parseContext(raw json.RawMessage) (Context, error) {
	c := Context{}
	if err := json.Unmarshal(raw, &c.Properties); err != nil {
		return Context{}, errors.New(`the request's "context" cannot be read`)
	}
	// A cpi-config entry may use these names for itself, so a value of another
	// type is a property like any other and not a broken request.
	if json.Unmarshal(c.Properties["director_uuid"], &c.DirectorUUID) == nil {
		delete(c.Properties, "director_uuid")
	}
	if json.Unmarshal(c.Properties["request_id"], &c.RequestID) == nil {
		delete(c.Properties, "request_id")
	}
	var vm struct {
		Stemcell struct {
			APIVersion int `json:"api_version"`
		} `json:"stemcell"`
	}
	if json.Unmarshal(c.Properties["vm"], &vm) == nil {
		c.StemcellAPIVersion = vm.Stemcell.APIVersion
		delete(c.Properties, "vm")
	}
	return c, nil
}

func describeSyntax(data []byte, dec *json.Decoder, err error) error {
	var misfit *json.UnmarshalTypeError
	if errors.As(err, &misfit) {
		return fmt.Errorf("the request is %s: expected a JSON object", article(misfit.Value))
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("the request ends after %d bytes in the middle of its JSON", len(data))
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("the request is not JSON: the error is at byte %d", syntax.Offset)
	}
	return fmt.Errorf("the request is not JSON: the error is near byte %d", dec.InputOffset())
}

func article(jsonType string) string {
	switch jsonType {
	case "string":
		return kindString
	case "array":
		return kindArray
	case "bool", "true", "false":
		return kindBool
	default:
		return kindNumber
	}
}

// The JSON kinds as an error message names them.
const (
	kindNull   = "null"
	kindString = "a string"
	kindNumber = "a number"
	kindBool   = "a boolean"
	kindArray  = "an array"
	kindObject = "an object"
)

// kindOf names the kind of a valid JSON value, or "" when there is none.
func kindOf(raw json.RawMessage) string {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 {
		return ""
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
	default:
		return kindNumber
	}
}
