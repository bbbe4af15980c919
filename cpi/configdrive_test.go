package cpi

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diskfs/go-diskfs/backend/file"
	diskfs "github.com/diskfs/go-diskfs/filesystem/iso9660"
	"github.com/kdomanski/iso9660"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readISO reads every file of an image with a library that had no part in
// writing it.
func readISO(t *testing.T, image []byte) (label string, files map[string]string) {
	t.Helper()
	img, err := iso9660.OpenImage(bytes.NewReader(image))
	require.NoError(t, err)
	label, err = img.Label()
	require.NoError(t, err)
	root, err := img.RootDir()
	require.NoError(t, err)
	files = map[string]string{}
	var walk func(path string, f *iso9660.File)
	walk = func(path string, f *iso9660.File) {
		if !f.IsDir() {
			data, err := io.ReadAll(f.Reader())
			require.NoError(t, err)
			files[path] = string(data)
			return
		}
		children, err := f.GetChildren()
		require.NoError(t, err)
		for _, c := range children {
			walk(path+"/"+c.Name(), c)
		}
	}
	walk("", root)
	return label, files
}

func TestConfigDriveReadByALibrary(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		settings string
	}{
		{"small", `{"agent_id":"a-1"}`},
		{"one sector", strings.Repeat("x", isoSector)},
		{"one byte more", strings.Repeat("x", isoSector+1)},
		{"large", strings.Repeat("0123456789abcdef", 20_000)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			image, err := configDrive([]byte(tc.settings), "vm-101-k3v9q2m8x1z7")
			require.NoError(t, err)
			assert.Zero(t, len(image)%isoSector)

			label, files := readISO(t, image)

			assert.Equal(t, "config-2", strings.TrimSpace(label))
			assert.Equal(t, map[string]string{
				"/ec2/latest/meta-data.json":       `{"instance-id":"vm-101-k3v9q2m8x1z7","public-keys":{}}`,
				"/ec2/latest/user-data":            tc.settings,
				"/openstack/latest/meta_data.json": `{"uuid":"vm-101-k3v9q2m8x1z7","name":"vm-101-k3v9q2m8x1z7"}`,
				"/openstack/latest/user_data":      tc.settings,
			}, files)
		})
	}
}

// TestConfigDriveReadByASecondLibrary reads with another library again, one that
// follows the path table and the Rock Ridge attributes.
func TestConfigDriveReadByASecondLibrary(t *testing.T) {
	t.Parallel()
	settings := strings.Repeat("settings ", 1000)
	image, err := configDrive([]byte(settings), "vm-101-k3v9q2m8x1z7")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "drive.iso")
	require.NoError(t, os.WriteFile(path, image, 0o600))
	storage, err := file.OpenFromPath(path, true)
	require.NoError(t, err)
	defer storage.Close()
	drive, err := diskfs.Read(storage, int64(len(image)), 0, isoSector)
	require.NoError(t, err)

	assert.Equal(t, "config-2", strings.TrimRight(drive.Label(), " \x00"))
	for path, want := range map[string]string{
		"ec2/latest/user-data":            settings,
		"openstack/latest/user_data":      settings,
		"ec2/latest/meta-data.json":       `{"instance-id":"vm-101-k3v9q2m8x1z7","public-keys":{}}`,
		"openstack/latest/meta_data.json": `{"uuid":"vm-101-k3v9q2m8x1z7","name":"vm-101-k3v9q2m8x1z7"}`,
	} {
		got, err := drive.ReadFile(path)
		require.NoError(t, err, path)
		assert.Equal(t, want, string(got))
		info, err := drive.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, fs.FileMode(0o400), info.Mode(), "the settings are for root alone")
	}
}

func TestConfigDriveIsDeterministic(t *testing.T) {
	t.Parallel()
	one, err := configDrive([]byte(`{}`), "vm-1")
	require.NoError(t, err)
	two, err := configDrive([]byte(`{}`), "vm-1")
	require.NoError(t, err)
	assert.Equal(t, one, two)
}

func TestConfigDriveReadByIsoinfo(t *testing.T) {
	t.Parallel()
	isoinfo, err := exec.LookPath("isoinfo")
	if err != nil {
		t.Skip("isoinfo is not installed (Debian package genisoimage)")
	}
	settings := `{"agent_id":"` + strings.Repeat("a", 5000) + `"}`
	image, err := configDrive([]byte(settings), "vm-101-k3v9q2m8x1z7")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "drive.iso")
	require.NoError(t, os.WriteFile(path, image, 0o600))
	run := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), isoinfo, append(args, "-i", path)...).CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}

	header := run("-d")
	assert.Contains(t, header, "Volume id: config-2\n")
	assert.Contains(t, header, "Rock Ridge signatures version 1 found")
	assert.ElementsMatch(t, []string{
		"/ec2", "/ec2/latest", "/ec2/latest/meta-data.json", "/ec2/latest/user-data",
		"/openstack", "/openstack/latest", "/openstack/latest/meta_data.json", "/openstack/latest/user_data",
	}, strings.Fields(run("-R", "-f")))
	assert.Equal(t, settings, run("-R", "-x", "/ec2/latest/user-data"))
	assert.Contains(t, run("-f"), "/EC2/LATEST/META_DAT.JSO;1", "the plain names must be valid too")
	assert.Contains(t, run("-R", "-l"), "-r--------", "the settings are for root alone")
}
