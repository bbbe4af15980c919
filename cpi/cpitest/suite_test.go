package cpitest_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi"
	"github.com/proxkit/proxkit/cpi/cpitest"
	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve"
)

// A bed is a simulated cluster and the real CPI on it, which reads its
// configuration from a file as it does in production.
type bed struct {
	counters
	sim    *cpitest.Simulation
	config string
	opts   cpitest.Options
}

const (
	mbusSecret = "mbus-password-canary"
	blobSecret = "blobstore-canary/with+signs"
)

const configText = `{
  "endpoint": "${ENDPOINT}",
  "token_id": "${TOKEN_ID}",
  "token_secret": "${TOKEN_SECRET}",
  "fingerprint": "${FINGERPRINT}",
  "pool": "${POOL}",
  "storage": "${STORAGE}",
  "iso_storage": "${FILE_STORAGE}",
  "import_storage": "${FILE_STORAGE}",
  "bridge": "${BRIDGE}",
  "lock_dir": "${LOCKS}",
  "agent": {
    "mbus": "https://mbus:` + mbusSecret + `@0.0.0.0:6868",
    "blobstore": {"provider": "local", "options": {"password": "` + blobSecret + `"}}
  }
}`

func newBed(t testing.TB, storage string) *bed {
	t.Helper()
	sim, err := cpitest.Simulate(storage)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sim.Close()) })
	dir := t.TempDir()
	values := sim.Values()
	values["LOCKS"] = filepath.Join(dir, "locks")
	text, err := cpitest.Expand([]byte(configText), values)
	require.NoError(t, err)
	b := &bed{sim: sim, config: filepath.Join(dir, "cpi.json")}
	require.NoError(t, os.WriteFile(b.config, text, 0o600))
	var properties map[string]any
	require.NoError(t, json.Unmarshal(text, &properties))
	b.opts = cpitest.Options{
		Bare: cpitest.Handler(cpi.Factory("")), Properties: properties,
		CPI:     cpitest.Handler(cpi.Factory(b.config)),
		Cluster: sim.Cluster(),
		Bridge:  "vmbr0",
		Secrets: []string{sim.Secret(), mbusSecret, blobSecret},
		Dirs:    []string{values["LOCKS"]},
	}
	return b
}

// open is a factory like cpi.Factory whose CPIs share a connection, which makes
// many calls a good deal faster than processes of their own are.
func (b *bed) open(t testing.TB) rpc.Factory {
	t.Helper()
	cfg, err := cpi.LoadConfig(b.config, nil)
	require.NoError(t, err)
	client, err := pve.NewClient(cfg.Endpoints[0], pve.WithAPIToken(cfg.TokenID, cfg.TokenSecret), pve.WithRootCAs(b.sim.CertPool()))
	require.NoError(t, err)
	return func(_ context.Context, call *rpc.Call) (rpc.Handler, error) {
		if call.Method == "info" {
			return &cpi.CPI{}, nil
		}
		call.Secret(cfg.Secrets()...)
		return cpi.New(cfg, cpi.Options{Log: call.Log, DirectorUUID: call.Context.DirectorUUID, Client: client})
	}
}

// The real CPI passes on the kinds of storage that differ most.
func TestRun(t *testing.T) {
	t.Parallel()
	cpitest.Run(t, newBed(t, "rbd").opts)
}
