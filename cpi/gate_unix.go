//go:build unix && !solaris && !illumos && !aix

package cpi

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// canLock says that this system has locks that go with their process.
const canLock = true

// tryLock takes the lock of a file unless somebody else has it.
func tryLock(f *os.File) (bool, error) { return flock(f, syscall.LOCK_EX) }

// isLocked reports whether somebody has the exclusive lock of a file. Several may
// ask at once.
func isLocked(f *os.File) bool {
	free, err := flock(f, syscall.LOCK_SH)
	return err == nil && !free
}

func flock(f *os.File, how int) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOSYS):
			return false, fmt.Errorf("%s: %w: %w", f.Name(), errNoLocks, err)
		default:
			return false, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
}

// privateDir makes a directory below root, and makes sure that root belongs to
// this user: in a directory such as /tmp anybody may have made it before.
func privateDir(root, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(root)
	if err != nil {
		return err
	}
	if !trusted(info) {
		return errors.New("it belongs to another user")
	}
	return nil
}

// trusted reports whether a file is this user's or the administrator's.
func trusted(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (int(st.Uid) == os.Geteuid() || st.Uid == 0)
}
