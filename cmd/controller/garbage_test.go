package main

import "testing"

// TestGarbagePercent: of little that is kept, all may be left lying again, of much 15 percent.
func TestGarbagePercent(t *testing.T) {
	for kept, want := range map[uint64]int{0: 100, 10 << 20: 100, 24 << 20: 100, 48 << 20: 50, 96 << 20: 25, 120 << 20: 20, 150 << 20: 16, 10 << 30: 15} {
		if got := garbagePercent(kept); got != want {
			t.Errorf("%d bytes are kept: %d %%, want %d", kept, got, want)
		}
	}
}
