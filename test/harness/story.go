package harness

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Story is what happened to a fleet's Deployments and pods, with the time at
// which it was seen, to be read beside the load balancer's log.
type Story struct {
	mu    sync.Mutex
	lines []string
	last  map[string]string
}

// Tell begins to watch the fleet, until ctx is over. When the API server goes
// away the watches are opened again.
func (f *Fleet) Tell(ctx context.Context) *Story {
	story := &Story{last: map[string]string{}}
	go f.observe(ctx, &appsv1.DeploymentList{}, story.hear)
	go f.observe(ctx, &corev1.PodList{}, story.hear)
	return story
}

// TellBackend watches the EndpointSlices of a Service of the fleet's namespace, and the pods that have these labels, as Tell
// does.
func (f *Fleet) TellBackend(ctx context.Context, service string, pods client.MatchingLabels) *Story {
	story := &Story{last: map[string]string{}}
	within := client.InNamespace(f.Key.Namespace)
	go f.Harness.observe(ctx, &corev1.PodList{}, story.hear, within, pods)
	go f.Harness.observe(ctx, &discoveryv1.EndpointSliceList{}, story.hear, within, client.MatchingLabels{discoveryv1.LabelServiceName: service})
	return story
}

// observe watches the fleet's objects of a kind, until ctx is over.
func (f *Fleet) observe(ctx context.Context, kind client.ObjectList, hear func(client.Object)) {
	f.Harness.observe(ctx, kind, hear, client.InNamespace(f.Key.Namespace), client.MatchingLabels{v1alpha1.LabelName: f.Key.Name})
}

// observe watches objects of a kind, until ctx is over.
func (s *Harness) observe(ctx context.Context, kind client.ObjectList, hear func(client.Object), which ...client.ListOption) {
	for ctx.Err() == nil {
		_ = Wait(ctx, "the watch to be opened", func() (bool, error) { return true, s.observeOnce(ctx, kind, hear, which...) })
	}
}

func (s *Harness) observeOnce(ctx context.Context, kind client.ObjectList, hear func(client.Object), which ...client.ListOption) error {
	w, err := s.Watch(ctx, kind, which...)
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, open := <-w.ResultChan():
			if !open {
				return nil
			}
			if object, ok := event.Object.(client.Object); ok {
				hear(object)
			}
		}
	}
}

func (s *Story) hear(object client.Object) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	news := told(object)
	if key := fmt.Sprintf("%T %s", object, object.GetName()); s.last[key] != news {
		s.last[key] = news
		s.lines = append(s.lines, now.Format("2006-01-02T15:04:05.000000-07:00")+" "+news)
	}
}

// told is what a story tells of an object.
func told(object client.Object) string {
	switch o := object.(type) {
	case *corev1.Pod:
		return toldPod(o)
	case *discoveryv1.EndpointSlice:
		return toldSlice(o)
	case *appsv1.Deployment:
		mark, _ := v1alpha1.MarkOf(o.Annotations)
		return fmt.Sprintf("%s Deployment: revision %s, %d pods, mark %q", o.Labels[v1alpha1.LabelNode],
			o.Spec.Template.Labels[v1alpha1.LabelRevision], *o.Spec.Replicas, mark)
	}
	return fmt.Sprintf("%T %s", object, object.GetName())
}

func toldPod(pod *corev1.Pod) string {
	facts := []string{string(pod.Status.Phase)}
	if slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}) {
		facts = append(facts, "ready")
	}
	if pod.DeletionTimestamp != nil {
		facts = append(facts, "terminating")
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.RestartCount > 0 {
			facts = append(facts, fmt.Sprintf("%s restarted %d times", c.Name, c.RestartCount))
		}
	}
	return fmt.Sprintf("%s pod %s: %s", pod.Spec.NodeName, pod.Name, strings.Join(facts, ", "))
}

func toldSlice(slice *discoveryv1.EndpointSlice) string {
	is := func(condition *bool) bool { return condition != nil && *condition }
	var facts []string
	for _, e := range slice.Endpoints {
		fact := strings.Join(e.Addresses, " ")
		if is(e.Conditions.Ready) {
			fact += " ready"
		}
		if is(e.Conditions.Terminating) {
			fact += " terminating"
		}
		if is(e.Conditions.Serving) {
			fact += " serving"
		}
		facts = append(facts, fact)
	}
	slices.Sort(facts)
	return fmt.Sprintf("EndpointSlice %s: %s", slice.Name, strings.Join(facts, ", "))
}

// Lines are what was told so far, each beginning with its time (RFC 3339).
func (s *Story) Lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.lines)
}
