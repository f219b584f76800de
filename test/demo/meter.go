package main

import (
	"fmt"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/traffic"
)

// meterSpan is the time over which the present rate is taken.
const meterSpan = 2 * time.Second

// meter reads the traffic's counts.
type meter struct{ seen []traffic.Snapshot }

// reading is what the client has counted.
type reading struct {
	requests, failed int64
	rate             float64
}

func (m *meter) read(now traffic.Snapshot) *reading {
	if n := len(m.seen); n == 0 || m.seen[n-1].Elapsed < now.Elapsed {
		m.seen = append(m.seen, now)
	}
	for len(m.seen) > 2 && now.Elapsed-m.seen[1].Elapsed >= meterSpan {
		m.seen = m.seen[1:]
	}
	out := &reading{requests: now.Requests, failed: now.Failed}
	if span := now.Elapsed - m.seen[0].Elapsed; span > 0 {
		out.rate = float64(now.Requests-m.seen[0].Requests) / span.Seconds()
	}
	return out
}

func (r *reading) String() string {
	return fmt.Sprintf("%s requests, %s failed, %s a second", grouped(r.requests), grouped(r.failed), grouped(int64(r.rate+0.5)))
}

// grouped writes a number with its thousands apart.
func grouped(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}
