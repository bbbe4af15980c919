package cpi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/proxkit/proxkit/cpi"
	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/internal/testimage"
	"github.com/proxkit/proxkit/pve/pvetest"
)

// A CPI is used like any Go value; the JSON of the Director is one way to call it.
func ExampleNew() {
	srv, err := pvetest.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	if err := srv.AddStorage("data", pvetest.Storage{Type: "dir", Content: []string{"images", "iso", "import"}, Size: 100 << 30}); err != nil {
		fmt.Println(err)
		return
	}
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	image := filepath.Join(dir, "image")
	if err := os.WriteFile(image, testimage.Archive(testimage.BootSector(64<<20)), 0o600); err != nil {
		fmt.Println(err)
		return
	}

	id, secret := srv.RootToken()
	settings, _ := json.Marshal(map[string]any{
		"endpoint": srv.URL(), "fingerprint": srv.Fingerprint(), "token": id + "=" + secret, "storage": "data", "lock_dir": dir,
		"agent": map[string]any{"mbus": "https://mbus:secret@0.0.0.0:6868"},
	})
	cfg, err := cpi.ParseConfig(settings, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := cpi.New(cfg, cpi.Options{DirectorUUID: "my-director"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	stemcell, err := c.CreateStemcell(ctx, image, json.RawMessage(`{"name":"tiny","version":"1"}`), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	var networks rpc.Networks
	if err := json.Unmarshal([]byte(`{"default":{"type":"manual","ip":"10.0.0.20","netmask":"255.255.255.0","gateway":"10.0.0.1"}}`), &networks); err != nil {
		fmt.Println(err)
		return
	}
	vm, _, err := c.CreateVM(ctx, rpc.CreateVMRequest{
		AgentID: "agent-1", Stemcell: stemcell, CloudProperties: json.RawMessage(`{"cpu":2,"ram":2048}`), Networks: networks,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	there, err := c.HasVM(ctx, vm)
	fmt.Println(there, err)
	fmt.Println(c.DeleteVM(ctx, vm))
	there, err = c.HasVM(ctx, vm)
	fmt.Println(there, err)
	// Output:
	// true <nil>
	// <nil>
	// false <nil>
}
