package docs

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/golden"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	// Those that register metrics.
	_ "github.com/mumoshu/ingress-daemonset-controller/internal/detach/controller"
	_ "github.com/mumoshu/ingress-daemonset-controller/internal/rollout/controller"
	_ "github.com/mumoshu/ingress-daemonset-controller/internal/routing/reviewer"
	_ "github.com/mumoshu/ingress-daemonset-controller/internal/targets/controller"
)

var update = flag.Bool("update", false, "rewrite the table of docs/reference/metrics.md")

const (
	metricsPage = "docs/reference/metrics.md"
	// The table stands between these.
	metricsBegin = "<!-- metrics: go test ./test/docs -run TestMetrics -update -->\n"
	metricsEnd   = "<!-- end of the metrics -->\n"
)

// metric is one that is ours, as the controller registers it.
type metric struct {
	name, kind, help string
	labels           []string
}

// described is how a metric describes itself.
var described = regexp.MustCompile(`fqName: "(ingressdaemonset_[^"]*)", help: "([^"]*)".*variableLabels: \{([^}]*)\}`)

// registered are all metrics that are ours, by name.
func registered(t *testing.T) map[string]metric {
	t.Helper()
	all := make(chan *prometheus.Desc)
	go func() {
		metrics.Registry.(prometheus.Collector).Describe(all)
		close(all)
	}()
	out := map[string]metric{}
	var descriptions []*prometheus.Desc
	for description := range all {
		descriptions = append(descriptions, description)
	}
	for _, description := range descriptions {
		parts := described.FindStringSubmatch(description.String())
		if parts == nil {
			continue
		}
		m := metric{name: parts[1], kind: kindOf(t, parts[1], description), help: parts[2]}
		if parts[3] != "" {
			m.labels = strings.Split(parts[3], ",")
		}
		out[m.name] = m
	}
	if len(out) < 15 {
		t.Fatalf("only %d metrics are registered", len(out))
	}
	return out
}

// kindOf is the type of a metric. A registry gives what it has of a description to whoever registers it again.
func kindOf(t *testing.T, name string, description *prometheus.Desc) string {
	t.Helper()
	same, registered := errors.AsType[prometheus.AlreadyRegisteredError](metrics.Registry.Register(double{description}))
	if !registered {
		t.Fatalf("%s is not registered by itself", description)
	}
	switch same.ExistingCollector.(type) {
	case *prometheus.GaugeVec, prometheus.Gauge:
		return "gauge"
	case *prometheus.CounterVec, prometheus.Counter:
		return "counter"
	case *prometheus.HistogramVec, prometheus.Histogram:
		return "histogram"
	}
	// What a collector of its own tells of a metric, it tells at any time.
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return strings.ToLower(family.GetType().String())
		}
	}
	t.Fatalf("of what type is %s?", description)
	return ""
}

// double has the description of another collector, and collects nothing.
type double struct{ description *prometheus.Desc }

func (d double) Describe(to chan<- *prometheus.Desc) { to <- d.description }
func (double) Collect(chan<- prometheus.Metric)      {}

// TestMetrics lets the page have every metric that is ours, as it is registered.
func TestMetrics(t *testing.T) {
	before, rest, begins := strings.Cut(read(t, metricsPage), metricsBegin)
	_, after, ends := strings.Cut(rest, metricsEnd)
	if !begins || !ends {
		t.Fatalf("%s has no place for the metrics: it is between %q and %q", metricsPage, metricsBegin, metricsEnd)
	}
	var b strings.Builder
	b.WriteString("| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n")
	byName := func(a, b metric) int { return cmp.Compare(a.name, b.name) }
	for _, m := range slices.SortedFunc(maps.Values(registered(t)), byName) {
		labels := ""
		for i, l := range m.labels {
			if i > 0 {
				labels += ", "
			}
			labels += "`" + l + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, m.kind, labels, m.help)
	}
	golden.Equal(t, *update, filepath.Join(root, metricsPage), before+metricsBegin+b.String()+metricsEnd+after)
}

var (
	// asked is a metric of ours where it is named, sampled one with its labels and its value.
	asked   = regexp.MustCompile(`\bingressdaemonset_[a-z_]+`)
	sampled = regexp.MustCompile(`(?m)^(ingressdaemonset_[a-z_]+)(?:\{(.*)\})? [0-9.]+$`)
	// ofHistogram is what the names of a histogram's series have more.
	ofHistogram = regexp.MustCompile(`_(bucket|sum|count)$`)
	// label is one that a series has.
	label = regexp.MustCompile(`([a-z_]+)="`)
)

// TestMetricsAreAsked: alerts and dashboard ask for nothing that there is not, and the dashboard for all
// that there is.
func TestMetricsAreAsked(t *testing.T) {
	all := registered(t)
	for _, file := range []string{"config/monitoring/alerts.yaml", "config/monitoring/alerts_test.yaml", "config/monitoring/dashboard.json", "test/monitoring/testdata/proxies.prom"} {
		shown := map[string]bool{}
		for _, name := range asked.FindAllString(read(t, file), -1) {
			if strings.HasPrefix(name, "ingressdaemonset_proxy_") {
				// cmd/proxy has a test of what that page says.
				mentions(t, metricsPage, []string{ofHistogram.ReplaceAllString(name, "")})
				continue
			}
			m := of(all, name)
			if shown[m.name] = true; m.name == "" {
				t.Errorf("%s asks for %s, which no controller tells", file, name)
			}
		}
		for name := range all {
			if !shown[name] && strings.HasSuffix(file, "dashboard.json") {
				t.Errorf("%s does not show %s", file, name)
			}
		}
	}
}

// TestMetricsAreTold: what the dashboard is tried with has every metric, each with its labels.
func TestMetricsAreTold(t *testing.T) {
	const file = "test/monitoring/testdata/fleet.prom"
	all, seen := registered(t), map[string]bool{}
	for _, line := range sampled.FindAllStringSubmatch(read(t, file), -1) {
		m, labels := of(all, line[1]), []string(nil)
		for _, found := range label.FindAllStringSubmatch(line[2], -1) {
			if found[1] != "le" {
				labels = append(labels, found[1])
			}
		}
		if seen[m.name] = true; !slices.Equal(labels, m.labels) {
			t.Errorf("%s: %s has the labels %v, and not %v", file, line[1], m.labels, labels)
		}
	}
	for name := range all {
		if !seen[name] {
			t.Errorf("%s lacks %s", file, name)
		}
	}
}

// of is the metric that a name is of. Those of a histogram have an end more.
func of(all map[string]metric, name string) metric {
	for _, end := range []string{"_bucket", "_sum", "_count"} {
		if m := all[strings.TrimSuffix(name, end)]; m.kind == "histogram" {
			return m
		}
	}
	return all[name]
}

// alertLine is where an alert is named in the rules, and where it sends whoever is woken.
var (
	alertLine = regexp.MustCompile(`(?m)^ *- alert: (\S+)$`)
	alertPage = regexp.MustCompile(`(?m)^ *runbook_url: https://github\.com/mumoshu/ingress-daemonset-controller/blob/main/(\S+)$`)
)

// TestAlertsLeadSomewhere: each alert leads to a place in the runbook, which names it.
func TestAlertsLeadSomewhere(t *testing.T) {
	rules, all := read(t, "config/monitoring/alerts.yaml"), pages(t)
	alerts, to := alertLine.FindAllStringSubmatch(rules, -1), alertPage.FindAllStringSubmatch(rules, -1)
	if len(alerts) < 10 || len(alerts) != len(to) {
		t.Fatalf("%d alerts lead to %d places", len(alerts), len(to))
	}
	for i, alert := range alerts {
		if err := resolve(all, "README.md", to[i][1]); err != nil {
			t.Errorf("%s leads to %s: %v", alert[1], to[i][1], err)
		}
		if !strings.Contains(all["docs/runbook.md"], "`"+alert[1]+"`") {
			t.Errorf("docs/runbook.md does not name %s", alert[1])
		}
	}
}

// TestRunbookBeginsWithHowToStop: whoever is woken finds that first, and then a command for whatever is seen.
func TestRunbookBeginsWithHowToStop(t *testing.T) {
	sections := strings.Split(read(t, "docs/runbook.md"), "\n## ")[1:]
	stop := strings.Join(Commands(sections[0]), "\n")
	for _, command := range []string{"kubectl ids rollout pause NAME", "kubectl ids rollout undo NAME", "kubectl ids attach --all"} {
		if !strings.Contains(stop, command) {
			t.Errorf("the runbook does not begin with %s, but with\n%s", command, sections[0])
		}
	}
	for _, section := range sections[2:] {
		if title, _, _ := strings.Cut(section, "\n"); len(Commands(section)) == 0 {
			t.Errorf("the runbook has no command under %s", title)
		}
	}
}
