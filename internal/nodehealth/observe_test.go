package nodehealth_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth"
)

var subject = nodehealth.Subject{Node: "n1", Name: "web", UID: "web-uid"}

func owner(apiVersion, kind, name string, uid types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: new(true)}
}

func deployment(name string, change func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      map[string]string{v1alpha1.LabelNode: "n1", v1alpha1.LabelName: "web"},
			Annotations: map[string]string{v1alpha1.AnnotationPodsPerNode: "2"},
			OwnerReferences: []metav1.OwnerReference{
				owner(v1alpha1.GroupVersion.String(), "IngressDaemonSet", "web", "web-uid"),
			},
		},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32(5))},
	}
	if change != nil {
		change(d)
	}
	return d
}

func podOf(replicaSet, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name),
		OwnerReferences: []metav1.OwnerReference{owner("apps/v1", "ReplicaSet", replicaSet, "rs")},
	}}
}

func TestObserveDeployment(t *testing.T) {
	const markedAtNoon = "2026-01-02T12:00:00.000Z/r1"
	now := metav1.Now()
	updated := func(at string) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) {
			d.Annotations[v1alpha1.DefaultMarkKey], d.Annotations[v1alpha1.AnnotationUpdatedAt] = markedAtNoon, at
		}
	}
	annotate := func(key, value string) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) { d.Annotations[key] = value }
	}
	for name, test := range map[string]struct {
		change func(*appsv1.Deployment)
		want   *nodehealth.Deployment
	}{
		"plain":        {nil, &nodehealth.Deployment{Wanted: 2}},
		"held at zero": {func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(0)) }, &nodehealth.Deployment{Wanted: 2}},
		"none wanted":  {annotate(v1alpha1.AnnotationPodsPerNode, "0"), &nodehealth.Deployment{Wanted: 0}},
		"no count":     {func(d *appsv1.Deployment) { d.Annotations = nil }, &nodehealth.Deployment{Wanted: 5}},
		"bad count":    {annotate(v1alpha1.AnnotationPodsPerNode, "-1"), &nodehealth.Deployment{Wanted: 5}},
		"no count, no replicas": {func(d *appsv1.Deployment) {
			d.Annotations, d.Spec.Replicas = nil, nil
		}, &nodehealth.Deployment{Wanted: 1}},
		"terminating": {func(d *appsv1.Deployment) { d.DeletionTimestamp = &now }, &nodehealth.Deployment{Wanted: 2, Terminating: true}},
		"marked":      {annotate(v1alpha1.DefaultMarkKey, "r1 at noon"), &nodehealth.Deployment{Wanted: 2, Mark: new(v1alpha1.Mark("r1 at noon"))}},
		"marked under a key of its own": {func(d *appsv1.Deployment) {
			d.Annotations[v1alpha1.AnnotationMarkKey] = "example.com/out"
			d.Annotations["example.com/out"] = ""
		}, &nodehealth.Deployment{Wanted: 2, Mark: new(v1alpha1.Mark("")), MarkKey: "example.com/out"}},
		"marked under the key that was on record": {annotate("example.com/last", ""), &nodehealth.Deployment{Wanted: 2, Mark: new(v1alpha1.Mark(""))}},
		"marked under another key than that": {func(d *appsv1.Deployment) {
			d.Annotations[v1alpha1.AnnotationMarkKey], d.Annotations["example.com/last"] = "example.com/out", "m"
		}, &nodehealth.Deployment{Wanted: 2, MarkKey: "example.com/out"}},
		"marked with nothing": {annotate(v1alpha1.DefaultMarkKey, ""), &nodehealth.Deployment{Wanted: 2, Mark: new(v1alpha1.Mark(""))}},
		"marked under a key that does not count": {func(d *appsv1.Deployment) {
			d.Annotations[v1alpha1.AnnotationMarkKey] = "example.com/out"
			d.Annotations[v1alpha1.DefaultMarkKey] = "m"
		}, &nodehealth.Deployment{Wanted: 2, MarkKey: "example.com/out"}},

		"updated before the mark": {updated("2026-01-02T11:59:59Z"), &nodehealth.Deployment{Wanted: 2, Mark: new(v1alpha1.Mark(markedAtNoon))}},
		"updated since the mark":  {updated("2026-01-02T12:00:00Z"), &nodehealth.Deployment{Wanted: 2, Mark: new(v1alpha1.Mark(markedAtNoon)), Released: true}},
		"emptied by a drain": {func(d *appsv1.Deployment) {
			updated("")(d)
			d.Annotations[v1alpha1.AnnotationDrainedAt], d.Spec.Replicas = "2026-01-02T12:00:00Z", new(int32(0))
		}, &nodehealth.Deployment{Wanted: 2, Mark: new(v1alpha1.Mark(markedAtNoon)), Released: true}},
		"not emptied yet": {func(d *appsv1.Deployment) {
			updated("")(d)
			d.Annotations[v1alpha1.AnnotationDrainedAt] = "2026-01-02T12:00:00Z"
		}, &nodehealth.Deployment{Wanted: 2, Mark: new(v1alpha1.Mark(markedAtNoon))}},

		"orphaned":       {func(d *appsv1.Deployment) { d.OwnerReferences = nil }, &nodehealth.Deployment{Wanted: 2}},
		"not controlled": {func(d *appsv1.Deployment) { d.OwnerReferences[0].Controller = nil }, &nodehealth.Deployment{Wanted: 2}},
		"nobody's":       {func(d *appsv1.Deployment) { d.OwnerReferences, d.Labels[v1alpha1.LabelName] = nil, "other" }, nil},
		"taken over":     {func(d *appsv1.Deployment) { d.OwnerReferences[0].UID = "later" }, &nodehealth.Deployment{Wanted: 2}},
		"without its label": {func(d *appsv1.Deployment) {
			d.Labels, d.Annotations[v1alpha1.AnnotationNode] = nil, "n1"
		}, &nodehealth.Deployment{Wanted: 2}},
		"of another node":  {func(d *appsv1.Deployment) { d.Labels[v1alpha1.LabelNode] = "n2" }, nil},
		"another's":        {func(d *appsv1.Deployment) { d.OwnerReferences[0].Name = "other" }, nil},
		"of another kind":  {func(d *appsv1.Deployment) { d.OwnerReferences[0].Kind = "DaemonSet" }, nil},
		"of another group": {func(d *appsv1.Deployment) { d.OwnerReferences[0].APIVersion = "example.com/v1alpha1" }, nil},
		"of a later API":   {func(d *appsv1.Deployment) { d.OwnerReferences[0].APIVersion = v1alpha1.GroupVersion.Group + "/v1" }, &nodehealth.Deployment{Wanted: 2}},
		"controller second": {func(d *appsv1.Deployment) {
			d.OwnerReferences = append([]metav1.OwnerReference{{Kind: "Node"}}, d.OwnerReferences...)
		}, &nodehealth.Deployment{Wanted: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			if test.want != nil {
				test.want.Name = "web-n1"
			}
			last := subject
			last.MarkKey = "example.com/last"
			got := nodehealth.Observe(last, []*appsv1.Deployment{deployment("web-n1", test.change)}, nil)
			want := nodehealth.State{Node: "n1", Known: true, Deployment: test.want}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestObserveWithoutUIDTakesAnyOfTheName(t *testing.T) {
	s := nodehealth.Observe(nodehealth.Subject{Node: "n1", Name: "web"}, []*appsv1.Deployment{deployment("web-n1", nil)}, nil)
	if s.Deployment == nil {
		t.Error("the Deployment is not found")
	}
}

func TestObserveSuccessorOfTerminatingDeployment(t *testing.T) {
	now := metav1.Now()
	going := deployment("a", func(d *appsv1.Deployment) { d.DeletionTimestamp = &now })
	for _, ds := range [][]*appsv1.Deployment{{going, deployment("b", nil)}, {deployment("b", nil), going}} {
		if s := nodehealth.Observe(subject, ds, nil); s.Deployment.Name != "b" {
			t.Errorf("%s is chosen over its successor", s.Deployment.Name)
		}
	}
}

// TestObserveTheClosestDeployment prefers the object's own to one that was left behind.
func TestObserveTheClosestDeployment(t *testing.T) {
	own := deployment("web-n1-0a1b2c3d4e", nil)
	left := deployment("web-n1", func(d *appsv1.Deployment) { d.OwnerReferences = nil })
	taken := deployment("a", func(d *appsv1.Deployment) { d.OwnerReferences[0].UID = "later" })
	for _, ds := range [][]*appsv1.Deployment{{own, left, taken}, {taken, left, own}, {left, taken}, {taken, left}} {
		want := "web-n1"
		if len(ds) == 3 {
			want = own.Name
		}
		if s := nodehealth.Observe(subject, ds, nil); s.Deployment.Name != want {
			t.Errorf("%s is chosen, not %s", s.Deployment.Name, want)
		}
	}
}

func TestObserveOnlyPodsOfTheDeployment(t *testing.T) {
	foreign := func(d *appsv1.Deployment) { d.OwnerReferences, d.Labels = nil, nil }
	long := strings.Repeat("n", 250)
	deployments := []*appsv1.Deployment{
		deployment("web-n1", nil), deployment("web-n1-x", foreign), deployment("web", foreign), deployment(long, foreign),
	}
	bare := podOf("", "bare")
	bare.OwnerReferences = nil
	daemon := podOf("web-n1-5d", "daemon")
	daemon.OwnerReferences[0].Kind = "DaemonSet"
	pods := []*corev1.Pod{
		podOf("web-n1-5d", "own-2"), podOf("web-n1-7f", "own-1"), podOf("web-n1-x-5d", "longer"), podOf("web-n1-0a1b2c3d4e-5d", "gone"), podOf("web-n2-5d", "shorter"),
		podOf(long[:242]+"-5d5b5d5b5d", "long"), bare, daemon,
	}
	var got []string
	for _, p := range nodehealth.Observe(subject, deployments, pods).Pods {
		got = append(got, p.Name)
	}
	if diff := cmp.Diff([]string{"own-1", "own-2"}, got); diff != "" {
		t.Error(diff)
	}

	cut := nodehealth.Observe(subject, []*appsv1.Deployment{deployment(long, nil)}, pods)
	if len(cut.Pods) != 1 || cut.Pods[0].Name != "long" {
		t.Errorf("a Deployment with a long name has pods %v", cut.Pods)
	}
}

func TestObservePod(t *testing.T) {
	always, never := corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever
	conditions := []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue},
		{Type: corev1.ContainersReady, Status: corev1.ConditionTrue},
		{Type: "example.com/gate", Status: corev1.ConditionTrue},
	}
	plain := func(p *corev1.Pod) {
		p.Spec.Containers = []corev1.Container{{Name: "app"}}
		p.Status = corev1.PodStatus{
			PodIP: "10.0.0.1", Phase: corev1.PodRunning, Conditions: conditions,
			ContainerStatuses: []corev1.ContainerStatus{{Name: "app", Ready: true}},
		}
	}
	end := metav1.Now()
	annotateTargets := func(value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{v1alpha1.AnnotationTargets: value} }
	}
	ready := nodehealth.Pod{
		UID: "p", Name: "p", IP: "10.0.0.1", Ready: true, ContainersReady: true, GatesPassed: true,
		Containers: []nodehealth.ContainerState{{Name: "app", Ready: true}},
	}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   func(*nodehealth.Pod)
	}{
		"ready":       {func(*corev1.Pod) {}, func(*nodehealth.Pod) {}},
		"failed":      {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, func(p *nodehealth.Pod) { p.Leaving = true }},
		"succeeded":   {func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, func(p *nodehealth.Pod) { p.Leaving = true }},
		"terminating": {func(p *corev1.Pod) { p.DeletionTimestamp = &end }, func(p *nodehealth.Pod) { p.Leaving, p.Ending = true, true }},
		"terminated": {func(p *corev1.Pod) {
			p.DeletionTimestamp, p.Status.Phase = &end, corev1.PodSucceeded
		}, func(p *nodehealth.Pod) { p.Leaving = true }},
		"a drain hook": {func(p *corev1.Pod) {
			p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: v1alpha1.DrainPath}}}
		}, func(p *nodehealth.Pod) { p.Drains = true }},
		"another hook": {func(p *corev1.Pod) {
			p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/"}}}
		}, func(*nodehealth.Pod) {}},
		"its grace period": {func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(60)) }, func(p *nodehealth.Pod) { p.Grace = time.Minute }},
		"deleted with another": {func(p *corev1.Pod) {
			p.DeletionTimestamp, p.Spec.TerminationGracePeriodSeconds, p.DeletionGracePeriodSeconds = &end, new(int64(60)), new(int64(5))
		}, func(p *nodehealth.Pod) { p.Leaving, p.Ending, p.Grace = true, true, 5*time.Second }},
		"a target":  {annotateTargets(v1alpha1.TargetsIn), func(p *nodehealth.Pod) { p.InTargets = true }},
		"no target": {annotateTargets(v1alpha1.TargetsOut), func(*nodehealth.Pod) {}},
		"gate passed": {func(p *corev1.Pod) {
			p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}}
		}, func(*nodehealth.Pod) {}},
		"gate unset": {func(p *corev1.Pod) {
			p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}, {ConditionType: "example.com/other"}}
		}, func(p *nodehealth.Pod) { p.GatesPassed = false }},
		"readiness unknown": {func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionUnknown}}
		}, func(p *nodehealth.Pod) { p.Ready, p.ContainersReady = false, false }},
		"no status yet": {func(p *corev1.Pod) { p.Status = corev1.PodStatus{} }, func(p *nodehealth.Pod) {
			p.IP, p.Ready, p.ContainersReady, p.Containers = "", false, false, []nodehealth.ContainerState{{Name: "app"}}
		}},
		"sidecars count, other init containers do not": {func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "init"}, {Name: "once", RestartPolicy: &never}, {Name: "sidecar", RestartPolicy: &always}}
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "sidecar", Ready: true}}
		}, func(p *nodehealth.Pod) {
			p.Containers = []nodehealth.ContainerState{{Name: "sidecar", Ready: true}, {Name: "app", Ready: true}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := podOf("web-n1-5d", "p")
			plain(p)
			test.change(p)
			want := ready
			test.want(&want)
			got := nodehealth.Observe(subject, []*appsv1.Deployment{deployment("web-n1", nil)}, []*corev1.Pod{p})
			if diff := cmp.Diff([]nodehealth.Pod{want}, got.Pods); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestObserveProbe(t *testing.T) {
	http := func(port intstr.IntOrString) *corev1.Probe {
		return &corev1.Probe{PeriodSeconds: 3, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ok", Port: port}}}
	}
	tcp := func(port intstr.IntOrString) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: port}}}
	}
	grpc := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 5000}}}
	for name, test := range map[string]struct{ probe, want *corev1.Probe }{
		"none":           {nil, nil},
		"http by number": {http(intstr.FromInt32(80)), http(intstr.FromInt32(80))},
		"http by name":   {http(intstr.FromString("web")), http(intstr.FromInt32(8080))},
		"tcp by name":    {tcp(intstr.FromString("web")), tcp(intstr.FromInt32(8080))},
		"number as name": {tcp(intstr.FromString("81")), tcp(intstr.FromInt32(81))},
		"unknown name":   {tcp(intstr.FromString("nope")), nil},
		"grpc":           {grpc, grpc},
		"exec":           {&corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := podOf("web-n1-5d", "p")
			p.Spec.Containers = []corev1.Container{{
				Name: "app", ReadinessProbe: test.probe,
				Ports: []corev1.ContainerPort{{Name: "other", ContainerPort: 1}, {Name: "web", ContainerPort: 8080}},
			}}
			before := p.DeepCopy()
			got := nodehealth.Observe(subject, []*appsv1.Deployment{deployment("web-n1", nil)}, []*corev1.Pod{p})
			if diff := cmp.Diff(test.want, got.Pods[0].Containers[0].Probe); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, p); diff != "" {
				t.Errorf("the pod was changed: %s", diff)
			}
		})
	}
}
