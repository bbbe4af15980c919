package pve_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"strings"
	"time"

	"github.com/proxkit/proxkit/pve"
	"github.com/proxkit/proxkit/pve/pvetest"
)

// startLab starts a simulated cluster with the template 9000 and returns a client for
// it, so that the examples run without a Proxmox VE at hand.
func startLab() (*pve.Client, *pvetest.Server) {
	lab, err := pvetest.New()
	if err != nil {
		log.Fatal(err)
	}
	if err := lab.AddVM(9000, pvetest.VM{Config: map[string]string{"name": "debian-13", "virtio0": "local:2,format=qcow2"}}); err != nil {
		log.Fatal(err)
	}
	id, secret := lab.RootToken()
	client, err := pve.NewClient(lab.URL(), pve.WithAPIToken(id, secret), pve.WithRootCAs(lab.CertPool()))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	upid, err := client.ConvertVMToTemplate(ctx, pve.ConvertVMToTemplateParams{Node: "pve1", VMID: 9000})
	if err == nil {
		_, err = client.WaitTask(ctx, upid)
	}
	if err != nil {
		log.Fatal(err)
	}
	return client, lab
}

// Clone a template, wait for the task and tell the failures apart.
func ExampleClient_CloneVM() {
	client, lab := startLab()
	defer lab.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()

	clone := func(vmid int64) error {
		upid, err := client.CloneVM(ctx, pve.CloneVMParams{Node: "pve1", VMID: 9000, NewID: vmid, Name: new("web-1")})
		if err != nil {
			return err
		}
		_, err = client.WaitTask(ctx, upid)
		return err
	}
	for range 2 {
		switch err := clone(101); {
		case err == nil:
			fmt.Println("cloned")
		case errors.Is(err, pve.ErrGuestExists):
			fmt.Println("VMID 101 is taken")
		case errors.Is(err, pve.ErrPermission):
			fmt.Println("a privilege is missing:", err)
		default:
			fmt.Println(err)
		}
	}
	// Output:
	// cloned
	// VMID 101 is taken
}

// A task that ran and failed is a [pve.TaskError] with the end of its log.
func ExampleTaskError() {
	client, lab := startLab()
	defer lab.Close()
	ctx := context.Background()
	lab.FailTask("qmclone:9000", "can't lock file '/var/lock/qemu-server/lock-9000.conf' - got timeout")

	upid, err := client.CloneVM(ctx, pve.CloneVMParams{Node: "pve1", VMID: 9000, NewID: 101})
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.WaitTask(ctx, upid)
	if failed, ok := errors.AsType[*pve.TaskError](err); ok {
		fmt.Println(failed.ExitStatus)
		fmt.Println("locked:", errors.Is(err, pve.ErrLocked), failed.Lock())
		fmt.Println("worth another try:", pve.IsRetryable(err))
	}
	// Output:
	// can't lock file '/var/lock/qemu-server/lock-9000.conf' - got timeout
	// locked: true lock-9000.conf
	// worth another try: true
}

// What the server refuses is a [pve.Error] with the complaints by parameter.
func ExampleError() {
	client, lab := startLab()
	defer lab.Close()

	err := client.UpdateVMConfig(context.Background(), pve.UpdateVMConfigParams{Node: "pve1", VMID: 9000, Cores: new(int64(0))})
	if refused, ok := errors.AsType[*pve.Error](err); ok {
		fmt.Println(refused.Status, refused.Message)
		for name, complaint := range refused.Params {
			fmt.Printf("%s: %s\n", name, complaint)
		}
	}
	// Output:
	// 400 Parameter verification failed.
	// cores: value must have a minimum value of 1
}

// The log of a task can be followed while it runs.
func ExampleWithTaskLog() {
	client, lab := startLab()
	defer lab.Close()
	ctx := context.Background()

	upid, err := client.CloneVM(ctx, pve.CloneVMParams{Node: "pve1", VMID: 9000, NewID: 101})
	if err != nil {
		log.Fatal(err)
	}
	last := ""
	result, err := client.WaitTask(ctx, upid, pve.WithTaskLog(func(line pve.TaskLogLine) { last = line.Text }))
	fmt.Println(last, result.Warnings, err)
	// Output:
	// TASK OK 0 <nil>
}

// Many tasks are waited for in one loop.
func ExampleClient_WaitTasks() {
	client, lab := startLab()
	defer lab.Close()
	ctx := context.Background()

	var upids []pve.UPID
	for vmid := range int64(3) {
		upid, err := client.CloneVM(ctx, pve.CloneVMParams{Node: "pve1", VMID: 9000, NewID: 101 + vmid})
		if err != nil {
			log.Fatal(err)
		}
		upids = append(upids, upid)
	}
	results, err := client.WaitTasks(ctx, upids)
	fmt.Println(len(results), err)
	// Output:
	// 3 <nil>
}

// Trust on first use: ask for the fingerprint once, let someone confirm it, and pin it
// from then on.
func ExampleWithFingerprint() {
	_, lab := startLab()
	defer lab.Close()
	id, secret := lab.RootToken()
	ctx := context.Background()

	// A pin that fits no certificate: the connection ends before the token is sent.
	nobody := strings.Repeat("00", 32)
	first, err := pve.NewClient(lab.URL(), pve.WithFingerprint(nobody))
	if err != nil {
		log.Fatal(err)
	}
	_, err = first.GetVersion(ctx)
	mismatch, ok := errors.AsType[*pve.FingerprintError](err)
	if !ok {
		log.Fatal(err)
	}
	confirmed := mismatch.Got // shown to someone, who compares it with the node's certificate

	client, err := pve.NewClient(lab.URL(), pve.WithAPIToken(id, secret), pve.WithFingerprint(confirmed))
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.GetVersion(ctx)
	fmt.Println("pinned:", err == nil)
	// Output:
	// pinned: true
}

// One process logs in, another goes on with its ticket.
func ExampleClient_Ticket() {
	lab, err := pvetest.New(pvetest.WithRootPassword("correct horse"))
	if err != nil {
		log.Fatal(err)
	}
	defer lab.Close()
	ctx := context.Background()

	first, err := pve.NewClient(lab.URL(), pve.WithRootCAs(lab.CertPool()), pve.WithPassword("root@pam", "correct horse"))
	if err != nil {
		log.Fatal(err)
	}
	ticket, err := first.Ticket(ctx)
	if err != nil {
		log.Fatal(err)
	}
	// A ticket travels as JSON. It is as good as a password until it runs out.
	second, err := pve.NewClient(lab.URL(), pve.WithRootCAs(lab.CertPool()), pve.WithTicket(ticket))
	if err != nil {
		log.Fatal(err)
	}
	_, err = second.GetVersion(ctx)
	fmt.Println(err)
	// Output:
	// <nil>
}

// Upload a file with a checksum, which the server compares.
func ExampleClient_UploadToStorage() {
	client, lab := startLab()
	defer lab.Close()
	ctx := context.Background()

	upid, err := client.UploadToStorage(ctx,
		pve.UploadToStorageParams{Node: "pve1", Storage: "local", Content: "iso", Filename: "tiny.iso"},
		pve.Upload{
			Body:     strings.NewReader("not much of an image"),
			Checksum: "sha256",
			Progress: func(sent, size int64) { fmt.Println(sent, "of", size) },
		})
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.WaitTask(ctx, upid)
	fmt.Println(err)
	// Output:
	// 20 of 20
	// <nil>
}

// Do reaches operations that the package has no method for, with the same encoding,
// errors and retries.
func ExampleClient_Do() {
	client, lab := startLab()
	defer lab.Close()

	var config struct {
		Name   string `json:"name"`
		Memory int64  `json:"memory"`
	}
	err := client.Do(context.Background(), http.MethodGet, "/nodes/{node}/qemu/{vmid}/config",
		map[string]any{"node": "pve1", "vmid": 9000}, &config)
	fmt.Println(config.Name, err)
	// Output:
	// debian-13 <nil>
}

// Several nodes of a cluster, and fewer attempts than usual.
func ExampleWithEndpoints() {
	client, err := pve.NewClient("pve1.example.com",
		pve.WithEndpoints("pve2.example.com", "pve3.example.com"),
		pve.WithAPIToken("automation@pve!deploy", "12345678-1234-1234-1234-123456789abc"),
		pve.WithRetry(pve.RetryPolicy{Attempts: 2}),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.CloseIdleConnections()
	fmt.Println("no connection has been opened yet")
	// Output:
	// no connection has been opened yet
}
