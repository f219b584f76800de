package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (r *Reconciler) observeService(ctx context.Context, o *observed) error {
	name := o.set.Spec.ServiceName
	if name == "" {
		return nil
	}
	svc := &corev1.Service{}
	err := r.client.Get(ctx, types.NamespacedName{Namespace: o.set.Namespace, Name: name}, svc)
	switch {
	case apierrors.IsNotFound(err):
		o.fault(v1alpha1.ReasonServiceUnusable, fmt.Sprintf("Service %s does not exist: create it without a selector and with externalTrafficPolicy Local", name))
		return nil
	case err != nil:
		return fmt.Errorf("reading Service %s: %w", name, err)
	}
	if fault := objects.ServiceFault(svc); fault != "" {
		o.fault(v1alpha1.ReasonServiceUnusable, fault)
		o.unusable = true
	}
	o.service = svc
	o.observeTargetPorts()
	return nil
}

// observeTargetPorts reads the templates that tell which ports pods listen on: each
// pod's own, since the number behind a name changes with the pod. Without a name in the
// present template no pod may be replaced; without one in another, or without its
// record, pods stay as they are published, and the rollout is what mends it.
func (o *observed) observeTargetPorts() {
	o.podSpecs = map[string]*corev1.PodSpec{o.state.Revision: &o.template.Spec}
	missing := objects.MissingTargetPorts(o.service, &o.template.Spec)
	if len(missing) > 0 && o.set.DeletionTimestamp == nil {
		o.fault(v1alpha1.ReasonServiceUnusable, fmt.Sprintf("Service %s has the targetPort %s, which the template declares in no container: declare it, or give the port's number in targetPort",
			o.service.Name, strings.Join(missing, ", ")))
	}
	for _, revision := range o.podRevisions() {
		if o.podSpecs[revision] != nil {
			continue
		}
		if template, err := o.templateOf(revision); err == nil {
			o.podSpecs[revision] = &template.Spec
		}
		if missing := objects.MissingTargetPorts(o.service, o.podSpecs[revision]); len(missing) > 0 {
			o.state.Warnings = append(o.state.Warnings, rollout.Fault{Reason: v1alpha1.ReasonServiceUnusable, Message: fmt.Sprintf(
				"Service %s has the targetPort %s, and no template of revision %s that declares it is on record: its pods stay published on the ports that they had, and on no other",
				o.service.Name, strings.Join(missing, ", "), revision)})
		}
	}
}

// podRevisions are those that there are pods of.
func (o *observed) podRevisions() []string {
	seen := map[string]bool{}
	for _, n := range o.nodes {
		for _, pod := range n.pods {
			seen[pod.Labels[v1alpha1.LabelRevision]] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// publish brings the EndpointSlices of the Service, of which these are published, to what they should be.
func (r *Reconciler) publish(ctx context.Context, o *observed, published []*discoveryv1.EndpointSlice) error {
	if o.set.DeletionTimestamp == nil && slices.ContainsFunc(published, ownerless) {
		if err := r.setAsSeenNow(ctx, o); err != nil {
			return err
		}
	}
	wanted := o.wantedSlices(published)
	have := onNodes(published, wanted)
	nodes := slices.Sorted(maps.Keys(wanted))
	for _, node := range slices.Sorted(maps.Keys(have)) {
		if wanted[node] == nil {
			nodes = append(nodes, node)
		}
	}
	return forEach(nodes, r.parallel, func(node string) error {
		if o.unusable && !slices.ContainsFunc(have[node], o.ofService) {
			// Nothing is published to a Service that may be meant for something else.
			return r.publishNode(ctx, o, have[node], nil)
		}
		// What is published stays true, or its traffic would end.
		return r.publishNode(ctx, o, have[node], wanted[node])
	})
}

// publishNode writes before it deletes: a pod that goes from one slice to another is
// always in one. What another has written since it was observed stays: a controller that was
// frozen would publish pods that are gone.
func (r *Reconciler) publishNode(ctx context.Context, o *observed, have, wanted []*discoveryv1.EndpointSlice) error {
	kept := map[string]bool{}
	for _, want := range wanted {
		kept[want.Name] = true
		want.ResourceVersion = versionOfNone
		var present *discoveryv1.EndpointSlice
		if i := slices.IndexFunc(have, func(s *discoveryv1.EndpointSlice) bool { return s.Name == want.Name }); i >= 0 {
			present = have[i]
			want.UID, want.ResourceVersion = present.UID, present.ResourceVersion
		}
		if o.staysBehind(present) {
			want.OwnerReferences = nil
		}
		if present != nil && ownerOf(present) == ownerOf(want) && samePublication(present, want) {
			continue
		}
		if err := r.write(ctx, want, client.ForceOwnership); err != nil {
			return fmt.Errorf("publishing EndpointSlice %s: %w", want.Name, err)
		}
	}
	for _, old := range have {
		if kept[old.Name] {
			continue
		}
		if err := r.delete(ctx, old, client.Preconditions{UID: &old.UID, ResourceVersion: &old.ResourceVersion}); err != nil {
			return fmt.Errorf("deleting EndpointSlice %s: %w", old.Name, err)
		}
	}
	return nil
}

// staysBehind reports whether a slice, if it is there, is to have no owner: the object is deleted
// without it. Adopted again it would be deleted too, and pods that stay published nowhere.
func (o *observed) staysBehind(present *discoveryv1.EndpointSlice) bool {
	return o.state.Deletion == rollout.DeleteOrphaning || o.set.DeletionTimestamp != nil && present != nil && ownerless(present)
}

// wantedSlices are those of each node.
func (o *observed) wantedSlices(published []*discoveryv1.EndpointSlice) map[string][]*discoveryv1.EndpointSlice {
	wanted := map[string][]*discoveryv1.EndpointSlice{}
	if o.service == nil {
		return wanted
	}
	p := objects.Publication{Set: o.set, Service: o.service, Templates: o.podSpecs, Published: o.publishedPorts(published)}
	for _, n := range o.state.Nodes {
		goesOut := o.goesOut(&n) && !o.cameBack(&n, published)
		if made := p.EndpointSlices(n.Name, o.nodes[n.Name].pods, goesOut); len(made) > 0 {
			wanted[n.Name] = made
		}
	}
	return wanted
}

// goesOut reports whether a node is under update, or its Deployment is gone and its pods follow. One
// that was left behind is what it was left as: it may be a while until it is adopted.
func (o *observed) goesOut(n *rollout.Node) bool {
	if left := o.nodes[n.Name].left; n.Deployment == nil && left != nil {
		_, marked := v1alpha1.MarkOf(left.Annotations, o.strategy.MarkKey)
		return marked
	}
	return n.Deployment == nil || n.Marked()
}

// cameBack reports whether a pod of a node takes connections, as is published, although its Deployment
// seems to be marked and is in no update: nobody marks one any more that a deletion leaves behind,
// and whoever sees the mark late would be the last to publish.
func (o *observed) cameBack(n *rollout.Node, published []*discoveryv1.EndpointSlice) bool {
	if o.state.Deletion != rollout.DeleteOrphaning || n.Deployment == nil {
		return false
	}
	unfinished := slices.ContainsFunc(o.nodes[n.Name].pods, func(pod *corev1.Pod) bool { return !serves(pod) })
	return !unfinished && slices.ContainsFunc(published, func(slice *discoveryv1.EndpointSlice) bool {
		return o.ofService(slice) && slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool {
			return e.NodeName != nil && *e.NodeName == n.Name && e.Conditions.Terminating != nil && !*e.Conditions.Terminating
		})
	})
}

// publishedPorts are the ports that the Service's slices say of pods, by revision.
func (o *observed) publishedPorts(published []*discoveryv1.EndpointSlice) map[string][]discoveryv1.EndpointPort {
	revisions := map[types.UID]string{}
	for _, n := range o.nodes {
		for _, pod := range n.pods {
			revisions[pod.UID] = pod.Labels[v1alpha1.LabelRevision]
		}
	}
	ports := map[string][]discoveryv1.EndpointPort{}
	for _, slice := range published {
		for _, e := range slice.Endpoints {
			if e.TargetRef == nil || !o.ofService(slice) {
				continue
			}
			if revision, ok := revisions[e.TargetRef.UID]; ok && ports[revision] == nil {
				ports[revision] = slice.Ports
			}
		}
	}
	return ports
}

func (o *observed) ofService(slice *discoveryv1.EndpointSlice) bool {
	return slice.Labels[discoveryv1.LabelServiceName] == o.set.Spec.ServiceName
}

func (r *Reconciler) observePublished(ctx context.Context, o *observed) (err error) {
	o.published, err = r.published(ctx, o, r.client)
	return err
}

func ownerless(slice *discoveryv1.EndpointSlice) bool { return ownerOf(slice) == "" }

// onNodes are slices by node: the one that they are wanted on, else the one that they say.
func onNodes(published []*discoveryv1.EndpointSlice, wanted map[string][]*discoveryv1.EndpointSlice) map[string][]*discoveryv1.EndpointSlice {
	nodes := map[string]string{}
	for node, made := range wanted {
		for _, slice := range made {
			nodes[slice.Name] = node
		}
	}
	out := map[string][]*discoveryv1.EndpointSlice{}
	for _, slice := range published {
		node, found := nodes[slice.Name]
		if !found && len(slice.Endpoints) > 0 && slice.Endpoints[0].NodeName != nil {
			node = *slice.Endpoints[0].NodeName
		}
		out[node] = append(out[node], slice)
	}
	return out
}

func samePublication(a, b *discoveryv1.EndpointSlice) bool {
	return equality.Semantic.DeepEqual(a.Endpoints, b.Endpoints) && equality.Semantic.DeepEqual(a.Ports, b.Ports) &&
		a.Labels[discoveryv1.LabelServiceName] == b.Labels[discoveryv1.LabelServiceName]
}
