package cpi

// A ConfigKey describes a key of the configuration for people.
type ConfigKey struct {
	Name    string
	Type    string
	Default string
	Meaning string
}

// ConfigKeys lists the keys of [Config].
func ConfigKeys() []ConfigKey {
	return []ConfigKey{
		{"endpoint", "text or list", "required", `address of the API, "https://pve1.example.com:8006"; of several the first that answers is used`},
		{"token", "text", "required", `API token, "user@realm!id=secret"; or in two keys:`},
		{"token_id", "text", "", `"user@realm!id"`},
		{"token_secret", "text", "", "the secret by itself"},
		{"ca_certificate", "text", "system's own", "PEM certificates that the server's certificate is checked with"},
		{"fingerprint", "text", "none", "SHA-256 of the server's certificate, instead of a CA"},
		{"storage", "text or list", "required", "where root and ephemeral disks go, in order of preference"},
		{"disk_storage", "text or list", "storage", "where persistent disks go, in order of preference"},
		{"iso_storage", "text", "found", `where the agent's settings are kept; needs content "iso"`},
		{"import_storage", "text", "found", `where stemcell images pass through; needs content "import"`},
		{"pool", "text", "none", "resource pool of everything the CPI makes"},
		{"nodes", "list", "all", "nodes that may hold VMs"},
		{"bridge", "text", `"vmbr0"`, "bridge of networks that name none"},
		{"model", "text", `"virtio"`, "NIC model of networks that name none"},
		{"cpu_type", "text", `"x86-64-v2-AES"`, `CPU model of VMs; "host" for nested virtualisation`},
		{"start_on_boot", "boolean", "false", "whether VMs start with their node"},
		{"tags", "map of texts", "none", "extra tags for VMs and disks"},
		{"agent.mbus", "text", "from the env", `message bus of the agent, "https://user:password@0.0.0.0:6868"`},
		{"agent.ntp", "list", "none", "time servers of the agent"},
		{"agent.blobstore", "object", "from the env", "blobstore of the agent"},
		{"lock_dir", "text", "in TMPDIR", "directory of the locks and notes that the CPI processes of one user share"},
		{"node_concurrency", "integer", "3", "how many changes the CPI makes at once on one node"},
		{"request_timeout", "integer, seconds", "120", "limit for one API request, uploads excepted"},
		{"call_timeout", "integer, seconds", "3600", "limit for one CPI call"},
	}
}
