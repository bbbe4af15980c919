package cpitest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/proxkit/proxkit/cpi/rpc"
)

// A CPI answers requests. Call is used from several goroutines at once.
type CPI interface {
	// Call has one request answered. Its error says that the CPI could not be
	// run, or was stopped because ctx ended; whatever the CPI itself has to say
	// is in the answer.
	Call(ctx context.Context, request []byte) (Answer, error)
}

// An Answer is what came out of a CPI for one request.
type Answer struct {
	Stdout, Stderr []byte
	// Status is the exit status of the process.
	Status int
}

// A Func is a CPI that is a function.
type Func func(ctx context.Context, request []byte) (Answer, error)

// Call implements [CPI].
func (f Func) Call(ctx context.Context, request []byte) (Answer, error) { return f(ctx, request) }

// Handler is a CPI written with package rpc, run in this process. The call's
// context is that of the request, so that its end is what a signal is to a
// program.
func Handler(open rpc.Factory) CPI {
	return Func(func(ctx context.Context, request []byte) (Answer, error) {
		var out, log bytes.Buffer
		err := rpc.Serve(ctx, open, bytes.NewReader(request), &out, &log)
		a := Answer{Stdout: out.Bytes(), Stderr: log.Bytes()}
		if err != nil {
			a.Status = 1
		}
		return a, nil
	})
}

// ErrKilled is the cause of a context's end that a CPI cannot react to: a
// [Program] gets SIGKILL. Any other end is SIGTERM, and SIGKILL a while later.
var ErrKilled = errors.New("killed")

// A Program is a CPI in any language: one process for each request, with the
// environment that the Director gives, which is PATH, HOME and TMPDIR alone.
type Program struct {
	Path string
	Args []string
	// Home and Temp are the directories of the process; empty ones are not set.
	Home, Temp string
}

// termination is how long a program has to end after SIGTERM.
const termination = 30 * time.Second

// Call implements [CPI].
func (p Program) Call(ctx context.Context, request []byte) (Answer, error) {
	// The context is watched here, because what becomes of the process depends
	// on why it ended.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), p.Path, p.Args...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	if p.Home != "" {
		cmd.Env = append(cmd.Env, "HOME="+p.Home)
	}
	if p.Temp != "" {
		cmd.Env = append(cmd.Env, "TMPDIR="+p.Temp)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(request), &stdout, &stderr
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		return Answer{}, fmt.Errorf("the CPI cannot be started: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = stop(ctx, cmd, ended)
	}
	a := Answer{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Status: cmd.ProcessState.ExitCode()}
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || !exit.Exited()) {
		return a, fmt.Errorf("the CPI did not end by itself: %w", err)
	}
	return a, nil
}

// stop ends the process of a call whose context has ended.
func stop(ctx context.Context, cmd *exec.Cmd, ended <-chan error) error {
	if !errors.Is(context.Cause(ctx), ErrKilled) {
		signalGroup(cmd.Process, false)
		timer := time.NewTimer(termination)
		defer timer.Stop()
		select {
		case err := <-ended:
			return err
		case <-timer.C:
		}
	}
	signalGroup(cmd.Process, true)
	return <-ended
}

// Mortal is what a CPI implements whose calls can be killed without a chance to
// clean up. A CPI in this process cannot.
type Mortal interface{ Mortal() bool }

// Mortal implements [Mortal].
func (Program) Mortal() bool { return true }

// Executable reports why the file at path cannot be run, which to the Director
// is an error of its own.
func Executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a directory", path)
	case info.Mode()&0o111 == 0:
		return fmt.Errorf("%s is not executable: chmod +x", path)
	}
	return nil
}
