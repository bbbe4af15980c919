package pvetest

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFormatSize(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0T", 1: "1", 1024: "1K", 540672: "528K", 1 << 20: "1M", 2816 << 20: "2816M", 1 << 30: "1G", 3 << 40: "3T",
		3145728001: "3145728001", 1049104 << 10: "1049104K",
	} {
		assert.Equal(t, want, formatSize(n))
	}
}

func TestParseSize(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		unit int64
		want int64
		ok   bool
	}{
		{"1", gib, 1 << 30, true},
		{"0.5", gib, 1 << 29, true},
		{"2.75G", 1, 2816 << 20, true},
		{"4096K", 1, 4 << 20, true},
		{"3T", 1, 3 << 40, true},
		{"0", kib, 0, true},
		{"", gib, 0, false},
		{"G", 1, 0, false},
		{"-1", gib, 0, false},
		{"1.", gib, 0, false},
		{".5", gib, 0, false},
		{"1e3", 1, 0, false},
		{"99999999999999999999T", 1, 0, false},
	}
	for _, tt := range tests {
		got, ok := parseSize(tt.text, tt.unit)
		assert.Equal(t, tt.ok, ok, tt.text)
		assert.Equal(t, tt.want, got, tt.text)
	}
}

func TestDriveKinds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text             string
		cd, iso, cloud   bool
		storage          string
		size             int64
		printed          string
		allocates, media bool
	}{
		{text: "data:1,format=qcow2", storage: "data", size: 1 << 30, allocates: true},
		{text: "data:100/vm-100-disk-0.raw,ssd=1,size=1G", printed: "data:100/vm-100-disk-0.raw,size=1G,ssd=1"},
		{text: "file=data:0.5", storage: "data", size: 1 << 29, allocates: true, printed: "data:0.5"},
		{text: "none,media=cdrom", cd: true, iso: true},
		{text: "data:iso/x.iso,media=cdrom", cd: true, iso: true},
		{text: "data:cloudinit", cd: true, cloud: true},
		{text: "thin:vm-100-cloudinit,media=cdrom", cd: true, cloud: true},
		{text: "data:1G"},
		{text: "/dev/sdb"},
	}
	for _, tt := range tests {
		d := parseDrive("scsi0", tt.text)
		assert.Equal(t, tt.cd, d.isCD(), tt.text)
		assert.Equal(t, tt.iso, d.isISO(), tt.text)
		assert.Equal(t, tt.cloud, d.isCloudinit(), tt.text)
		storage, size, ok := d.alloc()
		assert.Equal(t, tt.allocates, ok, tt.text)
		assert.Equal(t, tt.storage, storage, tt.text)
		assert.Equal(t, tt.size, size, tt.text)
		if tt.printed == "" {
			tt.printed = tt.text
		}
		assert.Equal(t, tt.printed, d.String())
	}
}

func TestDriveKeys(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"scsi0", "scsi30", "virtio15", "ide3", "sata5", "efidisk0", "tpmstate0"} {
		assert.True(t, isDriveKey(key), key)
	}
	for _, key := range []string{"scsi31", "virtio16", "ide4", "sata6", "scsi", "scsi01", "scsihw", "net0", "unused0", "efidisk1"} {
		assert.False(t, isDriveKey(key), key)
	}
}

func TestNIC(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"virtio,bridge=vmbr0": "virtio,bridge=vmbr0",
		"virtio=BC:24:11:00:00:01,tag=5,bridge=vmbr0,firewall=1": "virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1,tag=5",
		"model=e1000,macaddr=BC:24:11:00:00:01":                  "e1000=BC:24:11:00:00:01",
		"bridge=vmbr1,rtl8139=BC:24:11:00:00:01":                 "rtl8139=BC:24:11:00:00:01,bridge=vmbr1",
	} {
		assert.Equal(t, want, parseNIC(text).String())
	}
	assert.Regexp(t, `^BC:24:11(:[0-9A-F]{2}){3}$`, randomMAC("", 0xabcdef))
	assert.Regexp(t, `^02:00:00(:[0-9A-F]{2}){3}$`, randomMAC("02:00:00", 1))
}

func TestDefaultBoot(t *testing.T) {
	t.Parallel()
	tests := []struct {
		conf map[string]string
		want string
	}{
		{nil, " "},
		{map[string]string{"scsi0": "data:1"}, "order=scsi0"},
		{map[string]string{"virtio0": "a:1", "sata0": "a:1", "ide2": "none,media=cdrom", "net1": "virtio"}, "order=virtio0;ide2;net1"},
		{map[string]string{"ide0": "a:cloudinit", "efidisk0": "a:1"}, "order=ide0"},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, defaultBoot(tt.conf))
	}
}

func TestVolumeNames(t *testing.T) {
	t.Parallel()
	dir, thin, zfs := &storage{Type: "dir"}, &storage{Type: "lvmthin"}, &storage{Type: "zfspool"}
	tests := []struct {
		st   *storage
		name string
		want volumeName
		err  string
	}{
		{dir, "100/vm-100-disk-0.raw", volumeName{key: "100/vm-100-disk-0.raw", content: "images", format: "raw", vmid: 100}, ""},
		{dir, "200/base-200-disk-0.qcow2/300/vm-300-disk-0.qcow2", volumeName{key: "300/vm-300-disk-0.qcow2", content: "images", format: "qcow2", vmid: 300, parent: "200/base-200-disk-0.qcow2"}, ""},
		{dir, "iso/x.ISO", volumeName{key: "iso/x.ISO", content: "iso", format: "iso"}, ""},
		{dir, "import/x.qcow2", volumeName{key: "import/x.qcow2", content: "import", format: "qcow2"}, ""},
		{dir, "backup/vzdump-qemu-100-2026_12_01-00_00_00.vma.zst", volumeName{key: "backup/vzdump-qemu-100-2026_12_01-00_00_00.vma.zst", content: "backup", format: "vma.zst", vmid: 100}, ""},
		{dir, "nosuch", volumeName{}, "unable to parse directory volume name 'nosuch'"},
		{dir, "iso/x.txt", volumeName{}, "unable to parse directory volume name 'iso/x.txt'"},
		{dir, "100/foo", volumeName{}, "unable to parse volume filename 'foo'"},
		{thin, "vm-100-disk-0", volumeName{key: "vm-100-disk-0", content: "images", format: "raw", vmid: 100}, ""},
		{thin, "base-1-disk-0/vm-100-disk-0", volumeName{}, "unable to parse lvm volume name 'base-1-disk-0/vm-100-disk-0'"},
		{zfs, "base-200-disk-0/vm-300-disk-1", volumeName{key: "vm-300-disk-1", content: "images", format: "raw", vmid: 300, parent: "base-200-disk-0"}, ""},
		{zfs, "foo", volumeName{}, "unable to parse zfs volume name 'foo'"},
	}
	for _, tt := range tests {
		n, err := tt.st.parseName(tt.name)
		if tt.err != "" {
			require.EqualError(t, err, tt.err)
			continue
		}
		require.NoError(t, err, tt.name)
		assert.Equal(t, tt.want, n)
	}
}

func TestProbeImage(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		data []byte
		want imageInfo
		err  bool
	}{
		{"qcow2", qcow2(5 << 30), imageInfo{format: "qcow2", size: 5 << 30}, false},
		{"raw", []byte("hello"), imageInfo{format: "raw", size: 5}, false},
		{"empty", nil, imageInfo{format: "raw"}, false},
		{"cut off", qcow2(1)[:20], imageInfo{}, true},
	}
	for _, tt := range tests {
		got, err := probeImage(bytes.NewReader(tt.data), int64(len(tt.data)))
		if tt.err {
			require.Error(t, err, tt.name)
			continue
		}
		require.NoError(t, err, tt.name)
		assert.Equal(t, tt.want, got, tt.name)
	}
	withBacking := qcow2(1 << 30)
	withBacking[15] = 1
	got, err := probeImage(bytes.NewReader(withBacking), 1024)
	require.NoError(t, err)
	assert.True(t, got.backing)
}

func FuzzParseDrive(f *testing.F) {
	for _, s := range []string{"data:1,format=qcow2", "none,media=cdrom", "file=a:b,size=1G", ",,=,a=", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		once := parseDrive("scsi0", text).String()
		if twice := parseDrive("scsi0", once).String(); twice != once {
			t.Errorf("%q prints as %q, and that as %q", text, once, twice)
		}
	})
}

func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"1G", "0.5", "99999999999999999999T", "1.5.5", "K"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, ok := parseSize(text, gib)
		if n < 0 || !ok && n != 0 {
			t.Errorf("%q is %d, %v", text, n, ok)
		}
	})
}

func FuzzVolumeName(f *testing.F) {
	for _, s := range []string{"100/vm-100-disk-0.raw", "iso/x.iso", "backup/a", "a/b/c/d.raw", "vm-1-x", "/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		for _, typ := range []string{"dir", "lvmthin", "zfspool"} {
			n, err := (&storage{Type: typ}).parseName(name)
			if err == nil && n.key == "" {
				t.Errorf("%s: %q has no name", typ, name)
			}
		}
	})
}

func FuzzProbeImage(f *testing.F) {
	f.Add(qcow2(1 << 30))
	f.Add([]byte("KDMV"))
	f.Fuzz(func(t *testing.T, data []byte) {
		info, err := probeImage(bytes.NewReader(data), int64(len(data)))
		if err == nil && info.size < 0 {
			t.Errorf("size %d", info.size)
		}
	})
}
