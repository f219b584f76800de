package controller

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What others do to the world, and how it heals.

var errRefused = apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "deployments"}, "", errors.New("no"))

// cordon is what node-detacher takes for a request to detach, too.
func (w *world) cordon(n *simNode, on bool) {
	if n.api.Spec.Unschedulable != on {
		n.drains++
		if on {
			n.cordonedAt = w.now
		}
		w.dropStrayTimestamps(n)
		w.edit(n, func(node *corev1.Node) { node.Spec.Unschedulable = on })
	}
}

// tamper lets somebody else write into a node's Deployment.
func (w *world) tamper(n *simNode, change func(*appsv1.Deployment)) {
	if d := w.deployments[n.name]; d != nil && d.api.DeletionTimestamp == nil {
		delete(w.audit.mustKeep, n.name)
		w.audit.disturbs(n.name)
		w.rewrite(d, change)
	}
}

// rewrite lets somebody else write to a Deployment what replaces no pod.
func (w *world) rewrite(d *simDeployment, change func(*appsv1.Deployment)) {
	changed := d.api.DeepCopy()
	change(changed)
	err := w.user("kubectl").Update(ctx, changed, client.FieldOwner("kubectl"))
	if !apierrors.IsForbidden(err) {
		w.must(err)
	}
}

// keepOut is somebody who wants a node out of the load balancer, or no more.
func (w *world) keepOut(n *simNode, yes bool) {
	d := w.deployments[n.name]
	if d == nil || d.api.DeletionTimestamp != nil || d.keptOut() == yes {
		return
	}
	w.rewrite(d, func(api *appsv1.Deployment) {
		annotate(api, v1alpha1.AnnotationDetached, map[bool]string{true: "somebody", false: ""}[yes])
	})
}

// keepWhenDeleted has somebody else's finalizer keep a node's Deployment for a while, should it
// be deleted.
func (w *world) keepWhenDeleted(n *simNode) {
	if d := w.deployments[n.name]; d != nil && d.api.DeletionTimestamp == nil && len(d.api.Finalizers) == 0 {
		w.rewrite(d, func(api *appsv1.Deployment) { api.Finalizers = []string{foreignFinalizer} })
	}
}

const foreignFinalizer = "example.com/takes-its-time"

// removeFinalizers ends somebody else's work on a Deployment that is being deleted.
func (w *world) removeFinalizers(d *simDeployment) {
	w.after(w.between(100*time.Millisecond, 4*time.Second), func() {
		if w.deployments[d.node] == d {
			w.rewrite(d, func(api *appsv1.Deployment) { api.Finalizers = nil })
		}
	})
}

// deleteDeployment is somebody who deletes a node's Deployment, with or without its pods.
func (w *world) deleteDeployment(n *simNode, orphaning bool) {
	d := w.deployments[n.name]
	if d == nil || d.api.DeletionTimestamp != nil || len(d.api.Finalizers) > 0 {
		return
	}
	delete(w.audit.mustKeep, n.name)
	if !orphaning || d.marked() {
		w.audit.disturbs(n.name)
	}
	if !orphaning {
		// Its pods end with it, by which who sees that cannot tell it from a drain.
		n.taken = w.now
	}
	d.orphaning = orphaning
	w.must(w.user("kubectl").Delete(ctx, d.api))
}

func (w *world) restartOne(n *simNode) {
	for _, p := range w.pods {
		if p.node == n.name && p.ready {
			w.restart(p)
			return
		}
	}
}

// repair makes every template good: pods that waited become ready.
func (w *world) repair() {
	w.bad = map[string]bool{}
	for _, p := range w.pods {
		if p.running && !p.ready {
			w.becomeReady(p)
		}
	}
}

// forbid lets the operator permit no annotations but node-detacher's, or others too.
func (w *world) forbid(forbids bool) {
	if w.forbids != forbids {
		w.forbids = forbids
		w.replaceLeaders()
	}
}

// replaceLeaders ends the controllers, and has as many others lead.
func (w *world) replaceLeaders() {
	for _, l := range slices.Clone(w.leaders) {
		l.stop()
		w.lead(w.nextClock(l.skew))
	}
}

// spoil lets a template be among those that are no good.
func (w *world) spoil(image string, among map[string]bool) {
	among[image], w.everBad[image] = true, true
}

// label gives a node other labels beside that of the node set.
func (w *world) label(name string, labels map[string]string) {
	w.edit(w.nodes[name], func(node *corev1.Node) { maps.Copy(node.Labels, labels) })
}

// promote does not want to wait for the analysis.
func (w *world) promote() {
	set := w.set()
	if set == nil || set.Status.Analysis == nil {
		return
	}
	changed := set.DeepCopy()
	annotate(changed, v1alpha1.AnnotationPromoted, rollout.AnalysisID(set.Status.Analysis))
	w.must(w.user("kubectl-ids").Update(ctx, changed, client.FieldOwner("kubectl-ids")))
}

// remove deletes the IngressDaemonSet.
func (w *world) remove(how rollout.Deletion) {
	set := w.set()
	if set == nil || set.DeletionTimestamp != nil {
		return
	}
	w.orphans = how == rollout.DeleteOrphaning
	if finalizer := map[rollout.Deletion]string{rollout.DeleteAtOnce: metav1.FinalizerDeleteDependents, rollout.DeleteOrphaning: metav1.FinalizerOrphanDependents}[how]; finalizer != "" {
		changed := set.DeepCopy()
		changed.Finalizers = append(changed.Finalizers, finalizer)
		w.must(w.user("kubectl").Update(ctx, changed))
	}
	w.must(w.user("kubectl").Delete(ctx, set))
}

// setChanged is the garbage collector, where the IngressDaemonSet is deleted at once or
// orphans what it owns.
func (w *world) setChanged(before, after client.Object) {
	if after == nil {
		w.tell("cluster", "the IngressDaemonSet is gone")
		w.audit.checkLeft()
		w.after(w.between(100*time.Millisecond, 2*time.Second), func() { w.collectOwned(before.GetUID()) })
		return
	}
	if before == nil || (before.GetDeletionTimestamp() == nil) == (after.GetDeletionTimestamp() == nil) {
		return
	}
	w.after(w.between(100*time.Millisecond, 2*time.Second), func() {
		switch w.audit.deletion() {
		case rollout.DeleteAtOnce:
			w.collectAll()
			w.dropFinalizer(metav1.FinalizerDeleteDependents)
		case rollout.DeleteOrphaning:
			w.orphanAll()
		}
	})
}

func (w *world) collectAll() {
	w.collected = true
	for _, kind := range []string{"Deployment", "DaemonSet", "EndpointSlice"} {
		for _, obj := range w.api.All(kind) {
			w.must(client.IgnoreNotFound(w.user("gc").Delete(ctx, obj)))
		}
	}
}

// collectOwned is the garbage collector when an owner is gone.
func (w *world) collectOwned(owner types.UID) {
	for _, kind := range []string{"Deployment", "DaemonSet", "EndpointSlice"} {
		for _, obj := range w.api.All(kind) {
			if controlledBy(obj, owner) {
				w.audit.collects(obj)
				w.must(client.IgnoreNotFound(w.user("gc").Delete(ctx, obj)))
			}
		}
	}
}

// orphanAll orphans one object after another, and drops the finalizer that asks for it then.
func (w *world) orphanAll() {
	at := w.now
	for _, kind := range []string{"Deployment", "DaemonSet", "EndpointSlice"} {
		for _, obj := range w.api.All(kind) {
			at = at.Add(w.between(0, 200*time.Millisecond))
			w.at(at, func() { w.orphan(kind, client.ObjectKeyFromObject(obj)) })
		}
	}
	w.at(at, func() { w.dropFinalizer(metav1.FinalizerOrphanDependents) })
}

func (w *world) orphan(kind string, key client.ObjectKey) {
	for _, obj := range w.api.All(kind) {
		if client.ObjectKeyFromObject(obj) == key {
			orphan := obj.DeepCopyObject().(client.Object)
			orphan.SetOwnerReferences(nil)
			w.must(w.user("gc").Update(ctx, orphan, client.FieldOwner("kube-controller-manager")))
		}
	}
}

func (w *world) dropFinalizer(name string) {
	if set := w.set(); set != nil {
		changed := set.DeepCopy()
		changed.Finalizers = slices.DeleteFunc(changed.Finalizers, func(f string) bool { return f == name })
		w.must(w.user("gc").Update(ctx, changed))
	}
}

// heal ends every fault that does not lie in the spec.
func (w *world) heal() {
	w.crashes, w.freezes, w.healed = 0, 0, w.now
	for _, l := range w.leaders {
		for _, v := range l.views {
			v.lag = 0
		}
	}
	w.misbehaves, w.refused = map[string]bool{}, map[string]bool{}
	for _, n := range w.nodes {
		n.rejects, n.capacity = false, 0
	}
	w.run(w.now.Add(16 * time.Minute))
	for len(w.leaders) > 1 {
		w.leaders[0].stop()
	}
	if len(w.leaders) == 0 {
		w.lead(w.nextClock(0))
	}
	w.repair()
	w.forbid(false)
	w.detacherReturns()
	for _, name := range w.order() {
		n := w.nodes[name]
		w.cordon(n, false)
		w.keepOut(n, false)
		for _, c := range n.checkers() {
			w.setHangs(c, false, 0)
		}
		w.revive(n)
		w.untaint(n)
		w.unmarkByHand(n)
		w.hold(n, false)
		w.dropStrayRequests(n)
		w.dropStrayTimestamps(n)
	}
	w.endLeft()
}

// endLeft is somebody who deletes what was left of Deployments where no other takes it over, as
// Blocked says.
func (w *world) endLeft() {
	set := w.set()
	for _, name := range slices.Sorted(maps.Keys(w.left)) {
		if n := w.nodes[name]; n == nil || !n.wanted() || set == nil || set.DeletionTimestamp != nil {
			w.collect(w.left[name])
			delete(w.left, name)
		}
	}
}

// leftovers are the traces of a rollout that should be gone when it rests.
func (w *world) leftovers() []string {
	var out []string
	set := w.set()
	if set == nil {
		return nil
	}
	if w.newest() != w.revision() && set.DeletionTimestamp == nil {
		out = append(out, "the present revision is not the newest on record")
	}
	blocked := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionBlocked)
	// One that lacks pods and is to have none instead keeps its place until the minimum permits that.
	toBeEmptied := w.spec().Pods() == 0 && blocked != nil && blocked.Reason == v1alpha1.ReasonFloorReached
	for _, name := range set.Status.Wave {
		if !toBeEmptied {
			out = append(out, name+" is in the wave")
		}
	}
	for _, name := range w.order() {
		n, d := w.nodes[name], w.deployments[name]
		switch {
		case n.requested():
			out = append(out, name+" is annotated")
		case n.wanted() && d == nil:
			out = append(out, name+" has no Deployment")
		case d == nil:
		case d.marked():
			out = append(out, name+" is marked")
		case n.wanted() && d.drained():
			out = append(out, name+" is drained")
		}
	}
	return out
}

// newest is the revision that was recorded last.
func (w *world) newest() string {
	var newest *appsv1.ControllerRevision
	for _, obj := range w.api.All("ControllerRevision") {
		if cr := obj.(*appsv1.ControllerRevision); newest == nil || cr.Revision > newest.Revision {
			newest = cr
		}
	}
	if newest == nil {
		return ""
	}
	return newest.Labels[v1alpha1.LabelRevision]
}

// goal is the revision that nodes should have: a template that was rejected stays so.
func (w *world) goal() string {
	if r := w.set().Status.Rejected; r != nil && r.Revision == w.revision() {
		return w.set().Status.CurrentRevision
	}
	return w.revision()
}

// triedAgain reports whether the pods that a Deployment should have wait to be tried again. What is
// being tried shows by them.
func (w *world) triedAgain(d *simDeployment) bool {
	var hold v1alpha1.Hold
	_ = json.Unmarshal([]byte(d.api.Annotations[v1alpha1.AnnotationHold]), &hold)
	return d.held() && !hold.Trying && hold.Revision == w.goal() && d.podsPerNode() == w.spec().Pods()
}

// drifted reports whether somebody else's changes are in a Deployment.
func (d *simDeployment) drifted() bool {
	return slices.ContainsFunc(d.api.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == "kubectl" && m.FieldsV1 != nil && slices.Contains([]string{`{"f:spec":{}}`, `{"f:metadata":{},"f:spec":{}}`}, string(m.FieldsV1.GetRawBytes()))
	})
}

// unfinished says what is missing from a finished rollout.
func (w *world) unfinished() []string {
	out := w.leftovers()
	if w.set() == nil {
		return out
	}
	out = append(out, w.mispublished()...)
	updated, wanted := 0, 0
	for _, name := range w.order() {
		n, d := w.nodes[name], w.deployments[name]
		if !n.wanted() && d != nil {
			out = append(out, name+" has a Deployment")
		}
		if !n.wanted() && len(n.checks) > 0 {
			out = append(out, name+" has a health checker")
		}
		if !n.wanted() || d == nil {
			continue
		}
		wanted++
		if d.revision() == w.goal() {
			updated++
		}
		// Fewer than none says nothing, as what is garbled.
		if pods, _ := strconv.Atoi(d.api.Annotations[v1alpha1.AnnotationPodsPerNode]); max(0, pods) != int(w.spec().Pods()) || d.drifted() || !equality.Semantic.DeepEqual(d.api.Spec.Strategy, objects.DeploymentStrategy(w.set())) {
			out = append(out, name+" is out of date")
		}
		if d.held() {
			out = append(out, name+" is held back")
		}
		if w.spec().Pods() > 0 && !w.audit.servesTruly(name) {
			out = append(out, name+" does not serve")
		}
	}
	stay, _ := v1alpha1.Resolve(w.spec().Strategy().Partition, wanted)
	if updated < wanted-stay {
		out = append(out, "too few nodes have the new revision")
	}
	for port := range w.daemonSets {
		if w.outdated(port) || !slices.Contains(w.spec().HealthCheckNodePorts, port) {
			out = append(out, "a health checker is out of date")
		}
	}
	return append(out, w.unready()...)
}

// outdated reports whether the health checkers of a port are those of an older controller.
func (w *world) outdated(port int32) bool {
	s := w.daemonSets[port]
	return s != nil && imageOf(s.api.Spec.Template) != w.image
}

func labelSet(obj client.Object) labels.Set { return labels.Set(obj.GetLabels()) }

const patience = 3 * time.Hour
