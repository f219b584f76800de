package rollout

import (
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// update replaces the pods of the node. Where they were rejected before, that is
// not forgotten until they are accepted.
func (p *pass) update(v *view, reason string) verdict {
	return p.carryOut(p.updating(v, reason))
}

func (p *pass) carryOut(update Step) verdict {
	return waits(v1alpha1.NodeUpdating, p.Now, "its Deployment is being updated").act(update)
}

func (p *pass) updating(v *view, reason string) Step {
	d := v.Deployment
	step := Step{Action: Update, Revision: v.target, Replicas: p.pods, Reason: reason, At: p.moment(v.Node)}
	switch {
	case v.Marked() || d.Drifted && !v.shrinksMidway(p.pods) || d.Replicas == 0 || p.overlooked(v).yes:
	case d.heldBack() && d.Revision != v.target && d.Replicas < p.pods:
		step.Replicas, step.Rolling = d.Replicas, Rolling{Surge: 1}
	case !d.heldBack() && (v.between() || v.shrinksMidway(p.pods)):
		// Scaled in the middle of a rolling update to just the older pods that are
		// left, the Deployment controller would take itself to be done. Scaled to fewer, it
		// would take pods from each ReplicaSet, and then count those among the ones that serve.
		if step.Replicas = d.Replicas; d.Replicas < p.pods {
			// The spec counts from as many as there should be.
			step.Rolling = Rolling{Surge: 1}
		}
	}
	if v.nudged(p.pods) && d.Revision == v.target {
		step.At = d.UpdatedAt
	}
	if d.Hold != nil && d.Hold.Revision == v.target || step.Replicas != p.pods {
		step.Hold = p.tryingOn(v, step.Replicas)
	}
	return step
}

// tryingOn is what to remember of the attempt to have so many pods of the target.
func (p *pass) tryingOn(v *view, replicas int32) *v1alpha1.Hold {
	again := v1alpha1.Hold{Revision: v.target, Generation: p.Generation}
	if h := v.Deployment.Hold; h != nil && h.Revision == v.target {
		again = *h
	}
	again.Trying, again.At, again.Replicas, again.ReplicaSet = true, metav1.NewMicroTime(p.Now), replicas, ""
	return &again
}
