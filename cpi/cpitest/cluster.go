package cpitest

import (
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
	"strings"
	"time"
)

// A Cluster is the Proxmox VE cluster that the CPI works on, as an administrator
// sees it. The suite has a connection of its own to it and uses none of the
// CPI's code, so that it sees what is there and not what the CPI believes.
type Cluster struct {
	// Endpoint is the address of the API, "https://pve1.example.com:8006".
	Endpoint string
	// Token is an API token, "user@realm!id=secret". It must see all guests and
	// storages, and be able to delete what the CPI makes. It is not the CPI's.
	Token string
	// The server's certificate is checked by Fingerprint, a SHA-256 in
	// hexadecimal digits, or by RootCAs, or by the system's authorities.
	Fingerprint string
	RootCAs     *x509.CertPool

	// ReadVolume returns the bytes of a volume, which the API does not offer. The
	// settings of the agent are checked through it; without it that part is
	// skipped, and the report says so.
	ReadVolume func(ctx context.Context, volume string) ([]byte, error)

	// Switch turns a node off and on again, which only a simulated cluster can. It
	// is for what a CPI says when it cannot know; without it that is skipped.
	Switch func(node string, on bool) error

	// Exclusive says that nobody else uses the cluster: everything that appears or
	// changes is the CPI's doing, and what is left in the end is removed. Never set
	// it for a cluster with guests that anybody needs. Without it only guests in Pool
	// and guests that carry the mark of the run are looked at, of the volumes
	// only theirs and those on Storages, and what happens to other guests is
	// not the CPI's fault.
	Exclusive bool
	// Pool is the resource pool that the CPI puts its guests in; empty for none.
	Pool string
	// Storages are those that nobody but the CPI writes ISOs and images to.
	Storages []string
}

// An api is the connection.
type api struct {
	base, token string
	http        *http.Client
}

func (c Cluster) connect() (*api, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "https" {
		return nil, fmt.Errorf("the cluster's endpoint %q is no address such as https://pve1.example.com:8006", c.Endpoint)
	}
	if id, secret, ok := strings.Cut(c.Token, "="); !ok || !strings.Contains(id, "!") || secret == "" {
		return nil, errors.New(`the cluster's token must be of the form "user@realm!id=secret"`)
	}
	// The server ends a connection after many a call, so that there are a lot of
	// handshakes.
	conf := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.RootCAs, ClientSessionCache: tls.NewLRUClientSessionCache(0)}
	if c.Fingerprint != "" {
		want := strings.ToLower(strings.ReplaceAll(c.Fingerprint, ":", ""))
		if raw, err := hex.DecodeString(want); err != nil || len(raw) != sha256.Size {
			return nil, errors.New("the cluster's fingerprint must be a SHA-256: 64 hexadecimal digits, with or without colons")
		}
		// The certificate is nobody's but this cluster's; its fingerprint is
		// checked instead.
		conf.InsecureSkipVerify = true
		conf.VerifyConnection = func(state tls.ConnectionState) error {
			if sum := sha256.Sum256(state.PeerCertificates[0].Raw); hex.EncodeToString(sum[:]) != want {
				return errors.New("the server's certificate has another fingerprint")
			}
			return nil
		}
	}
	return &api{
		base: strings.TrimRight(c.Endpoint, "/") + "/api2/json", token: c.Token,
		// The server drops a connection that is idle for five seconds.
		http: &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{TLSClientConfig: conf, IdleConnTimeout: 4 * time.Second, MaxIdleConnsPerHost: 16}},
	}, nil
}

func (a *api) close() { a.http.CloseIdleConnections() }

// An apiError is a refusal.
type apiError struct {
	method, path string
	status       int
	text         string
}

// Error implements error.
func (e *apiError) Error() string {
	return fmt.Sprintf("%s %s: %d %s", e.method, e.path, e.status, e.text)
}

func (a *api) get(ctx context.Context, path string, out any) error {
	return a.do(ctx, http.MethodGet, path, nil, out)
}

func (a *api) do(ctx context.Context, method, path string, form url.Values, out any) error {
	target := a.base + path
	var body io.Reader
	switch {
	case form == nil:
	case method == http.MethodGet, method == http.MethodDelete:
		target += "?" + form.Encode()
	default:
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "PVEAPIToken="+a.token)
	if body != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if resp.StatusCode != http.StatusOK {
		// The reason phrase says more than the body.
		return &apiError{method, path, resp.StatusCode, strings.TrimSpace(resp.Status[min(len(resp.Status), 4):] + " " + string(bytes.TrimSpace(data)))}
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

// perform starts a task and waits until it has ended.
func (a *api) perform(ctx context.Context, method, path string, form url.Values) error {
	var upid string
	if err := a.do(ctx, method, path, form, &upid); err != nil {
		return err
	}
	parts := strings.Split(upid, ":")
	if len(parts) < 2 || parts[0] != "UPID" {
		return nil
	}
	status := fmt.Sprintf("/nodes/%s/tasks/%s/status", url.PathEscape(parts[1]), url.PathEscape(upid))
	for {
		var s struct{ Status, ExitStatus string }
		if err := a.get(ctx, status, &s); err != nil {
			return err
		}
		if s.Status == "stopped" {
			if s.ExitStatus != "OK" && !strings.HasPrefix(s.ExitStatus, "WARNINGS") {
				return fmt.Errorf("%s %s: the task ended with: %s", method, path, s.ExitStatus)
			}
			return nil
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
