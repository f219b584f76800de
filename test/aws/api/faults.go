package api

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

// Kinds of faults.
const (
	Throttle     = "throttle"      // Throttling, whatever the buckets say
	FailBefore   = "fail-before"   // 503, and nothing was done
	FailAfter    = "fail-after"    // 500, and it was done
	LoseResponse = "lose-response" // it was done, and the connection is closed
	Latency      = "latency"       // up to Seconds more
	StaleRead    = "stale-read"    // answered from a state up to Seconds of AWS's time old
	// Refuse is an error with Code, and nothing was done.
	Refuse = "refuse"
	// RefuseUnregistered is InvalidTarget, and nothing was done, where DeregisterTargets names
	// what is not registered. AWS says that it succeeds, and that it may fail so.
	RefuseUnregistered = "refuse-unregistered"
)

// Fault befalls calls.
type Fault struct {
	Kind        string  `json:"kind"`
	Action      string  `json:"action"`                // with wildcards, such as Describe*
	Probability float64 `json:"probability,omitempty"` // default 1
	Calls       int     `json:"calls,omitempty"`       // how many it befalls; 0 is no limit
	For         float64 `json:"for,omitempty"`         // seconds, from when it is set; 0 is no limit
	Seconds     float64 `json:"seconds,omitempty"`     // of Latency and StaleRead
	Code        string  `json:"code,omitempty"`        // of Refuse, such as InvalidTarget
	Target      string  `json:"target,omitempty"`      // only calls that name this id or address

	until time.Time
}

// Faults are those that are in force.
type Faults struct {
	seed   uint64
	mu     sync.Mutex
	faults []Fault
	calls  int
}

// NewFaults makes faults whose draws depend on the seed and the number of the call.
func NewFaults(seed uint64) *Faults { return &Faults{seed: seed} }

// Set puts faults in the place of those in force.
func (f *Faults) Set(faults []Fault, now time.Time) error {
	set := make([]Fault, len(faults))
	for i, fault := range faults {
		if _, err := path.Match(fault.Action, ""); err != nil || fault.Action == "" {
			return fmt.Errorf("fault: action %q", fault.Action)
		}
		switch fault.Kind {
		case Throttle, FailBefore, FailAfter, LoseResponse, RefuseUnregistered:
		case Refuse:
			if fault.Code == "" {
				return fmt.Errorf("fault %s: a code is needed", fault.Kind)
			}
		case Latency, StaleRead:
			if fault.Seconds <= 0 || fault.Kind == StaleRead && fault.Seconds > cloud.Retention.Seconds() {
				return fmt.Errorf("fault %s: seconds %g", fault.Kind, fault.Seconds)
			}
		default:
			return fmt.Errorf("fault: kind %q", fault.Kind)
		}
		if fault.Probability == 0 {
			fault.Probability = 1
		}
		if fault.For > 0 {
			fault.until = now.Add(time.Duration(fault.For * float64(time.Second)))
		}
		if fault.Calls == 0 {
			fault.Calls = -1
		}
		set[i] = fault
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = set
	return nil
}

// fate is what befalls one call.
type fate struct {
	throttled, failsBefore, failsAfter, lost bool
	latency, age                             time.Duration

	refusal             string // the code of an error
	refusesUnregistered bool
}

// draw is what befalls a call, which names some targets.
func (f *Faults) draw(action string, targets []cloud.Target, now time.Time) (drawn fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	for i := range f.faults {
		fault := &f.faults[i]
		event := []string{strconv.Itoa(f.calls), strconv.Itoa(i)}
		fits, _ := path.Match(fault.Action, action)
		fits = fits && (fault.Target == "" || slices.ContainsFunc(targets, func(t cloud.Target) bool { return t.ID == fault.Target }))
		over := fault.Calls == 0 || !fault.until.IsZero() && now.After(fault.until)
		if !fits || over || cloud.Chance(f.seed, append(event, "whether")...) >= fault.Probability {
			continue
		}
		if fault.Calls > 0 {
			fault.Calls--
		}
		span := time.Duration(cloud.Chance(f.seed, append(event, "span")...) * fault.Seconds * float64(time.Second))
		drawn.suffer(*fault, span)
	}
	return drawn
}

func (f *fate) suffer(fault Fault, span time.Duration) {
	switch fault.Kind {
	case Refuse:
		f.refusal = fault.Code
	case RefuseUnregistered:
		f.refusesUnregistered = true
	case Throttle:
		f.throttled = true
	case FailBefore:
		f.failsBefore = true
	case FailAfter:
		f.failsAfter = true
	case LoseResponse:
		f.lost = true
	case Latency:
		f.latency += span
	case StaleRead:
		f.age = max(f.age, span)
	}
}
