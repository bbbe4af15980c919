package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/proxkit/proxkit/cpi"
)

const (
	poolID    = "bosh"
	storageID = "bosh-data"
	userID    = "bosh-cpi@pve"
)

// A cluster is the simulator and a connection to it as root, which shares no code
// with the CPI: what the CPI says is checked through it.
type cluster struct {
	endpoint    string
	fingerprint string
	rootToken   string
	stateDir    string
	nodes       []string

	process *exec.Cmd
	stderr  *bytes.Buffer
	http    *http.Client
}

type apiToken struct{ id, secret string }

// startCluster starts the simulator and waits until it has said where it is.
func startCluster(ctx context.Context, sim, stateDir string) (*cluster, error) {
	c := &cluster{stateDir: stateDir, stderr: &bytes.Buffer{}}
	c.process = exec.Command(sim, "-q", "-listen", "127.0.0.1:0", "-state", stateDir, "-nodes", "pve1,pve2,pve3")
	c.process.Stderr = c.stderr
	stdout, err := c.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.process.Start(); err != nil {
		return nil, fmt.Errorf("start the simulator: %w (make build makes it)", err)
	}
	if err := c.readGreeting(ctx, stdout); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	c.http = &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{
		// The certificate is nobody's but the simulator's; it is checked by its
		// fingerprint instead.
		InsecureSkipVerify: true,
		VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
			if sum := sha256.Sum256(raw[0]); hex.EncodeToString(sum[:]) != plainHex(c.fingerprint) {
				return errors.New("the server's certificate is not the simulator's")
			}
			return nil
		},
	}}}
	var nodes []struct{ Node, Status string }
	if err := c.get(ctx, "/nodes", &nodes); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	for _, n := range nodes {
		c.nodes = append(c.nodes, n.Node)
	}
	return c, nil
}

func plainHex(s string) string { return strings.ToLower(strings.ReplaceAll(s, ":", "")) }

// readGreeting takes endpoint, token and fingerprint from what the simulator
// prints when it is ready.
func (c *cluster) readGreeting(ctx context.Context, stdout io.Reader) error {
	endpoint := regexp.MustCompile(`https://[^\s"/]+`)
	token := regexp.MustCompile(`[^\s"=]+@[^\s"=]+![^\s"=]+=[^\s"]+`)
	fingerprint := regexp.MustCompile(`(?:[0-9A-Fa-f]{2}:){31}[0-9A-Fa-f]{2}|\b[0-9A-Fa-f]{64}\b`)
	ready := make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			line := lines.Text()
			if m := endpoint.FindString(line); m != "" && c.endpoint == "" {
				c.endpoint = m
			}
			if m := token.FindString(line); m != "" && c.rootToken == "" {
				c.rootToken = m
			}
			if m := fingerprint.FindString(line); m != "" && c.fingerprint == "" {
				c.fingerprint = m
			}
			if c.endpoint != "" && c.rootToken != "" && c.fingerprint != "" {
				ready <- nil
				// The simulator must not block on a full pipe later.
				_, _ = io.Copy(io.Discard, stdout)
				return
			}
		}
		ready <- errors.New("the simulator ended before it said where it is")
	}()
	timer := time.NewTimer(20 * time.Second)
	defer timer.Stop()
	select {
	case err := <-ready:
		return err
	case <-timer.C:
		return errors.New("the simulator does not say where it is")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stop ends the simulator and reports when it ended badly.
func (c *cluster) stop() error {
	if err := c.process.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	killer := time.AfterFunc(10*time.Second, func() { _ = c.process.Process.Kill() })
	defer killer.Stop()
	if err := c.process.Wait(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGTERM {
				return nil
			}
		}
		return fmt.Errorf("the simulator: %w: %s", err, strings.TrimSpace(c.stderr.String()))
	}
	return nil
}

func (c *cluster) get(ctx context.Context, path string, out any) error {
	return c.do(ctx, http.MethodGet, path, nil, out)
}

func (c *cluster) post(ctx context.Context, path string, form url.Values, out any) error {
	return c.do(ctx, http.MethodPost, path, form, out)
}

func (c *cluster) do(ctx context.Context, method, path string, form url.Values, out any) error {
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, method, c.endpoint+"/api2/json"+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "PVEAPIToken="+c.rootToken)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, bytes.TrimSpace(data))
	}
	if out == nil {
		return nil
	}
	var envelope struct{ Data json.RawMessage }
	if err := json.Unmarshal(data, &envelope); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if err := json.Unmarshal(envelope.Data, out); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// prepare makes what an administrator would make for BOSH: a storage, a resource
// pool, and a token that may do what the CPI says it needs and nothing more, on
// the pool, the storage and the bridge.
func (c *cluster) prepare(ctx context.Context) (apiToken, error) {
	type step struct {
		method, path string
		form         url.Values
	}
	steps := []step{
		{http.MethodPost, "/storage", url.Values{
			"storage": {storageID}, "type": {"dir"}, "path": {"/srv/bosh"}, "shared": {"1"}, "content": {"images,iso,import"},
		}},
		{http.MethodPost, "/pools", url.Values{"poolid": {poolID}, "comment": {"everything BOSH makes"}}},
		{http.MethodPost, "/access/users", url.Values{"userid": {userID}}},
	}
	for i, p := range cpi.Privileges(cpi.PrivilegeScope{
		Pool: poolID, ImageStorages: []string{storageID}, ISOStorage: storageID, ImportStorage: storageID, Bridges: []string{"vmbr0"},
	}) {
		role := fmt.Sprintf("Bosh%d", i+1)
		steps = append(steps,
			step{http.MethodPost, "/access/roles", url.Values{"roleid": {role}, "privs": {strings.Join(p.Privileges, ",")}}},
			step{http.MethodPut, "/access/acl", url.Values{"path": {p.Path}, "users": {userID}, "roles": {role}}})
	}
	for _, s := range steps {
		if err := c.do(ctx, s.method, s.path, s.form, nil); err != nil {
			return apiToken{}, err
		}
	}
	var made struct {
		ID    string `json:"full-tokenid"`
		Value string
	}
	if err := c.post(ctx, "/access/users/"+userID+"/token/demo", url.Values{"privsep": {"0"}}, &made); err != nil {
		return apiToken{}, err
	}
	if made.ID == "" || made.Value == "" {
		return apiToken{}, errors.New("the cluster made a token without a name or a secret")
	}
	return apiToken{made.ID, made.Value}, nil
}
