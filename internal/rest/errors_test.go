package rest

import (
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestErrorTexts: the message counts first, then the phrase, then the body; none of
// what the server said is lost.
func TestErrorTexts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, answer    string
		message, reason string
		params          map[string]string
		text            string
	}{
		{
			name:    "message of several lines",
			answer:  reply(500, "create sdn subnet object failed: 400 Parameter verification failed.", jsonType, `{"message":"create sdn subnet object failed: 400 Parameter verification failed.\nipam: ipam-simple not existing\n","data":null}`),
			message: "create sdn subnet object failed: 400 Parameter verification failed.\nipam: ipam-simple not existing",
			reason:  "create sdn subnet object failed: 400 Parameter verification failed.",
			params:  map[string]string{"ipam": "ipam-simple not existing"},
			text:    "pve: POST /x: create sdn subnet object failed: 400 Parameter verification failed.; ipam: ipam-simple not existing (status 500)",
		},
		{
			name:   "phrase replaced by a proxy",
			answer: reply(500, "Internal Server Error", jsonType, `{"message":"VM is locked (clone)\n","data":null}`), message: "VM is locked (clone)", reason: "Internal Server Error",
			text: "pve: POST /x: VM is locked (clone) (status 500)",
		},
		{
			name:   "phrase alone",
			answer: replyError(403, "Permission check failed (/, Sys.Audit)"), message: "Permission check failed (/, Sys.Audit)", reason: "Permission check failed (/, Sys.Audit)",
			text: "pve: POST /x: Permission check failed (/, Sys.Audit) (status 403)",
		},
		{
			name:   "phrase with quotes, colons and commas",
			answer: reply(500, `storage 'x: "y"' does not exist, try (z)!`, "", ""), message: `storage 'x: "y"' does not exist, try (z)!`, reason: `storage 'x: "y"' does not exist, try (z)!`,
			text: `pve: POST /x: storage 'x: "y"' does not exist, try (z)! (status 500)`,
		},
		{
			name:   "plain text",
			answer: reply(400, "Bad Request", "text/plain", "no such datastore 'x'\n"), message: "no such datastore 'x'", reason: "Bad Request",
			text: "pve: POST /x: no such datastore 'x' (status 400)",
		},
		{
			name:   "phrase beats plain text",
			answer: reply(500, "malformed JSON string", "text/plain", "at line 978"), message: "malformed JSON string", reason: "malformed JSON string",
			text: "pve: POST /x: malformed JSON string (status 500)",
		},
		{
			name:   "nothing but a number",
			answer: reply(500, "", "", ""), message: "Internal Server Error", reason: "",
			text: "pve: POST /x: Internal Server Error (status 500)",
		},
		{
			name:   "damaged JSON",
			answer: reply(500, "VM is locked (backup)", jsonType, `{"data":nu`), message: "VM is locked (backup)", reason: "VM is locked (backup)",
			text: "pve: POST /x: VM is locked (backup) (status 500)",
		},
		{
			name:   "parameters without a message",
			answer: reply(400, "Parameter verification failed.", jsonType, `{"data":null,"errors":{"b":"too long\n","a":"invalid format - format error\nnet0.model: x\n"}}`), message: "Parameter verification failed.", reason: "Parameter verification failed.",
			params: map[string]string{"b": "too long", "a": "invalid format - format error\nnet0.model: x"},
			text:   "pve: POST /x: Parameter verification failed. a: invalid format - format error; net0.model: x; b: too long (status 400)",
		},
		{
			name:   "page of a proxy",
			answer: reply(503, "Service Unavailable", "text/html", "<html>busy</html>"), message: "Service Unavailable", reason: "Service Unavailable",
			text: "pve: POST /x: Service Unavailable (status 503)",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := newRawServer(t, func(seen) string { return tc.answer })
			err := newClient(t, server.URL, WithAPIToken("a@pve!t", "secret")).Call(t.Context(), http.MethodPost, "/x", nil, nil)
			refused, ok := errors.AsType[*Error](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, tc.message, refused.Message)
			assert.Equal(t, tc.reason, refused.Reason)
			assert.Equal(t, tc.params, refused.Params)
			assert.Equal(t, tc.text, err.Error())
			assert.Equal(t, "POST", refused.Method)
			assert.Equal(t, "/x", refused.Path)
		})
	}
}

func TestHints(t *testing.T) {
	t.Parallel()
	token := []Option{WithAPIToken("root@pam!t", "secret")}
	for _, tc := range []struct {
		name, path, answer string
		opts               []Option
		want               string
	}{
		{name: "token refused", opts: token, answer: reply(401, "No ticket", "", ""), want: "check the API token"},
		{name: "nobody", answer: reply(401, "No ticket", "", ""), want: "has no credentials"},
		{name: "ticket wanted", opts: token, answer: replyError(403, "Permission check failed (URI '/access/password' not available with API token, need proper ticket."), want: "log in with a password"},
		{name: "root wanted", opts: token, answer: replyError(403, "Permission check failed (user != root@pam)"), want: "log in with a password"},
		{name: "root's option", opts: token, answer: replyError(500, "only root can set 'args' config"), want: "log in as root@pam"},
		{name: "console", opts: token, answer: replyError(500, "value 'x@pve!tok' does not look like a valid user name"), want: "for consoles"},
		{name: "node name", path: "/nodes/PVE1/qemu", opts: token, answer: reply(596, "tls_process_server_certificate: certificate verify failed", "", ""), want: "check the node's name"},
		{name: "base path twice", opts: token, answer: replyError(501, "Method 'GET /api2/json/version' not implemented"), want: "base path twice"},
	} {
		server := newRawServer(t, func(seen) string { return tc.answer })
		err := newClient(t, server.URL, append(tc.opts, WithRetry(RetryPolicy{Attempts: 1}))...).Call(t.Context(), http.MethodGet, cmpOr(tc.path, "/x"), nil, nil)
		assert.ErrorContains(t, err, tc.want, tc.name)
	}
}
