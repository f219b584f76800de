package targets

import (
	"maps"
	"slices"
	"time"
)

// Groups are looked through for nodes in the background, one request each, so that it is
// known what a node is in before it is to be out. Nothing published says how fast nodes are
// registered with groups that nobody names here; ten minutes cost an account of 3,000
// groups half of what the background may ask.
const (
	// SweepEvery is how old such a look may get while nobody waits for one.
	SweepEvery = 10 * time.Minute
	// sweepAgain is after how long one that failed is tried again.
	sweepAgain = 10 * time.Second
)

// Seen is what a look into a group found.
type Seen struct {
	// At is when it was asked for, zero for never.
	At        time.Time
	Instances map[string]bool
	// Left is when instances were first missing that the look before had found, and not as ones that
	// drain: somebody took them out since, without a delay or longer ago than that.
	Left map[string]time.Time
	// in are those of Instances that did not drain.
	in map[string]bool
	// Failed is when the last one failed, zero where it did not.
	Failed time.Time
}

// Sweeps are which groups were looked through for nodes. It has no clock.
type Sweeps struct {
	wanted Sweep
	groups []Group
	seen   map[string]Seen
	// told is since when each instance is looked for.
	told map[string]time.Time
}

// NewSweeps have seen nothing.
func NewSweeps() *Sweeps { return &Sweeps{seen: map[string]Seen{}, told: map[string]time.Time{}} }

// Plan sets which of the groups are looked through from now on, nil for none, and forgets
// those that are gone.
func (s *Sweeps) Plan(wanted *Sweep, groups []Group, now time.Time) {
	s.groups, s.wanted = nil, Sweep{}
	if wanted != nil {
		s.wanted = *wanted
		s.groups = slices.DeleteFunc(slices.Clone(groups), func(g Group) bool { return !g.IsSwept(wanted.Tagged) })
	}
	for id := range s.wanted.Instances {
		if s.told[id].IsZero() {
			s.told[id] = now
		}
	}
	maps.DeleteFunc(s.told, func(id string, _ time.Time) bool { return !s.wanted.Instances[id] })
	there := make(map[string]bool, len(groups))
	for _, g := range groups {
		there[g.ID] = true
	}
	maps.DeleteFunc(s.seen, func(id string, _ Seen) bool { return !there[id] })
}

// Next is the group to look through now, or when to ask again; zero while that depends on
// Plan only. The look that is the oldest is renewed first.
func (s *Sweeps) Next(now time.Time) (g Group, ready bool, at time.Time) {
	for _, one := range s.groups {
		due := s.due(one.ID)
		if now.Before(due) {
			at = earlier(at, due)
			continue
		}
		if before := s.seen[one.ID].last(); !ready || before.Before(s.seen[g.ID].last()) {
			g, ready = one, true
		}
	}
	return g, ready, at
}

// last is when somebody looked last, or tried to.
func (n Seen) last() time.Time { return later(n.At, n.Failed) }

// due is when to look through a group again.
func (s *Sweeps) due(id string) time.Time {
	seen := s.seen[id]
	at := seen.At.Add(SweepEvery)
	if seen.At.IsZero() || seen.At.Before(s.wanted.Since) {
		at = seen.At
	}
	if !seen.Failed.IsZero() {
		at = later(at, seen.Failed.Add(sweepAgain))
	}
	return at
}

// Done enters what a look found that was asked for at a time. What any read of the group
// shows is as good.
func (s *Sweeps) Done(id string, at time.Time, found map[Target]Health) {
	if at.Before(s.seen[id].At) || s.wanted.Instances == nil {
		return
	}
	seen := Seen{At: at, Instances: map[string]bool{}, Left: map[string]time.Time{}, in: map[string]bool{}}
	for t, health := range found {
		if !s.wanted.Instances[t.ID] {
			continue
		}
		seen.Instances[t.ID] = true
		if health.Condition != Draining {
			seen.in[t.ID] = true
		}
	}
	before := s.seen[id]
	for instance := range s.wanted.Instances {
		left, missed := before.Left[instance]
		switch {
		case seen.Instances[instance]:
		case before.in[instance]:
			seen.Left[instance] = at
		case missed:
			seen.Left[instance] = left
		}
	}
	s.seen[id] = seen
}

// Failed notes that a look failed.
func (s *Sweeps) Failed(id string, at time.Time) {
	seen := s.seen[id]
	seen.Failed = at
	s.seen[id] = seen
}

// Told are the instances that are looked for, and since when: what was found before says
// nothing of them.
func (s *Sweeps) Told() map[string]time.Time { return maps.Clone(s.told) }

// Seen is what was found in a group last.
func (s *Sweeps) Seen(id string) Seen { return s.seen[id] }
