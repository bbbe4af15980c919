package pve_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/internal/rest/resttest"
	"github.com/proxkit/proxkit/internal/wire"
	"github.com/proxkit/proxkit/pve"
)

// The tables in the files facts_*_test.go hold what servers have been seen to send and
// what they make of what clients send. Each makes public methods talk to a server that
// answers as told. Rows are numbered as in the project's collection of what breaks
// clients in practice; those about retries, idle connections, TLS and streams are held
// by the tests of package internal/rest besides.

// newFactsClient returns a client of a server that answers every request by answer.
func newFactsClient(t *testing.T, answer func(resttest.Request) string, opts ...pve.Option) (*pve.Client, *resttest.Server) {
	t.Helper()
	server := resttest.NewServer(t, answer)
	client, err := pve.NewClient(server.URL, append([]pve.Option{
		pve.WithRetry(pve.RetryPolicy{MinWait: 1, MaxWait: 2}),
	}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return client, server
}

// always answers every request alike.
func always(answer string) func(resttest.Request) string {
	return func(resttest.Request) string { return answer }
}

// somewhere fills in the parameters that a path may need.
func somewhere[P any]() P {
	var p P
	const names = `{"node":"pve1","vmid":100,"storage":"local","iface":"vmbr0","rule":"r1","id":"x1","zone":"z1",
		"userid":"ops@pve","tokenid":"t","command":["ls"],"upid":"UPID:pve1:00007323:001036A5:6419CAF8:qmstart:100:root@pam:","snapname":"s1","pid":7,"sid":"vm:100",
		"path":"/dev/sda","poolid":"p1","vnet":"v1","realm":"pve","roleid":"r1","volume":"local:iso/a.iso","file":"/a"}`
	if err := wire.Decode([]byte(names), &p, nil); err != nil {
		panic(err)
	}
	return p
}

// A reading makes a call and picks out of the result what a row of a table is about.
type reading func(context.Context, *pve.Client) (any, error)

// one reads a single result.
func one[P, T any](call func(*pve.Client, context.Context, P) (T, error), pick func(T) any) reading {
	return func(ctx context.Context, c *pve.Client) (any, error) {
		result, err := call(c, ctx, somewhere[P]())
		if err != nil {
			return nil, err
		}
		return pick(result), nil
	}
}

// each reads a list.
func each[P, T any](call func(*pve.Client, context.Context, P) ([]T, error), pick func(T) any) reading {
	return one(call, func(list []T) any {
		picked := make([]any, len(list))
		for i := range list {
			picked[i] = pick(list[i])
		}
		return picked
	})
}

// row is the picked values of one element.
type row = []any

// short makes a picked value comparable: pointers are followed, nil stands for absent.
func short(values ...any) row {
	out := make(row, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case *bool:
			out[i] = deref(v)
		case *int64:
			out[i] = deref(v)
		case *uint64:
			out[i] = deref(v)
		case *float64:
			out[i] = deref(v)
		case *string:
			out[i] = deref(v)
		case []string:
			out[i] = strings.Join(v, " ")
		case json.RawMessage:
			out[i] = string(v)
		default:
			out[i] = v
		}
	}
	return out
}

func deref[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}
