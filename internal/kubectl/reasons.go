package kubectl

import (
	"context"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// podReasons are why pods are not ready, by the name of their node, as far as they are of nodes that the
// status lists: it tells of each node one reason, and knows no events.
type podReasons struct {
	// read reads pods and events.
	read func(context.Context, *v1alpha1.IngressDaemonSet) (map[string][]string, error)

	last map[string][]string
	at   time.Time
}

// reasonsEvery bounds how often a status that is shown anew all the time reads pods and events.
const reasonsEvery = 3 * time.Second

func podReasonsOf(api client.Client) *podReasons {
	return &podReasons{read: func(ctx context.Context, set *v1alpha1.IngressDaemonSet) (map[string][]string, error) {
		return reasonsByNode(ctx, api, set)
	}}
}

// of is empty where pods cannot be read, and what it was where they cannot any more: the status is worth
// showing without it.
func (r *podReasons) of(ctx context.Context, set *v1alpha1.IngressDaemonSet, now time.Time) map[string][]string {
	if r.at.IsZero() || now.Sub(r.at) >= reasonsEvery {
		r.at = now
		if reasons, err := r.read(ctx, set); err == nil {
			r.last = reasons
		}
	}
	return r.last
}

func reasonsByNode(ctx context.Context, api client.Client, set *v1alpha1.IngressDaemonSet) (map[string][]string, error) {
	var nodes []string
	for _, n := range set.Status.Nodes {
		nodes = append(nodes, v1alpha1.LabelValue(n.Name))
	}
	if len(nodes) == 0 {
		return nil, nil
	}
	onThese, err := labels.NewRequirement(v1alpha1.LabelNode, selection.In, nodes)
	if err != nil {
		return nil, err
	}
	selector := labels.SelectorFromSet(labels.Set{v1alpha1.LabelName: v1alpha1.LabelValue(set.Name)}).Add(*onThese)
	var pods corev1.PodList
	if err := api.List(ctx, &pods, client.InNamespace(set.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, err
	}
	return reasonsOf(pods.Items, func() []corev1.Event { return warningsOf(ctx, api, set.Namespace) }), nil
}

// reasonsOf asks for events only where a pod is not ready. Pods that are on their way out are not to be.
func reasonsOf(pods []corev1.Pod, events func() []corev1.Event) map[string][]string {
	reasons := map[string][]string{}
	var known []corev1.Event
	for i := range pods {
		pod := &pods[i]
		if objects.PodReady(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		if known == nil {
			known = events()
		}
		if why := objects.Unready(pod, known); why != "" {
			node := pod.Annotations[v1alpha1.AnnotationNode]
			reasons[node] = append(reasons[node], "pod "+pod.Name+": "+why)
		}
	}
	return reasons
}

// warningsOf are the events that warn of pods of a namespace. What they tell is worth showing, and what
// is shown is worth it without them: a user may not have the right to read them.
func warningsOf(ctx context.Context, api client.Client, namespace string) []corev1.Event {
	var events corev1.EventList
	err := api.List(ctx, &events, client.InNamespace(namespace), client.MatchingFields{"involvedObject.kind": "Pod", "type": corev1.EventTypeWarning})
	if err != nil {
		return nil
	}
	return events.Items
}
