package pve_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/pve"
	optable "github.com/proxkit/proxkit/pve/operations"
)

// oldServer stands in for a Proxmox VE 8.4, which knows neither the operations nor the
// parameters of later releases.
func oldServer(t *testing.T) *pve.Client {
	t.Helper()
	refuse := func(w http.ResponseWriter, status int, body map[string]any) {
		w.Header().Set("Content-Type", "application/json;charset=UTF-8")
		w.WriteHeader(status)
		assert.NoError(t, json.NewEncoder(w).Encode(body))
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, "/api2/json")
		assert.NoError(t, r.ParseForm())
		complaints := map[string]string{}
		for name := range r.Form {
			if name == "allow-ksm" || name == "nonsense" {
				complaints[name] = "property is not defined in schema and the schema does not allow additional properties"
			}
		}
		switch {
		case path == "/version":
			refuse(w, 200, map[string]any{"data": map[string]string{"version": "8.4.14", "release": "8.4", "repoid": "b502d23c55afcba1"}})
		case strings.HasPrefix(path, "/cluster/ha/rules") || path == "/nonsense":
			refuse(w, 501, map[string]any{"data": nil, "message": "Method '" + r.Method + " " + path + "' not implemented"})
		case len(complaints) > 0:
			refuse(w, 400, map[string]any{"data": nil, "message": "Parameter verification failed.\n", "errors": complaints})
		default:
			refuse(w, 200, map[string]any{"data": nil})
		}
	}))
	t.Cleanup(server.Close)
	client, err := pve.NewClient(server.URL, pve.WithAPIToken("root@pam!t", "secret"), pve.WithTransport(server.Client().Transport))
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return client
}

func TestOlderServer(t *testing.T) {
	t.Parallel()
	client := oldServer(t)
	ctx := t.Context()

	version, err := client.Version(ctx)
	require.NoError(t, err)
	assert.Equal(t, pve.ServerVersion{Major: 8, Minor: 4, Patch: 14}, version)
	assert.False(t, version.AtLeast(9, 0))

	_, err = client.ListHARules(ctx, pve.ListHARulesParams{})
	assert.ErrorIs(t, err, pve.ErrUnknownToServer)
	assert.ErrorIs(t, err, pve.ErrNotImplemented)
	assert.ErrorContains(t, err, "; the operation exists since 9.1; the server is 8.4.14")

	update := pve.UpdateVMConfigParams{Node: "pve1", VMID: 100, AllowKSM: new(true), Cores: new(int64(2))}
	err = client.UpdateVMConfig(ctx, update)
	assert.ErrorIs(t, err, pve.ErrUnknownToServer)
	assert.ErrorIs(t, err, pve.ErrInvalidParameter)
	assert.ErrorContains(t, err, "; parameter allow-ksm exists since 9.1; the server is 8.4.14")

	update.AllowKSM = nil
	assert.NoError(t, client.UpdateVMConfig(ctx, update))

	// The escape hatch explains as much, with values in the path as well.
	err = client.Do(ctx, http.MethodDelete, "/cluster/ha/rules/keep-apart", nil, nil)
	assert.ErrorContains(t, err, "; the operation exists since 9.1; the server is 8.4.14")
	err = client.Do(ctx, http.MethodPut, "/nodes/pve1/qemu/100/config", map[string]any{"nonsense": 1}, nil)
	assert.ErrorIs(t, err, pve.ErrUnknownToServer)
	assert.ErrorContains(t, err, "; this client is made for 9.2; the server is 8.4.14")
}

func TestSince(t *testing.T) {
	t.Parallel()
	v91, v92 := pve.ServerVersion{Major: 9, Minor: 1}, pve.ServerVersion{Major: 9, Minor: 2}
	for _, tc := range []struct {
		op, param string
		want      pve.ServerVersion
	}{
		{op: "CloneVM"},
		{op: "GET /version"},
		{op: "CreateVM", param: "memory"},
		{op: "CreateVM", param: "net0"},
		{op: "CreateVM", param: "allow-ksm", want: v91},
		{op: "PUT /nodes/{node}/qemu/{vmid}/config", param: "allow-ksm", want: v91},
		{op: "ListHARules", want: v91},
		{op: "ListHARules", param: "type", want: v91}, // as old as its operation
		{op: "GET /cluster/qemu/custom-cpu-models", want: v92},
	} {
		got, err := pve.Since(tc.op, tc.param)
		require.NoError(t, err)
		assert.Equal(t, tc.want, got, "%s %s", tc.op, tc.param)
	}
	_, err := pve.Since("Nonsense", "")
	assert.ErrorContains(t, err, `pve: "Nonsense" is no operation`)
	_, err = pve.Since("CreateVM", "nonsense")
	assert.EqualError(t, err, "pve: CreateVM has no parameter nonsense")
}

// TestSinceAgrees holds the two tables together: the one for errors and the one of
// operations.
func TestSinceAgrees(t *testing.T) {
	t.Parallel()
	operations, params := 0, 0
	for o := range optable.All() {
		since, err := pve.Since(o.Name, "")
		require.NoError(t, err)
		assert.Equal(t, o.Since != "", since != pve.ServerVersion{}, o.Name)
		if o.Since != "" {
			operations++
		}
		for p := range o.Params() {
			got, err := pve.Since(o.Name, p.Name)
			require.NoError(t, err, "%s %s", o.Name, p.Name)
			if p.Since != "" {
				params++
				assert.Equal(t, p.Since+".0", got.String(), "%s %s", o.Name, p.Name)
			} else {
				assert.Equal(t, since, got, "%s %s", o.Name, p.Name)
			}
		}
	}
	assert.Greater(t, operations, 50)
	assert.Greater(t, params, 50)
}

// TestSuccessAsksNothingElse: explanations cost only those who need them.
func TestSuccessAsksNothingElse(t *testing.T) {
	t.Parallel()
	lab, newClient := newLab(t)
	client := newClient()
	_, err := client.GetNextVMID(context.Background(), pve.GetNextVMIDParams{})
	require.NoError(t, err)
	_, err = client.GetVMConfig(context.Background(), pve.GetVMConfigParams{Node: "pve1", VMID: 4711})
	require.ErrorIs(t, err, pve.ErrNotFound)
	assert.Zero(t, lab.Count("GET /version"))
}
