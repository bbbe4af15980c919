package cpi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve"
)

// Several Directors, and several calls of one, may create, use and delete the same
// stemcell at once. What they agree by is the configuration of the template, which
// PVE changes only for whom has seen its last state: a Director uses a template
// as long as the template has its tag, and a template serves as long as it has the
// tag with its own VMID. Who removes a template takes that tag off first, on the
// condition that no Director was added; who wants to use one adds its tag, on the
// condition that the template still serves. So one of the two sees the other.

// tagLeavingPrefix begins the tag, with the template's own VMID, of a template
// that is about to be destroyed. It stays when the call that destroys it is killed.
const tagLeavingPrefix = "bosh-leaving-"

func leavingTag(id VMID) string { return tagLeavingPrefix + strconv.FormatInt(id, 10) }

// errTemplateLeft says that a template is one no longer.
var errTemplateLeft = errors.New("the template was deleted meanwhile")

// leaving returns the templates of a stemcell that no call may use any more and
// that are still there.
func (v *view) leaving(cid rpc.StemcellCID) []guest {
	return slices.DeleteFunc(v.tagged(tagStemcell, string(cid)), func(g guest) bool {
		return !hasTags(g.tags, leavingTag(g.vmid)) || hasTags(g.tags, templateTag(g.vmid))
	})
}

// twins returns the templates of a stemcell that serve the same VMs as t, t itself
// included, the lowest VMID first.
func (v *view) twins(cid rpc.StemcellCID, t template) []template {
	s, ok := v.storeOf(t.storage)
	return slices.DeleteFunc(v.templates(cid), func(o template) bool {
		return o.storage != t.storage || !(ok && s.shared || o.guest.node == t.guest.node)
	})
}

// directorsOf returns the tags of Directors.
func directorsOf(tags []string) []string {
	var out []string
	for _, tag := range tags {
		if strings.HasPrefix(tag, tagDirectorPrefix) {
			out = append(out, tag)
		}
	}
	return out
}

// claimStemcell marks templates that are there already as this Director's too, so
// that another one's delete_stemcell leaves them.
func (c *CPI) claimStemcell(ctx context.Context, found []template) error {
	tag := directorTag(c.director)
	if tag == "" {
		return nil
	}
	for _, t := range found {
		if hasTags(t.guest.tags, tag) {
			continue
		}
		if err := c.claimTemplate(ctx, t.guest, []string{tag}); err != nil {
			return err
		}
	}
	return nil
}

// claimTemplate adds Directors to a template, or returns an [errTemplateLeft].
func (c *CPI) claimTemplate(ctx context.Context, g guest, directors []string) error {
	err := c.edit(ctx, g, nil, func(conf *guestConfig) (*change, error) {
		if !hasTags(conf.tags, templateTag(g.vmid)) {
			return nil, fmt.Errorf("%s: %w", g, errTemplateLeft)
		}
		if hasTags(conf.tags, directors...) {
			return nil, nil
		}
		return &change{tags: union(conf.tags, directors)}, nil
	})
	if errors.Is(err, errTemplateLeft) {
		return err
	}
	if err = c.orGone(ctx, g, err); errors.Is(err, pve.ErrNotFound) {
		return fmt.Errorf("%s: %w", g, errTemplateLeft)
	}
	return c.explain(err, fmt.Sprintf("mark %s as used by this Director", g))
}

// settleTwins sees to it that of templates that were made twice at the same time
// one stays, that with the lowest VMID, whoever made it. It returns the templates
// that stand for those given.
func (c *CPI) settleTwins(ctx context.Context, cid rpc.StemcellCID, made []template) []template {
	out := slices.Clone(made)
	for try := range edits {
		v, err := c.look(ctx)
		if err != nil {
			c.log.Printf("stemcell %s: whether it was made twice is unknown: %v", cid, err)
			return out
		}
		again := false
		for i, t := range made {
			twins := v.twins(cid, t)
			if len(twins) == 0 {
				continue
			}
			out[i] = twins[0]
			for _, twin := range twins[1:] {
				err := c.replaceTemplate(ctx, cid, twin, twins[0])
				again = again || errors.Is(err, errTemplateLeft)
				if err != nil {
					c.log.Printf("stemcell %s: %s stays beside %s: %v", cid, twin.guest, twins[0].guest, err)
				}
			}
		}
		if !again || pause(ctx, try) != nil {
			break
		}
	}
	return out
}

// replaceTemplate removes a template in favour of another, to which its Directors
// go over.
func (c *CPI) replaceTemplate(ctx context.Context, cid rpc.StemcellCID, t, by template) error {
	leaves, err := c.retire(ctx, t.guest, func(directors []string) (bool, error) {
		return true, c.claimTemplate(ctx, by.guest, directors)
	})
	if err != nil || !leaves {
		return err
	}
	c.log.Printf("stemcell %s: %s has the same content, %s is removed", cid, by.guest, t.guest)
	return c.destroyTemplate(ctx, t.guest)
}

// retire takes a template out of use when may, which gets the tags of its
// Directors, agrees. Without its consent this Director's tag is taken off. It
// reports whether the template is to be destroyed.
func (c *CPI) retire(ctx context.Context, g guest, may func(directors []string) (bool, error)) (leaves bool, err error) {
	mine := directorTag(c.director)
	err = c.edit(ctx, g, nil, func(conf *guestConfig) (*change, error) {
		if !hasTags(conf.tags, templateTag(g.vmid)) {
			leaves = hasTags(conf.tags, leavingTag(g.vmid))
			return nil, nil
		}
		var err error
		if leaves, err = may(directorsOf(conf.tags)); err != nil {
			return nil, err
		}
		if leaves {
			return &change{tags: union(retag(conf.tags, nil, []string{templateTag(g.vmid)}, nil), []string{leavingTag(g.vmid)})}, nil
		}
		if mine == "" || !hasTags(conf.tags, mine) {
			return nil, nil
		}
		return &change{tags: retag(conf.tags, nil, []string{mine}, nil)}, nil
	})
	if errors.Is(err, errTemplateLeft) {
		return false, err
	}
	if err = c.orGone(ctx, g, err); errors.Is(err, pve.ErrNotFound) {
		return false, nil
	}
	return leaves, err
}

// destroyTemplate destroys a template that was taken out of use. When VMs turn out
// to be linked clones of it, it serves again.
func (c *CPI) destroyTemplate(ctx context.Context, g guest) error {
	err := c.destroy(ctx, g)
	if err == nil || errors.Is(err, pve.ErrNotFound) {
		return nil
	}
	if errors.Is(err, pve.ErrInUse) {
		undo, cancel := afterwards(ctx)
		defer cancel()
		if e := c.changeTags(undo, g, []string{templateTag(g.vmid)}, []string{leavingTag(g.vmid)}); e != nil {
			c.log.Printf("undo: %s: %v", g, e)
		}
	}
	return err
}

// DeleteStemcell implements [rpc.StemcellManager]. A stemcell that another
// Director uses as well stays; this one's mark is taken off.
func (c *CPI) DeleteStemcell(ctx context.Context, cid rpc.StemcellCID) error {
	ctx, cancel := c.within(ctx)
	defer cancel()
	if err := parseStemcellCID(cid); err != nil {
		return badInput(err)
	}
	c.sweep(ctx)
	v, err := c.look(ctx)
	if err != nil {
		return err
	}
	found, leaving := v.templates(cid), v.leaving(cid)
	if len(found)+len(leaving) == 0 {
		if err := c.proveGone(ctx, v, "stemcell "+string(cid)); err != nil {
			return err
		}
		c.log.Printf("stemcell %s is gone already", cid)
		return nil
	}
	mine := directorTag(c.director)
	for _, t := range found {
		leaves, err := c.retire(ctx, t.guest, func(directors []string) (bool, error) {
			others := slices.DeleteFunc(directors, func(tag string) bool { return tag == mine })
			if len(others) > 0 {
				c.log.Printf("stemcell %s: %s stays for %s", cid, t.guest, strings.Join(others, ", "))
			}
			return len(others) == 0, nil
		})
		if err != nil {
			return c.explain(err, fmt.Sprintf("take this Director's mark off %s", t.guest), need{"VM.Config.Options", fmt.Sprintf("/vms/%d", t.guest.vmid)})
		}
		if leaves {
			leaving = append(leaving, t.guest)
		}
	}
	for _, g := range leaving {
		if err := c.deleteTemplate(ctx, cid, g); err != nil {
			return err
		}
	}
	return nil
}

func (c *CPI) deleteTemplate(ctx context.Context, cid rpc.StemcellCID, g guest) error {
	err := c.destroyTemplate(ctx, g)
	if err == nil {
		c.log.Printf("stemcell %s: %s is deleted", cid, g)
		return nil
	}
	if errors.Is(err, pve.ErrInUse) {
		return rpc.CloudError("stemcell %s: VMs that are linked clones of %s are still there: delete them first, then the stemcell: %w", cid, g, err)
	}
	return c.explain(err, fmt.Sprintf("delete the template of stemcell %s", cid), need{"VM.Allocate", fmt.Sprintf("/vms/%d", g.vmid)})
}
