package main

import "testing"

// TestGarbagePercent: of little that is kept, all may be left lying again, of much 15 percent.
func TestGarbagePercent(t *testing.T) {
	for kept, want := range map[uint64]int{0: 100, 10 << 20: 100, 32 << 20: 100, 64 << 20: 25, 80 << 20: 16, 96 << 20: 15, 10 << 30: 15} {
		if got := garbagePercent(kept); got != want {
			t.Errorf("%d bytes are kept: %d %%, want %d", kept, got, want)
		}
	}
}
