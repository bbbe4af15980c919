package cpi

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// The agent of an OpenStack stemcell reads its settings from a CD with the label
// config-2, from ec2/latest/user-data, and looks for SSH keys in
// ec2/latest/meta-data.json. That file must exist even without a key: without it
// the agent goes on to ask a metadata service on the network and fails to start.
// PVE's own cloud-init drive has neither file, so the CPI makes the CD itself.
//
// The image is written here and not by a library because it holds every secret
// of the VM. The kept Go libraries either stage the files readable on disk, where
// a killed process leaves them, and stamp the image with the time, or write no
// long names. This one stays in memory, and the same settings give the same
// bytes.

// configDrive returns the ISO 9660 image with the settings of an agent.
func configDrive(settings []byte, instanceID string) ([]byte, error) {
	type keys struct{}
	ec2, err := json.Marshal(struct {
		InstanceID string `json:"instance-id"`
		PublicKeys keys   `json:"public-keys"`
	}{InstanceID: instanceID})
	if err != nil {
		return nil, fmt.Errorf("config drive: %w", err)
	}
	openstack, err := json.Marshal(struct {
		UUID string `json:"uuid"`
		Name string `json:"name"`
	}{instanceID, instanceID})
	if err != nil {
		return nil, fmt.Errorf("config drive: %w", err)
	}
	root := isoDir("",
		isoDir("ec2", isoDir("latest", isoFile("meta-data.json", ec2), isoFile("user-data", settings))),
		isoDir("openstack", isoDir("latest", isoFile("meta_data.json", openstack), isoFile("user_data", settings))),
	)
	return writeISO("config-2", root)
}

const isoSector = 2048

// An isoNode is a file or a directory of an image.
type isoNode struct {
	name     string
	dir      bool
	data     []byte
	children []*isoNode

	parent *isoNode
	extent uint32
	size   uint32
}

func isoFile(name string, data []byte) *isoNode { return &isoNode{name: name, data: data} }

func isoDir(name string, children ...*isoNode) *isoNode {
	d := &isoNode{name: name, dir: true, children: children}
	d.parent = d
	for _, c := range children {
		c.parent = d
	}
	slices.SortFunc(d.children, func(a, b *isoNode) int { return cmp.Compare(a.isoName(), b.isoName()) })
	return d
}

// isoName is the name for readers that know only plain ISO 9660: eight capital
// letters, a dot and three more. The real name is in the Rock Ridge fields.
func (n *isoNode) isoName() string {
	plain := func(s string, limit int) string {
		s = strings.Map(func(c rune) rune {
			if 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' {
				return c
			}
			return '_'
		}, strings.ToUpper(s))
		return s[:min(len(s), limit)]
	}
	if n.dir {
		return plain(n.name, 8)
	}
	base, ext, _ := strings.Cut(n.name, ".")
	return plain(base, 8) + "." + plain(ext, 3) + ";1"
}

// mode is what the file system in the guest shows: the settings are for root.
func (n *isoNode) mode() uint32 {
	if n.dir {
		return 0o040555
	}
	return 0o100400
}

// links counts as file systems do: a directory is linked from its parent, from
// itself and from every directory in it.
func (n *isoNode) links() uint32 {
	if !n.dir {
		return 1
	}
	links := uint32(2)
	for _, c := range n.children {
		if c.dir {
			links++
		}
	}
	return links
}

// writeISO lays out the tree in the order that the path table needs: directories
// level by level, then the files.
func writeISO(label string, root *isoNode) ([]byte, error) {
	dirs := []*isoNode{root}
	var files []*isoNode
	for i := 0; i < len(dirs); i++ {
		for _, c := range dirs[i].children {
			if c.dir {
				dirs = append(dirs, c)
			} else {
				files = append(files, c)
			}
		}
	}
	// Sixteen sectors are reserved, then come the volume descriptor, the end of
	// the descriptors, and the path table in both byte orders.
	const firstFree = 16 + 2 + 2
	next := uint32(firstFree)
	for _, d := range dirs {
		d.extent, d.size = next, isoSector
		next++
	}
	for _, f := range files {
		f.extent, f.size = next, uint32(len(f.data))
		next += uint32((len(f.data) + isoSector - 1) / isoSector)
	}
	image := make([]byte, int(next)*isoSector)

	littleTable, bigTable := isoPathTable(dirs, binary.LittleEndian), isoPathTable(dirs, binary.BigEndian)
	if len(littleTable) > isoSector {
		return nil, fmt.Errorf("config drive: %d directories do not fit", len(dirs))
	}
	copy(image[16*isoSector:], isoVolumeDescriptor(label, root, next, uint32(len(littleTable))))
	copy(image[17*isoSector:], "\xffCD001\x01")
	copy(image[18*isoSector:], littleTable)
	copy(image[19*isoSector:], bigTable)
	for _, d := range dirs {
		records := d.records()
		if len(records) > isoSector {
			return nil, fmt.Errorf("config drive: the directory %q holds too many files", d.name)
		}
		copy(image[d.extent*isoSector:], records)
	}
	for _, f := range files {
		copy(image[f.extent*isoSector:], f.data)
	}
	return image, nil
}

func isoPathTable(dirs []*isoNode, order binary.AppendByteOrder) []byte {
	var b []byte
	for _, d := range dirs {
		name := d.isoName()
		if d.parent == d {
			name = "\x00"
		}
		b = append(b, byte(len(name)), 0)
		b = order.AppendUint32(b, d.extent)
		b = order.AppendUint16(b, uint16(slices.Index(dirs, d.parent)+1))
		b = append(b, name...)
		if len(name)%2 == 1 {
			b = append(b, 0)
		}
	}
	return b
}

func isoVolumeDescriptor(label string, root *isoNode, sectors, tableSize uint32) []byte {
	var b bytes.Buffer
	text := func(s string, width int) { b.WriteString(s + strings.Repeat(" ", width-len(s))) }
	zero := func(n int) { b.Write(make([]byte, n)) }
	date := func(s string) { b.WriteString(s + "\x00") }
	b.WriteString("\x01CD001\x01\x00")
	text("LINUX", 32)
	text(label, 32)
	zero(8)
	b.Write(both32(sectors))
	zero(32)
	b.Write(both16(1)) // volumes in the set
	b.Write(both16(1)) // this one's number
	b.Write(both16(isoSector))
	b.Write(both32(tableSize))
	b.Write(binary.LittleEndian.AppendUint32(nil, 18))
	zero(4)
	b.Write(binary.BigEndian.AppendUint32(nil, 19))
	zero(4)
	b.Write(root.record("\x00", nil))
	text("", 128) // volume set
	text("", 128) // publisher
	text("", 128) // preparer
	text("", 128) // application
	text("", 37)  // copyright file
	text("", 37)  // abstract file
	text("", 37)  // bibliography file
	date("1980010100000000")
	date("1980010100000000")
	date("0000000000000000")
	date("0000000000000000")
	b.WriteByte(1)
	return b.Bytes()
}

// records returns the content of a directory.
func (n *isoNode) records() []byte {
	// The first record of the root says that the fields after the names are
	// Rock Ridge's.
	self := n.attributes()
	if n.parent == n {
		self = slices.Concat([]byte("SP\x07\x01\xbe\xef\x00"), self, []byte("ER\x12\x01\x0a\x00\x00\x01RRIP_1991A"))
	}
	b := n.record("\x00", self)
	b = append(b, n.parent.record("\x01", n.parent.attributes())...)
	for _, c := range n.children {
		name := append([]byte{'N', 'M', byte(5 + len(c.name)), 1, 0}, c.name...)
		b = append(b, c.record(c.isoName(), slices.Concat(c.attributes(), name))...)
	}
	return b
}

// attributes returns the Rock Ridge field with mode, links, user and group.
func (n *isoNode) attributes() []byte {
	return slices.Concat([]byte("PX\x24\x01"), both32(n.mode()), both32(n.links()), both32(0), both32(0))
}

// record returns the entry that leads to n under an ISO 9660 name.
func (n *isoNode) record(name string, system []byte) []byte {
	var flags byte
	if n.dir {
		flags = 2
	}
	b := slices.Concat([]byte{0, 0}, both32(n.extent), both32(n.size),
		// A fixed date, so that the image depends on the settings alone.
		[]byte{80, 1, 1, 0, 0, 0, 0, flags, 0, 0}, both16(1), []byte{byte(len(name))}, []byte(name))
	if len(name)%2 == 0 {
		b = append(b, 0)
	}
	b = append(b, system...)
	if len(b)%2 == 1 {
		b = append(b, 0)
	}
	b[0] = byte(len(b))
	return b
}

// both16 and both32 give a number in both byte orders, as ISO 9660 wants it.
func both16(v uint16) []byte {
	return binary.BigEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, v), v)
}

func both32(v uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, v), v)
}
