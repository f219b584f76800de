package controller

import (
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/detach"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// moves are how many were timed until now, and how long they took, by where they went.
func moves(t *testing.T) map[string][2]float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][2]float64{}
	for _, family := range families {
		if family.GetName() != "ingressdaemonset_node_move_seconds" {
			continue
		}
		for _, m := range family.Metric {
			out[m.Label[0].GetValue()] = [2]float64{float64(m.GetHistogram().GetSampleCount()), m.GetHistogram().GetSampleSum()}
		}
	}
	return out
}

// TestMovesAreTimed from their first step to their end: a node that is gone comes to none, however long
// it was waited for.
func TestMovesAreTimed(t *testing.T) {
	type step struct {
		after time.Duration
		phase detach.Phase
	}
	for name, c := range map[string]struct {
		steps []step
		to    string
		want  [2]float64
	}{
		"out":              {[]step{{0, detach.Held}, {time.Hour, detach.Detaching}, {time.Minute, detach.Detaching}, {time.Minute, detach.Detached}}, "Detached", [2]float64{1, 120}},
		"back":             {[]step{{0, detach.Detached}, {time.Hour, detach.Attaching}, {time.Minute, detach.Attached}}, "Attached", [2]float64{1, 60}},
		"gone on its way":  {[]step{{0, detach.Detaching}, {time.Minute, detach.Gone}, {24 * time.Hour, detach.Attached}}, "Attached", [2]float64{}},
		"gone and back":    {[]step{{0, detach.Detaching}, {time.Hour, detach.Gone}, {time.Hour, detach.Attaching}, {time.Minute, detach.Attached}}, "Attached", [2]float64{1, 60}},
		"gone, and out":    {[]step{{0, detach.Detaching}, {time.Hour, detach.Gone}, {time.Hour, detach.Detaching}, {time.Minute, detach.Detached}}, "Detached", [2]float64{1, 60}},
		"it was never out": {[]step{{0, detach.Held}, {time.Hour, detach.Attached}}, "Attached", [2]float64{}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newCluster(t).reconciler()
			before := moves(t)[c.to]
			o := &observed{state: detach.State{Now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}}
			for _, s := range c.steps {
				o.state.Now = o.state.Now.Add(s.after)
				r.arrived(o, detach.NodeDecision{Name: "a", Phase: s.phase})
			}
			after := moves(t)[c.to]
			if got := [2]float64{after[0] - before[0], after[1] - before[1]}; got != c.want {
				t.Errorf("%v moves in so many seconds, want %v", got, c.want)
			}
			if c.steps[len(c.steps)-1].phase == detach.Attached && len(r.phases.of)+len(r.phases.begun) > 0 {
				t.Errorf("remembered of a node that is attached: %v, %v", r.phases.of, r.phases.begun)
			}
		})
	}
}
