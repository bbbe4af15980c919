package rest

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// parseEndpoint turns what people write for a server into the URL in front of the
// API's paths, base path included. A bare host gets https and the product's port; a
// URL without a port means the port of its scheme, as everywhere.
func parseEndpoint(product Product, text string) (*url.URL, error) {
	fail := func(format string, args ...any) (*url.URL, error) {
		return nil, fmt.Errorf("%s: endpoint %q: %s", product.Name, withoutUserinfo(text), fmt.Sprintf(format, args...))
	}
	rest := strings.TrimSpace(text)
	if rest == "" {
		return fail("is empty: give a host name, host:port or https://host:port")
	}
	scheme, after, hasScheme := strings.Cut(rest, "://")
	if hasScheme {
		scheme, rest = strings.ToLower(scheme), after
	} else {
		scheme = "https"
	}
	if scheme != "https" && scheme != "http" {
		return fail("the scheme is %q, but the API speaks https", scheme)
	}
	if strings.ContainsAny(rest, "?#") {
		return fail("has a query or fragment: give the server alone, as https://host:port")
	}
	authority, path, _ := strings.Cut(rest, "/")
	if strings.Contains(authority, "@") {
		return fail("holds a user name: log in with an API token or a password option instead")
	}
	host, port, err := splitHost(product, authority)
	if err != nil {
		return fail("%s", err)
	}
	if port == "" && !hasScheme {
		port = strconv.Itoa(product.DefaultPort)
	}
	u := &url.URL{Scheme: scheme, Host: host}
	switch {
	case port != "":
		u.Host = net.JoinHostPort(host, port)
	case strings.Contains(host, ":"):
		u.Host = "[" + host + "]"
	}
	prefix := "/" + strings.Trim(path, "/")
	prefix = strings.TrimSuffix(prefix, product.BasePath)
	if base, _, ok := cutLast(product.BasePath); ok && base != "" {
		prefix = strings.TrimSuffix(prefix, base)
	}
	full := strings.TrimSuffix(prefix, "/") + product.BasePath
	if u.Path, err = url.PathUnescape(full); err != nil {
		return fail("the path is not valid: %s", err)
	}
	if u.EscapedPath() != full {
		u.RawPath = full
	}
	if _, err := url.Parse(u.String()); err != nil {
		return fail("is not a valid address: write https://host:port")
	}
	return u, nil
}

// splitHost splits host and port, where the host may be an IPv6 address with or
// without brackets. An unbracketed address followed by the product's port, as in
// "2001:db8::1:8006", is read as address and port, since nobody means the group 8006.
func splitHost(product Product, authority string) (host, port string, err error) {
	defaultPort := strconv.Itoa(product.DefaultPort)
	switch {
	case authority == "":
		return "", "", fmt.Errorf("has no host")
	case strings.HasPrefix(authority, "["):
		inner, after, closed := strings.Cut(authority[1:], "]")
		inner = strings.Replace(inner, "%25", "%", 1) // how URLs spell the zone of fe80::1%eth0
		addr, perr := netip.ParseAddr(inner)
		if !closed || perr != nil || !addr.Is6() {
			return "", "", fmt.Errorf("%s is no IPv6 address in brackets", authority)
		}
		if after != "" {
			if !strings.HasPrefix(after, ":") {
				return "", "", fmt.Errorf("after the address comes %q instead of a port", after)
			}
			port = after[1:]
			if port == "" {
				return "", "", fmt.Errorf("the port is missing after the colon")
			}
		}
		host = inner
	case strings.Count(authority, ":") > 1:
		host = authority
		if short, ok := strings.CutSuffix(authority, ":"+defaultPort); ok && validIPv6(short) {
			host, port = short, defaultPort
		}
		if !validIPv6(host) {
			return "", "", fmt.Errorf("%s is no IPv6 address: write [address]:port", authority)
		}
	default:
		var hasPort bool
		host, port, hasPort = strings.Cut(authority, ":")
		if hasPort && port == "" {
			return "", "", fmt.Errorf("the port is missing after the colon")
		}
		if host == "" {
			return "", "", fmt.Errorf("has no host")
		}
		if strings.Trim(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") != "" {
			return "", "", fmt.Errorf("%q is no host name", host)
		}
	}
	if port != "" {
		n, perr := strconv.ParseUint(port, 10, 16)
		if perr != nil || n == 0 {
			return "", "", fmt.Errorf("port %q is not a number from 1 to 65535", port)
		}
		port = strconv.FormatUint(n, 10)
	}
	return host, port, nil
}

func validIPv6(text string) bool {
	addr, err := netip.ParseAddr(text)
	return err == nil && addr.Is6()
}

// cutLast splits "/api2/json" into "/api2" and "json".
func cutLast(path string) (before, after string, found bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return path, "", false
	}
	return path[:i], path[i+1:], true
}

// withoutUserinfo hides what stands before an @ in an endpoint, which may be a password.
func withoutUserinfo(text string) string {
	at := strings.LastIndexByte(text, '@')
	if at < 0 {
		return text
	}
	scheme, _, ok := strings.Cut(text, "://")
	if !ok || len(scheme) > at {
		return "…" + text[at:]
	}
	return scheme + "://…" + text[at:]
}

// isLoopback reports whether requests to u stay on this machine.
func isLoopback(u *url.URL) bool {
	host := u.Hostname()
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
