package pvetest_test

import (
	"strings"
	"testing"

	"github.com/proxkit/proxkit/pve/pvetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A step is a call and what it answers: "" for success, the reason, or for a
// refused parameter "name: text".
type step struct{ method, path, body, want string }

// play runs steps in order.
func play(t *testing.T, c *caller, steps []step) {
	t.Helper()
	for _, s := range steps {
		var body []string
		if s.body != "" {
			body = []string{s.body}
		}
		g := c.do(s.method, s.path, body...)
		name := s.method + " " + s.path + " " + s.body
		switch param, text, _ := strings.Cut(s.want, ": "); {
		case s.want == "":
			assert.Equal(t, 200, g.Status, "%s: %s", name, g.Body)
		case g.Errors != nil:
			assert.Equal(t, text, strings.TrimSuffix(g.Errors[param], "\n"), "%s: %s", name, g.Body)
		default:
			assert.Equal(t, s.want, strings.TrimSuffix(g.Message, "\n"), name)
			assert.Equal(t, 500, g.Status, name)
		}
	}
}

func TestPools(t *testing.T) {
	t.Parallel()
	c := start(t)
	for id, pool := range map[int]string{900: "bosh", 901: "bosh", 902: ""} {
		if pool != "" {
			c.srv.AddPool(pool)
		}
		require.NoError(t, c.srv.AddVM(id, pvetest.VM{Pool: pool, Config: map[string]string{}}))
	}
	play(t, c, []step{
		{"POST", "/pools", "poolid=bosh", "create pool failed: pool 'bosh' already exists"},
		{"POST", "/pools", "poolid=bosh/dep1&comment=c", ""},
		{"POST", "/pools", "poolid=none/dep1", "create pool failed: parent 'none' of pool 'none/dep1' does not exist"},
		{"POST", "/pools", "poolid=bosh/dep1/x", ""},
		{"POST", "/pools", "poolid=bosh/dep1/x/y", "poolid: invalid format - pool name 'bosh/dep1/x/y' nested too deeply (max levels = 3)"},
		{"GET", "/pools/nope", "", "pool 'nope' does not exist"},
	})
	play(t, c, []step{
		{"PUT", "/pools", "poolid=bosh/dep1&vms=902", ""},
		{"PUT", "/pools", "poolid=bosh/dep1&vms=900", "update pools failed: VM 900 belongs already to pool 'bosh' and 'allow-move' is not set"},
		{"PUT", "/pools", "poolid=bosh/dep1&vms=900&allow-move=1", ""},
		{"PUT", "/pools", "poolid=bosh/dep1&vms=900&allow-move=1", "update pools failed: VM 900 is already a pool member"},
		{"PUT", "/pools", "poolid=bosh/dep1&vms=4711", ""},
		{"PUT", "/pools", "poolid=bosh&storage=local", ""},
		{"PUT", "/pools", "poolid=bosh/dep1&vms=902&delete=1", ""},
		{"PUT", "/pools", "poolid=bosh/dep1&vms=902&delete=1", "update pools failed: VM 902 is not a pool member"},
		{"PUT", "/pools", "poolid=nope&vms=902", "update pools failed: pool 'nope' does not exist"},
		{"DELETE", "/pools/bosh", "", "delete pool failed: pool 'bosh' is not empty (contains pool 'bosh/dep1')"},
		{"DELETE", "/pools?poolid=bosh/dep1/x", "", ""},
		{"DELETE", "/pools?poolid=bosh/dep1", "", "delete pool failed: pool 'bosh/dep1' is not empty (contains VM 900)"},
	})
	assert.Equal(t, 501, c.do("GET", "/pools/bosh/dep1").Status)
	vmids, _, ok := c.srv.Pool("bosh/dep1")
	require.True(t, ok)
	assert.Equal(t, []int{900, 4711}, vmids)
	members := c.ok("GET", "/pools/bosh").(map[string]any)["members"].([]any)
	assert.Len(t, members, 2)
}

func TestOptionsAndNextID(t *testing.T) {
	t.Parallel()
	c := start(t)
	require.NoError(t, c.srv.AddVM(5000, vm(map[string]string{"tags": "a;b"})))
	assert.Equal(t, "100", c.ok("GET", "/cluster/nextid"))
	play(t, c, []step{
		{"GET", "/cluster/nextid?vmid=5000", "", "vmid: VM 5000 already exists"},
		{"PUT", "/cluster/options", "next-id=lower%3D5000,upper%3D5002", ""},
	})
	assert.Equal(t, "5001", c.ok("GET", "/cluster/nextid"))
	require.NoError(t, c.srv.AddVM(5001, vm(nil)))
	play(t, c, []step{
		{"GET", "/cluster/nextid", "", "unable to get any free VMID in range [5000, 5002]"},
		{"PUT", "/cluster/options", "next-id=lower%3D5000,upper%3D4000", "lower (5000) <= upper (4000) boundary rule broken"},
	})
	m := c.ok("GET", "/cluster/options").(map[string]any)
	assert.Equal(t, map[string]any{"lower": "5000", "upper": "5002"}, m["next-id"])
	assert.Equal(t, []any{"a", "b"}, m["allowed-tags"])
	play(t, c, []step{{"PUT", "/cluster/options", "delete=next-id,nosuch", ""}})
	assert.NotContains(t, c.ok("GET", "/cluster/options"), "next-id")
}

func TestHA(t *testing.T) {
	t.Parallel()
	c := start(t)
	for _, id := range []int{300, 301, 302} {
		require.NoError(t, c.srv.AddVM(id, vm(map[string]string{"name": "ha"})))
	}
	const wrongDigest = "&digest=0000000000000000000000000000000000000000"
	play(t, c, []step{
		{"POST", "/cluster/ha/resources", "sid=vm:300&state=started&max_restart=2&comment=x", ""},
		{"POST", "/cluster/ha/resources", "sid=vm:300", "create resource failed: resource ID 'vm:300' already defined"},
		{"POST", "/cluster/ha/resources", "sid=vm:4711", "resource 'vm:4711' does not exist in cluster"},
		{"POST", "/cluster/ha/resources", "sid=4711", "unable to detect SID from VMID - VM/CT 4711 does not exist"},
		{"POST", "/cluster/ha/resources", "sid=ct:301", "resource 'ct:301' - guest with ID 301 is not a container"},
		{"POST", "/cluster/ha/resources", "sid=301&state=ignored", ""},
		{"GET", "/cluster/ha/resources/300", "", ""},
		{"GET", "/cluster/ha/resources/vm%3A302", "", "no such resource 'vm:302'"},
		{"PUT", "/cluster/ha/resources/vm:300", "state=stopped" + wrongDigest, "update resources config failed: detected modified configuration - file changed by other user? Try again."},
		{"GET", "/cluster/ha/groups", "", "cannot index groups: ha groups have been migrated to rules"},
		{"POST", "/cluster/ha/rules", "rule=na1&type=node-affinity&resources=vm:300&nodes=pve1:10&strict=1", ""},
		{"POST", "/cluster/ha/rules", "rule=na1&type=node-affinity&resources=vm:301&nodes=pve1", "create ha rule failed: HA rule 'na1' already defined"},
		{"POST", "/cluster/ha/rules", "rule=na2&type=node-affinity&resources=vm:300&nodes=pve1", "create ha rule failed: 400 Rule 'na2' is invalid.\nresources: resource 'vm:300' is already used in another node affinity rule"},
		{"POST", "/cluster/ha/rules", "rule=na3&type=node-affinity&resources=vm:301&nodes=pve9", "create ha rule failed: cannot use non-existent node(s) pve9."},
		{"POST", "/cluster/ha/rules", "rule=na4&type=node-affinity&resources=vm:302&nodes=pve1", "create ha rule failed: cannot use unmanaged resource(s) vm:302."},
		{"POST", "/cluster/ha/rules", "rule=ra1&type=resource-affinity&resources=vm:300,vm:301&affinity=negative", "create ha rule failed: 400 Rule 'ra1' is invalid.\nresources: rule defines more resources than available nodes"},
		{"POST", "/cluster/ha/rules", "rule=ra1&type=resource-affinity&resources=vm:300,vm:301", "oneOf[resource-affinity].affinity: property is missing and it is not optional"},
		{"POST", "/cluster/ha/rules", "rule=ra1&type=resource-affinity&resources=vm:300,vm:301&affinity=positive", ""},
		{"PUT", "/cluster/ha/rules/na1", "type=resource-affinity&affinity=positive", "update HA rules failed: unexpected property 'affinity'"},
		{"PUT", "/cluster/ha/rules/nope", "type=node-affinity", "update HA rules failed: HA rule 'nope' does not exist"},
		{"DELETE", "/cluster/ha/rules/nope", "", ""},
		{"DELETE", "/cluster/ha/resources/vm:302", "", "cannot delete service 'vm:302', not HA managed!"},
		{"DELETE", "/nodes/pve1/qemu/300", "", "unable to remove VM 300 - used in HA resources and purge parameter not set."},
	})
	assert.Equal(t, "OK", c.taskOf("DELETE", "/nodes/pve1/qemu/300?purge=1"))
	rules := c.ok("GET", "/cluster/ha/rules").([]any)
	require.Len(t, rules, 1, "a rule without resources is gone")
	assert.Contains(t, rules[0].(map[string]any), "errors")
	assert.Len(t, c.ok("GET", "/cluster/ha/resources"), 1)
	status := c.ok("GET", "/cluster/ha/status/current").([]any)
	assert.Equal(t, "quorum", status[0].(map[string]any)["type"])
	assert.Len(t, status, 3)
}

func TestFirewall(t *testing.T) {
	t.Parallel()
	c := start(t)
	require.NoError(t, c.srv.AddVM(400, vm(map[string]string{"name": "a"})))
	const base = "/nodes/pve1/qemu/400/firewall"
	play(t, c, []step{
		{"PUT", base + "/options", "enable=1&policy_in=DROP", ""},
		{"PUT", base + "/options", "delete=ipfilter,nosuch", "delete: no such option 'nosuch'"},
		{"PUT", "/nodes/pve1/qemu/4711/firewall/options", "enable=1", ""},
		{"POST", base + "/ipset", "name=ipfilter-net0", ""},
		{"POST", base + "/ipset", "name=ipfilter-net0", "name: IPSet 'ipfilter-net0' already exists"},
		{"POST", base + "/ipset/ipfilter-net0", "cidr=10.99.1.5", ""},
		{"POST", base + "/ipset/ipfilter-net0", "cidr=10.99.1.5/32", "cidr: address '10.99.1.5' already exists"},
		{"POST", base + "/ipset/ipfilter-net0", "cidr=10.99.3.7/24", ""},
		{"POST", base + "/ipset/ipfilter-net0", "cidr=10.99.1.500", "cidr: invalid format - value does not look like a valid IP address or CIDR network"},
		{"POST", base + "/ipset/nosuch", "cidr=10.0.0.1", "no such IPSet 'nosuch'"},
		{"DELETE", base + "/ipset/ipfilter-net0/10.99.3.0%2F24", "", ""},
		{"DELETE", base + "/ipset/ipfilter-net0/10.9.9.9", "", ""},
		{"DELETE", base + "/ipset/ipfilter-net0", "", "IPSet 'ipfilter-net0' is not empty"},
		{"POST", base + "/aliases", "name=gw&cidr=192.0.2.1", ""},
		{"POST", base + "/aliases", "name=GW&cidr=192.0.2.1", "name: alias 'GW' already exists"},
		{"DELETE", base + "/aliases/nope", "", ""},
		{"POST", "/cluster/firewall/groups", "group=MyGrp&comment=c", ""},
		{"POST", "/cluster/firewall/groups", "group=mygrp", "group: Security group 'mygrp' already exists"},
		{"POST", "/cluster/firewall/groups/mygrp", "type=in&action=ACCEPT&proto=tcp&dport=22&enable=1", ""},
		{"POST", "/cluster/firewall/groups/nosg", "type=in&action=ACCEPT", "no such security group 'nosg'"},
		{"DELETE", "/cluster/firewall/groups/mygrp", "", "Security group 'mygrp' is not empty"},
		{"POST", base + "/rules", "type=group&action=mygrp&iface=net0&enable=1", ""},
		{"POST", base + "/rules", "type=in&action=ACCEPT&source=gw", ""},
		{"POST", base + "/rules", "type=in&action=ALLOW", "action: unknown action 'ALLOW'"},
		{"POST", base + "/rules", "type=in&action=ACCEPT&macro=NoSuchMacro", "macro: unknown macro 'NoSuchMacro'"},
		{"GET", base + "/rules/99", "", "no rule at position 99"},
		{"PUT", base + "/rules/0", "enable=1&digest=0000000000000000000000000000000000000000", "detected modified configuration - file changed by other user? Try again."},
	})
	rules := c.ok("GET", base+"/rules").([]any)
	require.Len(t, rules, 2)
	assert.Equal(t, "gw", rules[0].(map[string]any)["source"], "the newest is the first")
	assert.EqualValues(t, 4, rules[0].(map[string]any)["ipversion"])
	play(t, c, []step{{"PUT", base + "/rules/1", "moveto=0", ""}})
	assert.Equal(t, "group", c.ok("GET", base+"/rules").([]any)[0].(map[string]any)["type"])
	assert.Equal(t, "OK", c.taskOf("DELETE", "/nodes/pve1/qemu/400"))
	assert.NotContains(t, c.ok("GET", base+"/options"), "enable", "the file goes with the guest")
}

func TestSDN(t *testing.T) {
	t.Parallel()
	c := start(t)
	require.NoError(t, c.srv.AddVM(100, vm(map[string]string{"net0": "virtio=BC:24:11:00:00:01,bridge=vn1"})))
	play(t, c, []step{
		{"POST", "/cluster/sdn/zones", "type=simple&zone=zsim", ""},
		{"POST", "/cluster/sdn/zones", "type=simple&zone=zsim", "create sdn zone object failed: sdn zone object ID 'zsim' already defined"},
		{"POST", "/cluster/sdn/zones", "type=vlan&zone=zvlan", "missing value for required option 'bridge'"},
		{"POST", "/cluster/sdn/zones", "type=vlan&zone=zvlan&bridge=vmbr0", ""},
		{"POST", "/cluster/sdn/zones", "type=simple&zone=toolongname", "zone: value may only be 8 characters long"},
		{"POST", "/cluster/sdn/zones", "type=simple&zone=a_b", "zone: value does not match the regex pattern"},
		{"POST", "/cluster/sdn/vnets", "vnet=vn1&zone=zsim", ""},
		{"POST", "/cluster/sdn/vnets", "vnet=vn2&zone=zsim&tag=5", "create sdn vnet object failed: 400 Parameter verification failed.\ntag: vlan tag is not allowed on simple zone"},
		{"POST", "/cluster/sdn/vnets", "vnet=vl1&zone=zvlan", "create sdn vnet object failed: 400 Parameter verification failed.\ntag: missing vlan tag"},
		{"POST", "/cluster/sdn/vnets", "vnet=vl1&zone=zvlan&tag=50", ""},
		{"POST", "/cluster/sdn/vnets", "vnet=vl2&zone=zvlan&tag=50", "create sdn vnet object failed: 400 Parameter verification failed.\ntag: tag 50 already exist in vnet vl1"},
		{"GET", "/cluster/sdn/vnets/vnnope", "", "sdn vnet 'vnnope' does not exist"},
		{"POST", "/cluster/sdn/vnets/vn1/subnets", "subnet=10.77.0.0/24&type=subnet&gateway=10.78.0.1", "create sdn subnet object failed: 400 Parameter verification failed.\ngateway: 10.78.0.1 is not in subnet 10.77.0.0/24"},
		{"POST", "/cluster/sdn/vnets/vn1/subnets", "subnet=10.77.0.0/24&type=subnet&gateway=10.77.0.1", ""},
		{"DELETE", "/cluster/sdn/zones/zvlan", "", "delete sdn zone object failed: zone zvlan is used by vnet vl1 at /usr/share/perl5/PVE/Network/SDN/Zones/Plugin.pm line 149."},
		{"DELETE", "/cluster/sdn/vnets/vn1", "", "delete sdn vnet object failed: 400 Parameter verification failed.\nvnet: Can't delete vnet if subnets exists"},
	})
	rows := c.ok("GET", "/cluster/sdn/vnets?pending=1").([]any)
	assert.Equal(t, "new", rows[0].(map[string]any)["state"])
	assert.Equal(t, "bridge 'vn1' does not exist", c.taskOf("POST", "/nodes/pve1/qemu/100/status/start"), "not applied yet")
	assert.Equal(t, "OK", c.taskOf("PUT", "/cluster/sdn", ""))
	assert.Equal(t, "OK", c.taskOf("POST", "/nodes/pve1/qemu/100/status/start"))
	assert.Len(t, c.ok("GET", "/nodes/pve1/network?type=any_bridge"), 3)

	token := c.ok("POST", "/cluster/sdn/lock").(string)
	play(t, c, []step{
		{"POST", "/cluster/sdn/vnets", "vnet=vx&zone=zsim", "create sdn vnet object failed: invalid lock token provided! at /usr/share/perl5/PVE/Network/SDN.pm line 291."},
		{"POST", "/cluster/sdn/vnets", "vnet=vx&zone=zsim&lock-token=" + token, ""},
		{"POST", "/cluster/sdn/rollback", "lock-token=" + token, ""},
		{"GET", "/cluster/sdn/vnets/vx", "", "sdn vnet 'vx' does not exist"},
	})
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	c := start(t)
	play(t, c, []step{
		{"POST", "/nodes/pve1/network", "iface=vmbr7&type=bridge&autostart=1&cidr=10.7.0.1/24", ""},
		{"POST", "/nodes/pve1/network", "iface=vmbr7&type=bridge", "iface: interface already exists"},
		{"POST", "/nodes/pve1/network", "iface=b&type=bridge", "iface: invalid format - invalid network interface name 'b'"},
		{"GET", "/nodes/pve1/network/vmbr99", "", "iface: interface does not exist"},
		{"POST", "/nodes/pve1/network", "iface=vmbr8&type=bridge&bridge_ports=eth77", "bridge 'vmbr8' - unable to find bridge port 'eth77'"},
	})
	require.NoError(t, c.srv.AddVM(100, vm(map[string]string{"net0": "virtio=BC:24:11:00:00:01,bridge=vmbr7"})))
	assert.Equal(t, "bridge 'vmbr7' does not exist", c.taskOf("POST", "/nodes/pve1/qemu/100/status/start"))
	assert.Equal(t, "OK", c.taskOf("PUT", "/nodes/pve1/network", ""))
	assert.Equal(t, "OK", c.taskOf("POST", "/nodes/pve1/qemu/100/status/start"))
	m := c.ok("GET", "/nodes/pve1/network/vmbr7").(map[string]any)
	assert.Equal(t, "10.7.0.1/24", m["cidr"])
	assert.EqualValues(t, 1, m["active"])
	play(t, c, []step{{"DELETE", "/nodes/pve1/network/vmbr7", "", ""}, {"DELETE", "/nodes/pve1/network", "", ""}})
	assert.Len(t, c.ok("GET", "/nodes/pve1/network"), 2, "reverted")
}
