package pvetest

import (
	"math"
	"slices"
)

// statusRow is a storage's state on a node.
func (c *call) statusRow(st *storage, node string) map[string]any {
	row := map[string]any{
		"content": c.shuffle(st.Config["content"]), "type": st.Type, "shared": flag(st.shared()),
		"enabled": 0, "active": 0, "total": 0, "used": 0, "avail": 0,
	}
	if st.checkEnabled(node) != nil {
		return row
	}
	row["enabled"] = 1
	if st.activate(node) != nil {
		return row
	}
	total, used, avail := c.cl().usage(st, node)
	row["active"], row["total"], row["used"], row["avail"] = 1, total, used, avail
	return row
}

// flag is a boolean as PVE's JSON has it.
func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

func storageList(c *call) (any, error) {
	target := c.p.str("target")
	wanted := c.p.list("content")
	rows := []any{}
	for _, id := range sortedKeys(c.cl().Storages) {
		st := c.cl().Storages[id]
		if c.p.has("storage") && c.p.str("storage") != id || !c.seesStorage(id) {
			continue
		}
		if len(wanted) > 0 && !slices.ContainsFunc(wanted, st.has) {
			continue
		}
		if c.p.boolean("enabled", false) && st.checkEnabled(c.node) != nil {
			continue
		}
		if target != "" && (st.checkEnabled(target) != nil || target != c.node && !st.shared()) {
			continue
		}
		row := c.statusRow(st, c.node)
		row["storage"] = id
		if total, ok := row["total"].(int64); ok && total > 0 {
			// PVE prints 15 digits at most.
			f := float64(row["used"].(int64)) / float64(total)
			row["used_fraction"] = math.Round(f*1e15) / 1e15
		}
		if c.p.boolean("format", false) && len(st.kind().formats) > 0 {
			row["formats"] = map[string]any{"supported": st.kind().formats, "default": st.format("")}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func storageIndex(c *call) (any, error) {
	var rows []any
	for _, name := range []string{
		"content", "download-url", "file-restore", "import-metadata", "identity", "oci-registry-pull",
		"prunebackups", "rrd", "rrddata", "status", "upload",
	} {
		rows = append(rows, map[string]any{"subdir": name})
	}
	return rows, nil
}

func storageStatus(c *call) (any, error) {
	st := c.cl().Storages[c.vars["storage"]]
	if st == nil {
		return nil, failParam("storage", "No such storage.")
	}
	return c.statusRow(st, c.node), nil
}

func storagePruneList(c *call) (any, error) {
	st, err := c.cl().storage(c.vars["storage"])
	if err != nil {
		return nil, err
	}
	if st.Config["prune-backups"] == "" && !c.p.has("prune-backups") {
		return nil, fail(500, "no prune-backups options configured for storage '%s'", st.ID)
	}
	return []any{}, nil
}
