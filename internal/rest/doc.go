// Package rest is the transport under the clients pve, pbs and pdm: requests and
// answers, errors and their classes, authentication, TLS, retries, tasks, uploads,
// downloads and websockets. The clients re-export what their users need.
//
// A [Client] belongs to one [Product] and one or more endpoints of the same
// installation. It is safe for concurrent use, opens no connection and starts no
// goroutine until the first call, and shares no state with other clients.
//
// # Errors
//
// A call fails in one of four ways, each with a type of its own:
//
//   - the server refused: [*Error], with the reason phrase, the message and the
//     complaints by parameter;
//   - no answer came: [*TransportError], which says whether the request may have
//     arrived;
//   - the work was accepted and failed later: [*TaskError];
//   - the arguments were bad and nothing was sent: [*ArgumentError].
//
// Proxmox products answer 500 to almost everything, so the question "what kind of
// failure" is answered by sentinels such as [ErrNotFound] and [ErrLocked], through
// errors.Is. They are decided in one table over texts that real servers send.
//
// # Retries
//
// One function decides, see [WithRetry]. Reads are repeated after transport faults
// and the proxy statuses 595, 596 and 599. A write is repeated only when its request
// provably never left this machine. The context of the call is the only time limit.
package rest
