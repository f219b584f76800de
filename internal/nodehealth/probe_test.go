package nodehealth_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth"
)

func TestTargets(t *testing.T) {
	target := nodehealth.Target{Container: app, IP: "10.0.0.1", Probe: tcpProbe, Ready: true}
	rehearsal := with(target, func(t *nodehealth.Target) { t.Rehearsal = true })
	proven := func(s nodehealth.State) nodehealth.State {
		s.Proven = map[nodehealth.Container]bool{app: true}
		return s
	}
	for name, test := range map[string]struct {
		state nodehealth.State
		want  []nodehealth.Target
	}{
		"what has not passed yet, while the API server is believed": {state: known(pod("a"), unready("b")), want: []nodehealth.Target{rehearsal}},
		"none that has passed, while the API server is believed":    {state: proven(known(pod("a"), unready("b")))},
		"pods of a node that was cut off":                           {state: proven(known(cutOff("a"))), want: []nodehealth.Target{target}},
		"none behind a failing readiness gate": {
			state: proven(known(with(cutOff("a"), func(p *nodehealth.Pod) { p.GatesPassed = false }))),
		},
		"all while the API server is away": {
			state: with(known(pod("a"), unready("b")), func(s *nodehealth.State) { s.Probing = true }),
			want: []nodehealth.Target{target, with(target, func(t *nodehealth.Target) {
				t.Pod, t.Ready = "b", false
			})},
		},
		"first result counts for what was stored": {
			state: with(known(pod("a")), func(s *nodehealth.State) { s.Cold = true }),
			want:  []nodehealth.Target{with(target, func(t *nodehealth.Target) { t.FirstCounts = true })},
		},
		"none without an address": {
			state: with(known(with(pod("a"), func(p *nodehealth.Pod) { p.IP = "" })), func(s *nodehealth.State) { s.Probing = true }),
		},
		"none without a probe": {
			state: with(known(with(pod("a"), func(p *nodehealth.Pod) { p.Containers[0].Probe = nil })), func(s *nodehealth.State) { s.Probing = true }),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, nodehealth.Targets(test.state)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestJudged(t *testing.T) {
	s := with(known(pod("a")), func(s *nodehealth.State) { s.Cold = true })
	if s.Judged() {
		t.Error("judged before it was probed")
	}
	s.Probed = map[nodehealth.Container]bool{app: false}
	if !s.Judged() {
		t.Error("not judged after it was probed")
	}
	if !known(pod("a")).Judged() {
		t.Error("a rehearsal is waited for")
	}
}

func TestTally(t *testing.T) {
	probe := &corev1.Probe{FailureThreshold: 3, SuccessThreshold: 2}
	for name, test := range map[string]struct {
		target  nodehealth.Target
		results string
		news    string
	}{
		"fails after three in a row":    {nodehealth.Target{Ready: true}, "+--+---", "......-"},
		"passes after two in a row":     {nodehealth.Target{}, "+-++++", "...+.."},
		"unready stays so without news": {nodehealth.Target{}, "----", "...."},
		"first failure counts":          {nodehealth.Target{Ready: true, FirstCounts: true}, "-+-++", "-...+"},
		"first success counts":          {nodehealth.Target{FirstCounts: true}, "+--+---", "+.....-"},
	} {
		t.Run(name, func(t *testing.T) {
			tally, got := nodehealth.NewTally(test.target), ""
			for _, result := range test.results {
				switch ready, news := tally.Add(result == '+', probe); {
				case !news:
					got += "."
				case ready:
					got += "+"
				default:
					got += "-"
				}
			}
			if got != test.news {
				t.Errorf("%s gave news %s, want %s", test.results, got, test.news)
			}
		})
	}
}

func TestTallyTurnsOnlyAfterItsThreshold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		probe := &corev1.Probe{
			FailureThreshold: rapid.Int32Range(0, 4).Draw(t, "failureThreshold"),
			SuccessThreshold: rapid.Int32Range(0, 4).Draw(t, "successThreshold"),
		}
		ready := rapid.Bool().Draw(t, "ready")
		tally := nodehealth.NewTally(nodehealth.Target{Ready: ready})
		against := int32(0)
		for _, result := range rapid.SliceOf(rapid.Bool()).Draw(t, "results") {
			threshold := max(1, probe.FailureThreshold)
			if !ready {
				threshold = max(1, probe.SuccessThreshold)
			}
			against++
			if result == ready {
				against = 0
			}
			got, news := tally.Add(result, probe)
			if turned := against == threshold; news != turned {
				t.Fatalf("news is %t after %d of %d results against %t", news, against, threshold, ready)
			} else if turned {
				ready, against = !ready, 0
			}
			if got != ready {
				t.Fatalf("ready is %t, want %t", got, ready)
			}
		}
	})
}
