package controller

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// observeRivals finds health-check ports that an older IngressDaemonSet answers
// on, on a node of both. Two answers on one port would take turns. It warns of ports
// that the pods of both take there.
func (r *Reconciler) observeRivals(ctx context.Context, o *observed) error {
	o.taken = map[int32]bool{}
	list := &v1alpha1.IngressDaemonSetList{}
	if err := r.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing IngressDaemonSets: %w", err)
	}
	for i := range list.Items {
		rival := &list.Items[i]
		if !older(rival, o.set) {
			continue
		}
		if !meets(rival, o.set) {
			continue
		}
		node := o.shared(objects.NodeSetOf(rival), nil)
		if node == "" {
			continue
		}
		for _, port := range o.set.Spec.HealthCheckNodePorts {
			if slices.Contains(rival.Spec.HealthCheckNodePorts, port) {
				o.taken[port] = true
				o.fault(v1alpha1.ReasonPortConflict, fmt.Sprintf("IngressDaemonSet %s/%s answers health checks on port %d already, on node %s: choose another port",
					rival.Namespace, rival.Name, port, node))
			}
		}
		for _, port := range objects.SharedHostPorts(o.set, rival) {
			o.state.Warnings = append(o.state.Warnings, rollout.Fault{Reason: v1alpha1.ReasonHostPortShared, Message: fmt.Sprintf(
				"the pods of IngressDaemonSet %s/%s take %s port %d of node %s too: both get its connections, or one of them none; choose another port, or other nodes",
				rival.Namespace, rival.Name, port.Protocol, port.Port, node)})
		}
	}
	return nil
}

// meets reports whether the two want the same port wherever they share a node.
func meets(a, b *v1alpha1.IngressDaemonSet) bool {
	return slices.ContainsFunc(a.Spec.HealthCheckNodePorts, func(p int32) bool { return slices.Contains(b.Spec.HealthCheckNodePorts, p) }) ||
		len(objects.SharedHostPorts(a, b)) > 0
}

// older reports whether a came first, by time of creation, then by namespace and name.
func older(a, b *v1alpha1.IngressDaemonSet) bool {
	return a.UID != b.UID && cmp.Or(
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name),
	) < 0
}

// shared is the first node that the IngressDaemonSet wants, and others want too or are on; empty
// where there is none.
func (o *observed) shared(others objects.NodeSet, on map[string]bool) string {
	for _, name := range slices.Sorted(maps.Keys(o.nodes)) {
		node := o.nodes[name].node
		if node == nil {
			continue
		}
		mine, _ := o.reader.Nodes.Wants(node, true)
		theirs, _ := others.Wants(node, true)
		if mine && (theirs || on[name]) {
			return name
		}
	}
	return ""
}

func (r *Reconciler) observeCheckers(ctx context.Context, o *observed) error {
	if err := r.catchUp(ctx, o, &appsv1.DaemonSet{}); err != nil {
		return err
	}
	list := &appsv1.DaemonSetList{}
	if err := r.client.List(ctx, list, o.byName()...); err != nil {
		return fmt.Errorf("listing DaemonSets: %w", err)
	}
	o.checkers = map[int32]*appsv1.DaemonSet{}
	seen := map[string]bool{}
	for i := range list.Items {
		ds := latest(r.mutations, &list.Items[i])
		seen[ds.Name] = true
		port, err := strconv.ParseInt(ds.Labels[v1alpha1.LabelHealthCheckPort], 10, 32)
		switch {
		case err != nil:
		case controlledBy(ds, o.set.UID):
			o.checkers[int32(port)] = ds
		case leftBehind(ds, o.set):
			o.checkers[int32(port)] = ds
			o.orphans = append(o.orphans, ds)
		}
	}
	for _, ds := range unseen(r.mutations, o.set.UID, func(ds *appsv1.DaemonSet) bool { return seen[ds.Name] }) {
		port, _ := strconv.ParseInt(ds.Labels[v1alpha1.LabelHealthCheckPort], 10, 32)
		o.checkers[int32(port)] = ds
	}
	if err := r.observeSeats(ctx, o); err != nil {
		return err
	}
	o.boundRetiring()
	if err := r.observeOwnership(ctx, o); err != nil {
		return err
	}
	if err := r.observeRetired(ctx, o); err != nil {
		return err
	}
	for port := range o.checkers {
		o.state.Checkers = append(o.state.Checkers, rollout.Checker{Port: port, Wanted: !o.retiring(port), Exists: true, Taken: o.taken[port]})
	}
	for _, port := range o.set.Spec.HealthCheckNodePorts {
		if o.checkers[port] == nil {
			o.state.Checkers = append(o.state.Checkers, rollout.Checker{Port: port, Wanted: true, Taken: o.taken[port]})
		}
	}
	slices.SortFunc(o.state.Checkers, func(a, b rollout.Checker) int { return int(a.Port - b.Port) })
	return nil
}

// mostDeserted is how many ports that were removed from the spec, and behind which no pod may
// be, are looked after at a time.
const mostDeserted = 16

// boundRetiring leaves the youngest of these alone where there are more: anybody who may make
// DaemonSets may name as many ports as there are.
func (o *observed) boundRetiring() {
	deserted := slices.DeleteFunc(slices.Collect(maps.Keys(o.checkers)), func(port int32) bool { return !o.retiring(port) || o.seated[port] })
	slices.SortFunc(deserted, func(a, b int32) int {
		return cmp.Or(o.checkers[a].CreationTimestamp.Compare(o.checkers[b].CreationTimestamp.Time), cmp.Compare(a, b))
	})
	for i, port := range deserted {
		if i >= mostDeserted {
			delete(o.checkers, port)
		}
	}
}

// observeRetired finds health-check ports on which another IngressDaemonSet still
// answers, on a node of both, although they are not in its spec any more.
func (r *Reconciler) observeRetired(ctx context.Context, o *observed) error {
	for _, port := range o.set.Spec.HealthCheckNodePorts {
		if o.checkers[port] != nil {
			continue
		}
		list, ofPort := &appsv1.DaemonSetList{}, client.MatchingLabels{v1alpha1.LabelHealthCheckPort: objects.PortLabel(port)}
		if err := r.client.List(ctx, list, ofPort, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("listing the health checkers of port %d: %w", port, err)
		}
		pods := &seats{where: []client.ListOption{ofPort}}
		for i := range list.Items {
			ds := &list.Items[i]
			owner := metav1.GetControllerOfNoCopy(ds)
			if owner == nil {
				continue
			}
			// Where the port is taken anyway, a cache that is behind does no harm.
			on, err := r.seatsOf(ctx, pods, ds, !o.taken[port])
			if err != nil {
				return err
			}
			if len(on) == 0 {
				continue
			}
			rival := &v1alpha1.IngressDaemonSet{}
			err = r.client.Get(ctx, types.NamespacedName{Namespace: ds.Namespace, Name: owner.Name}, rival)
			if apierrors.IsNotFound(err) || err == nil && (!controlledBy(ds, rival.UID) || slices.Contains(rival.Spec.HealthCheckNodePorts, port)) {
				continue
			}
			if err != nil {
				return fmt.Errorf("reading whose health checkers answer on port %d: %w", port, err)
			}
			// Its spec may want other nodes by now.
			if node := o.shared(objects.NodesOf(ds), on); node != "" {
				o.taken[port] = true
				o.fault(v1alpha1.ReasonPortConflict, fmt.Sprintf("IngressDaemonSet %s/%s still answers on port %d, on node %s: it was removed there, and is free when nobody asks it any more, or when it is released",
					rival.Namespace, rival.Name, port, node))
				// No event of this IngressDaemonSet tells when it is free.
				o.lookAt = o.state.Now.Add(askAgain)
			}
		}
	}
	return nil
}

// releasedPorts are the ports that somebody wants closed whoever asks them.
func releasedPorts(set *v1alpha1.IngressDaemonSet) map[int32]bool {
	out := map[int32]bool{}
	for _, port := range v1alpha1.ReleasedPorts(set.Annotations) {
		out[port] = true
	}
	return out
}

// endReleases forgets the releases of ports that are in the spec again: removed once more, they would
// close while load balancers ask them. What else was decided goes by the object as it is then.
func (r *Reconciler) endReleases(ctx context.Context, o *observed) error {
	released := v1alpha1.ReleasedPorts(o.set.Annotations)
	left := slices.DeleteFunc(slices.Clone(released), func(port int32) bool { return slices.Contains(o.set.Spec.HealthCheckNodePorts, port) })
	if len(left) == len(released) || o.set.DeletionTimestamp != nil {
		return nil
	}
	changed := o.set.DeepCopy()
	v1alpha1.SetReleasedPorts(changed, left)
	patch := client.MergeFromWithOptions(o.set, client.MergeFromWithOptimisticLock{})
	err := r.client.Patch(ctx, changed, patch, client.FieldOwner(objects.FieldManager))
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("forgetting the release of a port that is wanted again: %w", err)
	}
	r.mutations.remember(changed)
	o.set = changed
	return nil
}

// observeOwnership finds what health checkers need and is not there, and what
// somebody else has in its place: that is never written to.
func (r *Reconciler) observeOwnership(ctx context.Context, o *observed) error {
	if o.set.DeletionTimestamp != nil || len(o.set.Spec.HealthCheckNodePorts) == 0 {
		return nil
	}
	access := []client.Object{objects.CheckerRoleBinding(o.set)}
	if account := objects.CheckerServiceAccount(o.set); account != nil {
		access = append(access, account)
	}
	foreign := false
	for _, obj := range access {
		there, theirs, err := r.owned(ctx, o, obj)
		switch {
		case err != nil:
			return err
		case theirs:
			foreign = true
		case !there:
			o.missing = append(o.missing, obj)
		}
	}
	for _, port := range o.set.Spec.HealthCheckNodePorts {
		if o.checkers[port] != nil {
			continue
		}
		_, theirs, err := r.owned(ctx, o, objects.Checker(o.set, port, r.image))
		if err != nil {
			return err
		}
		o.taken[port] = o.taken[port] || theirs || foreign
	}
	return nil
}

// owned reports whether an object of the name is there, and whether it is somebody
// else's. The cache holds our own only, so others are looked for past it.
func (r *Reconciler) owned(ctx context.Context, o *observed, want client.Object) (there, theirs bool, err error) {
	kind, key := want.GetObjectKind().GroupVersionKind().Kind, client.ObjectKeyFromObject(want)
	have := want.DeepCopyObject().(client.Object)
	err = r.client.Get(ctx, key, have)
	if apierrors.IsNotFound(err) {
		err = r.live.Get(ctx, key, have)
	}
	switch {
	case apierrors.IsNotFound(err):
		return false, false, nil
	case err != nil:
		return false, false, fmt.Errorf("reading %s %s: %w", kind, key.Name, err)
	case controlledBy(have, o.set.UID), leftBehind(have, o.set) && grantsTheSame(have, want):
		return true, false, nil
	}
	o.fault(v1alpha1.ReasonForeignObject, fmt.Sprintf("%s %s belongs to somebody else: rename or delete it", kind, key.Name))
	o.lookAt = o.state.Now.Add(askAgain)
	return true, true, nil
}

// leftBehind reports whether an object is one of an IngressDaemonSet of the same name that was
// deleted without it.
func leftBehind(obj client.Object, set *v1alpha1.IngressDaemonSet) bool {
	return set.DeletionTimestamp == nil && metav1.GetControllerOfNoCopy(obj) == nil &&
		obj.GetLabels()[v1alpha1.LabelName] == v1alpha1.LabelValue(set.Name)
}

// grantsTheSame reports whether health checkers may do no more and no less by what is there.
// The controller may not write to it: it goes on to serve as it is, without an owner.
func grantsTheSame(have, want client.Object) bool {
	a, ok := have.(*rbacv1.RoleBinding)
	if !ok {
		_, account := have.(*corev1.ServiceAccount)
		return account
	}
	b := want.(*rbacv1.RoleBinding)
	return a.RoleRef == b.RoleRef && slices.Equal(a.Subjects, b.Subjects)
}

// compareCheckers finds health checkers that are to be replaced.
func (r *Reconciler) compareCheckers(o *observed) {
	for i := range o.state.Checkers {
		if c := &o.state.Checkers[i]; c.Exists {
			have := o.checkers[c.Port].Spec.Template.Labels
			c.Outdated = objects.CheckerRevision(have) != r.wantedRevision(o, c.Port)
		}
	}
}

// wantedRevision is that of the health checker that is wanted for a port. It is made once
// for each spec, unless nodes leave or it depends on the one that is there.
func (r *Reconciler) wantedRevision(o *observed, port int32) string {
	of := func() string { return objects.CheckerRevision(r.checker(o, port).Spec.Template.Labels) }
	if o.nodesLeave() || o.retiring(port) {
		return of()
	}
	wanted := o.session.readings.wantedCheckers
	if wanted[port] == "" {
		wanted[port] = of()
	}
	return wanted[port]
}

// checker is the DaemonSet that is wanted for a port. Nodes that a change of the spec
// took out of the set leave one after the other, and keep their health checkers until
// then: the DaemonSet controller would take them all away at once. Those of a port that was
// removed stay where they are: nobody was asked whether it may be taken on other nodes.
func (r *Reconciler) checker(o *observed, port int32) *appsv1.DaemonSet {
	ds, present := objects.Checker(o.set, port, r.image), o.checkers[port]
	switch {
	case present == nil:
	case o.retiring(port):
		objects.OnlyWhere(ds, present)
	case o.nodesLeave():
		objects.AlsoWhere(ds, present)
	}
	return ds
}

// nodesLeave reports whether a node that is there is to lose its pods.
func (o *observed) nodesLeave() bool {
	return slices.ContainsFunc(o.state.Nodes, func(n rollout.Node) bool { return !n.Wanted && n.Exists && n.Deployment != nil })
}

// grant makes what the health checkers need beside their DaemonSets, and adopts
// DaemonSets that were left behind: their pods stay until it is time to replace them. By an
// old look at an IngressDaemonSet that is being deleted without them, they would be deleted
// with it.
func (r *Reconciler) grant(ctx context.Context, o *observed) error {
	if len(o.missing)+len(o.orphans) == 0 {
		return nil
	}
	if err := r.setAsSeen(ctx, o); err != nil {
		return err
	}
	for _, obj := range o.missing {
		if err := r.client.Create(ctx, obj, client.FieldOwner(objects.FieldManager)); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("creating %s %s: %w", obj.GetObjectKind().GroupVersionKind().Kind, obj.GetName(), err)
		}
	}
	for _, ds := range o.orphans {
		adopted := ds.DeepCopy()
		adopted.OwnerReferences = append(adopted.OwnerReferences, *metav1.NewControllerRef(o.set, v1alpha1.Kind))
		patch := client.MergeFromWithOptions(ds, client.MergeFromWithOptimisticLock{})
		if err := r.client.Patch(ctx, adopted, patch, client.FieldOwner(objects.FieldManager)); err != nil {
			return fmt.Errorf("adopting DaemonSet %s: %w", ds.Name, err)
		}
		r.mutations.remember(adopted)
	}
	return nil
}

// applyChecker writes a health checker's DaemonSet if its spec is still the one that was
// observed: a controller that was frozen since would bring back an older one.
func (r *Reconciler) applyChecker(ctx context.Context, o *observed, port int32) error {
	wanted, live := r.checker(o, port), o.checkers[port]
	if live == nil {
		wanted.ResourceVersion = versionOfNone
		if err := r.write(ctx, wanted); err != nil {
			return err
		}
		r.mutations.remember(wanted)
		return nil
	}
	return r.whileSame(ctx, live, appsv1.SchemeGroupVersion.WithKind("DaemonSet"), live.ResourceVersion, unchanged, func(version string) error {
		ds := wanted.DeepCopy()
		ds.UID, ds.ResourceVersion = live.UID, version
		err := r.write(ctx, ds, client.ForceOwnership)
		if err == nil {
			r.mutations.remember(ds)
		}
		return err
	})
}
