package controller

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth/healthclient"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// BenchmarkPass is what a pass costs on a fleet that has not changed: reading it,
// and deciding that nothing is to be done.
func BenchmarkPass(b *testing.B) {
	for _, nodes := range []int{1000, 5000} {
		set := benchSet()
		r := benchReconciler(b, set, nodes)
		var o *observed
		b.Run(fmt.Sprintf("observe/%d", nodes), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if o, err = r.look(b.Context(), set); err != nil || len(o.state.Nodes) != nodes {
					b.Fatalf("%d nodes, %v", len(o.state.Nodes), err)
				}
			}
		})
		b.Run(fmt.Sprintf("plan/%d", nodes), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				rollout.Plan(o.state)
			}
		})
	}
}

func benchSet() *v1alpha1.IngressDaemonSet {
	return &v1alpha1.IngressDaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: "proxy", UID: "set", Finalizers: []string{v1alpha1.Finalizer}},
		Spec: v1alpha1.IngressDaemonSetSpec{
			PodsPerNode: new(int32(2)), HealthCheckNodePorts: []int32{10080},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "proxy"}},
				Spec:       corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{Name: "proxy", Image: "nginx"}}},
			},
		},
	}
}

// benchReconciler has a cache of so many nodes, each with its Deployment, two pods
// and a health checker, and has called no health-check port yet.
func benchReconciler(b *testing.B, set *v1alpha1.IngressDaemonSet, nodes int) *Reconciler {
	b.Helper()
	r, full, err := newReconciler(set)
	if err != nil {
		b.Fatal(err)
	}
	callers := map[endpoint]*caller{}
	for i := range nodes {
		node := benchNode(i)
		for _, object := range append(benchPods(set, node.Name), node, benchDeployment(set, node.Name)) {
			if err := full.of(object).GetIndexer().Add(object); err != nil {
				b.Fatal(err)
			}
		}
		e := endpoint{Port: healthclient.Port{Node: node.Name, Address: nodeAddress(node), Number: 10080}}
		callers[e] = &caller{endpoint: e, stop: func() {}}
	}
	r.sessions.pass(set).checks.callers = callers
	return r
}

// newReconciler has an empty cache, and an API server that has nothing but the set.
func newReconciler(set *v1alpha1.IngressDaemonSet) (*Reconciler, *filled, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, nil, err
		}
	}
	full := &filled{informers: map[reflect.Type]toolscache.SharedIndexInformer{}}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(set).WithStatusSubresource(set).Build()
	r := emptyReconciler(time.Now)
	r.client, r.live, r.index = api, api, indexed(full)
	return r, full, nil
}

// look observes in the session of an IngressDaemonSet.
func (r *Reconciler) look(ctx context.Context, set *v1alpha1.IngressDaemonSet) (*observed, error) {
	return r.observe(ctx, r.sessions.pass(set), set)
}

func benchNode(i int) *corev1.Node {
	name := fmt.Sprintf("node-%05d.example.internal", i)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "1", Labels: map[string]string{"kubernetes.io/hostname": name}},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.0.%d.%d", i/250, i%250)}},
		},
	}
}

func benchDeployment(set *v1alpha1.IngressDaemonSet, node string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: set.Namespace, Name: set.Name + "-" + node, UID: types.UID("deployment of " + node), ResourceVersion: "1",
		Labels:          map[string]string{v1alpha1.LabelName: set.Name, v1alpha1.LabelNode: node},
		Annotations:     map[string]string{v1alpha1.AnnotationNode: node, v1alpha1.AnnotationPodsPerNode: "2"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.Kind)},
	}}
}

func benchPods(set *v1alpha1.IngressDaemonSet, node string) []client.Object {
	pod := func(name string, labels, annotations map[string]string) *corev1.Pod {
		labels[v1alpha1.LabelName] = set.Name
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: name + "-" + node, UID: types.UID(name + node), ResourceVersion: "1", Labels: labels, Annotations: annotations},
			Spec:       corev1.PodSpec{NodeName: node},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		}
	}
	proxy := func(name string) *corev1.Pod {
		revision := objects.Revision(objects.Template(set))
		return pod(name, map[string]string{v1alpha1.LabelNode: node, v1alpha1.LabelRevision: revision}, map[string]string{v1alpha1.AnnotationNode: node})
	}
	checker := pod("checker", map[string]string{v1alpha1.LabelHealthCheckPort: objects.PortLabel(10080), v1alpha1.LabelHealthCheckerRevision: "1"}, nil)
	return []client.Object{proxy("one"), proxy("two"), checker}
}

// filled is a cache that nobody fills any further.
type filled struct {
	cache.Cache
	informers map[reflect.Type]toolscache.SharedIndexInformer
}

func (f *filled) GetInformer(_ context.Context, kind client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return f.of(kind), nil
}

func (f *filled) of(kind client.Object) toolscache.SharedIndexInformer {
	typ := reflect.TypeOf(kind)
	if f.informers[typ] == nil {
		f.informers[typ] = toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, kind, 0, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc, byNode: nodeIndexers[byNode]})
	}
	return f.informers[typ]
}
