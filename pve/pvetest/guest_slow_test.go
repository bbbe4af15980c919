package pvetest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// look asks for a task's status n times.
func (l *lab) look(upid string, n int) string {
	l.t.Helper()
	var status any
	for range n {
		status = l.get("/nodes/pve1/tasks/" + upid + "/status")["status"]
	}
	return status.(string)
}

// TestSlowTasks holds what others see while a task runs.
func TestSlowTasks(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.addData()
	l.done("POST", "/nodes/pve1/qemu", "vmid=200&scsi0=data:1,format=qcow2")
	l.done("POST", "/nodes/pve1/qemu/200/template", "")
	l.done("POST", "/nodes/pve1/qemu/200/clone", "newid=250")
	l.s.TasksTake(2)

	create := l.ok("POST", "/nodes/pve1/qemu", "vmid=100&scsi0=data:1").(string)
	l.run([]step{
		{"POST ~", "vmid=100", "500 unable to create VM 100 - VM 100 already exists on node 'pve1'"},
		{"PUT ~/100/config", "name=x", "500 VM is locked (create)"},
		{"GET /cluster/nextid", "vmid=100", "400 vmid: VM 100 already exists"},
	})
	assert.Equal(t, "running", l.look(create, 1))
	l.look(create, 2)
	assert.Equal(t, "data:100/vm-100-disk-0.raw,size=1G", l.config("100")["scsi0"])

	clone := l.ok("POST", "/nodes/pve1/qemu/200/clone", "newid=300").(string)
	l.run([]step{
		{"POST ~/200/clone", "newid=300", "500 unable to create VM 300: config file already exists"},
		{"PUT ~/300/config", "name=x", "500 VM is locked (clone)"},
	})
	l.look(clone, 3)
	assert.Contains(t, l.config("300"), "scsi0")

	snap := l.ok("POST", "/nodes/pve1/qemu/250/snapshot", "snapname=s1").(string)
	l.run([]step{{"PUT ~/250/config", "name=x", "500 VM is locked (snapshot)"}})
	l.look(snap, 3)
	l.run([]step{{"PUT ~/250/config", "name=x", ""}})

	// A change waits for the tasks that hold the config file.
	resize := l.ok("PUT", "/nodes/pve1/qemu/100/resize", "disk=scsi0&size=2G").(string)
	l.run([]step{{"PUT ~/100/config", "name=y", ""}})
	exit, _ := l.ended(resize)
	assert.Equal(t, "OK", exit)
	assert.Equal(t, "data:100/vm-100-disk-0.raw,size=2G", l.config("100")["scsi0"])
}

// TestFailedTasks holds that a task that fails leaves nothing behind.
func TestFailedTasks(t *testing.T) {
	t.Parallel()
	for _, looks := range []int{0, 2} {
		l := newLab(t)
		l.addData()
		l.done("POST", "/nodes/pve1/qemu", "vmid=200&scsi0=data:1,format=qcow2")
		before := l.s.Volumes("")
		l.s.TasksTake(looks)
		for _, s := range []step{
			{"POST /nodes/pve1/qemu", "vmid=100&scsi0=data:1", "qmcreate:100"},
			{"POST /nodes/pve1/qemu/200/clone", "newid=300", "qmclone:200"},
			{"POST /nodes/pve1/qemu/200/snapshot", "snapname=s1", "qmsnapshot:200"},
		} {
			l.s.FailTask(s.want, "out of luck")
			upid := l.ok("POST", s.call[len("POST "):], s.form).(string)
			l.look(upid, looks+1)
			exit, _ := l.ended(upid)
			assert.Equal(t, "out of luck", exit, s.call)
		}
		assert.Equal(t, []int{200}, l.s.VMIDs())
		assert.Equal(t, before, l.s.Volumes(""))
		vm, _ := l.s.VM(200)
		assert.NotContains(t, vm.Config, "lock")
	}
}

// TestHeldTask holds that a task that does not end keeps others from the
// guest's config.
func TestHeldTask(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.done("POST", "/nodes/pve1/qemu", "vmid=100&kvm=0")
	l.done("POST", "/nodes/pve1/qemu/100/status/start", "")
	l.s.HoldTask("qmshutdown:100")
	upid := l.ok("POST", "/nodes/pve1/qemu/100/status/shutdown", "").(string)
	l.run([]step{
		{"PUT ~/100/config", "name=x", "500 can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout"},
		{"POST ~/100/config", "name=x", "task can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout"},
		{"DELETE /nodes/pve1/tasks/" + upid, "", ""},
		{"PUT ~/100/config", "name=x", ""},
	})
	vm, _ := l.s.VM(100)
	assert.True(t, vm.Running)
}

// TestParallel makes many calls at once; of those for one number one wins.
func TestParallel(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.addData()
	l.done("POST", "/nodes/pve1/qemu", "vmid=600&scsi0=data:1,format=qcow2")
	l.done("POST", "/nodes/pve1/qemu/600/template", "")
	all := func(n int, call func(i int) answer) (won []int) {
		answers := make([]answer, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() { answers[i] = call(i) })
		}
		wg.Wait()
		for i, a := range answers {
			if a.status == 200 {
				won = append(won, i)
			}
		}
		return won
	}
	assert.Len(t, all(12, func(i int) answer {
		return l.call("POST", "/nodes/pve1/qemu/600/clone", fmt.Sprintf("newid=%d", 610+i))
	}), 12)
	assert.Len(t, all(12, func(int) answer { return l.call("POST", "/nodes/pve1/qemu/600/clone", "newid=650") }), 1)
	assert.Len(t, all(12, func(int) answer { return l.call("POST", "/nodes/pve1/qemu", "vmid=660&scsi0=data:1") }), 1)
	assert.Len(t, all(12, func(i int) answer {
		return l.call("PUT", "/nodes/pve1/qemu/610/config", fmt.Sprintf("net%d=virtio,bridge=vmbr0", i))
	}), 12)
	vm, _ := l.s.VM(610)
	assert.Contains(t, vm.Config, "net11")
	digest := l.get("/nodes/pve1/qemu/610/config")["digest"].(string)
	won := all(12, func(i int) answer {
		return l.call("PUT", "/nodes/pve1/qemu/610/config", fmt.Sprintf("description=d%d&digest=%s", i, digest))
	})
	require.Len(t, won, 1)
	vm, _ = l.s.VM(610)
	assert.Equal(t, fmt.Sprintf("d%d", won[0]), vm.Config["description"])
	all(12, func(i int) answer {
		return l.call("POST", "/nodes/pve1/qemu/611/config", fmt.Sprintf("scsi%d=data:1", i+1))
	})
	vm, _ = l.s.VM(611)
	files := map[string]bool{}
	for _, key := range volumeKeys(vm.Config, true) {
		files[parseDrive(key, vm.Config[key]).file()] = true
	}
	assert.Len(t, files, 13, "no two disks have one volume")
}
