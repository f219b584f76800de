package targets

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func address(i int) Target { return Target{fmt.Sprintf("10.0.%d.%d", i/250, i%250), 8080} }

// asking is a decision to register some targets and to deregister others.
func asking(register, deregister []Target) GroupDecision {
	d := GroupDecision{Deregister: deregister}
	for _, t := range register {
		d.Register = append(d.Register, Registration{Target: t})
	}
	for _, t := range append(slices.Clone(register), deregister...) {
		d.Reports = append(d.Reports, Report{Target: t})
	}
	return d
}

func several(from, to int) (all []Target) {
	for i := from; i < to; i++ {
		all = append(all, address(i))
	}
	return all
}

func TestOrderOfCalls(t *testing.T) {
	c := NewCalls(4, 20)
	a := asking(several(0, 450), several(500, 501))
	a.ReadAt = noon
	c.Plan("a", a)
	c.Plan("b", asking(several(0, 1), several(2, 3)))
	c.Plan("c", asking(several(0, 1), nil))
	var order []string
	for {
		call, ready, _ := c.Next(noon)
		if !ready {
			break
		}
		order = append(order, fmt.Sprintf("%s %d %d", call.Group, call.Kind, len(call.Targets)))
		c.Done(noon, call, Accepted, "", 0)
	}
	want := []string{"a 0 1", "b 0 1", "a 1 200", "b 1 1", "c 1 1", "a 1 200", "a 1 50", "a 2 0"}
	if !slices.Equal(order, want) {
		t.Errorf("got  %q\nwant %q", order, want)
	}
}

// TestOneCallAtATime: what is under way to a group ends first, so that calls about
// a target arrive in order.
func TestOneCallAtATime(t *testing.T) {
	c := NewCalls(4, 20)
	c.Plan("a", asking(several(0, 201), nil))
	first, ready, _ := c.Next(noon)
	if _, more, at := c.Next(noon); !ready || more || !at.IsZero() {
		t.Fatalf("a second call is made at once, or waits for a time: %t %s", more, at)
	}
	c.Done(noon, first, Accepted, "", 0)
	if second, ready, _ := c.Next(noon); !ready || len(second.Targets) != 1 {
		t.Errorf("got %v", second)
	}
}

func TestBucket(t *testing.T) {
	c := NewCalls(4, 20)
	for i := range 30 {
		c.Plan(fmt.Sprintf("g%02d", i), asking(several(0, 1), nil))
	}
	now, made := noon, 0
	var times []time.Duration
	for {
		_, ready, at := c.Next(now)
		switch {
		case ready:
			made++
			times = append(times, now.Sub(noon))
			continue
		case at.IsZero():
			if made != 30 || times[19] != 0 || times[20] == 0 || times[29] < 2500*time.Millisecond || times[29] > 2501*time.Millisecond {
				t.Errorf("%d calls at %v: want 20 at once, then 4 a second", made, times)
			}
			return
		case !at.After(now):
			t.Fatal("the time to ask again is not in the future")
		}
		now = at
	}
}

func TestThrottling(t *testing.T) {
	c := NewCalls(4, 20)
	c.Plan("a", asking(several(0, 1), nil))
	c.Plan("b", asking(several(0, 1), nil))
	now := noon
	call, _, _ := c.Next(now)
	c.Done(now, call, Throttled, "slow down", 0.5)
	if why, since := c.Failing("a", Register); why != "slow down" || !since.Equal(noon) {
		t.Errorf("got %q since %s", why, since)
	}
	// The other group goes on as soon as there is a token.
	_, ready, at := c.Next(now)
	if ready || at.Sub(now) > 251*time.Millisecond {
		t.Fatalf("the bucket is not empty, or long: %t %s", ready, at)
	}
	now = at
	if other, ready, _ := c.Next(now); !ready || other.Group != "b" {
		t.Fatalf("got %v", other)
	}
	// The throttled one comes back after 0.75 s: a second, less a random part of its half.
	if _, ready, at := c.Next(now); ready || !at.Equal(noon.Add(750*time.Millisecond)) {
		t.Errorf("ready %t, at %s", ready, at.Sub(noon))
	}
	if again, ready, _ := c.Next(noon.Add(750 * time.Millisecond)); !ready || again.Group != "a" {
		t.Errorf("got %v", again)
	}
}

// TestThrottlingCountsFromTheAnswer: what was saved up while a call was under way is lost when that was too much.
func TestThrottlingCountsFromTheAnswer(t *testing.T) {
	c := NewCalls(4, 20)
	c.Plan("a", asking(several(0, 1), nil))
	c.Plan("b", asking(several(0, 1), nil))
	call, _, _ := c.Next(noon)
	answered := noon.Add(3 * time.Second)
	c.Done(answered, call, Throttled, "slow down", 0.5)
	if _, ready, at := c.Next(answered); ready || at.Sub(answered) < 250*time.Millisecond || at.Sub(answered) > 251*time.Millisecond {
		t.Errorf("another call is made at once, or %s after the answer", at.Sub(answered))
	}
}

// TestRetries wait 1, 2, 4 s and so on, less a random half, and never more than
// half a minute.
func TestRetries(t *testing.T) {
	var r retry
	for i, most := range []int{1, 2, 4, 8, 16, 30, 30, 30} {
		limit := time.Duration(most) * time.Second
		for _, random := range []float64{0, 0.5} {
			probe := r
			probe.failed(noon, "no", random)
			if want := time.Duration((0.5 + random/2) * float64(limit)); probe.at.Sub(noon) != want {
				t.Errorf("failure %d, random %.1f: wait %s, want %s", i+1, random, probe.at.Sub(noon), want)
			}
		}
		r.failed(noon.Add(time.Duration(i)*time.Minute), "no", 0)
	}
	if !r.since.Equal(noon) {
		t.Errorf("it fails since %s", r.since)
	}
}

// TestThrottledBatchIsUnharmed: what was under way is asked for again, but for
// what a newer decision does not ask for.
func TestThrottledBatchIsUnharmed(t *testing.T) {
	c := NewCalls(4, 20)
	c.Plan("a", asking(several(0, 3), nil))
	call, _, _ := c.Next(noon)
	c.Plan("a", asking(several(1, 4), several(0, 1)))
	c.Done(noon, call, Failed, "lost", 0)
	later := noon.Add(time.Minute)
	var got []string
	for {
		call, ready, _ := c.Next(later)
		if !ready {
			break
		}
		for _, r := range call.Targets {
			got = append(got, fmt.Sprintf("%d %s", call.Kind, r.ID))
		}
		c.Done(later, call, Accepted, "", 0)
	}
	if want := []string{"0 10.0.0.0", "1 10.0.0.1", "1 10.0.0.2", "1 10.0.0.3"}; !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestAnswers: only a call that was accepted after it was last asked for counts.
func TestAnswers(t *testing.T) {
	c := NewCalls(4, 20)
	target := address(0)
	accept := func(d GroupDecision, now time.Time, outcome Outcome) Answer {
		c.Plan("a", d)
		call, ready, _ := c.Next(now)
		if !ready {
			t.Fatal("no call")
		}
		c.Done(now, call, outcome, "", 0)
		return c.Answers("a")[target]
	}
	register, deregister := asking([]Target{target}, nil), asking(nil, []Target{target})
	at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
	for i, step := range []struct {
		d       GroupDecision
		minute  int
		outcome Outcome
		want    Answer
	}{
		{register, 0, Accepted, Answer{Register: true, At: at(0), Times: 1}},
		{register, 1, Accepted, Answer{Register: true, At: at(1), Times: 2}},
		{register, 2, Failed, Answer{Register: true, Times: 2}},
		{deregister, 3, Failed, Answer{}},
		{deregister, 4, Accepted, Answer{At: at(4), Times: 1}},
		{deregister, 5, Accepted, Answer{At: at(5), Times: 2}},
		{deregister, 30, Accepted, Answer{At: at(30), Times: 1}},
	} {
		got := accept(step.d, at(step.minute), step.outcome)
		if got.Register != step.want.Register || !got.At.Equal(step.want.At) || got.Times != step.want.Times {
			t.Errorf("step %d: got %+v, want %+v", i, got, step.want)
		}
	}
	c.Plan("a", deregister)
	if a := c.Answers("a")[target]; !a.At.IsZero() {
		t.Errorf("the answer to an earlier call still counts: %+v", a)
	}
	c.Plan("a", GroupDecision{})
	if len(c.Answers("a")) > 0 {
		t.Error("what nothing is told of is not forgotten")
	}
}

// TestAnsweredMeanwhile: a decision that was made while the call was under way, and is
// planned after its answer, asks for no other; one that was made later does.
func TestAnsweredMeanwhile(t *testing.T) {
	c := NewCalls(4, 20)
	d := asking([]Target{address(0)}, nil)
	c.Plan("a", d)
	call, _, _ := c.Next(noon)
	c.Done(noon.Add(2*time.Second), call, Accepted, "", 0)
	d.At = noon.Add(time.Second)
	c.Plan("a", d)
	if call, ready, _ := c.Next(noon.Add(2 * time.Second)); ready || c.Answers("a")[address(0)].At.IsZero() {
		t.Errorf("it is made again: %v %v", call, c.Answers("a"))
	}
	d.At = noon.Add(3 * time.Second)
	c.Plan("a", d)
	if _, ready, _ := c.Next(noon.Add(3 * time.Second)); !ready {
		t.Error("it is not made again though that was decided after the answer")
	}
}

// TestReverseWhileUnderWay: a decision for the reverse of what is under way is not
// answered by that.
func TestReverseWhileUnderWay(t *testing.T) {
	c := NewCalls(4, 20)
	target := address(0)
	c.Plan("a", asking([]Target{target}, nil))
	call, _, _ := c.Next(noon)
	c.Plan("a", asking(nil, []Target{target}))
	c.Done(noon, call, Accepted, "", 0)
	if a := c.Answers("a")[target]; a.Register || !a.At.IsZero() {
		t.Errorf("got %+v", a)
	}
	if call, ready, _ := c.Next(noon); !ready || call.Kind != Deregister {
		t.Errorf("got %v", call)
	}
}

// TestFairness: a group with much work does not keep another from its turn.
func TestFairness(t *testing.T) {
	c := NewCalls(1e9, 1e9)
	c.Plan("a", asking(several(0, 2000), nil))
	c.Plan("z", asking(several(0, 400), nil))
	var order strings.Builder
	for {
		call, ready, _ := c.Next(noon)
		if !ready {
			break
		}
		order.WriteString(call.Group)
		c.Done(noon, call, Accepted, "", 0)
	}
	if got, want := order.String(), "azazaaaaaaaa"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestReads are made when they are due, and again when they fail.
func TestReads(t *testing.T) {
	c := NewCalls(4, 20)
	soon := noon.Add(time.Minute)
	c.Plan("a", GroupDecision{ReadAt: soon})
	if _, ready, at := c.Next(noon); ready || !at.Equal(soon) {
		t.Fatalf("ready %t, at %s", ready, at)
	}
	call, ready, _ := c.Next(soon)
	if !ready || call.Kind != Read {
		t.Fatalf("got %v", call)
	}
	c.Done(soon, call, Failed, "no answer", 0)
	if _, ready, at := c.Next(soon); ready || !at.Equal(soon.Add(500*time.Millisecond)) {
		t.Errorf("ready %t, at %s", ready, at)
	}
	call, ready, _ = c.Next(soon.Add(time.Second))
	if !ready {
		t.Fatal("not read again")
	}
	c.Done(soon, call, Accepted, "", 0)
	if _, ready, at := c.Next(soon.Add(time.Hour)); ready || !at.IsZero() {
		t.Errorf("read again without a decision: %t %s", ready, at)
	}
}

// TestForget: a group of which nothing is wanted any more asks for nothing, also
// when it ends a call.
func TestForget(t *testing.T) {
	c := NewCalls(4, 20)
	c.Plan("a", asking(several(0, 300), nil))
	call, _, _ := c.Next(noon)
	c.Forget("a")
	if _, ready, _ := c.Next(noon); ready {
		t.Error("a call for a group that is forgotten")
	}
	c.Done(noon, call, Throttled, "", 0)
	if _, ready, at := c.Next(noon.Add(time.Hour)); ready || !at.IsZero() || len(c.groups) > 0 {
		t.Errorf("the group is not forgotten: %t %s %v", ready, at, c.groups)
	}
}
