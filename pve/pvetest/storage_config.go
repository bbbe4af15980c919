package pvetest

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

func registerStorages(r *registry) {
	r.handle("GET /storage", storageConfigList)
	r.handle("POST /storage", storageCreate)
	r.handle("GET /storage/{storage}", storageConfigGet)
	r.handle("PUT /storage/{storage}", storageUpdate)
	r.handle("DELETE /storage/{storage}", storageDelete)

	r.handle("GET /nodes/{node}/storage", storageList)
	r.handle("GET /nodes/{node}/storage/{storage}", storageIndex)
	r.handle("GET /nodes/{node}/storage/{storage}/status", storageStatus)
	r.handle("GET /nodes/{node}/storage/{storage}/prunebackups", storagePruneList)
	r.handle("GET /nodes/{node}/storage/{storage}/content", contentList)
	r.handle("POST /nodes/{node}/storage/{storage}/content", contentAlloc)
	r.handle("GET /nodes/{node}/storage/{storage}/content/{volume}", contentGet)
	r.handle("PUT /nodes/{node}/storage/{storage}/content/{volume}", contentUpdate)
	r.handle("DELETE /nodes/{node}/storage/{storage}/content/{volume}", contentDelete)
	r.handle("POST /nodes/{node}/storage/{storage}/upload", storageUpload)
	r.handle("POST /nodes/{node}/storage/{storage}/download-url", storageDownload)
	r.handle("GET /nodes/{node}/query-url-metadata", queryURL)
}

// newLocal is the storage every node has before any is configured.
func newLocal() *storage {
	return &storage{ID: "local", Type: "dir", Config: map[string]string{
		"path": "/var/lib/vz", "content": "iso,vztmpl,backup,images,rootdir,snippets",
		"prune-backups": "keep-all=1", "priority": "0",
	}}
}

// storageFile renders storage.cfg, which does not exist until something is
// configured.
func (cl *cluster) storageFile() string {
	var b strings.Builder
	for _, id := range sortedKeys(cl.Storages) {
		st := cl.Storages[id]
		if _, implied := st.Config["priority"]; implied {
			continue
		}
		fmt.Fprintf(&b, "%s: %s\n", st.Type, st.ID)
		for _, k := range sortedKeys(st.Config) {
			fmt.Fprintf(&b, "\t%s %s\n", k, st.Config[k])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (cl *cluster) storageDigest() string {
	sum := sha1.Sum([]byte(cl.storageFile()))
	return hex.EncodeToString(sum[:])
}

// storageWritten notes that storage.cfg exists from now on.
func (cl *cluster) storageWritten() {
	for _, st := range cl.Storages {
		delete(st.Config, "priority")
	}
}

// storageSecret tells whether a storage's option never leaves the server.
func storageSecret(key string) bool {
	switch key {
	case "password", "encryption-key", "keyring", "master-pubkey":
		return true
	}
	return false
}

// storageRow is a storage's configuration as the API shows it.
func (c *call) storageRow(st *storage, digest string) map[string]any {
	m := map[string]any{"storage": st.ID, "type": st.Type, "digest": digest}
	for k, v := range st.Config {
		switch k {
		case "content":
			m[k] = c.shuffle(v)
			continue
		case "disable", "shared", "priority", "krbd", "sparse", "fuse", "nocow", "saferemove", "tagged_only",
			"max-protected-backups", "mkdir", "create-base-path", "create-subdirs", "port", "snapshot-as-volume-chain":
			if n, err := strconv.ParseInt(v, 10, 64); err == nil {
				m[k] = n
				continue
			}
		}
		if !storageSecret(k) {
			m[k] = v
		}
	}
	return m
}

// seesStorage tells whether the caller may know of a storage.
func (c *call) seesStorage(id string) bool {
	return c.may("/storage/"+id, "Datastore.Audit") || c.may("/storage/"+id, "Datastore.AllocateSpace")
}

func storageConfigList(c *call) (any, error) {
	digest := c.cl().storageDigest()
	rows := []any{}
	for _, id := range sortedKeys(c.cl().Storages) {
		st := c.cl().Storages[id]
		if !c.seesStorage(id) || c.p.has("type") && c.p.str("type") != st.Type {
			continue
		}
		rows = append(rows, c.storageRow(st, digest))
	}
	return rows, nil
}

func storageConfigGet(c *call) (any, error) {
	st, err := c.cl().storage(c.vars["storage"])
	if err != nil {
		return nil, err
	}
	return c.storageRow(st, c.cl().storageDigest()), nil
}

// storageAddresses lists the options that say where a type of storage is.
func storageAddresses(typ string) []string {
	switch typ {
	case "dir", "btrfs":
		return []string{"path"}
	case "nfs":
		return []string{"server", "export"}
	case "cifs":
		return []string{"server", "share"}
	case "lvm":
		return []string{"vgname"}
	case "lvmthin":
		return []string{"thinpool", "vgname"}
	case "zfspool":
		return []string{"pool"}
	}
	return nil
}

// checkStorageOptions checks a storage's options against its type.
func checkStorageOptions(st *storage, creating bool) error {
	own := storageAddresses(st.Type)
	if creating {
		for _, k := range own {
			if st.Config[k] == "" {
				return fail(500, "missing value for required option '%s'", k)
			}
		}
	}
	optional := map[string][]string{
		"nfs": {"path", "options"}, "cifs": {"path", "username", "password", "domain", "smbversion", "subdir", "options"},
		"rbd":    {"pool", "monhost", "username", "keyring", "namespace", "krbd", "data-pool"},
		"cephfs": {"path", "monhost", "username", "keyring", "subdir", "fs-name", "fuse", "options"},
		"lvm":    {"base", "shared", "tagged_only"}, "zfspool": {"blocksize", "sparse", "mountpoint"},
		"dir": {"shared"}, "pbs": {"server", "datastore", "username", "password", "fingerprint", "namespace", "port", "encryption-key", "master-pubkey"},
		"iscsi": {"portal", "target"}, "iscsidirect": {"portal", "target"}, "zfs": {"pool", "portal", "target", "iscsiprovider", "blocksize", "sparse"},
		"esxi": {"server", "username", "password", "skip-cert-verification"},
	}[st.Type]
	for _, k := range sortedKeys(st.Config) {
		switch k {
		case "path", "server", "export", "share", "vgname", "thinpool", "pool", "monhost", "shared", "sparse",
			"krbd", "username", "password", "domain", "base", "portal", "target", "datastore", "blocksize", "mountpoint":
			if !slices.Contains(own, k) && !slices.Contains(optional, k) {
				return fail(500, "unexpected property '%s'", k)
			}
		case "content":
			for _, content := range splitList(st.Config[k]) {
				if content != "none" && !slices.Contains(st.kind().content, content) {
					return fail(500, "storage does not support content type '%s'", content)
				}
			}
		}
	}
	return nil
}

func storageCreate(c *call) (any, error) {
	st := &storage{ID: c.p.str("storage"), Type: c.p.str("type"), Config: map[string]string{}}
	for _, k := range c.p.names() {
		if k != "storage" && k != "type" {
			st.Config[k] = strings.Join(c.p.list(k), ",")
			if k == "path" || k == "export" || k == "options" || storageSecret(k) {
				st.Config[k] = c.p.str(k)
			}
		}
	}
	if err := checkStorageOptions(st, true); err != nil {
		return nil, err
	}
	const prefix = "create storage failed: "
	if c.cl().Storages[st.ID] != nil {
		return nil, fail(500, prefix+"storage ID '%s' already defined", st.ID)
	}
	if st.has("none") {
		return nil, fail(500, prefix+"unknown vtype 'none'")
	}
	if st.Config["content"] == "" {
		st.Config["content"] = st.kind().initial
	}
	if v := st.Config["is_mountpoint"]; v == "1" || v == "yes" {
		return nil, fail(500, prefix+"unable to activate storage '%s' - directory is expected to be a mount point but is not mounted: '%s'", st.ID, st.path())
	}
	if st.kind().files && st.Type != "dir" && st.Type != "btrfs" {
		st.Config["path"] = st.path()
	}
	if st.Type != "dir" && st.Type != "btrfs" {
		st.Size = defaultStorageSize
	}
	c.cl().Storages[st.ID] = st
	c.cl().storageWritten()
	return map[string]any{"storage": st.ID, "type": st.Type}, nil
}

// defaultStorageSize is the capacity of a storage of which nobody said it,
// unless it is a directory of the node's root file system.
const defaultStorageSize = 500 * gib

func storageUpdate(c *call) (any, error) {
	const prefix = "update storage failed: "
	old := c.cl().Storages[c.vars["storage"]]
	if d := c.p.str("digest"); d != "" && d != c.cl().storageDigest() {
		return nil, fail(500, prefix+"detected modified configuration - file changed by other user? Try again.")
	}
	if old == nil {
		return nil, fail(500, prefix+"storage '%s' does not exist", c.vars["storage"])
	}
	st := &storage{ID: old.ID, Type: old.Type, Config: map[string]string{}}
	for k, v := range old.Config {
		st.Config[k] = v
	}
	for _, k := range c.p.names() {
		switch k {
		case "storage", "delete", "digest", "node":
		default:
			st.Config[k] = strings.Join(c.p.list(k), ",")
			if k == "options" || storageSecret(k) {
				st.Config[k] = c.p.str(k)
			}
			if slices.Contains(st.kind().fixed, k) && st.Config[k] != old.Config[k] {
				return nil, fail(500, prefix+"can't change value of fixed parameter '%s'", k)
			}
		}
	}
	for _, k := range c.p.list("delete") {
		if slices.Contains(storageAddresses(st.Type), k) {
			return nil, fail(500, prefix+"unable to delete required option '%s'", k)
		}
		if c.p.has(k) {
			return nil, fail(500, prefix+"duplicate key in delete option '%s'", k)
		}
		delete(st.Config, k)
		if k == "content" {
			st.Config[k] = st.kind().initial
		}
	}
	if err := checkStorageOptions(st, false); err != nil {
		return nil, err
	}
	old.Config = st.Config
	c.cl().storageWritten()
	return map[string]any{"storage": st.ID, "type": st.Type}, nil
}

func storageDelete(c *call) (any, error) {
	id := c.vars["storage"]
	st := c.cl().Storages[id]
	if st == nil {
		return nil, fail(500, "delete storage failed: storage '%s' does not exist", id)
	}
	delete(c.cl().Storages, id)
	for _, p := range c.cl().Pools {
		delete(p.Storages, id)
	}
	for _, volumes := range st.Volumes {
		for _, v := range volumes {
			c.s.releaseBlob(v.Blob)
		}
	}
	c.cl().storageWritten()
	return nil, nil
}
