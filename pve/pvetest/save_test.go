package pvetest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/proxkit/proxkit/pve/pvetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAutoSave holds that the state file is as new as the last answer, whether
// a change came by the API, by a task's end or from Go.
func TestAutoSave(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	srv := pvetest.RunT(t, pvetest.WithDir(dir), pvetest.WithAutoSave())
	c := newCaller(t, srv).token(srv.RootToken())
	saved := func() string {
		t.Helper()
		copied := t.TempDir()
		data, err := os.ReadFile(filepath.Join(dir, "state.json"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(copied, "state.json"), data, 0o600))
		other, err := pvetest.New(pvetest.WithDir(copied))
		require.NoError(t, err)
		defer other.Close()
		return other.Snapshot()
	}
	assert.Equal(t, srv.Snapshot(), saved())
	srv.AddVM(100, pvetest.VM{Config: map[string]string{"kvm": "0", "scsi0": "local:1"}})
	assert.Equal(t, srv.Snapshot(), saved(), "from Go")
	c.ok("POST", "/pools", "poolid=p")
	assert.Equal(t, srv.Snapshot(), saved(), "by the API")
	c.do("POST", "/pools", "poolid=p")
	assert.Equal(t, srv.Snapshot(), saved(), "refused")
	srv.TasksTake(1)
	upid := c.ok("POST", "/nodes/pve1/qemu/100/status/start").(string)
	c.ok("GET", "/nodes/pve1/tasks/"+upid+"/status")
	vm, _ := srv.VM(100)
	assert.True(t, vm.Running)
	assert.Equal(t, srv.Snapshot(), saved(), "by a task that ended with a look at it")
	srv.TasksTake(0)

	// A blob goes when no state file has its volume any more.
	require.NoError(t, srv.AddVolume("pve1", "local:iso/a.iso", []byte("a")))
	blobs := func() int {
		files, err := os.ReadDir(filepath.Join(dir, "blobs"))
		require.NoError(t, err)
		return len(files)
	}
	assert.Equal(t, 1, blobs())
	srv.RemoveVolume("local:iso/a.iso")
	assert.Zero(t, blobs())

	// When the state cannot be saved, nobody is told that the work was done.
	require.NoError(t, os.Mkdir(filepath.Join(dir, "state.json.tmp"), 0o700))
	assert.Equal(t, 500, c.do("POST", "/pools", "poolid=q").Status)
	require.NoError(t, os.Remove(filepath.Join(dir, "state.json.tmp")))

	_, err := pvetest.New(pvetest.WithAutoSave())
	assert.ErrorContains(t, err, "WithAutoSave needs WithDir")
}

func TestBoundedRecord(t *testing.T) {
	t.Parallel()
	c := start(t, pvetest.WithRecord(5))
	for range 23 {
		c.ok("GET", "/version")
	}
	all := c.srv.Requests()
	require.Len(t, all, 5)
	assert.Equal(t, 23, all[4].Seq)
	assert.Equal(t, 19, all[0].Seq)
	c.srv.ResetRequests()
	c.ok("GET", "/version")
	assert.Equal(t, 1, c.srv.Requests()[0].Seq)
	_, err := pvetest.New(pvetest.WithRecord(0))
	assert.Error(t, err)
}
