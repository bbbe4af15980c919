package pve_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/internal/rest/resttest"
	"github.com/proxkit/proxkit/pve"
)

// refuse is a refusal as newer servers send it, with a message in the body.
func refuse(status int, message string) string {
	return resttest.Reply(status, firstLine(message), resttest.JSONType, fmt.Sprintf(`{"data":null,"message":%q}`, message+"\n"))
}

func firstLine(text string) string {
	for i := range text {
		if text[i] == '\n' {
			return text[:i]
		}
	}
	return text
}

// TestFailures holds what failures look like and what the client makes of them: the
// words, the kinds, and how often it asks.
func TestFailures(t *testing.T) {
	t.Parallel()
	type call = func(context.Context, *pve.Client) error
	read := func(ctx context.Context, c *pve.Client) error {
		_, err := c.ListVMs(ctx, pve.ListVMsParams{Node: "pve2"})
		return err
	}
	write := func(ctx context.Context, c *pve.Client) error {
		_, err := c.StartVM(ctx, pve.StartVMParams{Node: "pve2", VMID: 100})
		return err
	}
	remove := func(ctx context.Context, c *pve.Client) error {
		_, err := c.DeleteVM(ctx, pve.DeleteVMParams{Node: "pve2", VMID: 100})
		return err
	}
	kinds := []error{
		pve.ErrNotFound, pve.ErrExists, pve.ErrGuestExists, pve.ErrLocked, pve.ErrPermission, pve.ErrAuthentication, pve.ErrInvalidParameter, pve.ErrDigestMismatch,
		pve.ErrNodeUnreachable, pve.ErrProxy, pve.ErrNoQuorum, pve.ErrTimeout, pve.ErrNotImplemented, pve.ErrRemoved, pve.ErrNotAPI, pve.ErrWorkerStart, pve.ErrAgent,
		pve.ErrRunning, pve.ErrNotRunning, pve.ErrProtected, pve.ErrInUse, pve.ErrNoSpace,
	}
	of := func(kinds ...error) []error { return kinds }
	const tries = 4 // of a read, unless told otherwise

	tests := []struct {
		name    string
		call    call
		answer  string
		is      []error // exactly these
		message string
		params  map[string]string
		text    string // in the error's own text
		asked   int    // requests; 0 is 1
		retry   bool   // worth another try later
	}{
		{name: "reason in the phrase, row 52", call: read, answer: resttest.ReplyError(403, "Permission check failed (/, Sys.Audit)"), is: of(pve.ErrPermission), message: "Permission check failed (/, Sys.Audit)"},
		{
			name: "parameter on the second line, row 53", call: write, answer: refuse(500, "Parameter verification failed.\nipam: ipam-simple not existing"),
			is: of(pve.ErrInvalidParameter), message: "Parameter verification failed.\nipam: ipam-simple not existing", params: map[string]string{"ipam": "ipam-simple not existing"},
		},
		{
			name: "phrase replaced on the way, row 54", call: read, answer: resttest.Reply(500, "Internal Server Error", resttest.JSONType, `{"data":null,"message":"storage 'nope' does not exist\n"}`),
			is: of(pve.ErrNotFound), message: "storage 'nope' does not exist",
		},
		{
			name: "phrase and message replaced on the way, row 54", call: read, answer: resttest.Reply(500, "Internal Server Error", "text/plain", "storage 'nope' does not exist\n"),
			is: of(pve.ErrNotFound), message: "storage 'nope' does not exist",
		},
		{
			name: "complaints by parameter, row 55", call: write, answer: resttest.Reply(400, "Parameter verification failed.", resttest.JSONType, `{"data":null,"errors":{"full":"type check ('boolean') failed - got 'True'\n","newid":"VM 501 already exists\n"},"message":"Parameter verification failed.\n"}`),
			is: of(pve.ErrInvalidParameter, pve.ErrExists, pve.ErrGuestExists), message: "Parameter verification failed.", params: map[string]string{"full": "type check ('boolean') failed - got 'True'", "newid": "VM 501 already exists"},
		},
		{name: "empty refusal, row 56", call: write, answer: resttest.Reply(400, "Bad Request", "", ""), message: "Bad Request"},
		{name: "broken body, row 56", call: read, answer: resttest.Reply(500, "boom", resttest.JSONType, `{"data":nu`), message: "boom"},
		{name: "member already, row 57", call: write, answer: refuse(500, "VM 435 is already a pool member"), is: of(pve.ErrExists), message: "VM 435 is already a pool member"},
		{name: "wrong storage, row 57", call: write, answer: refuse(500, "can't clone to non-shared storage 'local'"), message: "can't clone to non-shared storage 'local'"},
		{name: "not managed, row 58", call: read, answer: refuse(500, "no such resource 'vm:102'"), is: of(pve.ErrNotFound), message: "no such resource 'vm:102'"},
		{name: "guest that is gone, row 59", call: read, answer: refuse(500, "Configuration file 'nodes/pve1/qemu-server/4711.conf' does not exist"), is: of(pve.ErrNotFound), message: "Configuration file 'nodes/pve1/qemu-server/4711.conf' does not exist"},
		{name: "no rule, row 59", call: read, answer: refuse(500, "no such ha rule 'x'"), is: of(pve.ErrNotFound), message: "no such ha rule 'x'"},
		{name: "no file, row 59", call: read, answer: refuse(500, "unable to open file '/etc/pve/x' - No such file or directory"), is: of(pve.ErrNotFound), message: "unable to open file '/etc/pve/x' - No such file or directory"},
		{
			name: "unknown task, row 59", call: read, answer: resttest.Reply(400, "Parameter verification failed.", resttest.JSONType, `{"data":null,"errors":{"upid":"no such task"},"message":"Parameter verification failed.\n"}`),
			is: of(pve.ErrInvalidParameter, pve.ErrNotFound), message: "Parameter verification failed.", params: map[string]string{"upid": "no such task"},
		},
		{name: "no right to list, row 60", call: read, answer: refuse(403, "Permission check failed"), is: of(pve.ErrPermission), message: "Permission check failed"},
		{name: "no session, row 60", call: read, answer: resttest.Reply(401, "No ticket", "", ""), is: of(pve.ErrAuthentication), message: "No ticket"},
		{name: "node that is away, row 61", call: read, answer: resttest.Reply(595, "No route to host", "", ""), is: of(pve.ErrNodeUnreachable), message: "No route to host", asked: tries, retry: true},
		{name: "write to a node that is away, row 61", call: write, answer: resttest.Reply(595, "Connection refused", "", ""), is: of(pve.ErrNodeUnreachable), message: "Connection refused", retry: true},
		{
			name: "node's name in the wrong case, row 62", call: read, answer: resttest.Reply(596, "tls_process_server_certificate: certificate verify failed", "", ""),
			is: of(pve.ErrNodeUnreachable), message: "tls_process_server_certificate: certificate verify failed", text: "check the node's name", asked: tries, retry: true,
		},
		{name: "daemon that is busy, row 64", call: remove, answer: resttest.Reply(596, "Connection timed out", "", ""), is: of(pve.ErrNodeUnreachable), message: "Connection timed out"},
		{name: "connection reused too late, row 65", call: read, answer: resttest.Reply(599, "Too many redirections", "", ""), is: of(pve.ErrProxy), message: "Too many redirections", asked: tries, retry: true},
		{name: "write over a connection reused too late, row 65", call: write, answer: resttest.Reply(599, "Too many redirections", "", ""), is: of(pve.ErrProxy), message: "Too many redirections"},
		{name: "worker that did not start, row 67", call: write, answer: refuse(500, "got no worker upid - start worker failed"), is: of(pve.ErrWorkerStart), message: "got no worker upid - start worker failed", retry: true},
		{name: "second start, row 67", call: write, answer: refuse(500, "VM 100 already running"), is: of(pve.ErrRunning), message: "VM 100 already running"},
		{name: "lock file, row 68", call: write, answer: refuse(500, "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout"), is: of(pve.ErrLocked), message: "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout", retry: true},
		{name: "lock of a storage, row 68", call: write, answer: refuse(500, "cfs-lock 'storage-x' error: got lock request timeout"), is: of(pve.ErrLocked), message: "cfs-lock 'storage-x' error: got lock request timeout", retry: true},
		{name: "locked container, row 69", call: read, answer: resttest.ReplyError(500, "CT is locked (disk)"), is: of(pve.ErrLocked), message: "CT is locked (disk)", retry: true},
		{name: "volume made a moment ago, row 70", call: write, answer: refuse(500, "volume 'nfs:100/vm-100-disk-0.qcow2' does not exist"), is: of(pve.ErrNotFound), message: "volume 'nfs:100/vm-100-disk-0.qcow2' does not exist"},
		{name: "web page, row 71", call: read, answer: resttest.Reply(200, "OK", "text/html; charset=utf-8", "<html>sign in</html>"), is: of(pve.ErrNotAPI), text: "check the endpoint"},
		{name: "web page of a proxy", call: read, answer: resttest.Reply(502, "Bad Gateway", "text/html", "<html><h1>502</h1></html>"), is: of(pve.ErrNotAPI), message: "Bad Gateway", asked: tries, retry: true},
		{
			name: "base path twice, row 72", call: read, answer: resttest.Reply(501, "Method 'GET /api2/json/version' not implemented", resttest.JSONType, `{"data":null,"message":"Method 'GET /api2/json/version' not implemented"}`),
			is: of(pve.ErrNotImplemented), message: "Method 'GET /api2/json/version' not implemented", text: "names the API's base path twice",
		},
		{name: "root's own business, row 78", call: write, answer: refuse(403, "Permission check failed (user != root@pam)"), is: of(pve.ErrPermission), message: "Permission check failed (user != root@pam)", text: "log in with a password"},
		{name: "root's option, row 78", call: write, answer: refuse(500, "only root can set 'args' config"), is: of(pve.ErrPermission), message: "only root can set 'args' config", text: "log in as root@pam"},
		{name: "console for a token, row 79", call: write, answer: refuse(500, "value 'x@pve!tok' does not look like a valid user name"), message: "value 'x@pve!tok' does not look like a valid user name", text: "log in with a password for consoles"},
		{name: "body with a delete, row 85", call: remove, answer: resttest.Reply(501, "Unexpected content for method 'DELETE'", "text/plain", "Unexpected content for method 'DELETE'"), is: of(pve.ErrNotImplemented), message: "Unexpected content for method 'DELETE'"},
		{name: "not an upload, row 86", call: write, answer: resttest.Reply(506, "upload 'Content-Type 'multipart/form-data' not implemented", "text/plain", "x"), is: of(pve.ErrNotImplemented), message: "upload 'Content-Type 'multipart/form-data' not implemented"},
		{name: "too large, row 87", call: write, answer: resttest.Reply(501, "for data too large", "", ""), is: of(pve.ErrNotImplemented), message: "for data too large"},
		{name: "number that is taken, row 101", call: write, answer: resttest.ReplyError(500, "unable to create VM 218 - VM 218 already exists on node 'pve2'"), is: of(pve.ErrExists, pve.ErrGuestExists), message: "unable to create VM 218 - VM 218 already exists on node 'pve2'"},
		{name: "image that is there", call: write, answer: refuse(500, "unable to create VM 218 - rbd: image vm-218-disk-0 already exists"), is: of(pve.ErrExists), message: "unable to create VM 218 - rbd: image vm-218-disk-0 already exists"},
		{name: "agent off, row 106", call: read, answer: refuse(500, "QEMU guest agent is not running"), is: of(pve.ErrAgent), message: "QEMU guest agent is not running"},
		{name: "agent absent, row 106", call: read, answer: refuse(500, "No QEMU guest agent configured"), is: of(pve.ErrAgent), message: "No QEMU guest agent configured"},
		{name: "groups have become rules, row 108", call: read, answer: refuse(500, "cannot index groups: ha groups have been migrated to rules"), is: of(pve.ErrRemoved), message: "cannot index groups: ha groups have been migrated to rules"},
		{name: "changed meanwhile", call: write, answer: refuse(500, "checksum mismatch (file change by other user?)"), is: of(pve.ErrDigestMismatch), message: "checksum mismatch (file change by other user?)"},
		{name: "no majority", call: write, answer: refuse(500, "cluster not ready - no quorum?"), is: of(pve.ErrNoQuorum), message: "cluster not ready - no quorum?", retry: true},
		{
			name: "cluster's file system is down", call: read, answer: resttest.Reply(500, "RPCEnvironment init request failed: Unable to load access control list: Connection refused", "", ""),
			is: of(pve.ErrNodeUnreachable), message: "RPCEnvironment init request failed: Unable to load access control list: Connection refused", retry: true,
		},
		{name: "slow volume manager", call: write, answer: refuse(500, "command '/sbin/lvs --separator : --noheadings' failed: got timeout"), is: of(pve.ErrLocked), message: "command '/sbin/lvs --separator : --noheadings' failed: got timeout", retry: true},
		{name: "unknown node", call: read, answer: refuse(500, "hostname lookup 'nonode' failed - failed to get address info for: nonode"), is: of(pve.ErrNodeUnreachable), message: "hostname lookup 'nonode' failed - failed to get address info for: nonode", retry: true},
		{name: "full storage", call: write, answer: refuse(500, "unable to create image: No space left on device"), is: of(pve.ErrNoSpace), message: "unable to create image: No space left on device"},
		{name: "protected guest", call: remove, answer: refuse(500, "can't remove VM 100 - protection mode enabled"), is: of(pve.ErrProtected), message: "can't remove VM 100 - protection mode enabled"},
		{name: "running guest", call: remove, answer: refuse(500, "VM 100 is running - destroy failed"), is: of(pve.ErrRunning), message: "VM 100 is running - destroy failed"},
		{name: "refusal with a forbidden word inside", call: write, answer: refuse(403, "Permission check failed (got timeout, VM is locked)"), is: of(pve.ErrPermission), message: "Permission check failed (got timeout, VM is locked)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client, server := newFactsClient(t, always(tt.answer), pve.WithAPIToken("ops@pve!ci", "s3cret-s3cret"))
			err := tt.call(t.Context(), client)
			require.Error(t, err)
			wrapped := fmt.Errorf("start the guest: %w", errors.Join(errors.New("first"), err))
			var is []error
			for _, kind := range kinds {
				if errors.Is(wrapped, kind) {
					is = append(is, kind)
				}
			}
			assert.ElementsMatch(t, tt.is, is)
			var refused *pve.Error
			require.ErrorAs(t, wrapped, &refused)
			if tt.message != "" {
				assert.Equal(t, tt.message, refused.Message)
			}
			assert.Equal(t, tt.params, refused.Params)
			assert.Contains(t, err.Error(), tt.text)
			assert.NotContains(t, err.Error(), "s3cret")
			assert.Equal(t, tt.retry, pve.IsRetryable(wrapped))
			assert.Len(t, server.Requests(), max(tt.asked, 1))
		})
	}
}

// TestFaultsThatPass holds the reads that fare better at the second try, rows 64 to 66,
// 84 and 115.
func TestFaultsThatPass(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		first string // answer; empty cuts the connection
	}{
		{name: "595", first: resttest.Reply(595, "Connection refused", "", "")},
		{name: "596", first: resttest.Reply(596, "Connection timed out", "", "")},
		{name: "599", first: resttest.Reply(599, "Too many redirections", "", "")},
		{name: "connection closed without an answer", first: ""},
		{name: "half an answer", first: "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\nConnection: close\r\n\r\n{\"data\":["},
		{name: "empty answer of a dying worker", first: resttest.Reply(200, "OK", resttest.JSONType, "")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			client, server := newFactsClient(t, func(resttest.Request) string {
				if asked.Add(1) == 1 {
					return tt.first
				}
				return resttest.ReplyData(`[{"vmid":100}]`)
			})
			vms, err := client.ListVMs(t.Context(), pve.ListVMsParams{Node: "pve1"})
			require.NoError(t, err)
			assert.Len(t, vms, 1)
			assert.Len(t, server.Requests(), 2)
		})
	}
}

// TestLocksAreNamed tells what stands in the way, rows 68 and 69.
func TestLocksAreNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"CT is locked (disk)":    "disk",
		"VM is locked (backup)":  "backup",
		"VM 100 is locked (x-y)": "x-y",
		"can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout": "lock-100.conf",
		"cfs-lock 'storage-x' error: got lock request timeout":                "storage-x",
		"storage 'x' does not exist":                                          "",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			client, _ := newFactsClient(t, always(refuse(500, text)))
			_, err := client.StartVM(t.Context(), pve.StartVMParams{Node: "pve1", VMID: 100})
			var refused *pve.Error
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, want, refused.Lock())
		})
	}
}
