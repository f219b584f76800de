package controller

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/golden"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// TestMetricsReference: what is documented is what is reported.
func TestMetricsReference(t *testing.T) {
	const file = "../../../docs/reference/metrics.md"
	var b strings.Builder
	b.WriteString("# Metrics\n\nThe controller reports these at `/metrics` beside those of controller-runtime.\n\n<!-- go test ./internal/rollout/controller -run MetricsReference -update -->\n| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n")
	for _, m := range ofEach {
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s |\n", m.name, m.kind, strings.Join(m.all(), "`, `"), m.help)
	}
	b.WriteString("\nMade of the same list: [alerts](../../config/monitoring/alerts.yaml), a PrometheusRule, and a\n[dashboard](../../config/monitoring/dashboard.json) for Grafana.\n")
	golden.Equal(t, *update, file, b.String())
}

// TestMeasure reports a decision, and forgets the IngressDaemonSet.
func TestMeasure(t *testing.T) {
	set := types.NamespacedName{Namespace: "measured", Name: "proxy"}
	count(set, v1alpha1.IngressDaemonSetStatus{
		ServingNodes: 3, DegradedNodes: 1, UnavailableNodes: 2, UpdatedNodes: 4, Wave: []string{"a", "b"},
		Conditions: []metav1.Condition{{Type: "Available", Status: "True"}, {Type: "Blocked", Status: "False"}},
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
	clock := session{key: set}
	for i, underWay := range []bool{false, true, true, false, false, true} {
		clock.tick(underWay, at.Add(time.Duration(i)*time.Second))
	}
	want := map[string]float64{
		"ingressdaemonset_wave_seconds":   1,
		"ingressdaemonset_detach_seconds": 1, "ingressdaemonset_attach_seconds": 1,
		"ingressdaemonset_nodes serving": 3, "ingressdaemonset_nodes degraded": 1, "ingressdaemonset_nodes unavailable": 2,
		"ingressdaemonset_updated_nodes": 4, "ingressdaemonset_wave_nodes": 2,
		"ingressdaemonset_condition Available": 1, "ingressdaemonset_condition Blocked": 0,
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
