package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1/webhook"
	"github.com/mumoshu/ingress-daemonset-controller/internal/detach"
	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func wanted(generation int64, w v1alpha1.AttachmentWanted) *v1alpha1.Attachment {
	a := &v1alpha1.Attachment{Spec: v1alpha1.AttachmentSpec{Wanted: w}}
	a.UID, a.Generation = "uid", generation
	return a
}

// TestWebhooksAnswerWhatIsWantedNow asks until it is done, waits longer after each
// failure, and takes no answer to what was wanted earlier for one to what is wanted now. An answer
// that it is not done is noted, and no failure says otherwise: what stands on the Node from before
// counts until there is one.
func TestWebhooksAnswerWhatIsWantedNow(t *testing.T) {
	replies := make(chan struct {
		answer Answer
		err    error
	}, 1)
	asked, triggered := make(chan webhook.Request, 1), make(chan struct{}, 1)
	w := &webhooks{known: map[question]*known{}, open: map[addressee]bool{}, trigger: func() { triggered <- struct{}{} }, all: []Webhook{{Name: "edge", Ask: func(_ context.Context, q webhook.Request) (Answer, error) {
		asked <- q
		r := <-replies
		return r.answer, r.err
	}}}}
	node := &corev1.Node{}
	reply := func(a *v1alpha1.Attachment, answer Answer, err error) detach.Webhook {
		t.Helper()
		w.ask(a, node, detach.NodeDecision{Ask: []string{"edge"}}, nil)
		q := <-asked
		if (q.Action == webhook.Detach) != (a.Spec.Wanted == v1alpha1.WantDetached) || q.ID == "" {
			t.Errorf("asked %+v", q)
		}
		// While one question is open no other is put.
		w.ask(a, node, detach.NodeDecision{Ask: []string{"edge"}}, nil)
		replies <- struct {
			answer Answer
			err    error
		}{answer, err}
		<-triggered
		return w.answers(a)[0]
	}
	out, back := wanted(1, v1alpha1.WantDetached), wanted(2, v1alpha1.WantAttached)
	var waits []time.Duration
	for range 3 {
		began := time.Now()
		got := reply(out, Answer{}, errors.New("refused"))
		if got.Detached || got.Undone || got.Waits != "webhook edge failed: refused" {
			t.Errorf("%+v", got)
		}
		waits = append(waits, got.RetryAt.Sub(began).Round(time.Second))
	}
	if waits[0] >= waits[1] || waits[1] >= waits[2] {
		t.Errorf("waits %v", waits)
	}
	if got := reply(out, Answer{RetryAfter: time.Hour, Message: "3 are open"}, nil); got.Detached || !got.Undone || got.Waits != "webhook edge is not done yet: 3 are open" || time.Until(got.RetryAt) < time.Minute {
		t.Errorf("%+v", got)
	}
	if got := reply(out, Answer{}, errors.New("refused")); got.Detached || !got.Undone || time.Until(got.RetryAt) > firstPause {
		t.Errorf("it failed after it had answered: %+v", got)
	}
	if got := reply(out, Answer{Done: true}, nil); !got.Detached || got.Undone || got.Attached {
		t.Errorf("%+v", got)
	}
	if got := w.answers(back)[0]; got.Detached || got.Attached {
		t.Errorf("the answer to what was wanted before counts: %+v", got)
	}
	if got := reply(back, Answer{Done: true}, nil); !got.Attached || got.Detached {
		t.Errorf("%+v", got)
	}
	w.forget(nil)
	if len(w.known) != 0 {
		t.Errorf("%d answers to nobody are kept", len(w.known))
	}
}

// TestQuestionsDoNotOvertake asks a webhook to attach a node only when it has answered to
// detach it, whatever became of the Attachment meanwhile; and others need not wait.
func TestQuestionsDoNotOvertake(t *testing.T) {
	asks, go1, triggered := make(chan webhook.Request, 4), make(chan struct{}), make(chan struct{}, 4)
	w := &webhooks{known: map[question]*known{}, open: map[addressee]bool{}, trigger: func() { triggered <- struct{}{} }, all: []Webhook{{Name: "edge", Ask: func(_ context.Context, q webhook.Request) (Answer, error) {
		asks <- q
		<-go1
		return Answer{Done: true}, nil
	}}}}
	node, other := &corev1.Node{}, &corev1.Node{}
	node.Name, other.Name = "a", "b"
	out, back, anew := wanted(1, v1alpha1.WantDetached), wanted(2, v1alpha1.WantAttached), wanted(1, v1alpha1.WantAttached)
	anew.UID = "another"
	ask := detach.NodeDecision{Ask: []string{"edge"}}
	w.ask(out, node, ask, nil)
	if q := <-asks; q.Action != webhook.Detach {
		t.Fatalf("%+v", q)
	}
	w.ask(back, node, ask, nil)
	w.ask(anew, node, ask, nil)
	w.forget(nil)
	w.ask(out, other, ask, nil)
	if q := <-asks; q.Node.Name != "b" {
		t.Errorf("asked %+v while another question is open", q)
	}
	close(go1)
	<-triggered
	<-triggered
	if len(asks) > 0 {
		t.Errorf("asked %+v", <-asks)
	}
	if got := w.answers(back)[0]; got.Attached {
		t.Errorf("the answer to what was wanted before counts: %+v", got)
	}
	w.ask(back, node, ask, nil)
	if q := <-asks; q.Action == webhook.Detach || q.ID != "uid/1" {
		t.Errorf("%+v", q)
	}
	<-triggered
	if got := w.answers(back)[0]; !got.Attached {
		t.Errorf("%+v", got)
	}
}

func TestRivalsAreKnownByTheirImage(t *testing.T) {
	for image, want := range map[string]bool{
		"mumoshu/node-detacher:0.1": true, "node-detacher": true, "a.example:5000/x/node-detacher@sha256:00": true,
		"mumoshu/node-detacher-ui:0.1": false, "node-detacher/tools": false, "nginx": false,
	} {
		d := &appsv1.Deployment{}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Image: image}}
		if runsDetacher(d) != want {
			t.Errorf("%s: %t", image, !want)
		}
		if d.Spec.Replicas = new(int32(0)); runsDetacher(d) {
			t.Errorf("%s, scaled to 0", image)
		}
	}
}

// TestAnotherMachineIsPutBack by webhooks, which know a node by its name, as the machine that it is now.
func TestAnotherMachineIsPutBack(t *testing.T) {
	node, out := cordoned("a"), detached("a")
	node.Spec.Unschedulable, out.Spec.Instance = false, "i-before"
	c := newCluster(t, node, out)
	r := c.reconciler()
	r.webhooks.all = []Webhook{{Name: "edge", Ask: func(context.Context, webhook.Request) (Answer, error) { return Answer{Done: true}, nil }}}
	if _, err := r.Reconcile(t.Context(), onepass.Everything); err != nil {
		t.Fatal(err)
	}
	now := &v1alpha1.Attachment{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, now); err != nil || now.Spec.Wanted != v1alpha1.WantAttached || now.Spec.Instance != "i-a" {
		t.Errorf("%+v, %v", now.Spec, err)
	}
}

func TestEvictionsAreTriedLessAndLess(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := &stops{refusals: map[string]refusal{}}
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		s.refused("a", now)
		if got := s.retryAt("a").Sub(now); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for range 20 {
		s.refused("a", now)
	}
	if got := s.retryAt("a").Sub(now); got != time.Minute {
		t.Errorf("%s at the longest", got)
	}
	if at := s.retryAt("b"); !at.IsZero() {
		t.Errorf("what was not refused is tried again at %s", at)
	}
	if s.forget(now.Add(time.Minute)); len(s.refusals) != 1 {
		t.Error("what is due is forgotten")
	}
}

// TestRefusalsAreForgotten when their pods are long gone, also where no node goes away any more.
func TestRefusalsAreForgotten(t *testing.T) {
	r := newCluster(t).reconciler()
	r.stops.refused("a", time.Now().Add(-time.Hour))
	r.stops.refused("b", time.Now())
	if _, err := r.Reconcile(t.Context(), onepass.Everything); err != nil {
		t.Fatal(err)
	}
	if _, kept := r.stops.refusals["b"]; !kept || len(r.stops.refusals) != 1 {
		t.Errorf("kept are %v", r.stops.refusals)
	}
}

// TestRequest is what the contract says of a node, and whether it is to be out.
func TestRequest(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "a"}}, Spec: corev1.NodeSpec{ProviderID: "aws:///z1/i-1"},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}},
	}
	want := webhook.Request{ID: "uid/1", Reason: "Cordoned", Since: since, Node: webhook.Node{
		Name: "n1", ProviderID: "aws:///z1/i-1", Labels: map[string]string{"zone": "a"}, Addresses: []webhook.Address{{Type: "InternalIP", Address: "192.0.2.1"}},
	}}
	for wanted, action := range map[v1alpha1.AttachmentWanted]webhook.Action{v1alpha1.WantDetached: webhook.Detach, v1alpha1.WantAttached: webhook.Attach} {
		a := &v1alpha1.Attachment{ObjectMeta: metav1.ObjectMeta{UID: "uid", CreationTimestamp: metav1.Time{Time: since}}, Spec: v1alpha1.AttachmentSpec{Wanted: wanted}}
		want.Action = action
		if diff := cmp.Diff(want, request(a, node, "Cordoned")); diff != "" {
			t.Errorf("%s (-want +got)\n%s", wanted, diff)
		}
	}
}
