package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// twoTemplates is a node whose Deployment has pods of two ReplicaSets with one revision, the
// second of which has its template: two of the first, and one of either that is rejected.
type twoTemplates struct {
	t    *testing.T
	r    *Reconciler
	full *filled
	set  *v1alpha1.IngressDaemonSet
	d    *appsv1.Deployment
	asks *asks
}

func newTwoTemplates(t *testing.T) *twoTemplates {
	set := benchSet()
	r, full, err := newReconciler(set)
	if err != nil {
		t.Fatal(err)
	}
	f := &twoTemplates{t: t, r: r, full: full, set: set, d: benchDeployment(set, "node-1"), asks: &asks{Reader: r.live, fails: map[string]error{}}}
	r.live = f.asks
	template := func(args ...string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelRevision: "r1"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "proxy", Args: args}}},
		}
	}
	f.d.ResourceVersion, f.d.Generation, f.d.Spec.Replicas, f.d.Spec.Template = "", 2, new(int32(3)), template("new")
	stored := []client.Object{f.d}
	for _, hash := range []string{"old", "new"} {
		own := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: f.d.Namespace, Name: f.d.Name + "-" + hash,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(f.d, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		}, Spec: appsv1.ReplicaSetSpec{Template: template(hash)}}
		own.Spec.Template.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
		stored = append(stored, own)
	}
	for _, object := range stored {
		if err := r.client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	node := benchNode(1)
	node.Name, node.Status.Addresses = "node-1", nil
	f.sees(node)
	f.seesDeployment()
	for name, hash := range map[string]string{"a": "old", "b": "old", "c": "old", "d": "new"} {
		pod := benchPods(set, "node-1")[0].(*corev1.Pod)
		pod.Name, pod.UID = name, types.UID(name)
		pod.Labels[v1alpha1.LabelRevision], pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "r1", hash
		if name > "b" {
			pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu"}
		}
		f.sees(pod)
	}
	return f
}

// sees puts an object into the cache.
func (f *twoTemplates) sees(obj client.Object) {
	if err := f.full.of(obj).GetIndexer().Add(obj); err != nil {
		f.t.Fatal(err)
	}
	f.r.saw(obj)
}

// seesDeployment puts it into the cache as it is.
func (f *twoTemplates) seesDeployment() { f.sees(transformed(f.d)) }

// older are the pods that a pass takes for older, and what it asked the API server for.
func (f *twoTemplates) older() (pods, asked string) {
	f.asks.names = nil
	o, err := f.r.look(f.t.Context(), f.set)
	if err != nil {
		f.t.Fatal(err)
	}
	older := func(p rollout.Pod) bool { return p.Older }
	for _, p := range o.state.Nodes[0].Pods {
		if older(p) {
			pods += p.Name
		}
	}
	if slices.ContainsFunc(o.nodes["node-1"].reading.out.Pods, older) {
		f.t.Error("what was read of the objects is changed")
	}
	return pods, strings.Join(f.asks.names, " ")
}

// asks notes which Deployments and ReplicaSets are read, and fails where it is told to.
type asks struct {
	client.Reader
	names []string
	fails map[string]error
}

func (a *asks) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	switch obj.(type) {
	case *appsv1.Deployment, *appsv1.ReplicaSet:
		a.names = append(a.names, key.Name)
	}
	if err := a.fails[key.Name]; err != nil {
		return err
	}
	return a.Reader.Get(ctx, key, obj, opts...)
}

// TestComparesTemplates: where pods of several templates of one revision are rejected, the
// API server is asked once with each generation which of them are older.
func TestComparesTemplates(t *testing.T) {
	const d, older, present = "proxy-node-1", "proxy-node-1-old", "proxy-node-1-new"
	for name, test := range map[string]struct {
		change func(f *twoTemplates)
		// pods are taken for older, first asked for at first, then in the next pass.
		pods, first, then string
	}{
		"two templates": {func(*twoTemplates) {}, "abc", d + " " + older + " " + present, ""},
		"none fails": {func(f *twoTemplates) {
			for _, object := range f.full.of(&corev1.Pod{}).GetIndexer().List() {
				object.(*corev1.Pod).Status = corev1.PodStatus{Phase: corev1.PodRunning}
			}
		}, "", "", ""},
		"the Deployment cannot be read": {func(f *twoTemplates) { f.asks.fails[d] = errors.New("no") }, "", d, d},
		"it has changed":                {func(f *twoTemplates) { f.d.Generation--; f.seesDeployment() }, "", d, d},
		"one cannot be read":            {func(f *twoTemplates) { f.asks.fails[older] = errors.New("no") }, "abc", d + " " + older + " " + present, ""},
		"the other cannot be read":      {func(f *twoTemplates) { f.asks.fails[present] = errors.New("no") }, "abc", d + " " + older + " " + present, d + " " + present},
		"neither is there": {func(f *twoTemplates) {
			for _, name := range []string{older, present} {
				gone := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: f.d.Namespace, Name: name}}
				if err := f.r.client.Delete(f.t.Context(), gone); err != nil {
					f.t.Fatal(err)
				}
			}
		}, "", d + " " + older + " " + present, d + " " + older + " " + present},
	} {
		t.Run(name, func(t *testing.T) {
			f := newTwoTemplates(t)
			test.change(f)
			for pass, want := range []string{test.first, test.then} {
				if pods, asked := f.older(); pods != test.pods || asked != want {
					t.Errorf("pass %d takes %q for older, want %q; it asks for %q, want %q", pass+1, pods, test.pods, asked, want)
				}
			}
		})
	}
}

// TestComparesAgain with another generation, in which another template may be the present
// one, and with another Deployment of the same name.
func TestComparesAgain(t *testing.T) {
	f := newTwoTemplates(t)
	f.older()
	back := &appsv1.ReplicaSet{}
	if err := f.r.client.Get(t.Context(), client.ObjectKey{Namespace: f.d.Namespace, Name: f.d.Name + "-old"}, back); err != nil {
		t.Fatal(err)
	}
	f.d.Generation, f.d.Spec.Template.Spec = f.d.Generation+1, back.Spec.Template.Spec
	if err := f.r.client.Update(t.Context(), f.d); err != nil {
		t.Fatal(err)
	}
	f.seesDeployment()
	if pods, asked := f.older(); pods != "d" || asked != "proxy-node-1 proxy-node-1-old" {
		t.Errorf("after it went back %q are taken for older; it asks for %q", pods, asked)
	}
	f.d.UID = "another"
	if err := f.r.client.Update(t.Context(), f.d); err != nil {
		t.Fatal(err)
	}
	f.seesDeployment()
	if pods, asked := f.older(); pods != "" || !strings.HasPrefix(asked, "proxy-node-1 ") {
		t.Errorf("of another Deployment %q are taken for older; it asks for %q", pods, asked)
	}
}

// TestKeepsWhatItCompared when the pods that were rejected are gone: the planner decides by
// it what to try again.
func TestKeepsWhatItCompared(t *testing.T) {
	f := newTwoTemplates(t)
	f.older()
	for _, object := range f.full.of(&corev1.Pod{}).GetIndexer().List() {
		if pod := object.(*corev1.Pod); pod.Status.Phase == corev1.PodFailed {
			if err := f.full.of(pod).GetIndexer().Delete(pod); err != nil {
				t.Fatal(err)
			}
			f.r.saw(pod)
		}
	}
	if pods, asked := f.older(); pods != "ab" || asked != "" {
		t.Errorf("%q are taken for older; it asks for %q", pods, asked)
	}
}
