// Package apidoc holds what is known of the REST APIs of the Proxmox products:
// paths, methods, parameters, results, limits and permissions, one [Document]
// a product and version. The files hold facts only; descriptions are left out.
package apidoc
