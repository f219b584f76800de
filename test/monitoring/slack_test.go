package monitoring

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/test/docs"
)

// page is where the recipe stands.
const page = "../../docs/reference/metrics.md"

// TestSlack has a real Alertmanager send an alert by the recipe of the page, to a fake of Slack.
func TestSlack(t *testing.T) {
	messages := make(chan string, 10)
	slack := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		messages <- string(body)
		fmt.Fprint(w, "ok")
	}))
	t.Cleanup(slack.Close)
	dir := t.TempDir()
	url := filepath.Join(dir, "url")
	if err := os.WriteFile(url, []byte(slack.URL), 0o644); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "alertmanager.yml")
	// Nobody waits for more alerts here.
	quick := strings.NewReplacer("/etc/alertmanager/slack/url", url, "group_wait: 30s", "group_wait: 1s").Replace(recipe(t))
	if err := os.WriteFile(config, []byte(quick), 0o644); err != nil {
		t.Fatal(err)
	}
	s := start(t, "prometheus-alertmanager", "--config.file="+config, "--storage.path="+filepath.Join(dir, "data"), "--cluster.listen-address=")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, alert := range []string{"SomebodyElses", "IngressDaemonSetStandsStill"} {
		if err := s.raise(ctx, alert); err != nil {
			t.Fatal(err)
		}
	}
	var message string
	select {
	case message = <-messages:
	case <-ctx.Done():
		t.Fatal("Slack is told nothing")
	}
	for _, want := range []string{
		`"channel":"#ingress"`, "IngressDaemonSetStandsStill", "The rollout of IngressDaemonSet ingress/api stands still: AnalysisFailed.",
		"kubectl ids status -n ingress api says why.", "docs/runbook.md#a-rollout-stands-still",
	} {
		if !strings.Contains(message, want) {
			t.Errorf("Slack is not told %q but\n%s", want, message)
		}
	}
	if strings.Contains(message, "SomebodyElses") {
		t.Errorf("Slack is told of alerts of others:\n%s", message)
	}
}

// recipe is the configuration that the page shows.
func recipe(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range docs.Blocks(string(content), "yaml") {
		if strings.Contains(block, "slack_configs:") {
			return block
		}
	}
	t.Fatalf("%s shows no way to Slack", page)
	return ""
}

// raise tells Alertmanager of an alert, as Prometheus does.
func (s server) raise(ctx context.Context, name string) error {
	body, err := json.Marshal([]object{{
		"labels": object{"alertname": name, "namespace": "ingress", "name": "api", "reason": "AnalysisFailed", "severity": "warning"},
		"annotations": object{
			"summary":     "The rollout of IngressDaemonSet ingress/api stands still: AnalysisFailed.",
			"description": "kubectl ids status -n ingress api says why.",
			"runbook_url": "https://github.com/mumoshu/ingress-daemonset-controller/blob/main/docs/runbook.md#a-rollout-stands-still",
		},
	}})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+string(s)+"/api/v2/alerts", strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	_, err = answered(request)
	return err
}
