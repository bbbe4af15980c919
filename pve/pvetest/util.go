package pvetest

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

func itoa(n int) string { return strconv.Itoa(n) }

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// bit is a boolean as PVE sends it.
func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// sha1hex is the digest PVE computes over a configuration file.
func sha1hex(parts ...string) string {
	sum := sha1.Sum([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:])
}

// uuid returns a random UUID.
func (s *Server) uuid() string {
	var b [16]byte
	for i := range b {
		b[i] = byte(s.rng.UintN(256))
	}
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// mac returns a random MAC address with Proxmox's prefix.
func (s *Server) mac() string {
	n := s.rng.UintN(1 << 24)
	return fmt.Sprintf("BC:24:11:%02X:%02X:%02X", n>>16, n>>8&0xff, n&0xff)
}
