package controller

import (
	"context"
	"errors"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/fakeapi"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestWhoWasToldLast holds that a pod counts as told from the answer to that until it begins to be told
// otherwise, and that being told the same once more refuses what was on its way.
func TestWhoWasToldLast(t *testing.T) {
	api := fakeapi.New(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid-p"}})
	stored := func() *corev1.Pod {
		pod := &corev1.Pod{}
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "p"}, pod); err != nil {
			t.Fatal(err)
		}
		return pod
	}
	r := &Reconciler{client: api, answers: newAnswers()}
	in := func() bool { return r.told.known()["uid-p"] }
	tell := func() error { return r.writeHook(t.Context(), targets.HookWrite{Pod: stored(), In: true}) }

	api.Refuse = func(string) error { return errors.New("refused") }
	if err := tell(); err == nil || in() {
		t.Errorf("refused: %v, told %t", err, in())
	}
	api.Refuse = nil
	if err := tell(); err != nil || !in() {
		t.Errorf("%v, told %t", err, in())
	}
	late := stored()
	r.beginHook(targets.HookWrite{Pod: late}, func(targets.Ref, bool, func(context.Context) error) {})
	if in() {
		t.Error("it is being told otherwise, and counts as told")
	}
	if err := tell(); err != nil || !in() {
		t.Errorf("once more: %v, told %t", err, in())
	}
	if err := r.writeHook(t.Context(), targets.HookWrite{Pod: late}); err == nil {
		t.Errorf("what was on its way was not refused: %v", stored().Annotations)
	}
	if got := stored().Annotations[v1alpha1.AnnotationTargets]; got != v1alpha1.TargetsIn {
		t.Errorf("it reads %q", got)
	}
	if r.told.keep(nil); in() {
		t.Error("a pod that is gone is remembered")
	}
}
