// Package pve calls the REST API of Proxmox VE: one typed method for each of its
// operations, generated from the API's own description, and some helpers around them.
//
// # Start
//
// A [Client] belongs to one cluster and is safe for concurrent use. [NewClient] opens no
// connection and reads no environment.
//
//	client, err := pve.NewClient("https://pve1.example.com:8006",
//		pve.WithAPIToken("automation@pve!deploy", secret),
//		pve.WithRootCAs(pool))
//	vms, err := client.ListVMs(ctx, pve.ListVMsParams{Node: "pve1"})
//
// Methods are called by a verb and what an operator calls the thing: ListVMs, GetVMConfig,
// UpdateVMConfig, StartVM, CreateContainerSnapshot, ListHARules. List returns a list,
// Get…Index the segments that may follow in the path. The comment of each method names
// its endpoint, the privileges it needs, and since which of the known releases it exists.
//
// A method takes one structure of parameters, those in the path included, or none when
// there are none. Optional parameters are pointers, slices and maps; nil leaves them out:
//
//	upid, err := client.CreateVM(ctx, pve.CreateVMParams{
//		Node: "pve1", VMID: 120, Cores: new(int64(4)), OnBoot: new(false),
//		Net:  map[int]pve.VMNet{0: {Model: "virtio", Bridge: new("vmbr0")}},
//		SCSI: map[int]pve.VMDisk{0: {File: "local-lvm:32", IOThread: new(true)}},
//	})
//
// Numbered options such as net0 and scsi3 are maps by number, and values such as
// "virtio,bridge=vmbr0" are structures: they have String, a Parse function, and an Extra
// map that keeps the keys this package does not know, so that reading a value, changing
// it and writing it back loses nothing. To unset an option, name it in Delete:
//
//	err := client.UpdateVMConfig(ctx, pve.UpdateVMConfigParams{
//		Node: "pve1", VMID: 120, Delete: []string{"net1", "description"}, Digest: conf.Digest,
//	})
//
// Results are decoded leniently, because the server sends the same number as 1, "1" or
// 1.0. A value that fits nothing leaves its field zero and is told to [WithOnMisfit].
// Members that a result has beyond its description are in Extra.
//
// # Authenticate
//
// [WithAPIToken] is for programs. [WithPassword] logs in when the first call needs it and
// renews the session; [WithTFA] answers a second factor; [WithTicket] goes on with a
// session of another process. A few operations refuse tokens, which their comments say.
//
// Servers have certificates of their cluster's own authority: trust it by [WithRootCAs],
// or pin one server's certificate by [WithFingerprint].
//
// # Values
//
// [ParseSize] reads sizes of disks, which the server writes in units of its own choice,
// and [ParseVolumeID] takes a volume's ID apart.
//
// # Errors
//
// A refusal by the server is an [*Error] with its message and the complaints about single
// parameters. Which kind of failure it is, the sentinels tell:
//
//	switch {
//	case errors.Is(err, pve.ErrNotFound):
//	case errors.Is(err, pve.ErrLocked): // try again later
//	case errors.Is(err, pve.ErrPermission):
//	}
//
// A [*TransportError] tells that no answer came, and whether the request may have arrived;
// an [*ArgumentError] that nothing was sent. Reads are repeated after faults of the
// connection, writes only where the request never left: see [WithRetry]. The context is
// the only limit of time.
//
// # Tasks
//
// What takes longer only begins when a method returns: its result is the [UPID] of a task.
// [Client.WaitTask] waits for its end. A task that failed is a [*TaskError] with the last
// lines of its log, and the same sentinels apply to it.
//
//	upid, err := client.CloneVM(ctx, pve.CloneVMParams{Node: "pve1", VMID: 9000, NewID: 101})
//	if err == nil {
//		_, err = client.WaitTask(ctx, upid)
//	}
//
// The callbacks of [WithTaskLog] and [WithTaskProgress] follow it meanwhile. When the
// context ends first, the task runs on, and the error is a [*TaskWaitError] that names it.
//
// A VMID is only free until someone else takes it. [Client.CreateVMWithNextID],
// [Client.CloneVMWithNextID] and their like for containers take the next free one and try
// again when they lose it.
//
// # Lists
//
// List methods with the parameters Start and Limit give a page. For each there is a method
// that begins with All and walks through the whole list, asking for pages as it goes:
//
//	for task, err := range client.AllTasks(ctx, pve.ListTasksParams{Node: "pve1"}) {
//		if err != nil {
//			return err
//		}
//		fmt.Println(task.UPID)
//	}
//
// [WithMeta] makes a call and returns also how long the whole list is.
//
// # Uploads, downloads and consoles
//
// UploadToStorage streams an [Upload] from any reader. DownloadFileRestoreEntry returns a
// [Download] that the caller closes, and GetVMVNCWebSocket a [net.Conn]. A text console is
// a [Terminal], which [Client.OpenVMTerminal] and its like open.
//
//	upid, err := client.UploadToStorage(ctx,
//		pve.UploadToStorageParams{Node: "pve1", Storage: "local", Content: "iso", Filename: "x.iso"},
//		pve.Upload{Body: file, Checksum: "sha256"})
//
// A file or another seekable reader is sent from where it stands to its end, and may be
// sent again when the connection fails before anything arrived. Of other readers, Size
// says the length; without it, the body is kept on disk until its length is known, as the
// server takes no upload of unknown length.
//
// # Rights and versions
//
// [Privileges] tells what an operation needs, [Client.CheckPrivileges] what the client
// lacks for it and on which path. [Client.Version] asks for the server's version, and
// [Since] tells which releases have an operation or a parameter. A call that the server
// does not know fails with an [ErrUnknownToServer] that says since when it would.
//
// Package pve/operations lists all operations with their parameters, for command lines
// and the like.
//
// # Testing
//
// Package pve/pvetest simulates a cluster to test against: it has its own nodes, storages,
// guests, tasks and permissions, answers like the real thing, and fails where it is told to.
//
//	func TestDeploy(t *testing.T) {
//		lab := pvetest.RunT(t)
//		lab.AddVM(9000, pvetest.VM{})
//		lab.FailNext("POST /nodes/pve1/qemu/9000/clone", 500, "got no worker upid - start worker failed")
//		id, secret := lab.RootToken()
//		client, err := pve.NewClient(lab.URL(), pve.WithAPIToken(id, secret), pve.WithRootCAs(lab.CertPool()))
//		…
//	}
//
// # Everything else
//
// [Client.Do] calls any path, also one that a newer server has and this package has not,
// with the same encoding, errors and repetitions; [Client.DoUpload], [Client.DoDownload]
// and [Client.DoWebSocket] do the same for streams.
package pve
