package pve_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/pve"
	"github.com/proxkit/proxkit/pve/pvetest"
)

func newLab(t *testing.T, opts ...pvetest.Option) (*pvetest.Server, func() *pve.Client) {
	t.Helper()
	lab := pvetest.RunT(t, opts...)
	id, secret := lab.RootToken()
	return lab, func() *pve.Client {
		client, err := pve.NewClient(lab.URL(), pve.WithAPIToken(id, secret), pve.WithRootCAs(lab.CertPool()))
		require.NoError(t, err)
		t.Cleanup(client.CloseIdleConnections)
		return client
	}
}

// TestNextIDFromManyCallers: 64 callers with clients of their own, as 64 processes have,
// ask at the same time.
func TestNextIDFromManyCallers(t *testing.T) {
	t.Parallel()
	const callers = 64
	lab, newClient := newLab(t)
	require.NoError(t, lab.AddVM(103, pvetest.VM{}))
	ids := make([]int64, callers)
	var wait sync.WaitGroup
	for i := range callers {
		client := newClient()
		wait.Go(func() {
			var err error
			ids[i], err = client.CreateVMWithNextID(t.Context(), pve.CreateVMParams{Node: "pve1"})
			assert.NoError(t, err)
		})
	}
	wait.Wait()
	slices.Sort(ids)
	var want []int64
	for id := int64(100); len(want) < callers; id++ {
		if id != 103 {
			want = append(want, id)
		}
	}
	assert.Equal(t, want, ids, "no duplicate and no gap")
	t.Logf("%d creates for %d guests", lab.Count("POST /nodes/pve1/qemu"), callers)
}

// TestNextIDFromManyProcesses is the same with real processes, which share nothing.
func TestNextIDFromManyProcesses(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts 64 processes")
	}
	const processes = 64
	lab := pvetest.RunT(t)
	id, secret := lab.RootToken()
	ids := make([]string, processes)
	var wait sync.WaitGroup
	for i := range processes {
		wait.Go(func() {
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNextIDChild$")
			child.Env = append(os.Environ(), "NEXTID_URL="+lab.URL(), "NEXTID_TOKEN="+id+"="+secret, "NEXTID_PIN="+lab.Fingerprint())
			out, err := child.Output()
			assert.NoError(t, err, "%s", out)
			ids[i], _, _ = strings.Cut(string(out), "\n")
		})
	}
	wait.Wait()
	slices.Sort(ids)
	for i, got := range ids {
		assert.Equal(t, strconv.Itoa(100+i), got, "no duplicate and no gap")
	}
	t.Logf("%d creates for %d guests", lab.Count("POST /nodes/pve1/qemu"), processes)
}

// TestNextIDChild is what the processes of TestNextIDFromManyProcesses run.
func TestNextIDChild(t *testing.T) {
	url := os.Getenv("NEXTID_URL")
	if url == "" {
		t.Skip("not a child process")
	}
	client, err := pve.NewClient(url, pve.WithAPIToken("", os.Getenv("NEXTID_TOKEN")), pve.WithFingerprint(os.Getenv("NEXTID_PIN")))
	require.NoError(t, err)
	vmid, err := client.CreateVMWithNextID(t.Context(), pve.CreateVMParams{Node: "pve1"})
	require.NoError(t, err)
	fmt.Println(vmid)
}

func TestNextID(t *testing.T) {
	t.Parallel()
	ctx := context.Background()

	t.Run("range", func(t *testing.T) {
		t.Parallel()
		lab, newClient := newLab(t)
		lab.SetOption("next-id", "lower=5000,upper=5002")
		client := newClient()
		for want := range int64(2) {
			id, err := client.CreateVMWithNextID(ctx, pve.CreateVMParams{Node: "pve1"})
			require.NoError(t, err)
			assert.Equal(t, 5000+want, id)
		}
		_, err := client.CreateVMWithNextID(ctx, pve.CreateVMParams{Node: "pve1"})
		assert.ErrorContains(t, err, "unable to get any free VMID in range")
	})
	t.Run("clone", func(t *testing.T) {
		t.Parallel()
		lab, newClient := newLab(t)
		require.NoError(t, lab.AddVM(100, pvetest.VM{Config: map[string]string{"virtio0": "local:1"}}))
		id, err := newClient().CloneVMWithNextID(ctx, pve.CloneVMParams{Node: "pve1", VMID: 100, Full: new(true)})
		require.NoError(t, err)
		assert.Equal(t, int64(101), id)
	})
	t.Run("conflict that shows in the task", func(t *testing.T) {
		t.Parallel()
		lab, newClient := newLab(t)
		lab.FailTask("qmcreate:100", "unable to create VM 100: config file already exists")
		id, err := newClient().CreateVMWithNextID(ctx, pve.CreateVMParams{Node: "pve1"})
		require.NoError(t, err)
		assert.Equal(t, int64(100), id, "the simulated conflict left nothing behind")
		assert.Equal(t, 2, lab.Count("POST /nodes/pve1/qemu"))
	})
	t.Run("a server too busy to start the task", func(t *testing.T) {
		t.Parallel()
		lab, newClient := newLab(t)
		const busy = "got no worker upid - start worker failed"
		lab.Fail(pvetest.Fault{Match: "POST /nodes/pve1/qemu", Status: 500, Phrase: busy, Times: 2})
		id, err := newClient().CreateVMWithNextID(ctx, pve.CreateVMParams{Node: "pve1"})
		require.NoError(t, err)
		assert.Equal(t, int64(100), id)
		assert.Equal(t, 3, lab.Count("POST /nodes/pve1/qemu"))
		lab.ResetRequests()
		lab.Fail(pvetest.Fault{Match: "POST /nodes/pve1/qemu", Status: 500, Phrase: busy, Times: 9})
		_, err = newClient().CreateVMWithNextID(ctx, pve.CreateVMParams{Node: "pve1"})
		assert.ErrorIs(t, err, pve.ErrWorkerStart)
		assert.Equal(t, 5, lab.Count("POST /nodes/pve1/qemu"))
	})
	t.Run("no time left", func(t *testing.T) {
		t.Parallel()
		lab, newClient := newLab(t)
		reason := errors.New("no more time")
		ctx, cancel := context.WithCancelCause(ctx)
		lab.Fail(pvetest.Fault{Match: "POST /nodes/pve1/qemu", Status: 500, Phrase: "unable to create VM 100 - VM 100 already exists on node 'pve1'", Do: func() { cancel(reason) }})
		_, err := newClient().CreateVMWithNextID(ctx, pve.CreateVMParams{Node: "pve1"})
		assert.ErrorIs(t, err, reason)
	})
	t.Run("other failures are not tried again", func(t *testing.T) {
		t.Parallel()
		lab, newClient := newLab(t)
		lab.FailNext("POST /nodes/pve1/qemu", 500, "rbd error: rbd: image vm-100-disk-0 already exists")
		id, err := newClient().CreateVMWithNextID(ctx, pve.CreateVMParams{Node: "pve1"})
		assert.ErrorIs(t, err, pve.ErrExists)
		assert.Zero(t, id)
		assert.Equal(t, 1, lab.Count("POST /nodes/pve1/qemu"))
	})
	t.Run("unknown outcome names the VMID", func(t *testing.T) {
		t.Parallel()
		lab, newClient := newLab(t)
		lab.HoldTask("qmcreate:100")
		reason := errors.New("no more time")
		ctx, cancel := context.WithTimeoutCause(ctx, 300*time.Millisecond, reason)
		defer cancel()
		id, err := newClient().CreateVMWithNextID(ctx, pve.CreateVMParams{Node: "pve1"})
		assert.ErrorIs(t, err, reason)
		assert.Equal(t, int64(100), id)
	})
	t.Run("VMID given", func(t *testing.T) {
		t.Parallel()
		lab, newClient := newLab(t)
		_, err := newClient().CreateVMWithNextID(ctx, pve.CreateVMParams{Node: "pve1", VMID: 7})
		assert.ErrorIs(t, err, pve.ErrInvalidParameter)
		assert.Empty(t, lab.Requests())
	})
}

// TestNextIDOfContainers: the first VMID is taken at once, the second one while the task
// runs, as two servers may find out.
func TestNextIDOfContainers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		path string
		call func(ctx context.Context, client *pve.Client) (int64, error)
	}{
		{"create", "/nodes/pve1/lxc", func(ctx context.Context, client *pve.Client) (int64, error) {
			return client.CreateContainerWithNextID(ctx, pve.CreateContainerParams{Node: "pve1", OSTemplate: "local:vztmpl/x.tar.zst"})
		}},
		{"clone", "/nodes/pve1/lxc/90/clone", func(ctx context.Context, client *pve.Client) (int64, error) {
			return client.CloneContainerWithNextID(ctx, pve.CloneContainerParams{Node: "pve1", VMID: 90})
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			const upid = "UPID:pve1:000011A5:00052BA7:6B0E103A:vzcreate:%d:root@pam:"
			next := 99
			var asked []string
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				path := strings.TrimPrefix(r.URL.Path, "/api2/json")
				w.Header().Set("Content-Type", "application/json")
				switch {
				case path == "/cluster/nextid":
					next++
					fmt.Fprintf(w, `{"data":"%d"}`, next)
				case r.Method == http.MethodPost && path == tc.path && next == 100:
					w.WriteHeader(500)
					fmt.Fprintf(w, `{"data":null,"message":"unable to create CT 100 - CT 100 already exists on node 'pve1'\n"}`)
				case r.Method == http.MethodPost && path == tc.path:
					assert.NoError(t, r.ParseForm())
					asked = append(asked, r.Form.Get("vmid")+r.Form.Get("newid"))
					fmt.Fprintf(w, `{"data":"`+upid+`"}`, next)
				case strings.HasSuffix(path, "/status") && next == 101:
					fmt.Fprint(w, `{"data":{"status":"stopped","exitstatus":"unable to create CT 101: config file already exists"}}`)
				case strings.HasSuffix(path, "/status"):
					fmt.Fprint(w, `{"data":{"status":"stopped","exitstatus":"OK"}}`)
				default:
					fmt.Fprint(w, `{"data":[],"total":0}`)
				}
			}))
			t.Cleanup(server.Close)
			client, err := pve.NewClient(server.URL, pve.WithAPIToken("root@pam!t", "secret"), pve.WithTransport(server.Client().Transport))
			require.NoError(t, err)
			id, err := tc.call(t.Context(), client)
			require.NoError(t, err)
			assert.Equal(t, int64(102), id)
			assert.Equal(t, []string{"101", "102"}, asked)
		})
	}
	_, newClient := newLab(t)
	_, err := newClient().CreateContainerWithNextID(t.Context(), pve.CreateContainerParams{Node: "pve1", VMID: 5})
	assert.ErrorIs(t, err, pve.ErrInvalidParameter)
	_, err = newClient().CloneContainerWithNextID(t.Context(), pve.CloneContainerParams{Node: "pve1", VMID: 90, NewID: 5})
	assert.ErrorIs(t, err, pve.ErrInvalidParameter)
}
