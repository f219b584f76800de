package conversion

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// FromDeployment makes an IngressDaemonSet that runs what a Deployment runs. Pods are the Deployment's: as
// many as were on one node at most are to run on each.
func FromDeployment(d *appsv1.Deployment, pods []corev1.Pod) Converted {
	c := begin("deployment", d.ObjectMeta, d.Spec.Template, d.Spec.Selector)
	spec := &c.Set.Spec
	spec.MinReadySeconds = d.Spec.MinReadySeconds
	c.historyLimit(d.Spec.RevisionHistoryLimit)
	c.places(d, pods)
	c.strategyOfDeployment(d.Spec.Strategy)
	if deadline := d.Spec.ProgressDeadlineSeconds; deadline != nil && *deadline != 600 {
		spec.ProgressDeadlineSeconds = deadline
		c.note("spec.progressDeadlineSeconds", "was for the whole Deployment, and is for each node")
	}
	if d.Spec.Paused {
		spec.Paused = true
		c.note("spec.paused", "as the Deployment is: no node is updated until it is false. Nodes get their first pods all the same")
	}
	return c.converted()
}

// places tells what becomes of replicas, which are of nodes here.
func (c *converter) places(d *appsv1.Deployment, pods []corev1.Pod) {
	onNode := map[string]int32{}
	most := int32(1)
	for _, pod := range pods {
		if node := pod.Spec.NodeName; node != "" && pod.DeletionTimestamp == nil {
			onNode[node]++
			most = max(most, onNode[node])
		}
	}
	replicas := int32(1)
	if d.Spec.Replicas != nil {
		replicas = *d.Spec.Replicas
	}
	c.Set.Spec.PodsPerNode = &most
	c.note("spec.podsPerNode", "was replicas %d, on %d nodes: here each node that is selected runs as many, and an autoscaler scales the nodes", replicas, len(onNode))
	template := &d.Spec.Template.Spec
	if most > 1 && len(hostPorts(template)) > 0 && !template.HostNetwork {
		c.note("spec.podsPerNode", "is refused beside a hostPort, which belongs to one pod of a node: set it to 1, or set hostNetwork")
	}
	if len(template.NodeSelector) == 0 && (template.Affinity == nil || template.Affinity.NodeAffinity == nil) {
		c.note("spec.template.spec", "no nodeSelector and no node affinity choose the nodes: it would run on all whose taints it tolerates. Set one, or spec.nodeSelector")
	}
}

// strategyOfDeployment takes one node out at a time: what was for pods tells nothing of nodes.
func (c *converter) strategyOfDeployment(s appsv1.DeploymentStrategy) {
	const field = "spec.updateStrategy.rollingUpdate.maxUnavailableNodes"
	was := "new"
	switch rolling := s.RollingUpdate; {
	case s.Type == appsv1.RecreateDeploymentStrategyType:
		was = "was strategy Recreate, which stops all pods first and is refused"
	case rolling != nil && rolling.MaxUnavailable != nil && rolling.MaxSurge != nil:
		was = "was maxUnavailable " + rolling.MaxUnavailable.String() + " and maxSurge " + rolling.MaxSurge.String() + " of the pods"
	}
	c.note(field, "%s: one node at a time is taken out of the load balancer, all its pods are replaced, and it is put back", was)
	c.detach(one())
}
