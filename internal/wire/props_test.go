package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/internal/wire"
)

func TestParseProps(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		text string
		want vmNet
		odd  []string
	}{
		{name: "empty", text: "", want: vmNet{}},
		{name: "default key left out", text: "virtio", want: vmNet{Model: "virtio"}},
		{name: "default key elsewhere", text: "bridge=vmbr0,virtio", want: vmNet{Model: "virtio", Bridge: new("vmbr0")}},
		{name: "default key named", text: "model=virtio,macaddr=BC:24:11:00:00:01", want: vmNet{Model: "virtio", MACAddr: new("BC:24:11:00:00:01")}},
		{name: "key alias", text: "virtio=bc:24:11:00:00:01,tag=30", want: vmNet{Model: "virtio", MACAddr: new("bc:24:11:00:00:01"), Tag: new(int64(30))}},
		{name: "a new option is no model", text: "virtio,option=5", want: vmNet{Model: "virtio", Extra: map[string]string{"option": "5"}}},
		{name: "booleans", text: "virtio,firewall=Yes,link_down=off", want: vmNet{Model: "virtio", Firewall: new(true), LinkDown: new(false)}},
		{name: "numbers", text: "virtio,mtu=1500,rate=0.5,tag=4094", want: vmNet{Model: "virtio", MTU: new(int64(1500)), Rate: new(0.5), Tag: new(int64(4094))}},
		{name: "list", text: "virtio,trunks=1;20-30;4", want: vmNet{Model: "virtio", Trunks: []string{"1", "20-30", "4"}}},
		{name: "empty list", text: "virtio,trunks=", want: vmNet{Model: "virtio", Trunks: []string{}}},
		{name: "white space and blank parts", text: " virtio , bridge = vmbr0 ,, tag=5,", want: vmNet{Model: "virtio", Bridge: new("vmbr0"), Tag: new(int64(5))}},
		{name: "quotes", text: `virtio,bridge="a, \"b\" \\ \c",tag=5`, want: vmNet{Model: "virtio", Bridge: new(`a, "b" \ \c`), Tag: new(int64(5))}},
		{name: "quoted default", text: `"vir,tio",tag=5`, want: vmNet{Model: "vir,tio", Tag: new(int64(5))}},
		{name: "quote that is not closed", text: `virtio,bridge="a,tag=5`, want: vmNet{Model: "virtio", Bridge: new(`"a`), Tag: new(int64(5))}},
		{name: "quote inside", text: `virtio,bridge=a"b,tag=5`, want: vmNet{Model: "virtio", Bridge: new(`a"b`), Tag: new(int64(5))}},
		{name: "equals signs in a value", text: "virtio,bridge=a=b==", want: vmNet{Model: "virtio", Bridge: new("a=b==")}},
		{name: "last of equal keys", text: "virtio,tag=1,tag=2", want: vmNet{Model: "virtio", Tag: new(int64(2))}},
		{name: "odd values lose nothing else", text: "virtio,mtu=big,firewall=maybe,tag=5", want: vmNet{Model: "virtio", Tag: new(int64(5))}, odd: []string{"firewall: want boolean, got maybe", "mtu: want integer, got big"}},
		{name: "two values without key", text: "virtio,e1000", want: vmNet{Model: "virtio"}, odd: []string{"want key=value, got e1000"}},
		{name: "value without key behind an equals sign", text: "virtio,=5", want: vmNet{Model: "virtio"}, odd: []string{"want a key before the equals sign, got =5"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := vmNet{Tag: new(int64(99)), Extra: map[string]string{"left": "over"}}
			err := wire.ParseProps(tc.text, &got)
			assert.Equal(t, tc.want, got)
			if tc.odd == nil {
				assert.NoError(t, err)
				return
			}
			var parts *wire.PropsError
			require.ErrorAs(t, err, &parts)
			assert.ElementsMatch(t, tc.odd, texts(parts.Misfits))
			assert.ErrorContains(t, err, "property string: ")
		})
	}
}

func TestParsePropsAliases(t *testing.T) {
	t.Parallel()
	type disk struct {
		File  string  `json:"file" px:"default,alias=volume|vol"`
		MBps  *string `json:"mbps,omitempty"`
		Model *string `json:"model,omitempty" px:"keyalias=addr:a|b"`
		Addr  *string `json:"addr,omitempty"`
	}
	for text, want := range map[string]disk{
		"file=x":                     {File: "x"},
		"volume=x":                   {File: "x"},
		"vol=x,mbps=5":               {File: "x", MBps: new("5")},
		"x,a=1":                      {File: "x", Model: new("a"), Addr: new("1")},
		"x,c=BC:24:11:00:00:01":      {File: "x"},
		"local:100/vm-100-disk-0.qc": {File: "local:100/vm-100-disk-0.qc"},
	} {
		var got disk
		require.NoError(t, wire.ParseProps(text, &got), text)
		assert.Equal(t, want, got, text)
		assert.Equal(t, text, wire.FormatProps(got, text))
	}

	changed := disk{File: "y", Model: new("b"), Addr: new("2")}
	assert.Equal(t, "volume=y,b=2", wire.FormatProps(changed, "volume=x,a=1"), "a changed part keeps its spelling")
	assert.Equal(t, "y,b=2", wire.FormatProps(changed, ""))
	assert.Equal(t, "y,model=z,addr=2", wire.FormatProps(disk{File: "y", Model: new("z"), Addr: new("2")}, ""), "no alias that is not listed")
	assert.Equal(t, "y,addr=2", wire.FormatProps(disk{File: "y", Addr: new("2")}, "x,a=1"))
	assert.Equal(t, "y,model=a", wire.FormatProps(disk{File: "y", Model: new("a")}, "x,a=1"))
}

func TestParsePropsNeedsAStruct(t *testing.T) {
	t.Parallel()
	for _, v := range []any{nil, vmNet{}, new(int), (*vmNet)(nil)} {
		assert.ErrorContains(t, wire.ParseProps("x", v), "pointer to a struct")
	}
	_, err := wire.MarshalProps(7, "")
	assert.ErrorContains(t, err, "int is not a property string")
	assert.Equal(t, "raw", wire.FormatProps(7, "raw"))
}

// Text that nobody changed is written byte by byte as it was read.
func TestPropsRoundTrip(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", ",", " ", "virtio", "virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1", "bridge=vmbr0,virtio=bc:24:11:00:00:01", "model=e1000,macaddr=BC:24:11:00:00:01",
		"virtio,firewall=on", "virtio,firewall=TRUE,link_down=no", " virtio , bridge = vmbr0 ,,tag=05,", "virtio,mtu=1e3,rate=1.50", "virtio,mtu=big,firewall=maybe",
		"virtio,new=1,newer,=x,==,new=2", "virtio,trunks=1;2;;3", `virtio,bridge="a,b",x="c\"d"`, `virtio,bridge="open`, "virtio,bridge=é✓—%:", "a,b,c", "virtio\n,tag=1\n", "virtio,tag=1,tag=2", "\x00,\xff=\xfe",
	} {
		n, _ := parseNet(text)
		assert.Equal(t, text, n.String())
		out, err := n.MarshalText()
		require.NoError(t, err, text)
		assert.Equal(t, text, string(out))
	}
}

func TestPropsChange(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		raw    string
		change func(*vmNet)
		want   string
	}{
		{name: "one value", raw: "virtio=BC:24:11:00:00:01, bridge=vmbr0,firewall=on,x=1", change: func(n *vmNet) { n.Bridge = new("vmbr1") }, want: "virtio=BC:24:11:00:00:01,bridge=vmbr1,firewall=on,x=1"},
		{name: "boolean to the same value", raw: "virtio,firewall=on", change: func(n *vmNet) { n.Firewall = new(true) }, want: "virtio,firewall=on"},
		{name: "boolean to the other", raw: "virtio,firewall=on,tag=1", change: func(n *vmNet) { n.Firewall = new(false) }, want: "virtio,firewall=0,tag=1"},
		{name: "removed", raw: "virtio,firewall=on,tag=1", change: func(n *vmNet) { n.Firewall = nil }, want: "virtio,tag=1"},
		{name: "first one removed", raw: "tag=1,virtio", change: func(n *vmNet) { n.Tag = nil }, want: "virtio"},
		{name: "added behind", raw: "tag=1,virtio", change: func(n *vmNet) { n.MTU, n.Bridge = new(int64(1)), new("vmbr0") }, want: "tag=1,virtio,bridge=vmbr0,mtu=1"},
		{name: "MAC address", raw: "virtio=BC:24:11:00:00:01,tag=1", change: func(n *vmNet) { n.MACAddr = new("BC:24:11:00:00:02") }, want: "virtio=BC:24:11:00:00:02,tag=1"},
		{name: "model", raw: "tag=1,virtio=BC:24:11:00:00:01", change: func(n *vmNet) { n.Model = "e1000" }, want: "tag=1,e1000=BC:24:11:00:00:01"},
		{name: "MAC address removed", raw: "virtio=BC:24:11:00:00:01,tag=1", change: func(n *vmNet) { n.MACAddr = nil }, want: "virtio,tag=1"},
		{name: "model removed", raw: "virtio=BC:24:11:00:00:01,tag=1", change: func(n *vmNet) { n.Model = "" }, want: "macaddr=BC:24:11:00:00:01,tag=1"},
		{name: "both removed", raw: "virtio=BC:24:11:00:00:01,tag=1", change: func(n *vmNet) { n.Model, n.MACAddr = "", nil }, want: "tag=1"},
		{name: "MAC address added", raw: "virtio,tag=1", change: func(n *vmNet) { n.MACAddr = new("BC:24:11:00:00:01") }, want: "virtio,tag=1,macaddr=BC:24:11:00:00:01"},
		{name: "address that is none", raw: "virtio=BC:24:11:00:00:01", change: func(n *vmNet) { n.MACAddr = new("auto") }, want: "model=virtio,macaddr=auto"},
		{name: "default stays without key", raw: "virtio,tag=1", change: func(n *vmNet) { n.Model = "e1000" }, want: "e1000,tag=1"},
		{name: "default keeps its key", raw: "model=virtio,tag=1", change: func(n *vmNet) { n.Model = "e1000" }, want: "model=e1000,tag=1"},
		{name: "default that needs its key", raw: "virtio,tag=1", change: func(n *vmNet) { n.Model = "a=b" }, want: "model=a=b,tag=1"},
		{name: "unknown key changed", raw: "virtio,x=1,y=2", change: func(n *vmNet) { n.Extra["x"] = "3" }, want: "virtio,x=3,y=2"},
		{name: "unknown key removed", raw: "virtio,x=1,y=2", change: func(n *vmNet) { delete(n.Extra, "x") }, want: "virtio,y=2"},
		{name: "unknown keys added", raw: "virtio,x=1", change: func(n *vmNet) { n.Extra["z"], n.Extra["y"] = "3", "2" }, want: "virtio,x=1,y=2,z=3"},
		{name: "unknown key that is known", raw: "virtio,tag=1", change: func(n *vmNet) { n.Extra = map[string]string{"tag": "7", "mtu": "8"} }, want: "virtio,tag=1,mtu=8"},
		{name: "last of equal keys", raw: "virtio,tag=1,mtu=5,tag=2", change: func(n *vmNet) { n.Tag = new(int64(3)) }, want: "virtio,mtu=5,tag=3"},
		{name: "equal keys removed", raw: "virtio,tag=1,mtu=5,tag=2", change: func(n *vmNet) { n.Tag = nil }, want: "virtio,mtu=5"},
		{name: "odd value replaced", raw: "virtio,mtu=big", change: func(n *vmNet) { n.MTU = new(int64(9000)) }, want: "virtio,mtu=9000"},
		{name: "odd parts stay", raw: "virtio,e1000,=x", change: func(n *vmNet) { n.Tag = new(int64(1)) }, want: "virtio,e1000,=x,tag=1"},
		{name: "list", raw: "virtio,trunks=1;2", change: func(n *vmNet) { n.Trunks = append(n.Trunks, "7") }, want: "virtio,trunks=1;2;7"},
		{name: "quoted value untouched", raw: `virtio,bridge="a,b",tag=1`, change: func(n *vmNet) { n.Tag = new(int64(2)) }, want: `virtio,bridge="a,b",tag=2`},
		{name: "nothing left", raw: "virtio", change: func(n *vmNet) { n.Model = "" }, want: ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			n, _ := parseNet(tc.raw)
			tc.change(&n)
			assert.Equal(t, tc.want, n.String())
			out, err := n.MarshalText()
			require.NoError(t, err)
			assert.Equal(t, tc.want, string(out))
		})
	}
}

func TestFormatNewProps(t *testing.T) {
	t.Parallel()
	type startup struct {
		Order int64  `json:"order" px:"default"`
		Up    *int64 `json:"up,omitempty"`
		Down  int64  `json:"down,omitempty"`
		On    bool   `json:"on"`
	}
	assert.Equal(t, "0,on=0", wire.FormatProps(startup{}, ""), "required numbers and flags are said")
	assert.Equal(t, "3,up=0,on=1", wire.FormatProps(&startup{Order: 3, Up: new(int64(0)), On: true}, ""))
	assert.Equal(t, "up=5", wire.FormatProps(startup{Up: new(int64(5))}, "up=5"), "but not added to what was read")

	assert.Equal(t, "virtio=BC:24:11:00:00:01,bridge=vmbr0,rate=0.0001,tag=30,trunks=1;2",
		vmNet{Model: "virtio", MACAddr: new("BC:24:11:00:00:01"), Bridge: new("vmbr0"), Tag: new(int64(30)), Rate: new(1e-4), Trunks: []string{"1", "2"}}.String())
	assert.Equal(t, "local-lvm:32,discard=on,iothread=1", vmDisk{File: "local-lvm:32", IOThread: new(true), Discard: new("on")}.String())
	assert.Equal(t, "bridge=", vmNet{Bridge: new("")}.String())
	assert.Empty(t, vmNet{}.String())
}

func TestMarshalPropsRefusesWhatPVEMisreads(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		net    vmNet
		err    string
		quoted string // what PBS and PDM are sent
	}{
		"comma":               {net: vmNet{Model: "virtio", Bridge: new("vmbr0,firewall=0")}, err: "bridge: the value must not contain a comma", quoted: `virtio,bridge="vmbr0,firewall=0"`},
		"comma and quotes":    {net: vmNet{Bridge: new(`a,"b"\`)}, err: "bridge", quoted: `bridge="a,\"b\"\\"`},
		"quote at the start":  {net: vmNet{Bridge: new(`"a"`)}, err: "bridge: the value must not begin with a quote", quoted: `bridge="\"a\""`},
		"comma in a default":  {net: vmNet{Model: "a,b"}, err: "model: the value must not contain a comma", quoted: `"a,b"`},
		"line break":          {net: vmNet{Bridge: new("a\nb")}, err: "bridge: the value must not contain line breaks"},
		"white space":         {net: vmNet{Bridge: new(" a")}, err: "bridge: the value must not begin or end with white space"},
		"separator in a list": {net: vmNet{Trunks: []string{"1;2"}}, err: `trunks: an element must not contain ";"`},
		"unknown value":       {net: vmNet{Extra: map[string]string{"x": "1,y=2"}}, err: "x: the value must not contain a comma", quoted: `x="1,y=2"`},
		"unknown key":         {net: vmNet{Extra: map[string]string{"x,y": "1"}}, err: `"x,y": is no key`},
		"key with a sign":     {net: vmNet{Extra: map[string]string{"x=y": "1"}}, err: `"x=y": is no key`},
		"no key":              {net: vmNet{Extra: map[string]string{"": "1"}}, err: `"": is no key`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := tc.net.MarshalText()
			assert.ErrorContains(t, err, tc.err)
			_, err = wire.EncodeForm(map[string]any{"net0": tc.net}, nil)
			assert.ErrorContains(t, err, "parameter net0: property string: "+tc.err)

			q := quotedNet{Model: tc.net.Model, Bridge: tc.net.Bridge, Trunks: tc.net.Trunks, Extra: tc.net.Extra}
			text, err := wire.MarshalProps(q, "")
			if tc.quoted == "" {
				assert.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.quoted, string(text))
			assert.Equal(t, tc.quoted, tc.net.String())
			var again quotedNet
			require.NoError(t, wire.ParseProps(tc.quoted, &again))
			assert.Equal(t, q, again)
		})
	}
}

// quotedNet is a property string of a product that reads quotes.
type quotedNet struct {
	Model  string            `json:"model" px:"default"`
	Bridge *string           `json:"bridge,omitempty"`
	Trunks []string          `json:"trunks,omitempty" px:"list=;"`
	Extra  map[string]string `json:"-" px:"extra,quotes"`
}

func TestPropsErrorIsShort(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1000)
	_, err := parseNet("virtio,mtu=" + long + ",tag=" + long + ",firewall=" + long + ",rate=" + long + ",=" + long)
	require.Error(t, err)
	assert.Less(t, len(err.Error()), 400)
	assert.ErrorContains(t, err, "and 2 more")

	type login struct {
		Password *int64 `json:"password,omitempty"`
	}
	assert.EqualError(t, wire.ParseProps("password=hunter2", new(login)), "property string: password: want integer, got a string")
}
