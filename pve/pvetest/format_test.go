package pvetest

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFormats(t *testing.T) {
	t.Parallel()
	v := &validator{patterns: map[string]*regexp.Regexp{}}
	for _, tc := range []struct {
		format string
		good   []string
		bad    map[string]string
	}{
		{format: "pve-vmid", good: []string{"100", "999999999"}, bad: map[string]string{"99": "value does not look like a valid VM ID", "0100": "value does not look like a valid VM ID"}},
		{format: "pve-node", good: []string{"pve1", "a-b"}, bad: map[string]string{"a_b": "value does not look like a valid node name", "-a": "value does not look like a valid node name"}},
		{format: "pve-configid", good: []string{"ab", "A_1"}, bad: map[string]string{"1a": "invalid configuration ID '1a'", "a": "invalid configuration ID 'a'"}},
		{format: "pve-configid-list", good: []string{"ab,cd", "ab; cd", ""}, bad: map[string]string{"ab,1": "invalid configuration ID '1'"}},
		{format: "pve-storage-id", good: []string{"data", "a.b"}, bad: map[string]string{"1x": "storage ID '1x' contains illegal characters"}},
		{format: "pve-storage-content-list", good: []string{"images,iso"}, bad: map[string]string{"images,foo": "invalid content type 'foo'"}},
		{format: "pve-volume-id", good: []string{"data:100/a.raw"}, bad: map[string]string{"nope": "unable to parse volume ID 'nope'"}},
		{format: "pve-volume-id-or-qm-path", good: []string{"none", "cdrom", "/dev/x", "data:1"}, bad: map[string]string{"nope": "unable to parse volume ID 'nope'"}},
		{format: "disk-size", good: []string{"1G", "1.5T", "512"}, bad: map[string]string{"1X": "value does not look like a valid disk size: 1X"}},
		{format: "dns-name", good: []string{"a", "a.b-c", "A1"}, bad: map[string]string{"a_b": "value does not look like a valid DNS name", "a..b": "value does not look like a valid DNS name", "-a": "value does not look like a valid DNS name"}},
		{format: "address", good: []string{"host.example", "10.0.0.1", "::1"}, bad: map[string]string{"a b": "value does not look like a valid address: a b"}},
		{format: "mac-addr", good: []string{"BC:24:11:00:00:01"}, bad: map[string]string{"BD:24:11:00:00:01": "value does not look like a valid unicast MAC address", "BC:24": "value does not look like a valid unicast MAC address"}},
		{format: "mac-prefix", good: []string{"BC:24:11"}, bad: map[string]string{"zz": "value is not a valid unicast MAC address prefix"}},
		{format: "ip", good: []string{"10.0.0.1", "::1"}, bad: map[string]string{"10.0.0": "value does not look like a valid IP address"}},
		{format: "ipv4", good: []string{"10.0.0.1"}, bad: map[string]string{"::1": "value does not look like a valid IPv4 address"}},
		{format: "ipv6", good: []string{"::1"}, bad: map[string]string{"10.0.0.1": "value does not look like a valid IPv6 address"}},
		{format: "CIDR", good: []string{"10.0.0.0/8", "fd00::/64"}, bad: map[string]string{"10.0.0.1": "value does not look like a valid CIDR network"}},
		{format: "CIDRv4", good: []string{"10.0.0.0/8"}, bad: map[string]string{"fd00::/64": "value does not look like a valid IPv4 network"}},
		{format: "CIDRv6", good: []string{"fd00::/64"}, bad: map[string]string{"10.0.0.0/8": "value does not look like a valid IPv6 network"}},
		{format: "IPorCIDRorAlias", good: []string{"10.0.0.1", "10.0.0.0/8", "dc/gw", "gw"}, bad: map[string]string{"10.0.0.500": "value does not look like a valid IP address or CIDR network"}},
		{format: "pve-ipv4-config", good: []string{"dhcp", "10.0.0.1/24"}, bad: map[string]string{"auto": "value does not look like a valid ipv4 network configuration"}},
		{format: "pve-ipv6-config", good: []string{"auto", "fd00::1/64"}, bad: map[string]string{"x": "value does not look like a valid ipv6 network configuration"}},
		{format: "pve-iface", good: []string{"vmbr0", "br_x", "vmbr0.50"}, bad: map[string]string{"b": "invalid network interface name 'b'"}},
		{format: "urlencoded", good: []string{"a%20b", ""}, bad: map[string]string{"a b": "invalid urlencoded string: a b"}},
		{format: "pve-userid", good: []string{"root@pam", "a.b@my-realm"}, bad: map[string]string{"root": "value 'root' does not look like a valid user name"}},
		{format: "pve-tokenid-list", good: []string{"a@pve!t0,b@pve!t1"}, bad: map[string]string{"a@pve": "value 'a@pve' does not look like a valid token ID"}},
		{format: "pve-poolid", good: []string{"a", "a/b/c"}, bad: map[string]string{"a/b/c/d": "pool name 'a/b/c/d' nested too deeply (max levels = 3)", "a b": "pool name 'a b' contains invalid characters"}},
		{format: "pve-tag-list", good: []string{"a;b c", ""}, bad: map[string]string{"bad!": "invalid characters in tag"}},
		{format: "pve-startup-order", good: []string{"order=3,up=30,down=60", "7"}, bad: map[string]string{"order=-1": "unable to parse startup options"}},
		{format: "pve-hotplug-features", good: []string{"0", "1", "disk,network"}, bad: map[string]string{"foo": "invalid hotplug feature 'foo'"}},
		{format: "email-opt", good: []string{"", "a@b.c"}, bad: map[string]string{"nope": "value does not look like a valid email address"}},
		{format: "unknown-format", good: []string{"anything"}},
	} {
		t.Run(tc.format, func(t *testing.T) {
			t.Parallel()
			for _, s := range tc.good {
				assert.Empty(t, v.named(tc.format, s), s)
			}
			for s, msg := range tc.bad {
				assert.Equal(t, msg, strings.TrimSuffix(v.named(tc.format, s), "\n"), s)
			}
		})
	}
}

func TestFamilies(t *testing.T) {
	t.Parallel()
	doc, err := facts()
	if err != nil {
		t.Fatal(err)
	}
	r := newRegistry(doc)
	schema := r.byName["PUT /nodes/{node}/qemu/{vmid}/config"].Parameters
	for name, ok := range map[string]bool{
		"net0": true, "net31": true, "net32": false, "scsi30": true, "scsi31": false, "virtio15": true, "virtio16": false, "ide3": true, "ide4": false,
		"sata5": true, "sata6": false, "unused255": true, "unused256": false, "net": false, "net00": false, "scsihw": true, "numa": true, "numa7": true,
	} {
		assert.Equal(t, ok, lookup(schema, name) != nil, name)
	}
}

func TestPerlNumbers(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"1": "1", "0.5": "0.5", "10.50": "10.5", "1e3": "1000", "1.0": "1", "12345678901234567890": "12345678901234567890"} {
		assert.Equal(t, want, perlNumber(in), in)
	}
}
