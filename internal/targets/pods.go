package targets

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Skip is a pod or node that has no target, and why.
type Skip struct{ Name, Why string }

// Fleet is what the targets of one group are made from.
type Fleet struct {
	// Pods are those that were selected, whatever their phase.
	Pods []*corev1.Pod
	// Nodes are known by name: those of the pods, or those that were selected.
	Nodes map[string]*corev1.Node
	// Out has the nodes that are to be taken out though they serve, and why.
	Out map[string]string
	// Deleted is since when pods are known to be deleted, by their UID and our own clock.
	Deleted map[types.UID]time.Time
}

// PodWants are the wants that pods give rise to: one a pod, by its own address or
// by its node. Pods that have no address yet give none.
func (m Mode) PodWants(f Fleet) (wants []Want, skipped []Skip) {
	for _, pod := range f.Pods {
		id, why := m.idOf(pod, f.Nodes)
		if id == "" {
			if why != "" {
				skipped = append(skipped, Skip{pod.Namespace + "/" + pod.Name, why})
			}
			continue
		}
		wants = append(wants, m.want(id, pod, f))
	}
	return wants, skipped
}

func (m Mode) want(id string, pod *corev1.Pod, f Fleet) Want {
	w := Want{Registration: m.registration(id), Owner: pod.Namespace + "/" + pod.Name}
	ends, ending := Ending(pod)
	reason, nodeOut := f.Out[pod.Spec.NodeName]
	switch {
	case ending:
		w.Why, w.Seen, w.Ending = "pod "+w.Owner+" "+ends, true, !m.Hook || !willRunHook(pod)
		w.HookUntil = m.hookUntil(pod, f.Deleted[pod.UID])
	case nodeOut:
		w.Why, w.Seen = reason, true
	default:
		w.Why, w.In = "pod "+w.Owner+" is to serve", true
	}
	return w
}

func (m Mode) registration(id string) Registration {
	r := Registration{Target: Target{ID: id, Port: m.Port}}
	if m.Type == IP {
		r.Zone = m.Zone
	}
	return r
}

// idOf is the target's ID, or why there is none; neither while the pod has none yet.
func (m Mode) idOf(pod *corev1.Pod, nodes map[string]*corev1.Node) (id, why string) {
	if m.Type == IP {
		return Address(pod, m.IPv6)
	}
	node := nodes[pod.Spec.NodeName]
	switch {
	case pod.Spec.NodeName == "":
		return "", ""
	case node == nil:
		return "", "its node " + pod.Spec.NodeName + " is not known"
	}
	id, why = InstanceID(node)
	if why != "" {
		why = "its node has no instance: " + why
	}
	return id, why
}

// NodeWants are the wants of nodes that are selected themselves.
func (m Mode) NodeWants(f Fleet) (wants []Want, skipped []Skip) {
	names := make([]string, 0, len(f.Nodes))
	for name := range f.Nodes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		id, why := InstanceID(f.Nodes[name])
		if id == "" {
			skipped = append(skipped, Skip{name, why})
			continue
		}
		w := Want{Registration: m.registration(id), Owner: name, In: true, Why: "node " + name + " is selected"}
		if reason, out := f.Out[name]; out {
			w.In, w.Seen, w.Why = false, true, reason
		}
		wants = append(wants, w)
	}
	return wants, skipped
}

// InstanceID is the instance that a node is, from the last segment of its
// providerID (aws:///ZONE/i-...), or why it is none.
func InstanceID(node *corev1.Node) (id, why string) {
	provider := node.Spec.ProviderID
	last := provider[strings.LastIndex(provider, "/")+1:]
	switch {
	case provider == "":
		return "", "it has no providerID yet"
	case strings.HasPrefix(provider, "eks-hybrid:"):
		return "", "it is a hybrid node, which is outside the cloud: use a group of type ip"
	case strings.HasPrefix(last, "fargate-"):
		return "", "it is a Fargate node, which is no instance: use a group of type ip"
	case !strings.HasPrefix(provider, "aws://") || !strings.HasPrefix(last, "i-") || !(Target{ID: last, Port: 1}).recordable():
		return "", "its providerID " + provider + " names no instance"
	}
	return last, ""
}

// Address is the pod's address of a family in its canonical form, or why it has
// none; neither while it has no address at all.
func Address(pod *corev1.Pod, ipv6 bool) (address, why string) {
	ips := pod.Status.PodIPs
	if len(ips) == 0 && pod.Status.PodIP != "" {
		ips = []corev1.PodIP{{IP: pod.Status.PodIP}}
	}
	for _, ip := range ips {
		if a, err := netip.ParseAddr(ip.IP); err == nil && a.Unmap().Is6() == ipv6 {
			return a.Unmap().String(), ""
		}
	}
	switch {
	case len(ips) == 0:
		return "", ""
	case ipv6:
		return "", "it has no IPv6 address, and the group holds no other"
	}
	return "", "it has no IPv4 address, and the group holds no other"
}

// byKubelet and byCollector are reasons of the condition DisruptionTarget with which
// no preStop hook need run any more; the deletion by others, announced, runs it.
const (
	byKubelet   = corev1.PodReasonTerminationByKubelet
	byCollector = "DeletionByPodGC"
)

// endings are the reasons with which a pod's end is announced before its deletion
// (https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions).
var endings = []string{"EvictionByEvictionAPI", corev1.PodReasonPreemptionByScheduler, "DeletionByTaintManager", byKubelet, byCollector}

// Ending reports whether what the pod serves ends whatever we do, and how that is seen.
func Ending(pod *corev1.Pod) (how string, ending bool) {
	switch {
	case pod.Status.Phase == corev1.PodFailed:
		return "has failed", true
	case pod.Status.Phase == corev1.PodSucceeded:
		return "has ended", true
	case pod.DeletionTimestamp != nil:
		return "is being deleted", true
	}
	if reason := announced(pod); reason != "" {
		return "is about to be deleted (" + reason + ")", true
	}
	return "", false
}

// announced is the reason with which the pod's end is announced, or nothing.
func announced(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && slices.Contains(endings, c.Reason) {
			return c.Reason
		}
	}
	return ""
}

// willRunHook reports whether a preStop hook of the pod is still to begin, so that the
// pod serves for as long as that waits.
func willRunHook(pod *corev1.Pod) bool {
	reason := announced(pod)
	return !hasEnded(pod) && pod.DeletionTimestamp == nil && reason != "" && reason != byKubelet && reason != byCollector
}

// hookUntil is until when the drain hook can hold a pod that ends: the kubelet
// waits for a preStop hook until the deletion's grace period is over, and this one
// ends sooner. It runs none in a pod that has failed or ended. The deletion's own time is by
// another clock (docs/adr/0017).
func (m Mode) hookUntil(pod *corev1.Pod, deleted time.Time) time.Time {
	if !m.Hook || hasEnded(pod) || pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return time.Time{}
	}
	return deleted.Add(time.Duration(*pod.DeletionGracePeriodSeconds)*time.Second - m.HookLeaves)
}

// hasEnded reports whether no container of the pod runs any more.
func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// mayServe reports whether a pod may serve at a target with its ID. One of type ip is reached at the port that
// its containers have for what the attachment names. An instance listens for a pod with a network of its
// own at its hostPorts only, or at the nodePort of a Service.
func (a *attachment) mayServe(g *group, t Target, pod *corev1.Pod) bool {
	switch {
	case a.Object.Spec.Service != nil:
		return true
	case g.Type == IP:
		mode, err := a.mode(pod, g.Group)
		return err != nil || mode.Port == t.Port
	case pod.Spec.HostNetwork:
		return true
	}
	return slices.ContainsFunc(declaredPorts(pod.Spec), func(p corev1.ContainerPort) bool {
		return p.HostPort == t.Port || g.Balancer == Classic && g.forwardsTo(p.HostPort)
	})
}

// podsAt are pods by the IDs of the targets that they have in a group.
func (p *pass) podsAt(g *group, pods []*corev1.Pod) map[string][]*corev1.Pod {
	at := map[string][]*corev1.Pod{}
	for _, pod := range pods {
		id, _ := Mode{Type: g.Type, IPv6: g.IPv6}.idOf(pod, p.nodes)
		at[id] = append(at[id], pod)
	}
	return at
}

// anyAt reports whether any of some pods, by their IDs, may serve at a target.
func (a *attachment) anyAt(g *group, target Target, at map[string][]*corev1.Pod) bool {
	return slices.ContainsFunc(at[target.ID], func(pod *corev1.Pod) bool { return a.mayServe(g, target, pod) })
}

func endsNow(pod *corev1.Pod) bool {
	_, ends := Ending(pod)
	return ends
}

// hasDrainHook reports whether a container of the pod asks the node's health checker before it
// stops, so that the pod serves until its target is out.
func hasDrainHook(spec corev1.PodSpec) bool {
	return slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool {
		return c.Lifecycle != nil && c.Lifecycle.PreStop != nil && c.Lifecycle.PreStop.HTTPGet != nil &&
			c.Lifecycle.PreStop.HTTPGet.Path == v1alpha1.DrainPath
	})
}

// told reports whether it stands on the pod that it may get traffic as a target.
func told(pod *corev1.Pod) bool {
	return pod.Annotations[v1alpha1.AnnotationTargets] == v1alpha1.TargetsIn
}

// mode is how a pod is reached: as it says itself, whatever the present template does. Pods of
// the host network declare no port, so that of these the template on record counts, which
// anybody may write who may write in the namespace.
func (a *attachment) mode(pod *corev1.Pod, g Group) (Mode, error) {
	template := pod.Spec
	if recorded := a.Templates[pod.Labels[v1alpha1.LabelRevision]]; recorded.HostNetwork && pod.Spec.HostNetwork {
		template = recorded
	}
	mode, err := ModeOf(template, g, a.Object.Spec.Port, a.Service)
	mode.Zone = a.Object.Spec.AvailabilityZone
	mode.Hook = hasDrainHook(pod.Spec)
	if a.Set != nil && a.Set.Spec.DrainHook != nil {
		mode.HookLeaves = a.Set.Spec.DrainHook.StopTime()
	}
	return mode, err
}
