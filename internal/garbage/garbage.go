// Package garbage says how much garbage a process may leave lying: of little that it keeps as much as Go leaves by
// itself, of much less, since what is kept then decides how much memory is needed.
package garbage

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// mostPercent is Go's own default, of what is kept.
const mostPercent = 100

// Rule is how garbage grows with what is kept.
type Rule struct {
	// Little is what is kept, in bytes, up to which as much garbage may lie: a little heap would be gone through
	// several times a second.
	Little uint64
	// LeastPercent of what is kept may be left lying in any case.
	LeastPercent int
}

// percent is how much garbage may be left lying, in percent of what is kept. It falls with the square, so
// that what is kept and what lies still grow together.
func (r Rule) percent(kept uint64) int {
	share := float64(r.Little) / float64(max(kept, r.Little))
	return max(r.LeastPercent, int(mostPercent*share*share))
}

// Keep keeps to the rule until the context ends, as what is kept grows and shrinks: by much in a second,
// where all of a large cluster comes at once.
func (r Rule) Keep(ctx context.Context) {
	kept := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	for last := 0; ; {
		metrics.Read(kept)
		if percent := r.percent(kept[0].Value.Uint64()); percent != last {
			last = percent
			debug.SetGCPercent(percent)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}
