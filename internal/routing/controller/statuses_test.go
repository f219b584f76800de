package controller

import (
	"context"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/fakeapi"
	networkingv1 "k8s.io/api/networking/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
		return routing.Result{Statuses: []routing.Status{{Object: refOf(in), Ingress: &routing.IngressStatus{
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
		s.note(&observed{}, routing.Result{Settled: []routing.Ref{refOf(in)}}, true, nil)
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
