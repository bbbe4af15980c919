package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// A Call is one request as its handler sees it.
type Call struct {
	Method     string
	Context    Context
	APIVersion int
	// Log collects lines for the response.
	Log *Log
	// Stderr is standard error, or whatever Serve was given for it, with every
	// registered secret masked. It passes on whole lines.
	Stderr io.Writer

	secrets Redactor
}

// Secret registers values that must not appear in the response or on standard
// error. See [Redactor.Add].
func (c *Call) Secret(values ...string) { c.secrets.Add(values...) }

// Mask returns text with every registered secret masked.
func (c *Call) Mask(text string) string { return c.secrets.Mask(text) }

// invoke is a method with its arguments bound.
type invoke func(ctx context.Context, h Handler) (any, error)

// bind checks the arguments of a request and returns the call they make. It
// needs no handler, so a request that makes no sense is refused before any
// configuration is read.
func bind(req *Request) (invoke, error) {
	a := &arguments{raw: req.Arguments}
	var do invoke
	switch req.Method {
	case "info":
		a.expect(0)
		do = func(ctx context.Context, h Handler) (any, error) { return h.Info(ctx) }
	case "create_stemcell":
		// The third argument came with version 3 of the API.
		if req.APIVersion >= 3 {
			a.expect(2, "image_path", "cloud_properties", "env")
		} else {
			a.expect(2, "image_path", "cloud_properties")
		}
		path := a.text(0)
		props := a.object(1)
		var env json.RawMessage
		if len(a.raw) > 2 {
			env = a.object(2)
		}
		do = func(ctx context.Context, h Handler) (any, error) {
			return h.CreateStemcell(ctx, path, props, env)
		}
	case "delete_stemcell":
		a.expect(1, "stemcell_cid")
		cid := StemcellCID(a.text(0))
		do = func(ctx context.Context, h Handler) (any, error) { return nil, h.DeleteStemcell(ctx, cid) }
	case "create_vm":
		a.expect(6, "agent_id", "stemcell_cid", "cloud_properties", "networks", "disk_cids", "env")
		r := CreateVMRequest{
			AgentID:         a.text(0),
			Stemcell:        StemcellCID(a.text(1)),
			CloudProperties: a.object(2),
			Networks:        a.networks(3),
			Disks:           a.disks(4),
			Env:             a.object(5),
		}
		do = func(ctx context.Context, h Handler) (any, error) {
			cid, networks, err := h.CreateVM(ctx, r)
			if err != nil {
				return nil, err
			}
			return []any{cid, networks}, nil
		}
	case "delete_vm":
		a.expect(1, "vm_cid")
		cid := VMCID(a.text(0))
		do = func(ctx context.Context, h Handler) (any, error) { return nil, h.DeleteVM(ctx, cid) }
	case "has_vm":
		a.expect(1, "vm_cid")
		cid := VMCID(a.text(0))
		do = func(ctx context.Context, h Handler) (any, error) { return h.HasVM(ctx, cid) }
	case "reboot_vm":
		a.expect(1, "vm_cid")
		cid := VMCID(a.text(0))
		do = func(ctx context.Context, h Handler) (any, error) { return nil, h.RebootVM(ctx, cid) }
	case "set_vm_metadata":
		a.expect(2, "vm_cid", "metadata")
		cid, meta := VMCID(a.text(0)), a.metadata(1)
		do = func(ctx context.Context, h Handler) (any, error) { return nil, h.SetVMMetadata(ctx, cid, meta) }
	case "calculate_vm_cloud_properties":
		a.expect(1, "vm_resources")
		want := a.resources(0)
		do = func(ctx context.Context, h Handler) (any, error) { return h.CalculateVMCloudProperties(ctx, want) }
	case "create_disk":
		a.expect(2, "size", "cloud_properties", "vm_cid")
		size, props := a.size(0), a.object(1)
		var vm VMCID
		if len(a.raw) > 2 {
			vm = VMCID(a.optionalText(2))
		}
		do = func(ctx context.Context, h Handler) (any, error) { return h.CreateDisk(ctx, size, props, vm) }
	case "delete_disk":
		a.expect(1, "disk_cid")
		cid := DiskCID(a.text(0))
		do = func(ctx context.Context, h Handler) (any, error) { return nil, h.DeleteDisk(ctx, cid) }
	case "has_disk":
		a.expect(1, "disk_cid")
		cid := DiskCID(a.text(0))
		do = func(ctx context.Context, h Handler) (any, error) { return h.HasDisk(ctx, cid) }
	case "attach_disk":
		a.expect(2, "vm_cid", "disk_cid")
		vm, disk := VMCID(a.text(0)), DiskCID(a.text(1))
		do = func(ctx context.Context, h Handler) (any, error) {
			hint, err := h.AttachDisk(ctx, vm, disk)
			if err == nil && len(hint) == 0 {
				// The Director refuses an empty hint with an error of its own that
				// explains nothing.
				err = CpiError("attach_disk gave no hint for disk %s", disk)
			}
			return hint, err
		}
	case "detach_disk":
		a.expect(2, "vm_cid", "disk_cid")
		vm, disk := VMCID(a.text(0)), DiskCID(a.text(1))
		do = func(ctx context.Context, h Handler) (any, error) { return nil, h.DetachDisk(ctx, vm, disk) }
	case "get_disks":
		a.expect(1, "vm_cid")
		vm := VMCID(a.text(0))
		do = func(ctx context.Context, h Handler) (any, error) {
			disks, err := h.GetDisks(ctx, vm)
			if disks == nil {
				disks = []DiskCID{}
			}
			return disks, err
		}
	case "resize_disk":
		a.expect(2, "disk_cid", "new_size")
		cid, size := DiskCID(a.text(0)), a.size(1)
		do = func(ctx context.Context, h Handler) (any, error) { return nil, h.ResizeDisk(ctx, cid, size) }
	case "update_disk":
		a.expect(3, "disk_cid", "new_size", "cloud_properties")
		cid, size, props := DiskCID(a.text(0)), a.size(1), a.object(2)
		do = func(ctx context.Context, h Handler) (any, error) {
			changed, err := h.UpdateDisk(ctx, cid, size, props)
			if err != nil || changed == "" {
				return nil, err
			}
			return changed, nil
		}
	case "set_disk_metadata":
		a.expect(2, "disk_cid", "metadata")
		cid, meta := DiskCID(a.text(0)), a.metadata(1)
		do = func(ctx context.Context, h Handler) (any, error) { return nil, h.SetDiskMetadata(ctx, cid, meta) }
	case "snapshot_disk":
		a.expect(2, "disk_cid", "metadata")
		cid, meta := DiskCID(a.text(0)), a.metadata(1)
		do = func(ctx context.Context, h Handler) (any, error) { return h.SnapshotDisk(ctx, cid, meta) }
	case "delete_snapshot":
		a.expect(1, "snapshot_cid")
		cid := SnapshotCID(a.text(0))
		do = func(ctx context.Context, h Handler) (any, error) { return nil, h.DeleteSnapshot(ctx, cid) }
	case "create_network":
		a.expect(1, "subnet_definition")
		def := a.network(0)
		do = func(ctx context.Context, h Handler) (any, error) {
			r, err := h.CreateNetwork(ctx, def)
			if err != nil {
				return nil, err
			}
			return []any{r.CID, networkAddresses{r.Range, r.Gateway, orEmpty(r.Reserved)}, orEmptyMap(r.CloudProperties)}, nil
		}
	case "delete_network":
		a.expect(1, "network_cid")
		cid := NetworkCID(a.text(0))
		do = func(ctx context.Context, h Handler) (any, error) { return nil, h.DeleteNetwork(ctx, cid) }
	default:
		return nil, NotImplemented("the CPI has no method %s", quoteShort(req.Method))
	}
	if a.err != nil {
		return nil, inMethod(req.Method, a.err)
	}
	return do, nil
}

type networkAddresses struct {
	Range    string   `json:"range"`
	Gateway  string   `json:"gateway"`
	Reserved []string `json:"reserved"`
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func orEmptyMap(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

// quoteShort quotes a name that came from outside for use in a message.
func quoteShort(name string) string { return strconv.Quote(shorten(name, 80)) }

// arguments reads the positional arguments of a call. The first problem sticks.
// No message quotes a value: arguments hold secrets.
type arguments struct {
	raw   []json.RawMessage
	names []string
	err   error
}

func (a *arguments) fail(i int, format string, args ...any) {
	if a.err == nil {
		a.err = CloudError("argument %d (%s) %s", i+1, a.names[i], fmt.Sprintf(format, args...))
	}
}

// expect says how the arguments of the method are called, and how many of them
// there must be at least.
func (a *arguments) expect(least int, names ...string) {
	a.names = names
	n, most := len(a.raw), len(names)
	if n >= least && n <= most {
		return
	}
	want := strconv.Itoa(least)
	if most != least {
		want += " or " + strconv.Itoa(most)
	}
	if most == 1 {
		want += " argument"
	} else {
		want += " arguments"
	}
	if most > 0 {
		want += " (" + strings.Join(names, ", ") + ")"
	}
	a.err = CloudError("got %d, expected %s", n, want)
}

// at returns argument i when it is of the wanted kind.
func (a *arguments) at(i int, want string) json.RawMessage {
	if a.err != nil || i >= len(a.raw) {
		return nil
	}
	if kind := kindOf(a.raw[i]); kind != want {
		a.fail(i, "must be %s, not %s", want, kind)
		return nil
	}
	return a.raw[i]
}

func (a *arguments) isNull(i int) bool { return i < len(a.raw) && kindOf(a.raw[i]) == kindNull }

func (a *arguments) text(i int) string {
	raw := a.at(i, kindString)
	if raw == nil {
		return ""
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		a.fail(i, "is not a valid string")
	}
	return s
}

func (a *arguments) optionalText(i int) string {
	if a.isNull(i) {
		return ""
	}
	return a.text(i)
}

func (a *arguments) object(i int) json.RawMessage {
	if a.isNull(i) {
		return json.RawMessage("{}")
	}
	return a.at(i, kindObject)
}

func (a *arguments) integer(i int, raw json.RawMessage) int64 {
	var n int64
	if err := json.Unmarshal(raw, &n); err == nil {
		return n
	}
	// Some JSON writers render a whole number as 1024.0.
	f, err := strconv.ParseFloat(string(bytes.TrimSpace(raw)), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		a.fail(i, "must be a whole number")
		return 0
	}
	return int64(f)
}

// maxMiB keeps a size in bytes within an int64 with room for sums.
const maxMiB = 1 << 40

func (a *arguments) size(i int) int64 {
	raw := a.at(i, kindNumber)
	if raw == nil {
		return 0
	}
	n := a.integer(i, raw)
	if a.err == nil && (n <= 0 || n > maxMiB) {
		a.fail(i, "must be a size in MiB above 0, not %d", n)
	}
	return n
}

func (a *arguments) disks(i int) []DiskCID {
	if a.isNull(i) {
		return nil
	}
	raw := a.at(i, kindArray)
	if raw == nil {
		return nil
	}
	var list []json.RawMessage
	_ = json.Unmarshal(raw, &list)
	var out []DiskCID
	for _, e := range list {
		var s string
		if kindOf(e) != kindString || json.Unmarshal(e, &s) != nil {
			a.fail(i, "must be an array of strings, but holds %s", kindOf(e))
			return nil
		}
		out = append(out, DiskCID(s))
	}
	return out
}

func (a *arguments) networks(i int) Networks {
	raw := a.at(i, kindObject)
	if raw == nil {
		return nil
	}
	var ns Networks
	if err := ns.UnmarshalJSON(raw); err != nil {
		a.fail(i, "is not usable: %v", err)
	}
	return ns
}

func (a *arguments) metadata(i int) Metadata {
	raw := a.at(i, kindObject)
	if raw == nil {
		return nil
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(raw, &values); err != nil {
		a.fail(i, "cannot be read")
		return nil
	}
	out := make(Metadata, len(values))
	for k, v := range values {
		var s string
		switch kindOf(v) {
		case kindNull:
		case kindString:
			_ = json.Unmarshal(v, &s)
		default:
			s = strings.TrimSpace(string(v))
		}
		out[k] = s
	}
	return out
}

func (a *arguments) resources(i int) VMResources {
	raw := a.at(i, kindObject)
	if raw == nil {
		return VMResources{}
	}
	var values map[string]json.RawMessage
	_ = json.Unmarshal(raw, &values)
	var out VMResources
	for _, f := range []struct {
		key    string
		target *int64
	}{{"ram", &out.RAM}, {"cpu", &out.CPU}, {"ephemeral_disk_size", &out.EphemeralDiskSize}} {
		v := values[f.key]
		if kind := kindOf(v); kind != kindNumber {
			if kind == "" {
				kind = "missing"
			}
			a.fail(i, "needs the number %q, which is %s", f.key, kind)
			return VMResources{}
		}
		*f.target = a.integer(i, v)
		if a.err == nil && *f.target <= 0 {
			a.fail(i, "needs %q above 0, not %d", f.key, *f.target)
		}
	}
	return out
}

func (a *arguments) network(i int) NetworkDefinition {
	raw := a.at(i, kindObject)
	if raw == nil {
		return NetworkDefinition{}
	}
	var def NetworkDefinition
	if err := json.Unmarshal(raw, &def); err != nil {
		a.fail(i, "has a value of the wrong type")
	}
	if k := kindOf(def.CloudProperties); k == "" || k == kindNull {
		def.CloudProperties = json.RawMessage("{}")
	}
	return def
}
