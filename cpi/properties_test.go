package cpi

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func testConfig(t testing.TB, more ...string) *Config {
	t.Helper()
	var properties map[string]json.RawMessage
	if len(more) > 0 {
		properties = contextOf(t, more[0])
	}
	c, err := ParseConfig([]byte(minimalConfig()), properties)
	require.NoError(t, err)
	return &c
}

func TestVMProperties(t *testing.T) {
	t.Parallel()
	defaults := func() VMProperties {
		return VMProperties{
			CPU: 1, RAM: 1024, CPUType: "x86-64-v2-AES",
			RootDisk: Disk{Storage: []string{"fast"}}, EphemeralDisk: Disk{Size: 10240, Storage: []string{"fast"}},
		}
	}
	for _, tc := range []struct {
		name, config, properties string
		change                   func(*VMProperties)
		warnings                 []string
	}{
		{"nothing", `{}`, `{}`, func(*VMProperties) {}, nil},
		{"null", `{}`, `null`, func(*VMProperties) {}, nil},
		{
			"null and empty texts mean not given", `{}`,
			`{"cpu":null,"ram":"","nodes":"","storage":null,"pool":"","root_disk":null,"ephemeral_disk":{"size":"","storage":null},"tags":"","ssd":"","limits":{"read_iops":null},"ha":"","anti_affinity":null}`,
			func(*VMProperties) {}, nil,
		},
		{
			"the configuration's defaults", `{"pool":"bosh","nodes":["n1"],"cpu_type":"kvm64","start_on_boot":true,"tags":{"a":"b"}}`, `{}`,
			func(p *VMProperties) {
				p.Pool, p.Nodes, p.CPUType, p.StartOnBoot, p.Tags = "bosh", []string{"n1"}, "kvm64", true, map[string]string{"a": "b"}
			}, nil,
		},
		{
			"the VM's own win", `{"pool":"bosh","nodes":["n1"],"cpu_type":"kvm64","start_on_boot":true,"tags":{"a":"b","c":"d"}}`,
			`{"pool":"p2","nodes":{"n3":true,"n1":false,"n2":true},"cpu_type":"host","start_on_boot":false,"tags":{"a":"x"}}`,
			func(p *VMProperties) {
				p.Pool, p.Nodes, p.CPUType, p.Tags = "p2", []string{"n3", "n2"}, "host", map[string]string{"a": "x", "c": "d"}
			},
			[]string{`cpu_type "host" ties the VM to nodes`},
		},
		{
			"sizes", `{}`, `{"cpu":512,"ram":4096,"root_disk":{"size":8192},"ephemeral_disk":{"size":4096}}`,
			func(p *VMProperties) { p.CPU, p.RAM, p.RootDisk.Size, p.EphemeralDisk.Size = 512, 4096, 8192, 4096 },
			[]string{"ephemeral_disk.size 4096 MiB is less than twice ram 4096 MiB"},
		},
		{
			"whole numbers in another form", `{}`, `{"cpu":2.0,"ram":4e3}`,
			func(p *VMProperties) { p.CPU, p.RAM = 2, 4000 }, nil,
		},
		{
			"tags that read otherwise", `{"tags":{"cost":"a"}}`, `{"tags":{"Größe X":"1","team":"A b"}}`,
			func(p *VMProperties) { p.Tags = map[string]string{"cost": "a", "Größe X": "1", "team": "A b"} },
			[]string{`"Größe X": "1" becomes gr-e-x-1, "team": "A b" becomes team-a-b`},
		},
		{"no ephemeral disk", `{}`, `{"ephemeral_disk":{"size":0}}`, func(p *VMProperties) { p.EphemeralDisk.Size = 0 }, nil},
		{
			"one storage for both", `{}`, `{"storage":"ceph"}`,
			func(p *VMProperties) {
				p.RootDisk.Storage, p.EphemeralDisk.Storage = []string{"ceph"}, []string{"ceph"}
			}, nil,
		},
		{
			"a storage for each", `{}`, `{"storage":["a","b"],"root_disk":{"storage":"r"},"ephemeral_disk":{"storage":{"e1":true,"e2":true}}}`,
			func(p *VMProperties) {
				p.RootDisk.Storage, p.EphemeralDisk.Storage = []string{"r"}, []string{"e1", "e2"}
			}, nil,
		},
		{
			"drive options", `{}`, `{"discard":false,"iothread":false,"ssd":false,"cache":"writeback","limits":{"read_iops":1,"write_iops":2,"read_mbps":3,"write_mbps":4}}`,
			func(p *VMProperties) {
				p.Drive = DriveOptions{Discard: new(false), IOThread: new(false), Cache: "writeback", Limits: DriveLimits{1, 2, 3, 4}}
			}, nil,
		},
		{"cache none is the default", `{}`, `{"cache":"none"}`, func(*VMProperties) {}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			want := defaults()
			tc.change(&want)

			got, warnings, err := ParseVMProperties(json.RawMessage(tc.properties), testConfig(t, tc.config))

			require.NoError(t, err)
			assert.NotEmpty(t, got.String())
			got.own = nil
			assert.Equal(t, want, got)
			require.Len(t, warnings, len(tc.warnings))
			for i, w := range tc.warnings {
				assert.Contains(t, warnings[i], w)
			}
		})
	}
}

func TestVMPropertiesSayWhereTheyComeFrom(t *testing.T) {
	t.Parallel()
	p, _, err := ParseVMProperties(json.RawMessage(`{"cpu":2,"root_disk":{"size":5120,"storage":"slow"},"nodes":["n2","n1"]}`), testConfig(t, `{"pool":"bosh"}`))
	require.NoError(t, err)
	assert.Equal(t, "cpu 2, ram 1024 MiB (default), cpu_type x86-64-v2-AES (configuration), root 5120 MiB on slow, "+
		"ephemeral 10240 MiB (default) on fast (configuration), pool bosh (configuration), nodes n2|n1", p.String())

	p, _, err = ParseVMProperties(json.RawMessage(`{"ram":512,"storage":["a","b"],"ephemeral_disk":{"size":0},"pool":"x","cpu_type":"host"}`), testConfig(t))
	require.NoError(t, err)
	assert.Equal(t, "cpu 1 (default), ram 512 MiB, cpu_type host, root on a|b, no ephemeral disk, pool x", p.String())
}

func TestPropertyRefusals(t *testing.T) {
	t.Parallel()
	vm := func(raw json.RawMessage, c *Config) error {
		_, _, err := ParseVMProperties(raw, c)
		return err
	}
	disk := func(raw json.RawMessage, c *Config) error {
		_, err := ParseDiskProperties(raw, c)
		return err
	}
	network := func(raw json.RawMessage, c *Config) error {
		_, err := ParseNetworkProperties("default", raw, c)
		return err
	}
	type parse = func(json.RawMessage, *Config) error
	for _, tc := range []struct {
		name  string
		parse parse
		text  string
		want  string
	}{
		{"quoted ram", vm, `{"ram":"4096"}`, `cloud_properties ram: must be a whole number, got the string "4096": write the number without quotes`},
		{"ram of a word", vm, `{"ram":true}`, `ram: must be a whole number, got true`},
		{"too little ram", vm, `{"ram":511}`, "ram: must be at least 512 MiB, got 511"},
		{"no cpu", vm, `{"cpu":0}`, "cpu: must be from 1 to 512, got 0"},
		{"too many cpus", vm, `{"cpu":513}`, "cpu: must be from 1 to 512, got 513"},
		{"fraction of a cpu", vm, `{"cpu":0.5}`, "cpu: must be a whole number, got 0.5"},
		{"a slip", vm, `{"rma":4096}`, `rma: unknown key: did you mean "ram"?`},
		{"another word", vm, `{"memory":4096}`, `memory: unknown key: did you mean "ram"?`},
		{"another word for cpu", vm, `{"cores":2}`, `cores: unknown key: did you mean "cpu"?`},
		{"a slip in a level", vm, `{"root_disk":{"szie":1}}`, `root_disk.szie: unknown key: did you mean "size"?`},
		{"a level that is a number", vm, `{"ephemeral_disk":10240}`, "ephemeral_disk: must be an object, got 10240"},
		{"a small ephemeral disk", vm, `{"ephemeral_disk":{"size":2047}}`, "ephemeral_disk.size: must be at least 2048 MiB, or 0 for no ephemeral disk, got 2047"},
		{"a negative ephemeral disk", vm, `{"ephemeral_disk":{"size":-1}}`, "ephemeral_disk.size: must be at least 0 MiB, got -1"},
		{"a root disk of nothing", vm, `{"root_disk":{"size":0}}`, "root_disk.size: must be at least 1 MiB, got 0"},
		{"storage of numbers", vm, `{"storage":[1]}`, "storage: must be a list of strings, but holds 1"},
		{"no storage", vm, `{"storage":{"a":false}}`, "storage: names nothing"},
		{"nodes in one text", vm, `{"nodes":"n1,n2"}`, "nodes: must be a list of strings, got a string"},
		{"a pattern", vm, `{"nodes":["n*"]}`, `nodes: "n*" is not a name`},
		{"a pool that is a list", vm, `{"pool":["a"]}`, `pool: must be a string, got an array ["a"]`},
		{"a pool with a way out", vm, `{"pool":"a/../b"}`, `pool: "a/../b" is not the name of a pool`},
		{"a pool that begins with a slash", vm, `{"pool":"/a"}`, `pool: "/a" is not the name of a pool`},
		{"a storage with a path", vm, `{"storage":"a/b"}`, `storage: "a/b" is not a name`},
		{"ssd", vm, `{"ssd":true}`, "ssd: cannot be true"},
		{"an unknown cache", vm, `{"cache":"fast"}`, `cache: must be one of none, directsync, writethrough, writeback, unsafe, got "fast"`},
		{"a limit of nothing", vm, `{"limits":{"read_iops":0}}`, "limits.read_iops: must be from 1"},
		{"an unknown limit", vm, `{"limits":{"iops":1}}`, `limits.iops: unknown key`},
		{"tags of numbers", vm, `{"tags":{"a":1}}`, "tags.a: must be a string, got 1: put it in quotes"},
		{"tags as a list", vm, `{"tags":["a"]}`, "tags: must be an object"},
		{"an ownership tag", vm, `{"tags":{"disk":"abc"}}`, "tags.disk: cannot be a tag"},
		{"a later key", vm, `{"ha":true}`, "ha: is not supported yet"},
		{"security groups", vm, `{"security_groups":["a"]}`, "security_groups: is not supported yet"},
		{"anti-affinity", vm, `{"anti_affinity":"soft"}`, "anti_affinity: is not supported yet"},
		{"no object", vm, `[]`, "cloud_properties: must be an object, got an array"},
		{"an unknown format", disk, `{"format":"vmdk"}`, `cloud_properties format: must be one of raw, qcow2, got "vmdk"`},
		{"a disk with ram", disk, `{"ram":1}`, "ram: unknown key"},
		{"an encrypted disk", disk, `{"encrypted":true}`, "encrypted: is not supported yet"},
		{"a disk size", disk, `{"storage":7}`, "storage: must be a string or a list of strings, got a number"},
		{"vlan zero", network, `{"vlan":0}`, `network "default": cloud_properties vlan: must be from 1 to 4094, got 0`},
		{"vlan beyond", network, `{"vlan":4095}`, "vlan: must be from 1 to 4094, got 4095"},
		{"vlan quoted", network, `{"vlan":"5"}`, `vlan: must be a whole number, got the string "5"`},
		{"mtu small", network, `{"mtu":575}`, "mtu: must be from 576 to 65520, or 1"},
		{"mtu large", network, `{"mtu":65521}`, "mtu: must be from 1 to 65520"},
		{"mtu on e1000", network, `{"mtu":1500,"model":"e1000"}`, "mtu: needs model virtio, got e1000"},
		{"bridge and vnet", network, `{"bridge":"vmbr0","vnet":"v1"}`, "vnet: stands beside bridge"},
		{"vlan and vnet", network, `{"vlan":5,"vnet":"v1"}`, "vlan: stands beside vnet"},
		{"a slip in a network", network, `{"brigde":"vmbr0"}`, `brigde: unknown key: did you mean "bridge"?`},
		{"a firewall", network, `{"firewall":true}`, "firewall: is not supported yet"},
		{"a bridge with an option", network, `{"bridge":"vmbr0,firewall=1"}`, `bridge: "vmbr0,firewall=1" is not a name`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := tc.parse(json.RawMessage(tc.text), testConfig(t))
			require.Error(t, err)
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

func TestDiskProperties(t *testing.T) {
	t.Parallel()
	c := testConfig(t, `{"disk_storage":["d1","d2"],"tags":{"a":"b"}}`)

	p, err := ParseDiskProperties(json.RawMessage(`{}`), c)
	require.NoError(t, err)
	assert.Equal(t, "the CPI configuration: disk_storage", p.storageFrom)
	p.storageFrom = ""
	assert.Equal(t, DiskProperties{Storage: []string{"d1", "d2"}, Tags: map[string]string{"a": "b"}}, p)

	p, err = ParseDiskProperties(json.RawMessage(`{"storage":"x","format":"qcow2","discard":true,"name":"data","tags":{"c":"d"}}`), c)
	require.NoError(t, err)
	assert.Equal(t, "cloud_properties storage", p.storageFrom)
	p.storageFrom = ""
	assert.Equal(t, DiskProperties{
		Storage: []string{"x"}, Format: "qcow2", Name: "data",
		Tags: map[string]string{"a": "b", "c": "d"}, Drive: DriveOptions{Discard: new(true)},
	}, p)

	p, err = ParseDiskProperties(json.RawMessage(`{}`), testConfig(t))
	require.NoError(t, err)
	assert.Equal(t, "the CPI configuration: storage", p.storageFrom)
	assert.Equal(t, []string{"fast"}, p.Storage, "without a storage for disks they go where VMs go")
}

func TestDriveDefaults(t *testing.T) {
	t.Parallel()
	var o DriveOptions
	assert.True(t, o.DiscardOn(true))
	assert.False(t, o.DiscardOn(false))
	assert.True(t, o.IOThreadOn())
	o = DriveOptions{Discard: new(true), IOThread: new(false)}
	assert.True(t, o.DiscardOn(false))
	assert.False(t, o.IOThreadOn())
}

func TestNetworkProperties(t *testing.T) {
	t.Parallel()
	c := testConfig(t, `{"bridge":"vmbr9","model":"e1000e"}`)
	for _, tc := range []struct {
		name, text string
		want       NetworkProperties
	}{
		{"nothing", `{}`, NetworkProperties{Bridge: "vmbr9", Model: "e1000e"}},
		{"a bridge", `{"bridge":"vmbr1","vlan":4094,"model":"virtio","mtu":1}`, NetworkProperties{Bridge: "vmbr1", VLAN: 4094, Model: "virtio", MTU: 1}},
		{"a vnet", `{"vnet":"v1","bridge":"","vlan":null}`, NetworkProperties{Bridge: "v1", VNet: true, Model: "e1000e"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseNetworkProperties("n", json.RawMessage(tc.text), c)
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestStemcellProperties(t *testing.T) {
	t.Parallel()
	assert.Equal(t, StemcellProperties{Name: "ubuntu", Version: "1.651"}, ParseStemcellProperties(json.RawMessage(`{"name":"ubuntu","version":1.651,"disk":"5120","new":[]}`)))
	assert.Equal(t, StemcellProperties{Version: "2", ImageID: "x"}, ParseStemcellProperties(json.RawMessage(`{"name":null,"version":" 2 ","image_id":"x"}`)))
	assert.Equal(t, StemcellProperties{}, ParseStemcellProperties(nil))
}

func FuzzProperties(f *testing.F) {
	for _, seed := range []string{`{"cpu":1,"tags":{"ü":"x"},"limits":{"read_iops":1}}`, `{"storage":{"a":true,"b":null}}`, `{"nodes":["a",1]}`, `[1`, `{"vlan":1e3}`} {
		f.Add([]byte(seed))
	}
	c := testConfig(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, _, err := ParseVMProperties(raw, c)
		if err == nil {
			require.NotEmpty(t, p.RootDisk.Storage)
			require.GreaterOrEqual(t, p.RAM, int64(minRAM))
		}
		if d, err := ParseDiskProperties(raw, c); err == nil {
			require.NotEmpty(t, d.Storage)
		}
		if n, err := ParseNetworkProperties("n", raw, c); err == nil {
			require.NotEmpty(t, n.Bridge)
		}
	})
}
