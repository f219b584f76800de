package controller

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/golden"
	"sigs.k8s.io/yaml"
)

// What is made of the metrics for Prometheus and Grafana; -update rewrites it.
const monitoring = "../../../config/monitoring"

type alert struct {
	name, expr, wait, severity, summary string
}

// alerts are what somebody should look at. That they fire is tested with promtool
// in test/e2e.
var alerts = []alert{
	{"IngressDaemonSetNotAvailable", reported.name + `{condition="Available"} == 0`, "1m", "critical",
		"IngressDaemonSet {{ $labels.namespace }}/{{ $labels.name }} has fewer serving nodes than minServingNodes."},
	{"IngressDaemonSetStandsStill", reported.name + `{condition="Progressing"} == 0`, "5m", "warning",
		"The rollout of IngressDaemonSet {{ $labels.namespace }}/{{ $labels.name }} stands still: it is paused, halted, rolled back, or takes longer than its deadline."},
	{"IngressDaemonSetBlocked", reported.name + `{condition="Blocked"} == 1`, "15m", "warning",
		"Something must change before the rollout of IngressDaemonSet {{ $labels.namespace }}/{{ $labels.name }} can go on."},
	{"IngressDaemonSetDegraded", reported.name + `{condition="Degraded"} == 1`, "15m", "warning",
		"A node of IngressDaemonSet {{ $labels.namespace }}/{{ $labels.name }} that should serve does not."},
	{"IngressDaemonSetPodsRejected", "increase(" + rejected.name + "[15m]) > 0", "15m", "warning",
		"A kubelet goes on rejecting pods of IngressDaemonSet {{ $labels.namespace }}/{{ $labels.name }}."},
	{"IngressDaemonSetHealthChecksFlap", "increase(" + flips.name + "[15m]) > 6 * sum without (state) (" + nodes.name + ")", "15m", "warning",
		"Health checks of IngressDaemonSet {{ $labels.namespace }}/{{ $labels.name }} go on changing more often than a rollout makes them."},
}

// rule is a PrometheusRule of the Prometheus operator.
func rule(t *testing.T) string {
	var rules []map[string]any
	for _, a := range alerts {
		rules = append(rules, map[string]any{
			"alert": a.name, "expr": a.expr, "for": a.wait,
			"labels": map[string]string{"severity": a.severity},
			"annotations": map[string]string{
				"summary": a.summary, "description": "kubectl ids status -n {{ $labels.namespace }} {{ $labels.name }} says why.",
			},
		})
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
		"metadata": map[string]any{"name": "ingress-daemonset-controller", "namespace": "ingress-daemonset-system"},
		"spec":     map[string]any{"groups": []any{map[string]any{"name": "ingress-daemonset-controller", "rules": rules}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return "# Generated from the list of metrics: go test ./internal/rollout/controller -run Monitoring -update\n" + string(text)
}

// dashboard is one of Grafana, with a panel for each metric.
func dashboard(t *testing.T) string {
	const height, width, columns = 8, 12, 2
	const ofSet = `{namespace=~"$namespace",name=~"$name"}`
	var panels []map[string]any
	for i, m := range ofEach {
		by := strings.Join(m.all(), ", ")
		targets := map[string][]map[string]any{
			"gauge":   {{"expr": fmt.Sprintf("sum by (%s) (%s%s)", by, m.name, ofSet)}},
			"counter": {{"expr": fmt.Sprintf("sum by (%s) (rate(%s%s[$__rate_interval]))", by, m.name, ofSet)}},
			"histogram": {
				{"expr": fmt.Sprintf("histogram_quantile(0.5, sum by (le, %s) (rate(%s_bucket%s[$__rate_interval])))", by, m.name, ofSet), "legendFormat": "median"},
				{"expr": fmt.Sprintf("histogram_quantile(0.99, sum by (le, %s) (rate(%s_bucket%s[$__rate_interval])))", by, m.name, ofSet), "legendFormat": "99%"},
			},
		}[m.kind]
		unit := map[bool]string{true: "s", false: "short"}[strings.HasSuffix(m.name, "_seconds")]
		if m.kind == "counter" {
			unit = "cps"
		}
		for j := range targets {
			targets[j]["refId"] = string(rune('A' + j))
		}
		panels = append(panels, map[string]any{
			"id": i + 1, "type": "timeseries", "title": m.name, "description": m.help, "targets": targets,
			"datasource":  map[string]string{"type": "prometheus", "uid": "$datasource"},
			"fieldConfig": map[string]any{"defaults": map[string]any{"unit": unit, "min": 0}},
			"gridPos":     map[string]int{"h": height, "w": width, "x": i % columns * width, "y": i / columns * height},
		})
	}
	variable := func(name string) map[string]any {
		return map[string]any{
			"name": name, "type": "query", "datasource": map[string]string{"type": "prometheus", "uid": "$datasource"},
			"query": fmt.Sprintf("label_values(%s, %s)", nodes.name, name), "includeAll": true, "multi": true, "refresh": 2,
		}
	}
	text, err := json.MarshalIndent(map[string]any{
		"title": "IngressDaemonSets", "uid": "ingressdaemonsets", "schemaVersion": 39, "refresh": "10s",
		"time":       map[string]string{"from": "now-1h", "to": "now"},
		"templating": map[string]any{"list": []any{map[string]any{"name": "datasource", "type": "datasource", "query": "prometheus"}, variable("namespace"), variable("name")}},
		"panels":     panels,
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

// TestMonitoring: alerts and dashboard name the metrics that are reported.
func TestMonitoring(t *testing.T) {
	for name, want := range map[string]string{"alerts.yaml": rule(t), "dashboard.json": dashboard(t)} {
		golden.Equal(t, *update, filepath.Join(monitoring, name), want)
	}
}
