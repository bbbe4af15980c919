package pvetest_test

import (
	"fmt"

	"github.com/proxkit/proxkit/pve/pvetest"
)

func ExampleServer_AddStorage() {
	srv, err := pvetest.New(pvetest.WithNodes("pve1", "pve2"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()

	err = srv.AddStorage("thin", pvetest.Storage{Type: "lvmthin", Size: 100 << 30}) // of each node its own
	if err != nil {
		fmt.Println(err)
		return
	}
	err = srv.AddStorage("ceph", pvetest.Storage{Type: "rbd"}) // one for all nodes
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(request(srv, "POST", "/nodes/pve1/qemu", "vmid=100&virtio0=ceph:4&virtio1=thin:4"))
	for _, v := range srv.Volumes("") {
		fmt.Printf("%s on %q: %d GiB\n", v.ID, v.Node, v.Size>>30)
	}
	fmt.Println(request(srv, "POST", "/nodes/pve1/qemu/100/clone", "newid=101&target=pve2"))
	// Output:
	// OK
	// ceph:vm-100-disk-0 on "": 4 GiB
	// thin:vm-100-disk-0 on "pve1": 4 GiB
	// 500 can't clone VM to node 'pve2' (VM uses local storage)
}

func ExampleServer_SetAgent() {
	srv, err := pvetest.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()

	err = srv.AddVM(100, pvetest.VM{Running: true, Config: map[string]string{"agent": "1"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(request(srv, "POST", "/nodes/pve1/qemu/100/agent/ping", ""))
	err = srv.SetAgent(100, &pvetest.Agent{Files: map[string]string{"/etc/hostname": "web\n"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(request(srv, "POST", "/nodes/pve1/qemu/100/agent/ping", ""))
	// Output:
	// 500 QEMU guest agent is not running
	// OK
}

func ExampleServer_ServeURL() {
	srv, err := pvetest.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()

	srv.ServeURL("https://mirror.example/tiny.iso", []byte("not much of an image"))
	for _, name := range []string{"tiny", "gone"} {
		request(srv, "POST", "/nodes/pve1/storage/local/download-url",
			"content=iso&filename="+name+".iso&url=https://mirror.example/"+name+".iso")
		tasks := srv.Tasks()
		fmt.Println(tasks[len(tasks)-1].Status)
	}
	data, err := srv.VolumeBytes("local:iso/tiny.iso")
	fmt.Println(string(data), err)
	// Output:
	// OK
	// download failed: wget: unable to resolve host address 'mirror.example'
	// not much of an image <nil>
}

func ExampleServer_RunHA() {
	srv, err := pvetest.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()

	request(srv, "POST", "/nodes/pve1/qemu", "vmid=100&ha-managed=1&start=1")
	vm, _ := srv.VM(100)
	fmt.Println("running:", vm.Running)
	fmt.Println("changed:", srv.RunHA())
	vm, _ = srv.VM(100)
	fmt.Println("running:", vm.Running)
	// Output:
	// running: false
	// changed: [100]
	// running: true
}
