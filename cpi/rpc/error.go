package rpc

import (
	"errors"
	"fmt"
)

// A Class is the type of an error as the Director knows it. There is no other
// class: a type that is not in this list, even one that looks official such as
// Bosh::Clouds::StemcellNotFound, reaches the operator as an unknown error.
type Class string

// The classes the Director knows.
const (
	ClassCpiError         Class = "Bosh::Clouds::CpiError"
	ClassNotSupported     Class = "Bosh::Clouds::NotSupported"
	ClassNotImplemented   Class = "Bosh::Clouds::NotImplemented"
	ClassCloudError       Class = "Bosh::Clouds::CloudError"
	ClassVMNotFound       Class = "Bosh::Clouds::VMNotFound"
	ClassNetworkNotFound  Class = "Bosh::Clouds::NetworkNotFound"
	ClassNoDiskSpace      Class = "Bosh::Clouds::NoDiskSpace"
	ClassDiskNotAttached  Class = "Bosh::Clouds::DiskNotAttached"
	ClassDiskNotFound     Class = "Bosh::Clouds::DiskNotFound"
	ClassVMCreationFailed Class = "Bosh::Clouds::VMCreationFailed"
)

// An Error is an error with one of the Director's classes. Make one with the
// constructor of its class; wrap it freely, [ErrorOf] finds it through every
// wrap.
type Error struct {
	class Class
	retry bool
	err   error
}

// CpiError says that the CPI itself is at fault, for example that it was
// installed wrongly. The format is that of [fmt.Errorf], %w included, as in all
// constructors.
func CpiError(format string, args ...any) *Error { return newError(ClassCpiError, format, args) }

// NotSupported says that what was asked for can never be done here.
func NotSupported(format string, args ...any) *Error {
	return newError(ClassNotSupported, format, args)
}

// NotImplemented says that the CPI does not have the method. The Director then
// does without it where it can.
func NotImplemented(format string, args ...any) *Error {
	return newError(ClassNotImplemented, format, args)
}

// CloudError is the general failure.
func CloudError(format string, args ...any) *Error { return newError(ClassCloudError, format, args) }

// VMNotFound says that the VM is proved to be gone. Deleting a VM may answer it.
func VMNotFound(format string, args ...any) *Error { return newError(ClassVMNotFound, format, args) }

// NetworkNotFound says that a network does not exist.
func NetworkNotFound(format string, args ...any) *Error {
	return newError(ClassNetworkNotFound, format, args)
}

// NoDiskSpace says that a storage is full.
func NoDiskSpace(format string, args ...any) *Error { return newError(ClassNoDiskSpace, format, args) }

// DiskNotAttached says that the disk is not attached to the VM.
func DiskNotAttached(format string, args ...any) *Error {
	return newError(ClassDiskNotAttached, format, args)
}

// DiskNotFound says that the disk is proved to be gone. Deleting a disk may
// answer it.
func DiskNotFound(format string, args ...any) *Error {
	return newError(ClassDiskNotFound, format, args)
}

// VMCreationFailed says that create_vm failed and left nothing behind. With
// [Error.OKToRetry] the Director calls create_vm again with the same arguments,
// up to five times; no other error of any method makes it try again.
func VMCreationFailed(format string, args ...any) *Error {
	return newError(ClassVMCreationFailed, format, args)
}

func newError(class Class, format string, args []any) *Error {
	return &Error{class: class, err: fmt.Errorf(format, args...)}
}

// OKToRetry returns a copy of e that says whether the same call may succeed
// later. The Director reads the flag of NoDiskSpace, DiskNotAttached,
// DiskNotFound and VMCreationFailed; for people and test suites CloudError
// carries it too. For the other classes it stays false, since nothing about them
// passes with time.
func (e *Error) OKToRetry(retry bool) *Error {
	out := *e
	out.retry = retry && carriesRetry(e.class)
	return &out
}

func carriesRetry(c Class) bool {
	switch c {
	case ClassNoDiskSpace, ClassDiskNotAttached, ClassDiskNotFound, ClassVMCreationFailed, ClassCloudError:
		return true
	default:
		return false
	}
}

// Class returns the class of e.
func (e *Error) Class() Class { return e.class }

// Retryable reports whether the same call may succeed later.
func (e *Error) Retryable() bool { return e.retry }

// Error returns the message without the class.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns what the error was made from, so that [errors.Is] and
// [errors.As] see the causes given with %w.
func (e *Error) Unwrap() error { return e.err }

// ErrorOf returns how err reaches the Director: the outermost [*Error] in its
// chain with the whole text of err, or a CloudError when there is none. It
// returns nil for nil.
func ErrorOf(err error) *Error {
	if err == nil {
		return nil
	}
	out := &Error{class: ClassCloudError, err: err}
	var e *Error
	if errors.As(err, &e) {
		out.class, out.retry = e.class, e.retry
	}
	return out
}

// ClassOf returns the class under which err reaches the Director.
func ClassOf(err error) Class {
	if e := ErrorOf(err); e != nil {
		return e.class
	}
	return ""
}
