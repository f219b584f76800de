package controller

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// write sends obj by server-side apply and remembers the answer. The API server, which refuses
// fields that it does not know in any case, need not read the request a second time for them.
func (r *Reconciler) write(ctx context.Context, obj client.Object, opts ...client.PatchOption) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	unstructured.RemoveNestedField(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	body, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	opts = append([]client.PatchOption{client.FieldOwner(objects.FieldManager), client.FieldValidation(metav1.FieldValidationIgnore)}, opts...)
	return r.client.Patch(ctx, obj, client.RawPatch(types.ApplyYAMLPatchType, body), opts...)
}

// refusal reports whether the API server judged the object, and not its own state.
func refusal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// delete deletes an object if it is still the one that was observed.
func (r *Reconciler) delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	uid := obj.GetUID()
	opts = append([]client.DeleteOption{client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground)}, opts...)
	if err := client.IgnoreNotFound(r.client.Delete(ctx, obj, opts...)); err != nil {
		return err
	}
	r.mutations.gone(obj)
	return nil
}
