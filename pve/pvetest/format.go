package pvetest

import (
	"net/netip"
	"regexp"
	"strings"

	"github.com/proxkit/proxkit/apidoc"
)

// format checks a text against a schema's format and returns PVE's objection.
func (v *validator) format(path string, schema *apidoc.Schema, text string) string {
	if schema.FormatSchema != nil && schema.FormatSchema.Type != "array" && len(schema.FormatSchema.Properties) > 0 {
		if schema.Format == "" || !knownFormat(schema.Format) {
			if msg := v.propString(path, schema.FormatSchema, text); msg != "" {
				return msg
			}
			return v.named(schema.Format, text)
		}
	}
	return v.named(schema.Format, text)
}

// named checks a text against a format known by its name.
func (v *validator) named(format, text string) string {
	if format == "" {
		return ""
	}
	if name, ok := strings.CutSuffix(format, "-list"); ok {
		name = strings.TrimSuffix(name, "-a")
		for _, word := range splitList(text) {
			if msg := v.one(name, word); msg != "" {
				return msg
			}
		}
		return ""
	}
	if name, ok := strings.CutSuffix(format, "-opt"); ok {
		if text == "" || text == "0" {
			return ""
		}
		return v.one(name, text)
	}
	return v.one(format, text)
}

// one checks a single value of a named format.
func (v *validator) one(format, text string) string {
	if msg := formatError(v.matches, format, text); msg != "" {
		return msg
	}
	if v.hook != nil {
		return v.hook(format, text)
	}
	return ""
}

// knownFormat tells the formats that have a check of their own even though
// their grammar is known as well.
func knownFormat(name string) bool {
	switch name {
	case "pve-startup-order", "pve-qm-boot":
		return true
	}
	return false
}

const (
	dnsLabel = `[a-zA-Z0-9](?:[a-zA-Z0-9\-]*[a-zA-Z0-9])?`
	configID = `(?i)[a-z][a-z0-9_-]+`
	tagText  = `(?i)[a-z0-9_][a-z0-9_\-\+\.]*`
)

// formatError is the table of formats: a text that does not fit gets PVE's
// words for it. Formats that are not in it are not checked.
func formatError(match func(pattern, text string) bool, format, text string) string {
	ok := true
	msg := ""
	switch format {
	case "pve-vmid":
		ok, msg = match(`[1-9][0-9]{2,8}`, text), "value does not look like a valid VM ID"
	case "pve-node":
		ok, msg = match(`[a-zA-Z0-9](?:[a-zA-Z0-9\-]*[a-zA-Z0-9])?`, text), "value does not look like a valid node name"
	case "pve-configid":
		ok, msg = match(configID, text), "invalid configuration ID '"+text+"'"
	case "pve-storage-id":
		ok, msg = match(`(?i)[a-z][a-z0-9\-_.]*[a-z0-9]`, text), "storage ID '"+text+"' contains illegal characters"
	case "pve-storage-content":
		ok, msg = storageContent(text), "invalid content type '"+text+"'"
	case "pve-storage-vgname":
		ok, msg = match(`[a-zA-Z0-9._+][a-zA-Z0-9._+-]*`, text), "lvm volume group name '"+text+"' contains illegal characters"
	case "pve-storage-path":
		ok, msg = strings.HasPrefix(text, "/"), "value does not look like a valid absolute path"
	case "pve-volume-id":
		ok, msg = volumeID(match, text), "unable to parse volume ID '"+text+"'"
	case "pve-volume-id-or-qm-path":
		ok = text == "none" || text == "cdrom" || strings.HasPrefix(text, "/") || volumeID(match, text)
		msg = "unable to parse volume ID '" + text + "'"
	case "pve-volume-id-or-absolute-path":
		ok = strings.HasPrefix(text, "/") || volumeID(match, text)
		msg = "unable to parse volume ID '" + text + "'"
	case "disk-size":
		ok, msg = match(`\d+(?:\.\d+)?[KMGT]?`, text), "value does not look like a valid disk size: "+text
	case "dns-name":
		ok, msg = match(`(?:`+dnsLabel+`\.)*`+dnsLabel, text), "value does not look like a valid DNS name"
	case "address":
		ok = isAddr(text) || match(`(?:`+dnsLabel+`\.)*`+dnsLabel, text)
		msg = "value does not look like a valid address: " + text
	case "mac-addr":
		ok, msg = match(`(?i)[a-f0-9][02468ace](?::[a-f0-9]{2}){5}`, text), "value does not look like a valid unicast MAC address"
	case "mac-prefix":
		ok, msg = match(`(?i)[a-f0-9][02468ace](?::[a-f0-9]{2}){0,2}:?`, text), "value is not a valid unicast MAC address prefix"
	case "ip":
		ok, msg = isAddr(text), "value does not look like a valid IP address"
	case "ipv4":
		ok, msg = isAddr4(text), "value does not look like a valid IPv4 address"
	case "ipv6":
		ok, msg = isAddr(text) && !isAddr4(text), "value does not look like a valid IPv6 address"
	case "CIDR", "CIDRv4", "CIDRv6":
		ok, msg = isCIDR(text, format), "value does not look like a valid "+cidrName(format)+" network"
	case "IPorCIDR":
		ok, msg = isAddr(text) || isCIDR(text, "CIDR"), "value does not look like a valid IP address or CIDR network"
	case "IPorCIDRorAlias":
		ok = isAddr(text) || isCIDR(text, "CIDR") || match(`(?:(?:dc|guest|sdn)\/)?(?i)[a-z][a-z0-9\-_]+`, text)
		msg = "value does not look like a valid IP address or CIDR network"
	case "pve-ipv4-config":
		ok = text == "dhcp" || text == "manual" || isCIDR(text, "CIDRv4")
		msg = "value does not look like a valid ipv4 network configuration"
	case "pve-ipv6-config":
		ok = text == "dhcp" || text == "manual" || text == "auto" || isCIDR(text, "CIDRv6")
		msg = "value does not look like a valid ipv6 network configuration"
	case "pve-iface":
		ok, msg = match(`(?i)[a-z][a-z0-9_]{1,20}(?:[:.]\d+)?`, text) && len(text) <= 20, "invalid network interface name '"+text+"'"
	case "pve-bridge-id":
		ok, msg = match(`[-_.\w\d]+`, text), "invalid bridge name '"+text+"'"
	case "urlencoded":
		ok, msg = match(`[-%a-zA-Z0-9_.!~*'()]*`, text), "invalid urlencoded string: "+text
	case "pve-userid":
		ok, msg = match(`[^\s:/]+\@[A-Za-z][A-Za-z0-9.\-_]+`, text) && len(text) >= 3 && len(text) <= 64,
			"value '"+text+"' does not look like a valid user name"
	case "pve-tokenid":
		ok, msg = match(`[^\s:/]+\@[A-Za-z][A-Za-z0-9.\-_]+![A-Za-z][A-Za-z0-9.\-_]+`, text), "value '"+text+"' does not look like a valid token ID"
	case "pve-realm":
		ok, msg = match(`[A-Za-z][A-Za-z0-9.\-_]+`, text), "value does not look like a valid realm"
	case "pve-groupid":
		ok, msg = match(`[A-Za-z0-9.\-_]+`, text), "group name '"+text+"' contains invalid characters"
	case "pve-roleid":
		ok, msg = match(`[A-Za-z0-9.\-_]+`, text), "role name '"+text+"' contains invalid characters"
	case "pve-priv":
		ok, msg = knownPriv(text), "invalid privilege '"+text+"'"
	case "pve-poolid":
		return poolIDError(match, text)
	case "pve-tag":
		ok, msg = match(tagText, text), "invalid characters in tag"
	case "pve-startup-order":
		ok, msg = startupOrder(match, text), "unable to parse startup options"
	case "pve-hotplug-features":
		return hotplugError(text)
	case "email":
		ok, msg = match(`[\w+\-~]+(?:\.[\w+\-~]+)*@(?:`+dnsLabel+`\.)*`+dnsLabel, text), "value does not look like a valid email address"
	case "pve-ha-resource-or-vm-id":
		ok, msg = match(`(?:[a-z]+:)?\S+`, text), "unable to parse resource id '"+text+"'"
	}
	if ok {
		return ""
	}
	return msg + "\n"
}

func storageContent(s string) bool {
	switch s {
	case "images", "rootdir", "vztmpl", "iso", "backup", "snippets", "none", "import":
		return true
	}
	return false
}

func volumeID(match func(pattern, text string) bool, s string) bool {
	return match(`(?i)[a-z][a-z0-9\-_.]*[a-z0-9]:.+`, s)
}

func isAddr(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Zone() == ""
}

func isAddr4(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Is4()
}

func isCIDR(s, kind string) bool {
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		return false
	case kind == "CIDRv4":
		return p.Addr().Is4()
	case kind == "CIDRv6":
		return p.Addr().Is6()
	}
	return true
}

func cidrName(format string) string {
	switch format {
	case "CIDRv4":
		return "IPv4"
	case "CIDRv6":
		return "IPv6"
	}
	return "CIDR"
}

// poolIDError checks the name of a pool, nested names included.
func poolIDError(match func(pattern, text string) bool, s string) string {
	parts := strings.Split(s, "/")
	if len(parts) > 3 {
		return "pool name '" + s + "' nested too deeply (max levels = 3)\n"
	}
	for _, p := range parts {
		if !match(`[A-Za-z0-9.\-_]+`, p) {
			return "pool name '" + s + "' contains invalid characters\n"
		}
	}
	return ""
}

func startupOrder(match func(pattern, text string) bool, s string) bool {
	for part := range strings.SplitSeq(s, ",") {
		if part != "" && !match(`(?:order=)?\d+|(?:up|down)=\d+`, part) && !match(`up=\d+`, part) && !match(`down=\d+`, part) && !match(`order=\d+`, part) && !match(`\d+`, part) {
			return false
		}
	}
	return true
}

func hotplugError(s string) string {
	if s == "0" || s == "1" {
		return ""
	}
	for _, f := range splitList(s) {
		switch f {
		case "network", "disk", "cpu", "memory", "usb", "cloudinit":
		default:
			return "invalid hotplug feature '" + f + "'\n"
		}
	}
	return ""
}

// matchOnce is match for callers without a validator at hand.
func matchOnce(pattern, text string) bool {
	re, err := regexp.Compile("^(?:" + pattern + ")$")
	return err != nil || re.MatchString(text)
}
