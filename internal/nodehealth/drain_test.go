package nodehealth_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth"
)

var (
	noon  = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	hook  = nodehealth.DrainHook{Grace: 10 * time.Second, Linger: 3 * time.Second, Stop: 5 * time.Second}
	first = map[types.UID]time.Time{"a": noon}
)

// lag is how late a deletion is seen at most where an API server hangs.
const lag = 30 * time.Second

// ending is a pod that was told to end at noon, with a grace period of a minute.
func ending(uid types.UID) nodehealth.Pod {
	return with(pod(uid), func(p *nodehealth.Pod) { p.Leaving, p.Ending, p.Grace = true, true, time.Minute })
}

func marked(s nodehealth.State, released bool) nodehealth.State {
	s.Deployment.Mark, s.Deployment.Released = new(v1alpha1.Mark("2026-01-02T11:00:00Z/r1")), released
	return s
}

// blind is a state of before the API server could not be read any more.
func blind(s nodehealth.State) nodehealth.State {
	s = graced(s)
	s.LostAt = noon.Add(-time.Hour)
	return s
}

// graced is a state whose pods have a minute to stop.
func graced(s nodehealth.State) nodehealth.State {
	for i := range s.Pods {
		s.Pods[i].Grace = time.Minute
	}
	return s
}

func shutdown(s nodehealth.State) nodehealth.State {
	s = blind(s)
	s.LostAt, s.ShuttingDown = time.Time{}, true
	return s
}

func TestDrainHook(t *testing.T) {
	second := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Second) }
	target := with(ending("a"), func(p *nodehealth.Pod) { p.InTargets = true })
	for name, c := range map[string]struct {
		state    nodehealth.State
		failing  time.Time
		free     time.Time
		targeted bool
		seen     map[types.UID]time.Time
		back     time.Time
		now      time.Time
		holds    bool
		until    time.Time
	}{
		"others serve, since a moment ago":     {state: known(pod("b"), ending("a")), seen: first, now: second(0), holds: true, until: second(3)},
		"others serve":                         {state: known(pod("b"), ending("a")), seen: first, free: second(0), now: second(3)},
		"checks have just begun to fail":       {state: known(ending("a")), failing: second(0), seen: first, now: second(9), holds: true, until: second(10)},
		"checks have failed for long enough":   {state: known(ending("a")), failing: second(0), free: second(10), seen: first, now: second(13)},
		"the node is being taken out":          {state: marked(known(ending("a")), false), failing: second(0), seen: first, now: second(30), holds: true, until: second(55)},
		"the node is out":                      {state: marked(known(ending("a")), true), failing: second(0), seen: first, now: second(0)},
		"its time is over":                     {state: marked(known(target), false), failing: second(0), seen: first, now: second(55)},
		"a target":                             {state: known(pod("b"), target), seen: first, now: second(30), holds: true, until: second(55)},
		"a target of a node that is out":       {state: marked(known(target), true), failing: second(0), seen: first, now: second(0), holds: true, until: second(55)},
		"a target until now, the node is out":  {state: marked(known(ending("a")), true), failing: second(28), targeted: true, seen: first, now: second(30), holds: true, until: second(33)},
		"a target before, the node is out":     {state: marked(known(ending("a")), true), failing: second(28), free: second(30), targeted: true, seen: first, now: second(33)},
		"a target before, the node is leaving": {state: marked(known(ending("a")), false), failing: second(0), targeted: true, seen: first, now: second(30), holds: true, until: second(55)},
		"the deletion is not seen yet":         {state: known(unready("a")), now: second(9), holds: true, until: second(10)},
		"there is no deletion":                 {state: known(unready("a")), now: second(10)},
		"an API server hangs, a pod serves":    {state: graced(known(pod("a"), pod("b"))), now: second(29), holds: true, until: second(30)},
		"none hangs, a pod serves":             {state: graced(known(pod("a"), pod("b"))), now: second(30)},
		"one hangs, the node is out":           {state: graced(marked(known(pod("a")), true)), now: second(10)},
		"one hangs, a target, the node is out": {state: graced(marked(known(pod("a")), true)), targeted: true, now: second(29), holds: true, until: second(30)},
		"one hangs, little time to stop":       {state: known(pod("a"), with(pod("b"), func(p *nodehealth.Pod) { p.Grace = 25 * time.Second })), now: second(19), holds: true, until: second(20)},
		"one hung, a target":                   {state: known(pod("b"), target), seen: map[types.UID]time.Time{"a": second(24)}, now: second(40), holds: true, until: second(55)},
		"back, a target":                       {state: known(pod("b"), target), seen: map[types.UID]time.Time{"a": second(40)}, back: second(40), now: second(41), holds: true, until: second(55)},
		"back, a target of later":              {state: known(pod("b"), target), seen: map[types.UID]time.Time{"a": second(41)}, back: second(40), now: second(41)},
		"only an earlier deletion is seen":     {state: known(pod("b"), ending("a")), seen: map[types.UID]time.Time{"a": second(-3)}, now: second(1), holds: true, until: second(10)},
		"only an earlier deletion, after 10 s": {state: known(pod("b"), ending("a")), seen: map[types.UID]time.Time{"a": second(-3)}, free: second(10), now: second(13)},
		"no Deployment":                        {state: nodehealth.State{Known: true}, failing: second(0), now: second(10)},
		"another pod is a target":              {state: known(pod("b"), ending("a"), with(pod("c"), func(p *nodehealth.Pod) { p.InTargets = true })), seen: first, free: second(0), now: second(3)},
		"a target that was deleted later": {
			state: known(pod("b"), ending("a"), with(target, func(p *nodehealth.Pod) { p.UID = "c" })),
			seen:  map[types.UID]time.Time{"a": noon, "c": second(20)}, free: second(0), now: second(30),
		},
		"its own time is over": {
			state: known(pod("b"), ending("a"), with(target, func(p *nodehealth.Pod) { p.UID = "c" })),
			seen:  map[types.UID]time.Time{"a": noon, "c": second(9)}, now: second(55),
		},
		"blind, a pod serves":                {state: blind(known(pod("a"), pod("b"))), now: second(30), holds: true, until: second(55)},
		"blind, its time is over":            {state: blind(known(pod("a"), pod("b"))), now: second(55)},
		"shutting down, checks just fail":    {state: shutdown(known(pod("a"))), failing: second(2), now: second(3), holds: true, until: second(12)},
		"shutting down, checks have failed":  {state: shutdown(known(pod("a"))), failing: second(2), free: second(12), now: second(15)},
		"shutting down, a target":            {state: shutdown(known(with(pod("a"), func(p *nodehealth.Pod) { p.InTargets = true }))), failing: second(2), now: second(30), holds: true, until: second(55)},
		"shutting down, its time is over":    {state: shutdown(known(pod("a"))), failing: second(50), now: second(55)},
		"shutting down, no pod is left":      {state: shutdown(known()), failing: second(2), now: second(3)},
		"blind, no pod serves":               {state: blind(known(unready("a"))), now: second(10)},
		"blind, the node is out":             {state: blind(marked(known(pod("a")), true)), now: second(10)},
		"blind, a target, the node is out":   {state: blind(marked(known(pod("a")), true)), targeted: true, now: second(10), holds: true, until: second(55)},
		"blind, since the deletion was seen": {state: blind(known(pod("b"), ending("a"))), seen: first, free: second(0), now: second(3)},
	} {
		why, until := hook.Holds(c.state, nodehealth.Drain{Now: c.now, Asked: noon, Failing: c.failing, Free: c.free, Targeted: c.targeted, Seen: c.seen, Lag: lag, Back: c.back})
		if (why != "") != c.holds || !until.Equal(c.until) {
			t.Errorf("%s: %q until %s, want %t until %s", name, why, until, c.holds, c.until)
		}
	}
}

// TestHasTarget counts a pod whose deletion is not seen yet, and one that ends: either may be the one that is held,
// and what came to it last may have come a moment ago.
func TestHasTarget(t *testing.T) {
	target := func(p *nodehealth.Pod) { p.InTargets = true }
	for name, c := range map[string]struct {
		pods []nodehealth.Pod
		want bool
	}{
		"one that serves": {[]nodehealth.Pod{pod("b"), with(pod("a"), target)}, true},
		"one that ends":   {[]nodehealth.Pod{pod("b"), with(ending("a"), target)}, true},
		"none of them":    {[]nodehealth.Pod{pod("b"), ending("a")}, false},
		"no pod":          {nil, false},
	} {
		if got := known(c.pods...).HasTarget(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestGraceCountsByTheCheckersClock holds a pod of a node on which the API server's
// clock is behind, or ahead, by minutes: neither shortens nor prolongs the hold.
func TestGraceCountsByTheCheckersClock(t *testing.T) {
	for _, ahead := range []time.Duration{-15 * time.Minute, -51 * time.Second, 0, 15 * time.Minute} {
		for name, c := range map[string]struct{ seen, asked, until time.Duration }{
			"asked first":          {seen: 3 * time.Second, until: 55 * time.Second},
			"seen first":           {asked: time.Second, until: 55 * time.Second},
			"seen long before":     {seen: -30 * time.Second, until: 25 * time.Second},
			"asked and seen later": {seen: 2 * time.Second, asked: 2 * time.Second, until: 57 * time.Second},
		} {
			p := podOf("web-n1-5d", "a")
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: noon.Add(ahead + time.Minute)}, new(int64(60))
			p.Annotations = map[string]string{v1alpha1.AnnotationTargets: v1alpha1.TargetsIn}
			s := nodehealth.Observe(subject, []*appsv1.Deployment{deployment("web-n1", nil)}, []*corev1.Pod{p})
			// Another deletion is near enough to be the one that asks.
			s.Pods = append(s.Pods, with(ending("b"), func(p *nodehealth.Pod) { p.Grace = 10 * time.Second }))
			asked := noon.Add(c.asked)
			d := nodehealth.Drain{Now: asked.Add(3 * time.Second), Asked: asked, Seen: map[types.UID]time.Time{"a": noon.Add(c.seen), "b": asked}}
			if why, until := hook.Holds(s, d); why == "" || !until.Equal(noon.Add(c.until)) {
				t.Errorf("%s, API server ahead by %s: %q until %s, want %s", name, ahead, why, until, noon.Add(c.until))
			}
		}
	}
}

// TestDrainHookEnds holds no pod longer than its grace period leaves time to stop,
// and says when it will decide otherwise.
func TestDrainHookEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seconds := rapid.IntRange(0, 90)
		at := func(label string) time.Time { return noon.Add(time.Duration(seconds.Draw(t, label)) * time.Second) }
		s, d := known(), nodehealth.Drain{Asked: noon, Seen: map[types.UID]time.Time{}, Lag: lag}
		for _, uid := range []types.UID{"a", "b"} {
			p := pod(uid)
			if rapid.Bool().Draw(t, "ends") {
				p.Leaving, p.Ending, p.Grace, d.Seen[uid] = true, true, 40*time.Second, at("seen").Add(-20*time.Second)
			}
			p.InTargets = rapid.Bool().Draw(t, "target")
			s.Pods = append(s.Pods, p)
		}
		if rapid.Bool().Draw(t, "marked") {
			s = marked(s, rapid.Bool().Draw(t, "released"))
		}
		switch rapid.IntRange(0, 2).Draw(t, "sight") {
		case 1:
			s = blind(s)
		case 2:
			s = shutdown(s)
		}
		if rapid.Bool().Draw(t, "back") {
			d.Back = at("backAt")
		}
		if rapid.Bool().Draw(t, "graced") && d.Seen["a"].IsZero() && d.Seen["b"].IsZero() {
			s = graced(s)
		}
		if rapid.Bool().Draw(t, "free") {
			d.Free = at("free")
		}
		d.Targeted = rapid.Bool().Draw(t, "targeted")
		if rapid.Bool().Draw(t, "fails") {
			d.Failing = at("failing")
		}
		d.Now = at("now")
		why, until := hook.Holds(s, d)
		if why == "" {
			return
		}
		if !until.After(d.Now) {
			t.Fatalf("holds at %s until %s: %s", d.Now, until, why)
		}
		if why == nodehealth.Lingering && d.Free.IsZero() {
			d.Free = d.Now
		}
		d.Now = until.Add(-time.Nanosecond)
		if again, same := hook.Holds(s, d); again != why || !same.Equal(until) {
			t.Fatalf("%q until %s, and just before that %q until %s", why, until, again, same)
		}
		d.Now = noon.Add(200 * time.Second)
		if why, _ := hook.Holds(s, d); why != "" {
			t.Fatalf("holds for ever: %s", why)
		}
	})
}

// TestMarkThatServes lets the health checks pass until the pods are changed, also
// while a drain hook holds those that somebody deletes.
func TestMarkThatServes(t *testing.T) {
	mark := func(s nodehealth.State, value v1alpha1.Mark, released bool) nodehealth.State {
		s.Deployment.Mark, s.Deployment.Released = &value, released
		return s
	}
	const value = "2026-01-02T11:00:00Z/r1" + v1alpha1.MarkServing
	for name, c := range map[string]struct {
		state  nodehealth.State
		reason string
	}{
		"marked":             {mark(known(pod("a")), value, false), nodehealth.Serving},
		"a pod is held":      {mark(known(ending("a")), value, false), nodehealth.Serving},
		"a held pod fails":   {mark(known(with(ending("a"), func(p *nodehealth.Pod) { p.ContainersReady = false })), value, false), nodehealth.TooFewPodsReady},
		"no pod is ready":    {mark(known(unready("a")), value, false), nodehealth.TooFewPodsReady},
		"pods are changed":   {mark(known(pod("a")), value, true), nodehealth.Marked},
		"another mark":       {mark(known(pod("a")), "2026-01-02T11:00:00Z/r1", false), nodehealth.Marked},
		"held, another mark": {mark(known(ending("a")), "2026-01-02T11:00:00Z/r1", false), nodehealth.Marked},
	} {
		answer := nodehealth.Decide(c.state)
		if answer.Reason != c.reason || answer.Mark != string(*c.state.Deployment.Mark) {
			t.Errorf("%s: %s with mark %q, want %s", name, answer.Reason, answer.Mark, c.reason)
		}
	}
}
