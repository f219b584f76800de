package monitoring

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/test/docs"
)

// discovered are what Prometheus finds of two pods on one node, which share an address, of one on another, and of one
// that is another's.
const discovered = `  static_configs:
  - {targets: [a], labels: {__meta_kubernetes_namespace: default, __meta_kubernetes_pod_label_app: proxy, __meta_kubernetes_pod_ip: 127.0.0.1, __meta_kubernetes_pod_node_name: one, __meta_kubernetes_pod_name: a}}
  - {targets: [b], labels: {__meta_kubernetes_namespace: default, __meta_kubernetes_pod_label_app: proxy, __meta_kubernetes_pod_ip: 127.0.0.1, __meta_kubernetes_pod_node_name: one, __meta_kubernetes_pod_name: b}}
  - {targets: [c], labels: {__meta_kubernetes_namespace: default, __meta_kubernetes_pod_label_app: proxy, __meta_kubernetes_pod_ip: 127.0.0.2, __meta_kubernetes_pod_node_name: other, __meta_kubernetes_pod_name: c}}
  - {targets: [d], labels: {__meta_kubernetes_namespace: default, __meta_kubernetes_pod_label_app: hello, __meta_kubernetes_pod_ip: 127.0.0.1, __meta_kubernetes_pod_node_name: one, __meta_kubernetes_pod_name: d}}
`

// TestProxiesOfANode: as the page has them scraped, the proxies of a node are one target, so that each counter is had once,
// under its pod.
func TestProxiesOfANode(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	blocks := docs.Blocks(docs.Section(string(text), "Of the proxy that comes with the controller"), "yaml")
	const asked, port = "  kubernetes_sd_configs:\n  - role: pod\n", "$1:9081\n"
	if len(blocks) != 1 || !strings.Contains(blocks[0], asked) || !strings.Contains(blocks[0], port) {
		t.Fatalf("the page has %q", blocks)
	}
	proxies := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		fmt.Fprint(w, "ingressdaemonset_proxy_connections{exported_pod=\"a\"} 1\ningressdaemonset_proxy_connections{exported_pod=\"b\"} 2\n")
	}))
	t.Cleanup(proxies.Close)
	_, number, err := net.SplitHostPort(proxies.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	quick := "global: {scrape_interval: 200ms, scrape_timeout: 200ms}\n" + strings.NewReplacer(asked, discovered, port, "$1:"+number+"\n").Replace(blocks[0])
	if err := os.WriteFile(config, []byte(quick), 0o644); err != nil {
		t.Fatal(err)
	}
	p := start(t, "prometheus", "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--log.level=warn")
	p.until(t, `up{node="one"} == 1`)
	// The other node's port is refused.
	p.until(t, `count(up) == 2`)
	p.until(t, `sum by (node, exported_pod) (ingressdaemonset_proxy_connections{exported_pod="b",node="one"}) == 2`)
	p.until(t, `sum(ingressdaemonset_proxy_connections) == 3`)
}
