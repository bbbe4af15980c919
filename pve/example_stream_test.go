package pve_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/coder/websocket"

	"github.com/proxkit/proxkit/pve"
	"github.com/proxkit/proxkit/pve/pvetest"
)

// startConsoleServer stands in for a Proxmox VE whose guest 101 has a screen.
func startConsoleServer() *httptest.Server {
	return httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json;charset=UTF-8")
		switch path := strings.TrimPrefix(r.URL.Path, "/api2/json/nodes/pve1/qemu/101/"); {
		case r.URL.Path == "/api2/json/access/ticket":
			fmt.Fprint(w, `{"data":{"username":"root@pam","ticket":"PVE:root@pam:6B0E103A::c2ln","CSRFPreventionToken":"6B0E103A:dG9r"}}`)
		case path == "vncproxy":
			fmt.Fprint(w, `{"data":{"port":"5900","ticket":"PVEVNC:6B0E103A::c2ln","user":"root@pam","cert":"","upid":"UPID:pve1:000011A5:00052BA7:6B0E103A:vncproxy:101:root@pam:"}}`)
		case path == "vncwebsocket" && r.FormValue("port") == "5900":
			conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"binary"}})
			if err != nil {
				return
			}
			stream := websocket.NetConn(r.Context(), conn, websocket.MessageBinary)
			fmt.Fprint(stream, "RFB 003.008\n")
			stream.Close()
		default:
			w.WriteHeader(http.StatusNotImplemented)
		}
	}))
}

// A console is a net.Conn, to be handed to a VNC library. This server opens consoles to
// logins only, not to API tokens.
func ExampleClient_GetVMVNCWebSocket() {
	server := startConsoleServer()
	defer server.Close()
	ctx := context.Background()
	client, err := pve.NewClient(server.URL, pve.WithTransport(server.Client().Transport), pve.WithPassword("root@pam", "correct horse"))
	if err != nil {
		log.Fatal(err)
	}
	proxy, err := client.CreateVMVNCProxy(ctx, pve.CreateVMVNCProxyParams{Node: "pve1", VMID: 101, WebSocket: new(true)})
	if err != nil {
		log.Fatal(err)
	}
	console, err := client.GetVMVNCWebSocket(ctx, pve.GetVMVNCWebSocketParams{Node: "pve1", VMID: 101, Port: proxy.Port, VNCTicket: proxy.Ticket})
	if err != nil {
		log.Fatal(err)
	}
	defer console.Close()
	greeting := make([]byte, 12)
	_, err = io.ReadFull(console, greeting)
	fmt.Printf("%q %v\n", greeting, err)
	// Output:
	// "RFB 003.008\n" <nil>
}

// The same console by its path, as for an operation that a newer server has and this
// package has not.
func ExampleClient_DoWebSocket() {
	server := startConsoleServer()
	defer server.Close()
	client, err := pve.NewClient(server.URL, pve.WithTransport(server.Client().Transport), pve.WithPassword("root@pam", "correct horse"))
	if err != nil {
		log.Fatal(err)
	}
	console, err := client.DoWebSocket(context.Background(), "/nodes/{node}/qemu/{vmid}/vncwebsocket",
		map[string]any{"node": "pve1", "vmid": 101, "port": 5900, "vncticket": "PVEVNC:6B0E103A::c2ln"})
	if err != nil {
		log.Fatal(err)
	}
	defer console.Close()
	greeting := make([]byte, 12)
	_, err = io.ReadFull(console, greeting)
	fmt.Printf("%q %v\n", greeting, err)
	// Output:
	// "RFB 003.008\n" <nil>
}

// Upload by path. A reader that cannot seek needs its size.
func ExampleClient_DoUpload() {
	client, lab := startLab()
	defer lab.Close()
	ctx := context.Background()

	const content = "not much of an image"
	var upid pve.UPID
	err := client.DoUpload(ctx, http.MethodPost, "/nodes/{node}/storage/{storage}/upload",
		map[string]any{"node": "pve1", "storage": "local", "content": "iso"},
		pve.Upload{Name: "tiny.iso", Body: io.LimitReader(strings.NewReader(content), 100), Size: int64(len(content))},
		&upid)
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.WaitTask(ctx, upid)
	fmt.Println(err)
	// Output:
	// <nil>
}

// A write whose answer was lost is not repeated, because it may have taken effect. Where
// repeating does no harm, the client can be told so.
func ExampleWithSafeWrites() {
	_, lab := startLab()
	defer lab.Close()
	id, secret := lab.RootToken()
	put := func(opts ...pve.Option) error {
		client, err := pve.NewClient(lab.URL(), append(opts, pve.WithAPIToken(id, secret), pve.WithRootCAs(lab.CertPool()))...)
		if err != nil {
			return err
		}
		lab.Fail(pvetest.Fault{Match: "PUT /nodes/pve1/qemu/9000/config", Cut: pvetest.CutAfter})
		return client.UpdateVMConfig(context.Background(), pve.UpdateVMConfigParams{Node: "pve1", VMID: 9000, Description: new("golden")})
	}
	err := put()
	fmt.Println("may have taken effect:", errors.Is(err, pve.ErrNoAnswer))
	err = put(pve.WithSafeWrites(func(method, path string) bool { return method == http.MethodPut && strings.HasSuffix(path, "/config") }))
	fmt.Println(err)
	// Output:
	// may have taken effect: true
	// <nil>
}

// The state of a task while it runs.
func ExampleWithTaskProgress() {
	client, lab := startLab()
	defer lab.Close()
	lab.TasksTake(2) // looks, before a task ends
	ctx := context.Background()
	upid, err := client.CloneVM(ctx, pve.CloneVMParams{Node: "pve1", VMID: 9000, NewID: 101})
	if err != nil {
		log.Fatal(err)
	}
	looks := 0
	result, err := client.WaitTask(ctx, upid, pve.WithTaskProgress(func(pve.TaskProgress) { looks++ }))
	fmt.Println(looks > 0, result.ExitStatus, err)
	// Output:
	// true OK <nil>
}

// A session that is over is forgotten; the next call begins a new one.
func ExampleClient_Logout() {
	lab, err := pvetest.New(pvetest.WithRootPassword("correct horse"))
	if err != nil {
		log.Fatal(err)
	}
	defer lab.Close()
	ctx := context.Background()
	client, err := pve.NewClient(lab.URL(), pve.WithRootCAs(lab.CertPool()), pve.WithPassword("root@pam", "correct horse"))
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		if _, err := client.Version(ctx); err != nil {
			log.Fatal(err)
		}
	}
	if err := client.Logout(ctx); err != nil {
		log.Fatal(err)
	}
	if _, err := client.Version(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(lab.Count("POST /access/ticket"), "logins")
	// Output:
	// 2 logins
}
