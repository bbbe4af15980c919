package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/proxkit/proxkit/cpi/cpitest"
)

const mbusPassword = "demo-mbus-password-canary"

// options are those of a check of the CPI on the simulator: what is played is
// "bosh create-env", and after each call the cluster is asked whether it agrees.
func options(program, dir string, c *cluster, token apiToken) (cpitest.Options, error) {
	program, err := filepath.Abs(program)
	if err != nil {
		return cpitest.Options{}, err
	}
	p := cpitest.Program{Path: program, Home: filepath.Join(dir, "home"), Temp: filepath.Join(dir, "tmp")}
	for _, d := range []string{p.Home, p.Temp} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return cpitest.Options{}, err
		}
	}
	file := filepath.Join(dir, "cpi.json")
	p.Args = []string{"-configFile", file}
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
		return cpitest.Options{}, err
	}
	return cpitest.Options{
		CPI: p,
		Cluster: cpitest.Cluster{
			Endpoint: c.endpoint, Token: c.rootToken, Fingerprint: c.fingerprint, Exclusive: true, Pool: poolID, ReadVolume: c.readCD,
		},
		Bridge: "vmbr0", Secrets: []string{token.secret, mbusPassword}, Dirs: []string{p.Home, p.Temp},
		Only: []string{"create-env", "nothing-left"}, Repeats: 1, FailFast: true, Verbose: true,
	}, os.WriteFile(file, config, 0o600)
}

// readCD finds a CD among the files that the simulator keeps, which have names of
// its own: the settings on a CD name the VM that the CD is named for.
func (c *cluster) readCD(_ context.Context, volume string) ([]byte, error) {
	vm := strings.TrimSuffix(path.Base(volume), ".iso")
	var found []byte
	err := filepath.WalkDir(c.stateDir, func(file string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(file)
		if err == nil && len(data) > 0x8006 && string(data[0x8001:0x8006]) == "CD001" && bytes.Contains(data, []byte(`"`+vm+`"`)) {
			found = data
			return fs.SkipAll
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err == nil && found == nil {
		err = fmt.Errorf("the simulator keeps no CD for %s", vm)
	}
	return found, err
}

// follow prints steps and calls as they happen.
func follow(verbose bool) func(event any) {
	return func(event any) {
		switch e := event.(type) {
		case cpitest.Step:
			fmt.Println(e.Title)
		case cpitest.CallReport:
			fmt.Println(" ", e)
			if verbose && e.Log != "" {
				for line := range strings.Lines(e.Log) {
					fmt.Println("      |", strings.TrimRight(line, "\n"))
				}
			}
		}
	}
}
