package gatewayapi

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Malformed is that an object is not as this version of the API has its kind. Every object is converted on its own, so
// that such a one is no matter of the others: one that its CRD takes and a Go type does not, such as a time with a
// lower-case z, would otherwise keep the whole list from being read.
type Malformed struct{ error }

// Convert reads an object as the API server gives it. What of its status cannot be read is left out: others write there,
// too, and it asks for nothing.
func Convert(from *unstructured.Unstructured) (client.Object, error) {
	out, err := converted(from.GetKind(), from.Object)
	if err == nil {
		return out, nil
	}
	whole := maps.Clone(from.Object)
	status, _ := whole["status"].(map[string]any)
	whole["status"] = readable(from.GetKind(), status)
	if out, again := converted(from.GetKind(), whole); again == nil {
		return out, nil
	}
	return nil, Malformed{fmt.Errorf("it is no %s of %s as this controller knows it: %w", from.GetKind(), from.GetAPIVersion(), err)}
}

func converted(kind string, whole map[string]any) (client.Object, error) {
	out := Object(kind)
	if out == nil {
		return nil, fmt.Errorf("a %q is no kind of the Gateway API", kind)
	}
	return out, runtime.DefaultUnstructuredConverter.FromUnstructured(whole, out)
}

// readable is what of a status can be read: of each list those elements that can.
func readable(kind string, status map[string]any) map[string]any {
	reads := func(field string, value any) bool {
		_, err := converted(kind, map[string]any{"status": map[string]any{field: value}})
		return err == nil
	}
	out := map[string]any{}
	for field, value := range status {
		if list, is := value.([]any); is {
			value = slices.DeleteFunc(slices.Clone(list), func(one any) bool { return !reads(field, []any{one}) })
		}
		if reads(field, value) {
			out[field] = value
		}
	}
	return out
}
