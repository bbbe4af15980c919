//go:build unix

package cpi

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What is no regular file is refused at once: a pipe, for one, would keep the
// call until somebody writes to it.
func TestImageThatIsASpecialFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe, socket := filepath.Join(dir, "pipe"), filepath.Join(dir, "s")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	defer l.Close()
	for path, want := range map[string]string{pipe: "is a named pipe", socket: "is a socket", "/dev/null": "is a device"} {
		done := make(chan error, 1)
		go func() {
			_, err := inspectImage(t.Context(), path)
			done <- err
		}()
		select {
		case err := <-done:
			assert.ErrorContains(t, err, want+": it has to be a regular file")
		case <-time.After(5 * time.Second):
			t.Fatalf("%s: no answer", path)
		}
	}
}
