package cloud

import (
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// Kind is a kind of load balancer. They differ in what they do and their API does not say.
type Kind string

const (
	Network     Kind = "network"
	Application Kind = "application"
	Classic     Kind = "classic"
)

// Range is in seconds of AWS's time.
type Range struct{ Min, Max float64 }

// Lags are what AWS takes for things of which its API says nothing. Each event draws
// its own.
type Lags struct {
	Check  Range // from registering to the first health check
	Serve  Range // from registering to the first new flow, at the earliest
	Linger Range // from deregistering to the last new flow
	Fade   Range // from turning unhealthy to the last new flow
}

// RealLags are those of AWS. The README names the source of each.
var RealLags = map[Kind]Lags{
	Network:     {Check: Range{30, 60}, Serve: Range{90, 300}, Linger: Range{120, 300}, Fade: Range{30, 40}},
	Application: {Check: Range{1, 5}, Serve: Range{1, 15}, Linger: Range{1, 20}, Fade: Range{0, 5}},
	Classic:     {Check: Range{1, 5}, Serve: Range{1, 15}, Linger: Range{0, 5}, Fade: Range{0, 5}},
}

const (
	// dnsTTL is for how long a client may use an address that the DNS name no longer has.
	dnsTTL = 60 * time.Second
	// Retention is how far back questions can be asked. AWS's time.
	Retention = 2 * time.Minute
)

// timing turns AWS's times into those of a run.
type timing struct {
	seed  uint64
	scale float64
	lags  map[Kind]Lags
}

// scaled is a time of AWS as it is in this run.
func (t timing) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) / t.scale)
}

func (t timing) seconds(n int) time.Duration { return t.scaled(time.Duration(n) * time.Second) }

// draw takes a time from a range. The same seed and event give the same time, in
// whatever order events are asked for.
func (t timing) draw(r Range, event ...string) time.Duration {
	seconds := r.Min + Chance(t.seed, event...)*(r.Max-r.Min)
	return t.scaled(time.Duration(seconds * float64(time.Second)))
}

// Chance is a number in [0, 1) that depends on the seed and the event alone.
func Chance(seed uint64, event ...string) float64 {
	return rand.New(rand.NewPCG(seed, digest(event...))).Float64()
}

func digest(parts ...string) uint64 {
	h := fnv.New64a()
	for _, part := range parts {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	return h.Sum64()
}
