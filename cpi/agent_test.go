package cpi

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi/rpc"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestAgentSettings(t *testing.T) {
	t.Parallel()
	_, networks, err := planNICs(parseNetworks(t, `{"default":{"type":"manual","ip":"10.0.0.20","netmask":"255.255.255.0","gateway":"10.0.0.1","dns":["10.0.0.2"],"default":["dns","gateway"],"cloud_properties":{"bridge":"vmbr0"}}}`),
		testConfig(t), countingMACs())
	require.NoError(t, err)
	for _, tc := range []struct {
		name string
		in   agentInput
	}{
		{"create-env", agentInput{
			AgentID: "agent-9", VMName: "vm-101-k3v9q2m8x1z7", Networks: networks, Ephemeral: true, Env: json.RawMessage(`{"bosh":{"group":"g"}}`),
			Config: AgentConfig{
				MBus: "https://mbus:password@0.0.0.0:6868", NTP: []string{"time1", "time2"},
				Blobstore: json.RawMessage(`{"provider": "local", "options": {"blobstore_path": "/var/vcap/micro_bosh/data/cache"}}`),
			},
		}},
		{"director", agentInput{
			AgentID: "agent-10", VMName: "vm-102-k3v9q2m8x1z7", Networks: networks,
			Env: json.RawMessage(`{ "bosh":{"mbus":{"urls":["nats://10.0.0.6:4222"],"cert":{"ca":"<CA> & more"}},"swap_size":0, "tags":{}, "later_key":[1.50]}}`),
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := agentSettings(tc.in)
			require.NoError(t, err)

			golden := filepath.Join("testdata", "agent", tc.name+".json")
			if *update {
				require.NoError(t, os.MkdirAll(filepath.Dir(golden), 0o755))
				require.NoError(t, os.WriteFile(golden, append(got, '\n'), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			assert.Equal(t, strings.TrimSpace(string(want)), string(got))
			assert.Contains(t, string(got), `"env":`+string(tc.in.Env), "the env is passed on byte for byte")

			// The shape in which the agent decodes it: a system disk that is not a
			// text, or a value of a persistent disk that is not, fails its whole parse.
			var agent struct {
				AgentID  string `json:"agent_id"`
				VM       struct{ Name string }
				Mbus     string
				Ntp      []string
				Networks map[string]struct {
					Type, IP, Netmask, Gateway, Mac, Prefix string
					DNS, Default                            []string
					UseDHCP                                 bool `json:"use_dhcp"`
				}
				Disks struct {
					System     string
					Ephemeral  *struct{ Path string }
					Persistent map[string]map[string]string
				}
			}
			require.NoError(t, json.Unmarshal(got, &agent))
			assert.Equal(t, tc.in.AgentID, agent.AgentID)
			assert.Equal(t, "/dev/disk/by-id/virtio-bosh-system", agent.Disks.System)
			assert.Equal(t, tc.in.Ephemeral, agent.Disks.Ephemeral != nil)
			assert.Equal(t, "bc:24:11:00:00:0a", agent.Networks["default"].Mac)
		})
	}
}

func TestAgentSettingsRefuse(t *testing.T) {
	t.Parallel()
	ok := agentInput{AgentID: "a", Config: AgentConfig{MBus: "https://x"}}
	_, err := agentSettings(ok)
	require.NoError(t, err)

	in := ok
	in.AgentID = ""
	_, err = agentSettings(in)
	assert.ErrorContains(t, err, "the agent ID is empty")

	for _, env := range []string{``, `{}`, `{"bosh":{"mbus":{"urls":[]}}}`, `{"bosh":{"mbus":"nats://flat"}}`, `{"bosh":5}`} {
		in = ok
		in.Config.MBus, in.Env = "", json.RawMessage(env)
		_, err = agentSettings(in)
		var key *KeyError
		require.ErrorAs(t, err, &key, env)
		assert.Equal(t, "agent.mbus", key.Key)
	}

	in = ok
	in.Env = json.RawMessage(`{"x":"` + strings.Repeat("y", 1<<20) + `"}`)
	_, err = agentSettings(in)
	assert.ErrorContains(t, err, "the env is too large")
	assert.Equal(t, rpc.ClassCloudError, rpc.ClassOf(err))

	in.Env = json.RawMessage(`{broken`)
	_, err = agentSettings(in)
	assert.ErrorContains(t, err, "not valid JSON")
}
