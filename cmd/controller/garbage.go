package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// leastGarbage is how much may be left lying between two collections, in bytes: what is
	// kept of a small fleet is so little that it would be gone through several times a second.
	leastGarbage = 20 << 20
	// leastPercent of what is kept may be left lying in any case.
	leastPercent = 15
	// mostPercent is Go's own default.
	mostPercent = 100
)

// garbagePercent is how much garbage may be left lying, in percent of what is kept: of a
// large fleet, where that outweighs what becomes garbage, little.
func garbagePercent(kept uint64) int {
	return max(leastPercent, int(leastGarbage*100/max(kept, leastGarbage*100/mostPercent)))
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
