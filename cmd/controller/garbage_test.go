package main

import "testing"

// TestGarbagePercent: of little that is kept, all may be left lying again, of much 15 percent.
func TestGarbagePercent(t *testing.T) {
	for kept, want := range map[uint64]int{0: 100, 10 << 20: 100, 20 << 20: 100, 40 << 20: 50, 80 << 20: 25, 100 << 20: 20, 120 << 20: 16, 10 << 30: 15} {
		if got := garbagePercent(kept); got != want {
			t.Errorf("%d bytes are kept: %d %%, want %d", kept, got, want)
		}
	}
}
