package cpi

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Where a VM is stands in the list of all guests. To spare delete_vm that list,
// create_vm leaves the node's name in a small file on the machine that the CPI
// runs on. It is a hint and no more: without it, or when the VM has moved, the
// list is asked. Several clusters may share the directory, so the file's name says
// which one the VM was made on.

// clusterMark tells the clusters that share lock_dir apart, by the hosts of their
// endpoints.
func (c *CPI) clusterMark() string {
	names := []string{c.cfg.TokenID, c.cfg.Pool}
	for _, e := range c.cfg.Endpoints {
		if u, err := url.Parse(e); err == nil && u.Hostname() != "" {
			e = u.Hostname()
		}
		names = append(names, e)
	}
	sum := sha256.Sum256([]byte(strings.Join(names, "\n")))
	return hex.EncodeToString(sum[:8])
}

func (c *CPI) hintFile(cid vmCID) string {
	if c.cfg.LockDir == "" {
		return ""
	}
	return filepath.Join(c.cfg.LockDir, "nodes", c.clusterMark()+"-"+cid.String())
}

// rememberNode notes the node of a VM.
func (c *CPI) rememberNode(cid vmCID, node string) {
	file := c.hintFile(cid)
	if file == "" || privateDir(c.cfg.LockDir, filepath.Dir(file)) != nil {
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

// forgetEverywhere removes the notes about something of that CID that is gone for
// good, also those from before the configuration named the cluster otherwise.
func (c *CPI) forgetEverywhere(sub, cid string) {
	if c.cfg.LockDir == "" {
		return
	}
	files, _ := filepath.Glob(filepath.Join(c.cfg.LockDir, sub, "*-"+cid))
	for _, file := range files {
		_ = os.Remove(file)
	}
}

// When create_vm fails on a node, the Director calls it again with the same
// arguments. So that it does not fail on the same node five times, the nodes that
// were tried for an agent are noted for a while. The list is a hint as well:
// without it every call begins with the best node.
const triesLast = time.Hour

func (c *CPI) triesFile(agent string) string {
	if c.cfg.LockDir == "" || agent == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(agent))
	return filepath.Join(c.cfg.LockDir, "tries", hex.EncodeToString(sum[:8]))
}

func (c *CPI) tries(agent string) []string {
	file := c.triesFile(agent)
	if file == "" {
		return nil
	}
	info, err := os.Stat(file)
	if err != nil || time.Since(info.ModTime()) > triesLast || info.Size() > 64<<10 {
		return nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return strings.Fields(string(data))
}

// freshFirst puts the places on nodes that were not tried yet before the others.
// When all were tried, it begins anew.
func (c *CPI) freshFirst(agent string, places []place) []place {
	tried := c.tries(agent)
	fresh := slices.DeleteFunc(slices.Clone(places), func(p place) bool { return slices.Contains(tried, p.node) })
	if len(fresh) == 0 {
		c.forgetTries(agent)
		return places
	}
	return fresh
}

// rememberTry notes that a place was tried in vain, and reports whether another
// one is left for the next call.
func (c *CPI) rememberTry(agent string, tried place, places []place) (left bool) {
	left = slices.ContainsFunc(places, func(p place) bool { return p.node != tried.node })
	file := c.triesFile(agent)
	if file == "" || !left {
		c.forgetTries(agent)
		return left
	}
	if privateDir(c.cfg.LockDir, filepath.Dir(file)) == nil {
		nodes := append(c.tries(agent), tried.node)
		_ = os.WriteFile(file, []byte(strings.Join(nodes, "\n")), 0o600)
	}
	return left
}

func (c *CPI) forgetTries(agent string) {
	if file := c.triesFile(agent); file != "" {
		_ = os.Remove(file)
	}
}
