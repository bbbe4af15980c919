package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/proxkit/proxkit/cpi/cpitest"
)

// defaultConfig is the configuration of proxkit's own CPI.
const defaultConfig = `{
  "endpoint": "${ENDPOINT}",
  "token_id": "${TOKEN_ID}",
  "token_secret": "${TOKEN_SECRET}",
  "fingerprint": "${FINGERPRINT}",
  "pool": "${POOL}",
  "storage": "${STORAGE}",
  "iso_storage": "${FILE_STORAGE}",
  "import_storage": "${FILE_STORAGE}",
  "bridge": "${BRIDGE}",
  "agent": {
    "mbus": "https://mbus:cpi-check-mbus-canary@0.0.0.0:6868",
    "blobstore": {"provider": "local", "options": {"blobstore_path": "/var/vcap/blobs", "secret": "cpi-check-blobstore-canary"}}
  }
}`

// realCluster is the connection to a cluster that is not simulated. It is given
// only to somebody who has been told what will happen.
func (s *settings) realCluster(stderr io.Writer) (cpitest.Cluster, error) {
	fmt.Fprintf(stderr, `
  *** THIS IS NOT A SIMULATION ***

  cpi-check will work on the cluster at %s
  for several minutes. It makes templates, running VMs and disks, stops and
  destroys them, and cuts calls in the middle. Whatever the CPI under test does
  wrong, it does there.

  Before and after the run it destroys every guest with a tag that begins with
  "cpicheck-" or contains it; that is the mark of its runs. It touches no other
  guest. Let nobody else run cpi-check there at the same time.

`, s.endpoint)
	if !s.really {
		return cpitest.Cluster{}, errors.New("nothing was done: add -yes-really if that is what you want")
	}
	token := os.Getenv("CPI_CHECK_TOKEN")
	if s.tokenFile != "" {
		data, err := os.ReadFile(s.tokenFile)
		if err != nil {
			return cpitest.Cluster{}, err
		}
		token = strings.TrimSpace(string(data))
	}
	if token == "" {
		return cpitest.Cluster{}, errors.New("the check needs an API token of its own: give it with -token-file or in CPI_CHECK_TOKEN")
	}
	c := cpitest.Cluster{Endpoint: s.endpoint, Token: token, Fingerprint: s.fingerprint, Pool: s.pool}
	if s.storages != "" {
		c.Storages = strings.Split(s.storages, ",")
	}
	if s.ca != "" {
		pem, err := os.ReadFile(s.ca)
		if err != nil {
			return c, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return c, fmt.Errorf("%s holds no certificate", s.ca)
		}
	}
	if s.volumes != "" {
		c.ReadVolume = fromDirectory(s.volumes)
	}
	return c, nil
}

// fromDirectory finds a volume by its file name, for instance in the mounted
// directory of an NFS storage.
func fromDirectory(dir string) func(context.Context, string) ([]byte, error) {
	return func(_ context.Context, volume string) ([]byte, error) {
		name := volume[strings.LastIndexAny(volume, "/:")+1:]
		var found string
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && entry.Name() == name {
				found = path
				return fs.SkipAll
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if found == "" {
			return nil, fmt.Errorf("there is no file %s below %s", name, dir)
		}
		return os.ReadFile(found)
	}
}
