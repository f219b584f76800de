package controller

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/detach"
	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	"github.com/mumoshu/ingress-daemonset-controller/internal/recorder"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// gatherFor is how long events are gathered before a pass: one pass is for all nodes.
const gatherFor = 50 * time.Millisecond

// SetUp registers the controller with the manager.
func SetUp(mgr ctrl.Manager, o Options) error {
	passes := onepass.Gather(gatherFor)
	r := New(o, mgr.GetClient(), mgr.GetAPIReader(), recorder.ByNote(mgr.GetEventRecorder(FieldManager)), passes.Trigger)
	err := ctrl.NewControllerManagedBy(mgr).
		Named("detach").
		Watches(&corev1.Node{}, passes, nodeChanges()).
		Watches(&v1alpha1.Attachment{}, passes).
		Watches(&corev1.Pod{}, passes, podEnds()).
		WatchesRawSource(passes.Triggered()).
		WithOptions(onepass.Options()).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the detaching of nodes: %w", err)
	}
	for _, to := range []detach.Phase{detach.Detached, detach.Attached} {
		// From 0 on: of what begins with the first that arrives, Prometheus sees no increase.
		movesTook.WithLabelValues(string(to))
	}
	return nil
}

// New makes a Reconciler that calls trigger for another pass. live reads past the cache.
func New(o Options, c client.Client, live client.Reader, recorder events.EventRecorder, trigger func()) *Reconciler {
	return &Reconciler{
		Options: o, client: c, live: live, recorder: recorder,
		stops:    &stops{refusals: map[string]refusal{}},
		phases:   &phases{of: map[string]detach.Phase{}, begun: map[string]time.Time{}, returning: map[string]bool{}},
		gone:     map[string]gone{},
		webhooks: &webhooks{all: o.Webhooks, known: map[question]*known{}, open: map[addressee]bool{}, trigger: trigger},
	}
}

// nodeChanges leaves out the heartbeats.
func nodeChanges() builder.Predicates {
	return builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
		return hasCondition(before, corev1.NodeReady) != hasCondition(after, corev1.NodeReady) ||
			hasCondition(before, v1alpha1.NodeBeingDetached) != hasCondition(after, v1alpha1.NodeBeingDetached) ||
			!equality.Semantic.DeepEqual(before.Spec, after.Spec) ||
			!equality.Semantic.DeepEqual(before.Labels, after.Labels) ||
			!equality.Semantic.DeepEqual(before.Annotations, after.Annotations)
	}})
}

// podEnds leaves out all but the end of pods: those of a lower priority are stopped then.
func podEnds() builder.Predicates {
	over := func(o client.Object) bool {
		phase := o.(*corev1.Pod).Status.Phase
		return phase == corev1.PodSucceeded || phase == corev1.PodFailed
	}
	return builder.WithPredicates(predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool { return !over(e.ObjectOld) && over(e.ObjectNew) },
	})
}

// Rival is an error where a node-detacher runs in the cluster: two that detach and
// attach the same nodes would undo each other's work.
func Rival(ctx context.Context, live client.Reader) error {
	var list appsv1.DeploymentList
	for {
		if err := live.List(ctx, &list, client.Limit(500), client.Continue(list.Continue)); err != nil {
			return fmt.Errorf("looking for a node-detacher: %w", err)
		}
		for i := range list.Items {
			if d := &list.Items[i]; runsDetacher(d) {
				return fmt.Errorf("Deployment %s/%s runs node-detacher, which detaches the same nodes: scale it to 0, or start this controller without --detach", d.Namespace, d.Name)
			}
		}
		if list.Continue == "" {
			return nil
		}
	}
}

// runsDetacher reports whether a container's image is called node-detacher.
func runsDetacher(d *appsv1.Deployment) bool {
	if d.Spec.Replicas != nil && *d.Spec.Replicas == 0 {
		return false
	}
	for _, c := range d.Spec.Template.Spec.Containers {
		name, _, _ := strings.Cut(path.Base(c.Image), "@")
		name, _, _ = strings.Cut(name, ":")
		if name == "node-detacher" {
			return true
		}
	}
	return false
}
