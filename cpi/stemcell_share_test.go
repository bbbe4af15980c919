package cpi_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve/pvetest"
)

// Each Director that was told of a stemcell has it until it deletes it itself,
// whichever template remained of those that were made at once.
func TestDirectorsCreateAStemcellAtOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	path := b.image(5 * gib)
	b.srv.TasksTake(2)
	directors := []string{"dir-a", "dir-b", "dir-c", "dir-d"}
	cids := make([]rpc.StemcellCID, len(directors))
	var wg sync.WaitGroup
	for i, director := range directors {
		wg.Go(func() {
			var err error
			cids[i], err = b.open(b.cfg, director).CreateStemcell(ctx, path, raw(`{}`), nil)
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	b.srv.TasksTake(0)
	guests, _ := b.made()
	require.Len(t, guests, 1)
	for i, director := range directors {
		assert.Contains(t, b.guest(guests[0]).Config["tags"], "director-"+director)
		c := b.open(b.cfg, director)
		vm, _, err := c.CreateVM(ctx, order(cids[i], "agent-"+director, smallVM))
		require.NoError(t, err)
		require.NoError(t, c.DeleteVM(ctx, vm))
		require.NoError(t, c.DeleteStemcell(ctx, cids[i]))
	}
	guests, volumes := b.made()
	assert.Empty(t, guests)
	assert.Empty(t, volumes)
}

// One Director deletes a stemcell at the moment when another one creates it.
func TestStemcellDeletedByOneDirectorAndCreatedByAnother(t *testing.T) {
	t.Parallel()
	for name, deleteFirst := range map[string]bool{"the deletion is overtaken": false, "the creation is overtaken": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			ctx := t.Context()
			path := b.image(5 * gib)
			cid := b.stemcell()
			other := b.open(b.cfg, "dir-b")
			del := func() error { return b.DeleteStemcell(ctx, cid) }
			create := func() error { _, err := other.CreateStemcell(ctx, path, raw(`{}`), nil); return err }
			outer, inner := del, create
			if deleteFirst {
				outer, inner = create, del
			}
			// The first change of the one is overtaken by all of the other.
			b.srv.Fail(pvetest.Fault{Match: "PUT /nodes/*/qemu/*/config", Do: func() { assert.NoError(t, inner()) }})
			require.NoError(t, outer())
			guests, _ := b.made()
			require.Len(t, guests, 1)
			tags := b.guest(guests[0]).Config["tags"]
			assert.Contains(t, tags, "director-dir-b")
			assert.NotContains(t, tags, "director-dir-a")
			vm, _, err := other.CreateVM(ctx, order(cid, "agent", smallVM))
			require.NoError(t, err)
			require.NoError(t, other.DeleteVM(ctx, vm))
			require.NoError(t, other.DeleteStemcell(ctx, cid))
			guests, volumes := b.made()
			assert.Empty(t, guests)
			assert.Empty(t, volumes)
		})
	}
}

// Of two templates the one with the lower VMID stays, also when it is finished
// last.
func TestTheTemplateFinishedLastRemovesItsTwin(t *testing.T) {
	t.Parallel()
	for name, used := range map[string]bool{"an unused twin goes": false, "a twin with linked clones stays": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			ctx := t.Context()
			path := b.image(5 * gib)
			second := b.open(b.cfg, "dir-b")
			var vm rpc.VMCID
			// While the first is being finished, another Director makes its own.
			b.srv.Fail(pvetest.Fault{Match: "POST /nodes/*/qemu/*/template", Do: func() {
				cid, err := second.CreateStemcell(ctx, path, raw(`{}`), nil)
				assert.NoError(t, err)
				if used {
					vm, _, err = second.CreateVM(ctx, order(cid, "agent", smallVM))
					assert.NoError(t, err)
				}
			}})
			cid, err := b.CreateStemcell(ctx, path, raw(`{}`), nil)
			require.NoError(t, err)
			guests, _ := b.made()
			stays := b.guest(guests[0])
			assert.Contains(t, stays.Config["tags"], "director-dir-a;director-dir-b")
			if used {
				require.Len(t, guests, 3)
				assert.Contains(t, b.guest(guests[1]).Config["tags"], "bosh-template-")
				require.NoError(t, second.DeleteVM(ctx, vm))
			} else {
				require.Len(t, guests, 1)
			}
			require.NoError(t, b.DeleteStemcell(ctx, cid))
			require.NoError(t, second.DeleteStemcell(ctx, cid))
			guests, volumes := b.made()
			assert.Empty(t, guests)
			assert.Empty(t, volumes)
		})
	}
}

// A template that is replaced while a VM is being made of it costs the VM nothing.
func TestCreateVMWhoseTemplateIsReplaced(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	path := b.image(5 * gib)
	cid, err := b.CreateStemcell(ctx, path, raw(`{}`), nil)
	require.NoError(t, err)
	b.srv.Fail(pvetest.Fault{Match: "POST /nodes/*/qemu/*/clone", Do: func() {
		assert.NoError(t, b.DeleteStemcell(ctx, cid))
		b.srv.SetOption("next-id", "lower=200,upper=900") // not the same VMID again
		_, err := b.CreateStemcell(ctx, path, raw(`{}`), nil)
		assert.NoError(t, err)
	}})
	vm, _ := b.vm(cid)
	require.NoError(t, b.DeleteVM(ctx, vm))
	require.NoError(t, b.DeleteStemcell(ctx, cid))
	guests, volumes := b.made()
	assert.Empty(t, guests)
	assert.Empty(t, volumes)
}

// A template that could not be destroyed serves no more, and goes with the next
// attempt.
func TestTemplateWhoseDestructionFails(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	cid := b.stemcell()
	b.srv.Fail(pvetest.Fault{Match: "DELETE /nodes/*/qemu/*", TaskError: "unable to remove disk: device busy"})
	class(t, b.DeleteStemcell(ctx, cid), rpc.ClassCloudError, "device busy")
	guests, _ := b.made()
	require.Len(t, guests, 1)
	assert.False(t, strings.Contains(b.guest(guests[0]).Config["tags"], "bosh-template-"))
	require.NoError(t, b.DeleteStemcell(ctx, cid))
	guests, _ = b.made()
	assert.Empty(t, guests)
}
