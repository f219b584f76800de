package controller

import (
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What is kept in memory of the objects that come by the thousand: only what is
// read. Each of these may meet an object that it has stripped before.

// inSpec says that a manager owns fields of the spec.
var inSpec = metav1.NewFieldsV1(`{"f:spec":{}}`)

// transformDeployment keeps of the template only the revision, and of the managed
// fields only those of the spec that would outlive ours.
func transformDeployment(obj any) (any, error) {
	if d, ok := obj.(*appsv1.Deployment); ok {
		d.ManagedFields = those(d.ManagedFields, objects.Outlives)
		for i := range d.ManagedFields {
			d.ManagedFields[i].FieldsV1 = inSpec
		}
		d.Labels = only(d.Labels, v1alpha1.LabelName, v1alpha1.LabelNode)
		d.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{
			Labels: shared(d.Spec.Template.Labels, v1alpha1.LabelRevision),
		}}
		d.Namespace, d.Annotations = interned(d.Namespace), internedKeys(d.Annotations)
		d.Spec.Selector = nil
		d.Status.Conditions = nil
	}
	return obj, nil
}

// unread are the conditions of pods that nobody here decides by. One that says that a pod is not
// scheduled is read all the same, as why it is not ready.
var unread = []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.PodReadyToStartContainers}

func transformPod(obj any) (any, error) {
	if pod, ok := obj.(*corev1.Pod); ok {
		pod.ManagedFields, pod.OwnerReferences, pod.GenerateName = nil, nil, ""
		labels := only
		_, checker := pod.Labels[v1alpha1.LabelHealthCheckPort]
		if checker {
			labels = shared
		}
		pod.Labels = labels(pod.Labels, v1alpha1.LabelName, v1alpha1.LabelNode, v1alpha1.LabelRevision,
			appsv1.DefaultDeploymentUniqueLabelKey, v1alpha1.LabelHealthCheckPort, v1alpha1.LabelHealthCheckerRevision)
		pod.Annotations = shared(pod.Annotations, v1alpha1.AnnotationNode, v1alpha1.AnnotationTargets)
		pod.Namespace = interned(pod.Namespace)
		pod.Spec = corev1.PodSpec{
			NodeName: interned(pod.Spec.NodeName), ReadinessGates: pod.Spec.ReadinessGates,
			HostNetwork: pod.Spec.HostNetwork, Containers: hostPortsOnly(&pod.Spec),
		}
		s := pod.Status
		pod.Status = corev1.PodStatus{Phase: s.Phase, Reason: s.Reason, Message: s.Message, PodIPs: s.PodIPs}
		pod.Status.Conditions = those(s.Conditions, func(c corev1.PodCondition) bool {
			unscheduled := c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse
			return unscheduled || !slices.Contains(unread, c.Type)
		})
		if !objects.PodReady(pod) {
			pod.Status.InitContainerStatuses = objects.OfUnready(s.InitContainerStatuses)
			pod.Status.ContainerStatuses = objects.OfUnready(s.ContainerStatuses)
		}
	}
	return obj, nil
}

// hostPortsOnly are the ports that a pod with a network of its own takes of its node, as if they
// were one container's.
func hostPortsOnly(spec *corev1.PodSpec) []corev1.Container {
	var ports []corev1.ContainerPort
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			ports = append(ports, those(containers[i].Ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 })...)
		}
	}
	if len(ports) == 0 || spec.HostNetwork {
		return nil
	}
	return []corev1.Container{{Ports: ports}}
}

// transformPodOfAnybody also keeps what pods are selected by, where they listen, and how
// they end.
func transformPodOfAnybody(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	labels, spec := pod.Labels, pod.Spec
	if _, err := transformPod(pod); err != nil {
		return nil, err
	}
	pod.Labels, pod.Spec.HostNetwork = labels, spec.HostNetwork
	pod.Spec.TerminationGracePeriodSeconds = spec.TerminationGracePeriodSeconds
	pod.Spec.Containers, pod.Spec.InitContainers = trimmedContainers(spec.Containers), trimmedContainers(spec.InitContainers)
	return pod, nil
}

func trimmedContainers(containers []corev1.Container) []corev1.Container {
	var out []corev1.Container
	for _, c := range containers {
		kept := corev1.Container{Name: c.Name, Ports: c.Ports, RestartPolicy: c.RestartPolicy}
		if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
			kept.Lifecycle = &corev1.Lifecycle{PreStop: c.Lifecycle.PreStop}
		}
		if len(kept.Ports) > 0 || kept.Lifecycle != nil {
			out = append(out, kept)
		}
	}
	return out
}

// transformNode keeps of the status whether the kubelet is ready, where it listens, and where the node is
// reached.
func transformNode(obj any) (any, error) {
	if node, ok := obj.(*corev1.Node); ok {
		node.ManagedFields = nil
		node.Labels, node.Annotations = internedMap(node.Labels), internedKeys(node.Annotations)
		s := node.Status
		node.Status = corev1.NodeStatus{
			Conditions:      those(s.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady }),
			Addresses:       those(s.Addresses, isIP),
			DaemonEndpoints: s.DaemonEndpoints,
		}
		for i := range node.Status.Conditions {
			node.Status.Conditions[i].Message = ""
		}
	}
	return obj, nil
}

// isIP leaves out names. Health checks reach a node at an internal address, clients at an external one, if it has any.
func isIP(a corev1.NodeAddress) bool {
	return a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP
}

// those are copies of what is to be kept, and nothing that would hold on to the others.
func those[T any](all []T, keep func(T) bool) []T {
	var out []T
	for _, one := range all {
		if keep(one) {
			out = append(out, one)
		}
	}
	return slices.Clip(out)
}

// only is a map with no more than these keys.
func only(m map[string]string, keys ...string) map[string]string {
	out := make(map[string]string, len(keys))
	for _, key := range keys {
		if value, ok := m[key]; ok {
			out[key] = interned(value)
		}
	}
	return out
}
