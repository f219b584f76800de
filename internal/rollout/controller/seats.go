package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// seats finds the health checkers of which a pod is on the host network: no other holds ports of
// nodes. A DaemonSet does not tell. It counts pods that an older template made, and who may have
// no pod on the host network may still write a template that says so.
type seats struct {
	// where selects the pods to look at.
	where []client.ListOption
	// cached and live are the nodes of these in the cache and at the API server, nil before a look.
	cached, live map[seat]map[string]bool
}

// seat is what the pods of one DaemonSet of health checkers have in common.
type seat struct {
	set  types.NamespacedName
	port string
}

func seatOf(obj client.Object) seat {
	return seat{setOf(obj), obj.GetLabels()[v1alpha1.LabelHealthCheckPort]}
}

// seatsOf are the nodes on which pods of a DaemonSet may hold ports, with an empty name for pods
// that have none yet. Where it counts pods of which the cache has none, the cache may be behind,
// and the API server is asked if that is wanted.
func (r *Reconciler) seatsOf(ctx context.Context, s *seats, ds *appsv1.DaemonSet, ask bool) (nodes map[string]bool, err error) {
	if s.cached == nil {
		if s.cached, err = hostPods(ctx, r.client, append(s.where, client.UnsafeDisableDeepCopy)...); err != nil {
			return nil, err
		}
	}
	counted := ds.Status.CurrentNumberScheduled+ds.Status.NumberMisscheduled > 0
	if len(s.cached[seatOf(ds)]) > 0 || !counted || !ask {
		return s.cached[seatOf(ds)], nil
	}
	if s.live == nil {
		if s.live, err = hostPods(ctx, r.live, s.where...); err != nil {
			return nil, err
		}
	}
	return s.live[seatOf(ds)], nil
}

// hostPods are the nodes of the pods on the host network.
func hostPods(ctx context.Context, from client.Reader, where ...client.ListOption) (map[seat]map[string]bool, error) {
	pods := &corev1.PodList{}
	if err := from.List(ctx, pods, where...); err != nil {
		return nil, fmt.Errorf("listing pods of health checkers: %w", err)
	}
	out := map[seat]map[string]bool{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !pod.Spec.HostNetwork {
			continue
		}
		if out[seatOf(pod)] == nil {
			out[seatOf(pod)] = map[string]bool{}
		}
		out[seatOf(pod)][pod.Spec.NodeName] = true
	}
	return out, nil
}

// seating is what is remembered of a DaemonSet of health checkers: whether pods of it may have
// held ports of nodes, or else the version of it by which the API server had none.
type seating struct {
	taken bool
	none  string
}

// observeSeats finds the ports behind which a pod may hold ports of nodes, or did before: a
// process may outlive its pod. Those of the spec are among them, whose names admission has seen.
func (r *Reconciler) observeSeats(ctx context.Context, o *observed) error {
	before, now := o.session.seated, map[types.UID]seating{}
	pods := &seats{where: append(o.byName(), client.HasLabels{v1alpha1.LabelHealthCheckPort})}
	o.seated = map[int32]bool{}
	for _, port := range slices.Sorted(maps.Keys(o.checkers)) {
		ds := o.checkers[port]
		s := before[ds.UID]
		s.taken = s.taken || !o.retiring(port)
		if !s.taken {
			nodes, err := r.seatsOf(ctx, pods, ds, s.none != ds.ResourceVersion)
			if err != nil {
				return err
			}
			s = seating{taken: len(nodes) > 0, none: ds.ResourceVersion}
		}
		o.seated[port], now[ds.UID] = s.taken, s
	}
	o.session.seated = now
	return nil
}
