package pbs_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"

	"github.com/proxkit/proxkit/pbs"
)

// Walk through all tasks of the server, page by page.
func ExampleClient_AllTasks() {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start, _ := strconv.Atoi(r.FormValue("start"))
		var rows []string
		for i := start; i < min(start+2, 3); i++ {
			rows = append(rows, fmt.Sprintf(`{"upid":"UPID:pbs1:00000267:0011E1D7:0000000%d:6A48CA08:prune:store1:root@pam:","worker_type":"prune"}`, i))
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"data":[%s],"total":3}`, strings.Join(rows, ","))
	}))
	defer server.Close()
	client, err := pbs.NewClient(server.URL, pbs.WithAPIToken("ops@pbs!ci", "secret"), pbs.WithTransport(server.Client().Transport))
	if err != nil {
		log.Fatal(err)
	}
	for task, err := range client.AllTasks(context.Background(), pbs.ListTasksParams{Node: "localhost", Limit: new(int64(2))}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(task.WorkerType, task.UPID)
	}
	// Output:
	// prune UPID:pbs1:00000267:0011E1D7:00000000:6A48CA08:prune:store1:root@pam:
	// prune UPID:pbs1:00000267:0011E1D7:00000001:6A48CA08:prune:store1:root@pam:
	// prune UPID:pbs1:00000267:0011E1D7:00000002:6A48CA08:prune:store1:root@pam:
}

// What an operation needs, from the description of the API.
func ExamplePrivileges() {
	need, err := pbs.Privileges("StartGarbageCollection", pbs.StartGarbageCollectionParams{Store: "store1"})
	fmt.Println(need, err)
	// Output:
	// Datastore.Modify on /datastore/store1 <nil>
}

// Texts of keys and values are structures. A value with a comma is quoted.
func ExampleParseMaintenanceMode() {
	mode, err := pbs.ParseMaintenanceMode(`offline,message="disks, all of them"`)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(mode.Type, *mode.Message)
	fmt.Println(pbs.MaintenanceMode{Type: "read-only", Message: new("back soon, we hope")})
	// Output:
	// offline disks, all of them
	// read-only,message="back soon, we hope"
}
