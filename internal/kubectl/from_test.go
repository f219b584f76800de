package kubectl

import (
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// TestFrom prints what kubectl apply takes, with comments, of what runs in the cluster.
func TestFrom(t *testing.T) {
	f := newFakeAPI(t)
	labels := map[string]string{"app": "envoy"}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{Name: "envoy", Image: "envoy:1", Ports: []corev1.ContainerPort{{ContainerPort: 80}}}}},
	}
	meta := metav1.ObjectMeta{Name: "envoy", Namespace: "default"}
	f.put(kindDaemonSet, &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Template: template, Selector: &metav1.LabelSelector{MatchLabels: labels}}})
	f.put(kindDeployment, &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Template: template, Selector: &metav1.LabelSelector{MatchLabels: labels}, Replicas: new(int32(3))}})
	for name, phase := range map[string]corev1.PodPhase{"a": corev1.PodRunning, "b": corev1.PodRunning, "c": corev1.PodFailed} {
		f.put(kindPod, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: labels}, Spec: corev1.PodSpec{NodeName: "node-1"}, Status: corev1.PodStatus{Phase: phase}})
	}
	for arg, want := range map[string]struct {
		pods    int32
		comment string
	}{
		"daemonset/envoy": {1, "one node at a time"}, "ds/envoy": {1, "one node at a time"}, "DaemonSets.apps/envoy": {1, "one node at a time"},
		"deployment/envoy": {2, "was replicas 3, on 1 nodes"}, "deploy/envoy": {2, "was replicas 3, on 1 nodes"},
	} {
		out, err := f.ids("from", arg)
		var set v1alpha1.IngressDaemonSet
		if err == nil {
			err = yaml.UnmarshalStrict([]byte(out), &set)
		}
		comments := ""
		for line := range strings.Lines(out) {
			if text, found := strings.CutPrefix(strings.TrimSpace(line), "# "); found {
				comments += text + " "
			}
		}
		if err != nil || set.Name != "envoy" || set.Namespace != "default" || set.Spec.Pods() != want.pods || len(set.Spec.HealthCheckNodePorts) != 1 || !strings.Contains(comments, want.comment) {
			t.Errorf("%s: %v\n%s", arg, err, out)
		}
	}
	if out, err := f.ids("from", "daemonset/nginx"); err == nil || out != "" {
		t.Errorf("of what is not there: %v\n%s", err, out)
	}
}

// TestFromWhatIsMade is refused: whoever makes it would make it again.
func TestFromWhatIsMade(t *testing.T) {
	f := newFakeAPI(t)
	f.putFleet(midway(), onNodes(1, "aaaaaaaaaa"))
	d := &appsv1.Deployment{}
	f.read(kindDeployment, "nginx-node-1", d)
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "nginx"}}
	f.put(kindDeployment, d)
	if out, err := f.ids("from", "deployment/nginx-node-1"); err == nil || !strings.Contains(err.Error(), "is made by ingressdaemonset/nginx") || out != "" {
		t.Errorf("%v\n%s", err, out)
	}
}
