package cpi

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi/rpc"
)

func TestCIDsOfOurs(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 200 {
		disk := newDiskCID()
		require.Len(t, string(disk), 20, "the serial of a drive, and what the agent looks for")
		require.NoError(t, parseDiskCID(disk))
		require.Equal(t, string(disk), normaliseTag(string(disk)), "a CID is a tag as it is")
		require.False(t, seen[string(disk)])
		seen[string(disk)] = true

		vm := vmCID{101, newVMToken()}
		back, err := parseVMCID(rpc.VMCID(vm.String()))
		require.NoError(t, err)
		require.Equal(t, vm, back)
		require.Equal(t, vm.String(), normaliseTag(vm.String()))
		require.False(t, seen[vm.Token])
		seen[vm.Token] = true
	}
	sc := newStemcellCID(strings.Repeat("0123456789abcdef", 4))
	assert.Equal(t, rpc.StemcellCID("stemcell-0123456789abcdef0123456789abcdef"), sc)
	assert.NoError(t, parseStemcellCID(sc))
	assert.NoError(t, parseDiskCID("disk-k3v9q2m8x1z7c4b"))
}

func TestForeignCIDs(t *testing.T) {
	t.Parallel()
	disk := func(s string) error { return parseDiskCID(rpc.DiskCID(s)) }
	stemcell := func(s string) error { return parseStemcellCID(rpc.StemcellCID(s)) }
	vm := func(s string) error {
		_, err := parseVMCID(rpc.VMCID(s))
		return err
	}
	for _, tc := range []struct {
		name  string
		parse func(string) error
		cid   string
		want  string
	}{
		{"blank", vm, "", "the vm CID is empty"},
		{"spaces", vm, " \t", "the vm CID is empty"},
		{"only the prefix", vm, "vm-", `the vm CID "vm-" is not of the form`},
		{"a bare VMID", vm, "101", `was not made by this CPI`},
		{"no token", vm, "vm-101", "is not of the form"},
		{"a short token", vm, "vm-101-abc", "is not of the form"},
		{"an upper-case token", vm, "vm-101-K3V9Q2M8X1Z7", "is not of the form"},
		{"a leading zero", vm, "vm-0101-k3v9q2m8x1z7", "is not of the form"},
		{"a VMID too small", vm, "vm-99-k3v9q2m8x1z7", "is not of the form"},
		{"a VMID too large", vm, "vm-1000000000-k3v9q2m8x1z7", "is not of the form"},
		{"a path", vm, "vm-101-k3v9q2m8x1z7/../x", "is not of the form"},
		{"a disk for a VM", vm, "disk-k3v9q2m8x1z7c4b", "is the CID of a disk"},
		{"a stemcell for a VM", vm, "stemcell-abc", "is the CID of a stemcell"},
		{"blank disk", disk, "", "the disk CID is empty"},
		{"a VM for a disk", disk, "vm-101-k3v9q2m8x1z7", "is the CID of a vm"},
		{"a long disk", disk, "disk-k3v9q2m8x1z7c4b0", "is not of the form disk-<15 characters>"},
		{"a volume", disk, "local-lvm:vm-100-disk-0", "was not made by this CPI"},
		{"a very long one", disk, "disk-" + strings.Repeat("x", 5000), "…"},
		{"blank stemcell", stemcell, " ", "the stemcell CID is empty"},
		{"another CPI's stemcell", stemcell, "sc-700", `does not begin with "stemcell-"`},
		{"a stemcell of letters", stemcell, "stemcell-" + strings.Repeat("g", 32), "hexadecimal digits"},
		{"a disk for a stemcell", stemcell, "disk-k3v9q2m8x1z7c4b", "is the CID of a disk"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := tc.parse(tc.cid)
			assert.ErrorContains(t, err, tc.want)
			var typed *CIDError
			require.ErrorAs(t, err, &typed)
			assert.Less(t, len(err.Error()), 250)
			assert.Equal(t, rpc.ClassCloudError, rpc.ClassOf(err))
		})
	}
}

func FuzzParseCIDs(f *testing.F) {
	f.Add("vm-101-k3v9q2m8x1z7")
	f.Add("disk-k3v9q2m8x1z7c4b")
	f.Add("stemcell-0123456789abcdef0123456789abcdef")
	f.Fuzz(func(t *testing.T, s string) {
		kinds := 0
		if c, err := parseVMCID(rpc.VMCID(s)); err == nil {
			kinds++
			require.Equal(t, s, c.String())
		}
		if parseDiskCID(rpc.DiskCID(s)) == nil {
			kinds++
		}
		if parseStemcellCID(rpc.StemcellCID(s)) == nil {
			kinds++
		}
		require.LessOrEqual(t, kinds, 1, "a CID is of one kind")
		if kinds == 1 {
			require.Equal(t, s, normaliseTag(s))
		}
	})
}
