package cpitest_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi/cpitest"
	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve"
	"github.com/proxkit/proxkit/pve/pvetest"
)

// A lie is something that a CPI says or does which is not true or not right.
type lie struct {
	name string
	// in is the scenario in which it comes out; the default is create-env.
	in string
	// tell lies in a method, rewrite in the answer to the request of a method.
	tell    func(b *bed, l *liar, call *rpc.Call)
	method  string
	rewrite func(request []byte, a cpitest.Answer) cpitest.Answer
	// want is part of what the suite says about it.
	want string
}

func lies() []lie {
	return slices.Concat(liesAboutVMs(), liesInSettings(), liesAboutDisks(), liesAboutStemcells(), liesInAnswers())
}

func liesAboutVMs() []lie {
	return []lie{
		{name: "has_vm is always true", want: "the answer is true for VM", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.hasVM = func(context.Context, rpc.VMCID) (bool, error) { return true, nil }
		}},
		{name: "has_vm is always false", want: "the answer is false for VM", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.hasVM = func(context.Context, rpc.VMCID) (bool, error) { return false, nil }
		}},
		{name: "has_vm changes something", in: "new-vm", want: "the call may change nothing, but", tell: func(b *bed, l *liar, _ *rpc.Call) {
			l.hasVM = func(ctx context.Context, cid rpc.VMCID) (bool, error) {
				b.editVM(cid, func(vm *pvetest.VM) { vm.Config["onboot"] = "1" })
				return l.Handler.HasVM(ctx, cid)
			}
		}},
		{name: "create_vm makes nothing", want: "no guest was made", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.createVM = func(_ context.Context, req rpc.CreateVMRequest) (rpc.VMCID, rpc.Networks, error) {
				return "vm-999-abcdefghjkmn", req.Networks, nil
			}
		}},
		{name: "create_vm makes a twin", want: "create_vm made 2 guests", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.createVM = func(ctx context.Context, req rpc.CreateVMRequest) (rpc.VMCID, rpc.Networks, error) {
				if _, _, err := l.Handler.CreateVM(ctx, req); err != nil {
					return "", nil, err
				}
				return l.Handler.CreateVM(ctx, req)
			}
		}},
		{name: "create_vm starts nothing", want: "does not run", tell: func(b *bed, l *liar, _ *rpc.Call) {
			l.after(func(cid rpc.VMCID) { b.editVM(cid, func(vm *pvetest.VM) { vm.Running = false }) })
		}},
		{name: "create_vm gives less memory", want: "MiB of memory, not 1536", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.before(func(req *rpc.CreateVMRequest) { req.CloudProperties = replace(req.CloudProperties, "1536", "1024") })
		}},
		{name: "create_vm gives fewer CPUs", want: "has 1 CPUs, not 2", tell: func(b *bed, l *liar, _ *rpc.Call) {
			l.after(func(cid rpc.VMCID) { b.editVM(cid, func(vm *pvetest.VM) { vm.Config["cores"] = "1" }) })
		}},
		{name: "create_vm gives a smaller ephemeral disk", want: "the ephemeral disk has 2048 MiB, not 3072", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.before(func(req *rpc.CreateVMRequest) { req.CloudProperties = replace(req.CloudProperties, "3072", "2048") })
		}},
		{name: "create_vm gives no ephemeral disk", want: "there is no ephemeral disk", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.before(func(req *rpc.CreateVMRequest) { req.CloudProperties = replace(req.CloudProperties, "3072", "0") })
		}},
		{name: "create_vm forgets a NIC", in: "new-vm", want: "NICs with the addresses", tell: func(b *bed, l *liar, _ *rpc.Call) {
			l.after(func(cid rpc.VMCID) { b.editVM(cid, func(vm *pvetest.VM) { delete(vm.Config, "net1") }) })
		}},
		{name: "create_vm plugs the NIC into another bridge", want: "is plugged into", tell: func(b *bed, l *liar, _ *rpc.Call) {
			l.after(func(cid rpc.VMCID) {
				b.editVM(cid, func(vm *pvetest.VM) {
					vm.Config["net0"] = strings.Replace(vm.Config["net0"], "vmbr0", "vmbr1", 1)
				})
			})
		}},
		{name: "two NICs have the same MAC", in: "hotswap", want: "have the same MAC address", tell: func(b *bed, l *liar, _ *rpc.Call) {
			l.after(func(cid rpc.VMCID) {
				b.editVM(cid, func(vm *pvetest.VM) {
					vm.Config["net0"] = macs.ReplaceAllString(vm.Config["net0"], "BC:24:11:00:00:01")
				})
			})
		}},
		{name: "create_vm drops a floating address without a word", in: "refusals", want: `lacks the network "floating"`, tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.before(func(req *rpc.CreateVMRequest) {
				req.Networks = slices.DeleteFunc(req.Networks, func(n rpc.Network) bool { return n.Type == "vip" })
			})
		}},
		{name: "delete_vm leaves the VM", want: "belongs to nothing that the CPI has named", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.deleteVM = func(context.Context, rpc.VMCID) error { return nil }
		}},
		{name: "delete_vm takes the persistent disk along", want: "is gone", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.deleteVM = func(ctx context.Context, cid rpc.VMCID) error {
				disks, err := l.Handler.GetDisks(ctx, cid)
				if err != nil {
					return err
				}
				if err := l.Handler.DeleteVM(ctx, cid); err != nil {
					return err
				}
				for _, d := range disks {
					if err := l.Handler.DeleteDisk(ctx, d); err != nil {
						return err
					}
				}
				return nil
			}
		}},
		{name: "delete_vm leaves the CD with the settings", want: "iso belongs to nothing", tell: func(b *bed, l *liar, _ *rpc.Call) {
			l.deleteVM = func(ctx context.Context, cid rpc.VMCID) error {
				volume := b.cd(cid)
				data, err := b.sim.VolumeBytes(volume)
				if err != nil {
					return err
				}
				if err := l.Handler.DeleteVM(ctx, cid); err != nil {
					return err
				}
				return b.sim.AddVolume("pve1", volume, data)
			}
		}},
		{name: "delete_vm fails when the VM is gone", want: "when the call is repeated", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.deleteVM = func(ctx context.Context, cid rpc.VMCID) error {
				if there, err := l.Handler.HasVM(ctx, cid); err != nil || !there {
					return rpc.CloudError("the VM cannot be deleted: %v", err)
				}
				return l.Handler.DeleteVM(ctx, cid)
			}
		}},
		{name: "delete_vm changes an operator's guest", want: "is not the CPI's, but has changed", tell: func(b *bed, l *liar, _ *rpc.Call) {
			l.deleteVM = func(ctx context.Context, cid rpc.VMCID) error {
				err := b.sim.EditVM(100, func(vm *pvetest.VM) { vm.Config["tags"] = "" })
				return cmp.Or(err, l.Handler.DeleteVM(ctx, cid))
			}
		}},
		{name: "delete_vm removes an operator's guest", want: "is not the CPI's, but is gone", tell: func(b *bed, l *liar, _ *rpc.Call) {
			l.deleteVM = func(ctx context.Context, cid rpc.VMCID) error {
				b.sim.DropVM(101)
				return l.Handler.DeleteVM(ctx, cid)
			}
		}},
		{name: "set_vm_metadata is ignored", want: "stands neither in the tags nor in the description", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.setVMMetadata = func(context.Context, rpc.VMCID, rpc.Metadata) error { return nil }
		}},
		{name: "set_vm_metadata takes an operator's tag away", in: "new-vm", want: "lost the tag", tell: func(b *bed, l *liar, _ *rpc.Call) {
			l.setVMMetadata = func(ctx context.Context, cid rpc.VMCID, m rpc.Metadata) error {
				err := l.Handler.SetVMMetadata(ctx, cid, m)
				b.editVM(cid, func(vm *pvetest.VM) {
					vm.Config["tags"] = strings.ReplaceAll(vm.Config["tags"], "cpitest-operator", "")
				})
				return err
			}
		}},
		{name: "set_vm_metadata keeps the old", in: "new-vm", want: "was replaced, but", tell: func(b *bed, l *liar, _ *rpc.Call) {
			l.setVMMetadata = func(ctx context.Context, cid rpc.VMCID, m rpc.Metadata) error {
				err := l.Handler.SetVMMetadata(ctx, cid, m)
				if m["team"] == "cpitest-blue" {
					b.editVM(cid, func(vm *pvetest.VM) { vm.Config["tags"] += ";team-cpitest-red" })
				}
				return err
			}
		}},
		{name: "reboot_vm does nothing", in: "cck", want: "was not restarted", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.rebootVM = func(context.Context, rpc.VMCID) error { return nil }
		}},
		{name: "reboot_vm leaves a VM off that is off", in: "cck", want: "does not run", tell: func(b *bed, l *liar, _ *rpc.Call) {
			l.rebootVM = func(ctx context.Context, cid rpc.VMCID) error {
				if vm, _ := b.sim.VM(vmid(cid)); !vm.Running {
					return nil
				}
				return l.Handler.RebootVM(ctx, cid)
			}
		}},
		{name: "calculate_vm_cloud_properties means half the memory", want: "MiB of memory, not 1536", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.calculate = func(ctx context.Context, want rpc.VMResources) (map[string]any, error) {
				want.RAM /= 2
				return l.Handler.CalculateVMCloudProperties(ctx, want)
			}
		}},
		{name: "calculate_vm_cloud_properties means nothing", want: "an object with something in it", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.calculate = func(context.Context, rpc.VMResources) (map[string]any, error) { return map[string]any{}, nil }
		}},
		{name: "two VMs have one identifier", in: "parallel", want: "to two VMs", tell: func(b *bed, l *liar, _ *rpc.Call) {
			l.createVM = func(ctx context.Context, req rpc.CreateVMRequest) (rpc.VMCID, rpc.Networks, error) {
				cid, n, err := l.Handler.CreateVM(ctx, req)
				b.first.CompareAndSwap(nil, &cid)
				return *b.first.Load(), n, err
			}
		}},
		{name: "a call that was stopped leaves a guest and says it failed", in: "stopped", want: "left behind", tell: func(b *bed, l *liar, _ *rpc.Call) {
			l.createVM = func(ctx context.Context, req rpc.CreateVMRequest) (rpc.VMCID, rpc.Networks, error) {
				cid, n, err := l.Handler.CreateVM(context.WithoutCancel(ctx), req)
				if ctx.Err() != nil {
					return "", nil, rpc.VMCreationFailed("stopped")
				}
				return cid, n, err
			}
		}},
	}
}

func liesInSettings() []lie {
	// patch replaces a text on the CD of every new VM by one of the same length.
	patch := func(change func(cd []byte) []byte) func(*bed, *liar, *rpc.Call) {
		return func(b *bed, l *liar, _ *rpc.Call) {
			l.after(func(cid rpc.VMCID) { b.patchCD(cid, change) })
		}
	}
	same := func(old, now string) func(*bed, *liar, *rpc.Call) {
		return patch(func(cd []byte) []byte {
			if len(now) < len(old) {
				now += strings.Repeat(" ", len(old)-len(now))
			}
			return bytes.ReplaceAll(cd, []byte(old), []byte(now))
		})
	}
	return []lie{
		{name: "the MAC is in upper case", want: "is not in lower case", tell: patch(func(cd []byte) []byte {
			return regexp.MustCompile(`"mac":"[^"]*"`).ReplaceAllFunc(cd, func(m []byte) []byte { return append([]byte(`"mac":`), bytes.ToUpper(m[6:])...) })
		})},
		{name: "the MAC is another one", want: "is none of the guest's NICs", tell: patch(func(cd []byte) []byte {
			return regexp.MustCompile(`"mac":"[^"]*"`).ReplaceAll(cd, []byte(`"mac":"bc:24:11:00:00:09"`))
		})},
		{name: "disks.system is an object", want: "disks.system is an object, not a string", tell: same(`"/dev/disk/by-id/virtio-bosh-system"`, `{"path":"/dev/disk/by-id/virtio-b"}`)},
		{name: "disks.ephemeral has a number in it", want: "only strings are allowed", tell: same(`{"path":"/dev/disk/by-id/virtio-bosh-ephemeral"}`, `{"path":"/dev/disk/by-id/virt", "lun": 12345678}`)},
		{name: "disks.ephemeral is the root disk", want: "is not an ephemeral disk", tell: same(`virtio-bosh-ephemeral"}`, `virtio-bosh-system"}`)},
		{name: "disks.system leads nowhere", want: "leads to no drive", tell: same(`virtio-bosh-system"`, `virtio-bosh-systen"`)},
		{name: "use_dhcp is a string", want: "use_dhcp is a string, not a boolean", tell: same(`"use_dhcp":false`, `"use_dhcp":"no"`)},
		{name: "the label of the CD is another", want: "the agent looks for config-2", tell: same("config-2", "config-3")},
		{name: "the CD has no meta-data.json", want: "the CD has no /ec2/latest/meta-data.json", tell: same("meta-data.json", "metadata-.json")},
		{name: "the CD has no user-data", want: "the CD has no /ec2/latest/user-data", tell: same("user-data", "user.data")},
		{name: "the settings are for another agent", want: "are for agent", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.before(func(req *rpc.CreateVMRequest) { req.AgentID = "agent-x" })
		}},
		{name: "the env is not passed on", want: "must be passed on untouched", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.before(func(req *rpc.CreateVMRequest) {
				req.Env = replace(req.Env, `"persistent_disk_fs":"ext4"`, `"persistent_disk_fs":"xfs"`)
			})
		}},
		{name: "the address is another one", want: "say another ip", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.before(func(req *rpc.CreateVMRequest) { _ = req.Networks[0].Set("ip", "192.0.2.99") })
		}},
		{name: "the CD is not attached", want: "has 0 CDs", tell: func(b *bed, l *liar, _ *rpc.Call) {
			l.after(func(cid rpc.VMCID) { b.editVM(cid, func(vm *pvetest.VM) { delete(vm.Config, "ide2") }) })
		}},
	}
}

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
							b.sim.DropVM(id)
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

// Every lie must come out, and for the reason that it is one.
func TestLies(t *testing.T) {
	t.Parallel()
	for _, l := range lies() {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, "rbd")
			open := b.open(t)
			if l.tell != nil {
				open = lying(open, func(x *liar, call *rpc.Call) { l.tell(b, x, call) })
			}
			b.opts.CPI = cpitest.Handler(open)
			if l.rewrite != nil {
				b.opts.CPI = rewriting(b.opts.CPI, l.method, l.rewrite)
			}
			b.opts.Only, b.opts.FailFast = []string{cmp.Or(l.in, "create-env")}, true

			report, err := cpitest.Check(t.Context(), b.opts)

			require.ErrorContains(t, err, l.want)
			require.NotNil(t, report)
			assert.Equal(t, cpitest.Failed, report.Outcome)
			assert.Equal(t, []int{100, 101, 102}, slices.Sorted(slices.Values(append(b.sim.VMIDs(), b.missing()...))), "the suite cleans up after a liar")
		})
	}
}

// A secret that is left in a file comes out as well.
func TestSecretLeftInFile(t *testing.T) {
	t.Parallel()
	b := newBed(t, "rbd")
	dir := b.opts.Dirs[0]
	b.opts.CPI = rewriting(b.opts.CPI, "create_vm", func(r []byte, a cpitest.Answer) cpitest.Answer {
		_ = os.MkdirAll(dir, 0o700)
		_ = os.WriteFile(filepath.Join(dir, "user-data"), r, 0o600)
		return a
	})
	b.opts.Only = []string{"stop-hard"}
	_, err := cpitest.Check(t.Context(), b.opts)
	require.ErrorContains(t, err, "left a secret behind in")
}

// macs finds an address in a NIC's settings.
var macs = regexp.MustCompile(`(?i)([0-9a-f]{2}:){5}[0-9a-f]{2}`)

func replace(raw json.RawMessage, old, now string) json.RawMessage {
	return json.RawMessage(strings.ReplaceAll(string(raw), old, now))
}

func vmid(cid rpc.VMCID) int {
	var id int
	_, _ = fmt.Sscanf(string(cid), "vm-%d-", &id)
	return id
}

// after does something to every VM that was made.
func (l *liar) after(f func(cid rpc.VMCID)) {
	l.createVM = func(ctx context.Context, req rpc.CreateVMRequest) (rpc.VMCID, rpc.Networks, error) {
		cid, n, err := l.Handler.CreateVM(ctx, req)
		if err == nil {
			f(cid)
		}
		return cid, n, err
	}
}

// before changes every request for a VM.
func (l *liar) before(f func(req *rpc.CreateVMRequest)) {
	l.createVM = func(ctx context.Context, req rpc.CreateVMRequest) (rpc.VMCID, rpc.Networks, error) {
		f(&req)
		return l.Handler.CreateVM(ctx, req)
	}
}

func (b *bed) editVM(cid rpc.VMCID, change func(vm *pvetest.VM)) {
	if err := b.sim.EditVM(vmid(cid), change); err != nil {
		panic(err)
	}
}

// missing lists the operator's guests that a liar has removed.
func (b *bed) missing() []int {
	var out []int
	for _, id := range []int{100, 101, 102} {
		if _, ok := b.sim.VM(id); !ok {
			out = append(out, id)
		}
	}
	return out
}

// cd is the volume of a VM's CD.
func (b *bed) cd(cid rpc.VMCID) string {
	vm, _ := b.sim.VM(vmid(cid))
	volume, _, _ := strings.Cut(vm.Config["ide2"], ",")
	return volume
}

// patchCD changes the bytes of a VM's CD.
func (b *bed) patchCD(cid rpc.VMCID, change func([]byte) []byte) {
	volume := b.cd(cid)
	data, err := b.sim.VolumeBytes(volume)
	if err != nil {
		panic(err)
	}
	b.sim.RemoveVolume(volume)
	if err := b.sim.AddVolume("pve1", volume, change(data)); err != nil {
		panic(err)
	}
}

// slotOf is the slot of the drive with a serial.
func slotOf(vm pvetest.VM, serial string) string {
	for key, value := range vm.Config {
		if strings.Contains(value, "serial="+serial) {
			return key
		}
	}
	return ""
}

// changeAtRestart changes a running guest that takes no changes of its drives.
func (b *bed) changeAtRestart(ctx context.Context, id int, p pve.UpdateVMConfigParams) error {
	if err := b.sim.EditVM(id, func(vm *pvetest.VM) { vm.Config["hotplug"] = "0" }); err != nil {
		return err
	}
	token, secret := b.sim.RootToken()
	root, err := pve.NewClient(b.sim.URL(), pve.WithAPIToken(token, secret), pve.WithRootCAs(b.sim.CertPool()))
	if err != nil {
		return err
	}
	vm, _ := b.sim.VM(id)
	p.Node, p.VMID = vm.Node, int64(id)
	return root.UpdateVMConfig(ctx, p)
}

func virtio(slot string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(slot, "virtio"))
	return n
}

func drive(text string) pve.VMDisk {
	d, err := pve.ParseVMDisk(text)
	if err != nil {
		panic(err)
	}
	return d
}

// counters that lies need.
type counters struct {
	first atomic.Pointer[rpc.VMCID]
	count atomic.Int64
}
