package controller

import (
	"context"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/recorder"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
)

// sink has what a recorder writes.
type sink struct{ created chan string }

func (s sink) Create(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	s.created <- e.Reason + " " + e.Note
	return e, nil
}

func (s sink) Update(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) { return e, nil }

func (s sink) Patch(_ context.Context, e *eventsv1.Event, _ []byte) (*eventsv1.Event, error) {
	return e, nil
}

// TestWarningsOfOneReason: all that is wrong with an object for one reason is told, also what comes later: a recorder
// makes no event of what differs from another only in its note.
func TestWarningsOfOneReason(t *testing.T) {
	in := ingressTo("cheese", "cheese.example.com", "missing")
	in.Spec.DefaultBackend = &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "absent", Port: networkingv1.ServiceBackendPort{Number: 80}}}
	third := in.Spec.Rules[0].HTTP.Paths[0]
	third.Path, third.Backend = "/cheese", networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "cheese", Port: networkingv1.ServiceBackendPort{Number: 80}}}
	in.Spec.Rules[0].HTTP.Paths = append(in.Spec.Rules[0].HTTP.Paths, third)
	c := newCluster(t, true, in)
	written := sink{make(chan string, 100)}
	broadcaster := events.NewBroadcaster(written)
	if err := broadcaster.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broadcaster.Shutdown)
	c.recorder = recorder.ByNote(broadcaster.NewRecorder(scheme.Scheme, "routing"))
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-written.created:
			if got != want {
				t.Errorf("said is %q", got)
			}
		case <-time.After(longest):
			t.Fatalf("nothing is said, instead of %q", want)
		}
	}
	c.pass(t)
	expect(routing.ReasonBackendNotFound + " Service shop/absent does not exist: its share answers 503; Service shop/missing does not exist: its share answers 503")
	cheese := &corev1.Service{ObjectMeta: named("shop", "cheese")}
	if err := c.API.Delete(t.Context(), cheese); err != nil {
		t.Fatal(err)
	}
	c.pass(t, cheese)
	expect(routing.ReasonBackendNotFound + " Service shop/cheese does not exist: its share answers 503")
}
