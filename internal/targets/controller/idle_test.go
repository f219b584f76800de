package controller

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/fakeapi"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestIdleSaysSoOnce writes that nobody keeps a TargetGroupAttachment, and nothing else of it, once; again
// where another write came between. The metrics tell of it until it is gone.
func TestIdleSaysSoOnce(t *testing.T) {
	attachmentConditions.Reset()
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
	want := map[string]float64{"Blocked one ns NoCloud": 1, "Ready one ns NoCloud": 0, "Reconciling one ns AsExpected": 0, "Stalled one ns NoCloud": 1}
	if diff := cmp.Diff(want, reported(t, "ingressdaemonset_group_attachment_condition")); diff != "" {
		t.Errorf("what the metrics tell (-want +got)\n%s", diff)
	}
	object.Finalizers = nil
	if err := errors.Join(api.Update(t.Context(), object), api.Delete(t.Context(), object)); err != nil {
		t.Fatal(err)
	}
	if _, err := i.Reconcile(t.Context(), request); err != nil {
		t.Error(err)
	}
	if left := reported(t, "ingressdaemonset_group_attachment_condition"); len(left) > 0 {
		t.Errorf("the metrics tell of one that is gone: %v", left)
	}
}
