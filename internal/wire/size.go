package wire

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParseSize reads a size in bytes as disks carry it: "528K", "4T", "1.5G",
// "2952790017". The units are powers of 1024. A fraction of a byte is dropped.
func ParseSize(text string) (int64, error) {
	number, unit := trim(text), 0
	if number != "" {
		if unit = strings.IndexByte("KMGT", number[len(number)-1]&^0x20) + 1; unit > 0 {
			number = number[:len(number)-1]
		}
	}
	whole, fraction, hasFraction := strings.Cut(number, ".")
	if !isDigits(whole) || hasFraction && !isDigits(fraction) {
		return 0, fmt.Errorf("%q is not a size such as 512M, 32G or a number of bytes", shorten(text, maxGot))
	}
	shift := 10 * unit
	n, _, ok := parseInteger(whole)
	if !ok || n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("the size %q is too large", shorten(text, maxGot))
	}
	n <<= shift
	if part, ok := parseFloat([]byte("0." + fraction)); ok {
		n += min(uint64(part*float64(uint64(1)<<shift)), 1<<shift-1)
	}
	return int64(n), nil //nolint:gosec // checked above
}

func isDigits(s string) bool {
	for i := range len(s) {
		if !isDigit(s[i]) {
			return false
		}
	}
	return s != ""
}

// FormatSize writes a size as the server does: in the largest unit, up to T, that says
// it exactly, and a plain number of bytes otherwise.
func FormatSize(bytes int64) string {
	unit := ""
	for _, next := range [...]string{"K", "M", "G", "T"} {
		if bytes == 0 || bytes%1024 != 0 {
			break
		}
		bytes /= 1024
		unit = next
	}
	return strconv.FormatInt(bytes, 10) + unit
}
