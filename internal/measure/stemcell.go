package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/proxkit/proxkit/internal/testimage"
	"github.com/proxkit/proxkit/pve"
)

const imageSize = 2 << 30

// stemcell sends a large image through create_stemcell to a simulated cluster
// in a process of its own, and watches the CPI's memory.
func stemcell(ctx context.Context, dir string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	image := filepath.Join(dir, "image")
	if err := writeImage(image); err != nil {
		return err
	}

	sim := exec.CommandContext(ctx, filepath.Join("bin", "pve-sim"), "-json", "-q")
	sim.Env = append(os.Environ(), "TMPDIR="+dir)
	stdout, err := sim.StdoutPipe()
	if err != nil {
		return err
	}
	if err := sim.Start(); err != nil {
		return err
	}
	defer func() {
		cancel()
		_ = sim.Wait() // it was told to stop; there is nothing to learn from how
	}()
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("pve-sim did not announce itself: %w", err)
	}
	var where struct{ Endpoint, Token, Fingerprint string }
	if err := json.Unmarshal(line, &where); err != nil {
		return err
	}

	const storage = "big"
	if err := addStorage(ctx, where.Endpoint, where.Token, where.Fingerprint, storage); err != nil {
		return err
	}
	config, err := json.Marshal(map[string]string{
		"endpoint": where.Endpoint, "token": where.Token, "fingerprint": where.Fingerprint, "storage": storage,
	})
	if err != nil {
		return err
	}
	configFile := filepath.Join(dir, "cpi.json")
	if err := os.WriteFile(configFile, config, 0o600); err != nil {
		return err
	}

	request, err := json.Marshal(map[string]any{
		"method": "create_stemcell", "arguments": []any{image, map[string]any{"disk_format": "raw"}},
		"context": map[string]any{"director_uuid": "measure"}, "api_version": 2,
	})
	if err != nil {
		return err
	}
	cpi := exec.CommandContext(ctx, filepath.Join("bin", "proxmox-cpi"), "-configFile", configFile)
	cpi.Env = append(os.Environ(), "TMPDIR="+dir)
	cpi.Stdin = strings.NewReader(string(request))
	began := time.Now()
	use, err := execute(cpi)
	if err != nil {
		return err
	}
	var response struct {
		Result string
		Error  any
	}
	if err := json.Unmarshal(use.stdout, &response); err != nil {
		return err
	}
	if response.Error != nil {
		return fmt.Errorf("create_stemcell: %v", response.Error)
	}
	report("a 2 GiB raw image, wall time", "%.1f s", time.Since(began).Seconds())
	report("the CPI's peak memory", "%s (at most 64 MiB)", mebibytes(use.peak))
	return nil
}

// writeImage writes an image of random blocks and holes, so that it neither
// compresses to nothing nor takes minutes to make.
func writeImage(file string) (err error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return testimage.WriteArchive(f, imageSize, io.LimitReader(&disk{random: rand.NewChaCha8([32]byte{})}, imageSize))
}

// A disk reads like a disk that is one eighth full.
type disk struct {
	random *rand.ChaCha8
	at     int64
}

func (d *disk) Read(p []byte) (int, error) {
	const block = 1 << 20
	p = p[:min(int64(len(p)), block-d.at%block)]
	switch {
	case d.at == 0 && len(p) >= 512:
		p = p[:copy(p, testimage.BootSector(imageSize))]
	case d.at/block%8 == 0:
		if _, err := d.random.Read(p); err != nil {
			return 0, err
		}
	default:
		clear(p)
	}
	d.at += int64(len(p))
	return len(p), nil
}

var _ io.Reader = (*disk)(nil)

func addStorage(ctx context.Context, endpoint, token, fingerprint, storage string) error {
	id, secret, _ := strings.Cut(token, "=")
	client, err := pve.NewClient(endpoint, pve.WithAPIToken(id, secret), pve.WithFingerprint(fingerprint))
	if err != nil {
		return err
	}
	return client.Do(ctx, http.MethodPost, "/storage", map[string]any{
		"storage": storage, "type": "dir", "path": "/srv/" + storage, "content": "images,iso,import",
	}, nil)
}
