package cpi

import (
	"context"
	"encoding"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/proxkit/proxkit/pve"
)

// newView keeps what the CPI needs of the cluster's list.
func newView(rows []pve.ClusterResourceListItem) *view {
	v := &view{}
	for _, r := range rows {
		switch r.Type {
		case "qemu", "lxc":
			// A container is nothing of ours, but its VMID is taken all the same.
			v.guests = append(v.guests, guest{
				vmid: or(r.VMID), node: or(r.Node), name: or(r.Name), status: or(r.Status), lock: or(r.Lock),
				tags: r.Tags, template: or(r.Template), maxmem: or(r.MaxMem),
			})
		case "node":
			v.nodes = append(v.nodes, clusterNode{
				name: or(r.Node), online: or(r.Status) == "online", unknown: or(r.Status) == "unknown", maintenance: or(r.HAState) == "maintenance",
				maxmem: or(r.MaxMem), mem: or(r.Mem), maxcpu: int64(or(r.MaxCPU)),
			})
		case "storage":
			v.stores = append(v.stores, store{
				id: or(r.Storage), node: or(r.Node), kind: or(r.PluginType), shared: or(r.Shared),
				available: or(r.Status) == "available", content: r.Content, total: or(r.MaxDisk), used: or(r.Disk),
			})
		}
	}
	return v
}

// or returns what p points to, or the zero value.
func or[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// clusterQuorate reads the cluster's own word.
func clusterQuorate(rows []pve.ClusterStatusListItem) bool {
	for _, r := range rows {
		if r.Type == "cluster" {
			return or(r.Quorate)
		}
	}
	// A node by itself has no cluster row.
	return len(rows) == 1
}

// config reads a guest's configuration, with the changes that wait for its next
// start.
func (c *CPI) config(ctx context.Context, g guest) (*guestConfig, error) {
	conf, err := call(ctx, c, c.pve.GetVMConfig, pve.GetVMConfigParams{Node: g.node, VMID: g.vmid})
	if err != nil {
		return nil, err
	}
	return newGuestConfig(conf), nil
}

// currentConfig reads the configuration that the running guest has.
func (c *CPI) currentConfig(ctx context.Context, g guest) (*guestConfig, error) {
	conf, err := call(ctx, c, c.pve.GetVMConfig, pve.GetVMConfigParams{Node: g.node, VMID: g.vmid, Current: new(true)})
	if err != nil {
		return nil, err
	}
	return newGuestConfig(conf), nil
}

// snapshotConfig reads the configuration that a snapshot holds.
func (c *CPI) snapshotConfig(ctx context.Context, g guest, name string) (*guestConfig, error) {
	conf, err := call(ctx, c, c.pve.GetVMConfig, pve.GetVMConfigParams{Node: g.node, VMID: g.vmid, Snapshot: new(name)})
	if err != nil {
		return nil, err
	}
	return newGuestConfig(conf), nil
}

func newGuestConfig(conf *pve.VMConfig) *guestConfig {
	out := &guestConfig{
		name: or(conf.Name), description: or(conf.Description), lock: or(conf.Lock), digest: or(conf.Digest), hotplug: or(conf.Hotplug),
		tags: conf.Tags, template: or(conf.Template), protection: or(conf.Protection), snapshots: conf.Parent != nil,
	}
	out.created = createdAt(conf.Meta)
	out.drives = appendDrives(out.drives, "virtio", conf.VirtIO)
	out.drives = appendDrives(out.drives, "scsi", conf.SCSI)
	out.drives = appendDrives(out.drives, "sata", conf.SATA)
	out.drives = appendDrives(out.drives, "ide", conf.IDE)
	out.drives = appendDrives(out.drives, "unused", conf.Unused)
	sortDrives(out.drives)
	return out
}

// createdAt returns when PVE says that a guest was made.
func createdAt(meta *pve.VMConfigMeta) time.Time {
	if meta == nil || meta.CTime == nil {
		return time.Time{}
	}
	return time.Unix(*meta.CTime, 0).UTC()
}

func appendDrives[T fmt.Stringer](drives []drive, bus string, family map[int]T) []drive {
	for n, d := range family {
		drives = append(drives, parseDrive(bus+strconv.Itoa(n), d.String()))
	}
	return drives
}

// A change is a change of a guest's configuration.
type change struct {
	tags        []string
	description *string
	delete      []string
	revert      []string
	virtio      map[int]drive
	template    *bool
	protection  *bool
	osType      *string
	digest      string
}

// updateConfig changes a guest's configuration.
func (c *CPI) updateConfig(ctx context.Context, g guest, ch change) error {
	p := pve.UpdateVMConfigParams{
		Node: g.node, VMID: g.vmid, Tags: ch.tags, Description: ch.description, Delete: ch.delete, Revert: ch.revert,
		Template: ch.template, Protection: ch.protection, OSType: ch.osType,
	}
	if ch.digest != "" {
		p.Digest = new(ch.digest)
	}
	for n, d := range ch.virtio {
		if err := putAt(&p.VirtIO, n, d.String()); err != nil {
			return err
		}
	}
	return request(ctx, c, c.pve.UpdateVMConfig, p)
}

// textual is a pointer to a type that reads itself from text, as the types of
// PVE's property strings do.
type textual[T any] interface {
	*T
	encoding.TextUnmarshaler
}

// putAt sets a member of an indexed family of property strings from its text.
func putAt[T any, P textual[T]](target *map[int]T, n int, text string) error {
	var v T
	if err := P(&v).UnmarshalText([]byte(text)); err != nil {
		return err
	}
	if *target == nil {
		*target = map[int]T{}
	}
	(*target)[n] = v
	return nil
}

// netDevice returns a NIC as PVE has it.
func netDevice(n nic) pve.VMNet {
	d := pve.VMNet{Model: n.Model, MACAddr: new(n.MAC), Bridge: new(n.Bridge)}
	if n.MTU > 0 {
		d.MTU = new(int64(n.MTU))
	}
	if n.VLAN > 0 {
		d.Tag = new(int64(n.VLAN))
	}
	return d
}

// upload sends a file to a storage and waits until it is in place. A file of the
// same name is replaced.
func (c *CPI) upload(ctx context.Context, node, storage, content, name string, size int64, open func(context.Context) (io.ReadCloser, error)) error {
	for try := 0; ; try++ {
		err := c.uploadOnce(ctx, node, storage, content, name, size, open)
		if !unsettled(err) && !errors.Is(err, pve.ErrWorkerStart) || isTaskError(err) || try == 2 {
			return err
		}
		c.log.Printf("upload of %s is made again: %v", name, err)
		if err := pause(ctx, try+2); err != nil {
			return err
		}
	}
}

func (c *CPI) uploadOnce(ctx context.Context, node, storage, content, name string, size int64, open func(context.Context) (io.ReadCloser, error)) error {
	r, err := open(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	leave, err := c.enter(ctx, node)
	if err != nil {
		return err
	}
	defer leave()
	// No limit but the call's own: an image takes the time it takes.
	upid, err := c.pve.UploadToStorage(ctx, pve.UploadToStorageParams{Node: node, Storage: storage, Content: content, Filename: name},
		pve.Upload{Body: r, Size: size, Name: name})
	if err != nil {
		return err
	}
	return c.wait(ctx, upid)
}
