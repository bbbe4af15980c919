package cpi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve"
)

// vmName is the name of a VM's guest. It is chosen before the VMID is known, and
// by no other call, so that a guest whose making was not answered can be told
// from another's.
func vmName(token string) string { return "bosh-" + token }

// isoName is the file name of the ISO with the agent's settings.
func isoName(token string) string { return vmName(token) + ".iso" }

// needVM finds a VM that the call cannot do without.
func (c *CPI) needVM(ctx context.Context, v *view, cid vmCID) (guest, error) {
	g, ok, err := c.findVM(ctx, v, cid)
	if err != nil {
		return guest{}, err
	}
	if !ok {
		return guest{}, rpc.VMNotFound("VM %s does not exist", cid)
	}
	return g, nil
}

// HasVM implements [rpc.VMManager].
func (c *CPI) HasVM(ctx context.Context, vm rpc.VMCID) (bool, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	cid, err := parseVMCID(vm)
	if err != nil {
		return false, badInput(err)
	}
	v, err := c.look(ctx)
	if err != nil {
		return false, err
	}
	_, ok, err := c.findVM(ctx, v, cid)
	return ok, err
}

// RebootVM implements [rpc.VMManager]. The guest gets a minute to shut down in
// order; after that it is stopped. Changes that waited for a restart take effect.
func (c *CPI) RebootVM(ctx context.Context, vm rpc.VMCID) error {
	ctx, cancel := c.within(ctx)
	defer cancel()
	cid, err := parseVMCID(vm)
	if err != nil {
		return badInput(err)
	}
	v, err := c.look(ctx)
	if err != nil {
		return err
	}
	g, err := c.needVM(ctx, v, cid)
	if err != nil {
		return err
	}
	what, power := fmt.Sprintf("reboot VM %s", cid), need{"VM.PowerMgmt", fmt.Sprintf("/vms/%d", g.vmid)}
	running, err := c.running(ctx, g)
	if err != nil {
		return c.explain(err, what, need{"VM.Audit", power.Path})
	}
	if running {
		err := c.reboot(ctx, g)
		if err == nil {
			c.log.Printf("VM %s is restarted", cid)
			return nil
		}
		if _, failed := errors.AsType[*pve.TaskError](err); !failed && !errors.Is(err, pve.ErrNotRunning) {
			return c.explain(err, what, power)
		}
		c.log.Printf("VM %s did not shut down in order, it is stopped: %v", cid, err)
		if err := c.stop(ctx, g); err != nil {
			return c.explain(err, what, power)
		}
	}
	if err = c.start(ctx, g); err == nil {
		c.log.Printf("VM %s is started", cid)
	}
	return c.explain(err, what, power)
}

// reboot asks the guest to restart. It is the guest that takes its time then, and
// the node is free for other changes.
func (c *CPI) reboot(ctx context.Context, g guest) error {
	leave, err := c.enter(ctx, g.node)
	if err != nil {
		return err
	}
	upid, err := begin(ctx, c, c.pve.RebootVM, pve.RebootVMParams{Node: g.node, VMID: g.vmid, Timeout: new(int64(60))})
	leave()
	if err != nil {
		return err
	}
	return c.wait(ctx, upid)
}

// running asks whether a guest runs.
func (c *CPI) running(ctx context.Context, g guest) (bool, error) {
	s, err := call(ctx, c, c.pve.GetVMStatusCurrent, pve.GetVMStatusCurrentParams{Node: g.node, VMID: g.vmid})
	if err != nil {
		return false, err
	}
	return s.Status == "running", nil
}

// start starts a guest. One that runs already is no failure, since a start whose
// answer was lost is simply repeated.
func (c *CPI) start(ctx context.Context, g guest) error {
	for try := 0; ; try++ {
		err := performTask(ctx, c, c.pve.StartVM, pve.StartVMParams{Node: g.node, VMID: g.vmid})
		if errors.Is(err, pve.ErrRunning) {
			return nil
		}
		if !unsettled(err) || isTaskError(err) {
			return err
		}
		if errors.Is(err, errNoTask) {
			if running, e := c.running(ctx, g); e == nil && running {
				return nil
			}
		}
		if try == 2 {
			return err
		}
		if err := pause(ctx, try+2); err != nil {
			return err
		}
	}
}

func isTaskError(err error) bool {
	_, ok := errors.AsType[*pve.TaskError](err)
	return ok
}

// SetVMMetadata implements [rpc.VMManager]. What fits the rules for tags becomes
// tags, and everything stands in full in the description.
func (c *CPI) SetVMMetadata(ctx context.Context, vm rpc.VMCID, metadata rpc.Metadata) error {
	ctx, cancel := c.within(ctx)
	defer cancel()
	cid, err := parseVMCID(vm)
	if err != nil {
		return badInput(err)
	}
	v, err := c.look(ctx)
	if err != nil {
		return err
	}
	g, err := c.needVM(ctx, v, cid)
	if err != nil {
		return err
	}
	err = c.setMetadata(ctx, g, ownershipTags(tagVM, cid.String(), c.director), metadata, nil)
	return c.explain(err, fmt.Sprintf("set the metadata of VM %s", cid), need{"VM.Config.Options", fmt.Sprintf("/vms/%d", g.vmid)})
}

// setMetadata writes metadata into a guest's tags and description, and facts
// beside it, unless they say so already.
func (c *CPI) setMetadata(ctx context.Context, g guest, ownership []string, metadata rpc.Metadata, facts map[string]string) error {
	tags, dropped := metadataTags(metadata)
	if len(dropped) > 0 {
		c.log.Printf("no tags for %s, which stand in the description alone", strings.Join(dropped, ", "))
	}
	return c.edit(ctx, g, nil, func(conf *guestConfig) (*change, error) {
		text, n, _ := parseNote(conf.description)
		own := slices.Clone(ownership)
		if slices.Contains(own, tagVM) {
			// They may have been lost together with the others.
			own = union(own, conf.diskTags())
		}
		if !slices.ContainsFunc(own, func(t string) bool { return strings.HasPrefix(t, tagDirectorPrefix) }) {
			for _, t := range conf.tags {
				if strings.HasPrefix(t, tagDirectorPrefix) {
					own = append(own, t)
				}
			}
		}
		newTags := retag(conf.tags, own, n.Tags, tags)
		n.Metadata, n.Tags, n.Facts = maps.Clone(metadata), tags, mergeTags(n.Facts, facts)
		description, cut := n.describe(text)
		if cut {
			c.log.Printf("the metadata is longer than a description can be and was shortened")
		}
		if sameTags(newTags, conf.tags) && strings.TrimSpace(description) == strings.TrimSpace(conf.description) {
			return nil, nil
		}
		return &change{tags: newTags, description: new(description)}, nil
	})
}

// edits is how often a change is made again when somebody else changed the
// configuration in between.
const edits = 5

// edit changes a guest's configuration on the condition that nobody else changes
// it at the same time. change returns nil when nothing is to be done. A
// configuration that was just read may be given.
func (c *CPI) edit(ctx context.Context, g guest, conf *guestConfig, change func(conf *guestConfig) (*change, error)) error {
	for try := 0; ; try++ {
		if conf == nil {
			var err error
			if conf, err = c.config(ctx, g); err != nil {
				return err
			}
		}
		p, err := change(conf)
		if err != nil || p == nil {
			return err
		}
		p.digest = conf.digest
		err = c.updateConfig(ctx, g, *p)
		if !errors.Is(err, pve.ErrDigestMismatch) && !unsettled(err) || try == edits-1 {
			return err
		}
		conf = nil
		if err := pause(ctx, try); err != nil {
			return err
		}
	}
}

// changeTags adds and removes tags of a guest.
func (c *CPI) changeTags(ctx context.Context, g guest, add, remove []string) error {
	return c.edit(ctx, g, nil, func(conf *guestConfig) (*change, error) {
		tags := retag(conf.tags, nil, remove, nil)
		tags = union(tags, add)
		if sameTags(tags, conf.tags) {
			return nil, nil
		}
		return &change{tags: tags}, nil
	})
}

// CalculateVMCloudProperties implements [rpc.VMManager].
func (c *CPI) CalculateVMCloudProperties(_ context.Context, want rpc.VMResources) (map[string]any, error) {
	if want.CPU > 512 {
		return nil, rpc.CloudError("%d CPUs are asked for, a VM can have at most 512", want.CPU)
	}
	return map[string]any{
		"cpu":            want.CPU,
		"ram":            max(want.RAM, minRAM),
		"ephemeral_disk": map[string]any{"size": max(want.EphemeralDiskSize, minEphemeral)},
	}, nil
}
