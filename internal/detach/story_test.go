package detach

import (
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/golden"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var update = flag.Bool("update", false, "rewrite testdata/stories")

// A story is a world without chance, told as it happens: what people and machines do, what is
// decided about their nodes and why, what is written on these, and what others answer. Read those in
// testdata/stories to learn how a node leaves its load balancers and returns; they are rewritten
// with -update.
type story struct {
	name, about string
	play        func(t *teller)
}

func TestStories(t *testing.T) {
	for _, s := range stories {
		golden.Test(t, *update, filepath.Join("testdata", "stories", s.name+".txt"), s.tell)
	}
}

// tell plays a story on two nodes, each of which is in one target group.
func (s story) tell(t *testing.T) string {
	w := &sim{now: now, min: intstr.FromInt32(1)}
	told := golden.NewStory("%8s  %-9s  %s", func() time.Time { return w.now })
	teller := &teller{T: t, Story: told, sim: w, asked: map[string]Attachment{}}
	for _, name := range []string{"a", "b"} {
		n := &simNode{Node: node(name), targets: map[string]*target{}, remembered: map[string]bool{}}
		teller.register(n, "web")
		teller.nodes = append(teller.nodes, n)
	}
	teller.Begin(s.about)
	s.play(teller)
	return teller.String()
}

// teller plays a story in the simulation's world, and writes it down.
type teller struct {
	*testing.T
	*golden.Story
	*sim
	// moments are what is to come, asked is what the targets' controller has been asked, by node.
	moments []moment
	asked   map[string]Attachment
	// replies are what webhooks answer, in turn.
	replies []reply
	// wakeAt is when to decide again though nothing happens.
	wakeAt time.Time
}

type moment struct {
	at time.Time
	do func()
}

// reply is what a webhook answers a second after it is asked.
type reply struct {
	what   string
	answer func(w *Webhook, now time.Time)
}

// somebody does something to node a, and then time passes.
func (t *teller) does(who, what string, do func(a *simNode), pass time.Duration) {
	t.Line(who, what)
	do(t.nodes[0])
	t.run(t.now.Add(pass))
}

// after has something done later.
func (t *teller) after(d time.Duration, do func()) {
	t.moments = append(t.moments, moment{t.now.Add(d), do})
}

// run lets time pass until a moment: from one event to the next.
func (t *teller) run(until time.Time) {
	t.decide()
	for {
		slices.SortStableFunc(t.moments, func(a, b moment) int { return a.at.Compare(b.at) })
		wakes := !t.wakeAt.IsZero() && (len(t.moments) == 0 || t.wakeAt.Before(t.moments[0].at))
		switch {
		case wakes && !t.wakeAt.After(until):
			t.now = t.wakeAt
		case !wakes && len(t.moments) > 0 && !t.moments[0].at.After(until):
			next := t.moments[0]
			t.moments, t.now = t.moments[1:], next.at
			next.do()
		default:
			t.now = until
			return
		}
		t.decide()
	}
}

// decide decides, and carries out what is decided, until nothing is left to do at once.
func (t *teller) decide() {
	for turns := 0; t.pass(); turns++ {
		if turns == 20 {
			t.Fatalf("no rest:\n%s", t)
		}
	}
}

func (t *teller) pass() (acted bool) {
	d := Plan(t.observe())
	t.wakeAt = d.WakeAt
	there := map[string]bool{}
	for _, n := range d.Nodes {
		there[n.Name] = true
		acted = t.carryOut(n) || acted
	}
	for _, n := range t.nodes {
		if !there[n.Name] && t.Said[n.Name] != "" {
			t.Say("decision", n.Name, fmt.Sprintf("%s is %s", n.Name, Attached))
		}
		t.moveTargetsOf(n)
	}
	return acted
}

// carryOut writes what is decided about a node, and says whether there was anything.
func (t *teller) carryOut(d NodeDecision) bool {
	n := t.nodes[slices.IndexFunc(t.nodes, func(n *simNode) bool { return n.Name == d.Name })]
	what := fmt.Sprintf("%s is %s", d.Name, d.Phase)
	if d.Reason != "" {
		what += fmt.Sprintf(" (%s)", d.Reason)
	}
	if d.Waits != "" {
		what += ": " + d.Waits
	}
	t.Say("decision", d.Name, what)
	for _, words := range d.Patch.words() {
		t.Line("node", d.Name+" "+words)
	}
	switch d.Attachment {
	case WriteDetach:
		t.Linef("detaching", "asks for the targets of %s to leave", d.Name)
	case WriteAttach:
		t.Linef("detaching", "asks for the targets of %s to return", d.Name)
	case Delete:
		t.Linef("detaching", "deletes the Attachment of %s, and with it what was remembered", d.Name)
	}
	for _, effect := range t.effects(d) {
		effect()
	}
	for _, pod := range d.Returning {
		t.Say("decision", "pod "+pod.Name, fmt.Sprintf("pod %s is left running: it would come back", pod.Name))
	}
	for _, pod := range d.Stop {
		t.stop(n, pod)
	}
	for _, name := range d.Ask {
		t.askWebhook(n, name)
	}
	return d.Patch != nil || d.Attachment != Keep || len(d.Stop)+len(d.Ask) > 0
}

// words are a patch in words.
func (p *Patch) words() (out []string) {
	if p == nil {
		return nil
	}
	for _, c := range []struct{ key, set, removed string }{
		{v1alpha1.AnnotationNodeDetaching, "is marked: detaching is ", "is not marked any more"},
		{v1alpha1.AnnotationDetachmentTimestamp, "says that its traffic has stopped, at ", "says no longer that its traffic has stopped"},
		{v1alpha1.AnnotationDetachmentEvidence, "says how that is known: ", "says no longer how that is known"},
		{v1alpha1.AnnotationAttachmentTimestamp, "says that it is attached again, since ", "says no longer that it is attached again"},
	} {
		switch value, changes := p.Annotations[c.key]; {
		case changes && value == nil:
			out = append(out, c.removed)
		case changes:
			out = append(out, c.set+*value)
		}
	}
	if value, changes := p.Labels[v1alpha1.LabelExclude]; changes {
		out = append(out, map[bool]string{true: "is excluded from Kubernetes' load balancers", false: "is included in Kubernetes' load balancers"}[value != nil])
	}
	if p.Taint != nil {
		out = append(out, map[bool]string{true: "is tainted, so that no pod that is stopped comes back", false: "is tainted no more"}[*p.Taint])
	}
	if p.Detaching != nil {
		out = append(out, fmt.Sprintf("has the condition %s %t", v1alpha1.NodeBeingDetached, *p.Detaching))
	}
	return out
}

// moveTargetsOf is what the controller of targets does when an Attachment asks for something new: it
// remembers and takes out at once, or puts back, and answers when the time is over.
func (t *teller) moveTargetsOf(n *simNode) {
	a := n.Attachment
	if a == nil {
		delete(t.asked, n.Name)
		return
	}
	wanted := Attachment{Instance: a.Instance, Detach: a.Detach}
	if t.asked[n.Name] == wanted {
		return
	}
	t.asked[n.Name] = wanted
	for i := range n.Webhooks {
		n.Webhooks[i] = Webhook{Name: n.Webhooks[i].Name}
	}
	still := func(do func()) func() {
		return func() {
			if n.Attachment == a && t.asked[n.Name] == wanted {
				do()
			}
		}
	}
	takes, begun, ended, evidence := stopsAfter, "takes out the targets of ", "has seen the traffic stop to ", "FloorPassed"
	if !a.Detach {
		takes, begun, ended, evidence = healsAfter, "puts back the targets of ", "has seen traffic come to ", ""
	}
	t.after(100*time.Millisecond, still(func() {
		t.Line("targets", begun+n.Name)
		for group, one := range n.targets {
			n.remembered[group] = true
			one.registered, one.since = !a.Detach, t.now
		}
		a.Remembered, a.Waits = true, "i-"+n.Name+": its time is not over"
	}))
	t.after(100*time.Millisecond+takes, still(func() {
		t.Line("targets", ended+n.Name)
		a.Done, a.Waits, a.Evidence = true, "", evidence
	}))
}

// stop stops a pod, which takes three seconds to end, unless a disruption budget refuses that once.
func (t *teller) stop(n *simNode, p Pod) {
	pod := &n.Pods[slices.IndexFunc(n.Pods, func(o Pod) bool { return o.UID == p.UID })]
	if pod.UID == budgeted && pod.RetryAt.IsZero() {
		t.Linef("budget", "refuses to evict pod %s", p.Name)
		pod.RetryAt = t.now.Add(2 * time.Second)
		return
	}
	t.Linef("detaching", "stops pod %s, of priority %d", p.Name, p.Priority)
	pod.Terminating = true
	t.after(3*time.Second, func() {
		t.Linef("kubelet", "pod %s has ended", p.Name)
		pod.Ended = true
	})
}

// budgeted is the UID of a pod that a disruption budget keeps for a moment.
const budgeted = "budgeted"

// askWebhook asks a webhook, which gives its next reply.
func (t *teller) askWebhook(n *simNode, name string) {
	w := &n.Webhooks[slices.IndexFunc(n.Webhooks, func(w Webhook) bool { return w.Name == name })]
	wanted := t.asked[n.Name]
	t.Linef("detaching", "asks webhook %s to %s", name, map[bool]string{true: "take " + n.Name + " out", false: "put " + n.Name + " back"}[wanted.Detach])
	// It is asked nothing else before it has answered.
	w.RetryAt = t.now.Add(time.Hour)
	next := t.replies[0]
	t.replies = t.replies[1:]
	t.after(time.Second, func() {
		t.Line("webhook", next.what)
		w.RetryAt = time.Time{}
		next.answer(w, t.now)
	})
}
