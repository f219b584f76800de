package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/fakeapi"
	networkingv1 "k8s.io/api/networking/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// meanwhile does something before a status is written.
type meanwhile struct {
	client.Client
	do func()
}

func (m meanwhile) Status() client.SubResourceWriter { return meanwhileStatus{m.Client.Status(), m} }

type meanwhileStatus struct {
	client.SubResourceWriter
	meanwhile
}

func (m meanwhileStatus) Update(ctx context.Context, o client.Object, opts ...client.SubResourceUpdateOption) error {
	err := m.SubResourceWriter.Update(ctx, o, opts...)
	m.do()
	return err
}

// TestWantedMeanwhile: what is settled and wanted anew while a status is written is written, too.
func TestWantedMeanwhile(t *testing.T) {
	in := ingressTo("cheese", "cheese.example.com", "cheese")
	api := fakeapi.New(t, in)
	wants := func(address string) routing.Result {
		return routing.Result{Statuses: []routing.Status{{Object: routing.RefOf(in), Ingress: &routing.IngressStatus{
			LoadBalancer: []networkingv1.IngressLoadBalancerIngress{{IP: address}}, Addresses: address,
		}}}}
	}
	var s *statuses
	once := false
	s = newStatuses(meanwhile{api, func() {
		if once {
			return
		}
		once = true
		s.note(&observed{}, routing.Result{Settled: []routing.Ref{routing.RefOf(in)}}, true, nil)
		now := &networkingv1.Ingress{}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(in), now); err != nil {
			t.Error(err)
		}
		s.note(&observed{there: []client.Object{now}}, wants("192.0.2.2"), true, nil)
	}}, func() bool { return true }, func() {}, NewAcknowledgements())
	s.turns.between = 0
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(in), in); err != nil {
		t.Fatal(err)
	}
	s.note(&observed{there: []client.Object{in}}, wants("192.0.2.1"), true, nil)
	for range 2 {
		if _, err := s.Reconcile(t.Context(), ctrl.Request{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(in), in); err != nil {
		t.Fatal(err)
	}
	if got := in.Status.LoadBalancer.Ingress[0].IP; got != "192.0.2.2" {
		t.Errorf("the status has %s", got)
	}
}

// TestStatusFull: where others' entries leave no room in the status of an HTTPRoute, none of them is removed, what does
// not fit is not written again and again, and an event says so.
func TestStatusFull(t *testing.T) {
	route := routeTo("entry", "cheese")
	for i := range 32 {
		route.Status.Parents = append(route.Status.Parents, gatewayv1.RouteParentStatus{
			ControllerName: "example.com/gone", ParentRef: gatewayv1.ParentReference{Name: gatewayv1.ObjectName(fmt.Sprint("of-another-", i))},
		})
	}
	c := newCluster(t, true, gatewayClass(), gatewayOf("entry"), route)
	c.spoiling(t)
	c.pass(t, gatewayClass(), gatewayOf("entry"), route)
	c.pass(t)
	if got := strings.Join(c.Writes(), ", "); strings.Contains(got, "HTTPRoute") {
		t.Errorf("written is %s", got)
	}
	if got := strings.Join(c.said(), "; "); !strings.Contains(got, "Warning StatusFull its status has room for 32 parents") {
		t.Errorf("said is %q", got)
	}
	if err := c.API.WithWatch.Get(t.Context(), client.ObjectKeyFromObject(route), route); err != nil {
		t.Fatal(err)
	}
	route.Status.Parents = route.Status.Parents[:31]
	if err := c.API.WithWatch.Status().Update(t.Context(), route); err != nil {
		t.Fatal(err)
	}
	c.pass(t, route)
	c.pass(t)
	if got := c.conditions(t, route); len(route.Status.Parents) != 32 || !strings.Contains(got, "entry Accepted=True") || len(c.told) != 0 {
		t.Errorf("with room again, conditions are %s, and %v lasts", got, c.told)
	}
}
