package controller

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth/healthclient"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func deployment(version string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "edge", Name: "proxy-node", UID: "deployment", ResourceVersion: version,
		OwnerReferences: []metav1.OwnerReference{{UID: "set", Controller: new(true)}},
	}}
}

// TestWritten sees own writes until the cache has caught up with them.
func TestWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMutationCache(time.Now)
		never := func(*appsv1.Deployment) bool { return false }
		cached, own, newer := deployment("9"), deployment("10"), deployment("11")
		if latest(w, cached) != cached {
			t.Error("nothing was written")
		}
		w.remember(own)
		if latest(w, cached) != own {
			t.Error("an own write is not seen")
		}
		if got := unseen(w, "set", never); len(got) != 1 || got[0] != own {
			t.Errorf("unseen: %v", got)
		}
		if got := unseen(w, "other", never); len(got) > 0 {
			t.Error("somebody else's is seen")
		}
		if got := unseen(w, "set", func(d *appsv1.Deployment) bool { return d.Name == own.Name }); len(got) > 0 {
			t.Error("what the cache has is unseen")
		}
		if latest(w, newer) != newer || latest(w, cached) != cached {
			t.Error("an own write is seen after the cache has caught up")
		}

		w.remember(own)
		again := deployment("9")
		again.UID = "another"
		if latest(w, again) != again {
			t.Error("an own write is seen in another object of the name")
		}

		w.remember(own)
		if w.gone(again); since(w, own) != own || since(w, cached) != own || len(w.objects) != 1 {
			t.Error("an own write is forgotten when another object of the name was deleted, or when it is looked at again")
		}
		w.gone(own)
		if latest(w, cached) != cached {
			t.Error("a deleted object is seen")
		}

		// Deleted while the watch was broken: no event ever tells.
		w.remember(own)
		time.Sleep(longestLag + time.Second)
		if got := unseen(w, "set", never); len(got) > 0 || len(w.objects) > 0 {
			t.Error("an object that the cache never saw is kept for ever")
		}
	})
}

// TestBuriedPods are seen no more, though the cache still holds them, and their nodes are
// looked at, until the cache says that they are gone or a while has passed.
func TestBuriedPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMutationCache(time.Now)
		pod, other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "one"}}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "other"}}
		w.bury(benchSet(), pod, "node-1")
		w.bury(benchSet(), other, "node-2")
		nodes := map[string]bool{}
		if w.nodes(benchSet(), nodes); !w.buried(pod) || !w.buried(other) || !nodes["node-1"] || !nodes["node-2"] {
			t.Errorf("they are seen, or their nodes are not: %v", nodes)
		}
		if w.gone(pod); w.buried(pod) || !w.buried(other) {
			t.Error("what the cache has dropped is remembered, or more is forgotten")
		}
		time.Sleep(longestLag + time.Second)
		w.bury(benchSet(), pod, "node-1")
		nodes = map[string]bool{}
		if w.nodes(benchSet(), nodes); w.buried(other) || !w.buried(pod) || nodes["node-2"] {
			t.Error("a pod that the cache holds for ever is never seen again, or its node looked at for ever")
		}
	})
}

// lasting is a clock by which every pass takes so long.
func lasting(took time.Duration) func() time.Duration {
	var spent time.Duration
	return func() time.Duration { spent += took; return spent }
}

// TestThrottle pauses for many times as long as it took to decide.
func TestThrottle(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: shortestPause, 100 * time.Microsecond: shortestPause, 40 * time.Millisecond: 2400 * time.Millisecond, time.Minute: longestPause,
	} {
		p := &throttle{spent: lasting(took)}
		p.effort()(true)
		if got := p.pause(); got != want {
			t.Errorf("a pass of %s is followed by a pause of %s, want %s", took, got, want)
		}
	}
	p := &throttle{spent: lasting(time.Minute)}
	p.effort()(false)
	if got := p.pause(); got != shortestPause {
		t.Errorf("a pass that was not made is followed by a pause of %s", got)
	}
	now := time.Now()
	if p.report(now, "1"); p.lastReport() != (lastReport{now, "1"}) {
		t.Error("it does not remember")
	}
}

// TestDryRun lets a refusal stand for a while, and an acceptance for good, each of the revision that
// was asked about last.
func TestDryRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dryRun{now: time.Now}
		if d.of("a").Done || !d.retryAt(d.of("a")).IsZero() {
			t.Error("nothing was asked")
		}
		d.set("a", nil)
		time.Sleep(askAgain + time.Second)
		if !d.retryAt(d.of("a")).IsZero() || !d.of("a").Done || d.of("a").Refusal != "" || d.of("b").Done {
			t.Errorf("what was accepted is %+v, another %+v", d.of("a"), d.of("b"))
		}
		d.set("b", errors.New(strings.Repeat("no ", 10000)))
		refused := d.of("b")
		if d.of("a").Done || !refused.Done || refused.Refusal == "" || len(refused.Refusal) > 2000 {
			t.Errorf("%t, %d", refused.Done, len(refused.Refusal))
		}
		if got := d.retryAt(refused); got != time.Now().Add(askAgain) || !d.of("b").Done {
			t.Errorf("it asks again at %s", got)
		}
		time.Sleep(askAgain - 1)
		if !d.of("b").Done {
			t.Error("it asks again too soon")
		}
		time.Sleep(1)
		if d.of("b").Done || d.retryAt(refused).After(time.Now()) {
			t.Error("it does not ask again about a refusal")
		}
	})
}

func managed(manager string, operation metav1.ManagedFieldsOperationType, subresource, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, Subresource: subresource, FieldsV1: metav1.NewFieldsV1(fields)}
}

// TestManagedFields tells who has a say in the spec of a Deployment.
func TestManagedFields(t *testing.T) {
	const spec, annotations = `{"f:spec":{"f:replicas":{}}}`, `{"f:metadata":{"f:annotations":{"f:a":{}}}}`
	const apply, update = metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate
	read := objects.ReaderOf(&v1alpha1.IngressDaemonSet{})
	for what, c := range map[string]struct {
		entry             metav1.ManagedFieldsEntry
		drifted, outlives bool
	}{
		"our own":                   {managed(objects.FieldManager, apply, "", spec), false, false},
		"our own from a patch":      {managed(objects.FieldManager, update, "", spec), false, true},
		"our own marks":             {managed(objects.FieldManager, update, "", annotations), false, false},
		"kubectl":                   {managed("kubectl-set", update, "", spec), true, true},
		"kubectl apply":             {managed("kubectl", apply, "", spec), true, true},
		"kubectl scale":             {managed("kubectl", update, "scale", spec), true, true},
		"the Deployment controller": {managed("kube-controller-manager", update, "status", `{"f:status":{},"f:metadata":{}}`), false, false},
		"kubectl annotate":          {managed("kubectl-annotate", update, "", annotations), false, false},
		"nonsense":                  {managed("x", update, "", "{"), false, false},
		"nothing":                   {metav1.ManagedFieldsEntry{Manager: "x"}, false, false},
	} {
		d := deployment("1")
		d.ManagedFields = []metav1.ManagedFieldsEntry{c.entry}
		// What the cache keeps must say the same, however often it is stripped.
		for range 3 {
			n, err := read.Node("n", nil, d, nil)
			if err != nil || n.Deployment.Drifted != c.drifted || len(d.ManagedFields) > 0 && objects.Outlives(d.ManagedFields[0]) != c.outlives {
				t.Errorf("%s: drifted %t, managed fields %v, %v", what, n.Deployment.Drifted, d.ManagedFields, err)
			}
			if _, err := transformDeployment(d); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestTransforms keeps what is read and no more: of a Deployment not even the template.
func TestTransforms(t *testing.T) {
	d := deployment("1")
	d.Spec.Template.Labels = map[string]string{v1alpha1.LabelRevision: "r", "app": "proxy"}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: strings.Repeat("x", 10000)}}
	taken := corev1.ContainerPort{ContainerPort: 80, HostPort: 8080}
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{
		d.Spec.Template.Spec.Containers[0], {Name: "proxy", Image: "nginx", Ports: []corev1.ContainerPort{taken, {ContainerPort: 81}}},
	}}, Status: corev1.PodStatus{
		ContainerStatuses: []corev1.ContainerStatus{{Name: "proxy", ImageID: strings.Repeat("x", 10000), State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: strings.Repeat("x", 10000)},
		}}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled}, {Type: corev1.ContainersReady}, {Type: "example.com/gate"}},
	}}
	node := &corev1.Node{Status: corev1.NodeStatus{
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10350}},
		Images:          []corev1.ContainerImage{{Names: []string{strings.Repeat("x", 10000)}}},
		Conditions:      []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure}, {Type: corev1.NodeReady, Reason: "KubeletReady"}},
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "n"}, {Type: corev1.NodeInternalIP, Address: "192.0.2.1"}, {Type: corev1.NodeExternalIP, Address: "203.0.113.1"}},
	}}
	for _, obj := range []any{d, pod, node} {
		for _, transform := range []func(any) (any, error){transformDeployment, transformPod, transformNode} {
			if _, err := transform(obj); err != nil {
				t.Error(err)
			}
		}
		if data, err := json.Marshal(obj); err != nil || len(data) > 1000 {
			t.Errorf("%T takes %d bytes, %v", obj, len(data), err)
		}
	}
	if diff := cmp.Diff(map[string]string{v1alpha1.LabelRevision: "r"}, d.Spec.Template.Labels); diff != "" || pod.Spec.NodeName != "n" {
		t.Errorf("it lost what is read: %s", diff)
	}
	if diff := cmp.Diff([]corev1.PodCondition{{Type: corev1.ContainersReady}, {Type: "example.com/gate"}}, pod.Status.Conditions); diff != "" {
		t.Errorf("conditions of a pod: %s", diff)
	}
	if diff := cmp.Diff(corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Ports: []corev1.ContainerPort{taken}}}}, pod.Spec); diff != "" {
		t.Errorf("spec of a pod: %s", diff)
	}
	kept := corev1.NodeStatus{
		DaemonEndpoints: node.Status.DaemonEndpoints,
		Conditions:      []corev1.NodeCondition{{Type: corev1.NodeReady, Reason: "KubeletReady"}},
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}, {Type: corev1.NodeExternalIP, Address: "203.0.113.1"}},
	}
	if diff := cmp.Diff(kept, node.Status); diff != "" {
		t.Errorf("status of a node: %s", diff)
	}
	if _, err := transformPod("a tombstone"); err != nil {
		t.Error(err)
	}
	sharing := &corev1.Pod{Spec: corev1.PodSpec{HostNetwork: true}}
	if _, err := transformPod(sharing); err != nil || !sharing.Spec.HostNetwork {
		t.Errorf("it lost that a pod is on the host network: %v", err)
	}
}

// TestListenersAreSmall: a question waits at each port of thousands of nodes, with a stack.
func TestListenersAreSmall(t *testing.T) {
	info, _ := debug.ReadBuildInfo()
	if info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector needs more")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const listeners, most = 400, 2 << 10
	c := newChecks(theSet, func() {}, func(ctx context.Context, c *checks, to *caller) {
		to.known.ETag = "a"
		listen(ctx, c, to)
	}, time.Now)
	var endpoints []endpoint
	for i := range listeners {
		at := healthclient.Port{Node: strconv.Itoa(i), Address: "127.0.0.1", Number: int32(l.Addr().(*net.TCPAddr).Port)}
		endpoints = append(endpoints, endpoint{Port: at})
	}
	before := stacks()
	c.want(endpoints)
	defer c.want(nil)
	for asked := 0; asked < listeners; {
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.ReadFull(conn, make([]byte, 200)); err == nil {
			// On a busy machine some take too long to connect, and ask again.
			asked++
		}
	}
	if got := (stacks() - before) / listeners; got > most+most/10 {
		t.Errorf("a question that waits takes %d bytes of stack, want %d", got, most)
	}
}

// stacks is how many bytes all stacks take up when they have been shrunk.
func stacks() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.StackInuse)
}

// TestTransformedObjectsShareTheirStrings holds what thousands of objects have in common once,
// and not for ever.
func TestTransformedObjectsShareTheirStrings(t *testing.T) {
	node := func(name string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{strings.Clone("zone"): strings.Clone("a"), "name": name}, Annotations: map[string]string{strings.Clone("cni"): strings.Clone("x")},
		}}
	}
	keys := map[*byte]bool{}
	for i := range 2 * mostInterned {
		n := node(strconv.Itoa(i))
		if _, err := transformNode(n); err != nil {
			t.Fatal(err)
		}
		if i >= 10 {
			continue
		}
		for key := range n.Labels {
			keys[unsafe.StringData(key)] = true
		}
		for key := range n.Annotations {
			keys[unsafe.StringData(key)] = true
		}
		keys[unsafe.StringData(n.Labels["zone"])] = true
		if diff := cmp.Diff(node(strconv.Itoa(i)).ObjectMeta, n.ObjectMeta); diff != "" {
			t.Error(diff)
		}
	}
	if len(keys) != 4 {
		t.Errorf("3 keys and a value of 10 nodes are %d strings", len(keys))
	}
	if len(texts.all) > mostInterned {
		t.Errorf("%d strings are held", len(texts.all))
	}
}

// TestTransformedPodsShareTheirMaps: the pods of a node have one map of annotations, and all health
// checkers one of labels.
func TestTransformedPodsShareTheirMaps(t *testing.T) {
	labels, annotations := map[uintptr]bool{}, map[uintptr]bool{}
	for i := range 10 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{v1alpha1.LabelName: "proxy", v1alpha1.LabelHealthCheckPort: "10080", "controller-revision-hash": strconv.Itoa(i)},
			Annotations: map[string]string{v1alpha1.AnnotationNode: "node-" + strconv.Itoa(i%2), "checksum": strconv.Itoa(i)},
		}}
		if _, err := transformPod(pod); err != nil {
			t.Fatal(err)
		}
		labels[reflect.ValueOf(pod.Labels).Pointer()] = true
		annotations[reflect.ValueOf(pod.Annotations).Pointer()] = true
		if len(pod.Labels) != 2 || len(pod.Annotations) != 1 || pod.Annotations[v1alpha1.AnnotationNode] != "node-"+strconv.Itoa(i%2) {
			t.Errorf("pod %d: %v, %v", i, pod.Labels, pod.Annotations)
		}
	}
	if len(labels) != 1 || len(annotations) != 2 {
		t.Errorf("%d maps of labels and %d of annotations", len(labels), len(annotations))
	}
}

func TestUntilNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		for _, c := range []struct {
			moments []time.Time
			want    time.Duration
		}{
			{nil, 0}, {[]time.Time{{}, {}}, 0}, {[]time.Time{{}, now.Add(time.Minute), now.Add(time.Second)}, time.Second},
			{[]time.Time{now.Add(-time.Minute), now.Add(time.Second)}, time.Millisecond},
		} {
			if got := untilNext(now, c.moments...); got != c.want {
				t.Errorf("%v: got %s, want %s", c.moments, got, c.want)
			}
		}
	})
}

// TestShortened fits into an event's note, which may be 1024 bytes long.
func TestShortened(t *testing.T) {
	for _, note := range []string{"", "short", strings.Repeat("x", 5000), strings.Repeat("ü", 5000), "x" + strings.Repeat("ü", 5000)} {
		if got := shortened(note); len(got) > 1024 || !utf8.ValidString(got) || len(note) < 1000 && got != note {
			t.Errorf("%d bytes became %d", len(note), len(got))
		}
	}
}

// TestTransformPodOfAnybody keeps where pods listen, how they end and what they wait for, also
// when it has been stripped before.
func TestTransformPodOfAnybody(t *testing.T) {
	preStop := &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		HostNetwork: true, TerminationGracePeriodSeconds: new(int64(9)), ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "gate"}},
		Containers: []corev1.Container{
			{Name: "listens", Image: "a", Ports: []corev1.ContainerPort{{ContainerPort: 80}}, Lifecycle: &corev1.Lifecycle{PostStart: preStop}},
			{Name: "sleeps", Image: "b", Lifecycle: &corev1.Lifecycle{PreStop: preStop, PostStart: preStop}},
			{Name: "neither", Image: "c"},
		},
	}}
	pod.Labels = map[string]string{"app": "proxy"}
	want := corev1.PodSpec{
		HostNetwork: true, TerminationGracePeriodSeconds: new(int64(9)), ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "gate"}},
		Containers: []corev1.Container{
			{Name: "listens", Ports: []corev1.ContainerPort{{ContainerPort: 80}}},
			{Name: "sleeps", Lifecycle: &corev1.Lifecycle{PreStop: preStop}},
		},
	}
	for range 2 {
		if _, err := transformPodOfAnybody(pod); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, pod.Spec); diff != "" || pod.Labels["app"] != "proxy" {
			t.Errorf("it is not as it should be: %s", diff)
		}
	}
}
