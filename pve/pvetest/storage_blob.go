package pvetest

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Blobs are the files with the bytes of volumes, in a directory of the
// server's. A handle is a blob's file name; volumes with the same bytes share
// it.

func (s *Server) blobDir() string { return filepath.Join(s.dir, "blobs") }

// blobPath is the file of a blob.
func (s *Server) blobPath(handle string) string { return filepath.Join(s.blobDir(), handle) }

// keepBlob moves a file into the server's keeping and returns its handle.
func (s *Server) keepBlob(path string) (string, error) {
	if err := os.MkdirAll(s.blobDir(), 0o700); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(s.blobDir(), "volume-*")
	if err != nil {
		return "", err
	}
	defer f.Close()
	if os.Rename(path, f.Name()) == nil {
		return filepath.Base(f.Name()), nil
	}
	src, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer src.Close()
	if _, err := io.Copy(f, src); err != nil {
		return "", err
	}
	return filepath.Base(f.Name()), nil
}

// storeBlob keeps bytes and returns their handle.
func (s *Server) storeBlob(data []byte) (string, error) {
	if err := os.MkdirAll(s.blobDir(), 0o700); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(s.blobDir(), "volume-*")
	if err != nil {
		return "", err
	}
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return "", err
	}
	return filepath.Base(f.Name()), nil
}

// releaseBlob removes a blob that no volume refers to any more.
func (s *Server) releaseBlob(handle string) {
	if handle == "" {
		return
	}
	for _, st := range s.state.Storages {
		for _, volumes := range st.Volumes {
			for _, v := range volumes {
				if v.Blob == handle {
					return
				}
			}
		}
	}
	if s.saver.on {
		s.saver.stale = append(s.saver.stale, handle)
		return
	}
	_ = os.Remove(s.blobPath(handle)) // a file left behind does no harm
}

// An imageInfo is what a disk image's header says.
type imageInfo struct {
	format  string // qcow2, vmdk or raw
	size    int64  // what a guest sees
	backing bool   // needs another file
}

// probeImage reads the header of a disk image of length bytes.
func probeImage(r io.ReaderAt, length int64) (imageInfo, error) {
	info := imageInfo{format: "raw", size: length}
	head := make([]byte, 32)
	n, err := r.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return info, err
	}
	head = head[:n]
	switch {
	case n >= 4 && string(head[:4]) == "QFI\xfb":
		info.format = "qcow2"
		if n < 32 {
			return info, fmt.Errorf("the qcow2 header is cut off after %d bytes", n)
		}
		info.backing = binary.BigEndian.Uint64(head[8:]) != 0
		size := binary.BigEndian.Uint64(head[24:])
		if size > 1<<62 {
			return info, fmt.Errorf("the qcow2 header says an impossible size")
		}
		info.size = int64(size)
	case n >= 4 && string(head[:4]) == "KDMV":
		info.format = "vmdk"
		if n >= 20 {
			info.size = int64(binary.LittleEndian.Uint64(head[12:])&(1<<50-1)) * 512
		}
	}
	return info, nil
}

// probeFile is probeImage for a file.
func probeFile(path string) (imageInfo, error) {
	f, err := os.Open(path)
	if err != nil {
		return imageInfo{}, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return imageInfo{}, err
	}
	return probeImage(f, fi.Size())
}
