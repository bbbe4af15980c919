package openapi

// The extensions that the documents use.
const (
	XProduct        = "x-proxmox-product"         // name, dialect and facts for a client
	XKind           = "x-proxmox-kind"            // none, value, list, object, task, raw, upload, download or websocket
	XPermissions    = "x-proxmox-permissions"     // who may call it
	XProtected      = "x-proxmox-protected"       // runs in the privileged daemon
	XProxyTo        = "x-proxmox-proxyto"         // the parameter naming the node that answers
	XNoToken        = "x-proxmox-notoken"         // refuses API tokens
	XDownload       = "x-proxmox-download"        // the answer may be a file
	XActs           = "x-proxmox-acts"            // changes something although it is a GET
	XUnstable       = "x-proxmox-unstable"        // may change without notice
	XCredentials    = "x-proxmox-credentials"     // hands the caller's ticket or token on
	XNoun           = "x-proxmox-noun"            // what the result is called
	XSince          = "x-proxmox-since"           // the first version that has it
	XIndexed        = "x-proxmox-indexed"         // "net[n]" stands for net0, net1, …
	XMaxIndex       = "x-proxmox-max-index"       // the greatest n
	XPropertyString = "x-proxmox-property-string" // the schema of the text "key=value,…"
	XList           = "x-proxmox-list"            // a text that is a list: "a,b,c"
	XFormat         = "x-proxmox-format"          // the server's name for the format
	XRenderer       = "x-proxmox-renderer"        // bytes, duration, timestamp, …
	XPattern        = "x-proxmox-pattern"         // a pattern in the server's own syntax
	XRequires       = "x-proxmox-requires"        // another parameter that must be given too
	XTask           = "x-proxmox-task"            // the ID of a task (UPID)
	XDefaultKey     = "x-proxmox-default-key"     // the key of a property string that may be left out
	XAliases        = "x-proxmox-aliases"         // other spellings of the key
	XKeyAlias       = "x-proxmox-key-alias"       // "virtio=<MAC>": the value is the key of another member
	XInstanceTypes  = "x-proxmox-instance-types"  // the kinds of entry that have it
	XOneOf          = "x-proxmox-one-of"          // the members of each variant
	XTypeProperty   = "x-proxmox-type-property"   // the member that tells the variants apart
	XTypetext       = "x-proxmox-typetext"        // the grammar of the text in the server's notation
	XOperation      = "x-proxmox-operation"       // the operation that a schema belongs to
	XSource         = "x-proxmox-source"          // the place in the API description
	XGoName         = "x-go-name"
	XSkipped        = "x-proxmox-skipped" // operations that are not in the document, with the reason
)
