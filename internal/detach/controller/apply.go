package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/detach"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// patience is how long a pass waits for all that is read and written of one node.
const patience = 10 * time.Second

// apply carries out what was decided. What fails for one node, or hangs, stops no other.
func (r *Reconciler) apply(ctx context.Context, o *observed, d detach.Decision) error {
	failed := o.unread
	for _, n := range d.Nodes {
		ctx, cancel := context.WithTimeout(ctx, patience)
		err := r.applyNode(ctx, o, n)
		if cancel(); err != nil {
			failed = append(failed, fmt.Errorf("node %s: %w", n.Name, err))
			o.leave(n.Name)
		}
	}
	return errors.Join(failed...)
}

func (r *Reconciler) applyNode(ctx context.Context, o *observed, d detach.NodeDecision) error {
	node, attachment := o.nodes[d.Name], o.attachments[d.Name]
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("node", d.Name, "reason", because(d)))
	if d.Attachment == detach.WriteDetach || d.Attachment == detach.WriteAttach || len(d.Stop) > 0 {
		if holds, err := r.stillHolds(ctx, node, d.Reason); err != nil || !holds {
			o.leave(d.Name)
			return err
		}
	}
	if d.Attachment == detach.WriteDetach && attachment == nil {
		if begins, err := r.mayBegin(ctx, o, d.Name); err != nil || !begins {
			o.leave(d.Name)
			return err
		}
	}
	if d.Patch.Stamps() || len(d.Stop) > 0 {
		if err := r.stillDetached(ctx, attachment); err != nil {
			return err
		}
	}
	if d.Gone != nil {
		if err := r.recordGone(ctx, attachment, *d.Gone); err != nil {
			return err
		}
	}
	if d.Patch != nil {
		if err := r.patchNode(ctx, node, d.Patch); err != nil {
			return err
		}
		logStep(ctx, "Mark", "station", d.Phase)
	}
	switch d.Attachment {
	case detach.WriteDetach:
		if err := r.writeAttachment(ctx, node, attachment, v1alpha1.WantDetached); err != nil {
			return err
		}
	case detach.WriteAttach:
		if err := r.writeAttachment(ctx, node, attachment, v1alpha1.WantAttached); err != nil {
			return err
		}
	}
	if len(d.Ask) > 0 {
		if err := r.stillWanted(ctx, attachment); err != nil {
			return err
		}
	}
	r.webhooks.ask(attachment, node, d, r.Leads)
	if err := r.stopAll(ctx, d.Stop); err != nil {
		return err
	}
	if d.Status != nil {
		return r.writeStatus(ctx, attachment, *d.Status)
	}
	if d.Attachment == detach.Delete {
		precondition := client.Preconditions{UID: &attachment.UID, ResourceVersion: &attachment.ResourceVersion}
		if err := r.client.Delete(ctx, attachment, precondition); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting its Attachment: %w", err)
		}
		logStep(ctx, "DeleteAttachment")
	}
	return nil
}

// because says why something is done about a node.
func because(d detach.NodeDecision) string {
	switch {
	case d.Reason != "" && d.Waits != "":
		return string(d.Reason) + ": " + d.Waits
	case d.Reason != "" || d.Waits != "":
		return string(d.Reason) + d.Waits
	}
	return nothingAsks
}

// writeAttachment says where the node's targets are to be. What is put back is that of the
// machine that the node is now.
func (r *Reconciler) writeAttachment(ctx context.Context, node *corev1.Node, old *v1alpha1.Attachment, wanted v1alpha1.AttachmentWanted) error {
	var err error
	if old == nil {
		// No version guards what is new: another controller may have taken other nodes out.
		if !r.leads() {
			return errNotLeading
		}
		err = r.client.Create(ctx, &v1alpha1.Attachment{
			ObjectMeta: metav1.ObjectMeta{Name: node.Name},
			Spec:       v1alpha1.AttachmentSpec{Instance: r.InstanceID(node.Spec.ProviderID), Wanted: wanted},
		}, client.FieldOwner(FieldManager))
	} else {
		changed := old.DeepCopy()
		changed.Spec.Wanted = wanted
		if wanted == v1alpha1.WantDetached && old.Spec.Wanted == v1alpha1.WantAttached {
			// Generations only grow, so that no earlier detachment has the number.
			metav1.SetMetaDataAnnotation(&changed.ObjectMeta, v1alpha1.AnnotationDetachment, strconv.FormatInt(old.Generation+1, 10))
		}
		if changed.Spec.Instance == "" || wanted == v1alpha1.WantAttached {
			changed.Spec.Instance = r.InstanceID(node.Spec.ProviderID)
		}
		err = r.client.Patch(ctx, changed, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{}), client.FieldOwner(FieldManager))
	}
	if err != nil {
		return fmt.Errorf("writing its Attachment: %w", err)
	}
	logStep(ctx, "WriteAttachment", "wanted", wanted)
	return nil
}

// writeStatus answers in an Attachment that nobody else answers in, guarded by the version that was
// decided upon.
func (r *Reconciler) writeStatus(ctx context.Context, seen *v1alpha1.Attachment, status v1alpha1.AttachmentStatus) error {
	changed := seen.DeepCopy()
	changed.Status = status
	if err := r.client.Status().Update(ctx, changed, client.FieldOwner(FieldManager)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of its Attachment: %w", err)
	}
	return nil
}

// recordGone writes for how long a node has been gone, so that another leader goes on from
// there; nothing for one that is back. A time of before that would end a later wait too soon.
func (r *Reconciler) recordGone(ctx context.Context, seen *v1alpha1.Attachment, gone time.Duration) error {
	changed := seen.DeepCopy()
	delete(changed.Annotations, v1alpha1.AnnotationGoneFor)
	if gone > 0 {
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, v1alpha1.AnnotationGoneFor, gone.String())
	}
	patch := client.MergeFromWithOptions(seen, client.MergeFromWithOptimisticLock{})
	if err := r.client.Patch(ctx, changed, patch, client.FieldOwner(FieldManager)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("recording how long it has been gone: %w", err)
	}
	return nil
}

// patchNode writes our marks, guarded by the Node that was decided upon.
func (r *Reconciler) patchNode(ctx context.Context, node *corev1.Node, p *detach.Patch) error {
	metadata := map[string]any{"resourceVersion": node.ResourceVersion, "uid": node.UID}
	if len(p.Annotations) > 0 {
		metadata["annotations"] = p.Annotations
	}
	if len(p.Labels) > 0 {
		metadata["labels"] = p.Labels
	}
	object := map[string]any{"metadata": metadata}
	if p.Taint != nil {
		object["spec"] = map[string]any{"taints": tainted(node.Spec.Taints, *p.Taint)}
	}
	written := node
	if len(metadata) > 2 || p.Taint != nil {
		body, err := json.Marshal(object)
		if err != nil {
			return err
		}
		written = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
		if err := r.client.Patch(ctx, written, client.RawPatch(types.MergePatchType, body), client.FieldOwner(FieldManager)); err != nil {
			return fmt.Errorf("marking it: %w", err)
		}
	}
	if p.Detaching == nil {
		return nil
	}
	if !r.leads() {
		return errNotLeading
	}
	return r.setCondition(ctx, written, *p.Detaching)
}

func tainted(taints []corev1.Taint, detaching bool) []corev1.Taint {
	out := slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool { return t.Key == v1alpha1.TaintDetaching })
	if detaching {
		out = append(out, corev1.Taint{Key: v1alpha1.TaintDetaching, Effect: corev1.TaintEffectNoSchedule})
	}
	return out
}

func (r *Reconciler) setCondition(ctx context.Context, node *corev1.Node, detaching bool) error {
	c := corev1.NodeCondition{
		Type: v1alpha1.NodeBeingDetached, Status: corev1.ConditionFalse, Reason: "Attached", Message: "every target it had takes traffic",
		LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
	}
	if detaching {
		c.Status, c.Reason, c.Message = corev1.ConditionTrue, "Detaching", "it is, or is being, taken out of its load balancers"
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID},
		"status":   map[string]any{"conditions": []corev1.NodeCondition{c}},
	})
	if err != nil {
		return err
	}
	err = r.client.Status().Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}},
		client.RawPatch(types.StrategicMergePatchType, body), client.FieldOwner(FieldManager))
	if err != nil {
		return fmt.Errorf("setting its condition %s: %w", v1alpha1.NodeBeingDetached, err)
	}
	return nil
}

// stopAll stops pods. One that cannot be stopped keeps no other from it.
func (r *Reconciler) stopAll(ctx context.Context, pods []detach.Pod) error {
	var errs []error
	for _, pod := range pods {
		if !r.leads() {
			return errors.Join(append(errs, errNotLeading)...)
		}
		errs = append(errs, r.stop(ctx, pod))
	}
	return errors.Join(errs...)
}

// stop evicts a pod, or deletes it where its annotation says so. What a disruption
// budget refuses is tried again.
func (r *Reconciler) stop(ctx context.Context, p detach.Pod) error {
	uid := types.UID(p.UID)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: uid}}
	var err error
	if p.Delete {
		err = r.client.Delete(ctx, pod, client.Preconditions{UID: &uid})
	} else {
		err = r.client.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}},
		})
	}
	switch {
	case err == nil:
		r.stops.succeeded(p.UID)
		logStep(ctx, "StopPod", "pod", p.Namespace+"/"+p.Name, "priority", p.Priority)
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		// It is gone, or another one has its name.
	case apierrors.IsTooManyRequests(err):
		r.stops.refused(p.UID, time.Now())
	default:
		return fmt.Errorf("stopping pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	return nil
}

// nothingAsks is why a node is put back.
const nothingAsks = "nothing asks for it to be out any more"

// logStep tells of a step that was carried out. Which node it is of, and why, is in ctx.
func logStep(ctx context.Context, action string, values ...any) {
	log.FromContext(ctx).Info("carried out", append([]any{"action", action}, values...)...)
}
