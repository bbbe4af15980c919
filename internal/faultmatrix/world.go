package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/proxkit/proxkit/cpi"
	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/internal/testimage"
	"github.com/proxkit/proxkit/pve/pvetest"
)

const (
	gib      = int64(1) << 30
	pool     = "bosh"
	tokenID  = "bosh@pve!cpi"
	director = "dir-a"

	// What must never be seen again.
	tokenSecret  = "5a1ad000-0000-4000-8000-canarytoken1"
	mbusPassword = "canary-mbus-password"
	envSecret    = "canary-env-password"
)

var nodes = []string{"n1", "n2", "n3"}

// The operator's own guests: one that has nothing to do with the CPI, and one that
// was put into its pool and named much like its VMs.
var operatorVMs = map[int]pvetest.VM{
	700: {Node: "n1", Running: true, Config: map[string]string{"name": "database", "tags": "prod", "virtio0": "shared:5", "net0": "virtio=BC:24:11:AA:00:01,bridge=vmbr0", "ide2": "iso:iso/operator.iso,media=cdrom"}},
	701: {Node: "n2", Running: true, Pool: pool, Config: map[string]string{"name": "bosh-k3v5q2m4x6z7", "tags": "bosh;prod", "virtio0": "shared:5"}},
	702: {Node: "n1", Pool: pool, Config: map[string]string{"name": "template", "template": "1", "tags": "bosh", "virtio0": "fast:5"}},
}

// A subject is what the calls of the matrix are about: two VMs, one with a disk,
// a disk that is attached nowhere, and two stemcells, one of which no VM uses.
type subject struct {
	Stemcell, Spare string // the spare one is in nobody's use
	VM, Other       string // VM has Attached, Other has OtherDisk
	Attached        string
	OtherDisk       string
	Free            string
	Images          map[string]string // stemcell images by what they are for
}

// A world is a cluster and the directory of locks of the machine that the CPI
// runs on.
type world struct {
	subject
	srv   *pvetest.Server
	locks string
	dir   string
	cpi   string // program to run for calls that are killed
	limits
}

// limits are the time limits of the CPI, in seconds.
type limits struct{ request, call int }

var (
	// strict is for the call with the fault: some faults last until its end.
	strict = limits{request: 6, call: 20}
	// generous is for the calls on a healed cluster, which a busy machine must not
	// keep from ending.
	generous = limits{request: 60, call: 120}
)

// patience is the longest that a cell may take. A call that is over may have to be
// undone, and others follow it.
const patience = 6 * time.Minute

// newBase makes the world that every cell of the matrix begins with, and leaves
// it in dir.
func newBase(dir string) (subject, error) {
	srv, err := pvetest.New(pvetest.WithNodes(nodes...), pvetest.WithDir(filepath.Join(dir, "cluster")))
	if err != nil {
		return subject{}, err
	}
	defer srv.Close()
	for id, st := range map[string]pvetest.Storage{
		"shared": {Type: "rbd", Size: 400 * gib},
		"fast":   {Type: "lvmthin", Size: 100 * gib},
		"iso":    {Type: "nfs", Content: []string{"iso", "import"}, Size: 100 * gib},
	} {
		if err := srv.AddStorage(id, st); err != nil {
			return subject{}, err
		}
	}
	srv.AddPool(pool)
	srv.AddToken(tokenID, true)
	srv.SetTokenSecret(tokenID, tokenSecret)
	for _, p := range cpi.Privileges(cpi.PrivilegeScope{
		Pool: pool, ImageStorages: []string{"shared", "fast"}, ISOStorage: "iso", ImportStorage: "iso", Bridges: []string{"vmbr0"},
	}) {
		role := "R" + regexp.MustCompile(`[^a-zA-Z0-9]`).ReplaceAllString(p.Path, "-")
		srv.AddRole(role, p.Privileges...)
		srv.SetACL(p.Path, tokenID, role)
		srv.SetACL(p.Path, strings.SplitN(tokenID, "!", 2)[0], role)
	}
	if err := srv.AddVolume("", "iso:iso/operator.iso", []byte("an operator's own ISO")); err != nil {
		return subject{}, err
	}
	for id, vm := range operatorVMs {
		if err := srv.AddVM(id, vm); err != nil {
			return subject{}, err
		}
	}
	w := &world{srv: srv, dir: dir, locks: filepath.Join(dir, "locks"), limits: generous}
	w.Images = map[string]string{}
	for i, name := range []string{"stemcell", "spare", "new"} {
		size := int64(5+i) * gib
		file := filepath.Join(dir, "image-"+name)
		disk := testimage.QCOW2(size, testimage.BootSector(size), 0)
		if err := os.WriteFile(file, testimage.Archive(disk), 0o600); err != nil {
			return subject{}, err
		}
		w.Images[name] = file
	}
	return w.subject, w.populate()
}

// populate makes the subject.
func (w *world) populate() error {
	must := func(target *string, method string, args ...any) error {
		a := w.call(method, args...)
		if a.Error != nil {
			return fmt.Errorf("%s: %s", method, a.Error.Message)
		}
		if target == nil {
			return nil
		}
		var list []json.RawMessage
		result := a.Result
		if json.Unmarshal(result, &list) == nil && len(list) > 0 {
			result = list[0]
		}
		return json.Unmarshal(result, target)
	}
	steps := []func() error{
		func() error { return must(&w.Stemcell, "create_stemcell", w.Images["stemcell"], stemcellProperties) },
		func() error { return must(&w.Spare, "create_stemcell", w.Images["spare"], stemcellProperties) },
		func() error { return must(&w.VM, "create_vm", w.vmArguments("agent-1", smallVM)...) },
		func() error { return must(&w.Other, "create_vm", w.vmArguments("agent-2", smallVM)...) },
		func() error { return must(&w.Attached, "create_disk", 10240, object{}, w.VM) },
		func() error { return must(&w.OtherDisk, "create_disk", 10240, object{}, w.Other) },
		func() error { return must(&w.Free, "create_disk", 10240, object{}, "") },
		func() error { return must(nil, "attach_disk", w.VM, w.Attached) },
		func() error { return must(nil, "attach_disk", w.Other, w.OtherDisk) },
		func() error { return must(nil, "set_vm_metadata", w.VM, object{"job": "web", "deployment": "d"}) },
		func() error { return must(nil, "set_vm_metadata", w.Other, object{"job": "db", "deployment": "d"}) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// openWorld makes a copy of the base in dir.
func openWorld(base, dir string, s subject, program string) (*world, error) {
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(base, "cluster"))); err != nil {
		return nil, err
	}
	w := &world{subject: s, dir: dir, locks: filepath.Join(dir, "locks"), cpi: program, limits: generous}
	if err := os.CopyFS(w.locks, os.DirFS(filepath.Join(base, "locks"))); err != nil {
		return nil, err
	}
	if err := privateTree(w.locks); err != nil {
		return nil, err
	}
	srv, err := pvetest.New(pvetest.WithDir(dir))
	if err != nil {
		return nil, err
	}
	w.srv = srv
	return w, nil
}

// privateTree gives directories the modes that the CPI gave them.
func privateTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return os.Chmod(path, 0o600)
	})
}

func (w *world) close() {
	_ = w.srv.Close()
	_ = os.RemoveAll(w.dir)
}

type object = map[string]any

var (
	stemcellProperties = object{"name": "bosh-openstack-kvm-ubuntu-jammy-go_agent", "version": "1.651"}
	smallVM            = object{"cpu": 1, "ram": 1024, "ephemeral_disk": object{"size": 4096}}
)

func (w *world) vmArguments(agent string, properties object, disks ...string) []any {
	if disks == nil {
		disks = []string{}
	}
	return []any{
		agent, w.Stemcell, properties,
		object{"default": object{
			"type": "manual", "ip": "10.0.0.20", "netmask": "255.255.255.0", "gateway": "10.0.0.1",
			"dns": []string{"10.0.0.2"}, "default": []string{"dns", "gateway"}, "cloud_properties": object{"bridge": "vmbr0"},
		}},
		disks,
		object{"bosh": object{"group": "dir-a-dep-web", "password": envSecret}},
	}
}

// request renders a call as the Director sends it, with the whole configuration
// in the context.
func (w *world) request(method string, args []any) []byte {
	if args == nil {
		args = []any{}
	}
	data, err := json.Marshal(object{
		"method": method, "arguments": args, "api_version": 2,
		"context": object{
			"director_uuid": director, "request_id": "cpi-000001", "vm": object{"stemcell": object{"api_version": 3}},
			"endpoint": w.srv.URL(), "token": tokenID + "=" + tokenSecret, "fingerprint": w.srv.Fingerprint(),
			"storage": "shared", "iso_storage": "iso", "import_storage": "iso", "pool": pool,
			"agent":    object{"mbus": "https://mbus:" + mbusPassword + "@0.0.0.0:6868"},
			"lock_dir": w.locks, "request_timeout": w.limits.request, "call_timeout": w.limits.call,
		},
	})
	if err != nil {
		panic(err) // nothing in there cannot be encoded
	}
	return data
}

// An answer is what came of a call.
type answer struct {
	Result json.RawMessage
	Error  *rpc.ResponseError
	Log    string

	killed bool
	raw    []byte
	stderr []byte
	broken string // what is wrong with its form
	took   time.Duration
}

func (a *answer) ok() bool { return a.Error == nil && !a.killed }

// text returns a result that is a string, or the first of a list.
func (a *answer) text() string {
	var s string
	if json.Unmarshal(a.Result, &s) == nil {
		return s
	}
	var list []json.RawMessage
	if json.Unmarshal(a.Result, &list) == nil && len(list) > 0 {
		_ = json.Unmarshal(list[0], &s)
	}
	return s
}

// call makes a call within this process, from the request's bytes to the
// response's.
func (w *world) call(method string, args ...any) *answer {
	var out, logs bytes.Buffer
	begun := time.Now()
	err := rpc.Serve(context.Background(), cpi.Factory(""), bytes.NewReader(w.request(method, args)), &out, &logs)
	a := readAnswer(out.Bytes(), logs.Bytes())
	if err != nil {
		a.broken = err.Error()
	}
	a.took = time.Since(begun)
	return a
}

// A process is a call that can be killed.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// start makes a call as a process of its own. prepare gets the process before it
// has begun.
func (w *world) start(prepare func(p *process), method string, args ...any) (*answer, error) {
	p := &process{done: make(chan struct{})}
	if w.cpi == "" {
		exe, err := os.Executable()
		if err != nil {
			return nil, err
		}
		p.cmd = exec.Command(exe)
		p.cmd.Env = append(os.Environ(), actAsCPI+"=1")
	} else {
		p.cmd = exec.Command(w.cpi)
	}
	var out, logs bytes.Buffer
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = bytes.NewReader(w.request(method, args)), &out, &logs
	prepare(p)
	begun := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	err := p.cmd.Wait()
	close(p.done)
	a := readAnswer(out.Bytes(), logs.Bytes())
	a.took = time.Since(begun)
	if err != nil {
		a.killed = !p.cmd.ProcessState.Exited()
		if !a.killed {
			a.broken = "the process: " + err.Error()
		}
	}
	return a, nil
}

// kill ends the process as kill -9 does and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// actAsCPI is set in the environment of a process that is to be a CPI.
const actAsCPI = "PROXKIT_FAULTMATRIX_CPI"

// serveCPI is the CPI program, for the processes that a test starts.
func serveCPI() {
	if err := rpc.Serve(context.Background(), cpi.Factory(""), os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// readAnswer reads a response by the Director's rules.
func readAnswer(out, logs []byte) *answer {
	a := &answer{raw: out, stderr: logs}
	if len(bytes.TrimSpace(out)) == 0 {
		a.broken = "no response"
		return a
	}
	dec := json.NewDecoder(bytes.NewReader(out))
	var keys map[string]json.RawMessage
	if err := dec.Decode(&keys); err != nil {
		a.broken = "the response is no JSON object: " + err.Error()
		return a
	}
	if _, err := dec.Token(); err != io.EOF {
		a.broken = "there is more than one document in the response"
		return a
	}
	var response struct {
		Result json.RawMessage    `json:"result"`
		Error  *rpc.ResponseError `json:"error"`
		Log    *string            `json:"log"`
	}
	if err := json.Unmarshal(out, &response); err != nil {
		a.broken = err.Error()
		return a
	}
	a.Result, a.Error = response.Result, response.Error
	if response.Log == nil {
		a.broken = "log is no text"
	} else {
		a.Log = *response.Log
	}
	for _, key := range []string{"result", "error", "log"} {
		if _, ok := keys[key]; !ok {
			a.broken = "the response lacks " + key
		}
	}
	if a.Error != nil && !slices.Contains(knownClasses, a.Error.Type) {
		a.broken = "the Director does not know the class " + string(a.Error.Type)
	}
	return a
}

var knownClasses = []rpc.Class{
	rpc.ClassCpiError, rpc.ClassNotSupported, rpc.ClassNotImplemented, rpc.ClassCloudError, rpc.ClassVMNotFound, rpc.ClassNetworkNotFound,
	rpc.ClassNoDiskSpace, rpc.ClassDiskNotAttached, rpc.ClassDiskNotFound, rpc.ClassVMCreationFailed,
}
