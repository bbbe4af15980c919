// Package apidoc holds what is known of the REST APIs of the Proxmox products:
// paths, methods, parameters, results, limits and permissions, one [Document] a
// product and version. The files hold facts only; descriptions are left out.
//
// [Load] and [Latest] read them. The generator in internal/generator and the
// simulated cluster in pve/pvetest both work from the documents they return.
// SOURCES.md says where the files come from and how to add one.
package apidoc
