package operations_test

import (
	"fmt"
	"strings"

	"github.com/proxkit/proxkit/pve/operations"
)

// The help of a command line, from the parameters of an operation.
func ExampleFind() {
	op, err := operations.Find("POST /nodes/{node}/qemu/{vmid}/snapshot")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(op.Name, op.Kind)
	for p := range op.Params() {
		text := "--" + p.Name + " " + strings.ToUpper(p.Type)
		if !p.Required {
			text = "[" + text + "]"
		}
		fmt.Println(text)
	}
	// Output:
	// CreateVMSnapshot task
	// --node STRING
	// --vmid INTEGER
	// --snapname STRING
	// [--description STRING]
	// [--vmstate BOOLEAN]
}

// Which operations delete something and need no more than a privilege on a guest?
func ExampleAll() {
	for op := range operations.All() {
		need := op.Requirement()
		if op.Method == "DELETE" && need.Kind == operations.Priv && need.Path == "/vms/{vmid}" && strings.Contains(op.Path, "/qemu/{vmid}/snapshot") {
			fmt.Println(op.Name, need)
		}
	}
	// Output:
	// DeleteVMSnapshot VM.Snapshot on /vms/{vmid}
}
