package cpitest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
)

// The agent mounts its CD with Linux, which shows the long names of Rock Ridge,
// else those of Joliet, else the short ones of plain ISO 9660, by which the agent
// finds nothing. This reader sees a CD the same way.

const (
	sectorSize = 2048
	// maxDepth and maxEntries bound what a broken image can make the reader do.
	maxDepth   = 8
	maxEntries = 4096
)

// A disc is a CD that was read.
type disc struct {
	label string
	// files maps paths to contents.
	files map[string][]byte
	// naming is "Rock Ridge", "Joliet" or "ISO 9660".
	naming string
}

// readDisc reads a CD.
func readDisc(image []byte) (*disc, error) {
	var primary, joliet []byte
	for n := 16; ; n++ {
		d, err := sector(image, n)
		if err != nil || string(d[1:6]) != "CD001" {
			return nil, errors.New("the image is no ISO 9660 CD: it has no volume descriptors")
		}
		switch d[0] {
		case 1:
			primary = d
		case 2:
			if slices.Contains([]string{"%/@", "%/C", "%/E"}, string(d[88:91])) {
				joliet = d
			}
		}
		if d[0] == 255 {
			break
		}
	}
	if primary == nil {
		return nil, errors.New("the CD has no primary volume descriptor")
	}
	label := strings.TrimRight(string(primary[40:72]), " \x00")
	d := &disc{label: label, files: map[string][]byte{}, naming: "ISO 9660"}
	r := discReader{image: image, skip: -1}
	root, err := parseRecord(primary[156:190])
	if err != nil {
		return nil, err
	}
	// Rock Ridge says in the root directory's own entry that it is there.
	if first, err := r.extent(root); err == nil {
		r.skip = ridgeSkip(first)
	}
	switch {
	case r.skip >= 0:
		d.naming = "Rock Ridge"
	case joliet != nil:
		d.naming, r.wide = "Joliet", true
		if root, err = parseRecord(joliet[156:190]); err != nil {
			return nil, err
		}
	}
	return d, r.walk(root, "", 0, d.files)
}

func sector(image []byte, n int) ([]byte, error) {
	if n < 0 || n >= len(image)/sectorSize {
		return nil, fmt.Errorf("the CD ends before sector %d", n)
	}
	return image[n*sectorSize : (n+1)*sectorSize], nil
}

// A record is a directory entry.
type record struct {
	extent, size uint32
	dir          bool
	name         string
	system       []byte
}

func parseRecord(b []byte) (record, error) {
	if len(b) < 34 {
		return record{}, errors.New("a directory entry of the CD is cut off")
	}
	n := int(b[32])
	if 33+n > len(b) {
		return record{}, errors.New("a name on the CD is cut off")
	}
	r := record{
		extent: binary.LittleEndian.Uint32(b[2:]), size: binary.LittleEndian.Uint32(b[10:]),
		dir: b[25]&2 != 0, name: string(b[33 : 33+n]),
	}
	rest := 33 + n
	if n%2 == 0 {
		rest++
	}
	if rest < len(b) {
		r.system = b[rest:]
	}
	return r, nil
}

type discReader struct {
	image []byte
	// skip is how many bytes precede the fields of Rock Ridge in an entry, or
	// below zero without Rock Ridge.
	skip    int
	wide    bool
	entries int
}

func (r *discReader) extent(x record) ([]byte, error) {
	start, end := int64(x.extent)*sectorSize, int64(x.extent)*sectorSize+int64(x.size)
	if end > int64(len(r.image)) {
		return nil, fmt.Errorf("a file of the CD reaches beyond its end")
	}
	return r.image[start:end], nil
}

// ridgeSkip looks for the mark of the sharing protocol that Rock Ridge uses.
func ridgeSkip(dir []byte) int {
	if len(dir) < 34 || int(dir[0]) > len(dir) || dir[0] < 34 {
		return -1
	}
	x, err := parseRecord(dir[:dir[0]])
	if err != nil {
		return -1
	}
	for f := range fields(x.system) {
		if f.name == "SP" && len(f.data) >= 3 && f.data[0] == 0xbe && f.data[1] == 0xef {
			return int(f.data[2])
		}
	}
	return -1
}

// A susp is a field of the system use part of an entry.
type susp struct {
	name string
	data []byte
}

func fields(b []byte) func(func(susp) bool) {
	return func(yield func(susp) bool) {
		for len(b) >= 4 && int(b[2]) >= 4 && int(b[2]) <= len(b) {
			if !yield(susp{string(b[:2]), b[4:b[2]]}) {
				return
			}
			b = b[b[2]:]
		}
	}
}

func (r *discReader) walk(dir record, path string, depth int, files map[string][]byte) error {
	if depth > maxDepth {
		return errors.New("the CD has too many levels of directories")
	}
	data, err := r.extent(dir)
	if err != nil {
		return err
	}
	for pos := 0; pos < len(data); {
		n := int(data[pos])
		if n == 0 {
			// Entries do not cross sectors.
			pos = (pos/sectorSize + 1) * sectorSize
			continue
		}
		if pos+n > len(data) {
			return errors.New("a directory of the CD is cut off")
		}
		x, err := parseRecord(data[pos : pos+n])
		if err != nil {
			return err
		}
		pos += n
		if r.entries++; r.entries > maxEntries {
			return errors.New("the CD has too many files")
		}
		if x.name == "\x00" || x.name == "\x01" {
			continue
		}
		name := path + "/" + r.name(x)
		if x.dir {
			if err := r.walk(x, name, depth+1, files); err != nil {
				return err
			}
			continue
		}
		if files[name], err = r.extent(x); err != nil {
			return err
		}
	}
	return nil
}

func (r *discReader) name(x record) string {
	if r.wide {
		units := make([]uint16, len(x.name)/2)
		for i := range units {
			units[i] = binary.BigEndian.Uint16([]byte(x.name[2*i:]))
		}
		name, _, _ := strings.Cut(string(utf16.Decode(units)), ";")
		return name
	}
	if r.skip >= 0 && r.skip <= len(x.system) {
		var long strings.Builder
		r.ridgeName(x.system[r.skip:], &long, 0)
		if long.Len() > 0 {
			return long.String()
		}
	}
	name, _, _ := strings.Cut(x.name, ";")
	// Linux shows short names in lower case.
	return strings.ToLower(strings.TrimSuffix(name, "."))
}

// ridgeName collects a name, which may go on in a continuation area.
func (r *discReader) ridgeName(system []byte, out *strings.Builder, depth int) {
	for f := range fields(system) {
		switch {
		case f.name == "NM" && len(f.data) >= 1:
			out.Write(f.data[1:])
		case f.name == "CE" && len(f.data) >= 24 && depth < maxDepth && r.entries < maxEntries:
			r.entries++
			at := int64(binary.LittleEndian.Uint32(f.data))*sectorSize + int64(binary.LittleEndian.Uint32(f.data[8:]))
			end := at + int64(binary.LittleEndian.Uint32(f.data[16:]))
			if end <= int64(len(r.image)) {
				r.ridgeName(r.image[at:end], out, depth+1)
			}
		}
	}
}
