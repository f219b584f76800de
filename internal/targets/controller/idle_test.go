package controller

import (
	"errors"
	"slices"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/fakeapi"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestIdleSaysSoOnce writes that nobody keeps a TargetGroupAttachment, and nothing else of it, once; again
// where another write came between.
func TestIdleSaysSoOnce(t *testing.T) {
	api := fakeapi.New(t, named("one", v1alpha1.Finalizer))
	conflict := apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("x").GroupResource(), "one", errors.New("changed"))
	api.Refuse = func(string) error { return conflict }
	i := &idle{api}
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(named("one"))}
	if result, err := i.Reconcile(t.Context(), request); err != nil || result.RequeueAfter != conflictPause {
		t.Errorf("after a conflict: %+v, %v", result, err)
	}
	api.Refuse = nil
	for range 2 {
		if result, err := i.Reconcile(t.Context(), request); err != nil || result != (ctrl.Result{}) {
			t.Errorf("%+v, %v", result, err)
		}
	}
	if got := api.Writes(); !slices.Equal(got, []string{statusOfOne, statusOfOne}) {
		t.Errorf("%v", got)
	}
	object := named("one")
	if err := api.Get(t.Context(), request.NamespacedName, object); err != nil {
		t.Fatal(err)
	}
	if !meta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.ConditionStalled) || !slices.Equal(object.Finalizers, []string{v1alpha1.Finalizer}) {
		t.Errorf("%+v", object)
	}
	request.Name = "gone"
	if _, err := i.Reconcile(t.Context(), request); err != nil {
		t.Error(err)
	}
}
