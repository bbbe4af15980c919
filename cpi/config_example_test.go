package cpi_test

import (
	"context"
	"os"
	"strings"

	"github.com/proxkit/proxkit/cpi"
	"github.com/proxkit/proxkit/cpi/rpc"
)

// A call that needs no cluster, as BOSH makes it: the request on one side, the
// response on the other.
func ExampleFactory() {
	request := strings.NewReader(`{"method":"info","arguments":[],"context":{"director_uuid":"d"}}`)
	if err := rpc.Serve(context.Background(), cpi.Factory(""), request, os.Stdout, os.Stderr); err != nil {
		os.Exit(1)
	}
	// Output:
	// {"result":{"api_version":2,"stemcell_formats":["openstack-qcow2","openstack-raw"]},"error":null,"log":""}
}

// cautious is a CPI that deletes no stemcell.
type cautious struct{ rpc.Handler }

// DeleteStemcell keeps all stemcells.
func (cautious) DeleteStemcell(context.Context, rpc.StemcellCID) error {
	return rpc.NotSupported("stemcells are kept here")
}

// A downstream program replaces a method by embedding the handler.
func ExampleFactory_replaceMethod() {
	open := cpi.Factory("")
	careful := func(ctx context.Context, call *rpc.Call) (rpc.Handler, error) {
		h, err := open(ctx, call)
		return cautious{h}, err
	}
	// The whole configuration may come with the request.
	request := strings.NewReader(`{"method": "delete_stemcell", "arguments": ["stemcell-0"],
		"context": {"endpoint": "https://pve1:8006", "token": "cpi@pve!bosh=…", "storage": "fast"}}`)
	if err := rpc.Serve(context.Background(), careful, request, os.Stdout, os.Stderr); err != nil {
		os.Exit(1)
	}
	// Output:
	// {"result":null,"error":{"type":"Bosh::Clouds::NotSupported","message":"delete_stemcell: stemcells are kept here","ok_to_retry":false},"log":""}
}
