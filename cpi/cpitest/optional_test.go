package cpitest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi/cpitest"
	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/internal/testimage"
	"github.com/proxkit/proxkit/pve"
)

// An able CPI has, in a simple way, what the real one need not have, so that the
// scenarios for that are tried as well.
type able struct {
	liar
	b    *bed
	root *pve.Client
}

func newAble(b *bed, h rpc.Handler) (*able, error) {
	id, secret := b.sim.RootToken()
	root, err := pve.NewClient(b.sim.URL(), pve.WithAPIToken(id, secret), pve.WithRootCAs(b.sim.CertPool()))
	return &able{liar: liar{Handler: h}, b: b, root: root}, err
}

// CreateStemcell makes a light stemcell from an image that it has itself.
func (a *able) CreateStemcell(ctx context.Context, path string, props, env json.RawMessage) (rpc.StemcellCID, error) {
	if strings.Contains(string(props), "image_id") {
		path = a.b.config + ".image"
		if err := os.WriteFile(path, testimage.Archive(testimage.QCOW2(1<<30, testimage.BootSector(1<<30), 0)), 0o600); err != nil {
			return "", err
		}
	}
	return a.Handler.CreateStemcell(ctx, path, replace(props, "image_id", "unheard_of"), env)
}

func (a *able) UpdateDisk(ctx context.Context, cid rpc.DiskCID, size int64, _ json.RawMessage) (rpc.DiskCID, error) {
	return "", a.Handler.ResizeDisk(ctx, cid, size)
}

// SnapshotDisk takes a snapshot of the VM that has the disk.
func (a *able) SnapshotDisk(ctx context.Context, cid rpc.DiskCID, _ rpc.Metadata) (rpc.SnapshotCID, error) {
	for _, id := range a.b.sim.VMIDs() {
		vm, _ := a.b.sim.VM(id)
		if slot := slotOf(vm, string(cid)); !vm.Running || slot == "" {
			continue
		}
		name := fmt.Sprintf("s%d", a.b.count.Add(1))
		upid, err := a.root.CreateVMSnapshot(ctx, pve.CreateVMSnapshotParams{Node: vm.Node, VMID: int64(id), SnapName: name})
		if err == nil {
			_, err = a.root.WaitTask(ctx, upid)
		}
		return rpc.SnapshotCID(fmt.Sprintf("%s/%d/%s", vm.Node, id, name)), err
	}
	return "", rpc.DiskNotAttached("disk %s is not attached", cid)
}

func (a *able) DeleteSnapshot(ctx context.Context, cid rpc.SnapshotCID) error {
	var p pve.DeleteVMSnapshotParams
	if _, err := fmt.Sscanf(strings.ReplaceAll(string(cid), "/", " "), "%s %d %s", &p.Node, &p.VMID, &p.SnapName); err != nil {
		return rpc.CloudError("snapshot %q: %w", cid, err)
	}
	vm, _ := a.b.sim.VM(int(p.VMID))
	if len(vm.Snapshots) == 0 {
		return rpc.DiskNotFound("snapshot %s is gone", cid)
	}
	upid, err := a.root.DeleteVMSnapshot(ctx, p)
	if err == nil {
		_, err = a.root.WaitTask(ctx, upid)
	}
	return err
}

func (a *able) CreateNetwork(_ context.Context, def rpc.NetworkDefinition) (rpc.NetworkResult, error) {
	return rpc.NetworkResult{CID: "network-1", Range: def.Range, Gateway: def.Gateway, CloudProperties: map[string]any{"bridge": "vmbr0"}}, nil
}

func (a *able) DeleteNetwork(context.Context, rpc.NetworkCID) error { return nil }

// What a CPI need not have is tried when it has it.
func TestOptionalMethods(t *testing.T) {
	t.Parallel()
	b := newBed(t, "rbd")
	open := b.open(t)
	b.opts.CPI = cpitest.Handler(func(ctx context.Context, call *rpc.Call) (rpc.Handler, error) {
		h, err := open(ctx, call)
		if err != nil {
			return nil, err
		}
		return newAble(b, h)
	})
	b.opts.LightStemcell = map[string]any{"image_id": "files:import/operator.qcow2", "version": "3"}
	b.opts.Only = []string{"update-disk", "snapshots", "light-stemcell", "networks", "nothing-left"}

	report, err := cpitest.Check(t.Context(), b.opts)

	require.NoError(t, err)
	for _, s := range report.Scenarios {
		assert.Equal(t, cpitest.Passed, s.Outcome, s.Name)
		assert.Empty(t, s.Skips, s.Name)
	}
}

// A CPI that has nothing that it can do without passes, and the report shows what
// was not tried.
func TestSmallCPI(t *testing.T) {
	t.Parallel()
	b := newBed(t, "rbd")
	optional := []string{"calculate_vm_cloud_properties", "set_vm_metadata", "set_disk_metadata", "get_disks", "resize_disk"}
	real := cpitest.Handler(b.open(t))
	b.opts.CPI = cpitest.Func(func(ctx context.Context, request []byte) (cpitest.Answer, error) {
		var r struct{ Method string }
		_ = json.Unmarshal(request, &r)
		for _, m := range optional {
			if m == r.Method {
				return cpitest.Answer{Stdout: []byte(`{"result":null,"error":{"type":"Bosh::Clouds::NotImplemented","message":"no","ok_to_retry":false},"log":""}`)}, nil
			}
		}
		return real.Call(ctx, request)
	})
	b.opts.VMProperties = map[string]any{"cpu": 1, "ram": 1024, "ephemeral_disk": map[string]any{"size": 2048}}
	b.opts.Only = []string{"new-vm", "resize-disk", "parallel", "nothing-left"}

	report, err := cpitest.Check(t.Context(), b.opts)

	require.NoError(t, err)
	var skips []string
	for _, s := range report.Scenarios {
		skips = append(skips, s.Skips...)
	}
	for _, m := range optional {
		assert.Contains(t, strings.Join(skips, "\n"), m+": the CPI answers Bosh::Clouds::NotImplemented")
	}
}

// The properties of a cpi-config come in the context and win over the file.
func TestContext(t *testing.T) {
	t.Parallel()
	b := newBed(t, "rbd")
	const secret = "context-mbus-canary"
	b.opts.Context = map[string]any{"agent": map[string]any{"mbus": "https://mbus:" + secret + "@0.0.0.0:6868"}, "cpi_config_note": secret}
	b.opts.Secrets = append(b.opts.Secrets, secret)
	b.opts.Only = []string{"stop-hard", "nothing-left"}
	_, err := cpitest.Check(t.Context(), b.opts)
	require.NoError(t, err)
}

// Local and file-based storages differ in how volumes are named, cloned and
// reached.
func TestStorageTypes(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"lvmthin", "lvm", "zfspool", "btrfs", "nfs"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, kind)
			b.opts.CPI = cpitest.Handler(b.open(t))
			b.opts.Only = []string{"recreate", "hotswap", "resize-disk", "nothing-left"}
			_, err := cpitest.Check(t.Context(), b.opts)
			require.NoError(t, err)
		})
	}
}

// A run removes what an earlier one has left, by its mark, and nothing else.
func TestSweep(t *testing.T) {
	t.Parallel()
	b := newBed(t, "rbd")
	before := b.sim.Snapshot()
	ctx, cancel := context.WithCancel(t.Context())
	inner := cpitest.Handler(b.open(t))
	b.opts.CPI = rewriting(inner, "attach_disk", func(_ []byte, a cpitest.Answer) cpitest.Answer {
		// The suite dies here.
		cancel()
		return a
	})
	b.opts.Cluster.Exclusive = false
	b.opts.Cluster.ReadVolume = nil
	b.opts.Only = []string{"hotswap"}
	report, err := cpitest.Check(ctx, b.opts)
	require.ErrorContains(t, err, "interrupted")
	require.Equal(t, cpitest.Failed, report.Outcome)
	require.Equal(t, before, b.sim.Snapshot(), "an interrupted run cleans up as well")

	// What a killed one leaves.
	open := b.open(t)
	h, err := open(t.Context(), &rpc.Call{Method: "create_disk", Log: &rpc.Log{}, Context: rpc.Context{DirectorUUID: "cpicheck-0123abcd"}})
	require.NoError(t, err)
	_, err = h.CreateDisk(t.Context(), 1024, json.RawMessage("{}"), "")
	require.NoError(t, err)
	b.opts.CPI = inner
	b.opts.Only = []string{"protocol", "nothing-left"}
	report, err = cpitest.Check(t.Context(), b.opts)
	require.NoError(t, err)
	require.Len(t, report.Notes, 1)
	assert.Contains(t, report.Notes[0], "an earlier run had left")
	assert.Equal(t, before, b.sim.Snapshot())
	assert.NoDirExists(t, filepath.Join(b.opts.Dirs[0], "cpitest"))
}
