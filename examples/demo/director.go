package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const directorUUID = "5d0a8c3e-demo-4b1f-9a57-1f6e2c9b7d10"

// A director calls the CPI as "bosh create-env" does: one process per call, an
// info call before each other one, and an environment of three variables.
type director struct {
	cpi        string
	configFile string
	home       string
	temp       string
	work       string
	cluster    *cluster
	verbose    bool

	// secrets must show nowhere.
	secrets   []string
	processes int
	model     model
}

const (
	mbusPassword = "demo-mbus-password-canary"
	rootPassword = "$6$demo$root-password-hash-canary"
)

// newDirector writes the CPI's configuration.
func newDirector(cpi, dir string, c *cluster, token apiToken) (*director, error) {
	cpi, err := filepath.Abs(cpi)
	if err != nil {
		return nil, err
	}
	d := &director{
		cpi: cpi, configFile: filepath.Join(dir, "cpi.json"), home: filepath.Join(dir, "home"), temp: filepath.Join(dir, "tmp"), work: filepath.Join(dir, "work"),
		cluster: c, secrets: []string{token.secret, mbusPassword, rootPassword},
	}
	for _, p := range []string{d.home, d.temp, d.work} {
		if err := os.MkdirAll(p, 0o700); err != nil {
			return nil, err
		}
	}
	config, err := json.MarshalIndent(map[string]any{
		"endpoint":    c.endpoint,
		"token":       token.id + "=" + token.secret,
		"fingerprint": c.fingerprint,
		"pool":        poolID,
		"storage":     storageID,
		"agent": map[string]any{
			"mbus":      "https://mbus:" + mbusPassword + "@0.0.0.0:6868",
			"ntp":       []string{"time1.example.com"},
			"blobstore": map[string]any{"provider": "local", "options": map[string]any{"blobstore_path": "/var/vcap/micro_bosh/data/cache"}},
		},
	}, "", "  ")
	if err != nil {
		return nil, err
	}
	return d, os.WriteFile(d.configFile, config, 0o600)
}

// A reply is the CPI's answer to one request.
type reply struct {
	Result json.RawMessage
	Error  *struct {
		Type      string
		Message   string
		OKToRetry bool `json:"ok_to_retry"`
	}
	Log string
}

// ask starts the CPI for one request and checks that a Director would accept its
// answer.
func (d *director) ask(ctx context.Context, method string, apiVersion int, arguments ...any) (*reply, error) {
	if arguments == nil {
		arguments = []any{}
	}
	request, err := json.Marshal(map[string]any{
		"method": method, "arguments": arguments, "api_version": apiVersion,
		"context": map[string]any{"director_uuid": directorUUID, "vm": map[string]any{"stemcell": map[string]any{"api_version": 3}}},
	})
	if err != nil {
		return nil, err
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, d.cpi, "-configFile", d.configFile)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + d.home, "TMPDIR=" + d.temp}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(request), &stdout, &stderr
	d.processes++
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: the CPI program failed: %w: %s", method, err, stderr.String())
	}
	for _, secret := range d.secrets {
		if strings.Contains(stdout.String()+stderr.String(), secret) {
			return nil, fmt.Errorf("%s: the CPI prints a secret", method)
		}
	}
	if stderr.Len() > 8<<10 {
		return nil, fmt.Errorf("%s: the CPI writes %d bytes to standard error", method, stderr.Len())
	}
	r, err := parseReply(stdout.Bytes())
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", method, err, stdout.String())
	}
	if d.verbose {
		for line := range strings.Lines(strings.TrimSpace(r.Log + "\n" + stderr.String())) {
			fmt.Println("      |", strings.TrimRight(line, "\n"))
		}
	}
	return r, nil
}

// parseReply holds an answer to the Director's schema.
func parseReply(out []byte) (*reply, error) {
	dec := json.NewDecoder(bytes.NewReader(out))
	var keys map[string]json.RawMessage
	if err := dec.Decode(&keys); err != nil {
		return nil, fmt.Errorf("the answer is not JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the answer is more than one JSON document")
	}
	for _, key := range []string{"result", "error", "log"} {
		if keys[key] == nil {
			return nil, fmt.Errorf("the answer has no %q", key)
		}
	}
	if string(keys["log"]) == "null" {
		return nil, errors.New("the log is no string")
	}
	r := &reply{}
	if err := json.Unmarshal(out, r); err != nil {
		return nil, err
	}
	if r.Error != nil && !strings.HasPrefix(r.Error.Type, "Bosh::Clouds::") {
		return nil, fmt.Errorf("the error type %q is none of the Director's", r.Error.Type)
	}
	return r, nil
}

// call makes one call the way the command line does, stores its result in out,
// and then asks the cluster whether it agrees. The step is one line.
func (d *director) call(ctx context.Context, out any, expect func(*model), method string, arguments ...any) error {
	info, err := d.ask(ctx, "info", 1)
	if err != nil {
		return err
	}
	var about struct {
		APIVersion      int      `json:"api_version"`
		StemcellFormats []string `json:"stemcell_formats"`
	}
	if info.Error != nil || json.Unmarshal(info.Result, &about) != nil || about.APIVersion < 2 || len(about.StemcellFormats) == 0 {
		return fmt.Errorf("info: the answer is not usable: %s", info.Result)
	}

	began := time.Now()
	r, err := d.ask(ctx, method, 2, arguments...)
	took := time.Since(began)
	if err != nil {
		return err
	}
	if r.Error != nil {
		return fmt.Errorf("CPI error '%s' with message '%s' in '%s' CPI method", r.Error.Type, r.Error.Message, method)
	}
	if out != nil {
		if err := json.Unmarshal(r.Result, out); err != nil {
			return fmt.Errorf("%s: the result is of another type: %s", method, r.Result)
		}
	}
	expect(&d.model)
	state, err := d.model.verify(ctx, d.cluster)
	if err != nil {
		return fmt.Errorf("%s: the cluster does not agree: %w", method, err)
	}
	fmt.Printf("  %7.0f ms  %-18s %s\n", float64(took.Microseconds())/1000, method, state)
	return nil
}

// checkLeftovers looks for files that the CPI should have removed: notes on what
// no longer exists, and files with secrets.
func (d *director) checkLeftovers() error {
	return filepath.WalkDir(filepath.Dir(d.configFile), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path == d.configFile {
			return err
		}
		for _, kind := range []string{"vm-", "disk-", "stemcell-"} {
			if strings.HasPrefix(entry.Name(), kind) {
				return fmt.Errorf("the CPI left %s behind", path)
			}
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, secret := range d.secrets {
			if bytes.Contains(data, []byte(secret)) {
				return fmt.Errorf("the CPI left a secret behind in %s", path)
			}
		}
		return nil
	})
}
