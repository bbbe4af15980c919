package cpi_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi"
	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/internal/testimage"
	"github.com/proxkit/proxkit/pve"
	"github.com/proxkit/proxkit/pve/pvetest"
)

const (
	gib      = 1 << 30
	tokenID  = "bosh@pve!cpi"
	poolName = "bosh"
)

// A bed is a simulated cluster of three nodes and a CPI on it, whose token has
// rights on its pool, its storages and its bridge alone.
type bed struct {
	t      testing.TB
	srv    *pvetest.Server
	cfg    cpi.Config
	secret string
	log    *rpc.Log
	*cpi.CPI
}

// newBed makes the cluster. The changes are applied to the configuration.
func newBed(t testing.TB, changes ...func(*cpi.Config)) *bed {
	t.Helper()
	srv := pvetest.RunT(t, pvetest.WithNodes("n1", "n2", "n3"))
	for id, st := range map[string]pvetest.Storage{
		"shared": {Type: "rbd", Size: 400 * gib},
		"fast":   {Type: "lvmthin", Size: 100 * gib},
		"thick":  {Type: "lvm", Size: 100 * gib},
		"iso":    {Type: "nfs", Content: []string{"iso", "import"}, Size: 100 * gib},
		"backup": {Type: "nfs", Content: []string{"backup"}, Size: 100 * gib},
	} {
		require.NoError(t, srv.AddStorage(id, st))
	}
	srv.AddPool(poolName)
	b := &bed{t: t, srv: srv, secret: srv.AddToken(tokenID, true), log: &rpc.Log{}}
	for _, p := range cpi.Privileges(cpi.PrivilegeScope{Pool: poolName, ImageStorages: []string{"shared", "fast", "thick"}, ISOStorage: "iso", ImportStorage: "iso", Bridges: []string{"vmbr0"}}) {
		b.grant(p.Path, p.Privileges...)
	}
	b.cfg = cpi.Config{
		Endpoints: []string{srv.URL()}, TokenID: tokenID, TokenSecret: b.secret, Fingerprint: srv.Fingerprint(),
		Storage: []string{"shared"}, DiskStorage: []string{"shared"}, ISOStorage: "iso", ImportStorage: "iso", Pool: poolName,
		Bridge: "vmbr0", Model: "virtio", CPUType: "x86-64-v2-AES", LockDir: t.TempDir(), NodeConcurrency: 3,
		Agent: cpi.AgentConfig{MBus: "https://mbus:mbus-password@0.0.0.0:6868"},
	}
	for _, change := range changes {
		change(&b.cfg)
	}
	b.CPI = b.open(b.cfg, "dir-a")
	return b
}

// grant gives the token and its user a role of the privileges on a path.
func (b *bed) grant(path string, privileges ...string) {
	role := "R" + regexp.MustCompile(`[^a-zA-Z0-9]`).ReplaceAllString(path, "-")
	b.srv.AddRole(role, privileges...)
	b.srv.SetACL(path, tokenID, role)
	b.srv.SetACL(path, strings.SplitN(tokenID, "!", 2)[0], role)
}

// open makes a CPI as a process of its own would.
func (b *bed) open(cfg cpi.Config, director string) *cpi.CPI {
	b.t.Helper()
	client, err := pve.NewClient(cfg.Endpoints[0], pve.WithAPIToken(cfg.TokenID, cfg.TokenSecret), pve.WithRootCAs(b.srv.CertPool()))
	require.NoError(b.t, err)
	c, err := cpi.New(cfg, cpi.Options{Log: b.log, DirectorUUID: director, Client: client})
	require.NoError(b.t, err)
	c.SetSettleTime(300 * time.Millisecond)
	return c
}

// image writes a stemcell's image file with a small disk.
func (b *bed) image(size int64) string {
	b.t.Helper()
	path := filepath.Join(b.t.TempDir(), "image")
	disk := testimage.QCOW2(size, testimage.BootSector(size), 0)
	require.NoError(b.t, os.WriteFile(path, testimage.Archive(disk), 0o600))
	return path
}

// stemcell uploads a stemcell of 5 GiB.
func (b *bed) stemcell() rpc.StemcellCID {
	b.t.Helper()
	cid, err := b.CreateStemcell(b.t.Context(), b.image(5*gib), raw(`{"name":"bosh-openstack-kvm-ubuntu-jammy-go_agent","version":"1.651"}`), nil)
	require.NoError(b.t, err)
	return cid
}

func raw(text string) json.RawMessage { return json.RawMessage(text) }

// order is a request for a VM with one manual network.
func order(stemcell rpc.StemcellCID, agent, properties string, disks ...rpc.DiskCID) rpc.CreateVMRequest {
	var n rpc.Networks
	err := json.Unmarshal([]byte(`{"default":{"type":"manual","ip":"10.0.0.20","netmask":"255.255.255.0","gateway":"10.0.0.1",`+
		`"dns":["10.0.0.2"],"default":["dns","gateway"],"cloud_properties":{"bridge":"vmbr0"}}}`), &n)
	if err != nil {
		panic(err)
	}
	return rpc.CreateVMRequest{
		AgentID: agent, Stemcell: stemcell, CloudProperties: raw(properties), Networks: n, Disks: disks,
		Env: raw(`{"bosh":{"group":"dir-a-dep-web"}}`),
	}
}

const smallVM = `{"cpu":1,"ram":1024,"ephemeral_disk":{"size":4096}}`

// vm makes a VM and returns its CID and VMID.
func (b *bed) vm(stemcell rpc.StemcellCID) (rpc.VMCID, int) {
	b.t.Helper()
	cid, _, err := b.CreateVM(b.t.Context(), order(stemcell, "agent-1", smallVM))
	require.NoError(b.t, err)
	return cid, vmid(b.t, cid)
}

// vmid is the number in a VM CID.
func vmid(t testing.TB, cid rpc.VMCID) int {
	t.Helper()
	var id int
	_, err := fmt.Sscanf(string(cid), "vm-%d-", &id)
	require.NoError(t, err)
	return id
}

// disk makes a persistent disk of 10 GiB.
func (b *bed) disk(vm rpc.VMCID) rpc.DiskCID {
	b.t.Helper()
	cid, err := b.CreateDisk(b.t.Context(), 10240, raw(`{}`), vm)
	require.NoError(b.t, err)
	return cid
}

// holder finds the guest that holds a disk.
func (b *bed) holder(cid rpc.DiskCID) int {
	b.t.Helper()
	for _, id := range b.srv.VMIDs() {
		if g, _ := b.srv.VM(id); g.Config["name"] == string(cid) {
			return id
		}
	}
	b.t.Fatalf("no holder of %s", cid)
	return 0
}

// guest returns a guest's configuration.
func (b *bed) guest(id int) pvetest.VM {
	b.t.Helper()
	g, ok := b.srv.VM(id)
	require.True(b.t, ok, "guest %d", id)
	return g
}

// requests lists the requests since the last reset, task polls aside.
func (b *bed) requests() []string {
	var out []string
	for _, r := range b.srv.Requests() {
		if !strings.Contains(r.Path, "/tasks/") {
			out = append(out, r.String())
		}
	}
	return out
}

// writes lists the requests that may have changed something.
func (b *bed) writes() []string {
	return slices.DeleteFunc(b.requests(), func(r string) bool { return strings.HasPrefix(r, "GET ") })
}

// class asserts the class of an error and what its text holds.
func class(t testing.TB, err error, want rpc.Class, texts ...string) *rpc.Error {
	t.Helper()
	require.Error(t, err)
	e := rpc.ErrorOf(err)
	require.Equal(t, want, e.Class(), "%v", err)
	saysEverythingOnce(t, err)
	for _, text := range texts {
		require.Contains(t, err.Error(), text)
	}
	return e
}

// saysEverythingOnce asserts that no part of an error's text stands in it twice, and
// that it does not begin with the method, which rpc.Serve puts there.
func saysEverythingOnce(t testing.TB, err error) {
	t.Helper()
	seen := map[string]bool{}
	for _, part := range regexp.MustCompile(`: |; | \(`).Split(err.Error(), -1) {
		if part = strings.TrimSpace(part); len(part) <= 24 {
			continue
		}
		require.False(t, seen[part], "%q stands twice in %q", part, err.Error())
		seen[part] = true
	}
	require.NotRegexp(t, `^[a-z]+(_[a-z]+)+: `, err.Error())
}

// got turns the results of a call into a function that fails the test when the
// call did, and returns the value otherwise.
func got[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}
