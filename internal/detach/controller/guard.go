package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/detach"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stillHolds reads the Node live before it is taken out, or put back, because a cache may lag
// behind somebody who let go, or asks for it again. The empty reason holds while no other does.
func (r *Reconciler) stillHolds(ctx context.Context, node *corev1.Node, reason detach.Reason) (bool, error) {
	now := &corev1.Node{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(node), now); err != nil {
		return false, fmt.Errorf("reading it live: %w", client.IgnoreNotFound(err))
	}
	n := detach.Node{Cordoned: now.Spec.Unschedulable, Taints: now.Spec.Taints, Labels: now.Labels, Annotations: now.Annotations}
	holds := n.Holds(reason)
	if reason == "" {
		holds = n.Reason(r.Reasons) == ""
	}
	return now.UID == node.UID && holds, nil
}

// mayBegin decides once more about a node that is to be taken out first now, by the Attachments
// as they stand: by a cache that lags, nodes are left attached that another leader takes out.
func (r *Reconciler) mayBegin(ctx context.Context, o *observed, name string) (bool, error) {
	var now v1alpha1.AttachmentList
	if err := r.live.List(ctx, &now); err != nil {
		return false, fmt.Errorf("listing Attachments live: %w", err)
	}
	state := o.state
	state.Nodes = slices.Clone(state.Nodes)
	for i := range state.Nodes {
		n := &state.Nodes[i]
		n.Attachment = nil
		if at := slices.IndexFunc(now.Items, func(a v1alpha1.Attachment) bool { return a.Name == n.Name }); at >= 0 {
			n.Attachment = r.answerOf(&now.Items[at])
		}
	}
	return slices.ContainsFunc(detach.Plan(state).Nodes, func(n detach.NodeDecision) bool {
		return n.Name == name && n.Attachment == detach.WriteDetach
	}), nil
}

// stillDetached reads the Attachment live before its Node is said to be out, or pods of it are
// stopped: a cache that lags shows an answer to what was wanted before.
func (r *Reconciler) stillDetached(ctx context.Context, seen *v1alpha1.Attachment) error {
	now, err := r.attachmentNow(ctx, seen)
	if err == nil && !r.answerOf(now).Done {
		return conflict(seen)
	}
	return err
}

// stillWanted reads the Attachment live before webhooks are asked: by a list of before another
// leader put the node back they would leave it out for ever.
func (r *Reconciler) stillWanted(ctx context.Context, seen *v1alpha1.Attachment) error {
	_, err := r.attachmentNow(ctx, seen)
	return err
}

// attachmentNow is the Attachment as it stands, an error where it asks for something else
// than it was seen to.
func (r *Reconciler) attachmentNow(ctx context.Context, seen *v1alpha1.Attachment) (*v1alpha1.Attachment, error) {
	now := &v1alpha1.Attachment{}
	err := r.live.Get(ctx, client.ObjectKeyFromObject(seen), now)
	switch {
	case apierrors.IsNotFound(err):
		return nil, conflict(seen)
	case err != nil:
		return nil, fmt.Errorf("reading its Attachment live: %w", err)
	case now.UID != seen.UID || now.Generation != seen.Generation:
		return nil, conflict(seen)
	}
	return now, nil
}

// conflict has what was decided about an Attachment decided again.
func conflict(seen *v1alpha1.Attachment) error {
	return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("attachments").GroupResource(), seen.Name, errors.New("it has changed since this was decided"))
}
