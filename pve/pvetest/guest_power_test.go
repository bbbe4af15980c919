package pvetest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPower(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.addData()
	l.run([]step{
		{"POST ~", "vmid=100&memory=256&scsi0=data:1&net0=virtio,bridge=vmbr0", "task OK"},
		{"POST ~/4711/status/start", "", "task Configuration file 'nodes/pve1/qemu-server/4711.conf' does not exist"},
		{"POST ~/100/status/stop", "", "task OK"},
		{"POST ~/100/status/shutdown", "", "task OK"},
		{"POST ~/100/status/reboot", "", "500 VM 100 not running"},
		{"POST ~/100/status/suspend", "", "500 VM 100 not running"},
		{"POST ~/100/status/reset", "", "500 VM 100 not running"},
		{"POST ~/100/status/resume", "", "500 VM 100 not running"},
		{"PUT ~/100/sendkey", "key=ret", "500 VM 100 not running"},
		{"POST ~/100/status/start", "", "task OK"},
		{"POST ~/100/status/start", "", "task VM 100 already running"},
		{"DELETE ~/100", "", "500 VM 100 is running - destroy failed"},
		{"POST ~/100/template", "", "500 you can't convert a VM to template if VM is running"},
		{"POST ~/100/status/suspend", "", "task OK"},
		{"POST ~/100/status/shutdown", "", "500 VM is paused - cannot shutdown"},
	})
	cur := l.get("/nodes/pve1/qemu/100/status/current")
	assert.Equal(t, "running", cur["status"])
	assert.Equal(t, "paused", cur["qmpstatus"])
	assert.Contains(t, cur["nics"], "tap100i0")
	l.run([]step{
		{"POST ~/100/status/resume", "", "task OK"},
		{"POST ~/100/status/reset", "", "task OK"},
		{"POST ~/100/status/reboot", "", "task OK"},
		{"POST ~/100/status/shutdown", "", "task OK"},
		{"POST ~/100/status/start", "", "task OK"},
	})
	require.NoError(t, l.s.EditVM(100, func(vm *VM) { vm.NoOS = true }))
	l.run([]step{
		{"POST ~/100/status/shutdown", "timeout=2", "task VM quit/powerdown failed - got timeout"},
		{"POST ~/100/status/reboot", "", "task VM quit/powerdown failed"},
		{"POST ~/100/status/shutdown", "timeout=2&forceStop=1", "task OK"},
		{"POST ~/100/status/start", "", "task OK"},
		{"POST ~/100/status/suspend", "todisk=1", "task OK"},
		{"PUT ~/100/config", "name=x", "500 VM is locked (suspended)"},
		{"POST ~/100/status/resume", "", "task OK"},
		{"PUT ~/100/config", "name=x", ""},
	})
	assert.Len(t, l.s.Volumes("data"), 1)
}

func TestBrokenStart(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.addData()
	l.run([]step{
		{"POST ~", "vmid=100&net0=virtio,bridge=nobr9", "task OK"},
		{"POST ~/100/status/start", "", "task bridge 'nobr9' does not exist"},
		{"POST ~", "vmid=101&scsi0=data:1", "task OK"},
		{"DELETE /nodes/pve1/storage/data/content/data:101%2Fvm-101-disk-0.raw", "", "task OK"},
		{"POST ~/101/status/start", "", "task volume 'data:101/vm-101-disk-0.raw' does not exist"},
		{"POST ~", "vmid=102&scsi0=data:1,aio=native,cache=writeback", "task OK"},
		{"POST ~/102/status/start", "", "task start failed: QEMU exited with code 1"},
		{"POST ~", "vmid=103&bios=ovmf&kvm=0", "task OK"},
		{"POST ~/103/status/start", "", "task WARNINGS: 1"},
		{"POST ~", "vmid=104&start=1&net0=virtio,bridge=nobr9", "task OK"},
	})
	vm, _ := l.s.VM(104)
	assert.False(t, vm.Running)
	require.NoError(t, l.s.SetKVM("pve1", false))
	l.run([]step{
		{"POST ~", "vmid=105", "task OK"},
		{"POST ~/105/status/start", "", "task KVM virtualisation configured, but not available. Either disable in VM configuration or enable in BIOS."},
		{"PUT ~/105/config", "kvm=0", ""},
		{"POST ~/105/status/start", "", "task OK"},
	})
	l.s.SetStorageOnline("data", "", false)
	l.run([]step{
		{"POST ~", "vmid=106&scsi0=data:1", "task unable to create VM 106 - unable to activate storage 'data' - directory '/var/lib/data' does not exist or is unreachable"},
	})
}

// TestLocks holds which calls see a lock at once and which in their task.
func TestLocks(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.addData()
	l.done("POST", "/nodes/pve1/qemu", "vmid=101&scsi0=data:1,format=qcow2")
	require.NoError(t, l.s.EditVM(101, func(vm *VM) { vm.Config["lock"] = "backup" }))
	l.run([]step{
		{"PUT ~/101/config", "name=zz", "500 VM is locked (backup)"},
		{"POST ~/101/config", "name=zz", "500 VM is locked (backup)"},
		{"POST ~/101/clone", "newid=110", "500 VM is locked (backup)"},
		{"POST ~/101/template", "", "500 VM is locked (backup)"},
		{"POST ~/101/move_disk", "disk=scsi0&storage=local", "500 VM is locked (backup)"},
		{"POST ~/101/migrate", "target=pve1", "400 target: target is local node."},
		{"POST ~/101/status/start", "", "task VM is locked (backup)"},
		{"POST ~/101/snapshot", "snapname=ss", "task VM is locked (backup)"},
		{"PUT ~/101/resize", "disk=scsi0&size=+1G", "task VM is locked (backup)"},
		{"DELETE ~/101", "", "task VM is locked (backup)"},
	})
	root := l.asRoot()
	root.run([]step{
		{"PUT ~/101/config", "name=zz&skiplock=1", ""},
		{"PUT ~/101/config", "delete=lock&skiplock=1", ""},
		{"PUT ~/101/config", "args=-no-hpet", ""},
	})
	vm, _ := l.s.VM(101)
	assert.NotContains(t, vm.Config, "lock")
	assert.Equal(t, "zz", vm.Config["name"])
}

func TestSnapshots(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.addData()
	l.run([]step{
		{"POST ~", "vmid=101&scsi0=data:2,format=qcow2&ciuser=root&cipassword=secret&ide0=data:cloudinit", "task OK"},
		{"POST ~/101/snapshot", "snapname=current", "500 unable to use snapshot name 'current' (reserved name)"},
		{"POST ~/101/snapshot", "snapname=s1&description=first", "task OK"},
		{"POST ~/101/snapshot", "snapname=s1", "task snapshot name 's1' already used"},
		{"POST ~/101/snapshot/nope/rollback", "", "task snapshot 'nope' does not exist"},
		{"DELETE ~/101/snapshot/nope", "", "task snapshot 'nope' does not exist"},
		{"GET ~/101/snapshot/nope/config", "", "500 snapshot 'nope' does not exist"},
		{"PUT ~/101/snapshot/s1/config", "description=changed", ""},
		{"PUT ~/101/resize", "disk=scsi0&size=3G", "task OK"},
		{"PUT ~/101/config", "scsi1=data:1", ""},
		{"POST ~/101/template", "", "500 unable to create template, because VM contains snapshots"},
		{"POST ~/101/snapshot", "snapname=s2", "task snapshot feature is not available"}, // scsi1 is raw
		{"PUT ~/101/config", "delete=scsi1", ""},
		{"POST ~/101/snapshot", "snapname=s2", "task OK"},
		{"PUT ~/101/unlink", "idlist=scsi0&force=1", "400 scsi0: unable to delete 'data:101/vm-101-disk-0.qcow2' - volume is still in use (snapshot?)"},
	})
	vm, _ := l.s.VM(101)
	require.Contains(t, vm.Config, "scsi0", "the refused removal stays pending")
	l.ok("PUT", "/nodes/pve1/qemu/101/config", "revert=scsi0")

	snap := l.get("/nodes/pve1/qemu/101/snapshot/s1/config")
	assert.Equal(t, "secret", snap["cipassword"])
	assert.Equal(t, "changed", snap["description"])
	assert.Equal(t, "**********", l.config("101")["cipassword"])
	rows := l.list("/nodes/pve1/qemu/101/snapshot")
	require.Len(t, rows, 3)
	assert.Equal(t, "s1", rows[1]["parent"])
	assert.Equal(t, "s2", rows[2]["parent"])

	l.run([]step{{"POST ~/101/snapshot/s1/rollback", "", "task OK"}})
	assert.Equal(t, "data:101/vm-101-disk-0.qcow2,size=2G", l.config("101")["scsi0"])
	v, _ := l.s.Volume("data:101/vm-101-disk-0.qcow2")
	assert.Equal(t, 2*gib, v.Size)
	l.run([]step{
		{"DELETE ~/101/snapshot/s1", "", "task OK"},
		{"DELETE ~/101/snapshot/s2", "", "task OK"},
	})
	vm, _ = l.s.VM(101)
	assert.NotContains(t, vm.Config, "parent")
	assert.Empty(t, vm.Snapshots)
}

// TestTemplateTraps holds what a template flag does to snapshots and moves.
func TestTemplateTraps(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.addData()
	l.run([]step{
		{"POST ~", "vmid=900&virtio0=data:1,format=qcow2", "task OK"},
		{"PUT ~/900/config", "template=1", ""},
		{"POST ~/900/snapshot", "snapname=s1", "task you can't take a snapshot if it's a template"},
		{"PUT ~/900/config", "delete=template", ""},
		{"POST ~/900/snapshot", "snapname=s1", "task OK"},
		{"PUT ~/900/config", "template=1", ""},
		{"POST ~/900/snapshot/s1/rollback", "", "task you can't rollback if vm is a template"},
		{"DELETE ~/900/snapshot/s1", "", "task you can't delete a snapshot if vm is a template"},
		{"PUT ~/900/config", "name=x", "500 VM is locked (snapshot-delete)"},
	})
	require.NoError(t, l.s.EditVM(900, func(vm *VM) { delete(vm.Config, "lock"); delete(vm.Config, "template") }))
	l.run([]step{
		{"DELETE ~/900/snapshot/s1", "", "task OK"},
		{"PUT ~/900/config", "template=1", ""},
		{"POST ~/900/move_disk", "disk=virtio0&storage=local&delete=1", "task OK"},
	})
	assert.Equal(t, "local:900/base-900-disk-0.qcow2,size=1G", l.config("900")["virtio0"])
	l.ok("PUT", "/nodes/pve1/qemu/900/config", "virtio1=data:1")
	assert.Equal(t, "data:900/base-900-disk-0.raw,size=1G", l.config("900")["virtio1"])
}

func TestAgent(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run([]step{
		{"POST ~/4711/agent/ping", "", "500 Configuration file 'nodes/pve1/qemu-server/4711.conf' does not exist"},
		{"POST ~", "vmid=100", "task OK"},
		{"POST ~/100/agent/ping", "", "500 No QEMU guest agent configured"},
		{"PUT ~/100/config", "agent=enabled=1", ""},
		{"POST ~/100/agent/ping", "", "500 VM 100 is not running"},
		{"POST ~/100/status/start", "", "task OK"},
		{"POST ~/100/agent/ping", "", "500 QEMU guest agent is not running"},
	})
	require.NoError(t, l.s.SetAgent(100, &Agent{
		Replies: map[string]any{"get-users": []any{}},
		Files:   map[string]string{"/etc/motd": "hello"},
		Exec:    map[string]AgentExec{"/bin/false": {ExitCode: 1, Stderr: "no"}, "/bin/sleep": {Running: true}},
	}))
	const agent = "/nodes/pve1/qemu/100/agent"
	assert.Equal(t, map[string]any{"result": map[string]any{}}, l.ok("POST", agent+"/ping", ""))
	assert.Equal(t, map[string]any{"result": []any{}}, l.ok("GET", agent+"/get-users", ""))
	assert.Contains(t, l.ok("POST", agent+"/fstrim", "").(map[string]any)["result"], "error")
	assert.Equal(t, "hello", l.get(agent + "/file-read?file=/etc/motd")["content"])
	l.ok("POST", agent+"/file-write", "file=/tmp/x&content=aGVsbG8=&encode=0")
	assert.Equal(t, "hello", l.get(agent + "/file-read?file=/tmp/x")["content"])
	l.ok("POST", agent+"/exec", "command=/bin/false")
	done := l.get(agent + "/exec-status?pid=1000")
	assert.Equal(t, "no", done["err-data"])
	l.ok("POST", agent+"/exec", "command=/bin/sleep&command=20")
	assert.NotContains(t, l.get(agent+"/exec-status?pid=1001"), "exitcode")
	l.run([]step{
		{"GET ~/100/agent/file-read", "file=/nope", "500 Agent error: failed to open file '/nope' (mode: 'r'): No such file or directory"},
		{"GET ~/100/agent/exec-status", "pid=99999", "500 Agent error: Invalid parameter 'pid'"},
	})
	require.NoError(t, l.s.SetAgent(100, nil))
	l.run([]step{{"POST ~/100/agent/ping", "", "500 QEMU guest agent is not running"}})
}
