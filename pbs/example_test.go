package pbs_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/proxkit/proxkit/pbs"
)

// startServer stands in for a Proxmox Backup Server that has one datastore.
func startServer() *httptest.Server {
	const upid = "UPID:pbs1:00000267:0011E1D7:00000009:6A48CA08:garbage_collection:store1:root@pam!deploy:"
	answers := map[string]string{
		"POST /api2/json/admin/datastore/store1/gc":           `{"data":"` + upid + `"}`,
		"GET /api2/json/nodes/pbs1/tasks/" + upid + "/status": `{"data":{"status":"stopped","exitstatus":"WARNINGS: 1"}}`,
	}
	return httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.Method+" "+r.URL.Path]
		switch {
		case !strings.HasPrefix(r.Header.Get("Authorization"), "PBSAPIToken=root@pam!deploy:"):
			w.WriteHeader(http.StatusUnauthorized)
		case !ok:
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, "no such datastore 'nope'")
		default:
			w.Header().Set("Content-Type", "application/json;charset=UTF-8")
			fmt.Fprint(w, answer)
		}
	}))
}

// Start a task and wait for it. Warnings are success.
func ExampleClient_WaitTask() {
	server := startServer()
	defer server.Close()
	client, err := pbs.NewClient(server.URL,
		pbs.WithAPIToken("root@pam!deploy", "12345678-1234-1234-1234-123456789abc"),
		pbs.WithTransport(server.Client().Transport), // or WithRootCAs, WithFingerprint
	)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	upid, err := client.StartGarbageCollection(ctx, pbs.StartGarbageCollectionParams{Store: "store1"})
	if err != nil {
		log.Fatal(err)
	}
	result, err := client.WaitTask(ctx, upid)
	fmt.Println("warnings:", result.Warnings, err)

	_, err = client.StartGarbageCollection(ctx, pbs.StartGarbageCollectionParams{Store: "nope"})
	fmt.Println("not there:", errors.Is(err, pbs.ErrNotFound))
	// Output:
	// warnings: 1 <nil>
	// not there: true
}
