package wire_test

import (
	"fmt"

	"github.com/proxkit/proxkit/internal/wire"
)

func ExampleDecode() {
	type guest struct {
		VMID     int64    `json:"vmid"`
		MaxMem   *uint64  `json:"maxmem,omitempty"`
		Template *bool    `json:"template,omitempty"`
		Tags     []string `json:"tags,omitempty" px:"list"`
		PID      *int64   `json:"pid,omitempty"`
	}
	var guests []guest
	err := wire.Decode([]byte(`[
		{"vmid": 100, "maxmem": 1.7179869184e10, "template": "", "tags": "prod;web", "pid": "14558"},
		{"vmid": "101", "maxmem": {}, "template": 1, "tags": " ", "pid": null}
	]`), &guests, func(m wire.Misfit) { fmt.Println("misfit:", m) })
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, g := range guests {
		fmt.Println(g.VMID, *g.Template, g.Tags, g.MaxMem != nil, g.PID != nil)
	}
	// Output:
	// misfit: [1].maxmem: want integer, not negative, got {}
	// 100 false [prod web] true true
	// 101 true [] false false
}

func ExampleEncodeForm() {
	type updateParams struct {
		Node   string         `json:"node"`
		VMID   int64          `json:"vmid"`
		Delete []string       `json:"delete,omitempty" px:"list"`
		Memory *int64         `json:"memory,omitempty"`
		Net    map[int]string `json:"net[n],omitempty"`
		OnBoot *bool          `json:"onboot,omitempty"`
		Tags   []string       `json:"tags,omitempty" px:"list"`
	}
	p := updateParams{
		Node: "pve1", VMID: 100, OnBoot: new(false), Delete: []string{"net1", "ipconfig1"},
		Net: map[int]string{0: "virtio,bridge=vmbr0"}, Tags: []string{},
	}
	path, used, err := wire.Path("/nodes/{node}/qemu/{vmid}/config", &p)
	fmt.Println(path, err)
	form, err := wire.EncodeForm(&p, used)
	fmt.Println(form, err)
	// Output:
	// /nodes/pve1/qemu/100/config <nil>
	// delete=net1%2Cipconfig1&net0=virtio%2Cbridge%3Dvmbr0&onboot=0&tags= <nil>
}

func ExampleEncodeJSON() {
	params := map[string]any{"command": []string{"hostname"}, "input-data": "", "wait": true}
	for _, dialect := range []wire.Dialect{wire.Perl, wire.Rust} {
		body, err := wire.EncodeJSON(params, dialect, nil)
		fmt.Println(string(body), err)
	}
	fmt.Println(wire.FormFits(params, nil))
	// Output:
	// {"command":["hostname"],"input-data":"","wait":1} <nil>
	// {"command":["hostname"],"input-data":"","wait":true} <nil>
	// false
}

func ExamplePath() {
	fmt.Println(wire.Path("/storage/{storage}/content/{volume}", map[string]any{"storage": "local", "volume": "local:iso/my file.iso"}))
	fmt.Println(wire.Path("/nodes/{node}/qemu", map[string]any{"node": ""}))
	// Output:
	// /storage/local/content/local%3Aiso%2Fmy%20file.iso [storage volume] <nil>
	//  [] path parameter node: must not be empty
}

// A property string keeps what the caller does not touch: its order, its spelling and
// the keys that the struct does not know.
func ExampleFormatProps() {
	raw := "virtio=BC:24:11:00:00:01,firewall=on,bridge=vmbr0,newer-option=7"
	var n vmNet
	if err := wire.ParseProps(raw, &n); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(n.Model, *n.MACAddr, *n.Firewall, n.Extra)
	n.Bridge = new("vmbr1")
	n.Tag = new(int64(30))
	fmt.Println(wire.FormatProps(n, raw))
	// Output:
	// virtio BC:24:11:00:00:01 true map[newer-option:7]
	// virtio=BC:24:11:00:00:01,firewall=on,bridge=vmbr1,newer-option=7,tag=30
}

func ExampleParseSize() {
	a, _ := wire.ParseSize("4096G")
	b, _ := wire.ParseSize("4T")
	fmt.Println(a == b, wire.FormatSize(a))
	// Output: true 4T
}
