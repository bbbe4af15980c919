// Package apidoc reads the API descriptions that Proxmox publishes and compares
// them. What it reads becomes a [facts.Document] of the top-level package apidoc,
// which everything else works from.
//
// # Reading
//
// [Fetch] gets a description from a file, a URL or a running host; [Parse] makes
// a document of it; [Facts] drops the prose. Parse takes whatever comes: the
// viewer's JavaScript, the JSON in it, or a document written before. It knows no
// product, only the two dialects that the servers speak:
//
//   - "perl" (Proxmox VE and Mail Gateway): 0 and 1 for booleans, indexed
//     parameters folded to "net[n]", property strings as a map from key to schema,
//     permissions as arrays such as ["perm", "/vms/{vmid}", ["VM.Audit"]];
//   - "rust" (Backup Server and Datacenter Manager): JSON booleans, indexed
//     parameters written out, property strings as whole schemas, permissions as
//     objects.
//
// What the two say differently, a document says in one way. The normalising is
// done where the construct is read (schema.go, values.go, permissions.go,
// typetext.go), except for what needs the whole document (normalise.go).
//
// Parse skips nothing that it does not know: a key, type, permission or value
// that is new to it is a [Problem] with the place in the API, and up to 20 of
// them make one [ParseError]. To teach it a new key, add a case to
// schemaReader.key or parser.operation, a field to the model if the key is a
// fact, and a line to the tables in parse_test.go.
//
// # Comparing
//
// [Diff] lists what was added, removed and changed between two documents and
// what of that can break a caller. [Since] tells from several versions since
// when an operation, a parameter or a result field exists.
package apidoc
