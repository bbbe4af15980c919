package cpi_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve/pvetest"
)

// What is complete but was never given metadata is what a call made that died
// before it could answer.
func TestAuditFindsWhatNoDirectorKnows(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	vm, id := b.vm(b.stemcell())
	disk := b.disk(vm)
	assert.Empty(t, got(b.Audit(ctx))(t), "the metadata may be on their way")

	age := func(id int) {
		made := time.Now().Add(-3 * time.Hour).Unix()
		require.NoError(t, b.srv.EditVM(id, func(g *pvetest.VM) { g.Config["meta"] = fmt.Sprintf("creation-qemu=10.1.2,ctime=%d", made) }))
	}
	age(id)
	age(b.holder(disk))
	found := got(b.Audit(ctx))(t)
	require.Len(t, found, 2)
	for _, f := range found {
		assert.Equal(t, "has no Director's metadata", f.Problem)
		assert.Regexp(t, `^guest \d+ \(\S+\) on node n\d, made [-0-9]+ [:0-9]+ \(3h0m0s ago\), has no Director's metadata: if no Director lists it \(bosh (vms|disks)\), nobody knows it: remove it$`, f.String())
	}

	require.NoError(t, b.SetVMMetadata(ctx, vm, rpc.Metadata{"job": "web"}))
	require.NoError(t, b.SetDiskMetadata(ctx, disk, rpc.Metadata{"deployment": "d"}))
	assert.Empty(t, got(b.Audit(ctx))(t))
	require.NoError(t, b.SetVMMetadata(ctx, vm, rpc.Metadata{"name": "makes no tag"}))
	age(id)
	assert.Empty(t, got(b.Audit(ctx))(t), "its description tells")
}
