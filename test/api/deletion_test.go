package api

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
)

const (
	allowed = `{metadata: {annotations: {` + v1alpha1.AnnotationAllowForegroundDeletion + `: ""}}}`
	// finalizer is what makes a deletion one in the foreground.
	finalizer = `{metadata: {finalizers: [foregroundDeletion]}}`
)

// made creates an object of its own name and deletes it for good at the end.
func made(t *testing.T, name string, patches ...string) *unstructured.Unstructured {
	t.Helper()
	object, err := objects().Create(t.Context(), changed(append(patches, `{metadata: {name: `+name+`}}`)...), createOptions)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { deleteForGood(objects(), name) })
	return object
}

func deleteForGood(in dynamic.ResourceInterface, name string) {
	ctx := context.Background()
	_, _ = in.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	_ = in.Delete(ctx, name, metav1.DeleteOptions{})
}

// deletion is how somebody deletes in a dry run; nothing is said where policy is empty.
func deletion(policy metav1.DeletionPropagation) metav1.DeleteOptions {
	options := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	if policy != "" {
		options.PropagationPolicy = &policy
	}
	return options
}

func wantAnswer(t *testing.T, what string, refused bool, err error) {
	t.Helper()
	switch {
	case refused && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "stops the pods of all nodes at once")):
		t.Errorf("%s is not refused: %v", what, err)
	case !refused && err != nil:
		t.Errorf("%s is refused: %v", what, err)
	}
}

func TestForegroundDeletionIsRefused(t *testing.T) {
	made(t, "kept")
	made(t, "allowed", allowed)
	made(t, "finalized", allowed, finalizer)
	patch(t, "finalized", `{"metadata":{"annotations":null}}`)
	for _, c := range []struct {
		name    string
		policy  metav1.DeletionPropagation
		refused bool
	}{
		{"kept", metav1.DeletePropagationForeground, true},
		{"kept", metav1.DeletePropagationBackground, false},
		{"kept", metav1.DeletePropagationOrphan, false},
		{"kept", "", false},
		{"allowed", metav1.DeletePropagationForeground, false},
		{"finalized", "", true},
		{"finalized", metav1.DeletePropagationBackground, false},
	} {
		err := objects().Delete(t.Context(), c.name, deletion(c.policy))
		wantAnswer(t, fmt.Sprintf("deletion of %s, policy %q", c.name, c.policy), c.refused, err)
	}
	every := metav1.ListOptions{FieldSelector: "metadata.name=kept"}
	wantAnswer(t, "deletion of a collection", true, objects().DeleteCollection(t.Context(), deletion(metav1.DeletePropagationForeground), every))
	wantAnswer(t, "deletion of a collection in the background", false, objects().DeleteCollection(t.Context(), deletion(metav1.DeletePropagationBackground), every))
}

func patch(t *testing.T, name, merge string) {
	t.Helper()
	if _, err := objects().Patch(t.Context(), name, types.MergePatchType, []byte(merge), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestForegroundFinalizerIsRefused where it is added; where it is, nothing else is hindered.
func TestForegroundFinalizerIsRefused(t *testing.T) {
	made(t, "kept")
	made(t, "finalized", allowed, finalizer)
	for _, c := range []struct {
		what, name, patch string
		refused           bool
	}{
		{"adding it", "kept", `{"metadata":{"finalizers":["foregroundDeletion"]}}`, true},
		{"adding it beside another", "kept", `{"metadata":{"finalizers":["example.com/a","foregroundDeletion"]}}`, true},
		{"adding it with the annotation", "kept", `{"metadata":{"finalizers":["foregroundDeletion"],"annotations":{"` + v1alpha1.AnnotationAllowForegroundDeletion + `":""}}}`, false},
		{"adding another", "kept", `{"metadata":{"finalizers":["example.com/a"]}}`, false},
		{"taking the annotation away", "finalized", `{"metadata":{"annotations":null}}`, false},
		{"removing it", "finalized", `{"metadata":{"finalizers":null,"annotations":null}}`, false},
	} {
		_, err := objects().Patch(t.Context(), c.name, types.MergePatchType, []byte(c.patch), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		wantAnswer(t, c.what, c.refused, err)
	}
	wantAnswer(t, "creating an object with it", true, attempt(t.Context(), changed(finalizer)).err)
	wantAnswer(t, "creating an allowed object with it", false, attempt(t.Context(), changed(finalizer, allowed)).err)
}

// TestGarbageCollectorMayDeleteInTheForeground, by either of its names: it tries again
// and again, and what it deletes has lost its owner in any case.
func TestGarbageCollectorMayDeleteInTheForeground(t *testing.T) {
	made(t, "kept")
	for user, refused := range map[string]bool{
		"system:serviceaccount:kube-system:generic-garbage-collector": false,
		"system:kube-controller-manager":                              false,
		"system:serviceaccount:argocd:argocd-application-controller":  true,
	} {
		as := rest.CopyConfig(config)
		as.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
		c, err := dynamic.NewForConfig(as)
		if err != nil {
			t.Fatal(err)
		}
		err = c.Resource(resource).Namespace("default").Delete(t.Context(), "kept", deletion(metav1.DeletePropagationForeground))
		wantAnswer(t, "deletion by "+user, refused, err)
	}
}

// TestDeletionsOfOthersAreNotHindered plays what deletes an object beside its users: the
// garbage collector after its owner, which is in the foreground where the object itself
// owns something, and the end of its namespace.
func TestDeletionsOfOthersAreNotHindered(t *testing.T) {
	foreground := metav1.DeletePropagationForeground
	configMaps := client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace("default")
	configMap := func(name string, owner *unstructured.Unstructured) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		o.SetName(name)
		if owner != nil {
			o.SetOwnerReferences([]metav1.OwnerReference{reference(owner)})
		}
		o, err := configMaps.Create(t.Context(), o, createOptions)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	owner := configMap("owner", nil)
	owned := changed(`{metadata: {name: owned}}`)
	owned.SetOwnerReferences([]metav1.OwnerReference{reference(owner)})
	owned, err := objects().Create(t.Context(), owned, createOptions)
	if err != nil {
		t.Fatal(err)
	}
	configMap("owned-in-turn", owned)

	namespaces := client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
	ending := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "ending"}}}
	if _, err := namespaces.Create(t.Context(), ending, createOptions); err != nil {
		t.Fatal(err)
	}
	within := client.Resource(resource).Namespace("ending")
	if _, err := within.Create(t.Context(), changed(`{metadata: {name: within}}`), createOptions); err != nil {
		t.Fatal(err)
	}

	if err := configMaps.Delete(t.Context(), "owner", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	if err := namespaces.Delete(t.Context(), "ending", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]dynamic.ResourceInterface{"owned": objects(), "within": within} {
		if err := await.NoError(t.Context(), func() error {
			_, err := in.Get(t.Context(), name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("%s is there: %v", name, err)
		}); err != nil {
			t.Error(err)
		}
	}
}

func reference(owner *unstructured.Unstructured) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(), BlockOwnerDeletion: new(true),
	}
}
