package cpitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// An agentConfig is what the agent makes of its settings.
type agentConfig struct {
	agentID   string
	networks  map[string]map[string]json.RawMessage
	system    string
	ephemeral string
	// persistent maps disk identifiers to paths.
	persistent map[string]string
	env        json.RawMessage
}

// The paths on the CD that the agent of an OpenStack stemcell reads.
const (
	userDataPath = "/ec2/latest/user-data"
	metaDataPath = "/ec2/latest/meta-data.json"
)

// agentDisc reads the settings from a VM's CD as the agent does.
func agentDisc(image []byte) ([]byte, error) {
	d, err := readDisc(image)
	if err != nil {
		return nil, err
	}
	if d.label != "config-2" && d.label != "CONFIG-2" {
		return nil, fmt.Errorf("the label of the CD is %q: the agent looks for config-2", d.label)
	}
	data, ok := d.files[userDataPath]
	if !ok {
		return nil, fmt.Errorf("the CD has no %s by its %s names, only %s", userDataPath, d.naming, strings.Join(slices.Sorted(maps.Keys(d.files)), " "))
	}
	meta, ok := d.files[metaDataPath]
	if !ok {
		return nil, fmt.Errorf("the CD has no %s: without it the agent asks a metadata service on the network and fails to start", metaDataPath)
	}
	if kindOf(meta) != kindObject || !json.Valid(meta) {
		return nil, fmt.Errorf("%s is no JSON object", metaDataPath)
	}
	return data, nil
}

// parseSettings reads the agent's settings by the types that the agent's own
// parser insists on. Of an unknown key nothing is demanded.
func parseSettings(data []byte) (*agentConfig, error) {
	if !json.Valid(data) {
		return nil, errors.New("the settings are not valid JSON")
	}
	r := &settingsReader{}
	top := r.object("settings", data)
	c := &agentConfig{persistent: map[string]string{}, networks: map[string]map[string]json.RawMessage{}}
	if r.err != nil {
		return nil, r.err
	}
	c.agentID = r.text("agent_id", top["agent_id"], true)
	vm := r.object("vm", top["vm"])
	r.text("vm.name", vm["name"], true)
	mbus := r.text("mbus", top["mbus"], false)
	r.texts("ntp", top["ntp"])
	if blob := top["blobstore"]; kindOf(blob) != kindMissing {
		b := r.object("blobstore", blob)
		r.text("blobstore.provider", b["provider"], true)
		if o := b["options"]; kindOf(o) != kindMissing && kindOf(o) != kindNull {
			r.object("blobstore.options", o)
		}
	}
	r.networks(top["networks"], c)
	r.disks(top["disks"], c)
	c.env = top["env"]
	if kindOf(c.env) == kindMissing {
		c.env = json.RawMessage("{}")
	}
	r.object("env", c.env)
	if r.err == nil && mbus == "" && !hasBus(c.env) {
		r.fail("mbus", "is empty, and so is env.bosh.mbus.urls: the agent has nobody to talk to")
	}
	return c, r.err
}

func hasBus(env json.RawMessage) bool {
	var e struct {
		Bosh struct {
			MBus struct{ URLs []string } `json:"mbus"`
		} `json:"bosh"`
	}
	return json.Unmarshal(env, &e) == nil && len(e.Bosh.MBus.URLs) > 0 && e.Bosh.MBus.URLs[0] != ""
}

// A settingsReader keeps the first thing that is wrong. No message quotes a
// value, because settings hold secrets.
type settingsReader struct{ err error }

func (r *settingsReader) fail(path, format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("the agent's settings: %s %s", path, fmt.Sprintf(format, args...))
	}
}

func (r *settingsReader) object(path string, raw json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if kindOf(raw) != kindObject || json.Unmarshal(raw, &m) != nil {
		r.fail(path, "is %s, not an object", kindOf(raw))
	}
	return m
}

// text reads a string; null and a missing key are empty ones.
func (r *settingsReader) text(path string, raw json.RawMessage, required bool) string {
	var s string
	switch kindOf(raw) {
	case kindString:
		_ = json.Unmarshal(raw, &s)
	case kindMissing, kindNull:
	default:
		r.fail(path, "is %s, not a string: the agent refuses all its settings", kindOf(raw))
		return ""
	}
	if s == "" && required {
		r.fail(path, "is empty")
	}
	return s
}

func (r *settingsReader) texts(path string, raw json.RawMessage) []string {
	var list []string
	switch kindOf(raw) {
	case kindMissing, kindNull:
	case kindArray:
		if json.Unmarshal(raw, &list) != nil {
			r.fail(path, "holds something other than strings")
		}
	default:
		r.fail(path, "is %s, not an array of strings", kindOf(raw))
	}
	return list
}

func (r *settingsReader) boolean(path string, raw json.RawMessage) {
	switch kindOf(raw) {
	case kindMissing, kindNull, kindBool:
	default:
		r.fail(path, "is %s, not a boolean", kindOf(raw))
	}
}

func (r *settingsReader) networks(raw json.RawMessage, c *agentConfig) {
	for name, n := range r.object("networks", raw) {
		at := "networks." + name
		fields := r.object(at, n)
		// The prefix is a string as well; a number fails the parse.
		for _, key := range []string{"type", "ip", "netmask", "gateway", "prefix", "mac", "alias"} {
			r.text(at+"."+key, fields[key], false)
		}
		for _, key := range []string{"dns", "default"} {
			r.texts(at+"."+key, fields[key])
		}
		for _, key := range []string{"use_dhcp", "resolved", "preconfigured"} {
			r.boolean(at+"."+key, fields[key])
		}
		var routes []struct{ Destination, Gateway, Netmask string }
		if v := fields["routes"]; kindOf(v) != kindMissing && kindOf(v) != kindNull && json.Unmarshal(v, &routes) != nil {
			r.fail(at+".routes", "is not an array of objects of strings")
		}
		c.networks[name] = fields
	}
}

func (r *settingsReader) disks(raw json.RawMessage, c *agentConfig) {
	disks := r.object("disks", raw)
	// An object here fails the agent's parse of everything.
	c.system = r.text("disks.system", disks["system"], true)
	c.ephemeral = r.place("disks.ephemeral", disks["ephemeral"])
	if p := disks["persistent"]; kindOf(p) != kindMissing && kindOf(p) != kindNull {
		for cid, v := range r.object("disks.persistent", p) {
			c.persistent[cid] = r.place("disks.persistent."+cid, v)
		}
	}
	if v := disks["raw_ephemeral"]; kindOf(v) != kindMissing && kindOf(v) != kindNull {
		var list []json.RawMessage
		if json.Unmarshal(v, &list) != nil {
			r.fail("disks.raw_ephemeral", "is %s, not an array", kindOf(v))
		}
		for _, e := range list {
			r.place("disks.raw_ephemeral", e)
		}
	}
}

// place reads where a disk is: a string, or an object of strings.
func (r *settingsReader) place(path string, raw json.RawMessage) string {
	switch kindOf(raw) {
	case kindMissing, kindNull:
		return ""
	case kindObject:
		fields := r.object(path, raw)
		for key, v := range fields {
			if kindOf(v) != kindString {
				r.fail(path+"."+key, "is %s: only strings are allowed, the agent panics otherwise", kindOf(v))
			}
		}
		return r.text(path+".path", fields["path"], false)
	}
	return r.text(path, raw, false)
}

// sameJSON compares values without regard to the order of keys.
func sameJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return bytes.Equal(bytes.TrimSpace(a), bytes.TrimSpace(b))
	}
	return reflect.DeepEqual(x, y)
}

// checkNetworks compares the networks that the agent gets with those that were
// asked for and with the NICs that the guest has.
func (c *agentConfig) checkNetworks(wanted map[string]map[string]any, macs []string) error {
	used := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		want, got := wanted[name], c.networks[name]
		if got == nil {
			return fmt.Errorf("the agent's settings lack the network %q", name)
		}
		kind, _ := want["type"].(string)
		if kind == "vip" {
			continue
		}
		for _, key := range []string{"type", "ip", "netmask", "gateway", "dns", "default"} {
			if kind == "dynamic" && key != "type" && key != "dns" && key != "default" {
				continue
			}
			sent, err := json.Marshal(want[key])
			if err != nil {
				return err
			}
			if want[key] != nil && !sameJSON(sent, got[key]) {
				return fmt.Errorf("the agent's settings say another %s for network %q than the Director: %s, not %s", key, name, brief(got[key]), sent)
			}
		}
		var mac string
		_ = json.Unmarshal(got["mac"], &mac)
		switch {
		case mac == "" && (len(wanted) > 1 || len(macs) > 1):
			return fmt.Errorf("the agent's settings have no mac for network %q: with several NICs the agent cannot tell which is which", name)
		case mac == "":
		case mac != strings.ToLower(mac):
			return fmt.Errorf("the mac %s of network %q is not in lower case: the agent compares it with the kernel's as an exact text", mac, name)
		case !slices.Contains(macs, mac):
			return fmt.Errorf("the mac %s of network %q is none of the guest's NICs, which are %s", mac, name, strings.Join(macs, " "))
		case used[mac] != "":
			return fmt.Errorf("the networks %q and %q have the same mac %s", name, used[mac], mac)
		}
		if mac != "" {
			used[mac] = name
		}
	}
	return nil
}
