package cpi

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"path/filepath"

	"github.com/proxkit/proxkit/cpi/rpc"
)

// diskLocks is how many locks the disks share. A few are enough to keep calls for
// different disks out of each other's way, and leave no file for each disk.
const diskLocks = 64

// lockDisk makes the CPI processes of a machine attach, detach, resize and delete a
// disk one after the other. PVE lets two guests refer to one volume, and that a VM
// has the disk is seen by others only when its configuration is written: of two
// calls at once each would find the disk free, and two VMs would write to it, or
// the volume would be destroyed under one. Between machines it is the Director,
// which runs one task for a disk at a time, that keeps the calls apart: a mark in
// the holder would take attach_disk a request more than it may make.
func (c *CPI) lockDisk(ctx context.Context, disk rpc.DiskCID) (unlock func(), err error) {
	if c.cfg.LockDir == "" {
		return func() {}, nil
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(disk))
	dir := filepath.Join(c.cfg.LockDir, "gate", fmt.Sprintf("disks-%02d", sum.Sum32()%diskLocks))
	err = privateDir(c.cfg.LockDir, dir)
	if err == nil {
		f, e := lockFile(ctx, filepath.Join(dir, "turn"))
		if e == nil {
			return func() { f.Close() }, nil
		}
		err = e
	}
	switch {
	case ctx.Err() != nil:
		return nil, rpc.CloudError("disk %s: the call waited for another one for the same disk: %w", disk, err).OKToRetry(true)
	case errors.Is(err, errNoLocks):
		return func() {}, nil
	}
	return nil, rpc.CloudError("lock_dir %s cannot be used: %w: set lock_dir to a directory on a local disk that belongs to the user of the CPI", c.cfg.LockDir, err)
}
