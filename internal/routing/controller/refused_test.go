package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/stream"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestLongWarning: an event has room for what is said of the longest value, whatever letters that has.
func TestLongWarning(t *testing.T) {
	in := ingressTo("cheese", "cheese.example.com", "cheese")
	in.Annotations = map[string]string{routing.AnnotationServiceWeights: strings.Repeat("ä", 2000)}
	c := newCluster(t, true, in)
	c.pass(t)
	said := strings.Join(c.said(), "; ")
	kind, _, _ := strings.Cut(said, "ä")
	if n := len(said); !strings.Contains(kind, "Warning") || n < 1000 || n > 1024+len("Warning "+routing.ReasonInvalidAnnotation+" ") || !utf8.ValidString(said) {
		t.Errorf("of %d bytes is said: %s", n, said)
	}
}

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

// TestRefusedRoute: an HTTPRoute of which proxies cannot use a part says so in its status, of the parent that they serve,
// until they can. What proxies say of another IngressDaemonSet's, or who serves none of it, is no matter.
func TestRefusedRoute(t *testing.T) {
	route := routeTo("entry", "cheese")
	c := newCluster(t, true, gatewayClass(), gatewayOf("entry"), route)
	c.withSyncedGateways(t)
	c.pass(t, gatewayClass(), gatewayOf("entry"), route)
	before := c.conditions(t, route)
	report := func(of types.NamespacedName, refused ...wire.Refusal) {
		c.Acknowledgements.Report(delta.Report{Peer: delta.Peer{IngressDaemonSet: of, Pod: of.Name + "-0", UID: types.UID(of.Name)}, Stream: 1, Acknowledgement: stream.Acknowledgement{Position: 1, Refused: refused}})
		c.pass(t, route)
	}
	refusal := wire.Refusal{Name: "route/HTTPRoute/shop/cheese/0", Reason: "filter 0, of kind 9, is not known"}
	report(types.NamespacedName{Namespace: web.Namespace, Name: "another"}, refusal)
	report(web, wire.Refusal{Name: "route/HTTPRoute/shop/cheesecake/0", Reason: "it is odd"})
	if got := c.conditions(t, route); got != before {
		t.Errorf("for what others say, the route's conditions are %s, not %s", got, before)
	}
	report(web, refusal)
	if got, want := c.conditions(t, route), routing.ControllerName+" entry PartiallyInvalid=True"; !strings.Contains(got, want) || !strings.HasPrefix(got, before) {
		t.Errorf("the route's conditions are %s, not %s and %s", got, before, want)
	}
	now := routeTo("entry", "cheese")
	if err := c.API.WithWatch.Get(t.Context(), client.ObjectKeyFromObject(now), now); err != nil {
		t.Fatal(err)
	}
	said := meta.FindStatusCondition(now.Status.Parents[len(now.Status.Parents)-1].Conditions, "PartiallyInvalid").Message
	if want := "pod web-0 cannot use route/HTTPRoute/shop/cheese/0, and uses what it was told before: filter 0, of kind 9, is not known"; said != want {
		t.Errorf("said is %q", said)
	}
	report(web)
	if got := c.conditions(t, route); got != before {
		t.Errorf("when it can, the route's conditions are %s, not %s", got, before)
	}
}

// TestRefusedOften: whatever pods say of a resource, it makes three events a minute at most, and those of an
// IngressDaemonSet a hundred.
func TestRefusedOften(t *testing.T) {
	s, began, n := said{}, time.Now(), 0
	counted := func(name string, after time.Duration) {
		if at := s.from(refusedResource{IngressDaemonSet: web, Name: name}, began.Add(after)); at.IsZero() {
			n++
		} else if !at.Equal(began.Add(refusedEvery)) {
			t.Errorf("it is said again at %v", at.Sub(began))
		}
	}
	for i := range 50 {
		counted("route/Ingress/shop/cheese/0", time.Duration(i)*time.Second)
	}
	if n != 3 {
		t.Errorf("%d events of one resource in a minute", n)
	}
	for i := range 500 {
		counted(fmt.Sprint("odd-", i), time.Duration(i)*100*time.Millisecond)
	}
	if n != 100 {
		t.Errorf("%d events of all in a minute", n)
	}
	if counted("route/Ingress/shop/cheese/0", refusedEvery); n != 101 {
		t.Error("none after a minute")
	}
	c := newCluster(t, true, ingressTo("cheese", "cheese.example.com", "cheese"))
	c.pass(t)
	c.said()
	for i := range 5 {
		c.Acknowledgements.Report(delta.Report{Peer: delta.Peer{IngressDaemonSet: web, Pod: "web-1", UID: "web-1"}, Stream: 1, Acknowledgement: stream.Acknowledgement{
			Position: 1, Refused: []wire.Refusal{{Name: "route/Ingress/shop/cheese/0", Reason: fmt.Sprint("reason ", i)}},
		}})
		r := c.pass(t)
		if again := r.RequeueAfter > 0; again != (i >= 3) {
			t.Errorf("after event %d the next pass is in %v", i, r.RequeueAfter)
		}
	}
	if got := c.said(); len(got) != 3 {
		t.Errorf("said is %q", got)
	}
}
