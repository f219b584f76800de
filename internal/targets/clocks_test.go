package targets

import (
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestNoDurationBetweenClocks counts the settle time of a target that another leader saw out
// from when this one first saw the record, whatever the other's clock said.
func TestNoDurationBetweenClocks(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"lags": -15 * time.Minute, "runs ahead": 15 * time.Minute, "agrees": 0} {
		s := rested()
		s.Wants, s.Registered = []Want{out(one)}, map[Target]Health{two: healthy("a")}
		s.Records = []Record{record(one, true, noon.Add(ahead))}
		first := Decide(s)
		if phase := said(first, one).phase; phase != Leaving {
			t.Errorf("%s: %s as soon as the record is seen", name, phase)
		}
		for after, want := range map[time.Duration]Phase{s.SettleTime - time.Second: Leaving, s.SettleTime: Stopped} {
			late := s
			late.Now, late.ReadAt, late.Sightings = noon.Add(after), noon.Add(after), first.Sightings
			if phase := said(Decide(late), one).phase; phase != want {
				t.Errorf("%s, after %s: %s, want %s", name, after, phase, want)
			}
		}
	}
}

// TestAHeldPodByAnotherClock: pods that their drain hooks hold serve for as long as these may wait,
// from when their deletion was seen, whatever the API server's clock says: they do not leave all at
// once.
func TestAHeldPodByAnotherClock(t *testing.T) {
	for _, ahead := range []time.Duration{-15 * time.Minute, 0, 15 * time.Minute} {
		memory := Memory{}
		for _, at := range []struct {
			after time.Duration
			out   int
		}{{0, 1}, {599 * time.Second, 1}, {600 * time.Second, 2}} {
			s := fleetOf(webGroup(IP), at80("10.0.0.1", "10.0.0.2"))
			s.Now, s.group().ReadAt, s.Memory = noon.Add(at.after), noon.Add(at.after), memory
			a := s.attachment("web", onPods(IP), in80("10.0.0.1:80", "10.0.0.2:80"))
			for _, ip := range []string{"10.0.0.1", "10.0.0.2"} {
				p := hookedPod("pod-"+ip, ip, true)
				p.UID = types.UID(ip)
				p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: noon.Add(10*time.Minute - ahead)}, new(int64(600))
				p.Annotations = map[string]string{v1alpha1.AnnotationTargets: v1alpha1.TargetsIn}
				a.Pods = append(a.Pods, p)
			}
			d := plan(t, s)
			if out := strings.Count(d.calls(), "out "); out != at.out {
				t.Errorf("a clock that is %s ahead, after %s: %q, want %d out", ahead, at.after, d.calls(), at.out)
			}
			memory = d.Memory
		}
	}
}

// TestQuietOfAnotherLeader counts instead of the settle time, after one more read.
func TestQuietOfAnotherLeader(t *testing.T) {
	s := rested()
	s.Wants, s.Registered = []Want{out(one)}, map[Target]Health{two: healthy("a")}
	r := record(one, true, noon.Add(14*time.Minute))
	r.QuietAt = noon.Add(15 * time.Minute)
	s.Records = []Record{r}
	first := Decide(s)
	if phase := said(first, one).phase; phase != Leaving {
		t.Errorf("%s by an older read", phase)
	}
	s.Now, s.ReadAt, s.Sightings = noon.Add(time.Second), noon, first.Sightings
	if got := said(Decide(s), one).phase; got != Stopped {
		t.Errorf("%s after another read", got)
	}
}

// TestWhatStaysIsNotRegistered leaves alone a target of which it is not known whether it
// is to be in, and puts it back only where it was taken out. What is on record may be on its way in,
// and get new connections for as long as its load balancer takes; then it is forgotten, so that its node
// does not put it back.
func TestWhatStaysIsNotRegistered(t *testing.T) {
	for name, c := range map[string]struct {
		leaving, registered, behind, asked bool
		// seen is since when it is missing, accepted since when the cloud has accepted what was asked.
		seen, accepted time.Duration
		phase          Phase
		registers      int
		forgets        bool
	}{
		"it is in":                          {registered: true, phase: Attached},
		"it is not there":                   {phase: Leaving},
		"nor is it for a while":             {seen: 299 * time.Second, phase: Leaving},
		"somebody took it out":              {seen: 300 * time.Second, phase: Absent, forgets: true},
		"so it seems, by lists of long ago": {behind: true, seen: 300 * time.Second, phase: Absent},
		"it is being registered":            {asked: true, seen: 329 * time.Second, phase: Leaving},
		"it was, and nothing came of it":    {asked: true, seen: 330 * time.Second, phase: Absent},
		"it was registered a moment ago":    {asked: true, seen: 400 * time.Second, accepted: 299 * time.Second, phase: Leaving},
		"it was registered, and is out":     {asked: true, seen: 400 * time.Second, accepted: 300 * time.Second, phase: Absent},
		"it was taken out by us":            {leaving: true, phase: Registering, registers: 1},
	} {
		s := rested()
		w := in(one)
		w.Stay = true
		s.Wants, s.Records, s.Synced = []Want{w}, []Record{record(one, c.leaving, time.Time{})}, !c.behind
		if c.seen > 0 {
			s.Sightings = map[Target]Sighting{one: {Left: s.ReadAt.Add(-c.seen)}}
		}
		if !c.registered {
			delete(s.Registered, one)
		}
		if c.asked {
			s.Answers = map[Target]Answer{one: {Register: true}}
			if c.accepted > 0 {
				s.Answers[one] = Answer{Register: true, At: s.ReadAt.Add(-c.accepted), Times: 1}
			}
		}
		d := Decide(s)
		if said(d, one).phase != c.phase || len(d.Register) != c.registers || len(d.Deregister) > 0 || (d.Records != nil && len(d.Records) == 0) != c.forgets {
			t.Errorf("%s: %+v", name, d)
		}
	}
}
