// Package pbs calls the REST API of Proxmox Backup Server: one typed method for each of
// its operations, generated from the API's own description, and some helpers around them.
//
// # Start
//
// A [Client] belongs to one server and is safe for concurrent use. [NewClient] opens no
// connection and reads no environment.
//
//	client, err := pbs.NewClient("https://pbs1.example.com:8007",
//		pbs.WithAPIToken("automation@pbs!jobs", secret),
//		pbs.WithFingerprint(fingerprint))
//	snapshots, err := client.ListBackupSnapshots(ctx, pbs.ListBackupSnapshotsParams{Store: "main"})
//
// Methods are called by a verb and what an operator calls the thing: ListDatastores,
// GetDatastoreStatus, CreatePruneJob, RunSyncJob. A method takes one structure of
// parameters, those in the path included, or none when there are none. Optional
// parameters are pointers, slices and maps; nil leaves them out, new(false) sends them.
// The comment of each method names its endpoint and the privileges it needs.
//
// The protocols in which the backup client sends and reads chunks are not part of this
// package: they speak HTTP/2 inside an upgraded connection.
//
// # Authenticate
//
// [WithAPIToken] is for programs. [WithPassword] logs in when the first call needs it and
// renews the session; [WithTFA] answers a second factor. The certificate is usually the
// server's own: pin it by [WithFingerprint], or trust an authority by [WithRootCAs].
//
// # Errors
//
// A refusal by the server is an [*Error] with its message. Which kind of failure it is,
// the sentinels tell: errors.Is(err, pbs.ErrNotFound), pbs.ErrPermission and the others. A
// [*TransportError] tells that no answer came, and whether the request may have arrived;
// an [*ArgumentError] that nothing was sent. The context is the only limit of time.
//
// # Tasks
//
// What takes longer only begins when a method returns: its result is the [UPID] of a task.
// [Client.WaitTask] waits for its end. A task that failed is a [*TaskError] with the last
// lines of its log.
//
//	upid, err := client.StartGarbageCollection(ctx, pbs.StartGarbageCollectionParams{Store: "main"})
//	if err == nil {
//		_, err = client.WaitTask(ctx, upid)
//	}
//
// # Uploads and downloads
//
// DownloadBackupFile and its like return a [Download] that the caller closes;
// UploadBackupLog streams an [Upload] from any reader.
//
// # Lists, rights and versions
//
// Methods that begin with All walk through lists that come in pages:
//
//	for task, err := range client.AllTasks(ctx, pbs.ListTasksParams{Node: "localhost"}) {
//
// [WithMeta] makes a call and returns also what stands beside the data in the answer, such
// as the length of the list and the digest of a configuration. [Privileges] tells what an
// operation needs, [Client.CheckPrivileges] what the client lacks for it and on which path.
// [Client.Version] asks for the server's version. A call that the server does not know
// fails with an [ErrUnknownToServer]. Package pbs/operations lists all operations.
//
// # Everything else
//
// [Client.Do] calls any path, also one that a newer server has and this package has not.
package pbs
