package controller

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/stream"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/fakeapi"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// writing are statuses of which the writes are noted, by what was written and when.
type writing struct {
	*statuses
	begun time.Time
	what  []string
	at    []time.Duration
}

func newWriting(t testing.TB) *writing {
	w := &writing{begun: time.Now()}
	w.statuses = newStatuses(writesOf{fakeapi.New(t), func(o client.Object) {
		w.what = append(w.what, o.GetNamespace()+"/"+o.GetName())
		w.at = append(w.at, time.Since(w.begun))
	}}, func() bool { return true }, func() {}, NewAcknowledgements())
	w.complete = true
	return w
}

// pass is one of statuses, and when the next is due.
func (w *writing) pass(t *testing.T) time.Duration {
	t.Helper()
	r, err := w.Reconcile(t.Context(), ctrl.Request{})
	if err != nil {
		t.Fatal(err)
	}
	return r.RequeueAfter
}

// want has an Ingress, as it is without a status, that is to have an address.
func (w *writing) want(namespace, name, address string) {
	in := &networkingv1.Ingress{ObjectMeta: named(namespace, name)}
	w.note(&observed{there: []client.Object{in}}, routing.Result{Statuses: []routing.Status{{Object: routing.RefOf(in), Ingress: &routing.IngressStatus{
		LoadBalancer: []networkingv1.IngressLoadBalancerIngress{{IP: address}}, Addresses: address,
	}}}}, true, nil)
}

// TestNamespacesInTurn: who has one status to be written does not wait for another's many, also when it comes later.
func TestNamespacesInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriting(t)
		for i := range 300 {
			w.want("many", fmt.Sprintf("in-%03d", i), "192.0.2.1")
		}
		w.want("one", "early", "192.0.2.1")
		ended := make(chan bool)
		go func() {
			defer close(ended)
			w.pass(t)
		}()
		time.Sleep(5*time.Second + 50*time.Millisecond)
		synctest.Wait()
		before := len(w.what)
		w.want("two", "late", "192.0.2.1")
		<-ended
		if w.what[1] != "one/early" || w.what[before] != "two/late" || len(w.what) != 302 {
			t.Errorf("of %d writes the second is %s, and one after the new one came is %s", len(w.what), w.what[1], w.what[before])
		}
	})
}

// TestGatewaysFirst: of one namespace Gateways are written first: their addresses are in their statuses.
func TestGatewaysFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriting(t)
		w.want("shop", "in", "192.0.2.1")
		w.wantGateway("entry", 1)
		if w.pass(t); len(w.what) != 2 || w.what[0] != "shop/entry" {
			t.Errorf("written is %v", w.what)
		}
	})
}

// wantGateway has a Gateway, as it is without a status, whose proxies are told of it at a position.
func (w *writing) wantGateway(name string, position uint64) {
	g := gatewayOf(name)
	w.note(&observed{there: []client.Object{g}}, routing.Result{Statuses: []routing.Status{{
		Object: routing.RefOf(g), Generation: g.Generation, Gateway: &routing.GatewayStatus{IngressDaemonSet: web},
	}}}, true, map[types.NamespacedName]uint64{web: position})
}

// TestWrittenSeldom: a status is written once a second at most, and ever more seldom where somebody takes it away each
// time; after a while of peace it is written at once.
func TestWrittenSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriting(t)
		for time.Since(w.begun) < time.Hour {
			w.want("shop", "fought-over", "192.0.2.1")
			w.pass(t)
			time.Sleep(100 * time.Millisecond)
		}
		for i, want := range []time.Duration{0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 811} {
			if w.at[i] != want*time.Second {
				t.Errorf("write %d comes after %v, want %v", i, w.at[i], want*time.Second)
			}
		}
		w.begun, w.at = time.Now(), nil
		w.want("shop", "fought-over", "192.0.2.2")
		for len(w.at) == 0 {
			w.pass(t)
			time.Sleep(100 * time.Millisecond)
		}
		for i := range 10 {
			w.want("shop", "fought-over", fmt.Sprintf("192.0.2.%d", 10+i))
			for time.Sleep(w.pass(t)); len(w.at) < 2+i; {
				w.pass(t)
			}
		}
		if took := w.at[10] - w.at[0]; took != 10*time.Second {
			t.Errorf("ten different ones take %v", took)
		}
		time.Sleep(11 * time.Minute)
		w.begun, w.at = time.Now(), nil
		w.want("shop", "fought-over", "192.0.2.19")
		if w.pass(t); len(w.at) != 1 {
			t.Error("after a while of peace it is not written")
		}
	})
}

// TestHearing: who begins to lead says nothing of Gateways before others could tell it of their proxies.
func TestHearing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriting(t)
		w.hearing = hearOthers
		w.acknowledge("one", 0, 1)
		w.wantGateway("entry", 1)
		w.want("shop", "in", "192.0.2.1")
		if again := w.pass(t); again != hearOthers || len(w.what) != 1 {
			t.Errorf("written is %v, and the next pass is in %v", w.what, again)
		}
		time.Sleep(hearOthers)
		if w.pass(t); len(w.what) != 2 {
			t.Errorf("written is %v", w.what)
		}
	})
}

// acknowledge has a pod say that it has what was committed at a position.
func (w *writing) acknowledge(pod types.UID, number, position uint64) {
	w.acknowledged.Report(delta.Report{Peer: delta.Peer{IngressDaemonSet: web, UID: pod}, Stream: number, Acknowledgement: stream.Acknowledgement{Position: position}})
}

// TestAcknowledged: an acknowledgement has those Gateways looked at that wait for it, and no others.
func TestAcknowledged(t *testing.T) {
	w := newWriting(t)
	w.acknowledge("one", 1, 0)
	for i := range 3 {
		w.wantGateway(fmt.Sprint("g", i), uint64(10*(i+1)))
	}
	programmedAlready := gatewayOf("g3")
	wanted := status{Status: routing.Status{Object: routing.RefOf(programmedAlready), Generation: 1, Gateway: &routing.GatewayStatus{IngressDaemonSet: web}}, position: 15}
	programmedAlready.Status.Conditions = nil
	setConditions(&programmedAlready.Status.Conditions, []routing.Condition{programmed(web)}, 1)
	w.note(&observed{there: []client.Object{programmedAlready}}, routing.Result{Statuses: []routing.Status{wanted.Status}}, true, map[types.NamespacedName]uint64{web: 15})
	clear(w.due)
	for _, c := range []struct {
		position uint64
		want     string
	}{{5, "[]"}, {10, "[g0]"}, {10, "[]"}, {19, "[]"}, {40, "[g1 g2]"}} {
		w.acknowledge("one", 1, c.position)
		var got []string
		for i := range 4 {
			if _, is := w.due[routing.RefOf(gatewayOf(fmt.Sprint("g", i)))]; is {
				got = append(got, fmt.Sprint("g", i))
			}
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("an acknowledgement of %d has %v looked at, want %s", c.position, got, c.want)
		}
		clear(w.due)
	}
	w.note(&observed{gone: []routing.Ref{routing.RefOf(&gatewayv1.Gateway{ObjectMeta: named("shop", "g0")})}}, routing.Result{}, true, nil)
	if w.acknowledge("two", 2, 0); len(w.due) != 2 {
		t.Errorf("when another proxy comes, looked at is %v", w.due)
	}
}
