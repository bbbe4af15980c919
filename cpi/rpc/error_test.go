package rpc_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/proxkit/proxkit/cpi/rpc"
)

func TestErrorClasses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		make  func(string, ...any) *rpc.Error
		class rpc.Class
		retry bool
	}{
		{rpc.CpiError, rpc.ClassCpiError, false},
		{rpc.NotSupported, rpc.ClassNotSupported, false},
		{rpc.NotImplemented, rpc.ClassNotImplemented, false},
		{rpc.CloudError, rpc.ClassCloudError, true},
		{rpc.VMNotFound, rpc.ClassVMNotFound, false},
		{rpc.NetworkNotFound, rpc.ClassNetworkNotFound, false},
		{rpc.NoDiskSpace, rpc.ClassNoDiskSpace, true},
		{rpc.DiskNotAttached, rpc.ClassDiskNotAttached, true},
		{rpc.DiskNotFound, rpc.ClassDiskNotFound, true},
		{rpc.VMCreationFailed, rpc.ClassVMCreationFailed, true},
	} {
		t.Run(string(tc.class), func(t *testing.T) {
			t.Parallel()
			assert.Contains(t, directorsClasses(), tc.class)
			e := tc.make("vm %s: %w", "x", fs.ErrNotExist)
			wrapped := fmt.Errorf("outer: %w", errors.Join(errors.New("other"), e.OKToRetry(true)))

			assert.Equal(t, tc.class, rpc.ClassOf(wrapped))
			assert.Equal(t, tc.retry, rpc.ErrorOf(wrapped).Retryable())
			assert.False(t, e.Retryable(), "the original is unchanged")
			assert.ErrorIs(t, wrapped, fs.ErrNotExist)
			assert.Equal(t, "vm x: file does not exist", e.Error())
			assert.Equal(t, tc.class, e.Class())
		})
	}
}

func TestErrorOfOthers(t *testing.T) {
	t.Parallel()
	assert.Nil(t, rpc.ErrorOf(nil))
	assert.Empty(t, rpc.ClassOf(nil))
	assert.Equal(t, rpc.ClassCloudError, rpc.ClassOf(errors.New("x")))
	outer := rpc.VMCreationFailed("create: %w", rpc.NoDiskSpace("full").OKToRetry(true))
	assert.Equal(t, rpc.ClassVMCreationFailed, rpc.ClassOf(outer), "the outermost class counts")
	assert.False(t, rpc.ErrorOf(outer).Retryable(), "and so does its flag")
	assert.Equal(t, "create: full", rpc.ErrorOf(outer).Error())
}

func ExampleErrorOf() {
	err := fmt.Errorf("delete vm-101: %w", rpc.VMNotFound("no guest carries the tag"))
	e := rpc.ErrorOf(err)
	fmt.Println(e.Class())
	fmt.Println(e.Error())
	// Output:
	// Bosh::Clouds::VMNotFound
	// delete vm-101: no guest carries the tag
}
