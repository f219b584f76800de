package apiserver

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// side is one of the two API servers, with what was read there.
type side struct {
	client.Client
	// versions are all that were read, also of earlier objects of the name; stored is
	// the last, nil where there is no object.
	versions []client.Object
	stored   client.Object
}

// version is a copy of one that was read, 0 the newest.
func (s *side) version(back int) client.Object {
	return s.versions[len(s.versions)-1-back].DeepCopyObject().(client.Object)
}

// outcome is what became of a write, in terms that both servers share.
type outcome struct {
	// Refused is why, empty where it was not, and Fault what is invalid.
	Refused metav1.StatusReason
	Fault   metav1.StatusCause
	// Became is what the object was and is then.
	Became string
	// Answer and Stored are without what differs between servers.
	Answer, Stored map[string]any
	// Answered says whether the answer is the version that is stored.
	Answered bool
}

// compare carries a write out on both sides.
func (p *play) compare(what string, w write) {
	var outcomes [2]outcome
	for i, s := range p.sides {
		outcomes[i] = p.outcome(s, w)
	}
	if diff := cmp.Diff(outcomes[0], outcomes[1]); diff != "" {
		p.Fatalf("%s: of the real server (-) and that in memory (+)\n%s", what, diff)
	}
	p.Logf("%s: %s, %s", what, outcomes[0].Became, outcomes[0].Refused)
}

func (p *play) outcome(s *side, w write) outcome {
	var out outcome
	answer, err := w(s)
	if err != nil {
		p.Log(err)
		if out.Refused = apierrors.ReasonForError(err); out.Refused == metav1.StatusReasonUnknown {
			p.Fatal(err)
		}
		out.Fault, _ = apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid)
		out.Fault.Message = ""
	}
	before := s.stored
	p.read(s)
	out.Became = became(before, s.stored)
	if s.stored == nil {
		// Nobody reads what an object was at its end.
		return out
	}
	out.Stored = p.shared(s.stored)
	if err == nil && answer != nil {
		out.Answer, out.Answered = p.shared(answer), answer.GetResourceVersion() == s.stored.GetResourceVersion()
	}
	return out
}

// read reads the object as it is stored, and its metadata alone.
func (p *play) read(s *side) {
	obj := p.whole(p.name, contents{})
	key, now := client.ObjectKeyFromObject(obj), p.empty()
	err := s.Get(ctx, key, now)
	if apierrors.IsNotFound(err) {
		s.stored = nil
		return
	}
	if err != nil {
		p.Fatal(err)
	}
	if s.stored == nil || s.stored.GetResourceVersion() != now.GetResourceVersion() {
		s.versions = append(s.versions, now)
	}
	s.stored = now
}

func became(before, after client.Object) string {
	switch {
	case before == nil && after == nil:
		return "nothing"
	case before == nil:
		return "created"
	case after == nil:
		return "gone"
	case before.GetUID() != after.GetUID():
		return "another object"
	}
	newer, err := resourceversion.CompareResourceVersion(after.GetResourceVersion(), before.GetResourceVersion())
	if err != nil {
		return err.Error()
	}
	return map[int]string{-1: "older", 0: "the same", 1: "newer"}[newer]
}

// shared is an object without what differs between the servers, or what only the real one
// has and nobody here reads.
func (p *play) shared(obj client.Object) map[string]any {
	obj = obj.DeepCopyObject().(client.Object)
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	fields := claims(obj.GetManagedFields())
	deleted := obj.GetDeletionTimestamp() != nil
	obj.SetUID("")
	obj.SetResourceVersion("")
	obj.SetCreationTimestamp(metav1.Time{})
	obj.SetDeletionTimestamp(nil)
	obj.SetManagedFields(nil)
	switch obj := obj.(type) {
	case *appsv1.DaemonSet:
		delete(obj.Annotations, appsv1.DeprecatedTemplateGeneration)
	case *corev1.Pod:
		// Admission fills in the rest, and nobody counts generations of pods.
		obj.Generation, obj.Spec, obj.Status = 0, corev1.PodSpec{}, corev1.PodStatus{}
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		p.Fatal(err)
	}
	tree["deleted"] = deleted
	if _, ok := obj.(*appsv1.Deployment); ok {
		// Nobody asks who wrote which fields of others.
		tree["claims"] = fields
	}
	return tree
}

// claims are who wrote, how, and what at the top. Nobody asks who wrote metadata, whose
// lists are one field each in memory.
func claims(entries []metav1.ManagedFieldsEntry) []string {
	var out []string
	for _, e := range entries {
		fields := map[string]any{}
		_ = json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields)
		delete(fields, "f:metadata")
		for field := range fields {
			out = append(out, fmt.Sprintf("%s by %s, %s %s", field, e.Manager, e.Operation, e.Subresource))
		}
	}
	slices.Sort(out)
	return out
}
