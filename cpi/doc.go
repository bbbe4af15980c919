// Package cpi is a BOSH CPI for Proxmox VE: it makes the stemcells, VMs and
// persistent disks of a BOSH Director on one cluster.
//
// A program that BOSH can run is a few lines:
//
//	err := rpc.Serve(ctx, cpi.Factory("cpi.json"), os.Stdin, os.Stdout, os.Stderr)
//
// [Config] lists the keys of the configuration, [VMProperties], [DiskProperties]
// and [NetworkProperties] those of the cloud properties. [Privileges] says what
// the API token must be allowed: rights on one resource pool, its storages and
// its networks are enough. A token with privilege separation needs them for its
// user too.
//
// # What stands for what
//
// Every stemcell is a template, every VM a guest, and every persistent disk a
// guest of its own that never starts and owns the volume; the VM that uses the
// disk only refers to it. All of them carry the tags "bosh", the kind
// ("bosh-stemcell", "bosh-vm", "bosh-disk") and their CID, and nothing else is
// remembered anywhere: a CPI process finds everything by one look at the list of
// guests. What an operator writes into tags and notes stays.
//
//	VM        vm-101-k3v9q2m8x1z7         the VMID and a random token, so that a reused VMID is never mistaken for ours
//	disk      disk-k3v9q2m8x1z7c4b        twenty characters: the drive's serial, by which the agent finds the disk
//	stemcell  stemcell-<32 hex digits>    from the image's SHA-256, so that the same image is the same stemcell
//
// # What can be relied on
//
// Deleting is idempotent. A question that cannot be decided, because a node does
// not answer or the cluster has no quorum, is an error and never a "no". A call
// that fails removes what it made, persistent disks excepted, and says what it
// could not remove. A CID that is blank, malformed or of another kind is refused
// before any request is made. Calls may run in any number of processes at once.
//
// # Replacing a method
//
// [CPI] implements [rpc.Handler]. Embed a handler to replace single methods of it,
// and give [rpc.Serve] a factory that returns the outer type:
//
//	type myCPI struct{ rpc.Handler }
//
//	func (m myCPI) SnapshotDisk(ctx context.Context, disk rpc.DiskCID, md rpc.Metadata) (rpc.SnapshotCID, error) { … }
//
//	open := cpi.Factory("cpi.json")
//	factory := func(ctx context.Context, call *rpc.Call) (rpc.Handler, error) {
//		h, err := open(ctx, call)
//		return myCPI{h}, err
//	}
//
// [rpc.Around] does something before and after every call, and the factory may
// look at call.Method and call.Context first.
//
// # Errors
//
// A message says what is wrong and where: "cloud_properties root_disk.storage: …",
// "the CPI configuration: nodes: …", "network \"a\": …". [rpc.Serve] puts the method
// in front; the methods of [CPI] do not.
package cpi
