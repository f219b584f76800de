package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	"github.com/mumoshu/ingress-daemonset-controller/test/lb"
	"github.com/mumoshu/ingress-daemonset-controller/test/traffic"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// rejection is a rollout of a bad template under traffic: it must be taken back
// from the first node, and touch no other.
type rejection struct {
	example string
	// configuration is the proxy's bad one, under the key of the good one; empty
	// where something else is bad.
	configuration string
	// checks judge the wave; spoil changes the template.
	checks []v1alpha1.AnalysisCheck
	spoil  func(*v1alpha1.IngressDaemonSet)
	// loses says whether clients see errors until the template is taken back.
	loses bool
}

// TestBadConfiguration rolls out an nginx that answers one path with 500. An HTTP
// check catches it on the canary node.
func TestBadConfiguration(t *testing.T) {
	rejection{
		example: "nginx.yaml", loses: true,
		configuration: "server { listen 80 reuseport; location / { add_header X-Node \"${NODE_NAME}\" always; return 500; } location /fine { return 200; } }\n" +
			"server { listen 10254 reuseport; location = /healthz { return 200; } }\n",
		checks: []v1alpha1.AnalysisCheck{
			{Name: "fine", HTTP: &v1alpha1.HTTPCheck{Port: 80, Path: "/fine"}, IntervalSeconds: new(int32(1))},
			{Name: "path", HTTP: &v1alpha1.HTTPCheck{Port: 80, Path: "/"}, IntervalSeconds: new(int32(1)), Count: new(int32(3)), FailureLimit: new(int32(1))},
		},
	}.run(t)
}

// TestBadConfigurationSeenByPrometheus rolls out an HAProxy that answers with 500.
// A real Prometheus scrapes the proxies, and its query tells.
func TestBadConfigurationSeenByPrometheus(t *testing.T) {
	address := startPrometheus(t)
	rejection{
		example: "haproxy.yaml", loses: true,
		configuration: "defaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n" +
			"frontend http\n  bind :80\n  http-request return status 500 hdr X-Node \"${NODE_NAME}\"\n" +
			"frontend health\n  bind :10254\n  http-request use-service prometheus-exporter if { path /metrics }\n  monitor-uri /healthz\n",
		checks: []v1alpha1.AnalysisCheck{{
			Name: "errors", IntervalSeconds: new(int32(2)), Count: new(int32(3)), TimeoutSeconds: new(int32(2)),
			Prometheus: &v1alpha1.PrometheusCheck{
				Address: address, Empty: "Pass", Success: "== 0",
				Query: `max(haproxy_frontend_http_responses_total{node=~"$(NODES)",proxy="http",code="5xx"})`,
			},
		}},
	}.run(t)
}

// TestNeverReady rolls out pods that never become ready. The deadline takes them
// back; it cost no second node and no request.
func TestNeverReady(t *testing.T) {
	rejection{
		example: "nginx.yaml",
		spoil: func(set *v1alpha1.IngressDaemonSet) {
			set.Spec.Template.Spec.Containers[0].ReadinessProbe.HTTPGet.Path = "/nowhere"
		},
	}.run(t)
}

func (r rejection) run(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	s := scenario{example: r.example, adjust: func(set *v1alpha1.IngressDaemonSet) {
		u := set.Spec.UpdateStrategy.RollingUpdate
		u.FailurePolicy, u.Analysis = v1alpha1.RollBackOnFailure, r.checks
		set.Spec.ProgressDeadlineSeconds = new(int32(20))
	}}
	fleet := s.open(ctx, t)
	before, err := fleet.Pods(ctx)
	if err != nil {
		t.Fatal(err)
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	report := s.underTraffic(ctx, t, fleet, hostTold, fleet.Tell(watching), func(*lb.LB, *traffic.Process) error { return r.rejected(ctx, fleet) })
	canary := r.checkUntouched(ctx, t, fleet, before)
	r.judge(t, report, canary)
}

// rejected rolls the bad template out and waits until it is taken back.
func (r rejection) rejected(ctx context.Context, fleet *harness.Fleet) error {
	if r.configuration != "" {
		if err := r.addConfiguration(ctx, fleet); err != nil {
			return err
		}
	}
	if err := fleet.Change(ctx, func(set *v1alpha1.IngressDaemonSet) {
		harness.SetVersion("bad")(set)
		if r.configuration != "" {
			set.Spec.Template.Spec.Volumes[0].ConfigMap.Name = "bad"
		}
		if r.spoil != nil {
			r.spoil(set)
		}
	}); err != nil {
		return err
	}
	err := fleet.WaitStatus(ctx, "the template to be taken back", func(s v1alpha1.IngressDaemonSetStatus) bool {
		c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionProgressing)
		return c != nil && c.Reason == v1alpha1.ReasonRolledBack && s.ServingNodes == nodes
	})
	// The load balancer needs a second to find the node up; what it then sends there
	// must not fail.
	time.Sleep(2 * time.Second)
	return err
}

// addConfiguration makes the bad configuration beside the good one.
func (r rejection) addConfiguration(ctx context.Context, fleet *harness.Fleet) error {
	good := &corev1.ConfigMap{}
	if err := fleet.Get(ctx, fleet.Key, good); err != nil {
		return err
	}
	bad := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: fleet.Key.Namespace, Name: "bad"}, Data: map[string]string{}}
	for key := range good.Data {
		bad.Data[key] = r.configuration
	}
	return fleet.Create(ctx, bad)
}

// checkUntouched fails the test unless the pods of all nodes but one are those of
// before, and gives the name of that one.
func (r rejection) checkUntouched(ctx context.Context, t *testing.T, fleet *harness.Fleet, before map[types.UID]*corev1.Pod) string {
	t.Helper()
	now, err := fleet.Pods(ctx)
	if err != nil {
		t.Fatal(err)
	}
	touched := map[string]bool{}
	for uid, pod := range now {
		if before[uid] == nil {
			touched[pod.Spec.NodeName] = true
		}
		for _, env := range pod.Spec.Containers[0].Env {
			if env.Name == "VERSION" && env.Value == "bad" {
				t.Errorf("pod %s still has the bad template", pod.Name)
			}
		}
	}
	if len(touched) != 1 {
		t.Errorf("nodes %v were touched instead of one", touched)
	}
	if err := fleet.CheckUnmarked(ctx); err != nil {
		t.Error(err)
	}
	for name := range touched {
		return name
	}
	return ""
}

// judge holds the errors that clients saw to one node's share of the requests of
// the time in which there were any.
func (r rejection) judge(t *testing.T, report traffic.Report, canary string) {
	t.Helper()
	first, last, requests := -1, -1, int64(0)
	for i, second := range report.Seconds {
		if second.Failed > 0 {
			last = i
			if first < 0 {
				first = i
			}
		}
	}
	if first >= 0 {
		for _, second := range report.Seconds[first : last+1] {
			requests += second.Requests
		}
	}
	t.Logf("%d of %d requests failed, in %d s in which %d were sent; node %s was taken back", report.Failed, report.Requests, last-first, requests, canary)
	switch {
	case !r.loses && report.Failed > 0:
		t.Errorf("%d requests failed:\n%s", report.Failed, report)
	case r.loses && report.Failed == 0:
		t.Error("no request failed, so that the template was not bad")
	}
	// Balancing is not exact within a second.
	if share := float64(requests) / nodes; float64(report.Failed) > 1.25*share {
		t.Errorf("%d requests failed, one node's share are %.0f", report.Failed, share)
	}
	for _, f := range report.Failures {
		if f.Node != canary && f.Node != "" {
			t.Errorf("a request failed at %s: %s", f.Node, f.Detail)
			return
		}
	}
}

// startPrometheus scrapes the proxies of every node, and gives its address.
func startPrometheus(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var targets strings.Builder
	for _, n := range theHarness.Nodes() {
		fmt.Fprintf(&targets, "  - {targets: ['%s:10254'], labels: {node: %s}}\n", n.IP(), n.Name())
	}
	config := "global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n- job_name: proxies\n  static_configs:\n" + targets.String()
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	listen := theHarness.HostIP() + ":9090"
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	cmd := theHarness.Command(ctx, "prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+listen, "--log.level=warn")
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait()
		if content, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("Prometheus wrote:\n%s", content)
		}
	})
	permit(t, listen)
	return "http://" + listen
}

// permit has the controller let checks reach an address and port.
func permit(t *testing.T, address string) {
	t.Helper()
	for _, args := range [][]string{
		{"patch", "deployment", "ingress-daemonset-controller", "--type=json", "-p", `[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--analysis-hosts=` + address + `"}]`},
		{"rollout", "status", "deployment", "ingress-daemonset-controller", "--timeout=180s"},
	} {
		if out, err := theHarness.Kubectl(t.Context(), append([]string{"-n", harness.Namespace}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("kubectl %v: %v: %s", args, err, out)
		}
	}
}
