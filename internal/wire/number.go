package wire

import (
	"math"
	"strconv"
)

// maxExponent bounds the exponent of a literal, so that "1e999999999" costs
// nothing. No integer type reaches it.
const maxExponent = 1 << 20

// parseInteger reads a decimal literal exactly: "42", "-7", "4.2e1", "1073741824.0".
// It never passes through a float. A fraction, an overflow of 64 bits and anything
// else than a decimal literal is refused.
func parseInteger[T string | []byte](s T) (mag uint64, neg, ok bool) {
	i := 0
	if i < len(s) && (s[i] == '-' || s[i] == '+') {
		neg = s[i] == '-'
		i++
	}
	var (
		zeros int // trailing zeros of the mantissa, not yet multiplied in
		scale int
		start = i
	)
	digit := func(c byte) bool {
		switch {
		case c == '0':
			if mag > 0 {
				zeros++
			}
			return true
		case mag == 0:
			mag = uint64(c - '0')
			return true
		}
		if mag, ok = shift(mag, zeros+1); !ok || mag > math.MaxUint64-uint64(c-'0') {
			return false
		}
		mag += uint64(c - '0')
		zeros = 0
		return true
	}
	for ; i < len(s) && isDigit(s[i]); i++ {
		if !digit(s[i]) {
			return 0, false, false
		}
	}
	if i == start {
		return 0, false, false
	}
	if i < len(s) && s[i] == '.' {
		i++
		start = i
		for ; i < len(s) && isDigit(s[i]); i++ {
			if !digit(s[i]) {
				return 0, false, false
			}
		}
		if i == start {
			return 0, false, false
		}
		scale = -(i - start)
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		i++
		minus := false
		if i < len(s) && (s[i] == '-' || s[i] == '+') {
			minus = s[i] == '-'
			i++
		}
		start = i
		exp := 0
		for ; i < len(s) && isDigit(s[i]); i++ {
			exp = min(exp*10+int(s[i]-'0'), maxExponent)
		}
		if i == start {
			return 0, false, false
		}
		if minus {
			exp = -exp
		}
		scale += exp
	}
	if i != len(s) {
		return 0, false, false
	}
	if mag == 0 {
		return 0, neg, true
	}
	if scale += zeros; scale < 0 {
		return 0, false, false
	}
	mag, ok = shift(mag, scale)
	return mag, neg, ok
}

// shift returns n times ten to the power of places.
func shift(n uint64, places int) (uint64, bool) {
	if places > 19 {
		return 0, false
	}
	for range places {
		if n > math.MaxUint64/10 {
			return 0, false
		}
		n *= 10
	}
	return n, true
}

func toInt64(mag uint64, neg bool) (int64, bool) {
	if neg {
		return -int64(mag), mag <= 1<<63 //nolint:gosec // the bound is returned
	}
	return int64(mag), mag <= math.MaxInt64 //nolint:gosec // the bound is returned
}

// parseFloat reads a decimal literal. Words ("NaN", "inf"), hexadecimal forms and
// values beyond the range of a float64 are refused.
func parseFloat(s []byte) (float64, bool) {
	if !isDecimal(s) {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(s), 64)
	return f, err == nil
}

// isDecimal reports whether s is a decimal literal, with sign, fraction and
// exponent where it has them.
func isDecimal[T string | []byte](s T) bool {
	i := 0
	if i < len(s) && (s[i] == '-' || s[i] == '+') {
		i++
	}
	digits := func() bool {
		start := i
		for i < len(s) && isDigit(s[i]) {
			i++
		}
		return i > start
	}
	if !digits() {
		return false
	}
	if i < len(s) && s[i] == '.' {
		i++
		if !digits() {
			return false
		}
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		i++
		if i < len(s) && (s[i] == '-' || s[i] == '+') {
			i++
		}
		if !digits() {
			return false
		}
	}
	return i == len(s)
}

func isDigit(c byte) bool { return c-'0' <= 9 }

// parseBool knows the spellings of truth that occur in answers and in property
// strings. Blank text is false: it is how Perl prints a false value.
func parseBool(s []byte) (value, ok bool) {
	if len(s) > len("false") {
		return false, false
	}
	var low [len("false")]byte
	for i, c := range s {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		low[i] = c
	}
	switch string(low[:len(s)]) {
	case "1", "on", "yes", "true":
		return true, true
	case "", "0", "off", "no", "false":
		return false, true
	}
	return false, false
}

// trim removes the white space of JSON and of lists from both ends.
func trim[T string | []byte](s T) T {
	for len(s) > 0 && isSpace(s[0]) {
		s = s[1:]
	}
	for len(s) > 0 && isSpace(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }
