package monitoring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/golden"
	"k8s.io/apimachinery/pkg/util/wait"
)

// leading is what the controller tells that leads, waiting what one tells that does not, and proxies what those of a node
// tell.
const (
	leading = "testdata/fleet.prom"
	proxies = "testdata/proxies.prom"
	waiting = "ingressdaemonset_build_info{version=\"v0.2.0\",goversion=\"go1.26\"} 1\n" +
		"leader_election_master_status{name=\"ingress-daemonset-controller\"} 0\n"
)

// patience is how long a server may take to start, and to find what it is to find.
const patience = time.Minute

// scrapes is a configuration as the Prometheus operator makes one of a PodMonitor with honorLabels, of two
// controllers at an address, and what the page says of proxies.
const scrapes = `
global: {scrape_interval: 200ms, scrape_timeout: 200ms}
scrape_configs:
- job_name: ingress-daemonset-controller
  honor_labels: true
  static_configs:
  - {targets: ['%[1]s'], labels: {__metrics_path__: /leads, instance: one, pod: one, namespace: ingress-daemonset-system}}
  - {targets: ['%[1]s'], labels: {__metrics_path__: /waits, instance: other, pod: other, namespace: ingress-daemonset-system}}
- job_name: proxy
  static_configs:
  - {targets: ['%[1]s'], labels: {__metrics_path__: /proxies, node: one}}
`

// TestDashboardShowsTheFleet has a real Prometheus scrape what a controller tells of three fleets, and
// asks it all that the dashboard asks: testdata/shows.txt is what comes of that. Values that go by
// increases are left out, since nothing increases.
func TestDashboardShowsTheFleet(t *testing.T) {
	p := startPrometheus(t)
	// Rates need each to be scraped twice.
	p.until(t, "count(count_over_time(up[1m]) > 1) == 3")
	fill := strings.NewReplacer("$namespace", ".*", "$name", ".*", "$__rate_interval", "1m")
	var shown strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&shown, "%s\n", r.question)
		for _, panel := range r.panels {
			var found [][]series
			for _, q := range panel.queries {
				all, err := p.ask(t.Context(), fill.Replace(q.expr))
				if err != nil || len(all) == 0 {
					t.Errorf("%s: %s finds %v, %v", panel.title, q.expr, all, err)
				}
				found = append(found, all)
			}
			fmt.Fprintf(&shown, "  %s\n", panel.title)
			for _, line := range panel.shows(found) {
				fmt.Fprintf(&shown, "    %s\n", line)
			}
		}
	}
	golden.Equal(t, *update, filepath.Join("testdata", "shows.txt"), shown.String())
}

// shows are the lines of a panel, of what its queries find: one for each series, or of a table for each fleet.
func (p panel) shows(found [][]series) (out []string) {
	if len(p.columns) > 0 {
		return p.table(found)
	}
	for i, q := range p.queries {
		var all []string
		for _, s := range found[i] {
			line := label.ReplaceAllStringFunc(q.legend, func(of string) string { return s.Labels[strings.Trim(of, "{}")] })
			if !strings.Contains(q.expr, "rate(") {
				line += ": " + s.value()
			}
			all = append(all, line)
		}
		slices.Sort(all)
		out = append(out, all...)
	}
	return out
}

// table merges series of the same fleet into one line, as Grafana does, under the names of the columns.
func (p panel) table(found [][]series) []string {
	cells := map[string]map[string]string{}
	for i, all := range found {
		for _, s := range all {
			fleet := s.Labels["namespace"] + "/" + s.Labels["name"]
			if cells[fleet] == nil {
				cells[fleet] = map[string]string{}
			}
			maps.Copy(cells[fleet], s.Labels)
			cells[fleet]["Value #"+string(rune('A'+i))] = s.value()
		}
	}
	var names []string
	for _, c := range p.columns {
		names = append(names, c[1])
	}
	out := []string{strings.Join(names, " | ")}
	for _, fleet := range slices.Sorted(maps.Keys(cells)) {
		var line []string
		for _, c := range p.columns {
			line = append(line, cells[fleet][c[0]])
		}
		out = append(out, strings.TrimRight(strings.Join(line, " | "), " "))
	}
	return out
}

// series is one of what a query finds.
type series struct {
	Labels map[string]string `json:"metric"`
	// Sample is a time and a value.
	Sample [2]any `json:"value"`
}

func (s series) value() string { return fmt.Sprint(s.Sample[1]) }

// label is one in a legend.
var label = regexp.MustCompile(`\{\{[a-z_]+\}\}`)

// server is a program that was started for a test, at an address.
type server string

// startPrometheus returns when it answers.
func startPrometheus(t *testing.T) server {
	t.Helper()
	pages := http.NewServeMux()
	for path, told := range map[string]string{"/leads": content(t, leading), "/waits": waiting, "/proxies": content(t, proxies)} {
		pages.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4")
			fmt.Fprint(w, told)
		})
	}
	scraped := httptest.NewServer(pages)
	t.Cleanup(scraped.Close)
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, fmt.Appendf(nil, scrapes, scraped.Listener.Addr()), 0o644); err != nil {
		t.Fatal(err)
	}
	return start(t, "prometheus", "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--log.level=warn")
}

func content(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// start starts a program of Prometheus, which ends with the test, and returns when it is ready.
func start(t *testing.T, program string, args ...string) server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := server(l.Addr().String())
	l.Close()
	var said strings.Builder
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, append(args, "--web.listen-address="+string(s))...)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		stop()
		t.Fatalf("%v: make prepare installs it, for root", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		stop()
		<-ended
		if t.Failed() {
			t.Logf("%s said:\n%s", program, &said)
		}
	})
	s.eventually(t, program+" is ready", func(ctx context.Context) error {
		_, err := s.get(ctx, "/-/ready")
		return err
	})
	return s
}

// eventually tries until there is no error.
func (s server) eventually(t *testing.T, what string, try func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		last = try(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting until %s: %v", what, last)
	}
}

// until waits until a query finds something.
func (s server) until(t *testing.T, expr string) {
	t.Helper()
	s.eventually(t, expr, func(ctx context.Context) error {
		found, err := s.ask(ctx, expr)
		if err == nil && len(found) == 0 {
			err = errors.New("it finds nothing")
		}
		return err
	})
}

// ask asks Prometheus what there is now.
func (s server) ask(ctx context.Context, expr string) ([]series, error) {
	body, err := s.get(ctx, "/api/v1/query?query="+url.QueryEscape(expr))
	if err != nil {
		return nil, err
	}
	var answer struct {
		Data struct {
			Result []series `json:"result"`
		} `json:"data"`
	}
	err = json.Unmarshal(body, &answer)
	return answer.Data.Result, err
}

func (s server) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+string(s)+path, nil)
	if err != nil {
		return nil, err
	}
	return answered(request)
}

// answered is the body of an answer, and an error where it is none of success.
func answered(request *http.Request) ([]byte, error) {
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return body, err
}
