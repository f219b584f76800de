package main

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy"
	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/scrape"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/loopback"
	"github.com/prometheus/client_golang/prometheus"
)

// TestMetrics: they are served when their address is free, and requests are before that.
func TestMetrics(t *testing.T) {
	// Others that ask for any port have another address.
	held, err := net.Listen("tcp", "127.17.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	r, p := newReplica(t, "first"), newPod(t)
	p.leadTo(t, r)
	running := p.start(t, "--metrics-address="+held.Addr().String(), "--pod-name=web-0")
	r.commit(t, all(p.port.Number, saying(t, "hello"))...)
	await.True(t, "it is ready", func() bool { return p.unready() == "" })
	if got := p.got("/"); got != "hello" {
		t.Errorf("answered is %q", got)
	}
	await.True(t, "it says that it does not serve metrics", func() bool { return running.log.with("metrics cannot be served") == 1 })
	address := held.Addr().String()
	held.Close()
	scraped := func() string { return got("http://" + address + "/metrics") }
	await.True(t, "metrics are served", func() bool { return strings.Contains(scraped(), "go_goroutines") })

	r.commit(t, wire.Resource{Name: "gopher", Backend: &wire.Backend{Port: 70, Protocol: "gopher"}})
	r.acknowledged(t, 2)
	for _, want := range []string{
		`ingressdaemonset_proxy_build_info{exported_pod="web-0",goversion="go1.`, connectedAs("web-0", 1), `ingressdaemonset_proxy_position{exported_pod="web-0"} 2` + "\n",
		`ingressdaemonset_proxy_refused_resources{exported_pod="web-0"} 1` + "\n", `ingressdaemonset_proxy_connected_seconds{exported_pod="web-0"} `,
		`process_open_fds{exported_pod="web-0"} `, `ingressdaemonset_proxy_requests_total{backend="shop/cheddar:80",code="2xx",exported_pod="web-0"} 1` + "\n",
	} {
		if text := scraped(); !strings.Contains(text, want) {
			t.Errorf("there is no %s in\n%s", want, text)
		}
	}
	r.stop()
	await.True(t, "it has lost its controller", func() bool { return strings.Contains(scraped(), connectedAs("web-0", 0)) })
}

func connectedAs(pod string, is int) string {
	return fmt.Sprintf("ingressdaemonset_proxy_connected{exported_pod=%q} %d\n", pod, is)
}

// TestMetricsOfANode: two proxies of a node share the port of their metrics, without a console, and whichever answers tells
// of both, each under the name of its pod; one that is frozen is missing, and that is told.
func TestMetricsOfANode(t *testing.T) {
	port := loopback.Held(t)
	port.Free(t)
	r := newReplica(t, "first")
	running := map[string]*process{}
	for _, name := range []string{"web-0", "web-1"} {
		p := newPod(t)
		p.leadTo(t, r)
		// As the examples have it, where an address may be one of IPv6.
		running[name] = p.start(t, fmt.Sprintf("--metrics-address=[127.0.0.1]:%d", port.Number), "--pod-name="+name)
	}
	address := fmt.Sprintf("http://127.0.0.1:%d/metrics", port.Number)
	tells := func(text string, pods ...string) bool {
		return strings.Contains(text, fmt.Sprintf("\ningressdaemonset_proxy_node_processes_answered %d\n", len(pods))) &&
			!slices.ContainsFunc(pods, func(pod string) bool {
				return !strings.Contains(text, connectedAs(pod, 1)) || !strings.Contains(text, fmt.Sprintf("\nprocess_open_fds{exported_pod=%q} ", pod))
			})
	}
	r.commit(t, wire.Resource{Name: "shop/cheddar:80", Backend: &wire.Backend{Port: 80}})
	await.True(t, "both are told", func() bool { return tells(got(address), "web-0", "web-1") })
	// The kernel leads each connection to either of the two.
	for range 20 {
		if text := got(address); !tells(text, "web-0", "web-1") {
			t.Fatalf("told is\n%s", text)
		}
	}
	if err := running["web-0"].Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		// Half of all scrapes are led to the one that is frozen, and end when Prometheus has waited long enough.
		text := gotWithin(5*time.Second, address)
		if tells(text, "web-1") && strings.Contains(text, "\ningressdaemonset_proxy_node_processes 2\n") && !strings.Contains(text, `"web-0"`) {
			return
		}
	}
	t.Error("the other one does not tell of itself")
}

// TestMetricsAreDocumented: the page has a line for each metric of a proxy.
func TestMetricsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	all := make(chan *prometheus.Desc, 100)
	proxy.New(proxy.Defaults()).Describe(all)
	standing{}.Describe(all)
	close(all)
	names := []string{scrape.Known, scrape.Answered}
	for d := range all {
		names = append(names, regexp.MustCompile(`fqName: "([^"]*)"`).FindStringSubmatch(d.String())[1])
	}
	if len(names) < 15 {
		t.Errorf("described are only %q", names)
	}
	for _, name := range names {
		if !strings.Contains(string(page), "| `"+name+"` | ") {
			t.Errorf("docs/reference/metrics.md lacks %s", name)
		}
	}
}
