package rpc

import (
	"context"
	"encoding/json"
)

// The identifiers a CPI hands out. The Director stores and returns them
// unchanged; their form is the CPI's own business.
type (
	// A StemcellCID names a stemcell.
	StemcellCID string
	// A VMCID names a VM.
	VMCID string
	// A DiskCID names a persistent disk.
	DiskCID string
	// A SnapshotCID names a snapshot of a persistent disk.
	SnapshotCID string
	// A NetworkCID names a managed network.
	NetworkCID string
)

// Metadata are the labels that the Director puts on VMs, disks and snapshots.
// Values that are not strings on the wire (the index of an instance is a number
// in some calls) arrive as their JSON text.
type Metadata map[string]string

// Info is the answer to the method info.
type Info struct {
	APIVersion      int      `json:"api_version"`
	StemcellFormats []string `json:"stemcell_formats"`
}

// CreateVMRequest holds the arguments of create_vm.
type CreateVMRequest struct {
	AgentID  string
	Stemcell StemcellCID
	// CloudProperties is the JSON object of the VM type merged with the VM
	// extensions, never empty.
	CloudProperties json.RawMessage
	Networks        Networks
	// Disks are the persistent disks that will be attached to the VM later; they
	// bind the placement. create_vm does not attach them.
	Disks []DiskCID
	// Env is the JSON object for the agent, byte for byte as it was sent.
	Env json.RawMessage
}

// VMResources are the arguments of calculate_vm_cloud_properties.
type VMResources struct {
	// RAM is in MiB.
	RAM int64
	CPU int64
	// EphemeralDiskSize is in MiB.
	EphemeralDiskSize int64
}

// A DiskHint tells the agent where an attached disk is, for example
// {"path": "/dev/disk/by-id/…"}. It is never empty, and its values are strings:
// a number makes the agent panic.
type DiskHint map[string]string

// A NetworkDefinition holds the argument of create_network.
type NetworkDefinition struct {
	Type            string          `json:"type"`
	Range           string          `json:"range,omitempty"`
	Gateway         string          `json:"gateway,omitempty"`
	NetmaskBits     int             `json:"netmask_bits,omitempty"`
	CloudProperties json.RawMessage `json:"cloud_properties,omitempty"`
}

// A NetworkResult is the answer to create_network.
type NetworkResult struct {
	CID             NetworkCID
	Range           string
	Gateway         string
	Reserved        []string
	CloudProperties map[string]any
}

// Every method of the interfaces below honours the end of its context and may be
// called from several processes at once: the Director starts one process per
// call and runs many in parallel.

// InfoProvider answers info. The Director asks before nearly every other call,
// so the method must be quick and needs neither configuration nor network.
type InfoProvider interface {
	Info(ctx context.Context) (Info, error)
}

// StemcellManager keeps the images that VMs are made from.
type StemcellManager interface {
	// CreateStemcell makes the image in the file at path available. The file
	// belongs to the caller. Creating the same stemcell twice must succeed: the
	// Director does so for a second CPI name, and so does another Director. The
	// env object is only sent at API version 3 and is otherwise nil.
	CreateStemcell(ctx context.Context, path string, cloudProperties, env json.RawMessage) (StemcellCID, error)
	// DeleteStemcell is idempotent: a stemcell that is gone is success.
	DeleteStemcell(ctx context.Context, cid StemcellCID) error
}

// VMManager makes and keeps VMs.
type VMManager interface {
	// CreateVM is not idempotent: each call makes a VM, or fails and leaves
	// nothing behind. The networks of the answer are those of the request with
	// what the CPI added.
	CreateVM(ctx context.Context, req CreateVMRequest) (VMCID, Networks, error)
	// DeleteVM is idempotent and may answer VMNotFound when the VM is gone. It
	// keeps persistent disks, also those that are still attached, and returns
	// only when the VM's name, addresses and disks are free again.
	DeleteVM(ctx context.Context, cid VMCID) error
	// HasVM answers false only for a VM that is proved to be gone. What cannot be
	// decided is an error: a wrong false makes the Director build a twin.
	HasVM(ctx context.Context, cid VMCID) (bool, error)
	// RebootVM restarts a VM, and starts one that is off.
	RebootVM(ctx context.Context, cid VMCID) error
	// SetVMMetadata is idempotent and replaces the labels set earlier.
	SetVMMetadata(ctx context.Context, cid VMCID, metadata Metadata) error
	// CalculateVMCloudProperties turns resources into the cloud properties that
	// create_vm then gets. It changes nothing.
	CalculateVMCloudProperties(ctx context.Context, want VMResources) (map[string]any, error)
}

// DiskManager makes and keeps persistent disks.
type DiskManager interface {
	// CreateDisk makes a disk of size MiB where the VM vm, which may be empty,
	// can attach it. It is not idempotent.
	CreateDisk(ctx context.Context, size int64, cloudProperties json.RawMessage, vm VMCID) (DiskCID, error)
	// DeleteDisk is idempotent and may answer DiskNotFound when the disk is gone.
	// It refuses a disk that is attached.
	DeleteDisk(ctx context.Context, cid DiskCID) error
	// HasDisk answers false only for a disk that is proved to be gone.
	HasDisk(ctx context.Context, cid DiskCID) (bool, error)
	// AttachDisk is idempotent: a disk that is attached to this VM already gives
	// the hint it gave before.
	AttachDisk(ctx context.Context, vm VMCID, disk DiskCID) (DiskHint, error)
	// DetachDisk answers DiskNotAttached when the VM does not hold the disk.
	DetachDisk(ctx context.Context, vm VMCID, disk DiskCID) error
	// GetDisks lists the persistent disks attached to a VM. It changes nothing.
	GetDisks(ctx context.Context, vm VMCID) ([]DiskCID, error)
	// ResizeDisk gives a detached disk at least size MiB. It is idempotent: a disk
	// that has the size already is success. Answering NotSupported or
	// NotImplemented makes the Director copy the disk to a new one instead, which
	// is the way to a smaller one; any other error ends the step.
	ResizeDisk(ctx context.Context, cid DiskCID, size int64) error
	// UpdateDisk gives a detached disk another size or other properties, and
	// returns a new CID when the disk has one afterwards. NotSupported and
	// NotImplemented make the Director copy the disk, as for ResizeDisk.
	UpdateDisk(ctx context.Context, cid DiskCID, size int64, cloudProperties json.RawMessage) (DiskCID, error)
	// SetDiskMetadata is idempotent and replaces the labels set earlier.
	SetDiskMetadata(ctx context.Context, cid DiskCID, metadata Metadata) error
}

// SnapshotManager makes and keeps snapshots of persistent disks.
type SnapshotManager interface {
	// SnapshotDisk is not idempotent.
	SnapshotDisk(ctx context.Context, cid DiskCID, metadata Metadata) (SnapshotCID, error)
	// DeleteSnapshot is idempotent: a snapshot that is gone is success.
	DeleteSnapshot(ctx context.Context, cid SnapshotCID) error
}

// NetworkManager makes networks for Directors that manage them.
type NetworkManager interface {
	// CreateNetwork is not idempotent.
	CreateNetwork(ctx context.Context, def NetworkDefinition) (NetworkResult, error)
	// DeleteNetwork is idempotent: a network that is gone is success.
	DeleteNetwork(ctx context.Context, cid NetworkCID) error
}

// Handler is a whole CPI. Embed [Unimplemented] and implement the groups, or the
// single methods, that the cloud can offer. To change single methods of a CPI,
// embed it and override them; to do something about every call, use [Around].
type Handler interface {
	InfoProvider
	StemcellManager
	VMManager
	DiskManager
	SnapshotManager
	NetworkManager
}
