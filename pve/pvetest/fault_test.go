package pvetest_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/proxkit/proxkit/pve/pvetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// cut sends a request that is to get no answer.
func (c *caller) cut(method, path, body string) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.srv.URL()+"/api2/json"+path, strings.NewReader(body))
	require.NoError(c.t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for k, v := range c.headers {
		req.Header.Set(k, v)
	}
	resp, err := c.client.Do(req)
	if resp != nil {
		resp.Body.Close()
	}
	require.Error(c.t, err)
	assert.True(c.t, errors.Is(err, io.EOF) || strings.Contains(err.Error(), "EOF") || strings.Contains(err.Error(), "reset"), err)
}

func TestFaults(t *testing.T) {
	t.Parallel()
	const create = "POST /pools"
	exists := func(c *caller, id string) bool { return c.do("GET", "/pools/"+id).Status == 200 }
	t.Run("refused without effect", func(t *testing.T) {
		t.Parallel()
		c := start(t)
		c.srv.FailNext(create, 500, "got no worker upid - start worker failed")
		g := c.do("POST", "/pools", "poolid=a")
		assert.Equal(t, 500, g.Status)
		assert.Equal(t, "got no worker upid - start worker failed", g.Reason)
		assert.Equal(t, "got no worker upid - start worker failed\n", g.Message)
		assert.False(t, exists(c, "a"))
		c.ok("POST", "/pools", "poolid=a")
	})
	t.Run("refused after it took effect", func(t *testing.T) {
		t.Parallel()
		c := start(t)
		c.srv.Fail(pvetest.Fault{Match: create, Status: 596, Phrase: "Connection timed out", After: true})
		g := c.do("POST", "/pools", "poolid=a")
		assert.Equal(t, 596, g.Status)
		assert.Empty(t, g.Body)
		assert.True(t, exists(c, "a"))
	})
	t.Run("the second and third", func(t *testing.T) {
		t.Parallel()
		c := start(t)
		c.srv.Fail(pvetest.Fault{Match: "POST /*", Nth: 2, Times: 2, Status: 503, Phrase: "busy"})
		var got []int
		for i := range 4 {
			got = append(got, c.do("POST", "/pools", fmt.Sprintf("poolid=p%d", i)).Status)
		}
		assert.Equal(t, []int{200, 503, 503, 200}, got)
	})
	t.Run("cut before", func(t *testing.T) {
		t.Parallel()
		c := start(t)
		c.srv.Fail(pvetest.Fault{Match: create, Cut: pvetest.CutBefore})
		c.cut("POST", "/pools", "poolid=a")
		assert.False(t, exists(c, "a"))
	})
	t.Run("cut after", func(t *testing.T) {
		t.Parallel()
		c := start(t)
		c.srv.Fail(pvetest.Fault{Match: create, Cut: pvetest.CutAfter})
		c.cut("POST", "/pools", "poolid=a")
		assert.True(t, exists(c, "a"))
	})
	t.Run("a parameter error of one's own", func(t *testing.T) {
		t.Parallel()
		c := start(t)
		c.srv.Fail(pvetest.Fault{Match: create, Status: 400, Phrase: "Parameter verification failed.", Params: map[string]string{"poolid": "no"}})
		assert.Equal(t, map[string]string{"poolid": "no"}, c.do("POST", "/pools", "poolid=a").Errors)
	})
	t.Run("a task that fails", func(t *testing.T) {
		t.Parallel()
		c := start(t)
		c.srv.Fail(pvetest.Fault{Match: "POST /nodes/*/qemu", TaskError: "no space left"})
		assert.Equal(t, "no space left", c.taskOf("POST", "/nodes/pve1/qemu", "vmid=100"))
		_, ok := c.srv.VM(100)
		assert.False(t, ok)
	})
	t.Run("a task that fails late", func(t *testing.T) {
		t.Parallel()
		c := start(t)
		c.srv.Fail(pvetest.Fault{Match: "POST /nodes/*/qemu", TaskError: "at the very end", After: true})
		assert.Equal(t, "at the very end", c.taskOf("POST", "/nodes/pve1/qemu", "vmid=100"))
		_, ok := c.srv.VM(100)
		assert.True(t, ok)
	})
	t.Run("a task with warnings", func(t *testing.T) {
		t.Parallel()
		c := start(t)
		c.srv.Fail(pvetest.Fault{Match: "POST /nodes/*/qemu", TaskWarnings: 2})
		assert.Equal(t, "WARNINGS: 2", c.taskOf("POST", "/nodes/pve1/qemu", "vmid=100"))
	})
	t.Run("by the task's name", func(t *testing.T) {
		t.Parallel()
		c := start(t)
		c.srv.FailTask("qmcreate:101", "broken")
		assert.Equal(t, "OK", c.taskOf("POST", "/nodes/pve1/qemu", "vmid=100"))
		assert.Equal(t, "broken", c.taskOf("POST", "/nodes/pve1/qemu", "vmid=101"))
		assert.Equal(t, "OK", c.taskOf("POST", "/nodes/pve1/qemu", "vmid=102"))
	})
	t.Run("no more", func(t *testing.T) {
		t.Parallel()
		c := start(t)
		c.srv.Fail(pvetest.Fault{Match: "*  /**", Times: -1, Status: 500, Phrase: "x"})
		c.srv.ClearFaults()
		c.ok("GET", "/version")
	})
}

func TestNodesAndQuorum(t *testing.T) {
	t.Parallel()
	c := start(t, pvetest.WithNodes("pve1", "pve2", "pve3"))
	require.NoError(t, c.srv.AddVM(100, pvetest.VM{Node: "pve2", Running: true, Config: map[string]string{"name": "a", "tags": "x"}}))
	c.srv.SetNodeOnline("pve2", false)
	g := c.do("GET", "/nodes/pve2/status")
	assert.Equal(t, 595, g.Status)
	assert.Equal(t, "No route to host", g.Reason)
	assert.Empty(t, g.Body)
	row := c.ok("GET", "/cluster/resources?type=vm").([]any)[0].(map[string]any)
	assert.Equal(t, "unknown", row["status"])
	assert.Equal(t, "x", row["tags"])
	c.ok("POST", "/pools", "poolid=a")

	c.srv.SetNodeOnline("pve3", false)
	g = c.do("POST", "/pools", "poolid=b")
	assert.Equal(t, "cluster not ready - no quorum?", g.Reason)
	assert.EqualValues(t, 0, c.ok("GET", "/cluster/status").([]any)[0].(map[string]any)["quorate"])
	c.srv.SetNodeOnline("pve2", true)
	c.ok("POST", "/pools", "poolid=b")
	c.srv.SetQuorate(false)
	assert.Equal(t, 500, c.do("DELETE", "/pools/b").Status)
}

func TestStaleResources(t *testing.T) {
	t.Parallel()
	c := start(t)
	require.NoError(t, c.srv.AddVM(100, vm(map[string]string{"name": "old"})))
	c.srv.StaleResources(true)
	require.NoError(t, c.srv.EditVM(100, func(m *pvetest.VM) { m.Config["name"], m.Config["tags"], m.Running = "new", "fresh", true }))
	require.NoError(t, c.srv.AddVM(101, vm(map[string]string{"name": "later", "tags": "seen"})))
	rows := c.ok("GET", "/cluster/resources?type=vm").([]any)
	first, second := rows[0].(map[string]any), rows[1].(map[string]any)
	assert.Equal(t, "old", first["name"])
	assert.Equal(t, "stopped", first["status"])
	assert.Equal(t, "fresh", first["tags"])
	assert.Equal(t, map[string]any{"id": "qemu/101", "node": "pve1", "status": "unknown", "type": "qemu", "vmid": 101.0, "tags": "seen"}, second)
	c.srv.StaleResources(false)
	assert.Equal(t, "new", c.ok("GET", "/cluster/resources?type=vm").([]any)[0].(map[string]any)["name"])
}

func TestTaskModes(t *testing.T) {
	t.Parallel()
	status := func(c *caller, upid string) map[string]any {
		return c.ok("GET", "/nodes/pve1/tasks/"+upid+"/status").(map[string]any)
	}
	t.Run("by looks", func(t *testing.T) {
		t.Parallel()
		c := start(t)
		c.srv.TasksTake(3)
		upid := c.ok("POST", "/nodes/pve1/qemu", "vmid=100&name=a").(string)
		for range 2 {
			st := status(c, upid)
			assert.Equal(t, "running", st["status"])
			assert.NotContains(t, st, "exitstatus")
		}
		assert.Equal(t, "OK", status(c, upid)["exitstatus"])
		m, ok := c.srv.VM(100)
		require.True(t, ok)
		assert.Equal(t, "a", m.Config["name"])
	})
	t.Run("by the clock", func(t *testing.T) {
		t.Parallel()
		now := newClock()
		c := start(t, pvetest.WithClock(now.now))
		c.srv.TasksLast(10 * time.Second)
		upid := c.ok("POST", "/nodes/pve1/qemu", "vmid=100").(string)
		assert.Equal(t, "running", status(c, upid)["status"])
		now.pass(11 * time.Second)
		_ = c.ok("GET", "/version")
		c.ok("GET", "/nodes/pve1/qemu/100/config")
		assert.Equal(t, "OK", status(c, upid)["exitstatus"])
	})
	t.Run("stopped", func(t *testing.T) {
		t.Parallel()
		c := start(t)
		c.srv.HoldTask("qmcreate:*")
		upid := c.ok("POST", "/nodes/pve1/qemu", "vmid=100").(string)
		active := c.ok("GET", "/nodes/pve1/tasks?source=active").([]any)
		require.Len(t, active, 1)
		assert.Equal(t, "RUNNING", active[0].(map[string]any)["status"])
		assert.Equal(t, "no content", c.ok("GET", "/nodes/pve1/tasks/"+upid+"/log").([]any)[0].(map[string]any)["t"])
		c.ok("DELETE", "/nodes/pve1/tasks/"+upid)
		assert.Equal(t, "received interrupt", status(c, upid)["exitstatus"])
		_, ok := c.srv.VM(100)
		assert.False(t, ok, "what was reserved for it is given back")
	})
	t.Run("asked for in vain", func(t *testing.T) {
		t.Parallel()
		c := start(t)
		g := c.do("GET", "/nodes/pve1/tasks/UPID:foo/status")
		assert.Equal(t, map[string]string{"upid": "unable to parse worker upid"}, g.Errors)
		const gone = "UPID:pve1:00000001:00000002:6B0E0F93:qmstart:999:root@pam:"
		g = c.do("GET", "/nodes/pve1/tasks/"+gone+"/status")
		assert.Equal(t, map[string]string{"upid": "no such task"}, g.Errors)
		assert.Equal(t, "unable to open file - No such file or directory", c.ok("GET", "/nodes/pve1/tasks/"+gone+"/log").([]any)[0].(map[string]any)["t"])
	})
	t.Run("filters", func(t *testing.T) {
		t.Parallel()
		c := start(t)
		for i := range 4 {
			c.taskOf("POST", "/nodes/pve1/qemu", fmt.Sprintf("vmid=%d", 100+i))
		}
		c.srv.FailTask("*", "bad")
		c.taskOf("POST", "/nodes/pve1/qemu/100/status/start")
		g := c.do("GET", "/nodes/pve1/tasks?limit=2")
		assert.Len(t, g.Data, 2)
		assert.Equal(t, 5, g.Total)
		assert.Len(t, c.ok("GET", "/nodes/pve1/tasks?errors=1"), 1)
		assert.Len(t, c.ok("GET", "/nodes/pve1/tasks?typefilter=qmcreate&vmid=101"), 1)
		assert.Len(t, c.ok("GET", "/nodes/pve1/tasks?statusfilter=ok"), 4)
		assert.Len(t, c.ok("GET", "/nodes/pve1/tasks?start=4"), 1)
	})
	t.Run("whose they are", func(t *testing.T) {
		t.Parallel()
		c := start(t)
		upid := c.ok("POST", "/nodes/pve1/qemu", "vmid=100").(string)
		other := newCaller(t, c.srv).token("bob@pve!t0", c.srv.AddToken("bob@pve!t0", false))
		assert.Empty(t, other.ok("GET", "/nodes/pve1/tasks"))
		assert.Equal(t, "Permission check failed (/nodes/pve1, Sys.Audit)", other.do("GET", "/nodes/pve1/tasks/"+upid+"/status").Reason)
	})
}

func TestWorkers(t *testing.T) {
	t.Parallel()
	c := start(t, pvetest.WithWorkers(2, 3))
	c.srv.Fail(pvetest.Fault{Match: "POST /pools", Times: -1, Delay: 20 * time.Millisecond})
	var (
		wg       sync.WaitGroup
		mu       sync.Mutex
		ok, lost int
	)
	for i := range 20 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			req, err := http.NewRequest("POST", c.srv.URL()+"/api2/json/pools", strings.NewReader(fmt.Sprintf("poolid=p%d", i)))
			if err != nil {
				return
			}
			req.Header.Set("Authorization", c.headers["Authorization"])
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			resp, err := c.client.Do(req)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				lost++
				return
			}
			resp.Body.Close()
			ok++
		}()
	}
	wg.Wait()
	assert.Equal(t, 20, ok+lost)
	assert.Positive(t, lost, "workers that are replaced cut what waits for them")
	assert.Len(t, c.ok("GET", "/pools"), ok, "and what was cut did nothing")
	assert.Greater(t, c.srv.PeakInFlight(""), 2)
}

func TestRecording(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.ok("GET", "/version")
	c.ok("POST", "/access/users", "userid=alice@pve&password=alicepw12")
	c.do("GET", "/nodes/pve1/qemu/100/config")
	all := c.srv.Requests()
	require.Len(t, all, 3)
	assert.Equal(t, "POST /access/users", all[1].String())
	assert.Equal(t, map[string]string{"userid": "alice@pve", "password": "***"}, all[1].Params)
	assert.Equal(t, "root@pam!pvetest", all[1].User)
	assert.Equal(t, "/nodes/{node}/qemu/{vmid}/config", all[2].Template)
	assert.Equal(t, 500, all[2].Status)
	assert.Equal(t, 2, c.srv.Count("GET /**"))
	assert.Equal(t, 1, c.srv.Count("GET /nodes/*/qemu/*/config"))
	c.srv.ResetRequests()
	assert.Empty(t, c.srv.Calls())
}

func TestPeakInFlight(t *testing.T) {
	t.Parallel()
	c := start(t, pvetest.WithNodes("pve1", "pve2"))
	c.srv.Fail(pvetest.Fault{Match: "POST /nodes/**", Times: -1, Delay: 100 * time.Millisecond})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			g := c.do("POST", fmt.Sprintf("/nodes/pve%d/qemu", i%2+1), fmt.Sprintf("vmid=%d", 100+i))
			assert.Equal(t, 200, g.Status)
			_ = c.srv.Requests()
		}()
	}
	wg.Wait()
	assert.Equal(t, 2, c.srv.PeakInFlight("pve1"))
	assert.Equal(t, 2, c.srv.PeakInFlight("pve2"))
	assert.Equal(t, 4, c.srv.PeakInFlight(""))
	c.srv.ResetRequests()
	assert.Zero(t, c.srv.PeakInFlight("pve1"))
}

func TestEndpointsOfNodes(t *testing.T) {
	t.Parallel()
	c := start(t, pvetest.WithNodes("pve1", "pve2"))
	url, err := c.srv.NodeURL("pve2")
	require.NoError(t, err)
	again, err := c.srv.NodeURL("pve2")
	require.NoError(t, err)
	assert.Equal(t, url, again)
	_, err = c.srv.NodeURL("nope")
	require.Error(t, err)
	get := func(base, path string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(t.Context(), "GET", base+"/api2/json"+path, nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", c.headers["Authorization"])
		return c.client.Do(req)
	}
	local := func(base string) string {
		resp, err := get(base, "/cluster/status")
		require.NoError(t, err)
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		for _, name := range []string{"pve1", "pve2"} {
			if strings.Contains(string(data), `"local":1,"name":"`+name+`"`) {
				return name
			}
		}
		return ""
	}
	assert.Equal(t, "pve1", local(c.srv.URL()))
	assert.Equal(t, "pve2", local(url))
	c.srv.SetNodeOnline("pve2", false)
	resp, err := get(url, "/version")
	if resp != nil {
		resp.Body.Close()
	}
	require.Error(t, err)
	c.srv.SetNodeOnline("pve1", false)
	c.srv.SetNodeOnline("pve2", true)
	assert.Equal(t, "pve2", local(c.srv.URL()))
}
