package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/proxkit/proxkit/internal/testimage"
)

// An env is what create-env keeps between its runs.
type env struct {
	stemcell, vm, disk string
	diskSize           int
	runs               int
}

// lifecycle makes the calls of create-env in the order in which the BOSH command
// line was seen to make them.
func (d *director) lifecycle(ctx context.Context) error {
	var e env
	for _, part := range []struct {
		title string
		run   func(context.Context, *env) error
	}{
		{"first deploy", d.firstDeploy},
		{"recreate, the disk still attached", d.recreate},
		{"a bigger disk, two of them attached for a while", d.biggerDisk},
		{"a new stemcell", d.newStemcell},
		{"delete-env", d.deleteEnv},
	} {
		fmt.Println(part.title)
		if err := part.run(ctx, &e); err != nil {
			return fmt.Errorf("%s: %w", part.title, err)
		}
	}
	if err := d.model.proveEmpty(ctx, d.cluster); err != nil {
		return fmt.Errorf("something is left behind: %w", err)
	}
	fmt.Println("            nothing is left: no guest, no volume, no ISO, no import, no tag, no member of the pool")
	return d.checkLeftovers()
}

func (d *director) firstDeploy(ctx context.Context, e *env) error {
	if err := d.createStemcell(ctx, e, "1.0"); err != nil {
		return err
	}
	if err := d.createVM(ctx, e); err != nil {
		return err
	}
	e.diskSize = 2048
	if err := d.createDisk(ctx, e, &e.disk); err != nil {
		return err
	}
	return d.attach(ctx, e, e.disk)
}

// recreate replaces the VM without detaching the disk first, as the command line
// does.
func (d *director) recreate(ctx context.Context, e *env) error {
	if err := d.deleteVM(ctx, e); err != nil {
		return err
	}
	if err := d.createVM(ctx, e); err != nil {
		return err
	}
	return d.attach(ctx, e, e.disk)
}

func (d *director) biggerDisk(ctx context.Context, e *env) error {
	if err := d.recreate(ctx, e); err != nil {
		return err
	}
	old := e.disk
	e.diskSize = 4096
	if err := d.createDisk(ctx, e, &e.disk); err != nil {
		return err
	}
	if err := d.attach(ctx, e, e.disk); err != nil {
		return err
	}
	err := d.call(ctx, nil, func(m *model) { m.detach(old) }, "detach_disk", e.vm, old)
	if err != nil {
		return err
	}
	return d.call(ctx, nil, func(m *model) { m.deleteDisk(old) }, "delete_disk", old)
}

func (d *director) newStemcell(ctx context.Context, e *env) error {
	old := e.stemcell
	if err := d.createStemcell(ctx, e, "2.0"); err != nil {
		return err
	}
	if err := d.recreate(ctx, e); err != nil {
		return err
	}
	return d.call(ctx, nil, func(m *model) { m.deleteStemcell(old) }, "delete_stemcell", old)
}

func (d *director) deleteEnv(ctx context.Context, e *env) error {
	if err := d.deleteVM(ctx, e); err != nil {
		return err
	}
	if err := d.call(ctx, nil, func(m *model) { m.deleteDisk(e.disk) }, "delete_disk", e.disk); err != nil {
		return err
	}
	return d.call(ctx, nil, func(m *model) { m.deleteStemcell(e.stemcell) }, "delete_stemcell", e.stemcell)
}

// createStemcell makes a small but real stemcell tarball, takes the image out as
// the command line does, and hands over its path.
func (d *director) createStemcell(ctx context.Context, e *env, version string) error {
	const virtual = 1 << 30
	content := append(testimage.BootSector(virtual), bytes.Repeat([]byte("stemcell "+version+"\n"), 50_000)...)
	tarball := testimage.Stemcell("bosh-openstack-kvm-demo", version, testimage.QCOW2(virtual, content, 0))
	image, err := testimage.ImageOf(bytes.NewReader(tarball))
	if err != nil {
		return err
	}
	path := filepath.Join(d.work, "image")
	if err := os.WriteFile(path, image, 0o600); err != nil {
		return err
	}
	defer os.Remove(path)
	return d.call(ctx, &e.stemcell, func(m *model) { m.stemcells = append(m.stemcells, e.stemcell) }, "create_stemcell", path, map[string]any{
		"name": "bosh-openstack-kvm-demo", "version": version, "infrastructure": "openstack", "hypervisor": "kvm", "disk": 1024,
		"disk_format": "qcow2", "container_format": "bare", "os_type": "linux", "os_distro": "ubuntu", "architecture": "x86_64", "auto_disk_config": true,
	})
}

func (d *director) createVM(ctx context.Context, e *env) error {
	e.runs++
	agent := fmt.Sprintf("demo-agent-%d", e.runs)
	disks := []string{}
	if e.disk != "" {
		disks = append(disks, e.disk)
	}
	network := map[string]any{
		"type": "manual", "ip": "10.0.0.6", "netmask": "255.255.255.0", "gateway": "10.0.0.1", "dns": []string{"10.0.0.2"},
		"default": []string{"dns", "gateway"}, "cloud_properties": map[string]any{"bridge": "vmbr0"},
	}
	var result []any
	err := d.call(ctx, &result, func(m *model) {
		if len(result) > 0 {
			e.vm, _ = result[0].(string)
		}
		m.vms = append(m.vms, vm{cid: e.vm, agent: agent, ip: "10.0.0.6"})
	}, "create_vm", agent, e.stemcell, map[string]any{"cpu": 2, "ram": 2048, "ephemeral_disk": map[string]any{"size": 4096}},
		map[string]any{"default": network}, disks, map[string]any{"bosh": map[string]any{"password": rootPassword, "mbus": map[string]any{"cert": nil}}})
	if err != nil {
		return err
	}
	if len(result) != 2 {
		return fmt.Errorf("create_vm: the result has %d parts, not the CID and the networks", len(result))
	}
	return d.call(ctx, nil, func(m *model) { m.vms[len(m.vms)-1].tag = "job-bosh" }, "set_vm_metadata", e.vm, map[string]any{
		"director": "bosh-init", "deployment": "demo", "job": "bosh", "instance_group": "bosh", "index": "0", "name": "bosh/0", "created_at": "2026-12-01T00:00:00Z",
	})
}

func (d *director) deleteVM(ctx context.Context, e *env) error {
	var there bool
	if err := d.call(ctx, &there, func(*model) {}, "has_vm", e.vm); err != nil {
		return err
	}
	if !there {
		return errors.New("has_vm: the CPI does not find its own VM")
	}
	return d.call(ctx, nil, func(m *model) { m.deleteVM(e.vm) }, "delete_vm", e.vm)
}

func (d *director) createDisk(ctx context.Context, e *env, cid *string) error {
	return d.call(ctx, cid, func(m *model) {
		m.disks = append(m.disks, disk{cid: *cid, size: e.diskSize})
	}, "create_disk", e.diskSize, map[string]any{}, e.vm)
}

func (d *director) attach(ctx context.Context, e *env, cid string) error {
	var hint any
	if err := d.call(ctx, &hint, func(m *model) { m.attach(e.vm, cid) }, "attach_disk", e.vm, cid); err != nil {
		return err
	}
	path, _ := hint.(map[string]any)
	if path["path"] != "/dev/disk/by-id/virtio-"+cid {
		return fmt.Errorf("attach_disk: the hint %v is not what the agent finds the disk by", hint)
	}
	return d.call(ctx, nil, func(m *model) {
		i := slices.IndexFunc(m.disks, func(x disk) bool { return x.cid == cid })
		m.disks[i].tag = "deployment-demo"
	}, "set_disk_metadata", cid, map[string]any{
		"director": "bosh-init", "deployment": "demo", "instance_group": "bosh", "instance_id": "0", "attached_at": "2026-12-01T00:00:00Z",
	})
}
