package cpitest_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/proxkit/proxkit/cpi/cpitest"
	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve"
	"github.com/proxkit/proxkit/pve/pvetest"
)

func liesAboutDisks() []lie {
	return []lie{
		{name: "has_disk is always true", in: "new-vm", want: "the answer is true for disk", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.hasDisk = func(context.Context, rpc.DiskCID) (bool, error) { return true, nil }
		}},
		{name: "has_disk is always false", in: "new-vm", want: "the answer is false for disk", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.hasDisk = func(context.Context, rpc.DiskCID) (bool, error) { return false, nil }
		}},
		{name: "create_disk makes nothing", want: "no volume was made", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.createDisk = func(context.Context, int64, json.RawMessage, rpc.VMCID) (rpc.DiskCID, error) {
				return "disk-abcdefghjkmnpqr", nil
			}
		}},
		{name: "create_disk makes too small a disk", want: "was asked for 2048 MiB and made", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.createDisk = func(ctx context.Context, size int64, p json.RawMessage, vm rpc.VMCID) (rpc.DiskCID, error) {
				return l.Handler.CreateDisk(ctx, size/2, p, vm)
			}
		}},
		{name: "create_disk makes two", want: "more than one volume", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.createDisk = func(ctx context.Context, size int64, p json.RawMessage, vm rpc.VMCID) (rpc.DiskCID, error) {
				if _, err := l.Handler.CreateDisk(ctx, size, p, vm); err != nil {
					return "", err
				}
				return l.Handler.CreateDisk(ctx, size, p, vm)
			}
		}},
		{name: "attach_disk attaches nothing", want: "but no drive refers to it", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.attachDisk = func(_ context.Context, _ rpc.VMCID, d rpc.DiskCID) (rpc.DiskHint, error) {
				return rpc.DiskHint{"path": "/dev/disk/by-id/virtio-" + string(d)}, nil
			}
		}},
		{name: "attach_disk tells the path of another drive", want: "leads the agent to", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.attachDisk = func(ctx context.Context, v rpc.VMCID, d rpc.DiskCID) (rpc.DiskHint, error) {
				_, err := l.Handler.AttachDisk(ctx, v, d)
				return rpc.DiskHint{"path": "/dev/disk/by-id/virtio-bosh-ephemeral"}, err
			}
		}},
		{name: "attach_disk tells a path that leads nowhere", want: "leads to no drive", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.attachDisk = func(ctx context.Context, v rpc.VMCID, d rpc.DiskCID) (rpc.DiskHint, error) {
				_, err := l.Handler.AttachDisk(ctx, v, d)
				return rpc.DiskHint{"path": "/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_drive-scsi1"}, err
			}
		}},
		{name: "attach_disk tells another hint the second time", in: "new-vm", want: "but the hint is", tell: func(b *bed, l *liar, _ *rpc.Call) {
			l.attachDisk = func(ctx context.Context, v rpc.VMCID, d rpc.DiskCID) (rpc.DiskHint, error) {
				h, err := l.Handler.AttachDisk(ctx, v, d)
				h["try"] = fmt.Sprint(b.count.Add(1))
				return h, err
			}
		}},
		{name: "attach_disk fails the second time", in: "cck", want: "already attached", tell: func(b *bed, l *liar, _ *rpc.Call) {
			l.attachDisk = func(ctx context.Context, v rpc.VMCID, d rpc.DiskCID) (rpc.DiskHint, error) {
				disks, err := l.Handler.GetDisks(ctx, v)
				if err == nil && slices.Contains(disks, d) {
					return nil, rpc.CloudError("already attached")
				}
				return l.Handler.AttachDisk(ctx, v, d)
			}
		}},
		{name: "attach_disk takes the disk from another VM", in: "refusals", want: "which has it as virtio2", tell: func(b *bed, l *liar, _ *rpc.Call) {
			l.attachDisk = func(ctx context.Context, v rpc.VMCID, d rpc.DiskCID) (rpc.DiskHint, error) {
				b.first.CompareAndSwap(nil, &v)
				if old := *b.first.Load(); old != v && vmid(v) > 0 {
					if err := l.Handler.DetachDisk(ctx, old, d); err != nil {
						return nil, err
					}
				}
				return l.Handler.AttachDisk(ctx, v, d)
			}
		}},
		{name: "attach_disk waits for a restart", want: "only after its next restart", tell: func(b *bed, l *liar, _ *rpc.Call) {
			l.attachDisk = func(ctx context.Context, v rpc.VMCID, d rpc.DiskCID) (rpc.DiskHint, error) {
				h, err := l.Handler.AttachDisk(ctx, v, d)
				if err != nil {
					return nil, err
				}
				vm, _ := b.sim.VM(vmid(v))
				slot := slotOf(vm, string(d))
				if err := l.Handler.DetachDisk(ctx, v, d); err != nil {
					return nil, err
				}
				return h, b.changeAtRestart(ctx, vmid(v), pve.UpdateVMConfigParams{VirtIO: map[int]pve.VMDisk{virtio(slot): drive(vm.Config[slot])}})
			}
		}},
		{name: "detach_disk leaves the reference", want: "as virtio2, but should not", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.detachDisk = func(context.Context, rpc.VMCID, rpc.DiskCID) error { return nil }
		}},
		{name: "detach_disk waits for a restart", want: "until its next restart", tell: func(b *bed, l *liar, _ *rpc.Call) {
			l.detachDisk = func(ctx context.Context, v rpc.VMCID, d rpc.DiskCID) error {
				vm, _ := b.sim.VM(vmid(v))
				return b.changeAtRestart(ctx, vmid(v), pve.UpdateVMConfigParams{Delete: []string{slotOf(vm, string(d))}})
			}
		}},
		{name: "detach_disk leaves an unused reference", want: "it would go with the VM", tell: func(b *bed, l *liar, _ *rpc.Call) {
			l.detachDisk = func(ctx context.Context, v rpc.VMCID, d rpc.DiskCID) error {
				var volume string
				b.editVM(v, func(vm *pvetest.VM) { volume, _, _ = strings.Cut(vm.Config[slotOf(*vm, string(d))], ",") })
				err := l.Handler.DetachDisk(ctx, v, d)
				b.editVM(v, func(vm *pvetest.VM) { vm.Config["unused0"] = volume })
				return err
			}
		}},
		{name: "detach_disk of what is not attached succeeds", in: "refusals", want: "was accepted", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.detachDisk = func(ctx context.Context, v rpc.VMCID, d rpc.DiskCID) error {
				_ = l.Handler.DetachDisk(ctx, v, d)
				return nil
			}
		}},
		{name: "delete_disk leaves the disk", want: "belongs to nothing that the CPI has named", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.deleteDisk = func(context.Context, rpc.DiskCID) error { return nil }
		}},
		{name: "delete_disk fails when the disk is gone", in: "delete-deployment", want: "when the call is repeated", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.deleteDisk = func(ctx context.Context, d rpc.DiskCID) error {
				if there, err := l.Handler.HasDisk(ctx, d); err != nil || !there {
					return rpc.CloudError("no such disk: %v", err)
				}
				return l.Handler.DeleteDisk(ctx, d)
			}
		}},
		{name: "delete_disk deletes a disk that is attached", in: "refusals", want: "which holds it, is gone", tell: func(b *bed, l *liar, _ *rpc.Call) {
			l.attachDisk = func(ctx context.Context, v rpc.VMCID, d rpc.DiskCID) (rpc.DiskHint, error) {
				b.first.CompareAndSwap(nil, &v)
				return l.Handler.AttachDisk(ctx, v, d)
			}
			l.deleteDisk = func(ctx context.Context, d rpc.DiskCID) error {
				if v := b.first.Load(); v != nil && strings.HasPrefix(string(d), "disk-") {
					_ = l.Handler.DetachDisk(ctx, *v, d)
				}
				return l.Handler.DeleteDisk(ctx, d)
			}
		}},
		{name: "get_disks finds none", in: "new-vm", want: "the disks of VM", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.getDisks = func(context.Context, rpc.VMCID) ([]rpc.DiskCID, error) { return nil, nil }
		}},
		{name: "resize_disk does nothing", in: "resize-disk", want: "should have 3072 MiB", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.resizeDisk = func(context.Context, rpc.DiskCID, int64) error { return nil }
		}},
		{name: "set_disk_metadata is ignored", want: "stands neither in the tags nor in the description", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.setDiskMeta = func(context.Context, rpc.DiskCID, rpc.Metadata) error { return nil }
		}},
		{name: "snapshot_disk takes none", in: "snapshots", want: "no more snapshots than before", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.snapshotDisk = func(context.Context, rpc.DiskCID, rpc.Metadata) (rpc.SnapshotCID, error) { return "snap-1", nil }
		}},
	}
}

func liesAboutStemcells() []lie {
	return []lie{
		{name: "create_stemcell makes nothing", want: "but nothing was made", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.createStemcell = func(context.Context, string, json.RawMessage, json.RawMessage) (rpc.StemcellCID, error) {
				return "stemcell-0123456789abcdef0123456789abcdef", nil
			}
		}},
		{name: "create_stemcell leaves the upload", want: "was left behind", tell: func(b *bed, l *liar, _ *rpc.Call) {
			l.createStemcell = func(ctx context.Context, path string, p, env json.RawMessage) (rpc.StemcellCID, error) {
				cid, err := l.Handler.CreateStemcell(ctx, path, p, env)
				return cid, cmp.Or(err, b.sim.AddVolume("pve1", "files:import/upload.qcow2", []byte("left")))
			}
		}},
		{name: "delete_stemcell leaves the template", want: "belongs to nothing that the CPI has named", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.deleteStemcell = func(context.Context, rpc.StemcellCID) error { return nil }
		}},
		{name: "delete_stemcell deletes another Director's", in: "stemcell", want: "is gone", tell: func(b *bed, l *liar, call *rpc.Call) {
			l.deleteStemcell = func(ctx context.Context, cid rpc.StemcellCID) error {
				if strings.HasSuffix(call.Context.DirectorUUID, "-b") {
					for _, id := range b.sim.VMIDs() {
						if vm, _ := b.sim.VM(id); strings.Contains(vm.Config["tags"], string(cid)) {
							if err := b.sim.DropVM(id); err != nil {
								return err
							}
						}
					}
				}
				return l.Handler.DeleteStemcell(ctx, cid)
			}
		}},
		{name: "delete_stemcell accepts anything", in: "refusals", want: "delete_stemcell of a blank identifier was accepted", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.deleteStemcell = func(ctx context.Context, cid rpc.StemcellCID) error {
				_ = l.Handler.DeleteStemcell(ctx, cid)
				return nil
			}
		}},
	}
}

func liesInAnswers() []lie {
	errorOnly := func(change func(e map[string]json.RawMessage)) func([]byte, cpitest.Answer) cpitest.Answer {
		return edit(func(m map[string]json.RawMessage) {
			var e map[string]json.RawMessage
			if json.Unmarshal(m["error"], &e) == nil && e != nil {
				change(e)
				m["error"], _ = json.Marshal(e)
			}
		})
	}
	return []lie{
		{name: "create_vm answers a bare string", method: "create_vm", want: "must be an array of the VM's identifier", rewrite: edit(func(m map[string]json.RawMessage) {
			var parts []json.RawMessage
			if json.Unmarshal(m["result"], &parts) == nil && len(parts) > 0 {
				m["result"] = parts[0]
			}
		})},
		{name: "attach_disk answers an empty hint", method: "attach_disk", want: "empty object", rewrite: edit(func(m map[string]json.RawMessage) { m["result"] = json.RawMessage(`{}`) })},
		{name: "attach_disk answers null", method: "attach_disk", want: "the hint must be", rewrite: edit(func(m map[string]json.RawMessage) { m["result"] = json.RawMessage(`null`) })},
		{name: "attach_disk answers a number in the hint", method: "attach_disk", want: "only strings are allowed", rewrite: edit(func(m map[string]json.RawMessage) { m["result"] = json.RawMessage(`{"path":"/dev/vdc","lun":2}`) })},
		{name: "has_vm answers a string", method: "has_vm", want: "must be true or false", rewrite: swap(`"result":true`, `"result":"true"`)},
		{name: "create_disk answers nothing", method: "create_disk", want: "must be an identifier", rewrite: edit(func(m map[string]json.RawMessage) { m["result"] = json.RawMessage(`""`) })},
		{name: "info tells a version that is a string", in: "protocol", method: "info", want: "api_version must be an integer", rewrite: swap(`"api_version":2`, `"api_version":"2"`)},
		{name: "info tells version 1", in: "protocol", method: "info", want: "is 2", rewrite: swap(`"api_version":2`, `"api_version":1`)},
		{name: "info tells no formats", in: "protocol", method: "info", want: "stemcell_formats must be an array", rewrite: swap(`"stemcell_formats"`, `"formats"`)},
		{name: "the error lacks ok_to_retry", in: "protocol", want: `"ok_to_retry" is missing`, rewrite: errorOnly(func(e map[string]json.RawMessage) { delete(e, "ok_to_retry") })},
		{name: "the error's message is null", in: "protocol", want: `"message" is null`, rewrite: errorOnly(func(e map[string]json.RawMessage) { e["message"] = json.RawMessage("null") })},
		{name: "the error's type is unknown", in: "refusals", method: "delete_stemcell", want: "none of the ten", rewrite: errorOnly(func(e map[string]json.RawMessage) { e["type"] = json.RawMessage(`"Bosh::Clouds::StemcellNotFound"`) })},
		{name: "the error's class is another", in: "refusals", method: "detach_disk", want: "not Bosh::Clouds::DiskNotAttached", rewrite: errorOnly(func(e map[string]json.RawMessage) { e["type"] = json.RawMessage(`"Bosh::Clouds::CloudError"`) })},
		{name: "an unknown method succeeds", in: "protocol", method: "configure_networks", want: "does not exist", rewrite: edit(func(m map[string]json.RawMessage) { m["error"] = json.RawMessage("null") })},
		{name: "the log is null", in: "protocol", want: "the log is null, not a string", rewrite: edit(func(m map[string]json.RawMessage) { m["log"] = json.RawMessage("null") })},
		{name: "the log is missing", in: "protocol", want: `lacks the key "log"`, rewrite: edit(func(m map[string]json.RawMessage) { delete(m, "log") })},
		{name: "the log is long", in: "protocol", want: "keep it short", rewrite: edit(func(m map[string]json.RawMessage) {
			m["log"], _ = json.Marshal(strings.Repeat("everything is fine\n", 10000))
		})},
		{name: "standard error is long", in: "protocol", want: "on standard error: keep it short", rewrite: func(_ []byte, a cpitest.Answer) cpitest.Answer {
			a.Stderr = bytes.Repeat([]byte("debug\n"), 10000)
			return a
		}},
		{name: "there are two documents", in: "protocol", want: "more than one JSON document", rewrite: func(_ []byte, a cpitest.Answer) cpitest.Answer {
			a.Stdout = append(a.Stdout, a.Stdout...)
			return a
		}},
		{name: "there is text before the document", in: "protocol", want: "is not one JSON object", rewrite: func(_ []byte, a cpitest.Answer) cpitest.Answer {
			a.Stdout = append([]byte("warning: deprecated\n"), a.Stdout...)
			return a
		}},
		{name: "there is no answer to a broken request", in: "protocol", want: "standard output is empty", rewrite: func(r []byte, a cpitest.Answer) cpitest.Answer {
			if !json.Valid(r) {
				a.Stdout, a.Status = nil, 1
			}
			return a
		}},
		{name: "the exit status is not 0 with an error", in: "protocol", want: "the exit status is 1", rewrite: func(_ []byte, a cpitest.Answer) cpitest.Answer {
			if !bytes.Contains(a.Stdout, []byte(`"error":null`)) {
				a.Status = 1
			}
			return a
		}},
		{name: "a method that must be there is not", method: "has_disk", in: "new-vm", want: "does not implement has_disk", rewrite: edit(func(m map[string]json.RawMessage) {
			m["error"] = json.RawMessage(`{"type":"Bosh::Clouds::NotImplemented","message":"no","ok_to_retry":false}`)
		})},
		{name: "a secret of the env is in the log", method: "create_vm", want: "prints a secret on standard output: env.", rewrite: func(r []byte, a cpitest.Answer) cpitest.Answer {
			return edit(func(m map[string]json.RawMessage) { m["log"], _ = json.Marshal("request: " + string(r)) })(r, a)
		}},
		{name: "a secret of the configuration is on standard error", method: "create_vm", want: "prints a secret on standard error", rewrite: func(_ []byte, a cpitest.Answer) cpitest.Answer {
			a.Stderr = []byte("connecting to https://mbus:" + mbusSecret + "@0.0.0.0")
			return a
		}},
		{name: "a secret is in base64", method: "create_vm", want: "prints a secret on standard error", rewrite: func(_ []byte, a cpitest.Answer) cpitest.Answer {
			a.Stderr = []byte("Authorization: Basic YmxvYnN0b3JlLWNhbmFyeS93aXRoK3NpZ25z")
			return a
		}},
	}
}
