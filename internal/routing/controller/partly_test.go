package controller

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/gatewayapi"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// unlisted are informers of which that of HTTPRoutes is not synced until the test says so.
type unlisted struct {
	informertest.FakeInformers
	listed atomic.Bool
}

func (u *unlisted) GetInformer(ctx context.Context, o client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	informer, err := u.FakeInformers.GetInformer(ctx, o, opts...)
	if o.GetObjectKind().GroupVersionKind().Kind != "HTTPRoute" {
		return informer, err
	}
	return unlistedInformer{informer, u}, err
}

type unlistedInformer struct {
	cache.Informer
	of *unlisted
}

func (i unlistedInformer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	r, err := i.Informer.AddEventHandler(h)
	return unlistedRegistration{r, i.of}, err
}

type unlistedRegistration struct {
	toolscache.ResourceEventHandlerRegistration
	of *unlisted
}

func (r unlistedRegistration) HasSynced() bool { return r.of.listed.Load() }

// TestKindNotListed: where a kind of the Gateway API cannot be listed, proxies that have no Gateways are told after a
// while, and Ingresses have statuses. Others wait.
func TestKindNotListed(t *testing.T) {
	gated := types.NamespacedName{Namespace: web.Namespace, Name: "gated"}
	class := gatewayClass()
	class.Spec.ParametersRef.Name = gated.Name
	c := newCluster(t, true, class, gatewayOf("entry"), ingressTo("cheese", "cheese.example.com", "cheese"), &v1alpha1.IngressDaemonSet{ObjectMeta: named(gated.Namespace, gated.Name)})
	kinds, informers := &installed{}, &unlisted{FakeInformers: informertest.FakeInformers{Scheme: c.Scheme()}}
	kinds.set(gatewayapi.Names...)
	c.GatewayAPI = gatewayapi.New(c.API, informers, kinds.served)
	if err := c.GatewayAPI.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the other kinds are synced", func() bool {
		return c.GatewayAPI.Known("GatewayClass") && c.GatewayAPI.Known("Gateway") && c.GatewayAPI.Known("ReferenceGrant")
	})
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
	informers.listed.Store(true)
	if c.pass(t); !c.complete || !c.wasTold(gated) {
		t.Errorf("when it can be listed it is told at %v", c.positions)
	}
}
