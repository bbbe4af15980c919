package pvetest_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/proxkit/proxkit/pve/pvetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A clock stands still until a test moves it.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Unix(1796082243, 0)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func TestAuthentication(t *testing.T) {
	t.Parallel()
	now := newClock()
	srv := pvetest.RunT(t, pvetest.WithClock(now.now))
	srv.AddUser("alice@pve", "alicepw12")
	root := newCaller(t, srv).token(srv.RootToken())
	secret := srv.AddToken("alice@pve!sep", true)
	old := srv.AddToken("alice@pve!old", false)
	root.ok("PUT", "/access/users/alice@pve/token/old", "expire=1000000000")
	nobody := newCaller(t, srv)
	ticket := nobody.login("alice@pve", "alicepw12")

	for _, tc := range []struct {
		name   string
		c      *caller
		method string
		path   string
		body   []string
		status int
		reason string
	}{
		{name: "nothing", c: nobody, method: "GET", path: "/version", status: 401, reason: "No ticket"},
		{name: "bearer", c: nobody.with("Authorization", "Bearer x"), method: "GET", path: "/version", status: 401, reason: "No ticket"},
		{name: "malformed token", c: nobody.with("Authorization", "PVEAPIToken=garbage"), method: "GET", path: "/version", status: 401, reason: "Authentication failed!"},
		{name: "wrong secret", c: nobody.token("alice@pve!sep", "x"), method: "GET", path: "/version", status: 401, reason: "Authentication failed!"},
		{name: "unknown token", c: nobody.token("alice@pve!nope", secret), method: "GET", path: "/version", status: 401, reason: "Authentication failed!"},
		{name: "expired token", c: nobody.token("alice@pve!old", old), method: "GET", path: "/version", status: 401, reason: "Authentication failed!"},
		{name: "token", c: nobody.token("alice@pve!sep", secret), method: "GET", path: "/version", status: 200, reason: "OK"},
		{name: "garbage ticket", c: nobody.with("Cookie", "PVEAuthCookie=PVE:root@pam:00000000::x"), method: "GET", path: "/version", status: 401, reason: "Authentication failed!"},
		{name: "ticket", c: ticket, method: "GET", path: "/version", status: 200, reason: "OK"},
		{name: "ticket without CSRF token", c: ticket.with("CSRFPreventionToken", ""), method: "POST", path: "/pools", body: []string{"poolid=x"}, status: 401, reason: "Permission denied - invalid csrf token"},
		{name: "ticket with a foreign CSRF token", c: ticket.with("CSRFPreventionToken", "00000000:AAAA"), method: "POST", path: "/pools", body: []string{"poolid=x"}, status: 401, reason: "Permission denied - invalid csrf token"},
		{name: "wrong password", c: nobody, method: "POST", path: "/access/ticket", body: []string{"username=root@pam&password=wrong"}, status: 401, reason: "authentication failure"},
		{name: "unknown user", c: nobody, method: "POST", path: "/access/ticket", body: []string{"username=ghost@pve&password=wrong"}, status: 401, reason: "authentication failure"},
		{name: "no realm", c: nobody, method: "POST", path: "/access/ticket", body: []string{"username=root&password=proxmox"}, status: 401, reason: "authentication failure"},
		{name: "realm apart", c: nobody, method: "POST", path: "/access/ticket", body: []string{"username=root&realm=pam&password=proxmox"}, status: 200, reason: "OK"},
		{name: "a token cannot log in", c: nobody, method: "POST", path: "/access/ticket", body: []string{"username=alice@pve!sep&password=" + secret}, status: 401, reason: "authentication failure"},
		{name: "tokens cannot change passwords", c: root, method: "PUT", path: "/access/password", body: []string{"userid=alice@pve&password=another1"}, status: 403, reason: "Permission check failed (URI '/access/password' not available with API token, need proper ticket."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := *tc.c
			k.t = t
			g := k.do(tc.method, tc.path, tc.body...)
			assert.Equal(t, tc.status, g.Status)
			assert.Equal(t, tc.reason, g.Reason)
			if tc.status == 401 && tc.path != "/access/ticket" {
				assert.Empty(t, g.Body)
			}
		})
	}

	t.Run("a ticket lasts two hours and is renewed by itself", func(t *testing.T) {
		old := strings.TrimPrefix(ticket.headers["Cookie"], "PVEAuthCookie=")
		now.pass(90 * time.Minute)
		fresh := nobody.login("alice@pve", old)
		now.pass(60 * time.Minute)
		assert.Equal(t, 401, ticket.do("GET", "/version").Status)
		assert.Equal(t, 200, fresh.do("GET", "/version").Status)
	})
	t.Run("a disabled user is nobody", func(t *testing.T) {
		root.ok("PUT", "/access/users/alice@pve", "enable=0")
		assert.Equal(t, 401, nobody.token("alice@pve!sep", secret).do("GET", "/version").Status)
		assert.Equal(t, 401, nobody.do("POST", "/access/ticket", "username=alice@pve&password=alicepw12").Status)
	})
}

func TestPermissions(t *testing.T) {
	t.Parallel()
	srv := pvetest.RunT(t, pvetest.WithNodes("pve1", "pve2"))
	root := newCaller(t, srv).token(srv.RootToken())
	require.NoError(t, srv.AddStorage("data", pvetest.Storage{Type: "dir", Content: []string{"images", "iso"}}))
	srv.AddPool("bosh")
	srv.AddPool("bosh/dep1")
	srv.AddRole("CPI", "VM.Allocate", "VM.Audit", "VM.Config.Options", "Pool.Audit")
	require.NoError(t, srv.AddVM(900, pvetest.VM{Pool: "bosh/dep1", Config: map[string]string{"name": "in"}}))
	require.NoError(t, srv.AddVM(902, pvetest.VM{Config: map[string]string{"name": "out"}}))
	secret := srv.AddToken("bosh@pve!cpi", true)
	c := newCaller(t, srv).token("bosh@pve!cpi", secret)

	t.Run("a token without rights", func(t *testing.T) {
		for _, path := range []string{"/nodes/pve1/qemu", "/storage", "/pools", "/cluster/resources?type=vm"} {
			assert.Empty(t, c.ok("GET", path), path)
		}
		assert.Equal(t, "Permission check failed (/vms/902, VM.Audit)", c.do("GET", "/nodes/pve1/qemu/902/config").Reason)
		assert.Equal(t, "Permission check failed (/vms/4711, VM.Audit)", c.do("GET", "/nodes/pve1/qemu/4711/config").Reason)
		assert.Equal(t, "Permission check failed (/, Sys.Audit)", c.do("GET", "/cluster/status").Reason)
		g := c.do("POST", "/nodes/pve1/qemu", "vmid=910")
		assert.Equal(t, 403, g.Status)
		assert.Equal(t, "Permission check failed", g.Reason)
	})
	t.Run("the user's rights bound those of a separated token", func(t *testing.T) {
		srv.SetACL("/pool/bosh", "bosh@pve!cpi", "CPI")
		assert.Empty(t, c.ok("GET", "/cluster/resources?type=vm"))
		srv.SetACL("/pool/bosh", "bosh@pve", "CPI")
		rows := c.ok("GET", "/cluster/resources?type=vm").([]any)
		require.Len(t, rows, 1, "rights on a pool reach the pools below it")
		assert.EqualValues(t, 900, rows[0].(map[string]any)["vmid"])
	})
	t.Run("permission comes before validation", func(t *testing.T) {
		g := c.do("PUT", "/nodes/pve1/qemu/902/config", "nonsense=1")
		assert.Equal(t, 403, g.Status)
	})
	t.Run("permissions as reported", func(t *testing.T) {
		m := c.ok("GET", "/access/permissions").(map[string]any)
		assert.EqualValues(t, 1, m["/pool/bosh"].(map[string]any)["VM.Audit"], "propagates")
		assert.EqualValues(t, 0, m["/vms/900"].(map[string]any)["VM.Audit"], "granted through the pool, does not propagate")
	})
	t.Run("an entry below replaces what is inherited", func(t *testing.T) {
		srv.SetACL("/vms", "bosh@pve", "PVEVMAdmin")
		srv.SetACL("/vms", "bosh@pve!cpi", "PVEVMAdmin")
		assert.Equal(t, 200, c.do("GET", "/nodes/pve1/qemu/902/config").Status)
		srv.SetACL("/vms/902", "bosh@pve", "NoAccess")
		assert.Equal(t, 403, c.do("GET", "/nodes/pve1/qemu/902/config").Status)
		srv.SetACL("/vms/902", "bosh@pve", "")
		srv.SetACL("/vms", "bosh@pve", "")
	})
	t.Run("not propagating", func(t *testing.T) {
		srv.SetACL("/vms", "bosh@pve!cpi", "")
		srv.SetACLHere("/storage", "bosh@pve", "PVEDatastoreUser")
		srv.SetACLHere("/storage", "bosh@pve!cpi", "PVEDatastoreUser")
		assert.Equal(t, 403, c.do("GET", "/nodes/pve1/storage/data/content").Status)
		srv.SetACL("/storage", "bosh@pve", "PVEDatastoreUser")
		srv.SetACL("/storage", "bosh@pve!cpi", "PVEDatastoreUser")
		assert.Equal(t, 200, c.do("GET", "/nodes/pve1/storage/data/content").Status)
	})
	t.Run("groups", func(t *testing.T) {
		srv.AddUser("eve@pve", "evepassword")
		root.ok("POST", "/access/groups", "groupid=ops")
		root.ok("PUT", "/access/users/eve@pve", "groups=ops")
		srv.SetACL("/", "@ops", "PVEAuditor")
		eve := newCaller(t, srv).login("eve@pve", "evepassword")
		assert.Equal(t, 200, eve.do("GET", "/cluster/status").Status)
		assert.Equal(t, "Permission check failed (/vms/900, VM.PowerMgmt)", eve.do("POST", "/nodes/pve1/qemu/900/status/start").Reason)
	})
	t.Run("handing out rights", func(t *testing.T) {
		srv.SetACL("/pool/bosh", "bosh@pve", "PVEPoolAdmin")
		srv.SetACL("/pool/bosh", "bosh@pve!cpi", "PVEPoolAdmin")
		assert.Equal(t, 200, c.do("PUT", "/access/acl", "path=/pool/bosh&roles=PVEPoolUser&users=eve@pve").Status)
		assert.Equal(t, 500, c.do("PUT", "/access/acl", "path=/pool/bosh&roles=Administrator&users=eve@pve").Status)
		assert.Equal(t, 403, c.do("PUT", "/access/acl", "path=/vms&roles=PVEVMUser&users=eve@pve").Status)
	})
	t.Run("rights on a guest end with it", func(t *testing.T) {
		srv.SetACL("/vms/902", "eve@pve", "PVEVMUser")
		require.Equal(t, "OK", root.taskOf("DELETE", "/nodes/pve1/qemu/902"))
		for _, e := range root.ok("GET", "/access/acl").([]any) {
			assert.NotEqual(t, "/vms/902", e.(map[string]any)["path"])
		}
	})
	t.Run("only root", func(t *testing.T) {
		g := root.do("POST", "/nodes/pve1/execute", "commands=[]")
		assert.Equal(t, "Permission check failed (user != root@pam)", g.Reason)
	})
}

func TestUsersAndTokens(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.ok("POST", "/access/groups", "groupid=g1")
	c.ok("POST", "/access/users", "userid=alice@pve&password=alicepw12&groups=g1&comment=A")
	for _, tc := range []struct{ method, path, body, reason string }{
		{"POST", "/access/users", "userid=alice@pve", "create user failed: user 'alice@pve' already exists"},
		{"GET", "/access/users/ghost@pve", "", "no such user ('ghost@pve')"},
		{"DELETE", "/access/users/ghost@pve", "", "no such user ('ghost@pve')"},
		{"DELETE", "/access/users/alice@pve/token/t0", "", "no such token 't0' for user 'alice@pve'"},
		{"GET", "/access/roles/Nope", "", "role 'Nope' does not exist"},
		{"PUT", "/access/acl", "path=/&roles=Nope&users=alice@pve", "ACL update failed: role 'Nope' does not exist"},
		{"PUT", "/access/roles/PVEAdmin", "privs=VM.Audit", "update role failed: auto-generated role 'PVEAdmin' cannot be modified"},
	} {
		var body []string
		if tc.body != "" {
			body = []string{tc.body}
		}
		g := c.do(tc.method, tc.path, body...)
		assert.Equal(t, 500, g.Status, tc.path)
		assert.Equal(t, tc.reason, g.Reason)
	}
	m := c.ok("POST", "/access/users/alice@pve/token/t0", "expire=0").(map[string]any)
	assert.Equal(t, map[string]any{"privsep": "1", "expire": "0"}, m["info"], "numbers as text")
	g := c.do("POST", "/access/users/alice@pve/token/t0")
	assert.Equal(t, map[string]string{"tokenid": "Token already exists."}, g.Errors)
	c.ok("DELETE", "/access/users/alice@pve")
	assert.Equal(t, []any{map[string]any{"groupid": "g1", "users": ""}}, c.ok("GET", "/access/groups"))
}

func TestSecondFactor(t *testing.T) {
	t.Parallel()
	srv := pvetest.RunT(t)
	srv.AddUser("alice@pve", "alicepw12")
	srv.SetSecondFactor("alice@pve", "123456")
	c := newCaller(t, srv)
	m := c.ok("POST", "/access/ticket", "username=alice@pve&password=alicepw12").(map[string]any)
	assert.EqualValues(t, 1, m["NeedTFA"])
	assert.NotContains(t, m, "cap")
	half := m["ticket"].(string)
	assert.True(t, strings.HasPrefix(half, "PVE:!tfa!"), half)
	esc := strings.NewReplacer("+", "%2B", "%", "%25").Replace(half)
	assert.Equal(t, "No ticket", c.with("Cookie", "PVEAuthCookie="+esc).do("GET", "/version").Reason, "no session yet")
	assert.Equal(t, 401, c.do("POST", "/access/ticket", "username=alice@pve&tfa-challenge="+esc+"&password=totp:000000").Status)
	m = c.ok("POST", "/access/ticket", "username=alice@pve&tfa-challenge="+esc+"&password=totp:123456").(map[string]any)
	assert.NotContains(t, m, "NeedTFA")
	whole := strings.ReplaceAll(m["ticket"].(string), "+", "%2B")
	assert.Equal(t, 200, c.with("Cookie", "PVEAuthCookie="+whole).do("GET", "/version").Status)
	srv.SetSecondFactor("alice@pve", "")
	c.login("alice@pve", "alicepw12")
}
