package pvetest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAccessAdministration(t *testing.T) {
	t.Parallel()
	c := start(t)
	play(t, c, []step{
		{"POST", "/access/groups", "groupid=ops&comment=o", ""},
		{"POST", "/access/groups", "groupid=ops", "create group failed: group 'ops' already exists"},
		{"GET", "/access/groups/none", "", "group 'none' does not exist"},
		{"PUT", "/access/groups/ops", "comment=changed", ""},
		{"DELETE", "/access/groups/none", "", "delete group failed: group 'none' does not exist"},
		{"POST", "/access/users", "userid=a@pve&groups=ops&password=apassword&firstname=A", ""},
		{"POST", "/access/users", "userid=b@pve&groups=none", "create user failed: no such group 'none'"},
		{"POST", "/access/users", "userid=b@nope", "create user failed: domain 'nope' does not exist"},
		{"POST", "/access/users", "userid=bad", "userid: invalid format - value 'bad' does not look like a valid user name"},
		{"PUT", "/access/users/a@pve", "groups=none", "update user failed: no such group 'none'"},
		{"DELETE", "/access/users/root@pam", "", "delete user failed: cannot delete 'root@pam'"},
		{"POST", "/access/roles", "roleid=R1&privs=VM.Audit", ""},
		{"POST", "/access/roles", "roleid=R1", "create role failed: role 'R1' already exists"},
		{"POST", "/access/roles", "roleid=R2&privs=VM.Nope", "privs: invalid format - invalid privilege 'VM.Nope'"},
		{"PUT", "/access/roles/R1", "privs=VM.Clone&append=1", ""},
		{"DELETE", "/access/roles/PVEAdmin", "", "delete role failed: auto-generated role 'PVEAdmin' cannot be modified"},
		{"DELETE", "/access/roles/none", "", "delete role failed: role 'none' does not exist"},
		{"PUT", "/access/acl", "path=/vms&roles=R1&users=a@pve&groups=ops", ""},
		{"PUT", "/access/acl", "path=/vms&roles=R1&users=none@pve", "ACL update failed: user 'none@pve' does not exist"},
		{"PUT", "/access/acl", "path=/vms&roles=R1&groups=none", "ACL update failed: group 'none' does not exist"},
		{"PUT", "/access/acl", "path=/vms&roles=R1&tokens=a@pve!none", "ACL update failed: no such token 'a@pve!none'"},
		{"PUT", "/access/acl", "path=/nonsense&roles=R1&users=a@pve", "path: invalid ACL path '/nonsense'"},
		{"PUT", "/access/acl", "path=/vms&roles=R1", "users: either 'users', 'groups' or 'tokens' is required."},
		{"POST", "/access/users/a@pve/token/t1", "comment=c", ""},
		{"PUT", "/access/users/a@pve/token/t1", "privsep=0&expire=5", ""},
		{"GET", "/access/users/a@pve/token/none", "", "no such token 'none' for user 'a@pve'"},
		{"GET", "/access/domains/nope", "", "domain 'nope' does not exist"},
		{"GET", "/access/permissions?userid=none@pve", "", "no such user ('none@pve')"},
	})
	assert.Equal(t, map[string]any{"comment": "changed", "members": []any{"a@pve"}}, c.ok("GET", "/access/groups/ops"))
	assert.Equal(t, map[string]any{"VM.Audit": 1.0, "VM.Clone": 1.0}, c.ok("GET", "/access/roles/R1"))
	assert.Len(t, c.ok("GET", "/access/roles"), 18)
	assert.Len(t, c.ok("GET", "/access/acl"), 2)
	assert.Len(t, c.ok("GET", "/access/domains"), 2)
	assert.Equal(t, "pam", c.ok("GET", "/access/domains/pam").(map[string]any)["type"])
	assert.Equal(t, map[string]any{"privsep": 0.0, "expire": 5.0, "comment": "c"}, c.ok("GET", "/access/users/a@pve/token/t1"))
	assert.Len(t, c.ok("GET", "/access/users/a@pve/token"), 1)
	full := c.ok("GET", "/access/users?full=1&enabled=1").([]any)
	require.Len(t, full, 2)
	assert.Equal(t, "ops", full[0].(map[string]any)["groups"])
	assert.Len(t, c.ok("GET", "/access/tfa"), 2)
	secret := c.ok("PUT", "/access/users/a@pve/token/t1", "regenerate=1").(map[string]any)["value"]
	assert.NotEmpty(t, secret)

	t.Run("what a user sees of others", func(t *testing.T) {
		a := newCaller(t, c.srv).login("a@pve", "apassword")
		assert.Len(t, a.ok("GET", "/access/users"), 1)
		assert.Empty(t, a.ok("GET", "/access/groups"))
		assert.Empty(t, a.ok("GET", "/access/acl"))
		assert.Equal(t, 403, a.do("GET", "/access/users/root@pam").Status)
		assert.Equal(t, "Permission check failed (/access, Sys.Audit)", a.do("GET", "/access/permissions?userid=root@pam").Reason)
		assert.Equal(t, 400, a.do("PUT", "/access/password", "userid=a@pve&password=newpassword").Status, "wants the old one")
		assert.Equal(t, 200, a.do("PUT", "/access/password", "userid=a@pve&password=newpassword&confirmation-password=apassword").Status)
		newCaller(t, c.srv).login("a@pve", "newpassword")
	})
	play(t, c, []step{
		{"DELETE", "/access/users/a@pve/token/t1", "", ""},
		{"DELETE", "/access/roles/R1", "", ""},
		{"DELETE", "/access/groups/ops", "", ""},
	})
	assert.Empty(t, c.ok("GET", "/access/acl"), "a role takes its permissions along")
}

func TestFirewallSets(t *testing.T) {
	t.Parallel()
	c := start(t)
	require.NoError(t, c.srv.AddVM(100, vm(map[string]string{"name": "a"})))
	const cl, g = "/cluster/firewall", "/nodes/pve1/qemu/100/firewall"
	play(t, c, []step{
		{"POST", cl + "/ipset", "name=web&comment=c", ""},
		{"POST", cl + "/ipset", "name=www&rename=web", ""},
		{"POST", cl + "/ipset", "name=x9&rename=none", "name: IPSet 'none' does not exist"},
		{"POST", cl + "/ipset/www", "cidr=10.0.0.0/8&comment=ten", ""},
		{"PUT", cl + "/ipset/www/10.0.0.0/8", "nomatch=1", ""},
		{"PUT", cl + "/ipset/www/11.0.0.0/8", "nomatch=1", "cidr: no such IP/Network"},
		{"GET", cl + "/ipset/www/11.0.0.0/8", "", "cidr: no such IP/Network"},
		{"POST", cl + "/aliases", "name=gw6&cidr=2001:db8::1", ""},
		{"PUT", cl + "/aliases/gw6", "cidr=2001:db8::2&rename=gateway", ""},
		{"GET", cl + "/aliases/gw6", "", "name: no such alias"},
		{"PUT", cl + "/aliases/none", "cidr=10.0.0.1", "name: no such alias"},
		{"POST", cl + "/groups", "group=web", ""},
		{"POST", cl + "/groups", "group=www&rename=web&comment=new", ""},
		{"POST", cl + "/groups", "group=x9&rename=none", "group: Security group 'none' does not exist"},
		{"POST", g + "/rules", "type=in&action=ACCEPT&source=%2Bdc/www&dest=dc/gateway&proto=tcp&dport=80", ""},
		{"POST", g + "/rules", "type=in&action=DROP&source=%2Bguest/www", "source: no such ipset 'www'"},
		{"POST", g + "/rules", "type=in&action=DROP&source=guest/gateway", "source: no such alias 'guest/gateway'"},
		{"POST", g + "/rules", "type=in&action=DROP&dport=80", "proto: missing property - required by 'dport'"},
		{"POST", g + "/rules", "type=in&action=DROP&source=10.0.0.1-10.0.0.9,10.1.0.0/16", ""},
		{"DELETE", cl + "/ipset/www?force=1", "", ""},
	})
	m := c.ok("GET", cl+"/aliases/gateway").(map[string]any)
	assert.EqualValues(t, 6, m["ipversion"])
	assert.Len(t, c.ok("GET", cl+"/aliases"), 1)
	assert.Len(t, c.ok("GET", cl+"/groups"), 1)
	assert.Empty(t, c.ok("GET", cl+"/ipset"))
	assert.Len(t, c.ok("GET", g+"/refs"), 1)
	assert.NotEmpty(t, c.ok("GET", cl+"/macros"))
	rules := c.ok("GET", g+"/rules").([]any)
	require.Len(t, rules, 2)
	assert.Equal(t, map[string]any{"source": "no such ipset 'www'"}, rules[1].(map[string]any)["errors"], "a used set can go")
	assert.Equal(t, "1", c.ok("GET", g+"/rules/1").(map[string]any)["pos"])
	require.Equal(t, "OK", c.taskOf("POST", "/nodes/pve1/qemu/100/clone", "newid=101"))
	assert.Len(t, c.ok("GET", "/nodes/pve1/qemu/101/firewall/rules"), 2, "a clone has its original's rules")
	play(t, c, []step{
		{"DELETE", g + "/rules/1", "", ""},
		{"POST", "/nodes/pve1/firewall/rules", "type=in&action=ACCEPT", ""},
		{"PUT", "/nodes/pve1/firewall/options", "enable=0", ""},
		{"GET", "/nodes/pve1/firewall", "", ""},
	})
	assert.Len(t, c.ok("GET", "/nodes/pve1/firewall/rules"), 1)
}

func TestSmallLists(t *testing.T) {
	t.Parallel()
	c := start(t)
	play(t, c, []step{
		{"POST", "/cluster/mapping/pci", "id=gpu1&map=node%3Dpve1,path%3D0000:00:01.0,id%3D8086:1234", ""},
		{"POST", "/cluster/mapping/pci", "id=gpu1&map=node%3Dpve1,path%3D0000:00:01.0,id%3D8086:1234", "'gpu1' is already defined"},
		{"GET", "/cluster/mapping/pci/gpu1", "", ""},
		{"GET", "/cluster/mapping/pci/none", "", "no such entry 'none'"},
		{"POST", "/cluster/backup", "vmid=101&storage=local&schedule=daily&enabled=1&mode=snapshot", ""},
		{"POST", "/cluster/qemu/custom-cpu-models", "cputype=custom-foo&reported-model=kvm64", ""},
		{"POST", "/nodes/pve1/qemu", "vmid=100&cpu=custom-foo", ""},
		{"DELETE", "/cluster/mapping/pci/gpu1", "", ""},
		{"POST", "/nodes/pve1/qemu/100/termproxy", "", "Timeout while waiting for port '5902' to get ready!"},
	})
	assert.Len(t, c.ok("GET", "/cluster/backup"), 1)
	assert.Empty(t, c.ok("GET", "/cluster/mapping/pci"))
	assert.Empty(t, c.ok("GET", "/cluster/config/nodes"), "a node on its own")
	models := c.ok("GET", "/nodes/pve1/capabilities/qemu/cpu").([]any)
	assert.Contains(t, models, map[string]any{"name": "custom-foo", "vendor": "default", "custom": 1.0})
	assert.Len(t, c.ok("GET", "/cluster/tasks"), 1)
	assert.Len(t, c.ok("GET", "/cluster/log"), 1)
	for _, path := range []string{
		"/cluster", "/cluster/config", "/cluster/ha", "/cluster/sdn", "/cluster/mapping", "/nodes/pve1", "/nodes/pve1/version", "/nodes/pve1/time",
		"/nodes/pve1/dns", "/nodes/pve1/hosts", "/nodes/pve1/config", "/nodes/pve1/subscription", "/nodes/pve1/hardware/pci", "/nodes/pve1/status",
	} {
		assert.NotNil(t, c.ok("GET", path), path)
	}
}

func TestMoreHA(t *testing.T) {
	t.Parallel()
	c := start(t)
	for _, id := range []int{300, 301, 302} {
		require.NoError(t, c.srv.AddVM(id, vm(nil)))
		c.ok("POST", "/cluster/ha/resources", "state=enabled&sid=vm:"+[]string{"300", "301", "302"}[id-300])
	}
	assert.Equal(t, "started", c.ok("GET", "/cluster/ha/resources/300").(map[string]any)["state"])
	play(t, c, []step{
		{"PUT", "/cluster/ha/resources/vm:300", "state=stopped&delete=comment", ""},
		{"POST", "/cluster/ha/resources/vm:300/migrate", "node=pve1", ""},
		{"POST", "/cluster/ha/resources/vm:4711/migrate", "node=pve1", "resource 'vm:4711' is not HA managed"},
		{"POST", "/cluster/ha/rules", "rule=ra&type=resource-affinity&resources=vm:300,vm:301&affinity=positive", ""},
		{"POST", "/cluster/ha/rules", "rule=na&type=node-affinity&resources=vm:300&nodes=pve1", ""},
		{"POST", "/cluster/ha/rules", "rule=nb&type=node-affinity&resources=vm:301&nodes=pve1", "create ha rule failed: 400 Rule 'nb' is invalid.\nresources: at least one resource is in a positive resource affinity rule and there are other resources in at least one other node affinity rule already"},
		{"PUT", "/cluster/ha/rules/na", "type=node-affinity&resources=vm:300,vm:301&delete=comment", ""},
		{"GET", "/cluster/ha/rules/none", "", "no such ha rule 'none'"},
		{"GET", "/cluster/ha/rules/na", "", ""},
		{"POST", "/cluster/ha/groups", "group=g1&nodes=pve1", "cannot create group: ha groups have been migrated to rules"},
	})
	assert.Len(t, c.ok("GET", "/cluster/ha/rules?type=node-affinity"), 1)
	assert.Len(t, c.ok("GET", "/cluster/ha/rules?resource=vm:301"), 2)
	assert.Equal(t, "started", c.ok("GET", "/cluster/resources?type=vm").([]any)[1].(map[string]any)["hastate"])
}

func TestMoreSDN(t *testing.T) {
	t.Parallel()
	c := start(t)
	play(t, c, []step{
		{"POST", "/cluster/sdn/controllers", "type=evpn&controller=evctl&asn=65000&peers=192.0.2.11", ""},
		{"POST", "/cluster/sdn/controllers", "type=evpn&controller=evctl&asn=65000&peers=192.0.2.11", "create sdn controller object failed: sdn controller object ID 'evctl' already defined"},
		{"POST", "/cluster/sdn/zones", "type=evpn&zone=zev&controller=evctl&vrf-vxlan=10000", ""},
		{"DELETE", "/cluster/sdn/controllers/evctl", "", "delete sdn controller object failed: controller evctl is used by zev at /usr/share/perl5/PVE/Network/SDN/Controllers/EvpnPlugin.pm line 476."},
		{"POST", "/cluster/sdn/zones", "type=vxlan&zone=zvx", "create sdn zone object failed: 400 Parameter verification failed.\npeers: must have exactly one of peers / fabric defined"},
		{"PUT", "/cluster/sdn/zones/zev", "mtu=1400", ""},
		{"PUT", "/cluster/sdn/zones/zev", "delete=nosuch", "update sdn zone object failed: no such option 'nosuch'"},
		{"PUT", "/cluster/sdn/zones/none", "mtu=1400", "update sdn zone object failed: sdn 'none' does not exist"},
		{"PUT", "/cluster/sdn/zones/zev", "mtu=1400&digest=0000000000000000000000000000000000000000", "update sdn zone object failed: detected modified configuration - file changed by other user? Try again."},
		{"GET", "/cluster/sdn/zones/none", "", "sdn 'none' does not exist"},
		{"POST", "/cluster/sdn/vnets", "vnet=ve1&zone=zev", "create sdn vnet object failed: 400 Parameter verification failed.\ntag: missing vxlan tag"},
		{"POST", "/cluster/sdn/vnets", "vnet=ve1&zone=none", "create sdn vnet object failed: cannot lookup undefined type! at /usr/share/perl5/PVE/API2/Network/SDN/Vnets.pm line 326."},
		{"POST", "/cluster/sdn/vnets", "vnet=ve1&zone=zev&tag=4242", ""},
		{"PUT", "/cluster/sdn/vnets/ve1", "alias=renamed", ""},
		{"POST", "/cluster/sdn/vnets/ve1/subnets", "subnet=10.1.0.0/24&type=subnet&dhcp-range=start-address%3D10.1.0.10%2Cend-address%3D10.1.0.20", ""},
		{"PUT", "/cluster/sdn/vnets/ve1/subnets/zev-10.1.0.0-24", "gateway=10.1.0.1", ""},
		{"PUT", "/cluster/sdn/vnets/ve1/subnets/none", "snat=1", "update sdn subnet object failed: sdn subnet 'none' does not exist"},
		{"GET", "/cluster/sdn/vnets/ve1/subnets/none", "", "sdn subnet 'none' does not exist"},
		{"PUT", "/cluster/sdn", "", ""},
		{"PUT", "/cluster/sdn/vnets/ve1", "alias=again", ""},
		{"POST", "/cluster/sdn/lock", "", "could not acquire lock for SDN config: configuration has pending changes at /usr/share/perl5/PVE/API2/Network/SDN.pm line 150."},
		{"POST", "/cluster/sdn/lock", "allow-pending=1", ""},
		{"DELETE", "/cluster/sdn/lock", "", "could not release lock: invalid lock token provided! at /usr/share/perl5/PVE/Network/SDN.pm line 291."},
		{"DELETE", "/cluster/sdn/lock?force=1", "", ""},
	})
	m := c.ok("GET", "/cluster/sdn/vnets/ve1/subnets/zev-10.1.0.0-24").(map[string]any)
	assert.Equal(t, []any{map[string]any{"start-address": "10.1.0.10", "end-address": "10.1.0.20"}}, m["dhcp-range"])
	assert.Equal(t, "24", m["mask"])
	assert.Equal(t, "changed", c.ok("GET", "/cluster/sdn/vnets?pending=1").([]any)[0].(map[string]any)["state"])
	assert.Equal(t, "renamed", c.ok("GET", "/cluster/sdn/vnets?running=1").([]any)[0].(map[string]any)["alias"])
	assert.Len(t, c.ok("GET", "/cluster/sdn/vnets/ve1/subnets"), 1)
	assert.Len(t, c.ok("GET", "/nodes/pve1/sdn/zones/zev/content"), 1)
	assert.Equal(t, "available", c.ok("GET", "/nodes/pve1/sdn/zones").([]any)[0].(map[string]any)["status"])
	play(t, c, []step{
		{"DELETE", "/cluster/sdn/vnets/ve1/subnets/zev-10.1.0.0-24", "", ""},
		{"DELETE", "/cluster/sdn/vnets/ve1", "", ""},
	})
	assert.Equal(t, "deleted", c.ok("GET", "/cluster/sdn/vnets?pending=1").([]any)[0].(map[string]any)["state"])
	nobody := newCaller(t, c.srv).token("a@pve!t0", c.srv.AddToken("a@pve!t0", false))
	assert.Empty(t, nobody.ok("GET", "/cluster/sdn/zones"))
	assert.Empty(t, nobody.ok("GET", "/cluster/sdn/vnets?running=1"))
}
