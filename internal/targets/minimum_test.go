package targets

import (
	"slices"
	"testing"
	"time"
)

func zonesBehind(s *GroupState) { s.Group.CrossZone, s.ZonesBehind = false, true }

func TestMinimum(t *testing.T) {
	unhealthy := Health{Condition: Unhealthy, Zone: "a"}
	for _, c := range []struct {
		name       string
		registered map[Target]Health
		out        []Want
		change     func(*GroupState)
		held       []Target
	}{
		{"others serve", map[Target]Health{one: healthy("a"), two: healthy("a")}, []Want{out(one)}, nil, nil},
		{"the last one", map[Target]Health{one: healthy("a"), two: unhealthy}, []Want{out(one)}, nil, []Target{one}},
		{"the last one of what ends", map[Target]Health{one: healthy("a"), two: unhealthy}, []Want{ending(one)}, nil, nil},
		{"what serves nobody holds nothing up", map[Target]Health{one: unhealthy, two: unhealthy}, []Want{out(one)}, nil, nil},
		{"one of two, in order", map[Target]Health{one: healthy("a"), two: healthy("a")}, []Want{out(two), out(one)}, nil, []Target{two}},
		{"what ends first, whatever its order", map[Target]Health{one: healthy("a"), two: healthy("a")}, []Want{out(one), ending(two)}, nil, []Target{one}},
		{"one that drains serves nobody", map[Target]Health{one: healthy("a"), two: drained()}, []Want{out(one)}, nil, []Target{one}},
		{"one that leaves by record", map[Target]Health{one: healthy("a"), two: healthy("a")}, []Want{out(one)},
			func(s *GroupState) { s.Records = append(s.Records, record(two, true, time.Time{})) }, []Target{one}},
		{"one that gets no traffic because its zone is shifted", map[Target]Health{one: healthy("a"), two: {Condition: Healthy, Zone: "b", Shifted: true}}, []Want{out(one)}, nil, []Target{one}},
		{"such a one holds nothing up", map[Target]Health{one: {Condition: Healthy, Zone: "b", Shifted: true}, two: unhealthy}, []Want{out(one)}, nil, nil},
		{"the minimum", map[Target]Health{one: healthy("a"), two: healthy("a"), three: healthy("a")}, []Want{out(one)},
			func(s *GroupState) { s.Group.MinHealthy = 3 }, []Target{one}},
		{"the minimum is kept", map[Target]Health{one: healthy("a"), two: healthy("a"), three: healthy("a")}, []Want{out(one)},
			func(s *GroupState) { s.Group.MinHealthy = 2 }, nil},
		{"the percentage, of those that stay", map[Target]Health{one: healthy("a"), two: healthy("a"), three: unhealthy}, []Want{out(one)},
			func(s *GroupState) { s.Group.MinHealthyPercent = 51 }, []Target{one}},
		{"the percentage is kept", map[Target]Health{one: healthy("a"), two: healthy("a"), three: unhealthy}, []Want{out(one)},
			func(s *GroupState) { s.Group.MinHealthyPercent = 50 }, nil},
		{"the percentage, with one that leaves and is listed still", map[Target]Health{one: healthy("a"), two: healthy("a"), three: healthy("a")}, []Want{out(one), ending(two)},
			func(s *GroupState) { s.Group.MinHealthyPercent = 51 }, []Target{one}},
		{"the last one of a zone", map[Target]Health{one: healthy("a"), two: healthy("b")}, []Want{out(one)},
			func(s *GroupState) { s.Group.CrossZone = false }, []Target{one}},
		{"the last one of a zone that others reach", map[Target]Health{one: healthy("a"), two: healthy("b")}, []Want{out(one)}, nil, nil},
		{"an unknown zone counts in every one", map[Target]Health{one: healthy("a"), two: healthy("")}, []Want{out(one)},
			func(s *GroupState) { s.Group.CrossZone = false }, nil},
		{"so does one of all zones", map[Target]Health{one: healthy("a"), two: healthy("all")}, []Want{out(one)},
			func(s *GroupState) { s.Group.CrossZone = false }, nil},
		{"one of an unknown zone may be the last of any", map[Target]Health{one: healthy(""), two: healthy("b"), three: unhealthy}, []Want{out(one)},
			func(s *GroupState) { s.Group.CrossZone = false }, []Target{one}},
		{"a zone that is not known yet counts in none", map[Target]Health{one: healthy("a"), two: healthy("")}, []Want{out(one)}, zonesBehind, []Target{one}},
		{"where others are known it is not asked for", map[Target]Health{one: healthy("a"), two: healthy("a"), three: healthy("")}, []Want{out(one)}, zonesBehind, nil},
		{"its own zone is not known yet", map[Target]Health{one: healthy(""), two: healthy("b"), three: healthy("b")}, []Want{out(one)}, zonesBehind, []Target{one}},
		{"zones that do not matter are not asked for", map[Target]Health{one: healthy("a"), two: healthy("")}, []Want{out(one)},
			func(s *GroupState) { s.ZonesBehind = true }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := rested()
			s.Live, s.Registered, s.Wants, s.Records = true, c.registered, c.out, nil
			for _, w := range c.out {
				s.Records = append(s.Records, record(w.Target, false, time.Time{}))
			}
			if c.change != nil {
				c.change(&s)
			}
			waits := decide(s).NeedZones
			if asked := s.ZonesBehind && len(c.held) > 0; waits != asked {
				t.Errorf("zones are asked for: %t", waits)
			}
			var held []Target
			for _, r := range decide(s).Reports {
				if r.Phase == Held {
					held = append(held, r.Target)
				}
			}
			if !slices.Equal(held, c.held) {
				t.Errorf("held %v, want %v: %+v", held, c.held, decide(s).Reports)
			}
		})
	}
}
