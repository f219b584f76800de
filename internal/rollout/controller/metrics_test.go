package controller

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// TestMeasure reports a decision, and forgets the IngressDaemonSet.
func TestMeasure(t *testing.T) {
	set := types.NamespacedName{Namespace: "measured", Name: "proxy"}
	session := newSessions(time.Now).of(set)
	session.count(true, v1alpha1.IngressDaemonSetStatus{
		ServingNodes: 3, DegradedNodes: 1, UnavailableNodes: 2, UpdatedNodes: 4, Wave: []string{"a", "b"},
		Conditions: []metav1.Condition{{Type: "Available", Status: "True", Reason: "NodesServing"}, {Type: "Blocked", Status: "False", Reason: "AsExpected"}},
	}, []rollout.Step{{Action: rollout.Mark}, {Action: rollout.Mark}, {Action: rollout.DeletePods, Pods: []string{"x", "y", "z"}}}, time.Millisecond)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	state := rollout.State{Now: at.Add(time.Minute), Status: v1alpha1.IngressDaemonSetStatus{Wave: []string{"a", "b", "c", "e"}}, Nodes: []rollout.Node{
		{Name: "a", Wanted: true, Deployment: &rollout.Deployment{Mark: v1alpha1.NewMark(at, "r", "")}},
		{Name: "b", Wanted: true, Deployment: &rollout.Deployment{Mark: v1alpha1.NewMark(at, "r", ""), UpdatedAt: at.Add(time.Second)}},
		{Name: "c", Wanted: true, Deployment: &rollout.Deployment{AttachedAt: at}},
		{Name: "d", Wanted: true, Deployment: &rollout.Deployment{AttachedAt: at}},
		{Name: "e", Wanted: true, Deployment: &rollout.Deployment{AttachedAt: at, EmptyMark: true}},
	}}
	timeDetachments(set, state, []rollout.Step{{Action: rollout.Update, Node: "a"}, {Action: rollout.Update, Node: "b"}})
	timeAttachments(set, state, v1alpha1.IngressDaemonSetStatus{Wave: []string{"a", "b"}})
	for i, underWay := range []bool{false, true, true, false, false, true} {
		session.tick(underWay, at.Add(time.Duration(i)*time.Second))
	}
	want := map[string]float64{
		"ingressdaemonset_wave_seconds":   1,
		"ingressdaemonset_detach_seconds": 1, "ingressdaemonset_attach_seconds": 1,
		"ingressdaemonset_nodes serving": 3, "ingressdaemonset_nodes degraded": 1, "ingressdaemonset_nodes unavailable": 2,
		"ingressdaemonset_updated_nodes": 4, "ingressdaemonset_wave_nodes": 2, "ingressdaemonset_paused": 1,
		"ingressdaemonset_condition Available NodesServing": 1, "ingressdaemonset_condition Blocked AsExpected": 0,
		"ingressdaemonset_steps_total Mark": 2, "ingressdaemonset_steps_total DeletePods": 1,
		"ingressdaemonset_rejected_pods_total": 3, "ingressdaemonset_plan_seconds": 1,
	}
	if diff := cmp.Diff(want, gathered(t, "measured")); diff != "" {
		t.Error(diff)
	}
	unmeasure(set)
	if left := gathered(t, "measured"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestConditionsHaveOneReason: a condition is reported under its present reason, and under no other any more.
func TestConditionsHaveOneReason(t *testing.T) {
	session := newSessions(time.Now).of(types.NamespacedName{Namespace: "reasons", Name: "proxy"})
	t.Cleanup(func() { unmeasure(session.key) })
	for _, c := range []metav1.Condition{
		{Type: "Progressing", Status: "True", Reason: "RollingOut"},
		{Type: "Progressing", Status: "False", Reason: "Paused"},
		{Type: "Progressing", Status: "False", Reason: "Paused"},
		{Type: "Blocked", Status: "True", Reason: "FloorReached"},
		{Type: "Progressing", Status: "True", Reason: "Complete"},
	} {
		session.count(false, v1alpha1.IngressDaemonSetStatus{Conditions: []metav1.Condition{c}}, nil, 0)
		value, reported := 0.0, map[string]float64{}
		if c.Status == metav1.ConditionTrue {
			value = 1
		}
		for name, v := range gathered(t, "reasons") {
			if strings.HasPrefix(name, "ingressdaemonset_condition "+c.Type+" ") {
				reported[name] = v
			}
		}
		if diff := cmp.Diff(map[string]float64{"ingressdaemonset_condition " + c.Type + " " + c.Reason: value}, reported); diff != "" {
			t.Errorf("%s %s %s (-want +got)\n%s", c.Type, c.Status, c.Reason, diff)
		}
	}
}

// TestBuildIsReported: whoever scrapes finds which version runs.
func TestBuildIsReported(t *testing.T) {
	t.Cleanup(buildGauge.Reset)
	countBuild("v1.2.3")
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "ingressdaemonset_build_info" {
			continue
		}
		labels := map[string]string{}
		for _, l := range family.Metric[0].Label {
			labels[l.GetName()] = l.GetValue()
		}
		want := map[string]string{"version": "v1.2.3", "goversion": runtime.Version()}
		if diff := cmp.Diff(want, labels); diff != "" || len(family.Metric) != 1 || family.Metric[0].GetGauge().GetValue() != 1 {
			t.Errorf("%v\n%s", family, diff)
		}
		return
	}
	t.Error("it is not reported")
}

// gathered are the values of a namespace by metric and own label, of histograms
// the number of observations.
func gathered(t *testing.T, namespace string) map[string]float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range families {
		for _, m := range family.Metric {
			key, ours := family.GetName(), false
			for _, l := range m.Label {
				switch l.GetName() {
				case "namespace":
					ours = l.GetValue() == namespace
				case "name":
				default:
					key += " " + l.GetValue()
				}
			}
			if ours {
				out[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return out
}
