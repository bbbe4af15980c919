package testimage_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/internal/testimage"
)

func TestQCOW2IsAccepted(t *testing.T) {
	t.Parallel()
	qemuImg, err := exec.LookPath("qemu-img")
	if err != nil {
		t.Skip("qemu-img is not installed (Debian package qemu-utils)")
	}
	content := append(testimage.BootSector(1<<30), bytes.Repeat([]byte("content "), 20_000)...)
	for name, compat := range map[string]int{"0.10": 0, "1.1": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			disk, raw := filepath.Join(dir, "disk.qcow2"), filepath.Join(dir, "disk.raw")
			require.NoError(t, os.WriteFile(disk, testimage.QCOW2(1<<30, content, compat), 0o600))
			run := func(args ...string) []byte {
				out, err := exec.CommandContext(t.Context(), qemuImg, args...).CombinedOutput()
				require.NoError(t, err, string(out))
				return out
			}

			run("check", "-f", "qcow2", disk)
			var info struct {
				VirtualSize int64  `json:"virtual-size"`
				Format      string `json:"format"`
			}
			require.NoError(t, json.Unmarshal(run("info", "--output=json", disk), &info))
			assert.Equal(t, int64(1<<30), info.VirtualSize)
			assert.Equal(t, "qcow2", info.Format)
			run("convert", "-O", "raw", disk, raw)
			f, err := os.Open(raw)
			require.NoError(t, err)
			defer f.Close()
			got := make([]byte, len(content))
			_, err = f.Read(got)
			require.NoError(t, err)
			assert.True(t, bytes.Equal(content, got), "the content reads back")
		})
	}
}

func TestStemcell(t *testing.T) {
	t.Parallel()
	disk := testimage.QCOW2(1<<20, testimage.BootSector(1<<20), 0)
	tarball := testimage.Stemcell("bosh-openstack-kvm-test", "1.0", disk)

	image, err := testimage.ImageOf(bytes.NewReader(tarball))

	require.NoError(t, err)
	assert.True(t, bytes.Equal(testimage.Archive(disk), image), "the image is the archive of the disk")
	_, err = testimage.ImageOf(strings.NewReader("no tarball"))
	assert.Error(t, err)
}
