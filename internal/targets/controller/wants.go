package controller

import (
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	corev1 "k8s.io/api/core/v1"
)

// want is what a pod or a node wants of a group.
type want struct {
	targets.Want
	node string
	// ready is whether the pod is, so that its target can be expected to get healthy.
	ready bool
	// pod is nil for a node.
	pod *corev1.Pod
}

// wants are those of a TargetGroupAttachment of a group.
func (c *claim) wants(g targets.Group, out map[string]string, nodes map[string]*corev1.Node) ([]want, error) {
	switch {
	case c.nodes != nil:
		return c.nodeWants(g, out)
	case c.object.Spec.IngressDaemonSet != nil && c.set == nil:
		// Its pods are gone as well, or will be.
		return nil, nil
	case c.set != nil:
		mode, err := c.mode(c.set.Spec.Template.Spec, g)
		if err != nil {
			return nil, err
		}
		return c.podWants(mode, c.pods, out, nodes), nil
	}
	var all []want
	for _, pod := range c.pods {
		mode, err := c.mode(pod.Spec, g)
		if err != nil {
			return nil, err
		}
		all = append(all, c.podWants(mode, []*corev1.Pod{pod}, out, nodes)...)
	}
	return all, nil
}

func (c *claim) mode(pod corev1.PodSpec, g targets.Group) (targets.Mode, error) {
	mode, err := targets.ModeOf(pod, g, c.object.Spec.Port, c.service)
	mode.Zone = c.object.Spec.AvailabilityZone
	if c.set != nil && c.set.Spec.DrainHook != nil {
		mode.Hook, mode.HookLeaves = true, c.set.Spec.DrainHook.StopTime()
	}
	return mode, err
}

func (c *claim) nodeWants(g targets.Group, out map[string]string) ([]want, error) {
	mode := targets.Mode{Type: g.Type, PerNode: true, Port: c.object.Spec.Port.IntVal}
	wants, skipped := mode.NodeWants(targets.Fleet{Nodes: c.nodes, Out: out})
	c.skipped = append(c.skipped, skipped...)
	all := make([]want, len(wants))
	for i, w := range wants {
		all[i] = want{Want: w, node: w.Owner, ready: true}
	}
	return all, nil
}

func (c *claim) podWants(mode targets.Mode, pods []*corev1.Pod, out map[string]string, nodes map[string]*corev1.Node) []want {
	var all []want
	for _, pod := range pods {
		mode.Hook = hasDrainHook(pod.Spec)
		wants, skipped := mode.PodWants(targets.Fleet{Pods: []*corev1.Pod{pod}, Nodes: nodes, Out: out})
		c.skipped = append(c.skipped, skipped...)
		for _, w := range wants {
			all = append(all, want{w, pod.Spec.NodeName, podReady(pod), pod})
		}
	}
	return all
}

// podReady is whether the pod's containers are ready: a readiness gate may wait for
// the very target.
func podReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.ContainersReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
