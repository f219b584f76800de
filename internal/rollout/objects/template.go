package objects

import (
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Template is the user's pod template with the labels of spec.selector and the
// drain hook. It is what a revision is the hash of.
func Template(set *v1alpha1.IngressDaemonSet) corev1.PodTemplateSpec {
	t := *set.Spec.Template.DeepCopy()
	t.Labels = merge(t.Labels, set.Spec.SelectorLabels())
	if set.Spec.DrainHook != nil && len(set.Spec.HealthCheckNodePorts) > 0 {
		addDrainHook(&t, set.Spec.HealthCheckNodePorts[0])
	}
	return t
}

// addDrainHook has each container that takes part in serving ask the health checker
// before it stops. The cluster autoscaler is to evict such pods, and not to count
// them as reasons to keep a node.
func addDrainHook(t *corev1.PodTemplateSpec, port int32) {
	for i := range t.Spec.Containers {
		c := &t.Spec.Containers[i]
		if c.Lifecycle == nil {
			c.Lifecycle = &corev1.Lifecycle{}
		}
		if c.Lifecycle.PreStop == nil {
			c.Lifecycle.PreStop = drainHook(intstr.FromInt32(port))
		}
	}
	t.Annotations = merge(t.Annotations, map[string]string{v1alpha1.AnnotationDaemonPod: "true"})
}

// removeDrainHook takes off what addDrainHook added, whatever the port was then. It
// adds the annotation and leaves no container without a hook: a template that is
// otherwise is the user's own.
func removeDrainHook(t *corev1.PodTemplateSpec) {
	added := t.Annotations[v1alpha1.AnnotationDaemonPod] == "true" && !slices.ContainsFunc(t.Spec.Containers, func(c corev1.Container) bool {
		return c.Lifecycle == nil || c.Lifecycle.PreStop == nil
	})
	if !added || !slices.ContainsFunc(t.Spec.Containers, func(c corev1.Container) bool { return generated(c.Lifecycle.PreStop) }) {
		return
	}
	for i := range t.Spec.Containers {
		c := &t.Spec.Containers[i]
		if generated(c.Lifecycle.PreStop) {
			c.Lifecycle.PreStop = nil
		}
		if *c.Lifecycle == (corev1.Lifecycle{}) {
			c.Lifecycle = nil
		}
	}
	delete(t.Annotations, v1alpha1.AnnotationDaemonPod)
}

// drainHook asks the health checker on a port of the node. The kubelet asks, which shares
// the network of the node with it; and of pods of that network it knows no address.
func drainHook(port intstr.IntOrString) *corev1.LifecycleHandler {
	return &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: v1alpha1.DrainPath, Port: port, Host: "127.0.0.1"}}
}

// generated reports whether a hook is as drainHook makes it, for any port. Releases before
// named no host for pods of the host network.
func generated(hook *corev1.LifecycleHandler) bool {
	if hook.HTTPGet == nil {
		return false
	}
	made := drainHook(hook.HTTPGet.Port)
	if hook.HTTPGet.Host == "" {
		made.HTTPGet.Host = ""
	}
	return equality.Semantic.DeepEqual(hook, made)
}

// podTemplate is the template for one node: the user's, placed on the node,
// with the tolerations of daemon pods and without ports that pods of the host
// network could not share.
func podTemplate(set *v1alpha1.IngressDaemonSet, node string, p Pods) corev1.PodTemplateSpec {
	t := *p.Template.DeepCopy()
	t.Labels = merge(t.Labels, OwnLabels(set, node), map[string]string{v1alpha1.LabelRevision: p.Revision})
	t.Annotations = merge(t.Annotations, map[string]string{v1alpha1.AnnotationNode: node})
	t.Spec.Tolerations = daemonTolerations(&t.Spec)
	if set.Spec.Placement() == v1alpha1.PlaceByScheduler {
		t.Spec.Affinity = pinned(t.Spec.Affinity, node)
		return t
	}
	t.Spec.NodeName = node
	if t.Spec.HostNetwork {
		withdrawPorts(&t.Spec)
	}
	return t
}

// daemonTolerations are the template's and those that the DaemonSet controller
// gives to its pods, so that a pod stays where its node is in trouble, however long.
func daemonTolerations(spec *corev1.PodSpec) []corev1.Toleration {
	out := slices.Clone(spec.Tolerations)
	add := func(key string, effect corev1.TaintEffect) {
		t := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
		out = slices.DeleteFunc(out, func(o corev1.Toleration) bool { return o.TolerationSeconds != nil && o.MatchToleration(&t) })
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	add(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)
	add(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)
	add(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)
	if spec.HostNetwork {
		add(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)
	}
	return out
}

// pinned requires the node in every term of the affinity, as terms are
// alternatives.
func pinned(affinity *corev1.Affinity, node string) *corev1.Affinity {
	here := corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}
	out := affinity.DeepCopy()
	if out == nil {
		out = &corev1.Affinity{}
	}
	if out.NodeAffinity == nil {
		out.NodeAffinity = &corev1.NodeAffinity{}
	}
	required := out.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil || len(required.NodeSelectorTerms) == 0 {
		required = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
		out.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = required
	}
	for i := range required.NodeSelectorTerms {
		t := &required.NodeSelectorTerms[i]
		t.MatchFields = append(t.MatchFields, here)
	}
	return out
}

// withdrawPorts removes the declared ports of a host-network pod, because a
// kubelet rejects a second pod that declares them, terminating pods included;
// names in probes and lifecycle handlers are resolved to numbers first.
func withdrawPorts(spec *corev1.PodSpec) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			c := &containers[i]
			for _, port := range namedPorts(c) {
				if n, ok := portNumber(c.Ports, port.StrVal); ok && port.Type == intstr.String {
					*port = intstr.FromInt32(n)
				}
			}
			c.Ports = nil
		}
	}
}

// namedPorts are the places of a container where a port may stand by name.
func namedPorts(c *corev1.Container) []*intstr.IntOrString {
	var out []*intstr.IntOrString
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if probe != nil && probe.HTTPGet != nil {
			out = append(out, &probe.HTTPGet.Port)
		}
		if probe != nil && probe.TCPSocket != nil {
			out = append(out, &probe.TCPSocket.Port)
		}
	}
	if c.Lifecycle == nil {
		return out
	}
	for _, handler := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
		if handler != nil && handler.HTTPGet != nil {
			out = append(out, &handler.HTTPGet.Port)
		}
		if handler != nil && handler.TCPSocket != nil {
			out = append(out, &handler.TCPSocket.Port)
		}
	}
	return out
}

func portNumber(ports []corev1.ContainerPort, name string) (int32, bool) {
	for _, p := range ports {
		if p.Name == name {
			return p.ContainerPort, true
		}
	}
	return 0, false
}
