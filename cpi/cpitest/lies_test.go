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
		{name: "has_vm is false when it cannot know", in: "node-off", want: "what cannot be known is an error", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.hasVM = func(ctx context.Context, cid rpc.VMCID) (bool, error) {
				_, err := l.Handler.GetDisks(ctx, cid)
				return err == nil, nil
			}
		}},
		{name: "delete_vm succeeds when it cannot know", in: "node-off", want: "but nobody can know", tell: func(_ *bed, l *liar, _ *rpc.Call) {
			l.deleteVM = func(ctx context.Context, cid rpc.VMCID) error {
				_ = l.Handler.DeleteVM(ctx, cid)
				return nil
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
				return cmp.Or(b.sim.DropVM(101), l.Handler.DeleteVM(ctx, cid))
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
	if err := cmp.Or(b.sim.RemoveVolume(volume), b.sim.AddVolume("pve1", volume, change(data))); err != nil {
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
