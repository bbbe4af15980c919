package pve_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/internal/rest/resttest"
	"github.com/proxkit/proxkit/pve"
)

// newTerminalServer serves a terminal that answers what it receives, in brackets.
func newTerminalServer(t *testing.T, greeting string) *pve.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/access/ticket"):
			w.Header().Set("Content-Type", resttest.JSONType)
			_, _ = io.WriteString(w, `{"data":{"username":"ops@pve","ticket":"PVE:ops@pve:6FFFFFFF::c2ln","CSRFPreventionToken":"c"}}`)
			return
		case r.Method == http.MethodPost:
			w.Header().Set("Content-Type", resttest.JSONType)
			_, _ = io.WriteString(w, `{"data":{"port":"5901","ticket":"PVEVNC:6FFF::x","upid":"U","user":"ops@pve"}}`)
			return
		}
		if r.URL.RawQuery != "port=5901&vncticket=PVEVNC%3A6FFF%3A%3Ax" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"binary"}})
		if err != nil {
			return
		}
		defer conn.CloseNow()
		_, hello, err := conn.Read(r.Context())
		if err != nil || string(hello) != "ops@pve:PVEVNC:6FFF::x\n" {
			return
		}
		if conn.Write(r.Context(), websocket.MessageBinary, []byte(greeting)) != nil {
			return
		}
		for {
			_, message, err := conn.Read(r.Context())
			if err != nil {
				return
			}
			if conn.Write(r.Context(), websocket.MessageBinary, []byte("["+string(message)+"]")) != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	client, err := pve.NewClient(server.URL, pve.WithPassword("ops@pve", "pw"))
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// TestTerminal holds the order of fields in what a terminal is told, row 79.
func TestTerminal(t *testing.T) {
	t.Parallel()
	client := newTerminalServer(t, "OKlogin: ")
	for name, open := range map[string]func(context.Context) (*pve.Terminal, error){
		"machine": func(ctx context.Context) (*pve.Terminal, error) {
			return client.OpenVMTerminal(ctx, pve.CreateVMTermProxyParams{Node: "pve1", VMID: 100})
		},
		"container": func(ctx context.Context) (*pve.Terminal, error) {
			return client.OpenContainerTerminal(ctx, pve.CreateContainerTermProxyParams{Node: "pve1", VMID: 101})
		},
		"node": func(ctx context.Context) (*pve.Terminal, error) {
			return client.OpenNodeTerminal(ctx, pve.CreateNodeTermProxyParams{Node: "pve1"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			terminal, err := open(t.Context())
			require.NoError(t, err)
			defer terminal.Close()
			expect := func(want string) {
				t.Helper()
				got := make([]byte, len(want))
				_, err := io.ReadFull(terminal, got)
				require.NoError(t, err)
				assert.Equal(t, want, string(got))
			}
			expect("login: ")
			n, err := terminal.Write([]byte("é\n"))
			require.NoError(t, err)
			assert.Equal(t, 3, n)
			expect("[0:3:é\n]")
			require.NoError(t, terminal.Resize(120, 40))
			expect("[1:120:40:]")
			require.NoError(t, terminal.Ping())
			expect("[2]")
			long := bytes.Repeat([]byte("x"), 1500)
			n, err = terminal.Write(long)
			require.NoError(t, err)
			assert.Equal(t, 1500, n)
			expect("[0:1024:" + string(long[:1024]) + "][0:476:" + string(long[1024:]) + "]")
			assert.Error(t, terminal.Resize(0, 40))
		})
	}
}

func TestTerminalRefused(t *testing.T) {
	t.Parallel()
	_, err := newTerminalServer(t, "NO").OpenNodeTerminal(t.Context(), pve.CreateNodeTermProxyParams{Node: "pve1"})
	require.ErrorContains(t, err, "does not take the terminal's ticket")
	assert.NotContains(t, err.Error(), "PVEVNC")

	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	_, err = newTerminalServer(t, "OK").OpenNodeTerminal(ctx, pve.CreateNodeTermProxyParams{Node: "pve1"})
	require.ErrorIs(t, err, why)

	client, _ := newFactsClient(t, always(refuse(500, "value 'x@pve!tok' does not look like a valid user name")), pve.WithAPIToken("x@pve!tok", "s3cret"))
	_, err = client.OpenNodeTerminal(t.Context(), pve.CreateNodeTermProxyParams{Node: "pve1"})
	require.ErrorContains(t, err, "log in with a password for consoles")
}
