package cpi

import (
	"bytes"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve"
)

// Config is everything the CPI must be told. It comes from one JSON file, from
// the context of the request (the properties of an entry in the cpi-config), or
// from both: a key in the context takes the place of the same key in the file,
// and everything may come from the context alone. Unknown keys are refused.
//
//	key               type              default          meaning
//	endpoint          string or list    required         address of the API, "pve1.example.com" or "https://pve1.example.com:8006"; of several the first that answers is used
//	token             string            required         API token, "user@realm!id=secret"; or in two keys:
//	token_id          string                             "user@realm!id"
//	token_secret      string                             the secret by itself
//	ca_certificate    string            system's own     PEM certificates that the server's certificate is checked with
//	fingerprint       string            none             SHA-256 of the server's certificate, instead of a CA
//	storage           string or list    required         where root and ephemeral disks go, in order of preference
//	disk_storage      string or list    storage          where persistent disks go, in order of preference
//	iso_storage       string            found            where the agent's settings are kept; needs content "iso"
//	import_storage    string            found            where stemcell images pass through; needs content "import"
//	pool              string            none             resource pool of everything the CPI makes
//	nodes             list              all              nodes that may hold VMs
//	bridge            string            "vmbr0"          bridge of networks that name none
//	model             string            "virtio"         NIC model of networks that name none
//	cpu_type          string            "x86-64-v2-AES"  CPU model of VMs; "host" for nested virtualisation
//	start_on_boot     boolean           false            whether VMs start with their node
//	tags              map of strings    none             extra tags for VMs and disks
//	agent.mbus        string            from the env     message bus of the agent, "https://user:password@0.0.0.0:6868" or "nats://…"
//	agent.ntp         list              none             time servers of the agent
//	agent.blobstore   object            from the env     blobstore of the agent
//	lock_dir          string            in TMPDIR        directory of the locks and notes that the CPI processes of one user share
//	node_concurrency  integer           3                how many changes the CPI makes at once on one node
//	request_timeout   integer, seconds  120              limit for one API request, uploads excepted
//	call_timeout      integer, seconds  3600             limit for one CPI call
//
// A dot in a key means nesting: agent.mbus is {"agent": {"mbus": "…"}}. "Found"
// means: the first of storage that allows the content, else the first storage that
// does; [Privileges] cannot know which that is. An endpoint that is a bare host
// gets https and port 8006; a URL without a port has the port of its scheme.
type Config struct {
	Endpoints       []string
	TokenID         string
	TokenSecret     string
	CACertificate   string
	Fingerprint     string
	Storage         []string
	DiskStorage     []string
	ISOStorage      string
	ImportStorage   string
	Pool            string
	Nodes           []string
	Bridge          string
	Model           string
	CPUType         string
	StartOnBoot     bool
	Tags            map[string]string
	Agent           AgentConfig
	LockDir         string
	NodeConcurrency int
	RequestTimeout  time.Duration
	CallTimeout     time.Duration
}

// AgentConfig holds the settings of the agent that are the same for all VMs. What
// the env of a VM says about the same subject wins in the agent.
type AgentConfig struct {
	MBus string
	NTP  []string
	// Blobstore is a JSON object, or nil.
	Blobstore json.RawMessage
}

const configPlace = "the CPI configuration"

// LoadConfig reads the configuration from the file at path, overlays the
// properties of the request's context, and checks the outcome. An empty path
// means that everything comes from the context.
func LoadConfig(path string, properties map[string]json.RawMessage) (Config, error) {
	if path == "" {
		return parseConfig("", nil, properties)
	}
	file, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Config{}, fmt.Errorf("%s: there is no file %s: check -configFile", configPlace, path)
	case err != nil:
		return Config{}, fmt.Errorf("%s: %w", configPlace, err)
	case len(bytes.TrimSpace(file)) == 0:
		return Config{}, fmt.Errorf("%s: the file %s is empty", configPlace, path)
	}
	return parseConfig("the file "+path, file, properties)
}

// ParseConfig is [LoadConfig] for a file that has been read. With no file,
// everything comes from the properties.
func ParseConfig(file []byte, properties map[string]json.RawMessage) (Config, error) {
	return parseConfig("the file", file, properties)
}

func parseConfig(name string, file []byte, properties map[string]json.RawMessage) (Config, error) {
	c := Config{
		Bridge:          "vmbr0",
		Model:           "virtio",
		CPUType:         "x86-64-v2-AES",
		LockDir:         filepath.Join(os.TempDir(), fmt.Sprintf("proxmox-cpi-locks-%d", os.Getuid())),
		NodeConcurrency: 3,
		RequestTimeout:  2 * time.Minute,
		CallTimeout:     time.Hour,
	}
	if len(file) > 0 {
		if err := json.Unmarshal(file, new(json.RawMessage)); err != nil {
			return Config{}, fmt.Errorf("%s: %s is not valid JSON: %w", configPlace, name, syntaxOnly(err))
		}
		if key := doubledKey(file); key != "" {
			return Config{}, &KeyError{Place: configPlace, Key: key, Problem: "stands twice in " + name + ": remove one of the two"}
		}
		r := newConfigReader(configPlace, file)
		c.read(r)
		if err := r.finish(); err != nil {
			return Config{}, err
		}
	}
	r := newConfigReader("the context of the request", nil)
	r.fields = maps.Clone(properties)
	c.read(r)
	// The context is not ours alone: a later Director may add keys to it. Only
	// what looks like a slip of the pen is refused.
	for _, key := range sortedKeys(r.fields) {
		if r.knows(key) {
			continue
		}
		if hint := r.nesting(key); hint != "" {
			r.fail(key, "unknown key: %s", hint)
		} else if near := nearest(key, r.asked); near != "" {
			r.fail(key, "unknown key: did you mean %q?", near)
		}
		delete(r.fields, key)
	}
	if err := r.finish(); err != nil {
		return Config{}, err
	}
	if len(c.DiskStorage) == 0 {
		c.DiskStorage = c.Storage
	}
	return c, c.check()
}

// syntaxOnly keeps the place of a JSON error and drops what the text held there.
func syntaxOnly(err error) error {
	var s *json.SyntaxError
	if errors.As(err, &s) {
		return fmt.Errorf("the error is at byte %d", s.Offset)
	}
	return errors.New("it cannot be read")
}

func newConfigReader(place string, raw json.RawMessage) *objectReader {
	r := newObjectReader(place, raw)
	r.secret = map[string]bool{"token": true, "token_id": true, "token_secret": true, "ca_certificate": true, "agent": true}
	return r
}

// read takes over what r has and leaves the rest as it is.
func (c *Config) read(r *objectReader) {
	set(&c.Endpoints, r.endpoints("endpoint"))
	token, id, secret := r.text("token"), r.text("token_id"), r.text("token_secret")
	switch {
	case token != "" && (id != "" || secret != ""):
		r.fail("token", "stands beside token_id or token_secret: give the token in one key or in two, not both")
	case token != "":
		var ok bool
		if c.TokenID, c.TokenSecret, ok = strings.Cut(token, "="); !ok || c.TokenSecret == "" {
			r.fail("token", `must be of the form "user@realm!id=secret"`)
		}
	default:
		setText(&c.TokenID, id)
		setText(&c.TokenSecret, secret)
	}
	setText(&c.CACertificate, r.text("ca_certificate"))
	setText(&c.Fingerprint, r.text("fingerprint"))
	set(&c.Storage, r.names("storage", true))
	set(&c.DiskStorage, r.names("disk_storage", true))
	setText(&c.ISOStorage, r.name("iso_storage"))
	setText(&c.ImportStorage, r.name("import_storage"))
	setText(&c.Pool, r.pool("pool"))
	set(&c.Nodes, r.names("nodes", false))
	setText(&c.Bridge, r.name("bridge"))
	setText(&c.Model, r.choice("model", nicModels()...))
	setText(&c.CPUType, r.name("cpu_type"))
	if v := r.boolean("start_on_boot"); v != nil {
		c.StartOnBoot = *v
	}
	if v := r.tags("tags"); v != nil {
		c.Tags = v
	}
	agent := r.object("agent")
	agent.secret = map[string]bool{"mbus": true, "blobstore": true}
	setText(&c.Agent.MBus, agent.mbus("mbus"))
	set(&c.Agent.NTP, agent.servers("ntp"))
	if raw := agent.take("blobstore"); raw != nil {
		if jsonKind(raw) != "an object" {
			agent.fail("blobstore", "must be an object, got %s", jsonKind(raw))
		}
		c.Agent.Blobstore = raw
	}
	agent.refuseUnknown()
	setText(&c.LockDir, r.text("lock_dir"))
	if v := r.integer("node_concurrency", 1, 64); v != nil {
		c.NodeConcurrency = int(*v)
	}
	if v := r.integer("request_timeout", 1, 3600); v != nil {
		c.RequestTimeout = time.Duration(*v) * time.Second
	}
	if v := r.integer("call_timeout", 1, 24*3600); v != nil {
		c.CallTimeout = time.Duration(*v) * time.Second
	}
	r.later("anti_affinity", "ha")
}

func set[T any](target *[]T, v []T) {
	if len(v) > 0 {
		*target = v
	}
}

func setText(target *string, v string) {
	if v != "" {
		*target = v
	}
}

// endpoints reads one or several addresses.
func (r *objectReader) endpoints(key string) []string {
	var out []string
	for _, s := range r.strings(key) {
		if s == "" {
			continue
		}
		_, err := pve.NewClient(s)
		switch {
		case strings.Contains(s, "@"):
			// Not shown: what stands before the @ may be a password.
			r.fail(key, "must not hold a user or a password: use token")
		case strings.HasPrefix(strings.ToLower(strings.TrimSpace(s)), "http://"):
			r.fail(key, "must begin with https://, because the token is sent to it, got %q", s)
		case err != nil:
			why := err.Error()
			if _, after, ok := strings.Cut(why, strconv.Quote(s)+": "); ok {
				why = after
			}
			r.fail(key, `must be an address such as "pve1.example.com" or "https://pve1.example.com:8006", got %q: %s`, s, why)
		default:
			out = append(out, s)
		}
	}
	return out
}

// mbus reads the address of the agent's message bus, which holds a password.
func (r *objectReader) mbus(key string) string {
	s := r.text(key)
	if s == "" {
		return ""
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || !slices.Contains([]string{"https", "nats"}, u.Scheme) {
		r.fail(key, `must be a URL that begins with https:// or nats://, such as "https://user:password@0.0.0.0:6868"; it is not shown here, as it may hold a password`)
		return ""
	}
	return s
}

// servers reads one or several host names or addresses.
func (r *objectReader) servers(key string) []string {
	var out []string
	for _, s := range r.strings(key) {
		if strings.TrimSpace(s) != "" {
			out = append(out, strings.TrimSpace(s))
		}
	}
	return out
}

// strings reads a string or an array of strings.
func (r *objectReader) strings(key string) []string {
	raw := r.take(key)
	if raw == nil {
		return nil
	}
	var list []string
	switch jsonKind(raw) {
	case "a string":
		list = make([]string, 1)
		if json.Unmarshal(raw, &list[0]) == nil {
			return list
		}
	case "an array":
		if json.Unmarshal(raw, &list) == nil {
			return list
		}
	}
	r.fail(key, "must be a string or a list of strings, got %s", jsonKind(raw))
	return nil
}

// check finds what is missing or cannot be right.
func (c *Config) check() error {
	r := newObjectReader(configPlace, nil)
	const missing = "is missing: set it in the file given with -configFile or in the cpi-config: "
	if len(c.Endpoints) == 0 {
		r.fail("endpoint", missing+`the address of the API, such as "https://pve1.example.com:8006"`)
	}
	switch user, id, ok := strings.Cut(c.TokenID, "!"); {
	case c.TokenID == "" && c.TokenSecret == "":
		r.fail("token", missing+`an API token of the form "user@realm!id=secret"`)
	case c.TokenID == "":
		r.fail("token_id", missing+`the name of the token, of the form "user@realm!id"`)
	case !ok || id == "" || !strings.Contains(user, "@"):
		r.fail("token_id", `the name of a token has the form "user@realm!id"`)
	case c.TokenSecret == "":
		r.fail("token_secret", missing+"the secret that was shown when the token was made")
	}
	if len(c.Storage) == 0 {
		r.fail("storage", missing+"the storage, or a list of storages, for the disks of VMs")
	}
	if c.CACertificate != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(c.CACertificate)) {
		r.fail("ca_certificate", "holds no certificate: give PEM, beginning with -----BEGIN CERTIFICATE-----")
	}
	if c.Fingerprint != "" {
		if raw, err := hex.DecodeString(strings.ReplaceAll(c.Fingerprint, ":", "")); err != nil || len(raw) != 32 {
			r.fail("fingerprint", "must be the SHA-256 of the server's certificate: 64 hexadecimal digits, with or without colons")
		}
	}
	return r.finish()
}

// Secrets returns the values that must never appear in a log, for
// [rpc.Call.Secret].
func (c *Config) Secrets() []string {
	out := []string{c.TokenSecret}
	if c.Agent.MBus != "" {
		out = append(out, c.Agent.MBus)
	}
	return append(out, rpc.Leaves(c.Agent.Blobstore, "provider")...)
}
