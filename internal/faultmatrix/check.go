package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/proxkit/proxkit/pve/pvetest"
)

// kindTags are the tags by which the CPI's guests are told apart.
const (
	tagVM       = "bosh-vm"
	tagDisk     = "bosh-disk"
	tagStemcell = "bosh-stemcell"
)

// operators returns everything that is not the CPI's, as it is now.
func (w *world) operators() map[string]string {
	out := map[string]string{}
	for id := range operatorVMs {
		vm, _ := w.srv.VM(id)
		out[fmt.Sprintf("guest %d", id)] = fmt.Sprint(vm)
	}
	for _, v := range w.srv.Volumes("") {
		if _, ok := operatorVMs[v.VMID]; ok || strings.Contains(v.ID, "operator") {
			out["volume "+v.ID] = fmt.Sprint(v)
		}
	}
	return out
}

// check compares the cluster with what the Director believes to have, and returns
// everything that is missing, damaged, or nobody's. It shares no code with the
// CPI.
func (w *world) check(l *ledger) []string {
	var bad []string
	complain := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	guests := map[int]pvetest.VM{}
	seen := map[string]int{}
	for _, id := range w.srv.VMIDs() {
		vm, ok := w.srv.VM(id)
		if _, operator := operatorVMs[id]; operator || !ok {
			continue
		}
		guests[id] = vm
		tags := strings.Split(vm.Config["tags"], ";")
		cid, why := w.inspect(l, id, vm, tags)
		for _, text := range why {
			complain("guest %d (%s): %s", id, vm.Config["name"], text)
		}
		if cid != "" {
			seen[cid]++
		}
	}
	for what, set := range map[string]map[string]bool{"VM": l.vms, "disk": l.disks, "stemcell": l.stemcells} {
		for cid := range set {
			if seen[cid] == 0 {
				complain("%s %s is gone", what, cid)
			}
			if seen[cid] > 1 && what != "stemcell" {
				complain("%s %s is there %d times", what, cid, seen[cid])
			}
		}
	}
	bad = append(bad, w.checkVolumes(guests, l)...)
	bad = append(bad, w.checkLocks(l)...)
	slices.Sort(bad)
	return bad
}

// inspect looks at one of the CPI's guests. It returns the CID that the guest
// stands for.
func (w *world) inspect(l *ledger, id int, vm pvetest.VM, tags []string) (cid string, bad []string) {
	complain := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	conf := vm.Config
	if conf["lock"] != "" {
		complain("is locked (%s)", conf["lock"])
	}
	if len(vm.Pending) > 0 || len(vm.Delete) > 0 {
		complain("has pending changes %v %v", vm.Pending, vm.Delete)
	}
	if vm.Pool != pool {
		complain("is not in the pool")
	}
	for key := range conf {
		if strings.HasPrefix(key, "unused") {
			complain("has the unused volume %s", conf[key])
		}
	}
	own := func(prefix string, set map[string]bool) {
		for _, tag := range tags {
			if strings.HasPrefix(tag, prefix) && set[tag] {
				cid = tag
			}
		}
	}
	switch {
	case slices.Contains(tags, tagVM):
		own(fmt.Sprintf("vm-%d-", id), l.vms)
		if cid == "" {
			complain("is a VM that nobody owns: %v", tags)
			break
		}
		bad = append(bad, inspectVM(l, cid, vm, tags)...)
	case slices.Contains(tags, tagDisk):
		own("disk-", l.disks)
		switch {
		case cid == "":
			complain("holds a disk that nobody owns: %v", tags)
		case conf["name"] != cid || !strings.Contains(conf["virtio0"], "serial="+cid):
			complain("is not called or has not the serial %s: %s", cid, conf["virtio0"])
		case conf["template"] != "1" || conf["protection"] != "1":
			complain("lacks a flag: template %q, protection %q", conf["template"], conf["protection"])
		}
	case slices.Contains(tags, tagStemcell) && slices.Contains(tags, fmt.Sprintf("bosh-template-%d", id)):
		own("stemcell-", l.stemcells)
		switch {
		case cid == "":
			complain("is the template of a stemcell that nobody owns: %v", tags)
		case conf["template"] != "1":
			complain("is no template")
		}
	default:
		complain("is nobody's: %v", tags)
	}
	if l.metadata[cid] && !strings.Contains(conf["description"], "d2") {
		complain("lacks its metadata: %q", conf["description"])
	}
	return cid, bad
}

func inspectVM(l *ledger, cid string, vm pvetest.VM, tags []string) (bad []string) {
	conf := vm.Config
	token := cid[strings.LastIndex(cid, "-")+1:]
	if !vm.Running {
		bad = append(bad, "does not run")
	}
	for key, want := range map[string]string{
		"name": "bosh-" + token, "ide2": "iso:iso/bosh-" + token + ".iso", "virtio0": "serial=bosh-system", "virtio1": "serial=bosh-ephemeral",
		"net0": "bridge=vmbr0", "memory": "", "cores": "",
	} {
		if !strings.Contains(conf[key], want) || conf[key] == "" {
			bad = append(bad, fmt.Sprintf("%s is %q", key, conf[key]))
		}
	}
	var want, tagged, drives []string
	for disk, at := range l.attached {
		if at == cid {
			want = append(want, disk)
		}
	}
	for _, tag := range tags {
		if strings.HasPrefix(tag, "disk-") {
			tagged = append(tagged, tag)
		}
	}
	for key, value := range conf {
		if _, serial, ok := strings.Cut(value, "serial=disk-"); ok && strings.HasPrefix(key, "virtio") {
			serial, _, _ = strings.Cut(serial, ",")
			drives = append(drives, "disk-"+serial)
		}
	}
	slices.Sort(want)
	slices.Sort(tagged)
	slices.Sort(drives)
	if !slices.Equal(want, drives) || !slices.Equal(want, tagged) {
		bad = append(bad, fmt.Sprintf("should have the disks %v, has %v and the tags of %v", want, drives, tagged))
	}
	return bad
}

func (w *world) checkVolumes(guests map[int]pvetest.VM, l *ledger) (bad []string) {
	there := map[string]bool{}
	for _, v := range w.srv.Volumes("") {
		there[v.ID] = true
		if _, operator := operatorVMs[v.VMID]; operator || strings.Contains(v.ID, "operator") {
			continue
		}
		switch v.Content {
		case "images":
			if !refers(guests[v.VMID], v.ID) {
				bad = append(bad, fmt.Sprintf("volume %s of guest %d is nobody's", v.ID, v.VMID))
			}
		default:
			if !slices.ContainsFunc(slices.Collect(maps.Values(guests)), func(vm pvetest.VM) bool { return refers(vm, v.ID) }) {
				bad = append(bad, fmt.Sprintf("volume %s is nobody's", v.ID))
			}
		}
	}
	for id, vm := range guests {
		for key, value := range vm.Config {
			volume, _, _ := strings.Cut(value, ",")
			drive := strings.HasPrefix(key, "virtio") || strings.HasPrefix(key, "ide")
			if drive && strings.Contains(volume, ":") && !there[volume] {
				bad = append(bad, fmt.Sprintf("guest %d: the volume of %s, %s, does not exist", id, key, volume))
			}
		}
	}
	return bad
}

// refers reports whether a guest has a volume as one of its drives.
func refers(vm pvetest.VM, volume string) bool {
	for _, value := range vm.Config {
		if first, _, _ := strings.Cut(value, ","); first == volume {
			return true
		}
	}
	return false
}

// checkLocks looks for files that nothing owns in the CPI's directory of locks,
// and for secrets in those that are owned.
func (w *world) checkLocks(l *ledger) (bad []string) {
	err := filepath.WalkDir(w.locks, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(w.locks, path)
		info, err := d.Info()
		if err != nil {
			return err
		}
		if d.IsDir() {
			if info.Mode().Perm() != 0o700 {
				bad = append(bad, fmt.Sprintf("directory %s has the mode %o", name, info.Mode().Perm()))
			}
			return nil
		}
		if info.Mode().Perm() != 0o600 {
			bad = append(bad, fmt.Sprintf("file %s has the mode %o", name, info.Mode().Perm()))
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if text := secretIn(data); text != "" {
			bad = append(bad, fmt.Sprintf("file %s holds a secret: %s", name, text))
		}
		dir, base := filepath.Split(name)
		switch {
		case strings.HasPrefix(dir, "gate/") && (base == "turn" || base == "new"):
			// The lock under which tickets are drawn is one of each node.
		case dir == "nodes/" && l.vms[base[max(strings.Index(base, "vm-"), 0):]]:
			// Before the CID stands whose cluster it is.
		case dir == "attached/" && l.disks[base[max(strings.Index(base, "disk-"), 0):]]:
		case dir == "tries/":
			// It is the next attempt's for an hour.
		default:
			bad = append(bad, fmt.Sprintf("file %s is nobody's: %.200s", name, data))
		}
		return nil
	})
	if err != nil {
		bad = append(bad, err.Error())
	}
	return bad
}

// secretIn names a secret that data holds.
func secretIn(data []byte) string {
	for _, secret := range []string{tokenSecret, mbusPassword, envSecret} {
		if bytes.Contains(data, []byte(secret)) {
			return secret
		}
	}
	return ""
}
