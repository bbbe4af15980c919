package pvetest

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A guest is a virtual machine, or a container that is only there to be seen.
type guest struct {
	VMID      int    `json:"vmid"`
	Node      string `json:"node"`
	Container bool   `json:"container,omitempty"`

	// Config is what is in force, Pending what waits for the next start, and
	// Delete the keys that go away with it; its value tells whether by force.
	Config  map[string]string `json:"config"`
	Pending map[string]string `json:"pending,omitempty"`
	Delete  map[string]bool   `json:"delete,omitempty"`

	Snapshots map[string]*snapshot `json:"snapshots,omitempty"`

	Running bool  `json:"running,omitempty"`
	Paused  bool  `json:"paused,omitempty"`
	Started int64 `json:"started,omitempty"` // seconds since the epoch
	PID     int   `json:"pid,omitempty"`

	// NoOS makes the guest ignore shutdown and unplug requests, as a machine
	// does on which nothing has booted.
	NoOS  bool        `json:"noOS,omitempty"`
	Agent *guestAgent `json:"agent,omitempty"`
}

// A snapshot is a saved state of a guest.
type snapshot struct {
	Name        string            `json:"name"`
	Description string            `json:"description,omitempty"`
	Time        int64             `json:"time"`
	Parent      string            `json:"parent,omitempty"`
	Config      map[string]string `json:"config"`
	VMState     string            `json:"vmstate,omitempty"` // the volume with the memory
}

// template tells whether the template flag is set.
func (g *guest) template() bool { return g.Config["template"] == "1" }

// lock returns the lock that is held on the guest, "" when there is none.
func (g *guest) lock() string { return g.Config["lock"] }

func (g *guest) setLock(lock string) {
	if lock == "" {
		delete(g.Config, "lock")
		return
	}
	g.Config["lock"] = lock
}

func (g *guest) protected() bool { return g.Config["protection"] == "1" }

// checkLock fails when the guest is locked.
func (g *guest) checkLock() error {
	if l := g.lock(); l != "" {
		return fail(500, "VM is locked (%s)", l)
	}
	return nil
}

// checkProtection fails when the guest's protection is on; what says what
// would have been done.
func (g *guest) checkProtection(what string) error {
	if g.protected() {
		return fail(500, "%s - protection mode enabled", what)
	}
	return nil
}

// name is the guest's name in lists.
func (g *guest) name() string {
	if n := g.Config["name"]; n != "" {
		return n
	}
	return "VM " + strconv.Itoa(g.VMID)
}

// value returns a key's value as a config without current=1 shows it: what it
// will be after the next start.
func (g *guest) value(key string) (string, bool) {
	if _, gone := g.Delete[key]; gone {
		return "", false
	}
	if v, ok := g.Pending[key]; ok {
		return v, true
	}
	v, ok := g.Config[key]
	return v, ok
}

// effective returns the config as it will be after the next start.
func (g *guest) effective() map[string]string {
	conf := make(map[string]string, len(g.Config)+len(g.Pending))
	for k, v := range g.Config {
		conf[k] = v
	}
	for k, v := range g.Pending {
		conf[k] = v
	}
	for k := range g.Delete {
		delete(conf, k)
	}
	return conf
}

// digest is the checksum of the config file.
func (g *guest) digest() string {
	sum := sha1.Sum([]byte(g.file()))
	return hex.EncodeToString(sum[:])
}

// file renders the guest's config file.
func (g *guest) file() string {
	var b strings.Builder
	writeSection(&b, "", g.Config)
	if len(g.Pending)+len(g.Delete) > 0 {
		b.WriteString("\n[PENDING]\n")
		var gone []string
		for _, k := range sortedKeys(g.Delete) {
			if g.Delete[k] {
				k = "!" + k
			}
			gone = append(gone, k)
		}
		if gone != nil {
			b.WriteString("delete: " + strings.Join(gone, ",") + "\n")
		}
		writeSection(&b, "", g.Pending)
	}
	for _, name := range sortedKeys(g.Snapshots) {
		s := g.Snapshots[name]
		conf := make(map[string]string, len(s.Config)+4)
		for k, v := range s.Config {
			conf[k] = v
		}
		conf["description"] = s.Description
		conf["snaptime"] = strconv.FormatInt(s.Time, 10)
		if s.Parent != "" {
			conf["parent"] = s.Parent
		}
		if s.VMState != "" {
			conf["vmstate"] = s.VMState
		}
		writeSection(&b, "\n["+name+"]\n", conf)
	}
	return b.String()
}

// writeSection writes one section of a config file, its description first as
// comment lines.
func writeSection(b *strings.Builder, head string, conf map[string]string) {
	b.WriteString(head)
	if d := conf["description"]; d != "" {
		for line := range strings.SplitSeq(d, "\n") {
			b.WriteString("#" + escapeComment(line) + "\n")
		}
	}
	for _, k := range sortedKeys(conf) {
		if k != "description" {
			b.WriteString(k + ": " + conf[k] + "\n")
		}
	}
}

// escapeComment escapes what would not survive in a comment line.
func escapeComment(line string) string {
	var b strings.Builder
	for _, c := range []byte(line) {
		if c < ' ' || c >= 0x7f || c == '%' || c == ':' {
			fmt.Fprintf(&b, "%%%02X", c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// addUnused keeps a volume that is no longer used under the first free
// unusedN key.
func addUnused(conf map[string]string, volid string) {
	for i := range 256 {
		key := "unused" + strconv.Itoa(i)
		if v, ok := conf[key]; !ok {
			conf[key] = volid
			return
		} else if v == volid {
			return
		}
	}
}

// volumeKeys returns the config keys that hold the guest's volumes, in the
// order of their names.
func volumeKeys(conf map[string]string, unused bool) []string {
	var keys []string
	for k := range conf {
		if isDriveKey(k) || unused && isUnusedKey(k) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// uses tells whether the config refers to volid, except under the key not.
func uses(conf map[string]string, volid, not string) bool {
	for k, v := range conf {
		if k != not && isVolumeKey(k) && parseDrive(k, v).file() == volid {
			return true
		}
	}
	return false
}

// snapshotUses tells whether one of the guest's snapshots refers to volid.
func (g *guest) snapshotUses(volid string) bool {
	for _, s := range g.Snapshots {
		if uses(s.Config, volid, "") || s.VMState == volid {
			return true
		}
	}
	return false
}

// stop ends the guest's process.
func (g *guest) stop() {
	g.Running, g.Paused, g.Started, g.PID = false, false, 0, 0
}
