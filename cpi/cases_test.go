package cpi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi"
	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve"
	"github.com/proxkit/proxkit/pve/pvetest"
)

func TestDeleteStemcellNeedsACIDOfItsOwn(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	require.NoError(t, b.srv.AddVM(700, pvetest.VM{Node: "n1", Config: map[string]string{"name": "foreign", "virtio0": "shared:5"}}))
	before := b.srv.Snapshot()
	for cid, text := range map[rpc.StemcellCID]string{
		"": "is empty", " ": "is empty", "sc-": "was not made by this CPI", "sc-700": "was not made by this CPI",
		"stemcell-": "is not of the form", "stemcell-700": "is not of the form",
		"disk-k3v5q2m4x6z7c4b": "is the CID of a disk", "vm-700-abcdefghijkl": "is the CID of a vm",
	} {
		b.srv.ResetRequests()
		e := class(t, b.DeleteStemcell(t.Context(), cid), rpc.ClassCloudError, text)
		assert.False(t, e.Retryable(), cid)
		assert.Empty(t, b.requests(), cid)
	}
	assert.Equal(t, before, b.srv.Snapshot())
}

// editResources is a transport that changes the rows of the cluster's resources.
type editResources struct {
	http.RoundTripper
	edit func(rows []map[string]any) []map[string]any
}

func (e editResources) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := e.RoundTripper.RoundTrip(r)
	if err != nil || !strings.HasSuffix(r.URL.Path, "/cluster/resources") || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	defer resp.Body.Close()
	var answer struct {
		Data []map[string]any `json:"data"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, err
	}
	answer.Data = e.edit(answer.Data)
	data, err := json.Marshal(answer)
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	resp.Header.Set("Content-Length", strconv.Itoa(len(data)))
	return resp, err
}

// withResources opens a CPI that sees the cluster's resources changed.
func (b *bed) withResources(edit func(rows []map[string]any) []map[string]any) *cpi.CPI {
	b.t.Helper()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig.RootCAs = b.srv.CertPool()
	transport.DisableKeepAlives = true
	client, err := pve.NewClient(b.cfg.Endpoints[0], pve.WithAPIToken(tokenID, b.secret), pve.WithTransport(editResources{transport, edit}))
	require.NoError(b.t, err)
	c, err := cpi.New(b.cfg, cpi.Options{Log: b.log, DirectorUUID: "dir-a", Client: client})
	require.NoError(b.t, err)
	return c
}

func TestHasVMGivesThreeAnswers(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	vm, id := b.vm(b.stemcell())
	gone := rpc.VMCID("vm-850-abcdefghijkl")

	t.Run("there", func(t *testing.T) { assert.True(t, got(b.HasVM(ctx, vm))(t)) })
	t.Run("gone", func(t *testing.T) { assert.False(t, got(b.HasVM(ctx, gone))(t)) })
	t.Run("a quorate view is proof although a node is off", func(t *testing.T) {
		b.srv.SetNodeOnline("n3", false)
		defer b.srv.SetNodeOnline("n3", true)
		assert.False(t, got(b.HasVM(ctx, gone))(t))
		assert.True(t, got(b.HasVM(ctx, vm))(t))
	})
	t.Run("unknown without a majority", func(t *testing.T) {
		b.srv.SetNodeOnline("n2", false)
		b.srv.SetNodeOnline("n3", false)
		defer b.srv.SetNodeOnline("n2", true)
		defer b.srv.SetNodeOnline("n3", true)
		_, err := b.HasVM(ctx, gone)
		e := class(t, err, rpc.ClassCloudError, "n2, n3", "quorum")
		assert.True(t, e.Retryable())
		class(t, b.DeleteVM(ctx, gone), rpc.ClassCloudError, "n2, n3")
		_, err = b.HasDisk(ctx, "disk-abcdefghijklmno")
		class(t, err, rpc.ClassCloudError, "n2, n3")
		class(t, b.DeleteStemcell(ctx, rpc.StemcellCID("stemcell-"+strings.Repeat("0", 32))), rpc.ClassCloudError, "n2, n3")
	})
	t.Run("there although the list lacks it", func(t *testing.T) {
		stale := b.withResources(func(rows []map[string]any) []map[string]any {
			return slices.DeleteFunc(rows, func(r map[string]any) bool { return r["vmid"] == float64(id) })
		})
		assert.True(t, got(stale.HasVM(ctx, vm))(t))
	})
	t.Run("gone when its VMID is another guest's", func(t *testing.T) {
		require.NoError(t, b.srv.AddVM(851, pvetest.VM{Node: "n2", Pool: poolName, Config: map[string]string{"name": "other"}}))
		assert.False(t, got(b.HasVM(ctx, "vm-851-abcdefghijkl"))(t))
	})
	t.Run("unknown when its VMID is a guest's that the token cannot see", func(t *testing.T) {
		cfg := b.cfg
		cfg.Pool = ""
		require.NoError(t, b.srv.AddVM(852, pvetest.VM{Node: "n2", Config: map[string]string{"name": "hidden"}}))
		_, err := b.open(cfg, "dir-a").HasVM(ctx, "vm-852-abcdefghijkl")
		class(t, err, rpc.ClassCloudError, "VMID 852 is in use", "lacks VM.Audit on /vms/852")
	})
	t.Run("there although somebody removed its tags", func(t *testing.T) {
		require.NoError(t, b.srv.EditVM(id, func(g *pvetest.VM) { delete(g.Config, "tags") }))
		assert.True(t, got(b.HasVM(ctx, vm))(t))
		require.NoError(t, b.SetVMMetadata(ctx, vm, rpc.Metadata{"job": "web"}))
		assert.Contains(t, b.guest(id).Config["tags"], string(vm))
	})
}

func TestAttachTwiceGivesTheSameHint(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	vm, id := b.vm(b.stemcell())
	disk := b.disk(vm)
	hint := got(b.AttachDisk(ctx, vm, disk))(t)
	require.NotEmpty(t, hint["path"])
	before := b.srv.Snapshot()

	b.srv.ResetRequests()
	assert.Equal(t, hint, got(b.AttachDisk(ctx, vm, disk))(t))
	assert.Empty(t, b.writes())
	assert.Equal(t, before, b.srv.Snapshot())
	refs := 0
	for _, v := range b.guest(id).Config {
		refs += strings.Count(v, "serial="+string(disk))
	}
	assert.Equal(t, 1, refs)
}

func TestDeleteVMKeepsPersistentDisks(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	stemcell := b.stemcell()
	vm, id := b.vm(stemcell)
	d1, d2 := b.disk(vm), b.disk(vm)
	_, err := b.AttachDisk(ctx, vm, d1)
	require.NoError(t, err)
	volume := func(d rpc.DiskCID) string { return strings.SplitN(b.guest(b.holder(d)).Config["virtio0"], ",", 2)[0] }
	second := volume(d2)
	require.NoError(t, b.srv.EditVM(id, func(g *pvetest.VM) { g.Config["unused0"] = second }))
	iso := strings.SplitN(b.guest(id).Config["ide2"], ",", 2)[0]

	// Nothing is destroyed when the disks cannot be taken off.
	b.srv.Fail(pvetest.Fault{Match: "PUT /nodes/*/qemu/" + strconv.Itoa(id) + "/config", Status: 500, Phrase: "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout"})
	class(t, b.DeleteVM(ctx, vm), rpc.ClassCloudError, "not deleted")
	assert.Contains(t, b.srv.VMIDs(), id)
	b.srv.ClearFaults()

	b.srv.ResetRequests()
	require.NoError(t, b.DeleteVM(ctx, vm))
	assert.LessOrEqual(t, len(b.requests()), 5, "%q", b.requests())
	assert.NotContains(t, b.srv.VMIDs(), id)
	for _, v := range b.srv.Volumes("") {
		assert.NotEqual(t, id, v.VMID, v.ID)
		assert.NotEqual(t, iso, v.ID)
	}
	for _, d := range []rpc.DiskCID{d1, d2} {
		assert.True(t, got(b.HasDisk(ctx, d))(t))
		_, there := b.srv.Volume(volume(d))
		assert.True(t, there)
	}
	next, _ := b.vm(stemcell)
	for _, d := range []rpc.DiskCID{d1, d2} {
		_, err := b.AttachDisk(ctx, next, d)
		require.NoError(t, err)
	}
}

func TestDeleteVMWhoseDestructionFails(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	stemcell := b.stemcell()
	vm, id := b.vm(stemcell)
	b.srv.FailTask("qmdestroy:*", "unable to remove disk: device busy")
	err := b.DeleteVM(ctx, vm)
	class(t, err, rpc.ClassCloudError, "UPID:"+b.guest(id).Node+":", b.guest(id).Node, "unable to remove disk: device busy")
	assert.NotContains(t, b.log.String(), "deleted")
	assert.Contains(t, b.srv.VMIDs(), id)
	require.NoError(t, b.DeleteVM(ctx, vm))
	assert.NotContains(t, b.srv.VMIDs(), id)

	vm, id = b.vm(stemcell)
	b.srv.Fail(pvetest.Fault{Match: "DELETE /nodes/*/qemu/*", TaskWarnings: 1})
	require.NoError(t, b.DeleteVM(ctx, vm))
	assert.NotContains(t, b.srv.VMIDs(), id)
}

// made lists what is on the cluster.
func (b *bed) made() (guests []int, volumes []string) {
	for _, v := range b.srv.Volumes("") {
		volumes = append(volumes, v.ID)
	}
	return b.srv.VMIDs(), volumes
}

func TestCreateVMThatDoesNotStartLeavesNothing(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	stemcell := b.stemcell()
	guests, volumes := b.made()
	const cause = "start failed: QEMU exited with code 1"
	req := order(stemcell, "agent-9", `{"cpu":2,"ram":4096,"ephemeral_disk":{"size":10240}}`)

	// The Director tries again while a node is left, and not once more.
	for i, retry := range []bool{true, true, false} {
		b.srv.FailTask("qmstart:*", cause)
		_, _, err := b.CreateVM(ctx, req)
		e := class(t, err, rpc.ClassVMCreationFailed, cause)
		assert.Equal(t, retry, e.Retryable(), "try %d", i)
		g, v := b.made()
		assert.Equal(t, guests, g)
		assert.ElementsMatch(t, volumes, v)
	}
	nodes := map[string]bool{}
	for _, task := range b.srv.Tasks() {
		if task.Type == "qmstart" {
			nodes[task.Node] = true
		}
	}
	assert.Len(t, nodes, 3, "every node was tried")
	vm, networks, err := b.CreateVM(ctx, req)
	require.NoError(t, err)
	assert.Equal(t, "10.0.0.20", networks[0].IP)
	require.NoError(t, b.DeleteVM(ctx, vm))

	// What cannot be removed is named, after the first cause.
	b.srv.FailTask("qmstart:*", cause)
	b.srv.FailTask("qmdestroy:*", "unable to remove disk: device busy")
	_, _, err = b.CreateVM(ctx, req)
	e := class(t, err, rpc.ClassVMCreationFailed, cause)
	assert.False(t, e.Retryable())
	assert.Regexp(t, cause+`.*left behind: guest \d+ on n\d`, err.Error())
}

func TestCreateVMWhoseCloneIsNotAnswered(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		fault pvetest.Fault
		looks int
	}{
		{"the clone was made", pvetest.Fault{Cut: pvetest.CutAfter}, 0},
		{"the clone is still being made", pvetest.Fault{Cut: pvetest.CutAfter}, 3},
		{"the request did not arrive", pvetest.Fault{Cut: pvetest.CutBefore}, 0},
		{"the proxy gave up", pvetest.Fault{Status: 599, Phrase: "Too many redirections", After: true}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			stemcell := b.stemcell()
			before := len(b.srv.VMIDs())
			tc.fault.Match = "POST /nodes/*/qemu/*/clone"
			b.srv.Fail(tc.fault)
			b.srv.TasksTake(tc.looks)
			cid, _, err := b.CreateVM(t.Context(), order(stemcell, "agent-10", smallVM))
			require.NoError(t, err)
			g := b.guest(vmid(t, cid))
			assert.True(t, g.Running)
			assert.Len(t, b.srv.VMIDs(), before+1, "one guest and no second one")
		})
	}
}

func TestConcurrentCallsKeepOffEachOthersGuests(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	stemcell := b.stemcell()
	before := len(b.srv.VMIDs())
	b.srv.TasksTake(2)
	b.srv.Fail(pvetest.Fault{Match: "POST /nodes/*/qemu/*/clone", Cut: pvetest.CutAfter, Nth: 2, Times: 3})
	const n = 8
	cids := make([]rpc.VMCID, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			c := b.open(b.cfg, "dir-a")
			cid, _, err := c.CreateVM(t.Context(), order(stemcell, "agent-"+strconv.Itoa(i), smallVM))
			assert.NoError(t, err)
			cids[i] = cid
		})
	}
	wg.Wait()
	slices.Sort(cids)
	assert.Len(t, slices.Compact(cids), n)
	assert.Len(t, b.srv.VMIDs(), before+n)
	for _, cid := range cids {
		assert.True(t, got(b.HasVM(t.Context(), cid))(t))
		assert.True(t, b.guest(vmid(t, cid)).Running)
	}
}

func TestPlacementCountsVMsUnderWay(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	stemcell := b.stemcell()
	b.srv.TasksLast(time.Second)
	var first rpc.VMCID
	var wg sync.WaitGroup
	wg.Go(func() {
		var err error
		first, _, err = b.open(b.cfg, "dir-a").CreateVM(t.Context(), order(stemcell, "agent-1", smallVM))
		assert.NoError(t, err)
	})
	require.Eventually(t, func() bool { return b.srv.Count("POST /nodes/*/qemu/*/clone") == 1 }, 10*time.Second, time.Millisecond)
	// The guest is not in its pool before the clone is made, so the list lacks it.
	second, _, err := b.CreateVM(t.Context(), order(stemcell, "agent-2", smallVM))
	require.NoError(t, err)
	wg.Wait()
	assert.NotEqual(t, b.guest(vmid(t, first)).Node, b.guest(vmid(t, second)).Node)
}

func TestPlacementAvoidsNodesThatCannotServe(t *testing.T) {
	t.Parallel()
	maintained := func(nodes ...string) func(rows []map[string]any) []map[string]any {
		return func(rows []map[string]any) []map[string]any {
			for _, r := range rows {
				if name, _ := r["node"].(string); r["type"] == "node" && slices.Contains(nodes, name) {
					r["hastate"] = "maintenance"
				}
			}
			return rows
		}
	}
	const onTwo = `{"cpu":1,"ram":1024,"nodes":["n1","n2"],"ephemeral_disk":{"size":4096}}`
	t.Run("in maintenance", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		stemcell := b.stemcell()
		cid, _, err := b.withResources(maintained("n1")).CreateVM(t.Context(), order(stemcell, "agent-12", onTwo))
		require.NoError(t, err)
		assert.Equal(t, "n2", b.guest(vmid(t, cid)).Node)
		assert.Contains(t, b.log.String(), "n1: maintenance")
	})
	t.Run("unreachable although listed as online", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		stemcell := b.stemcell()
		b.srv.Fail(pvetest.Fault{Match: "* /nodes/n1/network", Status: 595, Phrase: "Connection refused", Times: -1})
		cid, _, err := b.CreateVM(t.Context(), order(stemcell, "agent-12", onTwo))
		require.NoError(t, err)
		assert.Equal(t, "n2", b.guest(vmid(t, cid)).Node)
		assert.Contains(t, b.log.String(), "n1: unreachable")
	})
	t.Run("without the bridge", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		stemcell := b.stemcell()
		b.srv.RemoveBridge("n1", "vmbr0")
		cid, _, err := b.CreateVM(t.Context(), order(stemcell, "agent-12", onTwo))
		require.NoError(t, err)
		assert.Equal(t, "n2", b.guest(vmid(t, cid)).Node)
		assert.Contains(t, b.log.String(), "n1: has no bridge vmbr0")
	})
	t.Run("none is left", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		stemcell := b.stemcell()
		guests, volumes := b.made()
		b.srv.SetNodeOnline("n2", false)
		_, _, err := b.withResources(maintained("n1")).CreateVM(t.Context(), order(stemcell, "agent-12", onTwo))
		e := class(t, err, rpc.ClassVMCreationFailed, "n1: maintenance; n2: offline")
		assert.True(t, e.Retryable())
		g, v := b.made()
		assert.Equal(t, guests, g)
		assert.ElementsMatch(t, volumes, v)
	})
}

func TestMetadataOutsideTheRulesForTags(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	vm, id := b.vm(b.stemcell())
	require.NoError(t, b.srv.EditVM(id, func(g *pvetest.VM) { g.Config["tags"] += ";prod" }))
	metadata := rpc.Metadata{
		"director": "My Director", "deployment": "Ünïcode & spaces", "id": "899a9411-a08b-4d31-8dc6-cb2712c608dc", "job": "web",
		"index": "0", "name": "web/899a9411-a08b-4d31-8dc6-cb2712c608dc", "created_at": "2026-12-01T00:00:00Z", "long": strings.Repeat("x", 300),
	}
	require.NoError(t, b.SetVMMetadata(ctx, vm, metadata))
	g := b.guest(id)
	tags := strings.Split(g.Config["tags"], ";")
	assert.Equal(t, "bosh", tags[0])
	assert.Contains(t, tags, "prod")
	assert.Contains(t, tags, "job-web")
	assert.Contains(t, tags, string(vm))
	for _, tag := range tags {
		assert.Regexp(t, `^[a-z0-9_][a-z0-9_.+-]*$`, tag)
	}
	for _, value := range metadata {
		assert.Contains(t, g.Config["description"], value)
	}

	b.srv.ResetRequests()
	require.NoError(t, b.SetVMMetadata(ctx, vm, metadata))
	assert.Empty(t, b.writes())

	require.NoError(t, b.SetVMMetadata(ctx, vm, rpc.Metadata{"job": "db"}))
	tags = strings.Split(b.guest(id).Config["tags"], ";")
	assert.Contains(t, tags, "job-db")
	assert.NotContains(t, tags, "job-web")
	assert.Contains(t, tags, "prod")

	require.NoError(t, b.DeleteVM(ctx, vm))
	class(t, b.SetVMMetadata(ctx, vm, metadata), rpc.ClassVMNotFound)
}

func TestDeleteWhatIsGone(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	vm, _ := b.vm(b.stemcell())

	t.Run("a disk whose volume was removed", func(t *testing.T) {
		disk := b.disk(vm)
		holder := b.holder(disk)
		b.srv.RemoveVolume(strings.SplitN(b.guest(holder).Config["virtio0"], ",", 2)[0])
		require.NoError(t, b.DeleteDisk(ctx, disk))
		assert.NotContains(t, b.srv.VMIDs(), holder)
		require.NoError(t, b.DeleteDisk(ctx, disk), "and once more")
	})
	t.Run("a snapshot that never existed", func(t *testing.T) {
		class(t, b.DeleteSnapshot(ctx, "snap-x1"), rpc.ClassDiskNotFound)
	})
	t.Run("a disk on a storage that is off", func(t *testing.T) {
		disk := b.disk(vm)
		holder := b.holder(disk)
		b.srv.SetStorageOnline("shared", "", false)
		defer b.srv.SetStorageOnline("shared", "", true)
		e := class(t, b.DeleteDisk(ctx, disk), rpc.ClassCloudError, "shared")
		assert.True(t, e.Retryable())
		assert.Contains(t, b.srv.VMIDs(), holder)
	})
	t.Run("a disk that is attached", func(t *testing.T) {
		disk := b.disk(vm)
		_, err := b.AttachDisk(ctx, vm, disk)
		require.NoError(t, err)
		class(t, b.DeleteDisk(ctx, disk), rpc.ClassCloudError, string(vm))
		assert.True(t, got(b.HasDisk(ctx, disk))(t))
	})
	t.Run("a VM", func(t *testing.T) {
		require.NoError(t, b.DeleteVM(ctx, "vm-850-abcdefghijkl"))
	})
	t.Run("a stemcell", func(t *testing.T) {
		require.NoError(t, b.DeleteStemcell(ctx, rpc.StemcellCID("stemcell-"+strings.Repeat("0", 32))))
	})
}
