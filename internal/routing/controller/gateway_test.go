package controller

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/gatewayapi"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/stream"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// installed are the kinds of the Gateway API that an API server has.
type installed struct {
	mu    sync.Mutex
	kinds map[string]bool
}

func (i *installed) set(kinds ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.kinds = map[string]bool{}
	for _, kind := range kinds {
		i.kinds[kind] = true
	}
}

func (i *installed) served(context.Context) (map[string]bool, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.kinds, nil
}

// withGateways gives a cluster the Gateway API. look has it asked which kinds there are.
func (c *cluster) withGateways(t *testing.T, i *installed) {
	t.Helper()
	c.GatewayAPI = gatewayapi.New(c.API, &informertest.FakeInformers{Scheme: c.Scheme()}, i.served)
}

// withSyncedGateways gives the cluster all kinds of the Gateway API, of which all is known.
func (c *cluster) withSyncedGateways(t *testing.T) {
	t.Helper()
	kinds := &installed{}
	kinds.set(gatewayapi.Names...)
	c.withGateways(t, kinds)
	c.sync(t)
}

// sync returns when all is known of the Gateway API.
func (c *cluster) sync(t *testing.T) {
	t.Helper()
	if err := c.GatewayAPI.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	await.True(t, "kinds are synced", c.GatewayAPI.Complete)
}

func gatewayClass() *gatewayv1.GatewayClass {
	namespace := gatewayv1.Namespace(web.Namespace)
	return &gatewayv1.GatewayClass{ObjectMeta: named("", "web"), Spec: gatewayv1.GatewayClassSpec{
		ControllerName: routing.ControllerName,
		ParametersRef: &gatewayv1.ParametersReference{
			Group: gatewayv1.Group(v1alpha1.Kind.Group), Kind: gatewayv1.Kind(v1alpha1.Kind.Kind), Namespace: &namespace, Name: web.Name,
		},
	}}
}

func gatewayOf(name string) *gatewayv1.Gateway {
	g := &gatewayv1.Gateway{ObjectMeta: named("shop", name)}
	g.Generation = 1
	g.Spec.GatewayClassName = "web"
	g.Spec.Listeners = []gatewayv1.Listener{{Name: "http", Port: 8080, Protocol: gatewayv1.HTTPProtocolType}}
	return g
}

func routeTo(gateway, service string) *gatewayv1.HTTPRoute {
	r := &gatewayv1.HTTPRoute{ObjectMeta: named("shop", "cheese")}
	r.Generation = 1
	r.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: gatewayv1.ObjectName(gateway)}, {Name: "of-another"}}
	ref, port := gatewayv1.HTTPBackendRef{}, int32(80)
	ref.Name, ref.Port = gatewayv1.ObjectName(service), &port
	r.Spec.Rules = []gatewayv1.HTTPRouteRule{{BackendRefs: []gatewayv1.HTTPBackendRef{ref}}}
	return r
}

// conditions are those of an object's status, as TYPE=STATUS or, where that is not True, TYPE=STATUS/REASON.
func (c *cluster) conditions(t *testing.T, object client.Object) string {
	t.Helper()
	if err := c.API.WithWatch.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	var out []string
	add := func(of string, all ...metav1.Condition) {
		for _, condition := range all {
			said := of + condition.Type + "=" + string(condition.Status)
			if condition.Status != "True" {
				said += "/" + condition.Reason
			}
			out = append(out, said)
		}
	}
	switch o := object.(type) {
	case *gatewayv1.GatewayClass:
		add("", o.Status.Conditions...)
	case *gatewayv1.Gateway:
		add("", o.Status.Conditions...)
		for _, l := range o.Status.Listeners {
			add(string(l.Name)+" ", l.Conditions...)
		}
	case *gatewayv1.HTTPRoute:
		for _, p := range o.Status.Parents {
			add(string(p.ControllerName)+" "+string(p.ParentRef.Name)+" ", p.Conditions...)
		}
	}
	return strings.Join(out, ", ")
}

// TestGatewayAPI: its kinds may be installed later; what is made of them reaches proxies, and statuses say so, with
// what others say of a route left as it is. When the kinds are removed, what was made of them goes.
func TestGatewayAPI(t *testing.T) {
	route := routeTo("entry", "cheese")
	said := gatewayv1.RouteParentStatus{ControllerName: "example.com/another", ParentRef: route.Spec.ParentRefs[1]}
	meta.SetStatusCondition(&said.Conditions, metav1.Condition{Type: "Accepted", Status: "True", Reason: "Accepted"})
	route.Status.Parents = []gatewayv1.RouteParentStatus{said}
	c := newCluster(t, true, gatewayClass(), gatewayOf("entry"), route)
	kinds := &installed{}
	c.withGateways(t, kinds)
	p := c.proxy(t)
	c.pass(t)
	if c.complete {
		t.Fatal("proxies are told of all before it is known whether there is a Gateway API")
	}
	look := func(all ...string) {
		t.Helper()
		kinds.set(all...)
		if err := c.GatewayAPI.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		await.True(t, "kinds are synced", c.GatewayAPI.Complete)
	}
	look()
	c.pass(t)
	if got := p.hear(t); strings.Contains(got, "Gateway") {
		t.Fatalf("told is %s", got)
	}
	look(gatewayapi.Names...)
	c.pass(t, gatewayClass(), gatewayOf("entry"), route)
	if got := p.hear(t); !strings.Contains(got, "listener/Gateway/shop/entry/http") || !strings.Contains(got, "route/HTTPRoute/shop/cheese/0") {
		t.Fatalf("told is %s", got)
	}
	const pending = "Accepted=True, Programmed=False/Pending, http Accepted=True, http Conflicted=False/NoConflicts, http ResolvedRefs=True, http Programmed=False/Pending"
	if got := c.conditions(t, gatewayOf("entry")); got != pending {
		t.Errorf("before proxies have it, the Gateway's conditions are %s", got)
	}
	if got := c.conditions(t, gatewayClass()); got != "Accepted=True" {
		t.Errorf("the class's conditions are %s", got)
	}
	if got := c.conditions(t, routeTo("entry", "cheese")); got != "example.com/another of-another Accepted=True, "+routing.ControllerName+" entry Accepted=True, "+routing.ControllerName+" entry ResolvedRefs=True" {
		t.Errorf("the route's conditions are %s", got)
	}
	acknowledge := func(stream1 uint64, pod types.UID, position uint64, ended bool) {
		c.Acknowledgements.Report(delta.Report{
			Peer: delta.Peer{IngressDaemonSet: web, UID: pod}, Stream: stream1, Acknowledgement: stream.Acknowledgement{Position: position}, Ended: ended,
		})
	}
	head := c.positions[web]
	acknowledge(1, "one", head, false)
	acknowledge(2, "two", head-1, false)
	acknowledge(3, "two", 0, false)
	c.pass(t, gatewayOf("entry"))
	if got := c.conditions(t, gatewayOf("entry")); got != pending {
		t.Errorf("while one proxy lags behind, the Gateway's conditions are %s", got)
	}
	acknowledge(3, "two", head, false)
	c.pass(t, gatewayOf("entry"))
	programmed := strings.ReplaceAll(pending, "False/Pending", "True")
	if got := c.conditions(t, gatewayOf("entry")); got != programmed {
		t.Errorf("when all have it, the Gateway's conditions are %s", got)
	}
	acknowledge(5, "other", 0, false)
	c.put(t, changedGateway(t, c))
	c.pass(t, gatewayOf("entry"))
	p.hear(t)
	head = c.positions[web]
	acknowledge(1, "one", head, false)
	acknowledge(3, "two", head, false)
	mine, err := c.Acknowledgements.Tell()
	if err != nil || string(mine) != `{"Proxies":[{"IngressDaemonSet":{"Namespace":"ingress","Name":"web"},"All":3}],"Gateways":[{"Gateway":{"Namespace":"shop","Name":"entry"},"IngressDaemonSet":{"Namespace":"ingress","Name":"web"},"Generation":2,"Have":2,"All":3}],"Refused":null}` {
		t.Errorf("the leader would be told %s, %v", mine, err)
	}
	acknowledge(5, "other", head, false)
	elsewhere := func(generation int64, have, all int) []byte {
		return fmt.Appendf(nil, `{"Gateways":[{"Gateway":{"Namespace":"shop","Name":"entry"},"IngressDaemonSet":{"Namespace":"ingress","Name":"web"},"Generation":%d,"Have":%d,"All":%d}]}`, generation, have, all)
	}
	silent := []byte(`{"Proxies":[{"IngressDaemonSet":{"Namespace":"ingress","Name":"web"},"All":1}]}`)
	ofAnother := bytes.ReplaceAll(elsewhere(2, 2, 2), []byte(`"web"`), []byte(`"another"`))
	for _, said := range []struct {
		message    []byte
		programmed bool
	}{{silent, false}, {elsewhere(2, 1, 2), false}, {elsewhere(1, 2, 2), false}, {append(silent[:len(silent)-1:len(silent)-1], ","+string(ofAnother[1:])...), false}, {elsewhere(2, 2, 2), true}} {
		c.Acknowledgements.Heard(9, said.message)
		c.pass(t, gatewayOf("entry"))
		if got := c.conditions(t, gatewayOf("entry")); strings.Contains(got, " Programmed=True") != said.programmed {
			t.Errorf("when another replica says %s, the Gateway's conditions are %s", said.message, got)
		}
	}
	acknowledge(4, "late", 0, false)
	acknowledge(1, "one", head, true)
	c.pass(t, gatewayOf("entry"))
	if got := c.conditions(t, gatewayOf("entry")); got != programmed {
		t.Errorf("when another comes, the Gateway's conditions are %s", got)
	}
	// Another IngressDaemonSet's proxies have nothing of it, though its generation is the same.
	c.put(t, &v1alpha1.IngressDaemonSet{ObjectMeta: named(web.Namespace, "other")})
	moved := gatewayClass()
	moved.Spec.ParametersRef.Name = "other"
	c.put(t, moved)
	c.pass(t, moved, &v1alpha1.IngressDaemonSet{ObjectMeta: named(web.Namespace, "other")})
	if got := c.conditions(t, gatewayOf("entry")); strings.Contains(got, "Programmed=True") {
		t.Errorf("when its class names another IngressDaemonSet, the Gateway's conditions are %s", got)
	}
	p.hear(t)
	c.put(t, gatewayClass())
	c.pass(t, gatewayClass(), gatewayOf("entry"))
	p.hear(t)
	acknowledge(3, "two", c.positions[web], false)
	acknowledge(4, "late", c.positions[web], false)
	acknowledge(5, "other", c.positions[web], false)
	c.pass(t, gatewayOf("entry"))
	writes := len(c.Writes())
	c.pass(t, gatewayClass(), gatewayOf("entry"), route)
	if got := c.Writes()[writes:]; len(got) > 0 {
		t.Errorf("with nothing new, written is %q", got)
	}
	for range 3 {
		look()
	}
	c.pass(t)
	if got := p.hear(t); !strings.Contains(got, "-listener/Gateway/shop/entry/http") || !strings.Contains(got, "-route/HTTPRoute/shop/cheese/0") {
		t.Errorf("without the Gateway API, told is %s", got)
	}
}

// changedGateway is of the next generation.
func changedGateway(t *testing.T, c *cluster) *gatewayv1.Gateway {
	t.Helper()
	g := gatewayOf("entry")
	if err := c.API.WithWatch.Get(t.Context(), client.ObjectKeyFromObject(g), g); err != nil {
		t.Fatal(err)
	}
	g.Generation = 2
	return g
}

// TestKnownBeforeChanges: what of the Gateway API comes while a pass goes on is for the next one: this one tells nobody
// that it has all, and writes no status.
func TestKnownBeforeChanges(t *testing.T) {
	route := routeTo("entry", "cheese")
	ours := gatewayv1.RouteParentStatus{ControllerName: routing.ControllerName, ParentRef: route.Spec.ParentRefs[0]}
	meta.SetStatusCondition(&ours.Conditions, metav1.Condition{Type: "Accepted", Status: "True", Reason: "Accepted"})
	route.Status.Parents = []gatewayv1.RouteParentStatus{ours}
	c := newCluster(t, true, gatewayClass(), gatewayOf("entry"), route)
	kinds := &installed{}
	c.withGateways(t, kinds)
	kinds.set(gatewayapi.Names...)
	// It is all known, but not to this pass, which has taken the changes before.
	o, err := c.observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.GatewayAPI.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	await.True(t, "kinds are synced", c.GatewayAPI.Complete)
	o.there = append(o.there, route)
	c.tell(o)
	c.apply(t.Context(), o, c.compiler.Compile(time.Now()))
	if c.complete {
		t.Error("a pass that did not know of all tells that it does")
	}
	if _, err := c.statuses.Reconcile(t.Context(), ctrl.Request{}); err != nil || len(c.Writes()) > 0 {
		t.Errorf("before all is known, written is %q, %v", c.Writes(), err)
	}
	c.pass(t, gatewayClass(), gatewayOf("entry"), route)
	if got := c.conditions(t, route); !c.complete || !strings.Contains(got, "entry Accepted=True") {
		t.Errorf("the route's conditions are %s", got)
	}
	if got := c.conditions(t, gatewayOf("entry")); !strings.Contains(got, "Programmed=False/Pending") {
		t.Errorf("the Gateway's conditions are %s", got)
	}
}

// TestRouteLeaves: what was said of a parent that is ours no more is taken back, and nothing else.
func TestRouteLeaves(t *testing.T) {
	c := newCluster(t, true, gatewayClass(), gatewayOf("entry"), routeTo("entry", "cheese"))
	c.withSyncedGateways(t)
	route := routeTo("entry", "cheese")
	c.pass(t, gatewayClass(), gatewayOf("entry"), route)
	if got := c.conditions(t, route); !strings.Contains(got, "entry Accepted=True") {
		t.Fatalf("the route's conditions are %s", got)
	}
	route.Spec.ParentRefs = route.Spec.ParentRefs[1:]
	c.put(t, route)
	c.pass(t, route)
	if got := c.conditions(t, route); got != "" {
		t.Errorf("the route's conditions are %s", got)
	}
}

// TestPortOfGatewayHeld: a listener whose port a proxy cannot have is not programmed, of whichever replica the proxy is,
// until it can; an event says so, too. What a proxy of another IngressDaemonSet says of it is no matter.
func TestPortOfGatewayHeld(t *testing.T) {
	entry := gatewayOf("entry")
	entry.Spec.Listeners = append(entry.Spec.Listeners, gatewayv1.Listener{Name: "more", Port: 8081, Protocol: gatewayv1.HTTPProtocolType})
	c := newCluster(t, true, gatewayClass(), entry)
	c.withSyncedGateways(t)
	c.pass(t, gatewayClass(), entry)
	c.pass(t, gatewayOf("entry"))
	report := func(set types.NamespacedName, refused ...wire.Refusal) {
		c.Acknowledgements.Report(delta.Report{
			Peer:   delta.Peer{IngressDaemonSet: set, Pod: set.Name + "-0", UID: types.UID(set.Name)},
			Stream: uint64(len(set.Name)), Acknowledgement: stream.Acknowledgement{Position: c.positions[web], Refused: refused},
		})
	}
	expect := func(when, want string) {
		t.Helper()
		c.pass(t)
		got := c.conditions(t, entry)
		if _, got, _ = strings.Cut(got, "ResolvedRefs=True, "); got != want {
			t.Errorf("%s, the conditions are %s", when, got)
		}
		// What was written is seen.
		c.pass(t, gatewayOf("entry"))
	}
	const served = "http Programmed=True, more Accepted=True, more Conflicted=False/NoConflicts, more ResolvedRefs=True, more Programmed=True"
	held := wire.Refusal{Name: "listener/Gateway/shop/entry/more", Reason: wire.PortUnavailable + "port 8081: address already in use"}
	report(web)
	report(types.NamespacedName{Namespace: "ingress", Name: "other"}, held)
	expect("what another's proxy says", served)
	c.said()
	report(web, held)
	without := strings.Replace(served, "more Programmed=True", "more Programmed=False/PortUnavailable", 1)
	expect("when its port is held", without)
	if message := meta.FindStatusCondition(entry.Status.Listeners[1].Conditions, "Programmed").Message; message != "pod web-0 cannot listen at port 8081: address already in use" {
		t.Errorf("the message is %q", message)
	}
	if said := c.said(); len(said) != 1 || !strings.HasPrefix(said[0], "Warning PortUnavailable ") || !strings.Contains(said[0], "they cannot listen at port 8081: address already in use (pod web-0)") {
		t.Errorf("events are %q", said)
	}
	elsewhere, err := c.Acknowledgements.Tell()
	if err != nil {
		t.Fatal(err)
	}
	report(web)
	expect("when it is free", served)
	c.Acknowledgements.Heard(9, elsewhere)
	expect("when it is held where another replica serves", without)
	c.Acknowledgements.Heard(9, nil)
	expect("when that says no more", served)
	report(web, wire.Refusal{Name: held.Name, Reason: "it is odd"})
	expect("when it cannot be used", strings.Replace(served, "more Programmed=True", "more Programmed=False/Invalid", 1))
}
