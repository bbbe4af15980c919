package pvetest

import (
	"strconv"
	"strings"
)

const (
	kib = int64(1) << 10
	mib = int64(1) << 20
	gib = int64(1) << 30
	tib = int64(1) << 40
)

// formatSize prints a size as PVE does in configs: with the largest unit that
// is exact, bytes without one, and nothing at all as "0T".
func formatSize(n int64) string {
	switch {
	case n%kib != 0:
		return strconv.FormatInt(n, 10)
	case n%mib != 0:
		return strconv.FormatInt(n/kib, 10) + "K"
	case n%gib != 0:
		return strconv.FormatInt(n/mib, 10) + "M"
	case n%tib != 0:
		return strconv.FormatInt(n/gib, 10) + "G"
	}
	return strconv.FormatInt(n/tib, 10) + "T"
}

// parseSize reads a size such as "512M", "1.5G" or "1048576". Without a unit
// it is in multiples of unit.
func parseSize(s string, unit int64) (int64, bool) {
	if s == "" {
		return 0, false
	}
	num := s
	switch s[len(s)-1] {
	case 'K':
		unit, num = kib, s[:len(s)-1]
	case 'M':
		unit, num = mib, s[:len(s)-1]
	case 'G':
		unit, num = gib, s[:len(s)-1]
	case 'T':
		unit, num = tib, s[:len(s)-1]
	}
	whole, frac, point := strings.Cut(num, ".")
	if !digits(whole) || point && !digits(frac) {
		return 0, false
	}
	if n, err := strconv.ParseInt(num, 10, 64); err == nil && n <= (1<<62)/unit {
		return n * unit, true
	}
	f, err := strconv.ParseFloat(num, 64)
	if err != nil || f*float64(unit) >= 1<<62 {
		return 0, false
	}
	return int64(f * float64(unit)), true
}

// digits tells whether s is a number of nothing but digits.
func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// humanSize prints a size as qemu-img's progress does.
func humanSize(n int64) string {
	f := float64(n)
	for _, unit := range []string{"B", "KiB", "MiB", "GiB", "TiB"} {
		if f < 1024 || unit == "TiB" {
			return strconv.FormatFloat(f, 'f', 1, 64) + " " + unit
		}
		f /= 1024
	}
	return ""
}

// roundUp rounds n up to a multiple of step.
func roundUp(n, step int64) int64 { return (n + step - 1) / step * step }
