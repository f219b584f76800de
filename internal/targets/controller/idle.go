package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// idle says of each TargetGroupAttachment that nobody keeps it, also by the metrics.
type idle struct{ client client.Client }

// SetUpIdle registers with the manager what takes the place of the controller where there is no cloud.
// A cluster may lack the definition of the kind, which nobody needs there.
func SetUpIdle(mgr ctrl.Manager) error {
	kind := v1alpha1.GroupVersion.WithKind("TargetGroupAttachment")
	if _, err := mgr.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version); meta.IsNoMatchError(err) {
		ctrl.Log.WithName("targets").Info("no TargetGroupAttachment is told that nobody keeps it, because there is no such kind")
		return nil
	}
	// An API server that does not answer now is asked again by the watch.
	err := ctrl.NewControllerManagedBy(mgr).Named("idle-targets").For(&v1alpha1.TargetGroupAttachment{}).Complete(&idle{mgr.GetClient()})
	if err != nil {
		return fmt.Errorf("setting up what is said without a cloud: %w", err)
	}
	return nil
}

// Reconcile writes the status of one object where it says anything else.
func (i *idle) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := &v1alpha1.TargetGroupAttachment{}
	switch err := i.client.Get(ctx, request.NamespacedName, object); {
	case apierrors.IsNotFound(err):
		forgetAttachment(request.NamespacedName)
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	status := targets.Idle(object, time.Now())
	said := conditionValues{}
	said.add(object, status.Conditions)
	said.replace(nil)
	if same(object.Status, status) {
		return ctrl.Result{}, nil
	}
	changed := object.DeepCopy()
	changed.Status = status
	err := i.client.Status().Update(ctx, changed, client.FieldOwner(FieldManager))
	switch {
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: conflictPause}, nil
	case client.IgnoreNotFound(err) != nil:
		return ctrl.Result{}, fmt.Errorf("writing the status: %w", err)
	}
	log.FromContext(ctx).Info("carried out", "action", "TellIdle", "reason", v1alpha1.ReasonNoCloud)
	return ctrl.Result{}, nil
}
