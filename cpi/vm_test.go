package cpi_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi"
	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve/pvetest"
)

func networks(text string) rpc.Networks {
	var n rpc.Networks
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		panic(err)
	}
	return n
}

func TestCreateVMMakesWhatWasOrdered(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	stemcell := b.stemcell()
	req := order(stemcell, "agent-7", `{"cpu":2,"ram":4096,"root_disk":{"size":10000},"ephemeral_disk":{"size":5000},"cache":"writeback",
		"limits":{"read_iops":500},"tags":{"team":"storage"},"start_on_boot":true}`)
	req.Networks = networks(`{"a":{"type":"manual","ip":"10.0.0.20","netmask":"255.255.255.0","cloud_properties":{"vlan":30,"mtu":9000}},
		"b":{"type":"dynamic","cloud_properties":{"model":"e1000"}}}`)
	cid, nets, err := b.CreateVM(t.Context(), req)
	require.NoError(t, err)
	g := b.guest(vmid(t, cid))
	assert.True(t, g.Running)
	assert.Equal(t, poolName, g.Pool)
	c := g.Config
	assert.Equal(t, "2", c["cores"])
	assert.Equal(t, "4096", c["memory"])
	assert.Equal(t, "0", c["balloon"])
	assert.Equal(t, "1", c["onboot"])
	assert.Contains(t, c["cpu"], "x86-64-v2-AES")
	assert.Regexp(t, `^virtio=BC:24:11:[0-9A-F:]+,bridge=vmbr0,mtu=9000,tag=30$`, c["net0"])
	assert.Regexp(t, `^e1000=BC:24:11:[0-9A-F:]+,bridge=vmbr0$`, c["net1"])
	for _, part := range []string{"serial=bosh-system", "cache=writeback", "iops_rd=500", "iothread=1", "discard=on", "size=10G"} {
		assert.Contains(t, c["virtio0"], part)
	}
	for _, part := range []string{"serial=bosh-ephemeral", "cache=writeback", "size=5G"} {
		assert.Contains(t, c["virtio1"], part)
	}
	assert.Contains(t, c["virtio0"], "base-", "a linked clone")
	tags := strings.Split(c["tags"], ";")
	for _, tag := range []string{"bosh", "bosh-vm", string(cid), "director-dir-a", "team-storage"} {
		assert.Contains(t, tags, tag)
	}
	for _, tag := range tags {
		assert.NotContains(t, tag, "stemcell", "the template's tags are gone")
		assert.NotContains(t, tag, "template")
	}

	// The MACs that the agent gets are those of the NICs, in lower case.
	for i, key := range []string{"net0", "net1"} {
		var mac string
		require.NoError(t, json.Unmarshal(nets[i].Get("mac"), &mac))
		assert.Contains(t, c[key], strings.ToUpper(mac))
		assert.Equal(t, strings.ToLower(mac), mac)
	}
	iso, err := b.srv.VolumeBytes(strings.SplitN(c["ide2"], ",", 2)[0])
	require.NoError(t, err)
	assert.Contains(t, string(iso), `"agent_id":"agent-7"`)
	assert.Contains(t, c["ide2"], "media=cdrom")
}

func TestCreateVMRefusesBadInput(t *testing.T) {
	t.Parallel()
	unknown := rpc.StemcellCID("stemcell-" + strings.Repeat("0", 32))
	for _, tc := range []struct {
		name       string
		stemcell   rpc.StemcellCID
		properties string
		networks   string
		disks      []rpc.DiskCID
		class      rpc.Class
		texts      []string
	}{
		{name: "an unknown stemcell", stemcell: unknown, texts: []string{string(unknown), "upload"}},
		{name: "a disk's CID for the stemcell", stemcell: "disk-aaaaaaaaaaaaaaa", texts: []string{"is the CID of a disk"}},
		{name: "an empty stemcell", stemcell: " ", texts: []string{"is empty"}},
		{name: "an unknown key", properties: `{"memory":1024}`, texts: []string{"memory", "unknown key"}},
		{name: "a quoted number", properties: `{"ram":"1024"}`, texts: []string{"ram", "1024"}},
		{name: "an unknown node", properties: `{"nodes":["n9"]}`, texts: []string{`"n9"`, "n1, n2, n3"}},
		{name: "an unknown storage", properties: `{"storage":"nope"}`, texts: []string{`"nope" does not exist`, "Datastore.Audit", "/storage/nope"}},
		{name: "a storage without images", properties: `{"storage":"iso"}`, texts: []string{`"iso" cannot hold disk images`}},
		{name: "an ephemeral disk larger than the storage", properties: `{"ephemeral_disk":{"size":900000}}`, class: rpc.ClassNoDiskSpace, texts: []string{"900000"}},
		{name: "a root disk larger than the storage", properties: `{"root_disk":{"size":900000}}`, class: rpc.ClassNoDiskSpace, texts: []string{"900000"}},
		{name: "disks that only fit one by one", properties: `{"root_disk":{"size":300000},"ephemeral_disk":{"size":300000}}`, class: rpc.ClassNoDiskSpace, texts: []string{"600000"}},
		{name: "a root disk smaller than the stemcell", properties: `{"root_disk":{"size":4096}}`, texts: []string{"4096", "5120"}},
		{name: "more memory than a node has", properties: `{"ram":900000}`, class: rpc.ClassVMCreationFailed, texts: []string{"n1: ", "900000"}},
		{name: "more CPUs than a node has", properties: `{"cpu":64}`, class: rpc.ClassVMCreationFailed, texts: []string{"16 CPUs", "64"}},
		{name: "too many disks", disks: make([]rpc.DiskCID, 15), texts: []string{"15", "at most 14"}},
		{name: "an unknown disk", disks: []rpc.DiskCID{"disk-aaaaaaaaaaaaaaa"}, class: rpc.ClassDiskNotFound, texts: []string{"disk-aaaaaaaaaaaaaaa"}},
		{name: "a disk that is named twice", disks: []rpc.DiskCID{"disk-aaaaaaaaaaaaaaa", "disk-aaaaaaaaaaaaaaa"}, texts: []string{"disk-aaaaaaaaaaaaaaa is named twice"}},
		{name: "no network", networks: `{}`, texts: []string{"at least one"}},
		{name: "an unknown CPU type", properties: `{"cpu_type":"nosuchcpu"}`, class: rpc.ClassVMCreationFailed, texts: []string{"nosuchcpu"}},
		{name: "a VIP", networks: `{"v":{"type":"vip","ip":"10.0.0.1"}}`, class: rpc.ClassNotSupported, texts: []string{"vip"}},
		{name: "an unknown bridge", networks: `{"n":{"type":"manual","ip":"10.0.0.9","netmask":"255.255.255.0","cloud_properties":{"bridge":"vmbr9"}}}`, class: rpc.ClassVMCreationFailed, texts: []string{"n1: has no bridge vmbr9", "n3: has no bridge vmbr9"}},
		{name: "an unknown bridge for a VM with drive options and a larger root disk", properties: `{"cache":"writeback","root_disk":{"size":10240}}`, networks: `{"n":{"type":"manual","ip":"10.0.0.9","netmask":"255.255.255.0","cloud_properties":{"bridge":"vmbr9"}}}`, class: rpc.ClassVMCreationFailed, texts: []string{"n1: has no bridge vmbr9", "n3: has no bridge vmbr9"}},
		{name: "no netmask", networks: `{"n":{"type":"manual","ip":"10.0.0.9"}}`, texts: []string{`network "n": a manual network needs ip and netmask: netmask is missing`}},
		{name: "an unknown pool", properties: `{"pool":"nope"}`, texts: []string{"nope", "/pool/nope"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			// Optional: the nodes' figures.
			b.grant("/nodes", "Sys.Audit")
			req := order(b.stemcell(), "agent", `{}`, tc.disks...)
			for i := range tc.disks {
				if req.Disks[i] == "" {
					req.Disks[i] = "disk-aaaaaaaaaaaaaaa"
				}
			}
			if tc.stemcell != "" {
				req.Stemcell = tc.stemcell
			}
			if tc.properties != "" {
				req.CloudProperties = raw(tc.properties)
			}
			if tc.networks != "" {
				req.Networks = networks(tc.networks)
			}
			if tc.class == "" {
				tc.class = rpc.ClassCloudError
			}
			guests, volumes := b.made()
			_, _, err := b.CreateVM(t.Context(), req)
			e := class(t, err, tc.class, tc.texts...)
			assert.False(t, e.Retryable(), "%v", err)
			g, v := b.made()
			assert.Equal(t, guests, g)
			assert.ElementsMatch(t, volumes, v)
		})
	}
}

func TestCreateVMWithoutQuorum(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	stemcell := b.stemcell()
	guests, volumes := b.made()
	b.srv.SetQuorate(false)
	_, _, err := b.CreateVM(t.Context(), order(stemcell, "agent", smallVM))
	e := class(t, err, rpc.ClassVMCreationFailed, "quorum")
	assert.True(t, e.Retryable())
	b.srv.SetQuorate(true)
	g, v := b.made()
	assert.Equal(t, guests, g)
	assert.ElementsMatch(t, volumes, v)
}

// Every request of create_vm fails once, one after the other; whatever fails,
// either the VM is there in the end or nothing is.
func TestCreateVMSurvivesOrCleansUp(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{
		"GET /cluster/resources", "GET /nodes/*/network", "GET /cluster/nextid", "POST /nodes/*/qemu/*/clone",
		"POST /nodes/*/storage/*/upload", "PUT /nodes/*/qemu/*/config", "PUT /nodes/*/qemu/*/resize", "POST /nodes/*/qemu/*/status/start",
	} {
		for name, f := range map[string]pvetest.Fault{
			"refused":       {Status: 500, Phrase: "something went wrong"},
			"no worker":     {Status: 500, Phrase: "got no worker upid - start worker failed"},
			"cut before":    {Cut: pvetest.CutBefore},
			"cut after":     {Cut: pvetest.CutAfter},
			"proxy timeout": {Status: 599, Phrase: "Too many redirections", After: true},
			"locked":        {Status: 500, Phrase: "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout"},
		} {
			t.Run(name+" "+pattern, func(t *testing.T) {
				t.Parallel()
				b := newBed(t)
				req := order(b.stemcell(), "agent", `{"cpu":1,"ram":1024,"root_disk":{"size":8192},"ephemeral_disk":{"size":4096}}`)
				guests, volumes := b.made()
				f.Match = pattern
				b.srv.Fail(f)
				cid, _, err := b.CreateVM(t.Context(), req)
				if err == nil {
					assert.True(t, b.guest(vmid(t, cid)).Running)
					require.NoError(t, b.DeleteVM(t.Context(), cid))
				}
				g, v := b.made()
				assert.Equal(t, guests, g, "%v", err)
				assert.ElementsMatch(t, volumes, v, "%v", err)
				cid, _, err = b.CreateVM(t.Context(), req)
				require.NoError(t, err)
				require.NoError(t, b.DeleteVM(t.Context(), cid))
			})
		}
	}
}

func TestOtherMethodsRefuseBadInput(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	vm, _ := b.vm(b.stemcell())
	disk := b.disk(vm)
	guests, volumes := b.made()
	const noVM, noDisk = rpc.VMCID("vm-850-abcdefghijkl"), rpc.DiskCID("disk-aaaaaaaaaaaaaaa")
	second := func(_ any, err error) error { return err }
	for _, tc := range []struct {
		name  string
		err   error
		class rpc.Class
		text  string
	}{
		{"has_vm of a disk", second(b.HasVM(ctx, rpc.VMCID(disk))), rpc.ClassCloudError, "is the CID of a disk"},
		{"has_vm of nothing", second(b.HasVM(ctx, "")), rpc.ClassCloudError, "is empty"},
		{"delete_vm of a disk", b.DeleteVM(ctx, rpc.VMCID(disk)), rpc.ClassCloudError, "is the CID of a disk"},
		{"reboot_vm", b.RebootVM(ctx, noVM), rpc.ClassVMNotFound, string(noVM)},
		{"get_disks", second(b.GetDisks(ctx, noVM)), rpc.ClassVMNotFound, string(noVM)},
		{"set_vm_metadata", b.SetVMMetadata(ctx, noVM, nil), rpc.ClassVMNotFound, string(noVM)},
		{"has_disk of a VM", second(b.HasDisk(ctx, rpc.DiskCID(vm))), rpc.ClassCloudError, "is the CID of a vm"},
		{"attach_disk to no VM", second(b.AttachDisk(ctx, noVM, disk)), rpc.ClassVMNotFound, string(noVM)},
		{"attach_disk of no disk", second(b.AttachDisk(ctx, vm, noDisk)), rpc.ClassDiskNotFound, string(noDisk)},
		{"detach_disk from no VM", b.DetachDisk(ctx, noVM, disk), rpc.ClassVMNotFound, string(noVM)},
		{"detach_disk that is not attached", b.DetachDisk(ctx, vm, disk), rpc.ClassDiskNotAttached, string(disk)},
		{"detach_disk of no disk", b.DetachDisk(ctx, vm, noDisk), rpc.ClassDiskNotAttached, string(noDisk)},
		{"resize_disk of no disk", b.ResizeDisk(ctx, noDisk, 2048), rpc.ClassDiskNotFound, string(noDisk)},
		{"resize_disk to less", b.ResizeDisk(ctx, disk, 2048), rpc.ClassNotSupported, "cannot shrink"},
		{"resize_disk to nothing", b.ResizeDisk(ctx, disk, 0), rpc.ClassCloudError, "above 0"},
		{"resize_disk beyond the storage", b.ResizeDisk(ctx, disk, 900000), rpc.ClassNoDiskSpace, "shared"},
		{"set_disk_metadata of no disk", b.SetDiskMetadata(ctx, noDisk, nil), rpc.ClassDiskNotFound, string(noDisk)},
		{"create_disk on a storage without images", second(b.CreateDisk(ctx, 1024, raw(`{"storage":"backup"}`), vm)), rpc.ClassCloudError, "backup"},
		{"create_disk larger than the storage", second(b.CreateDisk(ctx, 900000, raw(`{}`), vm)), rpc.ClassNoDiskSpace, "n1: "},
		{"create_disk for no VM", second(b.CreateDisk(ctx, 1024, raw(`{}`), noVM)), rpc.ClassVMNotFound, string(noVM)},
		{"create_disk with an unknown key", second(b.CreateDisk(ctx, 1024, raw(`{"type":"ssd"}`), vm)), rpc.ClassCloudError, "type"},
		{"create_disk with a format the storage lacks", second(b.CreateDisk(ctx, 1024, raw(`{"format":"qcow2"}`), vm)), rpc.ClassCloudError, "raw volumes only"},
		{"snapshot_disk", second(b.SnapshotDisk(ctx, disk, nil)), rpc.ClassNotImplemented, "snapshot_disk"},
		{"update_disk", second(b.UpdateDisk(ctx, disk, 1024, raw(`{}`))), rpc.ClassNotImplemented, "update_disk"},
	} {
		assert.Error(t, tc.err, tc.name)
		if tc.err != nil {
			assert.Equal(t, tc.class, rpc.ClassOf(tc.err), "%s: %v", tc.name, tc.err)
			assert.Contains(t, tc.err.Error(), tc.text, tc.name)
		}
	}
	g, v := b.made()
	assert.Equal(t, guests, g)
	assert.ElementsMatch(t, volumes, v)
}

func TestAccessThatIsRefused(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	stemcell := b.stemcell()
	open := func(change func(*cpi.Config)) *cpi.CPI {
		t.Helper()
		cfg := b.cfg
		change(&cfg)
		c, err := cpi.New(cfg, cpi.Options{})
		require.NoError(t, err)
		return c
	}
	second := func(_ any, err error) error { return err }
	t.Run("a wrong secret", func(t *testing.T) {
		c := open(func(c *cpi.Config) { c.TokenSecret = "00000000-0000-0000-0000-000000000000" })
		err := second(c.HasVM(ctx, "vm-850-abcdefghijkl"))
		class(t, err, rpc.ClassCloudError, "does not accept the API token "+tokenID)
		assert.NotContains(t, err.Error(), "00000000-0000")
	})
	t.Run("a wrong certificate", func(t *testing.T) {
		c := open(func(c *cpi.Config) { c.Fingerprint = strings.Repeat("00", 32) })
		class(t, second(c.HasVM(ctx, "vm-850-abcdefghijkl")), rpc.ClassCloudError, "fingerprint")
	})
	t.Run("a token without rights", func(t *testing.T) {
		secret := b.srv.AddToken("bosh@pve!bare", true)
		c := open(func(c *cpi.Config) { c.TokenID, c.TokenSecret = "bosh@pve!bare", secret })
		_, _, err := c.CreateVM(ctx, order(stemcell, "agent", `{}`))
		class(t, err, rpc.ClassCloudError, "VM.Audit on /pool/bosh")
		class(t, second(c.CreateStemcell(ctx, b.image(gib), raw(`{}`), nil)), rpc.ClassCloudError, "Datastore.Audit", "/storage/shared")
		class(t, second(c.CreateDisk(ctx, 1024, raw(`{}`), "")), rpc.ClassCloudError, "Datastore.Audit", "/storage/shared")
		class(t, second(c.HasDisk(ctx, "disk-aaaaaaaaaaaaaaa")), rpc.ClassCloudError, "VM.Audit on /pool/bosh")
		class(t, c.DeleteStemcell(ctx, stemcell), rpc.ClassCloudError, "VM.Audit on /pool/bosh")
	})
	t.Run("nobody at home", func(t *testing.T) {
		c := open(func(c *cpi.Config) { c.Endpoints = []string{"https://127.0.0.1:1"} })
		e := class(t, second(c.HasVM(ctx, "vm-850-abcdefghijkl")), rpc.ClassCloudError, "127.0.0.1:1")
		assert.True(t, e.Retryable())
	})
}

// A request as the Director sends it, with all settings in its context.
func TestServedRequest(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	call := func(method string, arguments ...any) (answer struct {
		Result json.RawMessage
		Error  *rpc.ResponseError
		Log    string
	},
	) {
		t.Helper()
		request, err := json.Marshal(map[string]any{
			"method": method, "arguments": arguments, "api_version": 2,
			"context": map[string]any{
				"director_uuid": "dir-a", "request_id": "cpi-000001", "endpoint": b.srv.URL(), "fingerprint": b.srv.Fingerprint(),
				"token": tokenID + "=" + b.secret, "storage": "shared", "iso_storage": "iso", "import_storage": "iso", "pool": poolName,
				"lock_dir": b.cfg.LockDir, "agent": map[string]any{"mbus": "https://mbus:mbus-password@0.0.0.0:6868"},
			},
		})
		require.NoError(t, err)
		var out, logs bytes.Buffer
		require.NoError(t, rpc.Serve(t.Context(), cpi.Factory(""), bytes.NewReader(request), &out, &logs))
		require.NoError(t, json.Unmarshal(out.Bytes(), &answer))
		assert.NotContains(t, out.String()+logs.String(), b.secret)
		assert.NotContains(t, out.String()+logs.String(), "mbus-password")
		return answer
	}
	made := call("create_stemcell", b.image(gib), map[string]any{"name": "s"})
	require.Nil(t, made.Error)
	var stemcell string
	require.NoError(t, json.Unmarshal(made.Result, &stemcell))
	made = call("create_vm", "agent-1", stemcell, map[string]any{"cpu": 1}, map[string]any{
		"default": map[string]any{"type": "manual", "ip": "10.0.0.9", "netmask": "255.255.255.0", "gateway": "10.0.0.1", "dns": []string{}, "cloud_properties": map[string]any{}},
	}, []string{}, map[string]any{})
	require.Nil(t, made.Error)
	var result []json.RawMessage
	require.NoError(t, json.Unmarshal(made.Result, &result))
	require.Len(t, result, 2)
	var vm string
	require.NoError(t, json.Unmarshal(result[0], &vm))
	assert.JSONEq(t, "true", string(call("has_vm", vm).Result))
	assert.JSONEq(t, "null", string(call("delete_vm", vm).Result))
	assert.JSONEq(t, "false", string(call("has_vm", vm).Result))
	assert.Equal(t, rpc.ClassNotImplemented, call("snapshot_disk", "disk-aaaaaaaaaaaaaaa", map[string]any{}).Error.Type)
}

func TestRebootVM(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	vm, id := b.vm(b.stemcell())
	require.NoError(t, b.RebootVM(ctx, vm))
	assert.True(t, b.guest(id).Running)
	require.NoError(t, b.srv.EditVM(id, func(g *pvetest.VM) { g.Running = false }))
	require.NoError(t, b.RebootVM(ctx, vm), "one that is off is started")
	assert.True(t, b.guest(id).Running)
	b.srv.FailTask("qmreboot:*", "VM quit/powerdown failed")
	require.NoError(t, b.RebootVM(ctx, vm), "one that does not react is stopped")
	assert.True(t, b.guest(id).Running)
	assert.Contains(t, b.log.String(), "did not shut down in order")
}

func TestCalculateVMCloudProperties(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	props, err := b.CalculateVMCloudProperties(t.Context(), rpc.VMResources{RAM: 4096, CPU: 2, EphemeralDiskSize: 20480})
	require.NoError(t, err)
	text, err := json.Marshal(props)
	require.NoError(t, err)
	assert.JSONEq(t, `{"cpu":2,"ram":4096,"ephemeral_disk":{"size":20480}}`, string(text))
	parsed, _, err := cpi.ParseVMProperties(text, &b.cfg)
	require.NoError(t, err)
	assert.Equal(t, int64(20480), parsed.EphemeralDisk.Size)
	// What a small request leaves open is filled with the least that works.
	props, err = b.CalculateVMCloudProperties(t.Context(), rpc.VMResources{RAM: 1, CPU: 1, EphemeralDiskSize: 1})
	require.NoError(t, err)
	text, err = json.Marshal(props)
	require.NoError(t, err)
	_, _, err = cpi.ParseVMProperties(text, &b.cfg)
	require.NoError(t, err)
}

func TestInfoNeedsNothing(t *testing.T) {
	t.Parallel()
	h, err := cpi.Factory("/does/not/exist")(t.Context(), &rpc.Call{Method: "info"})
	require.NoError(t, err)
	info, err := h.Info(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 2, info.APIVersion)
	assert.Contains(t, info.StemcellFormats, "openstack-qcow2")
}
