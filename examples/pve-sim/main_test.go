package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/proxkit/proxkit/cpi"
	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// serve runs the program until the test ends it.
func serve(t *testing.T, args ...string) (out *bufio.Reader, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := run(ctx, args, w, io.Discard)
		w.CloseWithError(err)
		done <- err
	}()
	return bufio.NewReader(r), func() error {
		cancel()
		return <-done
	}
}

func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	s, err := r.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(s)
}

func TestServe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	seed := filepath.Join(dir, "seed.json")
	require.NoError(t, os.WriteFile(seed, []byte(`{
		"storages": {"thin": {"type": "lvmthin", "nodes": ["b"]}},
		"pools": ["bosh"], "roles": {"CPI": ["VM.Audit", "Pool.Audit"]},
		"tokens": {"bosh@pve!cpi": {"secret": "s3cret"}},
		"acl": [{"path": "/pool/bosh", "who": "bosh@pve", "role": "CPI"}],
		"vms": {"100": {"pool": "bosh", "config": {"name": "one"}}}
	}`), 0o600))
	state := filepath.Join(dir, "state")
	out, stop := serve(t, "-state", state, "-nodes", "a,b", "-seed", seed)
	endpoint, token, print := line(t, out), line(t, out), line(t, out)
	assert.Regexp(t, `^https://127\.0\.0\.1:\d+$`, endpoint)
	assert.Regexp(t, `^root@pam!pvetest=[0-9a-f-]{36}$`, token)
	assert.Regexp(t, `^([0-9A-F]{2}:){31}[0-9A-F]{2}$`, print)

	ca, err := os.ReadFile(filepath.Join(state, "ca.pem"))
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(ca))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(t.Context(), "GET", endpoint+"/api2/json/cluster/resources?type=vm", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "PVEAPIToken=bosh@pve!cpi=s3cret")
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	var got struct{ Data []struct{ Name string } }
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&got))
	require.Len(t, got.Data, 1)
	assert.Equal(t, "one", got.Data[0].Name)
	require.NoError(t, stop())

	out, stop = serve(t, "-state", state, "-json", "-seed", seed)
	var a announcement
	require.NoError(t, json.Unmarshal([]byte(line(t, out)), &a))
	assert.Equal(t, token, a.Token, "the cluster is the same")
	assert.Equal(t, print, a.Fingerprint)
	require.NoError(t, stop())
}

func TestBadArguments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	for name, tc := range map[string]struct {
		args  []string
		want  string
		usage bool
	}{
		"argument":         {[]string{"x"}, `unexpected argument "x"`, true},
		"flag":             {[]string{"-nodez", "a"}, "nodez", true},
		"value":            {[]string{"-workers", "many"}, "many", true},
		"workers":          {[]string{"-workers", "-3"}, "-workers -3", true},
		"task time":        {[]string{"-task-time", "-5s"}, "-task-time -5s", true},
		"recycle":          {[]string{"-recycle", "4"}, "-recycle needs -workers", true},
		"negative recycle": {[]string{"-workers", "1", "-recycle", "-4"}, "-recycle -4", true},
		"node":             {[]string{"-nodes", "a_b"}, `"a_b" is no node name`, false},
		"address":          {[]string{"-listen", "x"}, "listen address", false},
		"no seed":          {[]string{"-seed", filepath.Join(dir, "none")}, "none", false},
		"key":              {[]string{"-seed", write("key", "{\n  \"pool\": []\n}")}, `key:2:3: no key "pool" here; did you mean "pools"?`, false},
		"deep key": {
			[]string{"-seed", write("deep", `{"vms": {"100": {"confg": {"name": "x"}}}}`)},
			`deep:1:18: no key "confg" here; did you mean "config"?`, false,
		},
		"case":     {[]string{"-seed", write("case", `{"storages": {"x1": {"Type": "dir"}}}`)}, `no key "Type" here; did you mean "type"?`, false},
		"syntax":   {[]string{"-seed", write("syntax", "{\n \"pools\": [,]}")}, "syntax:2:12: invalid character ','", false},
		"cut":      {[]string{"-seed", write("cut", `{"pools": [`)}, "cut:1:12: it ends too early", false},
		"trailing": {[]string{"-seed", write("trailing", `{} {}`)}, "something after the end", false},
		"type":     {[]string{"-seed", write("type", `{"pools": ["a", 7]}`)}, "type:1:17", false},
		"sense":    {[]string{"-seed", write("sense", `{"roles": {"R": ["VM.Aduit"]}}`)}, `did you mean "VM.Audit"?`, false},
		"token":    {[]string{"-seed", write("token", `{"tokens": {"a@pve!t0": {}}}`)}, "no secret", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := run(t.Context(), tc.args, io.Discard, io.Discard)
			require.ErrorContains(t, err, tc.want)
			_, usage := errors.AsType[usageError](err)
			assert.Equal(t, tc.usage, usage)
		})
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	var help bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-h"}, &help, io.Discard))
	assert.Contains(t, help.String(), "-state")
	// The example of a seed is one.
	text := help.String()
	text = text[strings.Index(text, "\n  {\n"):]
	text = text[:strings.Index(text, "\n  }\n")+len("\n  }\n")]
	file := filepath.Join(t.TempDir(), "seed.json")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	out, stop := serve(t, "-nodes", "pve1,pve2", "-seed", file, "-q")
	line(t, out)
	require.NoError(t, stop())
}

// TestBadSeed holds that a seed that fails leaves no cluster that a later start
// would take for a whole one.
func TestBadSeed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "seed.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"pools": ["a"], "options": {"nope": "1"}}`), 0o600))
	state := filepath.Join(dir, "state")
	require.ErrorContains(t, run(t.Context(), []string{"-state", state, "-seed", file}, io.Discard, io.Discard), "nope")
	require.NoError(t, os.WriteFile(file, []byte(`{"pools": ["b"]}`), 0o600))
	out, stop := serve(t, "-state", state, "-seed", file)
	c := connect(t, line(t, out), line(t, out))
	assert.Equal(t, 500, c.do("GET", "/pools/a", nil, nil))
	assert.Equal(t, 200, c.do("GET", "/pools/b", nil, nil))
	require.NoError(t, stop())
}

// TestBOSH lets the CPI itself work on what -bosh makes.
func TestBOSH(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state")
	out, stop := serve(t, "-bosh", "-state", state, "-nodes", "pve1,pve2", "-q")
	for range 3 {
		line(t, out)
	}
	token, config := line(t, out), line(t, out)
	assert.Regexp(t, `^bosh-cpi@pve!cpi=[0-9a-f-]{36}$`, token)
	kept, err := os.ReadFile(filepath.Join(state, "cpi.json"))
	require.NoError(t, err)
	assert.Equal(t, config, strings.TrimSpace(string(kept)))
	conf, err := cpi.ParseConfig(kept, map[string]json.RawMessage{"lock_dir": json.RawMessage(strconv.Quote(t.TempDir()))})
	require.NoError(t, err)
	c, err := cpi.New(conf, cpi.Options{Log: &rpc.Log{}})
	require.NoError(t, err)

	image := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(image, make([]byte, 1<<20), 0o600))
	stemcell, err := c.CreateStemcell(t.Context(), image, json.RawMessage(`{"disk_format": "raw"}`), nil)
	require.NoError(t, err)
	disk, err := c.CreateDisk(t.Context(), 1024, json.RawMessage(`{}`), "")
	require.NoError(t, err)
	require.NoError(t, c.DeleteDisk(t.Context(), disk))
	require.NoError(t, c.DeleteStemcell(t.Context(), stemcell))
	require.NoError(t, stop())

	out, stop = serve(t, "-bosh", "-state", state, "-json")
	var a announcement
	require.NoError(t, json.Unmarshal([]byte(line(t, out)), &a))
	assert.Equal(t, token, a.CPI.Token, "the token stays")
	require.NoError(t, stop())
}

// TestMain lets the test's binary be the program.
func TestMain(m *testing.M) {
	if os.Getenv("PVE_SIM_MAIN") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// start runs the program in a process of its own.
func start(t *testing.T, args ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "PVE_SIM_MAIN=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, bufio.NewReader(out)
}

func TestExitStatus(t *testing.T) {
	t.Parallel()
	for want, args := range map[int][]string{0: {"-h"}, 1: {"-nodes", "a_b"}, 2: {"-nope"}} {
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), "PVE_SIM_MAIN=1")
		_ = cmd.Run()
		assert.Equal(t, want, cmd.ProcessState.ExitCode(), args)
	}
}

// TestKilled kills the program while clients work, again and again: what any of
// them was told is there afterwards.
func TestKilled(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state")
	var (
		mu   sync.Mutex
		told []string
	)
	for round := range 3 {
		cmd, out := start(t, "-state", state, "-q")
		c := connect(t, line(t, out), line(t, out))
		var wg sync.WaitGroup
		var enough atomic.Int32
		for worker := range 4 {
			wg.Go(func() {
				for i := 0; ; i++ {
					id := fmt.Sprintf("r%d-w%d-%d", round, worker, i)
					if c.do("POST", "/pools", url.Values{"poolid": {id}}, nil) != 200 {
						return
					}
					mu.Lock()
					told = append(told, id)
					mu.Unlock()
					enough.Add(1)
				}
			})
		}
		require.Eventually(t, func() bool { return enough.Load() > 20 }, 30*time.Second, time.Millisecond)
		upload := c.upload("iso", fmt.Sprintf("r%d.iso", round), "bytes that stay")
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		wg.Wait()
		require.Equal(t, 200, upload)
	}
	_, out := start(t, "-state", state, "-q")
	c := connect(t, line(t, out), line(t, out))
	var pools []struct{ PoolID string }
	require.Equal(t, 200, c.do("GET", "/pools", nil, &pools))
	there := map[string]bool{}
	for _, p := range pools {
		there[p.PoolID] = true
	}
	for _, id := range told {
		assert.True(t, there[id], id)
	}
	assert.LessOrEqual(t, len(pools), len(told)+3*4, "no more than the requests that were on their way")
	var content []struct{ VolID string }
	require.Equal(t, 200, c.do("GET", "/nodes/pve1/storage/local/content?content=iso", nil, &content))
	assert.Len(t, content, 3)
	blobs, err := os.ReadDir(filepath.Join(state, "blobs"))
	require.NoError(t, err)
	assert.Len(t, blobs, 3)
	left, err := filepath.Glob(filepath.Join(state, "uploads", "*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

// A client speaks plain HTTP with the program.
type client struct {
	t               *testing.T
	endpoint, token string
	http            *http.Client
}

func connect(t *testing.T, endpoint, token string) *client {
	t.Helper()
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(tr.CloseIdleConnections)
	return &client{t, endpoint, token, &http.Client{Transport: tr}}
}

// do returns the status of an answer, 0 when there was none.
func (c *client) do(method, path string, form url.Values, out any) int {
	return c.send(method, path, "application/x-www-form-urlencoded", strings.NewReader(form.Encode()), out)
}

func (c *client) upload(content, name, data string) int {
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	_ = m.WriteField("content", content)
	f, err := m.CreateFormFile("filename", name)
	require.NoError(c.t, err)
	_, _ = io.WriteString(f, data)
	require.NoError(c.t, m.Close())
	return c.send("POST", "/nodes/pve1/storage/local/upload", m.FormDataContentType(), bytes.NewReader(b.Bytes()), nil)
}

func (c *client) send(method, path, kind string, body io.Reader, out any) int {
	req, err := http.NewRequest(method, c.endpoint+"/api2/json"+path, body)
	if err != nil {
		return 0
	}
	if req.ContentLength == 0 {
		req.Body = nil
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("Authorization", "PVEAPIToken="+c.token)
	resp, err := c.http.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	envelope := struct{ Data any }{out}
	if err := json.NewDecoder(resp.Body).Decode(&envelope); err != nil {
		return 0
	}
	return resp.StatusCode
}
