package targets

import (
	"testing"
	"time"
)

// BenchmarkDecide is a group of 1,000 targets, which is the default quota: nothing
// to do, and the worst, a live read by which all are to be taken out.
func BenchmarkDecide(b *testing.B) {
	s := rested()
	s.Wants, s.Records, s.Registered, s.Live = nil, nil, map[Target]Health{}, true
	s.Group.CrossZone = false
	for _, t := range several(0, 1000) {
		s.Records = append(s.Records, record(t, false, time.Time{}))
		s.Registered[t] = healthy("a")
	}
	gone := s
	for _, t := range several(0, 1000) {
		s.Wants = append(s.Wants, in(t))
	}
	for name, s := range map[string]GroupState{"rest": s, "all-gone": gone} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Decide(s)
			}
		})
	}
}
