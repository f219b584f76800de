// Package monitoring tests what is made of the metrics with a real Prometheus: alerts, the dashboard, and the
// way of an alert to whoever is on call.
package monitoring

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"
)

// folder is where the alerts and the dashboard are.
const folder = "../../config/monitoring"

// TestAlerts has promtool play time series to the alerts, which fire when they
// should.
func TestAlerts(t *testing.T) {
	dir := t.TempDir()
	content, err := os.ReadFile(filepath.Join(folder, "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var rule struct {
		Spec map[string]any `json:"spec"`
	}
	if err := yaml.Unmarshal(content, &rule); err != nil {
		t.Fatal(err)
	}
	groups, err := yaml.Marshal(rule.Spec)
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile(filepath.Join(folder, "alerts_test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"alerts.yaml": groups, "alerts_test.yaml": tests} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		cmd := exec.Command("promtool", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
