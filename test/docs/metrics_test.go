package docs

import (
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	// Those that register metrics.
	_ "github.com/mumoshu/ingress-daemonset-controller/internal/detach/controller"
	_ "github.com/mumoshu/ingress-daemonset-controller/internal/rollout/controller"
	_ "github.com/mumoshu/ingress-daemonset-controller/internal/targets/controller"
)

// described is how a metric describes itself.
var described = regexp.MustCompile(`fqName: "(ingressdaemonset_[^"]*)", help: "([^"]*)".*variableLabels: \{([^}]*)\}`)

// TestMetrics finds every metric that is ours in one of the two tables, with its labels
// and what it says of itself.
func TestMetrics(t *testing.T) {
	tables := read(t, "docs/reference/metrics.md") + read(t, "docs/guides/load-balancers.md")
	all := make(chan *prometheus.Desc)
	go func() {
		metrics.Registry.(prometheus.Collector).Describe(all)
		close(all)
	}()
	found := 0
	for desc := range all {
		parts := described.FindStringSubmatch(desc.String())
		if parts == nil {
			continue
		}
		found++
		labels := ""
		if parts[3] != "" {
			labels = "`" + strings.ReplaceAll(parts[3], ",", "`, `") + "` "
		}
		row := regexp.MustCompile("(?m)^\\| `" + parts[1] + "` (\\| [a-z]+ )?\\| " + regexp.QuoteMeta(labels+"| "+parts[2]+" |") + "$")
		if !row.MatchString(tables) {
			t.Errorf("no table has %s with the labels %q and: %s", parts[1], labels, parts[2])
		}
	}
	if found < 15 {
		t.Errorf("only %d metrics are registered", found)
	}
}
