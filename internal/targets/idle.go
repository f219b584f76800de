package targets

import (
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/kstatus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// noCloud is what there is to say of a TargetGroupAttachment where no cloud is named. One that was kept
// before goes only when its targets are taken out.
func noCloud(object *v1alpha1.TargetGroupAttachment) string {
	const says = "the controller runs without --cloud, and nobody registers or takes out targets: start it with --cloud=aws, "
	if slices.Contains(object.Finalizers, v1alpha1.Finalizer) {
		return says + "also to delete this object, which goes when its targets are out"
	}
	return says + "or delete this object"
}

// Idle is the status of a TargetGroupAttachment that nobody keeps, since the controller has no cloud.
// Counts and records stay as another controller has left them: what it registered may be there still.
func Idle(object *v1alpha1.TargetGroupAttachment, now time.Time) v1alpha1.TargetGroupAttachmentStatus {
	status, message := *object.Status.DeepCopy(), noCloud(object)
	status.ObservedGeneration = object.Generation
	blocked := metav1.Condition{
		Type: v1alpha1.ConditionBlocked, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonNoCloud, Message: message,
		ObservedGeneration: object.Generation, LastTransitionTime: asStored(now),
	}
	meta.SetStatusCondition(&status.Conditions, blocked)
	kstatus.OfTargetGroupAttachment(v1alpha1.ReasonNoCloud, message, blocked).Set(&status.Conditions, object.Generation, asStored(now))
	return status
}
