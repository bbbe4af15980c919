package cpi_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/pve/pvetest"
)

func TestAudit(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	stemcell := b.stemcell()
	vm, id := b.vm(stemcell)
	disk := b.disk(vm)
	_, err := b.AttachDisk(ctx, vm, disk)
	require.NoError(t, err)
	require.NoError(t, b.srv.AddVM(500, pvetest.VM{Node: "n1", Pool: poolName, Config: map[string]string{"name": "operators-own"}}))
	assert.Empty(t, got(b.Audit(ctx))(t), "all is well")

	template := b.guest(b.srv.VMIDs()[0])
	add := func(id int, config map[string]string) {
		require.NoError(t, b.srv.AddVM(id, pvetest.VM{Node: "n2", Pool: poolName, Config: config}))
	}
	add(600, map[string]string{"name": "bosh-abcdefghijkl"})
	add(601, map[string]string{"name": "disk-abcdefghijklmno"})
	add(602, map[string]string{"name": "x", "tags": template.Config["tags"]})
	add(603, map[string]string{"name": string(stemcell) + "-abcdef"})
	add(604, maps.Clone(b.guest(id).Config))
	require.NoError(t, b.srv.EditVM(b.holder(disk), func(g *pvetest.VM) { delete(g.Config, "protection") }))
	require.NoError(t, b.srv.AddVolume("n1", "iso:iso/bosh-abcdefghijkl.iso", []byte("settings")))
	require.NoError(t, b.srv.AddVolume("n1", "iso:iso/debian.iso", []byte("debian")))
	require.NoError(t, b.srv.AddVolume("n1", "iso:import/"+string(stemcell)+"-abcdefgh.raw", make([]byte, 512)))

	b.srv.ResetRequests()
	found := map[string]string{}
	for _, f := range got(b.Audit(ctx))(t) {
		found[f.Name] = f.Problem
		assert.NotEmpty(t, f.Advice)
		assert.Contains(t, f.String(), f.Problem)
	}
	assert.Empty(t, b.writes())
	for name, problem := range map[string]string{
		"bosh-abcdefghijkl":             "none of its tags",
		"disk-abcdefghijklmno":          "the name of a disk",
		"x":                             "is none",
		string(stemcell) + "-abcdef":    "none of its tags",
		b.guest(604).Config["name"]:     "is a copy of VM " + string(vm),
		string(disk):                    "by mistake",
		"iso:iso/bosh-abcdefghijkl.iso": "agent settings",
		"iso:import/" + string(stemcell) + "-abcdefgh.raw": "image of a stemcell",
	} {
		assert.Contains(t, found[name], problem, name)
	}
	assert.Len(t, found, 8)
}
