package cpi

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"strings"
)

const (
	formatQcow2 = "qcow2"
	formatRaw   = "raw"

	// rootImage is the one file inside the archive.
	rootImage = "root.img"

	// maxImageSize bounds what is unpacked: a few KiB of gzip can stand for any
	// number of zeroes.
	maxImageSize = 64 << 30
	// maxArchiveTail bounds what may follow the end of an archive, which is
	// padding of a few KiB.
	maxArchiveTail = 1 << 20

	imageBuffer = 256 << 10
)

// An image is the disk inside the file that create_stemcell gets. Nothing of it
// is ever unpacked to disk or held in memory: it is read once to learn what it
// is, and once more for each upload.
type image struct {
	// Format is "qcow2" or "raw", judged by the content: a stemcell's manifest
	// names both, whichever is inside.
	Format string
	// Size is the size of the content in bytes, which an upload must announce.
	Size int64
	// VirtualSize is the size of the disk in bytes.
	VirtualSize int64
	// Digest is the SHA-256 of the content in hexadecimal digits. The same disk
	// has the same digest however it was packed.
	Digest string

	path string
}

// An ImageError says why a stemcell's image cannot be used.
type ImageError struct {
	Path    string
	Problem string
	Err     error
}

// Error implements error.
func (e *ImageError) Error() string {
	text := fmt.Sprintf("the stemcell image %s %s", e.Path, e.Problem)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *ImageError) Unwrap() error { return e.Err }

// inspectImage reads the file at path from end to end and says what it holds: a
// gzip tar with root.img as stemcells have it, or the disk itself, with or
// without gzip.
func inspectImage(ctx context.Context, path string) (*image, error) {
	img := &image{path: path}
	r, err := img.open(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Close()

	sum := sha256.New()
	head := &prefix{limit: imageHead}
	n, err := io.CopyBuffer(io.MultiWriter(sum, head), onlyReader{r}, make([]byte, imageBuffer))
	if err != nil {
		return nil, err
	}
	img.Size, img.Digest = n, hex.EncodeToString(sum.Sum(nil))
	if err := img.judge(head.data); err != nil {
		return nil, err
	}
	return img, nil
}

// Open returns the content for an upload, exactly Size bytes of it. Reading ends
// with an error when the file is no longer the one that was inspected.
func (i *image) Open(ctx context.Context) (io.ReadCloser, error) {
	r, err := i.open(ctx)
	if err != nil {
		return nil, err
	}
	return &verifiedReader{imageReader: r, image: i, sum: sha256.New()}, nil
}

func (i *image) errorf(err error, format string, args ...any) error {
	return &ImageError{Path: i.path, Problem: fmt.Sprintf(format, args...), Err: err}
}

// imageReader reads the disk inside an image file.
type imageReader struct {
	image *image
	ctx   context.Context
	file  *os.File
	// content is the disk; pack is what surrounds it, nil when nothing does.
	content io.Reader
	archive *tar.Reader
	pack    io.Reader
	read    int64
	done    bool
}

// open starts reading the content, with every layer around it undone.
func (i *image) open(ctx context.Context) (_ *imageReader, err error) {
	// To open a pipe is to wait for its writer, which no context ends.
	info, err := os.Stat(i.path)
	if err != nil {
		return nil, i.errorf(err, "cannot be opened")
	}
	if !info.Mode().IsRegular() {
		return nil, i.errorf(nil, "is %s: it has to be a regular file", fileKind(info.Mode()))
	}
	file, err := os.Open(i.path)
	if err != nil {
		return nil, i.errorf(err, "cannot be opened")
	}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	r := &imageReader{image: i, ctx: ctx, file: file}
	plain := bufio.NewReaderSize(contextReader{ctx, file}, imageBuffer)
	if magic, _ := plain.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(plain)
		if err != nil {
			return nil, i.errorf(err, "is not valid gzip")
		}
		r.pack = unzipped
		plain = bufio.NewReaderSize(unzipped, imageBuffer)
	}
	r.content = plain
	block, err := plain.Peek(512)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, r.explain(err)
	}
	if len(block) == 0 {
		return nil, i.errorf(nil, "is empty")
	}
	if isTarHeader(block) {
		r.pack = plain
		r.archive = tar.NewReader(plain)
		if err := r.findRoot(); err != nil {
			return nil, err
		}
		r.content = r.archive
	}
	return r, nil
}

// fileKind names what is not a regular file.
func fileKind(mode os.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&os.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&os.ModeSocket != 0:
		return "a socket"
	case mode&os.ModeDevice != 0:
		return "a device"
	}
	return "a special file"
}

// findRoot goes to root.img in the archive.
func (r *imageReader) findRoot() error {
	for {
		h, err := r.archive.Next()
		if errors.Is(err, io.EOF) {
			return r.image.errorf(nil, "is an archive without %s", rootImage)
		}
		if err != nil {
			return r.explain(err)
		}
		name := path.Clean(h.Name)
		switch {
		case h.Typeflag == tar.TypeDir && name == ".":
			continue
		case h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeGNUSparse:
			return r.image.errorf(nil, "is an archive with %q, which is not a regular file: expected %s alone", clip(h.Name), rootImage)
		case name != rootImage:
			return r.image.errorf(nil, "is an archive with %q: expected %s alone", clip(h.Name), rootImage)
		case h.Size > maxImageSize:
			return r.image.errorf(nil, "holds %d bytes, at most %d GiB are read", h.Size, int64(maxImageSize>>30))
		}
		return nil
	}
}

func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}

// Read implements io.Reader.
func (r *imageReader) Read(p []byte) (int, error) {
	if r.done {
		return 0, io.EOF
	}
	n, err := r.content.Read(p)
	r.read += int64(n)
	if r.read > maxImageSize {
		return n, r.image.errorf(nil, "unpacks to more than %d GiB", int64(maxImageSize>>30))
	}
	if errors.Is(err, io.EOF) {
		r.done = true
		return n, r.finish()
	}
	if err != nil {
		return n, r.explain(err)
	}
	return n, nil
}

// finish reads what is left around the content, so that a cut or damaged archive
// is found even if the cut is in its last bytes. It returns io.EOF when all is
// well.
func (r *imageReader) finish() error {
	if r.archive != nil {
		h, err := r.archive.Next()
		if err == nil {
			return r.image.errorf(nil, "is an archive with %q beside %s: expected %s alone", clip(h.Name), rootImage, rootImage)
		}
		if !errors.Is(err, io.EOF) {
			return r.explain(err)
		}
	}
	if r.pack != nil {
		n, err := io.Copy(io.Discard, io.LimitReader(r.pack, maxArchiveTail+1))
		if err != nil {
			return r.explain(err)
		}
		if n > maxArchiveTail {
			return r.image.errorf(nil, "goes on after the end of its archive")
		}
	}
	return io.EOF
}

func (r *imageReader) explain(err error) error {
	switch {
	case r.ctx.Err() != nil:
		return r.image.errorf(context.Cause(r.ctx), "was not read to the end")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return r.image.errorf(err, "is truncated")
	default:
		return r.image.errorf(err, "is damaged")
	}
}

// Close implements io.Closer.
func (r *imageReader) Close() error { return r.file.Close() }

type verifiedReader struct {
	*imageReader
	image *image
	sum   hash.Hash
}

// Read implements io.Reader.
func (r *verifiedReader) Read(p []byte) (int, error) {
	n, err := r.imageReader.Read(p)
	r.sum.Write(p[:n])
	if errors.Is(err, io.EOF) && hex.EncodeToString(r.sum.Sum(nil)) != r.image.Digest {
		return n, r.image.errorf(nil, "changed while it was uploaded")
	}
	return n, err
}

// isTarHeader reports whether a block begins an archive. The checksum decides:
// older archives have no magic.
func isTarHeader(block []byte) bool {
	if len(block) < 512 || block[0] == 0 {
		return false
	}
	field := strings.Trim(string(block[148:156]), " \x00")
	var want int64
	if _, err := fmt.Sscanf(field, "%o", &want); err != nil {
		return false
	}
	sum := int64(8 * ' ')
	for i, c := range block[:512] {
		if i < 148 || i >= 156 {
			sum += int64(c)
		}
	}
	return sum == want
}

// imageHead is enough for the headers that judge looks at.
const imageHead = 4096

// judge decides the format from the first bytes.
func (i *image) judge(head []byte) error {
	if bytes.HasPrefix(head, []byte("QFI\xfb")) {
		i.Format = formatQcow2
		return i.readQcow2(head)
	}
	for _, f := range []struct{ name, magic string }{
		{"a VMDK disk", "KDMV"},
		{"a VMDK descriptor", "# Disk DescriptorFile"},
		{"a VHD disk", "conectix"},
		{"a VHDX disk", "vhdxfile"},
		{"a QED disk", "QED\x00"},
		{"a VDI disk", "<<< "},
		{"an xz file", "\xfd7zXZ\x00"},
		{"a zstd file", "\x28\xb5\x2f\xfd"},
		{"a bzip2 file", "BZh"},
		{"a zip file", "PK\x03\x04"},
		{"a gzip file inside another", "\x1f\x8b"},
		{"a web page", "<!DOCTYPE"},
		{"a web page", "<!doctype"},
		{"a web page", "<html"},
	} {
		if bytes.HasPrefix(head, []byte(f.magic)) {
			return i.errorf(nil, "is %s: only qcow2 and raw disks can be used", f.name)
		}
	}
	// An archive of nothing is a few blocks of zeroes.
	if i.Size <= 20*512 && len(bytes.Trim(head, "\x00")) == 0 {
		return i.errorf(nil, "is an archive without %s", rootImage)
	}
	const sector = 512
	if i.Size%sector != 0 {
		return i.errorf(nil, "is no disk: it is not qcow2, and as a raw disk its %d bytes would not be whole sectors", i.Size)
	}
	i.Format, i.VirtualSize = formatRaw, i.Size
	return nil
}

// readQcow2 checks the header of a qcow2 disk. What refers to a file outside the
// image is refused: on the node it would name a file of the node.
func (i *image) readQcow2(head []byte) error {
	if len(head) < 72 {
		return i.errorf(nil, "is a truncated qcow2 disk")
	}
	be := binary.BigEndian
	version, clusterBits := be.Uint32(head[4:]), be.Uint32(head[20:])
	virtual, l1 := be.Uint64(head[24:]), be.Uint64(head[40:])
	switch {
	case version != 2 && version != 3:
		return i.errorf(nil, "is qcow2 of version %d: only versions 2 and 3 are known", version)
	case be.Uint64(head[8:]) != 0:
		return i.errorf(nil, "is qcow2 with a backing file: flatten it first")
	case be.Uint32(head[32:]) != 0:
		return i.errorf(nil, "is an encrypted qcow2 disk")
	case clusterBits < 9 || clusterBits > 21:
		return i.errorf(nil, "is a damaged qcow2 disk: its cluster size is 2^%d", clusterBits)
	case virtual == 0 || virtual%512 != 0 || virtual > 1<<50:
		return i.errorf(nil, "is a damaged qcow2 disk: its size is %d bytes", virtual)
	case l1 >= uint64(i.Size):
		return i.errorf(nil, "is a truncated qcow2 disk: its tables begin at byte %d of %d", l1, i.Size)
	}
	if version == 3 {
		if len(head) < 104 {
			return i.errorf(nil, "is a truncated qcow2 disk")
		}
		const corrupt, externalData, known = 1 << 1, 1 << 2, 1<<5 - 1
		switch features := be.Uint64(head[72:]); {
		case features&corrupt != 0:
			return i.errorf(nil, "is a qcow2 disk marked as corrupt")
		case features&externalData != 0:
			return i.errorf(nil, "is a qcow2 disk with its data in another file")
		case features&^uint64(known) != 0:
			return i.errorf(nil, "is a qcow2 disk with unknown features (%#x)", features)
		}
	}
	i.VirtualSize = int64(virtual)
	return nil
}

// prefix keeps the first bytes written to it.
type prefix struct {
	data  []byte
	limit int
}

func (p *prefix) Write(b []byte) (int, error) {
	if room := p.limit - len(p.data); room > 0 {
		p.data = append(p.data, b[:min(room, len(b))]...)
	}
	return len(b), nil
}

// onlyReader hides other methods, so that io.CopyBuffer uses its buffer.
type onlyReader struct{ io.Reader }

// contextReader stops reading when its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
