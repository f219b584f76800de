package balance

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"pgregory.net/rapid"
)

// tester holds endpoints whose value is a number of their own, and knows which are there.
type tester struct {
	Endpoints[int]
	entered int
	present map[int]bool
}

func newTester(p Policy, start uint64) *tester {
	x := &tester{present: map[int]bool{}}
	x.Endpoints = NewEndpoints(start,
		func(wire.Endpoint) int { x.entered++; x.present[x.entered] = true; return x.entered },
		func(n int) { delete(x.present, n) })
	x.SetPolicy(p)
	return x
}

// endpoint is that of pod i.
func endpoint(i int, state wire.EndpointState) wire.Endpoint {
	return wire.Endpoint{Address: fmt.Sprintf("10.0.%d.%d", i/256, i%256), Port: 8080, UID: "pod-" + strconv.Itoa(i), State: state}
}

func ready(pods ...int) (out []wire.Endpoint) {
	for _, i := range pods {
		out = append(out, endpoint(i, wire.Ready))
	}
	return out
}

func upTo(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

func (x *tester) uids(now time.Time, n int) (out []string) {
	for range n {
		out = append(out, x.Choose(now, nil).UID)
	}
	return out
}

// TestEachInTurn: between two requests to an endpoint every other one that was there meanwhile gets one,
// whatever comes and goes, and none that has left gets any.
func TestEachInTurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newTester(Policy{}, rapid.Uint64().Draw(t, "start"))
		var now []wire.Endpoint
		// last is when an endpoint was chosen last, since when it has been there.
		last, since := map[string]int{}, map[string]int{}
		step := 0
		set := func() {
			before := since
			since = map[string]int{}
			pods := rapid.SliceOfNDistinct(rapid.IntRange(0, 12), 1, 13, rapid.ID).Draw(t, "pods")
			now = ready(pods...)
			for _, e := range now {
				since[e.UID] = step
				if at, stayed := before[e.UID]; stayed {
					since[e.UID] = at
				} else {
					delete(last, e.UID)
				}
			}
			x.Set(now)
		}
		for set(); step < 300; step++ {
			if rapid.IntRange(0, 9).Draw(t, "change") == 0 {
				set()
			}
			e := x.Choose(noon, nil)
			if _, there := since[e.UID]; !there || !x.present[e.Value] {
				t.Fatalf("step %d: %s is chosen, and has left", step, e.UID)
			}
			if before, again := last[e.UID]; again {
				for uid, at := range since {
					if served, any := last[uid]; uid != e.UID && at <= before && (!any || served < before) {
						t.Fatalf("step %d: %s is chosen again, and %s was not chosen since step %d", step, e.UID, uid, before)
					}
				}
			}
			last[e.UID] = step
		}
	})
}

// TestNoBurstToTheFirst: a change before each request must not give them all to one endpoint.
func TestNoBurstToTheFirst(t *testing.T) {
	x := newTester(Policy{}, 0)
	got := map[string]int{}
	for i := range 300 {
		pods := append(upTo(10), 20+i%2)
		x.Set(ready(pods...))
		got[x.Choose(noon, nil).UID]++
	}
	for uid, n := range got {
		if n > 31 {
			t.Errorf("%s got %d of 300 requests, as one of 11", uid, n)
		}
	}
}

func TestStartOfTurns(t *testing.T) {
	for start := range uint64(7) {
		x := newTester(Policy{}, start)
		x.Set(ready(upTo(7)...))
		if got, want := x.Choose(noon, nil).UID, fmt.Sprintf("pod-%d", start); got != want {
			t.Errorf("start %d begins with %s", start, got)
		}
	}
}

func TestEndpointsEnterAndLeave(t *testing.T) {
	x := newTester(Policy{}, 0)
	x.Set(ready(2, 0, 1, 2))
	if x.entered != 3 || len(x.present) != 3 || len(x.All()) != 3 {
		t.Fatalf("%d of 3 have entered, %d are present", x.entered, len(x.present))
	}
	first := x.All()[0]
	// A pod is another where only its UID is: a new one at an address of before.
	again := ready(0, 1)
	again[1].UID = "other"
	x.Set(again)
	if x.entered != 4 || len(x.present) != 2 || x.All()[0] != first || x.All()[1].Value != 4 {
		t.Errorf("%d have entered, present are %v", x.entered, x.present)
	}
	x.Set(nil)
	if len(x.present) != 0 || x.Choose(noon, nil) != nil {
		t.Errorf("present are %v after all have left", x.present)
	}
}

func TestReadyBeforeTerminating(t *testing.T) {
	x := newTester(Policy{}, 0)
	x.Set([]wire.Endpoint{endpoint(0, wire.Terminating), endpoint(1, wire.Ready), endpoint(2, wire.Terminating), endpoint(3, wire.Unknown)})
	if got := x.uids(noon, 3); !slices.Equal(got, []string{"pod-1", "pod-1", "pod-1"}) {
		t.Errorf("chosen are %v, of which one only is ready", got)
	}
	if e := x.Choose(noon, []*Endpoint[int]{x.All()[1]}); e != nil {
		t.Errorf("%s is chosen when the ready one was tried", e.UID)
	}
	x.Set([]wire.Endpoint{endpoint(0, wire.Terminating), endpoint(2, wire.Terminating)})
	if got := x.uids(noon, 3); !slices.Equal(got, []string{"pod-2", "pod-0", "pod-2"}) {
		t.Errorf("chosen are %v, of which none is ready", got)
	}
	x.Set([]wire.Endpoint{endpoint(3, wire.Unknown), endpoint(4, wire.Unknown)})
	if got := x.uids(noon, 3); !slices.Equal(got, []string{"pod-3", "pod-4", "pod-3"}) {
		t.Errorf("chosen are %v, of which no other serves", got)
	}
}

// TestUnknownBeforeTerminating: those that end are asked only where one of those that were ready, and may go on, did not
// answer.
func TestUnknownBeforeTerminating(t *testing.T) {
	x := newTester(Policy{MaxFails: 1, FailTimeout: 10 * time.Second, Sticky: true}, 0)
	x.Set(ready(0, 1, 2, 3))
	x.Set([]wire.Endpoint{endpoint(0, wire.Terminating), endpoint(1, wire.Unknown), endpoint(2, wire.Terminating), endpoint(3, wire.Unknown)})
	if got := x.uids(noon, 4); !slices.Equal(got, []string{"pod-1", "pod-3", "pod-1", "pod-3"}) {
		t.Errorf("chosen are %v", got)
	}
	names := func(when string, now time.Time, want ...string) {
		t.Helper()
		var got []string
		for _, e := range x.All() {
			if e = x.ByCookie(e.Cookie, now, nil); e != nil {
				got = append(got, e.UID)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s, clients stay with %v, not %v", when, got, want)
		}
	}
	names("at first", noon, "pod-1", "pod-3")
	var tried []*Endpoint[int]
	var order []string
	for e := x.Choose(noon, tried); e != nil; e = x.Choose(noon, tried) {
		tried, order = append(tried, e), append(order, e.UID)
	}
	if want := []string{"pod-1", "pod-0", "pod-2", "pod-3"}; !slices.Equal(order, want) {
		t.Errorf("tried are %v, not %v", order, want)
	}
	x.Failed(x.All()[1], noon)
	names("one is left out", after(1), "pod-3")
	x.Failed(x.All()[3], noon)
	if got := x.uids(after(1), 4); !slices.Equal(got, []string{"pod-0", "pod-2", "pod-0", "pod-2"}) {
		t.Errorf("chosen are %v where the others are left out", got)
	}
	names("both are left out", after(1), "pod-0", "pod-2")
	x.Failed(x.All()[0], noon)
	names("one that ends is, too", after(1), "pod-2")
	x.Failed(x.All()[2], noon)
	if got := x.uids(after(1), 2); !slices.Equal(got, []string{"pod-1", "pod-3"}) {
		t.Errorf("chosen are %v where all are left out", got)
	}
	names("all are left out", after(1), "pod-0", "pod-1", "pod-2", "pod-3")
	if e := x.Choose(after(1), []*Endpoint[int]{x.All()[1], x.All()[3]}); e == nil || e.UID != "pod-0" {
		t.Errorf("%v is chosen where all are left out and the first were tried", e)
	}
	x.Set([]wire.Endpoint{endpoint(0, wire.Terminating), endpoint(1, wire.Ready), endpoint(3, wire.Unknown)})
	if got := x.uids(after(20), 2); !slices.Equal(got, []string{"pod-1", "pod-1"}) {
		t.Errorf("chosen are %v where one is ready", got)
	}
	if e := x.Choose(after(20), x.All()[1:2]); e != nil {
		t.Errorf("%s is chosen when the ready one was tried", e.UID)
	}
}

// TestNeverReady: who may never have been ready is asked only where nobody else answers, whether others end or are
// unknown, too.
func TestNeverReady(t *testing.T) {
	for _, of := range []wire.EndpointState{wire.Terminating, wire.Unknown} {
		x := newTester(Policy{MaxFails: 1, FailTimeout: 10 * time.Second}, 0)
		x.Set(ready(0, 1))
		now := []wire.Endpoint{endpoint(0, of), endpoint(1, of), endpoint(2, wire.Unknown)}
		x.Set(now)
		if got := x.uids(noon, 3); !slices.Equal(got, []string{"pod-0", "pod-1", "pod-0"}) {
			t.Errorf("state %d: chosen are %v", of, got)
		}
		var order []string
		var tried []*Endpoint[int]
		for e := x.Choose(noon, tried); e != nil; e = x.Choose(noon, tried) {
			tried, order = append(tried, e), append(order, e.UID)
		}
		if want := []string{"pod-1", "pod-0", "pod-2"}; !slices.Equal(order, want) {
			t.Errorf("state %d: tried are %v, not %v", of, order, want)
		}
		x.Failed(x.All()[0], noon)
		x.Failed(x.All()[1], noon)
		if e := x.Choose(after(1), nil); e.UID != "pod-2" {
			t.Errorf("state %d: %s is chosen where the others are left out", of, e.UID)
		}
		// A pod of before is not its successor at the same address.
		now[0].UID = "other"
		x.Set(now)
		if of == wire.Unknown && x.Choose(after(20), nil).UID != "pod-1" {
			t.Errorf("another one at the address of one that was ready is taken for it")
		}
	}
}

// TestNoBurstToASpare: changes move nobody's turn of those that end, either.
func TestNoBurstToASpare(t *testing.T) {
	x := newTester(Policy{MaxFails: 1, FailTimeout: 10 * time.Second}, 0)
	x.Set(ready(upTo(6)...))
	got := map[string]int{}
	for i := range 300 {
		now := []wire.Endpoint{endpoint(0, wire.Unknown)}
		for pod := 1; pod < 6; pod++ {
			now = append(now, endpoint(pod, wire.Terminating))
		}
		x.Set(append(now, endpoint(20+i%2, wire.Terminating)))
		x.Failed(x.All()[0], noon)
		got[x.Choose(after(1), nil).UID]++
	}
	for uid, n := range got {
		if n > 51 {
			t.Errorf("%s got %d of 300 requests, as one of 6", uid, n)
		}
	}
}

func TestTriedAreNotChosenAgain(t *testing.T) {
	x := newTester(Policy{MaxFails: 1, FailTimeout: 10 * time.Second}, 3)
	x.Set(ready(upTo(5)...))
	x.Failed(x.All()[2], noon)
	var tried []*Endpoint[int]
	for e := x.Choose(noon, tried); e != nil; e = x.Choose(noon, tried) {
		if slices.Contains(tried, e) {
			t.Fatalf("%s is tried twice", e.UID)
		}
		tried = append(tried, e)
	}
	if len(tried) != 5 || tried[4].UID != "pod-2" {
		t.Errorf("%d are tried, last %s: want all, and last the one that is left out", len(tried), tried[len(tried)-1].UID)
	}
}

func TestEjection(t *testing.T) {
	type event struct {
		at      float64
		success bool
		// given is when the request of a success was given.
		given float64
	}
	fail := func(at float64) event { return event{at: at} }
	for name, test := range map[string]struct {
		fails  uint32
		events []event
		asked  float64
		out    bool
	}{
		"never":                            {0, []event{fail(0), fail(0), fail(0)}, 0, false},
		"the first":                        {1, []event{fail(0)}, 9.9, true},
		"over":                             {1, []event{fail(0)}, 10, false},
		"too few":                          {3, []event{fail(0), fail(1)}, 2, false},
		"enough":                           {3, []event{fail(0), fail(1), fail(10)}, 11, true},
		"too slow":                         {3, []event{fail(0), fail(1), fail(10.1)}, 11, false},
		"counted anew":                     {2, []event{fail(0), fail(10.1), fail(20)}, 21, true},
		"a success between":                {2, []event{fail(0), {1, true, 0}, fail(2)}, 3, false},
		"a success of before":              {1, []event{fail(1), {2, true, 0.5}}, 3, true},
		"a success while out":              {1, []event{fail(1), {3, true, 2}}, 3, false},
		"a success between, while out":     {1, []event{fail(1), fail(3), {4, true, 2}}, 5, false},
		"once more while out":              {1, []event{fail(0), fail(5)}, 14, true},
		"back, then again":                 {1, []event{fail(0), fail(12)}, 13, true},
		"a success of between two of them": {1, []event{fail(0), fail(12), {13, true, 11}}, 14, true},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTester(Policy{MaxFails: test.fails, FailTimeout: 10 * time.Second}, 0)
			x.Set(ready(0, 1))
			e := x.All()[0]
			for _, event := range test.events {
				if event.success {
					x.Succeeded(e, after(event.given))
				} else {
					x.Failed(e, after(event.at))
				}
			}
			// A change of endpoints must not forgive.
			x.Set(ready(0, 1, 2))
			chosen := slices.Contains(x.uids(after(test.asked), 3), "pod-0")
			if chosen == test.out || x.Out(e, after(test.asked)).IsZero() == test.out {
				t.Errorf("it is chosen: %t, it is to be out: %t", chosen, test.out)
			}
		})
	}
}

func TestEjectionNeverEmpties(t *testing.T) {
	x := newTester(Policy{MaxFails: 1, FailTimeout: 10 * time.Second, Sticky: true}, 0)
	x.Set(ready(0, 1, 2))
	for _, e := range x.All() {
		x.Failed(e, noon)
	}
	if got := x.uids(after(1), 3); !slices.Equal(got, []string{"pod-0", "pod-1", "pod-2"}) {
		t.Errorf("all are left out, and chosen are %v: want each in turn", got)
	}
	if e := x.ByCookie(Cookie("pod-1"), after(1), nil); e == nil || e.UID != "pod-1" {
		t.Errorf("all are left out, and the cookie names %v", e)
	}
}

func TestCookies(t *testing.T) {
	// The value is what every other proxy gives: printf pod-0 | sha256sum.
	if got := Cookie("pod-0"); got != "7a12237f63ff25d8" {
		t.Errorf("the cookie is %q", got)
	}
	x := newTester(Policy{Sticky: true, MaxFails: 1, FailTimeout: 10 * time.Second}, 0)
	x.Set(ready(0, 1, 2))
	cookie := x.All()[1].Cookie
	stays := func(what string, now time.Time, want bool) {
		t.Helper()
		e := x.ByCookie(cookie, now, nil)
		if (e != nil) != want || e != nil && e.UID != "pod-1" {
			t.Errorf("%s: the cookie names %v", what, e)
		}
	}
	stays("at first", noon, true)
	x.Set(ready(upTo(10)...))
	stays("scaled up", noon, true)
	x.Set(ready(1))
	stays("scaled down", noon, true)
	x.Set(ready(0, 1))
	if e := x.ByCookie(cookie, noon, x.All()[1:]); e != nil {
		t.Errorf("%s is tried again", e.UID)
	}
	x.Failed(x.All()[1], noon)
	stays("left out", after(1), false)
	stays("back", after(11), true)
	x.Set([]wire.Endpoint{endpoint(0, wire.Ready), endpoint(1, wire.Terminating)})
	stays("terminating", after(11), false)
	x.Set([]wire.Endpoint{endpoint(1, wire.Terminating)})
	stays("terminating, as all", after(11), true)
	x.Set(ready(0, 2))
	stays("gone", after(11), false)
	x.Set(ready(0, 1))
	x.SetPolicy(Policy{})
	stays("not sticky any more", after(11), false)
	x.SetPolicy(Policy{Sticky: true})
	stays("sticky again", after(11), true)
	bare := []wire.Endpoint{{Address: "192.0.2.1", Port: 80}, {Address: "192.0.2.2", Port: 80}}
	x.Set(bare)
	if e := x.ByCookie(x.All()[1].Cookie, noon, nil); e != x.All()[1] {
		t.Errorf("the cookie of one without a pod names %v", e)
	}
	x.Set(ready(0, 1))
	for _, value := range []string{"", "x", Cookie("pod-7"), "10.0.0.1"} {
		if e := x.ByCookie(value, noon, nil); e != nil {
			t.Errorf("%q names %s", value, e.UID)
		}
	}
}

func BenchmarkEndpoints(b *testing.B) {
	for _, n := range []int{4, 1000} {
		b.Run(fmt.Sprintf("choose-of-%d", n), func(b *testing.B) {
			x := newTester(Policy{MaxFails: 1}, 1)
			x.Set(ready(upTo(n)...))
			for b.Loop() {
				x.Choose(noon, nil)
			}
		})
		b.Run(fmt.Sprintf("set-%d", n), func(b *testing.B) {
			x := newTester(Policy{MaxFails: 1}, 1)
			with, without := ready(upTo(n)...), ready(upTo(n-1)...)
			slices.SortFunc(with, compare)
			slices.SortFunc(without, compare)
			for b.Loop() {
				x.Set(with)
				x.Set(without)
			}
		})
	}
}

func BenchmarkCookie(b *testing.B) {
	x := newTester(Policy{Sticky: true}, 1)
	x.Set(ready(upTo(100)...))
	value := x.All()[50].Cookie
	for b.Loop() {
		x.ByCookie(value, noon, nil)
	}
}
