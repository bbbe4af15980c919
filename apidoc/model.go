package apidoc

import "encoding/json"

// A Document holds the facts about one product's REST API at one version.
type Document struct {
	Product string `json:"product"` // "pve", "pbs", "pdm", or whatever the importer called it
	Version string `json:"version,omitempty"`

	// Dialect tells which family of servers wrote the description, because they
	// differ in authentication, booleans and request bodies: "perl" for
	// pve-http-server (PVE, PMG), "rust" for proxmox-rest-server (PBS, PDM).
	Dialect string `json:"dialect"`

	// Operations are sorted by path, then by method.
	Operations []*Operation `json:"operations"`
}

// An Operation is one method of one path.
type Operation struct {
	Path            string `json:"path"`   // "/nodes/{node}/qemu"
	Method          string `json:"method"` // the HTTP verb: GET, POST, PUT or DELETE
	Name            string `json:"name,omitempty"`
	Description     string `json:"description,omitempty"` // only in a user's own file
	Protected       bool   `json:"protected,omitempty"`   // runs in the privileged daemon
	ProxyTo         string `json:"proxyto,omitempty"`     // the parameter naming the node that answers
	NoToken         bool   `json:"notoken,omitempty"`     // refuses API tokens
	DownloadAllowed bool   `json:"download_allowed,omitempty"`

	// Stream is "upload" or "download" where the body of the request or of the
	// answer is not JSON; PBS and PDM give such an operation the method UPLOAD
	// (sent as POST) or DOWNLOAD (sent as GET).
	Stream string `json:"stream,omitempty"`

	// ExposeCredentials is set when the server hands the caller's own ticket
	// or token on to the code that answers.
	ExposeCredentials bool `json:"expose_credentials,omitempty"`
	Unstable          bool `json:"unstable,omitempty"` // may change without notice

	Permissions *Permissions `json:"permissions,omitempty"`
	Parameters  *Schema      `json:"parameters,omitempty"` // an object schema, path parameters included
	Returns     *Schema      `json:"returns,omitempty"`    // without a type where nothing is known
}

// Permissions tell who may call an operation.
type Permissions struct {
	User  string `json:"user,omitempty"`  // "world", "all", or a user such as "root@pam"
	Check *Check `json:"check,omitempty"` // nil: nothing beyond User
	Prose bool   `json:"prose,omitempty"` // the description has conditions that no check expresses
}

// A Check is a node of a permission expression.
type Check struct {
	// Op is "and" or "or" over Checks; "perm" for Privs on Path; "user" for
	// being the user named in Path ("root@pam", or "{userid}" for the one whom
	// that parameter names; also "all" and "world"); "group" for being in the
	// group named in Path; "role" for having one of the fixed roles in Args;
	// or one of PVE's special checks:
	// "userid-param" (Args "self", or Privs: on the realm of parameter userid),
	// "userid-group" (Privs on a group of that user, Args such as
	// "groups_param", "create") and "perm-modify" (may change rights on Path).
	Op           string   `json:"op"`
	Path         string   `json:"path,omitempty"` // "/vms/{vmid}"
	Privs        []string `json:"privs,omitempty"`
	Any          bool     `json:"any,omitempty"`          // one of Privs is enough
	RequireParam string   `json:"requireParam,omitempty"` // counts only when this parameter is given
	Args         []string `json:"args,omitempty"`         // further words of a special check
	Checks       []*Check `json:"checks,omitempty"`
}

// A Schema describes a value: a parameter, a result or a part of one.
type Schema struct {
	Type        string `json:"type,omitempty"` // string, integer, number, boolean, array, object, null, any, or "" when unknown
	Optional    bool   `json:"optional,omitempty"`
	Description string `json:"description,omitempty"` // only in a user's own file

	// Properties are the members of an object. A name that ends in "[n]"
	// stands for an indexed family: net0, net1, and so on.
	Properties map[string]*Schema `json:"properties,omitempty"`
	Items      *Schema            `json:"items,omitempty"`

	// NoAdditional is set when keys beyond Properties are refused; Additional
	// is the schema of such keys where there is one.
	NoAdditional bool    `json:"noAdditional,omitempty"`
	Additional   *Schema `json:"additional,omitempty"`

	// OneOf lists variants. TypeProperty names the property that tells which:
	// a sibling of the value in PVE, a member of the value in PDM, which gives
	// that property's schema in TypeSchema. InstanceTypes are the values of it
	// that select this variant or, on a property, allow it.
	OneOf         []*Schema `json:"oneOf,omitempty"`
	TypeProperty  string    `json:"typeProperty,omitempty"`
	TypeSchema    *Schema   `json:"typeSchema,omitempty"`
	InstanceTypes []string  `json:"instanceTypes,omitempty"`

	Enum      []string        `json:"enum,omitempty"`
	Default   json.RawMessage `json:"default,omitempty"` // a literal of the schema's type; prose is dropped
	Minimum   json.Number     `json:"minimum,omitempty"`
	Maximum   json.Number     `json:"maximum,omitempty"`
	MinLength *int            `json:"minLength,omitempty"`
	MaxLength *int            `json:"maxLength,omitempty"`
	Pattern   string          `json:"pattern,omitempty"` // as the server wrote it: Perl's or Rust's syntax

	// Format is a format's name. A property string has FormatSchema instead or
	// besides: an object for "key=value,…", an array for "a,b,c". Where a file
	// only names the format, the schema is read from its typetext.
	Format       string  `json:"format,omitempty"`
	FormatSchema *Schema `json:"formatSchema,omitempty"`

	// Within a FormatSchema: the key that may be left out, another spelling of
	// a key, and the key whose name is the value: net0's "virtio=<MAC>" means
	// model=virtio,macaddr=<MAC>, which the property "virtio" says by KeyAlias
	// "model" and Alias "macaddr".
	DefaultKey bool   `json:"defaultKey,omitempty"`
	Alias      string `json:"alias,omitempty"`
	KeyAlias   string `json:"keyAlias,omitempty"`

	// MaxIndex is the greatest index of an indexed family ("net[n]"), where
	// the file says so by writing the members out.
	MaxIndex *int `json:"maxIndex,omitempty"`

	Typetext string   `json:"typetext,omitempty"` // kept where it is the only grammar of a property string and no schema can be read from it
	Requires string   `json:"requires,omitempty"` // another parameter that must be given too
	Renderer string   `json:"renderer,omitempty"` // bytes, duration, timestamp, fraction_as_percentage, …
	Links    []string `json:"links,omitempty"`    // href of each child link
}
