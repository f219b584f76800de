package garbage

import "testing"

// TestPercent: of little that is kept, all may be left lying again, of much as little as the rule says.
func TestPercent(t *testing.T) {
	r := Rule{Little: 32 << 20, LeastPercent: 15}
	for kept, want := range map[uint64]int{0: 100, 10 << 20: 100, 32 << 20: 100, 64 << 20: 25, 80 << 20: 16, 96 << 20: 15, 10 << 30: 15} {
		if got := r.percent(kept); got != want {
			t.Errorf("%d bytes are kept: %d %%, want %d", kept, got, want)
		}
	}
}
