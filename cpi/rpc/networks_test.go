package rpc_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi/rpc"
)

func TestNetworksKeepOrderAndUnknownKeys(t *testing.T) {
	t.Parallel()
	const text = `{"z":{"type":"manual","ip":"10.0.0.2","nic_group":"g","new_key":{"b":1,"a":2},"dns":null},"a":{"type":"vip"}}`
	var ns rpc.Networks
	require.NoError(t, json.Unmarshal([]byte(text), &ns))
	require.Len(t, ns, 2)
	assert.Equal(t, "z", ns[0].Name)
	assert.Equal(t, "10.0.0.2", ns[0].IP)
	assert.Equal(t, "g", ns[0].NICGroup)
	assert.JSONEq(t, `{}`, string(ns[0].CloudProperties))
	assert.Equal(t, "vip", ns[1].Type)

	back, err := json.Marshal(ns)
	require.NoError(t, err)
	assert.Equal(t, text, string(back))

	changed := ns[0]
	require.NoError(t, changed.Set("mac", "bc:24:11:00:00:01"))
	require.NoError(t, changed.Set("ip", ""))
	assert.JSONEq(t, `"10.0.0.2"`, string(ns[0].Get("ip")), "a copy that changes leaves the original alone")
	back, err = json.Marshal(changed)
	require.NoError(t, err)
	assert.Equal(t, `{"type":"manual","ip":"","nic_group":"g","new_key":{"b":1,"a":2},"dns":null,"mac":"bc:24:11:00:00:01"}`, string(back))
	assert.Error(t, changed.Set("x", func() {}))
}

func TestNetworksTwice(t *testing.T) {
	t.Parallel()
	var ns rpc.Networks
	require.NoError(t, json.Unmarshal([]byte(`{"a":{"ip":"1"},"b":{},"a":{"ip":"2"}}`), &ns))
	require.Len(t, ns, 2)
	assert.Equal(t, "2", ns[0].IP, "the last one counts, as in any JSON reader")
}

func FuzzNetworks(f *testing.F) {
	f.Add([]byte(`{"a":{"type":"manual","dns":["x"],"cloud_properties":{"bridge":"vmbr0"}}}`))
	f.Add([]byte(`{"a":{},"a":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var ns rpc.Networks
		if json.Unmarshal(data, &ns) != nil {
			return
		}
		text, err := json.Marshal(ns)
		require.NoError(t, err)
		var again rpc.Networks
		require.NoError(t, json.Unmarshal(text, &again))
		assert.Equal(t, len(ns), len(again))
		second, err := json.Marshal(again)
		require.NoError(t, err)
		assert.Equal(t, string(text), string(second))
	})
}
