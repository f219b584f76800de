package controller

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	"golang.org/x/time/rate"
)

func group(kind targets.TargetType) targets.Group {
	return targets.Group{ID: "arn:web", Name: "web", Balancer: targets.Network, Type: kind, Port: 80, InUse: true, CrossZone: true, Tags: map[string]string{"a": "b"}}
}

func healthy(ids ...string) map[targets.Target]targets.Health {
	out := map[targets.Target]targets.Health{}
	for _, id := range ids {
		out[targets.Target{ID: id, Port: 80}] = targets.Health{Condition: targets.Healthy}
	}
	return out
}

// fakeCloud is a cloud that answers when it is let to.
type fakeCloud struct {
	calls chan string
	// answers, where there is one, is waited for.
	answers chan struct{}
	// before is called before each request, as clients of clouds do.
	before func(context.Context) error
	err    error
}

func (f *fakeCloud) called(ctx context.Context, what string, err error) error {
	if f.before != nil {
		if err := f.before(ctx); err != nil {
			return err
		}
	}
	f.calls <- what
	if f.answers != nil {
		<-f.answers
	}
	return err
}

func (f *fakeCloud) Region() string { return "eu-west-1" }

func (f *fakeCloud) Named(context.Context, []targets.GroupName) ([]targets.Group, error) {
	return nil, nil
}

func (f *fakeCloud) Tags(context.Context, []targets.Group) (map[string]map[string]string, error) {
	return nil, nil
}

func (f *fakeCloud) Describe(_ context.Context, g targets.Group) (targets.Group, error) {
	return g, nil
}

func (f *fakeCloud) Groups(ctx context.Context) ([]targets.Group, error) {
	return []targets.Group{group(targets.Instance)}, f.err
}

func (f *fakeCloud) List(ctx context.Context, _ targets.Group, _ []targets.Target) (map[targets.Target]targets.Health, error) {
	return healthy("i-a"), f.called(ctx, "List", nil)
}

func (f *fakeCloud) Register(ctx context.Context, _ targets.Group, _ []targets.Registration) error {
	return f.called(ctx, "Register", nil)
}

func (f *fakeCloud) Deregister(ctx context.Context, _ targets.Group, _ []targets.Target) error {
	return f.called(ctx, "Deregister", errors.New("broken"))
}

// accountOf is one that is connected, and has listed its group.
func accountOf(cloud *fakeCloud, trigger func()) *account {
	g := group(targets.Instance)
	return &account{
		cloud: cloud, outcome: func(error) targets.Outcome { return targets.Failed }, random: func() float64 { return 0 }, trigger: trigger, calls: targets.NewCalls(100, 100),
		groups:    &listing[targets.Group]{all: []targets.Group{g}, read: true, at: time.Now(), asked: time.Now()},
		inventory: map[string]inventory{}, moved: make(chan struct{}), survey: newSurvey(), background: rate.NewLimiter(5, 20),
	}
}

// moves is a decision that takes one target out and registers another.
func moves(at time.Time) targets.GroupDecision {
	return targets.GroupDecision{
		At: at, ReadAt: at,
		Register: []targets.Registration{{Target: targets.Target{ID: "i-b", Port: 80}}}, Deregister: []targets.Target{{ID: "i-a", Port: 80}},
		Reports: []targets.Report{{Target: targets.Target{ID: "i-a", Port: 80}}, {Target: targets.Target{ID: "i-b", Port: 80}}},
	}
}

// TestCallsAreMade has the calls of a decision made, and what was read is fresh
// until the next.
func TestCallsAreMade(t *testing.T) {
	cloud, triggered := &fakeCloud{calls: make(chan string)}, make(chan struct{}, 10)
	a := accountOf(cloud, func() { triggered <- struct{}{} })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { a.run(ctx); close(ended) }()
	a.plan("arn:web", moves(time.Now()), false)
	for _, want := range []string{"Deregister", "Register", "List"} {
		if got := <-cloud.calls; got != want {
			t.Errorf("%s was called, want %s", got, want)
		}
		<-triggered
	}
	known := func() targets.KnownGroup { return a.observe(v1alpha1.AssumeRole{}).Groups[0] }
	if g := known(); g.Failing != "broken" || !g.Live || len(g.Registered) != 1 {
		t.Errorf("%+v", g)
	}
	a.plan("arn:web", targets.GroupDecision{}, true)
	if !known().Live {
		t.Error("what waits for a write has nothing to go by")
	}
	a.plan("arn:web", targets.GroupDecision{}, false)
	if known().Live {
		t.Error("what was decided upon is taken for fresh")
	}
	a.keep(map[string]bool{})
	if g := known(); g.Registered != nil || g.Failing != "" {
		t.Errorf("a group that nobody has a part in is kept: %+v", g)
	}
	stop()
	<-ended
}

// TestReadsAreDatedByTheirQuestion: an answer may be as old as that.
func TestReadsAreDatedByTheirQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &fakeCloud{calls: make(chan string, 1), answers: make(chan struct{})}
		a := accountOf(cloud, func() {})
		asked := time.Now()
		go a.call(t.Context(), targets.Call{Kind: targets.Read, Group: "arn:web"}, group(targets.Instance))
		<-cloud.calls
		time.Sleep(time.Minute)
		cloud.answers <- struct{}{}
		synctest.Wait()
		if at := a.observe(v1alpha1.AssumeRole{}).Groups[0].ReadAt; !at.Equal(asked) {
			t.Errorf("asked at %s, dated %s", asked, at)
		}
	})
}

// TestFrozenCalls makes no call that was decided a while ago, wherever the process was
// frozen since, nor one without the lease; and asks for another decision.
func TestFrozenCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		triggered := make(chan struct{}, 100)
		cloud := &fakeCloud{calls: make(chan string, 10)}
		a := accountOf(cloud, func() { triggered <- struct{}{} })
		cloud.before = a.before
		leads := true
		a.leads = func() bool { return leads }
		// Before the call is taken from the queue.
		a.plan("arn:web", moves(time.Now().Add(-10*time.Minute)), false)
		ctx, stop := context.WithCancel(t.Context())
		go a.run(ctx)
		synctest.Wait()
		if len(triggered) == 0 {
			t.Error("no decision is asked for")
		}
		for len(cloud.calls) > 0 {
			if got := <-cloud.calls; got != "List" {
				t.Errorf("%s was called", got)
			}
		}
		stop()
		synctest.Wait()
		// After, and right before it is sent.
		old := targets.Call{Kind: targets.Register, Group: "arn:web", Decided: time.Now().Add(-6 * time.Second)}
		a.call(t.Context(), old, group(targets.Instance))
		if err := a.before(context.WithValue(tokenTaken(t.Context()), callKey{}, old)); !errors.Is(err, errOld) {
			t.Errorf("it is sent: %v", err)
		}
		fresh := targets.Call{Kind: targets.Register, Group: "arn:web", Decided: time.Now()}
		leads = false
		a.call(t.Context(), fresh, group(targets.Instance))
		if len(cloud.calls) > 0 {
			t.Errorf("%s was called", <-cloud.calls)
		}
		// Reads do no harm.
		a.call(t.Context(), targets.Call{Kind: targets.Read, Group: "arn:web", Decided: time.Now().Add(-time.Hour)}, group(targets.Instance))
		leads = true
		a.call(t.Context(), fresh, group(targets.Instance))
		if len(cloud.calls) != 2 {
			t.Errorf("%d calls", len(cloud.calls))
		}
	})
}

// TestWhatCannotBeListedIsAskedForLess lists, and connects, no more often than every few
// seconds where that fails, though a newer list is wanted.
func TestWhatCannotBeListedIsAskedForLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asks := 0
		l := &listing[int]{what: "listing", trigger: func() {}, list: func(context.Context) ([]int, error) { asks++; return nil, errors.New("denied") }}
		for range 100 {
			l.renew(t.Context(), 0)
			synctest.Wait()
			time.Sleep(100 * time.Millisecond)
		}
		if asks != 1 {
			t.Errorf("asked %d times in 10 s", asks)
		}
		if _, read, failure := l.known(); read || failure != "listing: denied" || !l.since().IsZero() {
			t.Errorf("%t %q", read, failure)
		}
	})
}

// TestAListIsAsOldAsItsQuestion: what was made meanwhile may not be in it.
func TestAListIsAsOldAsItsQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &listing[int]{trigger: func() {}, list: func(context.Context) ([]int, error) { time.Sleep(time.Minute); return []int{1}, nil }}
		asked := time.Now()
		l.renew(t.Context(), 0)
		time.Sleep(2 * time.Minute)
		if !l.since().Equal(asked) {
			t.Errorf("asked at %s, dated %s", asked, l.since())
		}
	})
}

// TestGroupsThatAreGoneAreForgotten where they were read by name, as soon as a list that was asked for
// later does without them.
func TestGroupsThatAreGoneAreForgotten(t *testing.T) {
	listed := time.Now()
	a := &account{survey: newSurvey(), moved: make(chan struct{}), groups: &listing[targets.Group]{at: listed, asked: listed}}
	for id, asked := range map[string]time.Time{"arn:gone": listed.Add(-time.Second), "arn:new": listed.Add(time.Second)} {
		a.survey.direct[id] = direct{targets.Group{ID: id}, asked}
	}
	a.renew(targets.AccountPlan{}, time.Hour)
	if _, gone := a.group("arn:gone"); gone || len(a.survey.direct) != 1 {
		t.Errorf("remembered are %v", a.survey.direct)
	}
	if _, there := a.group("arn:new"); !there {
		t.Error("a group that is newer than the list is forgotten")
	}
}
