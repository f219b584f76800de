package nodehealth

import (
	"cmp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// Subject is the node and the IngressDaemonSet that a checker answers for.
type Subject struct {
	Node string
	// Name is the IngressDaemonSet's. UID may be empty: then any of that name counts.
	Name string
	UID  types.UID
	// MarkKey is the key of the IngressDaemonSet's strategy, LastMarkKey the one that the
	// Deployment last had on record. Where somebody removes that record, a mark under
	// either still counts.
	MarkKey, LastMarkKey string
}

// Observe makes a State of what the API server has: the Deployments and pods
// in the subject's namespace that may be those of its node.
func Observe(subject Subject, deployments []*appsv1.Deployment, pods []*corev1.Pod) State {
	s := State{Node: subject.Node, Known: true}
	own := choose(subject, deployments)
	if own == nil {
		return s
	}
	s.Deployment = &Deployment{
		Name:        own.Name,
		Terminating: own.DeletionTimestamp != nil,
		Wanted:      wanted(own),
		Mark:        mark(own, subject.MarkKey, subject.LastMarkKey),
		MarkKey:     own.Annotations[v1alpha1.AnnotationMarkKey],
	}
	s.Deployment.Released = released(own, s.Deployment.Mark)
	for _, pod := range pods {
		if createdBy(pod, deployments) == own {
			s.Pods = append(s.Pods, observePod(pod))
		}
	}
	slices.SortFunc(s.Pods, func(a, b Pod) int { return strings.Compare(a.Name, b.Name) })
	return s
}

// choose is the subject's Deployment, the closest to it where there are several.
// While one is being deleted and its successor exists, the successor counts.
func choose(subject Subject, deployments []*appsv1.Deployment) (chosen *appsv1.Deployment) {
	order := func(a, b *appsv1.Deployment) int {
		return cmp.Or(
			cmp.Compare(distance(subject, a), distance(subject, b)),
			cmp.Compare(going(a), going(b)),
			strings.Compare(a.Name, b.Name),
		)
	}
	for _, d := range deployments {
		if distance(subject, d) < foreign && (chosen == nil || order(d, chosen) < 0) {
			chosen = d
		}
	}
	return chosen
}

func going(d *appsv1.Deployment) int {
	if d.DeletionTimestamp != nil {
		return 1
	}
	return 0
}

// How close a Deployment of the node is to the subject. An IngressDaemonSet that is
// deleted without its Deployments leaves them and its health checkers behind, all at
// once, and one of the same name that is made later takes them over: their pods serve
// all the time.
const (
	controlled = iota
	orphaned
	another
	foreign
)

func distance(subject Subject, d *appsv1.Deployment) int {
	owner := metav1.GetControllerOfNoCopy(d)
	switch {
	case !onNode(subject, d):
		return foreign
	case owner == nil && d.Labels[v1alpha1.LabelName] == v1alpha1.LabelValue(subject.Name):
		return orphaned
	case owner == nil, owner.Kind != v1alpha1.Kind.Kind, owner.Name != subject.Name,
		!strings.HasPrefix(owner.APIVersion, v1alpha1.GroupVersion.Group+"/"):
		return foreign
	case subject.UID == "" || owner.UID == subject.UID:
		return controlled
	}
	return another
}

// onNode allows for somebody removing the label or the annotation.
func onNode(subject Subject, d *appsv1.Deployment) bool {
	return d.Labels[v1alpha1.LabelNode] == v1alpha1.LabelValue(subject.Node) || d.Annotations[v1alpha1.AnnotationNode] == subject.Node
}

// createdBy is the Deployment whose ReplicaSet controls the pod. ReplicaSets are
// not watched: theirs are named after the Deployment, a dash and a hash without one, and
// where one Deployment's name starts with another's, the longer one is meant.
func createdBy(pod *corev1.Pod, deployments []*appsv1.Deployment) (creator *appsv1.Deployment) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind != "ReplicaSet" {
		return nil
	}
	for _, d := range deployments {
		if named(owner.Name, d.Name) && (creator == nil || len(d.Name) > len(creator.Name)) {
			creator = d
		}
	}
	return creator
}

// named reports whether a ReplicaSet is named after a Deployment. It allows for the
// Deployment's name being cut, to make room for a dash and a hash of up to ten
// characters within 253.
func named(replicaSet, deployment string) bool {
	prefix := deployment + "-"
	if len(prefix) > 242 {
		return strings.HasPrefix(replicaSet, prefix[:242])
	}
	hash, ok := strings.CutPrefix(replicaSet, prefix)
	return ok && !strings.Contains(hash, "-")
}

// wanted falls back to the replicas, such as before the controller has annotated
// the Deployment.
func wanted(d *appsv1.Deployment) int32 {
	if pods, ok := v1alpha1.PodsPerNode(d.Annotations); ok {
		return pods
	}
	if d.Spec.Replicas != nil {
		return *d.Spec.Replicas
	}
	return 1
}

// mark is looked for under the key on record, or where there is none under the default
// and those that are known. Its presence counts, whatever its value is.
func mark(d *appsv1.Deployment, known ...string) *v1alpha1.Mark {
	if value, marked := v1alpha1.MarkOf(d.Annotations, known...); marked {
		return &value
	}
	return nil
}

// released reports whether the pods were changed since the mark, or are stopped because
// somebody drains the node, both of which the controller does only when the node is out.
func released(d *appsv1.Deployment, mark *v1alpha1.Mark) bool {
	if mark == nil {
		return false
	}
	_, drained := v1alpha1.DrainedAt(d.Annotations)
	if drained && d.Spec.Replicas != nil && *d.Spec.Replicas == 0 {
		return true
	}
	markedAt, ours := mark.At()
	return ours && !v1alpha1.Moment(d.Annotations, v1alpha1.AnnotationUpdatedAt).Before(markedAt)
}

func observePod(pod *corev1.Pod) Pod {
	ended := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	var grace time.Duration
	for _, seconds := range []*int64{pod.Spec.TerminationGracePeriodSeconds, pod.DeletionGracePeriodSeconds} {
		if seconds != nil && !ended {
			grace = time.Duration(*seconds) * time.Second
		}
	}
	return Pod{
		UID:             pod.UID,
		Name:            pod.Name,
		IP:              pod.Status.PodIP,
		Leaving:         pod.DeletionTimestamp != nil || ended,
		Ending:          pod.DeletionTimestamp != nil && !ended,
		Grace:           grace,
		Drains:          slices.ContainsFunc(pod.Spec.Containers, drains),
		InTargets:       pod.Annotations[v1alpha1.AnnotationTargets] == v1alpha1.TargetsIn,
		Ready:           isTrue(pod, corev1.PodReady),
		ContainersReady: isTrue(pod, corev1.ContainersReady),
		GatesPassed:     gatesPassed(pod),
		Containers:      observeContainers(pod),
	}
}

func drains(c corev1.Container) bool {
	return c.Lifecycle != nil && c.Lifecycle.PreStop != nil && c.Lifecycle.PreStop.HTTPGet != nil &&
		c.Lifecycle.PreStop.HTTPGet.Path == v1alpha1.DrainPath
}

func gatesPassed(pod *corev1.Pod) bool {
	return !slices.ContainsFunc(pod.Spec.ReadinessGates, func(gate corev1.PodReadinessGate) bool {
		return !isTrue(pod, gate.ConditionType)
	})
}

func isTrue(pod *corev1.Pod, condition corev1.PodConditionType) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == condition && c.Status == corev1.ConditionTrue
	})
}

// observeContainers leaves out init containers that run to completion: they are
// no part of a pod's readiness.
func observeContainers(pod *corev1.Pod) []ContainerState {
	var states []ContainerState
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			states = append(states, observeContainer(c, pod.Status.InitContainerStatuses))
		}
	}
	for i := range pod.Spec.Containers {
		states = append(states, observeContainer(&pod.Spec.Containers[i], pod.Status.ContainerStatuses))
	}
	return states
}

func observeContainer(c *corev1.Container, statuses []corev1.ContainerStatus) ContainerState {
	ready := slices.ContainsFunc(statuses, func(s corev1.ContainerStatus) bool {
		return s.Name == c.Name && s.Ready
	})
	return ContainerState{Name: c.Name, Ready: ready, Probe: probeOf(c)}
}
