package pvetest_test

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/proxkit/proxkit/pve/pvetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The package must not bring the testing package into programs.
func TestLinksNoTesting(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	for _, dep := range strings.Fields(string(out)) {
		assert.NotEqual(t, "testing", dep)
		assert.False(t, strings.HasPrefix(dep, "github.com/stretchr/"), dep)
		assert.False(t, strings.HasPrefix(dep, "github.com/proxkit/proxkit/internal/generator"), dep)
	}
}

func TestStateDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cluster")
	srv, err := pvetest.New(pvetest.WithDir(dir), pvetest.WithNodes("a1", "b2"))
	require.NoError(t, err)
	info, err := os.Stat(dir)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	c := newCaller(t, srv).token(srv.RootToken())
	c.ok("POST", "/pools", "poolid=p")
	require.Equal(t, "OK", c.taskOf("POST", "/nodes/b2/qemu", "vmid=100&name=kept&pool=p&scsi0=local:1"))
	ctype, body := multi(t, "content=iso", "@a.iso=bytes that stay")
	require.Equal(t, "OK", c.with("Content-Type", ctype).taskOf("POST", "/nodes/a1/storage/local/upload", body))
	id, secret := srv.RootToken()
	print, before := srv.Fingerprint(), srv.Snapshot()
	srv.HoldTask("*")
	upid := c.ok("POST", "/nodes/b2/qemu/100/status/start").(string)
	require.NoError(t, srv.Close())
	require.NoError(t, srv.Close(), "closing twice is fine")

	again, err := pvetest.New(pvetest.WithDir(dir))
	require.NoError(t, err)
	defer again.Close()
	assert.Equal(t, print, again.Fingerprint())
	assert.Equal(t, before, again.Snapshot())
	c = newCaller(t, again).token(id, secret)
	assert.Equal(t, "kept", c.ok("GET", "/nodes/b2/qemu/100/config").(map[string]any)["name"])
	data, err := again.VolumeBytes("local:iso/a.iso")
	require.NoError(t, err)
	assert.Equal(t, "bytes that stay", string(data))
	st := c.ok("GET", "/nodes/b2/tasks/"+upid+"/status").(map[string]any)
	assert.Equal(t, "unexpected status", st["exitstatus"], "what ran when the cluster went down")

	for name, content := range map[string]string{"state.json": "{", "tls.pem": "garbage"} {
		bad := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(bad, name), []byte(content), 0o600))
		_, err := pvetest.New(pvetest.WithDir(bad))
		assert.Error(t, err, name)
	}
}

func TestOptionErrors(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]pvetest.Option{
		"no nodes": pvetest.WithNodes(), "bad node": pvetest.WithNodes("a_b"), "same node": pvetest.WithNodes("a", "a"),
		"bad address": pvetest.WithListen("nowhere"), "no directory": pvetest.WithDir(""), "no workers": pvetest.WithWorkers(0, 0),
	} {
		_, err := pvetest.New(opt)
		assert.Error(t, err, name)
	}
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	c := start(t)
	conn, err := tls.Dial("tcp", strings.TrimPrefix(c.srv.URL(), "https://"), &tls.Config{RootCAs: c.srv.CertPool()})
	require.NoError(t, err)
	defer conn.Close()
	sum := sha256.Sum256(conn.ConnectionState().PeerCertificates[0].Raw)
	assert.Equal(t, strings.ToUpper(hex.EncodeToString(sum[:])), strings.ReplaceAll(c.srv.Fingerprint(), ":", ""))
	assert.Contains(t, c.srv.CertPEM(), "BEGIN CERTIFICATE")
}

func TestIdleConnections(t *testing.T) {
	t.Parallel()
	c := start(t, pvetest.WithIdleTimeout(50*time.Millisecond))
	conn, err := tls.Dial("tcp", strings.TrimPrefix(c.srv.URL(), "https://"), &tls.Config{RootCAs: c.srv.CertPool()})
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(5*time.Second)))
	_, err = conn.Read(make([]byte, 1))
	assert.ErrorContains(t, err, "EOF")
}

// A recorder stands in for a test.
type recorder struct {
	errs     []string
	cleanups []func()
}

func (r *recorder) Helper()                      {}
func (r *recorder) Cleanup(f func())             { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(f string, args ...any) { r.errs = append(r.errs, fmt.Sprintf(f, args...)) }

func (r *recorder) Fatalf(f string, args ...any) { r.errs = append(r.errs, fmt.Sprintf(f, args...)) }

func TestRunTFailsOnWhatIsNotSimulated(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	srv := pvetest.RunT(r)
	g := newCaller(t, srv).token(srv.RootToken()).do("GET", "/nodes/pve1/ceph/status")
	assert.Equal(t, 501, g.Status)
	assert.Equal(t, []string{"pvetest: GET /nodes/{node}/ceph/status is not simulated"}, r.errs)
	require.Len(t, r.cleanups, 1)
	r.cleanups[0]()
	r = &recorder{}
	assert.Nil(t, pvetest.RunT(r, pvetest.WithNodes()))
	assert.Len(t, r.errs, 1)
}

func TestSeedingAndInspecting(t *testing.T) {
	t.Parallel()
	c := start(t, pvetest.WithNodes("pve1", "pve2"))
	srv := c.srv
	require.NoError(t, srv.AddStorage("nfs1", pvetest.Storage{Type: "nfs", Content: []string{"images"}, Size: 1 << 40}))
	require.NoError(t, srv.AddStorage("thin", pvetest.Storage{Type: "lvmthin", Nodes: []string{"pve2"}}))
	require.NoError(t, srv.AddVM(100, pvetest.VM{Node: "pve2", Running: true, Config: map[string]string{"name": "a", "virtio0": "thin:2,serial=x", "virtio1": "nfs1:1"}}))
	m, ok := srv.VM(100)
	require.True(t, ok)
	assert.Equal(t, "thin:vm-100-disk-0,serial=x,size=2G", m.Config["virtio0"])
	assert.True(t, m.Running)
	v, ok := srv.Volume("thin:vm-100-disk-0")
	require.True(t, ok)
	assert.Equal(t, "pve2", v.Node)
	assert.EqualValues(t, 2<<30, v.Size)
	assert.Len(t, srv.Volumes("nfs1"), 1)
	require.NoError(t, srv.AddVolume("pve1", "local:iso/x.iso", []byte("hello")))
	data, err := srv.VolumeBytes("local:iso/x.iso")
	require.NoError(t, err)
	assert.Equal(t, "hello", string(data))
	srv.RemoveVolume("local:iso/x.iso")
	_, err = srv.VolumeBytes("local:iso/x.iso")
	assert.Error(t, err)
	before := srv.Snapshot()
	_ = c.ok("GET", "/cluster/resources")
	assert.Equal(t, before, srv.Snapshot(), "reading changes nothing")
	require.NoError(t, srv.EditVM(100, func(m *pvetest.VM) { m.Config["lock"] = "backup" }))
	assert.NotEqual(t, before, srv.Snapshot())
	srv.DropVM(100)
	assert.Empty(t, srv.VMIDs())
	_, ok = srv.Volume("thin:vm-100-disk-0")
	assert.True(t, ok, "volumes outlive the config file")
}

// Many clients at once: every VMID is given once, nothing is lost.
func TestManyClients(t *testing.T) {
	t.Parallel()
	c := start(t, pvetest.WithNodes("pve1", "pve2", "pve3"))
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		won  = map[string]int{}
		lost int
	)
	for i := range 24 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			node := fmt.Sprintf("pve%d", i%3+1)
			vmid := fmt.Sprint(100 + i%8)
			g := c.do("POST", "/nodes/"+node+"/qemu", "vmid="+vmid+"&memory=64&scsi0=local:1")
			mu.Lock()
			defer mu.Unlock()
			if g.Status == 200 {
				won[vmid]++
				return
			}
			lost++
			assert.Contains(t, g.Reason, "already exists on node")
		}()
	}
	wg.Wait()
	assert.Len(t, won, 8)
	for id, n := range won {
		assert.Equal(t, 1, n, id)
	}
	assert.Equal(t, 16, lost)
	assert.Len(t, c.ok("GET", "/cluster/resources?type=vm"), 8)
}
