package pvetest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/proxkit/proxkit/pve/pvetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// end ends the test and returns what it failed for.
func (r *recorder) end() []string {
	for _, f := range r.cleanups {
		f()
	}
	return r.errs
}

// TestRefusals holds that whatever cannot be is refused, says what is wrong,
// and changes nothing.
func TestRefusals(t *testing.T) {
	t.Parallel()
	drive := func(text string) pvetest.VM { return pvetest.VM{Config: map[string]string{"virtio0": text}} }
	for _, tc := range []struct {
		name string
		do   func(s *pvetest.Server) error
		want string
	}{
		{"node name", func(s *pvetest.Server) error { return s.AddNode("a_b", pvetest.Node{}) }, `"a_b" is no node name`},
		{"node without size", func(s *pvetest.Server) error { return s.AddNode("pve9", pvetest.Node{CPUs: -1}) }, "negative"},
		{"node's bridge", func(s *pvetest.Server) error { return s.AddNode("pve9", pvetest.Node{Bridges: []string{"b"}}) }, "invalid network interface name"},
		{"node off", func(s *pvetest.Server) error { return s.SetNodeOnline("pve7", false) }, `SetNodeOnline: no node "pve7"; did you mean "pve1"?`},
		{"KVM", func(s *pvetest.Server) error { return s.SetKVM("nope", true) }, `no node "nope"; there is pve1, pve2`},
		{"bridge's node", func(s *pvetest.Server) error { return s.RemoveBridge("nope", "vmbr0") }, `no node "nope"`},
		{"bridge", func(s *pvetest.Server) error { return s.RemoveBridge("pve1", "vmbr7") }, `no bridge "vmbr7"; did you mean "vmbr0"?`},
		{"user", func(s *pvetest.Server) error { return s.AddUser("alice", "") }, `"alice" is no user`},
		{"realm", func(s *pvetest.Server) error { return s.AddUser("alice@ldap", "") }, `no realm "ldap"`},
		{"second factor", func(s *pvetest.Server) error { return s.SetSecondFactor("alice@pve", "1") }, `no user "alice@pve"`},
		{"token", func(s *pvetest.Server) error { return s.AddTokenSecret("notatoken", "x", true) }, `"notatoken" is no token: write it as "user@realm!id"`},
		{"token's id", func(s *pvetest.Server) error { return s.AddTokenSecret("a@pve!b c", "x", true) }, `"a@pve!b c" is no token`},
		{"token's user", func(s *pvetest.Server) error { return s.AddTokenSecret("a!bc", "x", true) }, `"a" is no user`},
		{"token without secret", func(s *pvetest.Server) error { return s.AddTokenSecret("a@pve!bc", "", true) }, "no secret"},
		{"secret of a token", func(s *pvetest.Server) error { return s.SetTokenSecret("root@pam!pvetets", "x") }, `did you mean "root@pam!pvetest"?`},
		{"empty secret", func(s *pvetest.Server) error { return s.SetTokenSecret("root@pam!pvetest", "") }, "no secret"},
		{"role name", func(s *pvetest.Server) error { return s.AddRole("a b") }, `role "a b"`},
		{"built-in role", func(s *pvetest.Server) error { return s.AddRole("PVEAdmin", "VM.Audit") }, "built-in"},
		{"privilege", func(s *pvetest.Server) error { return s.AddRole("R", "VM.Aduit") }, `no privilege "VM.Aduit"; did you mean "VM.Audit"?`},
		{"ACL path", func(s *pvetest.Server) error { return s.SetACL("/pools/x", "root@pam", "PVEAdmin") }, `path "/pools/x"`},
		{"ACL path without slash", func(s *pvetest.Server) error { return s.SetACL("vms", "root@pam", "PVEAdmin") }, `path "vms"`},
		{"ACL role", func(s *pvetest.Server) error { return s.SetACL("/", "root@pam", "PVEadmin") }, `no role "PVEadmin"; did you mean "PVEAdmin"?`},
		{"ACL user", func(s *pvetest.Server) error { return s.SetACL("/", "bob@pve", "PVEAdmin") }, `no user "bob@pve"`},
		{"ACL token", func(s *pvetest.Server) error { return s.SetACLHere("/", "root@pam!x1", "PVEAdmin") }, `SetACLHere: no token "root@pam!x1"`},
		{"ACL group", func(s *pvetest.Server) error { return s.SetACL("/", "@admins", "PVEAdmin") }, `no group "admins"`},
		{"pool", func(s *pvetest.Server) error { return s.AddPool("bad pool!") }, `pool "bad pool!"`},
		{"pool's first letter", func(s *pvetest.Server) error { return s.AddPool("1st") }, `"1st" is no pool name`},
		{"deep pool", func(s *pvetest.Server) error { return s.AddPool("a/b/c/d") }, `"a/b/c/d"`},
		{"pool without parent", func(s *pvetest.Server) error { return s.AddPool("top/low") }, `no pool "top"`},
		{"option", func(s *pvetest.Server) error { return s.SetOption("next_id", "lower=200") }, `no option "next_id"; did you mean "next-id"?`},
		{"option's value", func(s *pvetest.Server) error { return s.SetOption("next-id", "high=200") }, "next-id"},
		{"storage type", func(s *pvetest.Server) error { return s.AddStorage("x1", pvetest.Storage{Type: "lvm-thin"}) }, `did you mean "lvmthin"?`},
		{"storage name", func(s *pvetest.Server) error { return s.AddStorage("1x", pvetest.Storage{Type: "dir"}) }, "illegal characters"},
		{"storage content", func(s *pvetest.Server) error {
			return s.AddStorage("x1", pvetest.Storage{Type: "dir", Content: []string{"image"}})
		}, `did you mean "images"?`},
		{"content of a block storage", func(s *pvetest.Server) error {
			return s.AddStorage("x1", pvetest.Storage{Type: "lvm", Content: []string{"iso"}})
		}, `no content of lvm "iso"`},
		{"storage node", func(s *pvetest.Server) error {
			return s.AddStorage("x1", pvetest.Storage{Type: "dir", Nodes: []string{"nope"}})
		}, `no node "nope"`},
		{"storage size", func(s *pvetest.Server) error { return s.AddStorage("x1", pvetest.Storage{Type: "dir", Size: -1}) }, "size"},
		{"storage option", func(s *pvetest.Server) error {
			return s.AddStorage("x1", pvetest.Storage{Type: "dir", Config: map[string]string{"nope": "1"}})
		}, "nope: property is not defined"},
		{"storage down", func(s *pvetest.Server) error { return s.SetStorageOnline("locla", "", false) }, `did you mean "local"?`},
		{"storage down on a node", func(s *pvetest.Server) error { return s.SetStorageOnline("local", "pve7", false) }, `no node "pve7"`},
		{"storage use", func(s *pvetest.Server) error { return s.SetStorageUsed("nope", 1) }, `no storage "nope"`},
		{"negative use", func(s *pvetest.Server) error { return s.SetStorageUsed("local", -1) }, "-1 bytes"},
		{"volume's storage", func(s *pvetest.Server) error { return s.AddVolume("pve1", "nope:iso/x.iso", nil) }, `no storage "nope"`},
		{"volume's node", func(s *pvetest.Server) error { return s.AddVolume("nope", "local:iso/x.iso", nil) }, `no node "nope"`},
		{"volume's name", func(s *pvetest.Server) error { return s.AddVolume("pve1", "local:what/x", nil) }, "unable to parse"},
		{"no volume", func(s *pvetest.Server) error { return s.RemoveVolume("disk") }, `write it as "storage:name"`},
		{"volume that is not", func(s *pvetest.Server) error { return s.RemoveVolume("local:iso/x.iso") }, `no volume "local:iso/x.iso"`},
		{"URL", func(s *pvetest.Server) error { return s.ServeURL("example.com/x", nil) }, "no URL"},
		{"VMID", func(s *pvetest.Server) error { return s.AddVM(7, pvetest.VM{}) }, "from 100 to 999999999"},
		{"VM's node", func(s *pvetest.Server) error { return s.AddVM(101, pvetest.VM{Node: "nope"}) }, `VM 101: no node "nope"`},
		{"VM's pool", func(s *pvetest.Server) error { return s.AddVM(101, pvetest.VM{Pool: "nope"}) }, `no pool "nope"`},
		{"VM's storage", func(s *pvetest.Server) error { return s.AddVM(101, drive("nope:1")) }, `virtio0: no storage "nope"`},
		{"VM's volume", func(s *pvetest.Server) error { return s.AddVM(101, drive("local:101/vm-101-disk-9.qcow2")) }, "does not exist"},
		{"VM's key", func(s *pvetest.Server) error {
			return s.AddVM(101, pvetest.VM{Config: map[string]string{"virtoi0": "local:1"}})
		}, `no config key "virtoi0"; did you mean "virtio0"?`},
		{"key of a create", func(s *pvetest.Server) error { return s.AddVM(101, pvetest.VM{Config: map[string]string{"pool": "x"}}) }, `no config key "pool"`},
		{"VM's value", func(s *pvetest.Server) error {
			return s.AddVM(101, pvetest.VM{Config: map[string]string{"cores": "many"}})
		}, "cores: type check"},
		{"edit", func(s *pvetest.Server) error { return s.EditVM(4711, func(*pvetest.VM) {}) }, "no VM 4711; there is 100"},
		{"edit to a node", func(s *pvetest.Server) error { return s.EditVM(100, func(vm *pvetest.VM) { vm.Node = "x" }) }, `VM 100: no node "x"`},
		{"edit to a pool", func(s *pvetest.Server) error { return s.EditVM(100, func(vm *pvetest.VM) { vm.Pool = "x" }) }, `VM 100: no pool "x"`},
		{"drop", func(s *pvetest.Server) error { return s.DropVM(777) }, "DropVM: no VM 777"},
		{"agent", func(s *pvetest.Server) error { return s.SetAgent(777, &pvetest.Agent{}) }, "no VM 777"},
		{"agent's reply", func(s *pvetest.Server) error {
			return s.SetAgent(100, &pvetest.Agent{Replies: map[string]any{"x": func() {}}})
		}, "reply to x"},
		{"container", func(s *pvetest.Server) error { return s.AddContainer(100, "pve1", "ct") }, "VM 100 already exists"},
		{"container's node", func(s *pvetest.Server) error { return s.AddContainer(101, "nope", "ct") }, `no node "nope"`},
		{"looks", func(s *pvetest.Server) error { return s.TasksTake(-1) }, "-1 looks"},
		{"time", func(s *pvetest.Server) error { return s.TasksLast(-time.Second) }, "-1s"},
		{"task to hold", func(s *pvetest.Server) error { return s.HoldTask("nonsense") }, `write it as "type:id"`},
		{"task type", func(s *pvetest.Server) error { return s.FailTask("qmclonee:*", "x") }, `did you mean "qmclone"?`},
		{"task without id", func(s *pvetest.Server) error { return s.FailTask("qmclone", "x") }, `"qmclone": write it as "type:id"`},
		{"task with an empty id", func(s *pvetest.Server) error { return s.FailTask("qmclone:", "x") }, "an id is missing"},
		{"task that does not fail", func(s *pvetest.Server) error { return s.FailTask("*", "OK") }, "another exit status"},
		{"fault's method", func(s *pvetest.Server) error { return s.FailNext("post /pools", 500, "x") }, "in capitals"},
		{"fault's prefix", func(s *pvetest.Server) error { return s.FailNext("POST /api2/json/pools", 500, "x") }, `leave out "/api2/json"`},
		{"fault's path", func(s *pvetest.Server) error { return s.FailNext("POST /nodes/pve1/qemu/100/status/strat", 500, "x") }, `did you mean "/nodes/pve1/qemu/100/status/start"?`},
		{"fault's unknown path", func(s *pvetest.Server) error { return s.FailNext("POST /things", 500, "x") }, "no such path"},
		{"fault without VMID", func(s *pvetest.Server) error { return s.FailNext("GET /nodes/pve1/qemu/config", 500, "x") }, "no such path"},
		{"fault with another method", func(s *pvetest.Server) error { return s.FailNext("PUT /nodes/*/qemu/*/clone", 500, "x") }, "the API has no PUT there, only POST"},
		{"fault without slash", func(s *pvetest.Server) error { return s.FailNext("pools", 500, "x") }, `must begin with "/"`},
		{"fault with a query", func(s *pvetest.Server) error { return s.FailNext("GET /pools?poolid=x", 500, "x") }, "no query"},
		{"fault with stars", func(s *pvetest.Server) error { return s.FailNext("GET /**/config", 500, "x") }, "for the end"},
		{"fault with a bracket", func(s *pvetest.Server) error { return s.FailNext("GET /nodes/[a/status", 500, "x") }, "not closed"},
		{"fault that does nothing", func(s *pvetest.Server) error { return s.Fail(pvetest.Fault{Match: "POST /pools"}) }, "does nothing"},
		{"fault's status", func(s *pvetest.Server) error { return s.FailNext("POST /pools", 42, "x") }, "status 42"},
		{"fault's text", func(s *pvetest.Server) error {
			return s.Fail(pvetest.Fault{Match: "POST /pools", Phrase: "x", Cut: pvetest.CutAfter})
		}, "need a Status"},
		{"fault's number", func(s *pvetest.Server) error {
			return s.Fail(pvetest.Fault{Match: "POST /pools", Nth: -1, Cut: pvetest.CutAfter})
		}, "negative"},
		{"count", func(s *pvetest.Server) error {
			if s.Count("GET /nodez") != -1 {
				return nil
			}
			return s.FailNext("GET /nodez", 500, "x") // which has the same text
		}, `did you mean "/nodes"?`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, err := pvetest.New(pvetest.WithNodes("pve1", "pve2"))
			require.NoError(t, err)
			defer s.Close()
			require.NoError(t, s.AddVM(100, pvetest.VM{}))
			before := s.Snapshot()
			err = tc.do(s)
			require.ErrorContains(t, err, tc.want)
			assert.True(t, strings.HasPrefix(err.Error(), "pvetest: "), err)
			assert.Equal(t, before, s.Snapshot())

			var j recorder
			s = pvetest.RunT(&j, pvetest.WithNodes("pve1", "pve2"))
			require.NoError(t, s.AddVM(100, pvetest.VM{}))
			_ = tc.do(s)
			failed := j.end()
			require.NotEmpty(t, failed)
			assert.Equal(t, err.Error(), failed[len(failed)-1])
		})
	}
}

func TestTokenRefusal(t *testing.T) {
	t.Parallel()
	var j recorder
	s := pvetest.RunT(&j)
	assert.Empty(t, s.AddToken("notatoken", false))
	require.Len(t, j.end(), 1)
	assert.Contains(t, j.errs[0], "AddToken")
}

// TestSeeds holds what is let through although it looks odd.
func TestSeeds(t *testing.T) {
	t.Parallel()
	s := pvetest.RunT(t)
	s.AddPool("a")
	s.AddPool("a/b.c")
	s.AddPool("a")
	s.AddVM(100, pvetest.VM{Pool: "a/b.c", Config: map[string]string{
		"name": "x", "tags": "b;a", "template": "1", "lock": "backup", "ide2": "none,media=cdrom", "scsi0": "local:0.5", "net0": "virtio,bridge=nope",
	}})
	s.AddVM(101, pvetest.VM{Config: map[string]string{"virtio1": "local:100/base-100-disk-0.raw,serial=x,size=512M"}})
	s.AddToken("bob@pve!t0", true)
	s.SetACL("/pool/nope", "bob@pve", "PVEVMUser")
	s.SetACL("/pool/nope", "bob@pve", "")
	s.SetACL("/", "bob@pve!t0", "NoAccess")
	assert.Len(t, s.VMIDs(), 2)
}

// TestMissedFaults holds that a test learns of faults that it never came to.
func TestMissedFaults(t *testing.T) {
	t.Parallel()
	var j recorder
	s := pvetest.RunT(&j)
	c := newCaller(t, s).token(s.RootToken())
	s.FailNext("GET /version", 503, "busy")
	s.Fail(pvetest.Fault{Match: "GET /version", Nth: 5, Cut: pvetest.CutAfter})
	s.Fail(pvetest.Fault{Match: "GET /version", Status: 500, Phrase: "second"})
	s.Fail(pvetest.Fault{Match: "POST /pools", Cut: pvetest.CutAfter, Optional: true})
	s.FailNext("DELETE /nodes/*/qemu/{vmid}", 500, "x")
	s.FailTask("qmclone:100", "x")
	s.HoldTask("*")
	assert.Equal(t, "busy", c.do("GET", "/version").Reason)
	assert.Equal(t, []string{
		`pvetest: the fault for "GET /version" never struck: there were 1 such calls, it was for number 5 (Optional allows that)`,
		`pvetest: the fault for "GET /version" never struck: others struck the same calls first (Optional allows that)`,
		`pvetest: the fault for "DELETE /nodes/*/qemu/{vmid}" never struck: there was no such call (Optional allows that)`,
		`pvetest: FailTask("qmclone:100"): there was no such task (ClearFaults takes it back)`,
		`pvetest: HoldTask("*"): there was no such task (ClearFaults takes it back)`,
	}, j.end())

	j = recorder{}
	s = pvetest.RunT(&j)
	s.FailNext("GET /version", 503, "busy")
	s.FailTask("*", "x")
	s.ClearFaults()
	assert.Empty(t, j.end())

	j = recorder{}
	s = pvetest.RunT(&j)
	c = newCaller(t, s).token(s.RootToken())
	s.Fail(pvetest.Fault{Match: "POST /pools", TaskError: "x"})
	c.ok("POST", "/pools", "poolid=a")
	assert.Equal(t, []string{`pvetest: the fault for "POST /pools" never struck: such calls started no task, or others struck them first (Optional allows that)`}, j.end())
}

// TestPatterns holds which calls a pattern matches.
func TestPatterns(t *testing.T) {
	t.Parallel()
	s := pvetest.RunT(t)
	c := newCaller(t, s).token(s.RootToken())
	require.NoError(t, s.AddVolume("", "local:iso/x.iso", []byte("x")))
	c.do("GET", "/nodes/pve1/storage/local/content/local:iso/x.iso")
	c.do("GET", "/nodes/pve1/storage/local/content")
	c.do("GET", "/nodes/pve1/status")
	for pattern, want := range map[string]int{
		"GET /nodes/*/storage/*/content/*":                           1,
		"GET /nodes/{node}/storage/{storage}/content/{volume}":       1,
		"GET /nodes/*/storage/*/content/local:iso/*":                 1,
		"GET /nodes/*/storage/*/content/local:iso*":                  1,
		"GET /nodes/*/storage/*/content/**":                          2,
		"GET /nodes/*/storage/local/content":                         1,
		"/nodes/pve1/status":                                         1,
		"* /nodes/pve?/status":                                       1,
		"GET /nodes/pve2/status":                                     0,
		"POST /nodes/*/status":                                       0,
		"GET /**":                                                    3,
		"DELETE /nodes/{node}/storage/{storage}/content/{volume}":    0,
		"GET  //nodes/pve1//storage/local/content/local:iso%2Fx.iso": 0,
	} {
		assert.Equal(t, want, s.Count(pattern), pattern)
	}
}
