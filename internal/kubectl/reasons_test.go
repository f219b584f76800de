package kubectl

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/golden"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const probeSays = "Readiness probe failed: HTTP probe failed with statuscode: 503"

// unreadyFleet stores a fleet of two nodes: on the first a pod waits for its image, and one fails its probe,
// on the second one is stopped.
func unreadyFleet(t *testing.T) *fakeAPI {
	t.Helper()
	f := newFakeAPI(t)
	set := midway()
	set.Status.Wave = nil
	set.Status.Nodes = []v1alpha1.NodeStatus{
		{Name: "node-1", State: v1alpha1.NodeUnavailable, Reason: "no pod is ready: container nginx waits: ErrImagePull: not found"},
		{Name: "node-2", State: v1alpha1.NodeDegraded, Reason: "an older pod is terminating"},
	}
	on := onNodes(2, "aaaaaaaaaa")
	pods := on.pods["node-1"]
	for _, pod := range append(pods, on.pods["node-2"][0]) {
		pod.Status.Conditions = nil
	}
	pods[0].Status.Phase, pods[0].UID = corev1.PodPending, "waits"
	pods[0].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "nginx", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}}}}
	began := ago(time.Minute)
	pods[1].UID = "fails"
	pods[1].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "nginx", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}}}}
	on.pods["node-2"][0].DeletionTimestamp = &began
	f.putFleet(set, on)
	f.put(kindEvent, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "probe", Namespace: "default"}, Type: corev1.EventTypeWarning, Reason: "Unhealthy", Message: probeSays, LastTimestamp: ago(time.Second),
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", UID: "fails", FieldPath: "spec.containers{nginx}"},
	})
	f.put(kindEvent, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "older", Namespace: "default"}, Type: corev1.EventTypeWarning, Reason: "Unhealthy", Message: "Readiness probe failed: before", LastTimestamp: ago(time.Hour),
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", UID: "fails", FieldPath: "spec.containers{nginx}"},
	})
	return f
}

// TestStatusSaysWhy a pod is not ready, where the node's reason does not say so already, with what the
// kubelet's probe said last.
func TestStatusSaysWhy(t *testing.T) {
	out, err := unreadyFleet(t).ids("status", "nginx")
	if err != nil || !strings.Contains(out, "pod nginx-node-1-1: container nginx runs and is not ready: "+probeSays) {
		t.Errorf("%v\n%s", err, out)
	}
	if strings.Count(out, "ErrImagePull") != 1 || strings.Contains(out, "nginx-node-2-0") || strings.Contains(out, "before") {
		t.Errorf("it says too much:\n%s", out)
	}
}

// TestStatusForPrograms is the object, which tells what it is.
func TestStatusForPrograms(t *testing.T) {
	f := newFakeAPI(t)
	f.put(kindSet, midway())
	for output, want := range map[string][]string{
		"yaml": {"kind: IngressDaemonSet\n", "apiVersion: " + v1alpha1.GroupVersion.String() + "\n", "servingNodes: 2\n"},
		"json": {`"kind": "IngressDaemonSet"`, `"apiVersion": "` + v1alpha1.GroupVersion.String() + `"`, `"servingNodes": 2`},
	} {
		out, err := f.ids("status", "nginx", "-o", output)
		for _, line := range want {
			if err != nil || !strings.Contains(out, line) {
				t.Errorf("%s: %v: it does not say %q:\n%s", output, err, line, out)
			}
		}
	}
}

// TestTreeSaysWhy below a node, in the column of what it waits for.
func TestTreeSaysWhy(t *testing.T) {
	reasons := map[string][]string{"node-2": {"pod a: container nginx waits: ErrImagePull", "pod b: an older pod is terminating"}, "node-9": {"pod c: unknown"}}
	golden.Equal(t, *update, filepath.Join("testdata", "status-why.txt"), tree(midway(), "", reasons, now, style{}, false))
	golden.Equal(t, *update, filepath.Join("testdata", "status-why-terminal.txt"), tree(midway(), "", reasons, now, style{terminal: true}, false))
}

// TestExplainSaysWhy each pod of a node is not ready.
func TestExplainSaysWhy(t *testing.T) {
	f := unreadyFleet(t)
	out, err := f.ids("explain", "nginx", "node-1")
	for _, want := range []string{
		"nginx-node-1-0, not ready, revision aaaaaaaaaa", "old: container nginx waits: ErrImagePull: not found\n",
		"nginx-node-1-1, not ready, revision aaaaaaaaaa", "old: container nginx runs and is not ready: " + probeSays + "\n",
	} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%v: it does not say %q:\n%s", err, want, out)
		}
	}
	if out, err := f.ids("explain", "nginx", "node-2"); err != nil || !strings.Contains(out, "nginx-node-2-0, terminating, revision") || !strings.Contains(out, "nginx-node-2-1, ready, revision") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestExplainOfANodeThatIsGone tells what is left of it, as long as anything is.
func TestExplainOfANodeThatIsGone(t *testing.T) {
	f := unreadyFleet(t)
	f.remove(kindNode, "node-1")
	out, err := f.ids("explain", "nginx", "node-1")
	if err != nil || !strings.Contains(out, "It is Unavailable: no pod is ready") || !strings.Contains(out, "There is no such Node any more.\n") || !strings.Contains(out, "nginx-node-1-0, not ready") || strings.Contains(out, "NotReady") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := f.ids("explain", "nginx", "node-9"); !apierrors.IsNotFound(err) {
		t.Errorf("one that never was: %v\n%s", err, out)
	}
}

// TestPodState tells of a pod that no kubelet has taken up that this is what it waits for.
func TestPodState(t *testing.T) {
	for want, pod := range map[string]corev1.Pod{
		"not taken up by the node's kubelet yet": {Spec: corev1.PodSpec{NodeName: "node-1"}, Status: corev1.PodStatus{Phase: corev1.PodPending}},
		"not ready":                              {Status: corev1.PodStatus{Phase: corev1.PodPending}},
		"Failed":                                 {Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu"}},
	} {
		if got := podState(&pod); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestReasonsAreReadSeldom, however often a status is shown, and stay when they cannot be read any more.
func TestReasonsAreReadSeldom(t *testing.T) {
	reads, gone := 0, error(nil)
	r := &podReasons{read: func(context.Context, *v1alpha1.IngressDaemonSet) (map[string][]string, error) {
		if reads++; gone != nil {
			return nil, gone
		}
		return map[string][]string{"node-1": {"why"}}, nil
	}}
	for i, want := range []int{1, 1, 1, 2, 2} {
		if got := r.of(t.Context(), midway(), now.Add(time.Duration(i)*time.Second)); reads != want || got["node-1"][0] != "why" {
			t.Errorf("after %d seconds: %d reads, %v", i, reads, got)
		}
	}
	gone = errors.New("connection refused")
	if got := r.of(t.Context(), midway(), now.Add(time.Minute)); reads != 3 || got["node-1"][0] != "why" {
		t.Errorf("while they cannot be read: %d reads, %v", reads, got)
	}
}
