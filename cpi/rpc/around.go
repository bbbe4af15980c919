package rpc

import (
	"context"
	"encoding/json"
)

// Around returns a handler that runs around in place of each method of h. around
// gets the name of the method as the Director calls it, and calls next to run the
// method of h; it may leave that out, or do it with another context. What around
// returns is the error of the call; when it is nil, the result is that of next.
func Around(h Handler, around func(ctx context.Context, method string, next func(context.Context) error) error) Handler {
	return aroundHandler{h, around}
}

type aroundHandler struct {
	h      Handler
	around func(ctx context.Context, method string, next func(context.Context) error) error
}

// surround runs a method with a result.
func surround[R any](ctx context.Context, a aroundHandler, method string, do func(context.Context) (R, error)) (R, error) {
	var out R
	err := a.around(ctx, method, func(ctx context.Context) error {
		var err error
		out, err = do(ctx)
		return err
	})
	return out, err
}

func (a aroundHandler) Info(ctx context.Context) (Info, error) {
	return surround(ctx, a, "info", a.h.Info)
}

func (a aroundHandler) CreateStemcell(ctx context.Context, path string, cloudProperties, env json.RawMessage) (StemcellCID, error) {
	return surround(ctx, a, "create_stemcell", func(ctx context.Context) (StemcellCID, error) {
		return a.h.CreateStemcell(ctx, path, cloudProperties, env)
	})
}

func (a aroundHandler) DeleteStemcell(ctx context.Context, cid StemcellCID) error {
	return a.around(ctx, "delete_stemcell", func(ctx context.Context) error { return a.h.DeleteStemcell(ctx, cid) })
}

func (a aroundHandler) CreateVM(ctx context.Context, req CreateVMRequest) (VMCID, Networks, error) {
	var networks Networks
	cid, err := surround(ctx, a, "create_vm", func(ctx context.Context) (VMCID, error) {
		cid, ns, err := a.h.CreateVM(ctx, req)
		networks = ns
		return cid, err
	})
	return cid, networks, err
}

func (a aroundHandler) DeleteVM(ctx context.Context, cid VMCID) error {
	return a.around(ctx, "delete_vm", func(ctx context.Context) error { return a.h.DeleteVM(ctx, cid) })
}

func (a aroundHandler) HasVM(ctx context.Context, cid VMCID) (bool, error) {
	return surround(ctx, a, "has_vm", func(ctx context.Context) (bool, error) { return a.h.HasVM(ctx, cid) })
}

func (a aroundHandler) RebootVM(ctx context.Context, cid VMCID) error {
	return a.around(ctx, "reboot_vm", func(ctx context.Context) error { return a.h.RebootVM(ctx, cid) })
}

func (a aroundHandler) SetVMMetadata(ctx context.Context, cid VMCID, metadata Metadata) error {
	return a.around(ctx, "set_vm_metadata", func(ctx context.Context) error { return a.h.SetVMMetadata(ctx, cid, metadata) })
}

func (a aroundHandler) CalculateVMCloudProperties(ctx context.Context, want VMResources) (map[string]any, error) {
	return surround(ctx, a, "calculate_vm_cloud_properties", func(ctx context.Context) (map[string]any, error) {
		return a.h.CalculateVMCloudProperties(ctx, want)
	})
}

func (a aroundHandler) CreateDisk(ctx context.Context, size int64, cloudProperties json.RawMessage, vm VMCID) (DiskCID, error) {
	return surround(ctx, a, "create_disk", func(ctx context.Context) (DiskCID, error) {
		return a.h.CreateDisk(ctx, size, cloudProperties, vm)
	})
}

func (a aroundHandler) DeleteDisk(ctx context.Context, cid DiskCID) error {
	return a.around(ctx, "delete_disk", func(ctx context.Context) error { return a.h.DeleteDisk(ctx, cid) })
}

func (a aroundHandler) HasDisk(ctx context.Context, cid DiskCID) (bool, error) {
	return surround(ctx, a, "has_disk", func(ctx context.Context) (bool, error) { return a.h.HasDisk(ctx, cid) })
}

func (a aroundHandler) AttachDisk(ctx context.Context, vm VMCID, disk DiskCID) (DiskHint, error) {
	return surround(ctx, a, "attach_disk", func(ctx context.Context) (DiskHint, error) { return a.h.AttachDisk(ctx, vm, disk) })
}

func (a aroundHandler) DetachDisk(ctx context.Context, vm VMCID, disk DiskCID) error {
	return a.around(ctx, "detach_disk", func(ctx context.Context) error { return a.h.DetachDisk(ctx, vm, disk) })
}

func (a aroundHandler) GetDisks(ctx context.Context, vm VMCID) ([]DiskCID, error) {
	return surround(ctx, a, "get_disks", func(ctx context.Context) ([]DiskCID, error) { return a.h.GetDisks(ctx, vm) })
}

func (a aroundHandler) ResizeDisk(ctx context.Context, cid DiskCID, size int64) error {
	return a.around(ctx, "resize_disk", func(ctx context.Context) error { return a.h.ResizeDisk(ctx, cid, size) })
}

func (a aroundHandler) UpdateDisk(ctx context.Context, cid DiskCID, size int64, cloudProperties json.RawMessage) (DiskCID, error) {
	return surround(ctx, a, "update_disk", func(ctx context.Context) (DiskCID, error) {
		return a.h.UpdateDisk(ctx, cid, size, cloudProperties)
	})
}

func (a aroundHandler) SetDiskMetadata(ctx context.Context, cid DiskCID, metadata Metadata) error {
	return a.around(ctx, "set_disk_metadata", func(ctx context.Context) error { return a.h.SetDiskMetadata(ctx, cid, metadata) })
}

func (a aroundHandler) SnapshotDisk(ctx context.Context, cid DiskCID, metadata Metadata) (SnapshotCID, error) {
	return surround(ctx, a, "snapshot_disk", func(ctx context.Context) (SnapshotCID, error) {
		return a.h.SnapshotDisk(ctx, cid, metadata)
	})
}

func (a aroundHandler) DeleteSnapshot(ctx context.Context, cid SnapshotCID) error {
	return a.around(ctx, "delete_snapshot", func(ctx context.Context) error { return a.h.DeleteSnapshot(ctx, cid) })
}

func (a aroundHandler) CreateNetwork(ctx context.Context, def NetworkDefinition) (NetworkResult, error) {
	return surround(ctx, a, "create_network", func(ctx context.Context) (NetworkResult, error) { return a.h.CreateNetwork(ctx, def) })
}

func (a aroundHandler) DeleteNetwork(ctx context.Context, cid NetworkCID) error {
	return a.around(ctx, "delete_network", func(ctx context.Context) error { return a.h.DeleteNetwork(ctx, cid) })
}
