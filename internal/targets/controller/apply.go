package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// applied is what became of what was decided.
type applied struct {
	writes  *writes
	begun   map[targets.Ref]*write
	refused map[targets.Ref]bool
	// there are all objects that may be written to.
	there map[targets.Ref]bool
	// again says whether readiness gates are left to write at once.
	again bool
	// gates is why readiness gates could not be written.
	gates error
}

// apply writes statuses, finalizers and hooks, and has the calls made of each target of
// which all that must be remembered is written. What fails of one object stops the calls
// about its own targets, and no others.
func (r *Reconciler) apply(ctx context.Context, o *observed, d targets.Decision) *applied {
	r.memory = d.Memory
	r.caches.catchUp(r.running, allAttachments)
	r.caches.catchUp(r.running, allNodeAttachments)
	done := r.beginWrites(d)
	r.useAccounts(d)
	waiting, stop := context.WithTimeout(ctx, patience)
	defer stop()
	groups := slices.Clone(d.Groups)
	slices.SortStableFunc(groups, func(a, b targets.GroupPlan) int { return len(a.Needs) - len(b.Needs) })
	for _, g := range groups {
		decision := g.After(func(ref targets.Ref) bool { return done.written(waiting, ref) })
		held := len(decision.Register)+len(decision.Deregister) < len(g.Register)+len(g.Deregister)
		r.accounts[g.Role].plan(g.ID, decision, held)
	}
	if done.recorded(waiting) {
		done.beginReturns(r, d)
	}
	done.writes.keep(done.there)
	for _, one := range done.begun {
		done.writes.wait(waiting, one)
	}
	if d.CatchUpNodes {
		r.caches.catchUp(r.running, allNodes)
	}
	for _, a := range d.Attachments {
		if a.CatchUp {
			r.caches.catchUp(r.running, cacheOf(a.Object))
		}
	}
	r.connections.want(r.running, chosen(o.checkers, d.Ask))
	left, err := r.writeGates(ctx, d.Gates)
	done.again, done.gates = left, err
	return done
}

// beginWrites begins all writes but those of readiness gates.
func (r *Reconciler) beginWrites(d targets.Decision) *applied {
	done := &applied{writes: r.writes, begun: map[targets.Ref]*write{}, refused: map[targets.Ref]bool{}, there: map[targets.Ref]bool{}}
	begin := func(ref targets.Ref, due bool, do func(context.Context) error) {
		done.there[ref] = true
		if !due {
			return
		}
		if one := r.writes.begin(r.running, ref, do); one != nil {
			done.begun[ref] = one
		} else {
			done.refused[ref] = true
		}
	}
	for _, h := range d.Hooks {
		r.beginHook(h, begin)
	}
	for _, a := range d.Attachments {
		due := a.AddFinalizer || a.Release || !same(a.Object.Status, a.Status)
		begin((&targets.GroupAttachment{Object: a.Object}).Ref(), due, func(ctx context.Context) error { return r.writeAttachment(ctx, a) })
	}
	for _, n := range d.NodeAttachments {
		begin(targets.RefOf(n.Object), !same(n.Object.Status, n.Status) && !returns(n), func(ctx context.Context) error { return r.writeNodeAttachment(ctx, n) })
	}
	return done
}

// returns reports whether an Attachment says from now on that its node is back.
func returns(n targets.NodeAttachmentDecision) bool {
	said := n.Object.Status.Done && n.Object.Answered()
	return n.Object.Spec.Wanted == v1alpha1.WantAttached && n.Status.Done && !said
}

// beginReturns begins the writes that say that a node is back, last of all: by another leader that knows of
// them its Attachment goes, and what is not recorded to be back by then would be taken out once more.
func (d *applied) beginReturns(r *Reconciler, decision targets.Decision) {
	for _, n := range decision.NodeAttachments {
		if !returns(n) {
			continue
		}
		ref := targets.RefOf(n.Object)
		if one := d.writes.begin(r.running, ref, func(ctx context.Context) error { return r.writeNodeAttachment(ctx, n) }); one != nil {
			d.begun[ref] = one
		}
	}
}

// recorded reports whether nothing of TargetGroupAttachments is left to write but what failed: what
// is under way, or has changed since it was observed, calls for another pass.
func (d *applied) recorded(ctx context.Context) bool {
	for ref, one := range d.begun {
		if ref.Kind != targets.KindGroupAttachment {
			continue
		}
		if ended, err := d.writes.wait(ctx, one); !ended || err != nil && harmless(err) {
			return false
		}
	}
	for ref := range d.refused {
		if ref.Kind == targets.KindGroupAttachment && d.writes.isUnderWay(ref) {
			return false
		}
	}
	return true
}

// written reports whether what a call needs is written. Where nothing was to be written, it is.
func (d *applied) written(ctx context.Context, ref targets.Ref) bool {
	one := d.begun[ref]
	if one == nil {
		return !d.refused[ref]
	}
	ended, err := d.writes.wait(ctx, one)
	return ended && err == nil
}

// writeAttachment writes a TargetGroupAttachment. Nothing is recorded before its finalizer
// is there, and that goes last. Nothing is written without the lease, since another controller may have
// recorded elsewhere what is left out here.
func (r *Reconciler) writeAttachment(ctx context.Context, d targets.AttachmentDecision) error {
	if !r.leads() {
		return errNotLeading
	}
	object := d.Object.DeepCopy()
	if d.AddFinalizer {
		controllerutil.AddFinalizer(object, v1alpha1.Finalizer)
		if err := r.client.Update(ctx, object, client.FieldOwner(FieldManager)); err != nil {
			return fmt.Errorf("adding the finalizer: %w", err)
		}
		r.answers.wrote(object)
		logStep(ctx, "AddFinalizer", "its targets are to be taken out before it is gone", "object", objectOf(object))
		return errNotYet
	}
	if !same(object.Status, d.Status) {
		object.Status = d.Status
		if err := r.client.Status().Update(ctx, object, client.FieldOwner(FieldManager)); err != nil {
			return fmt.Errorf("writing the status: %w", err)
		}
		r.answers.wrote(object.DeepCopy())
	}
	if d.Release && controllerutil.RemoveFinalizer(object, v1alpha1.Finalizer) {
		if err := r.client.Update(ctx, object, client.FieldOwner(FieldManager)); err != nil {
			return fmt.Errorf("removing the finalizer: %w", err)
		}
		logStep(ctx, "RemoveFinalizer", "nothing that it registered is left", "object", objectOf(object))
		if len(object.Finalizers) == 0 {
			r.answers.ended(object.UID)
		}
	}
	return nil
}

// writeNodeAttachment writes the status of an Attachment. One that was deleted meanwhile has
// failed as well: without it nothing is remembered.
func (r *Reconciler) writeNodeAttachment(ctx context.Context, d targets.NodeAttachmentDecision) error {
	if !r.leads() {
		return errNotLeading
	}
	object := d.Object.DeepCopy()
	object.Status = d.Status
	if err := r.client.Status().Update(ctx, object, client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	r.answers.wrote(object)
	return nil
}

// useAccounts connects the accounts that are needed, leaves all others, and has lists
// renewed that are due.
func (r *Reconciler) useAccounts(d targets.Decision) {
	r.bindings.renew(r.running, r.GroupsEvery)
	needed := map[v1alpha1.AssumeRole]bool{}
	for _, plan := range d.Accounts {
		needed[plan.Role] = true
		a := r.accounts[plan.Role]
		if a == nil {
			a = r.newAccount(plan.Role)
			r.accounts[plan.Role] = a
			if a.refused != "" {
				// That is all that is ever known of it.
				r.trigger()
			}
		}
		a.renew(plan, r.GroupsEvery)
	}
	for role, a := range r.accounts {
		if !needed[role] {
			a.stop()
			delete(r.accounts, role)
			continue
		}
		kept := map[string]bool{}
		for _, g := range d.Groups {
			kept[g.ID] = kept[g.ID] || g.Role == role
		}
		a.keep(kept)
	}
}

// gatesAPass bounds the pods that are written to in one pass, since no target moves
// meanwhile. The next pass follows at once.
const gatesAPass = 20

// writeGates writes on some of the pods, and says whether others are left.
func (r *Reconciler) writeGates(ctx context.Context, gates []targets.GateWrite) (left bool, err error) {
	written, wrote := map[types.UID]string{}, 0
	var errs []error
	for _, g := range gates {
		switch {
		case r.gates[g.Pod.UID] == g.Pod.ResourceVersion:
			// It was written; the event is on its way.
		case wrote >= gatesAPass:
			left = true
			continue
		default:
			wrote++
			if err := r.writeGate(ctx, g); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		written[g.Pod.UID] = g.Pod.ResourceVersion
	}
	r.gates = written
	return left, errors.Join(errs...)
}

// writeGate sets one condition and leaves all others alone. A pod that is gone or has changed,
// or another one of its name, is left alone too, and so is any where another controller may lead:
// it may have opened the gate since this was decided.
func (r *Reconciler) writeGate(ctx context.Context, g targets.GateWrite) error {
	if !r.leads() {
		return errNotLeading
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": g.Pod.UID, "resourceVersion": g.Pod.ResourceVersion},
		"status":   map[string]any{"conditions": []corev1.PodCondition{g.Condition}},
	})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: g.Pod.Namespace, Name: g.Pod.Name}}
	err = r.client.Status().Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, patch), client.FieldOwner(FieldManager))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("writing the readiness gate of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// listAgain is after how long groups are listed again where the newest list is older than a
// question.
const listAgain = 2 * time.Second

// logStep tells of a step that was carried out, and why. Statuses are written all the time, and what
// counts in them is told by the calls that follow.
func logStep(ctx context.Context, action, reason string, values ...any) {
	log.FromContext(ctx).Info("carried out", append([]any{"action", action, "reason", reason}, values...)...)
}

func objectOf(o client.Object) string { return client.ObjectKeyFromObject(o).String() }
