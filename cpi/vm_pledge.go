package cpi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/proxkit/proxkit/pve"
)

// A call that makes something and is killed in the midst of it leaves what nobody
// knows of: BOSH learns the CID only from the answer. So a call writes down what
// it is about to make, in a small file that it keeps locked, and removes the file
// when the thing is complete or undone. A file that nobody has locked is a call
// that has died, or one that could not undo everything; the next call that
// changes something removes what stands in it. Only guests of the very name that
// the dead call gave, and no other ever gives, are touched. If in doubt they stay:
// when the Director has given them metadata, so that it knows them, or when the
// machine was started again since, after which the file may be older than the
// last that was done to it. Those are for people to look at; see [CPI.Audit].
//
// A pledge ends before the answer is written, not after: who is killed between the
// two leaves a thing that nobody knows, which the audit lists; the other way round
// the next call would destroy a thing whose CID the Director has.

// A pledge is the file of a running call. A nil pledge, where files cannot be
// locked, keeps nothing.
type pledge struct {
	file *os.File
	path string
	held pledged
}

// pledged is what a pledge's file says.
type pledged struct {
	// Cluster is a digest of whose cluster it is: several CPIs may share a
	// directory.
	Cluster string `json:"cluster"`
	// Boot tells the machine's present start from others.
	Boot string `json:"boot"`
	// Kind is the tag of the kind of guest.
	Kind string `json:"kind,omitempty"`
	// Name is the guest's name, and VMIDs are those it was tried to be made under.
	Name  string `json:"name,omitempty"`
	VMIDs []VMID `json:"vmids,omitempty"`
	// Volume is an uploaded file, and Node the node it was uploaded to.
	Volume string `json:"volume,omitempty"`
	Node   string `json:"node,omitempty"`
}

func (c *CPI) clusterDigest() string {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{c.cfg.TokenID, c.cfg.Pool}, c.cfg.Endpoints...), "\n")))
	return hex.EncodeToString(sum[:8])
}

func (c *CPI) pledgeDir() string { return filepath.Join(c.cfg.LockDir, "pledges") }

// pledge writes down what is about to be made.
func (c *CPI) pledge(ctx context.Context, p pledged) *pledge {
	if c.cfg.LockDir == "" || privateDir(c.cfg.LockDir, c.pledgeDir()) != nil {
		return nil
	}
	p.Cluster, p.Boot = c.clusterDigest(), bootID()
	path := filepath.Join(c.pledgeDir(), randomToken(16))
	file, err := lockFile(ctx, path)
	if err != nil {
		return nil
	}
	out := &pledge{file: file, path: path, held: p}
	out.write()
	return out
}

func (p *pledge) write() {
	data, err := json.Marshal(p.held)
	if err != nil {
		return
	}
	// Longer each time, so that nothing of the last text is left.
	_, _ = p.file.WriteAt(data, 0)
}

// vmid adds a VMID under which the guest is about to be made.
func (p *pledge) vmid(id VMID) {
	if p == nil {
		return
	}
	p.held.VMIDs = append(p.held.VMIDs, id)
	p.write()
}

// settle ends the pledge: nothing is left to remove unless err says so.
func (p *pledge) settle(err error) {
	if p == nil {
		return
	}
	if err == nil || !strings.Contains(err.Error(), leftBehindText) {
		if os.Remove(p.path) != nil {
			// What is complete must not be removed by the next call.
			_ = p.file.Truncate(0)
		}
	}
	_ = p.file.Close()
}

// bootID tells one start of the machine from another, and is empty where that
// cannot be told.
func bootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// underWay counts, by node, the VMs that other processes of this machine are
// making: the cluster's list does not show them yet.
func (c *CPI) underWay() map[string]int {
	out := map[string]int{}
	if c.cfg.LockDir == "" {
		return out
	}
	entries, _ := os.ReadDir(c.pledgeDir())
	for _, e := range entries {
		file, err := os.Open(filepath.Join(c.pledgeDir(), e.Name()))
		if err != nil {
			continue
		}
		var p pledged
		if isLocked(file) && json.NewDecoder(io.LimitReader(file, 64<<10)).Decode(&p) == nil && p.Kind == tagVM && p.Cluster == c.clusterDigest() {
			out[p.Node]++
		}
		_ = file.Close()
	}
	return out
}

// sweepTime bounds what a call spends on what others left, so that it has time for
// its own work. What is not done by then is left to the next call.
const sweepTime = 30 * time.Second

// sweep removes what calls left that have died.
func (c *CPI) sweep(ctx context.Context) {
	if c.cfg.LockDir == "" {
		return
	}
	limit := sweepTime
	if c.cfg.CallTimeout > 0 {
		limit = min(limit, c.cfg.CallTimeout/10)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("cleaning up took longer than %s: %w", limit, context.DeadlineExceeded))
	defer cancel()
	c.sweepNotes(time.Now())
	entries, err := os.ReadDir(c.pledgeDir())
	if err != nil || len(entries) == 0 {
		return
	}
	var v *view
	for _, e := range entries {
		if v, err = c.sweepOne(ctx, v, filepath.Join(c.pledgeDir(), e.Name())); err != nil {
			c.log.Printf("what an earlier call left is still there: %v", err)
		}
	}
}

func (c *CPI) sweepOne(ctx context.Context, v *view, path string) (*view, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return v, nil
	}
	defer file.Close()
	if free, err := tryLock(file); err != nil || !free {
		return v, nil
	}
	data, err := io.ReadAll(io.LimitReader(file, 64<<10))
	if err != nil {
		return v, err
	}
	var p pledged
	if json.Unmarshal(data, &p) != nil {
		// Killed before it was written, and before anything was made.
		return v, os.Remove(path)
	}
	if p.Cluster != c.clusterDigest() {
		return v, nil
	}
	if p.Boot == "" || p.Boot != bootID() {
		if info, err := file.Stat(); err == nil && time.Since(info.ModTime()) > notesLast {
			return v, os.Remove(path)
		}
		return v, nil
	}
	if v == nil {
		if v, err = c.look(ctx); err != nil {
			return nil, err
		}
	}
	if err := c.redeem(ctx, v, p); err != nil {
		return v, err
	}
	return v, os.Remove(path)
}

// redeem removes what a dead call made.
func (c *CPI) redeem(ctx context.Context, v *view, p pledged) error {
	for _, id := range p.VMIDs {
		if stays, err := c.redeemGuest(ctx, v, p, id); err != nil || stays {
			return err
		}
	}
	if p.Volume != "" {
		c.log.Printf("removing %s, which an earlier call left", p.Volume)
		// A copy that is still being made would appear afterwards.
		if _, err := c.awaitTasks(ctx, claim{node: p.Node, task: "imgcopy"}); err != nil {
			return err
		}
		return c.deleteVolume(ctx, p.Node, p.Volume)
	}
	return nil
}

// redeemGuest removes a guest, unless it is one that is in use.
func (c *CPI) redeemGuest(ctx context.Context, v *view, p pledged, id VMID) (stays bool, err error) {
	g, ok := v.guestByID(id)
	if !ok {
		_, err := call(ctx, c, c.pve.GetNextVMID, pve.GetNextVMIDParams{VMID: new(id)})
		if err == nil {
			return false, nil
		}
		if !errors.Is(err, pve.ErrGuestExists) {
			return false, err
		}
		// Not in its pool yet, and still being made where it was begun, or
		// another's.
		g = guest{vmid: id, node: p.Node}
	}
	g.name = p.Name
	conf, err := c.ownConfig(ctx, g)
	switch {
	case errors.Is(err, pve.ErrNotFound):
		return false, nil
	case err == nil && conf.lock == "" && conf.name != p.Name:
		return false, nil
	case err == nil && p.Kind == tagStemcell && hasTags(conf.tags, tagStemcell, templateTag(id)):
		// Complete, and known by its content.
		return true, nil
	case err == nil && conf.name == p.Name && known(conf):
		return true, nil
	case err == nil && conf.name == p.Name && conf.protection:
		if err := c.updateConfig(ctx, g, change{protection: new(false)}); err != nil {
			return false, err
		}
	}
	c.log.Printf("removing %s (%s), which an earlier call left", g, p.Name)
	if err := c.removeOwn(ctx, g); err != nil {
		return false, fmt.Errorf("%s (%s): %w", g, p.Name, err)
	}
	return false, nil
}

// known reports whether the Director knows a guest: it has given it metadata.
func known(conf *guestConfig) bool {
	_, n, ok := parseNote(conf.description)
	return ok && len(n.Metadata) > 0
}
