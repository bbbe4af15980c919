// Package cpitest checks that a BOSH CPI for Proxmox VE keeps its contract, in
// whatever language it is written.
package cpitest
