package cpi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve"
)

// A stemcell is a set of templates with the same content, one for each storage
// that VMs were made on, and of a storage that every node has for itself one for
// each node. All carry the stemcell's CID as a tag. Clones inherit the tags of
// their template until they get their own; the tag with the template's own VMID
// tells the two apart. It is set last, so a template without it is not finished.
const (
	tagTemplatePrefix = "bosh-template-"
	tagStoragePrefix  = "bosh-on-"
	tagSizePrefix     = "bosh-mib-"

	// templateMemory is the memory of templates, which never run, in MiB.
	templateMemory = 512
)

// A template is a finished template of a stemcell.
type template struct {
	guest   guest
	storage string
	size    int64 // of the disk, MiB
}

func templateTag(id VMID) string { return tagTemplatePrefix + strconv.FormatInt(id, 10) }

// storageTag names a storage, whose id may have capital letters, in a tag, which
// cannot.
func storageTag(id string) string { return tagStoragePrefix + strings.ToLower(id) }

// storageOf finds the storage that a tag names.
func (v *view) storageOf(tags []string) string {
	for _, s := range v.stores {
		if hasTags(tags, storageTag(s.id)) {
			return s.id
		}
	}
	for _, tag := range tags {
		if id, ok := strings.CutPrefix(tag, tagStoragePrefix); ok {
			return id
		}
	}
	return ""
}

// templates returns the finished templates of a stemcell.
func (v *view) templates(cid rpc.StemcellCID) []template {
	var out []template
	for _, g := range v.tagged(tagStemcell, string(cid)) {
		if !hasTags(g.tags, templateTag(g.vmid)) {
			continue
		}
		t := template{guest: g, storage: v.storageOf(g.tags)}
		for _, tag := range g.tags {
			if n, ok := strings.CutPrefix(tag, tagSizePrefix); ok {
				t.size, _ = strconv.ParseInt(n, 10, 64)
			}
		}
		out = append(out, t)
	}
	return out
}

// CreateStemcell implements [rpc.StemcellManager].
func (c *CPI) CreateStemcell(ctx context.Context, path string, cloudProperties, _ json.RawMessage) (rpc.StemcellCID, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	props := ParseStemcellProperties(cloudProperties)
	if props.ImageID != "" {
		return "", rpc.NotImplemented("light stemcells (image_id %q) are not supported yet: use the full stemcell", props.ImageID)
	}
	img, err := inspectImage(ctx, path)
	if err != nil {
		return "", badInput(err)
	}
	cid := newStemcellCID(img.Digest)
	c.sweep(ctx)
	for try := 0; ; try++ {
		v, err := c.look(ctx)
		if err != nil {
			return "", err
		}
		found := v.templates(cid)
		if len(found) == 0 {
			if err := c.makeStemcell(ctx, v, cid, img, props); err != nil {
				return "", err
			}
			return cid, nil
		}
		c.log.Printf("stemcell %s is there already: %s", cid, found[0].guest)
		err = c.claimStemcell(ctx, found)
		if err == nil {
			return cid, nil
		}
		if !errors.Is(err, errTemplateLeft) {
			return "", err
		}
		if try == edits {
			return "", rpc.CloudError("other calls delete the stemcell again and again: %w", err).OKToRetry(true)
		}
		// Deleted just now, or replaced by another.
		if err := pause(ctx, try); err != nil {
			return "", err
		}
	}
}

// makeStemcell uploads the image and makes the templates that the preferred
// storage needs: one, or one on each node when the storage is local to the nodes.
func (c *CPI) makeStemcell(ctx context.Context, v *view, cid rpc.StemcellCID, img *image, props StemcellProperties) error {
	if err := checkStorages(v, keyPlace(configPlace, "storage"), c.cfg.Storage); err != nil {
		return err
	}
	size := mebibytes(img.VirtualSize)
	targets, err := c.stemcellTargets(v, size)
	if err != nil && c.ascertain(ctx, v) {
		targets, err = c.stemcellTargets(v, size)
	}
	if err != nil {
		return err
	}
	var made []template
	var first error
	for _, batch := range targets {
		// A batch shares one upload.
		err := c.uploaded(ctx, batch[0], cid, img, func(source string) error {
			for _, at := range batch {
				t, err := c.importTemplate(ctx, templateSpec{at: at.place, cid: cid, size: size, digest: img.Digest, props: props}, source)
				if err != nil {
					return err
				}
				made = append(made, t)
			}
			return nil
		})
		if err != nil {
			first = err
			break
		}
	}
	if first != nil {
		undo, cancel := afterwards(ctx)
		defer cancel()
		for _, t := range made {
			if err := c.destroy(undo, t.guest); err != nil {
				first = leftBehind(first, t.guest.String())
			}
		}
		return first
	}
	c.settleTwins(ctx, cid, made)
	return nil
}

// A stemcellTarget is where a template is to be made, and the storage that the
// image passes through.
type stemcellTarget struct {
	place place
	via   store
}

// stemcellTargets decides where the templates of a new stemcell go, in batches
// that can share an upload.
func (c *CPI) stemcellTargets(v *view, size int64) ([][]stemcellTarget, error) {
	nodes, err := wantedNodes(v, keyPlace(configPlace, "nodes"), c.cfg.Nodes)
	if err != nil {
		return nil, err
	}
	var all []stemcellTarget
	var refused []refusal
	for _, m := range nodes {
		if !m.online {
			refused = append(refused, refusal{name: m.name, reason: m.state(), passes: true})
			continue
		}
		s, r := pickStore(v, m.name, c.cfg.Storage, size)
		if r != nil {
			refused = append(refused, *r.of(m.name, ""))
			continue
		}
		via, ok := c.importStore(v, m.name)
		if !ok {
			hint := storageHint("import_storage", c.cfg.ImportStorage, "import")
			refused = append(refused, refusal{
				name: m.name, reason: "no storage for the image to pass through: " + hint, passes: v.dormant(m.name, "import", c.cfg.ImportStorage),
			})
			continue
		}
		free, _ := freeMemory(v, m, templateMemory)
		all = append(all, stemcellTarget{place: place{node: m.name, root: s, free: free}, via: via})
	}
	if len(all) == 0 {
		if allFull(refused) {
			return nil, rpc.NoDiskSpace("no node can take the stemcell: %s", joinRefusals(refused))
		}
		return nil, rpc.CloudError("no node can take the stemcell: %s", joinRefusals(refused)).OKToRetry(merged(refused).passes)
	}
	slices.SortStableFunc(all, func(a, b stemcellTarget) int {
		return cmp.Or(cmp.Compare(b.place.free, a.place.free), cmp.Compare(a.place.node, b.place.node))
	})
	var batches [][]stemcellTarget
	for _, t := range all {
		// The first preference that any node has decides; the others are copied to
		// on demand.
		if len(batches) > 0 && (t.place.root.shared || batches[0][0].place.root.shared) {
			break
		}
		i := slices.IndexFunc(batches, func(b []stemcellTarget) bool { return t.via.shared && b[0].via.id == t.via.id })
		if i < 0 {
			batches = append(batches, []stemcellTarget{t})
		} else {
			batches[i] = append(batches[i], t)
		}
	}
	return batches, nil
}

// uploaded uploads the image, lets use work with it, and removes the upload
// whatever came of it.
func (c *CPI) uploaded(ctx context.Context, at stemcellTarget, cid rpc.StemcellCID, img *image, use func(source string) error) error {
	// Two processes may upload the same stemcell at once; each removes its own.
	name := fmt.Sprintf("%s-%s.%s", cid, randomToken(8), img.Format)
	source := at.via.id + ":import/" + name
	promise := c.pledge(ctx, pledged{Volume: source, Node: at.place.node})
	err := c.upload(ctx, at.place.node, at.via.id, "import", name, img.Size, img.Open)
	if err == nil {
		err = use(source)
	} else {
		err = c.explain(err, fmt.Sprintf("upload the stemcell image to storage %s on node %s", at.via.id, at.place.node),
			need{"Datastore.AllocateTemplate", "/storage/" + at.via.id})
	}
	undo, cancel := afterwards(ctx)
	defer cancel()
	gone := c.deleteVolume(undo, at.place.node, source)
	switch {
	case gone != nil && err != nil:
		err = leftBehind(err, "volume "+source)
	case gone != nil:
		err = leftBehind(c.explain(gone, "remove the uploaded image", need{"Datastore.Allocate", "/storage/" + at.via.id}), "volume "+source)
	}
	promise.settle(err)
	return err
}

// A templateSpec is a template to be made.
type templateSpec struct {
	at     place
	cid    rpc.StemcellCID
	size   int64 // MiB
	digest string
	props  StemcellProperties
	// more are tags of the template that this one is a copy of.
	more []string
}

// makeTemplate makes a template, from a guest that begin makes under the name it
// is given. The name is this process's own, so that a lost answer can be settled.
func (c *CPI) makeTemplate(ctx context.Context, s templateSpec, begin func(name string, promise *pledge) (VMID, error)) (template, error) {
	name := string(s.cid) + "-" + randomToken(6)
	promise := c.pledge(ctx, pledged{Kind: tagStemcell, Name: name, Node: s.at.node})
	id, err := begin(name, promise)
	g := guest{vmid: id, node: s.at.node, name: name}
	if err == nil {
		err = c.finishTemplate(ctx, g, s)
	}
	if err != nil {
		undo, cancel := afterwards(ctx)
		defer cancel()
		err = c.undo(undo, err, g)
		promise.settle(err)
		return template{}, err
	}
	promise.settle(nil)
	c.log.Printf("stemcell %s: template %d on storage %s of node %s", s.cid, id, s.at.root.id, s.at.node)
	return template{guest: g, storage: s.at.root.id, size: s.size}, nil
}

// importTemplate makes a template from an uploaded image.
func (c *CPI) importTemplate(ctx context.Context, s templateSpec, source string) (template, error) {
	return c.makeTemplate(ctx, s, func(name string, promise *pledge) (VMID, error) {
		d := newDrive(s.at.root.id+":0", serialSystem, DriveOptions{}, s.at.root.kind)
		d.options = append(d.options, "import-from="+source)
		if fileBased(s.at.root.kind) {
			d.options = append(d.options, "format="+formatQcow2)
		}
		id, err := c.claim(ctx, claim{node: s.at.node, task: "qmcreate", name: name, pledge: promise, start: c.createGuest(s.at.node, name, templateMemory, d)})
		return id, c.explain(err, fmt.Sprintf("make the template of %s on node %s", s.cid, s.at.node), c.createNeeds(s.at.root.id)...)
	})
}

// finishTemplate turns a guest into a template. It has its tags only when
// everything else is done.
func (c *CPI) finishTemplate(ctx context.Context, g guest, s templateSpec) error {
	path := fmt.Sprintf("/vms/%d", g.vmid)
	what := fmt.Sprintf("finish the template %s of %s", g, s.cid)
	ch := change{osType: new("l26")}
	if linkable(s.at.root.kind) {
		if err := perform(ctx, c, c.pve.ConvertVMToTemplate, pve.ConvertVMToTemplateParams{Node: g.node, VMID: g.vmid}); err != nil {
			return c.explain(err, what, need{"VM.Allocate", path})
		}
	} else {
		// Such a storage has no base volumes. The flag keeps the guest from being
		// started.
		ch.template = new(true)
	}
	n := note{Facts: map[string]string{"sha256": s.digest}}
	for key, value := range map[string]string{"name": s.props.Name, "version": s.props.Version} {
		if value != "" {
			n.Facts[key] = value
		}
	}
	description, _ := n.describe("")
	tags := append(ownershipTags(tagStemcell, string(s.cid), c.director),
		templateTag(g.vmid), storageTag(s.at.root.id), tagSizePrefix+strconv.FormatInt(s.size, 10))
	ch.tags, ch.description = union(tags, s.more), new(description)
	err := c.edit(ctx, g, &guestConfig{}, func(*guestConfig) (*change, error) { return &ch, nil })
	return c.explain(err, what, need{"VM.Config.Options", path})
}

// copyTemplate makes a template on a storage that has none within reach of the
// node, from one that is, so that this VM and all later ones there are linked
// clones. The storage where VMs go by default has its template from
// create_stemcell; only the first VM of a VM type with a storage of its own pays
// for the copy, with some six requests more.
func (c *CPI) copyTemplate(ctx context.Context, v *view, pl place, cid rpc.StemcellCID) (template, error) {
	from := pl.template
	conf, err := c.config(ctx, from.guest)
	if err != nil {
		return template{}, c.explain(err, fmt.Sprintf("look at %s", from.guest), need{"VM.Audit", fmt.Sprintf("/vms/%d", from.guest.vmid)})
	}
	s := templateSpec{at: pl, cid: cid, size: from.size}
	if _, n, ok := parseNote(conf.description); ok {
		s.digest, s.props = n.Facts["sha256"], StemcellProperties{Name: n.Facts["name"], Version: n.Facts["version"]}
	}
	s.more = directorsOf(conf.tags)
	t, err := c.makeTemplate(ctx, s, func(name string, promise *pledge) (VMID, error) {
		return c.clone(ctx, v, cloneSpec{from: from, node: pl.node, root: pl.root, name: name, pool: c.cfg.Pool, pledge: promise})
	})
	if err != nil {
		return template{}, err
	}
	return c.settleTwins(ctx, cid, []template{t})[0], nil
}

// mebibytes rounds up.
func mebibytes(bytes int64) int64 { return (bytes + 1<<20 - 1) >> 20 }

// union appends to a what of b is not in it.
func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
