package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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
	a := &arguments{method: req.Method, raw: req.Arguments}
	var do invoke
	switch req.Method {
	case "info":
		a.count(0, 0)
		do = func(ctx context.Context, h Handler) (any, error) { return h.Info(ctx) }
	case "create_stemcell":
		// The third argument came with version 3 of the API.
		if req.APIVersion >= 3 {
			a.count(2, 3)
		} else {
			a.count(2, 2)
		}
		path := a.text(0, "image_path")
		props := a.object(1, "cloud_properties")
		var env json.RawMessage
		if len(a.raw) > 2 {
			env = a.object(2, "env")
		}
		do = func(ctx context.Context, h Handler) (any, error) {
			return h.CreateStemcell(ctx, path, props, env)
		}
	case "delete_stemcell":
		a.count(1, 1)
		cid := StemcellCID(a.text(0, "stemcell_cid"))
		do = func(ctx context.Context, h Handler) (any, error) { return nil, h.DeleteStemcell(ctx, cid) }
	case "create_vm":
		a.count(6, 6)
		r := CreateVMRequest{
			AgentID:         a.text(0, "agent_id"),
			Stemcell:        StemcellCID(a.text(1, "stemcell_cid")),
			CloudProperties: a.object(2, "cloud_properties"),
			Networks:        a.networks(3, "networks"),
			Disks:           a.disks(4, "disk_cids"),
			Env:             a.object(5, "env"),
		}
		do = func(ctx context.Context, h Handler) (any, error) {
			cid, networks, err := h.CreateVM(ctx, r)
			if err != nil {
				return nil, err
			}
			return []any{cid, networks}, nil
		}
	case "delete_vm":
		a.count(1, 1)
		cid := VMCID(a.text(0, "vm_cid"))
		do = func(ctx context.Context, h Handler) (any, error) { return nil, h.DeleteVM(ctx, cid) }
	case "has_vm":
		a.count(1, 1)
		cid := VMCID(a.text(0, "vm_cid"))
		do = func(ctx context.Context, h Handler) (any, error) { return h.HasVM(ctx, cid) }
	case "reboot_vm":
		a.count(1, 1)
		cid := VMCID(a.text(0, "vm_cid"))
		do = func(ctx context.Context, h Handler) (any, error) { return nil, h.RebootVM(ctx, cid) }
	case "set_vm_metadata":
		a.count(2, 2)
		cid, meta := VMCID(a.text(0, "vm_cid")), a.metadata(1, "metadata")
		do = func(ctx context.Context, h Handler) (any, error) { return nil, h.SetVMMetadata(ctx, cid, meta) }
	case "calculate_vm_cloud_properties":
		a.count(1, 1)
		want := a.resources(0, "vm_resources")
		do = func(ctx context.Context, h Handler) (any, error) { return h.CalculateVMCloudProperties(ctx, want) }
	case "create_disk":
		a.count(2, 3)
		size, props := a.size(0, "size"), a.object(1, "cloud_properties")
		var vm VMCID
		if len(a.raw) > 2 {
			vm = VMCID(a.optionalText(2, "vm_cid"))
		}
		do = func(ctx context.Context, h Handler) (any, error) { return h.CreateDisk(ctx, size, props, vm) }
	case "delete_disk":
		a.count(1, 1)
		cid := DiskCID(a.text(0, "disk_cid"))
		do = func(ctx context.Context, h Handler) (any, error) { return nil, h.DeleteDisk(ctx, cid) }
	case "has_disk":
		a.count(1, 1)
		cid := DiskCID(a.text(0, "disk_cid"))
		do = func(ctx context.Context, h Handler) (any, error) { return h.HasDisk(ctx, cid) }
	case "attach_disk":
		a.count(2, 2)
		vm, disk := VMCID(a.text(0, "vm_cid")), DiskCID(a.text(1, "disk_cid"))
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
		a.count(2, 2)
		vm, disk := VMCID(a.text(0, "vm_cid")), DiskCID(a.text(1, "disk_cid"))
		do = func(ctx context.Context, h Handler) (any, error) { return nil, h.DetachDisk(ctx, vm, disk) }
	case "get_disks":
		a.count(1, 1)
		vm := VMCID(a.text(0, "vm_cid"))
		do = func(ctx context.Context, h Handler) (any, error) {
			disks, err := h.GetDisks(ctx, vm)
			if disks == nil {
				disks = []DiskCID{}
			}
			return disks, err
		}
	case "resize_disk":
		a.count(2, 2)
		cid, size := DiskCID(a.text(0, "disk_cid")), a.size(1, "new_size")
		do = func(ctx context.Context, h Handler) (any, error) { return nil, h.ResizeDisk(ctx, cid, size) }
	case "update_disk":
		a.count(3, 3)
		cid, size, props := DiskCID(a.text(0, "disk_cid")), a.size(1, "new_size"), a.object(2, "cloud_properties")
		do = func(ctx context.Context, h Handler) (any, error) {
			changed, err := h.UpdateDisk(ctx, cid, size, props)
			if err != nil || changed == "" {
				return nil, err
			}
			return changed, nil
		}
	case "set_disk_metadata":
		a.count(2, 2)
		cid, meta := DiskCID(a.text(0, "disk_cid")), a.metadata(1, "metadata")
		do = func(ctx context.Context, h Handler) (any, error) { return nil, h.SetDiskMetadata(ctx, cid, meta) }
	case "snapshot_disk":
		a.count(2, 2)
		cid, meta := DiskCID(a.text(0, "disk_cid")), a.metadata(1, "metadata")
		do = func(ctx context.Context, h Handler) (any, error) { return h.SnapshotDisk(ctx, cid, meta) }
	case "delete_snapshot":
		a.count(1, 1)
		cid := SnapshotCID(a.text(0, "snapshot_cid"))
		do = func(ctx context.Context, h Handler) (any, error) { return nil, h.DeleteSnapshot(ctx, cid) }
	case "create_network":
		a.count(1, 1)
		def := a.network(0, "subnet_definition")
		do = func(ctx context.Context, h Handler) (any, error) {
			r, err := h.CreateNetwork(ctx, def)
			if err != nil {
				return nil, err
			}
			return []any{r.CID, networkAddresses{r.Range, r.Gateway, orEmpty(r.Reserved)}, orEmptyMap(r.CloudProperties)}, nil
		}
	case "delete_network":
		a.count(1, 1)
		cid := NetworkCID(a.text(0, "network_cid"))
		do = func(ctx context.Context, h Handler) (any, error) { return nil, h.DeleteNetwork(ctx, cid) }
	default:
		return nil, NotImplemented("the CPI has no method %s", quoteShort(req.Method))
	}
	if a.err != nil {
		return nil, a.err
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
	method string
	raw    []json.RawMessage
	err    error
}

func (a *arguments) fail(i int, name, format string, args ...any) {
	if a.err == nil {
		a.err = CloudError("%s: argument %d (%s) %s", a.method, i+1, name, fmt.Sprintf(format, args...))
	}
}

func (a *arguments) count(least, most int) {
	n := len(a.raw)
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
	a.err = CloudError("%s: got %d, expected %s", a.method, n, want)
}

// at returns argument i when it is of the wanted kind.
func (a *arguments) at(i int, name, want string) json.RawMessage {
	if a.err != nil || i >= len(a.raw) {
		return nil
	}
	if kind := kindOf(a.raw[i]); kind != want {
		a.fail(i, name, "must be %s, not %s", want, kind)
		return nil
	}
	return a.raw[i]
}

func (a *arguments) isNull(i int) bool { return i < len(a.raw) && kindOf(a.raw[i]) == kindNull }

func (a *arguments) text(i int, name string) string {
	raw := a.at(i, name, kindString)
	if raw == nil {
		return ""
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		a.fail(i, name, "is not a valid string")
	}
	return s
}

func (a *arguments) optionalText(i int, name string) string {
	if a.isNull(i) {
		return ""
	}
	return a.text(i, name)
}

func (a *arguments) object(i int, name string) json.RawMessage {
	if a.isNull(i) {
		return json.RawMessage("{}")
	}
	return a.at(i, name, kindObject)
}

func (a *arguments) integer(i int, name string, raw json.RawMessage) int64 {
	var n int64
	if err := json.Unmarshal(raw, &n); err == nil {
		return n
	}
	// Some JSON writers render a whole number as 1024.0.
	f, err := strconv.ParseFloat(string(bytes.TrimSpace(raw)), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		a.fail(i, name, "must be a whole number")
		return 0
	}
	return int64(f)
}

// maxMiB keeps a size in bytes within an int64 with room for sums.
const maxMiB = 1 << 40

func (a *arguments) size(i int, name string) int64 {
	raw := a.at(i, name, kindNumber)
	if raw == nil {
		return 0
	}
	n := a.integer(i, name, raw)
	if a.err == nil && (n <= 0 || n > maxMiB) {
		a.fail(i, name, "must be a size in MiB above 0, not %d", n)
	}
	return n
}

func (a *arguments) disks(i int, name string) []DiskCID {
	if a.isNull(i) {
		return nil
	}
	raw := a.at(i, name, kindArray)
	if raw == nil {
		return nil
	}
	var list []json.RawMessage
	_ = json.Unmarshal(raw, &list)
	var out []DiskCID
	for _, e := range list {
		var s string
		if kindOf(e) != kindString || json.Unmarshal(e, &s) != nil {
			a.fail(i, name, "must be an array of strings, but holds %s", kindOf(e))
			return nil
		}
		out = append(out, DiskCID(s))
	}
	return out
}

func (a *arguments) networks(i int, name string) Networks {
	raw := a.at(i, name, kindObject)
	if raw == nil {
		return nil
	}
	var ns Networks
	if err := ns.UnmarshalJSON(raw); err != nil {
		a.fail(i, name, "is not usable: %v", err)
	}
	return ns
}

func (a *arguments) metadata(i int, name string) Metadata {
	raw := a.at(i, name, kindObject)
	if raw == nil {
		return nil
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(raw, &values); err != nil {
		a.fail(i, name, "cannot be read")
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

func (a *arguments) resources(i int, name string) VMResources {
	raw := a.at(i, name, kindObject)
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
			a.fail(i, name, "needs the number %q, which is %s", f.key, kind)
			return VMResources{}
		}
		*f.target = a.integer(i, name+"."+f.key, v)
		if a.err == nil && *f.target <= 0 {
			a.fail(i, name, "needs %q above 0, not %d", f.key, *f.target)
		}
	}
	return out
}

func (a *arguments) network(i int, name string) NetworkDefinition {
	raw := a.at(i, name, kindObject)
	if raw == nil {
		return NetworkDefinition{}
	}
	var def NetworkDefinition
	if err := json.Unmarshal(raw, &def); err != nil {
		a.fail(i, name, "has a value of the wrong type")
	}
	if k := kindOf(def.CloudProperties); k == "" || k == kindNull {
		def.CloudProperties = json.RawMessage("{}")
	}
	return def
}
