package cpitest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/proxkit/proxkit/pve/pvetest"
)

// The names of what a [Simulation] has.
const (
	simPool   = "bosh"
	simDisks  = "disks"
	simFiles  = "files"
	simBridge = "vmbr0"
	simToken  = "bosh-cpi@pve!cpitest"
	simImage  = simFiles + ":import/operator.qcow2"
)

// A Simulation is a simulated cluster that is made ready for a CPI: three nodes,
// storages for disks and for files, a resource pool, and an API token that has
// every right on the pool, the storages and the bridge, and none anywhere else.
// It also has guests and volumes that are an operator's own, which the CPI must
// leave alone; one of the guests is in the pool.
type Simulation struct {
	*pvetest.Server
	secret string
}

// Simulate makes a simulated cluster. Close it when done. The disks' storage is
// of the kind named, such as "rbd", "lvmthin" or "zfspool"; the default is rbd,
// which all nodes share.
func Simulate(diskStorage string, opts ...pvetest.Option) (*Simulation, error) {
	srv, err := pvetest.New(append([]pvetest.Option{pvetest.WithNodes("pve1", "pve2", "pve3")}, opts...)...)
	if err != nil {
		return nil, err
	}
	s := &Simulation{Server: srv}
	if err := s.prepare(diskStorage); err != nil {
		return nil, errors.Join(err, srv.Close())
	}
	return s, nil
}

func (s *Simulation) prepare(diskStorage string) error {
	disks := pvetest.Storage{Type: "rbd", Size: 2000 << 30}
	if diskStorage != "" {
		disks.Type = diskStorage
	}
	if slices.Contains([]string{"dir", "nfs", "btrfs", "cifs"}, disks.Type) {
		disks.Content = []string{"images"}
	}
	if err := errors.Join(
		s.AddStorage(simDisks, disks),
		s.AddStorage(simFiles, pvetest.Storage{Type: "nfs", Content: []string{"iso", "import"}, Size: 500 << 30}),
	); err != nil {
		return err
	}
	errs := []error{s.AddPool(simPool)}
	s.secret = s.AddToken(simToken, false)
	user, _, _ := strings.Cut(simToken, "!")
	for path, privileges := range map[string][]string{
		"/pool/" + simPool: {
			"VM.Allocate", "VM.Audit", "VM.Clone", "VM.Config.CDROM", "VM.Config.CPU", "VM.Config.Disk", "VM.Config.HWType",
			"VM.Config.Memory", "VM.Config.Network", "VM.Config.Options", "VM.Migrate", "VM.PowerMgmt", "VM.Snapshot", "VM.Snapshot.Rollback",
			"Pool.Audit",
		},
		"/storage/" + simDisks:                 {"Datastore.Allocate", "Datastore.AllocateSpace", "Datastore.AllocateTemplate", "Datastore.Audit"},
		"/storage/" + simFiles:                 {"Datastore.Allocate", "Datastore.AllocateSpace", "Datastore.AllocateTemplate", "Datastore.Audit"},
		"/sdn/zones/localnetwork/" + simBridge: {"SDN.Use"},
	} {
		role := "Cpitest" + strings.Map(func(c rune) rune {
			if c == '/' {
				return '-'
			}
			return c
		}, path)
		errs = append(errs, s.AddRole(role, privileges...), s.SetACL(path, user, role))
	}
	return errors.Join(append(errs, s.addOperator())...)
}

// addOperator adds what an operator has beside BOSH.
func (s *Simulation) addOperator() error {
	errs := []error{
		s.AddVM(100, pvetest.VM{Node: "pve1", Running: true, Config: map[string]string{
			"name": "operator-db", "memory": "4096", "cores": "2", "tags": "production;bosh", "scsi0": simDisks + ":8", "scsihw": "virtio-scsi-single",
			"net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0", "description": "not made by BOSH",
		}}),
		s.AddVM(101, pvetest.VM{Node: "pve2", Pool: simPool, Config: map[string]string{
			"name": "operator-in-the-pool", "memory": "1024", "tags": "bosh-vm", "virtio0": simDisks + ":4", "net0": "virtio=BC:24:11:00:00:02,bridge=vmbr0",
		}}),
		s.AddVM(102, pvetest.VM{Node: "pve3", Config: map[string]string{
			"name": "operator-template", "template": "1", "tags": "bosh-stemcell", "virtio0": simDisks + ":4",
		}}),
		s.AddVolume("pve1", simFiles+":iso/operator.iso", []byte("an operator's CD")),
		s.AddVolume("pve1", simImage, []byte("an operator's image")),
	}
	return errors.Join(errs...)
}

// Cluster is the suite's own connection, as root.
func (s *Simulation) Cluster() Cluster {
	id, secret := s.RootToken()
	return Cluster{
		Endpoint: s.URL(), Token: id + "=" + secret, Fingerprint: s.Fingerprint(), Exclusive: true, Pool: simPool,
		Switch:     s.SetNodeOnline,
		ReadVolume: func(_ context.Context, volume string) ([]byte, error) { return s.VolumeBytes(volume) },
	}
}

// Secret is the secret of the CPI's token, which must show nowhere.
func (s *Simulation) Secret() string { return s.secret }

// Values are what a CPI must be told about the cluster, by the names that stand
// for them in a configuration as ${NAME}; see [Expand].
func (s *Simulation) Values() map[string]string {
	return map[string]string{
		"ENDPOINT":     s.URL(),
		"HOST":         strings.TrimPrefix(s.URL(), "https://"),
		"TOKEN_ID":     simToken,
		"TOKEN_SECRET": s.secret,
		"FINGERPRINT":  s.Fingerprint(),
		"CA":           s.CertPEM(),
		"POOL":         simPool,
		"STORAGE":      simDisks,
		"FILE_STORAGE": simFiles,
		"BRIDGE":       simBridge,
		"NODE":         "pve1",
	}
}

// Expand replaces ${NAME} in a JSON text by values, which are escaped as JSON
// strings are. Another name is an error.
func Expand(text []byte, values map[string]string) ([]byte, error) {
	var out strings.Builder
	rest := string(text)
	for {
		before, after, found := strings.Cut(rest, "${")
		out.WriteString(before)
		if !found {
			return []byte(out.String()), nil
		}
		name, tail, closed := strings.Cut(after, "}")
		value, known := values[name]
		if !closed || !known {
			return nil, fmt.Errorf("the configuration has ${%s}, which stands for nothing here", strings.SplitN(name, "\n", 2)[0])
		}
		quoted, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		out.WriteString(strings.Trim(string(quoted), `"`))
		rest = tail
	}
}
