package cpi

import "slices"

// A ConfigKey describes a key of the configuration or of the cloud properties for
// people. A dot in the name means nesting: "agent.mbus" is {"agent": {"mbus": …}}.
type ConfigKey struct {
	Name    string
	Type    string
	Default string
	Meaning string
}

// ConfigKeys lists the keys of [Config].
func ConfigKeys() []ConfigKey {
	return []ConfigKey{
		{"endpoint", "string or list", "required", `address of the API, "pve1.example.com" or "https://pve1.example.com:8006"; of several the first that answers is used`},
		{"token", "string", "required", `API token, "user@realm!id=secret"; or in two keys:`},
		{"token_id", "string", "", `"user@realm!id"`},
		{"token_secret", "string", "", "the secret by itself"},
		{"ca_certificate", "string", "system's own", "PEM certificates that the server's certificate is checked with"},
		{"fingerprint", "string", "none", "SHA-256 of the server's certificate, instead of a CA"},
		{"storage", "string or list", "required", "where root and ephemeral disks go, in order of preference"},
		{"disk_storage", "string or list", "storage", "where persistent disks go, in order of preference"},
		{"iso_storage", "string", "found", `where the agent's settings are kept; needs content "iso"`},
		{"import_storage", "string", "found", `where stemcell images pass through; needs content "import"`},
		{"pool", "string", "none", "resource pool of everything the CPI makes"},
		{"nodes", "list", "all", "nodes that may hold VMs"},
		{"bridge", "string", `"vmbr0"`, "bridge of networks that name none"},
		{"model", "string", `"virtio"`, "NIC model of networks that name none"},
		{"cpu_type", "string", `"x86-64-v2-AES"`, `CPU model of VMs; "host" for nested virtualisation`},
		{"start_on_boot", "boolean", "false", "whether VMs start with their node"},
		{"tags", "map of strings", "none", "extra tags for VMs and disks"},
		{"agent.mbus", "string", "from the env", `message bus of the agent, "https://user:password@0.0.0.0:6868" or "nats://…"`},
		{"agent.ntp", "list", "none", "time servers of the agent"},
		{"agent.blobstore", "object", "from the env", "blobstore of the agent"},
		{"lock_dir", "string", "in TMPDIR", "directory of the locks and notes that the CPI processes of one user share"},
		{"node_concurrency", "integer", "3", "how many changes the CPI makes at once on one node"},
		{"request_timeout", "integer, seconds", "120", "limit for one API request, uploads excepted"},
		{"call_timeout", "integer, seconds", "3600", "limit for one CPI call"},
	}
}

// VMPropertyKeys lists the keys of [VMProperties].
func VMPropertyKeys() []ConfigKey {
	return slices.Concat([]ConfigKey{
		{"nodes", "list", "configuration", "candidates for placement"},
		{"storage", "string or list", "configuration", "storage of the root and the ephemeral disk, in order of preference"},
		{"pool", "string", "configuration", "resource pool"},
		{"cpu", "integer", "1", "virtual CPUs, 1 to 512"},
		{"ram", "integer, MiB", "1024", "memory, at least 512"},
		{"root_disk.size", "integer, MiB", "stemcell's", "size of the system disk, at least the stemcell's"},
		{"root_disk.storage", "string or list", "storage", "storage of the system disk"},
		{"ephemeral_disk.size", "integer, MiB", "10240", "size of the ephemeral disk, at least 2048; 0 for none"},
		{"ephemeral_disk.storage", "string or list", "storage", "storage of the ephemeral disk"},
		{"cpu_type", "string", "configuration", "CPU model"},
		{"start_on_boot", "boolean", "configuration", "whether the VM starts with its node"},
		{"tags", "map of strings", "none", "extra tags, added to those of the configuration"},
	}, driveKeys())
}

// DiskPropertyKeys lists the keys of [DiskProperties].
func DiskPropertyKeys() []ConfigKey {
	return slices.Concat([]ConfigKey{
		{"storage", "string or list", "configuration", "where the disk is made, in order of preference"},
		{"format", "string", "storage's own", "raw or qcow2; fixed for the life of the disk"},
		{"tags", "map of strings", "none", "extra tags, added to those of the configuration"},
	}, driveKeys(), []ConfigKey{
		{"name", "string", "none", "label that the Director gives a dynamic disk"},
	})
}

// NetworkPropertyKeys lists the keys of [NetworkProperties].
func NetworkPropertyKeys() []ConfigKey {
	return []ConfigKey{
		{"bridge", "string", "configuration", "Linux or OVS bridge"},
		{"vnet", "string", "none", "SDN vnet, instead of a bridge"},
		{"vlan", "integer", "none", "VLAN tag on the bridge, 1 to 4094"},
		{"mtu", "integer", "none", "MTU of the NIC, 576 to 65520, or 1 for the bridge's; virtio only"},
		{"model", "string", "configuration", "virtio, e1000, e1000e, vmxnet3"},
	}
}

// driveKeys lists the keys of [DriveOptions].
func driveKeys() []ConfigKey {
	return []ConfigKey{
		{"discard", "boolean", "true if thin", "pass the guest's trims on; by default where the storage is thin"},
		{"iothread", "boolean", "true", "give the drive a thread of its own"},
		{"ssd", "boolean", "false", "cannot be true: virtio drives have no such flag"},
		{"cache", "string", "none", "none, directsync, writethrough, writeback, unsafe"},
		{"limits.read_iops", "integer", "none", "throttle of the drive: reads per second"},
		{"limits.write_iops", "integer", "none", "writes per second"},
		{"limits.read_mbps", "integer", "none", "megabytes read per second"},
		{"limits.write_mbps", "integer", "none", "megabytes written per second"},
	}
}
