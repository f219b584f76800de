package targets

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// sweepOf is over groups of instances, one of addresses, and one without the tag.
func sweepOf(instances ...string) (*Sweep, []Group) {
	s := &Sweep{Tagged: map[string]string{"a": "b"}, Instances: map[string]bool{}}
	for _, id := range instances {
		s.Instances[id] = true
	}
	groups := []Group{
		{ID: "pods", Type: IP, Tags: map[string]string{"a": "b"}}, {ID: "other", Type: Instance, Tags: map[string]string{"a": "c"}}, {ID: "untagged", Type: Instance},
	}
	for i := range 3 {
		groups = append(groups, Group{ID: fmt.Sprint(i), Type: Instance, Tags: map[string]string{"a": "b", "c": "d"}})
	}
	return s, groups
}

// TestSweepsLookThroughWhatMayHoldNodes and at nothing else, the oldest first.
func TestSweepsLookThroughWhatMayHoldNodes(t *testing.T) {
	wanted, groups := sweepOf("i-a")
	s := NewSweeps()
	s.Plan(wanted, groups, noon)
	now := noon
	var order []string
	for range 3 {
		g, ready, _ := s.Next(now)
		if !ready {
			t.Fatalf("nothing to do after %v", order)
		}
		order = append(order, g.ID)
		s.Done(g.ID, now, at80("i-a", "i-b"))
		now = now.Add(time.Second)
	}
	if diff := cmp.Diff([]string{"0", "1", "2"}, order); diff != "" {
		t.Error(diff)
	}
	if g, ready, at := s.Next(now); ready || !at.Equal(noon.Add(SweepEvery)) {
		t.Errorf("%q, next at %s", g.ID, at)
	}
	if seen := s.Seen("0"); !seen.At.Equal(noon) || !cmp.Equal(seen.Instances, map[string]bool{"i-a": true}) {
		t.Errorf("%+v", seen)
	}
	// Somebody waits.
	wanted.Since = noon.Add(time.Second)
	s.Plan(wanted, groups, now)
	if g, ready, _ := s.Next(now); !ready || g.ID != "0" {
		t.Errorf("%q %t, want what was seen before", g.ID, ready)
	}
	// An answer that overtook a newer one is no news.
	s.Done("0", now, at80("i-a"))
	s.Done("0", noon, nil)
	if seen := s.Seen("0"); !seen.At.Equal(now) || !seen.Instances["i-a"] {
		t.Errorf("%+v", seen)
	}
	// A group that is gone is forgotten, and nothing is looked at that nobody asks for.
	s.Plan(wanted, groups[:4], now)
	if seen := s.Seen("1"); !seen.At.IsZero() {
		t.Errorf("%+v", seen)
	}
	s.Plan(nil, groups, now)
	if g, ready, at := s.Next(now); ready || !at.IsZero() {
		t.Errorf("%q at %s", g.ID, at)
	}
	if s.Done("0", now.Add(time.Hour), nil); s.Seen("0").At.After(now) {
		t.Error("a look for nothing counts")
	}
}

// TestSweepsTryAgain what failed, after the others.
func TestSweepsTryAgain(t *testing.T) {
	wanted, groups := sweepOf("i-a")
	s := NewSweeps()
	s.Plan(wanted, groups, noon)
	s.Failed("0", noon)
	for range 2 {
		g, _, _ := s.Next(noon)
		s.Done(g.ID, noon, nil)
	}
	if g, ready, at := s.Next(noon); ready || !at.Equal(noon.Add(sweepAgain)) {
		t.Errorf("%q, next at %s", g.ID, at)
	}
	if g, ready, _ := s.Next(noon.Add(sweepAgain)); !ready || g.ID != "0" {
		t.Errorf("%q %t", g.ID, ready)
	}
}

// TestSweepsSayForWhomTheyLook: what was seen before says nothing of a node that came since.
func TestSweepsSayForWhomTheyLook(t *testing.T) {
	wanted, groups := sweepOf("i-a")
	s := NewSweeps()
	s.Plan(wanted, groups, noon)
	wanted.Instances = map[string]bool{"i-a": true, "i-b": true}
	s.Plan(wanted, groups, noon.Add(time.Minute))
	if diff := cmp.Diff(map[string]time.Time{"i-a": noon, "i-b": noon.Add(time.Minute)}, s.Told()); diff != "" {
		t.Error(diff)
	}
	wanted.Instances = map[string]bool{"i-b": true}
	s.Plan(wanted, groups, noon.Add(time.Hour))
	if diff := cmp.Diff(map[string]time.Time{"i-b": noon.Add(time.Minute)}, s.Told()); diff != "" {
		t.Error(diff)
	}
}

// TestSweepsSeeWhatLeft: who takes an instance out says so to nobody, and it is gone from lists at once
// where nothing drains. It is known to have left until it is found again.
func TestSweepsSeeWhatLeft(t *testing.T) {
	wanted, groups := sweepOf("i-a", "i-b")
	s := NewSweeps()
	s.Plan(wanted, groups, noon)
	draining := map[Target]Health{{ID: "i-a", Port: 80}: {Condition: Draining}}
	for i, look := range []struct {
		found map[Target]Health
		left  map[string]time.Time
	}{
		{nil, nil},
		{at80("i-a", "i-b", "i-c"), nil},
		{at80("i-b"), map[string]time.Time{"i-a": noon.Add(2 * time.Minute)}},
		{nil, map[string]time.Time{"i-a": noon.Add(2 * time.Minute), "i-b": noon.Add(3 * time.Minute)}},
		{at80("i-a"), map[string]time.Time{"i-b": noon.Add(3 * time.Minute)}},
		// What drains is seen to leave.
		{draining, map[string]time.Time{"i-b": noon.Add(3 * time.Minute)}},
		{nil, map[string]time.Time{"i-b": noon.Add(3 * time.Minute)}},
	} {
		given := s.Seen("0").Left
		kept := maps.Clone(given)
		if s.Done("0", noon.Add(time.Duration(i)*time.Minute), look.found); !maps.Equal(given, kept) {
			t.Errorf("look %d changes what was given before to %v", i, given)
		}
		if diff := cmp.Diff(look.left, s.Seen("0").Left, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("look %d: %s", i, diff)
		}
	}
	delete(wanted.Instances, "i-b")
	s.Plan(wanted, groups, noon)
	if s.Done("0", noon.Add(time.Hour), nil); len(s.Seen("0").Left) > 0 {
		t.Errorf("%v is kept of instances that nobody asks for", s.Seen("0").Left)
	}
}
