package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// littleKept is what a small fleet keeps, in bytes: as much garbage may lie, since a little one
	// would be gone through several times a second.
	littleKept = 32 << 20
	// leastPercent of what is kept may be left lying in any case.
	leastPercent = 15
	// mostPercent is Go's own default.
	mostPercent = 100
)

// garbagePercent is how much garbage may be left lying, in percent of what is kept: of a large
// fleet, where what is kept decides how much memory is needed, little. It falls with the square, so
// that what is kept and what lies still grow together.
func garbagePercent(kept uint64) int {
	share := littleKept / float64(max(kept, littleKept))
	return max(leastPercent, int(mostPercent*share*share))
}

// collectGarbage keeps to garbagePercent as what is kept grows and shrinks, which it does by
// much in a second where a large fleet is listed.
func collectGarbage(ctx context.Context) {
	kept := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	for last := 0; ; {
		metrics.Read(kept)
		if percent := garbagePercent(kept[0].Value.Uint64()); percent != last {
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
