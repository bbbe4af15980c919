package cpi_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi/rpc"
)

// statesUnknown is the cluster's list before anything was broadcast.
func statesUnknown(rows []map[string]any) []map[string]any {
	for _, r := range rows {
		if r["type"] == "node" || r["type"] == "storage" {
			r["status"] = "unknown"
			delete(r, "maxdisk")
			delete(r, "disk")
		}
	}
	return rows
}

// What the list does not know yet, the nodes do.
func TestPlacementWhileTheListKnowsNoStates(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	c := b.withResources(statesUnknown)
	cid, err := c.CreateStemcell(ctx, b.image(5*gib), raw(`{}`), nil)
	require.NoError(t, err)
	vm, _, err := c.CreateVM(ctx, order(cid, "agent", smallVM))
	require.NoError(t, err)
	_, err = c.CreateDisk(ctx, 1024, raw(`{}`), vm)
	require.NoError(t, err)
}

func TestPlacementWhereNothingAnswers(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	cid := b.stemcell()
	t.Run("nodes that are down", func(t *testing.T) {
		b.srv.SetNodeOnline("n2", false)
		defer b.srv.SetNodeOnline("n2", true)
		_, _, err := b.withResources(statesUnknown).CreateVM(ctx, order(cid, "agent", `{"nodes":["n2"]}`))
		e := class(t, err, rpc.ClassVMCreationFailed, "n2: its state is unknown")
		assert.True(t, e.Retryable())
	})
	t.Run("a storage that is not active", func(t *testing.T) {
		b.srv.SetStorageOnline("shared", "", false)
		defer b.srv.SetStorageOnline("shared", "", true)
		_, _, err := b.CreateVM(ctx, order(cid, "agent", `{}`))
		assert.True(t, class(t, err, rpc.ClassVMCreationFailed, "storage shared: is not active").Retryable())
		_, err = b.CreateDisk(ctx, 1024, raw(`{}`), "")
		assert.True(t, class(t, err, rpc.ClassCloudError, "storage shared: is not active").Retryable())
		_, err = b.CreateStemcell(ctx, b.image(6*gib), raw(`{}`), nil)
		assert.True(t, class(t, err, rpc.ClassCloudError, "storage shared: is not active").Retryable())
	})
	t.Run("a storage for images that is not active", func(t *testing.T) {
		b.srv.SetStorageOnline("iso", "", false)
		defer b.srv.SetStorageOnline("iso", "", true)
		_, _, err := b.CreateVM(ctx, order(cid, "agent", `{}`))
		assert.True(t, class(t, err, rpc.ClassVMCreationFailed, "iso_storage").Retryable())
		_, err = b.CreateStemcell(ctx, b.image(6*gib), raw(`{}`), nil)
		assert.True(t, class(t, err, rpc.ClassCloudError, "import_storage").Retryable())
	})
}
