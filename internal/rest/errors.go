package rest

import (
	"bytes"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/proxkit/proxkit/internal/wire"
)

// The classes of failure, to be asked for with errors.Is. One error may be of several
// classes: a refused parameter that names an existing guest is ErrInvalidParameter,
// ErrExists and ErrGuestExists. They apply to [*Error] and to [*TaskError] alike.
var (
	// ErrNotFound: something that the call names does not exist. What it is stands in
	// the message: a start fails with it too when the guest's bridge is missing.
	ErrNotFound = errors.New("not found")
	// ErrExists: what the call would make exists already.
	ErrExists = errors.New("already exists")
	// ErrGuestExists: the VMID is taken. It comes with ErrExists, which alone may also
	// mean a disk image, a pool or a user.
	ErrGuestExists = errors.New("VMID is taken")
	// ErrLocked: a guest, a storage or a file is locked, by a running task or by a
	// marker that a task left. Error.Lock names it.
	ErrLocked = errors.New("locked")
	// ErrPermission: the caller is known but lacks a privilege, or is not root.
	ErrPermission = errors.New("permission denied")
	// ErrAuthentication: the server does not accept the credentials.
	ErrAuthentication = errors.New("authentication failed")
	// ErrTFARequired: the login needs a second factor.
	ErrTFARequired = errors.New("second factor required")
	// ErrInvalidParameter: a parameter was refused; Params says which, where known.
	ErrInvalidParameter = errors.New("invalid parameter")
	// ErrDigestMismatch: the configuration changed since its digest was read.
	ErrDigestMismatch = errors.New("configuration has changed")
	// ErrNodeUnreachable: the answering node cannot reach the node or the daemon that
	// the call is for.
	ErrNodeUnreachable = errors.New("node unreachable")
	// ErrProxy: the connection between the answering node and the one that did the work
	// broke. A write may have taken effect.
	ErrProxy = errors.New("connection broken behind the proxy")
	// ErrNoQuorum: the cluster has lost its majority and refuses writes.
	ErrNoQuorum = errors.New("cluster has no quorum")
	// ErrTimeout: something behind the API took too long. A write may have taken effect.
	ErrTimeout = errors.New("timed out on the server")
	// ErrNotImplemented: the server does not know this call, or not in this way.
	ErrNotImplemented = errors.New("not implemented by the server")
	// ErrUnknownToServer: the server knows no such operation, or not with one of the
	// parameters given; it is then older than what the call was written for. It comes
	// with ErrNotImplemented or ErrInvalidParameter.
	ErrUnknownToServer = errors.New("unknown to this server")
	// ErrRemoved: the server knows the call but no longer serves it.
	ErrRemoved = errors.New("removed in this version")
	// ErrNotAPI: the answer is not from the API, for example a proxy's login page.
	ErrNotAPI = errors.New("not an API answer")
	// ErrWorkerStart: the server could not start a worker. The work was not done.
	ErrWorkerStart = errors.New("server could not start a worker")
	// ErrAgent: the guest agent is off, absent or does not answer.
	ErrAgent = errors.New("guest agent not available")
	// ErrRunning: the guest is running and must not be.
	ErrRunning = errors.New("guest is running")
	// ErrNotRunning: the guest is not running and must be.
	ErrNotRunning = errors.New("guest is not running")
	// ErrProtected: the guest's protection flag is set.
	ErrProtected = errors.New("guest is protected")
	// ErrInUse: something else still uses what the call would remove or detach.
	ErrInUse = errors.New("still in use")
	// ErrNoSpace: the storage is full.
	ErrNoSpace = errors.New("no space left")
	// ErrTaskUnknown: the server does not know how the task ended.
	ErrTaskUnknown = errors.New("outcome of the task is unknown")
	// ErrNotSent: the request never left this machine, so nothing was changed.
	ErrNotSent = errors.New("request was not sent")
	// ErrNoAnswer: the request may have arrived, but no complete answer came back.
	ErrNoAnswer = errors.New("no answer")
	// ErrCertificate: the server's certificate is not accepted.
	ErrCertificate = errors.New("certificate not accepted")
)

// An Error is a refusal by the server.
type Error struct {
	Method string // the call, as "POST"
	Path   string // and "/nodes/pve1/qemu", without query

	Status int    // as 500
	Reason string // the reason phrase of the status line, as sent; the class that a guest agent gives its refusal

	// Message is what the server says, with all its lines: the message of the answer,
	// else the reason phrase, else a plain-text body.
	Message string

	// Params are the complaints by parameter.
	Params map[string]string

	product string
	hint    string
	notAPI  bool
	acts    bool // although the method is GET
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(cmpOr(e.product, "proxmox"))
	b.WriteString(": ")
	b.WriteString(e.Method)
	b.WriteByte(' ')
	b.WriteString(e.Path)
	b.WriteString(": ")
	b.WriteString(oneLine(cmpOr(e.Message, e.Reason, http.StatusText(e.Status), "no explanation")))
	for i, name := range slices.Sorted(maps.Keys(e.Params)) {
		if text := oneLine(e.Params[name]); !strings.Contains(e.Message, name+": ") {
			b.WriteString([]string{" ", "; "}[min(i, 1)])
			b.WriteString(name + ": " + text)
		}
	}
	if e.Status != 0 {
		b.WriteString(" (status " + strconv.Itoa(e.Status) + ")")
	}
	if e.hint != "" {
		b.WriteString("; " + e.hint)
	}
	return b.String()
}

// Is reports whether the error is of the class target, one of this package's Err
// variables.
func (e *Error) Is(target error) bool { return e.classes().has(target) }

// Lock names the lock that stands in the way, as "backup" for a guest locked by a
// backup or "lock-100.conf" for a lock file. It is empty when the error is no
// [ErrLocked] or the server does not name the lock.
func (e *Error) Lock() string { return lockName(e.Message) }

// Temporary reports whether the same call may well succeed a little later, unchanged,
// and does no harm when repeated: locks, a missing quorum, a worker that did not
// start, an unreachable node; for reads also broken proxy connections and timeouts.
func (e *Error) Temporary() bool {
	read := (e.Method == http.MethodGet || e.Method == "") && !e.acts
	return e.classes().temporary(read && e.Status != http.StatusBadRequest, e.Status)
}

// IsRetryable reports whether the call that failed with err may succeed when it is
// simply made again later. It asks the first [*Error], [*TransportError] or
// [*TaskError] in err's chain. Everything else, such as an ended context or a bad
// argument, is not retryable.
func IsRetryable(err error) bool {
	if t, ok := errors.AsType[interface {
		error
		Temporary() bool
	}](err); ok {
		switch t.(type) {
		case *Error, *TransportError, *TaskError:
			return t.Temporary()
		}
	}
	return false
}

// An ArgumentError reports arguments that were refused before anything was sent.
type ArgumentError struct {
	Method string
	Path   string
	Reason string

	product string
	err     error
}

// Error implements error.
func (e *ArgumentError) Error() string {
	return cmpOr(e.product, "proxmox") + ": " + e.Method + " " + e.Path + ": " + e.Reason
}

// Unwrap returns the cause, if any.
func (e *ArgumentError) Unwrap() error { return e.err }

// Is makes the error an [ErrInvalidParameter].
func (e *ArgumentError) Is(target error) bool {
	return target == ErrInvalidParameter || target == ErrNotSent
}

// A TransportError reports a request that got no answer.
type TransportError struct {
	Method   string
	Path     string
	Endpoint string // the server, as "pve1.example.com:8006"

	// Sent says that the request may have arrived: a write may have taken effect.
	Sent bool

	// Err is the cause, for errors.Is and errors.As.
	Err error

	product string
	hint    string
	ended   bool // the caller's context did it
	acts    bool // although the method is GET
}

// Error implements error.
func (e *TransportError) Error() string {
	text := cmpOr(e.product, "proxmox") + ": " + e.Method + " " + e.Path + ": "
	if e.Err != nil {
		text += e.Err.Error()
	}
	switch {
	case !e.Sent:
		text += " (not sent to " + e.Endpoint + ")"
	case e.Method != http.MethodGet || e.acts:
		text += " (no answer from " + e.Endpoint + "; the call may have taken effect)"
	default:
		text += " (no answer from " + e.Endpoint + ")"
	}
	if e.hint != "" {
		text += "; " + e.hint
	}
	return text
}

// Unwrap returns the cause.
func (e *TransportError) Unwrap() error { return e.Err }

// Is makes the error an [ErrNotSent] or [ErrNoAnswer], and an [ErrCertificate] where
// the certificate is the cause.
func (e *TransportError) Is(target error) bool {
	switch target {
	case ErrNotSent:
		return !e.Sent
	case ErrNoAnswer:
		return e.Sent
	case ErrCertificate:
		return isCertificateError(e.Err)
	}
	return false
}

// Temporary reports whether the call may be repeated: a read always, a write when it
// was not sent, neither when the certificate is the reason or the context has ended.
func (e *TransportError) Temporary() bool {
	if e.ended || isCertificateError(e.Err) || isPlainHTTP(e.Err) {
		return false
	}
	return !e.Sent || e.Method == http.MethodGet && !e.acts
}

func cmpOr(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// oneLine joins the lines of a server's text for an error message.
func oneLine(text string) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(slices.DeleteFunc(lines, func(s string) bool { return s == "" }), "; ")
}

// An agentRefusal is what a guest's agent says in place of a result.
type agentRefusal struct {
	Class string `json:"class"`
	Desc  string `json:"desc"`
}

// callsAgent reports whether a call is for the agent of a guest.
func callsAgent(path string) bool { return strings.Contains(path+"/", "/agent/") }

// agentError finds the refusal of a guest's agent inside an answer of success. Only some
// of the agent's calls have a place for it in their results, and in the others it would
// pass for an empty one.
func (c *Client) agentError(call *call, data []byte) error {
	if !bytes.Contains(data, []byte(`"error"`)) {
		return nil
	}
	var answer struct {
		Result struct {
			Error agentRefusal `json:"error"`
		} `json:"result"`
	}
	if err := wire.Decode(data, &answer, nil); err != nil || answer.Result.Error == (agentRefusal{}) {
		return nil // the decoder that reads the whole answer says what is wrong with it
	}
	secrets := c.secrets(call)
	refusal := answer.Result.Error
	return &Error{
		Method: call.method, Path: call.path, Status: http.StatusOK,
		Reason:  redact(refusal.Class, secrets),
		Message: redact(cmpOr(refusal.Desc, refusal.Class, "the guest agent refuses"), secrets),
		product: c.product.Name,
	}
}
