package detach

import (
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/kstatus"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// answer is what the Attachment of a node is to say where nobody moves targets: how far its webhooks
// are. Nil where it says so, or is not to be answered: it is about to ask for something else, or to go.
//
// Invariant: what is answered here says that no cloud was asked. A controller with one, which may be
// started at any moment, then remembers what the node has before it believes anything (Attachment.Answered).
func (p *planner) answer(n *Node, d NodeDecision) *v1alpha1.AttachmentStatus {
	if !p.Answers || n.Attachment == nil || n.Attachment.Object == nil || !n.Exists || d.Attachment != Keep {
		return nil
	}
	object := n.Attachment.Object
	status := object.Status.DeepCopy()
	status.ObservedGeneration, status.WithoutCloud = object.Generation, true
	status.Done, status.Waits, status.Evidence = d.Phase == Detached, d.Waits, ""
	if status.Done {
		status.Evidence = n.evidence()
	}
	kstatus.OfAttachment(object, status).Set(&status.Conditions, object.Generation, metav1.NewTime(p.Now.Truncate(time.Second)))
	if equality.Semantic.DeepEqual(object.Status, *status) {
		return nil
	}
	return status
}
