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
	"time"

	"github.com/proxkit/proxkit/pve"
	"github.com/proxkit/proxkit/pve/pvetest"
)

// What an operation needs, from the description of the API.
func ExamplePrivileges() {
	need, err := pve.Privileges("CloneVM", pve.CloneVMParams{Node: "pve1", VMID: 9000, NewID: 101, Pool: new("web")})
	fmt.Println(need, err)

	// Without parameters, their names stand in the paths.
	need, err = pve.Privileges("POST /nodes/{node}/qemu/{vmid}/status/start", nil)
	fmt.Println(need, err)
	// Output:
	// VM.Clone on /vms/9000 and (VM.Allocate on /vms/101 or VM.Allocate on /pool/web) and more <nil>
	// VM.PowerMgmt on /vms/{vmid} <nil>
}

// Ask before the work begins whether a token may do all of it.
func ExampleClient_CheckPrivileges() {
	lab, err := pvetest.New()
	if err != nil {
		log.Fatal(err)
	}
	defer lab.Close()
	secret := lab.AddToken("ops@pve!deploy", true)
	lab.SetACL("/", "ops@pve", "Administrator")
	lab.SetACL("/vms/9000", "ops@pve!deploy", "PVETemplateUser")
	lab.AddPool("web")
	client, err := pve.NewClient(lab.URL(), pve.WithAPIToken("ops@pve!deploy", secret), pve.WithRootCAs(lab.CertPool()))
	if err != nil {
		log.Fatal(err)
	}

	unsure, err := client.CheckPrivileges(context.Background(),
		pve.Op{Name: "CloneVM", Params: pve.CloneVMParams{Node: "pve1", VMID: 9000, NewID: 101, Pool: new("web")}},
		pve.Op{Name: "StartVM", Params: pve.StartVMParams{Node: "pve1", VMID: 101}},
	)
	if lacks, ok := errors.AsType[*pve.PrivilegeError](err); ok {
		for _, missing := range lacks.Missing {
			fmt.Printf("%s: %s\n", missing.Op, missing)
		}
	}
	for _, condition := range unsure {
		fmt.Println(condition)
	}
	// Output:
	// CloneVM: VM.Allocate on /vms/101, or VM.Allocate on /pool/web
	// StartVM: VM.PowerMgmt on /vms/101
	// CloneVM: the server checks more than the API description says
}

// Which releases have an operation or a parameter.
func ExampleSince() {
	for _, q := range [][2]string{{"ListHARules", ""}, {"CreateVM", "allow-ksm"}, {"CreateVM", "memory"}} {
		since, err := pve.Since(q[0], q[1])
		fmt.Println(q[0], q[1], since, err)
	}
	// Output:
	// ListHARules  9.1.0 <nil>
	// CreateVM allow-ksm 9.1.0 <nil>
	// CreateVM memory 0.0.0 <nil>
}

// Versions can be compared. But there is no need to ask before a call: where the server
// does not know it, the error says so, and since when it would.
func ExampleClient_Version() {
	client, lab := startLab()
	defer lab.Close()
	ctx := context.Background()

	version, err := client.Version(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(version.AtLeast(9, 0))

	rules, err := client.ListHARules(ctx, pve.ListHARulesParams{})
	switch {
	case errors.Is(err, pve.ErrUnknownToServer):
		fmt.Println("this release has groups instead:", err)
	case err != nil:
		log.Fatal(err)
	default:
		fmt.Println(len(rules), "rules")
	}
	// Output:
	// true
	// 0 rules
}

// Download a file, and go on where the connection broke.
func ExampleClient_DoDownload() {
	const content = "the whole of the file"
	cut := true
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if cut { // the first answer breaks off
			cut = false
			w.Header().Set("Content-Length", "21")
			fmt.Fprint(w, content[:9])
			return
		}
		http.ServeContent(w, r, "file", time.Time{}, strings.NewReader(content))
	}))
	defer server.Close()
	client, err := pve.NewClient(server.URL, pve.WithAPIToken("ops@pve!deploy", "secret"), pve.WithTransport(server.Client().Transport))
	if err != nil {
		log.Fatal(err)
	}
	var file strings.Builder
	for {
		download, err := client.DoDownload(context.Background(), "/nodes/{node}/some/file", map[string]any{"node": "pve1"}, int64(file.Len()))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("from byte", download.Offset)
		_, err = io.Copy(&file, download)
		download.Close()
		if err == nil {
			break
		}
	}
	fmt.Println(file.String())
	// Output:
	// from byte 0
	// from byte 9
	// the whole of the file
}
