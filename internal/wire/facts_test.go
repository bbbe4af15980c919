package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/internal/wire"
)

// guest has the members that public bug reports about clients turn on, with the types
// their API descriptions promise.
type guest struct {
	VMID       *int64            `json:"vmid,omitempty"`
	PID        *int64            `json:"pid,omitempty"`
	Total      *uint64           `json:"total,omitempty"`
	MaxDisk    *uint64           `json:"maxdisk,omitempty"`
	Disk       *uint64           `json:"disk,omitempty"`
	Mem        *uint64           `json:"mem,omitempty"`
	MaxSwap    *uint64           `json:"maxswap,omitempty"`
	Size       *uint64           `json:"size,omitempty"`
	KSM        *ksm              `json:"ksm,omitempty"`
	Tag        *int64            `json:"tag,omitempty"`
	CPULimit   *float64          `json:"cpulimit,omitempty"`
	CPUs       *float64          `json:"cpus,omitempty"`
	Memory     *int64            `json:"memory,omitempty"`
	Balloon    *int64            `json:"balloon,omitempty"`
	OnBoot     *bool             `json:"onboot,omitempty"`
	Template   *bool             `json:"template,omitempty"`
	Disable    *bool             `json:"disable,omitempty"`
	Exited     *bool             `json:"exited,omitempty"`
	Truncated  *bool             `json:"out-truncated,omitempty"`
	RPM        *int64            `json:"rpm,omitempty"`
	Wearout    *string           `json:"wearout,omitempty"`
	OSDs       []int64           `json:"osdid-list,omitempty"`
	BridgeFD   *int64            `json:"bridge_fd,omitempty"`
	Capacity   *int64            `json:"max_workers,omitempty"`
	Storage    string            `json:"storage,omitempty"`
	STORAGE    *string           `json:"STORAGE,omitempty"`
	ICMPType   *string           `json:"icmp-type,omitempty"`
	QMPStatus  *string           `json:"qmpstatus,omitempty"`
	Nodes      []string          `json:"nodes,omitempty"`
	Tags       []string          `json:"tags,omitempty" px:"list"`
	Content    []string          `json:"content,omitempty" px:"list"`
	Net        map[int]vmNet     `json:"net[n],omitempty"`
	SCSI       map[int]vmDisk    `json:"scsi[n],omitempty"`
	Unused     map[int]string    `json:"unused[n],omitempty"`
	Mp         map[int]string    `json:"mp[n],omitempty"`
	HostPCI    map[int]hostPCI   `json:"hostpci[n],omitempty"`
	EFIDisk    *vmDisk           `json:"efidisk0,omitempty"`
	LXC        [][]string        `json:"lxc,omitempty"`
	Desc       *string           `json:"description,omitempty"`
	Value      *string           `json:"value,omitempty"`
	Pending    *string           `json:"pending,omitempty"`
	DeleteFlag *int64            `json:"delete,omitempty"`
	Prefix     *int64            `json:"prefix,omitempty"`
	Privs      map[string]bool   `json:"privs,omitempty"`
	CRS        *crs              `json:"crs,omitempty"`
	Errors     map[string]string `json:"errors,omitempty"`
}

type ksm struct {
	Shared *uint64 `json:"shared,omitempty"`
}

type hostPCI struct {
	Host []string `json:"host,omitempty" px:"default,list=;"`
	PCIe *bool    `json:"pcie,omitempty"`

	raw string
}

func (h hostPCI) MarshalText() ([]byte, error) { return wire.MarshalProps(h, h.raw) }
func (h *hostPCI) UnmarshalText(b []byte) error {
	h.raw = string(b)
	return wire.ParseProps(h.raw, h)
}

// crs is a property string that some answers hold as an object.
type crs struct {
	HA        *string           `json:"ha,omitempty"`
	Rebalance *bool             `json:"ha-rebalance-on-start,omitempty"`
	Extra     map[string]string `json:"-" px:"extra"`

	raw string
}

func (c crs) MarshalText() ([]byte, error) { return wire.MarshalProps(c, c.raw) }
func (c *crs) UnmarshalText(b []byte) error {
	c.raw = string(b)
	return wire.ParseProps(c.raw, c)
}

// Every entry is a value that broke some client, and what must become of it.
func TestAnswersThatBreakClients(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		json   string
		want   guest
		misfit []string
	}{
		{name: "total of petabytes as exponent", json: `{"total":3.47726673451418e+15}`, want: guest{Total: new(uint64(3477266734514180))}},
		{name: "total of one pebibyte, rounded by the server", json: `{"total":1.12589990684262e+15}`, want: guest{Total: new(uint64(1125899906842620))}},
		{name: "size of nearly 16 EiB", json: `{"maxdisk":18446744073692774400}`, want: guest{MaxDisk: new(uint64(18446744073692774400))}},
		{name: "shared pages beyond 32 bits", json: `{"ksm":{"shared":42268934144}}`, want: guest{KSM: &ksm{Shared: new(uint64(42268934144))}}},
		{name: "memory beyond 31 bits", json: `{"mem":4294967296,"maxdisk":3221225472,"maxswap":2147483648}`, want: guest{Mem: new(uint64(4294967296)), MaxDisk: new(uint64(3221225472)), MaxSwap: new(uint64(2147483648))}},
		{name: "image beyond 31 bits", json: `{"size":8589934592}`, want: guest{Size: new(uint64(8589934592))}},
		{name: "VXLAN tag", json: `{"tag":16777215}`, want: guest{Tag: new(int64(16777215))}},
		{name: "CPU limit is text with a fraction", json: `{"cpulimit":"0.4"}`, want: guest{CPULimit: new(0.4)}},
		{name: "memory became text", json: `{"memory":"4096","balloon":"0"}`, want: guest{Memory: new(int64(4096)), Balloon: new(int64(0))}},
		{name: "flag is a number", json: `{"onboot":1}`, want: guest{OnBoot: new(true)}},
		{name: "pid of a stopped template", json: `{"pid":null}`, want: guest{}},
		{name: "ID as text", json: `{"vmid":"101"}`, want: guest{VMID: new(int64(101))}},
		{name: "ID as number", json: `{"vmid":2042}`, want: guest{VMID: new(int64(2042))}},
		{name: "template is empty text", json: `{"template":""}`, want: guest{Template: new(false)}},
		{name: "template is a number", json: `{"template":1}`, want: guest{Template: new(true)}},
		{name: "CPUs of a limited container", json: `{"cpus":"0.5"}`, want: guest{CPUs: new(0.5)}},
		{name: "disk usage as text", json: `{"disk":"1073741824","maxdisk":"8589934592"}`, want: guest{Disk: new(uint64(1073741824)), MaxDisk: new(uint64(8589934592))}},
		{name: "spinning disk", json: `{"rpm":"5400","wearout":"N/A","osdid-list":null}`, want: guest{RPM: new(int64(5400)), Wearout: new("N/A")}},
		{name: "solid disk", json: `{"rpm":0,"wearout":99,"osdid-list":["1",2]}`, want: guest{RPM: new(int64(0)), Wearout: new("99"), OSDs: []int64{1, 2}}},
		{name: "volume size as text", json: `{"size":"129994752"}`, want: guest{Size: new(uint64(129994752))}},
		{name: "bridge delay as text", json: `{"bridge_fd":"0"}`, want: guest{BridgeFD: new(int64(0))}},
		{name: "bridge delay as number", json: `{"bridge_fd":0}`, want: guest{BridgeFD: new(int64(0))}},
		{name: "overridden default is text", json: `{"max_workers":"15"}`, want: guest{Capacity: new(int64(15))}},
		{name: "rule switched off, number", json: `{"disable":1}`, want: guest{Disable: new(true)}},
		{name: "rule switched off, text", json: `{"disable":"1"}`, want: guest{Disable: new(true)}},
		{name: "agent's flags are numbers", json: `{"exited":1,"out-truncated":0}`, want: guest{Exited: new(true), Truncated: new(false)}},
		{name: "two keys that differ in case", json: `{"storage":"local","STORAGE":"x"}`, want: guest{Storage: "local", STORAGE: new("x")}},
		{name: "key of another case is another key", json: `{"Storage":"x"}`, want: guest{}},
		{name: "dash and underscore differ", json: `{"icmp_type":"x","icmp-type":"any"}`, want: guest{ICMPType: new("any")}},
		{name: "no QMP status in lists", json: `{}`, want: guest{}},
		{name: "nodes as comma text", json: `{"nodes":"pve1,pve2"}`, want: guest{Nodes: []string{"pve1", "pve2"}}},
		{name: "nodes as array", json: `{"nodes":["pve1","pve2"]}`, want: guest{Nodes: []string{"pve1", "pve2"}}},
		{name: "devices beyond index 9", json: `{"unused255":"a:1","mp255":"b:2","scsihw":"x","numa":1}`, want: guest{Unused: map[int]string{255: "a:1"}, Mp: map[int]string{255: "b:2"}}},
		{name: "ID lists in a device", json: `{"hostpci0":"0000:81:00.2;0000:81:00.3,pcie=1"}`, want: guest{HostPCI: map[int]hostPCI{0: {Host: []string{"0000:81:00.2", "0000:81:00.3"}, PCIe: new(true), raw: "0000:81:00.2;0000:81:00.3,pcie=1"}}}},
		{name: "EFI disk in kibibytes", json: `{"efidisk0":"local-lvm:vm-1-disk-0,size=528K"}`, want: guest{EFIDisk: &vmDisk{File: "local-lvm:vm-1-disk-0", Size: new("528K"), raw: "local-lvm:vm-1-disk-0,size=528K"}}},
		{name: "dot in a storage name", json: `{"scsi1":"volumes.hdd:base-269-disk-0"}`, want: guest{SCSI: map[int]vmDisk{1: {File: "volumes.hdd:base-269-disk-0", raw: "volumes.hdd:base-269-disk-0"}}}},
		{name: "raw container keys", json: `{"lxc":[["lxc.idmap","u 0 100000 65536"],["lxc.idmap","g 0 100000 65536"]]}`, want: guest{LXC: [][]string{{"lxc.idmap", "u 0 100000 65536"}, {"lxc.idmap", "g 0 100000 65536"}}}},
		{name: "blank tags", json: `{"tags":" "}`, want: guest{Tags: []string{}}},
		{name: "tags by semicolon", json: `{"tags":"a;m;z"}`, want: guest{Tags: []string{"a", "m", "z"}}},
		{name: "tags by comma and space", json: `{"tags":"a,m z"}`, want: guest{Tags: []string{"a", "m", "z"}}},
		{name: "content by comma", json: `{"content":"iso,vztmpl"}`, want: guest{Content: []string{"iso", "vztmpl"}}},
		{name: "description keeps its newline", json: `{"description":"a\nb\n"}`, want: guest{Desc: new("a\nb\n")}},
		{name: "free text", json: `{"description":"é ✓ — % :\n"}`, want: guest{Desc: new("é ✓ — % :\n")}},
		{name: "pending entry that deletes", json: `{"key":"cores","delete":1}`, want: guest{DeleteFlag: new(int64(1))}},
		{name: "pending value is a number", json: `{"value":4,"pending":8}`, want: guest{Value: new("4"), Pending: new("8")}},
		{name: "a snapshot called 42", json: `{"value":42}`, want: guest{Value: new("42")}},
		{name: "negative prefix", json: `{"prefix":-1}`, want: guest{Prefix: new(int64(-1))}},
		{name: "privileges are keys", json: `{"privs":{"Datastore.Audit":1,"VM.Audit":0}}`, want: guest{Privs: map[string]bool{"Datastore.Audit": true, "VM.Audit": false}}},
		{name: "property string as object", json: `{"crs":{"ha":"static","ha-rebalance-on-start":1,"new":"x"}}`, want: guest{CRS: &crs{HA: new("static"), Rebalance: new(true), Extra: map[string]string{"new": "x"}}}},
		{name: "parameter errors", json: `{"errors":{"full":"type check ('boolean') failed - got 'True'\n"}}`, want: guest{Errors: map[string]string{"full": "type check ('boolean') failed - got 'True'\n"}}},
		{name: "CPU usage that is no number", json: `{"cpus":"nan"}`, want: guest{}, misfit: []string{`cpus: want number, got "nan"`}},
		{name: "one bad element hides nothing", json: `{"disk":{},"vmid":7}`, want: guest{VMID: new(int64(7))}, misfit: []string{"disk: want integer, not negative, got {}"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, misfits := decode[guest](t, tc.json)
			assert.Equal(t, tc.want, got)
			assert.Equal(t, tc.misfit, misfits)
		})
	}
	t.Run("flags inside a device", func(t *testing.T) {
		t.Parallel()
		got, misfits := decode[guest](t, `{"net0":"virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1,link_down=on,new=opt"}`)
		assert.Empty(t, misfits)
		n := got.Net[0]
		assert.True(t, *n.Firewall && *n.LinkDown)
		assert.Equal(t, "virtio BC:24:11:00:00:01 vmbr0", n.Model+" "+*n.MACAddr+" "+*n.Bridge)
		assert.Equal(t, map[string]string{"new": "opt"}, n.Extra)
	})
}

// Every entry is a request that some client got wrong.
func TestRequestsThatClientsGetWrong(t *testing.T) {
	t.Parallel()
	type params struct {
		Disk       *string        `json:"disk,omitempty"`
		Size       *float64       `json:"size,omitempty"`
		Full       *bool          `json:"full,omitempty"`
		Privsep    *bool          `json:"privsep,omitempty"`
		Propagate  *bool          `json:"propagate,omitempty"`
		VCPUs      *int64         `json:"vcpus,omitempty"`
		Storage    *string        `json:"storage,omitempty"`
		Delete     []string       `json:"delete,omitempty" px:"list"`
		SSHKeys    []string       `json:"sshkeys,omitempty" px:"sshkeys"`
		PublicKeys *string        `json:"ssh-public-keys,omitempty"`
		Command    []string       `json:"command,omitempty"`
		Password   *string        `json:"password,omitempty"`
		Tags       []string       `json:"tags,omitempty" px:"list"`
		Net        map[int]string `json:"net[n],omitempty"`
	}
	for _, tc := range []struct {
		name string
		p    params
		want string
	}{
		{name: "a hundred is no exponent", p: params{Size: new(100.0)}, want: "size=100"},
		{name: "nor is a large or a small number", p: params{Size: new(1e21)}, want: "size=1000000000000000000000"},
		{name: "booleans are digits", p: params{Full: new(true)}, want: "full=1"},
		{name: "false is said", p: params{Privsep: new(false), Propagate: new(false)}, want: "privsep=0&propagate=0"},
		{name: "zero is said", p: params{VCPUs: new(int64(0))}, want: "vcpus=0"},
		{name: "empty text is said", p: params{Storage: new("")}, want: "storage="},
		{name: "an empty list is said", p: params{Tags: []string{}}, want: "tags="},
		{name: "nothing is not said", p: params{}, want: ""},
		{name: "delete list", p: params{Delete: []string{"net1", "ipconfig1"}}, want: "delete=net1%2Cipconfig1"},
		{name: "QEMU's keys are encoded twice", p: params{SSHKeys: []string{"ssh-rsa A+/= u@h:1", "ssh-rsa B"}}, want: "sshkeys=ssh-rsa%2520A%252B%252F%253D%2520u%2540h%253A1%250Assh-rsa%2520B"},
		{name: "a container's keys once", p: params{PublicKeys: new("ssh-rsa A+/= u@h\nssh-rsa B")}, want: "ssh-public-keys=ssh-rsa+A%2B%2F%3D+u%40h%0Assh-rsa+B"},
		{name: "command is an array", p: params{Command: []string{"sh", "-c", "a && b;c"}}, want: "command=sh&command=-c&command=a+%26%26+b%3Bc"},
		{name: "ampersand in a password", p: params{Password: new("a&b=c;d+e%f")}, want: "password=a%26b%3Dc%3Bd%2Be%25f"},
		{name: "high indexes", p: params{Net: map[int]string{31: "b", 0: "a", 4: "c"}}, want: "net0=a&net31=b&net4=c"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := wire.EncodeForm(tc.p, nil)
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
}

// What a JSON reader of the standard library makes of an encoded string is the string.
func TestFreeTextSurvives(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"é ✓ — % :\n", "\x00\x01\x7f\"\\/", "\u2028<script>&amp;", "😀"} {
		type params struct {
			Text string `json:"text"`
		}
		for _, dialect := range []wire.Dialect{wire.Perl, wire.Rust} {
			body, err := wire.EncodeJSON(params{text}, dialect, nil)
			require.NoError(t, err)
			var std, own params
			require.NoError(t, json.Unmarshal(body, &std))
			require.NoError(t, wire.Decode(body, &own, nil))
			assert.Equal(t, text, std.Text)
			assert.Equal(t, text, own.Text)
		}
	}
}
