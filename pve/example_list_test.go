package pve_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/proxkit/proxkit/pve"
)

// Walk through all tasks of a node, the newest first. Pages are asked for as the walk
// goes on, so that leaving the loop saves the rest.
func ExampleClient_AllTasks() {
	client, lab := startLab()
	defer lab.Close()

	for task, err := range client.AllTasks(context.Background(), pve.ListTasksParams{Node: "pve1", Limit: new(int64(100))}) {
		if err != nil {
			log.Fatal(err)
		}
		info, err := task.UPID.Parse()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(info.Type, info.ID, info.User)
	}
	// Output:
	// qmtemplate 9000 root@pam
}

// One page, and how long the whole list is.
func ExampleWithMeta() {
	client, lab := startLab()
	defer lab.Close()

	tasks, meta, err := pve.WithMeta(context.Background(), client.ListTasks, pve.ListTasksParams{Node: "pve1", Limit: new(int64(10))})
	fmt.Println(len(tasks), "of", meta.Total, err)
	// Output:
	// 1 of 1 <nil>
}

// Create a machine under the next free VMID. Many programs may do so at once: each gets
// a VMID of its own.
func ExampleClient_CloneVMWithNextID() {
	client, lab := startLab()
	defer lab.Close()
	ctx := context.Background()

	for range 2 {
		vmid, err := client.CloneVMWithNextID(ctx, pve.CloneVMParams{Node: "pve1", VMID: 9000, Name: new("web")})
		fmt.Println(vmid, err)
	}
	// Output:
	// 100 <nil>
	// 101 <nil>
}

// Change a configuration without losing what someone else changed meanwhile: send the
// digest that was read, and read again on a mismatch.
func ExampleClient_UpdateVMConfig() {
	client, lab := startLab()
	defer lab.Close()
	ctx := context.Background()
	vmid, err := client.CreateVMWithNextID(ctx, pve.CreateVMParams{
		Node: "pve1", Cores: new(int64(2)), Description: new("to be removed"),
		Net: map[int]pve.VMNet{0: {Model: "virtio", MACAddr: new("BC:24:11:00:00:01"), Bridge: new("vmbr0")}},
	})
	if err != nil {
		log.Fatal(err)
	}
	for {
		conf, err := client.GetVMConfig(ctx, pve.GetVMConfigParams{Node: "pve1", VMID: vmid})
		if err != nil {
			log.Fatal(err)
		}
		net0 := conf.Net[0]
		net0.Firewall = new(true)
		err = client.UpdateVMConfig(ctx, pve.UpdateVMConfigParams{
			Node: "pve1", VMID: vmid, Digest: conf.Digest,
			Net:    map[int]pve.VMNet{0: net0},
			Delete: []string{"description"},
		})
		if errors.Is(err, pve.ErrDigestMismatch) {
			continue
		}
		fmt.Println(net0, err)
		return
	}
	// Output:
	// virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1 <nil>
}

// Texts of keys and values are structures. What was not changed is written as it was
// read, with keys that the package does not know.
func ExampleParseVMDisk() {
	disk, err := pve.ParseVMDisk("local-lvm:vm-100-disk-0,discard=on,shiny=1,size=32G")
	if err != nil {
		log.Fatal(err)
	}
	disk.IOThread = new(true)
	fmt.Println(disk)
	fmt.Println(disk.File, disk.Extra)
	// Output:
	// local-lvm:vm-100-disk-0,discard=on,shiny=1,size=32G,iothread=1
	// local-lvm:vm-100-disk-0 map[shiny:1]
}

// Whether the same call may succeed later, the error tells. A lock goes away, a missing
// privilege does not.
func ExampleIsRetryable() {
	client, lab := startLab()
	defer lab.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	lab.FailNext("PUT /nodes/pve1/qemu/9000/config", 500, "can't lock file '/var/lock/qemu-server/lock-9000.conf' - got timeout")

	for attempt := 1; ; attempt++ {
		err := client.UpdateVMConfig(ctx, pve.UpdateVMConfigParams{Node: "pve1", VMID: 9000, Cores: new(int64(2))})
		if err == nil || !pve.IsRetryable(err) {
			fmt.Println("attempt", attempt, err)
			return
		}
		timer := time.NewTimer(10 * time.Millisecond)
		select {
		case <-ctx.Done():
			fmt.Println(context.Cause(ctx))
			return
		case <-timer.C:
		}
	}
	// Output:
	// attempt 2 <nil>
}

// A value that does not fit its type does not spoil the answer: its field stays zero, and
// the hook is told.
func ExampleWithOnMisfit() {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"data":[{"vmid":"100","status":"running","cpus":"2"},{"vmid":101,"status":"stopped","cpus":"many"}]}`)
	}))
	defer server.Close()
	client, err := pve.NewClient(server.URL, pve.WithTransport(server.Client().Transport),
		pve.WithOnMisfit(func(m pve.Misfit) { fmt.Println(m.Path, m.Field, "is", m.Got) }))
	if err != nil {
		log.Fatal(err)
	}
	vms, err := client.ListVMs(context.Background(), pve.ListVMsParams{Node: "pve1"})
	for _, vm := range vms {
		fmt.Println(vm.VMID, vm.Status)
	}
	fmt.Println(err)
	// Output:
	// /nodes/pve1/qemu [1].cpus is "many"
	// 100 running
	// 101 stopped
	// <nil>
}
