package cpi_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve/pvetest"
)

// The Director is not asked to repeat a call that would fail on every node alike,
// though other nodes are left.
func TestCreateVMPromisesNoRetryThatCannotHelp(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		prepare func(b *bed, cancel func())
		text    string
	}{
		{"no VMID is left", func(b *bed, _ func()) { b.srv.SetOption("next-id", "lower=100,upper=100") }, "unable to get any free VMID"},
		{"PVE does not take the arguments", func(b *bed, _ func()) {
			b.srv.Fail(pvetest.Fault{Match: "PUT /nodes/*/qemu/*/config", Status: 400, Phrase: "Parameter verification failed.", Params: map[string]string{"cpu": "invalid format"}})
		}, "invalid format"},
		{"somebody ended the call", func(b *bed, cancel func()) {
			b.srv.Fail(pvetest.Fault{Match: "POST /nodes/*/qemu/*/status/start", Do: cancel, After: true})
		}, "context canceled"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			stemcell := b.stemcell()
			guests, volumes := b.made()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			tc.prepare(b, cancel)
			_, _, err := b.CreateVM(ctx, order(stemcell, "agent", smallVM))
			assert.False(t, class(t, err, rpc.ClassVMCreationFailed, tc.text).Retryable(), "%v", err)
			g, v := b.made()
			assert.Equal(t, guests, g)
			assert.ElementsMatch(t, volumes, v)
		})
	}
}
