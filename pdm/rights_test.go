package pdm_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/pdm"
	"github.com/proxkit/proxkit/pdm/operations"
)

func TestEveryRequirement(t *testing.T) {
	t.Parallel()
	n := 0
	for o := range operations.All() {
		n++
		need, err := pdm.Privileges(o.Name, nil)
		require.NoError(t, err, o.Name)
		assert.NotEmpty(t, need.Kind, o.Name)
	}
	assert.Greater(t, n, 300)
	_, err := pdm.Privileges("Nonsense", nil)
	assert.ErrorContains(t, err, `pdm: "Nonsense" is no operation`)
}

// startManager stands in for a Proxmox Datacenter Manager whose caller may look at one
// remote alone.
func startManager() *httptest.Server {
	return httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api2/json/version":
			fmt.Fprint(w, `{"data":{"version":"1.1","release":"3","repoid":"a8b1"}}`)
		case "/api2/json/access/permissions":
			privs := "{}"
			if r.FormValue("path") == "/resource/lab" {
				privs = `{"Resource.Audit":true}`
			}
			fmt.Fprintf(w, `{"data":{%q:%s}}`, r.FormValue("path"), privs)
		case "/api2/json/pve/remotes/lab/tasks/UPID/log":
			fmt.Fprint(w, `{"data":[{"n":1,"t":"starting"},{"n":2,"t":"TASK OK"}],"total":2}`)
		}
	}))
}

// Ask before the work begins whether a token may do all of it.
func ExampleClient_CheckPrivileges() {
	server := startManager()
	defer server.Close()
	client, err := pdm.NewClient(server.URL, pdm.WithAPIToken("ops@pdm!ci", "secret"), pdm.WithTransport(server.Client().Transport))
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.CheckPrivileges(context.Background(),
		pdm.Op{Name: "GetRemoteConfig", Params: pdm.GetRemoteConfigParams{ID: "lab"}},
		pdm.Op{Name: "GetRemoteConfig", Params: pdm.GetRemoteConfigParams{ID: "home"}},
	)
	fmt.Println(err)
	// Output:
	// pdm: the API token ops@pdm!ci lacks: Resource.Audit on /resource/home (for GetRemoteConfig)
}

func TestVersionAndLog(t *testing.T) {
	t.Parallel()
	server := startManager()
	t.Cleanup(server.Close)
	client, err := pdm.NewClient(server.URL, pdm.WithAPIToken("ops@pdm!ci", "secret"), pdm.WithTransport(server.Client().Transport))
	require.NoError(t, err)
	version, err := client.Version(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "1.1.3", version.String())
	var lines []string
	for line, err := range client.AllPVETaskLog(t.Context(), pdm.ListPVETaskLogParams{Remote: "lab", UPID: "UPID"}) {
		require.NoError(t, err)
		lines = append(lines, line.T)
	}
	assert.Equal(t, []string{"starting", "TASK OK"}, lines)
	page, meta, err := pdm.WithMeta(t.Context(), client.ListPVETaskLog, pdm.ListPVETaskLogParams{Remote: "lab", UPID: "UPID", Limit: new(int64(1))})
	require.NoError(t, err)
	assert.Len(t, page, 2)
	assert.Equal(t, int64(2), meta.Total)
}
