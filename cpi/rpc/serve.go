package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
)

// A Response is what the Director reads. Its three keys are always written; a
// response without one of them is refused.
type Response struct {
	Result any            `json:"result"`
	Error  *ResponseError `json:"error"`
	Log    string         `json:"log"`
}

// A ResponseError is the error of a response.
type ResponseError struct {
	Type      Class  `json:"type"`
	Message   string `json:"message"`
	OKToRetry bool   `json:"ok_to_retry"`
}

// A Factory makes the handler of one call, for example from the call's context.
// It runs after the request was found to be in order, and also for info, which
// it should answer without reading any configuration.
type Factory func(ctx context.Context, call *Call) (Handler, error)

// Static returns a [Factory] for a handler that needs nothing of the call.
func Static(h Handler) Factory {
	return func(context.Context, *Call) (Handler, error) { return h, nil }
}

// Serve reads one request from in until its end, has it answered by the handler
// that open makes, and writes one response to out. Its error says that the
// response could not be written; everything else, a broken request and a panic
// included, is an error inside the response. The trace of a panic goes to logw.
func Serve(ctx context.Context, open Factory, in io.Reader, out, logw io.Writer) error {
	call := &Call{}
	call.Log = &Log{mask: call.Mask}
	masked := &maskedWriter{w: logw, mask: call.Mask}
	call.Stderr = masked
	result, err := serve(ctx, call, open, in)
	masked.flush()
	if _, err := out.Write(encode(call, result, err)); err != nil {
		return fmt.Errorf("write the response: %w", err)
	}
	return nil
}

func serve(ctx context.Context, call *Call, open Factory, in io.Reader) (result any, err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		what := fmt.Sprint(p)
		trace := fmt.Sprintf("panic in %s: %s\n%s", call.Method, what, debug.Stack())
		fmt.Fprintln(call.Stderr, shorten(call.Mask(trace), maxMessage))
		result, err = nil, CloudError("%s: the CPI has a bug, it panicked: %s", orMethod(call.Method), what)
	}()

	data, err := io.ReadAll(io.LimitReader(in, maxRequest+1))
	if err != nil {
		return nil, CloudError("read the request: %w", err)
	}
	if len(data) > maxRequest {
		return nil, CloudError("the request is longer than %d MiB", maxRequest>>20)
	}
	req, err := ParseRequest(data)
	if err != nil {
		return nil, CloudError("%w", err)
	}
	call.Method, call.Context, call.APIVersion = shorten(req.Method, 80), req.Context, req.APIVersion
	registerSecrets(call, req)
	do, err := bind(req)
	if err != nil {
		return nil, err
	}
	h, err := open(ctx, call)
	if err == nil {
		result, err = do(ctx, h)
	}
	return result, inMethod(call.Method, err)
}

// inMethod begins the text of an error with the method of the call, unless it
// does so already.
func inMethod(method string, err error) error {
	e := ErrorOf(err)
	if e == nil || strings.HasPrefix(e.Error(), method+": ") {
		return err
	}
	return &Error{class: e.class, retry: e.retry, err: fmt.Errorf("%s: %w", method, err)}
}

func orMethod(method string) string {
	if method == "" {
		return "the call"
	}
	return method
}

// registerSecrets covers what the protocol itself carries: the env of a VM holds
// passwords, certificates and message bus addresses at places that the Director
// decides. The labels beside them are public and appear in ordinary messages.
func registerSecrets(call *Call, req *Request) {
	if req.Method == "create_vm" && len(req.Arguments) > 5 {
		call.Secret(Leaves(req.Arguments[5], "bosh.group", "bosh.groups", "bosh.tags", "bosh.ntp")...)
	}
}

// encode renders the response and never fails: what cannot be encoded becomes an
// error.
func encode(call *Call, result any, err error) []byte {
	resp := Response{Log: call.Mask(call.Log.String())}
	if e := ErrorOf(err); e != nil {
		resp.Error = responseError(call, e)
	} else {
		resp.Result = result
	}
	data, err := marshal(resp)
	if err != nil {
		resp.Result = nil
		resp.Error = responseError(call, ErrorOf(CpiError("%s: the result cannot be encoded: %w", orMethod(call.Method), err)))
		data, err = marshal(resp)
	}
	if err != nil {
		// Strings and a boolean always encode.
		panic(err)
	}
	return data
}

func responseError(call *Call, e *Error) *ResponseError {
	message := strings.TrimSpace(call.Mask(e.Error()))
	if message == "" {
		message = "no further explanation"
	}
	// An error that joins several has one a line.
	message = strings.ReplaceAll(message, "\n", "; ")
	if errors.Is(e, context.DeadlineExceeded) && !strings.Contains(message, "deadline") {
		message += " (the time for the call ran out)"
	}
	return &ResponseError{Type: e.class, Message: shorten(message, maxMessage), OKToRetry: e.retry}
}

// marshal leaves <, > and & as they are: operators read these texts.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
