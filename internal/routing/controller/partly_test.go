package controller

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/gatewayapi"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/fakeapi"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// gated is another IngressDaemonSet, which has Gateways.
var gated = types.NamespacedName{Namespace: web.Namespace, Name: "gated"}

// withUnlisted gives the cluster all kinds of the Gateway API, of which some are not synced until the test says so.
func (c *cluster) withUnlisted(t *testing.T, unlisted ...string) (list func(kind string)) {
	t.Helper()
	kinds, informers := &installed{}, map[schema.GroupVersionKind]toolscache.SharedIndexInformer{}
	late := map[string]*controllertest.FakeInformer{}
	for _, kind := range unlisted {
		late[kind] = controllertest.NewFakeInformer()
		informers[gatewayv1.SchemeGroupVersion.WithKind(kind)] = late[kind]
	}
	kinds.set(gatewayapi.Names...)
	c.GatewayAPI = gatewayapi.New(c.API, &informertest.FakeInformers{Scheme: c.Scheme(), InformersByGVK: informers}, kinds.served)
	if err := c.GatewayAPI.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := slices.Clone(unlisted)
	expect := func() {
		t.Helper()
		await.True(t, "the other kinds are synced", func() bool { return slices.Equal(c.GatewayAPI.Unknown(), left) })
	}
	expect()
	return func(kind string) {
		t.Helper()
		late[kind].Synced()
		left = slices.DeleteFunc(left, func(k string) bool { return k == kind })
		expect()
	}
}

// gatedClass is a GatewayClass of gated.
func gatedClass() *gatewayv1.GatewayClass {
	class := gatewayClass()
	class.Spec.ParametersRef.Name = gated.Name
	return class
}

// TestKindNotListed: where a kind of the Gateway API cannot be listed, proxies that have no Gateways are told after a
// while, and Ingresses have statuses. Others wait.
func TestKindNotListed(t *testing.T) {
	class := gatedClass()
	c := newCluster(t, true, class, gatewayOf("entry"), ingressTo("cheese", "cheese.example.com", "cheese"), &v1alpha1.IngressDaemonSet{ObjectMeta: named(gated.Namespace, gated.Name)})
	list := c.withUnlisted(t, "HTTPRoute")
	if r := c.pass(t, class, gatewayOf("entry")); c.Server.IsComplete() || r.RequeueAfter <= 0 || r.RequeueAfter > patience {
		t.Errorf("at first proxies are told: %t, and the next pass is in %v", c.Server.IsComplete(), r.RequeueAfter)
	}
	c.begun = c.begun.Add(-patience)
	if c.pass(t); !c.Server.IsComplete() || c.complete || c.positions[web] == 0 || c.wasTold(gated) {
		t.Errorf("after a while it is told at %v", c.positions)
	}
	p := c.proxy(t)
	if got := p.hear(t); !strings.Contains(got, "Ingress/shop/cheese") {
		t.Errorf("told is %s", got)
	}
	if got := strings.Join(c.Writes(), ", "); got != "update Ingress/status cheese" {
		t.Errorf("written is %s", got)
	}
	endpoints := slice("192.0.2.7")
	c.put(t, endpoints)
	c.pass(t, endpoints)
	if got := p.hear(t); !strings.Contains(got, "192.0.2.7") {
		t.Errorf("of new endpoints told is %s", got)
	}
	list("HTTPRoute")
	if c.pass(t); !c.complete || !c.wasTold(gated) {
		t.Errorf("when it can be listed it is told at %v", c.positions)
	}
}

// TestNobodyToTell: a replica all of whose proxies wait for what cannot be listed stays unready, so that it replaces none
// that can tell them. One for which there are none does not.
func TestNobodyToTell(t *testing.T) {
	for _, sets := range [][]client.Object{nil, {&v1alpha1.IngressDaemonSet{ObjectMeta: named(gated.Namespace, gated.Name)}}} {
		c := replicaOf(t, fakeapi.New(t, sets...), true)
		list := c.withUnlisted(t, "GatewayClass")
		c.pass(t)
		c.begun = c.begun.Add(-patience)
		if c.pass(t); c.Server.IsComplete() != (len(sets) == 0) {
			t.Errorf("with %d that wait it is ready: %t", len(sets), c.Server.IsComplete())
		}
		list("GatewayClass")
		if c.pass(t); !c.Server.IsComplete() {
			t.Errorf("with %d that were told it is not ready", len(sets))
		}
	}
}

// TestGatewaysNotListed: where Gateways cannot be listed either nobody knows whose proxies serve one, and all wait.
func TestGatewaysNotListed(t *testing.T) {
	c := newCluster(t, true, ingressTo("cheese", "cheese.example.com", "cheese"))
	list := c.withUnlisted(t, "Gateway", "GatewayClass")
	c.pass(t)
	c.begun = c.begun.Add(-patience)
	if c.pass(t); c.wasTold(web) || c.Server.IsComplete() || len(c.Writes()) > 0 {
		t.Errorf("it is told at %v, and written is %q", c.positions, c.Writes())
	}
	list("Gateway")
	if c.pass(t); !c.wasTold(web) {
		t.Error("it is not told though Gateways are known")
	}
}

// TestGatewayClassesNotListed: where GatewayClasses cannot be listed nobody knows who has Gateways. Who has an IngressClass
// is told of its Ingresses after a while, which have statuses; those wait that have none, those of which a Gateway says
// that they serve it, and each proxy that has something of one. It is said once.
func TestGatewayClassesNotListed(t *testing.T) {
	class, entry := gatedClass(), gatewayOf("entry")
	// In a version's words that were written before this one began: another wording has to know this one, too.
	served := routing.Condition{Type: "Programmed", Status: "True", Reason: "Programmed", Message: "the proxies of IngressDaemonSet ingress/gated serve it"}
	setConditions(&entry.Status.Conditions, []routing.Condition{served}, 1)
	bare := types.NamespacedName{Namespace: web.Namespace, Name: "bare"}
	c := newCluster(t, true, class, entry, ingressTo("cheese", "cheese.example.com", "cheese"), classOf(gated.Name),
		&v1alpha1.IngressDaemonSet{ObjectMeta: named(gated.Namespace, gated.Name)}, &v1alpha1.IngressDaemonSet{ObjectMeta: named(bare.Namespace, bare.Name)})
	list := c.withUnlisted(t, "GatewayClass", "HTTPRoute")
	var said []string
	logger := funcr.New(func(_, args string) { said = append(said, args) }, funcr.Options{})
	pass := func() {
		t.Helper()
		if _, err := c.Reconcile(log.IntoContext(t.Context(), logger), ctrl.Request{}); err != nil {
			t.Fatal(err)
		}
		c.pass(t)
	}
	c.pass(t, class, entry)
	if c.begun = c.begun.Add(-patience); len(c.positions) > 0 || len(c.Writes()) > 0 {
		t.Errorf("at first it is told at %v, and written is %q", c.positions, c.Writes())
	}
	pass()
	pass()
	if !c.Server.IsComplete() || c.positions[web] == 0 || c.wasTold(gated) || c.wasTold(bare) {
		t.Errorf("after a while it is told at %v", c.positions)
	}
	if got := c.proxy(t).hear(t); !strings.Contains(got, "Ingress/shop/cheese") {
		t.Errorf("told is %s", got)
	}
	if got := strings.Join(c.Writes(), ", "); got != "update Ingress/status cheese" {
		t.Errorf("written is %s", got)
	}
	has := wire.Request{Node: "web-0", TypeURL: wire.TypeURL, Versions: map[string]string{"listener/Gateway/shop/entry/http": "1"}}
	waits := func(when string) {
		t.Helper()
		if r, err := c.proxyWith(t, has).open(t).Receive(); grpcstatus.Code(err) != codes.Unavailable {
			t.Errorf("%s, a proxy that has something of a Gateway is told %v, %v", when, r, err)
		}
	}
	waits("while GatewayClasses cannot be listed")
	list("GatewayClass")
	c.pass(t, class)
	waits("while HTTPRoutes cannot be")
	list("HTTPRoute")
	pass()
	if got := c.proxyWith(t, has).hear(t); !c.complete || !c.wasTold(gated) || !c.wasTold(bare) || !strings.Contains(got, "-listener/Gateway/shop/entry/http") {
		t.Errorf("when all can be listed told is %s, at %v", got, c.positions)
	}
	if len(said) != 2 || !strings.Contains(said[0], `"kinds"=["GatewayClass" "HTTPRoute"]`) || !strings.Contains(said[1], "all kinds of the Gateway API can be read") {
		t.Errorf("said is %q", said)
	}
}
