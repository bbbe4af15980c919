package pve_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/pve"
	optable "github.com/proxkit/proxkit/pve/operations"
	"github.com/proxkit/proxkit/pve/pvetest"
)

func TestPrivileges(t *testing.T) {
	t.Parallel()
	clone := pve.CloneVMParams{Node: "pve1", VMID: 9000, NewID: 101}
	inPool := clone
	inPool.Pool = new("web")
	for _, tc := range []struct {
		op     string
		params any
		want   string
	}{
		{op: "CloneVM", want: "VM.Clone on /vms/{vmid} and (VM.Allocate on /vms/{newid} or VM.Allocate on /pool/{pool} if pool) and more"},
		{op: "CloneVM", params: clone, want: "VM.Clone on /vms/9000 and VM.Allocate on /vms/101 and more"},
		{op: "CloneVM", params: &inPool, want: "VM.Clone on /vms/9000 and (VM.Allocate on /vms/101 or VM.Allocate on /pool/web) and more"},
		{op: "CloneVM", params: map[string]any{"vmid": 9000}, want: "VM.Clone on /vms/9000 and VM.Allocate on /vms/{newid} and more"},
		{op: "POST /nodes/{node}/qemu/{vmid}/clone", params: clone, want: "VM.Clone on /vms/9000 and VM.Allocate on /vms/101 and more"},
		{op: "GetVMConfig", params: pve.GetVMConfigParams{Node: "pve1", VMID: 100}, want: "VM.Audit on /vms/100"},
		{op: "CreateVM", params: pve.CreateVMParams{Node: "pve1", VMID: 101, Pool: new("web")}, want: "(VM.Allocate on /vms/101 or VM.Allocate on /pool/web) and more"},
		{op: "CreateVM", params: pve.CreateVMParams{Node: "pve1", VMID: 101, Archive: new("local:backup/x.vma")}, want: "(VM.Allocate on /vms/101 or VM.Backup on /vms/101) and more"},
		{op: "StartAllGuests", params: pve.StartAllGuestsParams{Node: "pve1", VMs: []string{"101", "102"}}, want: "(VM.PowerMgmt on / or (VM.PowerMgmt on /vms/101 and VM.PowerMgmt on /vms/102)) and more"},
		{op: "StartAllGuests", params: pve.StartAllGuestsParams{Node: "pve1"}, want: "VM.PowerMgmt on / and more"},
		{op: "BulkStartGuests", params: pve.BulkStartGuestsParams{VMs: []int64{101, 102}}, want: "(VM.PowerMgmt on / or (VM.PowerMgmt on /vms/101 and VM.PowerMgmt on /vms/102)) and more"},
		{op: "GetVersion", want: "login"},
		{op: "CreateTicket", want: "everyone and more"},
		{op: "UpdateACL", params: pve.UpdateACLParams{Path: "/vms/100", Roles: []string{"PVEVMUser"}}, want: "Permissions.Modify|VM.Allocate on /vms/100"},
		{op: "CreateUser", params: pve.CreateUserParams{UserID: "eve@pve", Groups: []string{"a", "b"}}, want: "Realm.AllocateUser on /access/realm/pve and (User.Modify on /access/groups or (User.Modify on /access/groups/a and User.Modify on /access/groups/b)) and more"},
		{op: "GetUser", params: pve.GetUserParams{UserID: "eve@pve"}, want: "User.Modify|Sys.Audit on /access/groups or User.Modify|Sys.Audit on a-group-of eve@pve"},
		{op: "CreateCluster", want: "user root@pam"},
	} {
		need, err := pve.Privileges(tc.op, tc.params)
		if assert.NoError(t, err, tc.op) {
			assert.Equal(t, tc.want, need.String(), tc.op)
		}
	}
	_, err := pve.Privileges("CloneVm", nil)
	assert.EqualError(t, err, `pve: "CloneVm" is no operation: give the name of a method of the client, or method and path as in "GET /version"`)
	_, err = pve.Privileges("GetVMConfig", clone)
	assert.ErrorContains(t, err, "GetVMConfig: it has no parameter newid: are these the parameters of another operation?")
}

// TestEveryRequirement reads what the table says of each operation.
func TestEveryRequirement(t *testing.T) {
	t.Parallel()
	n := 0
	for o := range optable.All() {
		n++
		need, err := pve.Privileges(o.Name, nil)
		require.NoError(t, err, o.Name)
		assert.NotEmpty(t, need.Kind, o.Name)
		again, err := optable.Find(o.String())
		require.NoError(t, err)
		assert.Equal(t, o.Name, again.Name, "by %s", o)
	}
	assert.Greater(t, n, 600)
}

func TestCheckPrivileges(t *testing.T) {
	t.Parallel()
	ops := func(vmid, newid int64, pool string) []pve.Op {
		clone := pve.CloneVMParams{Node: "pve1", VMID: vmid, NewID: newid}
		if pool != "" {
			clone.Pool = &pool
		}
		return []pve.Op{
			{Name: "CloneVM", Params: clone},
			{Name: "UpdateVMConfig", Params: pve.UpdateVMConfigParams{Node: "pve1", VMID: newid}},
			{Name: "StartVM", Params: pve.StartVMParams{Node: "pve1", VMID: newid}},
			{Name: "GetVersion"},
		}
	}
	for _, tc := range []struct {
		name    string
		seed    func(t *testing.T, lab *pvetest.Server)
		ops     []pve.Op
		missing []string // "CloneVM: VM.Clone on /vms/9000"
	}{
		{
			name: "nothing granted",
			ops:  ops(9000, 101, ""),
			missing: []string{
				"CloneVM: VM.Clone on /vms/9000",
				"CloneVM: VM.Allocate on /vms/101",
				"UpdateVMConfig: VM.Config.Disk on /vms/101, or VM.Config.CDROM on /vms/101, or VM.Config.CPU on /vms/101, or VM.Config.Memory on /vms/101, or " +
					"VM.Config.Network on /vms/101, or VM.Config.HWType on /vms/101, or VM.Config.Options on /vms/101, or VM.Config.Cloudinit on /vms/101",
				"StartVM: VM.PowerMgmt on /vms/101",
			},
		},
		{
			name: "everything",
			seed: func(_ *testing.T, lab *pvetest.Server) { lab.SetACL("/", "ops@pve!ci", "Administrator") },
			ops:  ops(9000, 101, ""),
		},
		{
			name: "inherited from /vms",
			seed: func(_ *testing.T, lab *pvetest.Server) { lab.SetACL("/vms", "ops@pve!ci", "PVEVMAdmin") },
			ops:  ops(9000, 101, ""),
		},
		{
			name:    "not inherited, because it does not propagate",
			seed:    func(_ *testing.T, lab *pvetest.Server) { lab.SetACLHere("/vms", "ops@pve!ci", "PVEVMAdmin") },
			ops:     ops(9000, 101, "")[2:],
			missing: []string{"StartVM: VM.PowerMgmt on /vms/101"},
		},
		{
			name: "granted on the spot without propagation",
			seed: func(_ *testing.T, lab *pvetest.Server) { lab.SetACLHere("/vms/101", "ops@pve!ci", "PVEVMAdmin") },
			ops:  ops(9000, 101, "")[1:],
		},
		{
			name: "by the pool",
			seed: func(_ *testing.T, lab *pvetest.Server) { lab.SetACL("/pool/web", "ops@pve!ci", "PVEVMAdmin") },
			ops: []pve.Op{
				{Name: "CloneVM", Params: pve.CloneVMParams{Node: "pve1", VMID: 200, NewID: 101, Pool: new("web")}},
				{Name: "GetVMConfig", Params: pve.GetVMConfigParams{Node: "pve1", VMID: 200}}, // a member of the pool
			},
		},
		{
			name: "create in the pool",
			seed: func(_ *testing.T, lab *pvetest.Server) { lab.SetACL("/pool/web", "ops@pve!ci", "PVEVMAdmin") },
			ops: []pve.Op{
				{Name: "CreateVM", Params: pve.CreateVMParams{Node: "pve1", Pool: new("web")}},
				{Name: "CreateVM", Params: pve.CreateVMParams{Node: "pve1", VMID: 101}},
			},
			missing: []string{"CreateVM: VM.Allocate on /vms/101"},
		},
		{
			name: "not by another pool",
			seed: func(_ *testing.T, lab *pvetest.Server) {
				lab.SetACL("/pool/web", "ops@pve!ci", "PVEVMAdmin")
				lab.AddPool("db")
			},
			ops: ops(9000, 101, "db")[:1],
			missing: []string{
				"CloneVM: VM.Clone on /vms/9000",
				"CloneVM: VM.Allocate on /vms/101, or VM.Allocate on /pool/db",
			},
		},
		{
			name: "taken away again below",
			seed: func(_ *testing.T, lab *pvetest.Server) {
				lab.SetACL("/vms", "ops@pve!ci", "PVEVMAdmin")
				lab.SetACL("/vms/101", "ops@pve!ci", "NoAccess")
			},
			ops:     ops(9000, 101, "")[2:],
			missing: []string{"StartVM: VM.PowerMgmt on /vms/101"},
		},
		{
			name: "no VMID yet",
			seed: func(_ *testing.T, lab *pvetest.Server) { lab.SetACL("/vms", "ops@pve!ci", "PVEVMAdmin") },
			ops:  []pve.Op{{Name: "StartVM"}, {Name: "StartVM", Params: pve.StartVMParams{Node: "pve1"}}},
		},
		{
			name:    "only for root, and not for tokens",
			seed:    func(_ *testing.T, lab *pvetest.Server) { lab.SetACL("/", "ops@pve!ci", "Administrator") },
			ops:     []pve.Op{{Name: "CreateCluster"}},
			missing: []string{"CreateCluster: being root@pam"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			lab := pvetest.RunT(t)
			lab.AddUser("ops@pve", "")
			lab.SetACL("/", "ops@pve", "Administrator") // the token's user may all, the token what it is given
			secret := lab.AddToken("ops@pve!ci", true)
			lab.AddPool("web")
			require.NoError(t, lab.AddVM(9000, pvetest.VM{}))
			require.NoError(t, lab.AddVM(200, pvetest.VM{Pool: "web"}))
			if tc.seed != nil {
				tc.seed(t, lab)
			}
			client, err := pve.NewClient(lab.URL(), pve.WithAPIToken("ops@pve!ci", secret), pve.WithRootCAs(lab.CertPool()))
			require.NoError(t, err)
			t.Cleanup(client.CloseIdleConnections)

			_, err = client.CheckPrivileges(t.Context(), tc.ops...)
			if len(tc.missing) == 0 {
				require.NoError(t, err)
				return
			}
			var lacks *pve.PrivilegeError
			require.ErrorAs(t, err, &lacks)
			assert.Equal(t, "ops@pve!ci", lacks.User)
			var got []string
			for _, m := range lacks.Missing {
				got = append(got, m.Op+": "+m.String())
			}
			assert.Equal(t, tc.missing, got)
			assert.ErrorContains(t, err, "pve: the API token ops@pve!ci lacks: ")
		})
	}
}

// TestCheckPrivilegesIsRight compares what is foretold with what the server then does.
func TestCheckPrivilegesIsRight(t *testing.T) {
	t.Parallel()
	lab := pvetest.RunT(t, pvetest.WithRootPassword("correct horse"))
	lab.AddUser("ops@pve", "")
	lab.SetACL("/", "ops@pve", "Administrator")
	secret := lab.AddToken("ops@pve!ci", true)
	lab.SetACL("/vms/200", "ops@pve!ci", "PVEVMUser")
	lab.SetACL("/storage", "ops@pve!ci", "PVEDatastoreUser")
	require.NoError(t, lab.AddVM(100, pvetest.VM{}))
	require.NoError(t, lab.AddVM(200, pvetest.VM{}))
	token, err := pve.NewClient(lab.URL(), pve.WithAPIToken("ops@pve!ci", secret), pve.WithRootCAs(lab.CertPool()))
	require.NoError(t, err)
	root, err := pve.NewClient(lab.URL(), pve.WithPassword("root@pam", "correct horse"), pve.WithRootCAs(lab.CertPool()))
	require.NoError(t, err)
	ctx := t.Context()
	checked := 0
	for _, client := range []*pve.Client{token, root} {
		t.Cleanup(client.CloseIdleConnections)
		for _, vmid := range []int64{100, 200} {
			for _, call := range []struct {
				op  pve.Op
				run func() error
			}{
				{pve.Op{Name: "GetVMConfig", Params: pve.GetVMConfigParams{Node: "pve1", VMID: vmid}}, func() error {
					_, err := client.GetVMConfig(ctx, pve.GetVMConfigParams{Node: "pve1", VMID: vmid})
					return err
				}},
				{pve.Op{Name: "CreateVMSnapshot", Params: pve.CreateVMSnapshotParams{Node: "pve1", VMID: vmid, SnapName: "one"}}, func() error {
					_, err := client.CreateVMSnapshot(ctx, pve.CreateVMSnapshotParams{Node: "pve1", VMID: vmid, SnapName: "one"})
					return err
				}},
				{pve.Op{Name: "StartVM", Params: pve.StartVMParams{Node: "pve1", VMID: vmid}}, func() error {
					_, err := client.StartVM(ctx, pve.StartVMParams{Node: "pve1", VMID: vmid})
					return err
				}},
				{pve.Op{Name: "GetStorage", Params: pve.GetStorageParams{Storage: "local"}}, func() error {
					_, err := client.GetStorage(ctx, pve.GetStorageParams{Storage: "local"})
					return err
				}},
				{pve.Op{Name: "ListPools"}, func() error {
					_, err := client.ListPools(ctx, pve.ListPoolsParams{})
					return err
				}},
				{pve.Op{Name: "ListACL"}, func() error {
					_, err := client.ListACL(ctx)
					return err
				}},
			} {
				_, foretold := client.CheckPrivileges(ctx, call.op)
				happened := call.run()
				assert.Equal(t, errors.Is(happened, pve.ErrPermission), foretold != nil, "%s on %d: foretold %v, happened %v", call.op.Name, vmid, foretold, happened)
				checked++
			}
		}
	}
	assert.Equal(t, 24, checked)
}

func TestCheckPrivilegesAsksLittle(t *testing.T) {
	t.Parallel()
	lab, newClient := newLab(t)
	client := newClient()
	_, err := client.CheckPrivileges(t.Context(),
		pve.Op{Name: "GetVMConfig", Params: pve.GetVMConfigParams{Node: "pve1", VMID: 100}},
		pve.Op{Name: "StartVM", Params: pve.StartVMParams{Node: "pve1", VMID: 100}},
		pve.Op{Name: "StopVM", Params: pve.StopVMParams{Node: "pve1", VMID: 100}},
		pve.Op{Name: "GetVersion"},
	)
	require.NoError(t, err)
	assert.Equal(t, 1, lab.Count("GET /access/permissions"), "once for each path")
	assert.Len(t, lab.Requests(), 1)

	_, err = client.CheckPrivileges(t.Context(), pve.Op{Name: "Nonsense"})
	assert.ErrorContains(t, err, `pve: "Nonsense" is no operation`)

	unsure, err := client.CheckPrivileges(t.Context(), pve.Op{Name: "CreateBackup", Params: pve.CreateBackupParams{Node: "pve1"}})
	require.NoError(t, err)
	require.Len(t, unsure, 1)
	assert.Equal(t, "CreateBackup: the server checks more than the API description says", unsure[0].String())

	lab.FailNext("GET /access/permissions", 595, "No route to host")
	quick, err := pve.NewClient(lab.URL(), pve.WithAPIToken(lab.RootToken()), pve.WithRootCAs(lab.CertPool()), pve.WithRetry(pve.RetryPolicy{Attempts: 1}))
	require.NoError(t, err)
	t.Cleanup(quick.CloseIdleConnections)
	_, err = quick.CheckPrivileges(t.Context(), pve.Op{Name: "StopVM", Params: pve.StopVMParams{Node: "pve1", VMID: 100}})
	assert.ErrorIs(t, err, pve.ErrNodeUnreachable)
}
