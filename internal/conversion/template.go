package conversion

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// template is the pod template without what only a scheduler reads, since each node gets its pods, and
// without what the API server fills in by itself.
func (c *converter) template(was corev1.PodTemplateSpec) {
	t := &c.Set.Spec.Template
	t.Labels, t.Annotations = was.Labels, map[string]string{}
	for key, value := range was.Annotations {
		if key != "kubectl.kubernetes.io/restartedAt" {
			t.Annotations[key] = value
		}
	}
	if len(t.Annotations) == 0 {
		t.Annotations = nil
	}
	t.Spec = *was.Spec.DeepCopy()
	c.leaveToScheduler(&t.Spec)
	c.sharePorts(&t.Spec)
	for i := range t.Spec.Containers {
		c.container(&t.Spec.Containers[i], fmt.Sprintf("spec.template.spec.containers.%d", i))
	}
	dropDefaults(&t.Spec)
}

// leaveToScheduler takes off what chooses a node among others.
func (c *converter) leaveToScheduler(spec *corev1.PodSpec) {
	var left []string
	leave := func(there bool, what string) {
		if there {
			left = append(left, what)
		}
	}
	leave(spec.NodeName != "", "nodeName")
	leave(len(spec.SchedulingGates) > 0, "schedulingGates")
	leave(len(spec.TopologySpreadConstraints) > 0, "topologySpreadConstraints")
	leave(spec.SchedulerName != "" && spec.SchedulerName != corev1.DefaultSchedulerName, "schedulerName "+spec.SchedulerName)
	spec.NodeName, spec.SchedulingGates, spec.TopologySpreadConstraints, spec.SchedulerName = "", nil, nil, ""
	if a := spec.Affinity; a != nil {
		leave(a.PodAffinity != nil, "podAffinity")
		leave(a.PodAntiAffinity != nil, "podAntiAffinity")
		a.PodAffinity, a.PodAntiAffinity = nil, nil
		if n := a.NodeAffinity; n != nil {
			leave(len(n.PreferredDuringSchedulingIgnoredDuringExecution) > 0, "preferred node affinity")
			if n.PreferredDuringSchedulingIgnoredDuringExecution = nil; n.RequiredDuringSchedulingIgnoredDuringExecution == nil {
				a.NodeAffinity = nil
			}
		}
		if a.NodeAffinity == nil {
			spec.Affinity = nil
		}
	}
	if len(left) > 0 {
		c.note("spec.template.spec", "left out, as every node of the set gets its pods and no scheduler chooses one: %s", strings.Join(left, ", "))
	}
}

// sharePorts says what becomes of the ports that pods take of their node.
func (c *converter) sharePorts(spec *corev1.PodSpec) {
	switch ports := hostPorts(spec); {
	case len(ports) == 0:
	case spec.HostNetwork:
		c.note("spec.template.spec.hostNetwork", "the ports of these pods are not declared to the API server, so that several can share them: Services and NetworkPolicies must name their numbers. More than one pod of a node must listen with SO_REUSEPORT")
	default:
		c.note("spec.template.spec", "a hostPort belongs to one pod of a node at a time: podsPerNode must stay 1, and nodes must be taken out (maxUnavailableNodes)")
	}
}

// container notes what a container needs, or need not do any more, where nodes leave the load balancer.
func (c *converter) container(container *corev1.Container, field string) {
	if container.ReadinessProbe == nil {
		c.note(field, "has no readinessProbe: it counts as ready as soon as it runs, and its node is put back then")
	}
	if container.Lifecycle == nil || container.Lifecycle.PreStop == nil {
		return
	}
	c.delay = max(c.delay, delayOf(container.Lifecycle.PreStop))
	c.note(field+".lifecycle", "kept: in a rollout the node has left the load balancer before this runs; it is of use where somebody else ends the pod, as a drain does. drainHook waits for as long as traffic reaches the node, and needs it to be removed")
}

// sleeps finds for how long a command sleeps.
var sleeps = regexp.MustCompile(`(?:^|[\s;&|/])sleep\s+(\d+)(?:s?(?:$|[\s;&|]))`)

// delayOf is how long, in seconds, a preStop hook does nothing but wait, 0 where it does not. The most is what a
// grace may be.
func delayOf(hook *corev1.LifecycleHandler) int32 {
	seconds := int64(0)
	switch {
	case hook.Sleep != nil:
		seconds = hook.Sleep.Seconds
	case hook.Exec != nil:
		if found := sleeps.FindStringSubmatch(strings.Join(hook.Exec.Command, " ")); found != nil {
			// What does not fit is too long.
			seconds, _ = strconv.ParseInt(found[1], 10, 64)
		}
	}
	return int32(min(max(seconds, 0), longestGrace))
}

// dropDefaults takes off what the API server fills in (k8s.io/kubernetes/pkg/apis/core/v1/defaults.go), so
// that what a user wrote is left.
func dropDefaults(spec *corev1.PodSpec) {
	drop(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	drop(&spec.DNSPolicy, corev1.DNSClusterFirst)
	dropPointer(&spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	dropPointer(&spec.SecurityContext, corev1.PodSecurityContext{})
	spec.DeprecatedServiceAccount = ""
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			dropContainerDefaults(&containers[i], spec.HostNetwork)
		}
	}
	for i := range spec.Volumes {
		dropVolumeDefaults(&spec.Volumes[i].VolumeSource)
	}
}

func dropContainerDefaults(c *corev1.Container, hostNetwork bool) {
	drop(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	drop(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	drop(&c.ImagePullPolicy, pullPolicyOf(c.Image))
	dropPointer(&c.SecurityContext, corev1.SecurityContext{})
	for i := range c.Ports {
		p := &c.Ports[i]
		drop(&p.Protocol, corev1.ProtocolTCP)
		if hostNetwork {
			drop(&p.HostPort, p.ContainerPort)
		}
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil && from.FieldRef != nil {
			drop(&from.FieldRef.APIVersion, "v1")
		}
	}
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if probe == nil {
			continue
		}
		drop(&probe.TimeoutSeconds, 1)
		drop(&probe.PeriodSeconds, 10)
		drop(&probe.SuccessThreshold, 1)
		drop(&probe.FailureThreshold, 3)
		if probe.HTTPGet != nil {
			drop(&probe.HTTPGet.Scheme, corev1.URISchemeHTTP)
		}
	}
}

func dropVolumeDefaults(v *corev1.VolumeSource) {
	const mode = 0o644
	switch {
	case v.ConfigMap != nil:
		dropPointer(&v.ConfigMap.DefaultMode, mode)
	case v.Secret != nil:
		dropPointer(&v.Secret.DefaultMode, mode)
	case v.Projected != nil:
		dropPointer(&v.Projected.DefaultMode, mode)
	case v.DownwardAPI != nil:
		dropPointer(&v.DownwardAPI.DefaultMode, mode)
	case v.HostPath != nil:
		dropPointer(&v.HostPath.Type, corev1.HostPathUnset)
	}
}

// pullPolicyOf is the default for an image: only a tag that moves is pulled each time.
func pullPolicyOf(image string) corev1.PullPolicy {
	name := image[strings.LastIndex(image, "/")+1:]
	_, tag, tagged := strings.Cut(name, ":")
	if strings.Contains(name, "@") || tagged && tag != "latest" {
		return corev1.PullIfNotPresent
	}
	return corev1.PullAlways
}

// drop empties a field that has its default.
func drop[T comparable](field *T, usual T) {
	if *field == usual {
		var empty T
		*field = empty
	}
}

// dropPointer is drop for a field that is there or not.
func dropPointer[T any](field **T, usual T) {
	if *field != nil && equal(**field, usual) {
		*field = nil
	}
}
