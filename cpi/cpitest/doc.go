// Package cpitest checks that a BOSH CPI for Proxmox VE keeps its contract. The
// CPI may be Go code or a program in any language.
//
//	func TestConformance(t *testing.T) {
//		sim, err := cpitest.Simulate("rbd")
//		…
//		cpitest.Run(t, cpitest.Options{
//			CPI:     cpitest.Program{Path: "./my-cpi", Args: []string{"-configFile", config}},
//			Cluster: sim.Cluster(),
//		})
//	}
//
// [Run] is a test with a subtest for each scenario; [Check] returns a [Report] and
// an error instead, and the command examples/cpi-check is Check for programs.
//
// # What is demanded of a CPI
//
// Answers. One process for each request, with PATH, HOME and TMPDIR for its
// environment, writes one JSON object with the keys result, error and log, whatever
// the request was, and ends with status 0. The log is a string, and short, as is
// standard error. An error has one of the ten types that the Director knows, a
// message and ok_to_retry. Results have the types that the Director reads:
// create_vm answers an array, attach_disk a hint that is not empty and holds
// nothing but strings, info an integer version. Methods that do not exist are
// NotImplemented.
//
// Truth. What the CPI answers is so in the cluster when it answers. The guest of a
// VM exists once, runs, has the CPUs, the memory, the NICs and the disks that were
// asked for; a disk has its size, is attached to the VM that it was attached to and
// to no other, takes effect in the running guest, and is where its hint leads the
// agent; what was deleted is gone, with all that was its own.
//
// Agent. The VM has a CD with the label config-2 and the two files that the agent
// of an OpenStack stemcell reads. Every value in the settings has the type that the
// agent's parser insists on; disks.system is a string, a MAC is in lower case and
// one of the guest's; every path leads to a drive of the guest, by its serial or
// its slot; the env is the Director's, untouched.
//
// Care. A persistent disk survives its VM, whether it was detached or not.
// Questions change nothing. What cannot be done is refused and changes nothing. A
// blank identifier matches nothing. Guests, volumes, tags and CDs of others stay as
// they are. In the end nothing is left.
//
// Repetition. Deleting what is gone, attaching what is attached and setting the same
// metadata again succeed, or say VMNotFound or DiskNotFound where the Director takes
// that for success, and change nothing. Attaching gives the same hint each time.
//
// Concurrency and interruption. Calls run in parallel. A call that is stopped and
// still answers is bound by its answer; after one that was killed, whatever the
// Director does next works.
//
// Secrets. Those of the configuration, the context, the env and the settings never
// show on standard output or standard error, in plain, percent-encoded, JSON or
// base64 form, nor in files that the CPI leaves in its HOME or TMPDIR.
//
// Methods that a Director can do without may be NotImplemented: calculate_vm_cloud_properties,
// set_vm_metadata, set_disk_metadata, get_disks, resize_disk, update_disk,
// snapshots and networks. Each shows in the report as skipped. The others may not.
//
// # How the suite knows
//
// It has its own connection to the cluster and none of the CPI's code. After every
// call it lists all guests and volumes. Which of them stand for a stemcell, a VM or
// a disk it learns from what appears while the call is made, so that it knows
// nothing of a CPI's names, tags or design. The settings on a VM's CD it reads through
// [Cluster.ReadVolume], since the API does not offer them.
//
// # On a real cluster
//
// The suite makes and destroys guests. Everything that it makes has the mark of the
// run, "cpicheck-" and eight digits, for its Director's UUID, for the value of its
// metadata and in its agents' names. A CPI that turns one of them into a tag of the
// guest has its remains removed before and after a run; guests without such a tag
// are never touched. Leave [Cluster.Exclusive] unset, give the CPI a resource pool
// of its own, and let one run be over before the next begins.
package cpitest
