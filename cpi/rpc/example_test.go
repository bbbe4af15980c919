package rpc_test

import (
	"context"
	"os"
	"strings"

	"github.com/proxkit/proxkit/cpi/rpc"
)

// house is a CPI that knows one VM.
type house struct{ rpc.Unimplemented }

func (house) Info(context.Context) (rpc.Info, error) {
	return rpc.Info{APIVersion: 2, StemcellFormats: []string{"openstack-qcow2"}}, nil
}

func (house) HasVM(_ context.Context, cid rpc.VMCID) (bool, error) { return cid == "vm-1", nil }

func ExampleServe() {
	for _, request := range []string{
		`{"method":"info","arguments":[],"context":{"director_uuid":"d"}}`,
		`{"method":"has_vm","arguments":["vm-1"],"context":{"director_uuid":"d"},"api_version":2}`,
		`{"method":"reboot_vm","arguments":["vm-1"],"context":{"director_uuid":"d"},"api_version":2}`,
	} {
		if err := rpc.Serve(context.Background(), rpc.Static(house{}), strings.NewReader(request), os.Stdout, os.Stderr); err != nil {
			os.Exit(1)
		}
	}
	// Output:
	// {"result":{"api_version":2,"stemcell_formats":["openstack-qcow2"]},"error":null,"log":""}
	// {"result":true,"error":null,"log":""}
	// {"result":null,"error":{"type":"Bosh::Clouds::NotImplemented","message":"reboot_vm: not implemented by this CPI","ok_to_retry":false},"log":""}
}

func ExampleAround() {
	factory := func(_ context.Context, call *rpc.Call) (rpc.Handler, error) {
		return rpc.Around(house{}, func(ctx context.Context, method string, next func(context.Context) error) error {
			err := next(ctx)
			call.Log.Printf("%s ended with %v", method, err)
			return err
		}), nil
	}
	request := `{"method":"has_vm","arguments":["vm-1"],"context":{"director_uuid":"d"},"api_version":2}`
	if err := rpc.Serve(context.Background(), factory, strings.NewReader(request), os.Stdout, os.Stderr); err != nil {
		os.Exit(1)
	}
	// Output:
	// {"result":true,"error":null,"log":"has_vm ended with <nil>"}
}
