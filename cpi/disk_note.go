package cpi

import (
	"os"
	"path/filepath"

	"github.com/proxkit/proxkit/cpi/rpc"
)

// Which VM has a disk stands in the VM's tags. So that a tag that somebody removes
// does not make the disk free for a second VM, the VM is noted on the machine that
// the CPI runs on as well, from attach_disk to detach_disk or delete_vm. The note
// is a hint to look at that VM and no more.

func (c *CPI) userFile(disk rpc.DiskCID) string {
	if c.cfg.LockDir == "" {
		return ""
	}
	return filepath.Join(c.cfg.LockDir, "attached", c.clusterMark()+"-"+string(disk))
}

// noteUser notes the VM that a disk is attached to.
func (c *CPI) noteUser(disk rpc.DiskCID, cid vmCID) {
	file := c.userFile(disk)
	if file == "" || privateDir(c.cfg.LockDir, filepath.Dir(file)) != nil {
		return
	}
	_ = os.WriteFile(file, []byte(cid.String()), 0o600)
}

// notedUser returns the VM that was noted, if there is one still.
func (c *CPI) notedUser(v *view, disk rpc.DiskCID) []guest {
	file := c.userFile(disk)
	if file == "" {
		return nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	cid, err := parseVMCID(rpc.VMCID(data))
	if err != nil {
		return nil
	}
	g, ok := v.guestByID(cid.VMID)
	if !ok || !isVM(g, cid) && g.name != vmName(cid.Token) {
		return nil
	}
	return []guest{g}
}

// forgetUser removes the note.
func (c *CPI) forgetUser(disk rpc.DiskCID) { c.forgetEverywhere("attached", string(disk)) }
