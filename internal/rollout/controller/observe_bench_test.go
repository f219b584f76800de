package controller

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// filled is a cache that nobody fills any further.
type filled struct {
	cache.Cache
	informers map[reflect.Type]toolscache.SharedIndexInformer
}

func (f *filled) GetInformer(_ context.Context, kind client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return f.informers[reflect.TypeOf(kind)].(cache.Informer), nil
}

func (f *filled) add(b *testing.B, obj client.Object) {
	kind := reflect.TypeOf(obj)
	if f.informers[kind] == nil {
		f.informers[kind] = toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, obj, 0, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	}
	if err := f.informers[kind].GetIndexer().Add(obj); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkObserve is what a pass reads on 5,000 nodes that have not changed.
func BenchmarkObserve(b *testing.B) {
	const nodes = 5000
	set := &v1alpha1.IngressDaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: "proxy", UID: "set", Finalizers: []string{v1alpha1.Finalizer}},
		Spec: v1alpha1.IngressDaemonSetSpec{
			PodsPerNode: new(int32), HealthCheckNodePorts: []int32{10080},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "proxy"}},
				Spec:       corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{Name: "proxy", Image: "nginx"}}},
			},
		},
	}
	*set.Spec.PodsPerNode = 2
	revision := objects.Revision(objects.Template(set))
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			b.Fatal(err)
		}
	}
	full := &filled{informers: map[reflect.Type]toolscache.SharedIndexInformer{}}
	for i := range nodes {
		name := fmt.Sprintf("node-%05d.example.internal", i)
		full.add(b, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "1", Labels: map[string]string{"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "a"}},
			Status: corev1.NodeStatus{
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
				Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.0.%d.%d", i/250, i%250)}},
			},
		})
		owner := []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.Kind)}
		full.add(b, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
			Namespace: "edge", Name: "proxy-" + name, UID: types.UID("d" + name), ResourceVersion: "1", OwnerReferences: owner,
			Labels:      map[string]string{v1alpha1.LabelName: "proxy", v1alpha1.LabelNode: v1alpha1.LabelValue(name)},
			Annotations: map[string]string{v1alpha1.AnnotationNode: name, v1alpha1.AnnotationPodsPerNode: "2"},
		}})
		for j := range 3 {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "edge", Name: fmt.Sprintf("proxy-%s-%d", name, j), UID: types.UID(fmt.Sprint(name, j)), ResourceVersion: "1",
					Labels:      map[string]string{v1alpha1.LabelName: "proxy", v1alpha1.LabelNode: v1alpha1.LabelValue(name), v1alpha1.LabelRevision: revision},
					Annotations: map[string]string{v1alpha1.AnnotationNode: name},
				},
				Spec: corev1.PodSpec{NodeName: name},
				Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
					{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.ContainersReady, Status: corev1.ConditionTrue}}},
			}
			if j == 2 {
				pod.Annotations = nil
				pod.Labels = map[string]string{v1alpha1.LabelName: "proxy", v1alpha1.LabelHealthCheckPort: objects.PortLabel(10080), v1alpha1.LabelHealthCheckerRevision: "abc"}
			}
			full.add(b, pod)
		}
	}
	r := &Reconciler{
		client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(set).Build(), cache: full,
		written: newWritten(), dryRuns: newDryRuns(), memory: newMemory(), pace: newPace(),
	}
	for _, kind := range []client.Object{&discoveryv1.EndpointSlice{}, &corev1.ServiceAccount{}, &rbacv1.RoleBinding{}, &appsv1.DaemonSet{}} {
		full.informers[reflect.TypeOf(kind)] = toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, kind, 0, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	}
	r.live = r.client
	r.checks, r.measurements = newChecks(func(types.NamespacedName) {}), newMeasurements(nil, func(types.NamespacedName) {})
	r.checks.callers[client.ObjectKeyFromObject(set)] = map[endpoint]*caller{}
	for i := range nodes {
		e := endpoint{address: fmt.Sprintf("10.0.%d.%d", i/250, i%250), port: 10080}
		r.checks.callers[client.ObjectKeyFromObject(set)][e] = &caller{endpoint: e, stop: func() {}}
	}
	b.Run("observe", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			o, err := r.observe(b.Context(), set)
			if err != nil || len(o.state.Nodes) != nodes {
				b.Fatal(len(o.state.Nodes), err)
			}
		}
	})
	o, err := r.observe(b.Context(), set)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("plan", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			rollout.Plan(o.state)
		}
	})
}
