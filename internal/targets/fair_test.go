package targets

import (
	"fmt"
	"testing"
	"time"
)

// TestGroupsThatFailLeaveTheirTurnToOthers plays half an hour of an account with groups whose
// registrations fail for ever, at the default rate: the reads and ways out of others are
// made as if they were alone, and those that fail are tried again all the same.
func TestGroupsThatFailLeaveTheirTurnToOthers(t *testing.T) {
	for _, failing := range []int{0, 20, 100, 300} {
		c := NewCalls(DefaultRate, DefaultBurst)
		one := Target{"10.0.0.1", 80}
		register := GroupDecision{Register: []Registration{{Target: one}}, Reports: []Report{{Target: one}}}
		for i := range failing {
			c.Plan(fmt.Sprintf("failing-%03d", i), register)
		}
		const well = 20
		reads, tries := map[string]int{}, map[string]int{}
		for i := range well {
			c.Plan(fmt.Sprintf("well-%02d", i), GroupDecision{ReadAt: noon})
		}
		var out time.Time
		for now, end := noon, noon.Add(30*time.Minute); now.Before(end); now = now.Add(200 * time.Millisecond) {
			if now.Equal(noon.Add(20 * time.Minute)) {
				c.Plan("well-00", GroupDecision{ReadAt: now.Add(time.Minute), Deregister: []Target{one}, Reports: []Report{{Target: one}}})
			}
			call, ready, _ := c.Next(now)
			if !ready {
				continue
			}
			switch call.Kind {
			case Register:
				tries[call.Group]++
				c.Done(now, call, Failed, "denied", 0.5)
			case Read:
				reads[call.Group]++
				c.Done(now, call, Accepted, "", 0)
				c.Plan(call.Group, GroupDecision{ReadAt: now.Add(idle)})
			case Deregister:
				out = now
				c.Done(now, call, Accepted, "", 0)
			}
		}
		for i := range well {
			if n := reads[fmt.Sprintf("well-%02d", i)]; n < 25 {
				t.Errorf("with %d groups that fail, one is read %d times in 30 minutes", failing, n)
				break
			}
		}
		if after := out.Sub(noon.Add(20 * time.Minute)); out.IsZero() || after > time.Second {
			t.Errorf("with %d groups that fail, a target is taken out after %s", failing, after)
		}
		for i := range failing {
			if n := tries[fmt.Sprintf("failing-%03d", i)]; n < 5 {
				t.Errorf("of %d groups that fail, one is tried %d times in 30 minutes", failing, n)
				break
			}
		}
	}
}

// TestOldDecisions makes no call by a decision that is older than 5 s, by either clock of
// the machine, and says that it is to be decided again. Reads change nothing.
func TestOldDecisions(t *testing.T) {
	one := Target{"10.0.0.1", 80}
	for name, c := range map[string]struct {
		after time.Duration
		stale bool
	}{"at once": {0, false}, "5 s": {5 * time.Second, false}, "more": {5*time.Second + 1, true}, "10 minutes": {10 * time.Minute, true}, "the clock was set back": {-time.Hour, true}} {
		for _, kind := range []Kind{Register, Deregister} {
			calls := NewCalls(DefaultRate, DefaultBurst)
			d := GroupDecision{At: noon, Reports: []Report{{Target: one}}}
			if kind == Register {
				d.Register = []Registration{{Target: one}}
			} else {
				d.Deregister = []Target{one}
			}
			calls.Plan("g", d)
			now := noon.Add(c.after)
			if stale := len(calls.Stale(now)) > 0; stale != c.stale {
				t.Errorf("%s, %s: stale %t", name, kind, stale)
			}
			call, ready, _ := calls.Next(now)
			if ready == c.stale {
				t.Errorf("%s, %s: ready %t", name, kind, ready)
			}
			if ready && (call.Old(now) || !call.Old(noon.Add(time.Minute))) {
				t.Errorf("%s: %+v", name, call)
			}
			d.At = now
			calls.Plan("g", d)
			if call, ready, _ := calls.Next(now); c.stale && (!ready || call.Kind != kind) {
				t.Errorf("%s, %s, decided again: %+v %t", name, kind, call, ready)
			}
		}
	}
	calls := NewCalls(DefaultRate, DefaultBurst)
	calls.Plan("g", GroupDecision{At: noon, ReadAt: noon})
	if call, ready, _ := calls.Next(noon.Add(time.Hour)); !ready || call.Kind != Read || call.Old(noon.Add(time.Hour)) {
		t.Errorf("a read: %+v %t", call, ready)
	}
}

// TestAReadKeepsItsTurn is due since it was first asked for, however often it is decided
// that it is due now.
func TestAReadKeepsItsTurn(t *testing.T) {
	q := newQueue()
	for after, want := range []time.Duration{0, 0, 0} {
		now := noon.Add(time.Duration(after) * time.Second)
		q.plan(GroupDecision{At: now, ReadAt: now})
		if due, _ := q.due(Read); due.Sub(noon) != want {
			t.Errorf("after %d s it is due at %s", after, due.Sub(noon))
		}
	}
	q.plan(GroupDecision{At: noon.Add(time.Minute), ReadAt: noon.Add(time.Hour)})
	if due, _ := q.due(Read); !due.Equal(noon.Add(time.Hour)) {
		t.Errorf("what is not to be read any more is due at %s", due)
	}
}

// TestKeepForgetsAllOthers: a group that is gone is not asked for any more.
func TestKeepForgetsAllOthers(t *testing.T) {
	c := NewCalls(DefaultRate, DefaultBurst)
	for _, id := range []string{"gone", "there"} {
		c.Plan(id, GroupDecision{ReadAt: noon})
	}
	c.Keep(map[string]bool{"there": true})
	if call, ready, _ := c.Next(noon); !ready || call.Group != "there" {
		t.Errorf("%+v", call)
	}
	if call, ready, at := c.Next(noon); ready || !at.IsZero() {
		t.Errorf("%+v at %s", call, at)
	}
}

// BenchmarkPlan is a pass over an account of 3,000 groups, of which a tenth have a part
// taken in them, while a node is to be out.
func BenchmarkPlan(b *testing.B) {
	s := fleetOf(webGroup(Instance), nil)
	s.Accounts[0].Groups = nil
	for i := range 3000 {
		g := webGroup(Instance)
		g.ID, g.Name, g.Tags = fmt.Sprintf("arn:%04d", i), fmt.Sprintf("web-%04d", i), nil
		registered := map[Target]Health{}
		for n := range 10 {
			registered[Target{fmt.Sprintf("i-%d", n), 80}] = Health{Condition: Healthy}
		}
		s.Accounts[0].Groups = append(s.Accounts[0].Groups, KnownGroup{Group: g, Registered: registered, ReadAt: asOf})
	}
	for i := range 300 {
		spec := onNodes()
		spec.TargetGroup.Name = fmt.Sprintf("web-%04d", i)
		s.attachment(fmt.Sprintf("web-%04d", i), spec)
	}
	s.detachment("node-a", "i-a", "Detached")
	for b.Loop() {
		Plan(s)
	}
}

// TestRequestsBesideCallsAreNotStarved: a request that Next knows nothing of gets a token although
// there is always a call for which one is due.
func TestRequestsBesideCallsAreNotStarved(t *testing.T) {
	c := NewCalls(DefaultRate, 1)
	for i := range 100 {
		c.Plan(fmt.Sprintf("group-%03d", i), GroupDecision{ReadAt: noon})
	}
	c.Wait(1)
	made := 0
	for now, begun := noon, noon; ; now = now.Add(time.Millisecond) {
		// The calls are looked at first, each time.
		if call, ready, _ := c.Next(now); ready {
			made++
			c.Done(now, call, Accepted, "", 0)
			c.Plan(call.Group, GroupDecision{ReadAt: now})
		}
		if at := c.Take(now); !now.Before(at) {
			break
		}
		if now.Sub(begun) > 10*time.Second {
			t.Fatalf("it waits while %d calls are made", made)
		}
	}
	c.Wait(-1)
	for now, end := noon.Add(time.Minute), noon.Add(2*time.Minute); now.Before(end); now = now.Add(100 * time.Millisecond) {
		if call, ready, _ := c.Next(now); ready {
			made++
			c.Done(now, call, Accepted, "", 0)
			c.Plan(call.Group, GroupDecision{ReadAt: now})
		}
	}
	if made < 200 {
		t.Errorf("%d calls in a minute in which no other request waits", made)
	}
}
