package conversion

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// FromDaemonSet makes an IngressDaemonSet that runs what a DaemonSet runs, on the same nodes.
func FromDaemonSet(ds *appsv1.DaemonSet) Converted {
	c := begin("daemonset", ds.ObjectMeta, ds.Spec.Template, ds.Spec.Selector)
	c.Set.Spec.MinReadySeconds = ds.Spec.MinReadySeconds
	c.historyLimit(ds.Spec.RevisionHistoryLimit)
	c.strategyOfDaemonSet(ds.Spec.UpdateStrategy)
	if s := ds.Status; s.UpdatedNumberScheduled < s.DesiredNumberScheduled {
		c.note("spec.template", "the DaemonSet is in the middle of a rollout: %d of %d nodes have this template", s.UpdatedNumberScheduled, s.DesiredNumberScheduled)
	}
	if len(hostPorts(&ds.Spec.Template.Spec)) > 0 {
		c.note("spec.template", "these pods and those of the DaemonSet want the same ports of a node: as long as both are there, choose by spec.nodeSelector the nodes that have moved, and keep the DaemonSet off them")
	}
	return c.converted()
}

// strategyOfDaemonSet takes as many nodes out at a time as pods were replaced at a time.
func (c *converter) strategyOfDaemonSet(s appsv1.DaemonSetUpdateStrategy) {
	const field = "spec.updateStrategy.rollingUpdate"
	rolling := s.RollingUpdate
	if rolling == nil {
		rolling = &appsv1.RollingUpdateDaemonSet{}
	}
	nodes := one()
	switch unavailable, surge := rolling.MaxUnavailable, rolling.MaxSurge; {
	case !none(unavailable):
		nodes = *unavailable
		c.note(field+".maxUnavailableNodes", "was maxUnavailable: as many nodes at a time, each taken out of the load balancer before its pods are touched, and put back when they serve")
	case !none(surge):
		nodes = *surge
		c.note(field+".maxUnavailableNodes", "was maxSurge, which starts a new pod beside the old one: here a node is taken out of the load balancer first, and its pods are replaced then")
	default:
		c.note(field+".maxUnavailableNodes", "new: one node at a time is taken out of the load balancer before its pods are touched, and put back when they serve")
	}
	c.detach(nodes)
	if s.Type == appsv1.OnDeleteDaemonSetStrategyType {
		all := intstr.FromString("100%")
		c.Set.Spec.UpdateStrategy.RollingUpdate.Partition = &all
		c.note(field+".partition", "was type OnDelete, which is refused: a pod that is deleted is made again from the old template. 100%% holds all nodes back; lower it step by step, or remove it for rollouts that go by themselves")
	}
}
