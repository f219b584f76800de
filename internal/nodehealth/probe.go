package nodehealth

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Target is a container that the checker has to probe itself.
type Target struct {
	Container
	// IP is the pod's, to which a probe that names no host goes.
	IP    string
	Probe *corev1.Probe
	// Ready is what holds until the probe has said otherwise; meaningless where
	// the first result counts.
	Ready bool
	// FirstCounts says whether the first result counts at once.
	FirstCounts bool
	// Rehearsal says whether nothing is to be found but that the probe can pass.
	Rehearsal bool
}

// Targets are the containers to probe. While the API server can be believed on a pod
// they are those that are ready and of which no own probe has passed yet.
func Targets(s State) []Target {
	var targets []Target
	for _, pod := range s.Pods {
		if pod.Leaving || pod.IP == "" {
			continue
		}
		rehearsal := !s.distrusts(pod)
		for _, c := range pod.Containers {
			container := Container{pod.UID, c.Name}
			if c.Probe != nil && !(rehearsal && (s.Proven[container] || !c.Ready)) {
				targets = append(targets, Target{container, pod.IP, c.Probe, c.Ready, s.Cold, rehearsal})
			}
		}
	}
	return targets
}

// Judged reports whether each container that has to be probed has been.
func (s State) Judged() bool {
	return !slices.ContainsFunc(Targets(s), func(t Target) bool {
		_, probed := s.Probed[t.Container]
		return !probed && !t.Rehearsal
	})
}

// Tally counts the results of a probe as the kubelet does: a container turns
// ready after successThreshold successes in a row and unready after
// failureThreshold failures in a row.
type Tally struct {
	ready   bool
	decided bool
	last    bool
	run     int32
}

// NewTally starts from the target's last known readiness.
func NewTally(t Target) Tally {
	return Tally{ready: t.Ready, decided: !t.FirstCounts}
}

// Add counts a result. It returns whether the container is ready, and whether
// that is news.
func (t *Tally) Add(success bool, probe *corev1.Probe) (ready, news bool) {
	if success != t.last {
		t.run = 0
	}
	t.last = success
	t.run++
	threshold := max(1, probe.FailureThreshold)
	if success {
		threshold = max(1, probe.SuccessThreshold)
	}
	switch {
	case !t.decided:
		t.ready, t.decided = success, true
		return success, true
	case success == t.ready || t.run < threshold:
		return t.ready, false
	}
	t.ready = success
	return success, true
}

// probeOf is the readiness probe of a container with its port as a number; nil
// where there is none that the checker can run: it never runs exec probes, and
// a port name that the container does not declare fails in the kubelet too.
func probeOf(container *corev1.Container) *corev1.Probe {
	if container.ReadinessProbe == nil {
		return nil
	}
	probe := container.ReadinessProbe.DeepCopy()
	known := probe.GRPC != nil
	switch {
	case probe.HTTPGet != nil:
		known = number(&probe.HTTPGet.Port, container)
	case probe.TCPSocket != nil:
		known = number(&probe.TCPSocket.Port, container)
	}
	if !known {
		return nil
	}
	return probe
}

// number replaces a port's name by its number. It returns false where the
// container has no such port.
func number(port *intstr.IntOrString, container *corev1.Container) bool {
	if port.Type == intstr.Int {
		return true
	}
	if n := port.IntValue(); n > 0 {
		*port = intstr.FromInt(n)
		return true
	}
	for _, p := range container.Ports {
		if p.Name == port.StrVal {
			*port = intstr.FromInt32(p.ContainerPort)
			return true
		}
	}
	return false
}
