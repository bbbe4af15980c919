package cpi

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"strconv"
	"strings"

	"github.com/proxkit/proxkit/cpi/rpc"
)

// checkNetworks finds what is wrong with the networks of a VM, before anything is
// made: an agent that cannot set up its networks answers to nobody, and says so
// only on the console.
func checkNetworks(networks rpc.Networks) error {
	owner := map[netip.Addr]string{}
	for _, n := range networks {
		switch n.Type {
		case "", "manual", "dynamic":
		case "vip":
			return rpc.NotSupported("network %q: is of type vip, and this CPI has no floating addresses", n.Name)
		default:
			return rpc.NotSupported("network %q: is of the unknown type %q: use manual or dynamic", n.Name, n.Type)
		}
		for _, server := range n.DNS {
			if _, err := hostAddress("dns", server); err != nil {
				return fmt.Errorf("network %q: %w", n.Name, err)
			}
		}
		if n.Type == "dynamic" {
			// Its address, which may be that of an earlier VM, is not this VM's to use.
			continue
		}
		ip, err := checkManual(n)
		if err != nil {
			return fmt.Errorf("network %q: %w", n.Name, err)
		}
		if other, taken := owner[ip]; taken {
			return fmt.Errorf("network %q: ip %s is that of network %q too", n.Name, ip, other)
		}
		owner[ip] = n.Name
	}
	return nil
}

// checkManual checks the addresses of a manual network. The agent needs ip and
// netmask; a prefix beside them does not stand for the netmask.
func checkManual(n rpc.Network) (netip.Addr, error) {
	const needs = "a manual network needs ip and netmask: "
	switch {
	case n.IP == "" && n.Netmask == "":
		return netip.Addr{}, errors.New(needs + "both are missing; use type dynamic where DHCP gives the address")
	case n.IP == "":
		return netip.Addr{}, errors.New(needs + "ip is missing; use type dynamic where DHCP gives the address")
	case n.Netmask == "" && given(n.Get("prefix")):
		return netip.Addr{}, errors.New(needs + "netmask is missing, and prefix does not stand for it")
	case n.Netmask == "":
		return netip.Addr{}, errors.New(needs + "netmask is missing")
	}
	ip, err := hostAddress("ip", n.IP)
	if err != nil {
		return ip, err
	}
	if err := checkNetmask(ip, n.Netmask); err != nil {
		return ip, err
	}
	if err := checkPrefix(ip, n.Get("prefix")); err != nil {
		return ip, err
	}
	if n.Gateway == "" {
		return ip, nil
	}
	gateway, err := hostAddress("gateway", n.Gateway)
	switch {
	case err != nil:
		return ip, err
	case gateway.Is4() != ip.Is4():
		return ip, fmt.Errorf("gateway %s and ip %s are not both IPv4 or both IPv6", gateway, ip)
	case gateway == ip:
		return ip, fmt.Errorf("gateway %s is the VM's own ip", gateway)
	}
	return ip, nil
}

// hostAddress reads the address of one host.
func hostAddress(key, text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	switch {
	case err != nil && strings.Contains(text, "/"):
		return a, fmt.Errorf("%s %q must be an address without the length of a prefix", key, text)
	case err != nil || a.Zone() != "":
		return a, fmt.Errorf("%s %q is no IP address", key, text)
	case a.IsUnspecified() || a.IsMulticast():
		return a, fmt.Errorf("%s %s cannot be the address of a host", key, a)
	}
	return a.Unmap(), nil
}

// checkNetmask checks a netmask, which is written like an address of the same
// kind as ip: ones followed by zeros.
func checkNetmask(ip netip.Addr, text string) error {
	example := "255.255.255.0"
	if ip.Is6() {
		example = "ffff:ffff:ffff:ffff::"
	}
	mask, err := netip.ParseAddr(text)
	if err != nil || mask.Zone() != "" {
		return fmt.Errorf("netmask %q must be written like %s", text, example)
	}
	if mask.Is4() != ip.Is4() {
		return fmt.Errorf("netmask %s and ip %s are not both IPv4 or both IPv6: write it like %s", mask, ip, example)
	}
	ones, ended := 0, false
	for _, b := range mask.AsSlice() {
		n := bits.LeadingZeros8(^b)
		if ended && b != 0 || b<<n != 0 {
			return fmt.Errorf("netmask %s is none: it must be ones followed by zeros, like %s", mask, example)
		}
		ended = ended || n < 8
		ones += n
	}
	if ones == 0 {
		return fmt.Errorf("netmask %s is that of no network: write it like %s", mask, example)
	}
	return nil
}

// checkPrefix checks the length of a prefix, a number or a string of one.
func checkPrefix(ip netip.Addr, raw json.RawMessage) error {
	if !given(raw) {
		return nil
	}
	text := string(raw)
	if jsonKind(raw) == "a string" {
		_ = json.Unmarshal(raw, &text)
	}
	if n, err := strconv.Atoi(text); err != nil || n < 1 || n > ip.BitLen() {
		return fmt.Errorf("prefix must be a whole number from 1 to %d, got %s", ip.BitLen(), shown(raw))
	}
	return nil
}
