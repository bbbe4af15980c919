package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"testing"

	"github.com/proxkit/proxkit/internal/wire"
)

// resource is an element of /cluster/resources, as the clients have it.
type resource struct {
	ID        string   `json:"id"`
	Type      string   `json:"type"`
	CPU       *float64 `json:"cpu,omitempty"`
	Disk      *uint64  `json:"disk,omitempty"`
	DiskRead  *uint64  `json:"diskread,omitempty"`
	DiskWrite *uint64  `json:"diskwrite,omitempty"`
	HAState   *string  `json:"hastate,omitempty"`
	Lock      *string  `json:"lock,omitempty"`
	MaxCPU    *float64 `json:"maxcpu,omitempty"`
	MaxDisk   *uint64  `json:"maxdisk,omitempty"`
	MaxMem    *uint64  `json:"maxmem,omitempty"`
	Mem       *uint64  `json:"mem,omitempty"`
	MemHost   *uint64  `json:"memhost,omitempty"`
	Name      *string  `json:"name,omitempty"`
	NetIn     *uint64  `json:"netin,omitempty"`
	NetOut    *uint64  `json:"netout,omitempty"`
	Node      *string  `json:"node,omitempty"`
	Pool      *string  `json:"pool,omitempty"`
	Status    *string  `json:"status,omitempty"`
	Storage   *string  `json:"storage,omitempty"`
	Tags      *string  `json:"tags,omitempty"`
	Template  *bool    `json:"template,omitempty"`
	Uptime    *int64   `json:"uptime,omitempty"`
	VMID      *int64   `json:"vmid,omitempty"`
}

type resources struct {
	Data []resource `json:"data"`
}

// guestList makes an answer with n guests of 21 members each, in an order that varies
// as that of Perl's hashes does. Conforming is what encoding/json can read; otherwise
// flags are 0 and 1, and one guest in ten has its numbers in quotes.
func guestList(n int, conforming bool) []byte {
	rnd := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	b.WriteString(`{"data":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		quote := ""
		if !conforming && i%10 == 0 {
			quote = `"`
		}
		number := func(limit uint64) string {
			return quote + strconv.FormatUint(rnd.Uint64N(limit), 10) + quote
		}
		template := strconv.Itoa(i % 2)
		if conforming {
			template = strconv.FormatBool(i%2 == 1)
		}
		members := []string{
			fmt.Sprintf(`"id":"qemu/%d"`, 100+i), `"type":"qemu"`, `"status":"running"`,
			fmt.Sprintf(`"name":"web-%05d.example.com"`, i), fmt.Sprintf(`"node":"pve%d"`, i%16),
			fmt.Sprintf(`"vmid":%s%d%s`, quote, 100+i, quote), `"template":` + template,
			`"tags":"bosh;prod;zone-` + strconv.Itoa(i%3) + `"`, `"pool":"bosh"`, `"hastate":"started"`,
			`"cpu":` + quote + strconv.FormatFloat(rnd.Float64(), 'g', -1, 64) + quote,
			`"maxcpu":` + number(64), `"mem":` + number(1<<36), `"maxmem":` + number(1<<36), `"memhost":` + number(1<<36),
			`"disk":` + number(1<<40), `"maxdisk":` + number(1<<40), `"diskread":` + number(1<<44), `"diskwrite":` + number(1<<44),
			`"netin":` + number(1<<40), `"netout":` + number(1<<40), `"uptime":` + number(1<<24),
		}
		rnd.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		b.WriteByte('{')
		for j, m := range members {
			if j > 0 {
				b.WriteByte(',')
			}
			b.WriteString(m)
		}
		b.WriteByte('}')
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

func BenchmarkDecodeResources(b *testing.B) {
	conforming, messy := guestList(5000, true), guestList(5000, false)
	run := func(name string, data []byte, decode func([]byte, any) error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				var out resources
				if err := decode(data, &out); err != nil || len(out.Data) != 5000 {
					b.Fatal(err, len(out.Data))
				}
			}
		})
	}
	own := func(data []byte, out any) error { return wire.Decode(data, out, nil) }
	run("encoding-json/conforming", conforming, json.Unmarshal)
	run("wire/conforming", conforming, own)
	run("wire/messy", messy, own)
}

// createVM has as many parameters as a large create call.
type createVM struct {
	Node        string          `json:"node"`
	VMID        int64           `json:"vmid"`
	ACPI        *bool           `json:"acpi,omitempty"`
	Agent       *string         `json:"agent,omitempty"`
	Arch        *string         `json:"arch,omitempty"`
	Balloon     *int64          `json:"balloon,omitempty"`
	BIOS        *string         `json:"bios,omitempty"`
	Boot        *string         `json:"boot,omitempty"`
	CICustom    *string         `json:"cicustom,omitempty"`
	CIUser      *string         `json:"ciuser,omitempty"`
	Cores       *int64          `json:"cores,omitempty"`
	CPU         *string         `json:"cpu,omitempty"`
	CPULimit    *float64        `json:"cpulimit,omitempty"`
	CPUUnits    *int64          `json:"cpuunits,omitempty"`
	Description *string         `json:"description,omitempty"`
	EFIDisk     *string         `json:"efidisk0,omitempty"`
	Hotplug     *string         `json:"hotplug,omitempty"`
	IPConfig    map[int]string  `json:"ipconfig[n],omitempty"`
	KVM         *bool           `json:"kvm,omitempty"`
	Machine     *string         `json:"machine,omitempty"`
	Memory      *string         `json:"memory,omitempty"`
	Name        *string         `json:"name,omitempty"`
	NameServer  *string         `json:"nameserver,omitempty"`
	Net         map[int]vmNet   `json:"net[n],omitempty"`
	NUMA        *bool           `json:"numa,omitempty"`
	OnBoot      *bool           `json:"onboot,omitempty"`
	OSType      *string         `json:"ostype,omitempty"`
	Pool        *string         `json:"pool,omitempty"`
	Protection  *bool           `json:"protection,omitempty"`
	SCSI        map[int]vmDisk  `json:"scsi[n],omitempty"`
	SCSIHW      *string         `json:"scsihw,omitempty"`
	Search      *string         `json:"searchdomain,omitempty"`
	Serial      map[int]string  `json:"serial[n],omitempty"`
	Shares      *int64          `json:"shares,omitempty"`
	SMBIOS      *string         `json:"smbios1,omitempty"`
	Sockets     *int64          `json:"sockets,omitempty"`
	SSHKeys     []string        `json:"sshkeys,omitempty" px:"sshkeys"`
	Start       *bool           `json:"start,omitempty"`
	Startup     *string         `json:"startup,omitempty"`
	Tablet      *bool           `json:"tablet,omitempty"`
	Tags        []string        `json:"tags,omitempty" px:"list"`
	USB         map[int]string  `json:"usb[n],omitempty"`
	VCPUs       *int64          `json:"vcpus,omitempty"`
	VGA         *string         `json:"vga,omitempty"`
	VirtIO      map[int]string  `json:"virtio[n],omitempty"`
	VMGenID     *string         `json:"vmgenid,omitempty"`
	Watchdog    *string         `json:"watchdog,omitempty"`
	Unused      map[int]*string `json:"unused[n],omitempty"`
}

func members[T any](n int, value T) map[int]T {
	m := map[int]T{}
	for i := range n {
		m[i] = value
	}
	return m
}

func bigCreateVM() createVM {
	return createVM{
		Node: "pve1", VMID: 120, ACPI: new(true), Agent: new("enabled=1,fstrim_cloned_disks=1"), Arch: new("x86_64"), Balloon: new(int64(0)),
		BIOS: new("ovmf"), Boot: new("order=scsi0;ide2;net0"), CICustom: new("user=local:snippets/user.yaml"), CIUser: new("vcap"), Cores: new(int64(4)), CPU: new("x86-64-v2-AES,flags=+aes;-pcid"),
		CPULimit: new(1.5), CPUUnits: new(int64(1024)), Description: new("managed by BOSH; a=b & c\n"), EFIDisk: new("local-lvm:1,efitype=4m"),
		Hotplug: new("network,disk,usb"), IPConfig: members(4, "ip=10.0.0.10/24,gw=10.0.0.1"), KVM: new(true), Machine: new("q35"), Memory: new("8192"), Name: new("web-1"),
		NameServer: new("10.0.0.2"), Net: members(5, vmNet{Model: "virtio", MACAddr: new("BC:24:11:00:00:01"), Bridge: new("vmbr0"), Firewall: new(true), Tag: new(int64(30))}), NUMA: new(true), OnBoot: new(false),
		OSType: new("l26"), Pool: new("bosh"), Protection: new(false), SCSI: members(6, vmDisk{File: "local-lvm:32", Discard: new("on"), IOThread: new(true), Serial: new("bosh-disk")}), SCSIHW: new("virtio-scsi-single"),
		Search: new("example.com"), Serial: members(1, "socket"), Shares: new(int64(1000)), SMBIOS: new("uuid=6f1c0c0e-7d4f-4a43-9a54-8e7c8b0a4c11"), Sockets: new(int64(1)),
		SSHKeys: []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIO+abc/def= ops@example"}, Start: new(true), Startup: new("order=1,up=30"), Tablet: new(false),
		Tags: []string{"bosh", "prod"}, USB: members(1, "spice"), VCPUs: new(int64(4)), VGA: new("serial0"), VirtIO: members(3, "local-lvm:8,discard=on"),
		VMGenID: new("1"), Watchdog: new("i6300esb,action=reset"),
	}
}

// byHand says the same with net/url, as somebody without this package would.
func byHand(p *createVM) string {
	v := url.Values{}
	digit := func(b *bool) string {
		if *b {
			return "1"
		}
		return "0"
	}
	text := func(key string, s *string) {
		if s != nil {
			v.Set(key, *s)
		}
	}
	number := func(key string, n *int64) {
		if n != nil {
			v.Set(key, strconv.FormatInt(*n, 10))
		}
	}
	flag := func(key string, b *bool) {
		if b != nil {
			v.Set(key, digit(b))
		}
	}
	family := func(prefix string, m map[int]string) {
		for i, s := range m {
			v.Set(prefix+strconv.Itoa(i), s)
		}
	}
	number("vmid", &p.VMID)
	flag("acpi", p.ACPI)
	text("agent", p.Agent)
	text("arch", p.Arch)
	number("balloon", p.Balloon)
	text("bios", p.BIOS)
	text("boot", p.Boot)
	text("cicustom", p.CICustom)
	text("ciuser", p.CIUser)
	number("cores", p.Cores)
	text("cpu", p.CPU)
	v.Set("cpulimit", strconv.FormatFloat(*p.CPULimit, 'f', -1, 64))
	number("cpuunits", p.CPUUnits)
	text("description", p.Description)
	text("efidisk0", p.EFIDisk)
	text("hotplug", p.Hotplug)
	family("ipconfig", p.IPConfig)
	flag("kvm", p.KVM)
	text("machine", p.Machine)
	text("memory", p.Memory)
	text("name", p.Name)
	text("nameserver", p.NameServer)
	for i, n := range p.Net {
		v.Set("net"+strconv.Itoa(i), n.Model+"="+*n.MACAddr+",bridge="+*n.Bridge+",firewall="+digit(n.Firewall)+",tag="+strconv.FormatInt(*n.Tag, 10))
	}
	flag("numa", p.NUMA)
	flag("onboot", p.OnBoot)
	text("ostype", p.OSType)
	text("pool", p.Pool)
	flag("protection", p.Protection)
	for i, d := range p.SCSI {
		v.Set("scsi"+strconv.Itoa(i), d.File+",discard="+*d.Discard+",iothread="+digit(d.IOThread)+",serial="+*d.Serial)
	}
	text("scsihw", p.SCSIHW)
	text("searchdomain", p.Search)
	family("serial", p.Serial)
	number("shares", p.Shares)
	text("smbios1", p.SMBIOS)
	number("sockets", p.Sockets)
	v.Set("sshkeys", percent(p.SSHKeys[0]))
	flag("start", p.Start)
	text("startup", p.Startup)
	flag("tablet", p.Tablet)
	v.Set("tags", p.Tags[0]+","+p.Tags[1])
	family("usb", p.USB)
	number("vcpus", p.VCPUs)
	text("vga", p.VGA)
	family("virtio", p.VirtIO)
	text("vmgenid", p.VMGenID)
	text("watchdog", p.Watchdog)
	return v.Encode()
}

func percent(s string) string {
	return string(bytes.ReplaceAll([]byte(url.QueryEscape(s)), []byte("+"), []byte("%20")))
}

func TestBigCreateVMByHand(t *testing.T) {
	t.Parallel()
	p := bigCreateVM()
	got, err := wire.EncodeForm(&p, []string{"node"})
	if want := byHand(&p); err != nil || got != want {
		t.Fatalf("EncodeForm = %s, %v\nwant %s", got, err, want)
	}
	v, err := url.ParseQuery(got)
	if err != nil || len(v) != 60 {
		t.Fatalf("%d parameters, want 60: %v", len(v), err)
	}
}

func BenchmarkEncodeCreateVM(b *testing.B) {
	p := bigCreateVM()
	b.Run("url-values", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			byHand(&p)
		}
	})
	b.Run("wire", func(b *testing.B) {
		b.ReportAllocs()
		skip := []string{"node"}
		for b.Loop() {
			if _, err := wire.EncodeForm(&p, skip); err != nil {
				b.Fatal(err)
			}
		}
	})
}
