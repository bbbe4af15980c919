// Package rpc speaks the BOSH CPI protocol: one JSON request on standard input,
// one JSON response on standard output, one process per call. It knows nothing
// of any cloud.
//
// A CPI implements [Handler], usually by embedding [Unimplemented] and the
// methods it has, and calls [Serve] from main:
//
//	err := rpc.Serve(ctx, rpc.Static(handler), os.Stdin, os.Stdout, os.Stderr)
//
// Whatever happens to the call, a broken request and a panic included, Serve
// writes one valid response: the keys result, error and log are always there,
// log is a string, and the type of an error is one of the ten the Director
// knows. Serve returns an error only when the response could not be written,
// and only then may a CPI exit with another status than 0, because
// "bosh create-env" takes any other status for a failure of the CPI itself.
//
// # Errors
//
// A handler says what went wrong with an [*Error], made by one of the
// constructors ([VMNotFound], [CloudError], …) and wrapped as often as it likes.
// Any other error reaches the Director as Bosh::Clouds::CloudError. Serve puts
// the method in front of the message, so that a handler need not.
//
// # Changing a handler
//
// Embed a [Handler] to replace single methods of it, and use [Around] to do
// something before or after every call. A [Factory] sees the call, with its method
// and its context, before the handler does.
//
// # Secrets
//
// The Director copies the log, standard error and the message of an error
// unredacted into its task logs. Values registered with [Call.Secret] are masked
// in the log and in the message, also in their percent-encoded, JSON-escaped and
// base64 forms, and so are the values in the env of create_vm, which Serve
// registers itself. A result is not masked: it must be exact.
//
// Standard error is masked only where it is written through [Call.Stderr]. What a
// handler or a library writes to [os.Stderr] itself goes out as it is, so give
// them call.Stderr, or call.Log, which is bounded as well:
//
//	logger := slog.New(slog.NewTextHandler(call.Stderr, nil))
package rpc
