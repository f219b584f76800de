package controller

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// What somebody does by hand to the annotations in which the controller keeps what it must
// remember.

// wipeNode lets somebody remove an annotation of a Node by hand.
func (w *world) wipeNode(n *simNode, which int) {
	keys := slices.Sorted(maps.Keys(n.api.Annotations))
	if len(keys) > 0 {
		n.tampered = w.now
		w.edit(n, func(node *corev1.Node) { annotate(node, keys[which%len(keys)], "") })
	}
}

// rewriteRecord lets somebody rewrite what we have on record on a Node.
func (w *world) rewriteRecord(n *simNode) {
	set := w.set()
	if set == nil {
		return
	}
	key := v1alpha1.AnnotationDetachPrefix + string(set.UID)
	if record, there := n.api.Annotations[key]; there {
		n.tampered = w.now
		w.edit(n, func(node *corev1.Node) { annotate(node, key, record+" ") })
	}
}

// wipeDeployment lets somebody remove or rewrite annotations of a Deployment by hand.
func (w *world) wipeDeployment(n *simNode, which int) {
	d := w.deployments[n.name]
	if d == nil || d.api.DeletionTimestamp != nil {
		return
	}
	key := d.api.Annotations[v1alpha1.AnnotationMarkKey]
	d.unrecorded = d.unrecorded || which == 0
	w.rewrite(d, func(api *appsv1.Deployment) {
		switch which {
		case 0:
			annotate(api, v1alpha1.AnnotationMarkKey, "")
		case 1:
			annotate(api, key, "")
		case 2:
			// An empty mark is one, too.
			api.Annotations[v1alpha1.DefaultMarkKey] = ""
		case 3:
			annotate(api, v1alpha1.DefaultMarkKey, "by-hand")
		case 4:
			annotate(api, v1alpha1.AnnotationUpdatedAt, "")
		}
	})
}

// unmarkByHand removes the marks that somebody set by hand, and one of which somebody
// removed the record, where the spec names another key by now.
func (w *world) unmarkByHand(n *simNode) {
	if d := w.deployments[n.name]; d != nil && d.api.DeletionTimestamp == nil {
		if d.unrecorded && d.api.Annotations[v1alpha1.AnnotationMarkKey] != otherMarkKey && w.spec().Strategy().MarkKey != otherMarkKey {
			w.rewrite(d, func(api *appsv1.Deployment) { annotate(api, otherMarkKey, "") })
		}
		mark, there := d.api.Annotations[v1alpha1.DefaultMarkKey]
		if _, ours := v1alpha1.Mark(mark).At(); there && !ours {
			w.rewrite(d, func(api *appsv1.Deployment) { annotate(api, v1alpha1.DefaultMarkKey, "") })
		}
	}
}

// findsMark reports whether the mark of a Deployment is where it can be known to be. Somebody may have removed
// the record of its key, and the spec name another one by now.
func (w *world) findsMark(d *simDeployment) bool {
	_, found := v1alpha1.MarkOf(d.api.Annotations, w.spec().Strategy().MarkKey)
	return found
}

// remembered are the annotations of a Deployment that say how far a node has come.
var remembered = []string{
	v1alpha1.AnnotationHold, v1alpha1.AnnotationPodsPerNode, v1alpha1.AnnotationDrainedAt, v1alpha1.AnnotationAttachedAt, v1alpha1.AnnotationUpdatedAt,
}

// rewritesRemembered lets somebody remove, empty or rewrite one of them.
func (g *generator) rewritesRemembered(n *simNode) {
	d := g.w.deployments[n.name]
	if d == nil || d.api.DeletionTimestamp != nil {
		return
	}
	key := rapid.SampledFrom(remembered).Draw(g.T, "annotation")
	value, there := d.api.Annotations[key]
	how := g.number("how", 0, 3)
	switch {
	case how == 0:
		// It is removed.
	case how == 1:
		value = rapid.SampledFrom([]string{"", "{", "{}", "yes"}).Draw(g.T, "garbled")
	case key == v1alpha1.AnnotationPodsPerNode:
		value = fmt.Sprint(g.number("pods", -1, 4))
	case key != v1alpha1.AnnotationHold:
		value = v1alpha1.Timestamp(g.w.now.Add(time.Duration(g.number("minutes", -60, 60)) * time.Minute))
	case there:
		value = g.rewritten(value)
	default:
		return
	}
	// What is tried for it is another attempt, and a drain may be forgotten.
	g.w.audit.failed[n.name] = 0
	n.drains++
	g.w.rewrite(d, func(api *appsv1.Deployment) {
		if api.Annotations[key] = value; how == 0 {
			delete(api.Annotations, key)
		}
	})
}

// rewritten is a hold with something else in one of its fields.
func (g *generator) rewritten(value string) string {
	var hold v1alpha1.Hold
	if json.Unmarshal([]byte(value), &hold) != nil {
		return value
	}
	switch g.number("field", 0, 7) {
	case 0:
		hold.Attempts = g.number("attempts", -1, 20)
	case 1:
		hold.Revision = "another"
	case 2:
		hold.Generation++
	case 3:
		hold.At = metav1.NewMicroTime(g.w.now.Add(time.Duration(g.number("minutes", -60, 60)) * time.Minute))
	case 4:
		hold.Replicas = int32(g.number("replicas", 0, 4))
	case 5:
		hold.Paused = !hold.Paused
	case 6:
		hold.Trying = !hold.Trying
	default:
		hold.ReplicaSet = "another"
	}
	return hold.Value()
}
