package pvetest

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// volumeParam returns the volid that a content path names: in full, or by the
// name on the storage alone.
func (c *call) volumeParam() (st *storage, n volumeName, volid string, err error) {
	id, name := c.vars["storage"], c.vars["volume"]
	if sid, rest, ok := strings.Cut(name, ":"); ok {
		if sid != id {
			return nil, n, "", fail(500, "storage ID missmatch (%s != %s)", sid, id)
		}
		name = rest
	}
	if st, err = c.cl().storage(id); err != nil {
		return nil, n, "", err
	}
	n, err = st.parseName(name)
	return st, n, id + ":" + name, err
}

// volumeAccess checks the caller's rights on a volume as PVE does whenever one
// is named. vmid is the guest it is for, 0 for none.
func (c *call) volumeAccess(vmid int, volid string) error {
	id, name, ok := strings.Cut(volid, ":")
	if !ok || strings.HasPrefix(volid, "/") {
		if c.auth.root() {
			return nil
		}
		return fail(500, "Only root can pass arbitrary filesystem paths.")
	}
	st, err := c.cl().storage(id)
	if err != nil {
		return err
	}
	n, err := st.parseName(name)
	if err != nil {
		return err
	}
	return c.nameAccess(vmid, st, volid, n.content, n.vmid)
}

// nameAccess is volumeAccess for a name that is taken apart already.
func (c *call) nameAccess(vmid int, st *storage, volid, content string, owner int) error {
	path := "/storage/" + st.ID
	if c.may(path, "Datastore.Allocate") {
		return nil
	}
	switch {
	case content == "iso" || content == "vztmpl" || content == "import":
		return c.checkAny(path, "Datastore.AllocateSpace", "Datastore.Audit")
	case owner != 0 && owner == vmid:
		return nil
	case content == "backup" && owner != 0:
		if err := c.check(path, "Datastore.AllocateSpace"); err != nil {
			return err
		}
		return c.check("/vms/"+strconv.Itoa(owner), "VM.Backup")
	case content == "images" && owner != 0:
		if err := c.check(path, "Datastore.Audit"); err != nil {
			return err
		}
		return c.check("/vms/"+strconv.Itoa(owner), "VM.Config.Disk")
	}
	return fail(500, "missing privileges to access %s", volid)
}

// contentRow is a volume in a content list.
func (st *storage) contentRow(v *volume) map[string]any {
	row := map[string]any{"volid": st.volid(v), "content": v.Content, "format": v.Format, "ctime": v.CTime}
	if v.Content != "images" {
		row["size"] = v.File
		if v.VMID != 0 {
			row["vmid"] = v.VMID
		}
		if v.Notes != "" {
			row["notes"] = v.Notes
		}
		if v.Keep {
			row["protected"] = 1
		}
		return row
	}
	row["size"], row["vmid"] = v.Size, v.VMID
	switch {
	case st.kind().files:
		row["used"], row["parent"] = v.Used, nil
		if v.Parent != "" {
			row["parent"] = "../" + v.Parent
		}
	case st.kind().parent:
		row["parent"] = nil
		if v.Parent != "" {
			row["parent"] = v.Parent + "@__base__"
		}
	}
	return row
}

func contentList(c *call) (any, error) {
	st, err := c.cl().storage(c.vars["storage"])
	if err != nil {
		return nil, err
	}
	if err := st.activate(c.node); err != nil {
		return nil, err
	}
	vmid := int(c.p.int("vmid"))
	type entry struct {
		volid string
		v     *volume
	}
	var found []entry
	for _, v := range st.on(c.node) {
		if c.p.has("content") && c.p.str("content") != v.Content || !st.has(v.Content) {
			continue
		}
		if c.p.has("vmid") && v.VMID != vmid && v.Content != "import" && v.Content != "snippets" {
			continue
		}
		volid := st.volid(v)
		if c.nameAccess(vmid, st, volid, v.Content, v.VMID) != nil {
			continue
		}
		found = append(found, entry{volid, v})
	}
	slices.SortFunc(found, func(a, b entry) int { return strings.Compare(a.volid, b.volid) })
	rows := make([]any, 0, len(found))
	for _, e := range found {
		rows = append(rows, st.contentRow(e.v))
	}
	return rows, nil
}

func contentGet(c *call) (any, error) {
	st, n, volid, err := c.volumeParam()
	if err != nil {
		return nil, err
	}
	if err := c.nameAccess(0, st, volid, n.content, n.vmid); err != nil {
		return nil, err
	}
	if err := st.activate(c.node); err != nil {
		return nil, err
	}
	v := st.on(c.node)[n.key]
	if v == nil {
		return nil, fail(500, "volume_size_info on '%s' failed - no format", volid)
	}
	row := map[string]any{"path": st.volumePath(v), "size": v.Size, "used": v.Used, "format": v.Format}
	if st.Type == "lvm" || st.Type == "lvmthin" {
		row["used"] = 0 // LVM does not tell
	}
	if v.Content == "iso" || v.Content == "vztmpl" || v.Content == "snippets" {
		row["format"], row["size"] = "raw", v.File
	}
	if v.Content == "backup" {
		row["size"], row["protected"], row["notes"] = v.File, flag(v.Keep), v.Notes
	}
	return row, nil
}

func contentUpdate(c *call) (any, error) {
	st, n, volid, err := c.volumeParam()
	if err != nil {
		return nil, err
	}
	if err := c.nameAccess(0, st, volid, n.content, n.vmid); err != nil {
		return nil, err
	}
	v := st.on(c.node)[n.key]
	if c.p.has("notes") {
		if n.content != "backup" {
			return nil, fail(500, "only backups can have notes")
		}
		if v != nil {
			v.Notes = c.p.str("notes")
		}
	}
	if c.p.has("protected") {
		if n.content != "backup" {
			return nil, fail(500, "only backups can be protected")
		}
		if v != nil {
			v.Keep = c.p.boolean("protected", false)
		}
	}
	return nil, nil
}

var allocExtension = regexp.MustCompile(`\.(raw|qcow2|vmdk)$`)

func contentAlloc(c *call) (any, error) {
	st, err := c.cl().storage(c.vars["storage"])
	if err != nil {
		return nil, err
	}
	vmid, name, format := int(c.p.int("vmid")), c.p.str("filename"), c.p.str("format")
	if m := allocExtension.FindStringSubmatch(name); m != nil {
		if format != "" && format != m[1] {
			return nil, failParam("format", "different storage formats (%s != %s)", format, m[1])
		}
		format = m[1]
	}
	size, _ := parseSize(c.p.str("size"), kib)
	if err := st.activate(c.node); err != nil {
		return nil, err
	}
	if format == "" {
		format = st.format("")
	}
	key := name
	if st.kind().files {
		if imageFormat(name) == "" {
			return nil, fail(500, "unable to parse volume filename '%s'", name)
		}
		key = strconv.Itoa(vmid) + "/" + name
	} else if !strings.HasPrefix(name, "vm-"+strconv.Itoa(vmid)+"-") {
		return nil, fail(500, "illegal name '%s' - should be 'vm-%d-*'", name, vmid)
	}
	v, err := c.host(nil).alloc(st, vmid, format, key, size)
	if err != nil {
		return nil, err
	}
	return st.volid(v), nil
}

func contentDelete(c *call) (any, error) {
	st, n, volid, err := c.volumeParam()
	if err != nil {
		return nil, err
	}
	id := st.ID
	if n.vmid != 0 {
		id = strconv.Itoa(n.vmid) + "@" + id
	}
	if n.content == "backup" && n.vmid != 0 {
		if err := c.check("/storage/"+st.ID, "Datastore.AllocateSpace"); err != nil {
			return nil, err
		}
		if err := c.check("/vms/"+strconv.Itoa(n.vmid), "VM.Backup"); err != nil {
			return nil, err
		}
	} else if err := c.check("/storage/"+st.ID, "Datastore.Allocate"); err != nil {
		return nil, err
	}
	upid := c.task("imgdel", id, func(t *task) error {
		if v := st.on(c.node)[n.key]; v != nil && v.Keep {
			return fail(500, "protected backup '%s' cannot be removed", volid)
		}
		if err := c.host(t).free(volid); err != nil {
			return err
		}
		t.logf("Removed volume '%s'", volid)
		return nil
	})
	return upid, nil
}
