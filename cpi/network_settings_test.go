package cpi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi/rpc"
)

// countingMACs gives BC:24:11:00:00:0A and on.
func countingMACs() func() (net.HardwareAddr, error) {
	last := byte(9)
	return randomMAC(func(p []byte) (int, error) {
		last++
		p[len(p)-1] = last
		return len(p), nil
	})
}

func parseNetworks(t testing.TB, text string) rpc.Networks {
	t.Helper()
	var ns rpc.Networks
	require.NoError(t, json.Unmarshal([]byte(text), &ns))
	return ns
}

func TestPlanNICs(t *testing.T) {
	t.Parallel()
	nics, networks, err := planNICs(parseNetworks(t, `{
		"z":{"type":"manual","ip":"10.0.0.2","netmask":"255.255.255.0","gateway":"10.0.0.1","dns":["10.0.0.1"],"default":["dns","gateway"],"prefix":24,"cloud_properties":{"vlan":7}},
		"a":{"type":"dynamic","ip":"10.9.9.9","netmask":"255.0.0.0","cloud_properties":{"vnet":"v1"}},
		"g1":{"ip":"fd00::2","nic_group":"g","use_dhcp":true},
		"g2":{"type":"manual","ip":"10.0.1.2","nic_group":"g"}}`), testConfig(t), countingMACs())

	require.NoError(t, err)
	assert.Equal(t, []nic{
		{NetworkProperties{Bridge: "vmbr0", VLAN: 7, Model: "virtio"}, "BC:24:11:00:00:0A", []string{"z"}},
		{NetworkProperties{Bridge: "v1", VNet: true, Model: "virtio"}, "BC:24:11:00:00:0B", []string{"a"}},
		{NetworkProperties{Bridge: "vmbr0", Model: "virtio"}, "BC:24:11:00:00:0C", []string{"g1", "g2"}},
	}, nics)
	text, err := json.Marshal(networks)
	require.NoError(t, err)
	assert.Equal(t, `{"z":{"type":"manual","ip":"10.0.0.2","netmask":"255.255.255.0","gateway":"10.0.0.1","dns":["10.0.0.1"],"default":["dns","gateway"],"prefix":"24","cloud_properties":{"vlan":7},"mac":"bc:24:11:00:00:0a","use_dhcp":false},`+
		`"a":{"type":"dynamic","ip":"","netmask":"","cloud_properties":{"vnet":"v1"},"mac":"bc:24:11:00:00:0b"},`+
		`"g1":{"ip":"fd00::2","nic_group":"g","use_dhcp":true,"mac":"bc:24:11:00:00:0c"},`+
		`"g2":{"type":"manual","ip":"10.0.1.2","nic_group":"g","mac":"bc:24:11:00:00:0c","use_dhcp":false}}`, string(text))
}

func TestPlanNICsRefuses(t *testing.T) {
	t.Parallel()
	many := `{"n0":{}`
	for i := range 32 {
		many += fmt.Sprintf(`,"m%d":{}`, i)
	}
	for _, tc := range []struct {
		name, networks string
		class          rpc.Class
		want           string
	}{
		{"vip", `{"v":{"type":"vip","ip":"1.2.3.4"}}`, rpc.ClassNotSupported, `network "v" is of type vip`},
		{"another type", `{"v":{"type":"magic"}}`, rpc.ClassNotSupported, `unknown type "magic"`},
		{"no address", `{"v":{"type":"manual","ip":"10.0.0.256"}}`, rpc.ClassCloudError, `ip "10.0.0.256" is no IP address`},
		{"no gateway", `{"v":{"type":"manual","ip":"10.0.0.25","gateway":"x"}}`, rpc.ClassCloudError, `gateway "x" is no IP address`},
		{"properties", `{"v":{"cloud_properties":{"vlan":"1"}}}`, rpc.ClassCloudError, "vlan: must be a whole number"},
		{"a group that disagrees", `{"a":{"nic_group":"g"},"b":{"nic_group":"g","cloud_properties":{"vlan":2}}}`, rpc.ClassCloudError, `networks "a" and "b" are in nic_group "g" but differ`},
		{"too many", many + "}", rpc.ClassCloudError, "33 networks"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, _, err := planNICs(parseNetworks(t, tc.networks), testConfig(t), countingMACs())
			require.Error(t, err)
			assert.ErrorContains(t, err, tc.want)
			assert.Equal(t, tc.class, rpc.ClassOf(err))
		})
	}
	_, _, err := planNICs(parseNetworks(t, `{"a":{}}`), testConfig(t), randomMAC(func([]byte) (int, error) { return 0, errors.New("no") }))
	assert.ErrorContains(t, err, "no random bytes")
}
