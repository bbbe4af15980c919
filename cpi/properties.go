package cpi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Cloud properties follow the same rules everywhere. Sizes are whole numbers of
// MiB. Numbers and booleans are JSON numbers and booleans, never quoted. null
// and "" mean "not given". Unknown keys are refused with the nearest known one.
// A list is an array, or an object {"name": true|false} whose entries VM
// extensions can add to. In the tables below a dot in a key means nesting,
// "configuration" as a default the key of the same name in [Config] (for the
// storage of a disk, disk_storage), and "true if thin" that it depends on the
// storage: [DriveOptions].

// A Disk says how large a disk of a VM is and where it goes.
type Disk struct {
	// Size is in MiB. In a root disk 0 means the size of the stemcell; in an
	// ephemeral disk 0 means that there is none and the agent uses what is free
	// on the root disk.
	Size int64
	// Storage is in order of preference, never empty after parsing.
	Storage []string
}

// VMProperties are the cloud properties of a VM type, merged with those of the
// VM extensions and of the AZ by the Director.
//
//	key                     type            default        meaning
//	nodes                   list            configuration  candidates for placement
//	storage                 string or list  configuration  storage of the root and the ephemeral disk, in order of preference
//	pool                    string          configuration  resource pool
//	cpu                     integer         1              virtual CPUs, 1 to 512
//	ram                     integer, MiB    1024           memory, at least 512
//	root_disk.size          integer, MiB    stemcell's     size of the system disk, at least the stemcell's
//	root_disk.storage       string or list  storage        storage of the system disk
//	ephemeral_disk.size     integer, MiB    10240          size of the ephemeral disk, at least 2048; 0 for none
//	ephemeral_disk.storage  string or list  storage        storage of the ephemeral disk
//	cpu_type                string          configuration  CPU model
//	start_on_boot           boolean         configuration  whether the VM starts with its node
//	tags                    map of strings  none           extra tags, added to those of the configuration
//	discard                 boolean         true if thin   pass the guest's trims on; by default where the storage is thin
//	iothread                boolean         true           give the drive a thread of its own
//	ssd                     boolean         false          cannot be true: virtio drives have no such flag
//	cache                   string          none           none, directsync, writethrough, writeback, unsafe
//	limits.read_iops        integer         none           throttle of the drive: reads per second
//	limits.write_iops       integer         none           writes per second
//	limits.read_mbps        integer         none           megabytes read per second
//	limits.write_mbps       integer         none           megabytes written per second
type VMProperties struct {
	Nodes         []string
	Pool          string
	CPU           int
	RAM           int64
	RootDisk      Disk
	EphemeralDisk Disk
	CPUType       string
	StartOnBoot   bool
	Tags          map[string]string
	Drive         DriveOptions

	// own are the keys that the VM gave itself.
	own []string
}

// DiskProperties are the cloud properties of a disk type.
//
//	key                type            default        meaning
//	storage            string or list  configuration  where the disk is made, in order of preference
//	format             string          storage's own  raw or qcow2; fixed for the life of the disk
//	tags               map of strings  none           extra tags, added to those of the configuration
//	discard            boolean         true if thin   pass the guest's trims on; by default where the storage is thin
//	iothread           boolean         true           give the drive a thread of its own
//	ssd                boolean         false          cannot be true: virtio drives have no such flag
//	cache              string          none           none, directsync, writethrough, writeback, unsafe
//	limits.read_iops   integer         none           throttle of the drive: reads per second
//	limits.write_iops  integer         none           writes per second
//	limits.read_mbps   integer         none           megabytes read per second
//	limits.write_mbps  integer         none           megabytes written per second
//	name               string          none           label that the Director gives a dynamic disk
type DiskProperties struct {
	Storage []string
	Format  string
	Tags    map[string]string
	Drive   DriveOptions
	Name    string

	// storageFrom says which key Storage comes from.
	storageFrom string
}

// DriveOptions are the options of a drive that stay with it over detaching and
// attaching. nil means the default.
type DriveOptions struct {
	// Discard passes the guest's trims on. On by default where the storage is
	// thin, because a thick one has nothing to give back.
	Discard *bool
	// IOThread gives the drive a thread of its own. On by default.
	IOThread *bool
	// Cache is QEMU's cache mode; "" is none.
	Cache  string
	Limits DriveLimits
}

// DriveLimits throttle a drive; 0 is no limit.
type DriveLimits struct {
	ReadIOPS, WriteIOPS int64
	ReadMBps, WriteMBps int64
}

// DiscardOn resolves Discard for a storage that is thin or not.
func (o DriveOptions) DiscardOn(thin bool) bool {
	if o.Discard != nil {
		return *o.Discard
	}
	return thin
}

// IOThreadOn resolves IOThread.
func (o DriveOptions) IOThreadOn() bool { return o.IOThread == nil || *o.IOThread }

// maxMiB is more than any storage has and leaves room for sums in bytes.
const maxMiB = 1 << 40

const (
	minRAM           = 512
	defaultRAM       = 1024
	minEphemeral     = 2048
	defaultEphemeral = 10240
)

// ParseVMProperties reads the cloud properties of a VM. The warnings are for the
// log: what is allowed and yet probably not what was meant.
func ParseVMProperties(raw json.RawMessage, c *Config) (p VMProperties, warnings []string, err error) {
	return readVMProperties(newObjectReader(placeProperties, raw), c)
}

func readVMProperties(r *objectReader, c *Config) (p VMProperties, warnings []string, err error) {
	p = VMProperties{
		Nodes: c.Nodes, Pool: c.Pool, CPU: 1, RAM: defaultRAM, CPUType: c.CPUType, StartOnBoot: c.StartOnBoot,
		RootDisk: Disk{Storage: c.Storage}, EphemeralDisk: Disk{Size: defaultEphemeral, Storage: c.Storage},
	}
	set(&p.Nodes, r.names("nodes", false))
	if list := r.names("storage", true); len(list) > 0 {
		p.RootDisk.Storage, p.EphemeralDisk.Storage = list, list
	}
	setText(&p.Pool, r.pool("pool"))
	if v := r.integer("cpu", 1, 512); v != nil {
		p.CPU = int(*v)
	}
	if v := r.mebibytesOf("ram", minRAM); v != nil {
		p.RAM = *v
	}
	root := r.object("root_disk")
	if v := root.mebibytesOf("size", 1); v != nil {
		p.RootDisk.Size = *v
	}
	set(&p.RootDisk.Storage, root.names("storage", true))
	root.refuseUnknown()
	eph := r.object("ephemeral_disk")
	if v := eph.mebibytesOf("size", 0); v != nil {
		p.EphemeralDisk.Size = *v
		if *v > 0 && *v < minEphemeral {
			eph.fail("size", "must be at least %d MiB, or 0 for no ephemeral disk, got %d", minEphemeral, *v)
		}
	}
	set(&p.EphemeralDisk.Storage, eph.names("storage", true))
	eph.refuseUnknown()
	setText(&p.CPUType, r.name("cpu_type"))
	if v := r.boolean("start_on_boot"); v != nil {
		p.StartOnBoot = *v
	}
	p.Tags = mergeTags(c.Tags, r.tags("tags"))
	p.Drive = r.drive()
	r.later("security_groups", "anti_affinity", "ha", "firewall", "backup", "encrypted", "pci", "numa", "hugepages", "linked_clone")

	for key, level := range map[string]*objectReader{
		"nodes": r, "storage": r, "pool": r, "cpu": r, "ram": r, "cpu_type": r, "root_disk.storage": root, "ephemeral_disk.storage": eph, "ephemeral_disk.size": eph,
	} {
		if level.has(key[strings.LastIndexByte(key, '.')+1:]) {
			p.own = append(p.own, key)
		}
	}
	slices.Sort(p.own)
	if p.EphemeralDisk.Size > 0 && p.EphemeralDisk.Size < 2*p.RAM {
		warnings = append(warnings, fmt.Sprintf(
			"ephemeral_disk.size %d MiB is less than twice ram %d MiB: the agent's swap takes up to half of the disk", p.EphemeralDisk.Size, p.RAM))
	}
	if w := rewrittenTags(p.Tags); w != "" {
		warnings = append(warnings, w)
	}
	if p.CPUType == "host" {
		warnings = append(warnings, `cpu_type "host" ties the VM to nodes with the same CPU model: it cannot move live in a mixed cluster`)
	}
	if err := r.finish(); err != nil {
		return VMProperties{}, nil, err
	}
	return p, warnings, nil
}

// ParseDiskProperties reads the cloud properties of a persistent disk.
func ParseDiskProperties(raw json.RawMessage, c *Config) (DiskProperties, error) {
	return readDiskProperties(newObjectReader(placeProperties, raw), c)
}

func readDiskProperties(r *objectReader, c *Config) (DiskProperties, error) {
	p := DiskProperties{Storage: c.DiskStorage, storageFrom: keyPlace(configPlace, "disk_storage")}
	if slices.Equal(c.DiskStorage, c.Storage) {
		p.storageFrom = keyPlace(configPlace, "storage")
	}
	if list := r.names("storage", true); len(list) > 0 {
		p.Storage, p.storageFrom = list, keyPlace(placeProperties, "storage")
	}
	p.Format = r.choice("format", "raw", "qcow2")
	p.Tags = mergeTags(c.Tags, r.tags("tags"))
	p.Drive = r.drive()
	p.Name = r.text("name")
	r.later("encrypted", "backup")
	if err := r.finish(); err != nil {
		return DiskProperties{}, err
	}
	return p, nil
}

func (r *objectReader) drive() DriveOptions {
	o := DriveOptions{
		Discard:  r.boolean("discard"),
		IOThread: r.boolean("iothread"),
		Cache:    r.choice("cache", "none", "directsync", "writethrough", "writeback", "unsafe"),
	}
	if o.Cache == "none" {
		o.Cache = ""
	}
	if v := r.boolean("ssd"); v != nil && *v {
		r.fail("ssd", "cannot be true: the CPI's drives are virtio-blk, which has no such flag; remove the key")
	}
	limits := r.object("limits")
	for _, l := range []struct {
		key    string
		target *int64
	}{
		{"read_iops", &o.Limits.ReadIOPS},
		{"write_iops", &o.Limits.WriteIOPS},
		{"read_mbps", &o.Limits.ReadMBps},
		{"write_mbps", &o.Limits.WriteMBps},
	} {
		if v := limits.integer(l.key, 1, 1<<31-1); v != nil {
			*l.target = *v
		}
	}
	limits.refuseUnknown()
	return o
}

// mergeTags lays more over base without changing either.
func mergeTags(base, more map[string]string) map[string]string {
	if len(base)+len(more) == 0 {
		return nil
	}
	out := make(map[string]string, len(base)+len(more))
	for k, v := range base {
		out[k] = v
	}
	for k, v := range more {
		out[k] = v
	}
	return out
}

// source says which key something comes from: the first of keys that the VM gave
// itself, else the last of them in the configuration.
func (p VMProperties) source(keys ...string) string {
	for _, key := range keys {
		if slices.Contains(p.own, key) {
			return keyPlace(placeProperties, key)
		}
	}
	return keyPlace(configPlace, keys[len(keys)-1])
}

// String says in one line what was decided and where it comes from, for the log:
// what is not marked was given with the VM.
func (p VMProperties) String() string {
	var b strings.Builder
	from := func(otherwise string, keys ...string) string {
		for _, key := range keys {
			if slices.Contains(p.own, key) {
				return ""
			}
		}
		return " (" + otherwise + ")"
	}
	const config, builtIn = "configuration", "default"
	fmt.Fprintf(&b, "cpu %d%s, ram %d MiB%s, cpu_type %s%s, root", p.CPU, from(builtIn, "cpu"), p.RAM, from(builtIn, "ram"), p.CPUType, from(config, "cpu_type"))
	if p.RootDisk.Size > 0 {
		fmt.Fprintf(&b, " %d MiB", p.RootDisk.Size)
	}
	fmt.Fprintf(&b, " on %s%s", strings.Join(p.RootDisk.Storage, "|"), from(config, "storage", "root_disk.storage"))
	if p.EphemeralDisk.Size > 0 {
		fmt.Fprintf(&b, ", ephemeral %d MiB%s on %s%s", p.EphemeralDisk.Size, from(builtIn, "ephemeral_disk.size"),
			strings.Join(p.EphemeralDisk.Storage, "|"), from(config, "storage", "ephemeral_disk.storage"))
	} else {
		b.WriteString(", no ephemeral disk")
	}
	if p.Pool != "" {
		b.WriteString(", pool " + p.Pool + from(config, "pool"))
	}
	if len(p.Nodes) > 0 {
		b.WriteString(", nodes " + strings.Join(p.Nodes, "|") + from(config, "nodes"))
	}
	return b.String()
}
