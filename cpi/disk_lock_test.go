package cpi_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi/rpc"
)

// Of two VMs that are to have one disk at the same moment, one gets it.
func TestAttachDiskToTwoVMsAtOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	stemcell := b.stemcell()
	var vms [2]rpc.VMCID
	for i := range vms {
		vms[i], _ = b.vm(stemcell)
	}
	disk := b.disk(vms[0])
	for range 8 {
		var errs [2]error
		var wg sync.WaitGroup
		for i := range vms {
			wg.Go(func() { _, errs[i] = b.AttachDisk(ctx, vms[i], disk) })
		}
		wg.Wait()
		winner := 0
		if errs[0] != nil {
			winner = 1
		}
		require.NoError(t, errs[winner])
		class(t, errors.Join(errs[:]...), rpc.ClassCloudError, "is attached to VM "+string(vms[winner]))
		disks := got(b.GetDisks(ctx, vms[1-winner]))(t)
		assert.Empty(t, disks)
		require.NoError(t, b.DetachDisk(ctx, vms[winner], disk))
	}
}
