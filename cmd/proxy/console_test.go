package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/console"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/loopback"
)

// seen is what the console at a port shows.
func seen(port uint16, query string) (e console.Everything) {
	_ = json.Unmarshal([]byte(got(fmt.Sprintf("http://127.0.0.1:%d/json%s", port, query))), &e)
	return e
}

// TestConsole: two proxies of a node share the port of their console, and whichever answers shows both: what they
// serve, how endpoints stand, and what they refuse.
func TestConsole(t *testing.T) {
	port := loopback.Held(t)
	port.Free(t)
	r := newReplica(t, "first")
	first, second := newPod(t), newPod(t)
	for name, p := range map[string]*pod{"web-0": first, "web-1": second} {
		p.leadTo(t, r)
		p.start(t, fmt.Sprintf("--console=127.0.0.1:%d", port.Number), "--pod-name="+name)
	}
	r.commit(t, all(first.port.Number, saying(t, "hello"))...)
	r.commit(t, wire.Resource{Name: "gopher", Backend: &wire.Backend{Port: 70, Protocol: "gopher"}})
	// That the second has the port of the first as well is what proxies of a node do.
	await.True(t, "both are ready", func() bool { return first.unready()+second.unready() == "" })
	if got := first.got("/"); got != "hello" {
		t.Fatalf("answered is %q", got)
	}
	for _, pod := range []string{"web-0", "web-1"} {
		await.True(t, pod+" is shown", func() bool {
			all := seen(port.Number, "").Processes
			at := slices.IndexFunc(all, func(p console.Process) bool { return p.Pod == pod && p.Problem == "" })
			if at < 0 {
				return false
			}
			s := seen(port.Number, "?process="+all[at].Key).Shown
			return s.Pod == pod && s.Connected && s.Position == "2" && len(s.Refusals.List) == 1 && s.Refusals.List[0].Name == "backend/gopher" &&
				s.All == 1 && len(s.Backends.List) == 1 && s.Backends.List[0].Endpoints[0].State == "ready"
		})
	}
	page := got(fmt.Sprintf("http://127.0.0.1:%d/?host=a.example.com:%d", port.Number, first.port.Number))
	for _, want := range []string{"web-0", "web-1", "It is served by rule 0", "HTTPRoute shop/all"} {
		if !strings.Contains(page, want) {
			t.Errorf("there is no %q in\n%s", want, page)
		}
	}
}
