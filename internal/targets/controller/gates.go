package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// gatesAPass bounds the pods that are written to in one pass, since no target moves
// meanwhile. The next pass follows at once.
const gatesAPass = 20

// gate is what is to be written on a pod that waits for its targets.
type gate struct {
	pod       *corev1.Pod
	condition corev1.PodCondition
}

// observeGates finds the readiness gates that are to say something else.
func (r *Reconciler) observeGates(o *observed, shares []*share) {
	for _, c := range o.claims {
		kind := corev1.PodConditionType(v1alpha1.ReadinessGate(c.object.Name))
		mine := c.matching(shares)
		for _, pod := range c.pods {
			if _, ends := targets.Ending(pod); ends || !waitsFor(pod, kind) {
				continue
			}
			if condition, ok := c.gateOf(o, pod, mine).Condition(kind, conditionOf(pod, kind)); ok {
				if condition.LastTransitionTime.IsZero() {
					condition.LastTransitionTime = metav1.NewTime(o.now)
				}
				c.gates = append(c.gates, gate{pod, condition})
			}
		}
	}
}

// gateOf is what the gate of one of the claim's pods has to say.
func (c *claim) gateOf(o *observed, pod *corev1.Pod, shares []*share) targets.Gate {
	if c.object.DeletionTimestamp != nil {
		return targets.Gate{Status: corev1.ConditionTrue, Reason: targets.GateReleased, Message: "its TargetGroupAttachment is deleted"}
	}
	if why, out := o.out[pod.Spec.NodeName]; out {
		return targets.Gate{Status: corev1.ConditionTrue, Reason: targets.GateNodeDetached, Message: why}
	}
	var places []targets.Place
	for _, why := range c.bound {
		places = append(places, targets.Place{Unchecked: why})
	}
	for _, s := range shares {
		places = append(places, s.place(c, pod, o.nodes))
	}
	return targets.GateOf(places)
}

// place is what is known of a pod's target in the group.
func (s *share) place(c *claim, pod *corev1.Pod, nodes map[string]*corev1.Node) targets.Place {
	p := targets.Place{Group: s.state.Group.Name}
	mode, err := c.mode(c.template(pod), s.state.Group)
	if err != nil || s.broken != "" {
		return p
	}
	p.Unchecked = mode.Unchecked(s.state.Group)
	wants, skipped := mode.PodWants(targets.Fleet{Pods: []*corev1.Pod{pod}, Nodes: nodes})
	switch {
	case len(skipped) > 0:
		p.Report.Phase = targets.Refused
	case len(wants) > 0 && !s.state.ReadAt.IsZero():
		p.Report = s.report(wants[0].Target)
	}
	return p
}

// report is the one about a target, empty where there is none. Reports are in the
// order of their targets.
func (s *share) report(t targets.Target) targets.Report {
	at, found := slices.BinarySearchFunc(s.decision.Reports, t, func(r targets.Report, t targets.Target) int {
		return cmp.Or(strings.Compare(r.ID, t.ID), cmp.Compare(r.Port, t.Port))
	})
	if !found {
		return targets.Report{}
	}
	return s.decision.Reports[at]
}

// matching are the shares of the groups that the claim is on.
func (c *claim) matching(shares []*share) []*share {
	return slices.DeleteFunc(slices.Clone(shares), func(s *share) bool {
		matches, _ := c.matches(s.state.Group)
		return !matches || !slices.Contains(s.claims, c)
	})
}

// template is what the pod was made from, as its user wrote it.
func (c *claim) template(pod *corev1.Pod) corev1.PodSpec {
	if c.set != nil {
		return c.set.Spec.Template.Spec
	}
	return pod.Spec
}

func waitsFor(pod *corev1.Pod, kind corev1.PodConditionType) bool {
	return slices.Contains(pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: kind})
}

func conditionOf(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// writeGates writes on some of the pods, and says whether others are left.
func (r *Reconciler) writeGates(ctx context.Context, o *observed) (left bool, err error) {
	written := map[types.UID]string{}
	var errs []error
	for _, c := range o.claims {
		for _, g := range c.gates {
			switch {
			case r.gates[g.pod.UID] == g.pod.ResourceVersion:
				// It was written; the event is on its way.
			case len(written) >= gatesAPass:
				left = true
				continue
			default:
				if err := r.writeGate(ctx, g); err != nil {
					errs = append(errs, err)
					continue
				}
			}
			written[g.pod.UID] = g.pod.ResourceVersion
		}
	}
	r.gates = written
	return left, errors.Join(errs...)
}

// writeGate sets one condition and leaves all others alone. A pod that is gone, or
// another one of its name, is left alone too.
func (r *Reconciler) writeGate(ctx context.Context, g gate) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": g.pod.UID},
		"status":   map[string]any{"conditions": []corev1.PodCondition{g.condition}},
	})
	if err != nil {
		return err
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: g.pod.Namespace, Name: g.pod.Name}}
	err = r.client.Status().Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, patch), client.FieldOwner(FieldManager))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("writing the readiness gate of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
