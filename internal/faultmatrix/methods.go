package main

import (
	"encoding/json"
	"fmt"

	"github.com/proxkit/proxkit/cpi/rpc"
)

// A ledger says what the Director believes to have.
type ledger struct {
	vms, disks, stemcells map[string]bool
	attached              map[string]string // disk → VM
	metadata              map[string]bool   // guests' CIDs whose metadata the last call has set
}

func newLedger(s subject) *ledger {
	return &ledger{
		vms:       map[string]bool{s.VM: true, s.Other: true},
		disks:     map[string]bool{s.Attached: true, s.OtherDisk: true, s.Free: true},
		stemcells: map[string]bool{s.Stemcell: true, s.Spare: true},
		attached:  map[string]string{s.Attached: s.VM, s.OtherDisk: s.Other},
		metadata:  map[string]bool{},
	}
}

// A method is a row of the matrix: a call of the CPI, and what the Director does
// next.
type method struct {
	name string
	call string
	args func(w *world) []any
	// apply enters into the ledger what a success means. It returns what is wrong
	// with the result.
	apply func(w *world, l *ledger, a *answer) string
	// again are the arguments of the next attempt, when they are other than args.
	again func(w *world, failed *answer) []any
	// done are errors of a next attempt that mean that there is nothing to do.
	done []rpc.Class
	// follow are the calls that come after a success.
	follow []step
	// look is a check that the console makes between a failure and the next
	// attempt: a call that must answer.
	look func(w *world) (call string, args []any)
	// reads says that the call changes nothing.
	reads bool
}

// A step is a call of the Director's that must succeed.
type step struct {
	call  string
	args  func(w *world, l *ledger, first *answer) []any
	apply func(w *world, l *ledger, first *answer)
	done  []rpc.Class
}

func fixed(args ...any) func(*world) []any { return func(*world) []any { return args } }

func expectResult(want string) func(*world, *ledger, *answer) string {
	return func(_ *world, _ *ledger, a *answer) string {
		if string(a.Result) != want {
			return fmt.Sprintf("the result is %s instead of %s", a.Result, want)
		}
		return ""
	}
}

// entered applies a new CID to one of the ledger's sets.
func entered(set func(l *ledger) map[string]bool) func(*world, *ledger, *answer) string {
	return func(_ *world, l *ledger, a *answer) string {
		cid := a.text()
		if cid == "" {
			return fmt.Sprintf("the result %s holds no CID", a.Result)
		}
		set(l)[cid] = true
		return ""
	}
}

func vms(l *ledger) map[string]bool       { return l.vms }
func disks(l *ledger) map[string]bool     { return l.disks }
func stemcells(l *ledger) map[string]bool { return l.stemcells }

// deletion is the step that deletes what the first call has made.
func deletion(call string, set func(l *ledger) map[string]bool) step {
	return step{
		call:  call,
		args:  func(_ *world, _ *ledger, first *answer) []any { return []any{first.text()} },
		apply: func(_ *world, l *ledger, first *answer) { delete(set(l), first.text()) },
	}
}

// methods lists every method of the CPI that asks the cluster for anything, some
// with the arguments that make it take another way.
func methods() []method {
	vmLook := func(w *world) (string, []any) { return "has_vm", []any{w.VM} }
	diskLook := func(cid func(w *world) string) func(w *world) (string, []any) {
		return func(w *world) (string, []any) { return "has_disk", []any{cid(w)} }
	}
	free := func(w *world) string { return w.Free }
	createVM := func(name string, properties object) method {
		return method{
			name: name, call: "create_vm",
			args: func(w *world) []any { return w.vmArguments("agent-9", properties, w.Free) },
			// The Director keeps the agent's name for the attempts that it makes by
			// itself, and takes a new one when somebody deploys again.
			again: func(w *world, failed *answer) []any {
				if failed.Error != nil && failed.Error.Type == rpc.ClassVMCreationFailed && failed.Error.OKToRetry {
					return w.vmArguments("agent-9", properties, w.Free)
				}
				return w.vmArguments("agent-10", properties, w.Free)
			},
			apply: entered(vms),
			follow: []step{
				{
					call:  "attach_disk",
					args:  func(w *world, _ *ledger, first *answer) []any { return []any{first.text(), w.Free} },
					apply: func(w *world, l *ledger, first *answer) { l.attached[w.Free] = first.text() },
				},
				{
					call: "delete_vm",
					args: func(_ *world, _ *ledger, first *answer) []any { return []any{first.text()} },
					apply: func(w *world, l *ledger, first *answer) {
						delete(l.vms, first.text())
						delete(l.attached, w.Free)
					},
				},
			},
		}
	}
	same := func(call string, args func(w *world) []any, done ...rpc.Class) step {
		return step{call: call, args: func(w *world, _ *ledger, _ *answer) []any { return args(w) }, done: done}
	}
	deleteVM := func(w *world) []any { return []any{w.VM} }
	deleteDisk := func(w *world) []any { return []any{w.Free} }
	deleteStemcell := func(w *world) []any { return []any{w.Spare} }
	attach := func(w *world) []any { return []any{w.Other, w.Free} }
	detach := func(w *world) []any { return []any{w.VM, w.Attached} }
	vmMetadata := func(w *world) []any {
		return []any{w.VM, object{"deployment": "d2", "job": "web", "index": "0", "name": "web/0"}}
	}
	diskMetadata := func(w *world) []any {
		return []any{w.Free, object{"deployment": "d2", "instance_group": "web"}}
	}
	return []method{
		{
			name: "create_stemcell", call: "create_stemcell",
			args:   func(w *world) []any { return []any{w.Images["new"], stemcellProperties} },
			apply:  entered(stemcells),
			follow: []step{deletion("delete_stemcell", stemcells)},
		},
		{
			name: "create_stemcell, there already", call: "create_stemcell",
			args:  func(w *world) []any { return []any{w.Images["spare"], stemcellProperties} },
			apply: func(w *world, l *ledger, a *answer) string { return expectResult(quoted(w.Spare))(w, l, a) },
		},
		{
			name: "delete_stemcell", call: "delete_stemcell", args: deleteStemcell,
			apply: func(w *world, l *ledger, _ *answer) string {
				delete(l.stemcells, w.Spare)
				return ""
			},
			follow: []step{same("delete_stemcell", deleteStemcell)},
		},
		createVM("create_vm", smallVM),
		createVM("create_vm, larger", object{
			"cpu": 2, "ram": 2048, "root_disk": object{"size": 10240}, "ephemeral_disk": object{"size": 4096}, "cache": "writeback",
		}),
		createVM("create_vm, elsewhere", object{"cpu": 1, "ram": 1024, "storage": "fast", "ephemeral_disk": object{"size": 4096}}),
		{
			name: "delete_vm", call: "delete_vm", args: deleteVM, look: vmLook, done: []rpc.Class{rpc.ClassVMNotFound},
			apply: func(w *world, l *ledger, _ *answer) string {
				delete(l.vms, w.VM)
				delete(l.attached, w.Attached)
				return ""
			},
			follow: []step{
				same("delete_vm", deleteVM, rpc.ClassVMNotFound),
				{
					call:  "attach_disk",
					args:  func(w *world, _ *ledger, _ *answer) []any { return []any{w.Other, w.Attached} },
					apply: func(w *world, l *ledger, _ *answer) { l.attached[w.Attached] = w.Other },
				},
			},
		},
		{name: "has_vm", call: "has_vm", args: deleteVM, apply: expectResult("true"), reads: true},
		{name: "has_vm, gone", call: "has_vm", args: fixed("vm-9999-k3v5q2m4x6z7"), apply: expectResult("false"), reads: true},
		{name: "reboot_vm", call: "reboot_vm", args: deleteVM, look: vmLook},
		{
			name: "set_vm_metadata", call: "set_vm_metadata", args: vmMetadata, look: vmLook,
			apply: func(w *world, l *ledger, _ *answer) string {
				l.metadata[w.VM] = true
				return ""
			},
			follow: []step{same("set_vm_metadata", vmMetadata)},
		},
		{name: "get_disks", call: "get_disks", args: deleteVM, reads: true, apply: func(w *world, _ *ledger, a *answer) string {
			return expectResult("["+quoted(w.Attached)+"]")(w, nil, a)
		}},
		{
			name: "create_disk", call: "create_disk",
			args:   func(w *world) []any { return []any{20480, object{}, w.Other} },
			apply:  entered(disks),
			follow: []step{deletion("delete_disk", disks)},
		},
		{
			name: "delete_disk", call: "delete_disk", args: deleteDisk, look: diskLook(free), done: []rpc.Class{rpc.ClassDiskNotFound},
			apply: func(w *world, l *ledger, _ *answer) string {
				delete(l.disks, w.Free)
				return ""
			},
			follow: []step{same("delete_disk", deleteDisk, rpc.ClassDiskNotFound)},
		},
		{name: "has_disk", call: "has_disk", args: deleteDisk, apply: expectResult("true"), reads: true},
		{name: "has_disk, gone", call: "has_disk", args: fixed("disk-k3v5q2m4x6z7c4b"), apply: expectResult("false"), reads: true},
		{
			name: "attach_disk", call: "attach_disk", args: attach, look: diskLook(free),
			apply: func(w *world, l *ledger, a *answer) string {
				l.attached[w.Free] = w.Other
				return expectResult(`{"path":"/dev/disk/by-id/virtio-`+w.Free+`"}`)(w, l, a)
			},
			follow: []step{same("attach_disk", attach)},
		},
		{
			name: "detach_disk", call: "detach_disk", args: detach, look: vmLook, done: []rpc.Class{rpc.ClassDiskNotAttached},
			apply: func(w *world, l *ledger, _ *answer) string {
				delete(l.attached, w.Attached)
				return ""
			},
			follow: []step{{
				call:  "delete_disk",
				args:  func(w *world, _ *ledger, _ *answer) []any { return []any{w.Attached} },
				apply: func(w *world, l *ledger, _ *answer) { delete(l.disks, w.Attached) },
			}},
		},
		{
			name: "resize_disk", call: "resize_disk", look: diskLook(free),
			args:   func(w *world) []any { return []any{w.Free, 20480} },
			follow: []step{same("resize_disk", func(w *world) []any { return []any{w.Free, 20480} })},
		},
		{
			name: "set_disk_metadata", call: "set_disk_metadata", args: diskMetadata, look: diskLook(free),
			apply: func(w *world, l *ledger, _ *answer) string {
				l.metadata[w.Free] = true
				return ""
			},
			follow: []step{same("set_disk_metadata", diskMetadata)},
		},
	}
}

// silent lists the methods that ask the cluster for nothing; a test holds that.
func silent() map[string][]any {
	return map[string][]any{
		"info":                          nil,
		"calculate_vm_cloud_properties": {object{"ram": 1024, "cpu": 1, "ephemeral_disk_size": 10240}},
		"delete_snapshot":               {"snap-1"},
		"snapshot_disk":                 {"disk-k3v5q2m4x6z7c4b", object{}},
		"update_disk":                   {"disk-k3v5q2m4x6z7c4b", 20480, object{}},
		"create_network":                {object{"type": "manual", "cloud_properties": object{}}},
		"delete_network":                {"net-1"},
		"current_vm_id":                 nil,
		"ping":                          nil,
		"a method that does not exist":  nil,
		"configure_networks":            {"vm-1", object{}},
	}
}

func quoted(s string) string {
	data, _ := json.Marshal(s)
	return string(data)
}
