package cpitest_test

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/proxkit/proxkit/cpi/cpitest"
	"github.com/proxkit/proxkit/cpi/rpc"
)

// A liar is a CPI that is the real one but for the methods that are set.
type liar struct {
	rpc.Handler
	createStemcell func(context.Context, string, json.RawMessage, json.RawMessage) (rpc.StemcellCID, error)
	deleteStemcell func(context.Context, rpc.StemcellCID) error
	createVM       func(context.Context, rpc.CreateVMRequest) (rpc.VMCID, rpc.Networks, error)
	deleteVM       func(context.Context, rpc.VMCID) error
	hasVM          func(context.Context, rpc.VMCID) (bool, error)
	rebootVM       func(context.Context, rpc.VMCID) error
	setVMMetadata  func(context.Context, rpc.VMCID, rpc.Metadata) error
	calculate      func(context.Context, rpc.VMResources) (map[string]any, error)
	createDisk     func(context.Context, int64, json.RawMessage, rpc.VMCID) (rpc.DiskCID, error)
	deleteDisk     func(context.Context, rpc.DiskCID) error
	hasDisk        func(context.Context, rpc.DiskCID) (bool, error)
	attachDisk     func(context.Context, rpc.VMCID, rpc.DiskCID) (rpc.DiskHint, error)
	detachDisk     func(context.Context, rpc.VMCID, rpc.DiskCID) error
	getDisks       func(context.Context, rpc.VMCID) ([]rpc.DiskCID, error)
	resizeDisk     func(context.Context, rpc.DiskCID, int64) error
	setDiskMeta    func(context.Context, rpc.DiskCID, rpc.Metadata) error
	snapshotDisk   func(context.Context, rpc.DiskCID, rpc.Metadata) (rpc.SnapshotCID, error)
}

func (l *liar) CreateStemcell(ctx context.Context, path string, props, env json.RawMessage) (rpc.StemcellCID, error) {
	if l.createStemcell != nil {
		return l.createStemcell(ctx, path, props, env)
	}
	return l.Handler.CreateStemcell(ctx, path, props, env)
}

func (l *liar) DeleteStemcell(ctx context.Context, cid rpc.StemcellCID) error {
	if l.deleteStemcell != nil {
		return l.deleteStemcell(ctx, cid)
	}
	return l.Handler.DeleteStemcell(ctx, cid)
}

func (l *liar) CreateVM(ctx context.Context, req rpc.CreateVMRequest) (rpc.VMCID, rpc.Networks, error) {
	if l.createVM != nil {
		return l.createVM(ctx, req)
	}
	return l.Handler.CreateVM(ctx, req)
}

func (l *liar) DeleteVM(ctx context.Context, cid rpc.VMCID) error {
	if l.deleteVM != nil {
		return l.deleteVM(ctx, cid)
	}
	return l.Handler.DeleteVM(ctx, cid)
}

func (l *liar) HasVM(ctx context.Context, cid rpc.VMCID) (bool, error) {
	if l.hasVM != nil {
		return l.hasVM(ctx, cid)
	}
	return l.Handler.HasVM(ctx, cid)
}

func (l *liar) RebootVM(ctx context.Context, cid rpc.VMCID) error {
	if l.rebootVM != nil {
		return l.rebootVM(ctx, cid)
	}
	return l.Handler.RebootVM(ctx, cid)
}

func (l *liar) SetVMMetadata(ctx context.Context, cid rpc.VMCID, m rpc.Metadata) error {
	if l.setVMMetadata != nil {
		return l.setVMMetadata(ctx, cid, m)
	}
	return l.Handler.SetVMMetadata(ctx, cid, m)
}

func (l *liar) CalculateVMCloudProperties(ctx context.Context, want rpc.VMResources) (map[string]any, error) {
	if l.calculate != nil {
		return l.calculate(ctx, want)
	}
	return l.Handler.CalculateVMCloudProperties(ctx, want)
}

func (l *liar) CreateDisk(ctx context.Context, size int64, props json.RawMessage, vm rpc.VMCID) (rpc.DiskCID, error) {
	if l.createDisk != nil {
		return l.createDisk(ctx, size, props, vm)
	}
	return l.Handler.CreateDisk(ctx, size, props, vm)
}

func (l *liar) DeleteDisk(ctx context.Context, cid rpc.DiskCID) error {
	if l.deleteDisk != nil {
		return l.deleteDisk(ctx, cid)
	}
	return l.Handler.DeleteDisk(ctx, cid)
}

func (l *liar) HasDisk(ctx context.Context, cid rpc.DiskCID) (bool, error) {
	if l.hasDisk != nil {
		return l.hasDisk(ctx, cid)
	}
	return l.Handler.HasDisk(ctx, cid)
}

func (l *liar) AttachDisk(ctx context.Context, vm rpc.VMCID, disk rpc.DiskCID) (rpc.DiskHint, error) {
	if l.attachDisk != nil {
		return l.attachDisk(ctx, vm, disk)
	}
	return l.Handler.AttachDisk(ctx, vm, disk)
}

func (l *liar) DetachDisk(ctx context.Context, vm rpc.VMCID, disk rpc.DiskCID) error {
	if l.detachDisk != nil {
		return l.detachDisk(ctx, vm, disk)
	}
	return l.Handler.DetachDisk(ctx, vm, disk)
}

func (l *liar) GetDisks(ctx context.Context, vm rpc.VMCID) ([]rpc.DiskCID, error) {
	if l.getDisks != nil {
		return l.getDisks(ctx, vm)
	}
	return l.Handler.GetDisks(ctx, vm)
}

func (l *liar) ResizeDisk(ctx context.Context, cid rpc.DiskCID, size int64) error {
	if l.resizeDisk != nil {
		return l.resizeDisk(ctx, cid, size)
	}
	return l.Handler.ResizeDisk(ctx, cid, size)
}

func (l *liar) SetDiskMetadata(ctx context.Context, cid rpc.DiskCID, m rpc.Metadata) error {
	if l.setDiskMeta != nil {
		return l.setDiskMeta(ctx, cid, m)
	}
	return l.Handler.SetDiskMetadata(ctx, cid, m)
}

func (l *liar) SnapshotDisk(ctx context.Context, cid rpc.DiskCID, m rpc.Metadata) (rpc.SnapshotCID, error) {
	if l.snapshotDisk != nil {
		return l.snapshotDisk(ctx, cid, m)
	}
	return l.Handler.SnapshotDisk(ctx, cid, m)
}

// lying is a factory of CPIs that tell the lie.
func lying(open rpc.Factory, tell func(l *liar, call *rpc.Call)) rpc.Factory {
	return func(ctx context.Context, call *rpc.Call) (rpc.Handler, error) {
		h, err := open(ctx, call)
		if err != nil {
			return nil, err
		}
		l := &liar{Handler: h}
		tell(l, call)
		return l, nil
	}
}

// rewriting is a CPI whose answers to a method are rewritten. An empty method
// stands for all.
func rewriting(inner cpitest.CPI, method string, rewrite func(request []byte, a cpitest.Answer) cpitest.Answer) cpitest.CPI {
	return cpitest.Func(func(ctx context.Context, request []byte) (cpitest.Answer, error) {
		a, err := inner.Call(ctx, request)
		var r struct{ Method string }
		_ = json.Unmarshal(request, &r)
		if err == nil && (method == "" || r.Method == method) {
			a = rewrite(request, a)
		}
		return a, err
	})
}

// edit rewrites the members of an answer.
func edit(change func(members map[string]json.RawMessage)) func([]byte, cpitest.Answer) cpitest.Answer {
	return func(_ []byte, a cpitest.Answer) cpitest.Answer {
		var members map[string]json.RawMessage
		if json.Unmarshal(a.Stdout, &members) != nil {
			return a
		}
		change(members)
		a.Stdout, _ = json.Marshal(members)
		return a
	}
}

// swap replaces a text in an answer, if it is there.
func swap(old, now string) func([]byte, cpitest.Answer) cpitest.Answer {
	return func(_ []byte, a cpitest.Answer) cpitest.Answer {
		a.Stdout = []byte(strings.ReplaceAll(string(a.Stdout), old, now))
		return a
	}
}
