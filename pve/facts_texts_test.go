package pve_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/internal/rest/resttest"
	"github.com/proxkit/proxkit/pve"
)

// TestKindsOfTexts holds what kind of failure a text is, as the refusal of a call and as
// the end of a task alike, and whether trying again is of use.
func TestKindsOfTexts(t *testing.T) {
	t.Parallel()
	of := func(kinds ...error) []error { return kinds }
	tests := []struct {
		text  string
		is    []error
		retry bool
	}{
		{text: "cfs-lock 'storage-ceph' error: got lock request timeout", is: of(pve.ErrLocked), retry: true},
		{text: "cfs-lock 'domain-ha' error: no quorum!", is: of(pve.ErrNoQuorum), retry: true},
		{text: "cluster is not quorate", is: of(pve.ErrNoQuorum), retry: true},
		{text: "unable to open file '/etc/pve/nodes/pve1/qemu-server/100.conf.tmp.1' - Permission denied", is: of(pve.ErrNoQuorum), retry: true},
		{text: "command '/sbin/lvs --separator : --noheadings --units b' failed: got timeout", is: of(pve.ErrLocked), retry: true},
		{text: "command '/sbin/vgs --noheadings' failed: got timeout", is: of(pve.ErrLocked), retry: true},
		{text: "can't lock file '/var/lock/pve-manager/pve-storage-nfs' - got timeout", is: of(pve.ErrLocked), retry: true},
		{text: "VM is locked (clone)", is: of(pve.ErrLocked), retry: true},
		{text: "CT is locked (snapshot-delete)", is: of(pve.ErrLocked), retry: true},
		{text: "got no worker upid - start worker failed", is: of(pve.ErrWorkerStart), retry: true},
		{text: "unable to create VM 100 - VM 100 already exists on node 'pve2'", is: of(pve.ErrExists, pve.ErrGuestExists)},
		{text: "unable to create VM 123: config file already exists", is: of(pve.ErrExists, pve.ErrGuestExists)},
		{text: "unable to create CT 100 - CT 100 already exists on node 'pve1'", is: of(pve.ErrExists, pve.ErrGuestExists)},
		{text: "lvcreate 'pve/vm-9000-disk-0' error:   Logical Volume \"vm-9000-disk-0\" already exists in volume group \"pve\"", is: of(pve.ErrExists)},
		{text: "create pool failed: pool 'bosh' already exists", is: of(pve.ErrExists)},
		{text: "delete pool failed: pool 'bosh' is not empty", is: of(pve.ErrInUse)},
		{text: "delete pool failed: pool 'bosh' does not exist", is: of(pve.ErrNotFound)},
		{text: "unable to find configuration file for VM 4711 on node 'pve1'", is: of(pve.ErrNotFound)},
		{text: "rbd error: rbd: error opening image vm-9000-disk-0: (2) No such file or directory", is: of(pve.ErrNotFound)},
		{text: "storage 'nope' does not exist", is: of(pve.ErrNotFound)},
		{text: "storage 'cold' is disabled"},
		{text: "volume_size_info on '/mnt/pve/nfs/images/100/vm-100-disk-9.qcow2' failed - no format"},
		{text: "can't clone to non-shared storage 'local'"},
		{text: "base volume 'data:200/base-200-disk-0.qcow2' is still in use by linked cloned", is: of(pve.ErrInUse)},
		{text: "hotplug problem - error unplugging scsi1: still busy in guest?", is: of(pve.ErrInUse)},
		{text: "VM 100 is running - destroy failed", is: of(pve.ErrRunning)},
		{text: "VM 100 already running", is: of(pve.ErrRunning)},
		{text: "VM 100 not running", is: of(pve.ErrNotRunning)},
		{text: "can't remove VM 100 - protection mode enabled", is: of(pve.ErrProtected)},
		{text: "checksum mismatch (file change by other user?)", is: of(pve.ErrDigestMismatch)},
		{text: "update storage failed: detected modified configuration - file changed by other user? Try again.", is: of(pve.ErrDigestMismatch)},
		{text: "error during cfs-locked 'file-storage_cfg' operation: got lock request timeout", is: of(pve.ErrLocked), retry: true},
		{text: "cannot index groups: ha groups have been migrated to rules", is: of(pve.ErrRemoved)},
		{text: "unable to create image: No space left on device", is: of(pve.ErrNoSpace)},
		{text: "qemu-img: error while writing at byte 0: Disk quota exceeded", is: of(pve.ErrNoSpace)},
		{text: "start failed: command '/usr/bin/kvm -id 100' failed: got timeout", is: of(pve.ErrTimeout)},
		{text: "QEMU guest agent is not running", is: of(pve.ErrAgent)},
		{text: "bridge 'vmbr9' does not exist", is: of(pve.ErrNotFound)},
		{text: "only root can set 'args' config", is: of(pve.ErrPermission)},
		{text: "403 Permission check failed (/vms/200, VM.Config.Options)", is: of(pve.ErrPermission)},
		{text: "snapshot name 's1' already used", is: of(pve.ErrExists)},
		{text: "snapshot 's1' does not exist", is: of(pve.ErrNotFound)},
		{text: "rbd error: rbd: image has watchers - not removing", is: of(pve.ErrInUse)},
	}
	kinds := of(
		pve.ErrNotFound, pve.ErrExists, pve.ErrGuestExists, pve.ErrLocked, pve.ErrPermission, pve.ErrAuthentication, pve.ErrInvalidParameter, pve.ErrDigestMismatch,
		pve.ErrNodeUnreachable, pve.ErrProxy, pve.ErrNoQuorum, pve.ErrTimeout, pve.ErrNotImplemented, pve.ErrRemoved, pve.ErrNotAPI, pve.ErrWorkerStart, pve.ErrAgent,
		pve.ErrRunning, pve.ErrNotRunning, pve.ErrProtected, pve.ErrInUse, pve.ErrNoSpace, pve.ErrTaskUnknown,
	)
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			t.Parallel()
			refusing, server := newFactsClient(t, always(refuse(500, tt.text)))
			refusal := startVM(t.Context(), refusing)
			assert.Len(t, server.Requests(), 1)
			failing, _ := newFactsClient(t, func(r resttest.Request) string { return taskStatus(tt.text) })
			_, failure := failing.WaitTask(t.Context(), someTask, pve.WithTaskLogTail(0))
			for what, err := range map[string]error{"refusal": refusal, "end of a task": failure} {
				require.Error(t, err, what)
				var is []error
				for _, kind := range kinds {
					if errors.Is(err, kind) {
						is = append(is, kind)
					}
				}
				assert.ElementsMatch(t, tt.is, is, what)
				assert.Equal(t, tt.retry, pve.IsRetryable(err), what)
			}
		})
	}
}
