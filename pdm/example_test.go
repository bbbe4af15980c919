package pdm_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/proxkit/proxkit/pdm"
)

// startServer stands in for a Proxmox Datacenter Manager that knows the cluster "lab".
func startServer() *httptest.Server {
	const upid = "pve:lab!UPID:pve1:000011A5:00052BA7:6B0E103A:qmstart:100:root@pam!pdm:"
	answers := map[string]string{
		"POST /api2/json/pve/remotes/lab/qemu/100/start":           `{"data":"` + upid + `"}`,
		"GET /api2/json/pve/remotes/lab/tasks/" + upid + "/status": `{"data":{"status":"stopped","exitstatus":"OK"}}`,
	}
	return httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json;charset=UTF-8")
		fmt.Fprint(w, answers[r.Method+" "+r.URL.Path])
	}))
}

// Start a virtual machine on another installation and wait for the task there.
func ExampleClient_WaitTask() {
	server := startServer()
	defer server.Close()
	client, err := pdm.NewClient(server.URL,
		pdm.WithAPIToken("root@pam!deploy", "12345678-1234-1234-1234-123456789abc"),
		pdm.WithTransport(server.Client().Transport), // or WithRootCAs, WithFingerprint
	)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	upid, err := client.StartPVEVM(ctx, pdm.StartPVEVMParams{Remote: "lab", VMID: 100})
	if err != nil {
		log.Fatal(err)
	}
	info, err := upid.Parse()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Type, info.ID, "on", info.Node, "of", info.Remote)
	result, err := client.WaitTask(ctx, upid)
	fmt.Println(result.ExitStatus, err)
	// Output:
	// qmstart 100 on pve1 of lab
	// OK <nil>
}
