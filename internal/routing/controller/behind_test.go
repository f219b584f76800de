package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/stream"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestBehind: a Gateway that is programmed stays so when proxies lag behind, and its message says how many do once that
// lasts: from one count to the next.
func TestBehind(t *testing.T) {
	c := newCluster(t, true, gatewayClass(), gatewayOf("entry"))
	c.withSyncedGateways(t)
	c.statuses.counts.every = time.Nanosecond
	p := c.proxy(t)
	c.pass(t, gatewayClass(), gatewayOf("entry"))
	p.hear(t)
	head := c.positions[web]
	acknowledge := func(stream1 uint64, pod types.UID, position uint64, ended bool) {
		c.Acknowledgements.Report(delta.Report{
			Peer: delta.Peer{IngressDaemonSet: web, UID: pod}, Stream: stream1, Acknowledgement: stream.Acknowledgement{Position: position}, Ended: ended,
		})
	}
	// message is that of the condition after a pass, in which proxies are counted.
	message := func() string {
		t.Helper()
		c.pass(t, gatewayOf("entry"))
		entry := gatewayOf("entry")
		if err := c.API.WithWatch.Get(t.Context(), client.ObjectKeyFromObject(entry), entry); err != nil {
			t.Fatal(err)
		}
		condition, listener := meta.FindStatusCondition(entry.Status.Conditions, "Programmed"), meta.FindStatusCondition(entry.Status.Listeners[0].Conditions, "Programmed")
		if condition.Message != listener.Message {
			t.Errorf("the Gateway says %q, its listener %q", condition.Message, listener.Message)
		}
		return string(condition.Status) + " " + condition.Message
	}
	expect := func(when string, want ...string) {
		t.Helper()
		for i, w := range want {
			if got := message(); got != w {
				t.Errorf("%s, after %d counts: %q, want %q", when, i+1, got, w)
			}
		}
	}
	const served = "True the proxies of IngressDaemonSet ingress/web serve it"
	acknowledge(1, "one", head, false)
	acknowledge(2, "two", head-1, false)
	const pending = "False not all proxies have it yet"
	// None was there at the count before.
	expect("one of two has it", pending+"; 1 of 2 have what was made of it last")
	acknowledge(2, "two", head, false)
	expect("both have it", served, served)
	acknowledge(3, "late", 0, false)
	expect("another comes", served, served+"; 2 of 3 have what was made of it last", served+"; 2 of 3 have what was made of it last")
	writes := len(c.Writes())
	expect("that lasts", served+"; 2 of 3 have what was made of it last")
	if got := c.Writes()[writes:]; len(got) > 0 {
		t.Errorf("with nothing new, written is %q", got)
	}
	c.Acknowledgements.Heard(9, []byte(`{"Proxies":[{"IngressDaemonSet":{"Namespace":"ingress","Name":"web"},"All":2}]}`))
	expect("another replica has two", served+"; 2 of 5 have what was made of it last")
	c.Acknowledgements.Heard(9, nil)
	acknowledge(3, "late", head, false)
	// That none lags any more needs no count.
	c.statuses.counts.every = time.Hour
	expect("it has it, too", served)
	c.statuses.counts.every = time.Nanosecond
	expect("they are counted", served)
	acknowledge(3, "late", head, true)
	acknowledge(2, "two", head, true)
	acknowledge(1, "one", head, true)
	expect("none is there", served, served+"; none of them is connected")
}

// TestCountedSeldom: proxies are counted every ten seconds, by who leads, and where there is a Gateway.
func TestCountedSeldom(t *testing.T) {
	c := newCluster(t, true, gatewayClass(), gatewayOf("entry"))
	c.withSyncedGateways(t)
	c.pass(t)
	if at := c.statuses.counts.at; !at.IsZero() {
		t.Errorf("without a Gateway they were counted at %s", at)
	}
	c.pass(t, gatewayClass(), gatewayOf("entry"))
	at := c.statuses.counts.at
	again, err := c.statuses.Reconcile(t.Context(), ctrl.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if at.IsZero() || c.statuses.counts.at != at || again.RequeueAfter == 0 || again.RequeueAfter > 10*time.Second {
		t.Errorf("they were counted at %s and %s, and are again in %s", at, c.statuses.counts.at, again.RequeueAfter)
	}
	c.statuses.leads = func() bool { return false }
	if _, err := c.statuses.Reconcile(t.Context(), ctrl.Request{}); err != nil {
		t.Fatal(err)
	}
	if n := c.statuses.counts; n.last != nil || !n.at.IsZero() || n.every != 10*time.Second {
		t.Errorf("who leads no more keeps %+v", n)
	}
}

// TestCounts: what is so at two counts in a row is told, and what is told no more is looked at, too.
func TestCounts(t *testing.T) {
	a, b := routing.Ref{Kind: "Gateway", Name: "a"}, routing.Ref{Kind: "Gateway", Name: "b"}
	c := counts{every: time.Second}
	for i, step := range []struct {
		a, b    count
		changed string
	}{
		{count{1, 2}, count{2, 2}, ""},
		{count{1, 2}, count{1, 2}, "a"},
		{count{1, 2}, count{1, 3}, "b"},
		{count{2, 2}, count{1, 3}, "a"},
		{count{0, 0}, count{0, 0}, "b"},
		{count{0, 0}, count{0, 0}, "a"},
	} {
		var changed []string
		for _, ref := range c.take(time.Unix(int64(i), 0), map[routing.Ref]count{a: step.a, b: step.b}) {
			changed = append(changed, ref.Name)
		}
		if got := strings.Join(changed, " "); got != step.changed || c.at.Unix() != int64(i) {
			t.Errorf("count %d, %+v: changed is %q, behind %v", i, step, got, c.behind)
		}
	}
	if got := c.take(time.Now(), nil); len(got) != 2 || len(c.behind) != 0 {
		t.Errorf("without Gateways, changed are %v, behind %v", got, c.behind)
	}
}
