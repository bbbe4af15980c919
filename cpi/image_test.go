package cpi

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/internal/testimage"
)

func gzipped(data []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(data)
	_ = z.Close()
	return b.Bytes()
}

type member struct {
	h    tar.Header
	data []byte
}

func tarball(t testing.TB, members ...member) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		if m.h.Typeflag == 0 || m.h.Typeflag == tar.TypeReg {
			m.h.Typeflag, m.h.Size = tar.TypeReg, int64(len(m.data))
		}
		require.NoError(t, w.WriteHeader(&m.h))
		_, err := w.Write(m.data)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

// sparseTar packs a disk of which only the first bytes are not zero, as GNU tar
// does with --sparse.
func sparseTar(disk []byte, used int) []byte {
	h := make([]byte, 512)
	octal := func(at, width int, n int) { copy(h[at:], fmt.Sprintf("%0*o\x00", width-1, n)) }
	copy(h, "root.img")
	octal(100, 8, 0o644)
	octal(124, 12, used)
	copy(h[148:], "        ")
	h[156] = tar.TypeGNUSparse
	copy(h[257:], "ustar  \x00")
	octal(386, 12, 0)
	octal(398, 12, used)
	octal(410, 12, len(disk))
	octal(422, 12, 0)
	octal(483, 12, len(disk))
	sum := 0
	for _, c := range h {
		sum += int(c)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	return slices.Concat(h, disk[:used], make([]byte, 1024))
}

func writeImage(t testing.TB, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

func TestInspectImage(t *testing.T) {
	t.Parallel()
	old := testimage.QCOW2(300<<20, testimage.BootSector(300<<20), 0)
	current := testimage.QCOW2(3<<30, testimage.BootSector(3<<30), 1)
	raw := make([]byte, 1<<20)
	copy(raw, testimage.BootSector(1<<20))
	noise := make([]byte, 3<<20)
	_, _ = rand.Read(noise)
	copy(noise, "no known magic")
	for _, tc := range []struct {
		name    string
		file    []byte
		content []byte
		format  string
		virtual int64
	}{
		{"a stemcell's qcow2", testimage.Archive(old), old, "qcow2", 300 << 20},
		{"a newer qcow2", testimage.Archive(current), current, "qcow2", 3 << 30},
		{"a stemcell's raw disk", testimage.Archive(raw), raw, "raw", 1 << 20},
		{"a raw disk that does not compress", testimage.Archive(noise), noise, "raw", 3 << 20},
		{"a disk with holes, packed by GNU tar", gzipped(sparseTar(raw, 512)), raw, "raw", 1 << 20},
		{"a tar without gzip", tarball(t, member{h: tar.Header{Name: "root.img"}, data: old}), old, "qcow2", 300 << 20},
		{"a tar that begins with its directory", gzipped(tarball(t, member{h: tar.Header{Name: "./", Typeflag: tar.TypeDir}}, member{h: tar.Header{Name: "./root.img"}, data: raw})), raw, "raw", 1 << 20},
		{"a bare qcow2", old, old, "qcow2", 300 << 20},
		{"a bare raw disk", raw, raw, "raw", 1 << 20},
		{"a disk in gzip", gzipped(current), current, "qcow2", 3 << 30},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			path := writeImage(t, tc.file)

			img, err := inspectImage(t.Context(), path)

			require.NoError(t, err)
			sum := sha256.Sum256(tc.content)
			assert.Equal(t, &image{
				Format: tc.format, Size: int64(len(tc.content)), VirtualSize: tc.virtual,
				Digest: hex.EncodeToString(sum[:]), path: path,
			}, img)
			for range 2 { // an upload may be tried again
				r, err := img.Open(t.Context())
				require.NoError(t, err)
				got, err := io.ReadAll(r)
				require.NoError(t, err)
				assert.True(t, bytes.Equal(tc.content, got))
				require.NoError(t, r.Close())
			}
		})
	}
}

func TestImageRefusals(t *testing.T) {
	t.Parallel()
	disk := testimage.QCOW2(300<<20, testimage.BootSector(300<<20), 0)
	newer := testimage.QCOW2(300<<20, nil, 1)
	archive := testimage.Archive(disk)
	patched := func(src []byte, at int, value any) []byte {
		b := bytes.Clone(src)
		n, err := binary.Encode(b[at:], binary.BigEndian, value)
		require.NoError(t, err)
		require.Positive(t, n)
		return b
	}
	damaged := bytes.Clone(archive)
	damaged[len(damaged)-6] ^= 0xff
	reg := func(name string, data []byte) member { return member{h: tar.Header{Name: name}, data: data} }
	// A header may promise what the archive does not hold.
	var huge bytes.Buffer
	require.NoError(t, tar.NewWriter(&huge).WriteHeader(&tar.Header{Name: "root.img", Typeflag: tar.TypeReg, Size: maxImageSize + 512}))

	for _, tc := range []struct {
		name string
		file []byte
		want string
	}{
		{"empty", nil, "is empty"},
		{"empty gzip", gzipped(nil), "is empty"},
		{"gzip cut in its header", archive[:5], "is not valid gzip"},
		{"cut in the middle", archive[:len(archive)/2], "is truncated"},
		{"cut in its last bytes", archive[:len(archive)-3], "is truncated"},
		{"a bit turned in the checksum", damaged, "is damaged"},
		{"an archive of nothing", gzipped(tarball(t)), "is an archive without root.img"},
		{"another name", gzipped(tarball(t, reg("disk.img", disk))), `an archive with "disk.img": expected root.img alone`},
		{"a way out", gzipped(tarball(t, reg("../root.img", disk))), `an archive with "../root.img"`},
		{"an absolute path", gzipped(tarball(t, reg("/root.img", disk))), `an archive with "/root.img"`},
		{"a link", gzipped(tarball(t, member{h: tar.Header{Name: "root.img", Typeflag: tar.TypeSymlink, Linkname: "/etc/shadow"}})), "is not a regular file"},
		{"a hard link", gzipped(tarball(t, member{h: tar.Header{Name: "root.img", Typeflag: tar.TypeLink, Linkname: "x"}})), "is not a regular file"},
		{"a directory alone", gzipped(tarball(t, member{h: tar.Header{Name: "./", Typeflag: tar.TypeDir}})), "is an archive without root.img"},
		{"two files", gzipped(tarball(t, reg("root.img", disk), reg("more", nil))), `an archive with "more" beside root.img`},
		{"two disks", gzipped(tarball(t, reg("root.img", disk), reg("root.img", disk))), `with "root.img" beside root.img`},
		{"a size beyond the bound", gzipped(huge.Bytes()), "holds 68719477248 bytes, at most 64 GiB"},
		{"more behind the archive", gzipped(append(tarball(t, reg("root.img", disk)), make([]byte, 2<<20)...)), "goes on after the end of its archive"},
		{"a backing file", patched(disk, 8, uint64(4096)), "with a backing file"},
		{"encrypted", patched(disk, 32, uint32(1)), "encrypted"},
		{"version 1", patched(disk, 4, uint32(1)), "qcow2 of version 1"},
		{"huge clusters", patched(disk, 20, uint32(40)), "its cluster size is 2^40"},
		{"no size", patched(disk, 24, uint64(0)), "its size is 0 bytes"},
		{"a negative size", patched(disk, 24, ^uint64(511)), "its size is 18446744073709551104"},
		{"tables behind the end", patched(disk, 40, uint64(1<<40)), "its tables begin at byte"},
		{"data elsewhere", patched(newer, 72, uint64(4)), "its data in another file"},
		{"corrupt", patched(newer, 72, uint64(2)), "marked as corrupt"},
		{"unknown features", patched(newer, 72, uint64(1<<40)), "unknown features"},
		{"qcow2 of a few bytes", disk[:40], "is a truncated qcow2 disk"},
		{"qcow2 version 3 of a few bytes", newer[:100], "is a truncated qcow2 disk"},
		{"a web page", append([]byte("<!DOCTYPE html>"), make([]byte, 1009)...), "is a web page"},
		{"VMDK", append([]byte("KDMV"), make([]byte, 508)...), "is a VMDK disk"},
		{"gzip twice", gzipped(gzipped(disk)), "is a gzip file inside another"},
		{"half a sector", bytes.Repeat([]byte("x"), 513), "is no disk"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := inspectImage(t.Context(), writeImage(t, tc.file))
			require.Error(t, err)
			assert.ErrorContains(t, err, tc.want)
			var typed *ImageError
			assert.ErrorAs(t, err, &typed)
		})
	}
}

func TestImageThatIsNoFile(t *testing.T) {
	t.Parallel()
	_, err := inspectImage(t.Context(), filepath.Join(t.TempDir(), "none"))
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, err = inspectImage(t.Context(), t.TempDir())
	assert.ErrorContains(t, err, "is a directory: it has to be a regular file")
}

func TestImageThatChanges(t *testing.T) {
	t.Parallel()
	one := testimage.QCOW2(300<<20, testimage.BootSector(300<<20), 0)
	two := testimage.QCOW2(300<<20, []byte("other"), 0)
	path := writeImage(t, testimage.Archive(one))
	img, err := inspectImage(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, testimage.Archive(two), 0o600))

	r, err := img.Open(t.Context())
	require.NoError(t, err)
	defer r.Close()
	_, err = io.Copy(io.Discard, r)
	assert.ErrorContains(t, err, "changed while it was uploaded")
}

func TestImageReadingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 8<<20)
	_, _ = rand.Read(noise)
	path := writeImage(t, testimage.Archive(noise))
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("the call was stopped")
	img, err := inspectImage(ctx, path)
	require.NoError(t, err)
	r, err := img.Open(ctx)
	require.NoError(t, err)
	defer r.Close()
	_, err = io.ReadFull(r, make([]byte, 1000))
	require.NoError(t, err)
	cancel(stopped)
	_, err = io.Copy(io.Discard, r)
	assert.ErrorIs(t, err, stopped)
	_, err = inspectImage(ctx, path)
	assert.ErrorIs(t, err, stopped)
}

// zeroes are the content of a decompression bomb, or of an honest empty disk.
type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestImageMemoryIsFlat(t *testing.T) {
	const size = 128 << 20
	path := filepath.Join(t.TempDir(), "image")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, testimage.WriteArchive(f, size, io.LimitReader(zeroes{}, size)))
	require.NoError(t, f.Close())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)

	img, err := inspectImage(t.Context(), path)
	require.NoError(t, err)
	r, err := img.Open(t.Context())
	require.NoError(t, err)
	n, err := io.Copy(io.Discard, r)
	require.NoError(t, err)
	require.NoError(t, r.Close())

	runtime.ReadMemStats(&after)
	assert.Equal(t, int64(size), n)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20), "all that is ever allocated for 128 MiB, read twice")
}

func FuzzInspectImage(f *testing.F) {
	disk := testimage.QCOW2(1<<20, nil, 1)[:4096]
	f.Add(disk)
	f.Add(gzipped(disk))
	f.Add(tarball(f, member{h: tar.Header{Name: "root.img"}, data: disk}))
	f.Add(gzipped(tarball(f, member{h: tar.Header{Name: "root.img"}, data: disk})))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(dir, "image")
		require.NoError(t, os.WriteFile(path, data, 0o600))
		img, err := inspectImage(t.Context(), path)
		if err != nil {
			return
		}
		require.Positive(t, img.Size)
		require.Positive(t, img.VirtualSize)
		r, err := img.Open(t.Context())
		require.NoError(t, err)
		n, err := io.Copy(io.Discard, r)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		require.Equal(t, img.Size, n)
	})
}

func BenchmarkInspectImage(b *testing.B) {
	noise := make([]byte, 16<<20)
	_, _ = rand.Read(noise[:8<<20])
	path := writeImage(b, testimage.Archive(noise))
	b.SetBytes(int64(len(noise)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := inspectImage(b.Context(), path); err != nil {
			b.Fatal(err)
		}
	}
}
