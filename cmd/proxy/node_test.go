package main

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/loopback"
)

// TestReservedPorts: a listener at that of the console, or of metrics, is not opened, and the console and the controller are
// told so; all others are, and the proxy is ready.
func TestReservedPorts(t *testing.T) {
	of, metrics := loopback.Held(t), loopback.Held(t)
	of.Free(t)
	metrics.Free(t)
	r, p := newReplica(t, "first"), newPod(t)
	p.leadTo(t, r)
	p.start(t, fmt.Sprintf("--console=127.0.0.1:%d", of.Number), fmt.Sprintf("--metrics-address=127.0.0.1:%d", metrics.Number))
	r.commit(t, all(p.port.Number, saying(t, "hello"))...)
	for i, port := range []struct {
		number uint16
		why    string
	}{{of.Number, "it is the console's"}, {metrics.Number, "it is that of metrics"}} {
		r.commit(t, gatewayAt(port.number))
		if got := r.acknowledged(t, uint64(2+i)).Refused; len(got) != 1 || !strings.HasPrefix(got[0].Reason, "PortUnavailable: ") || !strings.Contains(got[0].Reason, port.why) {
			t.Errorf("refused is %v", got)
		}
		await.True(t, "the console shows it", func() bool {
			e := seen(of.Number, "")
			return len(e.Shown.Unavailable) == 1 && e.Shown.Unavailable[0].Port == port.number
		})
	}
	await.True(t, "it is ready", func() bool { return p.unready() == "" })
	if got := p.got("/"); got != "hello" {
		t.Errorf("at the other port answered is %q", got)
	}
}

func TestReserved(t *testing.T) {
	const metrics, console = "it is that of metrics, see --metrics-address", "it is the console's, see --console"
	for _, test := range []struct {
		metrics, console string
		want             map[uint16]string
	}{
		{"", "", nil},
		{"", "127.0.0.1:9080", map[uint16]string{9080: console}},
		{"[::1]:9081", "", map[uint16]string{9081: metrics}},
		{":9081", ":9080", map[uint16]string{9080: console, 9081: metrics}},
		{"127.0.0.1:0", "127.0.0.1:0", nil},
	} {
		if got := (flags{metricsAddress: test.metrics, console: test.console}).reserved(); !maps.Equal(got, test.want) {
			t.Errorf("%q and %q reserve %v, want %v", test.metrics, test.console, got, test.want)
		}
	}
}
