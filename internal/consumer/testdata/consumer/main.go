// A program outside the module that uses the clients as any user would.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/proxkit/proxkit/pbs"
	"github.com/proxkit/proxkit/pdm"
	"github.com/proxkit/proxkit/pve"
	"github.com/proxkit/proxkit/pve/operations"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: consumer ENDPOINT TOKENID SECRET")
		os.Exit(2)
	}
	client, err := pve.NewClient(os.Args[1], pve.WithAPIToken(os.Args[2], os.Args[3]))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ctx := context.Background()
	version, err := client.Version(ctx)
	switch {
	case errors.Is(err, pve.ErrAuthentication):
		fmt.Fprintln(os.Stderr, "the token is not accepted:", err)
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(version, version.AtLeast(9, 0))
	if err := clone(ctx, client); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for task, err := range client.AllTasks(ctx, pve.ListTasksParams{Node: "pve1"}) {
		if err != nil {
			break
		}
		fmt.Println(task.UPID)
	}

	backup, _ := pbs.NewClient(os.Args[1])
	manager, _ := pdm.NewClient(os.Args[1])
	_ = backup.AllTasks
	_ = manager.CheckPrivileges
}

// clone makes a guest of a template, when the token may.
func clone(ctx context.Context, client *pve.Client) error {
	op, err := operations.Find("CloneVM")
	if err != nil {
		return err
	}
	params := pve.CloneVMParams{Node: "pve1", VMID: 9000}
	unsure, err := client.CheckPrivileges(ctx, pve.Op{Name: op.Name, Params: params})
	if lacks, ok := errors.AsType[*pve.PrivilegeError](err); ok {
		for _, missing := range lacks.Missing {
			fmt.Println("missing:", missing)
		}
		return err
	}
	for _, condition := range unsure {
		fmt.Println("not certain:", condition)
	}
	vmid, err := client.CloneVMWithNextID(ctx, params)
	switch failed := (*pve.TaskError)(nil); {
	case errors.As(err, &failed):
		return fmt.Errorf("the clone ran and failed: %s", failed.ExitStatus)
	case errors.Is(err, pve.ErrUnknownToServer), errors.Is(err, pve.ErrLocked):
		return err
	case err != nil:
		return err
	}
	return client.UpdateVMConfig(ctx, pve.UpdateVMConfigParams{
		Node: "pve1", VMID: vmid, Cores: new(int64(2)), Tags: []string{"made-outside"},
		Net: map[int]pve.VMNet{0: {Model: "virtio", Bridge: new("vmbr0")}},
	})
}
