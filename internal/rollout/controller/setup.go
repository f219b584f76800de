package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/recorder"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// CacheOptions keep in memory only what is looked at: objects that carry the
// name of an IngressDaemonSet, and of each only the fields that are read. allPods
// keeps every pod, of which others select theirs.
func CacheOptions(allPods bool) cache.Options {
	named, err := labels.NewRequirement(v1alpha1.LabelName, selection.Exists, nil)
	if err != nil {
		// The requirement is a constant.
		panic(err)
	}
	ours := cache.ByObject{Label: labels.NewSelector().Add(*named)}
	stripped := ours
	stripped.Transform = cache.TransformStripManagedFields()
	deployments, pods := ours, ours
	deployments.Transform, pods.Transform = transformDeployment, transformPod
	if allPods {
		pods = cache.ByObject{Transform: transformPodOfAnybody}
	}
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		&appsv1.Deployment{}:         deployments,
		&appsv1.DaemonSet{}:          stripped,
		&appsv1.ControllerRevision{}: stripped,
		&discoveryv1.EndpointSlice{}: stripped,
		&corev1.ServiceAccount{}:     stripped,
		&rbacv1.RoleBinding{}:        stripped,
		&corev1.Pod{}:                pods,
		&corev1.Node{}:               {Transform: transformNode},
		&corev1.Service{}:            {Transform: cache.TransformStripManagedFields()},
	}}
}

// Options say what rollouts may use.
type Options struct {
	// Version is this program's, for the metrics.
	Version string
	// Image is the health checkers', where an IngressDaemonSet names none.
	Image string
	// Measure makes the measurements of the analysis, CheckAnalysis says what of a check no
	// measurement could mend; nil where nothing is.
	Measure       Measure
	CheckAnalysis func(v1alpha1.AnalysisCheck, rollout.Wave) error
	// Detachers are those that IngressDaemonSets may ask to take Nodes out, beside
	// node-detacher.
	Detachers []rollout.Detacher
}

// SetUp registers the controller with the manager, whose cache must have been
// made with CacheOptions.
func SetUp(mgr ctrl.Manager, o Options) error {
	if err := addIndexes(context.Background(), mgr.GetCache()); err != nil {
		return err
	}
	queue := &triggerQueue{}
	r := emptyReconciler(time.Now)
	r.sessions.trigger = func(set types.NamespacedName) { queue.add(set, r.sessions.of(set).throttle.pause()) }
	r.sessions.measuring.make = o.Measure
	r.client, r.index, r.live = mgr.GetClient(), indexed(mgr.GetCache()), mgr.GetAPIReader()
	r.recorder, r.image, r.detachers = recorder.ByNote(mgr.GetEventRecorder(objects.FieldManager)), o.Image, o.Detachers
	r.checkAnalysis = o.CheckAnalysis
	if err := mgr.Add(manager.RunnableFunc(r.freezes.run)); err != nil {
		return fmt.Errorf("setting up the detector of freezes: %w", err)
	}
	b := ctrl.NewControllerManagedBy(mgr).
		Named("ingressdaemonset").
		For(&v1alpha1.IngressDaemonSet{}, builder.WithPredicates(r.changesOfItself())).
		WatchesRawSource(source.Func(queue.open)).
		// A heartbeat calls for no pass, but the next one must know the newest version.
		Watches(&corev1.Node{}, handler.Funcs{UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			r.saw(e.ObjectNew)
		}}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4, RateLimiter: backoff()})
	for _, w := range r.watches() {
		b = b.Watches(w.kind, r.enqueue(w.sets), builder.WithPredicates(w.changes))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	countBuild(o.Version)
	return nil
}

// emptyReconciler remembers nothing yet.
func emptyReconciler(now func() time.Time) *Reconciler {
	r := &Reconciler{
		now: now, parallel: parallelWrites, mutations: newMutationCache(now), sessions: newSessions(now), freezes: newFreezeDetector(now),
		checkAnalysis: func(v1alpha1.AnalysisCheck, rollout.Wave) error { return nil },
	}
	r.sessions.forget = func(key types.NamespacedName, but types.UID) { r.mutations.forget(key, but) }
	return r
}

// watch is a kind, which of its changes call for passes, and of which IngressDaemonSets.
type watch struct {
	kind    client.Object
	sets    handler.MapFunc
	changes predicate.Predicate
}

func (r *Reconciler) watches() []watch {
	every := predicate.Funcs{}
	out := []watch{
		{&v1alpha1.IngressDaemonSet{}, r.rivals, specChanges()},
		{&corev1.Node{}, r.allSets, nodeChanges()},
		{&corev1.Service{}, r.setsOfService, every},
	}
	for _, named := range []client.Object{
		&appsv1.Deployment{}, &appsv1.DaemonSet{}, &appsv1.ControllerRevision{}, &discoveryv1.EndpointSlice{},
		&corev1.ServiceAccount{}, &rbacv1.RoleBinding{}, &corev1.Pod{},
	} {
		out = append(out, watch{named, setByLabel, every})
	}
	return out
}

// setByLabel is the IngressDaemonSet that an object carries the name of. Names
// of IngressDaemonSets are short enough to be label values as they are.
func setByLabel(_ context.Context, obj client.Object) []reconcile.Request {
	if obj.GetLabels()[v1alpha1.LabelName] == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{
		Namespace: obj.GetNamespace(), Name: obj.GetLabels()[v1alpha1.LabelName],
	}}}
}

func (r *Reconciler) allSets(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.setsWhere(ctx, func(*v1alpha1.IngressDaemonSet) bool { return true })
}

// rivals are the other IngressDaemonSets that want a port of this one's.
func (r *Reconciler) rivals(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.setsWhere(ctx, func(set *v1alpha1.IngressDaemonSet) bool {
		return set.UID != obj.GetUID() && meets(set, obj.(*v1alpha1.IngressDaemonSet))
	})
}

func (r *Reconciler) setsOfService(ctx context.Context, svc client.Object) []reconcile.Request {
	return r.setsWhere(ctx, func(set *v1alpha1.IngressDaemonSet) bool {
		return set.Namespace == svc.GetNamespace() && set.Spec.ServiceName == svc.GetName()
	})
}

func (r *Reconciler) setsWhere(ctx context.Context, match func(*v1alpha1.IngressDaemonSet) bool) []reconcile.Request {
	list := &v1alpha1.IngressDaemonSetList{}
	if err := r.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		// The cache can only fail to list before it has synced, and then the
		// sets themselves are still to come.
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		if match(&list.Items[i]) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return out
}

// enqueue gathers events for a moment that grows with the work of a pass. Pods that are
// made and lost without end do not wait: in that moment there would be dozens more.
func (r *Reconciler) enqueue(sets handler.MapFunc) handler.EventHandler {
	add := func(ctx context.Context, obj client.Object, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		for _, req := range sets(ctx, obj) {
			pause := r.sessions.of(req.NamespacedName).throttle.pause()
			if lost(obj) {
				pause = shortestPause
			}
			q.AddAfter(req, pause)
		}
	}
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			r.saw(e.Object)
			add(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			// A pod of the Scheduler's may have got its node.
			r.sawChange(e.ObjectOld)
			r.saw(e.ObjectNew)
			add(ctx, e.ObjectNew, q)
			if e.ObjectOld.GetLabels()[v1alpha1.LabelName] != e.ObjectNew.GetLabels()[v1alpha1.LabelName] {
				// Somebody took it from its IngressDaemonSet.
				add(ctx, e.ObjectOld, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			r.mutations.gone(e.Object)
			r.saw(e.Object)
			if node, ok := e.Object.(*corev1.Node); ok {
				r.sessions.taints.gone(node.Name, r.sessions.open)
			}
			add(ctx, e.Object, q)
		},
	}
}

// saw takes note of what an event tells.
func (r *Reconciler) saw(obj client.Object) {
	r.sawChange(obj)
	switch obj := obj.(type) {
	case *corev1.Node:
		r.sessions.taints.saw(obj, r.sessions.open)
	case *corev1.Pod:
		if set := setOf(obj); set.Name != "" {
			r.sessions.of(set).evictions.saw(obj)
		}
	}
}

// sawChange takes note of the node on which an object has changed.
func (r *Reconciler) sawChange(obj client.Object) {
	_, isNode := obj.(*corev1.Node)
	set := setOf(obj)
	for _, s := range r.sessions.open() {
		if isNode || s.key == set {
			s.changes.saw(obj)
		}
	}
}

// lost reports whether the object is a pod that a kubelet rejected or a taint evicts, which its
// ReplicaSet replaces at once.
func lost(obj client.Object) bool {
	pod, ok := obj.(*corev1.Pod)
	return ok && (pod.Status.Phase == corev1.PodFailed || objects.EvictedByTaint(pod))
}

// specChanges leaves out changes of the status.
func specChanges() predicate.Predicate {
	return predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !equality.Semantic.DeepEqual(e.ObjectOld.GetFinalizers(), e.ObjectNew.GetFinalizers()) ||
				e.ObjectOld.GetAnnotations()[v1alpha1.AnnotationPromoted] != e.ObjectNew.GetAnnotations()[v1alpha1.AnnotationPromoted] ||
				e.ObjectOld.GetAnnotations()[v1alpha1.AnnotationReleasedPorts] != e.ObjectNew.GetAnnotations()[v1alpha1.AnnotationReleasedPorts]
		},
	})
}

// changesOfItself are also what another controller wrote to the status: one that was frozen
// and thaws may, and what it saw last must not stand until something else happens.
func (r *Reconciler) changesOfItself() predicate.Predicate {
	return predicate.Or(specChanges(), predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*v1alpha1.IngressDaemonSet), e.ObjectNew.(*v1alpha1.IngressDaemonSet)
			own := r.sessions.of(client.ObjectKeyFromObject(after)).throttle.lastReport().version
			order, err := resourceversion.CompareResourceVersion(after.ResourceVersion, own)
			return (err != nil || order > 0) && !equality.Semantic.DeepEqual(before.Status, after.Status)
		},
	})
}

// nodeChanges leaves out the heartbeats.
func nodeChanges() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
		return objects.NodeReady(before) != objects.NodeReady(after) ||
			nodeAddress(before) != nodeAddress(after) ||
			!equality.Semantic.DeepEqual(before.Spec, after.Spec) ||
			!equality.Semantic.DeepEqual(before.Labels, after.Labels) ||
			!equality.Semantic.DeepEqual(before.Annotations, after.Annotations) ||
			!sameTime(before.DeletionTimestamp, after.DeletionTimestamp)
	}}
}

func sameTime(a, b *metav1.Time) bool { return (a == nil) == (b == nil) }
