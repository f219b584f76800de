package cloud

import (
	"cmp"
	"fmt"
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
type Range struct {
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

// Lags are what AWS takes for things of which its API says nothing. Each event draws
// its own; Learn and Linger are drawn for each node of a load balancer by itself.
type Lags struct {
	Check  Range `json:"check,omitzero"`  // from registering to the first health check
	Serve  Range `json:"serve,omitzero"`  // from registering to the first new flow, and to healthy, at the earliest
	Learn  Range `json:"learn,omitzero"`  // from then to the first new flow through one node
	Linger Range `json:"linger,omitzero"` // from deregistering to the last new flow through one node
	Fade   Range `json:"fade,omitzero"`   // from turning unhealthy to the last new flow
}

// RealLags are those of AWS. The README names the source of each.
var RealLags = map[Kind]Lags{
	Network:     {Check: Range{30, 60}, Serve: Range{90, 300}, Learn: Range{0, 30}, Linger: Range{120, 300}, Fade: Range{30, 40}},
	Application: {Check: Range{1, 5}, Serve: Range{1, 15}, Linger: Range{1, 20}, Fade: Range{0, 5}},
	Classic:     {Check: Range{1, 5}, Serve: Range{1, 15}, Linger: Range{0, 5}, Fade: Range{0, 5}},
}

// BeyondSettleTimes are lags longer than anybody has reported: who waits for the settle times that
// were reported, 300 s at a network load balancer and 30 s at others, is too early.
var BeyondSettleTimes = map[Kind]Lags{
	Network:     {Linger: Range{400, 600}},
	Application: {Linger: Range{60, 120}},
	Classic:     {Linger: Range{60, 120}},
}

// LateAndEarly are the lags of RealLags that leave a network load balancer without targets
// where those that are to serve were not waited for: what is new comes last, and what left
// goes first.
var LateAndEarly = map[Kind]Lags{
	Network: {Check: Range{50, 60}, Serve: Range{280, 300}, Learn: Range{0, 30}, Linger: Range{120, 130}},
}

// over are these lags, with those of another in place of what is not set.
func (l Lags) over(others Lags) Lags {
	return Lags{
		Check: cmp.Or(l.Check, others.Check), Serve: cmp.Or(l.Serve, others.Serve), Learn: cmp.Or(l.Learn, others.Learn),
		Linger: cmp.Or(l.Linger, others.Linger), Fade: cmp.Or(l.Fade, others.Fade),
	}
}

func (l Lags) validate() error {
	for name, r := range map[string]Range{"check": l.Check, "serve": l.Serve, "learn": l.Learn, "linger": l.Linger, "fade": l.Fade} {
		if r.Min < 0 || r.Max < r.Min {
			return fmt.Errorf("%s from %g to %g", name, r.Min, r.Max)
		}
	}
	return nil
}

const (
	// dnsTTL is for how long a client may use an address that the DNS name no longer has.
	dnsTTL = 60 * time.Second
	// Retention is how far back questions can be asked. AWS's time.
	Retention = 2 * time.Minute
)

// timing turns AWS's times into those of a run.
type timing struct {
	seed      uint64
	scale     float64
	lags      map[Kind]Lags // of what happens from now on
	unchanged map[Kind]Lags // those of the beginning
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
