package rpc

import (
	"context"
	"encoding/json"
)

// Unimplemented answers every method with Bosh::Clouds::NotImplemented. A
// handler that embeds it keeps compiling when methods are added to [Handler].
type Unimplemented struct{}

var _ Handler = Unimplemented{}

func unimplemented(method string) error {
	return NotImplemented("%s: not implemented by this CPI", method)
}

// Info implements [InfoProvider].
func (Unimplemented) Info(context.Context) (Info, error) { return Info{}, unimplemented("info") }

// CreateStemcell implements [StemcellManager].
func (Unimplemented) CreateStemcell(context.Context, string, json.RawMessage, json.RawMessage) (StemcellCID, error) {
	return "", unimplemented("create_stemcell")
}

// DeleteStemcell implements [StemcellManager].
func (Unimplemented) DeleteStemcell(context.Context, StemcellCID) error {
	return unimplemented("delete_stemcell")
}

// CreateVM implements [VMManager].
func (Unimplemented) CreateVM(context.Context, CreateVMRequest) (VMCID, Networks, error) {
	return "", nil, unimplemented("create_vm")
}

// DeleteVM implements [VMManager].
func (Unimplemented) DeleteVM(context.Context, VMCID) error { return unimplemented("delete_vm") }

// HasVM implements [VMManager].
func (Unimplemented) HasVM(context.Context, VMCID) (bool, error) {
	return false, unimplemented("has_vm")
}

// RebootVM implements [VMManager].
func (Unimplemented) RebootVM(context.Context, VMCID) error { return unimplemented("reboot_vm") }

// SetVMMetadata implements [VMManager].
func (Unimplemented) SetVMMetadata(context.Context, VMCID, Metadata) error {
	return unimplemented("set_vm_metadata")
}

// CalculateVMCloudProperties implements [VMManager].
func (Unimplemented) CalculateVMCloudProperties(context.Context, VMResources) (map[string]any, error) {
	return nil, unimplemented("calculate_vm_cloud_properties")
}

// CreateDisk implements [DiskManager].
func (Unimplemented) CreateDisk(context.Context, int64, json.RawMessage, VMCID) (DiskCID, error) {
	return "", unimplemented("create_disk")
}

// DeleteDisk implements [DiskManager].
func (Unimplemented) DeleteDisk(context.Context, DiskCID) error {
	return unimplemented("delete_disk")
}

// HasDisk implements [DiskManager].
func (Unimplemented) HasDisk(context.Context, DiskCID) (bool, error) {
	return false, unimplemented("has_disk")
}

// AttachDisk implements [DiskManager].
func (Unimplemented) AttachDisk(context.Context, VMCID, DiskCID) (DiskHint, error) {
	return nil, unimplemented("attach_disk")
}

// DetachDisk implements [DiskManager].
func (Unimplemented) DetachDisk(context.Context, VMCID, DiskCID) error {
	return unimplemented("detach_disk")
}

// GetDisks implements [DiskManager].
func (Unimplemented) GetDisks(context.Context, VMCID) ([]DiskCID, error) {
	return nil, unimplemented("get_disks")
}

// ResizeDisk implements [DiskManager].
func (Unimplemented) ResizeDisk(context.Context, DiskCID, int64) error {
	return unimplemented("resize_disk")
}

// UpdateDisk implements [DiskManager].
func (Unimplemented) UpdateDisk(context.Context, DiskCID, int64, json.RawMessage) (DiskCID, error) {
	return "", unimplemented("update_disk")
}

// SetDiskMetadata implements [DiskManager].
func (Unimplemented) SetDiskMetadata(context.Context, DiskCID, Metadata) error {
	return unimplemented("set_disk_metadata")
}

// SnapshotDisk implements [SnapshotManager].
func (Unimplemented) SnapshotDisk(context.Context, DiskCID, Metadata) (SnapshotCID, error) {
	return "", unimplemented("snapshot_disk")
}

// DeleteSnapshot implements [SnapshotManager].
func (Unimplemented) DeleteSnapshot(context.Context, SnapshotCID) error {
	return unimplemented("delete_snapshot")
}

// CreateNetwork implements [NetworkManager].
func (Unimplemented) CreateNetwork(context.Context, NetworkDefinition) (NetworkResult, error) {
	return NetworkResult{}, unimplemented("create_network")
}

// DeleteNetwork implements [NetworkManager].
func (Unimplemented) DeleteNetwork(context.Context, NetworkCID) error {
	return unimplemented("delete_network")
}
