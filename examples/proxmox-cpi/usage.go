package main

import (
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/proxkit/proxkit/cpi"
)

func usage(w io.Writer) {
	fmt.Fprint(w, `proxmox-cpi is a BOSH CPI for Proxmox VE. It reads one request from standard
input and writes one response to standard output; BOSH starts it once per call.

  echo '{"method":"info","arguments":[],"context":{}}' | proxmox-cpi
  proxmox-cpi -configFile cpi.json < request.json

The exit status is 0 whenever a response was written, also when it is an error;
1 when none could be written, or -privileges or -audit failed; 2 for bad flags.

Flags:
`)
	flag.PrintDefaults()
	fmt.Fprint(w, `
The least that cpi.json must hold; ca_certificate or fingerprint besides, unless
the system trusts the API's certificate:

  {
    "endpoint": "pve1.example.com",
    "token": "bosh@pve!cpi=SECRET",
    "storage": "local-lvm",
    "pool": "bosh",
    "agent": {"mbus": "https://mbus:PASSWORD@0.0.0.0:6868"}
  }

pool may be left out when the token has its rights on all guests, and agent.mbus
when env.bosh.mbus.urls of every VM says the same.

The rights of -privileges must be granted to the token and, if it has privilege
separation, to its user too: it may do only what both may do.

How a Director gets the program: as bin/cpi of a job of a BOSH release, which
calls it with -configFile and a file made of the job's properties. Such a job and
its package are in examples/proxmox-cpi/release of the sources. The properties of
an entry in the cpi-config win over those of the file, key by key.

A dot in the keys below means nesting: agent.mbus is {"agent": {"mbus": "…"}}.
A list is an array, or an object {"name": true|false} that VM extensions can add
to. Sizes are whole numbers of MiB; disks get whole GiB, rounded up.
`)
	for _, table := range []struct {
		title string
		keys  []cpi.ConfigKey
	}{
		{"Keys of the configuration, of cpi.json and of an entry in the cpi-config:", cpi.ConfigKeys()},
		{"cloud_properties of VM types, VM extensions and AZs (\"configuration\": the key of\nthe same name there):", cpi.VMPropertyKeys()},
		{"cloud_properties of disk types (storage: disk_storage of the configuration):", cpi.DiskPropertyKeys()},
		{"cloud_properties of networks:", cpi.NetworkPropertyKeys()},
	} {
		fmt.Fprintf(w, "\n%s\n\n", table.title)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, k := range table.keys {
			fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", k.Name, k.Type, k.Default, k.Meaning)
		}
		t.Flush()
	}
}

// printPrivileges lists the rights to grant, one path a line, and what to know
// about them in lines that begin with #.
func printPrivileges(w io.Writer, config string) error {
	scope := cpi.PrivilegeScope{
		Pool: "POOL", ImageStorages: []string{"STORAGE"}, ISOStorage: "STORAGE", ImportStorage: "STORAGE", Bridges: []string{"BRIDGE"},
	}
	var cfg cpi.Config
	if config != "" {
		var err error
		if cfg, err = cpi.LoadConfig(config, nil); err != nil {
			return err
		}
		scope = cfg.PrivilegeScope()
	}
	fmt.Fprintln(w, "# Grant these to the token and, if it has privilege separation, to its user too:")
	fmt.Fprintln(w, "# such a token may do only what both may do.")
	for _, p := range cpi.Privileges(scope) {
		fmt.Fprintf(w, "%s  %s\n", p.Path, strings.Join(p.Privileges, ","))
	}
	if config == "" {
		return nil
	}
	for _, s := range []struct{ key, content, configured string }{
		{"iso_storage", "iso", cfg.ISOStorage}, {"import_storage", "import", cfg.ImportStorage},
	} {
		if s.configured == "" {
			fmt.Fprintf(w, "# %s is not configured: it is the first of storage with content %s, else the first storage\n", s.key, s.content)
			fmt.Fprintln(w, "# with it that the token sees; configure it, and its own line appears here.")
		}
	}
	fmt.Fprintln(w, "# Pools, storages, bridges and vnets that only cloud_properties name need the same.")
	return nil
}
