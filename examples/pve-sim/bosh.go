package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/proxkit/proxkit/cpi"
	"github.com/proxkit/proxkit/pve/pvetest"
)

// What -bosh makes.
const (
	boshPool    = "bosh"
	boshStorage = "bosh"
	boshUser    = "bosh-cpi@pve"
	boshToken   = "bosh-cpi@pve!cpi"
)

// A cpiConfig is the configuration of a CPI for the simulated cluster.
type cpiConfig struct {
	Endpoint    string `json:"endpoint"`
	Token       string `json:"token"`
	Fingerprint string `json:"fingerprint"`
	Storage     string `json:"storage"`
	Pool        string `json:"pool"`
}

// prepareBOSH makes what a BOSH CPI needs and returns its configuration: a
// storage of all nodes for disks, ISO images and imports, a resource pool, and a
// user and a token with what the CPI needs on these two and on the bridge, and
// nothing else. What is there from an earlier run stays.
func prepareBOSH(srv *pvetest.Server) (*cpiConfig, error) {
	if _, there := srv.TokenSecret(boshToken); !there {
		errs := []error{
			srv.AddStorage(boshStorage, pvetest.Storage{
				Type: "dir", Shared: true, Content: []string{"images", "iso", "import"}, Size: 1 << 40, Config: map[string]string{"path": "/mnt/bosh"},
			}),
			srv.AddPool(boshPool),
			srv.AddUser(boshUser, ""),
		}
		for i, p := range cpi.Privileges(cpi.PrivilegeScope{
			Pool: boshPool, ImageStorages: []string{boshStorage}, ISOStorage: boshStorage, ImportStorage: boshStorage, Bridges: []string{"vmbr0"},
		}) {
			role := fmt.Sprintf("BOSH-CPI-%d", i+1)
			errs = append(errs, srv.AddRole(role, p.Privileges...), srv.SetACL(p.Path, boshUser, role))
		}
		// Without privilege separation the token has what its user has.
		srv.AddToken(boshToken, false)
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
	}
	secret, ok := srv.TokenSecret(boshToken)
	if !ok {
		return nil, fmt.Errorf("no token %s was made", boshToken)
	}
	return &cpiConfig{
		Endpoint: srv.URL(), Token: boshToken + "=" + secret, Fingerprint: srv.Fingerprint(), Storage: boshStorage, Pool: boshPool,
	}, nil
}

func (c *cpiConfig) String() string {
	data, err := json.Marshal(c)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
