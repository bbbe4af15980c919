package pve_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/pve"
	optable "github.com/proxkit/proxkit/pve/operations"
	"github.com/proxkit/proxkit/pve/pvetest"
)

// TestForetoldOfEveryOperation asks about every operation, then calls it with a parameter
// that none has: the server checks permissions first, so that it refuses either the
// caller or the parameter, and nothing is done.
func TestForetoldOfEveryOperation(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("calls every operation")
	}
	lab, err := pvetest.New() // not RunT: most operations are not simulated
	require.NoError(t, err)
	t.Cleanup(func() { _ = lab.Close() })
	lab.AddPool("web")
	require.NoError(t, lab.AddVM(100, pvetest.VM{Pool: "web"}))
	lab.AddUser("eve@pve", "")
	// The server asks for these rights only when the parameters are known to be good.
	late := strings.Fields("CreateVM CreateContainer DeleteVolume BulkStartGuests BulkShutdownGuests BulkSuspendGuests BulkMigrateGuests StartAllGuests StopAllGuests SuspendAllGuests MigrateAllGuests")
	samples := map[string]any{
		"node": "pve1", "vmid": 100, "storage": "local", "poolid": "web", "userid": "eve@pve", "groupid": "g", "roleid": "r", "realm": "pve",
		"path": "/vms/100", "newid": 200, "pool": "web", "tokenid": "t", "snapname": "s", "volume": "local:iso/x.iso",
	}
	for _, tc := range []struct {
		name string
		seed func(token string)
	}{
		{"nothing", func(string) {}},
		{"auditor", func(token string) { lab.SetACL("/", token, "PVEAuditor") }},
		{"one pool", func(token string) {
			lab.SetACL("/pool/web", token, "PVEVMAdmin")
			lab.SetACL("/pool/web", token, "PVEPoolAdmin")
		}},
		{"here and there", func(token string) {
			lab.SetACL("/vms/100", token, "PVEVMUser")
			lab.SetACL("/storage/local", token, "PVEDatastoreAdmin")
			lab.SetACL("/nodes", token, "PVESysAdmin")
			lab.SetACLHere("/access", token, "PVEUserAdmin")
			lab.SetACL("/access/groups", token, "PVEUserAdmin")
		}},
		{"administrator", func(token string) { lab.SetACL("/", token, "Administrator") }},
	} {
		id := "ops@pve!" + tc.name[:3]
		lab.SetACL("/", "ops@pve", "Administrator")
		secret := lab.AddToken(id, true)
		tc.seed(id)
		t.Run(tc.name, func(t *testing.T) {
			client, err := pve.NewClient(lab.URL(), pve.WithAPIToken(id, secret), pve.WithRootCAs(lab.CertPool()), pve.WithRetry(pve.RetryPolicy{Attempts: 1}))
			require.NoError(t, err)
			defer client.CloseIdleConnections()
			allowed, refused, open := 0, 0, 0
			for o := range optable.All() {
				if o.Kind == "websocket" || o.Kind == "upload" || slices.Contains(late, o.Name) {
					continue
				}
				params := map[string]any{}
				for p := range o.Params() {
					switch sample, ok := samples[p.Name]; {
					case ok:
						params[p.Name] = sample
					case p.Required && p.Type == "integer":
						params[p.Name] = 1
					case p.Required:
						params[p.Name] = "x"
					}
				}
				unsure, foretold := client.CheckPrivileges(t.Context(), pve.Op{Name: o.Name, Params: params})
				if foretold != nil {
					var lacks *pve.PrivilegeError
					require.ErrorAs(t, foretold, &lacks, o.Name)
				}
				params["nonsense"] = 1
				happened := client.Do(t.Context(), o.Method, o.Path, params, nil)
				switch {
				case errors.Is(happened, pve.ErrNotImplemented):
				case foretold != nil:
					refused++
					assert.ErrorIs(t, happened, pve.ErrPermission, "%s: foretold %v", o.Name, foretold)
				case len(unsure) > 0:
					open++
				default:
					allowed++
					assert.NotErrorIs(t, happened, pve.ErrPermission, "%s (%s)", o.Name, o.Needs)
				}
			}
			t.Logf("%d allowed, %d refused, %d open", allowed, refused, open)
			assert.Greater(t, allowed+refused+open, 100)
		})
	}
}
