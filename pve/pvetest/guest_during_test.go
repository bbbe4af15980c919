package pvetest

import (
	"cmp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDuringSlowTasks holds what calls about a guest get while a task works on
// it: a task that meets a lock fails at once instead of waiting its turn.
func TestDuringSlowTasks(t *testing.T) {
	t.Parallel()
	const locked = "lock-300.conf' - got timeout"
	for _, tc := range []struct {
		name       string
		call, form string // starts the task
		fresh      bool   // the task makes VM 300
		lock       string // shown while it runs
		lasts      time.Duration
		then       []step
	}{
		{name: "clone", call: "POST ~/200/clone", form: "newid=300", fresh: true, lock: "clone", then: []step{
			{"PUT ~/300/config", "name=x", "500 VM is locked (clone)"},
			{"POST ~/300/status/start", "", "task VM is locked (clone)"},
			{"POST ~/300/status/stop", "", "task OK"},
			{"PUT ~/300/resize", "disk=scsi0&size=3G", "task VM is locked (clone)"},
			{"POST ~/300/clone", "newid=301", "500 VM is locked (clone)"},
			{"DELETE ~/300", "", "task VM is locked (clone)"},
		}},
		{name: "create", call: "POST ~", form: "vmid=300&scsi0=data:1", fresh: true, lock: "create", then: []step{
			{"POST ~/300/status/start", "", "task VM is locked (create)"},
			{"POST ~/300/template", "", "500 VM is locked (create)"},
			{"DELETE ~/300", "", "task VM is locked (create)"},
		}},
		{name: "snapshot", call: "POST ~/300/snapshot", form: "snapname=s1", lock: "snapshot", then: []step{
			{"POST ~/300/status/start", "", "task VM is locked (snapshot)"},
			{"POST ~/300/snapshot", "snapname=s2", "task VM is locked (snapshot)"},
			{"POST ~/300/move_disk", "disk=scsi0&storage=local", "500 VM is locked (snapshot)"},
			{"DELETE ~/300", "", "task VM is locked (snapshot)"},
		}},
		{name: "template", call: "POST ~/300/template", then: []step{
			{"POST ~/300/clone", "newid=301", "500 Linked clone feature is not supported for drive 'scsi0'"},
			{"POST ~/300/template", "", "500 you can't convert a template to a template"},
			{"POST ~/300/status/start", "", "task you can't start a vm if it's a template"},
		}},
		{name: "short move", call: "POST ~/300/move_disk", form: "disk=scsi0&storage=local", lasts: 5 * time.Second, then: []step{
			{"PUT ~/300/config", "name=x", ""},
		}},
		{name: "long move", call: "POST ~/300/move_disk", form: "disk=scsi0&storage=local", lasts: time.Minute, then: []step{
			{"PUT ~/300/config", "name=x", "500 can't lock file '/var/lock/qemu-server/" + locked},
		}},
		{name: "long start", call: "POST ~/300/status/start", lasts: time.Minute, then: []step{
			{"PUT ~/300/config", "name=x", "500 can't lock file '/var/lock/qemu-server/" + locked},
		}},
		{name: "gone", call: "DELETE ~/300", then: []step{
			{"PUT ~/300/config", "name=x", "500 Configuration file 'nodes/pve1/qemu-server/300.conf' does not exist"},
			{"POST ~/300/status/start", "", "task Configuration file 'nodes/pve1/qemu-server/300.conf' does not exist"},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var later atomic.Int64
			l := newLab(t, WithClock(func() time.Time { return time.Unix(1800000000+later.Load(), 0) }))
			l.addData()
			l.done("POST", "/nodes/pve1/qemu", "vmid=200&scsi0=data:1,format=qcow2")
			l.done("POST", "/nodes/pve1/qemu/200/template", "")
			if !tc.fresh {
				l.done("POST", "/nodes/pve1/qemu", "vmid=300&scsi0=data:1,format=qcow2&kvm=0")
			}
			require.NoError(t, l.s.TasksLast(cmp.Or(tc.lasts, 8*time.Second)))
			method, path, _ := strings.Cut(tc.call, " ")
			upid := l.ok(method, strings.Replace(path, "~", "/nodes/pve1/qemu", 1), tc.form).(string)
			current := l.get("/nodes/pve1/qemu/300/status/current")
			assert.Equal(t, "stopped", current["status"])
			if tc.lock != "" {
				assert.Equal(t, tc.lock, current["lock"])
				assert.Equal(t, tc.lock, l.config("300")["lock"])
			} else {
				assert.NotContains(t, current, "lock")
			}
			active := l.list("/nodes/pve1/tasks?source=active")
			require.Len(t, active, 1)
			assert.Equal(t, upid, active[0]["upid"])
			assert.Equal(t, "RUNNING", active[0]["status"])
			l.run(tc.then)

			later.Store(120)
			assert.Equal(t, "OK", l.get("/nodes/pve1/tasks/" + upid + "/status")["exitstatus"])
			assert.Empty(t, l.list("/nodes/pve1/tasks?source=active"))
			if vm, ok := l.s.VM(300); ok {
				assert.NotContains(t, vm.Config, "lock")
			}
		})
	}
}
