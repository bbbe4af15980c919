package cpi

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/proxkit/proxkit/cpi/rpc"
)

// Every drive has a serial of its own, and every path given to the agent goes by
// it: the names the kernel gives depend on the order of discovery, and the agent
// maps /dev/sdb to /dev/vdb when there is one.
const (
	serialSystem    = "bosh-system"
	serialEphemeral = "bosh-ephemeral"
)

// devicePath returns the path of the virtio drive with the serial.
func devicePath(serial string) string { return "/dev/disk/by-id/virtio-" + serial }

// maxAgentSettings bounds the settings, which travel in an ISO of their own for
// every VM. Certificates make up tens of KiB at most.
const maxAgentSettings = 1 << 20

// agentInput is what the settings of an agent are made of.
type agentInput struct {
	AgentID string
	VMName  string
	// Networks are those of planNICs.
	Networks rpc.Networks
	// Ephemeral says whether the VM has an ephemeral disk of its own.
	Ephemeral bool
	// Env is passed on byte for byte: whoever gives its fields types loses those
	// it does not know.
	Env    json.RawMessage
	Config AgentConfig
}

// agentSettings returns the settings that the BOSH agent reads at every start.
func agentSettings(in agentInput) ([]byte, error) {
	if in.AgentID == "" {
		return nil, rpc.CloudError("the agent ID is empty: the agent would answer to nobody")
	}
	if in.Config.MBus == "" && !envHasMBus(in.Env) {
		return nil, &KeyError{
			Place: configPlace, Key: "agent.mbus",
			Problem: `is missing, and env.bosh.mbus.urls of the VM is empty too: the agent needs a message bus: set {"agent": {"mbus": "https://…"}}`,
		}
	}
	var b bytes.Buffer
	put := func(key string, value any) error {
		sep := byte(',')
		if b.Len() == 0 {
			sep = '{'
		}
		b.WriteByte(sep)
		b.WriteString(`"` + key + `":`)
		if raw, ok := value.(json.RawMessage); ok {
			// Not through an encoder, which would reformat it.
			b.Write(raw)
			return nil
		}
		raw, err := json.Marshal(value)
		b.Write(raw)
		return err
	}
	type path struct {
		Path string `json:"path"`
	}
	disks := struct {
		// A text: the agent refuses all its settings when this is an object.
		System     string          `json:"system"`
		Ephemeral  *path           `json:"ephemeral"`
		Persistent map[string]path `json:"persistent"`
	}{System: devicePath(serialSystem), Persistent: map[string]path{}}
	if in.Ephemeral {
		disks.Ephemeral = &path{devicePath(serialEphemeral)}
	}
	ntp := in.Config.NTP
	if ntp == nil {
		ntp = []string{}
	}
	type member struct {
		key   string
		value any
	}
	members := []member{
		{"agent_id", in.AgentID},
		{"vm", map[string]string{"name": in.VMName}},
		{"mbus", in.Config.MBus},
		{"ntp", ntp},
	}
	if given(in.Config.Blobstore) {
		members = append(members, member{"blobstore", in.Config.Blobstore})
	}
	members = append(members, member{"networks", in.Networks}, member{"disks", disks}, member{"env", jsonObject(in.Env)})
	for _, m := range members {
		if err := put(m.key, m.value); err != nil {
			return nil, fmt.Errorf("agent settings: %s: %w", m.key, err)
		}
	}
	b.WriteByte('}')
	if b.Len() > maxAgentSettings {
		return nil, rpc.CloudError("the agent settings take %d KiB, at most %d KiB fit: the env is too large", b.Len()>>10, maxAgentSettings>>10)
	}
	if !json.Valid(b.Bytes()) {
		return nil, rpc.CloudError("the agent settings are not valid JSON")
	}
	return b.Bytes(), nil
}

// envHasMBus reports whether the env names a message bus, which then wins over
// the configuration's.
func envHasMBus(env json.RawMessage) bool {
	var e struct {
		Bosh struct {
			MBus json.RawMessage `json:"mbus"`
		} `json:"bosh"`
	}
	if json.Unmarshal(env, &e) != nil {
		return false
	}
	var mbus struct {
		URLs []string `json:"urls"`
	}
	return json.Unmarshal(e.Bosh.MBus, &mbus) == nil && len(mbus.URLs) > 0 && mbus.URLs[0] != ""
}
