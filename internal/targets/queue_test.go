package targets

import (
	"testing"

	"pgregory.net/rapid"
)

// TestBisect: what a batch is refused for is found whatever it is, all else goes
// through, and in few calls.
func TestBisect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 450).Draw(t, "targets")
		bad := map[Target]bool{}
		for range rapid.IntRange(0, 4).Draw(t, "invalid") {
			bad[address(rapid.IntRange(0, n-1).Draw(t, "which"))] = true
		}
		kind := rapid.SampledFrom([]Kind{Register, Deregister}).Draw(t, "kind")
		c := NewCalls(1e9, 1e9)
		if kind == Register {
			c.Plan("a", asking(several(0, n), nil))
		} else {
			c.Plan("a", asking(nil, several(0, n)))
		}
		through, calls, now := map[Target]int{}, 0, noon
		for {
			call, ready, at := c.Next(now)
			if !ready && at.IsZero() {
				break
			}
			if now = later(now, at); !ready {
				continue
			}
			calls++
			if rapid.IntRange(0, 5).Draw(t, "throttled") == 0 {
				c.Done(now, call, Throttled, "", 0)
				calls--
				continue
			}
			outcome := Accepted
			for _, r := range call.Targets {
				if bad[r.Target] {
					outcome = Invalid
				}
			}
			for _, r := range call.Targets {
				if outcome == Accepted {
					through[r.Target]++
				}
			}
			c.Done(now, call, outcome, "no such target", 0)
		}
		for _, target := range several(0, n) {
			if (through[target] == 1) == bad[target] {
				t.Fatalf("%v, invalid %t, went through %d times", target, bad[target], through[target])
			}
		}
		refused := c.Refused("a")
		if len(refused) != len(bad) {
			t.Fatalf("refused %v, want %v", refused, bad)
		}
		for _, r := range refused {
			if !bad[r.Target] || r.Why != "no such target" || r.Times != 1 || r.Full || r.Register != (kind == Register) {
				t.Fatalf("got %+v", r)
			}
		}
		// Each is found in at most two calls a level of 200 targets.
		if most := 3 + 16*len(bad); calls > most {
			t.Fatalf("%d calls for %d targets with %d invalid", calls, n, len(bad))
		}
	})
}

// TestFull: a full group takes what fits, and all others wait as one.
func TestFull(t *testing.T) {
	c := NewCalls(1e9, 1e9)
	c.Plan("a", asking(several(0, 400), nil))
	room, calls := 130, 0
	for {
		call, ready, _ := c.Next(noon)
		if !ready {
			break
		}
		calls++
		if len(call.Targets) > room {
			c.Done(noon, call, Full, "too many targets", 0)
			continue
		}
		room -= len(call.Targets)
		c.Done(noon, call, Accepted, "", 0)
	}
	refused := c.Refused("a")
	if room != 0 || len(refused) != 270 || calls > 20 {
		t.Errorf("room %d, refused %d, in %d calls", room, len(refused), calls)
	}
	for _, r := range refused {
		if !r.Full || r.Times != 1 {
			t.Fatalf("got %+v", r)
		}
	}
}
