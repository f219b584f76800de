package targets

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/kstatus"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/golden"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var update = flag.Bool("update", false, "rewrite testdata")

// A story is a world without chance, told as it happens: what people and machines do, what is
// decided about targets and why, what is put on record, and what the cloud answers. Read those in
// testdata/stories to learn how a target comes and goes; they are rewritten with -update.
type story struct {
	name, about string
	// begin makes what is there at first, play what happens then.
	begin, play func(t *teller)
}

func TestStories(t *testing.T) {
	for _, s := range stories {
		golden.Test(t, *update, filepath.Join("testdata", "stories", s.name+".txt"), s.tell)
	}
}

func (s story) tell(t *testing.T) string {
	state := fleetOf(Group{}, nil)
	state.Accounts = nil
	for balancer := range state.SettleTimes {
		state.SettleTimes[balancer] = DefaultSettleTime(balancer)
	}
	w := &world{now: start, rng: rand.New(rand.NewPCG(1, 1)), sick: map[string]bool{}, stopped: map[string]bool{}, invalid: map[string]bool{}}
	told := golden.NewStory("%9s  %-9s  %s", func() time.Time { return w.now })
	teller := &teller{T: t, Story: told, world: w, state: &state}
	s.begin(teller)
	teller.run(start.Add(2 * time.Minute))
	teller.Begin(s.about)
	s.play(teller)
	return teller.String()
}

const (
	// answersAfter is how long the cloud of a story takes to answer, healthyAfter how long its
	// health checks take to find a new target healthy.
	answersAfter = 200 * time.Millisecond
	healthyAfter = 20 * time.Second
	// fullMessage is what the cloud says of a group that holds no more.
	fullMessage = "TooManyTargets: the group has as many targets as it may"
)

// teller plays a story and writes it down. It is the smallest controller around Plan and Calls that
// there can be: whatever is decided is written at once.
type teller struct {
	*testing.T
	*golden.Story
	*world
	state    *State
	accounts []*storyAccount
	// wakeAt is when to decide again though nothing happens.
	wakeAt time.Time
	// unwritten are objects that could not be written yet, again says whether to decide once more at once.
	unwritten map[Ref]bool
	again     bool
}

// somebody does something, and then time passes.
func (t *teller) does(who, what string, do func(), pass time.Duration) {
	t.Line(who, what)
	do()
	t.run(t.now.Add(pass))
}

// run lets time pass until a moment: from one event to the next.
func (t *teller) run(until time.Time) {
	t.pass()
	for turns := 0; ; turns++ {
		if turns == 5000 {
			t.Fatalf("no rest at %s:\n%s", t.At(t.now), t)
		}
		t.send()
		next := t.next()
		if next.IsZero() || next.After(until) {
			t.now = until
			return
		}
		t.now = later(t.now, next)
		t.land()
		t.pass()
	}
}

// next is when the next thing happens, zero for never.
func (t *teller) next() time.Time {
	at := t.wakeAt
	for _, a := range t.accounts {
		for _, f := range a.flights {
			at = earlier(at, f.doneAt)
		}
		probe := *a.calls
		if _, due, has := peek(&probe, t.now); has {
			at = earlier(at, due)
		}
	}
	return at
}

// pass decides, and writes what is decided.
func (t *teller) pass() {
	t.again = true
	for passes := 0; t.again; passes++ {
		if passes == 100 {
			t.Fatalf("%d passes at %s, and no end:\n%s", passes, t.At(t.now), t)
		}
		t.again, t.unwritten = false, map[Ref]bool{}
		t.state.Now, t.state.Accounts = t.now, nil
		for _, a := range t.accounts {
			t.state.Accounts = append(t.state.Accounts, a.observed())
		}
		d := Plan(*t.state)
		t.state.Memory, t.wakeAt = d.Memory, d.WakeAt
		for _, g := range d.Groups {
			t.tellReports(g)
		}
		t.write(d)
		t.plan(d)
	}
}

// plan has the calls made of which all is written, and looks into accounts as far as is asked for.
func (t *teller) plan(d Decision) {
	kept := map[string]bool{}
	for _, g := range d.Groups {
		kept[g.ID] = true
		a := t.as(g.Role)
		a.calls.Plan(g.ID, g.After(func(ref Ref) bool { return !t.unwritten[ref] }))
		a.known(g.ID).Live = false
	}
	for _, a := range t.accounts {
		a.calls.Keep(kept)
	}
	for _, plan := range d.Accounts {
		a := t.as(plan.Role)
		if plan.List && !a.Refused {
			a.ListedAt, t.again = t.now, true
		}
		t.again = a.look(plan.Sweep, t.now) || t.again
	}
}

// send makes the calls that are due.
func (t *teller) send() {
	for _, a := range t.accounts {
		for call, ready, _ := a.calls.Next(t.now); ready; call, ready, _ = a.calls.Next(t.now) {
			a.flights = append(a.flights, flight{call: call, sent: t.now, doneAt: t.now.Add(answersAfter)})
		}
	}
}

// land takes the answers that are there.
func (t *teller) land() {
	for _, a := range t.accounts {
		flights := a.flights
		a.flights = nil
		for _, f := range flights {
			if f.doneAt.After(t.now) {
				a.flights = append(a.flights, f)
				continue
			}
			t.answer(a, f)
		}
	}
}

// answer is one call as it arrives, and is answered at once.
func (t *teller) answer(a *storyAccount, f flight) {
	g := t.group(f.call.Group)
	if f.call.Kind == Read {
		a.read(g, f.sent)
		a.calls.Done(t.now, f.call, Accepted, "", 0)
		return
	}
	var names []string
	for _, r := range f.call.Targets {
		names = append(names, r.String())
	}
	what := fmt.Sprintf("%s %s in %s", f.call.Kind, strings.Join(names, ", "), g.Name)
	outcome, why := g.carryOut(f.call), ""
	if outcome == Accepted {
		t.Line("cloud", "accepts "+what)
		t.settle(g)
	} else {
		why = fullMessage
		t.Linef("cloud", "refuses %s: %s", what, why)
	}
	a.calls.Done(t.now, f.call, outcome, why, 0)
}

// settle leaves nothing to chance that the fake draws of targets which were registered now.
func (t *teller) settle(g *fakeGroup) {
	for target, e := range g.targets {
		if e.inAt.Equal(t.now) {
			e.healthyAt, e.zone = t.now.Add(healthyAfter), ""
			g.targets[target] = e
		}
	}
	g.note()
}

// tellReports tells how far the targets of a group are that are not where they were.
func (t *teller) tellReports(g GroupPlan) {
	in := " in " + t.group(g.ID).Name
	there := map[string]bool{}
	for _, r := range g.Reports {
		about := r.Target.String() + in
		there[about] = true
		what := fmt.Sprintf("%s is %s: %s", about, r.Phase, r.Message)
		if r.Phase == Leaving && !r.Until.IsZero() {
			what += ", until " + t.At(r.Until)
		}
		t.Say("targets", about, what)
	}
	for _, about := range slices.Sorted(maps.Keys(t.Said)) {
		if strings.HasSuffix(about, in) && !strings.HasPrefix(about, recordOf) && !there[about] {
			t.Say("targets", about, about+" needs nothing any more")
		}
	}
}

// write writes all that is decided.
func (t *teller) write(d Decision) {
	for _, h := range d.Hooks {
		value, what := v1alpha1.TargetsOut, "no traffic comes to it as a target any more"
		if h.In {
			value, what = v1alpha1.TargetsIn, "traffic may come to it as a target"
		}
		metav1.SetMetaDataAnnotation(&h.Pod.ObjectMeta, v1alpha1.AnnotationTargets, value)
		if t.state.Told == nil {
			t.state.Told = map[types.UID]bool{}
		}
		t.state.Told[h.Pod.UID] = h.In
		t.Linef("hook", "pod %s is told: %s", h.Pod.Name, what)
		t.again = true
	}
	for _, g := range d.Gates {
		if has := conditionOf(g.Pod, g.Condition.Type); has != nil {
			*has = g.Condition
		} else {
			g.Pod.Status.Conditions = append(g.Pod.Status.Conditions, g.Condition)
		}
		t.Linef("gate", "of pod %s is %s, %s: %s", g.Pod.Name, g.Condition.Status, g.Condition.Reason, g.Condition.Message)
	}
	for _, a := range d.Attachments {
		t.writeAttachment(a)
	}
	for _, n := range d.NodeAttachments {
		t.writeNodeAttachment(n)
	}
}

func (t *teller) writeAttachment(d AttachmentDecision) {
	o := d.Object
	if d.AddFinalizer {
		o.Finalizers = append(o.Finalizers, v1alpha1.Finalizer)
		t.unwritten[(&GroupAttachment{Object: o}).Ref()], t.again = true, true
		t.Line("status", o.Name+" gets its finalizer")
		return
	}
	t.tellRecords(o.Name, d.Status.Groups)
	for _, c := range d.Status.Conditions {
		about, is := o.Name+" "+c.Type, string(c.Status)+c.Reason
		if slices.Contains(kstatus.Conditions, c.Type) {
			if c.Status != metav1.ConditionTrue {
				// Another one is, for the same reason.
				continue
			}
			about, is = o.Name+" stands", c.Type+c.Reason
		}
		if t.Said[about] != is {
			t.Said[about] = is
			t.Linef("status", "%s: %s is %s, %s: %s", o.Name, c.Type, c.Status, c.Reason, c.Message)
		}
	}
	o.Status = d.Status
	if d.Release {
		t.state.Attachments = slices.DeleteFunc(t.state.Attachments, func(a GroupAttachment) bool { return a.Object == o })
		t.again = true
		t.Line("status", o.Name+" loses its finalizer, and is gone")
	}
}

func (t *teller) writeNodeAttachment(d NodeAttachmentDecision) {
	name := "Attachment " + d.Object.Name
	t.tellRecords(name, d.Status.Groups)
	what := name + " waits: " + d.Status.Waits
	if d.Status.Done && d.Status.ObservedGeneration == d.Object.Generation {
		what = fmt.Sprintf("%s is done: its node is %s", name, d.Object.Spec.Wanted)
		if d.Status.Evidence != "" {
			what += " (" + d.Status.Evidence + ")"
		}
	}
	t.Say("status", name, what)
	if len(d.Status.Foreign) > 0 {
		t.Say("status", name+" foreign", name+" leaves alone: "+strings.Join(d.Status.Foreign, ", "))
	}
	d.Object.Status = d.Status
}

// recordOf begins the keys of what was said of records.
const recordOf = "record of "

// tellRecords tells what an object has on record, where that has changed.
func (t *teller) tellRecords(of string, groups []v1alpha1.AttachedGroup) {
	there := map[string]string{}
	for _, g := range groups {
		in := " in " + t.group(g.ID).Name
		for _, target := range g.Targets {
			there[target+in] = fmt.Sprintf("%s records %s", of, target+in)
		}
		for _, l := range g.Leaving {
			there[l.Target+in] = fmt.Sprintf("%s records %s as leaving", of, l.Target+in)
			if l.LeftAt != nil {
				there[l.Target+in] = fmt.Sprintf("%s records %s as out since %s", of, l.Target+in, t.At(l.LeftAt.Time))
			}
		}
	}
	prefix := recordOf + of + ": "
	for _, about := range slices.Sorted(maps.Keys(there)) {
		t.Say("status", prefix+about, there[about])
	}
	for _, about := range slices.Sorted(maps.Keys(t.Said)) {
		if target, ours := strings.CutPrefix(about, prefix); ours && there[target] == "" {
			delete(t.Said, about)
			t.Linef("status", "%s forgets %s", of, target)
		}
	}
}
