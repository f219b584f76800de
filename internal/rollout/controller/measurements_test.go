package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestMeasurementThatPanicsHasFailed goes on after one as after any other.
func TestMeasurementThatPanicsHasFailed(t *testing.T) {
	var answer *string
	changed := make(chan bool)
	by := newMeasuring(func(context.Context, v1alpha1.AnalysisCheck, rollout.Wave) error { _ = *answer; return nil }, time.Now)
	m := newMeasurements(theSet, func() { changed <- true }, by)
	check := v1alpha1.AnalysisCheck{Name: "errors"}
	status := &v1alpha1.AnalysisStatus{Began: metav1.NewMicroTime(start)}
	measured := func() rollout.Measurement {
		m.begin(check, rollout.AnalysisID(status), rollout.Wave{})
		<-changed
		return m.last()[0]
	}
	one := measured()
	if one.Failure == "" || one.Check != "errors" || one.Analysis != rollout.AnalysisID(status) || one.At.IsZero() {
		t.Errorf("a measurement that panics is %+v", one)
	}
	m.stored(counting(status, one))
	answer = new("0")
	if one := measured(); one.Failure != "" {
		t.Errorf("the next is %+v", one)
	}
}

// counting is a status that counts a measurement.
func counting(a *v1alpha1.AnalysisStatus, one rollout.Measurement) *v1alpha1.AnalysisStatus {
	out := a.DeepCopy()
	out.Checks = []v1alpha1.AnalysisCheckStatus{{Name: one.Check, At: new(metav1.NewMicroTime(one.At.Truncate(time.Microsecond)))}}
	return out
}

// TestMeasurementsAreCounted: the next is made when a status that was stored counts the last one, of another wave at once.
func TestMeasurementsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		by := newMeasuring(func(context.Context, v1alpha1.AnalysisCheck, rollout.Wave) error { made++; return nil }, time.Now)
		m := newMeasurements(theSet, func() {}, by)
		status := &v1alpha1.AnalysisStatus{Began: metav1.NewMicroTime(time.Now())}
		expect := func(when string, want int) {
			t.Helper()
			m.begin(v1alpha1.AnalysisCheck{Name: "errors"}, rollout.AnalysisID(status), rollout.Wave{})
			if synctest.Wait(); made != want {
				t.Errorf("%s, %d were made, want %d", when, made, want)
			}
			time.Sleep(time.Second)
		}
		expect("at first", 1)
		expect("before a status counts it", 1)
		m.stored(status)
		expect("where a status does not", 1)
		m.stored(counting(status, m.last()[0]))
		expect("when a status counts it", 2)
		status.Began = metav1.NewMicroTime(time.Now())
		expect("of another wave", 3)
	})
}

// TestMeasurementsOfTwoControllers has two that measure the same wave at a time, each of which finds
// what the other counted last: each counts its own measurement once.
func TestMeasurementsOfTwoControllers(t *testing.T) {
	check := v1alpha1.AnalysisCheck{Name: "errors"}
	status := &v1alpha1.AnalysisStatus{Began: metav1.NewMicroTime(start), Checks: []v1alpha1.AnalysisCheckStatus{{Name: "errors"}}}
	var both []*measurements
	for _, skew := range []time.Duration{0, -10 * time.Minute} {
		changed := make(chan bool)
		by := newMeasuring(func(context.Context, v1alpha1.AnalysisCheck, rollout.Wave) error { return nil }, func() time.Time { return start.Add(skew) })
		m := newMeasurements(theSet, func() { changed <- true }, by)
		m.begin(check, rollout.AnalysisID(status), rollout.Wave{})
		<-changed
		both = append(both, m)
	}
	for _, m := range append(both, both...) {
		m.stored(status)
		if one := m.last()[0]; !one.Counted {
			status.Checks[0].Passed++
			status.Checks[0].At = new(metav1.NewMicroTime(one.At))
			m.stored(status)
		}
	}
	if passed := status.Checks[0].Passed; passed != 2 {
		t.Errorf("two measurements are counted %d times", passed)
	}
}

// TestMeasurementsTakeTurns has many slow checks of six IngressDaemonSets: no more are
// measured at a time than may be, and one that asks last waits for one time-out at most.
func TestMeasurementsTakeTurns(t *testing.T) {
	const timeout = 300 * time.Second
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		underWay, most, mostOf := map[string]int{}, 0, 0
		var mu sync.Mutex
		by := newMeasuring(func(_ context.Context, _ v1alpha1.AnalysisCheck, wave rollout.Wave) error {
			mu.Lock()
			underWay[""]++
			underWay[wave.Name]++
			most, mostOf = max(most, underWay[""]), max(mostOf, underWay[wave.Name])
			mu.Unlock()
			if wave.Name != "quick" {
				time.Sleep(timeout)
			}
			mu.Lock()
			defer mu.Unlock()
			underWay[""]--
			underWay[wave.Name]--
			return nil
		}, time.Now)
		begin := func(name string, checks int) *measurements {
			m := newMeasurements(types.NamespacedName{Namespace: "ns", Name: name}, func() {}, by)
			for i := range checks {
				m.begin(v1alpha1.AnalysisCheck{Name: fmt.Sprint(i)}, "a1", rollout.Wave{Name: name})
			}
			return m
		}
		var slow []*measurements
		for i := range 6 {
			slow = append(slow, begin(fmt.Sprint("slow", i), 8))
		}
		time.Sleep(time.Second)
		quick := begin("quick", 2)
		time.Sleep(timeout - time.Second)
		synctest.Wait()
		if all := quick.last(); len(all) != 2 || all[1].At.Sub(began) > timeout {
			t.Errorf("after %s the quick ones are %+v", time.Since(began), all)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if most != 8 || mostOf != 2 {
			t.Errorf("%d were under way at a time, and %d of one; want 8 and 2", most, mostOf)
		}
		for i, m := range slow {
			if n := len(m.last()); n != 8 {
				t.Errorf("%d of 8 measurements of slow%d were made", n, i)
			}
		}
	})
}

// TestMeasurementsOfWhoIsGone are not made, and keep nobody else from their turn.
func TestMeasurementsOfWhoIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := map[string]int{}
		var mu sync.Mutex
		by := newMeasuring(func(_ context.Context, check v1alpha1.AnalysisCheck, _ rollout.Wave) error {
			mu.Lock()
			made[check.Name]++
			mu.Unlock()
			time.Sleep(time.Second)
			return nil
		}, time.Now)
		gone, again := newMeasurements(theSet, func() {}, by), newMeasurements(theSet, func() {}, by)
		for _, check := range []string{"a", "b", "c", "d"} {
			gone.begin(v1alpha1.AnalysisCheck{Name: check}, "a1", rollout.Wave{})
		}
		gone.end()
		again.begin(v1alpha1.AnalysisCheck{Name: "c"}, "a2", rollout.Wave{})
		time.Sleep(time.Minute)
		synctest.Wait()
		if made["c"] != 1 || made["d"] != 0 || len(by.turns.underWay) != 0 || by.turns.total != 0 || len(gone.last()) != 0 {
			t.Errorf("made %v, left %+v", made, by.turns)
		}
	})
}

// TestCheckThatIsTooLongForItsWave is told while that wave is measured, and of no other.
func TestCheckThatIsTooLongForItsWave(t *testing.T) {
	set, ready := benchSet(), benchNode(1)
	set.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{Analysis: []v1alpha1.AnalysisCheck{{Name: "errors"}}}
	r, _, err := newReconciler(set)
	if err != nil {
		t.Fatal(err)
	}
	r.checkAnalysis = func(_ v1alpha1.AnalysisCheck, wave rollout.Wave) error {
		if len(wave.Nodes) > 0 {
			return errors.New("it is too long")
		}
		return nil
	}
	const revision = "r2"
	for want, analyses := range map[int][]*v1alpha1.AnalysisStatus{
		0: {nil, {Revision: revision, Phase: v1alpha1.AnalysisPassed}, {Revision: revision, Phase: v1alpha1.AnalysisFailed}, {Revision: "former", Phase: v1alpha1.AnalysisMeasuring}},
		1: {{Revision: revision, Phase: v1alpha1.AnalysisOfWave}, {Revision: revision, Phase: v1alpha1.AnalysisMeasuring}},
	} {
		for _, a := range analyses {
			if set.Status.Analysis = a; a != nil {
				a.Nodes = []string{ready.Name}
			}
			o := &observed{set: set, strategy: set.Spec.Strategy(), nodes: map[string]*nodeObjects{
				ready.Name: {node: ready, reading: &reading{out: rollout.Node{Wanted: true, Ready: true}}},
			}}
			o.state.Revision = revision
			if r.checkChecks(o); len(o.state.Faults) != want {
				t.Errorf("%+v: %v", a, o.state.Faults)
			}
		}
	}
}

// TestCheckThatCannotBeRead is told before anything begins.
func TestCheckThatCannotBeRead(t *testing.T) {
	set := benchSet()
	set.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{Analysis: []v1alpha1.AnalysisCheck{{Name: "errors"}, {Name: "latency"}}}
	r, _, err := newReconciler(set)
	if err != nil {
		t.Fatal(err)
	}
	r.checkAnalysis = func(check v1alpha1.AnalysisCheck, _ rollout.Wave) error {
		if check.Name == "latency" {
			return errors.New("it is no condition")
		}
		return nil
	}
	o, err := r.look(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}
	if want := (rollout.Fault{Reason: v1alpha1.ReasonAnalysisInvalid, Message: "check latency: it is no condition"}); !slices.Equal(o.state.Faults, []rollout.Fault{want}) {
		t.Errorf("%v, want %v", o.state.Faults, want)
	}
}
