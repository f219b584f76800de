package targets

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The cases of this file change one thing each in a State in which a pod's target
// "10.0.0.1:8080" is on record and healthy, beside two others that are nobody's.

var (
	one   = Target{"10.0.0.1", 8080}
	two   = Target{"10.0.0.2", 8080}
	three = Target{"10.0.0.3", 8080}
	noon  = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
)

func healthy(zone string) Health { return Health{Condition: Healthy, Zone: zone} }

func drained() Health { return Health{Condition: Draining, Reason: DeregistrationInProgress} }

func rested() GroupState {
	return GroupState{
		Now: noon, SettleTime: 300 * time.Second, Synced: true, ReadAt: noon.Add(-time.Second),
		Group:      Group{ID: "g", Balancer: Network, Type: IP, Port: 8080, InUse: true, CrossZone: true, Delay: 30 * time.Second},
		Wants:      []Want{in(one)},
		Records:    []Record{{Registration: Registration{Target: one}, Owner: "pod"}},
		Registered: map[Target]Health{one: healthy("a"), two: healthy("a"), three: healthy("b")},
	}
}

func in(t Target) Want {
	return Want{Registration: Registration{Target: t}, Owner: "pod", In: true, Why: "it runs"}
}

func out(t Target) Want {
	return Want{Registration: Registration{Target: t}, Owner: "pod", Seen: true, Why: "it is to go"}
}

func ending(t Target) Want { w := out(t); w.Ending = true; return w }

func borrowed(w Want) Want { w.Borrowed = true; return w }

func record(t Target, leaving bool, left time.Time) Record {
	return Record{Registration: Registration{Target: t}, Owner: "pod", Leaving: leaving, LeftAt: left}
}

// TestJoined: of two records of a target, as where it goes over to another object, the one counts that
// says less of its end, and so waits longer.
func TestJoined(t *testing.T) {
	settled := func(r Record) Record { r.Settled = true; return r }
	in, begun := record(one, false, time.Time{}), record(one, true, time.Time{})
	early, late := record(one, true, noon.Add(-time.Minute)), record(one, true, noon)
	for name, c := range map[string]struct{ a, b, want Record }{
		"one is in":              {in, late, in},
		"one has not left yet":   {begun, late, begun},
		"one left later":         {early, late, late},
		"both are settled":       {settled(early), settled(late), settled(late)},
		"the earlier is settled": {settled(early), late, late},
		"the later is settled":   {early, settled(late), late},
	} {
		if got := joined(c.a, c.b); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		if got := joined(c.b, c.a); got != c.want {
			t.Errorf("%s, the other way round: %+v, want %+v", name, got, c.want)
		}
	}
}

// decide decides with records whose times this process wrote itself.
func decide(s GroupState) GroupDecision {
	s.Sightings = map[Target]Sighting{}
	for _, r := range s.Records {
		s.Sightings[r.Target] = Sighting{LeftAt: r.LeftAt, QuietAt: r.QuietAt, Left: r.LeftAt, Quiet: r.QuietAt}
	}
	return Decide(s)
}

// TestRefusedIsLookedFor: what the cloud refuses to deregister may have gone without us, which the
// next read shows, and so that is not left to come by the minute.
func TestRefusedIsLookedFor(t *testing.T) {
	for name, c := range map[string]struct {
		refused time.Time
		change  func(*GroupState)
		read    time.Duration
	}{
		"there, and read before the refusal":    {noon, func(*GroupState) {}, 0},
		"drains, and read before the refusal":   {noon, func(s *GroupState) { s.Registered[one] = drained() }, 0},
		"absent, and read before the refusal":   {noon, func(s *GroupState) { delete(s.Registered, one) }, 0},
		"drains, and read after the refusal":    {noon.Add(-2 * time.Second), func(s *GroupState) { s.Registered[one] = drained() }, 59 * time.Second},
		"read in the very moment of the answer": {noon.Add(-time.Second), func(*GroupState) {}, 0},
		"a refused registration is no removal": {noon, func(s *GroupState) {
			delete(s.Registered, one)
			s.Wants, s.Records, s.Refused[0].Register = []Want{in(one)}, nil, true
		}, 59 * time.Second},
	} {
		s := rested()
		s.Wants, s.Records = nil, []Record{record(one, true, time.Time{})}
		s.Refused = []Refusal{{Target: one, Why: "no", Since: c.refused, At: c.refused, Times: 1}}
		c.change(&s)
		if got := decide(s).ReadAt.Sub(noon); got != c.read {
			t.Errorf("%s: read in %v, want %v", name, got, c.read)
		}
	}
}

// expected is what a decision does, in a few words.
type expected struct {
	records    string
	register   string
	deregister string
	phase      Phase
	live       bool
}

func said(d GroupDecision, about Target) expected {
	var e expected
	var words []string
	for _, r := range d.Records {
		word := r.ID[len(r.ID)-1:]
		if r.Leaving {
			word += " leaving"
		}
		if !r.LeftAt.IsZero() {
			word += " left " + r.LeftAt.Sub(noon).String()
		}
		if !r.QuietAt.IsZero() {
			word += " quiet " + r.QuietAt.Sub(noon).String()
		}
		if r.Settled {
			word += " settled"
		}
		words = append(words, word)
	}
	e.records = strings.Join(words, ", ")
	if d.Records != nil && len(words) == 0 {
		e.records = "none"
	}
	for _, r := range d.Register {
		e.register += fmt.Sprintf("%s:%d ", r.ID, r.Port)
	}
	for _, t := range d.Deregister {
		e.deregister += fmt.Sprintf("%s:%d ", t.ID, t.Port)
	}
	e.register, e.deregister = strings.TrimSpace(e.register), strings.TrimSpace(e.deregister)
	for _, r := range d.Reports {
		if r.Target == about {
			e.phase = r.Phase
		}
	}
	e.live = d.NeedLiveRead
	return e
}

func TestDecide(t *testing.T) {
	const first = "10.0.0.1:8080"
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }
	gone := func(s *GroupState) { delete(s.Registered, one) }
	left := func(age time.Duration) func(*GroupState) {
		return func(s *GroupState) {
			s.Wants, s.Records = []Want{out(one)}, []Record{record(one, true, ago(age))}
			delete(s.Registered, one)
		}
	}
	// quiet is what is told now of a target that was busy some seconds ago.
	quiet := func(s *GroupState, t Target, busy, since time.Duration) {
		s.Quiet = map[Target]Quiet{t: {Came: ago(busy * time.Second), From: ago(since * time.Second), To: noon}}
	}
	for _, c := range []struct {
		name   string
		change func(*GroupState)
		want   expected
	}{
		{"nothing to do", func(*GroupState) {}, expected{phase: Attached}},

		{"a target that is wanted is recorded and registered", func(s *GroupState) { s.Records = nil; gone(s) },
			expected{records: "1", register: first, phase: Registering}},
		{"one that others registered is recorded, and needs no call", func(s *GroupState) { s.Records = nil },
			expected{records: "1", phase: Attached}},
		{"before the first read nothing is known to be missing", func(s *GroupState) { s.ReadAt, s.Registered, s.Records = time.Time{}, nil, nil },
			expected{phase: Registering}},
		{"the group's port where none is given", func(s *GroupState) { s.Records = nil; gone(s); s.Wants[0].Port = 0 },
			expected{records: "1", register: first, phase: Registering}},
		{"an address that is reused is registered while it drains", func(s *GroupState) {
			s.Registered[one] = drained()
			s.Records = []Record{record(one, true, ago(time.Second))}
		}, expected{records: "1 leaving", register: first, phase: Registering}},
		{"somebody else takes it out", func(s *GroupState) { gone(s) }, expected{register: first, phase: Registering}},
		{"a call that was just answered is not made again", func(s *GroupState) {
			gone(s)
			s.Answers = map[Target]Answer{one: {Register: true, At: ago(2 * time.Second), Times: 1}}
		}, expected{phase: Registering}},
		{"but when a later read does not show it", func(s *GroupState) {
			gone(s)
			s.Answers = map[Target]Answer{one: {Register: true, At: ago(3 * time.Second), Times: 1}}
		}, expected{register: first, phase: Registering}},
		{"and after more vain calls, later", func(s *GroupState) {
			gone(s)
			s.Answers = map[Target]Answer{one: {Register: true, At: ago(8 * time.Second), Times: 3}}
		}, expected{phase: Registering}},
		{"what was put back counts as leaving until nothing older can take it out", func(s *GroupState) {
			s.Records = []Record{record(one, true, time.Time{})}
			s.Answers = map[Target]Answer{one: {Register: true, At: ago(15 * time.Second), Times: 1}}
		}, expected{phase: Registering}},
		{"and not longer", func(s *GroupState) {
			s.Records = []Record{record(one, true, time.Time{})}
			s.Answers = map[Target]Answer{one: {Register: true, At: ago(16 * time.Second), Times: 1}}
		}, expected{records: "1", phase: Attached}},
		{"a crash after the record: registered once more, though it seems in", func(s *GroupState) {
			s.Records = []Record{record(one, true, time.Time{})}
		}, expected{register: first, phase: Registering}},
		{"a refused deregistration of what is not there any more", func(s *GroupState) {
			s.Wants, s.Records = nil, []Record{record(one, true, time.Time{})}
			gone(s)
			s.Refused = []Refusal{{Target: one, Why: "no", Since: ago(time.Minute), At: ago(2 * time.Second), Times: 1}}
		}, expected{records: "1 leaving left -1s", phase: Leaving}},
		{"one that was refused after the read", func(s *GroupState) {
			s.Wants, s.Records = nil, []Record{record(one, true, time.Time{})}
			gone(s)
			s.Refused = []Refusal{{Target: one, Why: "no", Since: ago(time.Minute), At: ago(0), Times: 1}}
		}, expected{phase: Refused}},
		{"one that is there still", func(s *GroupState) {
			s.Wants, s.Records = nil, []Record{record(one, true, time.Time{})}
			s.Refused = []Refusal{{Target: one, Why: "no", Since: ago(time.Minute), At: ago(2 * time.Second), Times: 1}}
		}, expected{phase: Refused}},
		{"a refused registration is no leave", func(s *GroupState) {
			s.Wants, s.Records = nil, []Record{record(one, true, time.Time{})}
			gone(s)
			s.Refused = []Refusal{{Target: one, Register: true, Why: "no", Since: ago(time.Minute), At: ago(2 * time.Second), Times: 1}}
		}, expected{deregister: first, phase: Leaving}},
		{"healthy in a zone that traffic is shifted away from", func(s *GroupState) {
			s.Registered[one] = Health{Condition: Healthy, Zone: "a", Shifted: true}
		}, expected{phase: Attached}},
		{"unhealthy in such a zone", func(s *GroupState) {
			s.Registered[one] = Health{Condition: Unhealthy, Zone: "a", Shifted: true}
		}, expected{phase: Failing}},
		{"a refused one waits", func(s *GroupState) {
			gone(s)
			s.Refused = []Refusal{{Target: one, Register: true, Why: "no", Since: ago(time.Minute), At: ago(4 * time.Second), Times: 1}}
		}, expected{phase: Refused}},
		{"and is tried again", func(s *GroupState) {
			gone(s)
			s.Refused = []Refusal{{Target: one, Register: true, Why: "no", Since: ago(time.Minute), At: ago(5 * time.Second), Times: 1}}
		}, expected{register: first, phase: Registering}},
		{"where the group was full, at once when one has left it", func(s *GroupState) {
			gone(s)
			s.Refused = []Refusal{{Target: one, Register: true, Full: true, Since: ago(time.Minute), At: ago(4 * time.Second), Times: 1}}
			s.Answers = map[Target]Answer{two: {At: ago(time.Second)}}
		}, expected{register: first, phase: Registering}},
		{"an instance is no address", func(s *GroupState) { s.Wants[0].ID = "i-1" }, expected{phase: Held, live: true}},

		{"a removal that was seen counts at once", func(s *GroupState) { s.Wants = []Want{ending(one)}; s.Synced = false },
			expected{records: "1 leaving", deregister: first, phase: Leaving}},
		{"a registration of a moment ago delays none", func(s *GroupState) {
			s.Wants = []Want{ending(one)}
			s.Answers = map[Target]Answer{one: {Register: true, At: ago(time.Millisecond), Times: 1}}
		}, expected{records: "1 leaving", deregister: first, phase: Leaving}},
		{"also before the first read", func(s *GroupState) { s.Wants = []Want{ending(one)}; s.ReadAt, s.Registered = time.Time{}, nil },
			expected{records: "1 leaving", deregister: first, phase: Leaving}},
		{"what serves on is taken out by a live read only", func(s *GroupState) { s.Wants = []Want{out(one)} },
			expected{phase: Held, live: true}},
		{"which is here", func(s *GroupState) { s.Wants = []Want{out(one)}; s.Live = true },
			expected{records: "1 leaving", deregister: first, phase: Leaving}},
		{"a hook that holds the pod lets it serve on", func(s *GroupState) {
			s.Wants = []Want{ending(one)}
			s.Wants[0].HookUntil = noon.Add(time.Minute)
		}, expected{phase: Held, live: true}},
		{"and when its time is over, no more", func(s *GroupState) {
			s.Wants = []Want{ending(one)}
			s.Wants[0].HookUntil = noon
		}, expected{records: "1 leaving", deregister: first, phase: Leaving}},
		{"a removal that was begun, and that a minimum forbids by now, is undone", func(s *GroupState) {
			s.Wants, s.Records = []Want{out(one)}, []Record{record(one, true, time.Time{})}
			s.Registered[two], s.Registered[three] = drained(), drained()
		}, expected{register: first, phase: Held}},
		{"and may be begun again", func(s *GroupState) {
			s.Wants, s.Records = []Want{out(one)}, []Record{record(one, true, time.Time{})}
			s.Registered[two], s.Registered[three] = drained(), drained()
			s.Answers = map[Target]Answer{one: {Register: true, At: ago(16 * time.Second), Times: 1}}
		}, expected{records: "1", phase: Held}},
		{"an absence needs complete lists", func(s *GroupState) { s.Wants = nil; s.Live = true; s.Synced = false }, expected{phase: Held}},
		{"and a live read", func(s *GroupState) { s.Wants = nil }, expected{phase: Held, live: true}},
		{"and has both", func(s *GroupState) { s.Wants = nil; s.Live = true }, expected{records: "1 leaving", deregister: first, phase: Leaving}},
		{"an unseen want to be out is an absence", func(s *GroupState) {
			s.Wants = []Want{out(one)}
			s.Wants[0].Seen = false
			s.Synced = false
			s.Live = true
		},
			expected{phase: Held}},
		{"two wants, one in", func(s *GroupState) { s.Wants = []Want{ending(one), in(one), ending(one)} }, expected{phase: Attached}},
		{"two wants, both out, one serves on", func(s *GroupState) { s.Wants = []Want{ending(one), out(one)} }, expected{phase: Held, live: true}},
		{"two wants, both out, one unseen", func(s *GroupState) {
			s.Wants = []Want{ending(one), ending(one)}
			s.Wants[1].Seen = false
		}, expected{phase: Held, live: true}},

		{"a stranger is left alone though it is wanted out", func(s *GroupState) { s.Wants = []Want{in(one), ending(two)} }, expected{phase: Attached}},
		{"in a group that is all ours, not", func(s *GroupState) { s.Wants = []Want{in(one), ending(two), in(three)}; s.Whole = true },
			expected{records: "1, 2 leaving, 3", deregister: "10.0.0.2:8080", phase: Attached}},
		{"what nobody wants leaves a group that is ours", func(s *GroupState) { s.Whole, s.Live = true, true },
			expected{records: "1, 2 leaving, 3 leaving", deregister: "10.0.0.2:8080 10.0.0.3:8080", phase: Attached}},
		{"by complete lists", func(s *GroupState) { s.Whole, s.Live, s.Synced = true, true, false }, expected{phase: Attached}},
		{"a borrowed one is recorded when it is taken out", func(s *GroupState) { s.Wants = []Want{borrowed(out(one))}; s.Records = nil; s.Live = true },
			expected{records: "1 leaving", deregister: first, phase: Leaving}},
		{"a borrowed one that was never taken out is not ours", func(s *GroupState) { s.Wants = []Want{borrowed(in(one))}; s.Records = nil; gone(s) },
			expected{phase: Absent}},
		{"a borrowed one is put back", func(s *GroupState) {
			s.Wants = []Want{borrowed(in(one))}
			s.Records = []Record{record(one, true, ago(time.Hour))}
			gone(s)
		}, expected{records: "1 leaving", register: first, phase: Registering}},
		{"and forgotten when it is attached", func(s *GroupState) { s.Wants = []Want{borrowed(in(one))} }, expected{records: "none", phase: Attached}},
		{"but not before it is healthy", func(s *GroupState) {
			s.Wants = []Want{borrowed(in(one))}
			s.Registered[one] = Health{Condition: Initial, Reason: RegistrationInProgress}
		}, expected{phase: Registering}},

		{"LeftAt is when it was seen out after the answer", func(s *GroupState) {
			left(0)(s)
			s.Records[0].LeftAt = time.Time{}
			s.Answers = map[Target]Answer{one: {At: ago(time.Second), Times: 1}}
		}, expected{records: "1 leaving left -1s", phase: Leaving}},
		{"an answer after the read proves nothing", func(s *GroupState) {
			left(0)(s)
			s.Records[0].LeftAt = time.Time{}
			s.Answers = map[Target]Answer{one: {At: noon, Times: 1}}
		}, expected{phase: Leaving}},
		{"nor does a record alone: it may be in soon", func(s *GroupState) { left(0)(s); s.Records[0].LeftAt = time.Time{} },
			expected{deregister: first, phase: Leaving}},
		{"unused in use elsewhere is not gone", func(s *GroupState) {
			left(0)(s)
			s.Records[0].LeftAt = time.Time{}
			s.Registered[one] = Health{Condition: Unused, Reason: NotInUse}
			s.Answers = map[Target]Answer{one: {At: ago(4 * time.Second), Times: 1}}
		}, expected{deregister: first, phase: Leaving}},
		{"unused and not registered is", func(s *GroupState) {
			left(301 * time.Second)(s)
			s.Registered[one] = Health{Condition: Unused, Reason: NotRegistered}
		}, expected{phase: Stopped}},
		{"the settle time has not passed", left(300 * time.Second), expected{phase: Leaving}},
		{"the settle time has passed before the read", left(301 * time.Second), expected{phase: Stopped}},
		{"it drains still", func(s *GroupState) {
			left(301 * time.Second)(s)
			s.Group.Delay = 302 * time.Second
			s.Registered[one] = drained()
		}, expected{phase: Leaving}},
		{"its delay is over", func(s *GroupState) { left(301 * time.Second)(s); s.Registered[one] = drained() }, expected{phase: Stopped}},
		{"quiet is recorded first", func(s *GroupState) { left(20 * time.Second)(s); quiet(s, one, 15, 11) },
			expected{records: "1 leaving left -20s quiet 0s", phase: Leaving}},
		{"quiet on record, and read since", func(s *GroupState) { left(20 * time.Second)(s); s.Records[0].QuietAt = ago(5 * time.Second) },
			expected{phase: Stopped}},
		{"quiet on record, and not read since", func(s *GroupState) { left(20 * time.Second)(s); s.Records[0].QuietAt = noon },
			expected{phase: Leaving}},
		{"quiet for less than 10 s", func(s *GroupState) { left(20 * time.Second)(s); quiet(s, one, 15, 9) },
			expected{phase: Leaving}},
		{"quiet since before it left", func(s *GroupState) { left(20 * time.Second)(s); quiet(s, one, 15, 21) },
			expected{phase: Leaving}},
		{"no connection after it left", func(s *GroupState) { left(20 * time.Second)(s); quiet(s, one, 21, 11) },
			expected{phase: Leaving}},
		{"another port is quiet", func(s *GroupState) { left(20 * time.Second)(s); quiet(s, Target{one.ID, 8443}, 15, 11) },
			expected{phase: Leaving}},
		{"quiet while it drains", func(s *GroupState) { left(20 * time.Second)(s); quiet(s, one, 15, 11); s.Registered[one] = drained() },
			expected{phase: Leaving}},
		{"quiet, and drained", func(s *GroupState) {
			left(31 * time.Second)(s)
			quiet(s, one, 15, 11)
			s.Registered[one] = drained()
		}, expected{records: "1 leaving left -31s quiet 0s", phase: Leaving}},
		{"quiet when it left before does not count again", func(s *GroupState) {
			left(20 * time.Second)(s)
			s.Records[0].QuietAt = ago(5 * time.Second)
			s.Registered[one] = healthy("a")
			s.Wants = []Want{ending(one)}
		}, expected{records: "1 leaving", deregister: first, phase: Leaving}},
		{"registered again by somebody else", func(s *GroupState) {
			left(301 * time.Second)(s)
			s.Wants = []Want{ending(one)}
			s.Registered[one] = healthy("a")
		}, expected{records: "1 leaving", deregister: first, phase: Leaving}},
		{"again and again: not at once", func(s *GroupState) {
			left(301 * time.Second)(s)
			s.Wants = []Want{ending(one)}
			s.Registered[one] = healthy("a")
			s.Answers = map[Target]Answer{one: {At: ago(30 * time.Second), Times: 5}}
		}, expected{records: "1 leaving", phase: Leaving}},
		{"registered by somebody else when nobody speaks of it: theirs", func(s *GroupState) {
			left(301 * time.Second)(s)
			s.Wants, s.Records[0].Settled = nil, true
			s.Registered[one] = healthy("a")
		}, expected{records: "none", phase: Foreign}},
		{"unless the lists are not complete", func(s *GroupState) {
			left(301 * time.Second)(s)
			s.Wants, s.Records[0].Settled, s.Synced = nil, true, false
			s.Registered[one] = healthy("a")
		}, expected{phase: Held}},
		{"or it may be by a late call of ours", func(s *GroupState) {
			left(301 * time.Second)(s)
			s.Wants, s.Live = nil, true
			s.Registered[one] = healthy("a")
		}, expected{records: "1 leaving", deregister: first, phase: Leaving}},
		{"gone and not spoken of: forgotten", func(s *GroupState) { left(301 * time.Second)(s); s.Wants = nil }, expected{records: "none", phase: Stopped}},
		{"not while its load balancer may send connections, which its node waits for", func(s *GroupState) { left(300 * time.Second)(s); s.Wants = nil },
			expected{records: "1 leaving left -5m0s settled", phase: Leaving}},
		{"not while something older may register it", func(s *GroupState) { left(15 * time.Second)(s); s.Wants, s.SettleTime = nil, 0 }, expected{phase: Stopped}},
		{"not while it drains", func(s *GroupState) { left(20 * time.Second)(s); s.Wants = nil; s.Registered[one] = drained() },
			expected{records: "1 leaving left -20s settled", phase: Leaving}},
		{"a pod that failed long ago is forgotten", func(s *GroupState) { left(301 * time.Second)(s); s.Wants = []Want{ending(one)} },
			expected{records: "none", phase: Stopped}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := rested()
			c.change(&s)
			if got := said(decide(s), one); got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}
