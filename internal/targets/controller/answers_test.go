package controller

import (
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/fakeapi"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestObjectsAreSeenAsTheyWereAnswered until a cache shows that, or nobody asks for them any more.
func TestObjectsAreSeenAsTheyWereAnswered(t *testing.T) {
	web := named("web")
	web.UID = "2"
	api := fakeapi.New(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "1"}}, web)
	pod, seen := &corev1.Pod{}, &v1alpha1.TargetGroupAttachment{}
	for name, o := range map[string]client.Object{"p": pod, "web": seen} {
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, o); err != nil {
			t.Fatal(err)
		}
	}
	r := &Reconciler{client: api, answers: newAnswers()}
	if err := r.writeHook(t.Context(), targets.HookWrite{Pod: pod, In: true}); err != nil {
		t.Fatal(err)
	}
	status := v1alpha1.TargetGroupAttachmentStatus{Targets: 7}
	if err := r.writeAttachment(t.Context(), targets.AttachmentDecision{Object: seen, Status: status}); err != nil {
		t.Fatal(err)
	}
	if newest(r.answers, pod).Annotations[v1alpha1.AnnotationTargets] != v1alpha1.TargetsIn || newest(r.answers, seen).Status.Targets != 7 {
		t.Errorf("not shown yet: %v, %v", newest(r.answers, pod).Annotations, newest(r.answers, seen).Status)
	}
	written := newest(r.answers, pod).DeepCopy()
	written.Annotations = nil
	if newest(r.answers, written) != written || newest(r.answers, pod) != pod {
		t.Error("what is shown is not believed")
	}
	r.answers.keep(map[types.UID]bool{"2": true})
	if newest(r.answers, seen) == seen {
		t.Error("forgotten though it is there")
	}
	gone := seen.DeepCopy()
	gone.UID, gone.Finalizers = "3", []string{v1alpha1.Finalizer}
	if r.answers.hasEnded(gone.UID) {
		t.Error("gone before it ended")
	}
	r.answers.ended(gone.UID)
	if !r.answers.hasEnded(gone.UID) || r.answers.hasEnded(seen.UID) {
		t.Error("what is gone is shown")
	}
	if r.answers.keep(nil); newest(r.answers, seen) != seen {
		t.Error("kept though it is gone")
	}
}

// TestAPassGoesByTheAnswers sees objects as they were written, and not what is gone, while a cache does
// not show that; and says while it may not show all of them.
func TestAPassGoesByTheAnswers(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p", ResourceVersion: "7"}}
	node := &v1alpha1.Attachment{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n", ResourceVersion: "7"}}
	web, gone := named("web"), named("gone", v1alpha1.Finalizer)
	web.ResourceVersion, gone.ResourceVersion = "7", "7"
	web.Spec.PodSelector = &metav1.LabelSelector{}
	r := reconcilerOf(t, fakeapi.New(t, pod.DeepCopy(), node.DeepCopy(), web.DeepCopy(), gone.DeepCopy()))
	for _, o := range []client.Object{pod, node, web} {
		o.SetResourceVersion("8")
		o.SetAnnotations(map[string]string{"answered": "yes"})
		r.answers.wrote(o)
	}
	r.answers.ended(gone.UID)
	for cache, behind := range map[string]bool{allAttachments: true, allNodeAttachments: true, "": false} {
		r.caches.current[allAttachments], r.caches.current[allNodeAttachments] = true, true
		if behind {
			delete(r.caches.current, cache)
		}
		o, err := r.observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if o.state.Behind != behind {
			t.Errorf("behind %t, want %t", o.state.Behind, behind)
		}
		if len(o.state.Attachments) != 1 || o.state.Attachments[0].Object != web || o.state.Attachments[0].Pods[0] != pod || o.state.NodeAttachments[0] != node {
			t.Errorf("%+v, %+v", o.state.Attachments, o.state.NodeAttachments)
		}
	}
}

// TestWhoHasAnAddress: pods of anybody are looked at where an address on record is no pod's that is
// selected, unless it has left.
func TestWhoHasAnAddress(t *testing.T) {
	at := func(namespace, ip string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p", UID: types.UID(namespace)},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}},
		}
	}
	left := metav1.Now()
	for name, c := range map[string]struct {
		group v1alpha1.AttachedGroup
		pods  []client.Object
		want  int
	}{
		"another pod has it":       {v1alpha1.AttachedGroup{ID: "g", Targets: []string{"10.0.0.1:80"}}, []client.Object{at("other", "10.0.0.1")}, 1},
		"it leaves":                {v1alpha1.AttachedGroup{ID: "g", Leaving: []v1alpha1.LeavingTarget{{Target: "10.0.0.1:80"}}}, []client.Object{at("other", "10.0.0.1")}, 1},
		"it has left":              {v1alpha1.AttachedGroup{ID: "g", Leaving: []v1alpha1.LeavingTarget{{Target: "10.0.0.1:80", LeftAt: &left}}}, []client.Object{at("other", "10.0.0.1")}, 0},
		"a selected pod has it":    {v1alpha1.AttachedGroup{ID: "g", Targets: []string{"10.0.0.1:80"}}, []client.Object{at("ns", "10.0.0.1"), at("other", "10.0.0.2")}, 0},
		"nobody has it":            {v1alpha1.AttachedGroup{ID: "g", Targets: []string{"10.0.0.1:80"}}, []client.Object{at("other", "10.0.0.2")}, 0},
		"an instance is on record": {v1alpha1.AttachedGroup{ID: "g", Targets: []string{"i-a:80"}}, []client.Object{at("other", "10.0.0.1")}, 0},
	} {
		web, beside := named("web"), named("beside")
		web.Spec.PodSelector = &metav1.LabelSelector{}
		web.Status.Groups = []v1alpha1.AttachedGroup{c.group}
		// What another namespace selects at the address says nothing of this one.
		beside.Namespace, beside.UID, beside.Spec.PodSelector = "other", "beside", &metav1.LabelSelector{}
		o, err := reconcilerOf(t, fakeapi.New(t, append(c.pods, web, beside)...)).observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(o.state.Bystanders) != c.want {
			t.Errorf("%s: %d pods are looked at, want %d", name, len(o.state.Bystanders), c.want)
		}
	}
}
