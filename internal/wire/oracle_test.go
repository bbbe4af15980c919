package wire_test

import (
	"math/big"
	"strconv"
	"strings"
)

// oracle says what int64 and uint64 a decimal literal is, by other means than the
// package's own. It does not know about exponents that math/big is slow with.
func oracle(text string) (signed *int64, unsigned *uint64, ok bool) {
	if _, exponent, _ := strings.Cut(strings.ToLower(text), "e"); len(exponent) > 4 {
		return nil, nil, false
	}
	n, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, nil, false
	}
	if !n.IsInt() {
		return nil, nil, true
	}
	digits := n.Num().String()
	if i, err := strconv.ParseInt(digits, 10, 64); err == nil {
		signed = &i
	}
	if u, err := strconv.ParseUint(digits, 10, 64); err == nil {
		unsigned = &u
	}
	return signed, unsigned, true
}
