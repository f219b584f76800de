package main

import (
	"net"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
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
	running := p.start(t, "--metrics-address="+held.Addr().String())
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
		`ingressdaemonset_proxy_build_info{goversion="go1.`, "ingressdaemonset_proxy_connected 1\n", "ingressdaemonset_proxy_position 2\n",
		"ingressdaemonset_proxy_refused_resources 1\n", "ingressdaemonset_proxy_connected_seconds ", "process_open_fds ",
		`ingressdaemonset_proxy_requests_total{backend="shop/cheddar:80",code="2xx"} 1` + "\n",
	} {
		if text := scraped(); !strings.Contains(text, want) {
			t.Errorf("there is no %s in\n%s", want, text)
		}
	}
	r.stop()
	await.True(t, "it has lost its controller", func() bool { return strings.Contains(scraped(), "ingressdaemonset_proxy_connected 0\n") })
}
