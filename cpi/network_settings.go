package cpi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/proxkit/proxkit/cpi/rpc"
)

// NetworkProperties are the cloud properties of a network.
//
//	key     type     default        meaning
//	bridge  string   configuration  Linux or OVS bridge
//	vnet    string   none           SDN vnet, instead of a bridge
//	vlan    integer  none           VLAN tag on the bridge, 1 to 4094
//	mtu     integer  none           MTU of the NIC, 576 to 65520, or 1 for the bridge's; virtio only
//	model   string   configuration  virtio, e1000, e1000e, vmxnet3
type NetworkProperties struct {
	// Bridge is what the NIC is plugged into, a bridge or a vnet: PVE gives both
	// in the same place.
	Bridge string
	// VNet reports whether Bridge is a vnet.
	VNet  bool
	VLAN  int
	MTU   int
	Model string
}

func nicModels() []string { return []string{"virtio", "e1000", "e1000e", "vmxnet3"} }

// ParseNetworkProperties reads the cloud properties of the network called name.
func ParseNetworkProperties(name string, raw json.RawMessage, c *Config) (NetworkProperties, error) {
	return readNetworkProperties(newObjectReader(fmt.Sprintf("network %q: %s", name, placeProperties), raw), c)
}

func readNetworkProperties(r *objectReader, c *Config) (NetworkProperties, error) {
	p := NetworkProperties{Bridge: c.Bridge, Model: c.Model}
	bridge, vnet := r.name("bridge"), r.name("vnet")
	if v := r.integer("vlan", 1, 4094); v != nil {
		p.VLAN = int(*v)
	}
	if v := r.integer("mtu", 1, 65520); v != nil {
		p.MTU = int(*v)
		if p.MTU != 1 && p.MTU < 576 {
			r.fail("mtu", "must be from 576 to 65520, or 1 for the bridge's own, got %d", p.MTU)
		}
	}
	setText(&p.Model, r.choice("model", nicModels()...))
	r.later("security_groups", "firewall")
	switch {
	case bridge != "" && vnet != "":
		r.fail("vnet", "stands beside bridge: a NIC is on one or the other")
	case vnet != "" && p.VLAN != 0:
		r.fail("vlan", "stands beside vnet: the vnet has its own tag")
	case vnet != "":
		p.Bridge, p.VNet = vnet, true
	case bridge != "":
		p.Bridge = bridge
	}
	if p.MTU != 0 && p.Model != "virtio" {
		r.fail("mtu", "needs model virtio, got %s", p.Model)
	}
	if err := r.finish(); err != nil {
		return NetworkProperties{}, err
	}
	return p, nil
}

// A nic is one network interface of a VM to be.
type nic struct {
	NetworkProperties
	// MAC is in upper case, as PVE writes it.
	MAC string
	// Networks are the names of the networks on it: one, unless they share a
	// nic_group.
	Networks []string
}

// planNICs decides the NICs of a VM, in the order of the networks, and gives each
// a MAC from newMAC. A network that cannot be had is refused here, before
// anything is made. The networks are returned with what the agent must know.
func planNICs(networks rpc.Networks, c *Config, newMAC func() (net.HardwareAddr, error)) ([]nic, rpc.Networks, error) {
	var nics []nic
	out := make(rpc.Networks, len(networks))
	groups := map[string]int{}
	if err := checkNetworks(networks); err != nil {
		return nil, nil, err
	}
	macs := map[string]bool{}
	for i, n := range networks {
		props, err := ParseNetworkProperties(n.Name, n.CloudProperties, c)
		if err != nil {
			return nil, nil, err
		}
		at, shared := groups[n.NICGroup]
		if n.NICGroup != "" && shared {
			if nics[at].NetworkProperties != props {
				return nil, nil, fmt.Errorf("network %q: is in nic_group %q with network %q, but their cloud_properties differ",
					n.Name, n.NICGroup, nics[at].Networks[0])
			}
			nics[at].Networks = append(nics[at].Networks, n.Name)
		} else {
			mac, err := unusedMAC(newMAC, macs)
			if err != nil {
				return nil, nil, err
			}
			at = len(nics)
			nics = append(nics, nic{NetworkProperties: props, MAC: strings.ToUpper(mac.String()), Networks: []string{n.Name}})
			if n.NICGroup != "" {
				groups[n.NICGroup] = at
			}
		}
		if out[i], err = agentNetwork(n, nics[at].MAC); err != nil {
			return nil, nil, err
		}
	}
	// net0 to net31 is what PVE has.
	if len(nics) > 32 {
		return nil, nil, fmt.Errorf("the VM has %d networks, but a guest can have at most 32 NICs", len(nics))
	}
	return nics, out, nil
}

// unusedMAC returns a MAC that no other NIC of the VM has: the agent tells NICs
// apart by nothing else.
func unusedMAC(newMAC func() (net.HardwareAddr, error), used map[string]bool) (net.HardwareAddr, error) {
	for range 100 {
		mac, err := newMAC()
		if err != nil {
			return nil, err
		}
		if !used[mac.String()] {
			used[mac.String()] = true
			return mac, nil
		}
	}
	return nil, errors.New("no MAC address that the VM does not have already")
}

// agentNetwork returns the network as the agent gets it: everything the Director
// sent, and the MAC by which the agent finds the NIC. The agent compares the MAC
// with what the kernel shows, which is lower case, as an exact text.
func agentNetwork(n rpc.Network, mac string) (rpc.Network, error) {
	if err := n.Set("mac", strings.ToLower(mac)); err != nil {
		return n, err
	}
	// There is no DHCP on a PVE bridge unless somebody runs one; only a dynamic
	// network counts on it.
	if n.Get("use_dhcp") == nil && n.Type != "dynamic" {
		if err := n.Set("use_dhcp", false); err != nil {
			return n, err
		}
	}
	// A number here fails the agent's parse of all its settings.
	if raw := n.Get("prefix"); jsonKind(raw) == "a number" {
		if err := n.Set("prefix", string(raw)); err != nil {
			return n, err
		}
	}
	if n.Type == "dynamic" {
		// The Director may send the address of an earlier VM, which is not this
		// one's to use.
		for _, key := range []string{"ip", "netmask", "gateway"} {
			if n.Get(key) != nil {
				if err := n.Set(key, ""); err != nil {
					return n, err
				}
			}
		}
	}
	return n, nil
}

// randomMAC makes an address in PVE's own range from bytes of read.
func randomMAC(read func([]byte) (int, error)) func() (net.HardwareAddr, error) {
	return func() (net.HardwareAddr, error) {
		mac := net.HardwareAddr{0xBC, 0x24, 0x11, 0, 0, 0}
		if _, err := read(mac[3:]); err != nil {
			return nil, errors.New("no random bytes for a MAC address")
		}
		return mac, nil
	}
}

// jsonObject returns raw, or {} when nothing is given.
func jsonObject(raw json.RawMessage) json.RawMessage {
	if !given(raw) {
		return json.RawMessage("{}")
	}
	return raw
}
