package pvetest_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/proxkit/proxkit/pve/pvetest"
)

// request is a call without a client library.
func request(srv *pvetest.Server, method, path, form string) string {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: srv.CertPool()}, DisableKeepAlives: true}}
	req, err := http.NewRequest(method, srv.URL()+"/api2/json"+path, strings.NewReader(form))
	if err != nil {
		return err.Error()
	}
	id, secret := srv.RootToken()
	req.Header.Set("Authorization", "PVEAPIToken="+id+"="+secret)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if form == "" {
		req.Body = http.NoBody
	}
	resp, err := client.Do(req)
	if err != nil {
		return "no answer"
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return resp.Status
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err != nil {
		return err.Error()
	}
	return "OK"
}

func Example() {
	srv, err := pvetest.New(pvetest.WithNodes("pve1", "pve2"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()

	fmt.Println(request(srv, "POST", "/nodes/pve2/qemu", "vmid=100&name=web&virtio0=local:8"))
	vm, ok := srv.VM(100)
	fmt.Println(ok, vm.Node, vm.Config["name"], vm.Config["virtio0"])
	fmt.Println(request(srv, "POST", "/nodes/pve1/qemu", "vmid=100"))
	fmt.Println(srv.Count("POST /nodes/*/qemu"), "creates")
	// Output:
	// OK
	// true pve2 web local:100/vm-100-disk-0.raw,size=8G
	// 500 unable to create VM 100 - VM 100 already exists on node 'pve2'
	// 2 creates
}

func ExampleServer_Fail() {
	srv, err := pvetest.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()

	srv.Fail(pvetest.Fault{Match: "POST /pools", Status: 500, Phrase: "got no worker upid - start worker failed"})
	srv.Fail(pvetest.Fault{Match: "POST /pools", Nth: 2, Cut: pvetest.CutAfter})
	fmt.Println(request(srv, "POST", "/pools", "poolid=a"))
	fmt.Println(request(srv, "POST", "/pools", "poolid=a"))
	_, _, ok := srv.Pool("a")
	fmt.Println("made all the same:", ok)
	// Output:
	// 500 got no worker upid - start worker failed
	// no answer
	// made all the same: true
}

func ExampleServer_TasksTake() {
	srv, err := pvetest.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()

	srv.TasksTake(2)
	request(srv, "POST", "/nodes/pve1/qemu", "vmid=100&name=web")
	task := srv.Tasks()[0]
	for range 2 {
		request(srv, "GET", "/nodes/pve1/tasks/"+task.UPID+"/status", "")
		fmt.Printf("%q\n", srv.Tasks()[0].Status)
	}
	// Output:
	// ""
	// "OK"
}

func ExampleServer_SetACL() {
	srv, err := pvetest.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()

	srv.AddPool("bosh")
	srv.AddRole("CPI", "VM.Allocate", "VM.Audit", "VM.Config.Options")
	secret := srv.AddToken("bosh@pve!cpi", true)
	srv.SetACL("/pool/bosh", "bosh@pve", "CPI")     // a token never has more rights than its user,
	srv.SetACL("/pool/bosh", "bosh@pve!cpi", "CPI") // and a separated one none but its own
	fmt.Println(len(secret) > 0)
	// Output: true
}
