package pve

import (
	"fmt"
	"strings"

	"github.com/proxkit/proxkit/internal/wire"
)

// ParseSize reads a size in bytes as disks carry it: "528K", "4T", "1.5G", "2952790017".
// The units are powers of 1024. The server writes a size in a unit of its own choice, so
// sizes are to be compared as numbers: what was set as "4096G" is read back as "4T".
func ParseSize(text string) (int64, error) { return wire.ParseSize(text) }

// FormatSize writes a size as the server does: in the largest unit, up to T, that says it
// exactly, and a plain number of bytes otherwise.
func FormatSize(bytes int64) string { return wire.FormatSize(bytes) }

// A VolumeID names a volume, as "local-lvm:vm-100-disk-0" or "local:iso/debian.iso".
type VolumeID struct {
	Storage string
	Name    string // what the storage calls it
}

// ParseVolumeID splits a volume ID at its first colon: names of storages may hold dots,
// those of volumes anything.
func ParseVolumeID(text string) (VolumeID, error) {
	storage, name, ok := strings.Cut(text, ":")
	if !ok || storage == "" || name == "" {
		return VolumeID{}, fmt.Errorf("pve: %q is no volume: want storage:name, as local-lvm:vm-100-disk-0", text)
	}
	return VolumeID{storage, name}, nil
}

// String returns the text that [ParseVolumeID] reads.
func (v VolumeID) String() string { return v.Storage + ":" + v.Name }

// IsEnabled reports whether the storage may be used. The configuration of the cluster
// tells it by the opposite word of what a node tells: see
// [NodeStorageListItem.IsEnabled].
func (s Storage) IsEnabled() bool { return s.Disable == nil || !*s.Disable }

// IsEnabled reports whether the storage may be used on the node. Whether it can be
// reached there at this moment is told by Active.
func (s NodeStorageListItem) IsEnabled() bool { return s.Enabled == nil || *s.Enabled }

// ClusterOf finds the record of the cluster in the result of
// [Client.ListClusterStatus], where it stands among its nodes. A node that is in no
// cluster has none: nil.
func ClusterOf(status []ClusterStatusListItem) *ClusterStatusListItem {
	for i := range status {
		if status[i].Type == "cluster" {
			return &status[i]
		}
	}
	return nil
}
