package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth/healthclient"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// observed is the State that was read, and what apply needs beside it.
type observed struct {
	state targets.State
	// checkers are the health checkers that see the connections to nodes, by node.
	checkers map[string]healthclient.Port
}

func (r *Reconciler) observe(ctx context.Context) (*observed, error) {
	o := &observed{state: targets.State{Now: time.Now(), Memory: r.memory, SettleTimes: map[targets.Balancer]time.Duration{}}}
	for _, b := range []targets.Balancer{targets.Network, targets.Application, targets.Classic} {
		o.state.SettleTimes[b] = r.SettleTime(b)
	}
	var nodes corev1.NodeList
	if err := r.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Nodes: %w", err)
	}
	for i := range nodes.Items {
		o.state.Nodes = append(o.state.Nodes, &nodes.Items[i])
	}
	o.state.NodesBehind = r.caches.behind(allNodes)
	var attached v1alpha1.AttachmentList
	if err := r.client.List(ctx, &attached, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Attachments: %w", err)
	}
	for i := range attached.Items {
		o.state.NodeAttachments = append(o.state.NodeAttachments, newest(r.answers, &attached.Items[i]))
	}
	var attachments v1alpha1.TargetGroupAttachmentList
	if err := r.client.List(ctx, &attachments, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing TargetGroupAttachments: %w", err)
	}
	o.state.Behind = r.caches.behind(allAttachments) || r.caches.behind(allNodeAttachments)
	o.state.Late = cmp.Or(r.caches.isLate(allAttachments), r.caches.isLate(allNodeAttachments))
	there := map[types.UID]bool{}
	for i := range attachments.Items {
		if there[attachments.Items[i].UID] = true; r.answers.hasEnded(attachments.Items[i].UID) {
			continue
		}
		object := newest(r.answers, &attachments.Items[i])
		selected := cacheOf(object)
		a := targets.GroupAttachment{Object: object, Behind: r.caches.behind(selected), Late: r.caches.isLate(selected)}
		if err := r.observeAttachment(ctx, &a); err != nil {
			return nil, fmt.Errorf("TargetGroupAttachment %s/%s: %w", a.Object.Namespace, a.Object.Name, err)
		}
		o.state.Attachments = append(o.state.Attachments, a)
	}
	noteWritten(there, &o.state)
	r.answers.keep(there)
	r.told.keep(there)
	o.state.Told = r.told.known()
	if err := r.observeBystanders(ctx, o); err != nil {
		return nil, err
	}
	if err := r.observeTimeout(ctx, o); err != nil {
		return nil, err
	}
	r.observeCloud(o)
	return o, r.observeCheckers(ctx, o)
}

// observeAttachment reads what a TargetGroupAttachment selects; nodes it selects among all.
func (r *Reconciler) observeAttachment(ctx context.Context, a *targets.GroupAttachment) error {
	if err := r.observeService(ctx, a); err != nil {
		return err
	}
	spec := &a.Object.Spec
	switch {
	case spec.NodeSelector != nil:
		return nil
	case spec.PodSelector != nil:
		selector, err := metav1.LabelSelectorAsSelector(spec.PodSelector)
		if err != nil {
			a.Unknown = "podSelector: " + err.Error()
			return nil
		}
		a.Pods, err = r.pods(ctx, client.InNamespace(a.Object.Namespace), client.MatchingLabelsSelector{Selector: selector})
		return err
	}
	return r.observeSet(ctx, a)
}

func (r *Reconciler) observeSet(ctx context.Context, a *targets.GroupAttachment) (err error) {
	name, of := a.Object.Spec.IngressDaemonSet.Name, client.InNamespace(a.Object.Namespace)
	set := &v1alpha1.IngressDaemonSet{}
	err = r.client.Get(ctx, types.NamespacedName{Namespace: a.Object.Namespace, Name: name}, set)
	switch {
	case apierrors.IsNotFound(err):
		if a.Neighbours, err = r.pods(ctx, of, client.HasLabels{v1alpha1.LabelNode}); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		a.Set = set
	}
	named := client.MatchingLabels{v1alpha1.LabelName: v1alpha1.LabelValue(name)}
	if a.Pods, err = r.pods(ctx, of, named, client.HasLabels{v1alpha1.LabelNode}); err != nil {
		return err
	}
	var revisions appsv1.ControllerRevisionList
	if err := r.client.List(ctx, &revisions, of, named, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing ControllerRevisions: %w", err)
	}
	a.Templates = map[string]corev1.PodSpec{}
	for i := range revisions.Items {
		// One that cannot be read is as good as none: its pods stay as they are.
		var template corev1.PodTemplateSpec
		if err := json.Unmarshal(revisions.Items[i].Data.Raw, &template); err == nil && len(template.Spec.Containers) > 0 {
			a.Templates[revisions.Items[i].Labels[v1alpha1.LabelRevision]] = template.Spec
		}
	}
	return nil
}

func (r *Reconciler) observeService(ctx context.Context, a *targets.GroupAttachment) error {
	ref := a.Object.Spec.Service
	if ref == nil {
		return nil
	}
	service := &corev1.Service{}
	err := r.client.Get(ctx, types.NamespacedName{Namespace: a.Object.Namespace, Name: ref.Name}, service)
	switch {
	case apierrors.IsNotFound(err):
		a.Unknown = "there is no Service " + ref.Name
	case err != nil:
		return err
	default:
		a.Service = service
	}
	return nil
}

func (r *Reconciler) pods(ctx context.Context, options ...client.ListOption) ([]*corev1.Pod, error) {
	var list corev1.PodList
	if err := r.client.List(ctx, &list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	var out []*corev1.Pod
	for i := range list.Items {
		out = append(out, newest(r.answers, &list.Items[i]))
	}
	return out, nil
}

// noteWritten notes all that may be written to.
func noteWritten(there map[types.UID]bool, s *targets.State) {
	for i := range s.Attachments {
		for _, pod := range slices.Concat(s.Attachments[i].Pods, s.Attachments[i].Neighbours) {
			there[pod.UID] = true
		}
	}
	for _, a := range s.NodeAttachments {
		there[a.UID] = true
	}
}

// observeBystanders finds the pods whose addresses are on record, while a node is to be out, or one
// of them is no pod's that is selected: what nobody selects any more keeps its node as well, and
// leaves at once where another pod has its address.
func (r *Reconciler) observeBystanders(ctx context.Context, o *observed) error {
	needed := slices.ContainsFunc(o.state.NodeAttachments, func(a *v1alpha1.Attachment) bool { return a.Spec.Wanted == v1alpha1.WantDetached })
	recorded, selected := map[string]bool{}, selectedAddresses(o.state.Attachments)
	for _, a := range o.state.Attachments {
		for _, g := range a.Object.Status.Groups {
			for _, name := range g.Targets {
				id := idOf(name)
				recorded[id] = true
				needed = needed || isAddress(id) && !selected[podAddress{a.Object.Namespace, id}]
			}
			for _, l := range g.Leaving {
				id := idOf(l.Target)
				recorded[id] = true
				needed = needed || l.LeftAt == nil && isAddress(id) && !selected[podAddress{a.Object.Namespace, id}]
			}
		}
	}
	if !needed || len(recorded) == 0 {
		return nil
	}
	pods, err := r.pods(ctx)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if slices.ContainsFunc(pod.Status.PodIPs, func(ip corev1.PodIP) bool { return recorded[ip.IP] }) {
			o.state.Bystanders = append(o.state.Bystanders, pod)
		}
	}
	return nil
}

// podAddress is one of a pod of a namespace: those on the host network share that of their node.
type podAddress struct{ namespace, ip string }

func selectedAddresses(attachments []targets.GroupAttachment) map[podAddress]bool {
	selected := map[podAddress]bool{}
	for _, a := range attachments {
		for _, pod := range slices.Concat(a.Pods, a.Neighbours) {
			for _, ip := range pod.Status.PodIPs {
				selected[podAddress{pod.Namespace, ip.IP}] = true
			}
		}
	}
	return selected
}

// idOf is the ID of a target on record, empty where that cannot be read.
func idOf(name string) string {
	r, _ := targets.ParseRegistration(name)
	return r.ID
}

// isAddress reports whether the ID of a target is an IP address; otherwise it is an instance's.
func isAddress(id string) bool {
	_, err := netip.ParseAddr(id)
	return err == nil
}

// observeCloud reads what is known of the cloud.
func (r *Reconciler) observeCloud(o *observed) {
	o.state.Bindings.All, o.state.Bindings.Listed, o.state.Bindings.Failure = r.bindings.known()
	o.state.Slow = r.tooSlow
	for role, a := range r.accounts {
		o.state.Accounts = append(o.state.Accounts, a.observe(role))
	}
	o.state.Quiet = r.connections.known()
	o.state.Detaching, o.state.DetachTagged, o.state.RequireGroupTag = r.Detaching, r.DetachTagged, r.RequireGroupTag
}

// observeTimeout finds how long somebody waits for a node to be out at most, while one is to
// be: the shortest of those who wait.
func (r *Reconciler) observeTimeout(ctx context.Context, o *observed) error {
	if !slices.ContainsFunc(o.state.NodeAttachments, func(a *v1alpha1.Attachment) bool { return a.Spec.Wanted == v1alpha1.WantDetached }) {
		return nil
	}
	var sets v1alpha1.IngressDaemonSetList
	if err := r.client.List(ctx, &sets, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing IngressDaemonSets: %w", err)
	}
	for i := range sets.Items {
		if s := sets.Items[i].Spec.Strategy(); s.Detaching && (o.state.DetachTimeout == 0 || s.DetachTimeout < o.state.DetachTimeout) {
			o.state.DetachTimeout = s.DetachTimeout
		}
	}
	return nil
}

// observeCheckers finds the health checkers of nodes, while something leaves.
func (r *Reconciler) observeCheckers(ctx context.Context, o *observed) error {
	if !leaving(&o.state) {
		return nil
	}
	var sets v1alpha1.IngressDaemonSetList
	if err := r.client.List(ctx, &sets, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing IngressDaemonSets: %w", err)
	}
	pods, err := r.pods(ctx, client.HasLabels{v1alpha1.LabelNode})
	if err != nil {
		return err
	}
	o.checkers = checkersOf(o.state.Nodes, sets.Items, pods)
	return nil
}

// leaving reports whether something that leaves is on record.
func leaving(s *targets.State) bool {
	any := func(groups []v1alpha1.AttachedGroup) bool {
		for _, g := range groups {
			if len(g.Leaving) > 0 {
				return true
			}
		}
		return false
	}
	for _, a := range s.Attachments {
		if any(a.Object.Status.Groups) {
			return true
		}
	}
	for _, a := range s.NodeAttachments {
		if any(a.Status.Groups) {
			return true
		}
	}
	return false
}
