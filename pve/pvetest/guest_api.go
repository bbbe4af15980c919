package pvetest

import (
	"fmt"
	"strconv"
)

func registerGuests(r *registry) {
	const base = "/nodes/{node}/qemu/{vmid}"
	r.handle("GET /nodes/{node}/qemu", guestList)
	r.handle("POST /nodes/{node}/qemu", guestCreate)
	r.handle("GET "+base, guestIndex)
	r.handle("DELETE "+base, guestDestroy)
	r.handle("GET "+base+"/config", guestConfigGet)
	r.handle("PUT "+base+"/config", guestConfigPut)
	r.handle("POST "+base+"/config", guestConfigPost)
	r.handle("GET "+base+"/pending", guestPending)
	r.handle("PUT "+base+"/unlink", guestUnlink)
	r.handle("PUT "+base+"/resize", guestResize)
	r.handle("POST "+base+"/move_disk", guestMoveDisk)
	r.handle("POST "+base+"/clone", guestClone)
	r.handle("POST "+base+"/template", guestTemplate)
	r.handle("GET "+base+"/feature", guestFeature)
	r.handle("GET "+base+"/migrate", guestMigrateCheck)
	r.handle("POST "+base+"/migrate", guestMigrate)
	r.handle("GET "+base+"/cloudinit", guestCloudinitGet)
	r.handle("PUT "+base+"/cloudinit", guestCloudinitPut)
	r.handle("GET "+base+"/cloudinit/dump", guestCloudinitDump)

	r.handle("GET "+base+"/status", guestStatusIndex)
	r.handle("GET "+base+"/status/current", guestCurrent)
	r.handle("POST "+base+"/status/start", guestStart)
	r.handle("POST "+base+"/status/stop", guestStop)
	r.handle("POST "+base+"/status/shutdown", guestShutdown)
	r.handle("POST "+base+"/status/reboot", guestReboot)
	r.handle("POST "+base+"/status/reset", guestReset)
	r.handle("POST "+base+"/status/suspend", guestSuspend)
	r.handle("POST "+base+"/status/resume", guestResume)
	r.handle("PUT "+base+"/sendkey", guestSendkey)
	r.handle("POST "+base+"/monitor", guestMonitor)
	r.handle("POST "+base+"/vncproxy", guestVNC)
	r.handle("POST "+base+"/spiceproxy", guestSpice)
	r.handle("GET "+base+"/rrddata", guestRRD)

	r.handle("GET "+base+"/snapshot", snapshotList)
	r.handle("POST "+base+"/snapshot", snapshotCreate)
	r.handle("GET "+base+"/snapshot/{snapname}", snapshotIndex)
	r.handle("DELETE "+base+"/snapshot/{snapname}", snapshotDelete)
	r.handle("GET "+base+"/snapshot/{snapname}/config", snapshotConfig)
	r.handle("PUT "+base+"/snapshot/{snapname}/config", snapshotDescribe)
	r.handle("POST "+base+"/snapshot/{snapname}/rollback", snapshotRollback)

	r.handle("POST /nodes/{node}/startall", nodeStartAll)
	r.handle("POST /nodes/{node}/stopall", nodeStopAll)
	r.handle("GET /nodes/{node}/lxc", containerList)
	registerAgent(r)
}

// containerList lists what was put there by AddContainer: containers are not
// simulated any further.
func containerList(c *call) (any, error) {
	rows := []any{}
	for _, vmid := range sortedKeys(c.cl().Guests) {
		g := c.cl().Guests[vmid]
		if g.Node != c.node || !g.Container || !c.may("/vms/"+strconv.Itoa(vmid), "VM.Audit") {
			continue
		}
		m := c.statusFields(g)
		delete(m, "memhost")
		m["type"], m["swap"], m["maxswap"], m["diskread"], m["diskwrite"] = "lxc", 0, 0, 0, 0
		rows = append(rows, m)
	}
	return rows, nil
}

// guestRRD is empty, as it is for a guest that has just been made.
func guestRRD(c *call) (any, error) {
	if _, err := c.theGuest(); err != nil {
		return nil, err
	}
	return []any{}, nil
}

func guestVNC(c *call) (any, error) {
	g, err := c.theGuest()
	if err != nil {
		return nil, err
	}
	upid := c.task("vncproxy", strconv.Itoa(g.VMID), func(*task) error { return nil })
	m := map[string]any{
		"user": c.auth.id(), "ticket": fmt.Sprintf("PVEVNC:%08X::%016x", c.s.clock().Unix(), c.s.rng.Uint64()),
		"port": "5900", "cert": c.s.certPEM, "upid": upid, "password": fmt.Sprintf("%08x", c.s.rng.Uint32()),
	}
	return m, nil
}

func guestSpice(c *call) (any, error) {
	g, err := c.theGuest()
	if err != nil {
		return nil, err
	}
	if !g.Running {
		return nil, fail(500, "VM %d not running", g.VMID)
	}
	return nil, fail(500, "no spice port")
}
