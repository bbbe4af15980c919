package pvetest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// spoolName is where the simulated node keeps an upload while it is checked.
var spoolName = regexp.MustCompile(`/var/tmp/pveupload-[0-9a-f]+`)

func TestStorageConfig(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	rows := l.list("/storage")
	require.Len(t, rows, 1)
	assert.EqualValues(t, "0", rows[0]["priority"])
	assert.Equal(t, "da39a3ee5e6b4b0d3255bfef95601890afd80709", rows[0]["digest"])
	l.addData()
	data := l.get("/storage/data")
	assert.NotContains(t, data, "priority")
	l.run([]step{
		{"GET /storage/nope", "", "500 storage 'nope' does not exist"},
		{"POST /storage", "storage=data&type=dir&path=/x", "500 create storage failed: storage ID 'data' already defined"},
		{"POST /storage", "storage=1x&type=dir&path=/x", "400 storage: invalid format - storage ID '1x' contains illegal characters"},
		{"POST /storage", "storage=st9&type=dir&path=/x&content=foo", "400 content: invalid format - invalid content type 'foo'"},
		{"POST /storage", "storage=st9&type=dir&path=/x&content=none", "500 create storage failed: unknown vtype 'none'"},
		{"POST /storage", "storage=st9&type=dir", "500 missing value for required option 'path'"},
		{"POST /storage", "storage=st9&type=dir&path=/x&vgname=y", "500 unexpected property 'vgname'"},
		{"POST /storage", "storage=nomnt&type=dir&path=/var/tmp/stx&content=images&is_mountpoint=1", "500 create storage failed: unable to activate storage 'nomnt' - directory is expected to be a mount point but is not mounted: '/var/tmp/stx'"},
		{"PUT /storage/data", "path=/x", "400 path: property is not defined in schema and the schema does not allow additional properties"},
		{"PUT /storage/data", "disable=0&digest=0000000000000000000000000000000000000000", "500 update storage failed: detected modified configuration - file changed by other user? Try again."},
		{"PUT /storage/data", "digest=" + data["digest"].(string) + "&content=images,iso", ""},
		{"PUT /storage/data", "delete=shared,prune-backups", ""},
		{"PUT /storage/nope", "disable=0", "500 update storage failed: storage 'nope' does not exist"},
		{"DELETE /storage/nope", "", "500 delete storage failed: storage 'nope' does not exist"},
		{"DELETE /storage/data", "", ""},
		{"GET /nodes/pve1/storage/data/status", "", "400 storage: No such storage."},
		{"GET /nodes/pve1/storage/data/content", "", "500 storage 'data' does not exist"},
	})
}

func TestStorageAvailability(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run([]step{
		{"POST /storage", "storage=isoonly&type=dir&path=/srv/st1&content=iso", ""},
		{"POST /storage", "storage=dis&type=dir&path=/srv/st2&content=images,import&disable=1", ""},
		{"POST /storage", "storage=oth&type=dir&path=/srv/st3&content=images&nodes=pve2", ""},
		{"POST ~", "vmid=702&scsi0=isoonly:1", "400 storage: storage 'isoonly' does not support vm images"},
		{"POST ~", "vmid=702&scsi0=dis:1", "task unable to create VM 702 - storage 'dis' is disabled"},
		{"POST ~", "vmid=702&scsi0=oth:1", "task unable to create VM 702 - storage 'oth' is not available on node 'pve1'"},
		{"GET /nodes/pve1/storage/dis/content", "", "500 storage 'dis' is disabled"},
		{"GET /nodes/pve1/storage/oth/content", "", "500 storage 'oth' is not available on node 'pve1'"},
		{"GET /nodes/pve1/storage/isoonly/prunebackups", "", "500 no prune-backups options configured for storage 'isoonly'"},
		{"POST /nodes/pve1/storage/local/download-url", "url=http://127.0.0.1:1/x.qcow2&content=import&filename=x.qcow2", "500 storage 'local' is not configured for content-type 'import'"},
	})
	for _, id := range []string{"dis", "oth"} {
		row := l.get("/nodes/pve1/storage/" + id + "/status")
		for _, k := range []string{"enabled", "active", "total", "used", "avail"} {
			assert.EqualValues(t, "0", row[k], "%s %s", id, k)
		}
	}
	assert.Len(t, l.list("/nodes/pve1/storage"), 4)
	assert.Len(t, l.list("/nodes/pve1/storage?enabled=1"), 2)
	assert.Len(t, l.list("/nodes/pve1/storage?enabled=1&content=images"), 1)
	l.s.SetStorageOnline("isoonly", "pve1", false)
	row := l.get("/nodes/pve1/storage/isoonly/status")
	assert.EqualValues(t, "1", row["enabled"])
	assert.EqualValues(t, "0", row["active"])
}

func TestContentAlloc(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.addData()
	require.NoError(t, l.s.AddStorage("thin", Storage{Type: "lvmthin"}))
	const content = "POST /nodes/pve1/storage/data/content"
	l.run([]step{
		{content, "filename=vm-800-disk-0.raw&size=1G&vmid=800", ""},
		{content, "filename=vm-800-disk-0.raw&size=1G&vmid=800", "500 disk image '/var/lib/data/images/800/vm-800-disk-0.raw' already exists"},
		{content, "filename=foo.raw&size=1M&vmid=800", ""},
		{content, "filename=vm-800-disk-1.qcow2&size=1&vmid=800", ""},
		{content, "filename=vm-800-foo&size=1M&vmid=800", "500 unable to parse volume filename 'vm-800-foo'"},
		{content, "filename=vm-800-disk-5.raw&size=1M&vmid=800&format=qcow2", "400 format: different storage formats (qcow2 != raw)"},
		{content, "filename=vm-800-disk-9.qcow2&size=5T&vmid=800", "400 size: value does not match the regex pattern"},
		{"POST /nodes/pve1/storage/thin/content", "filename=foo&size=1M&vmid=800", "500 illegal name 'foo' - should be 'vm-800-*'"},
		{"POST /nodes/pve1/storage/thin/content", "filename=vm-800-disk-3&size=5M&vmid=800", ""},
		{"GET /nodes/pve1/storage/data/content/data:999%2Fvm-999-disk-0.raw", "", "500 volume_size_info on 'data:999/vm-999-disk-0.raw' failed - no format"},
		{"PUT /nodes/pve1/storage/data/content/data:800%2Ffoo.raw", "notes=x", "500 only backups can have notes"},
		{"DELETE /nodes/pve1/storage/data/content/data:800%2Ffoo.raw", "", "task OK"},
		{"DELETE /nodes/pve1/storage/data/content/data:800%2Ffoo.raw", "", "task OK"},
	})
	_, log := l.task("DELETE", "/nodes/pve1/storage/data/content/data:800%2Ffoo.raw", "")
	assert.Equal(t, []string{"disk image '/var/lib/data/images/800/foo.raw' does not exist", "Removed volume 'data:800/foo.raw'", "TASK OK"}, log)
	v, ok := l.s.Volume("data:800/vm-800-disk-1.qcow2")
	require.True(t, ok)
	assert.Equal(t, kib, v.Size, "a size without a unit is in KiB")
	v, ok = l.s.Volume("thin:vm-800-disk-3")
	require.True(t, ok)
	assert.Equal(t, 8*mib, v.Size, "LVM allocates extents")
}

func TestUploads(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.addData()
	require.NoError(t, l.s.AddStorage("thin", Storage{Type: "lvmthin"}))
	sum := func(data []byte) string {
		s := sha256.Sum256(data)
		return hex.EncodeToString(s[:])
	}
	image := qcow2(64 << 20)
	tests := []struct {
		name, storage, file string
		data                []byte
		fields              []string
		want                string
		volid               string
	}{
		{"ISO", "data", "te st.iso", []byte("iso"), []string{"content", "iso"}, "task OK", "data:iso/te_st.iso"},
		{"import", "data", "a.qcow2", image, []string{"content", "import"}, "task OK", "data:import/a.qcow2"},
		{"raw import", "data", "a.raw", []byte("12345"), []string{"content", "import"}, "task OK", "data:import/a.raw"},
		{"right checksum", "data", "b.qcow2", image, []string{"content", "import", "checksum-algorithm", "sha256", "checksum", sum(image)}, "task OK", "data:import/b.qcow2"},
		{"wrong checksum", "data", "c.iso", []byte("x"), []string{"content", "iso", "checksum-algorithm", "sha256", "checksum", sum(nil)}, "task checksum mismatch: got '" + sum([]byte("x")) + "' != expect '" + sum(nil) + "'", ""},
		{"no qcow2", "data", "d.qcow2", []byte("junk"), []string{"content", "import"}, "task failed to verify file: qemu-img: Could not open '#': Image is not in qcow2 format", ""},
		{"wrong extension", "data", "x.txt", []byte("x"), []string{"content", "iso"}, "400 filename: wrong file extension", ""},
		{"wrong content", "data", "x.tar.gz", []byte("x"), []string{"content", "vztmpl"}, "500 storage 'data' is not configured for content-type 'vztmpl'", ""},
		{"no files there", "thin", "x.iso", []byte("x"), []string{"content", "iso"}, "500 storage 'thin' is not configured for content-type 'iso'", ""},
		{"no storage", "nope", "x.iso", []byte("x"), []string{"content", "iso"}, "500 storage 'nope' does not exist", ""},
	}
	for _, tt := range tests {
		a := l.upload(tt.storage, tt.file, tt.data, tt.fields...)
		got := fmt.Sprintf("%d %s", a.status, a.reason)
		for k, v := range a.errs {
			got = fmt.Sprintf("%d %s: %s", a.status, k, v)
		}
		if upid, ok := a.data.(string); ok {
			exit, _ := l.ended(upid)
			got = "task " + spoolName.ReplaceAllString(exit, "#")
		}
		assert.Equal(t, tt.want, got, tt.name)
		if tt.volid != "" {
			data, err := l.s.VolumeBytes(tt.volid)
			require.NoError(t, err, tt.name)
			assert.Equal(t, tt.data, data, tt.name)
		}
	}
	attr := l.get("/nodes/pve1/storage/data/content/data:import%2Fa.qcow2")
	assert.Equal(t, map[string]any{"format": "qcow2", "path": "/var/lib/data/import/a.qcow2", "size": attr["size"], "used": attr["used"]}, attr)
	assert.EqualValues(t, "67108864", attr["size"])
	for _, row := range l.list("/nodes/pve1/storage/data/content?content=import") {
		if row["volid"] == "data:import/a.qcow2" {
			assert.EqualValues(t, "1024", row["size"])
		}
	}
	// With a vmid, ISO images are left out but import files are not.
	var kinds []any
	for _, row := range l.list("/nodes/pve1/storage/data/content?vmid=9999") {
		kinds = append(kinds, row["content"])
	}
	assert.Equal(t, []any{"import", "import", "import"}, kinds)

	// What is switched off is not listed, but can still be imported from.
	l.ok("PUT", "/storage/data", "content=images")
	assert.Empty(t, l.list("/nodes/pve1/storage/data/content"))
	l.done("POST", "/nodes/pve1/qemu", "vmid=701&scsi0=data:0,import-from=data:import/a.qcow2")
	assert.Equal(t, "data:701/vm-701-disk-0.qcow2,size=64M", l.config("701")["scsi0"])
}

func TestDownloads(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.addData()
	l.s.ServeURL("http://mirror.example/dl.qcow2", qcow2(1<<30))
	l.s.ServeURL("http://mirror.example/junk.qcow2", []byte("junk\n"))
	l.s.ServeURL("http://mirror.example/none.qcow2", nil)
	const call = "POST /nodes/pve1/storage/data/download-url"
	l.run([]step{
		{call, "url=http://127.0.0.1:1/a.iso&content=iso&filename=a.iso", "task download failed: Connecting to 127.0.0.1:1... failed: Connection refused."},
		{call, "url=http://127.0.0.1:1/x&content=iso&filename=x.txt", "400 filename: wrong file extension"},
		{call, "url=ftp://127.0.0.1/x&content=iso&filename=x.iso", "400 url: value does not match the regex pattern"},
		{call, "url=http://127.0.0.1:1/x&content=iso&filename=x.iso&checksum=abc", "400 checksum-algorithm: missing property required by 'checksum'"},
		{call, "url=http://mirror.example/dl.qcow2&content=import&filename=dl.qcow2", "task OK"},
		{call, "url=http://mirror.example/dl.qcow2&content=import&filename=dl.qcow2", "task refusing to override existing file '/var/lib/data/import/dl.qcow2'"},
		{call, "url=http://mirror.example/none.qcow2&content=import&filename=none.qcow2", "task download failed: exit code 8"},
		{"GET /nodes/pve1/query-url-metadata", "url=http://127.0.0.1:1/x", "500 invalid server response: '500 Can't connect to 127.0.0.1:1 (Connection refused)'"},
	})
	exit, _ := l.task("POST", "/nodes/pve1/storage/data/download-url", "url=http://mirror.example/junk.qcow2&content=import&filename=junk.qcow2")
	assert.Contains(t, exit, "Image is not in qcow2 format")
	assert.Equal(t, "dl.qcow2", l.get("/nodes/pve1/query-url-metadata?url=http://mirror.example/dl.qcow2")["filename"])
}

// TestFullStorages holds what fails on a storage without room, and what does
// not.
func TestFullStorages(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.addData()
	require.NoError(t, l.s.AddStorage("small", Storage{Type: "dir", Content: []string{"images", "import", "iso"}, Size: 20 << 20, Config: map[string]string{"path": "/mnt/small"}}))
	require.NoError(t, l.s.AddStorage("vg", Storage{Type: "lvm", Size: 10 << 30}))
	require.NoError(t, l.s.AddStorage("tank", Storage{Type: "zfspool", Size: 10 << 30, Config: map[string]string{"pool": "tank"}}))
	require.NoError(t, l.s.AddStorage("thin", Storage{Type: "lvmthin", Size: 10 << 30}))
	big := append(qcow2(1<<30), make([]byte, 30_000_000)...)
	require.Equal(t, 200, l.upload("data", "big.qcow2", big, "content", "import").status)
	l.run([]step{
		{"POST ~", "vmid=702&scsi0=small:1", "task OK"}, // sparse
		{"PUT ~/702/config", "scsi1=small:0,import-from=data:import/big.qcow2", "500 cannot import from 'data:import/big.qcow2' - copy failed: command '/usr/bin/qemu-img convert -p -n -f qcow2 -O qcow2 /var/lib/data/import/big.qcow2 zeroinit:/mnt/small/images/702/vm-702-disk-1.qcow2' failed: exit code 1"},
		{"POST ~", "vmid=703&scsi0=vg:11", `task unable to create VM 703 - lvcreate 'vg/vm-703-disk-0' error:   Volume group "vg" has insufficient free space (2560 extents): 2816 required.`},
		{"POST ~", "vmid=703&scsi0=tank:11", "task unable to create VM 703 - zfs error: cannot create 'tank/vm-703-disk-0': out of space"},
		{"POST ~", "vmid=703&scsi0=thin:11", "task OK"}, // thin
		{"POST ~", "vmid=704&scsi0=vg:8", "task OK"},
		{"PUT ~/704/resize", "disk=scsi0&size=+4G", "task error resizing volume '/dev/vg/vm-704-disk-0':   Insufficient free space: 1024 extents needed, but only 512 available"},
	})
	assert.Len(t, l.s.Volumes("small"), 1, "what did not fit is gone")
	a := l.upload("small", "up.iso", big, "content", "iso")
	require.Equal(t, 200, a.status)
	exit, _ := l.ended(a.data.(string))
	assert.Equal(t, "import failed: cp: error writing '/mnt/small/template/iso/up.iso': No space left on device", exit)
	require.NoError(t, l.s.SetStorageUsed("small", 20<<20))
	assert.EqualValues(t, "0", l.get("/nodes/pve1/storage/small/status")["avail"])
}
