// Package pvetest is a simulated Proxmox VE cluster: a real HTTPS server on
// loopback whose answers follow those of Proxmox VE 9.2, error texts included.
//
//	srv := pvetest.RunT(t)
//	id, secret := srv.RootToken()
//	client, err := pve.NewClient(srv.URL(), pve.WithAPIToken(id, secret), pve.WithRootCAs(srv.CertPool()))
//
// The cluster is empty at first: one node "pve1" ([WithNodes] makes more), with
// a bridge vmbr0 and a directory storage "local". Seed it through Go
// ([Server.AddStorage], [Server.AddVM], [Server.AddToken], …) or through the
// API, use it through the API, and inspect it through Go ([Server.VM],
// [Server.Volumes], [Server.Tasks], [Server.Snapshot]). Uploads and images keep
// their bytes, so that a test can read them ([Server.OpenVolume]).
//
// Every request is recorded ([Server.Requests], [Server.Count]; [WithRecord]
// bounds the record of a server that runs for long). Anything can
// be made to go wrong ([Server.Fail], [Server.FailTask], [Server.SetNodeOnline],
// [Server.SetQuorate], [Server.StaleResources], [WithWorkers]). No clock runs
// unless a test wants one: tasks are done before the call that starts them is
// answered, or after a number of looks ([Server.TasksTake]), or when the
// cluster's clock, which [WithClock] replaces, says so ([Server.TasksLast]).
//
// A method that changes the cluster or makes something go wrong refuses what
// cannot be: a node, user, storage or volume that is not there, a privilege or a
// config key that Proxmox does not know, a fault that no call can meet. Then it
// changes nothing, returns an error that says what is wrong, and under [RunT]
// fails the test besides. So a test need not look at these errors, and the user
// of a server of [New] must. At its end [RunT] also fails a test for a fault that
// never struck, unless it is [Fault.Optional] or was taken back by
// [Server.ClearFaults].
//
// Permissions are those of the real thing: roles, groups, tokens with privilege
// separation, inheritance, pools; they are checked before parameters, which are
// checked against the API's own description.
//
// # What is simulated
//
//   - the HTTP layer: reason phrases, limits, form and JSON decoding, /api2/extjs
//   - access: users, groups, roles, permissions, tokens, tickets, second factors
//   - cluster: resources, status, nextid, options, tasks, log, pools, HA
//     resources and rules, firewall (cluster, nodes, guests, groups, sets,
//     aliases), SDN zones, virtual networks and subnets, mappings
//   - nodes: lists, status, time, network interfaces with reload, tasks
//   - storages: dir, nfs, cifs, btrfs, cephfs, lvm, lvmthin, zfspool and rbd with
//     what each can do; content, uploads, downloads
//   - virtual machines: create, config, pending changes, hotplug, clone, template,
//     snapshots, disks, import, migration, power, guest agent
//
// Containers, backups, replication, Ceph, consoles and the graphs are not. An
// operation that is not simulated answers 501, which under [RunT] fails the
// test.
//
// # Fidelity
//
// A recording of a real PVE 9.2.11 is replayed against this package by
// internal/fidelity (make fidelity). Of its exchanges 529 of 529 agree in
// status, reason, error texts, fields, types, and in values where these do not
// depend on time, chance or the machine; 24 more show only limits of the
// recorded machine, and one, a backup, is not simulated.
package pvetest
