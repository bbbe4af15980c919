// Package pdm calls the REST API of Proxmox Datacenter Manager: one typed method for each
// of its operations, generated from the API's own description, and some helpers around
// them.
//
// # Start
//
// A [Client] belongs to one server and is safe for concurrent use. [NewClient] opens no
// connection and reads no environment.
//
//	client, err := pdm.NewClient("https://pdm1.example.com:8443",
//		pdm.WithAPIToken("automation@pdm!fleet", secret),
//		pdm.WithRootCAs(pool))
//	remotes, err := client.ListRemotes(ctx)
//
// Methods are called by a verb and what an operator calls the thing. What acts on a remote
// Proxmox VE or Backup Server has its name in it: StartPVEVM, ListPBSDatastores. A method
// takes one structure of parameters, those in the path included, or none when there are
// none. Optional parameters are pointers, slices and maps; nil leaves them out, new(false)
// sends them. The comment of each method names its endpoint and the privileges it needs.
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
// the sentinels tell: errors.Is(err, pdm.ErrNotFound), pdm.ErrPermission and the others. A
// [*TransportError] tells that no answer came, and whether the request may have arrived;
// an [*ArgumentError] that nothing was sent. The context is the only limit of time.
//
// # Tasks
//
// What takes longer only begins when a method returns: its result is the [UPID] of a task,
// with the remote's name before it where the task runs on a remote. [Client.WaitTask]
// waits for its end. A task that failed is a [*TaskError] with the last lines of its log.
//
// # Lists, rights and versions
//
// Methods that begin with All walk through lists that come in pages:
//
//	for task, err := range client.AllRemoteTasks(ctx, pdm.ListRemoteTasksParams{}) {
//
// [WithMeta] makes a call and returns also what stands beside the data in the answer, such
// as the length of the list and the digest of a configuration. [Privileges] tells what an
// operation needs, [Client.CheckPrivileges] what the client lacks for it and on which path.
// [Client.Version] asks for the server's version. A call that the server does not know
// fails with an [ErrUnknownToServer]. Package pdm/operations lists all operations.
//
// # Everything else
//
// [Client.Do] calls any path, also one that a newer server has and this package has not.
// Consoles of remote guests are a [net.Conn], as by GetPVEVMVNCWebSocket.
package pdm
