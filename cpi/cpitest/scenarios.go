package cpitest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func scenarios() []scenario {
	return []scenario{
		{"protocol", "requests and answers, without the cluster", playProtocol},
		{"create-env", "bosh create-env: first deploy, recreate, bigger disk, new stemcell, delete-env", playCreateEnv},
		{"stemcell", "upload a stemcell, twice and for two Directors, delete it", playStemcell},
		{"new-vm", "a new instance with a disk, metadata, two networks, and what is asked about it", playNewVM},
		{"recreate", "recreate while the agent answers, and while it is silent", playRecreate},
		{"hotswap", "create-swap-delete: the new VM first, then the disk, the old VM later", playHotswap},
		{"resize-copy", "a bigger disk as the Director does it itself", playResizeCopy},
		{"resize-disk", "a bigger disk as the CPI does it", playResizeDisk},
		{"update-disk", "other properties of a disk as the CPI changes them", playUpdateDisk},
		{"stop-hard", "bosh stop --hard, and start again", playStopHard},
		{"delete-deployment", "delete the deployment, clean up orphaned disks days later", playDeleteDeployment},
		{"cck", "cloud check: the scan, reboot, recreate, attach what is attached", playCloudCheck},
		{"node-off", "what is said about a VM whose node is off, and what is done", playNodeOff},
		{"dynamic-disks", "disks that come and go while the VM runs", playDynamicDisks},
		{"snapshots", "snapshots of a persistent disk", playSnapshots},
		{"light-stemcell", "a stemcell that names an image", playLightStemcell},
		{"networks", "networks that the CPI manages", playNetworks},
		{"refusals", "what cannot be done is refused and changes nothing", playRefusals},
		{"parallel", "many calls at once", playParallel},
		{"stopped", "calls that end in the middle, and what comes next", playStopped},
		{"context-only", "all settings from the context of the request", playContextOnly},
		{"nothing-left", "delete the last stemcell: nothing is left, and nothing of others has changed", playNothingLeft},
	}
}

// playProtocol sends requests that are wrong in themselves. A CPI answers each
// with an error that the Director can read.
func playProtocol(p *play) {
	p.step("info, as the Director asks first")
	p.info()
	p.look(nil)
	p.step("info, as the command line asks")
	p.cli = true
	p.info()
	p.cli = false
	p.step("broken requests")
	for name, request := range map[string]string{
		"an empty request":            "",
		"a request that is no JSON":   "{",
		"a request without a method":  `{"arguments":[],"context":{}}`,
		"a request of the wrong type": `[]`,
	} {
		p.rejected(name, request)
	}
	p.step("methods that do not exist")
	for _, method := range []string{"configure_networks", "no_such_method"} {
		r := p.ask(method)
		if r.err == nil || r.err.Type != notImplemented {
			p.problem("%s does not exist, the answer must be %s", method, notImplemented)
		}
	}
	p.step("arguments that are missing or of the wrong type")
	for method, arguments := range map[string][]any{
		"has_vm":      {},
		"delete_vm":   {5},
		"create_disk": {"large", map[string]any{}},
		"attach_disk": {"vm"},
		"create_vm":   {"agent"},
	} {
		request, err := p.request(method, arguments)
		if err != nil {
			p.fail("%v", err)
		}
		p.rejected(method+" with wrong arguments", string(request))
	}
	p.look(nil)
}

// rejected sends a request that cannot be served, and wants an error for it.
func (p *play) rejected(name, request string) {
	r, err := p.send(p.ctx, p.opts.CPI, "(broken)", []byte(request))
	switch {
	case err != nil:
		p.problem("%s: %v", name, err)
	case r.err == nil:
		p.problem("%s was accepted: %s", name, brief(r.result))
	}
}

// playCreateEnv is what the command line was seen to do.
func playCreateEnv(p *play) {
	// The command line takes the properties of the VM from its manifest.
	p.step("the cloud properties of a VM of the suite's size")
	p.findCloudProperties()
	p.cli = true
	p.step("first deploy")
	old := p.createStemcell(0)
	v := p.newVM(old)
	d := p.createDisk(2048, v, nil)
	p.mount(v, d)

	recreate := func(from *stemcell) {
		// Nobody detaches the disk first.
		p.hasVM(v, true)
		p.deleteVM(v)
		v = p.newVM(from, d)
		p.mount(v, d)
	}
	p.step("recreate, the disk still attached")
	recreate(old)

	p.step("a bigger disk, two attached at once")
	recreate(old)
	bigger := p.createDisk(4096, v, nil)
	p.mount(v, bigger)
	p.detach(v, d)
	p.deleteDisk(d)
	d = bigger

	p.step("a new stemcell")
	next := p.createStemcell(1)
	recreate(next)
	p.deleteStemcell(old)

	p.step("delete-env")
	p.hasVM(v, true)
	p.deleteVM(v)
	p.deleteDisk(d)
	p.deleteStemcell(next)

	p.step("delete-env again")
	p.hasVM(v, false)
	p.repeat("delete_vm", []string{vmNotFound}, v.cid)
	p.repeat("delete_disk", []string{diskNotFound}, d.cid)
	p.repeat("delete_stemcell", nil, next.cid)
}

// playStemcell uploads the same image again, for another name of the CPI and for
// another Director. Deletion by one must not hurt the other.
func playStemcell(p *play) {
	p.step("upload")
	s := p.createStemcell(0)
	p.step("upload the same image again")
	again := p.createStemcell(0)
	p.step("use it")
	v := p.newVM(s)
	p.deleteVM(v)
	if again.cid != s.cid {
		p.rep.note("the same image becomes another stemcell each time")
		p.deleteStemcell(again)
	} else {
		p.model.dropStemcell(again)
	}
	p.step("another Director uploads it and deletes its own")
	p.director = p.report.Run + "-b"
	// The objects of both may be the same or not.
	other := p.createStemcell(0)
	if other.cid == s.cid {
		p.model.dropStemcell(other)
		p.must("delete_stemcell", p.ask("delete_stemcell", other.cid))
		p.look(nil)
	} else {
		p.deleteStemcell(other)
	}
	p.director = p.report.Run
	v = p.newVM(s)
	p.deleteVM(v)
	p.step("delete")
	p.deleteStemcell(s)
	p.repeat("delete_stemcell", nil, s.cid)
	if s == p.stock {
		p.stock = nil
	}
}

// playLightStemcell uploads a stemcell whose image is somewhere else. The file is
// there, and empty.
func playLightStemcell(p *play) {
	if len(p.opts.LightStemcell) == 0 {
		p.leave("the options name no light stemcell")
	}
	p.step("upload")
	path := filepath.Join(p.dir, "light")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		p.fail("%v", err)
	}
	r := p.ask("create_stemcell", path, p.opts.LightStemcell)
	if r.err != nil && (r.err.Type == notImplemented || r.err.Type == notSupported) {
		p.look(nil)
		p.leave("the CPI has no light stemcells: %s", r.err.Message)
	}
	cid, err := resultCID(p.must("create_stemcell", r))
	if err != nil {
		p.fail("%v", err)
	}
	s := &stemcell{cid: cid, holdings: newHoldings(), director: p.director}
	p.look(func(c *change) error {
		// It may stand for what is there already.
		if len(c.newGuests)+len(c.newVolumes) > 0 {
			if err := p.model.claimStemcell(c, s); err != nil {
				return err
			}
		}
		p.model.stemcells = append(p.model.stemcells, s)
		return nil
	})
	p.step("a VM from it")
	v := p.newVM(s)
	p.deleteVM(v)
	p.step("delete")
	p.deleteStemcell(s)
	p.repeat("delete_stemcell", nil, s.cid)
}

// playNetworks makes a network, where the CPI manages any.
func playNetworks(p *play) {
	definition := map[string]any{"type": "manual", "cloud_properties": orEmpty(p.opts.NetworkProperties), "range": "203.0.113.0/24", "gateway": "203.0.113.1"}
	for key, value := range p.opts.Network {
		definition[key] = value
	}
	p.step("create_network")
	r := p.ask("create_network", definition)
	if r.err != nil && (r.err.Type == notImplemented || r.err.Type == notSupported) {
		p.look(nil)
		p.leave("the CPI manages no networks: %s", r.err.Message)
	}
	var parts []json.RawMessage
	raw := p.must("create_network", r)
	if json.Unmarshal(raw, &parts) != nil || len(parts) != 3 {
		p.fail("the result must be an array of identifier, addresses and cloud properties, not %s", brief(raw))
	}
	cid, err := resultCID(parts[0])
	if err != nil {
		p.fail("%v", err)
	}
	var addresses struct {
		Range, Gateway string
		Reserved       []string
	}
	if json.Unmarshal(parts[1], &addresses) != nil || addresses.Range == "" || addresses.Gateway == "" {
		p.problem("the addresses must be an object with range, gateway and reserved, not %s", brief(parts[1]))
	}
	var properties map[string]any
	if kindOf(parts[2]) != kindObject || json.Unmarshal(parts[2], &properties) != nil {
		p.fail("the cloud properties must be an object, not %s", brief(parts[2]))
	}
	p.look(nil)
	p.step("a VM on the network")
	o := p.order()
	o.networks = map[string]map[string]any{"private": p.manual(1, "private")}
	o.networks["private"]["cloud_properties"] = properties
	bridge := p.opts.Bridge
	p.opts.Bridge = ""
	v := p.createVM(p.stemcell(), o)
	p.deleteVM(v)
	p.opts.Bridge = bridge
	p.step("delete_network")
	p.must("delete_network", p.ask("delete_network", cid))
	p.look(nil)
	p.repeat("delete_network", []string{networkNotFound}, cid)
}

// playContextOnly runs the CPI without its configuration file: with several CPIs
// in a cpi-config everything comes from there.
func playContextOnly(p *play) {
	if p.opts.Bare == nil || len(p.opts.Properties) == 0 {
		p.leave("the options have no CPI without a configuration of its own")
	}
	v := p.newVM(p.stemcell())
	ask := func(properties map[string]any, method string, arguments ...any) *reply {
		about := map[string]any{"director_uuid": p.director, "request_id": "cpi-000001"}
		for key, value := range properties {
			about[key] = value
		}
		request, err := json.Marshal(map[string]any{"method": method, "arguments": arguments, "context": about, "api_version": 2})
		if err != nil {
			p.fail("%v", err)
		}
		r, err := p.send(p.ctx, p.opts.Bare, method, request)
		if err != nil {
			p.fail("%v", err)
		}
		return r
	}
	p.step("info without any settings")
	if _, err := resultInfo(p.must("info", ask(nil, "info"))); err != nil {
		p.fail("%v", err)
	}
	p.step("a call without any settings is refused")
	p.refused("has_vm without any settings", ask(nil, "has_vm", v.cid))
	p.step("calls with settings from the context")
	there, err := resultBool(p.must("has_vm", ask(p.opts.Properties, "has_vm", v.cid)))
	if err != nil || !there {
		p.fail("the CPI does not find %s when its settings come from the context", v)
	}
	p.must("delete_vm", ask(p.opts.Properties, "delete_vm", v.cid))
	p.model.dropVM(v)
	p.look(nil)
}

// playNothingLeft removes what the scenarios shared. After that the cluster must
// be as it was.
func playNothingLeft(p *play) {
	p.step("delete the shared stemcell")
	if p.stock != nil {
		p.deleteStemcell(p.stock)
		p.stock = nil
	}
	p.step("compare with the beginning")
	p.look(nil)
	if d := difference(p.base, p.seen); len(d) > 0 {
		p.fail("the cluster is not as it was before: %s", strings.Join(d, "; "))
	}
	p.rep.note(fmt.Sprintf("the %d guests and %d volumes that were there before are as they were", len(p.base.guests), len(p.base.volumes)))
}
