package cpitest

import (
	"bytes"
	"encoding/binary"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseAnswer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text string
		status     int
		want       string
	}{
		{name: "a result", text: `{"result":1,"error":null,"log":""}`},
		{name: "an error", text: `{"result":null,"error":{"type":"Bosh::Clouds::VMNotFound","message":"m","ok_to_retry":false},"log":""}`},
		{name: "line breaks around it", text: "\n\n{\"result\":1,\"error\":null,\"log\":\"ü\"}\n\n"},
		{name: "another key", text: `{"result":1,"error":null,"log":"","took":5}`},
		{name: "the old word for a method that is not there", text: `{"result":null,"error":{"type":"InvalidCall","message":"Method is not known, got 'x'","ok_to_retry":false},"log":""}`},
		{name: "nothing", text: " \n", want: "standard output is empty"},
		{name: "an array", text: `[]`, want: "not one JSON object"},
		{name: "null", text: `null`, want: "is null"},
		{name: "two documents", text: `{"result":1,"error":null,"log":""}{}`, want: "more than one"},
		{name: "text behind it", text: `{"result":1,"error":null,"log":""} done`, want: "more than one"},
		{name: "no result", text: `{"error":null,"log":""}`, want: `lacks the key "result"`},
		{name: "no error", text: `{"result":1,"log":""}`, want: `lacks the key "error"`},
		{name: "a log that is a number", text: `{"result":1,"error":null,"log":5}`, want: "the log is a number"},
		{name: "an error that is a string", text: `{"result":1,"error":"no","log":""}`, want: "the error is a string"},
		{name: "an error without a type", text: `{"result":null,"error":{"message":"m","ok_to_retry":false},"log":""}`, want: `"type" is missing`},
		{name: "ok_to_retry as a string", text: `{"result":null,"error":{"type":"Bosh::Clouds::CloudError","message":"m","ok_to_retry":"no"},"log":""}`, want: `"ok_to_retry" is a string`},
		{name: "an empty message", text: `{"result":null,"error":{"type":"Bosh::Clouds::CloudError","message":"","ok_to_retry":true},"log":""}`, want: "no message"},
		{name: "a class that looks official", text: `{"result":null,"error":{"type":"Bosh::Clouds::SnapshotNotFound","message":"m","ok_to_retry":false},"log":""}`, want: "none of the ten"},
		{name: "a status", text: `{"result":1,"error":null,"log":""}`, status: 7, want: "the exit status is 7"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, err := parseAnswer(Answer{Stdout: []byte(tc.text), Status: tc.status})
			if tc.want == "" {
				require.NoError(t, err)
				assert.NotNil(t, r)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	g := &guest{VMID: 100, drives: drives(map[string]string{
		"virtio0": "disks:vm-100-disk-0,serial=bosh-system", "virtio2": "disks:vm-9-disk-0,serial=disk-0123456789abcde",
		"virtio10": "disks:vm-8-disk-0", "scsi1": "disks:vm-7-disk-0,serial=other", "ide2": "files:iso/a.iso,media=cdrom",
		"unused0": "disks:vm-100-disk-5", "scsihw": "virtio-scsi-single",
	})}
	require.Len(t, g.drives, 6)
	for path, want := range map[string]string{
		"/dev/disk/by-id/virtio-bosh-system":                   "virtio0",
		"/dev/disk/by-id/virtio-disk-0123456789abcde":          "virtio2",
		"/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_drive-scsi1": "scsi1",
		"/dev/vda": "virtio0",
		"/dev/vdc": "virtio10",
		// The agent tries /dev/vdb first.
		"/dev/sdb": "virtio2",
	} {
		d, err := g.resolve(path)
		require.NoError(t, err, path)
		assert.Equal(t, want, d.slot, path)
	}
	for path, want := range map[string]string{
		"":                            "leads to no drive",
		"/dev/vdd":                    "leads to no drive",
		"/dev/sdaa":                   "leads to no drive",
		"/dev/disk/by-id/virtio-bosh": "leads to no drive",
		"/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_other": "the serial is in no link",
	} {
		_, err := g.resolve(path)
		require.ErrorContains(t, err, want, path)
	}
	d, err := g.agentFinds("disk-0123456789abcde", hint{text: "{}"})
	require.NoError(t, err, "a long identifier needs no path")
	assert.Equal(t, "virtio2", d.slot)
	_, err = g.agentFinds("bosh-system", hint{text: "{}"})
	require.ErrorContains(t, err, "has no path", "a short one does")
}

func TestNICs(t *testing.T) {
	t.Parallel()
	g := &guest{config: map[string]string{
		"net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0", "net1": "model=e1000,macaddr=bc:24:11:00:00:02,bridge=vmbr1", "net10": "virtio",
		"cores": "3", "sockets": "2", "memory": "current=2048", "numa0": "cpus=0",
	}}
	assert.Equal(t, []string{"bc:24:11:00:00:01", "bc:24:11:00:00:02", ""}, g.macs())
	assert.Equal(t, []string{"vmbr0", "vmbr1"}, g.bridges())
	assert.Equal(t, int64(6), g.cpus())
	assert.Equal(t, int64(2048), g.memory())
}

const goodSettings = `{"agent_id":"a","vm":{"name":"v"},"mbus":"nats://x","ntp":null,"blobstore":{"provider":"local","options":{}},
 "networks":{"n":{"type":"manual","ip":"10.0.0.2","dns":null,"mac":"bc:24:11:00:00:01","use_dhcp":false,"routes":[{"Destination":"0.0.0.0"}]}},
 "disks":{"system":"/dev/vda","ephemeral":{"path":"/dev/vdb"},"persistent":{"d":"/dev/vdc","e":{"path":"/dev/vdd","id":"1"}},"raw_ephemeral":null},"env":{}}`

func TestParseSettings(t *testing.T) {
	t.Parallel()
	c, err := parseSettings([]byte(goodSettings))
	require.NoError(t, err)
	assert.Equal(t, "a", c.agentID)
	assert.Equal(t, map[string]string{"d": "/dev/vdc", "e": "/dev/vdd"}, c.persistent)
	for _, tc := range []struct{ old, now, want string }{
		{`"a"`, `""`, "agent_id is empty"},
		{`"a"`, `5`, "agent_id is a number, not a string"},
		{`"/dev/vda"`, `{"path":"/dev/vda"}`, "disks.system is an object, not a string"},
		{`"id":"1"`, `"id":1`, "disks.persistent.e.id is a number"},
		{`"ip":"10.0.0.2"`, `"prefix":24`, "networks.n.prefix is a number"},
		{`"dns":null`, `"dns":"10.0.0.1"`, "networks.n.dns is a string, not an array"},
		{`"use_dhcp":false`, `"use_dhcp":0`, "networks.n.use_dhcp is a number"},
		{`"0.0.0.0"`, `0`, "routes is not an array of objects of strings"},
		{`"nats://x"`, `""`, "has nobody to talk to"},
		{`"provider":"local"`, `"provider":null`, "blobstore.provider is empty"},
		{`"env":{}`, `"env":[]`, "env is an array"},
		{`"env":{}`, `"env":{`, "not valid JSON"},
	} {
		text := strings.Replace(goodSettings, tc.old, tc.now, 1)
		require.NotEqual(t, goodSettings, text)
		_, err := parseSettings([]byte(text))
		require.ErrorContains(t, err, tc.want)
	}
}

// jolietDisc is a CD with long names in Joliet alone, as genisoimage -J makes it:
// one directory with one file.
func jolietDisc(label, dir, file string, data []byte) []byte {
	wide := func(s string) []byte {
		var b []byte
		for _, u := range utf16.Encode([]rune(s)) {
			b = binary.BigEndian.AppendUint16(b, u)
		}
		return b
	}
	entry := func(name []byte, extent, size uint32, flags byte) []byte {
		n := 33 + len(name)
		n += n % 2
		b := make([]byte, n)
		b[0], b[25], b[32] = byte(n), flags, byte(len(name))
		binary.LittleEndian.PutUint32(b[2:], extent)
		binary.LittleEndian.PutUint32(b[10:], size)
		copy(b[33:], name)
		return b
	}
	image := make([]byte, 24*sectorSize)
	descriptor := func(n int, kind byte, root uint32) []byte {
		d := image[n*sectorSize : (n+1)*sectorSize]
		d[0] = kind
		copy(d[1:], "CD001\x01")
		copy(d[156:], entry([]byte{0}, root, sectorSize, 2))
		return d
	}
	copy(descriptor(16, 1, 19)[40:72], label+strings.Repeat(" ", 32-len(label)))
	copy(descriptor(17, 2, 20)[88:], "%/E")
	descriptor(18, 255, 0)
	directory := func(n int, entries ...[]byte) {
		at := n * sectorSize
		for _, e := range append([][]byte{entry([]byte{0}, uint32(n), sectorSize, 2), entry([]byte{1}, uint32(n), sectorSize, 2)}, entries...) {
			at += copy(image[at:], e)
		}
	}
	directory(19, entry([]byte("SHORT.TXT;1"), 22, uint32(len(data)), 0))
	directory(20, entry(wide(dir), 21, sectorSize, 2))
	directory(21, entry(wide(file+";1"), 22, uint32(len(data)), 0))
	copy(image[22*sectorSize:], data)
	return image
}

func TestReadDisc(t *testing.T) {
	t.Parallel()
	image := jolietDisc("config-2", "latest", "user-data", []byte("{}"))
	d, err := readDisc(image)
	require.NoError(t, err)
	assert.Equal(t, "Joliet", d.naming)
	assert.Equal(t, "config-2", d.label)
	assert.Equal(t, map[string][]byte{"/latest/user-data": []byte("{}")}, d.files)

	// Without the second descriptor only the short names are left.
	image[17*sectorSize] = 0
	d, err = readDisc(image)
	require.NoError(t, err)
	assert.Equal(t, map[string][]byte{"/short.txt": []byte("{}")}, d.files)

	_, err = agentDisc(image)
	require.ErrorContains(t, err, "no /ec2/latest/user-data by its ISO 9660 names")
	_, err = readDisc([]byte("no CD"))
	require.ErrorContains(t, err, "no ISO 9660 CD")
}

// The input is a few bytes that spoil a good image, because whole images are too
// large to be varied.
func FuzzReadDisc(f *testing.F) {
	good := jolietDisc("config-2", "latest", "user-data", []byte("{}"))
	f.Add(uint16(19*sectorSize), []byte{34, 0, 19})
	f.Add(uint16(17*sectorSize), []byte{0})
	f.Add(uint16(20*sectorSize+68), []byte("\x30RRIP\x01\x81SP\x07\x01\xbe\xef\x00"))
	f.Fuzz(func(t *testing.T, at uint16, patch []byte) {
		image := bytes.Clone(good)
		copy(image[int(at)%len(image):], patch)
		d, err := readDisc(image)
		if err == nil && len(d.files) > maxEntries {
			t.Fatal("more files than there can be")
		}
	})
}

func FuzzParseSettings(f *testing.F) {
	f.Add([]byte(goodSettings))
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := parseSettings(data); err == nil && (c.agentID == "" || c.system == "") {
			t.Fatal("settings without an agent or a system disk were accepted")
		}
	})
}

func FuzzParseAnswer(f *testing.F) {
	f.Add([]byte(`{"result":null,"error":{"type":"Bosh::Clouds::VMNotFound","message":"m","ok_to_retry":false},"log":""}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := parseAnswer(Answer{Stdout: data}); err == nil && r.err != nil && !knownClass(r.err.Type) {
			t.Fatalf("the class %q was accepted", r.err.Type)
		}
	})
}

func TestExpand(t *testing.T) {
	t.Parallel()
	_, err := Expand([]byte(`{"a":"${NO_SUCH}"}`), nil)
	require.ErrorContains(t, err, "${NO_SUCH}")
	_, err = Expand([]byte("${OPEN"), map[string]string{"OPEN": "x"})
	require.Error(t, err)
	out, err := Expand([]byte("$5 {x}"), nil)
	require.NoError(t, err)
	assert.Equal(t, "$5 {x}", string(out))
}

func TestOptions(t *testing.T) {
	t.Parallel()
	answer := Func(nil)
	for _, tc := range []struct {
		name string
		o    Options
		want string
	}{
		{"no CPI", Options{}, "Options.CPI is missing"},
		{"one stemcell", Options{CPI: answer, Stemcells: make([]Stemcell, 1)}, "two different stemcells"},
		{"no such scenario", Options{CPI: answer, Only: []string{"x"}}, `no scenario "x"`},
		{"no such program", Options{CPI: Program{Path: "/none"}}, "no such file"},
		{"not executable", Options{CPI: Program{Path: "doc.go"}}, "not executable"},
		{"no endpoint", Options{CPI: answer}, "endpoint"},
		{"no token", Options{CPI: answer, Cluster: Cluster{Endpoint: "https://a"}}, "token must be"},
		{"no fingerprint", Options{CPI: answer, Cluster: Cluster{Endpoint: "https://a", Token: "a@pve!b=c", Fingerprint: "x"}}, "SHA-256"},
		{"nobody there", Options{CPI: answer, Cluster: Cluster{Endpoint: "https://127.0.0.1:1", Token: "a@pve!b=c"}}, "connection refused"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, err := Check(t.Context(), tc.o)
			require.ErrorContains(t, err, tc.want)
			assert.Nil(t, r)
		})
	}
}

// A program that uses the suite does not get package testing with it.
func TestNoTesting(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".", "../../examples/cpi-check").Output()
	require.NoError(t, err)
	for _, pkg := range []string{"testing", "github.com/proxkit/proxkit/cpi"} {
		assert.NotContains(t, strings.Fields(string(out)), pkg)
	}
}
