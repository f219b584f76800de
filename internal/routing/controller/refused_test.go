package controller

import (
	"slices"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/stream"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"k8s.io/apimachinery/pkg/types"
)

// TestRefused: what a proxy cannot use is said once, of the object that it comes from, however many pods say so and
// of whichever replica, and again after it was in order.
func TestRefused(t *testing.T) {
	c := newCluster(t, true, ingressTo("cheese", "cheese.example.com", "cheese"))
	c.pass(t)
	c.said()
	report := func(number uint64, pod string, ended bool, refused ...string) {
		a := stream.Acknowledgement{Position: 1}
		for _, name := range refused {
			a.Refused = append(a.Refused, wire.Refusal{Name: name, Reason: "it is odd"})
		}
		c.Acknowledgements.Report(delta.Report{Peer: delta.Peer{IngressDaemonSet: web, Pod: pod, UID: types.UID(pod)}, Stream: number, Acknowledgement: a, Ended: ended})
	}
	woken := func() bool {
		select {
		case <-c.wake:
			return true
		default:
			return false
		}
	}
	said := func() string {
		c.pass(t)
		all := c.said()
		slices.Sort(all)
		return strings.Join(all, "; ")
	}
	woken()
	report(1, "web-1", false, "route/Ingress/shop/cheese/0")
	if !woken() {
		t.Error("no pass is called for")
	}
	if got, want := said(), "Warning Refused proxies of IngressDaemonSet ingress/web cannot use route/Ingress/shop/cheese/0: it is odd (pod web-1)"; got != want {
		t.Errorf("said is %q", got)
	}
	report(2, "web-2", false, "route/Ingress/shop/cheese/0", "certificate/shop/key", "odd")
	mine, err := c.Acknowledgements.Tell()
	if err != nil {
		t.Fatal(err)
	}
	got := said()
	for _, want := range []string{"certificate/shop/key: it is odd (pod web-2)", "cannot use odd"} {
		if !strings.Contains(got, want) || strings.Contains(got, "cheese") {
			t.Errorf("of more, said is %q", got)
		}
	}
	// The other replica tells of the same.
	c.Acknowledgements.Heard(7, mine)
	report(1, "web-1", true)
	report(2, "web-2", true)
	if got := said(); got != "" {
		t.Errorf("of the same elsewhere, said is %q", got)
	}
	woken()
	c.Acknowledgements.Heard(7, nil)
	if !woken() || said() != "" || len(c.told) != 0 {
		t.Errorf("when nothing is refused any more, %v lasts", c.told)
	}
	report(3, "web-1", false, "route/Ingress/shop/cheese/0")
	if got := said(); !strings.Contains(got, "cheese") {
		t.Errorf("again, said is %q", got)
	}
}
