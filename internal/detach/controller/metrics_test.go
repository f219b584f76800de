package controller

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

var described = regexp.MustCompile(`fqName: "([^"]*)", help: "([^"]*)".*variableLabels: \{([^}]*)\}`)

// TestMetricsAreDocumented compares the guide with what is registered.
func TestMetricsAreDocumented(t *testing.T) {
	guide, err := os.ReadFile("../../../docs/guides/load-balancers.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, metric := range []prometheus.Collector{nodesByStation, movesTook} {
		all := make(chan *prometheus.Desc, 1)
		metric.Describe(all)
		parts := described.FindStringSubmatch((<-all).String())
		if parts == nil {
			t.Fatal("a metric describes itself in another way")
		}
		var labels []string
		for label := range strings.SplitSeq(parts[3], ",") {
			if label != "" {
				labels = append(labels, "`"+label+"`")
			}
		}
		cells := strings.TrimSpace(strings.Join(labels, ", "))
		row := strings.ReplaceAll("| `"+parts[1]+"` | "+cells+" | "+parts[2]+" |", "|  |", "| |")
		if !strings.Contains(string(guide), row) {
			t.Errorf("docs/guides/load-balancers.md does not have %s", row)
		}
	}
}
