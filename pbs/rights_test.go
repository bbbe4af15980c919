package pbs_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/pbs"
	"github.com/proxkit/proxkit/pbs/operations"
)

func newTestClient(t *testing.T, handler http.HandlerFunc) *pbs.Client {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	client, err := pbs.NewClient(server.URL, pbs.WithAPIToken("ops@pbs!ci", "secret"), pbs.WithTransport(server.Client().Transport))
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return client
}

func TestEveryRequirement(t *testing.T) {
	t.Parallel()
	n := 0
	for o := range operations.All() {
		n++
		need, err := pbs.Privileges(o.Name, nil)
		require.NoError(t, err, o.Name)
		assert.NotEmpty(t, need.Kind, o.Name)
	}
	assert.Greater(t, n, 300)
	_, err := pbs.Privileges("Nonsense", nil)
	assert.ErrorContains(t, err, `pbs: "Nonsense" is no operation`)
}

func TestCheckPrivileges(t *testing.T) {
	t.Parallel()
	client := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/api2/json/access/permissions", r.URL.Path)
		path := r.FormValue("path")
		privs := map[string]string{
			"/datastore/store1":     `{"Datastore.Modify":true,"Datastore.Audit":false}`,
			"/access/users":         `{}`,
			"/system/notifications": `{"Sys.Modify":true}`,
		}[path]
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"data":{%q:%s}}`, path, privs)
	})
	gc := func(store string) pbs.Op {
		return pbs.Op{Name: "StartGarbageCollection", Params: pbs.StartGarbageCollectionParams{Store: store}}
	}
	_, err := client.CheckPrivileges(t.Context(), gc("store1"), pbs.Op{Name: "GetVersion"})
	require.NoError(t, err)

	_, err = client.CheckPrivileges(t.Context(), pbs.Op{Name: "ListUserTokens", Params: pbs.ListUserTokensParams{UserID: "eve@pbs"}})
	assert.EqualError(t, err, "pbs: the API token ops@pbs!ci lacks: Sys.Audit on /access/users, or being eve@pbs (for ListUserTokens)")
}

func TestVersionAndUnknown(t *testing.T) {
	t.Parallel()
	client := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, "/api2/json")
		switch path {
		case "/version":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"data":{"version":"3.4","release":"2","repoid":"a8b1"}}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, "Path '%s' not found.", r.URL.Path)
		}
	})
	version, err := client.Version(t.Context())
	require.NoError(t, err)
	assert.Equal(t, pbs.ServerVersion{Major: 3, Minor: 4, Patch: 2}, version)
	err = client.Do(t.Context(), http.MethodGet, "/config/s3", nil, nil)
	assert.ErrorIs(t, err, pbs.ErrUnknownToServer)
	assert.ErrorContains(t, err, "; this client is made for 4; the server is 3.4.2")
}
