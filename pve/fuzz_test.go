package pve_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/internal/wire"
	"github.com/proxkit/proxkit/pve"
)

// FuzzConfigs reads anything as a configuration, writes what was read, and reads that
// again: it must be the same.
func FuzzConfigs(f *testing.F) {
	for _, text := range []string{
		`{"net0":"virtio=BC:24:11:00:00:01,bridge=vmbr0,later=7","memory":"4096","scsi30":"a:1,size=528K","tags":"a;b","cpulimit":"0.4","hostpci0":"0000:81:00.2;0000:81:00.3","sshkeys":"a%20b%0Ac","onboot":1}`,
		`{"lxc":[["lxc.idmap","u 0 100000 65536"]],"mp255":"a:1,mp=/a","rootfs":"a:2,size=4G","hostname":42,"features":"mount=nfs;cifs","new":{"a":[null]}}`,
		`{"description":"é\n","boot":"order=scsi0;net0","agent":1,"vga":"qxl,memory=32","numa":0,"numa0":"cpus=0-1","cpu":"host,flags=+aes;-pcid","unused1":"x"}`,
		`{"crs":{"ha":"static"},"next-id":"lower=200","registered-tags":["a"],"max_workers":"4"}`,
		`{"net0":"virtio,,=5,\"x\",a=\"b,c\"","scsi0":"","ide2":"none,media=cdrom","smbios1":"uuid=x,base64=on"}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		roundTrip[pve.VMConfig](t, text)
		roundTrip[pve.ContainerConfig](t, text)
		roundTrip[pve.ClusterOptions](t, text)
		roundTrip[pve.UpdateVMConfigParams](t, text)
		roundTrip[pve.Storage](t, text)
	})
}

func roundTrip[T any](t *testing.T, text []byte) {
	t.Helper()
	var first, second, third T
	if wire.Decode(text, &first, nil) != nil {
		return
	}
	once, err := wire.EncodeJSON(&first, wire.Perl, nil)
	if err != nil {
		return // what cannot be said, such as a comma in a value
	}
	require.NoError(t, wire.Decode(once, &second, nil), "%s", once)
	twice, err := wire.EncodeJSON(&second, wire.Perl, nil)
	require.NoError(t, err)
	require.NoError(t, wire.Decode(twice, &third, nil))
	assert.Equal(t, second, third)
	for _, lost := range lostParts("", parsed(t, once), parsed(t, twice)) {
		t.Errorf("%s\n%s\n%s", lost, once, twice)
	}
}

func parsed(t *testing.T, raw []byte) any {
	t.Helper()
	var x any
	require.NoError(t, decodeNumbers(raw, &x))
	return x
}
