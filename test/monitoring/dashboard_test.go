package monitoring

import (
	"encoding/json"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/golden"
)

var update = flag.Bool("update", false, "rewrite config/monitoring/dashboard.json and testdata")

// query is what a panel asks.
type query struct {
	expr string
	// legend names a series by its labels. A table has none: labels are columns of it.
	legend string
}

// panel is a picture of what its queries find.
type panel struct {
	// kind is Grafana's name of how it is drawn, unit that of its values.
	kind, title, about, unit string
	// width is in columns, of which there are 24.
	width int
	// stacked puts what its queries find on top of each other.
	stacked bool
	queries []query
	// columns name those of a table, in their order, as Grafana calls them and as they are shown.
	columns [][2]string
}

// row is a question of whoever looks, and the panels that answer it.
type row struct {
	question string
	height   int
	panels   []panel
}

const (
	ofSet = `namespace=~"$namespace",name=~"$name"`
	bySet = "namespace, name"
	set   = "{{namespace}}/{{name}}"
	// leads is 1 for a controller that leads, and 0 for one that waits.
	leads = "leader_election_master_status and on (job, instance) ingressdaemonset_build_info"
)

// rows are the dashboard, from what is asked first on.
var rows = []row{
	{"Is all well?", 4, []panel{
		{kind: "stat", title: "Nodes", width: 8, about: "Nodes of all fleets: serving, degraded or unavailable.", queries: []query{
			{"sum by (state) (ingressdaemonset_nodes{" + ofSet + "})", "{{state}}"},
		}},
		{kind: "stat", title: "Under way", width: 3, about: "Nodes that have their turn now.", queries: []query{
			{"sum(ingressdaemonset_wave_nodes{" + ofSet + "})", "nodes"},
		}},
		{kind: "stat", title: "Rollouts that stand", width: 4, about: "Fleets whose rollout stands still, those that somebody paused apart.", queries: []query{
			{"count(max by (" + bySet + ") (ingressdaemonset_condition{condition=\"Progressing\"," + ofSet + "}) == 0 unless max by (" + bySet + ") (ingressdaemonset_paused) == 1) or vector(0)", "stand still"},
			{"sum(max by (" + bySet + ") (ingressdaemonset_paused{" + ofSet + "}))", "paused"},
		}},
		{kind: "stat", title: "Targets", width: 5, about: "Targets of all groups, by their health as the cloud calls it.", queries: []query{
			{"sum by (health) (ingressdaemonset_group_targets) > 0", "{{health}}"},
		}},
		{kind: "stat", title: "Controllers", width: 4, about: "Controllers that run, and those that lead: one, or where --leader-elect is not set none.", queries: []query{
			{"count(ingressdaemonset_build_info)", "run"},
			{"sum(" + leads + ")", "lead"},
		}},
	}},
	{"Which fleet, and why?", 8, []panel{
		{kind: "table", title: "Fleets", width: 24, about: "Each fleet, how far its rollout is, and why it is no further. kubectl ids status says it of each node.", queries: []query{
			{"sum by (" + bySet + ") (ingressdaemonset_nodes{" + ofSet + "})", ""},
			{"sum by (" + bySet + ") (ingressdaemonset_nodes{state=\"serving\"," + ofSet + "})", ""},
			{"sum by (" + bySet + ") (ingressdaemonset_updated_nodes{" + ofSet + "})", ""},
			{"sum by (" + bySet + ") (ingressdaemonset_wave_nodes{" + ofSet + "})", ""},
			{why("Progressing", "rollout", ""), ""},
			{why("Blocked", "blocked", " == 1"), ""},
			{why("Degraded", "degraded", " == 1"), ""},
		}, columns: [][2]string{
			{"namespace", "namespace"}, {"name", "fleet"}, {"Value #A", "nodes"}, {"Value #B", "serving"}, {"Value #C", "updated"}, {"Value #D", "under way"},
			{"rollout", "rollout"}, {"blocked", "blocked by"}, {"degraded", "degraded by"},
		}},
	}},
	{"What serves?", 8, []panel{
		{kind: "timeseries", title: "Nodes by state", width: 12, stacked: true, about: "What a rollout takes out comes back.", queries: []query{
			{"sum by (state) (ingressdaemonset_nodes{" + ofSet + "})", "{{state}}"},
		}},
		{kind: "timeseries", title: "Healthy targets of each group", width: 12, about: "Targets that their load balancer sends traffic to.", queries: []query{
			{"max by (group) (ingressdaemonset_group_targets{health=\"healthy\"})", "{{group}}"},
		}},
	}},
	{"What moves?", 8, []panel{
		{kind: "timeseries", title: "Updated nodes", width: 6, about: "Nodes whose Deployment has the present template, of each fleet.", queries: []query{
			{"sum by (" + bySet + ") (ingressdaemonset_updated_nodes{" + ofSet + "})", set},
		}},
		{kind: "timeseries", title: "Nodes under way", width: 6, about: "Nodes that have their turn, of each fleet.", queries: []query{
			{"sum by (" + bySet + ") (ingressdaemonset_wave_nodes{" + ofSet + "})", set},
		}},
		{kind: "timeseries", title: "Nodes out of their load balancers", width: 6, about: "With --detach: nodes on the way out, out, and on the way back. Those that are held are to be out, and too few others are attached.", queries: []query{
			{"max by (station) (ingressdaemonset_detaching_nodes)", "{{station}}"},
		}},
		{kind: "timeseries", title: "Steps", width: 6, about: "What the controller writes, by action.", unit: "cps", queries: []query{
			{"sum by (action) (rate(ingressdaemonset_steps_total{" + ofSet + "}[$__rate_interval]))", "{{action}}"},
		}},
	}},
	{"What waits, and why?", 8, []panel{
		{kind: "state-timeline", title: "Conditions that are not as they should be", width: 10, about: "Why a rollout stood still, was blocked or paused, and since when.", queries: []query{
			{"max by (" + bySet + ", reason) (ingressdaemonset_condition{condition=\"Available\"," + ofSet + "} == 0) + 1", set + " not available: {{reason}}"},
			{"max by (" + bySet + ", reason) (ingressdaemonset_condition{condition=\"Progressing\"," + ofSet + "} == 0) + 1", set + " stands: {{reason}}"},
			{"max by (" + bySet + ", condition, reason) (ingressdaemonset_condition{condition=~\"Blocked|Degraded|Warning\"," + ofSet + "} == 1)", set + " {{condition}}: {{reason}}"},
		}},
		{kind: "state-timeline", title: "TargetGroupAttachments that are not ready", width: 7, about: "What is stalled waits for somebody, what is reconciling for targets; and why.", queries: []query{
			{"max by (" + bySet + ", condition, reason) (ingressdaemonset_group_attachment_condition{condition=~\"Stalled|Reconciling\"} == 1)", set + " {{condition}}: {{reason}}"},
		}},
		{kind: "timeseries", title: "Rejected pods, and health checks that flap", width: 7, about: "Pods that kubelets reject, and changes of health checks: two a node and turn are a rollout's.", unit: "cps", queries: []query{
			{"sum by (" + bySet + ") (rate(ingressdaemonset_rejected_pods_total{" + ofSet + "}[$__rate_interval]))", set + " rejected"},
			{"sum by (" + bySet + ") (rate(ingressdaemonset_health_check_flips_total{" + ofSet + "}[$__rate_interval]))", set + " changes"},
		}},
	}},
	{"How long does it take?", 7, []panel{
		{kind: "timeseries", title: "Until pods are replaced", width: 6, about: "From the mark of a node: graces, health checkers, detacher.", unit: "s", queries: quantiles("ingressdaemonset_detach_seconds", "{"+ofSet+"}", "")},
		{kind: "timeseries", title: "Until nodes serve again", width: 6, about: "From the removal of their mark.", unit: "s", queries: quantiles("ingressdaemonset_attach_seconds", "{"+ofSet+"}", "")},
		{kind: "timeseries", title: "Under way without a break", width: 6, about: "While status.wave names a node, of each fleet.", unit: "s", queries: quantiles("ingressdaemonset_wave_seconds", "{"+ofSet+"}", "")},
		{kind: "timeseries", title: "Out of load balancers, and back", width: 6, about: "With --detach: from the first step of a node to the last; and of those that are under way now the longest.", unit: "s", queries: append(quantiles("ingressdaemonset_node_move_seconds", "", "to"),
			query{"max by (station) (ingressdaemonset_longest_move_seconds)", "{{station}}, the longest now"})},
	}},
	{"How is the controller, and the cloud?", 7, []panel{
		{kind: "timeseries", title: "Calls to the cloud", width: 6, about: "By kind and outcome. Failed and Throttled are tried again.", unit: "cps", queries: []query{
			{"sum by (kind, outcome) (rate(ingressdaemonset_cloud_calls_total[$__rate_interval]))", "{{kind}} {{outcome}}"},
		}},
		{kind: "timeseries", title: "Passes over all target groups", width: 6, about: "Above 5 s nothing is registered or taken out.", unit: "s", queries: quantiles("ingressdaemonset_targets_pass_seconds", "", "")},
		{kind: "timeseries", title: "Decisions about rollouts", width: 6, about: "How long it takes to decide what to do next.", unit: "s", queries: quantiles("ingressdaemonset_plan_seconds", "{"+ofSet+"}", "")},
		{kind: "timeseries", title: "Versions", width: 6, about: "Controllers that run, by version.", queries: []query{
			{"count by (version) (ingressdaemonset_build_info)", "{{version}}"},
		}},
	}},
	// What there is of it where the proxies' metrics are scraped as docs/reference/metrics.md says.
	{"How are the proxies that come with the controller?", 7, []panel{
		{kind: "timeseries", title: "Requests", width: 6, stacked: true, about: "By the status that clients got, and apart what proxies answered themselves: 499 are clients that left.", unit: "reqps", queries: []query{
			{"sum by (code) (rate(ingressdaemonset_proxy_requests_total[$__rate_interval]))", "{{code}}"},
			{"sum by (code) (rate(ingressdaemonset_proxy_own_answers_total[$__rate_interval]))", "{{code}} of a proxy's own"},
		}},
		{kind: "timeseries", title: "How long requests take", width: 4, about: "From their head to the end of the response.", unit: "s", queries: quantiles("ingressdaemonset_proxy_request_seconds", "", "")},
		{kind: "timeseries", title: "Tries that fail", width: 6, about: "By how far they had come; those that were made again, or not since there were too many; and responses that broke off.", unit: "cps", queries: []query{
			{"sum by (failure) (rate(ingressdaemonset_proxy_failed_tries_total[$__rate_interval]))", "{{failure}}"},
			{"sum(rate(ingressdaemonset_proxy_retries_total[$__rate_interval]))", "made again"},
			{"sum(rate(ingressdaemonset_proxy_retries_refused_total[$__rate_interval]))", "too many to be made again"},
			{"sum(rate(ingressdaemonset_proxy_broken_responses_total[$__rate_interval]))", "broken off"},
		}},
		{kind: "timeseries", title: "Under way", width: 4, about: "Connections of clients, and requests.", queries: []query{
			{"sum(ingressdaemonset_proxy_connections)", "connections"},
			{"sum(ingressdaemonset_proxy_requests)", "requests"},
		}},
		{kind: "timeseries", title: "Proxies", width: 4, about: "Those that run and those that a controller tells what to serve; those that do not answer the others of their node; resources that they refuse; and streams that were not let in.", queries: []query{
			{"count(ingressdaemonset_proxy_build_info)", "run"},
			{"sum(ingressdaemonset_proxy_connected)", "told"},
			{"sum(ingressdaemonset_proxy_node_processes - ingressdaemonset_proxy_node_processes_answered)", "do not answer"},
			{"sum(ingressdaemonset_proxy_refused_resources)", "resources refused"},
			{"sum(increase(ingressdaemonset_streams_not_let_in_total[$__rate_interval]))", "not let in"},
		}},
	}},
}

// why has the reason of a condition as a column of its own in a table.
func why(condition, column, where string) string {
	return fmt.Sprintf(`max by (%s, %s) (label_replace(ingressdaemonset_condition{condition="%s",%s}%s, "%s", "$1", "reason", "(.*)"))`,
		bySet, column, condition, ofSet, where, column)
}

// quantiles are the median and the slowest of a hundred, by a label unless that is empty.
func quantiles(histogram, of, by string) (out []query) {
	labels, legend := "le", ""
	if by != "" {
		labels, legend = "le, "+by, "{{"+by+"}}, "
	}
	for _, q := range [][2]string{{"0.5", "median"}, {"0.99", "99%"}} {
		out = append(out, query{fmt.Sprintf("histogram_quantile(%s, sum by (%s) (rate(%s_bucket%s[$__rate_interval])))", q[0], labels, histogram, of), legend + q[1]})
	}
	return out
}

type object = map[string]any

var datasource = object{"type": "prometheus", "uid": "$datasource"}

// colours are those of what a series is called, by itself or by a label.
var colours = []struct{ label, series, colour string }{
	{"{{state}}", "serving", "green"}, {"{{state}}", "degraded", "orange"}, {"{{state}}", "unavailable", "red"},
	{"{{health}}", "healthy", "green"}, {"{{health}}", "initial", "blue"}, {"{{health}}", "draining", "blue"}, {"{{health}}", "unhealthy", "red"},
	{"", "stand still", "red"}, {"", "paused", "orange"},
}

// draw is a panel as Grafana has it.
func (p panel) draw(id int, at object) object {
	out := object{
		"id": id, "type": p.kind, "title": p.title, "description": p.about, "datasource": datasource, "gridPos": at,
		"targets": p.targets(), "fieldConfig": object{"defaults": p.defaults(), "overrides": p.overrides()}, "options": p.options(),
	}
	if len(p.columns) > 0 {
		out["transformations"] = p.transformations()
	}
	return out
}

func (p panel) targets() (out []object) {
	now := p.kind == "stat" || p.kind == "table"
	format := "time_series"
	if p.kind == "table" {
		format = "table"
	}
	for i, q := range p.queries {
		out = append(out, object{
			"refId": string(rune('A' + i)), "datasource": datasource, "expr": q.expr, "legendFormat": q.legend,
			"instant": now, "range": !now, "format": format,
		})
	}
	return out
}

func (p panel) defaults() object {
	out := object{"min": 0, "unit": "short"}
	if p.unit != "" {
		out["unit"] = p.unit
	}
	switch {
	case p.stacked:
		out["custom"] = object{"fillOpacity": 60, "lineWidth": 1, "stacking": object{"mode": "normal", "group": "A"}}
	case p.kind == "state-timeline":
		out["color"] = object{"mode": "fixed", "fixedColor": "orange"}
		out["custom"] = object{"fillOpacity": 80, "lineWidth": 0}
	}
	return out
}

func (p panel) options() object {
	switch p.kind {
	case "stat":
		return object{"colorMode": "value", "graphMode": "none", "textMode": "value_and_name", "reduceOptions": object{"calcs": []string{"lastNotNull"}}}
	case "state-timeline":
		return object{"mergeValues": true, "showValue": "never", "legend": object{"showLegend": false}}
	}
	return object{}
}

// overrides colour the series of a panel whose legends may be a name that has a colour.
func (p panel) overrides() []object {
	out := []object{}
	for _, c := range colours {
		if !slices.ContainsFunc(p.queries, func(q query) bool { return q.legend == c.series || c.label != "" && q.legend == c.label }) {
			continue
		}
		out = append(out, object{
			"matcher":    object{"id": "byName", "options": c.series},
			"properties": []object{{"id": "color", "value": object{"mode": "fixed", "fixedColor": c.colour}}},
		})
	}
	return out
}

// transformations make one table of what the queries find, a row for each fleet.
func (p panel) transformations() []object {
	names, order, hidden := object{}, object{}, object{"Time": true}
	for i := range p.queries {
		hidden["Value #"+string(rune('A'+i))] = true
	}
	for i, c := range p.columns {
		names[c[0]], order[c[0]] = c[1], i
		delete(hidden, c[0])
	}
	return []object{
		{"id": "merge", "options": object{}},
		{"id": "organize", "options": object{"excludeByName": hidden, "renameByName": names, "indexByName": order}},
	}
}

// variable is one of what the dashboard is about, chosen by whoever looks.
func variable(label string) object {
	return object{
		"name": label, "type": "query", "datasource": datasource, "query": fmt.Sprintf("label_values(ingressdaemonset_nodes, %s)", label),
		"includeAll": true, "multi": true, "refresh": 2, "current": object{"text": "All", "value": "$__all"},
	}
}

// dashboard is all of it, as Grafana imports it.
func dashboard() object {
	var panels []object
	y := 0
	for _, r := range rows {
		panels = append(panels, object{
			"id": len(panels) + 1, "type": "row", "title": r.question, "collapsed": false, "panels": []object{}, "gridPos": object{"h": 1, "w": 24, "x": 0, "y": y},
		})
		x := 0
		for _, p := range r.panels {
			panels = append(panels, p.draw(len(panels)+1, object{"h": r.height, "w": p.width, "x": x, "y": y + 1}))
			x += p.width
		}
		y += 1 + r.height
	}
	return object{
		"title": "IngressDaemonSets", "uid": "ingressdaemonsets", "schemaVersion": 39, "refresh": "10s",
		"time":       object{"from": "now-1h", "to": "now"},
		"templating": object{"list": []object{{"name": "datasource", "type": "datasource", "query": "prometheus"}, variable("namespace"), variable("name")}},
		"panels":     panels,
	}
}

// TestDashboard: the file is what is written here, and its rows fill the page.
func TestDashboard(t *testing.T) {
	for _, r := range rows {
		width := 0
		for _, p := range r.panels {
			width += p.width
		}
		if width != 24 {
			t.Errorf("%s is %d columns wide", r.question, width)
		}
	}
	text, err := json.MarshalIndent(dashboard(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, *update, filepath.Join(folder, "dashboard.json"), string(text)+"\n")
}
