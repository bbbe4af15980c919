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
		"g1":{"ip":"fd00::2","netmask":"ffff:ffff:ffff:ffff::","nic_group":"g","use_dhcp":true},
		"g2":{"type":"manual","ip":"10.0.1.2","netmask":"255.255.255.0","nic_group":"g"}}`), testConfig(t), countingMACs())

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
		`"g1":{"ip":"fd00::2","netmask":"ffff:ffff:ffff:ffff::","nic_group":"g","use_dhcp":true,"mac":"bc:24:11:00:00:0c"},`+
		`"g2":{"type":"manual","ip":"10.0.1.2","netmask":"255.255.255.0","nic_group":"g","mac":"bc:24:11:00:00:0c","use_dhcp":false}}`, string(text))
}

func TestPlanNICsRefuses(t *testing.T) {
	t.Parallel()
	many := `{"n0":{"type":"dynamic"}`
	for i := range 32 {
		many += fmt.Sprintf(`,"m%d":{"type":"dynamic"}`, i)
	}
	manual := func(more string) string { return `{"v":{"type":"manual",` + more + `}}` }
	v4 := func(more string) string { return manual(`"ip":"10.0.0.25","netmask":"255.255.255.0",` + more) }
	v6 := func(more string) string {
		return manual(`"ip":"fd00::25","netmask":"ffff:ffff:ffff:ffff::",` + more)
	}
	for _, tc := range []struct {
		name, networks string
		class          rpc.Class
		want           string
	}{
		{"vip", `{"v":{"type":"vip","ip":"1.2.3.4"}}`, rpc.ClassNotSupported, `network "v": is of type vip`},
		{"another type", `{"v":{"type":"magic"}}`, rpc.ClassNotSupported, `unknown type "magic"`},
		{"nothing", `{"v":{}}`, rpc.ClassCloudError, `network "v": a manual network needs ip and netmask: both are missing`},
		{"manual and empty", manual(`"ip":"","netmask":null`), rpc.ClassCloudError, "both are missing; use type dynamic"},
		{"no ip", manual(`"netmask":"255.255.255.0"`), rpc.ClassCloudError, "ip is missing"},
		{"no netmask", manual(`"ip":"10.0.0.25"`), rpc.ClassCloudError, "netmask is missing"},
		{"prefix alone", manual(`"ip":"fd00::25","prefix":"64"`), rpc.ClassCloudError, "netmask is missing, and prefix does not stand for it"},
		{"no address", manual(`"ip":"10.0.0.256","netmask":"255.255.255.0"`), rpc.ClassCloudError, `ip "10.0.0.256" is no IP address`},
		{"an address with its prefix", manual(`"ip":"10.0.0.25/24","netmask":"255.255.255.0"`), rpc.ClassCloudError, `ip "10.0.0.25/24" must be an address without the length of a prefix`},
		{"an address with a zone", manual(`"ip":"fe80::1%eth0","netmask":"ffff:ffff:ffff:ffff::"`), rpc.ClassCloudError, `ip "fe80::1%eth0" is no IP address`},
		{"nobody's address", manual(`"ip":"0.0.0.0","netmask":"255.255.255.0"`), rpc.ClassCloudError, "ip 0.0.0.0 cannot be the address of a host"},
		{"an address of many", manual(`"ip":"224.0.0.1","netmask":"255.255.255.0"`), rpc.ClassCloudError, "ip 224.0.0.1 cannot be the address of a host"},
		{"a netmask that is a length", manual(`"ip":"10.0.0.25","netmask":"24"`), rpc.ClassCloudError, `netmask "24" must be written like 255.255.255.0`},
		{"a netmask with holes", manual(`"ip":"10.0.0.25","netmask":"255.0.255.0"`), rpc.ClassCloudError, "netmask 255.0.255.0 is none: it must be ones followed by zeros"},
		{"a netmask with holes in a byte", manual(`"ip":"10.0.0.25","netmask":"255.255.253.0"`), rpc.ClassCloudError, "netmask 255.255.253.0 is none"},
		{"a netmask of nothing", manual(`"ip":"10.0.0.25","netmask":"0.0.0.0"`), rpc.ClassCloudError, "netmask 0.0.0.0 is that of no network"},
		{"a netmask of the other kind", manual(`"ip":"fd00::25","netmask":"255.255.255.0"`), rpc.ClassCloudError, "are not both IPv4 or both IPv6: write it like ffff:ffff:ffff:ffff::"},
		{"no gateway", v4(`"gateway":"x"`), rpc.ClassCloudError, `gateway "x" is no IP address`},
		{"a gateway of the other kind", v4(`"gateway":"fd00::1"`), rpc.ClassCloudError, "gateway fd00::1 and ip 10.0.0.25 are not both IPv4 or both IPv6"},
		{"its own gateway", v4(`"gateway":"10.0.0.25"`), rpc.ClassCloudError, "gateway 10.0.0.25 is the VM's own ip"},
		{"a name server that is a name", v4(`"dns":["10.0.0.2","dns.example.com"]`), rpc.ClassCloudError, `dns "dns.example.com" is no IP address`},
		{"a name server that is empty", v4(`"dns":[""]`), rpc.ClassCloudError, `dns "" is no IP address`},
		{"a name server of a dynamic network", `{"v":{"type":"dynamic","dns":["x"]}}`, rpc.ClassCloudError, `network "v": dns "x" is no IP address`},
		{"a prefix that is none", v6(`"prefix":"/64"`), rpc.ClassCloudError, `prefix must be a whole number from 1 to 128, got the string "/64"`},
		{"a prefix that is too long", v4(`"prefix":33`), rpc.ClassCloudError, "prefix must be a whole number from 1 to 32, got 33"},
		{"one address twice", `{"a":{"ip":"10.0.0.2","netmask":"255.255.255.0"},"b":{"type":"manual","ip":"10.0.0.2","netmask":"255.255.0.0"}}`, rpc.ClassCloudError, `network "b": ip 10.0.0.2 is that of network "a" too`},
		{"one address in two spellings", `{"a":{"ip":"fd00::2","netmask":"ffff::"},"b":{"ip":"fd00:0::0:2","netmask":"ffff::"}}`, rpc.ClassCloudError, `ip fd00::2 is that of network "a" too`},
		{"properties", `{"v":{"type":"dynamic","cloud_properties":{"vlan":"1"}}}`, rpc.ClassCloudError, `network "v": cloud_properties vlan: must be a whole number`},
		{"a group that disagrees", `{"a":{"type":"dynamic","nic_group":"g"},"b":{"type":"dynamic","nic_group":"g","cloud_properties":{"vlan":2}}}`, rpc.ClassCloudError, `network "b": is in nic_group "g" with network "a", but their cloud_properties differ`},
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
	_, _, err := planNICs(parseNetworks(t, `{"a":{"type":"dynamic"}}`), testConfig(t), randomMAC(func([]byte) (int, error) { return 0, errors.New("no") }))
	assert.ErrorContains(t, err, "no random bytes")
}

func TestNetworksThatAreFine(t *testing.T) {
	t.Parallel()
	for name, networks := range map[string]string{
		"none":                              `{}`,
		"no gateway and no name server":     `{"a":{"type":"manual","ip":"10.0.0.2","netmask":"255.255.255.0"}}`,
		"empty values":                      `{"a":{"type":"manual","ip":"10.0.0.2","netmask":"255.255.255.0","gateway":"","dns":null,"prefix":""}}`,
		"a single address":                  `{"a":{"type":"manual","ip":"10.0.0.2","netmask":"255.255.255.255","prefix":"32"}}`,
		"a netmask that ends within a byte": `{"a":{"type":"manual","ip":"10.0.0.2","netmask":"255.255.252.0"}}`,
		"IPv6 with a prefix":                `{"a":{"type":"manual","ip":"fd00::2","netmask":"ffff:ffff:ffff:ffff::","gateway":"fe80::1","prefix":"64","dns":["fd00::1","10.0.0.1"]}}`,
		"IPv6 with a prefix as a number":    `{"a":{"type":"manual","ip":"fd00::2","netmask":"ffff:ffff::","prefix":128}}`,
		"an old address to be ignored":      `{"a":{"type":"dynamic","ip":"10.0.0.2","netmask":"?","gateway":"?"},"b":{"type":"manual","ip":"10.0.0.2","netmask":"255.0.0.0"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, out, err := planNICs(parseNetworks(t, networks), testConfig(t), countingMACs())
			require.NoError(t, err)
			text, err := json.Marshal(out)
			require.NoError(t, err)
			assert.NotContains(t, string(text), `"?"`)
		})
	}
}

// TestEveryNICHasItsOwnMAC gives the first MAC twice.
func TestEveryNICHasItsOwnMAC(t *testing.T) {
	t.Parallel()
	calls := byte(0)
	nics, _, err := planNICs(parseNetworks(t, `{"a":{"type":"dynamic"},"b":{"type":"dynamic"}}`), testConfig(t), randomMAC(func(p []byte) (int, error) {
		calls++
		p[0] = calls / 3
		return len(p), nil
	}))
	require.NoError(t, err)
	assert.NotEqual(t, nics[0].MAC, nics[1].MAC)

	_, _, err = planNICs(parseNetworks(t, `{"a":{"type":"dynamic"},"b":{"type":"dynamic"}}`), testConfig(t), randomMAC(func(p []byte) (int, error) { return len(p), nil }))
	assert.ErrorContains(t, err, "no MAC address that the VM does not have already")
}
