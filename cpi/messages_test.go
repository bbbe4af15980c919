package cpi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi"
	"github.com/proxkit/proxkit/cpi/rpc"
)

// TestSilentServer connects to a server that accepts and then says nothing.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	b := newBed(t)
	cfg := b.cfg
	cfg.Endpoints, cfg.RequestTimeout = []string{silent.Addr().String()}, 300*time.Millisecond
	c, err := cpi.New(cfg, cpi.Options{})
	require.NoError(t, err)

	_, err = c.HasVM(t.Context(), "vm-101-abcdefghijkl")

	e := class(t, err, rpc.ClassCloudError, "TLS handshake did not finish within the request_timeout of 0.3 s", silent.Addr().String())
	assert.True(t, e.Retryable())
}

// TestMissingPool asks for things of a pool that does not exist.
func TestMissingPool(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	stemcell := b.stemcell()
	for name, tc := range map[string]struct {
		call func(c *cpi.CPI) error
		want string
	}{
		"making": {func(c *cpi.CPI) error {
			_, err := c.CreateDisk(t.Context(), 1024, raw(`{}`), "")
			return err
		}, "the resource pool nope does not exist: make it, or correct pool"},
		"cloning": {func(c *cpi.CPI) error {
			_, _, err := c.CreateVM(t.Context(), order(stemcell, "agent", smallVM))
			return err
		}, "or the pool nope does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := b.cfg
			cfg.Pool = "nope"
			err := tc.call(b.open(cfg, "dir-a"))
			require.Error(t, err)
			saysEverythingOnce(t, err)
			assert.ErrorContains(t, err, tc.want)
			assert.NotContains(t, err.Error(), "grant it on /vms")
		})
	}

	bare := newBed(t, func(c *cpi.Config) { c.Pool = "nope" })
	_, err := bare.HasDisk(t.Context(), "disk-aaaaaaaaaaaaaaa")
	class(t, err, rpc.ClassCloudError, "VM.Audit on /pool/nope", "to the token and to its user", "or the pool nope does not exist")
}

func TestWhatIsLogged(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	vm, _ := b.vm(b.stemcell())
	disk, err := b.CreateDisk(ctx, 1500, raw(`{"tags":{"Team A":"x"}}`), vm)
	require.NoError(t, err)
	require.NoError(t, b.ResizeDisk(ctx, disk, 1800))
	require.NoError(t, b.ResizeDisk(ctx, disk, 2500))
	require.NoError(t, b.RebootVM(ctx, vm))
	for _, line := range []string{
		`warning: tags are of lower-case letters, digits and _ . + -: "Team A": "x" becomes team-a-x`,
		fmt.Sprintf("disk %s has 2048 MiB on storage shared", disk),
		fmt.Sprintf("disk %s has 2048 MiB already, which is what 1800 MiB are rounded up to", disk),
		fmt.Sprintf("disk %s has grown from 2048 MiB to 3072 MiB", disk),
		fmt.Sprintf("VM %s is restarted", vm),
	} {
		assert.Equal(t, 1, strings.Count(b.log.String(), line), "%s\n%s", line, b.log)
	}
	class(t, b.ResizeDisk(ctx, disk, 2048), rpc.ClassNotSupported, "has 3072 MiB and cannot shrink to 2048 MiB")
}

// TestErrorsBeginWithTheMethod makes requests as the Director does. Every error has
// the method in front, once, and says where something is wrong.
func TestErrorsBeginWithTheMethod(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	settings := func(more string) string {
		return fmt.Sprintf(`{"director_uuid":"d","endpoint":%q,"fingerprint":%q,"token":%q,"storage":"shared","pool":%q,"lock_dir":%q%s}`,
			b.srv.URL(), b.srv.Fingerprint(), tokenID+"="+b.secret, poolName, t.TempDir(), more)
	}
	const networks = `{"default":{"type":"manual","ip":"10.0.0.20","netmask":"255.255.255.0"}}`
	const stemcell, mbus = "stemcell-00000000000000000000000000000000", `,"agent":{"mbus":"nats://n"}`
	for _, tc := range []struct{ method, arguments, context, want string }{
		{"has_vm", `["vm-101"]`, settings(""), "has_vm: "},
		{"has_vm", `[]`, settings(""), "has_vm: got 0, expected 1 argument (vm_cid)"},
		{"has_vm", `["vm-101-abcdefghijkl"]`, `{}`, "has_vm: the CPI configuration: endpoint: is missing"},
		{"has_vm", `["vm-101-abcdefghijkl"]`, settings(`,"pol":"x"`), "has_vm: the context of the request: pol: unknown key"},
		{"reboot_vm", `["vm-101-abcdefghijkl"]`, settings(""), "reboot_vm: VM vm-101-abcdefghijkl does not exist"},
		{"create_vm", `["a","` + stemcell + `",{"root_disk":{"storage":5}},` + networks + `,[],{}]`, settings(mbus), "create_vm: cloud_properties root_disk.storage: must be"},
		{"create_vm", `["a","` + stemcell + `",{"ram":100},` + networks + `,[],{}]`, settings(mbus), "create_vm: cloud_properties ram: must be at least 512 MiB, got 100"},
		{"create_vm", `["a","` + stemcell + `",{"ram":1024.5},` + networks + `,[],{}]`, settings(mbus), "create_vm: cloud_properties ram: must be a whole number, got 1024.5"},
		{"create_vm", `["a","` + stemcell + `",{},{"a":{"type":"manual"}},[],{}]`, settings(mbus), `create_vm: network "a": a manual network needs ip and netmask`},
		{"create_vm", `["a","` + stemcell + `",{},` + networks + `,[],{}]`, settings(""), "create_vm: the CPI configuration: agent.mbus: is missing"},
		{"create_vm", `["a","` + stemcell + `",{},` + networks + `,[],{}]`, settings(mbus), "create_vm: "},
		{"create_disk", `[1024,{"storage":"none"},null]`, settings(""), `create_disk: cloud_properties storage: storage "none" does not exist`},
		{"create_disk", `[1024,{},null]`, settings(`,"nodes":["n9"]`), `create_disk: the CPI configuration: nodes: "n9" is no member`},
		{"create_disk", `[1024,{},null]`, settings(`,"disk_storage":"none"`), `create_disk: the CPI configuration: disk_storage: storage "none"`},
		{"snapshot_disk", `["disk-aaaaaaaaaaaaaaa",{}]`, settings(""), "snapshot_disk: not implemented"},
	} {
		t.Run(tc.want, func(t *testing.T) {
			t.Parallel()
			var out, logged bytes.Buffer
			request := fmt.Sprintf(`{"method":%q,"arguments":%s,"context":%s,"api_version":2}`, tc.method, tc.arguments, tc.context)
			require.NoError(t, rpc.Serve(t.Context(), cpi.Factory(""), strings.NewReader(request), &out, &logged))
			var answer struct {
				Error struct{ Message string }
				Log   string
			}
			require.NoError(t, json.Unmarshal(out.Bytes(), &answer))
			assert.True(t, strings.HasPrefix(answer.Error.Message, tc.want), answer.Error.Message)
			assert.Equal(t, 1, strings.Count(answer.Error.Message, tc.method), answer.Error.Message)
			assert.NotContains(t, out.String(), b.secret)
			assert.Empty(t, logged.String())
			assert.Less(t, len(answer.Log), 1000)
		})
	}
}
