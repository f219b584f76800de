package controller

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// observed is what was read for one pass, and what is to be written after it.
type observed struct {
	now    time.Time
	claims []*claim
	holds  []*hold
	nodes  map[string]*corev1.Node
	// out are the nodes that are to be out, and why.
	out map[string]string
	// zones are those of the nodes, by the id of their machine.
	zones map[string]string
	// machines are the names of the nodes, by the id of their machine and by their
	// internal addresses: by what targets on a node are registered as.
	machines map[string]string
}

// claim is a TargetGroupAttachment, what it selects, and its status as it will be.
type claim struct {
	object *v1alpha1.TargetGroupAttachment
	status v1alpha1.TargetGroupAttachmentStatus
	// set is its IngressDaemonSet, where it names one that is there.
	set     *v1alpha1.IngressDaemonSet
	service *corev1.Service
	pods    []*corev1.Pod
	nodes   map[string]*corev1.Node
	// incomplete says why what it selects is not known.
	incomplete string
	// unread says why its groups are not known.
	unread  string
	faults  []string
	reports []targets.Report
	matched int
	skipped []targets.Skip
	// bound are groups that it is on and may not touch, and why.
	bound []string
	// gates are the readiness gates to write.
	gates []gate
}

// hold is the Attachment of a node, and its status as it will be.
type hold struct {
	object *v1alpha1.Attachment
	status v1alpha1.AttachmentStatus
	// unread is what was not read since the Attachment asks for what it does.
	unread  string
	reports []targets.Report
}

func (h *hold) detach() bool { return h.object.Spec.Wanted == v1alpha1.WantDetached }

func (r *Reconciler) observe(ctx context.Context) (*observed, error) {
	o := &observed{now: time.Now(), nodes: map[string]*corev1.Node{}, out: map[string]string{}, zones: map[string]string{}, machines: map[string]string{}}
	var nodes corev1.NodeList
	if err := r.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Nodes: %w", err)
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		o.nodes[node.Name] = node
		if id, _ := targets.InstanceID(node); id != "" {
			o.zones[id] = node.Labels[corev1.LabelTopologyZone]
			o.machines[id] = node.Name
		}
		for _, a := range node.Status.Addresses {
			if address, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
				o.machines[address.Unmap().String()] = node.Name
			}
		}
	}
	var holds v1alpha1.AttachmentList
	if err := r.client.List(ctx, &holds); err != nil {
		return nil, fmt.Errorf("listing Attachments: %w", err)
	}
	for i := range holds.Items {
		h := &hold{object: &holds.Items[i], status: *holds.Items[i].Status.DeepCopy()}
		o.holds = append(o.holds, h)
		if h.detach() {
			o.out[h.object.Name] = "node " + h.object.Name + " is to be out of its load balancers"
		}
	}
	var claims v1alpha1.TargetGroupAttachmentList
	if err := r.client.List(ctx, &claims); err != nil {
		return nil, fmt.Errorf("listing TargetGroupAttachments: %w", err)
	}
	for i := range claims.Items {
		c := &claim{object: &claims.Items[i], status: *claims.Items[i].Status.DeepCopy()}
		if err := r.observeClaim(ctx, o, c); err != nil {
			return nil, fmt.Errorf("TargetGroupAttachment %s/%s: %w", c.object.Namespace, c.object.Name, err)
		}
		o.claims = append(o.claims, c)
	}
	slices.SortFunc(o.claims, func(a, b *claim) int { return compareObjects(a.object, b.object) })
	return o, nil
}

// observeClaim reads what a TargetGroupAttachment selects.
func (r *Reconciler) observeClaim(ctx context.Context, o *observed, c *claim) error {
	spec := &c.object.Spec
	if err := r.observeService(ctx, c); err != nil {
		return err
	}
	switch {
	case spec.NodeSelector != nil:
		selector, err := metav1.LabelSelectorAsSelector(spec.NodeSelector)
		if err != nil {
			c.incomplete = "nodeSelector: " + err.Error()
			return nil
		}
		c.nodes = map[string]*corev1.Node{}
		for name, node := range o.nodes {
			if selector.Matches(labels.Set(node.Labels)) {
				c.nodes[name] = node
			}
		}
		return nil
	case spec.PodSelector != nil:
		selector, err := metav1.LabelSelectorAsSelector(spec.PodSelector)
		if err != nil {
			c.incomplete = "podSelector: " + err.Error()
			return nil
		}
		return r.observePods(ctx, c, client.MatchingLabelsSelector{Selector: selector})
	}
	set := &v1alpha1.IngressDaemonSet{}
	err := r.client.Get(ctx, types.NamespacedName{Namespace: c.object.Namespace, Name: spec.IngressDaemonSet.Name}, set)
	switch {
	case apierrors.IsNotFound(err):
		c.faults = append(c.faults, "there is no IngressDaemonSet "+spec.IngressDaemonSet.Name)
		return nil
	case err != nil:
		return err
	}
	c.set = set
	return r.observePods(ctx, c, client.MatchingLabels{v1alpha1.LabelName: v1alpha1.LabelValue(set.Name)}, client.HasLabels{v1alpha1.LabelNode})
}

func (r *Reconciler) observePods(ctx context.Context, c *claim, options ...client.ListOption) error {
	var list corev1.PodList
	if err := r.client.List(ctx, &list, append(options, client.InNamespace(c.object.Namespace), client.UnsafeDisableDeepCopy)...); err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	for i := range list.Items {
		c.pods = append(c.pods, &list.Items[i])
	}
	return nil
}

func (r *Reconciler) observeService(ctx context.Context, c *claim) error {
	ref := c.object.Spec.Service
	if ref == nil {
		return nil
	}
	svc := &corev1.Service{}
	err := r.client.Get(ctx, types.NamespacedName{Namespace: c.object.Namespace, Name: ref.Name}, svc)
	switch {
	case apierrors.IsNotFound(err):
		c.incomplete = "there is no Service " + ref.Name
	case err != nil:
		return err
	default:
		c.service = svc
	}
	return nil
}

// matches is whether the claim is on the group, and why not where it should be.
func (c *claim) matches(g targets.Group) (ok bool, fault string) {
	s := c.object.Spec.TargetGroup
	switch {
	case s.ARN != "":
		ok = g.ID == s.ARN
	case s.Name != "":
		ok = g.Balancer != targets.Classic && g.Name == s.Name
	default:
		ok = true
		for key, value := range s.Tags {
			if has, tagged := g.Tags[key]; !tagged || has != value {
				ok = false
			}
		}
	}
	if ok && string(g.Type) != c.object.Spec.TargetType {
		return false, fmt.Sprintf("target group %s is of type %s: set targetType to that, or name another group", g.Name, g.Type)
	}
	return ok, ""
}

// same is whether a status need not be written.
func same[T any](a, b T) bool { return equality.Semantic.DeepEqual(a, b) }

func compareObjects(a, b client.Object) int {
	return slices.Compare([]string{a.GetNamespace(), a.GetName()}, []string{b.GetNamespace(), b.GetName()})
}
