package controller

import (
	"maps"
	"testing"
	"testing/synctest"
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

// TestLongestMove is that of the node that is longest under way: also where others come and go, and where
// nothing happens any more.
func TestLongestMove(t *testing.T) {
	longest := func() map[string]float64 {
		t.Helper()
		families, err := metrics.Registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]float64{}
		for _, family := range families {
			for _, m := range family.Metric {
				if family.GetName() == "ingressdaemonset_longest_move_seconds" {
					out[m.Label[0].GetValue()] = m.GetGauge().GetValue()
				}
			}
		}
		return out
	}
	synctest.Test(t, func(t *testing.T) {
		r := newCluster(t).reconciler()
		at := func(nodes map[string]detach.Phase) {
			d := detach.Decision{}
			for name, phase := range nodes {
				d.Nodes = append(d.Nodes, detach.NodeDecision{Name: name, Phase: phase})
			}
			r.tell(&observed{state: detach.State{Now: time.Now()}}, d)
		}
		for _, step := range []struct {
			nodes map[string]detach.Phase
			want  map[string]float64
		}{
			{nil, map[string]float64{"Detaching": 0, "Attaching": 0}},
			{map[string]detach.Phase{"stands": detach.Attaching, "held": detach.Held}, map[string]float64{"Detaching": 0, "Attaching": 60}},
			{map[string]detach.Phase{"stands": detach.Attaching, "a": detach.Detaching}, map[string]float64{"Detaching": 60, "Attaching": 120}},
			{map[string]detach.Phase{"stands": detach.Attaching, "a": detach.Detached, "b": detach.Detaching}, map[string]float64{"Detaching": 60, "Attaching": 180}},
			{map[string]detach.Phase{"stands": detach.Attaching, "b": detach.Attaching}, map[string]float64{"Detaching": 0, "Attaching": 240}},
			{map[string]detach.Phase{"b": detach.Attaching}, map[string]float64{"Detaching": 0, "Attaching": 120}},
			{map[string]detach.Phase{"b": detach.Gone}, map[string]float64{"Detaching": 0, "Attaching": 0}},
		} {
			at(step.nodes)
			time.Sleep(time.Minute)
			if got := longest(); !maps.Equal(got, step.want) {
				t.Errorf("%v: %v, want %v", step.nodes, got, step.want)
			}
		}
	})
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
