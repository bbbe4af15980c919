// Package pvetest is a simulated Proxmox VE cluster: a real HTTPS server on
// loopback whose answers follow those of Proxmox VE 9.2.
//
//	srv := pvetest.RunT(t)
//	id, secret := srv.RootToken()
//	client, err := pve.NewClient(srv.URL(), pve.WithAPIToken(id, secret), pve.WithRootCAs(srv.CertPool()))
//
// The cluster is empty at first: one node "pve1" with one dir storage "local".
// Seed it through Go or through the API, use it through the API, inspect it
// through Go. Requests are recorded, faults are injected by [Server.Fail], and
// no clock runs unless a test lets it: tasks end at once, or after a number of
// looks ([Server.TasksTake]).
package pvetest
