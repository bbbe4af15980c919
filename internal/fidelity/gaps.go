package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"strings"

	"github.com/proxkit/proxkit/pve/pvetest"
)

// prepare does what happened on the recorded cluster without an exchange: by
// hand on the machine, or in exchanges that are not in this recording.
func (p *player) prepare(e *exchange) error {
	for _, s := range p.steps {
		if s.Before != e.Name {
			continue
		}
		params, err := url.ParseQuery(s.Params)
		if err != nil {
			return err
		}
		if err := p.call(s.Method, s.Path, params, nil); err != nil {
			return err
		}
	}
	if !p.names[opening] {
		return nil // another recording
	}
	for _, g := range gaps() {
		if e.Seq < g.seq || p.done[g.name] {
			continue
		}
		p.done[g.name] = true
		if g.unless != "" && (p.names[g.unless] || !strings.Contains(g.unless, "-") && p.has(g.unless)) {
			continue
		}
		if err := g.do(p); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
	}
	if isArtefact(e.Name) {
		return p.failLike(e)
	}
	return nil
}

// A step is a call that was made before an exchange and is not in the
// recording.
type step struct {
	Before string `json:"before"`
	Method string `json:"method"`
	Path   string `json:"path"`
	Params string `json:"params"` // as a form
}

func readSteps(file string) ([]step, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []step
	dec := json.NewDecoder(f)
	for {
		var s step
		if err := dec.Decode(&s); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, s)
	}
}

// has tells whether the recording has an exchange whose name begins so.
func (p *player) has(prefix string) bool {
	for n := range p.names {
		if strings.HasPrefix(n, prefix+"-") {
			return true
		}
	}
	return false
}

// failLike makes the task of an artefact end as it did on the recorded
// machine.
func (p *player) failLike(e *exchange) error {
	status, ok := p.all[e.Name+"-task"]
	if !ok {
		return nil
	}
	var got struct {
		Data struct {
			Type string `json:"type"`
			ID   string `json:"id"`
			Exit string `json:"exitstatus"`
		}
	}
	if err := json.Unmarshal(status.Answer.JSON, &got); err != nil {
		return err
	}
	if got.Data.Exit != "OK" && got.Data.Exit != "" {
		p.srv.FailTask(got.Data.Type+":"+got.Data.ID, got.Data.Exit)
	}
	return nil
}

// opening is the first exchange of the recording whose gaps are known.
const opening = "001-token-create"

// A gap is something that happened before the exchange seq.
type gap struct {
	seq    int
	name   string
	unless string // an exchange that does it when it is in the recording
	do     func(p *player) error
}

func gaps() []gap {
	put := func(vmid int, body string) func(p *player) error {
		return func(p *player) error {
			params, err := url.ParseQuery(body)
			if err != nil {
				return err
			}
			// What is refused may still have left a pending change.
			_ = p.call("PUT", fmt.Sprintf("/nodes/pve1/qemu/%d/config", vmid), params, nil)
			return nil
		}
	}
	return []gap{
		{seq: 17, name: "VM 100 runs without KVM", do: func(p *player) error {
			return p.srv.EditVM(100, func(vm *pvetest.VM) { vm.Config["kvm"], vm.Config["cpu"], vm.NoOS = "0", "max", true })
		}},
		{seq: 184, name: "cloud-init drive", unless: "c22", do: put(101, "ide0=data:cloudinit")},
		{seq: 190, name: "scsi2", unless: "c27", do: func(*player) error { return nil }},
		{seq: 290, name: "template 102 lost", do: func(p *player) error { p.srv.DropVM(102); return nil }},
		{seq: 334, name: "lock by hand", do: func(p *player) error {
			return p.srv.EditVM(101, func(vm *pvetest.VM) { vm.Config["lock"] = "backup" })
		}},
		{seq: 415, name: "long shutdown", do: func(p *player) error {
			p.srv.HoldTask("qmshutdown:100")
			return nil
		}},
		{seq: 458, name: "ISO upload", unless: "j30-upload-iso", do: func(p *player) error {
			return p.upload("j30-upload-iso", "test.iso", 65536, nil)
		}},
		{seq: 460, name: "late fields", unless: "j31-upload-badsum", do: func(p *player) error {
			return p.upload("j31-upload-badsum", "te st.iso", 65536, make([]byte, 213))
		}},
		{seq: 549, name: "guest agent", do: func(p *player) error { return p.srv.SetAgent(130, agent()) }},
		{seq: 585, name: "unplug a card", unless: "o48", do: put(130, "delete=net1")},
		{seq: 586, name: "no system answers on VM 130", do: func(p *player) error {
			// The card went away although nothing had booted; the disk did not.
			_ = put(130, "delete=net1")(p)
			return p.srv.EditVM(130, func(vm *pvetest.VM) { vm.NoOS = true })
		}},
		{seq: 587, name: "unplug refused", unless: "o49", do: put(130, "delete=scsi1")},
		{seq: 617, name: "VM 130 and its agent again", do: func(p *player) error {
			err := p.srv.EditVM(130, func(vm *pvetest.VM) { vm.Running, vm.Config["agent"] = true, "1" })
			return errors.Join(err, p.srv.SetAgent(130, agent()))
		}},
		{seq: 662, name: "leftover of VM 140", do: func(p *player) error {
			return p.call("POST", "/nodes/pve1/storage/data/content", url.Values{"filename": {"vm-140-disk-0.raw"}, "vmid": {"140"}, "size": {"1M"}}, nil)
		}},
	}
}

// agent is the agent that answered on VM 130.
func agent() *pvetest.Agent {
	counters := map[string]int{}
	for _, k := range []string{"bytes", "packets"} {
		counters["rx-"+k], counters["tx-"+k] = 1, 1
	}
	for _, k := range []string{"errs", "dropped"} {
		counters["rx-"+k], counters["tx-"+k] = 0, 0
	}
	addr := func(typ, ip string, prefix int) map[string]any {
		return map[string]any{"ip-address-type": typ, "ip-address": ip, "prefix": prefix}
	}
	return &pvetest.Agent{
		Replies: map[string]any{
			"network-get-interfaces": []any{
				map[string]any{
					"name": "lo", "hardware-address": "00:00:00:00:00:00", "statistics": counters,
					"ip-addresses": []any{addr("ipv4", "127.0.0.1", 8), addr("ipv6", "::1", 128)},
				},
				map[string]any{"name": "eth0", "hardware-address": "bc:24:11:00:00:01", "ip-addresses": []any{addr("ipv4", "10.99.1.50", 24)}},
			},
			"get-osinfo": map[string]any{
				"id": "debian", "name": "Debian GNU/Linux", "pretty-name": "Debian GNU/Linux 13 (trixie)", "version": "13 (trixie)", "version-id": "13",
				"kernel-release": "6.12.0", "kernel-version": "#1 SMP", "machine": "x86_64",
			},
			"get-fsinfo": []any{map[string]any{"name": "sda1", "mountpoint": "/", "type": "ext4", "used-bytes": 1, "total-bytes": 2, "disk": []any{}}},
			"info": map[string]any{"version": "9.2.0", "supported_commands": []any{
				map[string]any{"name": "guest-ping", "enabled": true, "success-response": true},
			}},
			"get-time": 1796082297000000000, "get-users": []any{},
		},
		Exec: map[string]pvetest.AgentExec{
			"/bin/echo":  {Stdout: "hello world x\n"},
			"/bin/sh -c": {ExitCode: 3, Stdout: "stdin äö", Stderr: "err\n"},
			"/bin/sleep": {Running: true},
		},
	}
}

// upload puts a file on the storage data, with extra bytes after it, and
// notes its task as that of a recorded upload.
func (p *player) upload(name, file string, size int, extra []byte) error {
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	if err := w.WriteField("content", "iso"); err != nil {
		return err
	}
	head := textproto.MIMEHeader{}
	head.Set("Content-Disposition", `form-data; name="filename"; filename="`+file+`"`)
	part, err := w.CreatePart(head)
	if err != nil {
		return err
	}
	if _, err := part.Write(append(make([]byte, size), extra...)); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	req, err := http.NewRequest("POST", p.srv.URL()+"/api2/json/nodes/pve1/storage/data/upload", &body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", w.FormDataContentType())
	var ours string
	if err := p.send(req, &ours); err != nil {
		return err
	}
	if e := p.all[name+"-task"]; e != nil {
		var got struct{ Data struct{ UPID string } }
		if err := json.Unmarshal(e.Answer.JSON, &got); err != nil {
			return err
		}
		p.upids[got.Data.UPID] = ours
	}
	return nil
}
