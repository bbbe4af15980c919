// Package testimage makes small, real disk images and stemcells for tests and the
// demo, so that nothing has to be downloaded and no other tool is needed.
package testimage

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
)

const (
	sector      = 512
	clusterBits = 16
	cluster     = 1 << clusterBits
)

// BootSector returns the first sector of a disk with one Linux partition that
// takes the rest of the disk of size bytes.
func BootSector(size int64) []byte {
	b := make([]byte, sector)
	p := b[446:]
	p[0], p[4] = 0x80, 0x83
	binary.LittleEndian.PutUint32(p[8:], 2048)
	binary.LittleEndian.PutUint32(p[12:], uint32(max(size/sector-2048, 1)))
	b[510], b[511] = 0x55, 0xaa
	return b
}

// QCOW2 returns a qcow2 disk of the given virtual size, a multiple of 512, that
// begins with content and is empty behind it. Content is at most 64 MiB. With compat
// 0 it is of the old version that stemcells use, with compat 1 of the newer one.
func QCOW2(virtual int64, content []byte, compat int) []byte {
	const perTable = cluster / 8
	dataClusters := (len(content) + cluster - 1) / cluster
	l1Entries := (virtual + cluster*perTable - 1) / (cluster * perTable)
	if virtual%sector != 0 || dataClusters > 1024 || l1Entries > perTable {
		panic(fmt.Sprintf("testimage: a disk of %d bytes with %d of content cannot be made", virtual, len(content)))
	}
	const (
		refcountTable = 1
		refcountBlock = 2
		l1Table       = 3
		l2Table       = 4
		firstData     = 5
	)
	b := make([]byte, (firstData+dataClusters)*cluster)
	be := binary.BigEndian
	copy(b, "QFI\xfb")
	be.PutUint32(b[4:], uint32(2+compat))
	be.PutUint32(b[20:], clusterBits)
	be.PutUint64(b[24:], uint64(virtual))
	be.PutUint32(b[36:], uint32(l1Entries))
	be.PutUint64(b[40:], l1Table*cluster)
	be.PutUint64(b[48:], refcountTable*cluster)
	be.PutUint32(b[56:], 1)
	if compat > 0 {
		be.PutUint32(b[96:], 4) // refcounts of 16 bits
		be.PutUint32(b[100:], 104)
	}
	be.PutUint64(b[refcountTable*cluster:], refcountBlock*cluster)
	for i := range firstData + dataClusters {
		be.PutUint16(b[refcountBlock*cluster+2*i:], 1)
	}
	const used = 1 << 63
	be.PutUint64(b[l1Table*cluster:], used|l2Table*cluster)
	for i := range dataClusters {
		be.PutUint64(b[l2Table*cluster+8*i:], used|uint64(firstData+i)*cluster)
	}
	copy(b[firstData*cluster:], content)
	return b
}

// Archive returns the file "image" of a stemcell: a gzip tar with the disk as
// root.img.
func Archive(disk []byte) []byte {
	var b bytes.Buffer
	if err := WriteArchive(&b, int64(len(disk)), bytes.NewReader(disk)); err != nil {
		panic(err) // a buffer takes everything
	}
	return b.Bytes()
}

// WriteArchive is [Archive] for a disk of size bytes that is too large to be held
// in memory.
func WriteArchive(w io.Writer, size int64, disk io.Reader) error {
	return writeTarball(w, tarEntry{"root.img", size, disk})
}

type tarEntry struct {
	name string
	size int64
	r    io.Reader
}

func writeTarball(w io.Writer, entries ...tarEntry) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	for _, e := range entries {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: 0o644, Size: e.size, Format: tar.FormatGNU}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(t, e.r); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return z.Close()
}

// Stemcell returns a whole stemcell tarball, as "bosh upload-stemcell" takes it,
// with the manifest and the image.
func Stemcell(name, version string, disk []byte) []byte {
	image := Archive(disk)
	sum := sha1.Sum(image)
	manifest := fmt.Sprintf(`---
name: %s
version: '%s'
bosh_protocol: 1
api_version: 3
sha1: %s
operating_system: ubuntu-jammy
stemcell_formats:
- openstack-qcow2
- openstack-raw
cloud_properties:
  name: %[1]s
  version: '%[2]s'
  infrastructure: openstack
  hypervisor: kvm
  disk: 1024
  disk_format: qcow2
  container_format: bare
  os_type: linux
  architecture: x86_64
  auto_disk_config: true
`, name, version, hex.EncodeToString(sum[:]))
	var b bytes.Buffer
	err := writeTarball(&b,
		tarEntry{"stemcell.MF", int64(len(manifest)), bytes.NewReader([]byte(manifest))},
		tarEntry{"image", int64(len(image)), bytes.NewReader(image)})
	if err != nil {
		panic(err)
	}
	return b.Bytes()
}

// ImageOf returns the file "image" of a stemcell tarball, as the BOSH tools take
// it out before they call a CPI.
func ImageOf(stemcell io.Reader) ([]byte, error) {
	z, err := gzip.NewReader(stemcell)
	if err != nil {
		return nil, fmt.Errorf("stemcell: %w", err)
	}
	t := tar.NewReader(z)
	for {
		h, err := t.Next()
		if err != nil {
			return nil, fmt.Errorf("stemcell: no image: %w", err)
		}
		if h.Name == "image" {
			return io.ReadAll(t)
		}
	}
}
