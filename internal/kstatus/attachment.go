package kstatus

import (
	"cmp"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// OfAttachment is how far an Attachment is with what its status is to be, whoever answers in it: the
// controller of targets, or without a cloud that which detaches nodes. It is never Stalled, since what
// keeps a node is tried again for as long as it takes.
func OfAttachment(a *v1alpha1.Attachment, status *v1alpha1.AttachmentStatus) Standing {
	done := status.Done && status.ObservedGeneration == a.Generation
	switch wanted := a.Spec.Wanted; {
	case done && wanted == v1alpha1.WantDetached:
		return ready(v1alpha1.ReasonDetached, "no traffic reaches the node any more")
	case done:
		return ready(v1alpha1.ReasonAttached, "all that the node was taken out of has it again")
	case wanted == v1alpha1.WantDetached:
		return reconciling(v1alpha1.ReasonDetaching, cmp.Or(status.Waits, unasked))
	default:
		return reconciling(v1alpha1.ReasonAttaching, cmp.Or(status.Waits, unasked))
	}
}

// unasked is what is waited for before anybody has said anything.
const unasked = "its load balancers have not been asked yet"
