package wire

import (
	"net/url"
	"strings"
)

// splitKeys reads what QEMU's sshkeys option holds: percent-encoded lines.
func splitKeys(text string) []string {
	if plain, err := url.PathUnescape(text); err == nil {
		text = plain
	}
	var keys []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			keys = append(keys, line)
		}
	}
	return keys
}

// joinKeys is the inverse. The server demands this encoding of the value itself,
// besides that of the form around it; a space must be %20.
func joinKeys(dst []byte, keys []string) []byte {
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, "%0A"...)
		}
		dst = appendEscape(dst, strings.TrimRight(key, "\r\n"), false)
	}
	return dst
}
