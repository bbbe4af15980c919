package cpi_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi"
	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve"
)

// tasklessTransport has one kind of request answered as if it had begun no task.
type tasklessTransport struct {
	http.RoundTripper
	method, suffix string
	// done says that the request takes effect all the same.
	done bool
}

func (n *tasklessTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != n.method || !strings.HasSuffix(r.URL.Path, n.suffix) || strings.Contains(r.URL.Path, "/storage/") {
		return n.RoundTripper.RoundTrip(r)
	}
	const body = `{"data":null}`
	resp := &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}, "Content-Length": {strconv.Itoa(len(body))}},
	}
	if n.done {
		var err error
		if resp, err = n.RoundTripper.RoundTrip(r); err != nil || resp.StatusCode != http.StatusOK {
			return resp, err
		}
		resp.Body.Close()
		resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	} else if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		r.Body.Close()
	}
	resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	return resp, nil
}

// An answer that names no task says nothing about whether anything was done: the
// guest does.
func TestAnswersWithoutATask(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, method, suffix string
		call                 func(c *cpi.CPI, t *testing.T, stemcell rpc.StemcellCID, vm rpc.VMCID) error
		// holds reports whether what a success promises is there.
		holds func(b *bed, vm rpc.VMCID) bool
	}{
		{"clone", http.MethodPost, "/clone", createVM, allRun},
		{"start", http.MethodPost, "/status/start", createVM, allRun},
		{"create", http.MethodPost, "/qemu", createDisk, nil},
		{"stop", http.MethodPost, "/status/stop", deleteVM, isGone},
		{"destroy", http.MethodDelete, "/qemu/101", deleteVM, isGone},
	} {
		for name, done := range map[string]bool{"that is done": true, "that is not done": false} {
			t.Run(tc.name+" "+name, func(t *testing.T) {
				t.Parallel()
				b := newBed(t)
				stemcell := b.stemcell()
				vm, id := b.vm(stemcell)
				require.Equal(t, 101, id)
				before, _ := b.made()
				transport := http.DefaultTransport.(*http.Transport).Clone()
				transport.TLSClientConfig.RootCAs = b.srv.CertPool()
				client, err := pve.NewClient(b.cfg.Endpoints[0], pve.WithAPIToken(tokenID, b.secret),
					pve.WithTransport(&tasklessTransport{RoundTripper: transport, method: tc.method, suffix: tc.suffix, done: done}))
				require.NoError(t, err)
				c, err := cpi.New(b.cfg, cpi.Options{Log: b.log, DirectorUUID: "dir-a", Client: client})
				require.NoError(t, err)
				c.SetSettleTime(300 * time.Millisecond)

				err = tc.call(c, t, stemcell, vm)

				if !done {
					require.ErrorContains(t, err, "without naming the task")
					guests, _ := b.made()
					assert.Equal(t, before, guests)
					return
				}
				require.NoError(t, err)
				if tc.holds != nil {
					assert.True(t, tc.holds(b, vm))
				}
			})
		}
	}
}

func createVM(c *cpi.CPI, t *testing.T, stemcell rpc.StemcellCID, _ rpc.VMCID) error {
	_, _, err := c.CreateVM(t.Context(), order(stemcell, "agent-2", smallVM))
	return err
}

func createDisk(c *cpi.CPI, t *testing.T, _ rpc.StemcellCID, vm rpc.VMCID) error {
	_, err := c.CreateDisk(t.Context(), 1024, raw(`{}`), vm)
	return err
}

func deleteVM(c *cpi.CPI, t *testing.T, _ rpc.StemcellCID, vm rpc.VMCID) error {
	return c.DeleteVM(t.Context(), vm)
}

func allRun(b *bed, _ rpc.VMCID) bool {
	for _, id := range b.srv.VMIDs() {
		if g := b.guest(id); g.Config["template"] != "1" && !g.Running {
			return false
		}
	}
	return len(b.srv.VMIDs()) == 3
}

func isGone(b *bed, _ rpc.VMCID) bool {
	return len(b.srv.VMIDs()) == 1
}
