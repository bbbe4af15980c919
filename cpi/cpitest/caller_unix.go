//go:build unix

package cpitest

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup makes the process lead a group, so that what it starts, such as the
// interpreter of a script, ends with it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func signalGroup(p *os.Process, kill bool) {
	sig := syscall.SIGTERM
	if kill {
		sig = syscall.SIGKILL
	}
	// An error says that it has just ended.
	_ = syscall.Kill(-p.Pid, sig)
}
