package cpi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/apidoc"
	"github.com/proxkit/proxkit/cpi"
	"github.com/proxkit/proxkit/cpi/rpc"
)

func testScope() cpi.PrivilegeScope {
	return cpi.PrivilegeScope{
		Pool: poolName, ImageStorages: []string{"shared"}, ISOStorage: "iso", ImportStorage: "iso", Bridges: []string{"vmbr0"},
	}
}

// With any one privilege missing, every call either works or says which privilege
// is missing on which path, and something fails.
func TestMissingPrivilegesAreNamed(t *testing.T) {
	t.Parallel()
	for _, p := range cpi.Privileges(testScope()) {
		for _, missing := range p.Privileges {
			t.Run(missing+" on "+p.Path, func(t *testing.T) {
				t.Parallel()
				b := newBed(t)
				ctx := t.Context()
				stemcell := b.stemcell()
				vm, _ := b.vm(stemcell)
				disk, loose := b.disk(vm), b.disk(vm)
				_, err := b.AttachDisk(ctx, vm, disk)
				require.NoError(t, err)
				b.grant(p.Path, slices.DeleteFunc(slices.Clone(p.Privileges), func(s string) bool { return s == missing })...)

				failed := 0
				check := func(method string, err error) {
					t.Helper()
					if err == nil {
						return
					}
					failed++
					text := rpc.ErrorOf(err).Error()
					assert.Contains(t, text, missing, method)
					assert.Contains(t, text, p.Path, method)
				}
				other, err := b.CreateStemcell(ctx, b.image(6*gib), raw(`{}`), nil)
				check("create_stemcell", err)
				second, _, err := b.CreateVM(ctx, order(stemcell, "agent-2", `{"cpu":1,"ram":1024,"root_disk":{"size":8192},"ephemeral_disk":{"size":4096}}`))
				check("create_vm", err)
				_, err = b.HasVM(ctx, vm)
				check("has_vm", err)
				check("set_vm_metadata", b.SetVMMetadata(ctx, vm, rpc.Metadata{"job": "web"}))
				_, err = b.CreateDisk(ctx, 1024, raw(`{}`), vm)
				check("create_disk", err)
				_, err = b.HasDisk(ctx, loose)
				check("has_disk", err)
				_, err = b.AttachDisk(ctx, vm, loose)
				check("attach_disk", err)
				check("set_disk_metadata", b.SetDiskMetadata(ctx, disk, rpc.Metadata{"job": "web"}))
				_, err = b.GetDisks(ctx, vm)
				check("get_disks", err)
				check("reboot_vm", b.RebootVM(ctx, vm))
				err = b.DetachDisk(ctx, vm, disk)
				check("detach_disk", err)
				check("resize_disk", b.ResizeDisk(ctx, disk, 20480))
				if err == nil {
					check("delete_disk", b.DeleteDisk(ctx, disk))
				}
				check("delete_vm", b.DeleteVM(ctx, vm))
				if second != "" {
					check("delete_vm", b.DeleteVM(ctx, second))
				}
				if other != "" {
					check("delete_stemcell", b.DeleteStemcell(ctx, other))
				}
				assert.Positive(t, failed, "nothing needs %s on %s", missing, p.Path)
			})
		}
	}
}

// The list of calls is what the CPI really does, and the privileges agree with
// what the API's description says about each.
func TestPrivilegesCoverTheCalls(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	stemcell := b.stemcell()
	vm, _ := b.vm(stemcell)
	disk := b.disk(vm)
	_, err := b.AttachDisk(ctx, vm, disk)
	require.NoError(t, err)
	require.NoError(t, b.RebootVM(ctx, vm))
	require.NoError(t, b.DetachDisk(ctx, vm, disk))
	require.NoError(t, b.ResizeDisk(ctx, disk, 20480))
	require.NoError(t, b.DeleteDisk(ctx, disk))
	require.NoError(t, b.DeleteVM(ctx, vm))
	require.NoError(t, b.DeleteStemcell(ctx, stemcell))

	listed := map[string][]string{}
	for _, c := range cpi.APICalls() {
		listed[c.Operation] = c.Privileges
	}
	for _, r := range b.srv.Requests() {
		assert.Contains(t, listed, r.Method+" "+r.Template)
	}
	doc, err := apidoc.Latest("pve")
	require.NoError(t, err)
	for _, op := range doc.Operations {
		privileges, ok := listed[op.Method+" "+op.Path]
		if !ok || op.Permissions == nil || op.Permissions.Check == nil {
			continue
		}
		// What the CPI does without is no need.
		if op.Path == "/cluster/status" {
			continue
		}
		assertChecked(t, op.Method+" "+op.Path, op.Permissions.Check, privileges)
		delete(listed, op.Method+" "+op.Path)
	}
}

// assertChecked asserts that privileges satisfy a permission check.
func assertChecked(t *testing.T, op string, c *apidoc.Check, privileges []string) {
	t.Helper()
	ok := func(c *apidoc.Check) bool {
		have := 0
		for _, p := range c.Privs {
			if slices.Contains(privileges, p) {
				have++
			}
		}
		return have == len(c.Privs) || c.Any && have > 0
	}
	switch c.Op {
	case "perm":
		assert.True(t, ok(c), "%s needs %v on %s, listed are %v", op, c.Privs, c.Path, privileges)
	case "and":
		for _, sub := range c.Checks {
			assertChecked(t, op, sub, privileges)
		}
	case "or":
		assert.True(t, slices.ContainsFunc(c.Checks, ok), "%s", op)
	}
}

func ExamplePrivileges() {
	for _, p := range cpi.Privileges(cpi.PrivilegeScope{
		Pool: "bosh", ImageStorages: []string{"ceph"}, ISOStorage: "nfs", ImportStorage: "nfs", Bridges: []string{"vmbr0"},
	}) {
		fmt.Printf("%-32s %s\n", p.Path, strings.Join(p.Privileges, " "))
	}
	// Output:
	// /pool/bosh                       VM.Allocate VM.Audit VM.Clone VM.Config.CDROM VM.Config.CPU VM.Config.Disk VM.Config.Memory VM.Config.Network VM.Config.Options VM.PowerMgmt
	// /sdn/zones/localnetwork/vmbr0    SDN.Use
	// /storage/ceph                    Datastore.AllocateSpace Datastore.Audit
	// /storage/nfs                     Datastore.Allocate Datastore.AllocateTemplate Datastore.Audit
}
