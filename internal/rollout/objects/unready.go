package objects

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Reasons that the kubelet gives for a container that waits.
const (
	podInitializing   = "PodInitializing"
	containerCreating = "ContainerCreating"
	crashLoopBackOff  = "CrashLoopBackOff"
)

// Reasons of the kubelet's events (k8s.io/kubernetes/pkg/kubelet/events): of a probe that failed, and of
// what keeps a container from being made.
const probeFailed = "Unhealthy"

var notCreated = []string{"FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "NetworkNotReady"}

// Unready says in one sentence why a pod is not ready: what a container waits for, how it ended last
// and how often it was started again, what the scheduler or the kubelet says. It is empty where the
// pod is ready, or where its status does not tell. Events are those of any pods, and may be none:
// they tell which probe failed and what a volume lacks, which no status does. The sentence changes
// when something happens to the pod, and not as time passes.
func Unready(pod *corev1.Pod, events []corev1.Event) string {
	s := &pod.Status
	switch {
	case PodReady(pod):
		return ""
	case pod.DeletionTimestamp != nil:
		return "it is being deleted"
	case s.Phase == corev1.PodFailed || s.Phase == corev1.PodSucceeded:
		return ended(s)
	}
	for _, c := range s.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return "it is not scheduled: " + saying(c.Reason, c.Message)
		}
	}
	said := warnings(pod, events)
	for i := range s.InitContainerStatuses {
		if c := &s.InitContainerStatuses[i]; holdsUp(c) {
			return "init container " + c.Name + " " + initialising(c, said)
		}
	}
	if c := worst(s.ContainerStatuses); c != nil {
		return "container " + c.Name + " " + lacks(c, said)
	}
	return ungated(pod)
}

// ended says how a pod ended, which its ReplicaSet replaces.
func ended(s *corev1.PodStatus) string {
	began := slices.ContainsFunc(s.ContainerStatuses, func(c corev1.ContainerStatus) bool { return !c.Ready })
	switch why := saying(s.Reason, s.Message); {
	case s.Reason == "Evicted":
		return "it was evicted: " + saying("", s.Message)
	case why != "" && !began:
		return "the kubelet rejected it: " + why
	case why != "":
		return "it ended: " + why
	case !began:
		return "it ended: " + string(s.Phase)
	}
	c := worst(s.ContainerStatuses)
	return "it ended: container " + c.Name + " " + lacks(c, nil)
}

// holdsUp reports whether an init container keeps others from being started, or the pod from
// being ready. Those whose turn has not come do not.
func holdsUp(c *corev1.ContainerStatus) bool {
	done := c.State.Terminated != nil && c.State.Terminated.ExitCode == 0
	waits := c.State.Waiting != nil && c.State.Waiting.Reason == podInitializing
	return !c.Ready && !done && !waits
}

// initialising says how far an init container is. Only one that is a sidecar counts as started while
// it runs.
func initialising(c *corev1.ContainerStatus, said []corev1.Event) string {
	if c.State.Running != nil && (c.Started == nil || !*c.Started) {
		return "has not come to its end" + before(c)
	}
	return lacks(c, said)
}

// worst is the container that most needs somebody to do something, nil where all are ready.
func worst(all []corev1.ContainerStatus) *corev1.ContainerStatus {
	var found *corev1.ContainerStatus
	for i := range all {
		if c := &all[i]; !c.Ready && (found == nil || trouble(c) > trouble(found)) {
			found = c
		}
	}
	return found
}

// trouble tells what goes by itself from what does not.
func trouble(c *corev1.ContainerStatus) int {
	switch {
	case c.State.Waiting != nil && !awaitsCreation(c.State.Waiting):
		return 3
	case c.State.Terminated != nil:
		return 2
	case c.State.Running != nil:
		return 1
	}
	return 0
}

// awaitsCreation reports whether a container waits for nothing but to be made.
func awaitsCreation(w *corev1.ContainerStateWaiting) bool {
	return w.Reason == "" || w.Reason == podInitializing || w.Reason == containerCreating
}

// lacks says what a container that is not ready lacks.
func lacks(c *corev1.ContainerStatus, said []corev1.Event) string {
	w, t, r := c.State.Waiting, c.State.Terminated, c.State.Running
	switch last := c.LastTerminationState.Terminated; {
	case w != nil && w.Reason == crashLoopBackOff && last != nil:
		// Its message says how long the kubelet waits, and no more.
		return "ended with " + exit(last) + restarted(c) + ", and waits to be started again (" + w.Reason + ")"
	case w != nil && !awaitsCreation(w):
		return "waits: " + saying(w.Reason, w.Message) + before(c)
	case t != nil:
		return "ended with " + exit(t) + before(c)
	case r == nil:
		return "is being created" + lastly(said, c.Name, time.Time{}, notCreated...)
	case c.Started != nil && !*c.Started:
		return "runs, and its startup probe has not passed" + lastly(said, c.Name, r.StartedAt.Time, probeFailed) + before(c)
	}
	return "runs and is not ready" + lastly(said, c.Name, r.StartedAt.Time, probeFailed) + before(c)
}

// before says how often a container was started again, and how it ended last.
func before(c *corev1.ContainerStatus) string {
	if t := c.LastTerminationState.Terminated; t != nil {
		return restarted(c) + "; before, it ended with " + exit(t)
	}
	return restarted(c)
}

// restarted says how often a container was started again.
func restarted(c *corev1.ContainerStatus) string {
	switch c.RestartCount {
	case 0:
		return ""
	case 1:
		return ", restarted once"
	}
	return fmt.Sprintf(", restarted %d times", c.RestartCount)
}

func exit(t *corev1.ContainerStateTerminated) string {
	how := fmt.Sprintf("exit code %d", t.ExitCode)
	if t.Reason != "" {
		how += " (" + t.Reason + ")"
	}
	if said := oneLine(t.Message); said != "" {
		how += ": " + said
	}
	return how
}

// ungated names the readiness gate that a pod fails whose containers are ready.
func ungated(pod *corev1.Pod) string {
	for _, gate := range pod.Spec.ReadinessGates {
		i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == gate.ConditionType })
		switch {
		case i < 0:
			return "nobody has set its readiness gate " + string(gate.ConditionType) + " yet"
		case pod.Status.Conditions[i].Status != corev1.ConditionTrue:
			c := &pod.Status.Conditions[i]
			return strings.TrimSuffix("its readiness gate "+string(gate.ConditionType)+" is not met: "+saying(c.Reason, c.Message), ": ")
		}
	}
	return ""
}

// warnings are the events about a pod. One of its name may have been there before.
func warnings(pod *corev1.Pod, events []corev1.Event) []corev1.Event {
	var own []corev1.Event
	for _, e := range events {
		if e.InvolvedObject.UID == pod.UID && e.Type == corev1.EventTypeWarning {
			own = append(own, e)
		}
	}
	return own
}

// lastly is what the last of the events says that have one of the reasons and are about the container,
// or about the whole pod; nothing where that was before since.
func lastly(events []corev1.Event, container string, since time.Time, reasons ...string) string {
	var last *corev1.Event
	for i := range events {
		e := &events[i]
		about := e.InvolvedObject.FieldPath
		if !slices.Contains(reasons, e.Reason) || strings.Contains(about, "{") && !strings.HasSuffix(about, "{"+container+"}") {
			continue
		}
		if at := seenAt(e); !at.Before(since) && (last == nil || at.After(seenAt(last))) {
			last = e
		}
	}
	switch {
	case last == nil:
		return ""
	case last.Reason == probeFailed:
		return ": " + oneLine(last.Message)
	}
	return ": " + saying(last.Reason, last.Message)
}

// seenAt is when an event was last seen, by either of the ways in which they are counted.
func seenAt(e *corev1.Event) time.Time {
	at := e.EventTime.Time
	if e.Series != nil {
		at = e.Series.LastObservedTime.Time
	}
	if e.LastTimestamp.After(at) {
		at = e.LastTimestamp.Time
	}
	return at
}

// OfUnready is what Unready reads of the statuses of containers: of those that are not ready, and of
// messages what fits into a sentence.
func OfUnready(all []corev1.ContainerStatus) []corev1.ContainerStatus {
	var out []corev1.ContainerStatus
	for _, c := range all {
		if !c.Ready {
			out = append(out, corev1.ContainerStatus{
				Name: c.Name, RestartCount: c.RestartCount, Started: c.Started,
				State: trimmedState(c.State), LastTerminationState: trimmedState(c.LastTerminationState),
			})
		}
	}
	return slices.Clip(out)
}

func trimmedState(s corev1.ContainerState) corev1.ContainerState {
	var out corev1.ContainerState
	if w := s.Waiting; w != nil {
		out.Waiting = &corev1.ContainerStateWaiting{Reason: w.Reason, Message: oneLine(w.Message)}
	}
	if t := s.Terminated; t != nil {
		out.Terminated = &corev1.ContainerStateTerminated{ExitCode: t.ExitCode, Reason: t.Reason, Message: oneLine(t.Message)}
	}
	if r := s.Running; r != nil {
		out.Running = &corev1.ContainerStateRunning{StartedAt: r.StartedAt}
	}
	return out
}

// saying is a reason and its message.
func saying(reason, message string) string {
	message = oneLine(message)
	if reason == "" || message == "" {
		return reason + message
	}
	return reason + ": " + message
}

// longestSaying is how many characters of a message are shown.
const longestSaying = 240

// oneLine is a message in one line. What is too long loses its middle: a runtime's error begins with the
// image and ends with what is wrong.
func oneLine(message string) string {
	message = strings.TrimRight(strings.Join(strings.Fields(message), " "), ". ")
	if all := []rune(message); len(all) > longestSaying {
		half := longestSaying / 2
		return string(all[:half]) + "…" + string(all[len(all)-half+1:])
	}
	return message
}
