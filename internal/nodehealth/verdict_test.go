package nodehealth_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth"
)

var (
	tcpProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{}}}
	app      = nodehealth.Container{Pod: "a", Name: "app"}
)

func known(pods ...nodehealth.Pod) nodehealth.State {
	return nodehealth.State{
		Node:       "n1",
		Known:      true,
		Deployment: &nodehealth.Deployment{Name: "web-n1", Wanted: 1},
		Pods:       pods,
	}
}

// pod has one container with a probe, and all that makes a pod ready.
func pod(uid types.UID) nodehealth.Pod {
	return nodehealth.Pod{
		UID: uid, Name: string(uid), IP: "10.0.0.1",
		Ready: true, ContainersReady: true, GatesPassed: true,
		Containers: []nodehealth.ContainerState{{Name: "app", Ready: true, Probe: tcpProbe}},
	}
}

func with[T any](v T, change func(*T)) T {
	change(&v)
	return v
}

// cutOff is a pod whose node was away from the API server for long.
func cutOff(uid types.UID) nodehealth.Pod {
	return with(pod(uid), func(p *nodehealth.Pod) { p.Ready = false })
}

func unready(uid types.UID) nodehealth.Pod {
	return with(pod(uid), func(p *nodehealth.Pod) {
		p.Ready, p.ContainersReady, p.Containers = false, false, []nodehealth.ContainerState{{Name: "app", Probe: tcpProbe}}
	})
}

func TestDecide(t *testing.T) {
	for name, test := range map[string]struct {
		state  nodehealth.State
		reason string
		mark   string
		ready  int32
	}{
		"nothing known":   {state: nodehealth.State{}, reason: nodehealth.Starting},
		"no Deployment":   {state: nodehealth.State{Known: true}, reason: nodehealth.DeploymentMissing},
		"one ready":       {state: known(pod("a")), reason: nodehealth.Serving, ready: 1},
		"no pods":         {state: known(), reason: nodehealth.TooFewPodsReady},
		"one not ready":   {state: known(unready("a")), reason: nodehealth.TooFewPodsReady},
		"surge not ready": {state: known(pod("a"), unready("b")), reason: nodehealth.Serving, ready: 1},
		"leaving": {
			state:  known(with(pod("a"), func(p *nodehealth.Pod) { p.Leaving = true })),
			reason: nodehealth.TooFewPodsReady,
		},
		"two wanted, one ready": {
			state:  with(known(pod("a")), func(s *nodehealth.State) { s.Deployment.Wanted = 2 }),
			reason: nodehealth.TooFewPodsReady, ready: 1,
		},
		"none wanted": {
			state:  with(known(pod("a")), func(s *nodehealth.State) { s.Deployment.Wanted = 0 }),
			reason: nodehealth.NoPodsWanted, ready: 1,
		},
		"Deployment terminating": {
			state:  with(known(pod("a")), func(s *nodehealth.State) { s.Deployment.Terminating = true }),
			reason: nodehealth.DeploymentTerminating, ready: 1,
		},
		"marked": {
			state:  with(known(pod("a")), func(s *nodehealth.State) { s.Deployment.Mark = new(v1alpha1.Mark("m <1> \"é\"")) }),
			reason: nodehealth.Marked, mark: "m <1> \"é\"", ready: 1,
		},
		"marked with nothing": {
			state:  with(known(pod("a")), func(s *nodehealth.State) { s.Deployment.Mark = new(v1alpha1.Mark("")) }),
			reason: nodehealth.Marked, ready: 1,
		},
		"marked by somebody, as if it were to serve": {
			state:  with(known(pod("a")), func(s *nodehealth.State) { s.Deployment.Mark = new(v1alpha1.Mark("mine/serving")) }),
			reason: nodehealth.Marked, mark: "mine/serving", ready: 1,
		},
		"shutting down": {
			state:  with(known(pod("a")), func(s *nodehealth.State) { s.ShuttingDown = true }),
			reason: nodehealth.ShuttingDown, ready: 1,
		},
		"marked, which is not stored yet": {
			state:  with(known(pod("a")), func(s *nodehealth.State) { s.Deployment.Mark, s.Unkept = new(v1alpha1.Mark("m")), true }),
			reason: nodehealth.Marked, ready: 1,
		},
		"marked and terminating": {
			state: with(known(), func(s *nodehealth.State) {
				s.Deployment.Mark, s.Deployment.Terminating = new(v1alpha1.Mark("m")), true
			}),
			reason: nodehealth.Marked, mark: "m",
		},

		"cut off, not probed yet": {state: known(cutOff("a")), reason: nodehealth.Serving, ready: 1},
		"cut off, probe fails": {
			state: with(known(cutOff("a")), func(s *nodehealth.State) {
				s.Probed, s.Proven = map[nodehealth.Container]bool{app: false}, map[nodehealth.Container]bool{app: true}
			}),
			reason: nodehealth.TooFewPodsReady,
		},
		"cut off, probe passes": {
			state:  with(known(cutOff("a")), func(s *nodehealth.State) { s.Probed = map[nodehealth.Container]bool{app: true} }),
			reason: nodehealth.Serving, ready: 1,
		},
		"cut off, a readiness gate fails": {
			state:  known(with(cutOff("a"), func(p *nodehealth.Pod) { p.GatesPassed = false })),
			reason: nodehealth.TooFewPodsReady,
		},

		"API server away, not probed yet": {
			state:  with(known(pod("a")), func(s *nodehealth.State) { s.Probing = true }),
			reason: nodehealth.Serving, ready: 1,
		},
		"API server away, probe fails": {
			state: with(known(pod("a")), func(s *nodehealth.State) {
				s.Probing, s.Probed, s.Proven = true, map[nodehealth.Container]bool{app: false}, map[nodehealth.Container]bool{app: true}
			}),
			reason: nodehealth.TooFewPodsReady,
		},
		"API server away, a probe fails that never passed": {
			state: with(known(pod("a")), func(s *nodehealth.State) {
				s.Probing, s.Probed = true, map[nodehealth.Container]bool{app: false}
			}),
			reason: nodehealth.Serving, ready: 1,
		},
		"API server away, a probe fails that never passed, as the kubelet's does": {
			state: with(known(unready("a")), func(s *nodehealth.State) {
				s.Probing, s.Probed = true, map[nodehealth.Container]bool{app: false}
			}),
			reason: nodehealth.TooFewPodsReady,
		},
		"restarted without API server, a probe fails that never passed": {
			state: with(known(pod("a")), func(s *nodehealth.State) {
				s.Probing, s.Cold, s.Probed = true, true, map[nodehealth.Container]bool{app: false}
			}),
			reason: nodehealth.TooFewPodsReady,
		},
		"API server away, probe passes on a pod that was not ready": {
			state: with(known(unready("a")), func(s *nodehealth.State) {
				s.Probing, s.Probed = true, map[nodehealth.Container]bool{app: true}
			}),
			reason: nodehealth.Serving, ready: 1,
		},
		"API server away, second container not ready and cannot be probed": {
			state: with(known(with(unready("a"), func(p *nodehealth.Pod) {
				p.Containers = append(p.Containers, nodehealth.ContainerState{Name: "exec"})
			})), func(s *nodehealth.State) {
				s.Probing, s.Probed = true, map[nodehealth.Container]bool{app: true}
			}),
			reason: nodehealth.TooFewPodsReady,
		},
		"API server away, a readiness gate fails": {
			state: with(known(with(pod("a"), func(p *nodehealth.Pod) { p.GatesPassed = false })), func(s *nodehealth.State) {
				s.Probing, s.Probed = true, map[nodehealth.Container]bool{app: true}
			}),
			reason: nodehealth.TooFewPodsReady,
		},

		"stored, not probed yet": {
			state:  with(known(pod("a")), func(s *nodehealth.State) { s.Cold = true }),
			reason: nodehealth.TooFewPodsReady,
		},
		"stored, probe passes": {
			state: with(known(pod("a")), func(s *nodehealth.State) {
				s.Cold, s.Probed = true, map[nodehealth.Container]bool{app: true}
			}),
			reason: nodehealth.Serving, ready: 1,
		},
		"stored, nothing to probe": {
			state: with(known(with(pod("a"), func(p *nodehealth.Pod) { p.Containers[0].Probe = nil })), func(s *nodehealth.State) {
				s.Cold = true
			}),
			reason: nodehealth.Serving, ready: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := nodehealth.Decide(test.state)
			got.Message = ""
			want := v1alpha1.HealthCheckAnswer{
				Serving: test.reason == nodehealth.Serving, Reason: test.reason, Mark: test.mark,
				ReadyPods: test.ready, Node: test.state.Node,
			}
			if test.state.Deployment != nil {
				want.WantedPods = test.state.Deployment.Wanted
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMessageSaysWhoJudged(t *testing.T) {
	s := known(pod("a"))
	if got, want := nodehealth.Decide(s).Message, "ready pods: 1, wanted: 1"; got != want {
		t.Errorf("message is %q, want %q", got, want)
	}
	s.Probing = true
	want := "ready pods: 1, wanted: 1; found by the health checker's own probes, because the API server is away or was a moment ago"
	if got := nodehealth.Decide(s).Message; got != want {
		t.Errorf("message is %q, want %q", got, want)
	}
}

func anyPod(t *rapid.T) nodehealth.Pod {
	flag := func(label string) bool { return rapid.Bool().Draw(t, label) }
	p := nodehealth.Pod{
		UID:     types.UID(rapid.StringMatching(`[a-d]`).Draw(t, "uid")),
		IP:      rapid.SampledFrom([]string{"", "10.0.0.1"}).Draw(t, "ip"),
		Leaving: flag("leaving"), Ready: flag("ready"), ContainersReady: flag("containersReady"), GatesPassed: flag("gates"),
	}
	for _, name := range []string{"app", "sidecar"}[:rapid.IntRange(0, 2).Draw(t, "containers")] {
		c := nodehealth.ContainerState{Name: name, Ready: flag("container ready")}
		if flag("probe") {
			c.Probe = tcpProbe
		}
		p.Containers = append(p.Containers, c)
	}
	return p
}

func anyState(t *rapid.T) nodehealth.State {
	s := nodehealth.State{
		Node:    "n1",
		Known:   rapid.Bool().Draw(t, "known"),
		Probing: rapid.Bool().Draw(t, "probing"),
		Cold:    rapid.Bool().Draw(t, "cold"),
		Probed:  map[nodehealth.Container]bool{},
		Proven:  map[nodehealth.Container]bool{app: rapid.Bool().Draw(t, "proven")},
	}
	if !s.Known || rapid.IntRange(0, 9).Draw(t, "missing") == 0 {
		return s
	}
	s.Deployment = &nodehealth.Deployment{
		Terminating: rapid.IntRange(0, 4).Draw(t, "terminating") == 0,
		Wanted:      rapid.Int32Range(0, 3).Draw(t, "wanted"),
	}
	if rapid.IntRange(0, 3).Draw(t, "marked") == 0 {
		s.Deployment.Mark = new(v1alpha1.Mark(rapid.String().Draw(t, "mark")))
	}
	s.Pods = rapid.SliceOfN(rapid.Custom(anyPod), 0, 4).Draw(t, "pods")
	for _, target := range nodehealth.Targets(s) {
		if rapid.Bool().Draw(t, "probed") {
			s.Probed[target.Container] = rapid.Bool().Draw(t, "result")
		}
	}
	return s
}

func TestServesOnlyWithEnoughPodsAndNoUpdateScheduled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyState(t)
		got := nodehealth.Decide(s)
		could := s.Deployment != nil && s.Deployment.Mark == nil && !s.Deployment.Terminating && s.Deployment.Wanted > 0
		if want := could && got.ReadyPods >= s.Deployment.Wanted; got.Serving != want {
			t.Fatalf("serving is %t, want %t: %+v", got.Serving, want, got)
		}
		if s.Deployment != nil && s.Deployment.Mark != nil && got.Mark != string(*s.Deployment.Mark) {
			t.Fatalf("mark %q is repeated as %q", *s.Deployment.Mark, got.Mark)
		}
	})
}

func TestFurtherPodNeverFailsIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyState(t)
		before := nodehealth.Decide(s)
		surge := anyPod(t)
		surge.UID = "surge"
		s.Pods = append(s.Pods, surge)
		if after := nodehealth.Decide(s); before.Serving && !after.Serving {
			t.Fatalf("one more pod turned %+v into %+v", before, after)
		}
	})
}

func TestPodThatLeavesNeverCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyState(t)
		for i := range s.Pods {
			s.Pods[i].Leaving = true
		}
		if got := nodehealth.Decide(s); got.ReadyPods != 0 || got.Serving {
			t.Fatalf("leaving pods count: %+v", got)
		}
		if targets := nodehealth.Targets(s); targets != nil {
			t.Fatalf("leaving pods are probed: %v", targets)
		}
	})
}

func TestFailedProbeCountsAndPassedOneNeverHarms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyState(t)
		targets := nodehealth.Targets(s)
		if len(targets) == 0 {
			return
		}
		probed := targets[0].Container
		s.Probed[probed] = false
		failed := nodehealth.Decide(s)
		s.Probed[probed] = true
		if passed := nodehealth.Decide(s); passed.ReadyPods < failed.ReadyPods {
			t.Fatalf("a passed probe made %d of %d ready pods", passed.ReadyPods, failed.ReadyPods)
		}
	})
}

func TestStateSurvivesStorage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyState(t)
		s.Probing, s.Cold, s.Probed = false, false, nil
		s.LostAt = time.Unix(rapid.Int64Range(0, 1e9).Draw(t, "lostAt"), 0).UTC()
		stored, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var loaded nodehealth.State
		if err := json.Unmarshal(stored, &loaded); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(nodehealth.Decide(s), nodehealth.Decide(loaded)); diff != "" {
			t.Fatal(diff)
		}
		if !loaded.LostAt.Equal(s.LostAt) {
			t.Fatalf("lost at %v became %v", s.LostAt, loaded.LostAt)
		}
	})
}
