package cpi

import (
	"os"
	"path/filepath"
	"strings"
)

// Where a VM is stands in the list of all guests. To spare delete_vm that list,
// create_vm leaves the node's name in a small file on the machine that the CPI
// runs on. It is a hint and no more: without it, or when the VM has moved, the
// list is asked.

func (c *CPI) hintFile(cid vmCID) string {
	if c.cfg.LockDir == "" {
		return ""
	}
	return filepath.Join(c.cfg.LockDir, "nodes", cid.String())
}

// rememberNode notes the node of a VM.
func (c *CPI) rememberNode(cid vmCID, node string) {
	file := c.hintFile(cid)
	if file == "" || os.MkdirAll(filepath.Dir(file), 0o700) != nil {
		return
	}
	// A failure costs one request later.
	_ = os.WriteFile(file, []byte(node), 0o600)
}

// rememberedNode returns the node that was noted, or "".
func (c *CPI) rememberedNode(cid vmCID) string {
	file := c.hintFile(cid)
	if file == "" {
		return ""
	}
	data, err := os.ReadFile(file)
	if err != nil || len(data) > 255 || strings.ContainsAny(string(data), "/ \n") {
		return ""
	}
	return string(data)
}

// forgetNode removes the note.
func (c *CPI) forgetNode(cid vmCID) {
	if file := c.hintFile(cid); file != "" {
		_ = os.Remove(file)
	}
}
