package wire_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/internal/wire"
)

func TestParseSize(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		want int64
	}{
		{"528K", 528 << 10},
		{"3907018584K", 3907018584 << 10},
		{"512M", 512 << 20},
		{"32G", 32 << 30},
		{"4T", 4 << 40},
		{"4096G", 4 << 40},
		{"2952790017", 2952790017},
		{"0", 0},
		{"0T", 0},
		{"1.5G", 3 << 29},
		{"0.5K", 512},
		{"0.0001K", 0},
		{"1.9", 1},
		{"8191.5T", 8191<<40 + 1<<39},
		{" 10G\n", 10 << 30},
		{"10g", 10 << 30},
		{"9223372036854775807", math.MaxInt64},
		{"8388607T", 8388607 << 40},
	} {
		got, err := wire.ParseSize(tc.text)
		require.NoError(t, err, tc.text)
		assert.Equal(t, tc.want, got, tc.text)
	}
	for _, text := range []string{"", " ", "G", "-1G", "+1G", "1GG", "1 G", "1GiB", "1e3", "1.G", ".5G", "1.2.3G", "0x10", "1_0", "9223372036854775808", "8388608T", "99999999999999999999K", "１G"} {
		got, err := wire.ParseSize(text)
		assert.Error(t, err, "%q gave %d", text, got)
	}
}

func TestFormatSize(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[int64]string{
		0: "0", 1: "1", 1023: "1023", 1024: "1K", 1025: "1025", 528 << 10: "528K", 1 << 20: "1M", 3 << 29: "1536M", 4 << 40: "4T", 2952790017: "2952790017", 5 << 50: "5120T",
		math.MaxInt64: "9223372036854775807", -2048: "-2K",
	} {
		assert.Equal(t, want, wire.FormatSize(bytes))
	}
}

func FuzzParseSize(f *testing.F) {
	for _, seed := range []string{"528K", "4T", "1.5G", "2952790017", "8388607.999999999999999999T", "", "1.", "T"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := wire.ParseSize(text)
		if err != nil {
			return
		}
		if n < 0 {
			t.Fatalf("ParseSize(%q) = %d", text, n)
		}
		again, err := wire.ParseSize(wire.FormatSize(n))
		if err != nil || again != n {
			t.Fatalf("%q is %d, written %s, read %d, %v", text, n, wire.FormatSize(n), again, err)
		}
	})
}
