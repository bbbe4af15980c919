package pvetest_test

import (
	"testing"

	"github.com/proxkit/proxkit/pve/pvetest"
)

// BenchmarkNew shows what a cluster costs a test.
func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		s, err := pvetest.New()
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
