package pvetest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestStateSurvives holds that a server with a directory of its own finds its
// guests, volumes and their bytes again.
func TestStateSurvives(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := New(WithDir(dir), WithRootTokenSecret("sesame"))
	require.NoError(t, err)
	require.NoError(t, s.AddStorage("thin", Storage{Type: "lvmthin", Size: 1 << 40}))
	require.NoError(t, s.AddStorage("imp", Storage{Type: "dir", Content: []string{"import", "images"}}))
	require.NoError(t, s.AddVolume("pve1", "imp:import/a.qcow2", qcow2(1<<30)))
	l := &lab{t: t, s: s, auth: "PVEAPIToken=root@pam!pvetest=sesame", http: trusting(t, s)}
	l.run([]step{
		{"POST ~", "vmid=100&agent=1&scsi0=thin:0,import-from=imp:import/a.qcow2", "task OK"},
		{"POST ~/100/snapshot", "snapname=s1", "task OK"},
		{"POST ~/100/status/start", "", "task OK"},
		{"PUT ~/100/config", "memory=2048", ""},
	})
	require.NoError(t, s.SetAgent(100, &Agent{Files: map[string]string{"/x": "y"}}))
	before, _ := s.VM(100)
	volumes := s.Volumes("")
	digest := l.get("/nodes/pve1/qemu/100/config")["digest"]
	require.NoError(t, s.Close())

	s, err = New(WithDir(dir))
	require.NoError(t, err)
	defer s.Close()
	after, _ := s.VM(100)
	assert.Equal(t, before, after)
	assert.Equal(t, volumes, s.Volumes(""))
	data, err := s.VolumeBytes("thin:vm-100-disk-0")
	require.NoError(t, err)
	assert.Equal(t, qcow2(1<<30), data)
	l = &lab{t: t, s: s, auth: "PVEAPIToken=root@pam!pvetest=sesame", http: trusting(t, s)}
	assert.Equal(t, digest, l.get("/nodes/pve1/qemu/100/config")["digest"])
	assert.Equal(t, "y", l.get("/nodes/pve1/qemu/100/agent/file-read?file=/x")["content"])
	l.run([]step{{"PUT ~/100/config", "revert=memory", ""}})
}
