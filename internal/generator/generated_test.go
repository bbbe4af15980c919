package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/internal/generator/testdata/cases/kinds"
	"github.com/proxkit/proxkit/internal/generator/testdata/cases/names"
	"github.com/proxkit/proxkit/internal/generator/testdata/cases/overlaid"
	"github.com/proxkit/proxkit/internal/generator/testdata/cases/prose"
	"github.com/proxkit/proxkit/internal/generator/testdata/cases/rustkinds"
	"github.com/proxkit/proxkit/internal/generator/testdata/cases/sections"
	"github.com/proxkit/proxkit/pbs"
)

// A seen is a request as it came over the wire.
type seen struct {
	method, path, query, contentType, authorization, body string
}

// server answers every request with data and keeps the last one.
type server struct {
	*httptest.Server
	mu   sync.Mutex
	last seen
	data string
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := new(server)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.last = seen{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Get("Content-Type"), r.Header.Get("Authorization"), string(body)}
		if strings.HasPrefix(s.data, "raw:") {
			w.Header().Set("Content-Type", "application/octet-stream")
			_, _ = io.WriteString(w, s.data[4:])
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"data":`+s.data+`}`)
	}))
	t.Cleanup(s.Close)
	return s
}

// answer makes the next answers carry data.
func (s *server) answer(data string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data = data
}

func (s *server) request() seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

func fields(t *testing.T, body string) url.Values {
	t.Helper()
	v, err := url.ParseQuery(body)
	require.NoError(t, err)
	return v
}

func kindsClient(t *testing.T) (*kinds.Client, *server) {
	t.Helper()
	s := newServer(t)
	c, err := kinds.NewClient(s.URL, kinds.WithAPIToken("user@pam!ci", "00000000-0000-0000-0000-000000000001"))
	require.NoError(t, err)
	return c, s
}

func TestKindsObject(t *testing.T) {
	c, s := kindsClient(t)
	s.answer(`{"version":"9.2","release":null,"new":[1]}`)
	v, err := c.GetVersion(t.Context())
	require.NoError(t, err)
	assert.Equal(t, &kinds.Version{Version: "9.2", Extra: map[string]json.RawMessage{"new": json.RawMessage(`[1]`)}}, v)
	assert.Equal(t, seen{method: "GET", path: "/api2/json/version", authorization: "KINDSAPIToken=user@pam!ci=00000000-0000-0000-0000-000000000001"}, s.request())
}

func TestKindsValue(t *testing.T) {
	c, s := kindsClient(t)
	s.answer(`"218"`)
	id, err := c.GetNextID(t.Context())
	require.NoError(t, err)
	assert.Equal(t, int64(218), id)
}

func TestKindsList(t *testing.T) {
	c, s := kindsClient(t)
	s.answer(`[{"node":"n1","online":1,"maxmem":18446744073692774400,"cpu":"0.5","tags":"a;b"},{"node":"n2","online":"0","maxmem":1.5e3}]`)
	nodes, err := c.ListNodes(t.Context())
	require.NoError(t, err)
	require.Len(t, nodes, 2)
	assert.Equal(t, kinds.NodeListItem{Node: "n1", Online: true, MaxMem: new(uint64(18446744073692774400)), CPU: new(0.5), Tags: []string{"a", "b"}}, nodes[0])
	assert.Equal(t, kinds.NodeListItem{Node: "n2", MaxMem: new(uint64(1500))}, nodes[1])
}

func TestKindsQuery(t *testing.T) {
	c, s := kindsClient(t)
	s.answer(`[{"vmid":"100","template":"","upid":"UPID:n1:00000001:00000002:60000000:qmstart:100:root@pam:"}]`)
	guests, err := c.ListNodeGuests(t.Context(), kinds.ListNodeGuestsParams{Node: "n1", Full: new(true), Type: []string{"qemu", "lxc"}, Statuses: []string{"running", "paused"}})
	require.NoError(t, err)
	got := s.request()
	assert.Equal(t, "/api2/json/nodes/n1/guests", got.path)
	assert.Equal(t, url.Values{"full": {"1"}, "type": {"qemu", "lxc"}, "statuses": {"running,paused"}}, fields(t, got.query))
	assert.Empty(t, got.body)
	require.Len(t, guests, 1)
	assert.Equal(t, int64(100), guests[0].VMID)
	assert.Equal(t, new(false), guests[0].Template)
	require.NotNil(t, guests[0].UPID)
	info, err := guests[0].UPID.Parse()
	require.NoError(t, err)
	assert.Equal(t, "qmstart", info.Type)
}

func TestKindsTaskAndForm(t *testing.T) {
	c, s := kindsClient(t)
	s.answer(`"UPID:n1:00000001:00000002:60000000:qmcreate:120:root@pam:"`)
	upid, err := c.CreateNodeGuest(t.Context(), kinds.CreateNodeGuestParams{
		Node: "n1", VMID: 120, OnBoot: new(false), Memory: new(int64(1048576)), Tags: []string{"x", "y"},
		SSHKeys: []string{"ssh-ed25519 AAA+b/c= me@host"},
		Net: map[int]kinds.CreateNodeGuestNet{
			0: {Model: "virtio", Bridge: new("vmbr0"), Firewall: new(true), Tag: new(int64(30)), Trunks: []string{"4", "5"}},
			7: {Model: "e1000", MACAddr: new("BC:24:11:00:00:01")},
		},
		Startup: &kinds.CreateNodeGuestStartup{Order: new(int64(3)), Up: new(int64(10))},
	})
	require.NoError(t, err)
	assert.Equal(t, kinds.UPID("UPID:n1:00000001:00000002:60000000:qmcreate:120:root@pam:"), upid)
	got := s.request()
	assert.Equal(t, "POST", got.method)
	assert.Equal(t, "application/x-www-form-urlencoded", got.contentType)
	form := fields(t, got.body)
	assert.Equal(t, "120", form.Get("vmid"))
	assert.Equal(t, "0", form.Get("onboot"))
	assert.Equal(t, "1048576", form.Get("memory"))
	assert.Equal(t, "x,y", form.Get("tags"))
	assert.Equal(t, "ssh-ed25519%20AAA%2Bb%2Fc%3D%20me%40host", form.Get("sshkeys"))
	assert.Equal(t, "order=3,up=10", reorder(form.Get("startup"), "3"))
	net0, err := kinds.ParseCreateNodeGuestNet(form.Get("net0"))
	require.NoError(t, err)
	assert.Equal(t, []string{"4", "5"}, net0.Trunks)
	assert.Equal(t, int64(30), *net0.Tag)
	assert.Contains(t, form.Get("net0"), "trunks=4;5")
	assert.Contains(t, form.Get("net7"), "BC:24:11:00:00:01")
	assert.NotContains(t, form, "node", "it stands in the path")
	assert.NotContains(t, form, "net[n]")
}

// reorder writes the default key out, which may be left out on the wire.
func reorder(text, value string) string {
	if strings.HasPrefix(text, value+",") {
		return "order=" + text
	}
	return text
}

func TestKindsArrayOfOneIsJSON(t *testing.T) {
	c, s := kindsClient(t)
	s.answer(`""`)
	_, err := c.CreateNodeGuest(t.Context(), kinds.CreateNodeGuestParams{Node: "n1", VMID: 120, Args: []string{"one"}, OnBoot: new(true)})
	require.NoError(t, err)
	got := s.request()
	assert.Equal(t, "application/json", got.contentType)
	assert.JSONEq(t, `{"vmid":120,"args":["one"],"onboot":1}`, got.body)
}

func TestKindsNoneAndDelete(t *testing.T) {
	c, s := kindsClient(t)
	s.answer(`null`)
	require.NoError(t, c.UpdateNodeGuestConfig(t.Context(), kinds.UpdateNodeGuestConfigParams{Node: "n1", VMID: 100, Delete: []string{"net1", "ipconfig1"}, Protection: new(true)}))
	got := s.request()
	assert.Equal(t, "PUT", got.method)
	assert.Equal(t, "delete=net1%2Cipconfig1&protection=1", got.body)

	s.answer(`"UPID:n1:00000001:00000002:60000000:qmdestroy:100:root@pam:"`)
	_, err := c.DeleteNodeGuest(t.Context(), kinds.DeleteNodeGuestParams{Node: "n1", VMID: 100, Purge: new(true)})
	require.NoError(t, err)
	got = s.request()
	assert.Equal(t, seen{"DELETE", "/api2/json/nodes/n1/guests/100", "purge=1", "", got.authorization, ""}, got)
}

func TestKindsConfig(t *testing.T) {
	c, s := kindsClient(t)
	const net1 = "virtio=BC:24:11:00:00:02,bridge=vmbr1,later=7"
	s.answer(`{"digest":"d","cores":"4","net1":"` + net1 + `","net12":"e1000","netty":1}`)
	conf, err := c.GetNodeGuestConfig(t.Context(), kinds.GetNodeGuestConfigParams{Node: "n1", VMID: 100})
	require.NoError(t, err)
	assert.Equal(t, new(int64(4)), conf.Cores)
	require.Len(t, conf.Net, 2)
	assert.Equal(t, "virtio", conf.Net[1].Model)
	assert.Equal(t, "BC:24:11:00:00:02", *conf.Net[1].MACAddr)
	assert.Equal(t, map[string]string{"later": "7"}, conf.Net[1].Extra)
	assert.Equal(t, net1, conf.Net[1].String(), "the same text again")
	changed := conf.Net[1]
	changed.Bridge = new("vmbr2")
	assert.Equal(t, "virtio=BC:24:11:00:00:02,bridge=vmbr2,later=7", changed.String())
	assert.Equal(t, map[string]json.RawMessage{"netty": json.RawMessage("1")}, conf.Extra)
}

func TestKindsMapAndRaw(t *testing.T) {
	c, s := kindsClient(t)
	s.answer(`{"/vms/100":{"VM.Audit":1,"VM.Clone":0}}`)
	permissions, err := c.GetPermissions(t.Context())
	require.NoError(t, err)
	assert.Equal(t, map[string]map[string]bool{"/vms/100": {"VM.Audit": true, "VM.Clone": false}}, permissions)
	s.answer(`{"health":{"status":"OK"}}`)
	raw, err := c.GetCeph(t.Context())
	require.NoError(t, err)
	assert.JSONEq(t, `{"health":{"status":"OK"}}`, string(raw))
}

func TestKindsStreams(t *testing.T) {
	c, s := kindsClient(t)
	s.answer(`"UPID:n1:00000001:00000002:60000000:imgcopy::root@pam:"`)
	_, err := c.UploadNode(t.Context(), kinds.UploadNodeParams{Node: "n1", Content: "iso", Filename: "a.iso"}, kinds.Upload{Body: strings.NewReader("test")})
	require.NoError(t, err)
	got := s.request()
	assert.True(t, strings.HasPrefix(got.contentType, "multipart/form-data;"), got.contentType)
	assert.Contains(t, got.body, `name="content"`)
	assert.Contains(t, got.body, `filename="a.iso"`)
	assert.Contains(t, got.body, "\r\n\r\ntest\r\n")

	s.answer("raw:some bytes")
	file, err := c.GetNodeFileRestoreDownload(t.Context(), kinds.GetNodeFileRestoreDownloadParams{Node: "n1", Filepath: "/a b"})
	require.NoError(t, err)
	content, err := io.ReadAll(file)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	assert.Equal(t, "some bytes", string(content))
	assert.Equal(t, "/a b", fields(t, s.request().query).Get("filepath"))

	_, err = c.GetNodeGuestVNCWebSocket(t.Context(), kinds.GetNodeGuestVNCWebSocketParams{Node: "n1", VMID: 100, Port: 5900, VNCTicket: "t"})
	require.Error(t, err, "this server speaks no websocket")
	assert.Equal(t, "/api2/json/nodes/n1/guests/100/vncwebsocket", s.request().path)
}

func TestPathParametersAreChecked(t *testing.T) {
	c, s := kindsClient(t)
	for _, node := range []string{"", ".", ".."} {
		_, err := c.GetNodeStatus(t.Context(), kinds.GetNodeStatusParams{Node: node})
		var bad *kinds.ArgumentError
		require.ErrorAs(t, err, &bad, "%q", node)
	}
	assert.Equal(t, seen{}, s.request(), "nothing was sent")
	s.answer(`{"memory":{"total":1},"loadavg":["0.1"]}`)
	status, err := c.GetNodeStatus(t.Context(), kinds.GetNodeStatusParams{Node: "a b"})
	require.NoError(t, err)
	assert.Equal(t, "/api2/json/nodes/a%20b/status", s.request().path)
	assert.Equal(t, &kinds.NodeStatus{Memory: kinds.NodeStatusMemory{Total: 1}, LoadAvg: []string{"0.1"}}, status)
}

func TestRustKinds(t *testing.T) {
	s := newServer(t)
	c, err := rustkinds.NewClient(s.URL, rustkinds.WithAPIToken("user@pam!ci", "00000000-0000-0000-0000-000000000001"))
	require.NoError(t, err)

	s.answer(`null`)
	require.NoError(t, c.CreateJob(t.Context(), rustkinds.CreateJobParams{
		ID: "job", DryRun: new(true), Targets: []string{"one"}, Modes: []string{"a", "b"},
		Filter: &rustkinds.CreateJobFilter{Mode: "all", Names: []string{}},
		Notify: &rustkinds.CreateJobNotify{GC: new("always")},
	}))
	got := s.request()
	assert.Equal(t, "RUSTKINDSAPIToken=user@pam!ci:00000000-0000-0000-0000-000000000001", got.authorization)
	assert.Equal(t, "application/json", got.contentType)
	assert.JSONEq(t, `{"id":"job","dry-run":true,"targets":["one"],"modes":"a,b","filter":{"mode":"all","names":[]},"notify":"gc=always"}`, got.body)

	require.NoError(t, c.UpdateJob(t.Context(), rustkinds.UpdateJobParams{ID: "job", Delete: []string{"keep"}}))
	assert.JSONEq(t, `{"delete":["keep"]}`, s.request().body)
	assert.Equal(t, "/api2/json/jobs/job", s.request().path)

	s.answer(`[{"id":"a","enabled":false}]`)
	jobs, err := c.ListJobs(t.Context(), rustkinds.ListJobsParams{States: []string{"ok", "failed"}})
	require.NoError(t, err)
	assert.Equal(t, []rustkinds.JobListItem{{ID: "a", Enabled: new(false)}}, jobs)
	assert.Equal(t, url.Values{"states": {"ok", "failed"}}, fields(t, s.request().query))

	s.answer(`"UPID:pbs:00000267:0011E1D7:00000009:6A48CA08:run:job:root@pam:"`)
	upid, err := c.RunJob(t.Context(), rustkinds.RunJobParams{ID: "job"})
	require.NoError(t, err)
	info, err := upid.Parse()
	require.NoError(t, err)
	assert.Equal(t, "job", info.ID)

	s.answer(`[{"subdir":"download"}]`)
	index, err := c.GetFileIndex(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []rustkinds.Subdirectory{{Subdir: "download"}}, index)

	s.answer(`[{"kind":"node","id":"n","uptime":5},{"kind":"disk","id":"d","size":7}]`)
	resources, err := c.ListResources(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []rustkinds.ResourceListItem{{Kind: "node", ID: "n", Uptime: new(int64(5))}, {Kind: "disk", ID: "d", Size: new(int64(7))}}, resources)

	s.answer("raw:log")
	file, err := c.GetFilesDownload(t.Context(), rustkinds.GetFilesDownloadParams{FileName: "f"})
	require.NoError(t, err)
	line, err := bufio.NewReader(file).ReadString('g')
	require.NoError(t, err)
	require.NoError(t, file.Close())
	assert.Equal(t, "log", line)

	s.answer(`null`)
	require.NoError(t, c.UploadFileLog(t.Context(), rustkinds.UploadFileLogParams{Store: "s"}, rustkinds.Upload{Body: bytes.NewReader([]byte("bytes"))}))
	got = s.request()
	assert.Equal(t, seen{"POST", "/api2/json/files/upload-log", "store=s", "application/octet-stream", got.authorization, "bytes"}, got)
}

func TestNamesOnTheWire(t *testing.T) {
	s := newServer(t)
	c, err := names.NewClient(s.URL)
	require.NoError(t, err)
	s.answer(`{"Datastore.Audit":1,"802.1q":"x"}`)
	got, err := c.GetType(t.Context(), names.GetTypeParams{
		Type: new("a"), Map: new("b"), Default: new(int64(1)), Schema: new("c"), X2fa: new(true), CiphersTLS12: new("d"), StringValue: new("e"), ExtraValue: new("f"),
		NUMA: new(true), NUMAByIndex: map[int]string{0: "g"},
	})
	require.NoError(t, err)
	assert.Equal(t, url.Values{
		"type": {"a"}, "map": {"b"}, "default": {"1"}, "$schema": {"c"}, "2fa": {"1"}, "ciphers-tls-1.2": {"d"}, "String": {"e"}, "extra": {"f"}, "numa": {"1"}, "numa0": {"g"},
	}, fields(t, s.request().query))
	assert.Equal(t, &names.Type{DatastoreAudit: new(true), X8021q: new("x")}, got)

	s.answer(`null`)
	require.NoError(t, c.UpdateNodeWindows(t.Context(), names.UpdateNodeWindowsParams{Node: "n", On: true}))
	require.NoError(t, c.DeleteNodeNetwork(t.Context(), names.DeleteNodeNetworkParams{Node: "n"}))
	require.NoError(t, c.DeleteNodesByNodeNetworkByIface(t.Context(), names.DeleteNodesByNodeNetworkByIfaceParams{Node: "n", Iface: "eth0"}))
	assert.Equal(t, "/api2/json/nodes/n/network/eth0", s.request().path)

	require.NoError(t, c.UpdateOdd(t.Context(), names.UpdateOddParams{URLSeq: "5", Pos: new(int64(1))}))
	assert.Equal(t, "/api2/json/odd/5", s.request().path)

	s.answer(`{"client":{"upid":"x"}}`)
	info, err := c.GetError(t.Context())
	require.NoError(t, err)
	assert.Equal(t, &names.ErrorInfo{Client: names.ErrorInfoClient{UPID: "x"}}, info)
}

func TestSectionsAndProse(t *testing.T) {
	s := newServer(t)
	c, err := sections.NewClient(s.URL)
	require.NoError(t, err)
	s.answer(`null`)
	require.NoError(t, c.CreateFabric(t.Context(), sections.CreateFabricParams{ID: "f", Protocol: "ospf", Area: new("0"), Interfaces: []sections.CreateFabricInterface{{Name: new("eth0"), IP: new("10.0.0.1/24")}, {Name: new("eth1")}}}))
	form := fields(t, s.request().body)
	assert.Equal(t, []string{"ip=10.0.0.1/24,name=eth0", "name=eth1"}, form["interfaces"])
	s.answer(`[{"id":"a","limit":5},{"id":"b","limit":"none"}]`)
	fabrics, err := c.ListFabrics(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []sections.FabricListItem{{ID: "a", Limit: json.RawMessage("5")}, {ID: "b", Limit: json.RawMessage(`"none"`)}}, fabrics)

	p, err := prose.NewClient(s.URL)
	require.NoError(t, err)
	s.answer(`{"colour":"red","net":"vmbr0"}`)
	thing, err := p.GetThing(t.Context(), prose.GetThingParams{ID: "t", Verbose: new(false)})
	require.NoError(t, err)
	assert.Equal(t, "red", thing.Colour)
	assert.Equal(t, "vmbr0", thing.Net.Bridge)
}

func TestOverlaid(t *testing.T) {
	s := newServer(t)
	c, err := overlaid.NewClient(s.URL, overlaid.WithAPIToken("user@pam!ci", "00000000-0000-0000-0000-000000000001"))
	require.NoError(t, err)
	s.answer(`5`)
	_, err = c.NextID(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "/api/else/nextid", s.request().path)
	assert.Equal(t, "ElseToken=user@pam!ci:00000000-0000-0000-0000-000000000001", s.request().authorization)

	s.answer(`{"digest":"d","net0":"virtio,bridge=vmbr0"}`)
	conf, err := c.GetMachineConfig(t.Context(), overlaid.GetMachineConfigParams{Node: "n", VMID: 100})
	require.NoError(t, err)
	s.answer(`"UPID:n1:00000001:00000002:60000000:qmcreate:120:root@pam:"`)
	_, err = c.CreateMachine(t.Context(), overlaid.CreateMachineParams{Node: "n", VMID: 101, System: new("l26"), Net: conf.Net}) // one type both ways
	require.NoError(t, err)
	form := fields(t, s.request().body)
	assert.Equal(t, "virtio,bridge=vmbr0", form.Get("net0"))
	assert.Equal(t, "l26", form.Get("ostype"))

	s.answer(`{"health":"fine"}`)
	ceph, err := c.GetCeph(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "fine", *ceph.Health)
}

// lost is a transport whose answers never arrive.
type lost struct{ sent atomic.Int32 }

func (l *lost) RoundTrip(*http.Request) (*http.Response, error) {
	l.sent.Add(1)
	return nil, io.ErrUnexpectedEOF
}

// TestActingReadIsSentOnce calls an operation that the overlay lists under acts, and one
// beside it that only reads.
func TestActingReadIsSentOnce(t *testing.T) {
	var transport lost
	c, err := pbs.NewClient("pbs1", pbs.WithTransport(&transport), pbs.WithRetry(pbs.RetryPolicy{Attempts: 3, MinWait: 1, MaxWait: 1}))
	require.NoError(t, err)
	err = c.DestroyTapeMedia(t.Context(), pbs.DestroyTapeMediaParams{})
	require.ErrorIs(t, err, pbs.ErrNoAnswer)
	assert.False(t, pbs.IsRetryable(err))
	assert.Equal(t, int32(1), transport.sent.Load())
	_, err = c.GetVersion(t.Context())
	require.ErrorIs(t, err, pbs.ErrNoAnswer)
	assert.Equal(t, int32(1+3), transport.sent.Load())
}

func TestErrorsReachTheCaller(t *testing.T) {
	refuse := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"data":null,"errors":{"vmid":"VM 120 already exists\n"},"message":"Parameter verification failed.\n"}`)
	}))
	t.Cleanup(refuse.Close)
	c, err := kinds.NewClient(refuse.URL)
	require.NoError(t, err)
	upid, err := c.CreateNodeGuest(t.Context(), kinds.CreateNodeGuestParams{Node: "n", VMID: 120})
	assert.Empty(t, upid)
	var refused *kinds.Error
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, "VM 120 already exists", refused.Params["vmid"])
	assert.True(t, errors.Is(err, kinds.ErrInvalidParameter))
	assert.True(t, errors.Is(err, kinds.ErrExists))
	conf, err := c.GetNodeGuestConfig(t.Context(), kinds.GetNodeGuestConfigParams{Node: "n", VMID: 120})
	require.Error(t, err)
	assert.Nil(t, conf)
}
