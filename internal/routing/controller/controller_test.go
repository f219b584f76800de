package controller

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const first = "backend/shop/cheese:80, endpoints/shop/cheese:80 10.1.0.1, listener/"

// TestReachesAStream: an Ingress and its endpoints reach a proxy in one transaction, and so does each change.
func TestReachesAStream(t *testing.T) {
	in, endpoints := ingressTo("cheese", "cheese.example.com", "cheese"), slice("10.1.0.1")
	c := newCluster(t, true, in, endpoints)
	p := c.proxy(t)
	c.pass(t)
	if got := p.hear(t); !strings.HasPrefix(got, first) || !strings.Contains(got, "route/") {
		t.Errorf("told is %s", got)
	}
	next := slice("10.1.0.1", "10.1.0.2")
	c.put(t, next)
	c.pass(t, next)
	if got := p.hear(t); got != "endpoints/shop/cheese:80 10.1.0.1 10.1.0.2" {
		t.Errorf("told of new endpoints is %s", got)
	}
	if err := c.API.WithWatch.Delete(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	c.pass(t, in)
	if got := p.hear(t); !strings.Contains(got, "-route/") || !strings.Contains(got, "-backend/shop/cheese:80") {
		t.Errorf("told of what is gone is %s", got)
	}
	if left := c.changes.take(); len(left) != 0 {
		t.Errorf("the next pass would read %v once more", left)
	}
	if len(c.statuses.due) != 0 {
		t.Errorf("the write of what is gone is remembered: %v", c.statuses.due)
	}
}

// TestNothingToServe: proxies for which there is nothing are told that this is all, also those of an
// IngressDaemonSet that comes later.
func TestNothingToServe(t *testing.T) {
	for _, later := range []bool{false, true} {
		c := newCluster(t, false)
		set, class := c.setOf(t), &networkingv1.IngressClass{ObjectMeta: named("", "web")}
		for _, o := range []client.Object{set, class} {
			if err := c.API.WithWatch.Delete(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		if later {
			c.pass(t)
		}
		set.ResourceVersion = ""
		c.put(t, set)
		p := c.proxy(t)
		c.pass(t, set)
		if got := p.hear(t); got != "" {
			t.Errorf("told is %s", got)
		}
	}
}

// TestSecretsByName: a Secret is read when an Ingress names it, followed as long as one does, and no other
// is read. Before it is known how those are that Ingresses name at first, proxies are told nothing.
func TestSecretsByName(t *testing.T) {
	in := ingressTo("cheese", "cheese.example.com", "cheese")
	in.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"cheese.example.com"}, SecretName: "named"}}
	other := &corev1.Secret{ObjectMeta: named("shop", "other")}
	c := newCluster(t, true, in, slice("10.1.0.1"), other, certificate(t, "named", "cheese.example.com"))
	p := c.proxy(t)
	c.pass(t)
	if c.complete {
		t.Error("proxies are told before it is known how the Secret is")
	}
	c.awaken(t)
	if got := p.hear(t); !strings.Contains(got, "certificate/shop/named") || !strings.Contains(got, "route/") {
		t.Errorf("told is %s", got)
	}
	c.put(t, certificate(t, "named", "cheese.example.com"))
	c.awaken(t)
	if got := p.hear(t); got != "certificate/shop/named" {
		t.Errorf("told of a new certificate is %s", got)
	}
	// The API server ends watches: the next one finds what changed meanwhile.
	c.mu.Lock()
	ended := slices.Clone(c.watches)
	c.mu.Unlock()
	for _, w := range ended {
		w.Stop()
	}
	c.put(t, certificate(t, "named", "cheese.example.com"))
	c.awaken(t)
	if got := p.hear(t); got != "certificate/shop/named" {
		t.Errorf("told after the watch ended is %s", got)
	}
	if got := c.readSecrets(); got != "get shop/named, watch shop/named" {
		t.Errorf("read are %s", got)
	}
	in.Spec.TLS, in.ResourceVersion = nil, ""
	c.put(t, in)
	c.pass(t, in)
	if len(c.secrets.all) != 0 {
		t.Error("a Secret is followed that nobody names any more")
	}
	for ref := range c.objects {
		if ref.Kind == kindSecret {
			t.Errorf("%s is kept beside the Compiler", ref)
		}
	}
}

// TestSecretMissing: one that is not there is an answer, too, and an event says so, of the Ingress.
func TestSecretMissing(t *testing.T) {
	in := ingressTo("cheese", "cheese.example.com", "cheese")
	in.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"cheese.example.com"}, SecretName: "missing"}}
	c := newCluster(t, true, in, ingressTo("other", "other.example.com", "missing"), slice("10.1.0.1"))
	p := c.proxy(t)
	c.pass(t)
	if n := len(c.events.Events); n != 0 {
		t.Errorf("%d events are made before all is known", n)
	}
	c.awaken(t)
	if got := p.hear(t); !strings.Contains(got, "route/") || strings.Contains(got, "certificate/") {
		t.Errorf("told is %s", got)
	}
	c.pass(t)
	if said := c.said(); len(said) != 2 || !strings.Contains(strings.Join(said, ""), "Secret shop/missing does not exist") {
		t.Errorf("events are %q", said)
	}
}

// TestStatus: the leader writes where Ingresses are reached, keeps entries of others, writes nothing twice,
// and writes anew what conflicted.
func TestStatus(t *testing.T) {
	in := ingressTo("cheese", "cheese.example.com", "cheese")
	in.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "198.51.100.9"}}
	c := newCluster(t, true, in)
	refusals := 1
	c.Refuse = func(string) error {
		if refusals--; refusals >= 0 {
			return apierrors.NewConflict(schema.GroupResource{}, "cheese", errors.New("it changed"))
		}
		return nil
	}
	if r := c.pass(t); r.RequeueAfter > 100*time.Millisecond || r.RequeueAfter == 0 {
		t.Errorf("after a conflict the next pass is in %v", r.RequeueAfter)
	}
	await.True(t, "the status", func() bool {
		c.pass(t)
		return c.addresses(t) == "192.0.2.1 198.51.100.9"
	})
	// The cache does not show it yet.
	c.pass(t)
	if got := strings.Join(c.Writes(), ", "); got != "update Ingress/status cheese, update Ingress/status cheese" {
		t.Errorf("written is %s", got)
	}
	c.pass(t, in)
	// Somebody takes it away: it is written again.
	now := c.ingress(t)
	now.Status.LoadBalancer.Ingress = now.Status.LoadBalancer.Ingress[1:]
	if err := c.API.WithWatch.Status().Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	c.pass(t, in)
	if got := c.addresses(t); got != "192.0.2.1 198.51.100.9" {
		t.Errorf("after somebody changed it the status has %s", got)
	}
}

// TestStatusLate: a status that others wrote after this one was compiled is not overwritten.
func TestStatusLate(t *testing.T) {
	in := ingressTo("cheese", "cheese.example.com", "cheese")
	c := newCluster(t, true, in)
	c.Refuse = func(string) error {
		c.Refuse = nil
		now := c.ingress(t)
		now.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "198.51.100.9"}}
		return c.API.WithWatch.Status().Update(t.Context(), now)
	}
	c.pass(t)
	c.pass(t, in)
	if got := c.addresses(t); got != "192.0.2.1 198.51.100.9" {
		t.Errorf("the status has %s", got)
	}
}

// TestFollower: who does not lead tells proxies, and writes nothing.
func TestFollower(t *testing.T) {
	leads := false
	c := newCluster(t, false, ingressTo("cheese", "cheese.example.com", "missing"))
	c.Leads = func() bool { return leads }
	p := c.proxy(t)
	c.pass(t)
	if got := p.hear(t); !strings.Contains(got, "route/") {
		t.Errorf("told is %s", got)
	}
	if writes, said := c.Writes(), c.said(); len(writes)+len(said) != 0 {
		t.Errorf("written is %v, events are %q", writes, said)
	}
	leads = true
	c.pass(t)
	if writes, said := c.Writes(), c.said(); len(writes) != 1 || len(said) != 1 {
		t.Errorf("as the leader: written is %v, events are %q", writes, said)
	}
	c.pass(t)
	if said := c.said(); len(said) != 0 {
		t.Errorf("events are made again: %q", said)
	}
}

// TestReadsFail: what could not be read is read in the next pass, and nothing is told before.
func TestReadsFail(t *testing.T) {
	c := newCluster(t, true, ingressTo("cheese", "cheese.example.com", "cheese"), slice("10.1.0.1"))
	whole := c.client
	c.client = unreadable{whole}
	if _, err := c.Reconcile(t.Context(), everything); err == nil || c.complete {
		t.Errorf("the pass ends with %v", err)
	}
	c.client = whole
	p := c.proxy(t)
	c.pass(t)
	p.hear(t)
	next := slice("10.1.0.2")
	c.put(t, next)
	c.client = unreadable{whole}
	c.changes.add(routing.RefOf(next))
	if _, err := c.Reconcile(t.Context(), everything); err == nil {
		t.Error("the pass ends without an error")
	}
	c.client = whole
	c.pass(t)
	if got := p.hear(t); got != "endpoints/shop/cheese:80 10.1.0.2" {
		t.Errorf("told is %s", got)
	}
}

// TestFailedWrites: what fails is tried again after a pause, and keeps no other from it.
func TestFailedWrites(t *testing.T) {
	c := newCluster(t, true, ingressTo("a", "a.example.com", "cheese"), ingressTo("b", "b.example.com", "cheese"))
	c.Refuse = func(write string) error {
		if strings.HasSuffix(write, " a") {
			return errors.New("no")
		}
		return nil
	}
	if r := c.pass(t); r.RequeueAfter <= 0 || r.RequeueAfter > time.Second {
		t.Errorf("the next pass is in %v", r.RequeueAfter)
	}
	if !slices.Contains(c.Writes(), "update Ingress/status b") {
		t.Errorf("written is %v", c.Writes())
	}
}

// TestListedWhole: what was listed in a pass in which another read failed is listed again.
func TestListedWhole(t *testing.T) {
	c := newCluster(t, true, ingressTo("cheese", "cheese.example.com", "cheese"), slice("10.1.0.1"))
	whole := c.client
	c.client = ungettable{whole}
	c.changes.add(routing.RefOf(slice()))
	if _, err := c.Reconcile(t.Context(), everything); err == nil {
		t.Error("the pass ends without an error")
	}
	c.client = whole
	p := c.proxy(t)
	c.pass(t)
	if got := p.hear(t); !strings.HasPrefix(got, first) {
		t.Errorf("told is %s", got)
	}
}

// TestForgotten: of an IngressDaemonSet that is gone nothing is kept when no class names it any more, and until
// then its proxies are told on.
func TestForgotten(t *testing.T) {
	in := ingressTo("cheese", "cheese.example.com", "cheese")
	c := newCluster(t, true, in, slice("10.1.0.1"))
	if c.pass(t); !c.Server.IsComplete() {
		t.Error("it is not ready though it has all")
	}
	set, class := c.setOf(t), &networkingv1.IngressClass{ObjectMeta: named("", "web")}
	kept := func() string { return fmt.Sprint(len(c.positions), len(c.withheld)) }
	for _, step := range []struct {
		goes client.Object
		want string
	}{{set, "1 1"}, {class, "0 0"}} {
		if err := c.API.WithWatch.Delete(t.Context(), step.goes); err != nil {
			t.Fatal(err)
		}
		if c.pass(t, step.goes); kept() != step.want {
			t.Errorf("when %s is gone, kept is %s, want %s", routing.RefOf(step.goes), kept(), step.want)
		}
	}
	c.put(t, base()[0])
	c.put(t, base()[1])
	c.pass(t, set, class)
	if got := c.proxy(t).hear(t); !strings.HasPrefix(got, first) {
		t.Errorf("when they are there again, told is %s", got)
	}
}

// TestTwoInstances: the proxies of two IngressDaemonSets are each told of what is of their class, and of nothing else,
// also of no Secret, and when an Ingress goes from one class to the other.
func TestTwoInstances(t *testing.T) {
	inner := ingressTo("stilton", "stilton.internal", "cheese")
	class := "inner"
	inner.Spec.IngressClassName = &class
	inner.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"stilton.internal"}, SecretName: "key"}}
	c := newCluster(t, true, ingressTo("cheese", "cheese.example.com", "cheese"), inner, slice("10.1.0.1"), certificate(t, "key", "stilton.internal"),
		classOf(class), &v1alpha1.IngressDaemonSet{ObjectMeta: named(web.Namespace, class)})
	outside, inside := c.proxy(t), c.proxyOf(t, class, wire.Request{Node: "inner-0", TypeURL: wire.TypeURL})
	c.pass(t)
	c.awaken(t)
	told := func(set, of string) string {
		return fmt.Sprintf("backend/shop/cheese:80, %sendpoints/shop/cheese:80 10.1.0.1, listener/IngressDaemonSet/ingress/%s/http, listener/IngressDaemonSet/ingress/%[2]s/https, route/Ingress/shop/%s/0",
			map[string]string{class: "certificate/shop/key, "}[set], set, of)
	}
	if got, want := outside.hear(t), told(web.Name, "cheese"); got != want {
		t.Errorf("those of the one are told\n%s, want\n%s", got, want)
	}
	if got, want := inside.hear(t), told(class, "stilton"); got != want {
		t.Errorf("those of the other are told\n%s, want\n%s", got, want)
	}
	inner.Spec.IngressClassName = &web.Name
	c.put(t, inner)
	c.pass(t, inner)
	if got := outside.hear(t); got != "certificate/shop/key, listener/IngressDaemonSet/ingress/web/https, route/Ingress/shop/stilton/0" {
		t.Errorf("when it changes its class, those of the one are told %s", got)
	}
	if got := inside.hear(t); got != "-backend/shop/cheese:80, -certificate/shop/key, -endpoints/shop/cheese:80, -route/Ingress/shop/stilton/0, listener/IngressDaemonSet/ingress/inner/https" {
		t.Errorf("and those of the other %s", got)
	}
}
