package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/detach"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// observed is the State that was read, and the objects that apply needs.
type observed struct {
	state       detach.State
	nodes       map[string]*corev1.Node
	attachments map[string]*v1alpha1.Attachment
	// unread are why the pods of some nodes could not be read, of which none is stopped.
	unread []error
	// undone are the nodes about which not all was done that was decided.
	undone map[string]bool
}

// leave notes that not all was done about a node that was decided: something failed, or is not so any
// more by which it was decided.
func (o *observed) leave(node string) {
	if o.undone == nil {
		o.undone = map[string]bool{}
	}
	o.undone[node] = true
}

func (r *Reconciler) observe(ctx context.Context) (*observed, error) {
	o := &observed{
		state: detach.State{Now: time.Now(), Reasons: r.Reasons, MinAttached: r.MinAttached, Answers: !r.Targets},
		nodes: map[string]*corev1.Node{}, attachments: map[string]*v1alpha1.Attachment{},
	}
	var nodes corev1.NodeList
	if err := r.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Nodes: %w", err)
	}
	for i := range nodes.Items {
		o.nodes[nodes.Items[i].Name] = &nodes.Items[i]
	}
	var attachments v1alpha1.AttachmentList
	if err := r.client.List(ctx, &attachments, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Attachments: %w", err)
	}
	for i := range attachments.Items {
		o.attachments[attachments.Items[i].Name] = &attachments.Items[i]
	}
	r.observeNodes(ctx, o)
	return o, nil
}

func (r *Reconciler) observeNodes(ctx context.Context, o *observed) {
	names := slices.Collect(maps.Keys(o.nodes))
	for name := range o.attachments {
		if o.nodes[name] == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	maps.DeleteFunc(r.gone, func(name string, _ gone) bool { return o.nodes[name] != nil || o.attachments[name] == nil })
	for _, name := range names {
		n := r.observeNode(o, name)
		if n.Exists && n.Attachment != nil && n.GoesAway(r.Reasons) {
			ctx, cancel := context.WithTimeout(ctx, patience)
			pods, err := r.observePods(ctx, o.nodes[name])
			if cancel(); err != nil {
				o.unread = append(o.unread, err)
			}
			n.Pods = pods
		}
		o.state.Nodes = append(o.state.Nodes, n)
	}
}

func (r *Reconciler) observeNode(o *observed, name string) detach.Node {
	n := detach.Node{Name: name}
	if a := o.attachments[name]; a != nil {
		n.Attachment = r.answerOf(a)
		n.Webhooks = r.webhooks.answers(a)
		// Anything but what this controller wrote counts for nothing: later, never sooner.
		n.GoneRecorded, _ = time.ParseDuration(a.Annotations[v1alpha1.AnnotationGoneFor])
		n.GoneRecorded = max(n.GoneRecorded, 0)
	}
	node := o.nodes[name]
	if node == nil {
		if _, seen := r.gone[name]; !seen {
			r.gone[name] = gone{o.state.Now, n.GoneRecorded}
		}
		n.GoneSince, n.GoneBefore = r.gone[name].since, r.gone[name].before
		return n
	}
	n.Exists = true
	n.Instance = r.InstanceID(node.Spec.ProviderID)
	n.Unnamed = r.Targets && node.Spec.ProviderID == ""
	n.Cordoned, n.Taints = node.Spec.Unschedulable, node.Spec.Taints
	n.Labels, n.Annotations = node.Labels, node.Annotations
	n.Ready = hasCondition(node, corev1.NodeReady)
	n.Detaching = hasCondition(node, v1alpha1.NodeBeingDetached)
	return n
}

// answerOf is what an Attachment says of what it wants now.
func (r *Reconciler) answerOf(a *v1alpha1.Attachment) *detach.Attachment {
	out := &detach.Attachment{
		Instance: a.Spec.Instance, Detach: a.Spec.Wanted == v1alpha1.WantDetached,
		Remembered: true, Done: a.Status.Done, Evidence: a.Status.Evidence, Waits: a.Status.Waits,
	}
	switch {
	case !r.Targets:
		out.Done, out.Evidence, out.Object = true, "", a
	case !a.Answered():
		out.Remembered, out.Done, out.Waits = false, false, "its load balancers have not been asked yet"
	}
	return out
}

func hasCondition(node *corev1.Node, kind corev1.NodeConditionType) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}

// observePods reads the pods of one node live: no cache holds the pods of everybody.
func (r *Reconciler) observePods(ctx context.Context, node *corev1.Node) ([]detach.Pod, error) {
	var list corev1.PodList
	if err := r.live.List(ctx, &list, client.MatchingFields{"spec.nodeName": node.Name}); err != nil {
		return nil, fmt.Errorf("listing the pods of node %s: %w", node.Name, err)
	}
	var out []detach.Pod
	for i := range list.Items {
		pod := &list.Items[i]
		priority, err := strconv.Atoi(pod.Annotations[v1alpha1.AnnotationDeletionPriority])
		if err != nil {
			// Without a priority it is left alone.
			continue
		}
		kept, daemon, err := r.keptByOthers(ctx, pod)
		if err != nil {
			return nil, err
		}
		if kept {
			continue
		}
		out = append(out, detach.Pod{
			Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Priority: priority,
			Terminating: pod.DeletionTimestamp != nil,
			Ended:       pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded,
			Daemon:      daemon,
			Tolerates:   slices.ContainsFunc(pod.Spec.Tolerations, toleratesDetaching),
			Delete:      pod.Annotations[v1alpha1.AnnotationDisableEviction] == "true",
			RetryAt:     r.stops.retryAt(string(pod.UID)),
		})
	}
	return out, nil
}

// keptByOthers reports whether the pod's DaemonSet names somebody else who stops its pods.
func (r *Reconciler) keptByOthers(ctx context.Context, pod *corev1.Pod) (kept, daemon bool, err error) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || !isDaemonSet(owner) {
		return false, false, nil
	}
	set := &metav1.PartialObjectMetadata{}
	set.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind(owner.Kind))
	err = r.live.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: owner.Name}, set)
	if client.IgnoreNotFound(err) != nil {
		return false, true, fmt.Errorf("reading DaemonSet %s: %w", owner.Name, err)
	}
	keeper, named := set.Annotations[v1alpha1.AnnotationManagedBy]
	return named && keeper != FieldManager, true, nil
}

// isDaemonSet reports whether an owner is a DaemonSet of a name that one can have: who may write pods may
// name anything.
func isDaemonSet(owner *metav1.OwnerReference) bool {
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && version.Group == appsv1.GroupName && owner.Kind == "DaemonSet" && len(validation.IsDNS1123Subdomain(owner.Name)) == 0
}

// toleratesDetaching reports whether a pod with the toleration would come back to a node
// whose pods are stopped.
func toleratesDetaching(t corev1.Toleration) bool {
	return (t.Effect == "" || t.Effect == corev1.TaintEffectNoSchedule) && (t.Key == "" || t.Key == v1alpha1.TaintDetaching) &&
		(t.Operator == corev1.TolerationOpExists || t.Key != "" && t.Value == "")
}
