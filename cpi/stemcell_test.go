package cpi_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi"
	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/internal/testimage"
	"github.com/proxkit/proxkit/pve/pvetest"
)

func TestCreateStemcellTwiceGivesTheSameTemplate(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	path := b.image(5 * gib)
	first, err := b.CreateStemcell(ctx, path, raw(`{"name":"s","version":"1"}`), nil)
	require.NoError(t, err)
	guests, volumes := b.made()
	require.Len(t, guests, 1)
	c := b.guest(guests[0]).Config
	assert.Equal(t, "1", c["template"])
	assert.Contains(t, c["virtio0"], "serial=bosh-system")
	assert.Contains(t, c["virtio0"], "size=5G")
	assert.Contains(t, c["description"], `"version": "1"`)
	assert.Len(t, volumes, 1, "the upload is removed")

	b.srv.ResetRequests()
	second, err := b.CreateStemcell(ctx, path, raw(`{"name":"other","version":"1"}`), nil)
	require.NoError(t, err)
	assert.Equal(t, first, second)
	assert.Empty(t, b.writes())
	other, err := b.CreateStemcell(ctx, b.image(6*gib), raw(`{}`), nil)
	require.NoError(t, err)
	assert.NotEqual(t, first, other)
	require.NoError(t, b.DeleteStemcell(ctx, first))
	require.NoError(t, b.DeleteStemcell(ctx, first), "twice")
	g, _ := b.made()
	assert.Len(t, g, 1)
}

func TestCreateStemcellFromTwoProcesses(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	path := b.image(5 * gib)
	b.srv.TasksTake(2)
	var wg sync.WaitGroup
	cids := make([]rpc.StemcellCID, 4)
	for i := range cids {
		wg.Go(func() {
			var err error
			cids[i], err = b.open(b.cfg, "dir-a").CreateStemcell(t.Context(), path, raw(`{}`), nil)
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	for _, cid := range cids {
		assert.Equal(t, cids[0], cid)
	}
	b.srv.TasksTake(0)
	vm, _ := b.vm(cids[0])
	require.NoError(t, b.DeleteVM(t.Context(), vm))
	require.NoError(t, b.DeleteStemcell(t.Context(), cids[0]))
	guests, volumes := b.made()
	assert.Empty(t, guests)
	assert.Empty(t, volumes)
}

func TestStemcellOfTwoDirectors(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	path := b.image(5 * gib)
	other := b.open(b.cfg, "dir-b")
	cid, err := b.CreateStemcell(ctx, path, raw(`{}`), nil)
	require.NoError(t, err)
	same, err := other.CreateStemcell(ctx, path, raw(`{}`), nil)
	require.NoError(t, err)
	require.Equal(t, cid, same)
	require.NoError(t, b.DeleteStemcell(ctx, cid))
	guests, _ := b.made()
	require.Len(t, guests, 1, "the other Director still uses it")
	vm, _, err := other.CreateVM(ctx, order(cid, "agent", smallVM))
	require.NoError(t, err)
	require.NoError(t, other.DeleteVM(ctx, vm))
	require.NoError(t, other.DeleteStemcell(ctx, cid))
	guests, volumes := b.made()
	assert.Empty(t, guests)
	assert.Empty(t, volumes)
}

func TestDeleteStemcellInUse(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	cid := b.stemcell()
	vm, _ := b.vm(cid)
	class(t, b.DeleteStemcell(ctx, cid), rpc.ClassCloudError, "linked clones", "delete them first")
	require.NoError(t, b.DeleteVM(ctx, vm))
	require.NoError(t, b.DeleteStemcell(ctx, cid))
	assert.Empty(t, b.srv.VMIDs())
}

func TestStemcellOnLocalStorageIsOnEveryNode(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(c *cpi.Config) { c.Storage, c.DiskStorage = []string{"fast"}, []string{"fast"} })
	ctx := t.Context()
	cid := b.stemcell()
	assert.Len(t, b.srv.VMIDs(), 3)
	uploads := b.srv.Count("POST /nodes/*/storage/iso/upload")
	assert.Equal(t, 1, uploads, "the import storage is shared")
	nodes := map[string]bool{}
	for _, node := range []string{"n1", "n2", "n3"} {
		vm, _, err := b.CreateVM(ctx, order(cid, "agent", `{"cpu":1,"ram":512,"nodes":["`+node+`"],"ephemeral_disk":{"size":2048}}`))
		require.NoError(t, err)
		g := b.guest(vmid(t, vm))
		nodes[g.Node] = true
		assert.True(t, strings.HasPrefix(g.Config["virtio0"], "fast:"))
		disk := b.disk(vm)
		assert.Equal(t, node, b.guest(b.holder(disk)).Node, "the disk is made where the VM is")
		_, err = b.AttachDisk(ctx, vm, disk)
		require.NoError(t, err)

		// The disk binds the next VM to its node.
		require.NoError(t, b.DeleteVM(ctx, vm))
		vm, _, err = b.CreateVM(ctx, order(cid, "agent", `{"cpu":1,"ram":512,"ephemeral_disk":{"size":2048}}`, disk))
		require.NoError(t, err)
		assert.Equal(t, node, b.guest(vmid(t, vm)).Node)
		_, err = b.AttachDisk(ctx, vm, disk)
		require.NoError(t, err)
		require.NoError(t, b.DetachDisk(ctx, vm, disk))
		require.NoError(t, b.DeleteVM(ctx, vm))

		// On another node it cannot be attached.
		elsewhere := map[string]string{"n1": "n2", "n2": "n3", "n3": "n1"}[node]
		_, _, err = b.CreateVM(ctx, order(cid, "agent", `{"nodes":["`+elsewhere+`"]}`, disk))
		class(t, err, rpc.ClassVMCreationFailed, "of node "+node+" alone")
		away, _, err := b.CreateVM(ctx, order(cid, "agent", `{"cpu":1,"ram":512,"nodes":["`+elsewhere+`"],"ephemeral_disk":{"size":2048}}`))
		require.NoError(t, err)
		_, err = b.AttachDisk(ctx, away, disk)
		class(t, err, rpc.ClassCloudError, "node "+node+" alone", "node "+elsewhere)
		require.NoError(t, b.DeleteVM(ctx, away))
		require.NoError(t, b.DeleteDisk(ctx, disk))
	}
	assert.Len(t, nodes, 3)
	require.NoError(t, b.DeleteStemcell(ctx, cid))
	guests, volumes := b.made()
	assert.Empty(t, guests)
	assert.Empty(t, volumes)
}

func TestTemplatesOfOtherStoragesAreMadeOnDemand(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	cid := b.stemcell()
	vm := func(storage, node string) rpc.VMCID {
		t.Helper()
		v, _, err := b.CreateVM(ctx, order(cid, "agent",
			`{"cpu":1,"ram":512,"nodes":["`+node+`"],"root_disk":{"storage":"`+storage+`"},"ephemeral_disk":{"size":2048}}`))
		require.NoError(t, err)
		g := b.guest(vmid(t, v))
		assert.Equal(t, node, g.Node)
		assert.True(t, strings.HasPrefix(g.Config["virtio0"], storage+":"), g.Config["virtio0"])
		assert.True(t, strings.HasPrefix(g.Config["virtio1"], "shared:"), g.Config["virtio1"])
		return v
	}
	first := vm("fast", "n2")
	assert.Len(t, b.srv.VMIDs(), 3, "a template for fast on n2")
	second := vm("fast", "n2")
	assert.Len(t, b.srv.VMIDs(), 4, "which the next VM there uses")
	third := vm("fast", "n3")
	assert.Len(t, b.srv.VMIDs(), 6, "another node needs its own")
	fourth := vm("thick", "n1")
	assert.Len(t, b.srv.VMIDs(), 7, "a full clone needs none")
	assert.Contains(t, b.log.String(), "full clone")
	for _, v := range []rpc.VMCID{first, second, third, fourth} {
		require.NoError(t, b.DeleteVM(ctx, v))
	}
	require.NoError(t, b.DeleteStemcell(ctx, cid))
	guests, volumes := b.made()
	assert.Empty(t, guests)
	assert.Empty(t, volumes)
}

func TestStemcellImages(t *testing.T) {
	t.Parallel()
	write := func(data []byte) string {
		path := filepath.Join(t.TempDir(), "image")
		require.NoError(t, os.WriteFile(path, data, 0o600))
		return path
	}
	t.Run("a raw disk on a directory becomes qcow2, so that it can be cloned", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, func(c *cpi.Config) { c.Storage = []string{"files"} })
		require.NoError(t, b.srv.AddStorage("files", pvetest.Storage{Type: "nfs", Content: []string{"images"}, Size: 100 * gib}))
		b.grant("/storage/files", "Datastore.Audit", "Datastore.AllocateSpace")
		cid, err := b.CreateStemcell(t.Context(), write(testimage.Archive(testimage.BootSector(64<<20))), raw(`{}`), nil)
		require.NoError(t, err)
		vm, id := b.vm(cid)
		assert.Contains(t, b.guest(id).Config["virtio0"], "base-")
		assert.Contains(t, b.guest(id).Config["virtio0"], ".qcow2")
		require.NoError(t, b.DeleteVM(t.Context(), vm))
	})
	for name, tc := range map[string]struct {
		path, properties, text string
		class                  rpc.Class
	}{
		"a missing file":             {"/does/not/exist", `{}`, "cannot be opened", rpc.ClassCloudError},
		"an empty file":              {write(nil), `{}`, "is empty", rpc.ClassCloudError},
		"no disk":                    {write([]byte("hello")), `{}`, "is no disk", rpc.ClassCloudError},
		"a light stemcell":           {write(nil), `{"image_id":"local:import/x.qcow2"}`, "light stemcells", rpc.ClassNotImplemented},
		"an image beyond every disk": {write(testimage.Archive(testimage.QCOW2(900*gib, testimage.BootSector(900*gib), 0))), `{}`, "n1: ", rpc.ClassNoDiskSpace},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			_, err := b.CreateStemcell(t.Context(), tc.path, raw(tc.properties), nil)
			class(t, err, tc.class, tc.text)
			guests, volumes := b.made()
			assert.Empty(t, guests)
			assert.Empty(t, volumes)
			assert.Empty(t, b.writes())
		})
	}
}

// Every request of create_stemcell fails once, one after the other.
func TestCreateStemcellSurvivesOrCleansUp(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{
		"POST /nodes/*/storage/*/upload", "POST /nodes/*/qemu", "POST /nodes/*/qemu/*/template", "PUT /nodes/*/qemu/*/config",
		"DELETE /nodes/*/storage/**",
	} {
		for name, f := range map[string]pvetest.Fault{
			"refused":    {Status: 500, Phrase: "something went wrong"},
			"no worker":  {Status: 500, Phrase: "got no worker upid - start worker failed"},
			"cut before": {Cut: pvetest.CutBefore},
			"cut after":  {Cut: pvetest.CutAfter},
			"task fails": {TaskError: "device busy"},
		} {
			if name == "task fails" && strings.HasPrefix(pattern, "PUT ") {
				continue // no task
			}
			t.Run(name+" "+pattern, func(t *testing.T) {
				t.Parallel()
				b := newBed(t)
				path := b.image(5 * gib)
				f.Match = pattern
				b.srv.Fail(f)
				_, err := b.CreateStemcell(t.Context(), path, raw(`{}`), nil)
				b.srv.ClearFaults()
				guests, volumes := b.made()
				if err != nil {
					assert.Empty(t, guests, "%v", err)
					if !strings.Contains(err.Error(), "left behind") && !strings.Contains(err.Error(), "remove the uploaded image") {
						assert.Empty(t, volumes, "%v", err)
					}
				} else {
					assert.Len(t, guests, 1)
					assert.Len(t, volumes, 1)
				}
				cid, err := b.CreateStemcell(t.Context(), path, raw(`{}`), nil)
				require.NoError(t, err)
				require.NoError(t, b.DeleteStemcell(t.Context(), cid))
				assert.Empty(t, b.srv.VMIDs())
			})
		}
	}
}
