package v1alpha1

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func percent(s string) intstr.IntOrString { return intstr.FromString(s) }

func count(n int32) intstr.IntOrString { return intstr.FromInt32(n) }

// degradedDefaults and detachingDefaults are what an empty strategy and one with
// maxUnavailableNodes 1 resolve to, with changes.
func degradedDefaults(change func(*Strategy)) Strategy {
	s := Strategy{
		MaxNodes:           count(1),
		MaxUnavailablePods: count(0),
		MaxSurgedPods:      count(1),
		Partition:          count(0),
		MarkKey:            "ingressdaemonsets.mumoshu.github.com/to-be-updated",
		NoticeGrace:        10 * time.Second,
		DetachTimeout:      10 * time.Minute,
		MinServingNodes:    intstr.FromInt32(1),
	}
	change(&s)
	return s
}

func detachingDefaults(change func(*Strategy)) Strategy {
	return degradedDefaults(func(s *Strategy) {
		s.Detaching = true
		s.MaxUnavailablePods = percent("100%")
		s.MaxSurgedPods = count(0)
		s.MarkGrace = 10 * time.Second
		s.AttachGrace = 10 * time.Second
		change(s)
	})
}

func TestStrategy(t *testing.T) {
	nothing := func(*Strategy) {}
	detachTwo := func(u RollingUpdate) *RollingUpdate {
		u.MaxUnavailableNodes = ptr(count(2))
		return &u
	}
	checked := IngressDaemonSetSpec{HealthCheckNodePorts: []int32{10080}}
	for name, c := range map[string]struct {
		spec   IngressDaemonSetSpec
		update *RollingUpdate
		want   Strategy
	}{
		"nothing set":      {update: nil, want: degradedDefaults(nothing)},
		"an empty update":  {update: &RollingUpdate{}, want: degradedDefaults(nothing)},
		"0 detaches none":  {update: &RollingUpdate{MaxUnavailableNodes: ptr(count(0))}, want: degradedDefaults(nothing)},
		"0% detaches none": {update: &RollingUpdate{MaxUnavailableNodes: ptr(percent("0%"))}, want: degradedDefaults(nothing)},
		"degraded": {
			update: &RollingUpdate{
				MaxDegradedNodes:          ptr(percent("10%")),
				MaxUnavailablePodsPerNode: ptr(count(1)),
				MaxSurgedPodsPerNode:      ptr(count(0)),
				AttachGracePeriodSeconds:  ptr[int32](30),
			},
			want: degradedDefaults(func(s *Strategy) {
				s.MaxNodes = percent("10%")
				s.MaxUnavailablePods = count(1)
				s.MaxSurgedPods = count(0)
			}),
		},
		"the README's spelling": {
			update: &RollingUpdate{MaxUnavaiablePodsPerNode: ptr(percent("50%"))},
			want:   degradedDefaults(func(s *Strategy) { s.MaxUnavailablePods = percent("50%") }),
		},
		"detaching by health checks": {
			spec:   checked,
			update: detachTwo(RollingUpdate{}),
			want:   detachingDefaults(func(s *Strategy) { s.MaxNodes = count(2) }),
		},
		"detaching by a Service": {
			spec:   IngressDaemonSetSpec{ServiceName: "proxy"},
			update: detachTwo(RollingUpdate{}),
			want:   detachingDefaults(func(s *Strategy) { s.MaxNodes = count(2) }),
		},
		"detaching by nothing": {
			update: detachTwo(RollingUpdate{}),
			want: detachingDefaults(func(s *Strategy) {
				s.MaxNodes = count(2)
				s.MarkGrace = 0
			}),
		},
		"a percentage detaches too, and the pods' own budgets do not matter": {
			spec: checked,
			update: &RollingUpdate{
				MaxUnavailableNodes:       ptr(percent("1%")),
				MaxDegradedNodes:          ptr(count(3)),
				MaxUnavailablePodsPerNode: ptr(count(1)),
			},
			want: detachingDefaults(func(s *Strategy) { s.MaxNodes = percent("1%") }),
		},
		"a mark of one's own": {
			spec: checked,
			update: detachTwo(RollingUpdate{
				AnnotateDeploymentToDetach: &AnnotateDeploymentToDetach{Key: "example.com/leave", GracePeriodSeconds: ptr[int32](25)},
			}),
			want: detachingDefaults(func(s *Strategy) {
				s.MaxNodes = count(2)
				s.MarkKey = "example.com/leave"
				s.MarkGrace, s.NoticeGrace = 25*time.Second, 25*time.Second
				s.AttachGrace = 25 * time.Second
			}),
		},
		"a grace of 0 is not the default": {
			spec: checked,
			update: detachTwo(RollingUpdate{
				AnnotateDeploymentToDetach: &AnnotateDeploymentToDetach{GracePeriodSeconds: ptr[int32](0)},
				AttachGracePeriodSeconds:   ptr[int32](5),
				MinServingNodes:            ptr(intstr.FromString("30%")),
			}),
			want: detachingDefaults(func(s *Strategy) {
				s.MaxNodes = count(2)
				s.MarkGrace, s.NoticeGrace = 0, 0
				s.AttachGrace = 5 * time.Second
				s.MinServingNodes = intstr.FromString("30%")
			}),
		},
		"the rest is taken over": {
			spec: checked,
			update: detachTwo(RollingUpdate{
				MaxSurgedPodsPerNode: ptr(count(1)),
				Partition:            ptr(percent("50%")),
				CanaryNodeSelector:   map[string]string{"canary": "true"},
				Order:                Order{TopologyKey: "topology.kubernetes.io/zone"},
				DetachTimeoutSeconds: ptr[int32](60),
				DetachTimeoutPolicy:  ProceedOnDetachTimeout,
			}),
			want: detachingDefaults(func(s *Strategy) {
				s.MaxNodes = count(2)
				s.MaxSurgedPods = count(1)
				s.Partition = percent("50%")
				s.CanaryNodeSelector = map[string]string{"canary": "true"}
				s.TopologyKey = "topology.kubernetes.io/zone"
				s.DetachTimeout = time.Minute
				s.ProceedOnTimeout = true
			}),
		},
		"the README's example": {
			spec: checked,
			update: &RollingUpdate{
				MaxUnavailableNodes:      ptr(count(2)),
				MaxUnavaiablePodsPerNode: ptr(count(3)),
				MaxSurgedPodsPerNode:     ptr(count(1)),
				MaxDegradedNodes:         ptr(count(3)),
				AnnotateNodeToDetach: &AnnotateNodeToDetach{
					Key: "node-detacher.variant.run/detached", Value: "true", GracePeriodSeconds: ptr[int32](10),
				},
				WaitForDetachmentByAnnotatedTimestamp: &WaitForDetachmentByAnnotatedTimestamp{
					Key: "node-detacher.variant.run/detachment-timestamp", Format: "RFC3339", GracePeriodSeconds: ptr[int32](30),
				},
			},
			want: detachingDefaults(func(s *Strategy) {
				s.MaxNodes = count(2)
				s.MaxSurgedPods = count(1)
				s.MarkGrace = 0
				s.AnnotateNode = &NodeAnnotation{
					Key: "node-detacher.variant.run/detached", Value: "true", Grace: 10 * time.Second,
					TimestampKey: "node-detacher.variant.run/detachment-timestamp", TimestampGrace: 30 * time.Second,
				}
			}),
		},
		"a detacher that does not answer": {
			spec:   checked,
			update: detachTwo(RollingUpdate{AnnotateNodeToDetach: &AnnotateNodeToDetach{Key: "a"}}),
			want: detachingDefaults(func(s *Strategy) {
				s.MaxNodes = count(2)
				s.MarkGrace = 0
				s.AnnotateNode = &NodeAnnotation{Key: "a"}
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.spec.UpdateStrategy.RollingUpdate = c.update
			if diff := cmp.Diff(c.want, c.spec.Strategy()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSpecDefaults(t *testing.T) {
	labels := map[string]string{"app": "proxy"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
	type defaults struct {
		Pods      int32
		History   int
		Deadline  time.Duration
		Placement PodPlacement
		Labels    map[string]string
	}
	for name, c := range map[string]struct {
		spec IngressDaemonSetSpec
		want defaults
	}{
		"nothing set": {IngressDaemonSetSpec{Template: template},
			defaults{1, 10, 10 * time.Minute, PlaceByNodeName, labels}},
		"zeros": {IngressDaemonSetSpec{PodsPerNode: ptr[int32](0), RevisionHistoryLimit: ptr[int32](0), Template: template},
			defaults{0, 0, 10 * time.Minute, PlaceByNodeName, labels}},
		"all set": {IngressDaemonSetSpec{
			Replicas: ptr[int32](3), RevisionHistoryLimit: ptr[int32](2), ProgressDeadlineSeconds: ptr[int32](60),
			PodPlacement: PlaceByScheduler, Selector: &Selector{MatchLabels: map[string]string{"tier": "edge"}}, Template: template,
		}, defaults{3, 2, time.Minute, PlaceByScheduler, map[string]string{"tier": "edge"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := defaults{c.spec.Pods(), c.spec.HistoryLimit(), c.spec.ProgressDeadline(), c.spec.Placement(), c.spec.SelectorLabels()}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestResolve(t *testing.T) {
	for _, c := range []struct {
		value intstr.IntOrString
		of    int
		want  int
		err   string
	}{
		{value: count(3), of: 2, want: 3},
		{value: percent("0%"), of: 10, want: 0},
		{value: percent("25%"), of: 10, want: 3},
		{value: percent("1%"), of: 1000, want: 10},
		{value: percent("50%"), of: 0, want: 0},
		{value: count(-1), of: 10, err: `"-1" is neither`},
		{value: percent("-5%"), of: 100, err: `"-5%" is neither`},
		{value: percent("half"), of: 10, err: `"half" is neither a number from 0 up nor a percentage such as 25%`},
	} {
		got, err := Resolve(c.value, c.of)
		switch {
		case c.err == "" && (err != nil || got != c.want):
			t.Errorf("%s of %d: got %d, %v, want %d", c.value.String(), c.of, got, err, c.want)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s of %d: got %v, want %s", c.value.String(), c.of, err, c.err)
		}
	}
}
