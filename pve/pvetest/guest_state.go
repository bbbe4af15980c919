package pvetest

import (
	"strconv"
	"strings"
	"time"
)

// zoneOf is the SDN zone of a bridge. Bridges that are no vnets, known or
// not, are in the zone of the node's own networks.
func (cl *cluster) zoneOf(bridge string) string {
	if zone := cl.vnetZone(bridge); zone != "" {
		return zone
	}
	return "localnetwork"
}

// hasBridge tells whether a guest on a node can use a bridge.
func (cl *cluster) hasBridge(node, bridge string) bool {
	n := cl.Nodes[node]
	return n != nil && n.Ifaces[bridge] != nil && n.Ifaces[bridge].Active || cl.vnetOn(node, bridge)
}

// vm returns a virtual machine; a container is none.
func (cl *cluster) vm(vmid int) *guest {
	if g := cl.Guests[vmid]; g != nil && !g.Container {
		return g
	}
	return nil
}

// theGuest returns the guest of the call's path, or the error that its config
// is not on the node.
func (c *call) theGuest() (*guest, error) {
	vmid, _ := strconv.Atoi(c.vars["vmid"])
	return c.guestOn(vmid)
}

// guestOn returns a guest of the node that answers.
func (c *call) guestOn(vmid int) (*guest, error) {
	if g := c.cl().vm(vmid); g != nil && g.Node == c.node {
		return g, nil
	}
	return nil, fail(500, "Configuration file 'nodes/%s/qemu-server/%d.conf' does not exist", c.node, vmid)
}

// guestWorker is task for a guest that is looked up when the work is done. A
// task that cannot even begin, because the guest is locked, say, ends at once
// also where tasks take time.
func (c *call) guestWorker(typ string, vmid int, run func(t *task, g *guest) error) string {
	upid := c.task(typ, strconv.Itoa(vmid), func(t *task) error {
		if err := c.fileLock(vmid, t); err != nil {
			return err
		}
		g, err := c.guestOn(vmid)
		if err != nil {
			return err
		}
		return run(t, g)
	})
	t := c.cl().Tasks[len(c.cl().Tasks)-1]
	if t.UPID != upid || !t.running() || t.held {
		return upid
	}
	g, err := c.guestOn(vmid)
	if err != nil || g.lock() != "" || typ == "qmstart" && (g.Running || g.template()) {
		c.s.finishOne(t)
	}
	return upid
}

// lockingWorker is guestWorker for work during which the guest's config has a
// lock: it is there from the start when the work takes time.
func (c *call) lockingWorker(typ string, vmid int, lock string, run func(t *task, g *guest) error) string {
	var locked *guest
	unlock := func() {
		if locked != nil && locked.lock() == lock {
			locked.setLock("")
		}
		locked = nil
	}
	upid := c.guestWorker(typ, vmid, func(t *task, g *guest) error {
		unlock()
		return run(t, g)
	})
	t := c.cl().Tasks[len(c.cl().Tasks)-1]
	g := c.cl().Guests[vmid]
	if t.UPID == upid && t.running() && g != nil && g.Node == c.node && g.lock() == "" && !g.template() {
		locked = g
		g.setLock(lock)
		t.undo = unlock
	}
	return upid
}

// lockPatience is how long a call waits for the lock on a config file.
const lockPatience = 10 * time.Second

// fileLock waits for the tasks that hold the lock on a guest's config file,
// other than self: they end now. One that is held goes on, as one does that has
// longer to run than a call waits, and the lock cannot be had.
func (c *call) fileLock(vmid int, self *task) error {
	id := strconv.Itoa(vmid)
	for _, t := range c.cl().Tasks {
		if t == self {
			break
		}
		if !t.running() || t.working || t.ID != id || t.Node != c.node || !holdsFileLock(t.Type) {
			continue
		}
		if t.held || t.until.Sub(c.s.clock()) > lockPatience {
			return fail(500, "can't lock file '/var/lock/qemu-server/lock-%d.conf' - got timeout", vmid)
		}
		c.s.finish(t)
	}
	return nil
}

// holdsFileLock tells whether a type of task holds the lock on its guest's
// config file all the time.
func holdsFileLock(typ string) bool {
	switch typ {
	case "qmstart", "qmstop", "qmshutdown", "qmreboot", "qmpause", "qmresume", "qmconfig", "resize", "qmmove", "qmdestroy", "qmtemplate":
		return true
	}
	return false
}

// checkSkiplock refuses skiplock to everyone but root.
func (c *call) checkSkiplock() error {
	if c.p.boolean("skiplock", false) && !c.auth.root() {
		return failParam("skiplock", "Only root may use this option.")
	}
	return nil
}

// checkDigest compares the digest a caller gives with the config's.
func checkDigest(g *guest, digest string) error {
	if digest != "" && digest != g.digest() {
		return fail(500, "checksum mismatch (file change by other user?)")
	}
	return nil
}

// openElsewhere returns another running guest that has a volume open, which
// on file storages keeps everyone else from writing to it.
func (cl *cluster) openElsewhere(volid string, vmid int) *guest {
	id, _, _ := strings.Cut(volid, ":")
	st := cl.Storages[id]
	if st == nil || !st.kind().files {
		return nil
	}
	for _, g := range cl.Guests {
		if g.Running && g.VMID != vmid && uses(g.Config, volid, "") {
			return g
		}
	}
	return nil
}
