package cloud

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestRules plays random histories of a network group and holds the model to what is
// promised of it.
func TestRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		cut := rapid.SampledFrom([]string{"true", "false"}).Draw(t, "cut on leaving")
		delay := rapid.SampledFrom([]int{0, 30, 300}).Draw(t, "delay")
		c := account(t, func(s *Spec) {
			s.Seed = seed
			s.TargetGroups[0].Attributes = map[string]string{attributeDelay: fmt.Sprint(delay), attributeCutOnLeaving: cut}
		})
		h := &history{c: c, t: t, delay: float64(delay), registered: map[string]float64{}, left: map[string]float64{}, sick: map[string]bool{}, healthy: map[string]float64{}}
		for h.now = 0; h.now < 900; h.now += float64(rapid.IntRange(1, 60).Draw(t, "pause")) {
			h.act()
			h.check()
		}
		h.askAgain()
	})
}

type history struct {
	c     *Cloud
	t     *rapid.T
	now   float64
	ran   float64
	delay float64

	registered map[string]float64 // since when
	left       map[string]float64 // when it was deregistered last
	sick       map[string]bool
	healthy    map[string]float64 // since when
	answers    []answer
}

type answer struct {
	at     float64
	health []TargetHealth
}

var ids = []string{"10.0.1.1", "10.0.1.2", "10.0.2.1", "10.0.2.2"}

func (h *history) act() {
	run(h.c, h.ran+1, h.now+1, func(p Probe) bool { return !h.sick[p.Address[:len("10.0.1.1")]] })
	h.ran = h.now
	id := rapid.SampledFrom(ids).Draw(h.t, "id")
	at, target := h.c.after(h.now), []Target{{ID: id}}
	_, in := h.registered[id]
	switch rapid.SampledFrom([]string{"register", "register", "deregister", "sicken", "heal", "wait"}).Draw(h.t, "act") {
	case "register":
		must(h.t, h.c.Register(h.c.arn("pods"), target, at))
		if !in {
			h.registered[id] = h.now
		}
	case "deregister":
		must(h.t, h.c.Deregister(h.c.arn("pods"), target, at))
		if in {
			delete(h.registered, id)
			h.left[id] = h.now
		}
	case "sicken":
		h.sick[id] = true
	case "heal":
		h.sick[id] = false
	}
}

func (h *history) check() {
	all, err := h.c.Health(h.c.arn("pods"), nil, h.c.after(h.now))
	must(h.t, err)
	h.answers = append(h.answers, answer{h.now, all})
	healthy := map[string]int{}
	for _, one := range all {
		since, in := h.registered[one.ID]
		switch {
		case in && one.State == Draining:
			h.t.Fatalf("at %g: %s is registered and draining", h.now, one.ID)
		case in && one.State == Healthy && h.now-since < 90:
			h.t.Fatalf("at %g: %s is healthy %g s after registering", h.now, one.ID, h.now-since)
		case !in && (one.State != Draining || h.now-h.left[one.ID] >= h.delay):
			h.t.Fatalf("at %g: %s, deregistered at %g, is %s", h.now, one.ID, h.left[one.ID], one.State)
		}
		if one.State != Healthy {
			delete(h.healthy, one.ID)
			continue
		}
		healthy[one.Zone]++
		if _, before := h.healthy[one.ID]; !before {
			h.healthy[one.ID] = h.now
		}
	}
	for _, zone := range []string{zoneA, zoneB} {
		h.checkFlows(zone, all, healthy[zone])
	}
}

// checkFlows holds every new flow to a reason for which it may be sent where it is sent.
func (h *history) checkFlows(zone string, all []TargetHealth, healthy int) {
	to := reached(h.c, zone, h.now)
	for _, one := range all {
		learned := h.now-h.healthy[one.ID] >= 30
		if one.State == Healthy && one.Zone == zone && learned && !slices.Contains(to, one.ID) {
			h.t.Fatalf("at %g: %s is healthy for 30 s and gets no flows", h.now, one.ID)
		}
	}
	for _, id := range to {
		since, in := h.registered[id]
		left, was := h.left[id]
		ready, lingers := in && h.now-since >= 90, was && h.now-left < 300
		if other := map[string]string{zoneA: "10.0.2", zoneB: "10.0.1"}[zone]; id[:6] == other {
			h.t.Fatalf("at %g: zone %s sends to %s", h.now, zone, id)
		}
		if !ready && !lingers {
			h.t.Fatalf("at %g: %s gets flows: registered %v since %g, left %g", h.now, id, in, since, left)
		}
	}
	if healthy == 0 {
		for id, since := range h.registered {
			v := state(h.t, h.c, "pods", id, h.now)
			if h.now-since >= 330 && v == "unhealthy Target.FailedHealthChecks" && (id[:6] == "10.0.1") == (zone == zoneA) && !slices.Contains(to, id) {
				h.t.Fatalf("at %g: none is healthy and %s gets no flows", h.now, id)
			}
		}
	}
}

// askAgain asks for every moment that is remembered and expects the answer of then.
func (h *history) askAgain() {
	for _, a := range h.answers {
		if h.ran-a.at > Retention.Seconds() {
			continue
		}
		again, err := h.c.Health(h.c.arn("pods"), nil, h.c.after(a.at))
		must(h.t, err)
		if len(again) != len(a.health) {
			h.t.Fatalf("of %g it is said now %v, and then %v", a.at, again, a.health)
		}
		for _, one := range a.health {
			if !slices.Contains(again, one) {
				h.t.Fatalf("of %g it is said now %v, and then %v", a.at, again, a.health)
			}
		}
	}
}
